//! `lode requests`: what a small write cache does for requests, by what it admits.

mod tables;

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use lode_policy::criticality::{AdmissionOptions, AdmissionPolicy, TABLE};
use lode_policy::{SettingError, SettingInfo, Settings};
use lode_processes::{
    CacheKind, MAX_CACHE_BLOCKS, MachineSettings, PostgresSettings, RedisSettings, RequestsError,
    RequestsReport, RunConfig, Script, ScriptText, run_script,
};
use lode_types::BlockSize;
use serde::Serialize;

use crate::amounts::{parse_size, show_size};
use crate::error::CliError;
use crate::output;
use crate::results::JsonArgs;

/// The part of a run that is not counted.
const WARM_UP_PART: u64 = 6;

/// Most bytes of a script.
const MAX_SCRIPT_BYTES: u64 = 16 << 20;

/// A script that has not ended after a simulated day is ended.
const MAX_SCRIPT_NS: u64 = 86_400_000_000_000;

/// What a script can set.
const SCRIPT_TABLES: [&[SettingInfo]; 2] = [TABLE, MachineSettings::TABLE];

/// Updates among a hundred requests of YCSB's workload B.
const READS_UPDATES_PERCENT: &str = "5";

/// Simulate requests of an application over a small non-volatile write cache
///
/// The application is a model (synthetic): processes with locks, a log, checkpoints and a file system's journal. Each
/// policy admits other writes to the cache and meets the same work. See docs/schemes/request-oriented.md.
#[derive(Args)]
#[command(after_help = "\
Examples:
  lode requests
  lode requests --model redis --policies sync,cp-pi,cp-pi-ioi --device ssd
  lode requests --nvwc 32MiB --set stall=wait --set processors=16 --json
  lode requests --model redis --settings
  lode requests --script docs/examples/figure-3a.requests --device ssd --nvwc 64KiB")]
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

    /// A script of processes, locks, events and writes, in place of a model; it runs to its end.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["model", "clients", "seconds"])]
    script: Option<PathBuf>,

    /// A setting of the admission, the machine or the model, as `--settings` lists them; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// List what can be set, with defaults and where they come from, and run nothing.
    #[arg(long)]
    settings: bool,

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
    /// A SATA SSD without a volatile write cache: 1.3 ms to write a block, eight at a time.
    Ssd,
}

impl CacheDevice {
    fn kind(self) -> CacheKind {
        match self {
            CacheDevice::Ram => CacheKind::Ram,
            CacheDevice::Ssd => CacheKind::Ssd,
        }
    }
}

#[derive(Serialize)]
struct Comparison<'a> {
    synthetic: bool,
    /// The application, unless a script ran.
    model: Option<Model>,
    script: Option<&'a Path>,
    nvwc_bytes: u64,
    device: CacheDevice,
    /// Simulated, unless a script ran, which ends by itself.
    seconds: Option<u64>,
    seed: u64,
    policies: Vec<RequestsReport>,
    /// When each process of a script ended under each policy, in milliseconds; `null`: not at all.
    ended_ms: Option<Vec<Ended>>,
}

#[derive(Serialize)]
struct Setting {
    key: &'static str,
    default: &'static str,
    values: String,
    about: &'static str,
    source: &'static str,
}

#[derive(Serialize)]
struct Ended {
    process: String,
    ended_ms: Vec<Option<f64>>,
}

impl RequestsCommand {
    /// Simulates each policy and shows them side by side.
    pub fn run(&self) -> Result<(), CliError> {
        if self.settings {
            let entries = match self.script {
                Some(_) => setting_entries(&SCRIPT_TABLES, None),
                None => setting_entries(&self.model.tables(), self.model.other_default()),
            };
            return self.json.write(&entries, || tables::settings(&entries));
        }
        let text = self.script.as_ref().map(|path| read_script(path)).transpose()?;
        let settings = self.chosen_settings(text.as_ref())?;
        let simulate = |name: &String| self.simulate(name, &settings, text.as_ref());
        let reports = self.policies.iter().map(simulate).collect::<Result<Vec<_>, _>>()?;
        let ended_ms = text.as_ref().map(|text| ended(text, &reports));
        let shown = self.text(&reports, ended_ms.as_deref());
        let model = text.is_none().then_some(self.model);
        let comparison = Comparison {
            synthetic: true,
            model,
            script: self.script.as_deref(),
            nvwc_bytes: self.nvwc,
            device: self.device,
            seconds: model.map(|_| self.seconds),
            seed: self.seed,
            policies: reports,
            ended_ms,
        };
        self.json.write(&comparison, || shown)
    }

