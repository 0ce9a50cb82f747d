//! One seed is one run: what fails once fails again.

use lode_sim::{Changing, Crash, attack};

#[test]
fn a_seed_repeats_a_run() {
    for seed in 0..24 {
        let digests = || -> Vec<(u64, u64)> {
            let tallies =
                attack(seed, Crash::Any, Changing::Anything).unwrap_or_else(|error| panic!("{error}"));
            tallies.iter().map(|tally| (tally.digest, tally.answered)).collect()
        };
        assert_eq!(digests(), digests(), "seed {seed}");
    }
}
