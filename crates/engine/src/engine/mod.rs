//! One volume's engine: its surface, and the order in which its parts have their turns. What parts are told and asked of
//! each other is carried in the modules below: what is decided (`decide`), what blocks in flight need done (`carry`), what is
//! cleaned (`clean`), write-backs and flushes (`backing`), the journal (`journal`), a trim or zeroing (`range`), copies in the
//! background (`copying`), groups of ordered write-back (`groups`), writes issued again (`reissuing`), another scheme
//! (`switching`), space (`space`), what is set while guests are served (`settings`), and devices that fail (`failing`).
//!
//! These modules decide nothing over the state of one part: that a part does, in its own module beside this folder. No part names
//! the engine.

mod backing;
mod carry;
mod clean;
mod copying;
mod decide;
mod failing;
mod groups;
mod journal;
mod range;
mod reissuing;
mod settings;
mod space;
mod switching;
mod taking_over;

use std::ops::Range;

use lode_format::{EntryState, VolumeTag};
use lode_policy::{Counters, Scheme, Settings};
use lode_store::{Attached, VolumeStore};
use lode_types::{BlockNo, Buf, ByteList, Level, MediaError, planted};

use self::carry::AtHand;
use crate::background::Background;
use crate::command::{Command, Completion, DeviceId};
use crate::config::EngineConfig;
use crate::copies::Copies;
use crate::disk::Disk;
use crate::drain::Drain;
use crate::dram::Dram;
use crate::fence::Fencing;
use crate::flight::{BlockOp, Input, Stage};
use crate::flights::Flights;
use crate::front::{Front, PREFETCHED};
use crate::gauges::{Alarms, Gauges};
use crate::guest::{Answer, GuestRequest};
use crate::health::Health;
use crate::io::{Io, Owner};
use crate::levels::Levels;
use crate::memory::Memory;
use crate::ordered::Ordered;
use crate::read_ssd::ReadSsd;
use crate::reissue::Reissues;
use crate::requests::{Durability, Requests};
use crate::scrub::Scrub;
use crate::space::SpaceClient;
use crate::switch::{Switch, build_front};
use crate::taking_over::{EarlyReads, TakingOver};
use crate::written::Written;

/// One volume's cache. See the crate's documentation for the driver's loop.
#[derive(Debug)]
pub struct Engine {
    config: EngineConfig,
    health: Health,
    fencing: Fencing,
    /// Writes go past the SSD, so that nothing becomes dirty.
    writes_around: bool,
    /// What guests ask, and the scheme that decides.
    front: Front,
    /// What was found on the SSD, until the scheme knows all of it.
    taking_over: Option<TakingOver>,
    early_reads: EarlyReads,
    /// A scheme that is to take its place.
    switch: Option<Switch>,
    requests: Requests,
    /// Blocks in flight.
    flights: Flights,
    levels: Levels,
    /// What is asked of the host, where it divides its levels.
    space: SpaceClient,
    disk: Disk,
    /// Where the disk is written in the order of the guest's flushes.
    ordered: Option<Ordered>,
    drain: Drain,
    background: Background,
    scrub: Scrub,
    copies: Copies,
    /// Where the scheme asks for it.
    reissues: Option<Reissues>,
    io: Io,
    /// Where the backing disk may not know what is allocated.
    written: Written,
    alarms: Alarms,
    gauges: Gauges,
}

impl Engine {
    /// An engine for one volume. `settings` name the scheme; `attached` is what `lode-store` found or made on the SSD,
    /// `None` for a volume without one. The cache starts with all that was recovered.
    ///
    /// # Panics
    /// When the scheme needs the future, which no engine knows; see `SchemeInfo::check_without_future`.
    pub fn new(config: EngineConfig, settings: &Settings, attached: Option<Attached>) -> Engine {
        let mut engine = Engine::start(config, settings, attached);
        engine.take_over_the_rest();
        engine
    }

