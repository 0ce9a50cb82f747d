//! `lode size`: how much of each level every VM should get, and why.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::{Args, ValueEnum};
use lode_hardware::Host;
use lode_plan::{
    Answer, DivisionWords, Followed, Load, ServeOptions, SizeReport, VmLoad, VmRule, answer, auto_method,
    measure, method_used, parse_money, parse_rule, parse_sampling, parse_wish,
};

use super::planning::{DeviceArgs, TraceArgs, memory_word};
use super::serve_config::ConfigArgs;
use super::size_text::{PLAN_FILE, csv_rows, other_plan_text, outcome_text, plan_text};
use crate::amounts::{command_line, parse_size, size_word};
use crate::arguments::warn_of;
use crate::error::CliError;
use crate::heading::heading;
use crate::output;
use crate::progress::{Bar, Meter};
use crate::results::{PictureArgs, TableArgs, is_to_standard_output};

/// Divide host memory and SSD between VMs by what each can really use
///
/// Each VM's use is measured by reuse distance: host memory by the reads that a read-only cache serves, SSD by the reads of what
/// host memory does not hold. The plan is then replayed with auto, and with what may be better.
#[derive(Args)]
#[command(after_help = "\
Examples:
  lode size web.csv.gz mail.csv.gz --dram 8GiB --ssd 200GiB
  lode size *.lode --budget 500usd --devices nvme-hdd --html plan.html
  lode size *.lode --dram 8GiB --ssd 200GiB --vm 'db*:weight=2,min-ssd=10GiB' --config host1.toml")]
pub struct SizeCommand {
    #[command(flatten)]
    traces: TraceArgs,

    /// Host memory to divide.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    dram: Option<u64>,

    /// SSD to divide.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    ssd: Option<u64>,

