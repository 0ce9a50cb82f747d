//! Hosts of seeds that nobody has tried before, for as long as is wished: `LODE_SIM_SECONDS`, a few seconds unless it is
//! set. The first seed is printed, and a failure prints the command that shows it again. `LODE_SIM_COUNT` asks for so many
//! crashes instead.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lode_sim::{
    Changing, Crash, RunCounts, attack, attack_changing_pairs, attack_damaged, attack_hangs, attack_in_full,
    attack_ordered, attack_pair, attack_pairs, attack_start_hangs, attack_two_devices,
};

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn attack_with_fresh_seeds(name: &str, crash: Crash) {
    with_fresh_seeds(name, |seed| attack(seed, crash, Changing::Anything));
}

fn with_fresh_seeds(name: &str, attack: impl Fn(u64) -> Result<Vec<RunCounts>, String>) {
    const USUAL_SECONDS: u64 = 4;
    if let Some(seed) = number("LODE_SIM_SEED") {
        attack(seed).unwrap_or_else(|error| panic!("{error}"));
        return;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let first = number("LODE_SIM_FIRST_SEED").unwrap_or(now ^ u64::from(std::process::id()) << 40);
    let limit = Duration::from_secs(number("LODE_SIM_SECONDS").unwrap_or(USUAL_SECONDS));
    let count = number("LODE_SIM_COUNT");
    println!("{name}: seeds from {first} on");
    let began = Instant::now();
    let (mut seed, mut crashes, mut volumes, mut sectors) = (first, 0, 0, 0);
    while count.map_or(began.elapsed() < limit, |count| crashes < count) {
        let tallies = attack(seed).unwrap_or_else(|error| panic!("{name}: {error}"));
        crashes += tallies.iter().map(|tally| tally.crashes).max().unwrap_or(0);
        volumes += tallies.len();
        sectors += tallies.iter().map(|tally| tally.sectors_checked).sum::<u64>();
        seed = seed.wrapping_add(1);
    }
    println!(
        "{name}: seeds {first} to {}: {crashes} crashes of {volumes} volumes, {sectors} sectors right, {:.0} s",
        seed.wrapping_sub(1),
        began.elapsed().as_secs_f64()
    );
    assert!(crashes > 0);
}

#[test]
fn fresh_power_cuts() {
    attack_with_fresh_seeds("power cuts", Crash::Power);
}

#[test]
fn fresh_kills() {
    attack_with_fresh_seeds("kills", Crash::Kill);
}

#[test]
fn fresh_stops() {
    attack_with_fresh_seeds("stops", Crash::Stop);
}

#[test]
fn fresh_ends_of_all_kinds() {
    attack_with_fresh_seeds("ends of all kinds", Crash::Any);
}

#[test]
fn fresh_shares_that_change() {
    with_fresh_seeds("shares that change", |seed| attack(seed, Crash::Any, Changing::Shares));
}

#[test]
fn fresh_schemes_that_change() {
    with_fresh_seeds("schemes that change", |seed| attack(seed, Crash::Any, Changing::Schemes));
}

#[test]
fn fresh_damage_while_shares_and_volumes_change() {
    with_fresh_seeds("damage", |seed| attack_damaged(seed, Crash::Any));
}

#[test]
fn fresh_damage_and_power_cuts_while_shares_and_volumes_change() {
    with_fresh_seeds("damage and power cuts", |seed| attack_damaged(seed, Crash::Power));
}

#[test]
fn fresh_two_devices_while_shares_and_volumes_change() {
    with_fresh_seeds("two devices", |seed| attack_two_devices(seed, Crash::Any));
}

#[test]
fn fresh_ordered_write_back() {
    with_fresh_seeds("ordered write-back", |seed| attack_ordered(seed, Crash::Any));
}

#[test]
fn fresh_pairs_of_ssds() {
    with_fresh_seeds("pairs of SSDs", |seed| attack_pair(seed, Crash::Any));
}

#[test]
fn fresh_caches_on_several_pairs_of_ssds() {
    with_fresh_seeds("several pairs of SSDs", |seed| attack_pairs(seed, Crash::Any));
}

#[test]
fn fresh_devices_that_hang() {
    with_fresh_seeds("devices that hang", |seed| attack_hangs(seed, Crash::Any));
}

#[test]
fn fresh_devices_that_hang_in_starts() {
    with_fresh_seeds("devices that hang in starts", |seed| attack_start_hangs(seed, Crash::Any));
}

#[test]
fn fresh_pairs_of_ssds_while_shares_and_volumes_change() {
    with_fresh_seeds("changing pairs", |seed| attack_changing_pairs(seed, Crash::Any));
}

#[test]
fn fresh_power_cuts_of_pairs_of_ssds_while_shares_and_volumes_change() {
    with_fresh_seeds("power cuts of changing pairs", |seed| attack_changing_pairs(seed, Crash::Power));
}

/// Changes of what volumes there are that never ended, because the directory had failed and nobody was told.
#[test]
fn seeds_whose_volumes_did_not_come_or_go() {
    attack_in_full(1795924031837600832, Crash::Any, Changing::Anything)
        .unwrap_or_else(|error| panic!("{error}"));
    for seed in [1795924061862812018, 1784992685238625759] {
        attack_in_full(seed, Crash::Any, Changing::Schemes).unwrap_or_else(|error| panic!("{error}"));
    }
    attack_in_full(1784744187332653194, Crash::Any, Changing::Shares)
        .unwrap_or_else(|error| panic!("{error}"));
}

/// Hosts that once showed a fault: a copy that waits for ever, a read error during a start after a flush that failed, a record
/// in a new ring about an extent that was given up.
#[test]
fn seeds_that_once_failed() {
    for (seed, crash) in [
        (1765495520316568889, Crash::Any),
        (1774407060863392904, Crash::Stop),
        (1797680922471718306, Crash::Any),
        (1797681037601858241, Crash::Kill),
        (1785635351584289524, Crash::Stop),
    ] {
        attack_in_full(seed, crash, Changing::Anything).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// A host that once showed a fault: pages of a directory that nobody could read were taken for those of one that a start had begun
/// to write over it, as both had the same generation.
#[test]
fn g4_a_directory_is_never_pages_of_two_runs() {
    attack(1783257789257239344, Crash::Any, Changing::Anything).unwrap_or_else(|error| panic!("{error}"));
}

/// Hosts that once showed a fault: a dirty block that was damaged before it was known to be durable looked unwritten, and a clean copy from
/// before it, older than the backing disk, was read until it left the cache.
#[test]
fn seeds_with_damage_that_once_failed() {
    for seed in [1801308264507581242, 1801427011883617025] {
        attack_damaged(seed, Crash::Power).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Pairs that once showed a fault: a label that was not brought up to the newest one, so that its SSD was not believed alone; a
/// start that went on with what only an SSD that was dropped meanwhile had.
#[test]
fn seeds_of_pairs_that_once_failed() {
    for seed in [1795840502078201292, 1795972446754976878, 1792955415365639429, 1778572866110179308] {
        attack_pair(seed, Crash::Any).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Hosts that once showed a fault: a change of the directory was taken for lost although an SSD that was resilvered meanwhile had it, when the
/// other one was taken out before it was asked; an SSD failed what it was asked for while it was resilvered, came to count all the same before the
/// other one had answered, and that one was given up.
#[test]
fn seeds_of_changing_pairs_that_once_failed() {
    for seed in [20306, 1800452046813107499] {
        attack_changing_pairs(seed, Crash::Power).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Hosts that once showed a fault: a change of the directory was given up on one SSD of a pair, which hung, and on the other one, which hung as
/// well, when that was dropped for it meanwhile, so that nobody had it.
#[test]
fn seeds_of_devices_that_hang_that_once_failed() {
    attack_hangs(1777972853885853713, Crash::Any).unwrap_or_else(|error| panic!("{error}"));
}

/// Ordered volumes that once showed a fault: a group waited for a copy into the read SSD, where places came free when the group was
/// over; a block of a group became clean behind a zeroing that had failed, and that the disk may have carried out.
#[test]
fn seeds_of_ordered_write_back_that_once_failed() {
    for seed in [1783257866134903261, 1765542434620167424] {
        attack_ordered(seed, Crash::Any).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// A block that a scrub was at whenever blocks were looked for in an extent that was to be given up: the extent stayed for ever.
#[test]
fn a_seed_whose_extent_was_never_given_up() {
    attack(1791602680002000038, Crash::Stop, Changing::Anything).unwrap_or_else(|error| panic!("{error}"));
}