    /// As [`Engine::new`], with a scheme that does not know yet what was recovered: [`Engine::take_over`] tells it. Until then reads are
    /// served, and whatever else is asked of it waits, or takes the rest over at once.
    ///
    /// # Panics
    /// As [`Engine::new`].
    pub fn start(config: EngineConfig, settings: &Settings, attached: Option<Attached>) -> Engine {
        let [frames, _, mirrors] = Level::ALL.map(|level| config.places(level) as u32);
        // Without an SSD there is no name for the volume, and nothing but a checksum would know it.
        let tag = attached.as_ref().map_or(VolumeTag(0), Attached::tag);
        let unreadable_at_start = attached.as_ref().map_or(0, |attached| attached.unreadable_blocks);
        let (store, found) = attached.map(Attached::into_store).unzip();
        let dram = Dram::new(config.block.bytes() as usize, frames);
        let volume_blocks = config.volume_bytes.div_ceil(config.block.bytes());
        let read_ssd = ReadSsd::new(tag, config.block, config.read_ssd_start_bytes, mirrors, volume_blocks);
        let store_is_there = store.is_some();
        let levels = Levels::new(dram, store, read_ssd, config.ordered.is_some());
        let mut front = build_front(settings, &config, &levels);
        let mut engine = Engine {
            health: Health::default(),
            fencing: Fencing::default(),
            writes_around: false,
            reissues: front.reissuing().is_some().then(Reissues::default),
            front,
            taking_over: None,
            early_reads: EarlyReads::default(),
            switch: None,
            requests: Requests::default(),
            flights: Flights::default(),
            levels,
            space: SpaceClient::default(),
            disk: Disk::default(),
            ordered: config.ordered.filter(|_| store_is_there).map(Ordered::new),
            drain: Drain::default(),
            background: Background::new(config.write_back),
            scrub: Scrub::new(config.scrub_ticks),
            copies: Copies::default(),
            io: Io::default(),
            written: Written::default(),
            alarms: Alarms { unreadable_at_start, ..Alarms::default() },
            gauges: Gauges::default(),
            config,
        };
        engine.gather_found();
        engine.taking_over = engine.begin_taking_over(found);
        engine.run();
        engine
    }

    /// What the disk is behind at a start is one group, where it is written in groups.
    fn gather_found(&mut self) {
        let Some((ordered, store)) = self.ordered.as_mut().zip(self.levels.store()) else { return };
        let dirty = store.places().held_all().filter(|(_, held)| held.state == EntryState::Dirty);
        dirty.for_each(|(_, held)| ordered.found(held.block));
    }

    /// What it was made for, and what was changed since.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// Most requests for which [`Engine::prefetch`] does something at a time.
    pub const PREFETCHED: usize = PREFETCHED;

    /// Says where requests begin that are submitted next, one after the other. It changes nothing but how long that takes.
    pub fn prefetch(&self, offsets_bytes: impl Iterator<Item = u64>) {
        self.front.prefetch(offsets_bytes.map(|offset_bytes| self.config.block.block_of(offset_bytes)));
    }

    /// Says what time it is, on any clock. What requests waited for is measured by it, and nothing is decided by it.
    pub fn set_clock(&mut self, now_ns: u64) {
        self.requests.set_clock(now_ns);
    }

    /// Takes a guest's request. Every request is answered by exactly one [`Answer`].
    pub fn submit(&mut self, request: GuestRequest) {
        let (_, length_bytes) = request.op.range();
        self.background.guest_asked(length_bytes.div_ceil(self.config.block.bytes()) as u32);
        let token = request.token;
        if let Err(error) = self.front.push(request, self.requests.now_ns(), self.config.volume_bytes) {
            self.requests.refuse(token, error);
        }
        // Nothing else can move before the request does: all moved that could when the last input was taken.
        if self.taking_over.is_none() {
            self.admit_next();
        }
        self.run();
    }

    /// Takes the end of a device command. Completions of commands that are not in flight are ignored.
    pub fn complete(&mut self, completion: Completion) {
        let Completion { id, result, bufs } = completion;
        let Some(command) = self.io.finish(id, result) else { return };
        if result.is_err() {
            self.alarms.note_error(command.device);
        }
        let is_read = !command.is_write && command.segments.iter().any(|segment| segment.len > 0);
        if result.is_ok() && is_read {
            // Less would be taken for zeroes.
            let is_filled = bufs.iter().map(Buf::len).eq(command.segments.iter().map(|segment| segment.len));
            assert!(is_filled, "a read that ended well has filled all its buffers");
        }
        if is_read && command.device == DeviceId::Backing {
            self.background.disk_was_read();
        }
        let mut bufs = bufs.into_iter();
        for segment in &command.segments {
            let data = bufs.next().unwrap_or_else(|| Buf::zeroed(0));
            if result.is_ok() {
                self.gauges.note(command.device, command.is_write, segment);
            }
            self.segment_done(segment.owner, result, data);
        }
        self.run();
    }

