//! The engine's surface and its parts.

use std::collections::VecDeque;

use lode_format::VolumeTag;
use lode_policy::{AnyScheme, Counters, Effect, LevelDemand, Points, Quota, Scheme, Settings, Tenant};
use lode_store::Attached;
use lode_types::{BlockNo, BlockSize, Level};
use slab::Slab;

use crate::backing::Backing;
use crate::blocks::{Blocks, Op, SsdCopy};
use crate::command::{Command, Completion, DeviceId, MediaError};
use crate::copies::Copies;
use crate::destage::Destage;
use crate::drain::Drain;
use crate::dram::Dram;
use crate::durable::Durable;
use crate::guest::{Answer, GuestRequest};
use crate::health::Health;
use crate::io::{Io, Owner};
use crate::range::RangeOp;
use crate::read_ssd::ReadSsd;
use crate::reissue::Reissues;
use crate::shelf::Shelf;
use crate::ssd::Ssd;
use crate::{Buf, admit};

/// What an engine is made for.
#[derive(Clone, Copy, Debug)]
pub struct EngineConfig {
    /// Size of a cache block.
    pub block: BlockSize,
    /// Bytes of the volume: a multiple of 512.
    pub volume_bytes: u64,
    /// The VM's largest share of each level.
    pub quota: Quota,
    /// Frames and places beside the share, so that a newcomer need not wait for its victim to leave.
    pub reserve: Quota,
    /// First byte of the volume's places on the read SSD, for a share of which it is looked at.
    pub read_ssd_start_bytes: u64,
}

impl EngineConfig {
    /// Least reserve: one piece of a request of every size fits with room to spare.
    const LEAST_RESERVE_BLOCKS: u32 = 512;
    const RESERVE_SHARE: u32 = 64;
    /// Most bytes of tables and histories for each block of the levels and reserves.
    const MOST_TABLE_BYTES: u64 = 320;
    /// Bytes of tables and kept buffers whatever the levels are.
    const LEAST_TABLE_BYTES: u64 = 1 << 20;

    /// The usual reserves: a sixty-fourth of the share and never less than 512 blocks.
    pub fn new(block: BlockSize, volume_bytes: u64, quota: Quota) -> EngineConfig {
        let reserve = quota.map(|_, blocks| match blocks {
            0 => 0,
            blocks => Self::LEAST_RESERVE_BLOCKS.max(blocks / Self::RESERVE_SHARE),
        });
        EngineConfig { block, volume_bytes, quota, reserve, read_ssd_start_bytes: 0 }
    }

    /// Most memory that the engine takes: frames, and tables and histories when the levels are full. Buffers of
    /// requests in flight come on top.
    pub fn most_memory_bytes(&self) -> u64 {
        let all: u64 = Level::ALL.into_iter().map(|level| self.places(level)).sum();
        let frames_bytes = self.places(Level::Dram) * self.block.bytes();
        frames_bytes + all * Self::MOST_TABLE_BYTES + Self::LEAST_TABLE_BYTES
    }

    /// Frames or places of a level that the volume needs, its reserve included.
    pub fn places(&self, level: Level) -> u64 {
        u64::from(self.quota.of(level)) + u64::from(self.reserve.of(level))
    }

    /// Places on the SSD that the volume needs.
    pub fn ssd_places(&self) -> u64 {
        self.places(Level::Ssd)
    }

    /// Bytes on the read SSD that the volume needs.
    pub fn read_ssd_bytes(&self) -> u64 {
        self.places(Level::ReadSsd) * self.block.bytes()
    }
}

/// Things that should not happen, counted. Each is worth an operator's look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alarms {
    /// Cached blocks whose bytes did not fit their checksum and were read again from another copy or the backing disk.
    pub damaged_clean: u64,
    /// Cached blocks newer than the backing disk that were damaged on the SSD and that a second device held too.
    pub damaged_mirrored: u64,
    /// Cached blocks that were damaged and that nothing else held: guests get errors for them.
    pub damaged_dirty: u64,
    /// Blocks newer than the backing disk that could not be read during the start, or were not what they had been: guests
    /// get errors for them while that is so, until they are overwritten.
    pub unreadable_at_start: u64,
    /// Failed commands on the SSD.
    pub ssd_errors: u64,
    /// Failed commands on the read SSD.
    pub read_ssd_errors: u64,
    /// The read SSD failed so often that nothing is put on it any more.
    pub read_ssd_gone: bool,
    /// Failed commands on the backing disk.
    pub backing_errors: u64,
    /// The journal or a flush failed: nothing is acknowledged as durable any more.
    pub failed: bool,
    /// It was the SSD that failed, for this volume or for another one on it.
    pub ssd_failed: bool,
    /// It was the backing disk that failed, for this volume or for another one on it.
    pub backing_failed: bool,
}

