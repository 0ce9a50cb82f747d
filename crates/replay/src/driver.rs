//! The loop that drives one scheme per VM. It must not know traces' formats or reports.

use lode_hardware::ServiceTimes;
use lode_policy::{
    AccessTimes, Decisions, Lookahead, Mirroring, Mirrors, PrefetchHint, PrefetchedAccess, Quota, Settings,
    Sizer,
};
use lode_trace::vm_block;
use lode_types::{Access, BlockRange, BlockSize, Direction, RequestOp, TraceRequest, blocks_of};

use crate::busiest::BusiestInterval;
use crate::error::ReplayError;
use crate::host_budget::HostBudget;
use crate::intervals::Intervals;
use crate::minutes::{BUSY_INTERVAL_NS, Minutes};
use crate::tally::Tally;

/// Blocks that are decided together. Enough that memory has answered one step of prefetching when the next one
/// comes, few enough that what it brought is still in the nearest processor cache.
const BATCH: usize = 64;

// A host's budget of SSD writes is looked at as often as in a daemon.
const _: () = assert!(BUSY_INTERVAL_NS == lode_policy::host::BUDGET_INTERVAL_NS);

/// Drives one scheme per VM and the sizer that divides the levels between them.
///
/// Requests are cut into blocks. Blocks wait until there is a batch of them, for which the schemes prefetch as a whole, step by
/// step: the first step when the batch is full, the others when the next one is, just before it is decided in its order.
/// Prefetching changes no decision.
pub struct Driver<T> {
    build: Box<dyn Fn(Quota) -> T>,
    block_size: BlockSize,
    times: ServiceTimes,
    sizer: Sizer,
    /// VMs that were there when the shares were dealt.
    known_vms: usize,
    /// Each with what its requests led to.
    vms: Vec<(T, Tally)>,
    intervals: Intervals,
    minutes: Minutes,
    busiest: BusiestInterval,
    /// What all VMs together may write to the SSD.
    budget: Option<HostBudget>,
    /// The batch that is being filled.
    waiting: Batch,
    /// The batch before it, of which the schemes' indexes are prefetched.
    prefetched: Batch,
}

/// What becomes of a block, and for whom.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Way {
    vm: u32,
    /// Of a block that is discarded only the block counts.
    is_discard: bool,
}

/// Blocks in their order, and where in it the way changes. Whether a block goes the way of the one before it is asked once,
/// as it comes in, and not at every step.
#[derive(Default)]
struct Batch {
    accesses: Vec<PrefetchedAccess>,
    /// Each with its first block's position.
    runs: Vec<(Way, usize)>,
    /// The last run's.
    way: Option<Way>,
}

impl Batch {
    /// Adds a block, for which there is room.
    #[inline(always)]
    fn push(&mut self, way: Way, access: PrefetchedAccess) {
        if self.way != Some(way) {
            self.begin_run(way);
        }
        self.accesses.push(access);
    }

    #[cold]
    fn begin_run(&mut self, way: Way) {
        self.way = Some(way);
        self.runs.push((way, self.accesses.len()));
    }

    /// Runs of blocks that go the same way, in their order.
    fn runs(&mut self) -> impl Iterator<Item = (Way, &mut [PrefetchedAccess])> {
        let ends = self.runs.iter().skip(1).map(|&(_, first)| first).chain([self.accesses.len()]);
        let mut left = &mut self.accesses[..];
        self.runs.iter().zip(ends).map(move |(&(way, first), end)| {
            let (run, rest) = std::mem::take(&mut left).split_at_mut(end - first);
            left = rest;
            (way, run)
        })
    }

    fn clear(&mut self) {
        self.accesses.clear();
        self.runs.clear();
        self.way = None;
    }
}

/// What one VM's run led to.
#[derive(Clone, Debug)]
pub struct VmOutcome {
    /// Counts and times.
    pub tally: Tally,
    /// Number of the first sizing that saw the VM, from 0.
    pub first_interval: usize,
    /// The VM's share after each sizing from that one on.
    pub shares: Vec<Quota>,
    /// Where the second copies of its dirty blocks were; `None` with a scheme that keeps none.
    pub mirrors: Option<Mirrors>,
    /// What its scheme chose; `None` with one that does not choose among others.
    pub decisions: Option<Decisions>,
}

/// The first block that begins another interval, and how long the one before it was.
#[inline]
fn first_of_interval(minutes: &mut Minutes, run: &[PrefetchedAccess]) -> Option<(usize, u64)> {
    run.iter()
        .enumerate()
        .filter(|(_, next)| next.last)
        .find_map(|(at, next)| Some((at, minutes.begins_with(next.now_ns)?)))
}

/// What the objective `latency` counts, of a model of devices: on the disk every block is a random one.
pub fn access_times(times: &ServiceTimes) -> AccessTimes {
    AccessTimes::of_us(times.one_block_us())
}