    fn segment_done(&mut self, owner: Owner, result: Result<(), MediaError>, data: Buf) {
        match owner {
            Owner::Block(block) => self.block_command_ended(block, result, data),
            Owner::DiskWrite(block) => self.disk_write_ended(block, result),
            Owner::EarlyRead(part) => self.early_read_ended(part, result, data),
            Owner::Reissue(block) => self.reissue_ended(block, result),
            Owner::Destage(at) => self.destage_command_ended(at, result, data),
            Owner::Range => self.range_command_ended(result),
            Owner::BackingFlush if result.is_ok() || planted("failed-flush-believed") => {
                self.backing_flushed()
            }
            Owner::BackingFlush => self.fail_backing(),
            Owner::Group(number) => self.group_write_ended(number, result),
            Owner::RedoRanges => self.ranges_noted(result.is_ok()),
            Owner::RedoFlush if result.is_ok() => self.redo_flushed(),
            // What it was to keep may be lost, as of the disk beside which it is.
            Owner::RedoFlush => self.fail_backing(),
            Owner::Metadata(_) if result.is_err() && !planted("ssd-failure-ignored") => self.fail_ssd(),
            Owner::Metadata(what) => self.metadata_written(what),
        }
    }

    /// The next device command, if there is one. Commands may be carried out in any order, except that a
    /// flush must cover the writes that completed before it was taken from here.
    pub fn next_command(&mut self) -> Option<Command> {
        self.io.next()
    }

    /// The next answer to a guest, if there is one.
    pub fn next_answer(&mut self) -> Option<Answer> {
        self.requests.next_answer()
    }

    /// Takes back the list of an [`Answer`] whose bytes were taken out: the next read of several blocks needs no new one.
    pub fn take_back(&mut self, list: ByteList) {
        self.requests.take_back(list);
    }

    /// Called now and then (about once a second): writes that wait to be committed together are committed now, and what failed is
    /// tried again.
    pub fn tick(&mut self) {
        if self.taking_over.is_some() {
            return self.tick_groups();
        }
        if let Some(store) = self.levels.store_mut().filter(|store| !store.is_saved()) {
            store.want_commit();
        }
        let is_blocked = self.is_blocked();
        self.front.note_starvation(self.io.is_idle(), is_blocked, &self.levels, &self.config);
        if self.copies.tick(self.io.is_idle()) {
            self.give_up_waiting_copies();
        }
        if self.health.writes_back() && self.ordered.is_none() {
            for block in self.flights.to_write_back() {
                self.push_op(block, BlockOp::Evict(Level::Ssd));
            }
        }
        self.drain.resume();
        self.tick_groups();
        self.space.tick();
        if self.background.tick(&self.background_facts())
            && let Some(store) = self.levels.store_mut()
        {
            store.places_mut().mark();
        }
        self.scrub.tick(self.levels.ssd_slots());
        self.fencing.resume();
        self.resume_rescue();
        self.disk.want_flush();
        self.run();
    }

    /// Whether nothing is under way: no request, no command, no operation.
    pub fn is_idle(&self) -> bool {
        self.requests.is_empty()
            && self.front.is_empty()
            && self.taking_over.is_none()
            && self.flights.is_empty()
            && self.io.is_idle()
            && !self.disk.has_range()
            && (self.ordered.as_ref().is_none_or(Ordered::is_resting) || !self.health.writes_back())
    }

    /// Whether the journal knows everything; with [`Engine::is_idle`], a stop loses nothing but time.
    pub fn is_saved(&self) -> bool {
        self.levels.store().is_none_or(|store| store.is_saved())
    }

    /// Decisions counted, as replay counts them.
    pub fn counters(&self) -> &Counters {
        self.front.counters()
    }

    /// Of the volume on the SSD the latest version, and one about which the oldest dirty block came; see
    /// [`lode_store::Places::oldest_dirty`]. Later versions come later.
    pub fn versions(&self) -> (u64, Option<u64>) {
        let places = self.levels.store().map(VolumeStore::places);
        places.map_or((0, None), |places| (places.version(), places.oldest_dirty()))
    }

    /// What went wrong so far.
    pub fn alarms(&self) -> Alarms {
        Alarms {
            read_ssd_gone: self.levels.read_ssd().is_gone(),
            failed: !self.health.is_well(),
            ssd_failed: self.health.has_failed(DeviceId::Ssd),
            backing_failed: self.health.has_failed(DeviceId::Backing),
            ..self.alarms
        }
    }

    /// Stretches of these bytes that may hold what the backing disk does not know of, in ascending order. What was acknowledged
    /// before is in these, or on the disk. What the rest reads as, and whether it is allocated, the disk can tell. Before the scheme
    /// knows what there is all of them may.
    pub fn written(&self, bytes: Range<u64>) -> Vec<Range<u64>> {
        match self.taking_over {
            Some(_) if !planted("written-before-all-is-noted") => vec![bytes],
            _ => self.written.within(&bytes),
        }
    }

    /// Bytes of memory by table.
    pub fn memory(&self) -> Memory {
        Memory {
            scheme_bytes: (self.front.scheme().memory_bytes()
                + self.taking_over.as_ref().map_or(0, TakingOver::memory_bytes))
                as u64,
            allocation_bytes: self.written.memory_bytes() as u64,
            cleaning_bytes: (self.drain.memory_bytes()
                + self.background.memory_bytes()
                + self.ordered.as_ref().map_or(0, Ordered::memory_bytes)) as u64,
            ..self.levels.memory()
        }
    }

