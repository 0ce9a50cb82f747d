//! From traces to a report. It must not know how a scheme decides.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use lode_hardware::{Host, Operations};
use lode_policy::{AnyScheme, Mirrors, Quota, RequestSource, SchemeInfo, Settings, build, build_with_future};
use lode_trace::{Merge, MergeWarning, QuickSpan, ReadOptions, Reader, TraceError, VmBy, open_trace};
use lode_types::{BlockSize, Level, OriginFields, TraceRequest};

use crate::budget::{Written, budget_warning};
use crate::devices::{HostRun, Pace, short_trace_warning};
use crate::driver::{Driver, VmOutcome};
use crate::error::ReplayError;
use crate::future::Future;
use crate::inputs::InputReport;
use crate::report::{ModelReport, Report, setting_values, vm_reports};

/// Most blocks of one level.
pub const MAX_LEVEL_BLOCKS: u64 = 1 << 30;

/// What to replay with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The scheme and its settings.
    pub settings: Settings,
    /// Blocks of the levels that the VMs divide.
    pub physical: Quota,
    /// Size of a block.
    pub block_size: BlockSize,
    /// The devices.
    pub host: Host,
    /// What each VM has of the levels, by number and for good; a VM beyond the list has nothing. The scheme's
    /// sizing must be off then. `None`: the scheme's own way.
    pub shares: Option<Vec<Quota>>,
    /// Bytes that all VMs together may write to the SSD in a day of the traces. `None`: any number.
    pub daily_ssd_bytes: Option<u64>,
}

impl Options {
    /// Blocks that all VMs together may write to the SSD in a day.
    fn daily_ssd_blocks(&self) -> Option<f64> {
        self.daily_ssd_bytes.map(|bytes| bytes as f64 / self.block_size.bytes() as f64)
    }

    /// Refuses a budget of all VMs that the scheme cannot hold to.
    fn check_daily_budget(&self, info: &SchemeInfo, has_times: bool) -> Result<(), ReplayError> {
        if self.daily_ssd_bytes.is_none() {
            return Ok(());
        }
        if !info.holds_to_budgets() {
            return Err(ReplayError::HoldsToNoBudget { scheme: info.name });
        }
        if has_times { Ok(()) } else { Err(ReplayError::BudgetNeedsTimes) }
    }
}

/// Where requests come from, by time.
pub trait RequestStream {
    /// Replaces `out` by the next requests with the numbers of their VMs, and says how many; zero at the end.
    ///
    /// # Errors
    /// Those of reading a trace.
    fn next_batch(&mut self, out: &mut Vec<(u32, TraceRequest)>) -> Result<usize, TraceError>;

    /// Names of the VMs met so far, by number.
    fn vm_names(&self) -> Vec<String>;

    /// Which of the traces each VM met so far comes from, by number.
    fn vm_inputs(&self) -> Vec<usize>;

    /// What reading each trace passed over so far.
    fn inputs(&self) -> Vec<InputReport>;

    /// What all traces tell of who asks; nothing, unless it says so.
    fn origins(&self) -> OriginFields {
        OriginFields::NONE
    }

    /// Whether every trace has times.
    fn has_times(&self) -> bool {
        InputReport::all_have_times(&self.inputs())
    }

    /// What the user should hear of the way the traces fit together; complete at the end. Nothing, unless it says so.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

impl RequestStream for Merge {
    fn next_batch(&mut self, out: &mut Vec<(u32, TraceRequest)>) -> Result<usize, TraceError> {
        Merge::next_batch(self, out)
    }

    fn vm_names(&self) -> Vec<String> {
        self.vms().iter().map(|vm| vm.name.clone()).collect()
    }

    fn vm_inputs(&self) -> Vec<usize> {
        self.vms().iter().map(|vm| vm.input).collect()
    }

    fn inputs(&self) -> Vec<InputReport> {
        self.readers().map(InputReport::of).collect()
    }