impl<T: Lookahead> Driver<T> {
    /// A driver for `known_vms` VMs that divide `physical` equally until the first sizing, or for good without one; a VM
    /// that appears later has no share before the next sizing. `build` makes a VM's scheme with its first share.
    pub fn new(
        settings: &Settings,
        physical: Quota,
        block_size: BlockSize,
        times: ServiceTimes,
        known_vms: usize,
        build: impl Fn(Quota) -> T + 'static,
    ) -> Driver<T> {
        let sizer = Sizer::on_devices(settings, physical, access_times(&times));
        let share = sizer.first_share(known_vms);
        let mut driver = Driver {
            build: Box::new(build),
            block_size,
            times,
            sizer,
            known_vms,
            vms: Vec::new(),
            intervals: Intervals::default(),
            minutes: Minutes::default(),
            busiest: BusiestInterval::default(),
            budget: None,
            waiting: Batch::default(),
            prefetched: Batch::default(),
        };
        driver.add_vms(known_vms, share);
        driver
    }

    /// The same, whose VMs together write no more than so many blocks a day to the SSD, as far as their schemes hold to budgets.
    pub fn with_daily_budget(mut self, blocks: f64) -> Driver<T> {
        let mut budget = HostBudget::new(blocks);
        budget.admit(&mut self.vms);
        self.budget = Some(budget);
        self
    }

    fn add_vms(&mut self, count: usize, share: Quota) {
        while self.vms.len() < count {
            self.vms.push(((self.build)(share), Tally::new(self.times)));
        }
        if let Some(budget) = &mut self.budget {
            budget.admit(&mut self.vms);
        }
    }

    /// VMs that appeared after the shares were dealt, and get none because there is no sizing.
    pub fn vms_without_share(&self) -> usize {
        if self.sizer.is_on() { 0 } else { self.vms.len() - self.known_vms }
    }

    /// Takes one request of VM number `vm`. Its decisions may still be outstanding when this returns; see
    /// [`Driver::finish`]. Trims discard the blocks that they cover wholly; flushes are only counted. A read or
    /// write of no bytes touches no block and is not counted.
    ///
    /// # Errors
    /// [`ReplayError::TooManyVolumes`]; nothing of the request is taken then.
    #[inline]
    pub fn push(&mut self, vm: u32, request: &TraceRequest) -> Result<(), ReplayError> {
        let Some(first_block) = vm_block(request.volume, 0) else {
            return Err(ReplayError::TooManyVolumes { vm, volume: request.volume });
        };
        if vm as usize >= self.vms.len() {
            self.add_vms(vm as usize + 1, Quota::default());
        }
        let op = match request.op {
            RequestOp::Read => Direction::Read,
            RequestOp::Write => Direction::Write,
            RequestOp::Trim => {
                self.vms[vm as usize].1.trims += 1;
                Direction::Write
            }
            RequestOp::Flush => {
                self.vms[vm as usize].1.flushes += 1;
                return Ok(());
            }
        };
        let TraceRequest { time_ns, offset_bytes, length_bytes, origin, .. } = *request;
        let (size, way) = (self.block_size, Way { vm, is_discard: request.op == RequestOp::Trim });
        // Most requests are one whole block.
        let block = size.block_of(offset_bytes);
        let access = Access { block: first_block | block, op, partial: false, origin };
        if u64::from(length_bytes) == size.bytes() && size.start_of(block) == offset_bytes {
            self.wait(way, access, time_ns, true);
        } else {
            self.cut(way, Access { block: first_block, ..access }, time_ns, offset_bytes, length_bytes);
        }
        Ok(())
    }

    /// Takes a request of any extent block by block; `first` is an access to the first block of its volume. (It takes no
    /// whole request, because that would then have to be put together in memory for the sake of those that come here.)
    #[inline(never)]
    fn cut(&mut self, way: Way, first: Access, now_ns: u64, offset_bytes: u64, length_bytes: u32) {
        let parts = blocks_of(self.block_size, offset_bytes, length_bytes.into());
        let mut left = parts.len();
        for BlockRange { block, partial, .. } in parts {
            left -= 1;
            if !(partial && way.is_discard) {
                let access = Access { block: first.block | block, partial, ..first };
                self.wait(way, access, now_ns, left == 0);
            }
        }
    }

    /// Adds one block to those that wait for their decision.
    #[inline(always)]
    fn wait(&mut self, way: Way, access: Access, now_ns: u64, last: bool) {
        let hint = PrefetchHint::new(access.block);
        self.waiting.push(way, PrefetchedAccess { access, hint, now_ns, last });
        if self.waiting.accesses.len() == BATCH {
            self.finish_batch();
        }
    }

    /// Decides everything that is outstanding.
    pub fn finish(&mut self) {
        self.finish_batch();
        self.decide_batch();
    }

    /// Prefetches the index for the batch that was filled, and decides the one before it.
    fn finish_batch(&mut self) {
        for (way, run) in self.waiting.runs() {
            let (scheme, _) = &self.vms[way.vm as usize];
            scheme.prefetch_index(run.iter().map(|next| (next.access.block, next.hint)));
        }
        self.decide_batch();
        std::mem::swap(&mut self.waiting, &mut self.prefetched);
    }

