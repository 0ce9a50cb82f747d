//! One VM's disk on its shard: the engine, and the guests' requests that it works on. It must not know sockets or the
//! wire.

mod asked;
mod devices;
mod failing;
mod known;
mod membership;
mod migration;
mod ssd_writes;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use lode_engine::{Answer, ByteList, Engine, GuestError, GuestOp, GuestRequest, Served, SpaceAnswer};
use lode_media::{Done, Driver, FileId, Payload};
use lode_nbd::{Command, ExportInfo, Request, StatusDescriptor};
use lode_policy::host::thinned;
use lode_policy::{Points, Quota, Tenant};
use lode_types::{BlockSize, planted};
use slab::Slab;

use self::asked::op_of;
use self::devices::VolumeSsd;
use self::known::Known;
use crate::allocation::descriptors;
use crate::config::{Limits, WriteBack};
use crate::connection::count;
use crate::dirty_age::DirtyAge;
use crate::fence_file::FenceFile;
use crate::flushes::Flushes;
use crate::guard::UnderGuard;
use crate::latency::Latencies;
use crate::live_scheme::{LiveScheme, SwitchEnd};
use crate::lookups::{Lookup, Lookups};
use crate::messages::{LiveKeys, Measured, ReadCounts};
use crate::request_cost::cost_bytes;
use crate::space::SpaceOfVolume;
use crate::start::Prepared;
use crate::status::{RequestCounts, ShmView};
use crate::vm_log::VmLog;
use crate::waited::Took;

pub(crate) use self::migration::Migration;

/// Most stretches that are kept for such a question.
const MOST_STRETCHES: usize = 128;
/// Blocks that a scheme is told of at least before its volume's guests and others have their turn: a millisecond or two.
const TAKEN_OVER_BLOCKS: usize = 1 << 14;
const NS_PER_S: u64 = 1_000_000_000;
/// Token of the flush that ends a volume's service.
const LAST_FLUSH: u64 = u64::MAX;

/// A guest's request on its way through the engine.
#[derive(Debug)]
struct Pending {
    connection: usize,
    request: Request,
    since_ns: u64,
    /// Of a question what is allocated: what guests had written when it came.
    written: Vec<Range<u64>>,
    /// When the last of its bytes was there.
    arrived_ns: u64,
}

/// A guest's request that is done.
#[derive(Debug)]
pub(crate) struct Answered {
    /// The connection that asked, and waits for the answer.
    pub connection: usize,
    /// What was asked.
    pub request: Request,
    /// What was asked for, or why it failed.
    pub result: Result<ReplyData, Failed>,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    Guest(GuestError),
    /// The disk may be opened elsewhere.
    Released,
}

/// What a request asked for.
#[derive(Debug)]
pub(crate) enum ReplyData {
    /// The bytes of a read.
    Bytes(ByteList),
    /// What is allocated.
    Status(Vec<StatusDescriptor>),
}

/// A VM's disk. See the module's documentation.
pub(crate) struct Volume {
    pub export: ExportInfo,
    /// What its clients may take.
    pub limits: Limits,
    write_back: WriteBack,
    scheme: LiveScheme,
    /// Connections that wait for the engine to have less to do, in order.
    pub stalled: VecDeque<usize>,
    /// Run within [`Shard::guard`](crate::shard::Shard) alone, like whatever of a volume runs it.
    engine: UnderGuard<Engine>,
    /// Where the host divides its levels between volumes.
    space: Option<SpaceOfVolume>,
    backing: FileId,
    ssd: Option<VolumeSsd>,
    read_ssd: Option<FileId>,
    redo: Option<FileId>,
    /// By [`devices::flushed`].
    flushes: Flushes,
    shm: ShmView,
    fence: FenceFile,
    requests: Slab<Pending>,
    /// Questions for the backing file, and the answers to those that ended.
    lookups: Lookups,
    looked_up: VecDeque<Answered>,
    /// Of the requests that the engine works on.
    working_bytes: u64,
    counts: RequestCounts,
    latencies: Latencies,
    /// Those that its disk has.
    pub connections: Arc<AtomicU32>,
    log: VmLog,
    /// The log says that durability has ended.
    told_failure: bool,
    /// The latest drain was stopped before its end.
    drain_cancelled: bool,
    dirty_age: DirtyAge,
    /// Its disk is to be opened elsewhere.
    migration: Option<Migration>,
    /// FLUSH and FUA are acknowledged at once.
    acknowledges_early: bool,
    /// What the engine last said of itself.
    known: Known,
    /// A defect of the program showed, in these words: nothing here is used any more but the flushes, which concern others.
    defect: Option<String>,
    /// How the flush at the end of the service ended.
    last_flush: Option<Result<(), GuestError>>,
}