    /// What was set here and in the script.
    fn chosen_settings(&self, text: Option<&ScriptText>) -> Result<Settings, CliError> {
        let mut settings = match text {
            Some(_) => requests_settings(&SCRIPT_TABLES),
            None => requests_settings(&self.model.tables()),
        };
        let named = |pair: &String, key: &str| pair.split('=').next().is_some_and(|name| name.trim() == key);
        for (instead, key) in [("--policies", "admission"), ("--clients", self.model.clients_key())] {
            if self.set.iter().any(|pair| named(pair, key)) {
                return Err(CliError::Usage(format!("Set {key} with {instead}, not with --set")));
            }
        }
        self.set
            .iter()
            .try_for_each(|pair| settings.set_pair(pair))
            .map_err(|error| self.of_machine(error))?;
        for (key, value, line) in text.map_or(&[][..], |text| text.settings.as_slice()) {
            let set = match self.set.iter().any(|pair| named(pair, key)) {
                // The command line says otherwise.
                true => Ok(()),
                false => settings.set(key, value),
            };
            set.map_err(|error| {
                CliError::Usage(self.of_script(&format!("Line {line}: {}", self.of_machine(error))))
            })?;
        }
        if text.is_some() {
            return Ok(settings);
        }
        if let Some(clients) = self.clients {
            settings.set(self.model.clients_key(), &clients.to_string())?;
        }
        if let Some((key, value)) = self.model.other_default()
            && !self.set.iter().any(|pair| named(pair, key))
        {
            settings.set(key, value)?;
        }
        Ok(settings)
    }

    /// Settings of a command are those of the admission, the machine and the model, and not of the scheme alone.
    fn of_machine(&self, error: SettingError) -> CliError {
        let SettingError::UnknownKey { key, nearest, .. } = &error else { return error.into() };
        let nearest = nearest.map(|name| format!(" (did you mean '{name}'?)")).unwrap_or_default();
        let (whose, lister) = match self.script {
            Some(_) => ("neither the admission nor the machine", "lode requests --script FILE --settings"),
            None => ("neither the admission, the machine nor the model", "lode requests --settings"),
        };
        CliError::Usage(format!(
            "There is no setting '{key}'{nearest}: {whose} has one; `{lister}` lists them"
        ))
    }

    /// What is wrong in a script, with its file.
    fn of_script(&self, wrong: &str) -> String {
        self.script.as_ref().map_or(wrong.to_owned(), |path| format!("{}: {wrong}", path.display()))
    }

    fn simulate(
        &self,
        policy: &str,
        settings: &Settings,
        text: Option<&ScriptText>,
    ) -> Result<RequestsReport, CliError> {
        let policy = AdmissionPolicy::from_name(policy).ok_or_else(|| {
            CliError::Usage(format!("There is no policy '{policy}'; `lode requests --help` lists them"))
        })?;
        let cache_blocks = self.nvwc / BlockSize::KIB_4.bytes();
        if !(1..=MAX_CACHE_BLOCKS as u64).contains(&cache_blocks) {
            let asked = show_size(self.nvwc);
            return Err(CliError::Usage(format!("--nvwc cannot be {asked}: it takes 4KiB to 64GiB")));
        }
        let admission = AdmissionOptions::of(policy, settings);
        let config = RunConfig::new(admission, MachineSettings::of(settings), self.device.kind());
        let config = RunConfig { cache_blocks: cache_blocks as usize, seed: self.seed, ..config };
        if let Some(text) = text {
            let config = RunConfig { end_ns: MAX_SCRIPT_NS, warm_up_ns: 0, ..config };
            let explained = |error| CliError::Usage(self.of_script(&text.explain(&error)));
            return run_script(text.script(), &config).map_err(explained);
        }
        let end_ns = self.seconds * 1_000_000_000;
        let config = RunConfig { end_ns, warm_up_ns: end_ns / WARM_UP_PART, ..config };
        Ok(run_script(self.model.script(settings, self.seed)?, &config)?)
    }