    /// Decides the batch for which the index was prefetched.
    fn decide_batch(&mut self) {
        let mut batch = std::mem::take(&mut self.prefetched);
        for (way, run) in batch.runs() {
            let (scheme, _) = &self.vms[way.vm as usize];
            scheme.prefetch_entries(run.iter_mut().map(|next| (next.access.block, &mut next.hint)));
        }
        for (way, run) in batch.runs() {
            let (scheme, _) = &self.vms[way.vm as usize];
            scheme.prefetch_neighbours(run.iter().map(|next| (next.access.block, next.hint)));
        }
        batch.runs().for_each(|(way, run)| self.decide(way, run));
        batch.clear();
        self.prefetched = batch;
    }

    /// Decides blocks that go the same way, those before another interval first. An interval begins with the last block of a request, which
    /// is asked about once: a request of many blocks must not pass for many that say the same time.
    fn decide(&mut self, way: Way, run: &[PrefetchedAccess]) {
        let mut left = run;
        while let Some((at, passed_ns)) = first_of_interval(&mut self.minutes, left) {
            let (before, later) = left.split_at(at);
            self.decide_within(way, before);
            self.end_interval(passed_ns);
            left = later;
        }
        self.decide_within(way, left);
    }

    /// An interval is over that lasted so long.
    fn end_interval(&mut self, passed_ns: u64) {
        self.busiest.end(self.backing_work_ns());
        if let Some(budget) = &mut self.budget {
            budget.look(passed_ns, &mut self.vms);
        }
    }

    /// Decides blocks that go the same way within an interval.
    fn decide_within(&mut self, way: Way, run: &[PrefetchedAccess]) {
        let (scheme, tally) = &mut self.vms[way.vm as usize];
        if way.is_discard {
            run.iter().for_each(|next| scheme.discard(next.access.block, tally));
        } else if self.sizer.follows_requests() {
            self.decide_sized(way.vm, run);
        } else {
            scheme.access_batch(run.iter(), tally);
        }
    }

    /// Decides blocks where the sizer follows requests: all together if nothing comes of any of these requests.
    fn decide_sized(&mut self, vm: u32, run: &[PrefetchedAccess]) {
        let requests = run.iter().map(|next| u64::from(next.last)).sum();
        if requests > self.sizer.quiet_requests() {
            run.split_inclusive(|next| next.last).for_each(|request| self.decide_request(vm, request));
            return;
        }
        let (scheme, tally) = &mut self.vms[vm as usize];
        scheme.access_batch(run.iter(), tally);
        self.sizer.pass_requests(requests);
    }

    /// Decides blocks of one request where the sizer follows requests: after any of them it may do something.
    fn decide_request(&mut self, vm: u32, blocks: &[PrefetchedAccess]) {
        let (scheme, tally) = &mut self.vms[vm as usize];
        scheme.access_batch(blocks.iter(), tally);
        if let Some(&PrefetchedAccess { now_ns, last: true, .. }) = blocks.last()
            && self.sizer.after_request(now_ns, &mut self.vms)
        {
            self.intervals.record(self.vms.iter().map(|(scheme, _)| scheme.quota()));
        }
    }

    /// Time that the backing disks worked for all VMs so far, in nanoseconds.
    fn backing_work_ns(&self) -> u64 {
        self.vms.iter().fold(0, |sum: u64, (_, tally)| sum.saturating_add(tally.backing_work_ns()))
    }

    /// The most of it in one interval of [`BUSY_INTERVAL_NS`](crate::BUSY_INTERVAL_NS).
    pub(crate) fn most_backing_work_ns(&self) -> u64 {
        self.busiest.most_ns(self.backing_work_ns())
    }

    /// The VMs' schemes.
    pub fn schemes(&self) -> impl ExactSizeIterator<Item = &T> {
        self.vms.iter().map(|(scheme, _)| scheme)
    }

    /// Gives the VMs' schemes away.
    pub(crate) fn into_schemes(self) -> impl Iterator<Item = T> {
        self.vms.into_iter().map(|(scheme, _)| scheme)
    }

    /// Sizings whose shares are not in the outcomes, because there were more than
    /// [`MAX_INTERVAL_SHARES`](crate::MAX_INTERVAL_SHARES) shares.
    pub fn intervals_cut(&self) -> u64 {
        self.intervals.cut()
    }

    /// What each VM's run led to so far.
    pub fn outcomes(&self) -> impl Iterator<Item = VmOutcome> {
        self.vms.iter().enumerate().map(|(vm, (scheme, tally))| {
            let (first_interval, shares) = self.intervals.of(vm);
            let mirrors = scheme.mirroring().map(Mirroring::mirrors);
            let decisions = scheme.choosing().map(|choosing| choosing.decisions().clone());
            VmOutcome { tally: tally.clone(), first_interval, shares, mirrors, decisions }
        })
    }
}
