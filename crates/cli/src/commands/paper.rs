//! `lode paper`: the experiments of the papers that Lodestore follows, and how near it comes.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use clap::{Args, ValueEnum};
use lode_papers::at_hand::REAL;
use lode_papers::auto::{AutoOptions, AutoReport, BudgetFigures, auto_markdown, auto_page, run_auto};
use lode_papers::run::RunOptions;
use lode_papers::workload::Length;
use lode_papers::{
    AtHand, AtHandRun, Chart, ClaimReport, Experiment, ExperimentReport, Paper, PaperReport, PapersError,
    at_hand, experiments, markdown, page, run_at_hand, run_experiments,
};

use crate::amounts::parse_size;
use crate::error::CliError;
use crate::heading::{heading, made};
use crate::output::{self, note};
use crate::progress::Counter;
use crate::results::JsonArgs;
use crate::target::{is_standard_output, write_result};

/// Memory that the requests of one workload may take, unless more is allowed.
const MEMORY: &str = "4GiB";

/// Repeat the experiments of a paper, and compare with what it reports
///
/// Runs the paper's figures and tables on profiles of its workloads, which are synthetic, or on your own copies of the
/// original traces, and shows what the paper says beside what was measured. What a paper claims of any workload is also asked
/// of the other traces in the folder. A few minutes for everything; --full runs the whole workloads.
#[derive(Args)]
#[command(after_help = "\
Examples:
  lode paper etica --figure 12
  lode paper tica --html tica.html
  lode paper etica --traces msr-cambridge/ --json=etica.json
  lode paper etica --figure real --traces traces/
  lode paper all --markdown docs/experiments.md
  lode paper all --figure real --traces traces/ --markdown docs/experiments-traces.md
  lode paper auto --traces traces/ --full --markdown docs/auto-full.md

docs/experiments.md and docs/experiments-traces.md have the results, and docs/traces.md says where public traces come from.")]
pub struct PaperCommand {
    /// The paper.
    paper: Which,

    /// Only this figure (12) or table (T2); real: what the paper claims, on the other traces of the folder alone.
    #[arg(long, value_name = "N")]
    figure: Option<String>,

    /// A folder with copies of the original traces, named after their volumes (hm_1.csv.gz) or workloads (fiu-mail.blkparse.gz, tpcc.csv.gz); what
    /// is missing is made from profiles. Traces of any other name and format are what --figure real is about. With auto: a folder with
    /// any traces.
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,

    /// With auto: only these workloads, by the names of profiles or traces, with commas between them.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Option<Vec<String>>,

    /// Run the whole workloads, which takes hours.
    #[arg(long)]
    full: bool,

    /// Runs at the same time; 0: one for each processor.
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: u16,

    /// Memory that the requests of one workload may take.
    #[arg(long, value_name = "SIZE", default_value = MEMORY, value_parser = parse_size)]
    memory: u64,

    /// Also write a page with every figure to this file; - is standard output, in place of the text.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Also write Markdown to this file; - is standard output, in place of the text.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,

    #[command(flatten)]
    json: JsonArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    /// ETICA: two levels for many VMs
    Etica,
    /// ECI-Cache: one level for many VMs
    EciCache,
    /// TICA: three levels
    Tica,
    /// RPAC: replacement by regions
    Rpac,
    /// Request-oriented durable write caching
    RequestOriented,
    /// All of them
    All,
    /// No paper: auto beside every single scheme, on every profile and every trace of the folder
    Auto,
}

impl Which {
    fn paper(self) -> Option<Paper> {
        match self {
            Which::Etica => Some(Paper::Etica),
            Which::EciCache => Some(Paper::EciCache),
            Which::Tica => Some(Paper::Tica),
            Which::Rpac => Some(Paper::Rpac),
            Which::RequestOriented => Some(Paper::RequestOriented),
            Which::All | Which::Auto => None,
        }
    }
}