/// What is in the cache and under way now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Blocks held in DRAM.
    pub dram_blocks: u32,
    /// Blocks held on the SSD.
    pub ssd_blocks: u32,
    /// Blocks held on the read SSD.
    pub read_ssd_blocks: u32,
    /// Of those, newer than the backing disk, those on their way to it included.
    pub dirty_blocks: u32,
    /// Under a scheme that keeps blocks newer than the backing disk on two devices, those that are on one only: since a
    /// restart, or the loss of a copy.
    pub unmirrored_blocks: u32,
    /// Blocks newer than the backing disk whose only copy is damaged: guests get errors for them until they are
    /// overwritten, and nothing can write them back.
    pub lost_blocks: u32,
    /// Blocks waiting to be written back.
    pub write_backs_waiting: u32,
    /// Write-backs of drains and cleanings that failed; a drain tries them again.
    pub drain_failures: u64,
    /// Blocks that drains, or cleanings of the scheme, wrote back and left in the SSD.
    pub cleaned_blocks: u64,
    /// Writes on their way to the backing disk that were issued again to the SSD.
    pub reissued_writes: u64,
    /// Those that could not be: in part of a block, with a newer write behind them, or without room.
    pub refused_reissues: u64,
    /// Completions of the slower of two devices that had the same write; its guest was answered before.
    pub discarded_completions: u64,
    /// Copies into SSDs waiting for their turn or a place.
    pub promotions_waiting: u32,
    /// Places on the SSD that are not trusted any more.
    pub quarantined: u32,
    /// Places on the read SSD that are not trusted any more.
    pub read_ssd_quarantined: u32,
    /// Bytes of memory: tables, frames, buffers kept.
    pub memory_bytes: u64,
    /// Guest data written to the SSD.
    pub ssd_data_bytes: u64,
    /// Journal and tables written to the SSD.
    pub ssd_metadata_bytes: u64,
    /// Data written to the read SSD.
    pub read_ssd_data_bytes: u64,
    /// Bytes read from the backing disk.
    pub backing_read_bytes: u64,
    /// Bytes written to the backing disk.
    pub backing_written_bytes: u64,
}

/// A guest's request on its way.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    pub(crate) token: u64,
    pub(crate) buf: Option<Buf>,
    pub(crate) parts_left: u32,
    pub(crate) durable: bool,
    /// What must outlive the process before the answer: the version of the latest dirty copy that it made; 0 without one.
    pub(crate) kept_version: u64,
    pub(crate) error: Option<crate::GuestError>,
    pub(crate) served: crate::Served,
}

/// One volume's cache. See the crate's documentation for the driver's loop.
#[derive(Debug)]
pub struct Engine {
    pub(crate) config: EngineConfig,
    pub(crate) scheme: AnyScheme,
    pub(crate) counters: Counters,
    pub(crate) effects: Vec<Effect>,
    pub(crate) requests: Slab<PendingRequest>,
    pub(crate) admission: VecDeque<GuestRequest>,
    pub(crate) blocks: Blocks,
    pub(crate) dram: Dram,
    pub(crate) ssd: Option<Ssd>,
    pub(crate) read_ssd: ReadSsd,
    pub(crate) io: Io,
    pub(crate) backing: Backing,
    pub(crate) durable: Durable,
    pub(crate) destage: Destage,
    pub(crate) drain: Drain,
    pub(crate) health: Health,
    pub(crate) copies: Copies,
    pub(crate) reissues: Reissues,
    pub(crate) range: Option<RangeOp>,
    pub(crate) events: VecDeque<Answer>,
    pub(crate) alarms: Alarms,
    pub(crate) gauges: Gauges,
    /// Blocks whose head operation is to be looked at: a list instead of recursion.
    pub(crate) runnable: VecDeque<BlockNo>,
    /// Places that failed in this life.
    pub(crate) lost_places: u32,
    /// At the last tick a request waited for room and nothing was under way; there will be no room.
    pub(crate) starving: bool,
    pub(crate) starved: bool,
}

