//! From traces to one stream of block accesses a VM, and what is common to all that look at such streams.
//!
//! Requests are cut into blocks and dealt to their VM's consumer; trims and flushes are counted and change nothing,
//! because no curve knows them. It must not know what consumers compute.

use lode_policy::Since;
use lode_reuse::{Method, ReuseError};
use lode_trace::{Merge, QuickSpan, vm_block};
use lode_types::{BlockSize, Direction, RequestOp, TraceRequest, blocks_of};

use crate::error::PlanError;
use crate::look_ahead::{distinct_blocks, least_bytes};
use crate::pool::{BlockAccess, Consumer, Failure, Pool};

/// Accesses that are dealt to a VM's consumer at once.
const BATCH: usize = 4096;

/// Memory that one access may need at most: tables of two analysers just after they have grown.
const MOST_BYTES_PER_ACCESS: u64 = 128;

/// Least accesses between two looks at the memory in use, so that a run at its limit goes on working.
const LEAST_BETWEEN_LOOKS: u64 = 1 << 16;

/// What is left of a VM's tables when the memory is exceeded, if they were larger: those of some million blocks, of which a
/// sample is as good as one of all that would fit. Fewer rounds of filling the memory and emptying it again are the gain.
const SUNK_BYTES: u64 = 64 << 20;

/// Most intervals that are kept; those after them are counted only.
pub const MAX_INTERVALS: usize = 1 << 16;

/// How long an interval is, over all VMs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interval {
    /// So many requests.
    Requests(u64),
    /// So much time on the traces' clock, in nanoseconds.
    TimeNs(u64),
}

/// How traces are followed.
#[derive(Clone, Copy, Debug)]
pub struct StreamOptions {
    /// Size of a block.
    pub block_size: BlockSize,
    /// Threads to work with, at least 1.
    pub threads: usize,
    /// Memory that all VMs' tables may take; where they need more, a sample of the blocks is followed instead.
    pub memory_bytes: u64,
    /// Where intervals end; without, there is one.
    pub interval: Option<Interval>,
    /// Hears when not all blocks of a VM are followed any more, the first time; on the thread that reads.
    pub on_sampling: fn(Sampling),
}

/// What had to be left out to keep within the memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Share of the blocks that is still followed, of the VM of which it is least.
    pub rate: f64,
    /// The memory.
    pub limit_bytes: u64,
}

/// One VM's consumer of its stream.
pub(crate) trait Follower: Consumer<Error = ReuseError> {
    /// Bytes of memory held.
    fn memory_bytes(&self) -> u64;

    /// Follows fewer blocks from now on, to hold less memory; false when that cannot be.
    fn shrink(&mut self) -> bool;

    /// Share of the blocks that is followed.
    fn rate(&self) -> f64;

    /// Blocks beyond which fewer are followed without being asked to.
    fn most_blocks(&self) -> u64;
}

/// Blocks beyond which this method follows a smaller share, without limit.
pub(crate) fn most_blocks(method: Method) -> u64 {
    match method {
        Method::Size(blocks) => blocks.into(),
        _ => u64::MAX,
    }
}

/// What is known of a VM without any table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamFacts {
    /// The VM's name.
    pub name: String,
    /// Reads and writes.
    pub requests: u64,
    /// Requests that were reads.
    pub read_requests: u64,
    /// Requests that were trims; they change no curve.
    pub trims: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Times of its reads and writes.
    pub span: QuickSpan,
    /// Number of the interval in which the VM appeared, from 0.
    pub first_interval: u32,
}

/// What following traces led to.
#[derive(Debug)]
pub(crate) struct Followed<C> {
    /// Each VM's facts and consumer, in order of appearance.
    pub(crate) vms: Vec<(StreamFacts, C)>,
    /// How often blocks had to be left out to keep within the memory.
    pub(crate) shrinks: u64,
    /// Where intervals begin, and where the last one ends, on the traces' clock; none without requests. Those beyond
    /// [`MAX_INTERVALS`] are not kept.
    pub(crate) bounds_ns: Vec<u64>,
}