impl PaperCommand {
    /// Runs and shows.
    pub fn run(&self) -> Result<(), CliError> {
        if self.only.is_some() && self.paper != Which::Auto {
            return Err(CliError::Usage("--only goes with 'auto'; papers have --figure".to_owned()));
        }
        let (chosen, at_hand) = self.chosen()?;
        let outputs: Vec<(&str, &Path)> = self.outputs().collect();
        let to_standard_output = outputs.iter().filter(|(_, path)| is_standard_output(path)).count();
        if to_standard_output > 1 {
            return Err(CliError::Usage(
                "Only one result can go to standard output; name files for the others, such as --json=paper.json"
                    .to_owned(),
            ));
        }
        if self.paper == Which::Auto {
            return self.run_auto(to_standard_output == 0);
        }
        let mut report = self.report(&chosen, self.length())?;
        if let Some(folder) = self.traces.as_deref().filter(|_| !at_hand.is_empty()) {
            report = report.with_at_hand(self.run_at_hand(&at_hand, folder)?);
        }
        // A page of a full run, or of traces, is no page that a test repeats.
        let is_repeated = self.markdown.is_some() && !self.full && self.traces.is_none();
        let shorter = is_repeated.then(|| self.report(&chosen, Length::Tiny)).transpose()?;
        let text = || format!("{}{}", text_of(&report), self.more());
        let shown = if to_standard_output == 0 { output::write(&text()) } else { Ok(()) };
        let page = || match &self.html {
            Some(path) => write_result(path, &page(&report, &made())?),
            None => Ok(()),
        };
        let words = || match &self.markdown {
            Some(path) => write_result(path, &markdown(&report, shorter.as_ref(), &self.command())),
            None => Ok(()),
        };
        let json = self.json.write_file(&report);
        // What can be shown is shown even where one of them fails.
        shown.and(page()).and(words()).and(json)
    }

    fn outputs(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let others = [("--html", &self.html), ("--markdown", &self.markdown)];
        let others = others.into_iter().filter_map(|(option, path)| Some((option, path.as_deref()?)));
        self.json.outputs().chain(others)
    }

    /// The command that makes the Markdown again: what it shows follows from these words alone.
    fn command(&self) -> String {
        let mut words = vec!["lode".to_owned(), "paper".to_owned()];
        words.extend(self.paper.to_possible_value().map(|value| value.get_name().to_owned()));
        words.extend(self.figure.iter().flat_map(|figure| ["--figure".to_owned(), figure.clone()]));
        words.extend(self.traces.iter().flat_map(|path| ["--traces".to_owned(), path.display().to_string()]));
        words.extend(self.only.iter().flat_map(|names| ["--only".to_owned(), names.join(",")]));
        words.extend(self.full.then(|| "--full".to_owned()));
        words.extend(
            self.markdown.iter().flat_map(|path| ["--markdown".to_owned(), path.display().to_string()]),
        );
        crate::amounts::command_line(&words)
    }

    /// The experiments that were asked for, and the tables on traces at hand.
    fn chosen(&self) -> Result<(Vec<&'static Experiment>, Vec<&'static AtHand>), CliError> {
        let paper = self.paper.paper();
        let is_chosen = |of: Paper| paper.is_none_or(|paper| of == paper);
        let of_paper: Vec<_> = experiments().filter(|experiment| is_chosen(experiment.paper)).collect();
        let real: Vec<_> = at_hand().filter(|one| is_chosen(one.paper)).collect();
        let Some(figure) = &self.figure else { return Ok((of_paper, real)) };
        if self.paper == Which::Auto {
            return Err(CliError::Usage("auto has no figures; name workloads with --only".to_owned()));
        }
        if figure.trim().eq_ignore_ascii_case(REAL) && !real.is_empty() {
            if self.traces.is_none() {
                return Err(CliError::Usage(format!(
                    "--figure {REAL} is what comes out on traces at hand; name their folder with --traces DIR"
                )));
            }
            return Ok((Vec::new(), real));
        }
        if paper.is_none() {
            return Err(CliError::Usage(format!(
                "--figure goes with one paper; name it in place of 'all' (but for {REAL}, which all but one have)"
            )));
        }
        let called: Vec<_> = of_paper.iter().copied().filter(|one| one.is_called(figure)).collect();
        if called.is_empty() {
            let known = of_paper.iter().map(|experiment| experiment.figure);
            let known: Vec<_> = known.chain(real.iter().map(|_| REAL)).collect();
            return Err(CliError::Usage(format!(
                "There is no figure '{figure}'; of this paper there are {}",
                known.join(", ")
            )));
        }
        Ok((called, Vec::new()))
    }