    fn origins(&self) -> OriginFields {
        self.recorded().origins
    }

    fn warnings(&self) -> Vec<String> {
        Merge::warnings(self).iter().map(|warning| warning_text(warning, self)).collect()
    }
}

/// The blocks of a level of `bytes`, rounded down to whole blocks.
///
/// # Errors
/// [`ReplayError::LevelTooSmall`] when that is none although there are bytes, [`ReplayError::LevelTooLarge`].
pub fn level_blocks(level: Level, bytes: u64, block_size: BlockSize) -> Result<u32, ReplayError> {
    let block_bytes = block_size.bytes();
    match bytes / block_bytes {
        0 if bytes > 0 => Err(ReplayError::LevelTooSmall { level, bytes, block_bytes }),
        blocks if blocks > MAX_LEVEL_BLOCKS => Err(ReplayError::LevelTooLarge { level, bytes }),
        blocks => Ok(blocks as u32),
    }
}

/// Reads the traces once and counts the VMs that a merge of them will have; `None` when that cannot be known
/// because one of them is not a file that can be read twice. `progress` hears of every batch.
///
/// # Errors
/// Those of reading a trace.
pub fn count_vms(
    paths: &[PathBuf],
    read: &ReadOptions,
    vm_by: VmBy,
    progress: &mut dyn FnMut(&Reader),
) -> Result<Option<usize>, ReplayError> {
    if !paths.iter().all(|path| is_file(path)) {
        return Ok(None);
    }
    let mut vms = 0;
    for path in paths {
        let mut reader = open_trace(path, read)?;
        let mut batch = Vec::new();
        let mut seen = Vec::new();
        while reader.next_batch(&mut batch)? > 0 {
            progress(&reader);
            if vm_by == VmBy::File {
                seen = vec![true];
                break;
            }
            seen.resize(reader.volumes().len(), false);
            for request in &batch {
                seen[request.volume as usize] = true;
            }
        }
        vms += seen.iter().filter(|&&seen| seen).count();
    }
    Ok(Some(vms))
}

fn is_file(path: &Path) -> bool {
    path.as_os_str() != "-" && path.metadata().is_ok_and(|metadata| metadata.is_file())
}

/// Replays requests through one scheme per VM. `known_vms` is what [`count_vms`] found; without it, the VMs of the
/// first batch count as known. `progress` hears of every batch and how many requests it had.
///
/// # Errors
/// [`ReplayError::Setting`] when the scheme does not use a level that there is, needs one that there is not, needs the
/// future, or to know more of who asks than the traces tell;
/// [`ReplayError::Trace`].
pub fn replay<S: RequestStream>(
    source: S,
    options: &Options,
    known_vms: Option<usize>,
    progress: &mut dyn FnMut(&S, usize),
) -> Result<Report, ReplayError> {
    replay_with_future(source, options, known_vms, None, progress)
}

/// [`replay`] of a recording whose `future` is known, as far as the scheme needs it.
///
/// # Errors
/// As [`replay`].
pub fn replay_with_future<S: RequestStream>(
    mut source: S,
    options: &Options,
    known_vms: Option<usize>,
    future: Option<&Future>,
    progress: &mut dyn FnMut(&S, usize),
) -> Result<Report, ReplayError> {
    let mut batch = Vec::new();
    let first = source.next_batch(&mut batch);
    let info = SchemeInfo::find(options.settings.scheme())?;
    options.check_daily_budget(info, source.has_times())?;
    info.check_origins(&options.settings, source.origins(), RequestSource::Trace)?;
    if !source.has_times() {
        info.check_without_times(&options.settings)?;
    }
    let mut run = ReplayRun::new(options, known_vms.unwrap_or_else(|| source.vm_names().len()), future)?;
    first?;
    while !batch.is_empty() {
        run.take(&batch, &source)?;
        progress(&source, batch.len());
        source.next_batch(&mut batch)?;
    }
    run.driver.finish();
    Ok(report(&run, &source, options))
}

/// A replay under way. It does not know its source, so that the loop over the schemes is compiled once and not again for
/// every source in every crate that has one.
struct ReplayRun {
    driver: Driver<AnyScheme>,
    span: QuickSpan,
    /// Of each trace.
    input_spans: Vec<QuickSpan>,
    /// Which trace each VM comes from.
    vm_inputs: Vec<usize>,
}

impl ReplayRun {
    fn new(options: &Options, known_vms: usize, future: Option<&Future>) -> Result<ReplayRun, ReplayError> {
        let info = SchemeInfo::find(options.settings.scheme())?;
        info.check_levels(options.physical)?;
        info.check_needs(options.physical)?;
        if future.is_none() {
            info.check_without_future()?;
        }
        let times = options.host.service_times(options.block_size);
        let (physical, block_size) = (options.physical, options.block_size);
        let build = builder(options, future.cloned());
        let mut driver = Driver::new(&options.settings, physical, block_size, times, known_vms, build);
        if let Some(blocks) = options.daily_ssd_blocks() {
            driver = driver.with_daily_budget(blocks);
        }
        Ok(ReplayRun { driver, span: QuickSpan::default(), input_spans: Vec::new(), vm_inputs: Vec::new() })
    }