/// Follows all of `merge`; `make` gives the consumer of the VM of that number. `progress` hears of every batch.
pub(crate) fn follow<C: Follower>(
    merge: &mut Merge,
    options: &StreamOptions,
    make: impl Fn(usize) -> Result<C, ReuseError>,
    progress: &mut dyn FnMut(&Merge),
) -> Result<Followed<C>, PlanError> {
    let untimed = merge.readers().find(|reader| !reader.has_times());
    if let (Some(reader), Some(Interval::TimeNs(_))) = (untimed, options.interval) {
        return Err(PlanError::Request(format!(
            "{} has no times, so that there are no intervals of time; give their length as a number of requests",
            reader.path().display()
        )));
    }
    let (dealt, consumers) = Pool::run(options.threads, |pool| {
        let mut dealer = Dealer::new(pool, *options, &make);
        dealer.deal_all(merge, progress).map(|()| {
            let bounds_ns = dealer.bounds();
            (dealer.lanes, dealer.shrinks, bounds_ns)
        })
    });
    let (lanes, shrinks, bounds_ns) = dealt?;
    let named =
        merge.vms().iter().zip(lanes).map(|(vm, lane)| StreamFacts { name: vm.name.clone(), ..lane.facts });
    Ok(Followed { vms: named.zip(consumers).collect(), shrinks, bounds_ns })
}

struct Lane {
    facts: StreamFacts,
    waiting: Vec<BlockAccess>,
}

/// Cuts requests and deals their blocks.
struct Dealer<'a, C: Follower, F> {
    pool: &'a Pool<C>,
    options: StreamOptions,
    make: &'a F,
    lanes: Vec<Lane>,
    interval: u32,
    requests_in_interval: u64,
    interval_since: Since,
    starts_ns: Vec<u64>,
    latest_ns: u64,
    /// Accesses until the memory in use is looked at again.
    until_look: u64,
    /// Blocks that the batch being dealt touches, by VM, where they cannot all be followed within the memory.
    ahead: Vec<u64>,
    shrinks: u64,
    /// Memory in use that no smaller sample could bring below the limit.
    excess_bytes: Option<u64>,
}

