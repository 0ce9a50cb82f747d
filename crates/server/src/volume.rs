//! One VM's disk on its shard: the engine, and the guests' requests that it works on. Requests are cut into
//! the pieces that an engine takes. It must not know sockets or the wire.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lode_engine::command::{Command as DeviceCommand, CommandKind, Completion, DeviceId, MediaError};
use lode_engine::{
    Answer, Buf, Engine, GuestError, GuestOp, GuestRequest, MAX_PIECE_BYTES, MAX_RANGE_BYTES, Served,
};
use lode_media::{Done, Driver, FileId, Op, Payload};
use lode_nbd::{Command, ExportInfo, Request};
use lode_policy::Sizer;
use lode_store::Distrust;
use slab::Slab;

use crate::fence::Fence;
use crate::flushes::{Flushes, Verdict};
use crate::latency::Latencies;
use crate::start::Prepared;
use crate::status::{LevelBlocks, ShmView, VmView};

/// What a piece counts towards limits beside its bytes.
pub(crate) const PIECE_COST_BYTES: u64 = 1024;
/// Bits of a token that number the pieces of a request. The longest request has fewer pieces.
const PIECE_BITS: u32 = 16;
/// Token of the flush that ends a volume's service.
const LAST_FLUSH: u64 = u64::MAX;

/// A guest's request on its way through the engine.
#[derive(Debug)]
pub(crate) struct Pending {
    /// The connection that asked, and waits for the answer.
    pub connection: usize,
    /// What was asked.
    pub request: Request,
    /// The first error of its pieces.
    pub error: Option<GuestError>,
    /// The bytes of a read, when it is done without an error.
    pub data: ReadData,
    /// Its client will not send the rest of it, and gets no answer.
    pub abandoned: bool,
    pieces_left: u32,
    served: Served,
    since_ns: u64,
}

/// Bytes of a read, in pieces.
#[derive(Debug)]
pub(crate) enum ReadData {
    /// None yet, or not a read.
    None,
    /// The only piece.
    One(Buf),
    /// Several pieces, in order; those that are not there yet are missing.
    Many(Vec<Option<Buf>>),
}

/// A write whose bytes are still coming in.
#[derive(Debug)]
pub(crate) struct Incoming {
    key: usize,
    /// Next byte of the volume that is not in a piece handed to the engine.
    at: u64,
    end: u64,
    buf: Buf,
    filled: usize,
}

impl Incoming {
    /// Whether everything that came in is with the engine.
    pub(crate) fn is_between_pieces(&self) -> bool {
        self.filled == 0
    }
}

/// A VM's disk. See the module's documentation.
pub(crate) struct Volume {
    pub export: ExportInfo,
    scheme: &'static str,
    /// Connections that wait for the engine to have less to do, in order.
    pub stalled: VecDeque<usize>,
    engine: Engine,
    sizer: Sizer,
    backing: FileId,
    ssd: Option<FileId>,
    read_ssd: Option<FileId>,
    flushes: Flushes,
    shm: ShmView,
    fence: Fence,
    /// It could not be put up, and is tried again at the next tick.
    fence_failed: bool,
    requests: Slab<Pending>,
    /// Of the pieces that the engine works on.
    working_bytes: u64,
    latencies: Latencies,
    connections: Arc<AtomicU32>,
    failed_commands: u64,
    /// The log says that durability has ended.
    told_failure: bool,
    /// The latest drain was stopped before its end.
    drain_cancelled: bool,
    /// How the flush at the end of the service ended.
    last_flush: Option<Result<(), GuestError>>,
}

/// Where the piece that begins at `at` ends: pieces never cross a multiple of `most`, so that no block is in
/// two of them.
fn piece_end(at: u64, end: u64, most: u64) -> u64 {
    end.min((at / most + 1) * most)
}

fn piece_count(request: &Request, most: u64) -> u32 {
    let last = request.offset_bytes + u64::from(request.length_bytes).max(1) - 1;
    (last / most - request.offset_bytes / most + 1) as u32
}

/// What a piece counts towards its VM's limit.
fn piece_cost_bytes(request: &Request, piece: u64) -> u64 {
    if !matches!(request.command, Command::Read | Command::Write) {
        return PIECE_COST_BYTES;
    }
    let start = match piece {
        0 => request.offset_bytes,
        _ => (request.offset_bytes / MAX_PIECE_BYTES + piece) * MAX_PIECE_BYTES,
    };
    let end = request.offset_bytes + u64::from(request.length_bytes);
    PIECE_COST_BYTES + piece_end(start, end, MAX_PIECE_BYTES) - start
}