    fn take(&mut self, batch: &[(u32, TraceRequest)], source: &dyn RequestStream) -> Result<(), ReplayError> {
        for (vm, request) in batch {
            self.span.add(request.time_ns);
            let vm_number = *vm as usize;
            if vm_number >= self.vm_inputs.len() {
                self.vm_inputs = source.vm_inputs();
                let inputs = self.vm_inputs.iter().max().map_or(0, |&last| last + 1);
                self.input_spans.resize(inputs, QuickSpan::default());
            }
            if let Some(&input) = self.vm_inputs.get(vm_number) {
                self.input_spans[input].add(request.time_ns);
            }
            self.driver.push(*vm, request)?;
        }
        Ok(())
    }

    /// How long each trace goes, in nanoseconds, because traces of different lengths say nothing of the time after they end.
    /// A trace of no time is as long as all together, which is `span_ns`; `None` when that is no time, too.
    fn input_spans_ns(&self, span_ns: Option<u64>) -> Option<Vec<u64>> {
        let all_ns = span_ns.filter(|&ns| ns > 0)?;
        let own_ns = |span| length_ns(span).filter(|&ns| ns > 0).unwrap_or(all_ns);
        Some(self.input_spans.iter().map(own_ns).collect())
    }

    /// What the VMs of each trace asked of the devices. A VM without a request asked for nothing.
    fn input_operations(&self, outcomes: &[VmOutcome]) -> Vec<Operations> {
        let nothing = Operations { backing_work_ns: Some(0), ..Operations::default() };
        let mut sums = vec![nothing; self.input_spans.len()];
        for (&input, outcome) in self.vm_inputs.iter().zip(outcomes) {
            sums[input].add(&outcome.tally.operations());
        }
        sums
    }
}

/// Makes the schemes of the VMs, which are asked for in the order of their numbers.
fn builder(options: &Options, future: Option<Future>) -> impl Fn(Quota) -> AnyScheme + 'static {
    let settings = options.settings.clone().for_blocks(options.block_size);
    let (physical, shares) = (options.physical, options.shares.clone());
    let made = Cell::new(0);
    move |share| {
        let vm = made.replace(made.get() + 1);
        let share = match &shares {
            Some(shares) => shares.get(vm).copied().unwrap_or_default(),
            None => share,
        };
        match &future {
            Some(future) => build_with_future(&settings, physical, share, &future.of_vm(vm)),
            None => build(&settings, physical, share),
        }
    }
}

/// From the usual first to the usual last request.
fn length_ns(span: &QuickSpan) -> Option<u64> {
    span.usual_ns().map(|(first, last)| last - first)
}