impl<'a, C: Follower, F: Fn(usize) -> Result<C, ReuseError>> Dealer<'a, C, F> {
    fn new(pool: &'a Pool<C>, options: StreamOptions, make: &'a F) -> Dealer<'a, C, F> {
        let until_look = (options.memory_bytes / MOST_BYTES_PER_ACCESS).max(LEAST_BETWEEN_LOOKS);
        Dealer {
            pool,
            options,
            make,
            lanes: Vec::new(),
            interval: 0,
            requests_in_interval: 0,
            interval_since: Since::default(),
            starts_ns: Vec::new(),
            latest_ns: 0,
            until_look,
            ahead: Vec::new(),
            shrinks: 0,
            excess_bytes: None,
        }
    }

    fn deal_all(&mut self, merge: &mut Merge, progress: &mut dyn FnMut(&Merge)) -> Result<(), PlanError> {
        let mut batch = Vec::new();
        while merge.next_batch(&mut batch)? > 0 {
            self.look_ahead(&batch);
            for (vm, request) in &batch {
                self.deal(*vm as usize, request, merge)?;
            }
            if let Some(used) = self.excess_bytes {
                return Err(PlanError::Memory {
                    vms: self.lanes.len(),
                    used_bytes: used,
                    limit_bytes: self.options.memory_bytes,
                });
            }
            progress(merge);
        }
        for vm in 0..self.lanes.len() {
            self.flush(vm).map_err(|failure| named(failure, merge))?;
        }
        self.pool.settled(|_| ()).map_err(|failure| named(failure, merge))
    }

    /// Looks at the memory soon when a batch holds more than fits: to fill it first, only to follow a small part of the
    /// blocks in the end, would take minutes.
    fn look_ahead(&mut self, batch: &[(u32, TraceRequest)]) {
        self.ahead = distinct_blocks(batch, self.options.block_size);
        let least: u64 = self.ahead.iter().map(|&blocks| least_bytes(blocks, 1.0)).sum();
        if least > self.options.memory_bytes {
            self.until_look = self.until_look.min(LEAST_BETWEEN_LOOKS);
        } else {
            self.ahead.clear();
        }
    }

    fn deal(&mut self, vm: usize, request: &TraceRequest, merge: &Merge) -> Result<(), PlanError> {
        let op = access_op(request.op);
        if op.is_some() {
            self.end_interval_before(request.time_ns).map_err(|failure| named(failure, merge))?;
        }
        // After that, so that a VM that begins with an interval belongs to it.
        while self.lanes.len() <= vm {
            self.pool.add_lane((self.make)(self.lanes.len())?);
            self.lanes.push(Lane { facts: StreamFacts::new(self.interval), waiting: Vec::new() });
        }
        let Some(op) = op else {
            self.lanes[vm].facts.trims += u64::from(request.op == RequestOp::Trim);
            return Ok(());
        };
        self.lanes[vm].facts.add(request);
        let name = || merge.vms()[vm].name.clone();
        let mut accesses = accesses_of(op, request, self.options.block_size, name)?;
        loop {
            let waiting = &mut self.lanes[vm].waiting;
            waiting.extend(accesses.by_ref().take(BATCH - waiting.len()));
            if waiting.len() < BATCH {
                return Ok(());
            }
            self.flush(vm).map_err(|failure| named(failure, merge))?;
        }
    }

    fn flush(&mut self, vm: usize) -> Result<(), Failure<C>> {
        let waiting = std::mem::take(&mut self.lanes[vm].waiting);
        if waiting.is_empty() {
            return Ok(());
        }
        let accesses = waiting.len() as u64;
        self.lanes[vm].waiting = self.pool.push(vm, waiting)?;
        self.until_look = self.until_look.saturating_sub(accesses);
        if self.until_look == 0 { self.look_at_memory() } else { Ok(()) }
    }

    /// Keeps within the memory. It happens after the same accesses in every run, and with all work done, so that
    /// what is left out does not depend on timing.
    fn look_at_memory(&mut self) -> Result<(), Failure<C>> {
        let limit = self.options.memory_bytes;
        let ahead = &self.ahead;
        let (used, shrinks, to_come, rate) = self.pool.settled(|followers| {
            let (to_come, early) = shrink_for(followers, ahead, limit);
            let (used, shrinks) = shrink_to(followers, limit);
            (
                used,
                early + shrinks,
                to_come,
                followers.iter().map(|follower| follower.rate()).fold(1.0, f64::min),
            )
        })?;
        if self.shrinks == 0 && shrinks > 0 {
            (self.options.on_sampling)(Sampling { rate, limit_bytes: limit });
        }
        self.shrinks += shrinks;
        self.excess_bytes = (used > limit).then_some(used);
        // What is to come cannot be made small before enough of it is there.
        let accesses = limit.saturating_sub(used.max(to_come)) / MOST_BYTES_PER_ACCESS;
        self.until_look = accesses.max(LEAST_BETWEEN_LOOKS);
        Ok(())
    }

    /// Ends the interval when this request, of which nothing is dealt yet, is the first of the next one.
    fn end_interval_before(&mut self, time_ns: u64) -> Result<(), Failure<C>> {
        if self.interval_since.start_ns().is_none() {
            self.begin_interval(time_ns);
        }
        self.latest_ns = self.latest_ns.max(time_ns);
        self.put_stray_start_right(time_ns);
        let over = match self.options.interval {
            None => false,
            Some(Interval::Requests(requests)) => self.requests_in_interval >= requests,
            Some(Interval::TimeNs(ns)) => self.interval_since.passed_ns(time_ns) >= ns,
        };
        if over {
            for vm in 0..self.lanes.len() {
                self.flush(vm)?;
                self.pool.end_interval(vm)?;
            }
            self.interval += 1;
            self.requests_in_interval = 0;
            self.begin_interval(time_ns);
        }
        self.requests_in_interval += 1;
        Ok(())
    }

    /// An interval of time that begins with a time far ahead of all others begins anew where the times go on.
    fn put_stray_start_right(&mut self, time_ns: u64) {
        let Some(Interval::TimeNs(ns)) = self.options.interval else { return };
        let Some(first_ns) = self.interval_since.put_right(time_ns, ns) else { return };
        self.latest_ns = time_ns.max(first_ns);
        if let Some(kept) = self.starts_ns.get_mut(self.interval as usize) {
            *kept = first_ns;
        }
    }

    fn begin_interval(&mut self, time_ns: u64) {
        self.interval_since.begin(time_ns);
        if self.starts_ns.len() < MAX_INTERVALS {
            self.starts_ns.push(time_ns);
        }
    }

    /// See [`Followed::bounds_ns`].
    fn bounds(&self) -> Vec<u64> {
        let end = (!self.starts_ns.is_empty()).then_some(self.latest_ns);
        self.starts_ns.iter().copied().chain(end).collect()
    }
}

