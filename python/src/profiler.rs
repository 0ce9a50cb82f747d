//! Curves of a stream that comes in parts. It must not know where the parts are from.

use std::collections::HashMap;
use std::sync::Mutex;

use lode_plan::{CurveOptions, CurveReport, Curves, Cut, StreamFacts, StreamOptions, VmCurve};
use lode_reuse::{CurveKind, Method, Profiler};
use lode_trace::{Merge, MergeOptions, QuickSpan};
use lode_types::{BlockNo, BlockSize, Direction, RequestOp, TraceRequest, blocks_of};
use pyo3::prelude::*;

use crate::asked::size_of;
use crate::error::Failure;
use crate::job::{Control, run};
use crate::questions::{kind_of, method_of};
use crate::source::Source;

/// Accesses that are looked at together, as of the command line.
const TOGETHER: usize = 4096;

/// One VM.
struct Lane {
    facts: StreamFacts,
    profiler: Profiler,
    /// Accesses that are not looked at yet: a sample sinks between two looks, which must not depend on how the stream was cut.
    waiting: Vec<(Direction, BlockNo)>,
    last_ns: u64,
}

/// All VMs.
struct Lanes {
    kind: CurveKind,
    method: Method,
    block: BlockSize,
    memory_bytes: u64,
    salt: u64,
    lanes: Vec<Lane>,
    numbers: HashMap<String, usize>,
    shrinks: u64,
}

/// A profiler of every volume that it meets.
#[pyclass(frozen, module = "lodestore._lodestore")]
pub struct CurveState {
    lanes: Mutex<Lanes>,
}

impl Lanes {
    fn lane(&mut self, name: &str) -> Result<usize, Failure> {
        if let Some(&number) = self.numbers.get(name) {
            return Ok(number);
        }
        let number = self.lanes.len();
        let profiler = Profiler::new(self.kind, self.method, self.salt + number as u64)?;
        let facts = StreamFacts {
            name: name.to_owned(),
            requests: 0,
            read_requests: 0,
            trims: 0,
            read_bytes: 0,
            written_bytes: 0,
            span: QuickSpan::default(),
            first_interval: 0,
        };
        self.lanes.push(Lane { facts, profiler, waiting: Vec::new(), last_ns: 0 });
        self.numbers.insert(name.to_owned(), number);
        Ok(number)
    }

    fn take(&mut self, source: &Source, control: &Control) -> Result<(), Failure> {
        let (mut reader, mut batch) = (source.open()?, Vec::new());
        let mut numbers: Vec<Option<usize>> = Vec::new();
        let mut rows = 0;
        while reader.next_batch(&mut batch)? > 0 {
            control.check()?;
            control.tell_progress(std::iter::once(reader.progress()));
            numbers.resize(reader.volumes().len(), None);
            for request in &batch {
                let volume = request.volume as usize;
                let number = match numbers[volume] {
                    Some(number) => number,
                    None => {
                        let number = self.lane(&reader.volumes()[volume])?;
                        numbers[volume] = Some(number);
                        number
                    }
                };
                self.lanes[number].add(request, self.block, rows)?;
                rows += 1;
            }
            self.keep_within_memory()?;
        }
        Ok(())
    }

    fn keep_within_memory(&mut self) -> Result<(), Failure> {
        let used = |lanes: &[Lane]| lanes.iter().map(|lane| lane.profiler.memory_bytes() as u64).sum::<u64>();
        while used(&self.lanes) > self.memory_bytes {
            let largest = self.lanes.iter_mut().max_by_key(|lane| lane.profiler.memory_bytes());
            if !largest.is_some_and(|lane| lane.profiler.lower_rate()) {
                let message = "The tables exceed the memory that is allowed; allow more with memory=, or follow fewer blocks \
                               with sample=";
                return Err(Failure::Memory(message.to_owned()));
            }
            self.shrinks += 1;
        }
        Ok(())
    }
}

impl Lane {
    /// Takes in what waits.
    fn look(&mut self) -> Result<(), Failure> {
        let failed = |error| Failure::Trace(format!("{}: {error}", self.facts.name));
        self.profiler.access_all(&self.waiting).map_err(failed)?;
        self.waiting.clear();
        Ok(())
    }

