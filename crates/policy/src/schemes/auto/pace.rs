//! When shadows run. As long as nothing is known of a VM, or the choice is new, they all run all the time. After that, where
//! they are a large part of the cache, they rest most of the time: they go on, are given time to take up what has changed, are
//! looked at, and rest again. It must not know what they cost.

use super::trial::PARTS;

/// Looks from a choice until shadows begin to rest: eight turnovers of the cache.
const STEADY_LOOKS: u64 = 8 * PARTS;
/// Looks of a turnover for which shadows run before they are looked at, and looks that count then.
const WARM_LOOKS: u64 = PARTS;
const COUNTED_LOOKS: u64 = PARTS;
/// Of 2^`FREE_BITS` regions one in the sample: shadows of so little may always run.
const FREE_BITS: u32 = 3;

/// What shadows do from one look to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stage {
    /// They see nothing.
    Paused,
    /// They run, and are not compared yet.
    Warms,
    /// They are compared. Each look stands for so many.
    Counts { weight: f64 },
}

/// See the module's documentation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    looks: u64,
    sample_bits: u32,
}

impl Pace {
    /// From a choice on, of shadows for one of 2^`sample_bits` regions.
    pub(super) fn new(sample_bits: u32) -> Pace {
        Pace { looks: 0, sample_bits }
    }

    /// What they do until the next look.
    pub(super) fn stage(self) -> Stage {
        let Some(since_steady) = self.looks.checked_sub(STEADY_LOOKS) else {
            return Stage::Counts { weight: 1.0 };
        };
        if self.sample_bits >= FREE_BITS {
            return Stage::Counts { weight: 1.0 };
        }
        // As many accesses of shadows as if they were so small that they could always run.
        let cycle = (WARM_LOOKS + COUNTED_LOOKS) << (FREE_BITS - self.sample_bits);
        match cycle - since_steady % cycle {
            left if left > WARM_LOOKS + COUNTED_LOOKS => Stage::Paused,
            left if left > COUNTED_LOOKS => Stage::Warms,
            _ => Stage::Counts { weight: (cycle / COUNTED_LOOKS) as f64 },
        }
    }

    /// They are looked at. Returns what they did until then.
    pub(super) fn next(&mut self) -> Stage {
        let stage = self.stage();
        self.looks += 1;
        stage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_stands_for_all_looks() {
        for bits in 0..5 {
            let mut pace = Pace::new(bits);
            let stages: Vec<Stage> = (0..STEADY_LOOKS + 4 * 64).map(|_| pace.next()).collect();
            assert!(stages[..STEADY_LOOKS as usize].iter().all(|&s| s == Stage::Counts { weight: 1.0 }));
            let later = &stages[STEADY_LOOKS as usize..];
            let weights =
                later.iter().map(|stage| if let Stage::Counts { weight } = stage { *weight } else { 0.0 });
            assert_eq!(weights.sum::<f64>(), later.len() as f64, "{bits}");
            let running = later.iter().filter(|&&stage| stage != Stage::Paused).count();
            assert_eq!(running, later.len() >> FREE_BITS.saturating_sub(bits), "{bits}");
        }
    }

    #[test]
    fn shadows_warm_before_they_count() {
        let mut pace = Pace::new(0);
        let stages: Vec<Stage> = (0..STEADY_LOOKS + 64).map(|_| pace.next()).collect();
        let rest = STEADY_LOOKS as usize + 56;
        assert_eq!(stages[rest - 1..rest + 1], [Stage::Paused, Stage::Warms]);
        assert_eq!(stages[rest + 3..rest + 5], [Stage::Warms, Stage::Counts { weight: 16.0 }]);
    }
}