/// The blocks of a read or write of a VM whose name is `name`.
pub(crate) fn accesses_of(
    op: Direction,
    request: &TraceRequest,
    block_size: BlockSize,
    name: impl FnOnce() -> String,
) -> Result<impl Iterator<Item = BlockAccess>, PlanError> {
    let Some(first_block) = vm_block(request.volume, 0) else {
        return Err(PlanError::TooManyVolumes { vm: name(), volume: request.volume });
    };
    let parts = blocks_of(block_size, request.offset_bytes, request.length_bytes.into());
    Ok(parts.map(move |part| (op, first_block | part.block)))
}

/// Whether a request is a read or a write; curves know no other ones.
pub(crate) fn access_op(op: RequestOp) -> Option<Direction> {
    match op {
        RequestOp::Read => Some(Direction::Read),
        RequestOp::Write => Some(Direction::Write),
        RequestOp::Trim | RequestOp::Flush => None,
    }
}

/// Makes followers smaller until what they are bound to follow fits, as far as that can be yet; gives the bytes that it will
/// take at least, and how often blocks were halved.
fn shrink_for<C: Follower>(followers: &mut [&mut C], ahead: &[u64], limit_bytes: u64) -> (u64, u64) {
    // What limits itself needs no help, which would only leave it less than it is allowed.
    let least_of = |follower: &C, blocks| {
        let all = least_bytes(blocks, follower.rate());
        all.min(least_bytes(follower.most_blocks().min(blocks), 1.0))
    };
    let least = |followers: &[&mut C]| -> u64 {
        followers.iter().zip(ahead).map(|(follower, &blocks)| least_of(follower, blocks)).sum()
    };
    let mut shrinks = 0;
    if least(followers) > limit_bytes {
        for (follower, &blocks) in followers.iter_mut().zip(ahead) {
            while least_of(follower, blocks) > SUNK_BYTES && follower.shrink() {
                shrinks += 1;
            }
        }
    }
    (least(followers), shrinks)
}

/// Makes the largest follower smaller until all together fit; gives what they hold then and how often blocks were halved.
fn shrink_to<C: Follower>(followers: &mut [&mut C], limit_bytes: u64) -> (u64, u64) {
    let mut shrinks = 0;
    let mut sizes: Vec<Option<u64>> =
        followers.iter().map(|follower| Some(follower.memory_bytes())).collect();
    let mut used: u64 = sizes.iter().flatten().sum();
    while used > limit_bytes {
        let largest = (0..sizes.len()).rev().filter(|&at| sizes[at].is_some()).max_by_key(|&at| sizes[at]);
        let Some(at) = largest else { break };
        let (halvings, after) = sink(followers[at]);
        shrinks += halvings;
        used = used - sizes[at].unwrap_or(0) + after;
        sizes[at] = (halvings > 0).then_some(after);
    }
    (used, shrinks)
}

/// Halves a follower's blocks until it holds little, but at least once; gives how often that was, and what it holds then.
fn sink(follower: &mut impl Follower) -> (u64, u64) {
    let mut halvings = 0;
    while (halvings == 0 || follower.memory_bytes() > SUNK_BYTES) && follower.shrink() {
        halvings += 1;
    }
    (halvings, follower.memory_bytes())
}

impl StreamFacts {
    /// Nothing is known of a VM that appeared in this interval.
    pub(crate) fn new(first_interval: u32) -> StreamFacts {
        StreamFacts {
            name: String::new(),
            requests: 0,
            read_requests: 0,
            trims: 0,
            read_bytes: 0,
            written_bytes: 0,
            span: QuickSpan::default(),
            first_interval,
        }
    }

    /// Counts a read or a write.
    pub(crate) fn add(&mut self, request: &TraceRequest) {
        let bytes = u64::from(request.length_bytes);
        self.requests += 1;
        if request.op == RequestOp::Read {
            self.read_requests += 1;
            self.read_bytes = self.read_bytes.saturating_add(bytes);
        } else {
            self.written_bytes = self.written_bytes.saturating_add(bytes);
        }
        self.span.add(request.time_ns);
    }
}

fn named((lane, source): (usize, ReuseError), merge: &Merge) -> PlanError {
    let vm = merge.vms().get(lane).map_or_else(String::new, |vm| vm.name.clone());
    PlanError::Vm { vm, source }
}