impl Engine {
    /// An engine for one volume. `settings` name the scheme; `attached` is what [`crate::store`] found or
    /// made on the SSD, `None` for a volume without one. The cache starts with all that was recovered.
    ///
    /// # Panics
    /// When the scheme needs the future, which no engine knows; see `SchemeInfo::check_without_future`.
    pub fn new(config: EngineConfig, settings: &Settings, attached: Option<Attached>) -> Engine {
        let scheme = lode_policy::build(settings, config.quota, config.quota);
        let [frames, _, mirrors] = Level::ALL.map(|level| config.places(level) as u32);
        // Without an SSD there is no name for the volume, and nothing but a checksum would know it.
        let tag = attached.as_ref().map_or(VolumeTag(0), Attached::tag);
        let mut engine = Engine {
            scheme,
            counters: Counters::default(),
            effects: Vec::new(),
            requests: Slab::new(),
            admission: VecDeque::new(),
            blocks: Blocks::default(),
            dram: Dram::new(config.block.bytes() as usize, frames),
            ssd: None,
            read_ssd: ReadSsd::new(tag, config.block, config.read_ssd_start_bytes, mirrors),
            io: Io::default(),
            backing: Backing::default(),
            durable: Durable::default(),
            destage: Destage::default(),
            drain: Drain::default(),
            health: Health::default(),
            copies: Copies::default(),
            reissues: Reissues::default(),
            range: None,
            events: VecDeque::new(),
            alarms: Alarms::default(),
            gauges: Gauges::default(),
            runnable: VecDeque::new(),
            lost_places: 0,
            starving: false,
            starved: false,
            config,
        };
        if let Some(attached) = attached {
            engine.alarms.unreadable_at_start = attached.unreadable_blocks;
            let (store, recovered) = attached.into_store();
            engine.ssd = Some(Ssd { store, shelf: Shelf::default() });
            engine.take_over(recovered);
        }
        engine.run();
        engine
    }

    /// Gives the scheme what was found on the SSD, least recent first. What it has no room for is given
    /// up, a dirty block by way of the backing disk.
    fn take_over(&mut self, recovered: Vec<(u32, lode_format::Entry)>) {
        let room = self.config.quota.ssd_blocks as usize;
        let excess = recovered.len().saturating_sub(room);
        for (i, (place, entry)) in recovered.into_iter().enumerate() {
            let dirty = entry.state == lode_format::EntryState::Dirty;
            let slot = if i < excess { None } else { self.scheme.restore(entry.block, dirty) };
            let ssd = self.ssd.as_mut().expect("something was recovered from an SSD");
            match slot {
                Some(slot) => ssd.shelf.settle(slot, place),
                None if dirty => {
                    self.blocks.enter(entry.block).copy = SsdCopy::Whole(place);
                    self.push_op(entry.block, Op::Evict(Level::Ssd));
                }
                None => ssd.store.places_mut().give_up_clean(place),
            }
        }
    }

    /// Takes a guest's request. Every request is answered by exactly one [`Answer`].
    pub fn submit(&mut self, request: GuestRequest) {
        self.admission.push_back(request);
        self.run();
    }

    /// Takes the end of a device command. Completions of commands that are not in flight are ignored.
    pub fn complete(&mut self, completion: Completion) {
        let Completion { id, result, buf } = completion;
        let Some(command) = self.io.finish(id, result, buf.as_ref()) else { return };
        if result.is_err() {
            match command.device {
                DeviceId::Ssd => self.alarms.ssd_errors += 1,
                DeviceId::ReadSsd => self.alarms.read_ssd_errors += 1,
                DeviceId::Backing => self.alarms.backing_errors += 1,
            }
        }
        let bytes = buf.as_ref().map_or(&[][..], Buf::as_slice);
        let mut at = 0;
        for part in &command.parts {
            let data = bytes.get(at..at + part.len).unwrap_or(&[]);
            at += part.len;
            if result.is_ok() {
                self.gauges.note(command.device, command.is_write, part);
            }
            self.part_done(part.owner, result, data);
        }
        if let Some(buf) = buf {
            self.io.recycle(buf);
        }
        self.run();
    }

