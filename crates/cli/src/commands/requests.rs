//! `lode requests`: what a small write cache does for requests, by what it admits.

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use lode_policy::request_oriented::{AdmissionOptions, AdmissionPolicy};
use lode_processes::{
    DeviceModel, MAX_CACHE_BLOCKS, PostgresSettings, RedisSettings, RequestsError, RequestsReport, RunConfig,
    Script, run_script,
};
use lode_types::BlockSize;
use serde::Serialize;

use crate::amounts::{parse_size, show_size};
use crate::error::CliError;
use crate::output;
use crate::results::JsonArgs;

/// The part of a run that is not counted.
const WARM_UP_PART: u64 = 6;

/// Simulate requests of an application over a small non-volatile write cache
///
/// The application is a model (synthetic): processes with locks, a log, checkpoints and a file system's journal. Each
/// policy admits other writes to the cache and meets the same work. See docs/schemes/request-oriented.md.
#[derive(Args)]
#[command(after_help = "\
Examples:
  lode requests
  lode requests --model redis --policies sync,cp-pi,cp-pi-ioi --device ssd
  lode requests --nvwc 32MiB --set stall=wait --json")]
pub struct RequestsCommand {
    /// The application.
    #[arg(long, value_name = "NAME", default_value = "postgres")]
    model: Model,

    /// Admission policies to compare: all, sync, wal, cp, cp-pi, cp-pi-ioi.
    #[arg(long, value_name = "LIST", value_delimiter = ',', hide_possible_values = true,
        value_parser = PossibleValuesParser::new(AdmissionPolicy::ALL.map(AdmissionPolicy::name)),
        default_values_t = AdmissionPolicy::ALL.map(|policy| policy.name().to_owned()))]
    policies: Vec<String>,

    /// Size of the write cache.
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = parse_size)]
    nvwc: u64,

    /// What the write cache is made of.
    #[arg(long, value_name = "WHAT", default_value = "ram")]
    device: CacheDevice,

    /// Clients that each have one request at a time, instead of the model's own number.
    #[arg(long, value_name = "N")]
    clients: Option<u32>,

    /// Simulated time in seconds, 1 to 3600; the first sixth is not counted.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,

    /// Everything random follows from it.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// A setting of the admission, pi_sync_only=on|off or stall=bypass|wait; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    #[command(flatten)]
    json: JsonArgs,
}

#[derive(Clone, Copy, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Model {
    /// A database: backends that commit through one log, a checkpointer, the kernel's writer and journal.
    Postgres,
    /// Key-value stores with a durable log, half of the requests updates, and snapshots.
    Redis,
    /// The same with 5 % updates.
    RedisReads,
}

#[derive(Clone, Copy, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum CacheDevice {
    /// Memory that keeps its contents: 2 us a block.
    Ram,
    /// A SATA SSD: 60 us to write a block, 120 us to read one.
    Ssd,
}

#[derive(Serialize)]
struct Comparison {
    synthetic: bool,
    model: Model,
    nvwc_bytes: u64,
    device: CacheDevice,
    seconds: u64,
    seed: u64,
    policies: Vec<RequestsReport>,
}

impl RequestsCommand {
    /// Simulates each policy and shows them side by side.
    pub fn run(&self) -> Result<(), CliError> {
        let reports = self.policies.iter().map(|name| self.simulate(name)).collect::<Result<Vec<_>, _>>()?;
        let text = self.text(&reports);
        let comparison = Comparison {
            synthetic: true,
            model: self.model,
            nvwc_bytes: self.nvwc,
            device: self.device,
            seconds: self.seconds,
            seed: self.seed,
            policies: reports,
        };
        self.json.write(&comparison, || text)
    }

