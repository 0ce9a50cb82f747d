//! The questions whose answers are reports, as JSON: the same as the command line's. It must not know how Python shows them.

use std::sync::atomic::{AtomicU64, Ordering};

use lode_hardware::Host;
use lode_plan::{
    Answer, CompareOptions, CompareProgress, CompareReport, ComparedSchemes, CurveOptions, CurveReport, Cut,
    DivisionWords, Followed, LevelSize, Load, Made, Means, MiniOptions, PlanError, SIMULATED_POWERS,
    ServeOptions, SizeOptions, VmLoad, VmRule, Wish, answer, auto_method, compare, curves, measure,
    method_used, miniature, pair_sizes, parse_interval, parse_method, parse_money, parse_rule,
    parse_sampling, parse_scheme, parse_wish, size_page,
};
use lode_policy::{Quota, SchemeEntry, SchemeInfo, all_schemes};
use lode_replay::{
    Future, Options, Recording, ReplayError, Report, RequestStream, level_blocks, replay, replay_with_future,
};
use lode_reuse::{CurveKind, Method};
use lode_trace::{Merge, TraceError, VmBy};
use lode_types::{BlockSize, Level, OriginFields, TraceRequest, show_size};
use pyo3::prelude::*;

use crate::asked::{Asked, Common, Devices, size_of};
use crate::error::Failure;
use crate::job::{Control, run};
use crate::source::Source;

/// A result as text.
fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string(value)
        .map_err(|error| Failure::Usage(format!("The result is no JSON: {error}; report it as a bug")))
}

/// Every scheme.
#[pyfunction]
pub fn schemes() -> PyResult<String> {
    Ok(json(&all_schemes().iter().map(SchemeEntry::of).collect::<Vec<_>>())?)
}

/// Which curve is meant.
///
/// # Errors
/// What to write instead.
pub fn kind_of(metric: &str, policy: Option<&str>) -> Result<CurveKind, Failure> {
    let message = match (metric, policy) {
        ("trd", None) => return Ok(CurveKind::Trd),
        ("urd", None) => return Ok(CurveKind::Urd),
        ("pod", Some("ro")) => return Ok(CurveKind::Ro),
        ("pod", Some("wbwo")) => return Ok(CurveKind::Wbwo),
        ("pod", Some("wb")) => return Ok(CurveKind::Wb),
        ("pod", None) => "metric='pod' follows a write policy; add policy='ro', 'wbwo' or 'wb'".to_owned(),
        ("pod", Some(other)) => format!("policy is '{other}'; it is 'ro', 'wbwo' or 'wb'"),
        ("trd" | "urd", Some(_)) => {
            "policy only goes with metric='pod'; leave it out or ask for that metric".to_owned()
        }
        (other, _) => format!("metric is '{other}'; it is 'trd', 'urd' or 'pod'"),
    };
    Err(Failure::Usage(message))
}

/// How curves are obtained: `None` as when nothing is said.
///
/// # Errors
/// What to write instead.
pub fn method_of(sample: Option<&str>, kind: CurveKind) -> Result<Method, Failure> {
    let followed = sample.map(parse_method).transpose()?;
    Ok(followed.map_or_else(|| auto_method(kind == CurveKind::Wbwo), Followed::method))
}

