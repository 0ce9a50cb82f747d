//! Devices and guests of one host, and the one log of what they do. What devices are told goes through here, whatever carries
//! it; so does what goes wrong. It must not know FUSE, sockets or processes.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lode_types::Rng;

use crate::image::{Data, Image};
use crate::medium::DeviceEvent;
use crate::model::{Change, GuestEvent, Model, Version};
use crate::sector::{SECTOR_BYTES, Value, WriteId};
use crate::state::Watch;
use crate::tape::{Start, Tape, TapeEntry};

/// What devices do wrong.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// So many of a hundred writes and flushes take up to `delay_us`.
    pub delayed_percent: u64,
    /// Microseconds.
    pub delay_us: u64,
    /// Devices whose flushes say that they are done and do nothing.
    pub liars: Vec<usize>,
    /// Devices that fail.
    pub failing: Vec<usize>,
    /// Of ten thousand of their reads, writes and flushes so many do.
    pub failed_reads: u64,
    /// Likewise.
    pub failed_writes: u64,
    /// Likewise.
    pub failed_flushes: u64,
}

/// What a run did, for people.
#[derive(Debug, Default)]
pub struct Counts {
    /// Writes that devices were told.
    pub device_writes: AtomicU64,
    /// Errors that devices answered.
    pub errors: AtomicU64,
    /// Flushes that did nothing and said otherwise.
    pub lies: AtomicU64,
    /// Requests of guests that were answered.
    pub answers: AtomicU64,
}

