//! Guarantees 1 to 4, 6 and 8 of `docs/design.md` under every scheme that can serve guests. What a machine is like follows from what is
//! registered of its scheme, so that none is left out: the machines of `scenario.rs` are one for each way of caching, chosen by hand.

use lode_policy::{Quota, RequestSource, SchemeInfo, SettingKind, all_schemes};
use lode_sim::scenario::{first_seeds, machine, plan, seeds};
use lode_sim::{Crash, Machine, Plan, RunCounts, run};
use lode_types::{Level, OriginFields};

/// What a guest tells: with FUA, that it waits until it is durable.
const TOLD: OriginFields = OriginFields { sync: true, ..OriginFields::NONE };

/// Blocks of a level that a scheme uses, unless it needs more: few enough that blocks leave it all the time.
fn blocks_of(level: Level) -> u32 {
    match level {
        Level::Dram => 20,
        Level::Ssd => 60,
        Level::ReadSsd => 48,
    }
}

fn quota_of(info: &SchemeInfo) -> Quota {
    let least = |level| blocks_of(level).max(info.least_blocks(level));
    info.levels.iter().fold(Quota::default(), |quota, &level| quota.with(level, least(level)))
}

/// Machines with this scheme: as it is, and with each word of each setting that is one of several, its write policies among them. Small
/// sets, where there are any, so that no block has all of the SSD.
fn machines_of(info: &SchemeInfo) -> Vec<(String, Machine)> {
    let sets: &[&str] =
        if info.setting_infos().any(|setting| setting.key == "assoc") { &["assoc=8"] } else { &[] };
    let mut choices = vec![String::new()];
    for setting in info.setting_infos() {
        if let SettingKind::Choice(words) = setting.kind {
            let others = words.iter().filter(|&&word| word != setting.default);
            choices.extend(others.map(|word| format!("{}={word}", setting.key)));
        }
    }
    let machine_of = |choice: String| {
        let mut pairs = sets.to_vec();
        pairs.extend((!choice.is_empty()).then_some(choice.as_str()));
        let machine = machine(info.name, &pairs, quota_of(info));
        let told = info.check_origins(&machine.settings, TOLD, RequestSource::Guest);
        told.is_ok().then(|| (format!("{} {choice}", info.name), machine))
    };
    choices.into_iter().filter_map(machine_of).collect()
}

#[test]
fn g2_power_cuts_under_every_registered_scheme() {
    let live = all_schemes().iter().filter(|info| info.check_without_future().is_ok());
    let (mut sum, mut machines) = (RunCounts::default(), 0);
    for info in live {
        let of_scheme = machines_of(info);
        assert!(!of_scheme.is_empty(), "{} serves guests with no setting", info.name);
        let mut hits = 0;
        for (name, machine) in of_scheme {
            machines += 1;
            for seed in first_seeds(seeds().div_ceil(4)) {
                let usual = plan(vec![machine.clone()], seed);
                let plan = Plan {
                    crash: Crash::Power,
                    requests: 200,
                    failed_starts: 1,
                    looks_around: true,
                    ..usual
                };
                let counts = run(&plan).unwrap_or_else(|error| panic!("{name}: {error}"));
                hits += counts.read_hits;
                sum += counts;
            }
        }
        assert!(hits > 0, "{} caches nothing", info.name);
    }
    println!("{machines} machines: {sum:?}");
    assert!(machines > all_schemes().len() && sum.write_backs > 10_000, "{sum:?}");
    assert_eq!((sum.failed_reads, sum.failed_writes), (0, 0), "{sum:?}");
}