/// Hit curves.
#[pyfunction]
#[pyo3(signature = (sources, common, metric, policy, sample, interval, points, progress))]
#[allow(clippy::too_many_arguments)]
pub fn curve(
    py: Python<'_>,
    sources: Vec<Source>,
    common: Common,
    metric: &str,
    policy: Option<&str>,
    sample: Option<&str>,
    interval: Option<&str>,
    points: usize,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let asked = Asked::new(sources, &common)?;
    let kind = kind_of(metric, policy)?;
    let interval = interval.map(parse_interval).transpose().map_err(Failure::from)?;
    let method = method_of(sample, kind)?;
    if points < 2 {
        return Err(Failure::Usage(format!("points is {points}; write 2 or more")).into());
    }
    run(py, progress, |control| {
        let mut options = CurveOptions { stream: asked.stream(interval), kind, method, cut: Cut::Vms };
        let measured = |options: &CurveOptions| {
            let mut merge = asked.open(&control.stop)?;
            let found = curves(&mut merge, options, &mut |merge| control.tell_read(merge))?;
            Ok::<_, PlanError>(CurveReport::new(&found, options, &merge, points))
        };
        // By time if there is one VM and several threads; where its exact tables exceed the memory, once more by VM.
        if options.can_be_cut_by_time() && asked.can_use_threads_on_one_vm() {
            options.cut = Cut::Time;
            match measured(&options) {
                Err(PlanError::Memory { .. }) => options.cut = Cut::Vms,
                other => return json(&other?),
            }
        }
        json(&measured(&options)?)
    })
}

/// A scheme in miniature.
#[pyfunction]
#[pyo3(signature = (sources, common, scheme, sizes, dram_share, sample, progress))]
#[allow(clippy::too_many_arguments)]
pub fn curve_of_scheme(
    py: Python<'_>,
    sources: Vec<Source>,
    common: Common,
    scheme: &str,
    sizes: Vec<String>,
    dram_share: f64,
    sample: Option<&str>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let asked = Asked::new(sources, &common)?;
    let rate = match sample.map(parse_method).transpose().map_err(Failure::from)? {
        None | Some(Followed::Exact) => 1.0,
        Some(Followed::Rate(rate)) => rate,
        _ => {
            return Err(
                Failure::Usage("A scheme is simulated with sample='exact' or 'rate=R'".to_owned()).into()
            );
        }
    };
    let block_bytes = asked.block.bytes();
    let sizes = sizes.iter().map(|text| size_of("sizes", text)).collect::<Result<Vec<_>, _>>()?;
    let sizes_blocks = match &sizes[..] {
        [] => SIMULATED_POWERS.map(|power| (1 << power) / block_bytes).collect(),
        sizes => sizes.iter().map(|bytes| bytes / block_bytes).collect(),
    };
    let settings = parse_scheme(scheme).map_err(Failure::from)?.1;
    let options = MiniOptions { stream: asked.stream(None), settings, sizes_blocks, dram_share, rate };
    run(py, progress, |control| {
        let mut merge = asked.open(&control.stop)?;
        let found = miniature(&mut merge, &options, &mut |merge| control.tell_read(merge))?;
        json(&CurveReport::of_simulation(&found, &options, &merge))
    })
}

/// Levels, a dictionary in Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Sizes {
    dram: Option<String>,
    ssd: Option<String>,
    read_ssd: Option<String>,
}

impl Sizes {
    /// The blocks of a level; its size must be given if the scheme uses it, even if it is 0.
    fn blocks_of(&self, info: &SchemeInfo, level: Level, block: BlockSize) -> Result<u32, Failure> {
        let (name, size) = match level {
            Level::Dram => ("dram", &self.dram),
            Level::Ssd => ("ssd", &self.ssd),
            Level::ReadSsd => ("read_ssd", &self.read_ssd),
        };
        match size {
            Some(text) => Ok(level_blocks(level, size_of(name, text)?, block)?),
            None if !info.levels.contains(&level) || info.least_blocks(level) > 0 => Ok(0),
            None => Err(Failure::Usage(format!(
                "Scheme '{}' uses the {} level; give {name}='64MiB', for example, or {name}=0",
                info.name,
                level.name()
            ))),
        }
    }
}

/// Requests that end when that is asked for.
struct Stoppable<'a, S> {
    inner: S,
    control: &'a Control,
}

