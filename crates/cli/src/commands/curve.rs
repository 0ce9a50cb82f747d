//! `lode curve`: what caches of every size would do for each VM.

use clap::{Args, ValueEnum};
use comfy_table::Table;
use lode_plan::{
    CurveOptions, CurveReport, Cut, Followed, Interval, IntervalReport, MiniOptions, PART_SHARES, PlanError,
    SIMULATED_POWERS, VmCurveReport, auto_method, curves, miniature, parse_interval, parse_method,
    parse_scheme,
};
use lode_replay::InputReport;
use lode_reuse::CurveKind;

use super::planning::{MAX_TABLE_VMS, SAMPLED, TraceArgs, rate_note};
use crate::amounts::{parse_size, show_count, show_size};
use crate::arguments::{inputs_text, warn_of};
use crate::error::CliError;
use crate::heading::heading;
use crate::output::{self, number, percent};
use crate::progress::Bar;
use crate::results::{Columns, PictureArgs, Rows, TableArgs, cell, is_to_standard_output};

/// Measure, for each VM, the hits of caches of every size
///
/// trd counts hits of reads and writes of an LRU cache, urd those of its reads, pod those of the reads that a cache
/// with the write policy of --policy could serve.
#[derive(Args)]
#[command(after_help = "\
Examples:
  lode curve web.csv.gz --metric pod --policy ro
  lode curve *.lode --metric trd --sample rate=0.01 --json=curves.json
  lode curve web.lode --html curves.html")]
pub struct CurveCommand {
    #[command(flatten)]
    traces: TraceArgs,

    /// Which accesses count, and which of them a cache could serve.
    #[arg(long, value_name = "METRIC", default_value = "trd")]
    metric: MetricName,

    /// Write policy of the cache, for --metric pod.
    #[arg(long, value_name = "POLICY")]
    policy: Option<PolicyName>,

    /// How the curve is obtained: exact, rate=R or size=N (a sample of the blocks; a rate is raised where it leaves few), aet (a
    /// model; not for pod of ro or wbwo) or counter-stacks (a model, trd only).
    /// Without it: exact, but of wbwo a sample of a million blocks where there are more.
    #[arg(long, value_name = "HOW", value_parser = parse_method)]
    sample: Option<Followed>,

    /// Simulate this scheme in miniature instead of measuring a metric; settings follow its name as in NAME:KEY=VALUE. Sets are
    /// left out (assoc=0) unless they are among these.
    /// --sample rate=R makes it faster: just that share of the blocks, more where that leaves few, and caches that are smaller by as much;
    /// not for schemes that decide by streams or by regions of several blocks.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["metric", "policy", "interval", "points"])]
    scheme: Option<String>,

    /// With --scheme: sizes of all levels together, ascending; without, every power of two.
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', value_parser = parse_size, requires = "scheme")]
    sizes: Vec<u64>,