    fn simulate(&self, policy: &str) -> Result<RequestsReport, CliError> {
        let policy = AdmissionPolicy::from_name(policy).ok_or_else(|| {
            CliError::Usage(format!("There is no policy '{policy}'; `lode requests --help` lists them"))
        })?;
        if self.set.iter().any(|pair| pair.trim_start().starts_with("admission")) {
            return Err(CliError::Usage(
                "Choose admission policies with --policies, not with --set".to_owned(),
            ));
        }
        let cache_blocks = self.nvwc / BlockSize::KIB_4.bytes();
        if !(1..=MAX_CACHE_BLOCKS as u64).contains(&cache_blocks) {
            let asked = show_size(self.nvwc);
            return Err(CliError::Usage(format!("--nvwc cannot be {asked}: it takes 4KiB to 64GiB")));
        }
        let end_ns = self.seconds * 1_000_000_000;
        let config = RunConfig {
            cache_blocks: cache_blocks as usize,
            cache: match self.device {
                CacheDevice::Ram => DeviceModel::RAM,
                CacheDevice::Ssd => DeviceModel::SSD,
            },
            seed: self.seed,
            end_ns,
            warm_up_ns: end_ns / WARM_UP_PART,
            ..RunConfig::new(AdmissionOptions::new(policy, &self.set)?)
        };
        Ok(run_script(self.script()?, &config)?)
    }

    fn script(&self) -> Result<Script, RequestsError> {
        let redis = |updates_percent| {
            let mut settings = RedisSettings { updates_percent, seed: self.seed, ..RedisSettings::default() };
            settings.clients = self.clients.unwrap_or(settings.clients);
            settings.script()
        };
        match self.model {
            Model::Postgres => {
                let mut settings = PostgresSettings { seed: self.seed, ..PostgresSettings::default() };
                settings.backends = self.clients.unwrap_or(settings.backends);
                settings.script()
            }
            Model::Redis => redis(RedisSettings::default().updates_percent),
            Model::RedisReads => redis(5),
        }
    }

    fn text(&self, reports: &[RequestsReport]) -> String {
        let ms = |us: u64| output::number(Some(us as f64 / 1000.0), 2);
        let titles = [
            "policy", "req/s", "p50 ms", "p99 ms", "p99.9 ms", "writes", "cached", "%", "stalled", "reissued",
        ];
        let mut table = output::table(&titles, 1);
        for report in reports {
            let (latency, writes) = (&report.latency, &report.writes);
            table.add_row([
                report.policy.to_owned(),
                output::number(Some(report.requests_per_s), 1),
                ms(latency.p50_us),
                ms(latency.p99_us),
                ms(latency.p99_9_us),
                writes.submitted.to_string(),
                writes.cached.to_string(),
                output::percent(
                    (writes.submitted > 0).then(|| writes.cached as f64 / writes.submitted as f64),
                ),
                writes.stalled.to_string(),
                writes.reissued.to_string(),
            ]);
        }
        format!(
            "{table}\n\nWaits of critical processes, in milliseconds a request:\n{}\nSynthetic: the application is a \
             model, and so are the devices. Counted from second {} to {}.\n",
            waits_text(reports),
            output::number(Some(self.seconds as f64 / WARM_UP_PART as f64), 1),
            self.seconds
        )
    }
}

/// A row for each primitive that anybody waited in.
fn waits_text(reports: &[RequestsReport]) -> String {
    let titles: Vec<&str> =
        std::iter::once("primitive").chain(reports.iter().map(|report| report.policy)).collect();
    let mut table = output::table(&titles, 1);
    let mut seen: Vec<&str> = Vec::new();
    for wait in reports.iter().flat_map(|report| &report.waits) {
        if !seen.contains(&wait.primitive) {
            seen.push(wait.primitive);
        }
    }
    for primitive in seen {
        let of = |report: &RequestsReport| {
            let wait = report.waits.iter().find(|wait| wait.primitive == primitive);
            output::number(wait.map(|wait| wait.per_request_us / 1000.0), 3)
        };
        table.add_row(std::iter::once(primitive.to_owned()).chain(reports.iter().map(of)));
    }
    format!("{table}\n")
}