impl<S: RequestStream> RequestStream for Stoppable<'_, S> {
    fn next_batch(&mut self, out: &mut Vec<(u32, TraceRequest)>) -> Result<usize, TraceError> {
        if self.control.stop.load(Ordering::Relaxed) {
            // What comes of it is thrown away.
            out.clear();
            return Ok(0);
        }
        self.inner.next_batch(out)
    }

    fn vm_names(&self) -> Vec<String> {
        self.inner.vm_names()
    }

    fn vm_inputs(&self) -> Vec<usize> {
        self.inner.vm_inputs()
    }

    fn inputs(&self) -> Vec<lode_replay::InputReport> {
        self.inner.inputs()
    }

    fn origins(&self) -> OriginFields {
        self.inner.origins()
    }

    fn warnings(&self) -> Vec<String> {
        self.inner.warnings()
    }
}

/// A scheme over traces.
#[pyfunction]
#[pyo3(name = "replay", signature = (sources, common, scheme, set, sizes, devices, progress))]
#[allow(clippy::too_many_arguments)]
pub fn replay_traces(
    py: Python<'_>,
    sources: Vec<Source>,
    common: Common,
    scheme: &str,
    set: Vec<String>,
    sizes: Sizes,
    devices: Devices,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let asked = Asked::new(sources, &common)?;
    let (_, mut settings) = parse_scheme(scheme).map_err(Failure::from)?;
    set.iter().try_for_each(|pair| settings.set_pair(pair)).map_err(Failure::from)?;
    let info = SchemeInfo::find(settings.scheme()).map_err(Failure::from)?;
    let mut physical = Quota::default();
    for level in Level::ALL {
        physical = physical.with(level, sizes.blocks_of(info, level, asked.block)?);
    }
    info.check_levels(physical).map_err(Failure::from)?;
    info.check_needs(physical).map_err(Failure::from)?;
    let host = devices.host()?;
    let options =
        Options { settings, physical, block_size: asked.block, host, shares: None, daily_ssd_bytes: None };
    run(py, progress, |control| json(&replayed(&asked, info, &options, control)?))
}

fn replayed(
    asked: &Asked,
    info: &SchemeInfo,
    options: &Options,
    control: &Control,
) -> Result<Report, Failure> {
    let known_vms = known_vms(asked, control)?;
    let merge = asked.open(&control.stop)?;
    if !info.needs_future() {
        return Ok(replay(merge, options, known_vms, &mut |merge: &Merge, _| control.tell_read(merge))?);
    }
    // All of the traces, so that the scheme can be told what comes next.
    let too_large =
        || ReplayError::FutureTooLarge { scheme: info.name.to_owned(), most_bytes: asked.memory_bytes };
    let reading = &mut |merge: &Merge, _| control.tell_read(merge);
    let recording = Recording::of(merge, asked.memory_bytes, reading)?.ok_or_else(too_large)?;
    let left_bytes = asked.memory_bytes.saturating_sub(recording.memory_bytes());
    let future = Future::of(&recording, options, left_bytes)?.ok_or_else(too_large)?;
    let known_vms = Some(recording.vm_names().len());
    let playing = Stoppable { inner: recording.play(), control };
    let report = replay_with_future(playing, options, known_vms, Some(&future), &mut |_, _| {})?;
    control.check()?;
    Ok(report)
}

/// How many VMs there will be: their first shares depend on it.
fn known_vms(asked: &Asked, control: &Control) -> Result<Option<usize>, Failure> {
    if !asked.can_be_read_again() {
        return Ok(None);
    }
    let mut vms = 0;
    for source in asked.sources() {
        vms += match (asked.vm_by(), source.count_volumes(control)?) {
            (VmBy::File, Some(volumes)) => volumes.min(1),
            (VmBy::Volume, Some(volumes)) => volumes,
            (_, None) => return Ok(None),
        };
    }
    Ok(Some(vms))
}

