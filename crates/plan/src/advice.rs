//! What a plan means, in sentences, the most useful first. It must not know how the plan came about.

use lode_types::{Level, show_size};

use crate::load::{Load, VmLoad};
use crate::size::{SizePlan, VmPlan, title};

/// VMs that are named for one kind of advice.
const MOST_NAMED: usize = 3;

/// Hits, as a share of a VM's accesses, that are worth a sentence.
const NOTABLE: f64 = 0.005;

/// Part of a VM's share, and of the level, that it must be able to give for that to be worth a sentence.
const NOTABLE_PART: f64 = 0.25;
const NOTABLE_PART_OF_LEVEL: f64 = 0.01;

/// Share of writes above which a VM is called a writer.
const MOSTLY_WRITES: f64 = 0.9;

/// Says what stands out.
pub fn advice(load: &Load, plan: &SizePlan) -> Vec<String> {
    let mut sentences = Vec::new();
    for level in Level::ALL {
        sentences.extend(about_level(plan, level, load.block_bytes));
        sentences.extend(gains(load, plan, level));
        sentences.extend(gifts(load, plan, level));
    }
    sentences.extend(about_vms_without_use(plan));
    sentences.extend(about_writers(load, plan));
    sentences
}

fn about_level(plan: &SizePlan, level: Level, block_bytes: u64) -> Option<String> {
    let of_level = &plan.of_level[level.index()];
    let name = title(level);
    let size = |blocks: u64| show_size(blocks.saturating_mul(block_bytes));
    if of_level.capacity_blocks == 0 {
        return None;
    }
    if of_level.demand_blocks == 0 {
        return Some(format!(
            "No VM can use {name} at all: no block is read again in the way that it serves."
        ));
    }
    if of_level.demand_blocks < of_level.capacity_blocks {
        return Some(format!(
            "{name} of {} is enough for everything: {} of {} would stay unused.",
            size(of_level.demand_blocks),
            size(of_level.capacity_blocks - of_level.demand_blocks),
            size(of_level.capacity_blocks)
        ));
    }
    let part = of_level.capacity_blocks as f64 / of_level.demand_blocks as f64;
    Some(format!(
        "All VMs together could use {} of {name}; there is {:.0} % of that.",
        size(of_level.demand_blocks),
        100.0 * part
    ))
}

/// VMs that would gain most from a larger share.
fn gains(load: &Load, plan: &SizePlan, level: Level) -> Vec<String> {
    let mut found: Vec<(f64, u64, &VmPlan)> = Vec::new();
    for (vm, planned) in load.vms.iter().zip(&plan.vms) {
        if let Some((more, gain)) = best_growth(vm, planned, level) {
            found.push((gain, more, planned));
        }
    }
    // By what a block brings; of equals the first VM.
    found.sort_by(|a, b| (b.0 / b.1 as f64).total_cmp(&(a.0 / a.1 as f64)));
    let sentence = |&(gain, more, planned): &(f64, u64, &VmPlan)| {
        let size = show_size(more.saturating_mul(load.block_bytes));
        format!("{} gains {:.1} % hits from {size} more {}.", planned.name, 100.0 * gain, title(level))
    };
    found.iter().take(MOST_NAMED).map(sentence).collect()
}

/// The growth of a share that brings most hits a block, if it brings a notable part: blocks, and hits by access. What
/// the other level serves already is no gain.
fn best_growth(vm: &VmLoad, planned: &VmPlan, level: Level) -> Option<(u64, f64)> {
    let share_blocks = planned.share_blocks[level.index()];
    let now = hits_now(vm, planned);
    let points = vm.curve(level).points();
    let beyond = points.partition_point(|point| point.size_blocks <= share_blocks);
    let growths = points[beyond..].iter().map(|point| {
        let gain = hits_with(vm, planned, level, point.size_blocks) - now;
        (point.size_blocks - share_blocks, gain)
    });
    growths
        .filter(|growth| growth.1 >= NOTABLE)
        .max_by(|a, b| (a.1 / a.0 as f64).total_cmp(&(b.1 / b.0 as f64)))
}