fn report(run: &ReplayRun, source: &dyn RequestStream, options: &Options) -> Report {
    let driver = &run.driver;
    let late = late_warning(run, options);
    let names = source.vm_names();
    let Options { host, block_size, physical, .. } = options;
    let inputs = source.inputs();
    let span_ns = InputReport::all_have_times(&inputs).then(|| length_ns(&run.span).unwrap_or(0));
    let outcomes: Vec<_> = driver.outcomes().collect();
    let paces = run.input_spans_ns(span_ns).map(|spans_ns| {
        run.input_operations(&outcomes)
            .into_iter()
            .zip(spans_ns)
            .map(|(operations, span_ns)| Pace { operations, span_ns })
            .collect::<Vec<_>>()
    });
    let short = paces.iter().flatten().map(|pace| pace.span_ns).min().and_then(short_trace_warning);
    let mirrors = outcomes.iter().filter_map(|outcome| outcome.mirrors).reduce(Mirrors::and);
    let run = HostRun { host, block: *block_size, physical: *physical, span_ns };
    let mut operations = Operations { backing_work_ns: Some(0), ..Operations::default() };
    outcomes.iter().for_each(|outcome| operations.add(&outcome.tally.operations()));
    let names = names.iter().map(String::as_str);
    let (total, vms) = vm_reports(names, outcomes.into_iter(), |tally| run.vm(tally));
    let devices = run.total(operations, paces.as_deref(), mirrors, driver.most_backing_work_ns());
    let written = Written {
        accesses: total.counters.block_accesses,
        ssd_blocks: total.counters.ssd_writes.total,
        vms: vms.len() as u64,
        span_ns,
    };
    let budget = budget_warning(&options.settings, *block_size, options.daily_ssd_blocks(), &written);
    let short = short.filter(|_| devices.ssd_life_years.or(devices.read_ssd_life_years).is_some());
    Report {
        scheme: options.settings.scheme().to_owned(),
        settings: setting_values(&options.settings),
        block_bytes: block_size.bytes(),
        physical: options.physical.into(),
        ssd_write_budget_bytes_per_day: options.daily_ssd_bytes,
        model: ModelReport::new(host, &host.service_times(*block_size)),
        devices,
        total,
        vms,
        intervals_cut: driver.intervals_cut(),
        inputs,
        warnings: source.warnings().into_iter().chain(late).chain(budget).chain(short).collect(),
    }
}

/// Says that VMs have nothing of the levels because nobody knew of them in time.
fn late_warning(run: &ReplayRun, options: &Options) -> Option<String> {
    let late = run.driver.vms_without_share();
    let is_dealt_here = options.shares.is_none();
    (late > 0 && is_dealt_here).then(|| {
        let volumes = if late == 1 { "1 volume".to_owned() } else { format!("{late} volumes") };
        format!(
            "The levels were divided before {volumes} appeared, which therefore had nothing of them; read the traces from \
             files, so that volumes can be counted first, or take each trace for one VM"
        )
    })
}

fn warning_text(warning: &MergeWarning, merge: &Merge) -> String {
    let paths = |inputs: &[usize]| {
        let readers = merge.readers().enumerate().filter(|(input, _)| inputs.contains(input));
        readers.map(|(_, reader)| reader.path().display().to_string()).collect::<Vec<_>>().join(", ")
    };
    match warning {
        MergeWarning::NoOverlap { inputs } => format!(
            "The times of {} overlap with no other trace, so that they ran one after the other; \
             align the traces at their start to run them together",
            paths(inputs)
        ),
        MergeWarning::NoTimes { inputs } => format!(
            "No times in {}: their requests are put one a microsecond from 0 on, so that their order among those of \
             other traces is made up",
            paths(inputs)
        ),
        MergeWarning::BeforeStart { requests } => {
            format!(
                "{requests} requests are earlier than the first one of their trace and were put at its start"
            )
        }
    }
}
