//! Models of applications: the order of the policies that the paper reports, where the models show it.

use lode_policy::criticality::{AdmissionOptions, AdmissionPolicy};
use lode_processes::{
    CacheKind, MachineSettings, PostgresSettings, RedisSettings, RequestsError, RequestsReport, RunConfig,
    Script, run_script,
};

use crate::options;

const MIB_BLOCKS: usize = 256;

fn run(
    script: Result<Script, RequestsError>,
    policy: AdmissionPolicy,
    mib: usize,
    seconds: u64,
) -> RequestsReport {
    let (cache_blocks, end_ns) = ((mib * MIB_BLOCKS).max(1), seconds * 1_000_000_000);
    let config = RunConfig {
        cache_blocks,
        end_ns,
        warm_up_ns: end_ns / 6,
        ..RunConfig::new(options(policy), MachineSettings::default(), CacheKind::Ram)
    };
    let report = run_script(script.unwrap(), &config).unwrap();
    println!(
        "{:9} {mib:4} MiB {:9.1}/s p99.9 {:6} us, {:6} cached of {:6}, {} stalled",
        report.policy,
        report.requests_per_s,
        report.latency.p99_9_us,
        report.writes.cached,
        report.writes.submitted,
        report.writes.stalled,
    );
    report
}

fn postgres(policy: AdmissionPolicy, mib: usize) -> RequestsReport {
    run(PostgresSettings::default().script(1), policy, mib, 30)
}

fn redis(policy: AdmissionPolicy) -> RequestsReport {
    run(RedisSettings::default().script(1), policy, 512, 30)
}

fn wait_us(report: &RequestsReport, primitive: &str) -> f64 {
    report.waits.iter().find(|wait| wait.primitive == primitive).map_or(0.0, |wait| wait.per_request_us)
}

#[test]
fn postgres_is_served_faster_with_each_step_of_the_paper() {
    let [cp, pi, ioi, all] =
        [AdmissionPolicy::Cp, AdmissionPolicy::CpPi, AdmissionPolicy::CpPiIoi, AdmissionPolicy::All]
            .map(|policy| postgres(policy, 4096));
    // Paper, section 7.2: inheritance gains 4 to 12 %, here less than one; issuing writes again 18 to 29 % more.
    assert!(pi.requests_per_s > 0.99 * cp.requests_per_s);
    assert!(ioi.requests_per_s > 1.18 * pi.requests_per_s);
    assert!(5 * ioi.latency.p99_9_us < pi.latency.p99_9_us);
    // With room for everything nothing is better than to cache everything; the same with a third of the writes.
    assert!(ioi.requests_per_s > 0.97 * all.requests_per_s);
    assert!(2 * ioi.writes.cached < all.writes.cached);
    // Table 2: what is left of CP's waits is the mutex, for long; issuing again removes it.
    assert!(wait_us(&cp, "mutex_lock") > 1000.0 && wait_us(&ioi, "mutex_lock") < 10.0);
    let mutex = cp.waits.iter().find(|wait| wait.primitive == "mutex_lock").unwrap();
    assert!(mutex.mean_us > 50_000.0 && mutex.max_us > 500_000.0, "{mutex:?}");
    assert!(ioi.writes.reissued > 0 && ioi.writes.discarded_completions > 0);
    assert!(cp.inheritances == 0 && pi.writes.reissued == 0);
    // Table 3: nearly all critical writes are those of the log.
    let [by_hint, ..] = ioi.critical;
    let critical: u64 = ioi
        .critical
        .iter()
        .map(|reasons| reasons.db + reasons.log + reasons.metadata + reasons.journal)
        .sum();
    assert!(by_hint.log as f64 > 0.95 * critical as f64);
}

#[test]
fn postgres_writes_what_table_1_says() {
    let none = run(PostgresSettings::default().script(1), AdmissionPolicy::All, 0, 120);
    let sync = none.writes.sync_blocks as f64 / none.writes.submitted_blocks as f64;
    // 79.4 %; that the data is 1.25 times the log was chosen, who writes it was not.
    assert!((0.70..0.88).contains(&sync), "{sync}");
}

#[test]
fn postgres_sync_admits_the_synchronous_writes() {
    let sync = postgres(AdmissionPolicy::Sync, 512);
    assert_eq!(sync.writes.admitted, sync.writes.sync);
}

#[test]
fn counts_are_of_what_was_submitted_while_it_was_counted() {
    for policy in AdmissionPolicy::ALL {
        let short = [
            run(PostgresSettings::default().script(1), policy, 32, 6),
            run(RedisSettings::default().script(1), policy, 32, 6),
        ];
        for report in short {
            assert!(report.writes.acknowledged <= report.writes.submitted, "{}", report.policy);
        }
    }
}

