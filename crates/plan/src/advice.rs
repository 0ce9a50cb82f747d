//! What a plan means, in sentences, the most useful first. It must not know how the plan came about.

use lode_types::{Level, show_size};

use crate::load::{Load, VmLoad};
use crate::size::{SizeOptions, SizePlan, outcome_of_shares, title};
use crate::totals::Totals;

/// VMs that are named for one kind of advice.
const MOST_NAMED: usize = 3;

/// Hits, as a share of a VM's accesses, that are worth a sentence.
const NOTABLE: f64 = 0.005;

/// Part of a VM's share, and of the level, that it must be able to give for that to be worth a sentence.
const NOTABLE_PART: f64 = 0.25;
const NOTABLE_PART_OF_LEVEL: f64 = 0.01;

/// Share of writes above which a VM is called a writer.
const MOSTLY_WRITES: f64 = 0.9;

/// Sizes of a VM's share of one level that are looked at, beside none: where its curve rises most.
const MOST_SIZES: usize = 100;

/// What stands out with each size of host memory and each size of SSD of `totals`, whose middle is `plan`.
pub fn advice(load: &Load, plan: &SizePlan, totals: &Totals, options: &SizeOptions) -> Vec<Vec<Vec<String>>> {
    let adviser = Adviser::new(load, plan, options);
    let [drams, ssds] = &totals.of_level;
    let offers: Vec<Vec<Offer<'_>>> = (0..drams.sizes_bytes.len())
        .map(|dram| (0..ssds.sizes_bytes.len()).map(|ssd| adviser.offer(totals, [dram, ssd])).collect())
        .collect();
    let mut sentences = vec![vec![Vec::new(); ssds.sizes_bytes.len()]; drams.sizes_bytes.len()];
    // What a share of one level would serve depends on the share of the other, and on nothing else of the offer.
    for (ssd, shares) in ssds.shares_blocks.iter().enumerate() {
        let hits = adviser.hits_by_size(Level::Dram, shares);
        for (dram, offers) in offers.iter().enumerate() {
            sentences[dram][ssd].extend(adviser.of_level(&offers[ssd], Level::Dram, &hits));
        }
    }
    for (dram, shares) in drams.shares_blocks.iter().enumerate() {
        let hits = adviser.hits_by_size(Level::Ssd, shares);
        for (offer, sentences) in offers[dram].iter().zip(&mut sentences[dram]) {
            sentences.extend(adviser.of_level(offer, Level::Ssd, &hits));
            sentences.extend(about_vms_without_use(plan));
            sentences.extend(about_writers(load, offer));
        }
    }
    sentences
}

/// Levels of some size, divided.
struct Offer<'a> {
    /// By [`Level::index`].
    capacity_blocks: [u64; 2],
    /// Each VM's share, by [`Level::index`].
    shares_blocks: [&'a [u64]; 2],
    /// Hits of both levels for each access of each VM.
    hits: Vec<f64>,
}

/// What does not depend on the levels' sizes.
struct Adviser<'a> {
    load: &'a Load,
    plan: &'a SizePlan,
    options: &'a SizeOptions,
    /// Sizes of each VM's shares that are looked at, ascending from none, by [`Level::index`].
    sizes: Vec<[Vec<u64>; 2]>,
}

