//! Divisions at many sizes of each level: what sliders show. It must not know how results are shown.

use lode_reuse::ReuseError;
use lode_types::{Level, show_size};

use crate::division::{Dividing, Outcome, SizeOptions, SizePlan, ToDivide, in_words, outcome_of_shares};
use crate::error::PlanError;
use crate::levels::title;
use crate::load::Load;

/// Sizes below and above the one asked for, each half an octave from the next.
const STEPS_BELOW: i32 = 12;
const STEPS_ABOVE: i32 = 8;
const STEPS_PER_OCTAVE: f64 = 2.0;

/// Divisions of one level.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LevelTotals {
    /// Sizes of the level in bytes, ascending; just 0 for a level that is not there.
    pub sizes_bytes: Vec<u64>,
    /// Index of the size that was asked for.
    pub asked: usize,
    /// Blocks of each VM at each size.
    pub shares_blocks: Vec<Vec<u64>>,
}

/// Divisions of both levels at smaller and larger sizes than were asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Totals {
    /// By [`Level::index`].
    pub of_level: [LevelTotals; 2],
    /// What all VMs together would see, for each size of host memory with each size of SSD.
    pub outcomes: Vec<Vec<Outcome>>,
    /// Sizes in bytes that the exact solver would take too long for, by [`Level::index`]; they are not among the others.
    pub too_large_for_exact: [Vec<u64>; 2],
}

impl Totals {
    /// That sizes are missing, in sentences.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let missing = |level: Level| {
            let sizes: Vec<_> =
                self.too_large_for_exact[level.index()].iter().map(|&bytes| show_size(bytes)).collect();
            (!sizes.is_empty()).then(|| {
                format!(
                    "The exact solver would take too long for {} of {}: there are no plans and no advice for these; \
                     choose another solver to have them",
                    sizes.join(", "),
                    title(level)
                )
            })
        };
        Level::SIZED.into_iter().filter_map(missing).collect()
    }
}

/// Divides levels of sizes around those of `plan`, which is in the middle. Every size of the SSD is divided as it would be behind the
/// plan's shares of DRAM, so that a level's shares follow its own size alone; what both serve is that of each pair. Sizes at which what VMs are guaranteed does
/// not fit are left out, and so are those that are too large for the exact solver, which [`Totals`] names.
///
/// # Errors
/// Those of [`crate::size`].
pub fn totals(load: &Load, plan: &SizePlan, options: &SizeOptions) -> Result<Totals, PlanError> {
    let mut of_level: [LevelTotals; 2] = Default::default();
    let mut too_large_for_exact: [Vec<u64>; 2] = Default::default();
    let behind: Vec<u64> = plan.vms.iter().map(|vm| vm.share_blocks[Level::Dram.index()]).collect();
    for level in Level::SIZED {
        let found = &mut of_level[level.index()];
        let asked_bytes = plan.levels.of(level);
        let what = match level {
            Level::Dram => Dividing::Dram,
            _ => Dividing::Ssd { behind: &behind },
        };
        let to_divide = ToDivide::new(load, what, options, true);
        for bytes in sizes_around(asked_bytes, load.block_bytes) {
            // The plan may come from a larger offer, cut down to what was given.
            let shares = if bytes == asked_bytes {
                found.asked = found.sizes_bytes.len();
                plan.vms.iter().map(|vm| vm.share_blocks[level.index()]).collect()
            } else {
                match to_divide.try_to_divide(bytes) {
                    Ok((_, division)) => division.sizes,
                    Err(ReuseError::GuaranteesDoNotFit { .. }) => continue,
                    Err(ReuseError::TooLargeForExact { .. }) => {
                        too_large_for_exact[level.index()].push(bytes);
                        continue;
                    }
                    Err(error) => return Err(in_words(error, load, level)),
                }
            };
            found.sizes_bytes.push(bytes);
            found.shares_blocks.push(shares);
        }
    }
    let [dram, ssd] = &of_level;
    let outcome = |dram: &Vec<u64>, ssd: &Vec<u64>| {
        let mut total = Outcome::default();
        for (at, vm) in load.vms.iter().enumerate() {
            total.add(&outcome_of_shares(vm, [dram[at], ssd[at]], options));
        }
        total
    };
    let row = |dram: &Vec<u64>| ssd.shares_blocks.iter().map(|ssd| outcome(dram, ssd)).collect();
    let outcomes = dram.shares_blocks.iter().map(row).collect();
    Ok(Totals { of_level, outcomes, too_large_for_exact })
}

fn sizes_around(asked_bytes: u64, block_bytes: u64) -> Vec<u64> {
    if asked_bytes == 0 {
        return vec![0];
    }
    let scaled = |step: i32| {
        let factor = (f64::from(step) / STEPS_PER_OCTAVE).exp2();
        (asked_bytes as f64 * factor) as u64 / block_bytes * block_bytes
    };
    let mut sizes: Vec<u64> =
        (-STEPS_BELOW..=STEPS_ABOVE).map(|step| if step == 0 { asked_bytes } else { scaled(step) }).collect();
    sizes.dedup();
    sizes
}