    fn part_done(&mut self, owner: Owner, result: Result<(), MediaError>, data: &[u8]) {
        match owner {
            Owner::Block(block) => self.block_io_done(block, result, data),
            Owner::DiskWrite(block) => self.disk_write_done(block, result),
            Owner::Reissue(block) => self.reissue_done(block, result),
            Owner::Destage { job, place } => self.destage_io_done(job, place, result, data),
            Owner::Range => self.range_io_done(result),
            Owner::BackingFlush if result.is_ok() => self.backing_flushed(),
            Owner::BackingFlush => self.fail_backing(),
            Owner::Metadata(_) if result.is_err() => self.fail_ssd(),
            Owner::Metadata(what) => self.metadata_done(what),
        }
    }

    /// The next device command, if there is one. Commands may be carried out in any order, except that a
    /// flush must cover the writes that completed before it was taken from here.
    pub fn next_command(&mut self) -> Option<Command> {
        self.io.next()
    }

    /// The next answer to a guest, if there is one.
    pub fn next_event(&mut self) -> Option<Answer> {
        self.events.pop_front()
    }

    /// Called now and then (about once a second): what waits for company goes now, what failed is tried
    /// again.
    pub fn tick(&mut self) {
        if let Some(ssd) = self.ssd.as_mut().filter(|ssd| !ssd.store.is_saved()) {
            ssd.store.want_commit();
        }
        self.note_starvation();
        self.note_starving_copies();
        if self.writes_back() {
            for block in self.blocks.to_write_back() {
                self.push_op(block, Op::Evict(Level::Ssd));
            }
        }
        self.drain.resume();
        self.resume_rescue();
        self.backing.flush_wanted = true;
        self.run();
    }

    /// Whether nothing is under way: no request, no command, no operation.
    pub fn is_idle(&self) -> bool {
        self.requests.is_empty()
            && self.admission.is_empty()
            && self.blocks.is_empty()
            && self.io.is_idle()
            && self.durable.is_idle()
            && self.range.is_none()
    }

    /// Whether the journal knows everything; with [`Engine::is_idle`], a stop loses nothing but time.
    pub fn is_saved(&self) -> bool {
        self.ssd.as_ref().is_none_or(|ssd| ssd.store.is_saved())
    }

    /// Decisions counted, as replay counts them.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What went wrong so far.
    pub fn alarms(&self) -> Alarms {
        Alarms {
            read_ssd_gone: self.read_ssd.is_gone(),
            failed: !self.health.is_well(),
            ssd_failed: self.health.has_failed(DeviceId::Ssd),
            backing_failed: self.health.has_failed(DeviceId::Backing),
            ..self.alarms
        }
    }

    /// What is in the cache and under way.
    pub fn gauges(&self) -> Gauges {
        let places = self.ssd.as_ref().map(|ssd| ssd.store.places());
        let tables = self.scheme.memory_bytes()
            + self.dram.memory_bytes()
            + self.io.memory_bytes()
            + self.drain.memory_bytes()
            + self.read_ssd.memory_bytes()
            + self.ssd.as_ref().map_or(0, |ssd| ssd.store.memory_bytes() + ssd.shelf.memory_bytes());
        Gauges {
            dram_blocks: self.scheme.resident_blocks(Level::Dram),
            ssd_blocks: self.scheme.resident_blocks(Level::Ssd),
            read_ssd_blocks: self.scheme.resident_blocks(Level::ReadSsd),
            unmirrored_blocks: self.scheme.mirroring().map_or(0, |scheme| scheme.mirrors().missing_blocks),
            dirty_blocks: places.map_or(0, lode_store::Places::dirty),
            write_backs_waiting: self.destage.waiting() + self.blocks.kept() as u32,
            promotions_waiting: self.copies.waiting(),
            lost_blocks: self.blocks.lost() as u32,
            drain_failures: self.drain.failures,
            reissued_writes: self.reissues.issued,
            refused_reissues: self.reissues.refused,
            discarded_completions: self.reissues.discarded,
            cleaned_blocks: self.drain.cleaned,
            quarantined: places.map_or(0, lode_store::Places::quarantined),
            read_ssd_quarantined: self.read_ssd.quarantined(),
            memory_bytes: tables as u64,
            ..self.gauges
        }
    }

