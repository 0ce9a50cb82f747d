//! What a plan means, in sentences, the most useful first. It must not know how the plan came about.

use lode_reuse::sizing::Hull;
use lode_types::{Level, show_size};

use crate::division::{
    SizeOptions, SizePlan, VmPlan, demand_of, granule_blocks, hits_of_shares, hulls, outcome, usable,
};
use crate::levels::title;
use crate::load::{Load, SsdKeeps, VmLoad};
use crate::totals::Totals;
use crate::words::show_vm;

/// VMs that are named for one kind of advice.
const MOST_NAMED: usize = 3;

/// Hits, as a share of a VM's reads, that are worth a sentence.
const NOTABLE: f64 = 0.005;

/// Part of a VM's mean latency that is worth a sentence.
const NOTABLE_LATENCY: f64 = 0.01;

/// Part of a VM's share, and of the level, that it must be able to give for that to be worth a sentence.
const NOTABLE_PART: f64 = 0.25;
const NOTABLE_PART_OF_LEVEL: f64 = 0.01;

/// Share of writes above which a VM is called a writer.
const MOSTLY_WRITES: f64 = 0.9;

/// Sizes of a VM's share of one level that are looked at, beside none: where its curve rises most.
const MOST_SIZES: usize = 100;

/// What stands out with the sizes that were asked for: those of `plan`, which is in the middle of `totals`.
pub fn advice(load: &Load, plan: &SizePlan, totals: &Totals, options: &SizeOptions) -> Vec<String> {
    let adviser = Adviser::new(load, plan, options);
    let at = totals.of_level.each_ref().map(|sizes| sizes.asked);
    let [drams, ssds] = [0, 1].map(|level: usize| &totals.of_level[level].shares_blocks[at[level]][..]);
    let demands = adviser.demands(drams);
    let offer = adviser.offer(totals, at, &demands);
    adviser
        .about(&offer, [&adviser.hits_by_size(Level::Dram, ssds), &adviser.hits_by_size(Level::Ssd, drams)])
}

/// The same with each size of host memory and each size of SSD of `totals`.
pub fn advice_everywhere(
    load: &Load,
    plan: &SizePlan,
    totals: &Totals,
    options: &SizeOptions,
) -> Vec<Vec<Vec<String>>> {
    let adviser = Adviser::new(load, plan, options);
    let [drams, ssds] = &totals.of_level;
    // What a share of one level would serve depends on the share of the other, and on nothing else of the offer.
    let by_dram: Vec<_> =
        ssds.shares_blocks.iter().map(|shares| adviser.hits_by_size(Level::Dram, shares)).collect();
    let row = |(dram, shares): (usize, &Vec<u64>)| {
        let (by_ssd, demands) = (adviser.hits_by_size(Level::Ssd, shares), adviser.demands(shares));
        let sentences =
            |(ssd, by_dram)| adviser.about(&adviser.offer(totals, [dram, ssd], &demands), [by_dram, &by_ssd]);
        by_dram.iter().enumerate().map(sentences).collect()
    };
    drams.shares_blocks.iter().enumerate().map(row).collect()
}

/// Read hits of both levels for each read, of each VM by the size of its share of one level: see [`Adviser::sizes`].
type HitsBySize = Vec<Vec<f64>>;

/// Levels of some size, divided.
struct Offer<'a> {
    /// By [`Level::index`].
    capacity_blocks: [u64; 2],
    /// Each VM's share, by [`Level::index`].
    shares_blocks: [&'a [u64]; 2],
    /// What each VM could use beside its share of DRAM, by [`Level::index`].
    demands_blocks: &'a [[u64; 2]],
    /// Hits of both levels for each read of each VM.
    hits: Vec<f64>,
}

/// What one VM's rules allow of a level, in blocks.
#[derive(Clone, Copy)]
struct Limits {
    least: u64,
    most: u64,
}