    /// Money for both levels instead of their sizes, such as 500usd: finds the best pairs of sizes.
    #[arg(long, value_name = "MONEY", value_parser = parse_money, allow_hyphen_values = true,
        conflicts_with_all = ["dram", "ssd"])]
    budget: Option<f64>,

    /// What the division maximises.
    #[arg(long, value_name = "WHAT", default_value = "latency")]
    objective: ObjectiveName,

    /// The scheme that the plan is for: auto or etica, which have both levels, a scheme with one SSD level, which has what
    /// both cost (settings follow its name as in NAME:KEY=VALUE), or best, which is auto, unless etica or one level of lru or
    /// of auto is better when all are replayed.
    #[arg(long, value_name = "NAME", default_value = "best")]
    scheme: String,

    /// With --objective ppc-total: the part of its best hit ratio that every VM keeps, 0 to 1 [default: 0.9].
    #[arg(long, value_name = "SHARE")]
    floor: Option<f64>,

    /// With --objective ppc-literal: the smallest size of a VM [default: 1MiB].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    least: Option<u64>,

    /// How the best division is looked for.
    #[arg(long, value_name = "HOW", default_value = "auto")]
    solver: SolverName,

    /// What one VM may have: NAME:KEY=VALUE,... with keys weight, min-dram, max-dram, min-ssd, max-ssd; a * at the
    /// end of the name stands for anything. May be repeated.
    #[arg(long = "vm", value_name = "RULE", value_parser = parse_rule)]
    rules: Vec<VmRule>,

    /// How curves are obtained: exact, rate=R or size=N (a sample of the blocks).
    /// Without it: exact, but a sample of a million blocks of VMs that write more of them.
    #[arg(long, value_name = "HOW", value_parser = parse_sampling)]
    sample: Option<Followed>,

    /// Do not replay the plan.
    #[arg(long)]
    no_replay: bool,

    #[command(flatten)]
    devices: DeviceArgs,

    #[command(flatten)]
    config: ConfigArgs,

    #[command(flatten)]
    table: TableArgs,

    #[command(flatten)]
    pictures: PictureArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ObjectiveName {
    /// Every VM counts the same.
    SumHitRatio,
    /// Every access counts the same.
    Hits,
    /// Mean latency of the VMs' reads and writes at the given devices.
    Latency,
    /// Hit ratios for each block of cache, each VM keeping --floor of its best.
    PpcTotal,
    /// Performance per cost as ETICA prints it, each VM having --least.
    PpcLiteral,
    /// The VM that is worst off.
    Maxmin,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SolverName {
    /// Exact where that is quick, else greedy.
    Auto,
    /// Dynamic programme; refused where it would take long.
    Exact,
    /// Best gain a block first, looking beyond flat parts.
    Greedy,
    /// Anywhere on the curves' hulls, for caches that are cut in two; with sum-hit-ratio, hits or latency.
    Talus,
}

impl SizeCommand {
    /// Measures, divides, replays and shows.
    pub fn run(&self) -> Result<(), CliError> {
        self.check()?;
        let host = self.devices.host()?;
        let (block_bytes, times) = (self.traces.block.bytes(), host.service_times(self.traces.block));
        let means = self.words().means(&host, block_bytes).map_err(CliError::Usage)?;
        let options = self.words().options(times, block_bytes).map_err(CliError::Usage)?;
        let method = self.sample.map_or_else(|| auto_method(true), Followed::method);
        let mut merge = self.traces.open()?;
        let mut bar = Bar::new("Measuring");
        let mut vms_fit = Ok(());
        let load = measure(&mut merge, &self.traces.stream(None), method, &mut |merge| {
            bar.update(merge.readers().map(|reader| reader.progress()));
            // As soon as it is known: whoever waits may not want a plan without the configuration.
            if vms_fit.is_ok() {
                vms_fit = self.config.check_vms(merge.vms().len());
                vms_fit.as_ref().err().iter().for_each(|error| output::warn(&error.to_string()));
            }
        })?;
        drop(bar);
        let mut answer = answer(&load, means, parse_wish(&self.scheme)?, &options)?;
        let method = method_used(method, load.shrinks, load.vms.iter().map(VmLoad::rate));
        let report_of = |answer: &Answer, for_page| {
            answer.report(&load, &options, &host, method.clone(), &merge, for_page)
        };
        let plan = report_of(&answer, false)?;
        plan.inputs.iter().for_each(warn_of);
        plan.warnings.iter().for_each(|warning| output::warn(warning));
        // Replays can take long, and a plan is an answer without them.
        let is_shown = !self.outputs().any(is_to_standard_output);
        let planned =
            if is_shown { output::write(&(heading("Cache plan", None) + &plan_text(&plan))) } else { Ok(()) };
        if planned.is_err() && self.outputs().next().is_none() {
            // Nobody reads on.
            return planned;
        }
        let not_replayed = self.replay(&mut answer, &load, &host)?;
        not_replayed.iter().for_each(|reason| output::warn(reason));
        let mut report = report_of(&answer, self.pictures.has_page())?;
        report.not_replayed = not_replayed;
        let command = self.comparison(&report);
        if let Some(instead) = &mut report.one_level {
            instead.command = command;
        }
        // What can be shown is shown even where files fail, and the other way round.
        let outcome = || other_plan_text(&plan, &report) + &outcome_text(&report);
        let shown = if is_shown { output::write(&outcome()) } else { Ok(()) };
        let tables = self.table.write(&report, || csv_rows(&report));
        self.pictures.write(&report, lode_plan::size_page, lode_plan::size_picture)?;
        self.config.write(&report)?;
        planned.and(shown).and(tables)
    }

    /// Replays the plan, as far as it can be; says why, where not all was replayed.
    fn replay(&self, answer: &mut Answer, load: &Load, host: &Host) -> Result<Option<String>, CliError> {
        let why = if self.no_replay {
            Some("")
        } else if !self.traces.can_be_read_again() {
            Some(": the traces can be read only once")
        } else {
            None
        };
        if let Some(why) = why {
            return Ok(Some(format!("the plan is not replayed, so that wear is an upper bound{why}")));
        }
        let requests: u64 = load.vms.iter().map(|vm| vm.facts.requests).sum();
        let meter = Meter::new();
        let (done, replays) = (AtomicU64::new(0), answer.replays() as u64);
        let options = ServeOptions {
            block_size: self.traces.block,
            host,
            threads: self.traces.threads(),
            memory_bytes: self.traces.memory,
        };
        let left_out = answer.replay(load, &|| self.traces.open(), &options, &|batch| {
            let requests_done = done.fetch_add(batch as u64, Ordering::Relaxed) + batch as u64;
            meter.replaying(requests_done, replays * requests);
        })?;
        Ok(left_out.map(|left| match left.needed_bytes {
            Some(bytes) => format!("{}; --memory {} replays it", left.reason, memory_word(bytes)),
            None => left.reason,
        }))
    }

    /// Where results go beside the text or in place of it, by option.
    fn outputs(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        self.table.outputs().chain(self.pictures.outputs()).chain(self.config.outputs())
    }

    /// What can be found wrong before traces are read.
    fn check(&self) -> Result<(), CliError> {
        self.traces.check(&self.outputs().collect::<Vec<_>>(), &self.devices.files())?;
        self.pictures.check()?;
        parse_wish(&self.scheme)?;
        Ok(())
    }

    /// What is to be divided and for what.
    fn words(&self) -> DivisionWords<'_> {
        DivisionWords {
            dram_bytes: self.dram,
            ssd_bytes: self.ssd,
            budget_usd: self.budget,
            objective: word_of(self.objective),
            floor: self.floor,
            least_bytes: self.least,
            solver: word_of(self.solver),
            rules: &self.rules,
            spelled: |name| format!("--{name}"),
        }
    }

    /// The command that shows the plan beside one SSD level for the same money. Shares of several VMs come from the plan's JSON.
    fn comparison(&self, report: &SizeReport) -> Option<String> {
        let (instead, plan) = (report.one_level.as_ref()?, report.two_levels.as_ref()?);
        let both = format!("{plan},{}", instead.label);
        let options = match &report.vms[..] {
            [vm] => {
                let bytes = |blocks: u64| blocks.saturating_mul(report.block_bytes);
                let (dram, ssd) = (bytes(vm.share.dram_blocks), bytes(vm.share.ssd_blocks));
                let only = size_word(instead.levels.ssd_bytes);
                // Sizes go in pairs: the plan's, and that of the one level, which uses no host memory.
                let (schemes, ssds) = match ssd {
                    0 => (instead.label.clone(), only),
                    _ if ssd == instead.levels.ssd_bytes => (both, only),
                    _ => (both, format!("{},{only}", size_word(ssd))),
                };
                let dram = (dram > 0 && ssd > 0).then(|| ("--dram", size_word(dram)));
                [Some(("--schemes", schemes)), dram, Some(("--ssd", ssds))]
            }
            _ => [Some(("--schemes", both)), Some(("--plan", PLAN_FILE.to_owned())), None],
        };
        let mut words = vec!["lode".to_owned(), "compare".to_owned()];
        words.extend(self.traces.words());
        words.extend(self.devices.words());
        for (option, value) in options.into_iter().flatten() {
            words.extend([option.to_owned(), value]);
        }
        Some(command_line(&words))
    }
}

/// How a choice is written on the command line.
fn word_of(choice: impl ValueEnum) -> String {
    choice.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
