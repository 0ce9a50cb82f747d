//! Every number of the machine and of the models: it changes what comes out, and is refused outside its range.

use lode_policy::criticality::AdmissionPolicy;
use lode_policy::{SettingInfo, Settings};
use lode_processes::{
    CacheKind, MachineSettings, PostgresSettings, RedisSettings, RequestsError, RequestsReport, RunConfig,
    run_script,
};

use crate::options;

/// A setting and another value than its usual one.
type Pair = (&'static str, &'static str);

#[derive(Clone, Copy)]
enum Model {
    Postgres,
    Redis,
}

impl Model {
    fn table(self) -> &'static [SettingInfo] {
        match self {
            Model::Postgres => PostgresSettings::TABLE,
            Model::Redis => RedisSettings::TABLE,
        }
    }

    /// With these a few seconds have what otherwise happens in minutes: checkpoints, snapshots, a log that begins anew.
    fn lively(self) -> &'static [Pair] {
        match self {
            Model::Postgres => &[
                ("pages", "8192"),
                ("hot_pages", "1024"),
                ("log_blocks", "512"),
                ("segment_commits", "100"),
                ("checkpoint_commits", "1000"),
                ("flush_interval_us", "200000"),
                ("flush_old_rounds", "2"),
                ("journal_interval_us", "500000"),
            ],
            Model::Redis => &[
                ("processors", "2"),
                ("log_blocks", "512"),
                ("snapshot_blocks", "4096"),
                ("snapshot_interval_us", "300000"),
                ("journal_interval_us", "500000"),
            ],
        }
    }

    fn settings(self, changed: &[Pair]) -> Settings {
        let mut settings = Settings::new("requests", &[MachineSettings::TABLE, self.table()]);
        let kept = self.lively().iter().filter(|(key, _)| changed.iter().all(|(other, _)| other != key));
        for (key, value) in kept.chain(changed) {
            settings.set(key, value).unwrap_or_else(|error| panic!("{key}={value}: {error}"));
        }
        settings
    }

    fn run(
        self,
        changed: &[Pair],
        policy: AdmissionPolicy,
        kind: CacheKind,
        end_ns: u64,
    ) -> Result<RequestsReport, RequestsError> {
        let settings = self.settings(changed);
        let script = match self {
            Model::Postgres => PostgresSettings::of(&settings).script(1)?,
            Model::Redis => RedisSettings::of(&settings).script(1)?,
        };
        let config = RunConfig::new(options(policy), MachineSettings::of(&settings), kind);
        run_script(script, &RunConfig { cache_blocks: 1024, end_ns, warm_up_ns: 0, ..config })
    }
}

const MACHINE: &[Pair] = &[
    ("processors", "3"),
    ("time_slice_us", "100"),
    ("dirty_percent", "0"),
    ("destages", "1"),
    ("map_writes", "0"),
    ("map_entries", "1"),
    ("disk_turn_us", "8000"),
    ("disk_seek_min_us", "1000"),
    ("disk_seek_max_us", "4000"),
    ("disk_blocks", "1000000"),
    ("disk_block_ns", "68000"),
    ("disk_fixed_us", "1000"),
    ("disk_queue", "1"),
    ("disk_expiry_ms", "0"),
    ("ram_block_ns", "20000"),
    ("ram_parallel", "2"),
    ("ssd_parallel", "2"),
    ("ssd_read_us", "1000"),
    ("ssd_write_us", "100"),
    ("ssd_block_us", "600"),
    ("ssd_jitter_percent", "0"),
    ("reissue_failures_percent", "100"),
];

const POSTGRES: &[Pair] = &[
    ("backends", "8"),
    ("transaction_cpu_us", "2000"),
    ("think_us", "1000"),
    ("spread_percent", "0"),
    ("pages", "16384"),
    ("hot_pages", "16"),
    ("hot_percent", "0"),
    ("files", "2"),
    ("dirtied_percent", "300"),
    ("evictions_percent", "150"),
    ("dirty_percent_at_start", "0"),
    ("writer_interval_us", "20000"),
    ("writer_pages", "1"),
    ("commit_blocks", "1"),
    ("log_blocks", "64"),
    ("log_first_block", "100000"),
    ("log_disk", "0"),
    ("segment_commits", "10"),
    ("checkpoint_commits", "500"),
    ("checkpoint_target_percent", "100"),
    ("checkpoint_sleep_us", "1000"),
    ("checkpoint_record_blocks", "16"),
    ("fsync_depth", "1"),
    ("log_writer_interval_us", "10000"),
    ("log_writer_blocks", "16"),
    ("round_cpu_us", "5000"),
    ("lookup_cpu_us", "100"),
    ("metadata_cpu_us", "100"),
    ("journal_close_cpu_us", "1000"),
    ("journal_blocks", "100"),
    ("log_buffers", "4"),
    ("journal_interval_us", "10000"),
    ("flush_interval_us", "100000"),
    ("flush_old_rounds", "1"),
    ("flush_depth", "1"),
    ("flush_transaction_pages", "1"),
];