impl<'a> Adviser<'a> {
    fn new(load: &'a Load, plan: &'a SizePlan, options: &'a SizeOptions) -> Adviser<'a> {
        let sizes = |vm: &VmLoad, level: Level| {
            let curve = vm.curve(level).thin(MOST_SIZES);
            std::iter::once(0).chain(curve.points().iter().map(|point| point.size_blocks)).collect()
        };
        let sizes = load.vms.iter().map(|vm| Level::ALL.map(|level| sizes(vm, level))).collect();
        Adviser { load, plan, options, sizes }
    }

    /// The offer at these positions of `totals`.
    fn offer<'t>(&self, totals: &'t Totals, at: [usize; 2]) -> Offer<'t> {
        let of = |level: Level| (&totals.of_level[level.index()], at[level.index()]);
        let capacity_blocks = Level::ALL.map(|level| {
            let (sizes, at) = of(level);
            sizes.sizes_bytes[at] / self.load.block_bytes
        });
        let shares_blocks = Level::ALL.map(|level| {
            let (sizes, at) = of(level);
            &sizes.shares_blocks[at][..]
        });
        let hits = self.load.vms.iter().enumerate().map(|(vm, load)| {
            let outcome = outcome_of_shares(load, shares_blocks.map(|shares| shares[vm]), self.options);
            per_access(load, outcome.dram_hits + outcome.ssd_hits)
        });
        Offer { capacity_blocks, shares_blocks, hits: hits.collect() }
    }

    /// Hits of both levels for each access of each VM, by the size of its share of `level`, with these shares of the other.
    fn hits_by_size(&self, level: Level, other_blocks: &[u64]) -> Vec<Vec<f64>> {
        let vms = self.load.vms.iter().zip(&self.sizes).zip(other_blocks);
        vms.map(|((vm, sizes), &other)| {
            let hits = |&blocks: &u64| {
                let (dram, ssd) = if level == Level::Dram { (blocks, other) } else { (other, blocks) };
                let (dram_hits, ssd_hits) = vm.profile.hits(dram, ssd);
                per_access(vm, dram_hits + ssd_hits)
            };
            sizes[level.index()].iter().map(hits).collect()
        })
        .collect()
    }

    /// `hits` are those of [`Adviser::hits_by_size`].
    fn of_level(&self, offer: &Offer<'_>, level: Level, hits: &[Vec<f64>]) -> Vec<String> {
        let mut sentences = Vec::new();
        sentences.extend(self.about_level(offer, level));
        sentences.extend(self.gains(offer, level, hits));
        sentences.extend(self.gifts(offer, level, hits));
        sentences
    }

    fn about_level(&self, offer: &Offer<'_>, level: Level) -> Option<String> {
        let demand_blocks = self.plan.of_level[level.index()].demand_blocks;
        let capacity_blocks = offer.capacity_blocks[level.index()];
        let name = title(level);
        let size = |blocks: u64| show_size(blocks.saturating_mul(self.load.block_bytes));
        if capacity_blocks == 0 {
            return None;
        }
        if demand_blocks == 0 {
            return Some(format!(
                "No VM can use {name} at all: no block is read again in the way that it serves."
            ));
        }
        if demand_blocks < capacity_blocks {
            return Some(format!(
                "{name} of {} is enough for everything: {} of {} would stay unused.",
                size(demand_blocks),
                size(capacity_blocks - demand_blocks),
                size(capacity_blocks)
            ));
        }
        Some(format!(
            "All VMs together could use {} of {name}; there is {} of that.",
            size(demand_blocks),
            part(capacity_blocks as f64 / demand_blocks as f64)
        ))
    }

    /// VMs that would gain most from a larger share.
    fn gains(&self, offer: &Offer<'_>, level: Level, hits: &[Vec<f64>]) -> Vec<String> {
        let mut found: Vec<(f64, u64, &str)> = Vec::new();
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
        let sentence = |&(gain, more, name): &(f64, u64, &str)| {
            let size = show_size(more.saturating_mul(self.load.block_bytes));
            format!("{name} gains {:.1} % hits from {size} more {}.", 100.0 * gain, title(level))
        };
        found.iter().take(MOST_NAMED).map(sentence).collect()
    }

    /// VMs that could give most for nearly nothing.
    fn gifts(&self, offer: &Offer<'_>, level: Level, hits: &[Vec<f64>]) -> Vec<String> {
        let mut found: Vec<(u64, f64, &str)> = Vec::new();
        for (vm, name) in self.names().enumerate() {
            let (sizes, share) = (&self.sizes[vm][level.index()], offer.shares_blocks[level.index()][vm]);
            let loss = |at: usize| offer.hits[vm] - hits[vm][at];
            let at = hits[vm].partition_point(|hits| offer.hits[vm] - hits > NOTABLE);
            let Some(&enough) = sizes.get(at) else { continue };
            // What a share was rounded up by is of no use to anyone.
            let demand = self.plan.vms[vm].demand_blocks[level.index()];
            let given = share.min(demand).saturating_sub(enough);
            let of_level = offer.capacity_blocks[level.index()] as f64;
            let least = (NOTABLE_PART * share as f64).max(NOTABLE_PART_OF_LEVEL * of_level);
            if given > 0 && given as f64 >= least {
                found.push((given, loss(at), name));
            }
        }
        found.sort_by_key(|gift| std::cmp::Reverse(gift.0));
        let sentence = |&(given, loss, name): &(u64, f64, &str)| {
            let size = show_size(given.saturating_mul(self.load.block_bytes));
            let loss = if loss < 0.0005 { "no".to_owned() } else { format!("{:.1} %", 100.0 * loss) };
            format!("{name} loses {loss} hits by giving {size} of {}.", title(level))
        };
        found.iter().take(MOST_NAMED).map(sentence).collect()
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.plan.vms.iter().map(|vm| vm.name.as_str())
    }
}

fn per_access(vm: &VmLoad, hits: u64) -> f64 {
    hits as f64 / vm.curve(Level::Dram).accesses().max(1) as f64
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

fn about_vms_without_use(plan: &SizePlan) -> Option<String> {
    let idle: Vec<&str> =
        plan.vms.iter().filter(|vm| vm.demand_blocks == [0, 0]).map(|vm| vm.name.as_str()).collect();
    (!idle.is_empty()).then(|| {
        format!("{} would gain nothing from any cache of these kinds: no useful re-reads.", named(&idle))
    })
}

fn about_writers(load: &Load, offer: &Offer<'_>) -> Option<String> {
    let is_writer = |vm: &VmLoad| {
        let accesses = vm.profile.reads() + vm.profile.writes();
        accesses > 0 && vm.profile.writes() as f64 > MOSTLY_WRITES * accesses as f64
    };
    let writers: Vec<&str> = load
        .vms
        .iter()
        .zip(offer.shares_blocks[Level::Ssd.index()])
        .filter(|(vm, ssd_blocks)| is_writer(vm) && **ssd_blocks > 0)
        .map(|(vm, _)| vm.facts.name.as_str())
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