#[test]
fn postgres_in_a_scarce_cache_does_without_what_nobody_waits_for() {
    let [all, cp, pi, ioi] =
        [AdmissionPolicy::All, AdmissionPolicy::Cp, AdmissionPolicy::CpPi, AdmissionPolicy::CpPiIoi]
            .map(|policy| postgres(policy, 32));
    // Paper: 80 % faster than ALL, of whose writes 58 % stall; CP's do not.
    assert!(ioi.requests_per_s > 1.15 * all.requests_per_s);
    let stalled = all.writes.stalled as f64 / all.writes.submitted as f64;
    assert!((0.4..0.7).contains(&stalled), "{stalled}");
    assert!(cp.writes.stalled == 0 && 100 * ioi.writes.stalled < ioi.writes.submitted);
    assert!(ioi.requests_per_s > 1.1 * pi.requests_per_s && pi.requests_per_s > 0.99 * cp.requests_per_s);
}

#[test]
fn an_ssd_that_takes_everything_is_slower_than_none() {
    let ssd = |policy, mib: usize| {
        let config = RunConfig::new(options(policy), MachineSettings::default(), CacheKind::Ssd);
        let config = RunConfig { cache_blocks: (mib * MIB_BLOCKS).max(1), ..config };
        run_script(PostgresSettings::default().script(1).unwrap(), &config).unwrap().requests_per_s
    };
    let none = postgres(AdmissionPolicy::All, 0).requests_per_s;
    let all = ssd(AdmissionPolicy::All, 16_384);
    // Paper: up to 47 % less (Fig. 1), and CP+PI+IOI 1.8 to 2.2 times as fast as ALL (Fig. 4b).
    assert!(all < 0.8 * none, "{all} {none}");
    assert!(ssd(AdmissionPolicy::CpPiIoi, 16_384) > 1.5 * all);
}

#[test]
fn inherited_processes_write_asynchronously_and_may_be_kept_from_it() {
    let cached = |pi_sync_only| {
        let admission = AdmissionOptions { pi_sync_only, ..options(AdmissionPolicy::CpPi) };
        let config = RunConfig::new(admission, MachineSettings::default(), CacheKind::Ram);
        let report = run_script(PostgresSettings::default().script(1).unwrap(), &config).unwrap();
        report.critical[1].asynchronous
    };
    // Table 3 has 0.1387 % of the critical writes there.
    assert!(cached(false) > 0);
    assert_eq!(cached(true), 0);
}

#[test]
fn redis_needs_inheritance_and_issuing_again() {
    let [cp, sync, pi, ioi, all] = [
        AdmissionPolicy::Cp,
        AdmissionPolicy::Sync,
        AdmissionPolicy::CpPi,
        AdmissionPolicy::CpPiIoi,
        AdmissionPolicy::All,
    ]
    .map(redis);
    // Paper, section 7.3: inheritance makes it 2 to 30 times as fast as CP; the journal's process is not critical.
    assert!(pi.requests_per_s > 2.0 * cp.requests_per_s);
    assert!(ioi.requests_per_s > 1.03 * pi.requests_per_s);
    // 17 to 32 % faster than ALL with 20 to 29 % less in the cache; SYNC in between.
    assert!(ioi.requests_per_s > 1.17 * all.requests_per_s && sync.requests_per_s > all.requests_per_s);
    let cached = |report: &RequestsReport| report.writes.cached_blocks as f64 / report.requests as f64;
    assert!(cached(&ioi) < 0.9 * cached(&all));
    // Table 4: the tail shrinks by an order of magnitude.
    assert!(10 * ioi.latency.p99_9_us < all.latency.p99_9_us);
}

#[test]
fn one_seed_repeats_a_run_and_another_does_not() {
    let run_with = |seed| {
        let script = PostgresSettings::default().script(seed);
        run(script, AdmissionPolicy::CpPiIoi, 32, 10)
    };
    assert_eq!(run_with(7), run_with(7));
    assert_ne!(run_with(7), run_with(8));
}

#[test]
fn settings_outside_their_range_are_refused() {
    let error = PostgresSettings { backends: 0, ..PostgresSettings::default() }.script(1).err().unwrap();
    assert_eq!(error.to_string(), "'backends' cannot be 0: it takes 1 to 4096");
    assert!(RedisSettings { updates_percent: 101, ..RedisSettings::default() }.script(1).is_err());
    let config = RunConfig {
        cache_blocks: 0,
        ..RunConfig::new(options(AdmissionPolicy::All), MachineSettings::default(), CacheKind::Ram)
    };
    assert!(run_script(RedisSettings::default().script(1).unwrap(), &config).is_err());
}