/// Schemes side by side.
#[pyfunction]
#[pyo3(name = "compare", signature = (sources, common, schemes, dram, ssd, read_ssd, baseline, devices, progress))]
#[allow(clippy::too_many_arguments)]
pub fn compare_schemes(
    py: Python<'_>,
    sources: Vec<Source>,
    common: Common,
    schemes: Vec<String>,
    dram: Vec<String>,
    ssd: Vec<String>,
    read_ssd: Vec<String>,
    baseline: Option<&str>,
    devices: Devices,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let asked = Asked::new(sources, &common)?;
    if !asked.can_be_read_again() {
        let message =
            "The traces are read more than once, which pipes cannot be; read them with read_trace first";
        return Err(Failure::Usage(message.to_owned()).into());
    }
    if let Some(baseline) = baseline.filter(|name| !schemes.iter().any(|scheme| scheme == name)) {
        let message =
            format!("baseline '{baseline}' is none of the schemes that are compared; add it to schemes");
        return Err(Failure::Usage(message).into());
    }
    let schemes =
        schemes.iter().map(|text| parse_scheme(text)).collect::<Result<_, _>>().map_err(Failure::from)?;
    let lists = [parsed("dram", &dram)?, parsed("ssd", &ssd)?, parsed("read_ssd", &read_ssd)?];
    let host = devices.host()?;
    run(py, progress, |control| {
        let is_part = |size: &LevelSize| matches!(size, LevelSize::Percent(_));
        let footprint_bytes = match lists.iter().flatten().any(is_part) {
            true => Some(footprint_bytes(&asked, control)?),
            false => None,
        };
        let options = CompareOptions {
            schemes: ComparedSchemes::new(schemes),
            sizes: pair_sizes(
                [("dram=", &lists[0]), ("ssd=", &lists[1]), ("read_ssd=", &lists[2])],
                footprint_bytes.unwrap_or(0),
                asked.block,
            )?,
            planned: None,
            block_size: asked.block,
            host,
            threads: asked.threads,
            memory_bytes: asked.memory_bytes,
        };
        let cells = compare(&|| asked.open(&control.stop), &options, &|progress| match progress {
            CompareProgress::Replaying { requests, of_requests, .. } => control.tell(requests, of_requests),
            CompareProgress::Reading(requests) | CompareProgress::Counting(requests) => {
                control.tell(requests, 0)
            }
            CompareProgress::ReadingFuture { .. } => {}
        })?;
        control.check()?;
        let mut report = CompareReport::new(&cells, &options);
        report.footprint_bytes = footprint_bytes;
        if let Some(bytes) = footprint_bytes {
            let footprint = show_size(bytes);
            report.notes.push(format!("Per cent are of the {footprint} that the traces read or write"));
        }
        if let Some(baseline) = baseline {
            report.set_baseline(baseline)?;
        }
        json(&report)
    })
}

fn parsed(name: &str, sizes: &[String]) -> Result<Vec<LevelSize>, Failure> {
    let each = sizes
        .iter()
        .map(|text| text.parse().map_err(|error: String| Failure::Usage(format!("{name}: {error}"))));
    each.collect()
}

/// Bytes of the different 4 KiB blocks that traces read or write, each volume's by themselves.
fn footprint_bytes(asked: &Asked, control: &Control) -> Result<u64, Failure> {
    let mut footprint_bytes = 0_u64;
    for source in asked.sources() {
        let (mut reader, mut batch) = (source.open()?, Vec::new());
        let mut collector = lode_trace::InfoCollector::default();
        while reader.next_batch(&mut batch)? > 0 {
            control.check()?;
            collector.add(&reader, &batch)?;
            control.tell_progress(std::iter::once(reader.progress()));
        }
        footprint_bytes = footprint_bytes.saturating_add(collector.finish(&reader).total.footprint_bytes());
    }
    Ok(footprint_bytes)
}

/// What a division is asked for, a dictionary in Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Division {
    dram: Option<String>,
    ssd: Option<String>,
    budget: Option<String>,
    objective: String,
    scheme: String,
    floor: Option<f64>,
    least: Option<String>,
    solver: String,
    rules: Vec<String>,
    sample: Option<String>,
    replay: bool,
}

