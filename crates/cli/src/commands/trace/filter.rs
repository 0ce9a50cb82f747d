//! `lode trace filter`: the part of one or more traces that is wanted.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use lode_replay::InputReport;
use lode_trace::{
    Filter, FilterOptions, Merge, MergeOptions, Moment, VolumePattern, create_compact_with, open_trace,
};
use lode_types::RequestOp;
use serde::Serialize;

use super::summary::{Summary, check_summary, warn_of_shared};
use crate::amounts::show_count;
use crate::arguments::{ReadArgs, warn_of};
use crate::error::CliError;
use crate::output::warn;
use crate::progress::Bar;
use crate::results::JsonArgs;
use crate::target::{OutArgs, Target};

/// Write the requests of some time, volumes or operations; several traces are merged by time
#[derive(Args)]
#[command(after_help = "\
Examples:
  lode trace filter web.csv.gz --from 1h --until 2h -o hour.lode
  lode trace filter day1.csv day2.csv --volume 'src*' --volume hm_0 --op write -o writes.lode

A time is a number with ns, us, ms, s, min, h or d after the first request, or with @ before it on the trace's own
clock, as 'lode trace info --json' shows it: @1266874889.5s. Volumes of the same name in several traces become one.")]
pub struct FilterCommand {
    /// The traces to read, compressed or not; - is standard input.
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,

    /// Requests from this time on.
    #[arg(long, value_name = "TIME")]
    from: Option<Moment>,

    /// Requests before this time.
    #[arg(long, value_name = "TIME")]
    until: Option<Moment>,

    /// Requests to the volume of this name, in which * stands for any characters and ? for one; may be repeated.
    #[arg(long, value_name = "NAME")]
    volume: Vec<VolumePattern>,

    /// Requests that are this; may be repeated.
    #[arg(long, value_name = "OP", value_delimiter = ',')]
    op: Vec<OpName>,

    #[command(flatten)]
    out: OutArgs,

    #[command(flatten)]
    json: JsonArgs,

    #[command(flatten)]
    read: ReadArgs,
}

/// See [`RequestOp`].
#[derive(Clone, Copy, ValueEnum)]
enum OpName {
    Read,
    Write,
    Trim,
    Flush,
}

impl OpName {
    fn op(self) -> RequestOp {
        match self {
            OpName::Read => RequestOp::Read,
            OpName::Write => RequestOp::Write,
            OpName::Trim => RequestOp::Trim,
            OpName::Flush => RequestOp::Flush,
        }
    }
}

/// What the summary adds.
#[derive(Serialize)]
struct Dropped {
    start_ns: Option<u64>,
    dropped: DroppedRequests,
    unmatched: Vec<String>,
}

#[derive(Serialize)]
struct DroppedRequests {
    volume: u64,
    op: u64,
    time: u64,
}

impl DroppedRequests {
    /// That nothing is left, and which option took how many.
    fn in_words(&self, count: u64) -> String {
        let by_option = [("--volume", self.volume), ("--op", self.op), ("--from and --until", self.time)];
        let taken = by_option.into_iter().filter(|(_, requests)| *requests > 0);
        let taken: Vec<_> = taken.map(|(option, requests)| format!("{requests} by {option}")).collect();
        format!(
            "Nothing matches: all {} are left out, {}; lode trace info shows volumes and times",
            show_count(count, "request"),
            taken.join(", ")
        )
    }
}

impl FilterCommand {
    /// Reads, chooses and writes.
    pub fn run(&self) -> Result<(), CliError> {
        self.check_range()?;
        let target = Target::compact(&self.out.output, &self.traces)?;
        check_summary(&self.json, &self.out.output, &self.traces)?;
        let mut filter = Filter::new(FilterOptions {
            from: self.from,
            until: self.until,
            volumes: self.volume.clone(),
            ops: self.op.iter().map(|op| op.op()).collect(),
        });
        let options = self.read.options();
        let readers =
            self.traces.iter().map(|trace| open_trace(trace, &options)).collect::<Result<_, _>>()?;
        let mut merge = Merge::new(readers, MergeOptions::default())?;
        let untimed = merge.readers().find(|reader| !reader.has_times());
        if let Some(reader) = untimed.filter(|_| self.from.is_some() || self.until.is_some()) {
            return Err(CliError::Usage(format!(
                "{} has no times; leave --from and --until out, or take its first requests with lode trace head",
                reader.path().display()
            )));
        }
        target.fill(|path| copy(&mut merge, &mut filter, path))?;
        self.tell(&merge, &filter)
    }

    fn check_range(&self) -> Result<(), CliError> {
        let empty = match (self.from, self.until) {
            (Some(Moment::SinceStart(from)), Some(Moment::SinceStart(until))) => from >= until,
            (Some(Moment::OnClock(from)), Some(Moment::OnClock(until))) => from >= until,
            _ => false,
        };
        if empty {
            return Err(CliError::Usage("--until is not after --from; give a later time".to_owned()));
        }
        Ok(())
    }

    fn tell(&self, merge: &Merge, filter: &Filter) -> Result<(), CliError> {
        let inputs: Vec<_> = merge.readers().map(InputReport::of).collect();
        inputs.iter().for_each(warn_of);
        warn_of_shared(filter.shared_volumes());
        let unmatched: Vec<_> = filter.unmatched().map(ToString::to_string).collect();
        for pattern in &unmatched {
            warn(&format!("No volume with a request is called '{pattern}'; lode trace info lists the names"));
        }
        let facts = filter.facts();
        let dropped =
            DroppedRequests { volume: facts.other_volumes, op: facts.other_ops, time: facts.other_times };
        let count = dropped.volume + dropped.op + dropped.time;
        if facts.kept == 0 && count > 0 {
            warn(&dropped.in_words(count));
        }
        let more = format!(", without {}", show_count(count, "other"));
        let volumes = filter.volumes().len();
        let start_ns = facts.start_ns.filter(|_| merge.has_times());
        let added = Dropped { start_ns, dropped, unmatched };
        Summary::new(&self.out.output, facts.kept, volumes, inputs, added).write(&self.json, &more)
    }
}

fn copy(merge: &mut Merge, filter: &mut Filter, path: &Path) -> Result<(), CliError> {
    let mut writer = create_compact_with(path, merge.recorded())?;
    let (mut batch, mut chosen) = (Vec::new(), Vec::new());
    let mut bar = Bar::new("Filtering");
    while merge.next_batch(&mut batch)? > 0 {
        filter.pass(merge, &batch, &mut chosen)?;
        writer.write(filter.volumes(), &chosen)?;
        bar.update(merge.readers().map(|reader| reader.progress()));
    }
    Ok(writer.close()?)
}