    /// How to get what is not there: the tables on traces at hand, where no folder was named.
    fn more(&self) -> String {
        let paper = self.paper.paper();
        let has_table = at_hand().any(|one| paper.is_none_or(|paper| one.paper == paper));
        if self.traces.is_some() || !has_table {
            return String::new();
        }
        let word = paper.map_or("all", Paper::name);
        format!(
            "What is claimed, on real traces of your own: lode paper {word} --figure {REAL} --traces DIR\n"
        )
    }

    /// Asks the papers of the other traces of the folder, and says what was passed over.
    fn run_at_hand(&self, chosen: &[&AtHand], folder: &Path) -> Result<AtHandRun, CliError> {
        let counter: Mutex<Option<(&'static str, Counter)>> = Mutex::new(None);
        let progress = |what: &'static str, done: usize, of: usize| {
            let mut counter = counter.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if counter.as_ref().is_none_or(|(counted, _)| *counted != what) {
                let name = if what == "runs" { "Running" } else { "Reading" };
                *counter = Some((what, Counter::new(name, what, of as u64)));
            }
            counter.iter().for_each(|(_, counter)| counter.update(done as u64));
        };
        let run = run_at_hand(chosen, folder, &self.options(self.length()), &progress)?;
        drop(counter);
        note(&run.traces.in_words());
        run.traces.passed_over.iter().for_each(|line| note(line));
        if run.experiments.is_empty() && self.figure.is_some() {
            return Err(CliError::Usage(format!(
                "There is no trace in {} that is named after none of the paper's workloads; put some there, in any of the formats of \
                 lode trace info",
                folder.display()
            )));
        }
        Ok(run)
    }

    fn length(&self) -> Length {
        if self.full { Length::Full } else { Length::Reduced }
    }

    fn threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => usize::from(threads),
        }
    }

    /// Runs `auto` beside every single scheme, and shows what came of it.
    fn run_auto(&self, shows_text: bool) -> Result<(), CliError> {
        let options = AutoOptions {
            length: self.length(),
            traces: self.traces.as_deref(),
            only: self.only.as_ref().map(|names| names.iter().cloned().collect()),
            threads: self.threads(),
            memory_bytes: self.memory,
        };
        let counter: Mutex<Option<Counter>> = Mutex::new(None);
        let progress = |done: usize, of: usize| {
            let mut counter = counter.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            counter
                .get_or_insert_with(|| Counter::new("Running", "workloads", of as u64))
                .update(done as u64);
        };
        let report = run_auto(&options, &progress)?;
        report.folder.iter().for_each(|folder| note(&folder.in_words()));
        report.passed_over.iter().for_each(|line| note(line));
        let shown = if shows_text { output::write(&auto_text(&report)) } else { Ok(()) };
        let page = || match &self.html {
            Some(path) => write_result(path, &auto_page(&report, &made())?),
            None => Ok(()),
        };
        let words = || match &self.markdown {
            Some(path) => write_result(path, &auto_markdown(&report, &self.command())),
            None => Ok(()),
        };
        let json = self.json.write_file(&report);
        shown.and(page()).and(words()).and(json)
    }

    fn options(&self, length: Length) -> RunOptions {
        RunOptions { length, traces: Default::default(), threads: self.threads(), memory_bytes: self.memory }
    }

    fn report(&self, chosen: &[&Experiment], length: Length) -> Result<PaperReport, CliError> {
        let looking = |file: &Path| note(&format!("reading {}", file.display()));
        let counter: Mutex<Option<Counter>> = Mutex::new(None);
        let progress = |done: usize, of: usize| {
            let mut counter = counter.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            counter.get_or_insert_with(|| Counter::new("Running", "runs", of as u64)).update(done as u64);
        };
        // Without a figure there is no volume to look for.
        let traces = self.traces.as_deref().filter(|_| !chosen.is_empty());
        let report = run_experiments(chosen, traces, self.options(length), &looking, &progress)?;
        if let Some(folder) = &report.traces {
            folder.in_words().iter().for_each(|sentence| note(sentence));
        }
        Ok(report)
    }
}