/// What a request counts towards its connection's limit.
pub(crate) fn cost_bytes(request: &Request) -> u64 {
    match request.command {
        Command::Read | Command::Write => PIECE_COST_BYTES + u64::from(request.length_bytes),
        _ => PIECE_COST_BYTES,
    }
}

impl Volume {
    pub(crate) fn new(vm: Prepared, driver: &mut impl Driver, connections: Arc<AtomicU32>) -> Volume {
        let Prepared { engine, sizer, scheme, export, backing, ssd, read_ssd, disks, shm, fence, .. } = vm;
        let flushes = Flushes::new(disks.ssd, disks.backing);
        let backing = driver.add_file(backing);
        let [ssd, read_ssd] = [ssd, read_ssd].map(|ssd| ssd.map(|ssd| driver.add_file(ssd)));
        Volume {
            export,
            scheme,
            stalled: VecDeque::new(),
            engine,
            sizer,
            backing,
            ssd,
            read_ssd,
            flushes,
            shm,
            fence,
            fence_failed: false,
            requests: Slab::new(),
            working_bytes: 0,
            latencies: Latencies::new(),
            connections,
            failed_commands: 0,
            told_failure: false,
            drain_cancelled: false,
            last_flush: None,
        }
    }

    pub(crate) fn working_bytes(&self) -> u64 {
        self.working_bytes
    }

    fn expect(&mut self, connection: usize, request: &Request, pieces: u32, since_ns: u64) -> usize {
        let data = match request.command {
            Command::Read if pieces > 1 => ReadData::Many((0..pieces).map(|_| None).collect()),
            _ => ReadData::None,
        };
        self.requests.insert(Pending {
            connection,
            request: *request,
            error: None,
            data,
            abandoned: false,
            pieces_left: pieces,
            served: Served::Dram,
            since_ns,
        })
    }

    fn submit_piece(&mut self, key: usize, piece: u32, op: GuestOp, last: bool, now_ns: u64) {
        self.working_bytes += piece_cost_bytes(&self.requests[key].request, u64::from(piece));
        let token = (key as u64) << PIECE_BITS | u64::from(piece);
        let request = GuestRequest { token, op, last, now_ns };
        let counts = request.ends_access();
        self.engine.submit(request);
        if counts {
            self.sizer.after_request(now_ns, std::slice::from_mut(&mut self.engine));
        }
    }

    /// Hands a request without payload to the engine.
    pub(crate) fn submit(&mut self, connection: usize, request: &Request, now_ns: u64) {
        if request.command == Command::Flush {
            let key = self.expect(connection, request, 1, now_ns);
            return self.submit_piece(key, 0, GuestOp::Flush, true, now_ns);
        }
        let most = if request.command == Command::Read { MAX_PIECE_BYTES } else { MAX_RANGE_BYTES };
        let fua = request.flags.fua();
        let key = self.expect(connection, request, piece_count(request, most), now_ns);
        let (mut at, end) = (request.offset_bytes, request.offset_bytes + u64::from(request.length_bytes));
        let mut piece = 0;
        while at < end {
            let to = piece_end(at, end, most);
            let (offset_bytes, length_bytes) = (at, to - at);
            let op = match request.command {
                Command::Read => GuestOp::Read { offset_bytes, length_bytes },
                Command::Trim => GuestOp::Trim { offset_bytes, length_bytes },
                _ => GuestOp::WriteZeroes { offset_bytes, length_bytes, fua },
            };
            self.submit_piece(key, piece, op, to == end, now_ns);
            at = to;
            piece += 1;
        }
    }

    /// Begins a write; its bytes follow with [`Volume::write_bytes`].
    pub(crate) fn begin_write(&mut self, connection: usize, request: &Request, now_ns: u64) -> Incoming {
        let key = self.expect(connection, request, piece_count(request, MAX_PIECE_BYTES), now_ns);
        let (at, end) = (request.offset_bytes, request.offset_bytes + u64::from(request.length_bytes));
        Incoming { key, at, end, buf: Buf::zeroed(0), filled: 0 }
    }

    /// Takes the next bytes of a write, and hands full pieces to the engine. True: it was the last byte.
    pub(crate) fn write_bytes(&mut self, write: &mut Incoming, mut bytes: &[u8], now_ns: u64) -> bool {
        while !bytes.is_empty() && write.at < write.end {
            let to = piece_end(write.at, write.end, MAX_PIECE_BYTES);
            if write.filled == 0 {
                write.buf = Buf::zeroed((to - write.at) as usize);
            }
            let take = bytes.len().min(write.buf.len() - write.filled);
            write.buf.as_mut_slice()[write.filled..write.filled + take].copy_from_slice(&bytes[..take]);
            write.filled += take;
            bytes = &bytes[take..];
            if write.filled < write.buf.len() {
                break;
            }
            let request = &self.requests[write.key].request;
            let piece = write.at / MAX_PIECE_BYTES - request.offset_bytes / MAX_PIECE_BYTES;
            let fua = request.flags.fua();
            let buf = std::mem::replace(&mut write.buf, Buf::zeroed(0));
            let op = GuestOp::Write { offset_bytes: write.at, buf, fua };
            self.submit_piece(write.key, piece as u32, op, to == write.end, now_ns);
            write.at = to;
            write.filled = 0;
        }
        write.at == write.end
    }

