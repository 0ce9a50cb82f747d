//! One seed is one run: what fails once fails again.

use lode_sim::{Changing, Crash, RunCounts, attack, attack_ordered, attack_pair, attack_pairs};

fn assert_repeats(seeds: std::ops::Range<u64>, attack: impl Fn(u64) -> Result<Vec<RunCounts>, String>) {
    for seed in seeds {
        let digests = || -> Vec<(u64, u64)> {
            let tallies = attack(seed).unwrap_or_else(|error| panic!("{error}"));
            tallies.iter().map(|tally| (tally.digest, tally.answered)).collect()
        };
        assert_eq!(digests(), digests(), "seed {seed}");
    }
}

#[test]
fn a_seed_repeats_a_run() {
    assert_repeats(0..24, |seed| attack(seed, Crash::Any, Changing::Anything));
}

/// Which member of a pair is dropped, too.
#[test]
fn a_seed_repeats_a_run_on_a_pair() {
    assert_repeats(0..24, |seed| attack_pair(seed, Crash::Any));
}

#[test]
fn a_seed_repeats_a_run_on_several_pairs() {
    assert_repeats(0..12, |seed| attack_pairs(seed, Crash::Any));
}

#[test]
fn a_seed_repeats_a_run_of_ordered_write_back() {
    assert_repeats(0..24, |seed| attack_ordered(seed, Crash::Any));
}