/// The same, understood.
struct Understood {
    means: Means,
    options: SizeOptions,
    wish: Wish,
    method: Method,
}

impl Division {
    fn understood(&self, host: &Host, block: BlockSize) -> Result<Understood, Failure> {
        let bytes = |name, text: &Option<String>| text.as_deref().map(|text| size_of(name, text)).transpose();
        let rules = self.rules.iter().map(|text| parse_rule(text)).collect::<Result<Vec<VmRule>, _>>()?;
        let words = DivisionWords {
            dram_bytes: bytes("dram", &self.dram)?,
            ssd_bytes: bytes("ssd", &self.ssd)?,
            budget_usd: self.budget.as_deref().map(parse_money).transpose()?,
            objective: self.objective.clone(),
            floor: self.floor,
            least_bytes: bytes("least", &self.least)?,
            solver: self.solver.clone(),
            rules: &rules,
            spelled: |name| if name == "vm" { "vms:".to_owned() } else { name.to_owned() },
        };
        let sample = self.sample.as_deref().map(parse_sampling).transpose()?;
        Ok(Understood {
            means: words.means(host, block.bytes())?,
            options: words.options(host.service_times(block), block.bytes())?,
            wish: parse_wish(&self.scheme)?,
            method: sample.map_or_else(|| auto_method(true), Followed::method),
        })
    }
}

/// How much of each level every VM should get: as JSON, and as a page where it is told on which day and by which call that is made.
#[pyfunction]
#[pyo3(signature = (sources, common, division, devices, made, progress))]
pub fn size(
    py: Python<'_>,
    sources: Vec<Source>,
    common: Common,
    division: Division,
    devices: Devices,
    made: Option<(String, String)>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<(String, Option<String>)> {
    let asked = Asked::new(sources, &common)?;
    let host = devices.host()?;
    let Understood { means, options, wish, method } = division.understood(&host, asked.block)?;
    run(py, progress, |control| {
        let mut merge = asked.open(&control.stop)?;
        let load = measure(&mut merge, &asked.stream(None), method, &mut |merge| control.tell_read(merge))?;
        let mut answer = answer(&load, means, wish, &options)?;
        let method = method_used(method, load.shrinks, load.vms.iter().map(VmLoad::rate));
        let not_replayed = replay_plan(&asked, &mut answer, &load, &host, division.replay, control)?;
        control.check()?;
        let mut report = answer.report(&load, &options, &host, method, &merge, made.is_some())?;
        report.not_replayed = not_replayed;
        let page = made.map(|(date, command)| size_page(&report, &Made { date, command })).transpose()?;
        Ok((json(&report)?, page))
    })
}

fn replay_plan(
    asked: &Asked,
    answer: &mut Answer,
    load: &Load,
    host: &Host,
    is_wanted: bool,
    control: &Control,
) -> Result<Option<String>, Failure> {
    let why = if !is_wanted {
        Some("")
    } else if !asked.can_be_read_again() {
        Some(": the traces can be read only once")
    } else {
        None
    };
    if let Some(why) = why {
        return Ok(Some(format!("the plan is not replayed, so that wear is an upper bound{why}")));
    }
    let requests: u64 = load.vms.iter().map(|vm| vm.facts.requests).sum();
    let (done, replays) = (AtomicU64::new(0), answer.replays() as u64);
    let options = ServeOptions {
        block_size: asked.block,
        host,
        threads: asked.threads,
        memory_bytes: asked.memory_bytes,
    };
    let left_out = answer.replay(load, &|| asked.open(&control.stop), &options, &|batch| {
        let requests_done = done.fetch_add(batch as u64, Ordering::Relaxed) + batch as u64;
        control.tell(requests_done, replays * requests);
    })?;
    Ok(left_out.map(|left| match left.needed_bytes {
        Some(bytes) => format!("{}; memory='{}MiB' replays it", left.reason, bytes.div_ceil(1 << 20)),
        None => left.reason,
    }))
}
