//! The loop that drives one scheme per VM. It must not know traces' formats or reports.

use lode_hardware::ServiceTimes;
use lode_policy::{Arrival, Hint, Mirrors, Quota, Scheme, Settings, Sizer};
use lode_trace::vm_block;
use lode_types::{Access, AccessOp, BlockNo, BlockPart, BlockSize, Op, TraceRequest, blocks_of};

use crate::error::ReplayError;
use crate::intervals::Intervals;
use crate::run::shares_follow_demand;
use crate::tally::Tally;

/// Blocks that are decided together. Enough that memory has answered one look ahead at a block when the next one
/// comes, few enough that what it brought is still in the nearest processor cache.
const BATCH: usize = 64;

/// Drives one scheme per VM and the sizer that divides the levels between them.
///
/// Requests are cut into blocks. Blocks wait until there is a batch of them, which is announced as a whole. When the next
/// batch has been announced, too, the schemes look further ahead at all of the first, look by look, so that memory is
/// fetched for many at a time, and decide them in their order. Looking ahead changes no decision.
pub struct Driver<T> {
    build: Box<dyn Fn(Quota) -> T>,
    block_size: BlockSize,
    times: ServiceTimes,
    sizer: Sizer,
    late_share: Quota,
    /// Each with what its requests led to.
    vms: Vec<(T, Tally)>,
    intervals: Intervals,
    /// The batch that is being filled.
    waiting: Vec<Part>,
    /// The batch before it.
    announced: Vec<Part>,
}

/// One block of one request, on its way.
#[derive(Clone, Copy)]
struct Part {
    /// Of a block that is discarded only the block counts.
    arrival: Arrival,
    vm: u32,
    is_discard: bool,
}

impl Part {
    fn is_of_same_vm(&self, other: &Part) -> bool {
        self.vm == other.vm
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Access(AccessOp),
    Discard,
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
}

impl<T: Scheme> Driver<T> {
    /// A driver for `known_vms` VMs that divide `physical` equally until the first sizing; a VM that appears later
    /// has no share before the next sizing. Without sizing every VM has the whole levels for itself. `build` makes
    /// a VM's scheme with its first share.
    pub fn new(
        settings: &Settings,
        physical: Quota,
        block_size: BlockSize,
        times: ServiceTimes,
        known_vms: usize,
        build: impl Fn(Quota) -> T + 'static,
    ) -> Driver<T> {
        let sizer = Sizer::new(settings, physical);
        let share = sizer.first_share(known_vms);
        let late_share = if shares_follow_demand(settings) { Quota::default() } else { share };
        let mut driver = Driver {
            build: Box::new(build),
            block_size,
            times,
            sizer,
            late_share,
            vms: Vec::new(),
            intervals: Intervals::default(),
            waiting: Vec::with_capacity(BATCH),
            announced: Vec::with_capacity(BATCH),
        };
        driver.add_vms(known_vms, share);
        driver
    }

    fn add_vms(&mut self, count: usize, share: Quota) {
        while self.vms.len() < count {
            self.vms.push(((self.build)(share), Tally::new(self.times)));
        }
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
            self.add_vms(vm as usize + 1, self.late_share);
        }
        let op = match request.op {
            Op::Read => AccessOp::Read,
            Op::Write => AccessOp::Write,
            Op::Trim => {
                self.vms[vm as usize].1.trims += 1;
                self.cut(vm, first_block, What::Discard, request);
                return Ok(());
            }
            Op::Flush => {
                self.vms[vm as usize].1.flushes += 1;
                return Ok(());
            }
        };
        // Most requests are one whole block.
        let (size, offset_bytes) = (self.block_size, request.offset_bytes);
        let block = size.block_of(offset_bytes);
        if u64::from(request.length_bytes) == size.bytes() && size.start_of(block) == offset_bytes {
            let part = BlockPart { block, start: 0, len: request.length_bytes, partial: false };
            self.wait(vm, first_block, What::Access(op), request, part, true);
        } else {
            self.cut(vm, first_block, What::Access(op), request);
        }
        Ok(())
    }