    /// Dirty blocks on one device where the scheme wants two: those that it knows of, and beside them those on their way to the other
    /// device, which it takes for being there, or to the disk.
    fn unmirrored_blocks(&self) -> u32 {
        let Some(mirroring) = self.front.scheme().mirroring() else { return 0 };
        if self.taking_over.is_some() {
            return self.levels.dirty_blocks();
        }
        let is_known = |block| {
            let slots = mirroring.slots(block);
            slots[Level::Ssd as usize].is_some() && slots.iter().flatten().count() == 1
        };
        let alone = self.flights.alone().filter(|&(_, copy)| self.levels.is_dirty(copy));
        mirroring.mirrors().missing_blocks + alone.filter(|&(block, _)| !is_known(block)).count() as u32
    }

    /// What is in the cache and under way.
    pub fn gauges(&self) -> Gauges {
        let Engine { levels, flights, drain, disk, scrub, .. } = self;
        let scheme = self.front.scheme();
        let store = levels.store();
        let (frames_waited_for, extents_waited_for) = self.space.wanted();
        let mut gauges = self.gauges;
        if let Some(reissues) = &self.reissues {
            gauges.add_reissues(&reissues.counts());
        }
        Gauges {
            dram_blocks: scheme.resident_blocks(Level::Dram),
            ssd_blocks: scheme.resident_blocks(Level::Ssd)
                + self.taking_over.as_ref().map_or(0, TakingOver::left),
            read_ssd_blocks: scheme.resident_blocks(Level::ReadSsd),
            unmirrored_blocks: self.unmirrored_blocks(),
            dirty_blocks: levels.dirty_blocks(),
            write_backs_waiting: disk.destage().waiting() + flights.kept() as u32,
            promotions_waiting: self.copies.waiting(),
            lost_blocks: flights.lost() as u32,
            drain_failures: drain.failures(),
            cleaned_blocks: drain.cleaned(),
            scrubbed_blocks: scrub.scrubbed_blocks(),
            scrub_passes: scrub.passes(),
            frames: levels.frames(),
            frames_waited_for,
            extents: store.map_or(0, VolumeStore::extents),
            retiring_extents: store.map_or(0, |store| store.retiring_extents().0),
            extents_waited_for,
            moved_blocks: self.space.moved_blocks(),
            quarantined: store.map_or(0, |store| store.places().quarantined()),
            read_ssd_quarantined: levels.read_ssd().quarantined(),
            memory_bytes: self.memory().total_bytes(),
            ..gauges
        }
    }

    /// Moves on everything that can move: nothing, before the scheme knows what there is.
    fn run(&mut self) {
        if self.taking_over.is_some() && !planted("decides-before-it-knows-all") {
            return;
        }
        self.drive_all();
        while self.copies_hold_guests_up() {
            self.give_up_waiting_copies();
            self.drive_all();
        }
    }

    /// Moves on what can move while no copies are given up for it.
    fn drive_all(&mut self) {
        loop {
            while let Some(block) = self.flights.next_runnable() {
                // It may have been queued twice: when its last operation ended, and for a new one.
                if self.flights.get(block).is_some_and(|flight| flight.stage() == Stage::Start) {
                    self.advance(block, Input::Proceed, AtHand::Nothing);
                }
            }
            self.drive_switch();
            self.drive_copies();
            self.drive_range();
            self.drive_drain();
            let made_room = self.drive_groups();
            self.drive_background();
            self.drive_scrub();
            self.drive_space();
            if self.flights.has_runnable() || self.admit_next() || made_room {
                continue;
            }
            self.drive_destage();
            // Who waits now may have to wait for a cut.
            if !self.drive_groups() && !self.flights.has_runnable() {
                break;
            }
        }
        self.drive_journal();
        self.drive_backing();
    }

    /// How far things are durable now.
    fn durability(&self) -> Durability {
        let store = self.levels.store();
        Durability {
            is_well: self.health.is_well(),
            version: self.levels.version(),
            kept: store.map_or(u64::MAX, VolumeStore::kept_version),
            durable: store.map_or(u64::MAX, VolumeStore::durable_version),
            mark: self.disk.mark(),
            flushed: self.disk.flushed(),
        }
    }

    /// Bytes of a block that lie within the volume; the last block may be shorter than the others.
    fn block_len(&self, block: BlockNo) -> usize {
        let size = self.config.block;
        (self.config.volume_bytes - size.start_of(block)).min(size.bytes()) as usize
    }
}