    /// With --scheme: the part of a size that is DRAM, 0 to 1, with schemes that use both levels.
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, requires = "scheme")]
    dram_share: f64,

    /// Also look at intervals of so many requests, or so much time such as 10min.
    #[arg(long, value_name = "LENGTH", value_parser = parse_interval)]
    interval: Option<Interval>,

    /// Most points of a curve in JSON and pictures, that of no cache among them; tables ask the whole curve.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(2..))]
    points: u32,

    #[command(flatten)]
    table: TableArgs,

    #[command(flatten)]
    pictures: PictureArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MetricName {
    Trd,
    Urd,
    Pod,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PolicyName {
    /// Read-only: a write invalidates.
    Ro,
    /// Write-back, write-only: reads never allocate.
    Wbwo,
    /// Write-back.
    Wb,
}

impl CurveCommand {
    /// Measures and shows.
    pub fn run(&self) -> Result<(), CliError> {
        let outputs: Vec<_> = self.table.outputs().chain(self.pictures.outputs()).collect();
        self.traces.check(&outputs, &[])?;
        self.pictures.check()?;
        let report = match &self.scheme {
            Some(scheme) => self.simulate(scheme)?,
            None => self.measure()?,
        };
        report.inputs.iter().for_each(warn_of);
        report.warnings.iter().for_each(|warning| output::warn(warning));
        // What can be shown is shown even where the pictures fail, and the other way round.
        let is_shown = !outputs.into_iter().any(is_to_standard_output);
        let head = || heading("Hits by cache size", report.in_short());
        let text = || head() + &self.text_of(&report) + &inputs_text(&report.inputs);
        let shown = if is_shown { output::write(&text()) } else { Ok(()) };
        let tables = self.table.write(&report, || csv_rows(&report));
        self.pictures.write(&report, lode_plan::curve_page, lode_plan::curve_picture)?;
        shown.and(tables)
    }

    /// Cuts the work by time if there is one trace and several threads; where its exact tables exceed the memory, once
    /// more by VM, which can follow a part of the blocks.
    fn measure(&self) -> Result<CurveReport, CliError> {
        let kind = self.kind()?;
        let mut options = CurveOptions {
            stream: self.traces.stream(self.interval),
            kind,
            method: self.sample.map_or_else(|| auto_method(kind == CurveKind::Wbwo), Followed::method),
            cut: Cut::Vms,
        };
        if options.can_be_cut_by_time() && self.traces.can_use_threads_on_one_vm() {
            options.cut = Cut::Time;
            match self.measure_with(&options) {
                Err(PlanError::Memory { .. }) => options.cut = Cut::Vms,
                other => return Ok(other?),
            }
        }
        Ok(self.measure_with(&options)?)
    }

    fn measure_with(&self, options: &CurveOptions) -> Result<CurveReport, PlanError> {
        let mut merge = self.traces.open()?;
        let mut bar = Bar::new("Measuring");
        let found = curves(&mut merge, options, &mut |merge| {
            bar.update(merge.readers().map(|reader| reader.progress()));
        })?;
        Ok(CurveReport::new(&found, options, &merge, self.points as usize))
    }

    fn simulate(&self, scheme: &str) -> Result<CurveReport, CliError> {
        let rate = match self.sample {
            None | Some(Followed::Exact) => 1.0,
            Some(Followed::Rate(rate)) => rate,
            _ => {
                return Err(CliError::Usage(
                    "A scheme is simulated with --sample exact or rate=R".to_owned(),
                ));
            }
        };
        let block_bytes = self.traces.block.bytes();
        let sizes_blocks = match &self.sizes[..] {
            [] => SIMULATED_POWERS.map(|power| (1 << power) / block_bytes).collect(),
            sizes => sizes.iter().map(|bytes| bytes / block_bytes).collect(),
        };
        let options = MiniOptions {
            stream: self.traces.stream(None),
            settings: parse_scheme(scheme)?.1,
            sizes_blocks,
            dram_share: self.dram_share,
            rate,
        };
        let mut merge = self.traces.open()?;
        let mut bar = Bar::new("Simulating");
        let found = miniature(&mut merge, &options, &mut |merge| {
            bar.update(merge.readers().map(|reader| reader.progress()));
        })?;
        Ok(CurveReport::of_simulation(&found, &options, &merge))
    }

    fn text_of(&self, report: &CurveReport) -> String {
        let mut text = match &report.policy {
            Some(policy) => format!("{} {policy}", report.metric),
            None => report.metric.to_owned(),
        };
        text += &format!(", {}, blocks of {}\n", report.method, show_size(report.block_bytes));
        if report.shrinks > 0 {
            text += SAMPLED;
        }
        let vms = || report.vms.iter().take(MAX_TABLE_VMS);
        text += &rate_note(self.sample, report.vms.iter().map(|vm| vm.rate));
        if report.metric == "scheme" {
            text += &followed_note(&report.vms);
        }
        if report.metric == "scheme" {
            text +=
                &format!("Hits by size of all levels together:\n{}\n", simulated(vms(), report.block_bytes));
        } else {
            text += &format!(
                "Hits with all that is needed, and with parts of it:\n{}\n",
                measured(vms(), report)
            );
        }
        if vms().any(|vm| vm.intervals.len() > 1) {
            text += &format!(
                "Over the intervals, half of them at most and all of them at most:\n{}\n",
                by_interval(vms(), report)
            );
        }
        if report.vms.len() > MAX_TABLE_VMS {
            let more = show_count((report.vms.len() - MAX_TABLE_VMS) as u64, "more VM");
            text += &format!("{more}; --json shows them all.\n");
        }
        text
    }

    fn kind(&self) -> Result<CurveKind, CliError> {
        match (self.metric, self.policy) {
            (MetricName::Trd, None) => Ok(CurveKind::Trd),
            (MetricName::Urd, None) => Ok(CurveKind::Urd),
            (MetricName::Pod, Some(PolicyName::Ro)) => Ok(CurveKind::Ro),
            (MetricName::Pod, Some(PolicyName::Wbwo)) => Ok(CurveKind::Wbwo),
            (MetricName::Pod, Some(PolicyName::Wb)) => Ok(CurveKind::Wb),
            (MetricName::Pod, None) => Err(CliError::Usage(
                "--metric pod follows a write policy; add --policy ro, wbwo or wb".to_owned(),
            )),
            (_, Some(_)) => Err(CliError::Usage(
                "--policy only goes with --metric pod; leave it out or ask for that metric".to_owned(),
            )),
        }
    }
}

/// A point of a VM's curve.
struct Point<'a> {
    vm: &'a VmCurveReport,
    at: usize,
    block_bytes: u64,
}

impl Point<'_> {
    fn of(&self, values: &Option<Vec<f64>>) -> String {
        cell(values.as_ref().and_then(|values| values.get(self.at)))
    }
}

