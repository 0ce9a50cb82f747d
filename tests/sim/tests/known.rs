//! Hosts of the first seeds, of all kinds in turn, which go down in all ways: power cuts, kills and stops. `LODE_SIM_CUTS` says
//! how many times at least the power fails, `LODE_SIM_HOSTS` how many hosts there are instead; `./dev mutants` looks here whether a
//! deliberate bug is noticed.

use lode_sim::{Changing, Crash, RunCounts, attack};

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Power cuts, kills and stops, and hosts in which everything changes.
const KINDS: u64 = 6;

/// Host `at` of all, of a seed that no other one has.
fn host(at: u64) -> Result<(Crash, Vec<RunCounts>), String> {
    let (kind, seed) = (at % KINDS, number("LODE_SIM_SEED").unwrap_or(at / KINDS));
    let (crash, changing) = match kind {
        0 | 1 => (Crash::Power, Changing::Anything),
        2 => (Crash::Kill, Changing::Anything),
        3 => (Crash::Any, Changing::Anything),
        4 => (Crash::Power, Changing::Shares),
        _ => (Crash::Power, Changing::Schemes),
    };
    // Two kinds of power cuts are the same attack.
    let seed = if kind == 1 { !seed } else { seed };
    Ok((crash, attack(seed, crash, changing)?))
}

/// Processor time of this thread, or nothing where the system does not tell.
fn processor_s() -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    told.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e9
}

#[test]
fn hosts_of_known_seeds() {
    const USUAL_CUTS: u64 = 600;
    const MOST_S_PER_CUT: f64 = 180.0 / 10_000.0;
    let cuts = number("LODE_SIM_CUTS").unwrap_or(USUAL_CUTS);
    let hosts = number("LODE_SIM_HOSTS");
    let began_s = processor_s();
    let (mut at, mut power_cuts, mut ends, mut of_starts, mut sectors) = (0_u64, 0, 0, 0, 0);
    while hosts.map_or(power_cuts < cuts, |hosts| at < hosts) {
        let (crash, tallies) = host(at).unwrap_or_else(|error| panic!("host {at}: {error}"));
        let crashes = tallies.iter().map(|tally| tally.crashes).max().unwrap_or(0);
        ends += crashes;
        power_cuts += if crash == Crash::Power { crashes } else { 0 };
        of_starts += tallies.iter().map(|tally| tally.starts_cut).sum::<u64>();
        sectors += tallies.iter().map(|tally| tally.sectors_checked).sum::<u64>();
        at += 1;
    }
    let spent_s = processor_s() - began_s;
    println!(
        "{at} hosts: {power_cuts} power cuts and {} other ends, then {of_starts} during starts, {sectors} sectors right, \
         {:.0} ends a processor second",
        ends - power_cuts,
        (ends + of_starts) as f64 / spent_s
    );
    // What `.ci/run` promises: 10,000 power cuts within three minutes. A few hosts say little of that.
    let limit_s = power_cuts as f64 * MOST_S_PER_CUT;
    assert!(
        power_cuts < USUAL_CUTS || spent_s.is_nan() || spent_s <= limit_s,
        "{spent_s:.1} s of {limit_s:.1}"
    );
}