/// What does not depend on the levels' sizes.
struct Adviser<'a> {
    load: &'a Load,
    plan: &'a SizePlan,
    options: &'a SizeOptions,
    /// Blocks that every share is a multiple of.
    granule: u64,
    /// What each VM may have, by [`Level::index`].
    limits: Vec<[Limits; 2]>,
    /// Sizes of each VM's shares that are looked at, by [`Level::index`]: ascending from none, as far as it may have them.
    sizes: Vec<[Vec<u64>; 2]>,
    /// How each VM's caches are cut in two, with the solver that cuts.
    hulls: Vec<Option<[Hull; 2]>>,
}

impl<'a> Adviser<'a> {
    fn new(load: &'a Load, plan: &'a SizePlan, options: &'a SizeOptions) -> Adviser<'a> {
        let granule = granule_blocks(load.block_bytes, options);
        let limits = |vm: &VmLoad| {
            Level::SIZED.map(|level| {
                let demand = demand_of(vm, (level, 0), options, load.block_bytes);
                Limits { least: demand.min_blocks, most: demand.max_blocks }
            })
        };
        let limits: Vec<_> = load.vms.iter().map(limits).collect();
        let sizes = |((vm, planned), limits): ((&VmLoad, &VmPlan), &[Limits; 2])| {
            Level::SIZED.map(|level| {
                // With another share of DRAM an SSD behind it has its hits elsewhere; sizes are looked at as these are.
                let curve = vm.curve(level, planned.share_blocks[0]).thin(MOST_SIZES);
                let whole = |blocks: u64| blocks.checked_next_multiple_of(granule).unwrap_or(blocks);
                let sizes = curve.points().iter().map(|point| whole(point.size_blocks));
                // The smallest share is one to fall back to, whatever it serves.
                let mut sizes: Vec<u64> = [0, granule].into_iter().chain(sizes).collect();
                sizes.dedup();
                sizes.retain(|&blocks| blocks <= limits[level.index()].most);
                sizes
            })
        };
        let sizes = load.vms.iter().zip(&plan.vms).zip(&limits).map(sizes).collect();
        let hulls = load.vms.iter().map(|vm| hulls(vm, options.solver)).collect();
        Adviser { load, plan, options, granule, limits, sizes, hulls }
    }

    /// What each VM could use with these shares of DRAM, by [`Level::index`].
    fn demands(&self, drams: &[u64]) -> Vec<[u64; 2]> {
        let of_vm = |(vm, &dram): (&VmLoad, &u64)| {
            Level::SIZED
                .map(|level| usable(&demand_of(vm, (level, dram), self.options, self.load.block_bytes)))
        };
        self.load.vms.iter().zip(drams).map(of_vm).collect()
    }

    /// The offer at these positions of `totals`; `demands_blocks` are those with its shares of DRAM.
    fn offer<'t>(&self, totals: &'t Totals, at: [usize; 2], demands_blocks: &'t [[u64; 2]]) -> Offer<'t> {
        let of = |level: Level| (&totals.of_level[level.index()], at[level.index()]);
        let capacity_blocks = Level::SIZED.map(|level| {
            let (sizes, at) = of(level);
            sizes.sizes_bytes[at] / self.load.block_bytes
        });
        let shares_blocks = Level::SIZED.map(|level| {
            let (sizes, at) = of(level);
            &sizes.shares_blocks[at][..]
        });
        let hits = (0..self.load.vms.len()).map(|vm| self.hits(vm, shares_blocks.map(|shares| shares[vm])));
        Offer { capacity_blocks, shares_blocks, demands_blocks, hits: hits.collect() }
    }

    /// Hits of both levels for each read of a VM with these shares.
    fn hits(&self, vm: usize, share_blocks: [u64; 2]) -> f64 {
        let load = &self.load.vms[vm];
        let (dram_hits, ssd_hits) = hits_of_shares(load, share_blocks, self.hulls[vm].as_ref());
        (dram_hits + ssd_hits) as f64 / load.profile.reads().max(1) as f64
    }

    /// Each VM's hits by the size of its share of `level`, with these shares of the other.
    fn hits_by_size(&self, level: Level, other_blocks: &[u64]) -> HitsBySize {
        let of_vm = |(vm, &other): (usize, &u64)| {
            let shares = |blocks| if level == Level::Dram { [blocks, other] } else { [other, blocks] };
            self.sizes[vm][level.index()].iter().map(|&blocks| self.hits(vm, shares(blocks))).collect()
        };
        other_blocks.iter().enumerate().map(of_vm).collect()
    }

    /// `hits` are those of [`Adviser::hits_by_size`], by [`Level::index`].
    fn about(&self, offer: &Offer<'_>, hits: [&HitsBySize; 2]) -> Vec<String> {
        let mut sentences = Vec::new();
        for level in Level::SIZED {
            sentences.extend(self.about_level(offer, level));
            sentences.extend(self.gains(offer, level, hits[level.index()]));
            sentences.extend(self.gifts(offer, level, hits[level.index()]));
        }
        sentences.extend(self.about_buffers(offer));
        sentences.extend(self.about_vms_without_use());
        sentences.extend(about_writers(self.load, offer));
        sentences
    }

    fn about_level(&self, offer: &Offer<'_>, level: Level) -> Option<String> {
        let demand_blocks: u64 = offer.demands_blocks.iter().map(|demand| demand[level.index()]).sum();
        let capacity_blocks = offer.capacity_blocks[level.index()];
        let name = title(level);
        let size = |blocks: u64| show_size(blocks.saturating_mul(self.load.block_bytes));
        if capacity_blocks == 0 {
            return None;
        }
        if capacity_blocks < self.granule {
            let granule = size(self.granule);
            return Some(format!(
                "{name} of {} is less than the smallest share, {granule}.",
                size(capacity_blocks)
            ));
        }
        if demand_blocks == 0 {
            let drams = offer.shares_blocks[Level::Dram.index()];
            let is_read_again = |(vm, &dram): (&VmLoad, &u64)| vm.curve(level, dram).blocks_needed() > 0;
            let is_read_again = self.load.vms.iter().zip(drams).any(is_read_again);
            return Some(if is_read_again {
                format!("No VM may use {name} by the rules.")
            } else {
                let given = offer.shares_blocks[level.index()].iter().any(|&blocks| blocks > 0);
                let buffers = if level == Level::Ssd && given { " Its shares buffer writes." } else { "" };
                format!(
                    "No VM gains read hits from {name}: no block is read again in the way that it serves.{buffers}"
                )
            });
        }
        if demand_blocks < capacity_blocks {
            let given: u64 = offer.shares_blocks[level.index()].iter().sum();
            let more = given.saturating_sub(demand_blocks);
            let idle = capacity_blocks - demand_blocks - more;
            let mut text = format!("{name} of {} is enough for every hit", size(demand_blocks));
            if more > 0 {
                let rounding = self.granule.saturating_mul(self.load.vms.len() as u64);
                text += &if self.load.ssd_keeps() == SsdKeeps::Accessed && more > rounding {
                    format!("; {} more keep what else VMs access", size(more))
                } else if self.buffers_writes(offer, level) {
                    format!("; {} more keep what VMs write off the disk", size(more))
                } else {
                    format!("; {} more make shares multiples of {}", size(more), size(self.granule))
                };
            }
            if idle > 0 {
                let why = match (level, self.load.ssd_keeps()) {
                    (Level::Ssd, SsdKeeps::Written) => "all that is written fits already",
                    (Level::Ssd, SsdKeeps::Accessed) => {
                        "all that is written, and all that is read again and DRAM does not hold, fits already"
                    }
                    _ => "no block is read again, unwritten, after more than fits already",
                };
                text += &format!("; {} of {} are of no use: {why}", size(idle), size(capacity_blocks));
            }
            return Some(text + ".");
        }
        Some(format!(
            "All VMs together could use {} of {name}; there is {} of that.",
            size(demand_blocks),
            part(capacity_blocks as f64 / demand_blocks as f64)
        ))
    }

    /// Whether some share of a level keeps writes off the disk: host memory holds nothing that the disk does not have.
    fn buffers_writes(&self, offer: &Offer<'_>, level: Level) -> bool {
        let shares = offer.shares_blocks[level.index()];
        let writes = |(vm, &blocks): (&VmLoad, &u64)| blocks > 0 && vm.profile.writes() > 0;
        level == Level::Ssd && self.load.vms.iter().zip(shares).any(writes)
    }

    /// VMs that would gain most from a larger share.
    fn gains(&self, offer: &Offer<'_>, level: Level, hits: &HitsBySize) -> Vec<String> {
        let mut found: Vec<(f64, u64, String)> = Vec::new();
        for (vm, name) in self.names().enumerate() {
            let (sizes, share) = (&self.sizes[vm][level.index()], offer.shares_blocks[level.index()][vm]);
            // What the other level serves already is no gain.
            let growths = sizes.iter().zip(&hits[vm]).filter(|(size, _)| **size > share);
            let growths = growths.map(|(size, hits)| (hits - offer.hits[vm], size - share));
            let best = growths
                .filter(|growth| growth.0 >= NOTABLE)
                .max_by(|a, b| by_block(a).total_cmp(&by_block(b)));
            found.extend(best.map(|(gain, more)| (gain, more, name)));
        }
        // By what a block brings; of equals the first VM.
        found.sort_by(|a, b| by_block(&(b.0, b.1)).total_cmp(&by_block(&(a.0, a.1))));
        let sentence = |(gain, more, name): &(f64, u64, String)| {
            let size = show_size(more.saturating_mul(self.load.block_bytes));
            format!("{name} gains {:.1} % read hits from {size} more {}.", 100.0 * gain, title(level))
        };
        found.iter().take(MOST_NAMED).map(sentence).collect()
    }

    /// VMs that could give most for nearly nothing.
    fn gifts(&self, offer: &Offer<'_>, level: Level, hits: &HitsBySize) -> Vec<String> {
        let mut found: Vec<(u64, f64, String)> = Vec::new();
        for (vm, name) in self.names().enumerate() {
            let (sizes, share) = (&self.sizes[vm][level.index()], offer.shares_blocks[level.index()][vm]);
            let loss = |at: usize| offer.hits[vm] - hits[vm][at];
            // A VM that writes keeps some SSD: without any its writes wait for the disk.
            let buffer =
                if level == Level::Ssd && self.load.vms[vm].profile.writes() > 0 { self.granule } else { 0 };
            let least = self.limits[vm][level.index()].least.max(buffer);
            let is_too_small = |at: usize| sizes[at] < least || offer.hits[vm] - hits[vm][at] > NOTABLE;
            let at = (0..sizes.len()).position(|at| !is_too_small(at)).unwrap_or(sizes.len());
            let Some(&enough) = sizes.get(at) else { continue };
            // What a share was rounded up by is of no use to anyone.
            let demand = offer.demands_blocks[vm][level.index()];
            let given = share.min(demand).saturating_sub(enough);
            let of_level = offer.capacity_blocks[level.index()] as f64;
            let least = (NOTABLE_PART * share as f64).max(NOTABLE_PART_OF_LEVEL * of_level);
            if given > 0 && given as f64 >= least {
                found.push((given, loss(at), name));
            }
        }
        found.sort_by_key(|gift| std::cmp::Reverse(gift.0));
        let sentence = |(given, loss, name): &(u64, f64, String)| {
            let size = show_size(given.saturating_mul(self.load.block_bytes));
            let loss = if *loss < 0.0005 { "no".to_owned() } else { format!("{:.1} %", 100.0 * loss) };
            format!("{name} loses {loss} read hits by giving {size} of {}.", title(level))
        };
        found.iter().take(MOST_NAMED).map(sentence).collect()
    }

    /// VMs without SSD whose writes a share of it would serve.
    fn about_buffers(&self, offer: &Offer<'_>) -> Vec<String> {
        let ssd = Level::Ssd.index();
        if offer.capacity_blocks[ssd] < self.granule {
            return Vec::new();
        }
        let mut found: Vec<(u128, [f64; 2], String)> = Vec::new();
        for (vm, load) in self.load.vms.iter().enumerate() {
            let [dram, 0] = offer.shares_blocks.map(|shares| shares[vm]) else { continue };
            if self.limits[vm][ssd].most < self.granule {
                continue;
            }
            let [without, with] = [0, self.granule].map(|blocks| {
                let hits = hits_of_shares(load, [dram, blocks], self.hulls[vm].as_ref());
                outcome(load, hits, blocks > 0, &self.options.times)
            });
            let means = [without, with].map(|outcome| outcome.mean_latency_us().unwrap_or(0.0));
            if load.profile.writes() > 0 && means[1] < (1.0 - NOTABLE_LATENCY) * means[0] {
                found.push((without.latency_ns - with.latency_ns, means, show_vm(&load.facts.name)));
            }
        }
        // By what it saves; of equals the first VM.
        found.sort_by_key(|saving| std::cmp::Reverse(saving.0));
        let size = show_size(self.granule.saturating_mul(self.load.block_bytes));
        let sentence = |(_, means, name): &(u128, [f64; 2], String)| {
            format!(
                "{size} of SSD would buffer the writes of {name}: its mean latency would be {:.1} us instead of {:.1}.",
                means[1], means[0]
            )
        };
        found.iter().take(MOST_NAMED).map(sentence).collect()
    }

    fn about_vms_without_use(&self) -> Option<String> {
        let is_idle =
            |vm: &&VmLoad| Level::SIZED.iter().all(|&level| vm.curve(level, 0).blocks_needed() == 0);
        let idle: Vec<String> =
            self.load.vms.iter().filter(is_idle).map(|vm| show_vm(&vm.facts.name)).collect();
        (!idle.is_empty()).then(|| {
            format!(
                "{} would gain no read hits from any cache of these kinds: no useful re-reads.",
                named(&idle)
            )
        })
    }

    fn names(&self) -> impl Iterator<Item = String> {
        self.plan.vms.iter().map(|vm| show_vm(&vm.name))
    }
}

/// What each block of a growth brings.
fn by_block(&(gain, blocks): &(f64, u64)) -> f64 {
    gain / blocks as f64
}

/// A share as a percentage, with decimals where whole ones would say nothing.
fn part(share: f64) -> String {
    let percent = 100.0 * share;
    if percent < 1.0 { format!("{percent:.2} %") } else { format!("{percent:.0} %") }
}

fn about_writers(load: &Load, offer: &Offer<'_>) -> Option<String> {
    let is_writer = |vm: &VmLoad| {
        let accesses = vm.profile.reads() + vm.profile.writes();
        accesses > 0 && vm.profile.writes() as f64 > MOSTLY_WRITES * accesses as f64
    };
    let writers: Vec<String> = load
        .vms
        .iter()
        .zip(offer.shares_blocks[Level::Ssd.index()])
        .filter(|(vm, ssd_blocks)| is_writer(vm) && **ssd_blocks > 0)
        .map(|(vm, _)| show_vm(&vm.facts.name))
        .collect();
    let (write, their) = if writers.len() == 1 { ("writes", "its") } else { ("write", "their") };
    (!writers.is_empty()).then(|| {
        format!(
            "{} mostly {write}: {their} share of the SSD buffers writes and wears it; without one {their} writes wait \
             for the disk.",
            named(&writers)
        )
    })
}

/// The first names, and how many more there are.
fn named(names: &[String]) -> String {
    let shown = names[..names.len().min(MOST_NAMED)].join(", ");
    match names.len().saturating_sub(MOST_NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