const REDIS: &[Pair] = &[
    ("instances", "2"),
    ("clients", "10"),
    ("request_cpu_us", "100"),
    ("spread_percent", "0"),
    ("updates_percent", "5"),
    ("updates_per_block", "1"),
    ("append_blocks", "1"),
    ("log_blocks", "64"),
    ("log_first_block", "100000"),
    ("log_disk", "1"),
    ("snapshot_blocks", "2048"),
    ("snapshot_interval_us", "100000"),
    ("snapshot_mib_cpu_us", "1000"),
    ("snapshot_tail_blocks", "0"),
    ("writeback_blocks", "8"),
    ("writeback_depth", "4"),
    ("journal_interval_us", "10000"),
    ("journal_blocks", "100"),
    ("metadata_cpu_us", "100"),
    ("journal_close_cpu_us", "1000"),
];

const MODELS: [(Model, &[Pair]); 2] = [(Model::Postgres, POSTGRES), (Model::Redis, REDIS)];

/// Enough for several checkpoints and snapshots.
const END_NS: u64 = 3_000_000_000;

/// The machines below, one of which has what a setting is about.
const BELOW: [(AdmissionPolicy, CacheKind); 3] = [
    (AdmissionPolicy::CpPiIoi, CacheKind::Ram),
    (AdmissionPolicy::All, CacheKind::Ram),
    (AdmissionPolicy::All, CacheKind::Ssd),
];

#[test]
fn every_setting_changes_what_comes_out() {
    for (model, own) in MODELS {
        let plain = BELOW.map(|(policy, kind)| model.run(&[], policy, kind, END_NS).unwrap());
        let tables = [(MachineSettings::TABLE, MACHINE), (model.table(), own)];
        for (table, pairs) in tables {
            let keys = |pair: &Pair| pair.0;
            assert_eq!(
                table.iter().map(|info| info.key).collect::<std::collections::BTreeSet<_>>(),
                pairs.iter().map(keys).collect(),
                "each setting is tried"
            );
            for pair in pairs {
                let changes = |at: usize| {
                    let (policy, kind) = BELOW[at];
                    model.run(&[*pair], policy, kind, END_NS).unwrap() != plain[at]
                };
                assert!((0..BELOW.len()).any(changes), "{} = {} changes nothing", pair.0, pair.1);
            }
        }
    }
}

/// From the lowest to the highest value.
fn range(info: &SettingInfo) -> (u64, u64) {
    let text = info.kind.to_string();
    let numbers: Vec<u64> = text.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [low, high] = numbers[..] else { panic!("{}: {text}", info.key) };
    (low, high)
}

#[test]
fn every_setting_is_refused_outside_its_range_and_runs_at_its_ends() {
    for (model, _) in MODELS {
        for info in MachineSettings::TABLE.iter().chain(model.table()) {
            let (low, high) = range(info);
            for outside in [low.checked_sub(1), high.checked_add(1)].into_iter().flatten() {
                let error = model.settings(&[]).set(info.key, &outside.to_string()).unwrap_err();
                assert!(error.to_string().contains(info.key), "{error}");
            }
            for end in [low, high] {
                let pair: Pair = (info.key, Box::leak(end.to_string().into_boxed_str()));
                match model.run(&[pair], AdmissionPolicy::All, CacheKind::Ram, 10_000_000) {
                    // A range may hang on another setting as well.
                    Ok(_) | Err(RequestsError::BadSetting { .. }) => {}
                    Err(error) => panic!("{} = {end}: {error}", info.key),
                }
            }
        }
    }
}

#[test]
fn settings_that_do_not_go_together_are_refused() {
    for (model, pairs, message) in [
        (Model::Postgres, &[("hot_pages", "8193")][..], "'hot_pages' cannot be 8193: it takes 1 to 8192"),
        (Model::Postgres, &[("journal_blocks", "10")], "'journal_blocks' cannot be 10: it takes 11 to"),
        (
            Model::Postgres,
            &[("log_first_block", "40968")],
            "'log_first_block' cannot be 40968: it takes 40969 to",
        ),
        (Model::Redis, &[("journal_blocks", "5")], "'journal_blocks' cannot be 5: it takes 6 to"),
        (
            Model::Redis,
            &[("log_first_block", "49151")],
            "'log_first_block' cannot be 49151: it takes 49152 to",
        ),
    ] {
        let error = model.run(pairs, AdmissionPolicy::All, CacheKind::Ram, 1).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
}