impl Volume {
    pub(crate) fn new(
        vm: Prepared,
        driver: &mut impl Driver,
        connections: Arc<AtomicU32>,
        log: VmLog,
        space: Option<SpaceOfVolume>,
    ) -> Volume {
        let Prepared {
            engine, scheme, export, backing, ssd, read_ssd, redo, disks, shm, fence, live, ..
        } = vm;
        let acknowledges_early = vm.acknowledges_early;
        let flushes = Flushes::new(vec![Some(disks.backing), disks.ssd, None, disks.redo]);
        let backing = driver.add_file(backing);
        let ssd = ssd.map(|ssd| VolumeSsd::open(ssd, vm.tag, driver));
        let [read_ssd, redo] = [read_ssd, redo].map(|file| file.map(|file| driver.add_file(file)));
        Volume {
            export,
            limits: live.limits,
            write_back: live.write_back,
            scheme,
            stalled: VecDeque::new(),
            engine: UnderGuard::new(engine),
            space,
            backing,
            ssd,
            read_ssd,
            redo,
            flushes,
            shm,
            fence,
            requests: Slab::new(),
            lookups: Lookups::default(),
            looked_up: VecDeque::new(),
            working_bytes: 0,
            counts: RequestCounts::default(),
            latencies: Latencies::new(),
            connections,
            log,
            told_failure: false,
            drain_cancelled: false,
            dirty_age: DirtyAge::default(),
            migration: None,
            acknowledges_early,
            known: Known::default(),
            defect: None,
            last_flush: None,
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.defect.is_some()
    }

    /// From now on whatever runs its engine panics.
    #[cfg(test)]
    pub(crate) fn bring_about_a_defect(&mut self) {
        self.engine.bring_about_a_defect();
    }

    /// How often its engine was run since.
    #[cfg(test)]
    pub(crate) fn runs_since_defect(&self) -> u32 {
        self.engine.uses_since_defect()
    }

    /// Size of its blocks.
    pub(crate) fn block(&self) -> BlockSize {
        self.engine.config().block
    }

    /// Takes back the list of an answer, to be used again.
    pub(crate) fn take_back(&mut self, list: ByteList) {
        self.engine.take_back(list);
    }

    /// Whether it has as much to do as it may have. With nothing to do, one request of any length is taken.
    pub(crate) fn is_full(&self) -> bool {
        self.working_bytes > 0 && self.working_bytes >= self.limits.vm_bytes
    }

    /// A request came in that will be submitted, or a write whose bytes are still to come: it counts from now on.
    pub(crate) fn begin(&mut self, request: &Request) {
        self.working_bytes += cost_bytes(request);
    }

    /// The rest of a write will not come.
    pub(crate) fn abandon_write(&mut self, request: &Request) {
        self.working_bytes -= cost_bytes(request);
    }

    /// Says which requests are submitted next, so that what they need is on its way to the processor.
    pub(crate) fn prefetch(&self, requests: &[Request]) {
        self.engine.prefetch(requests.iter().map(|request| request.offset_bytes));
    }

    /// Hands a request that has begun to the engine, a write with its bytes. It began at `since_ns`.
    pub(crate) fn submit(
        &mut self,
        connection: usize,
        request: &Request,
        data: ByteList,
        since_ns: u64,
        now_ns: u64,
    ) {
        if self.answer_without_disk(connection, request) {
            return;
        }
        if request.command == Command::BlockStatus {
            return self.look_up(connection, request, since_ns);
        }
        let fua = request.flags.fua() && !self.acknowledges_early;
        self.count(request);
        if self.acknowledge_early(connection, request) {
            return;
        }
        if request.command == Command::Flush && connection > 0 && planted("flush-of-its-own-writes-only") {
            let result = Ok(ReplyData::Bytes(ByteList::new()));
            self.looked_up.push_back(Answered { connection, request: *request, result });
            return;
        }
        let op = op_of(request, fua, data);
        let key = self.requests.insert(Pending {
            connection,
            request: *request,
            since_ns,
            arrived_ns: now_ns,
            written: Vec::new(),
        });
        let request = GuestRequest { token: key as u64, op, now_ns };
        let counts = request.is_access();
        self.engine.submit(request);
        if counts {
            self.scheme.after_request(&mut self.engine, now_ns);
        }
    }

    fn count(&mut self, request: &Request) {
        self.counts.fua += u64::from(request.flags.fua());
        match request.command {
            Command::Trim => self.counts.trim += 1,
            Command::WriteZeroes => self.counts.write_zeroes += 1,
            Command::Read | Command::Write | Command::Flush | Command::Cache | Command::BlockStatus => {}
        }
    }

    /// Acknowledges a FLUSH at once, where that was asked for and as long as devices do not fail.
    fn acknowledge_early(&mut self, connection: usize, request: &Request) -> bool {
        let is_early =
            self.acknowledges_early && request.command == Command::Flush && !self.engine.alarms().failed;
        if is_early {
            let result = Ok(ReplyData::Bytes(ByteList::new()));
            self.looked_up.push_back(Answered { connection, request: *request, result });
        }
        is_early
    }

    /// The next request that is done.
    pub(crate) fn next_answer(&mut self, now_ns: u64) -> Option<Answered> {
        if let Some(answered) = self.looked_up.pop_front() {
            self.working_bytes -= cost_bytes(&answered.request);
            return Some(answered);
        }
        loop {
            let Answer { token, result, data, served, waits } = self.engine.next_answer()?;
            if token == LAST_FLUSH {
                self.last_flush = Some(result);
                continue;
            }
            let Pending { connection, request, since_ns, arrived_ns, .. } =
                self.requests.remove(token as usize);
            self.working_bytes -= cost_bytes(&request);
            let all_ns = now_ns.saturating_sub(since_ns);
            let took = Took { all_ns, arrival_ns: arrived_ns.saturating_sub(since_ns), waits };
            self.note_latency(request.command, served, &took);
            self.log.answered(&request, took, now_ns);
            let result = result.map(|()| ReplyData::Bytes(data)).map_err(Failed::Guest);
            return Some(Answered { connection, request, result });
        }
    }

    fn note_latency(&mut self, command: Command, served: Served, took: &Took) {
        match command {
            Command::Read => self.latencies.read(served, took.all_ns),
            Command::Write => self.latencies.write(took.all_ns),
            Command::Flush => self.latencies.flush(took.all_ns),
            Command::Trim | Command::Cache | Command::WriteZeroes | Command::BlockStatus => return,
        }
        self.latencies.waited(took);
    }

    /// Has its scheme take over some more of what the start found on the SSD. True: there is more.
    pub(crate) fn take_over(&mut self) -> bool {
        self.engine.take_over(TAKEN_OVER_BLOCKS)
    }

    /// The same of all that is left.
    pub(crate) fn take_over_the_rest(&mut self) {
        self.engine.take_over_the_rest();
    }

    /// Says what time it is.
    pub(crate) fn set_clock(&mut self, now_ns: u64) {
        self.engine.set_clock(now_ns);
    }

    /// Asks what is allocated. What was written is looked at first: it may come to the backing file meanwhile, and be found
    /// there, but not the other way round.
    fn look_up(&mut self, connection: usize, request: &Request, since_ns: u64) {
        let mut bytes = request.offset_bytes..request.offset_bytes + u64::from(request.length_bytes);
        let mut written = self.engine.written(bytes.clone());
        if let Some(last) = written.get(MOST_STRETCHES) {
            // What is kept for a request is bounded. The rest is for the next one.
            bytes.end = last.start;
            written.truncate(MOST_STRETCHES);
            written.shrink_to_fit();
        }
        let arrived_ns = since_ns;
        let pending = Pending { connection, request: *request, since_ns, arrived_ns, written };
        let key = self.requests.insert(pending) as u64;
        self.lookups.push(Lookup { key, bytes });
    }

    /// The next question for the backing file.
    pub(crate) fn next_lookup(&mut self) -> Option<(FileId, Lookup)> {
        Some((self.backing, self.lookups.next()?))
    }

    /// Takes what the backing file tells.
    pub(crate) fn look_up_ended(&mut self, key: usize, done: Done) {
        let Pending { connection, request, written, .. } = self.requests.remove(key);
        self.lookups.ended();
        let result = match done.payload {
            Payload::FileExtents(file) => Ok(ReplyData::Status(descriptors(&request, &file, &written))),
            _ => Err(Failed::Guest(GuestError::Io)),
        };
        self.looked_up.push_back(Answered { connection, request, result });
    }

    /// A client came or went.
    pub(crate) fn note_client(&mut self, what: &str, now_ns: u64) {
        self.log.client(what, count(&self.connections), now_ns);
    }

    /// About a second has gone by.
    pub(crate) fn tick(&mut self, now_ns: u64) {
        self.ask_engine();
        self.tick_pair();
        self.engine.tick();
        self.drain_on();
        self.note_switch();
        // There the share comes into force as space comes and goes.
        if self.engine.config().largest_share.is_some() {
            self.set_write_back();
        }
        self.log.drain_goes_on(self.draining_blocks(), self.drain_cancelled, now_ns);
        let (version, oldest_dirty) = self.engine.versions();
        self.dirty_age.tick(version, oldest_dirty, now_ns);
        if self.engine.alarms().failed && !self.told_failure {
            self.told_failure = true;
            self.log.failed(
                "the cache SSD or the backing disk failed, and nothing is acknowledged as durable any more; look at both, \
                 then restart the service",
            );
        }
    }

    /// Begins to write back what is dirty now, or stops that.
    pub(crate) fn drain(&mut self, cancel: bool, now_ns: u64) {
        if cancel {
            self.drain_cancelled |= self.engine.drain_left().is_some();
            self.engine.stop_drain();
        } else {
            self.drain_cancelled = false;
            self.engine.drain();
            self.log.drain_begins(self.draining_blocks().unwrap_or(0), now_ns);
        }
    }

    /// Blocks that a drain still has to write back; `None` when there is no drain.
    pub(crate) fn draining_blocks(&self) -> Option<u64> {
        self.engine.drain_left().map(u64::from)
    }

    /// Blocks that are newer than the backing disk, and of those the ones that are damaged.
    pub(crate) fn dirty_and_lost_blocks(&self) -> (u64, u64) {
        let gauges = self.engine.gauges();
        (gauges.dirty_blocks.into(), gauges.lost_blocks.into())
    }

    /// Asks for everything to be made durable, for the end of the service, which is not to wait for what is done in the
    /// background.
    pub(crate) fn begin_end(&mut self, now_ns: u64) {
        self.write_back = WriteBack::Scheme;
        self.set_write_back();
        self.engine.set_scrub_period(None);
        self.take_over_the_rest();
        self.engine.submit(GuestRequest { token: LAST_FLUSH, op: GuestOp::Flush, now_ns });
    }

    /// After [`Volume::begin_end`]: whether everything is durable and nothing is under way; `None` while
    /// that can still come.
    pub(crate) fn ended(&self) -> Option<bool> {
        match self.last_flush? {
            Ok(()) => (self.engine.is_idle() && self.engine.is_saved()).then_some(true),
            Err(_) => Some(false),
        }
    }

    /// Takes over what may change while it is served.
    pub(crate) fn change(&mut self, keys: &LiveKeys) {
        self.limits = keys.limits;
        self.log.set_slow_request_ms(keys.limits.slow_request_ms);
        self.write_back = keys.write_back;
        if keys.scrub.ticks() != self.engine.config().scrub_ticks {
            self.engine.set_scrub_period(keys.scrub.ticks());
        }
        if !self.scheme.switch(&mut self.engine, &keys.settings, keys.largest_share) {
            self.log.scheme_stays(self.scheme.name(), keys.settings.scheme());
        }
        self.note_switch();
        self.set_write_back();
    }

    fn note_switch(&mut self) {
        match self.scheme.switched(&self.engine) {
            Some(SwitchEnd::Done { from }) => self.log.scheme_switched(from, self.scheme.name()),
            Some(SwitchEnd::GivenUp { to }) => self.log.scheme_stays(self.scheme.name(), to),
            None => {}
        }
    }

    /// Says when dirty blocks are written back, of the share in force.
    fn set_write_back(&mut self) {
        let block_bytes = self.engine.config().block.bytes();
        let limits = self.write_back.limits(self.engine.quota().ssd_blocks, block_bytes);
        if limits != self.engine.config().write_back {
            self.engine.set_write_back_limits(limits);
        }
    }

    /// Gives it another share.
    pub(crate) fn set_share(&mut self, share: Quota) {
        self.engine.resize(share);
        self.set_write_back();
    }

    /// Carries to the host what the engine asks of it.
    pub(crate) fn ask_for_space(&mut self) {
        let Some(space) = &self.space else { return };
        while let Some(request) = self.engine.next_space_request() {
            space.ask(request);
        }
    }

    /// What the host says.
    pub(crate) fn space_answered(&mut self, answer: SpaceAnswer) {
        self.engine.space_answered(answer);
        self.set_write_back();
    }

    /// Ends an interval of the host.
    pub(crate) fn measure(&mut self) -> Measured {
        let demand = self.engine.demand(Points::All).map(|levels| levels.map(thinned));
        Measured { demand, reads: ReadCounts::from(self.engine.counters()) }
    }
}