    /// The rest of a write will not come. True: nothing of it is with the engine, and it is gone.
    pub(crate) fn abandon(&mut self, write: Incoming) -> bool {
        let pending = &mut self.requests[write.key];
        let missing = (write.end - 1) / MAX_PIECE_BYTES - write.at / MAX_PIECE_BYTES + 1;
        pending.pieces_left -= missing as u32;
        pending.abandoned = true;
        let gone = pending.pieces_left == 0;
        if gone {
            self.requests.remove(write.key);
        }
        gone
    }

    /// The next request that is done.
    pub(crate) fn next_answer(&mut self, now_ns: u64) -> Option<Pending> {
        while let Some(event) = self.engine.next_event() {
            if event.token == LAST_FLUSH {
                self.last_flush = Some(event.result);
                continue;
            }
            let key = (event.token >> PIECE_BITS) as usize;
            if self.take_piece(key, event) {
                let pending = self.requests.remove(key);
                self.note_latency(&pending, now_ns);
                return Some(pending);
            }
        }
        None
    }

    /// Notes one piece. True: it was the last.
    fn take_piece(&mut self, key: usize, event: Answer) -> bool {
        let pending = &mut self.requests[key];
        let piece = (event.token & ((1 << PIECE_BITS) - 1)) as usize;
        self.working_bytes -= piece_cost_bytes(&pending.request, piece as u64);
        pending.served = pending.served.max(event.served);
        pending.pieces_left -= 1;
        if let Err(error) = event.result {
            pending.error.get_or_insert(error);
        }
        if pending.request.command == Command::Read
            && let Some(buf) = event.buf
        {
            match &mut pending.data {
                ReadData::Many(pieces) => pieces[piece] = Some(buf),
                data => *data = ReadData::One(buf),
            }
        }
        pending.pieces_left == 0
    }

    fn note_latency(&mut self, pending: &Pending, now_ns: u64) {
        let ns = now_ns.saturating_sub(pending.since_ns);
        match pending.request.command {
            Command::Read => self.latencies.read(pending.served, ns),
            Command::Write => self.latencies.write(ns),
            Command::Flush => self.latencies.flush(ns),
            Command::Trim | Command::Cache | Command::WriteZeroes => {}
        }
    }

    /// The next device command: its number, and what is to be done.
    pub(crate) fn next_command(&mut self) -> Option<(u64, Op)> {
        let DeviceCommand { id, device, kind } = self.engine.next_command()?;
        if matches!(kind, CommandKind::Flush) {
            self.flushes.begin(id, device);
        }
        let file = match device {
            DeviceId::Backing => self.backing,
            DeviceId::Ssd => self.ssd.expect("an engine without an SSD does not use one"),
            DeviceId::ReadSsd => self.read_ssd.expect("an engine without a read SSD does not use one"),
        };
        Some((id, Op::for_file(file, kind)))
    }

    /// Takes the end of device command `id`.
    pub(crate) fn complete(&mut self, id: u64, done: Done) {
        if let Err(error) = done.result {
            self.failed_commands += 1;
            // Not one line for each: a dead device fails thousands of them.
            if self.failed_commands.is_power_of_two() {
                let reason = match (done.os_error, error) {
                    (Some(number), _) => std::io::Error::from_raw_os_error(number).to_string(),
                    (None, MediaError::Io) => "the device failed".to_owned(),
                    (None, MediaError::Gone) => "the device is gone".to_owned(),
                    (None, MediaError::NoSpace) => "the device is full".to_owned(),
                };
                tracing::warn!(
                    "VM {}: a command on an SSD or its backing disk failed: {reason}; {} have failed so far. `lode status` \
                     says on which, the log of the kernel may say why",
                    self.export.name(),
                    self.failed_commands,
                );
            }
        }
        let buf = if let Payload::Buf(buf) = done.payload { Some(buf) } else { None };
        let result = done.result.map(drop);
        match self.flushes.end(id, result.is_ok()) {
            Some(verdict) if result.is_ok() => self.flush_decided(id, verdict),
            _ => self.engine.complete(Completion { id, result, buf }),
        }
        for device in [DeviceId::Ssd, DeviceId::Backing] {
            if self.engine.has_failed(device) {
                self.flushes.fail(device);
            }
        }
    }