impl From<PapersError> for CliError {
    fn from(error: PapersError) -> CliError {
        match error {
            PapersError::Synth(error) => error.into(),
            PapersError::Trace(error) => error.into(),
            PapersError::Replay(error) => error.into(),
            PapersError::Processes(error) => error.into(),
            PapersError::Hardware(error) => error.into(),
            PapersError::Setting(error) => error.into(),
            PapersError::Request(message) => CliError::Usage(message),
            PapersError::Folder { .. } => CliError::Usage(error.to_string()),
            other => CliError::Failure(other.to_string()),
        }
    }
}

fn auto_text(report: &AutoReport) -> String {
    let titles =
        ["workload", "%", "best single", "us", "auto us", "ratio", "chose", "budget used %", "most over %"];
    let mut table = output::table(&titles, 3);
    for case in &report.cases {
        let best = case.best.map_or("-".to_owned(), |best| best.scheme.to_owned());
        let used =
            |budget: &BudgetFigures| budget.auto.ssd_writes as f64 / budget.allowed_blocks.max(1) as f64;
        table.add_row([
            format!("{}{}", case.workload, if case.synthetic { " (made)" } else { "" }),
            case.percent.to_string(),
            best,
            output::number(case.best.and_then(|best| best.latency_us), 0),
            output::number(case.auto.latency_us, 0),
            output::number(case.ratio, 3),
            case.decisions.len().to_string(),
            output::percent(case.budget.as_ref().map(used)),
            output::percent(case.budget.as_ref().map(|budget| budget.most_over)),
        ]);
    }
    format!("{}{table}\n", heading("auto beside every single scheme", Some(report.in_short())))
}

fn text_of(report: &PaperReport) -> String {
    let mut out =
        heading("The papers' experiments", Some(report.in_short().join(" ")).filter(|text| !text.is_empty()));
    for experiment in &report.experiments {
        out.push_str(&section(experiment));
    }
    out
}

fn section(experiment: &ExperimentReport) -> String {
    let ExperimentReport { paper, name, title, ran, conditions, claims, question, notes, charts, .. } =
        experiment;
    let mut out = format!("{}, {name}: {title}\n\nPaper: {ran}.\n", paper.title());
    for (at, condition) in conditions.iter().enumerate() {
        let label = if at == 0 { "Here:  " } else { "       " };
        out.push_str(&format!("{label}{condition}.\n"));
    }
    if !claims.is_empty() {
        let titles = ["what", "paper", "measured", "same direction?", "goal"];
        let mut table = output::table(&titles, 1);
        for row in claims.iter().flat_map(rows) {
            table.add_row(row);
        }
        out.push_str(&format!("\n{table}\n"));
    }
    question.iter().for_each(|text| out.push_str(&format!("\n{text}\n")));
    notes.iter().for_each(|text| out.push_str(&format!("\n{text}.\n")));
    charts.iter().for_each(|chart| out.push_str(&chart_text(chart)));
    out.push('\n');
    out
}

/// A claim's row, and one for each other reading.
fn rows(claim: &ClaimReport) -> Vec<[String; 5]> {
    let own = [
        format!("{} ({})", claim.about, claim.source),
        claim.paper.clone(),
        claim.shown.text(claim.measured),
        claim.verdict().to_owned(),
        claim.goal_text(),
    ];
    let others = claim.otherwise.iter().map(|reading| {
        let measured = claim.shown.text(reading.measured);
        let verdict = reading.verdict().to_owned();
        [format!("  - {}", reading.reading), String::new(), measured, verdict, String::new()]
    });
    std::iter::once(own).chain(others).collect()
}

fn chart_text(chart: &Chart) -> String {
    let (titles, rows) = chart.table();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    let mut table = output::table(&titles, 1);
    for row in rows {
        table.add_row(row);
    }
    format!("\n{}:\n{table}\n", chart.title())
}