    /// Moves on everything that can move.
    pub(crate) fn run(&mut self) {
        loop {
            while let Some(block) = self.runnable.pop_front() {
                self.run_block(block);
            }
            self.drive_copies();
            self.drive_range();
            self.drive_drain();
            if !self.runnable.is_empty() || admit::admit_next(self) {
                continue;
            }
            self.drive_destage();
            if self.runnable.is_empty() {
                break;
            }
        }
        self.drive_journal();
        self.drive_backing();
    }

    /// Durability is lost: everybody who waits for it is told, and nobody is promised it again. A failed
    /// flush is final, because what it should have covered may be gone without another error.
    pub(crate) fn end_durability(&mut self) {
        for request in self.durable.give_up_waiters() {
            self.fail_request(request, crate::GuestError::Io);
            self.answer(request);
        }
        let gates = self.durable.give_up_gates();
        for block in gates.into_iter().chain(self.destage.give_up()) {
            self.gate_failed(block);
        }
        self.range_failed();
    }

    /// One part of a request is done.
    pub(crate) fn request_part_done(&mut self, request: usize, served: crate::Served) {
        let entry = &mut self.requests[request];
        entry.served = entry.served.max(served);
        entry.parts_left -= 1;
        if entry.parts_left > 0 {
            return;
        }
        if entry.durable && !self.health.is_well() {
            entry.error.get_or_insert(crate::GuestError::Io);
        }
        match (entry.durable, entry.error) {
            (true, None) => self.answer_when_durable(request),
            (false, None) if entry.kept_version > 0 => {
                let version = entry.kept_version;
                self.answer_when_kept(request, version);
            }
            _ => self.answer(request),
        }
    }

    pub(crate) fn fail_request(&mut self, request: usize, error: crate::GuestError) {
        self.requests[request].error.get_or_insert(error);
    }

    pub(crate) fn answer(&mut self, request: usize) {
        let PendingRequest { token, buf, error, served, .. } = self.requests.remove(request);
        self.events.push_back(Answer { token, result: error.map_or(Ok(()), Err), buf, served });
    }

    /// Bytes of a block that lie within the volume; the last block may be shorter than the others.
    pub(crate) fn block_len(&self, block: BlockNo) -> usize {
        let size = self.config.block;
        (self.config.volume_bytes - size.start_of(block)).min(size.bytes()) as usize
    }
}

impl Gauges {
    fn note(&mut self, device: DeviceId, is_write: bool, part: &crate::io::Part) {
        let bytes = part.len as u64;
        match (device, is_write, part.owner) {
            (DeviceId::Backing, true, _) => self.backing_written_bytes += bytes,
            (DeviceId::Backing, false, _) => self.backing_read_bytes += bytes,
            (DeviceId::Ssd, true, Owner::Block(_) | Owner::Reissue(_)) => self.ssd_data_bytes += bytes,
            (DeviceId::Ssd, true, _) => self.ssd_metadata_bytes += bytes,
            (DeviceId::ReadSsd, true, _) => self.read_ssd_data_bytes += bytes,
            (DeviceId::Ssd | DeviceId::ReadSsd, false, _) => {}
        }
    }
}

/// Whoever has several engines may divide a host's levels between them, within each one's
/// [`EngineConfig::quota`].
impl Tenant for Engine {
    fn quota(&self) -> Quota {
        self.scheme.quota()
    }

    fn demand(&mut self, points: Points) -> Option<[LevelDemand; 2]> {
        self.scheme.sizing().map(|sizing| sizing.demand(points))
    }

    fn resize(&mut self, quota: Quota) {
        let quota = quota.map(|level, blocks| blocks.min(self.config.quota.of(level)));
        let mut effects = std::mem::take(&mut self.effects);
        effects.clear();
        self.scheme.resize(quota, &mut effects);
        self.take_background(effects);
        self.run();
    }
}