    /// Takes a request of any extent block by block.
    fn cut(&mut self, vm: u32, first_block: BlockNo, what: What, request: &TraceRequest) {
        let parts = blocks_of(self.block_size, request.offset_bytes, request.length_bytes.into());
        let mut left = parts.len();
        for part in parts {
            left -= 1;
            if !(part.partial && what == What::Discard) {
                self.wait(vm, first_block, what, request, part, left == 0);
            }
        }
    }

    /// Adds one block to those that wait for their decision.
    #[inline(always)]
    fn wait(
        &mut self,
        vm: u32,
        first_block: BlockNo,
        what: What,
        request: &TraceRequest,
        part: BlockPart,
        last: bool,
    ) {
        let block = first_block | part.block;
        let (op, is_discard) = match what {
            What::Access(op) => (op, false),
            What::Discard => (AccessOp::Write, true),
        };
        let access = Access { block, op, partial: part.partial, origin: request.origin };
        let arrival = Arrival { access, hint: Hint::UNANNOUNCED, now_ns: request.time_ns, last };
        self.waiting.push(Part { arrival, vm, is_discard });
        if self.waiting.len() == BATCH {
            self.announce_batch();
        }
    }

    /// Decides everything that is outstanding.
    pub fn finish(&mut self) {
        self.announce_batch();
        self.decide_batch();
    }

    /// Announces the batch that was filled, and decides the one before it.
    fn announce_batch(&mut self) {
        for run in self.waiting.chunk_by_mut(Part::is_of_same_vm) {
            let (scheme, _) = &self.vms[run[0].vm as usize];
            scheme.announce_all(
                run.iter_mut().map(|Part { arrival, .. }| (arrival.access.block, &mut arrival.hint)),
            );
        }
        self.decide_batch();
        std::mem::swap(&mut self.waiting, &mut self.announced);
    }

    /// Decides the batch that was announced.
    fn decide_batch(&mut self) {
        let mut parts = std::mem::take(&mut self.announced);
        for run in parts.chunk_by_mut(Part::is_of_same_vm) {
            let (scheme, _) = &self.vms[run[0].vm as usize];
            scheme
                .locate(run.iter_mut().map(|Part { arrival, .. }| (arrival.access.block, &mut arrival.hint)));
        }
        for run in parts.chunk_by(Part::is_of_same_vm) {
            let (scheme, _) = &self.vms[run[0].vm as usize];
            scheme.follow(run.iter().map(|Part { arrival, .. }| (arrival.access.block, arrival.hint)));
        }
        // Where shares follow demand, they may change after any request.
        let sizes = self.sizer.is_on();
        let goes_on = |part: &Part, next: &Part| {
            part.is_of_same_vm(next) && !(part.is_discard || next.is_discard) && !(sizes && part.arrival.last)
        };
        parts.chunk_by(goes_on).for_each(|run| self.decide(run));
        parts.clear();
        self.announced = parts;
    }

    /// Decides accesses of one VM, or one discard.
    #[inline]
    fn decide(&mut self, run: &[Part]) {
        let Some(&Part { arrival, vm, is_discard }) = run.last() else { return };
        let (scheme, tally) = &mut self.vms[vm as usize];
        if is_discard {
            return scheme.discard(arrival.access.block, tally);
        }
        scheme.decide_all(run.iter().map(|part| &part.arrival), tally);
        if arrival.last && self.sizer.after_request(arrival.now_ns, &mut self.vms) {
            self.intervals.record(self.vms.iter().map(|(scheme, _)| scheme.quota()));
        }
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
            VmOutcome { tally: tally.clone(), first_interval, shares, mirrors: scheme.mirrors() }
        })
    }
}