impl Counts {
    /// Adds one.
    pub fn one(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// What was counted.
    pub fn get(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }
}

/// Something that a device was told and has not answered.
#[derive(Debug)]
pub struct Ticket {
    id: u64,
    fails: bool,
    lies: bool,
    /// How long it takes.
    pub delay: Duration,
}

/// The device has failed.
#[derive(Debug)]
pub struct DeviceError;

/// See the module's documentation.
#[derive(Debug)]
pub struct World {
    shared: Mutex<Shared>,
    /// Over all boots.
    pub counts: Counts,
}

#[derive(Debug)]
struct Shared {
    start: Start,
    images: Vec<Image>,
    models: Vec<Model>,
    events: Vec<TapeEntry>,
    faults: Faults,
    rng: Rng,
    watch: Watch,
    next_id: u64,
    open_files: u64,
    has_failed_flush: bool,
    /// Of each VM with ordered write-back, when its history came to a moment in this boot.
    moments: Vec<Vec<(Instant, u64)>>,
}

impl World {
    /// A host whose daemon keeps its files in `state_dir`.
    pub fn new(start: Start, state_dir: &Path, seed: u64) -> World {
        let shared = Shared {
            images: start.images.clone(),
            models: start.models.clone(),
            start,
            events: Vec::new(),
            faults: Faults::default(),
            rng: Rng::new(seed),
            watch: Watch::new(state_dir),
            next_id: 1,
            open_files: 0,
            has_failed_flush: false,
            moments: Vec::new(),
        };
        World { shared: Mutex::new(shared), counts: Counts::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins another boot. The state folder has its files already. Nothing has a device open.
    pub fn begin(&self, start: Start, state_dir: &Path) {
        let shared = &mut *self.lock();
        (shared.images, shared.models) = (start.images.clone(), start.models.clone());
        shared.start = start;
        shared.watch = Watch::new(state_dir);
        shared.faults = Faults::default();
        shared.events.clear();
        shared.has_failed_flush = false;
        shared.moments.clear();
    }

    /// Ends this boot: what happened in it.
    pub fn end(&self) -> Tape {
        let shared = &mut *self.lock();
        shared.note_state();
        Tape { start: shared.start.clone(), events: std::mem::take(&mut shared.events) }
    }

    /// What goes wrong from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// What a device holds as far as anybody can read.
    pub fn image(&self, device: usize) -> Image {
        self.lock().images[device].clone()
    }

    // Devices.

    /// The size of a device.
    pub fn size_bytes(&self, device: usize) -> u64 {
        self.lock().images[device].size_bytes()
    }

    /// Somebody opens a device.
    pub fn open(&self) {
        self.lock().open_files += 1;
    }

    /// Closes it.
    pub fn close(&self) {
        let shared = &mut *self.lock();
        shared.open_files = shared.open_files.saturating_sub(1);
    }

    /// Files that are open.
    pub fn open_files(&self) -> u64 {
        self.lock().open_files
    }

    /// Reads of a device.
    pub fn read(&self, device: usize, offset: u64, length: u64) -> Result<Vec<u8>, DeviceError> {
        let shared = &mut *self.lock();
        let failed = shared.fails(device, |faults| faults.failed_reads);
        self.outcome(failed)?;
        Ok(shared.images[device].read(offset, length))
    }

    /// A write comes.
    pub fn begin_write(&self, device: usize, offset: u64, data: &Data) -> Ticket {
        let shared = &mut *self.lock();
        let ticket = shared.ticket(device, |faults| faults.failed_writes);
        let event = DeviceEvent::WriteBegan { id: ticket.id, offset, data: data.clone() };
        shared.events.push(TapeEntry::Device(device, event));
        Counts::one(&self.counts.device_writes);
        ticket
    }

    /// It is answered.
    pub fn end_write(
        &self,
        device: usize,
        ticket: &Ticket,
        offset: u64,
        data: &Data,
    ) -> Result<(), DeviceError> {
        let shared = &mut *self.lock();
        let Ticket { id, fails, .. } = *ticket;
        let failed = fails.then(|| shared.rng.below(data.length_bytes() / SECTOR_BYTES + 1) * SECTOR_BYTES);
        match failed {
            // Some of it may be there all the same.
            Some(bytes) => shared.images[device].write(offset, &Data::Bytes(data.first(bytes).into())),
            None => shared.images[device].write(offset, data),
        }
        shared.events.push(TapeEntry::Device(device, DeviceEvent::WriteEnded { id, failed }));
        self.outcome(fails)
    }

    /// A flush comes.
    pub fn begin_flush(&self, device: usize) -> Ticket {
        let shared = &mut *self.lock();
        let mut ticket = shared.ticket(device, |faults| faults.failed_flushes);
        ticket.lies = shared.faults.liars.contains(&device);
        shared.events.push(TapeEntry::Device(device, DeviceEvent::FlushBegan { id: ticket.id }));
        ticket
    }

    /// It is answered.
    pub fn end_flush(&self, device: usize, ticket: &Ticket) -> Result<(), DeviceError> {
        let shared = &mut *self.lock();
        let Ticket { id, fails: failed, lies, .. } = *ticket;
        shared.has_failed_flush |= failed;
        if lies && !failed {
            Counts::one(&self.counts.lies);
        } else {
            shared.events.push(TapeEntry::Device(device, DeviceEvent::FlushEnded { id, failed }));
        }
        self.outcome(failed)
    }

    fn outcome(&self, failed: bool) -> Result<(), DeviceError> {
        if failed {
            Counts::one(&self.counts.errors);
            return Err(DeviceError);
        }
        Ok(())
    }

    // Guests.

    /// A change is about to be sent.
    pub fn submit(&self, vm: usize, sectors: std::ops::Range<u64>, change: Change) -> WriteId {
        let shared = &mut *self.lock();
        let write = shared.models[vm].next_write();
        shared.note(vm, GuestEvent::Submitted { write, sectors, change });
        write
    }

    /// A FLUSH is about to be sent.
    pub fn send_flush(&self, vm: usize) -> u64 {
        let shared = &mut *self.lock();
        shared.next_id += 1;
        let flush = shared.next_id;
        shared.note(vm, GuestEvent::FlushSent { flush });
        flush
    }

    /// Something else that a guest was told.
    pub fn note(&self, vm: usize, event: GuestEvent) {
        self.lock().note(vm, event);
    }

    /// The daemon died, and the host lives.
    pub fn note_kill(&self) {
        let shared = &mut *self.lock();
        let doubtful = std::mem::take(&mut shared.has_failed_flush);
        (0..shared.models.len()).for_each(|vm| shared.note(vm, GuestEvent::Killed { doubtful }));
    }

    /// The daemon ended in order.
    pub fn note_stop(&self) {
        let shared = &mut *self.lock();
        (0..shared.models.len()).for_each(|vm| shared.note(vm, GuestEvent::Stopped));
    }

    /// What a read that is sent now may return, sector by sector.
    pub fn allowed(
        &self,
        vm: usize,
        sectors: std::ops::Range<u64>,
        nothing_fails: bool,
    ) -> Vec<Vec<Version>> {
        let model = &self.lock().models[vm];
        sectors.map(|sector| model.allowed(sector, nothing_fails).to_vec()).collect()
    }

    /// Compares these sectors with what they may hold, while no request for them is under way. What one of several versions
    /// they have, they have from now on.
    pub fn check(&self, vm: usize, first: u64, bytes: &[u8], nothing_fails: bool) -> Vec<String> {
        let shared = &mut *self.lock();
        let (mut wrong, mut values): (Vec<String>, Vec<(u64, Value)>) = (Vec::new(), Vec::new());
        for (sector, bytes) in (first..).zip(bytes.chunks(SECTOR_BYTES as usize)) {
            let model = &shared.models[vm];
            match Model::check(vm, sector, bytes, model.allowed(sector, nothing_fails)) {
                Err(what) => wrong.push(what),
                Ok(value) if !model.is_settled(sector) => values.push((sector, value)),
                Ok(_) => {}
            }
        }
        if !values.is_empty() {
            shared.note(vm, GuestEvent::Seen { values });
        }
        wrong
    }

    /// A daemon said that a disk alone lacks nothing that was written up to this time.
    pub fn note_behind(&self, vm: usize, since: Instant) {
        let shared = &mut *self.lock();
        let moments = shared.moments.get(vm).map_or(&[][..], Vec::as_slice);
        let at = moments.partition_point(|(time, _)| *time <= since);
        // What was before this boot nobody knows the time of.
        if at > 0 {
            let earliest = moments[at - 1].1;
            shared.note(vm, GuestEvent::Told { earliest });
        }
    }

    /// The models as they are.
    pub fn models(&self) -> Vec<Model> {
        self.lock().models.clone()
    }
}

impl Shared {
    fn note(&mut self, vm: usize, event: GuestEvent) {
        self.models[vm].apply(&event);
        if let Some(history) = self.models[vm].history() {
            self.moments.resize_with(self.models.len(), Vec::new);
            self.moments[vm].push((Instant::now(), history.now()));
        }
        self.events.push(TapeEntry::Guest(vm, event));
    }

    /// The daemon waits for its files to be durable before it goes on with devices, so that a change is found at the
    /// first request after it.
    fn note_state(&mut self) {
        if let Some(files) = self.watch.changed() {
            self.events.push(TapeEntry::State(files));
        }
    }

    fn fails(&mut self, device: usize, of: impl Fn(&Faults) -> u64) -> bool {
        self.faults.failing.contains(&device) && self.rng.below(10_000) < of(&self.faults)
    }

    fn ticket(&mut self, device: usize, of: impl Fn(&Faults) -> u64) -> Ticket {
        self.note_state();
        self.next_id += 1;
        let fails = self.fails(device, of);
        let is_late = self.rng.chance(self.faults.delayed_percent);
        let delay_us = if is_late { self.rng.below(self.faults.delay_us + 1) } else { 0 };
        Ticket { id: self.next_id, fails, lies: false, delay: Duration::from_micros(delay_us) }
    }
}

/// A world that several threads use.
pub type SharedWorld = Arc<World>;