    fn text(&self, reports: &[RequestsReport], ended: Option<&[Ended]>) -> String {
        let mut text = tables::results(reports);
        if let Some(ended) = ended {
            text += &tables::ended(reports, ended);
        }
        text += &tables::waits_a_request(reports);
        let beside_paper = matches!(self.model, Model::Postgres) && self.script.is_none();
        text += &tables::long_waits(reports, beside_paper);
        text += &tables::devices(reports);
        text + &match ended {
            Some(_) => "Synthetic: the devices are models.\n".to_owned(),
            None => format!(
                "Synthetic: the application is a model, and so are the devices. Counted from second {} to {}.\n",
                output::number(Some(self.seconds as f64 / WARM_UP_PART as f64), 1),
                self.seconds
            ),
        }
    }
}

impl Model {
    fn tables(self) -> [&'static [SettingInfo]; 3] {
        let own = match self {
            Model::Postgres => PostgresSettings::TABLE,
            Model::Redis | Model::RedisReads => RedisSettings::TABLE,
        };
        [TABLE, MachineSettings::TABLE, own]
    }

    /// What is other than in the table.
    fn other_default(self) -> Option<(&'static str, &'static str)> {
        matches!(self, Model::RedisReads).then_some(("updates_percent", READS_UPDATES_PERCENT))
    }

    fn clients_key(self) -> &'static str {
        match self {
            Model::Postgres => "backends",
            Model::Redis | Model::RedisReads => "clients",
        }
    }

    fn script(self, settings: &Settings, seed: u64) -> Result<Script, RequestsError> {
        match self {
            Model::Postgres => PostgresSettings::of(settings).script(seed),
            Model::Redis | Model::RedisReads => RedisSettings::of(settings).script(seed),
        }
    }
}

/// What can be set: these tables, in one of which a default is another.
fn setting_entries(
    tables: &[&'static [SettingInfo]],
    other_default: Option<(&'static str, &'static str)>,
) -> Vec<Setting> {
    let entry = |info: &SettingInfo| Setting {
        key: info.key,
        default: other_default.filter(|(key, _)| *key == info.key).map_or(info.default, |(_, value)| value),
        values: info.kind.to_string(),
        about: info.about,
        source: info.source,
    };
    // Which policy is chosen with an option of its own.
    tables.iter().copied().flatten().filter(|info| info.key != "admission").map(entry).collect()
}

fn requests_settings(tables: &[&'static [SettingInfo]]) -> Settings {
    Settings::new("request-oriented", tables).listed_by("`lode requests --settings`")
}

fn read_script(path: &Path) -> Result<ScriptText, CliError> {
    let failed = |error: &dyn std::fmt::Display| {
        CliError::Failure(format!("Cannot read script {}: {error}; check --script", path.display()))
    };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| failed(&error))?;
    file.take(MAX_SCRIPT_BYTES + 1).read_to_string(&mut text).map_err(|error| failed(&error))?;
    if text.len() as u64 > MAX_SCRIPT_BYTES {
        return Err(failed(&"it is larger than 16 MiB"));
    }
    ScriptText::read(&text).map_err(|error| CliError::Usage(format!("{}: {error}", path.display())))
}

fn ended(text: &ScriptText, reports: &[RequestsReport]) -> Vec<Ended> {
    let of = |(at, name): (usize, &str)| Ended {
        process: name.to_owned(),
        ended_ms: reports.iter().map(|report| report.finished_ns[at].map(|ns| ns as f64 / 1e6)).collect(),
    };
    text.processes().into_iter().enumerate().map(of).collect()
}