    fn add(&mut self, request: &TraceRequest, block: BlockSize, row: u64) -> Result<(), Failure> {
        if request.time_ns < self.last_ns {
            return Err(Failure::Trace(format!(
                "{}: row {row} is earlier ({} ns) than one before it ({} ns); a volume's requests are needed by time: sort \
                 them by time_ns before partial_fit",
                self.facts.name, request.time_ns, self.last_ns
            )));
        }
        self.last_ns = request.time_ns;
        let direction = match request.op {
            RequestOp::Read => Direction::Read,
            RequestOp::Write => Direction::Write,
            RequestOp::Trim => {
                self.facts.trims += 1;
                return Ok(());
            }
            RequestOp::Flush => return Ok(()),
        };
        let bytes = u64::from(request.length_bytes);
        self.facts.requests += 1;
        if direction == Direction::Read {
            self.facts.read_requests += 1;
            self.facts.read_bytes = self.facts.read_bytes.saturating_add(bytes);
        } else {
            self.facts.written_bytes = self.facts.written_bytes.saturating_add(bytes);
        }
        self.facts.span.add(request.time_ns);
        let parts = blocks_of(block, request.offset_bytes, bytes);
        for part in parts {
            self.waiting.push((direction, part.block));
            if self.waiting.len() == TOGETHER {
                self.look()?;
            }
        }
        Ok(())
    }
}

#[pymethods]
impl CurveState {
    #[new]
    fn new(
        metric: &str,
        policy: Option<&str>,
        sample: Option<&str>,
        block: &str,
        memory: &str,
        salt: u64,
    ) -> PyResult<CurveState> {
        let kind = kind_of(metric, policy)?;
        let method = method_of(sample, kind)?;
        Profiler::new(kind, method, salt).map_err(Failure::from)?;
        let block = BlockSize::new(size_of("block", block)?)
            .map_err(|error| Failure::Usage(format!("block: {error}; write one such as 4KiB")))?;
        let lanes = Lanes {
            kind,
            method,
            block,
            memory_bytes: size_of("memory", memory)?,
            salt,
            lanes: Vec::new(),
            numbers: HashMap::new(),
            shrinks: 0,
        };
        Ok(CurveState { lanes: Mutex::new(lanes) })
    }

    /// Takes in what comes next.
    fn fit(&self, py: Python<'_>, sources: Vec<Source>) -> PyResult<()> {
        run(py, None, |control| {
            let mut lanes = self.lanes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            sources.iter().try_for_each(|source| lanes.take(source, control))
        })
    }

    /// Bytes that the tables take.
    fn memory_bytes(&self) -> usize {
        let lanes = self.lanes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        lanes.lanes.iter().map(|lane| lane.profiler.memory_bytes()).sum()
    }

    /// Of each VM: name, bytes read, bytes written, and the usual first and last time in nanoseconds, if it has requests.
    fn facts(&self) -> Vec<(String, u64, u64, Option<u64>, Option<u64>)> {
        let lanes = self.lanes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let of_lane = |Lane { facts, .. }: &Lane| {
            let (first_ns, last_ns) = facts.span.usual_ns().unzip();
            (facts.name.clone(), facts.read_bytes, facts.written_bytes, first_ns, last_ns)
        };
        lanes.lanes.iter().map(of_lane).collect()
    }

    /// The curves so far, as the report of the command line.
    fn report(&self, py: Python<'_>, points: usize) -> PyResult<String> {
        if points < 2 {
            return Err(Failure::Usage(format!("points is {points}; write 2 or more")).into());
        }
        run(py, None, |_| {
            let mut lanes = self.lanes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            lanes.lanes.iter_mut().try_for_each(Lane::look)?;
            let merge = Merge::new(Vec::new(), MergeOptions::default())?;
            let stream = StreamOptions {
                block_size: lanes.block,
                threads: 1,
                memory_bytes: lanes.memory_bytes,
                interval: None,
                on_sampling: |_| {},
            };
            let options = CurveOptions { stream, kind: lanes.kind, method: lanes.method, cut: Cut::Vms };
            let vms = lanes.lanes.iter().map(|lane| VmCurve {
                facts: lane.facts.clone(),
                curve: lane.profiler.curve(),
                distinct_blocks: lane.profiler.distinct_blocks(),
                rate: lane.profiler.rate(),
                intervals: Vec::new(),
                intervals_cut: 0,
            });
            let curves = Curves { vms: vms.collect(), shrinks: lanes.shrinks, bounds_ns: Vec::new() };
            let report = CurveReport::new(&curves, &options, &merge, points);
            serde_json::to_string(&report)
                .map_err(|error| Failure::Usage(format!("The result is no JSON: {error}")))
        })
    }
}