    fn flush_decided(&mut self, id: u64, verdict: Verdict) {
        let result = match verdict {
            Verdict::Open => return,
            Verdict::Durable => Ok(()),
            Verdict::Failed => Err(MediaError::Gone),
        };
        self.engine.complete(Completion { id, result, buf: None });
    }

    /// Tells the engine what is known by now of devices that others use as well.
    pub(crate) fn note_shared_devices(&mut self) {
        while let Some((id, verdict)) = self.flushes.next_decided() {
            self.flush_decided(id, verdict);
        }
        for device in [DeviceId::Ssd, DeviceId::Backing] {
            if self.flushes.has_failed(device) {
                self.engine.device_failed(device);
            }
        }
    }

    pub(crate) fn tick(&mut self) {
        self.engine.tick();
        if self.engine.alarms().failed && !self.told_failure {
            self.told_failure = true;
            tracing::error!(
                "VM {}: the cache SSD or the backing disk failed, and nothing is acknowledged as durable any more; \
                 look at both, then restart the service",
                self.export.name()
            );
        }
        self.fence_failed = false;
    }

    /// After the SSD failed: remembers for the next start what the engine wants remembered, so that it can go on.
    pub(crate) fn advance_fence(&mut self) {
        let Some(distrust) = self.engine.wants_fence().filter(|_| !self.fence_failed) else { return };
        let (name, path) = (self.export.name(), self.fence.path().display());
        match (self.fence.put_up(distrust), distrust) {
            (Ok(()), Distrust::Clean) => tracing::warn!(
                "VM {name}: what the cache SSD held is written to the backing disk now, from wherever it can be read; \
                 {path} keeps the next start from believing the SSD's clean blocks"
            ),
            (Ok(()), Distrust::All) => tracing::warn!(
                "VM {name}: the backing disk has everything now; {path} keeps the next start from believing the SSD"
            ),
            (Err(error), _) => {
                self.fence_failed = true;
                return tracing::error!(
                    "VM {name}: cannot write {path}: {error}. Before it is written the backing disk does not get what the \
                     cache SSD held; make room in `state_dir`"
                );
            }
        }
        self.engine.fenced();
    }

    /// Begins to write back what is dirty now, or stops that.
    pub(crate) fn drain(&mut self, cancel: bool) {
        if cancel {
            self.drain_cancelled |= self.engine.drain_left().is_some();
            self.engine.stop_drain();
        } else {
            self.drain_cancelled = false;
            self.engine.drain();
        }
    }

    /// Blocks that a drain still has to write back; `None` when there is no drain.
    pub(crate) fn draining_blocks(&self) -> Option<u64> {
        self.engine.drain_left().map(u64::from)
    }

    /// Whether the SSD failed and what it held is on its way to the backing disk.
    pub(crate) fn is_rescuing(&self) -> bool {
        self.engine.is_rescuing()
    }

    /// Blocks that are newer than the backing disk, and of those the ones that are damaged.
    pub(crate) fn dirty_and_lost_blocks(&self) -> (u64, u64) {
        let gauges = self.engine.gauges();
        (gauges.dirty_blocks.into(), gauges.lost_blocks.into())
    }

    /// Asks for everything to be made durable, for the end of the service.
    pub(crate) fn begin_end(&mut self, now_ns: u64) {
        self.engine.submit(GuestRequest { token: LAST_FLUSH, op: GuestOp::Flush, last: true, now_ns });
    }

    /// After [`Volume::begin_end`]: whether everything is durable and nothing is under way; `None` while
    /// that can still come.
    pub(crate) fn ended(&self) -> Option<bool> {
        match self.last_flush? {
            Ok(()) => (self.engine.is_idle() && self.engine.is_saved()).then_some(true),
            Err(_) => Some(false),
        }
    }

    pub(crate) fn view(&self, shard: usize) -> VmView {
        VmView {
            name: self.export.name().to_owned(),
            scheme: self.scheme,
            shard,
            connections: self.connections.load(Ordering::Relaxed),
            in_flight_bytes: self.working_bytes,
            draining_blocks: self.draining_blocks(),
            drain_cancelled: self.drain_cancelled,
            quota: LevelBlocks::quota(&self.engine),
            counters: self.engine.counters().into(),
            gauges: self.engine.gauges().into(),
            alarms: self.engine.alarms().into(),
            latency: self.latencies.view(),
            shm: self.shm,
        }
    }
}