/// A row for each point of each VM's curve.
fn csv_rows(report: &CurveReport) -> Rows {
    let columns: Columns<Point<'_>, 6> = [
        ("name", |point| point.vm.name.clone()),
        ("blocks", |point| point.vm.curve[point.at].0.to_string()),
        ("bytes", |point| point.vm.curve[point.at].0.saturating_mul(point.block_bytes).to_string()),
        ("hit_ratio", |point| point.vm.curve[point.at].1.to_string()),
        ("standard_error", |point| point.of(&point.vm.standard_error)),
        ("ssd_writes_per_access", |point| point.of(&point.vm.ssd_writes_per_access)),
    ];
    let block_bytes = report.block_bytes;
    let points =
        report.vms.iter().flat_map(|vm| (0..vm.curve.len()).map(move |at| Point { vm, at, block_bytes }));
    Rows::of(&columns, points)
}

/// The part of what is needed whose error is shown.
const ERROR_SHARE: f64 = 0.1;

/// What each VM needs and what parts of that give. Where blocks were sampled, with the standard error of one of them.
fn measured<'a>(vms: impl Iterator<Item = &'a VmCurveReport>, report: &CurveReport) -> Table {
    let shares = PART_SHARES.map(|share| format!("at {} %", 100.0 * share));
    let is_sampled = report.vms.iter().any(|vm| vm.rate < 1.0);
    let mut titles = vec!["VM", "requests", "needed", "hits % of accesses"];
    titles.extend(shares.iter().map(String::as_str));
    let has_times = InputReport::all_have_times(&report.inputs);
    if has_times {
        titles.push("re-use /s");
    }
    if is_sampled {
        titles.extend(["rate", "error at 10 %"]);
    }
    let mut table = output::table(&titles, 1);
    for vm in vms {
        let needed = vm.blocks.unwrap_or(0);
        let size = show_size(needed.saturating_mul(report.block_bytes));
        let mut cells = vec![vm.name.clone(), vm.requests.to_string(), size];
        cells.push(percent(vm.curve.last().map(|point| point.1)));
        cells.extend(vm.parts.iter().map(|part| percent(Some(part.hit_ratio))));
        if has_times {
            cells.push(
                vm.reuse_intensity_per_s.map_or("-".to_owned(), |intensity| format!("{intensity:.1e}")),
            );
        }
        if is_sampled {
            cells.push(format!("{:.2e}", vm.rate));
            let part = vm.parts.iter().find(|part| part.share == ERROR_SHARE);
            cells.push(percent(part.and_then(|part| part.standard_error)));
        }
        table.add_row(cells);
    }
    table
}

/// What a simulation of a sample rests on; empty when every block was followed.
fn followed_note(vms: &[VmCurveReport]) -> String {
    let sampled = vms.iter().filter(|vm| vm.rate < 1.0);
    let Some(least) = sampled.filter_map(|vm| vm.followed_blocks).min() else { return String::new() };
    format!(
        "A sample was simulated, of {} or more of each VM that has more blocks; there is no estimate of its error.\n",
        show_count(least, "block")
    )
}

/// The sizes that were simulated.
fn simulated<'a>(vms: impl Iterator<Item = &'a VmCurveReport>, block_bytes: u64) -> Table {
    let mut table = output::table(&["VM", "size", "hits % of accesses", "SSD writes per access"], 1);
    for vm in vms {
        let writes = vm.ssd_writes_per_access.iter().flatten();
        for (&(blocks, hit_ratio), &writes) in vm.curve.iter().zip(writes).skip(1) {
            let size = show_size(blocks.saturating_mul(block_bytes));
            table.add_row([vm.name.clone(), size, percent(Some(hit_ratio)), number(Some(writes), 3)]);
        }
    }
    table
}

/// What intervals need and touch: of half of them at most, and of all.
fn by_interval<'a>(vms: impl Iterator<Item = &'a VmCurveReport>, report: &CurveReport) -> Table {
    let titles = ["VM", "intervals", "needed, half", "needed, all", "touched, half", "touched, all"];
    let mut table = output::table(&titles, 1);
    for vm in vms {
        let ends = |value: fn(&IntervalReport) -> u64| {
            let mut values: Vec<u64> = vm.intervals.iter().map(value).collect();
            values.sort_unstable();
            let at = |index: usize| values.get(index).copied().unwrap_or(0);
            [at(values.len().saturating_sub(1) / 2), at(values.len().saturating_sub(1))]
                .map(|blocks| show_size(blocks.saturating_mul(report.block_bytes)))
        };
        let intervals = vm.intervals.len() as u64 + vm.intervals_cut;
        let ([needed_half, needed], [touched_half, touched]) =
            (ends(|interval| interval.blocks), ends(|interval| interval.working_set_blocks));
        table.add_row([vm.name.clone(), intervals.to_string(), needed_half, needed, touched_half, touched]);
    }
    table
}