/// Hits of both levels for each access, as planned.
fn hits_now(vm: &VmLoad, planned: &VmPlan) -> f64 {
    let hits = planned.outcome.dram_hits + planned.outcome.ssd_hits;
    hits as f64 / vm.curve(Level::Dram).accesses().max(1) as f64
}

/// The same with another share of one level.
fn hits_with(vm: &VmLoad, planned: &VmPlan, level: Level, blocks: u64) -> f64 {
    let mut shares = planned.share_blocks;
    shares[level.index()] = blocks;
    let (dram_hits, ssd_hits) = vm.profile.hits(shares[0], shares[1]);
    (dram_hits + ssd_hits) as f64 / vm.curve(level).accesses().max(1) as f64
}

/// VMs that could give most for nearly nothing.
fn gifts(load: &Load, plan: &SizePlan, level: Level) -> Vec<String> {
    let mut found: Vec<(u64, f64, &VmPlan)> = Vec::new();
    for (vm, planned) in load.vms.iter().zip(&plan.vms) {
        let share = planned.share_blocks[level.index()];
        let now = hits_now(vm, planned);
        let loss = |blocks: u64| now - hits_with(vm, planned, level, blocks);
        let points = vm.curve(level).points();
        let at = points.partition_point(|point| loss(point.size_blocks) > NOTABLE);
        let enough =
            if loss(0) <= NOTABLE { 0 } else { points.get(at).map_or(share, |point| point.size_blocks) };
        // What a share was rounded up by is of no use to anyone.
        let given = share.min(planned.demand_blocks[level.index()]).saturating_sub(enough);
        let of_level = plan.of_level[level.index()].capacity_blocks as f64;
        let least = (NOTABLE_PART * share as f64).max(NOTABLE_PART_OF_LEVEL * of_level);
        if given > 0 && given as f64 >= least {
            found.push((given, loss(enough), planned));
        }
    }
    found.sort_by_key(|gift| std::cmp::Reverse(gift.0));
    let sentence = |&(given, loss, planned): &(u64, f64, &VmPlan)| {
        let size = show_size(given.saturating_mul(load.block_bytes));
        let loss = if loss < 0.0005 { "no".to_owned() } else { format!("{:.1} %", 100.0 * loss) };
        format!("{} loses {loss} hits by giving {size} of {}.", planned.name, title(level))
    };
    found.iter().take(MOST_NAMED).map(sentence).collect()
}

fn about_vms_without_use(plan: &SizePlan) -> Option<String> {
    let idle: Vec<&str> =
        plan.vms.iter().filter(|vm| vm.demand_blocks == [0, 0]).map(|vm| vm.name.as_str()).collect();
    (!idle.is_empty()).then(|| {
        format!("{} would gain nothing from any cache of these kinds: no useful re-reads.", named(&idle))
    })
}

fn about_writers(load: &Load, plan: &SizePlan) -> Option<String> {
    let is_writer = |vm: &VmLoad| {
        let accesses = vm.profile.reads() + vm.profile.writes();
        accesses > 0 && vm.profile.writes() as f64 > MOSTLY_WRITES * accesses as f64
    };
    let writers: Vec<&str> = load
        .vms
        .iter()
        .zip(&plan.vms)
        .filter(|(vm, planned)| is_writer(vm) && planned.share_blocks[Level::Ssd.index()] > 0)
        .map(|(_, planned)| planned.name.as_str())
        .collect();
    (!writers.is_empty()).then(|| {
        format!(
            "{} mostly write: their share of the SSD buffers writes and wears it; without one their writes wait for \
             the disk.",
            named(&writers)
        )
    })
}

/// The first names, and how many more there are.
fn named(names: &[&str]) -> String {
    let shown = names[..names.len().min(MOST_NAMED)].join(", ");
    match names.len().saturating_sub(MOST_NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
