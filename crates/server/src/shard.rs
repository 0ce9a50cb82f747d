//! A shard: one thread with its own driver, the engines of its VMs and their connections. Nothing of it is
//! shared with other threads; they send it messages.
//!
//! Whatever runs a volume's engine goes through [`Shard::guard`], so that a panic stops that volume alone. Of a volume that is
//! stopped the shard answers from what it knows, without its engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use lode_engine::SsdWriteUse;
use lode_media::{AnyDriver, Done, Driver, MediaFault, Payload};
use lode_nbd::{ReplyEncoder, Transmission};
use rustix::net::sockopt::set_socket_send_buffer_size;
use slab::Slab;

use crate::connection::{Connection, Phase, Receive, Stall};
use crate::due::Due;
use crate::events::Events;
use crate::guard::guarded;
use crate::intake::take_requests;
use crate::listen::peer;
use crate::lookups::Lookup;
use crate::messages::{NewConnection, ToShard};
use crate::pair::FileChange;
use crate::start::Prepared;
use crate::vm_log::VmLog;
use crate::volume::{Answered, Volume};

mod fences;
mod guarding;
mod membership;
mod progress;
mod stopping;
mod table;

use self::fences::{FenceEnd, Fences};
use self::membership::Removals;
use self::stopping::{STOP_TICK, Stopping};
use self::table::VolumeTable;

/// What the system is asked to hold of replies that a client has not taken.
const SEND_BUFFER_BYTES: usize = 1 << 20;
/// How often engines are told that time passes.
const TICK: Duration = Duration::from_secs(1);
/// How long the bytes of a write may take to come in while others wait for what it takes of its VM's limit.
const WRITE_LIMIT: Duration = Duration::from_secs(15);

/// How a shard ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    /// Everything is durable somewhere.
    pub saved: bool,
    /// Blocks that are newer than the backing disks.
    pub dirty_blocks: u64,
    /// Of those, damaged ones.
    pub lost_blocks: u64,
    /// Its volumes, by their numbers in it, and whether their backing disks have everything durably.
    pub disks: Vec<(usize, bool)>,
}

/// A shard's place in the daemon.
pub(crate) struct ShardContext {
    pub number: usize,
    pub events: Events,
    pub inbox: Receiver<ToShard>,
    pub space: Option<crate::space::SpaceOfShard>,
    /// Tells the control thread how many blocks a stop still has to write back.
    pub draining_blocks: Arc<AtomicU64>,
}

/// The kinds of tokens, in their upper bits.
const FILE: u64 = 0;
const RECEIVE: u64 = 1;
const SEND: u64 = 2;
const LOOK_UP: u64 = 3;
const KIND_SHIFT: u32 = 62;
/// Below the kind: the volume of a file command or of a question for a file; below that, its number for it.
const VOLUME_SHIFT: u32 = 46;
const MAX_VOLUMES: usize = 1 << (KIND_SHIFT - VOLUME_SHIFT);

/// A shard. See the module's documentation.
pub(crate) struct Shard {
    context: ShardContext,
    driver: AnyDriver,
    volumes: VolumeTable,
    /// Those to which something has happened since they were last moved on.
    due: Due,
    /// What was last known of devices that volumes share.
    news: u64,
    connections: Slab<Connection>,
    /// Connections that may have something to send, receive or end.
    touched: Vec<usize>,
    start: Instant,
    now_ns: u64,
    stopping: Stopping,
    /// Attempts to remember what is not to be believed of an SSD.
    fences: Fences,
    /// Volumes that are to be served no more.
    removals: Removals,
    /// Volumes whose schemes do not know yet all that was found on the SSD.
    taking_over: Vec<usize>,
}

impl Shard {
    pub(crate) fn new(
        context: ShardContext,
        mut driver: AnyDriver,
        prepared: Vec<(Prepared, Arc<AtomicU32>)>,
    ) -> Shard {
        if let Some((vm, _)) = prepared.first() {
            vm.disks.backing.wakes(driver.waker());
        }
        let volumes = prepared.into_iter().enumerate().map(|(at, (vm, connections))| {
            let log = VmLog::new(vm.export.name(), vm.live.limits.slow_request_ms, context.events.clone());
            Volume::new(vm, &mut driver, connections, log, context.space.as_ref().map(|space| space.of(at)))
        });
        let volumes: Vec<Volume> = volumes.collect();
        let mut shard = Shard {
            context,
            driver,
            due: Due::all(volumes.len()),
            news: 0,
            volumes: VolumeTable::new(volumes),
            connections: Slab::new(),
            touched: Vec::new(),
            start: Instant::now(),
            now_ns: 0,
            stopping: Stopping::No,
            fences: Fences::default(),
            removals: Removals::default(),
            taking_over: Vec::new(),
        };
        shard.taking_over = shard.volumes.numbers();
        shard.volumes.numbers().into_iter().for_each(|at| shard.ask_engine(at));
        shard
    }

    /// Serves until told to stop.
    pub(crate) fn run(mut self) -> Result<Ended, MediaFault> {
        let mut done = Vec::new();
        let mut next_tick = Instant::now() + TICK;
        // What engines want at their start.
        self.settle();
        loop {
            let until_tick = next_tick.saturating_duration_since(Instant::now());
            let ends = !matches!(self.stopping, Stopping::No) || !self.removals.is_empty();
            let pause = match ends {
                _ if !self.taking_over.is_empty() => Duration::ZERO,
                true => STOP_TICK.min(until_tick),
                false => until_tick,
            };
            self.turn(pause, &mut done)?;
            let now = Instant::now();
            if now >= next_tick {
                next_tick = now + TICK;
                self.tick();
                self.settle();
            }
            self.advance_leavings(now);
            if let Some(ended) = self.stop_step(now) {
                return Ok(ended);
            }
        }
    }

    /// Waits for something to happen, and moves on what can move then.
    fn turn(&mut self, pause: Duration, done: &mut Vec<Done>) -> Result<(), MediaFault> {
        self.driver.wait(Some(pause), done)?;
        self.now_ns = self.clock(Instant::now());
        self.read_inbox();
        for done in done.drain(..) {
            self.dispatch(done);
        }
        self.take_over();
        self.settle();
        Ok(())
    }

    /// Volumes that were started take over what was found on the SSD, one step each.
    fn take_over(&mut self) {
        let volumes = std::mem::take(&mut self.taking_over);
        let goes_on = |at: &usize| self.with_volume(*at, Volume::take_over).unwrap_or(false);
        self.taking_over = volumes.into_iter().filter(goes_on).collect();
    }

    fn tick(&mut self) {
        for at in self.volumes.numbers() {
            let now_ns = self.now_ns;
            self.with_volume(at, |volume| volume.tick(now_ns));
        }
        self.context.space.iter().for_each(|space| space.space.tick());
        self.end_slow_writes();
    }

    /// A write counts from its beginning with all of its bytes. One whose client has vanished, or brings them by and by, would
    /// keep others of its VM from being served.
    fn end_slow_writes(&mut self) {
        let limit_ns = WRITE_LIMIT.as_nanos() as u64;
        let is_slow = |connection: &Connection| {
            let is_late = |since_ns| self.now_ns.saturating_sub(since_ns) >= limit_ns;
            connection.incoming.as_ref().is_some_and(|write| is_late(write.since_ns))
                && self.volumes.has(connection.volume)
                && !self.volumes[connection.volume].stalled.is_empty()
        };
        let slow = self.connections.iter().filter(|(_, connection)| is_slow(connection));
        for key in slow.map(|(key, _)| key).collect::<Vec<_>>() {
            self.kill(key, "its write did not come in while others waited for it");
        }
    }

    fn clock(&self, now: Instant) -> u64 {
        u64::try_from((now - self.start).as_nanos()).unwrap_or(u64::MAX)
    }

    fn read_inbox(&mut self) {
        self.read_fences();
        loop {
            let message = match self.context.inbox.try_recv() {
                Ok(message) => message,
                Err(TryRecvError::Empty) => break,
                // Nobody is left who could ask for anything.
                Err(TryRecvError::Disconnected) => return self.begin_stop(false),
            };
            match message {
                ToShard::Connect(new) => self.connect(new),
                ToShard::Status(answer) => {
                    let views = self.volumes.numbers().into_iter().map(|at| (at, self.view(at))).collect();
                    // Whoever asked may have given up waiting.
                    let _ = answer.try_send(views);
                }
                ToShard::Drain { volumes, cancel, answer } => {
                    let _ = answer.try_send(volumes.into_iter().map(|at| self.drain(at, cancel)).sum());
                }
                ToShard::Change(volumes) => {
                    for (at, keys) in volumes {
                        self.with_volume(at, |volume| volume.change(&keys));
                    }
                }
                ToShard::Measure(answer) => {
                    let volumes = self.volumes.numbers().into_iter();
                    let measured =
                        volumes.map(|at| (at, self.with_volume(at, Volume::measure).unwrap_or_default()));
                    let _ = answer.try_send(measured.collect());
                }
                ToShard::SsdWrites(answer) => {
                    let _ = answer.try_send(self.ssd_writes());
                }
                ToShard::Budget(at, budget) => _ = self.guard(at, |volume| volume.set_host_budget(budget)),
                ToShard::Shares { shares, answer } => {
                    for (at, share) in shares {
                        self.with_volume(at, |volume| volume.set_share(share));
                    }
                    let volumes = self.volumes.numbers().into_iter();
                    let _ = answer.try_send(volumes.map(|at| (at, self.held(at))).collect());
                }
                ToShard::Space { volume: at, answer } => {
                    self.with_volume(at, |volume| volume.space_answered(answer));
                }
                ToShard::Add { volume, prepared, connections, answer } => {
                    let _ = answer.try_send(self.add_volume(volume, *prepared, connections));
                }
                ToShard::Remove { volume, disconnect, answer } => {
                    self.begin_removal(volume, disconnect, answer)
                }
                ToShard::WriteAround { volume, answer } => {
                    let _ = answer.try_send(self.write_around(volume));
                }
                ToShard::Release { volume, refuse_clients, answer } => {
                    self.begin_release(volume, refuse_clients, answer);
                }
                ToShard::Resume { volume, generation, answer } => {
                    let _ = answer.try_send(self.resume_volume(volume, generation));
                }
                ToShard::Rename { volume, export, fence, answer } => {
                    let _ = answer.try_send(self.rename_volume(volume, export, fence));
                }
                ToShard::Stop { drain } => self.begin_stop(drain),
            }
        }
    }

    /// What every volume has written to the SSD.
    fn ssd_writes(&mut self) -> Vec<(usize, SsdWriteUse)> {
        let volumes = self.volumes.numbers().into_iter();
        volumes.map(|at| (at, self.guard(at, Volume::ssd_write_use).unwrap_or_default())).collect()
    }

    /// Begins a volume's drain, or ends it. Returns the blocks that it still has to write back.
    fn drain(&mut self, at: usize, cancel: bool) -> u64 {
        // One that leaves is drained for that.
        if cancel && self.removals.has(at) {
            return 0;
        }
        let now_ns = self.now_ns;
        self.with_volume(at, |volume| volume.drain(cancel, now_ns));
        self.draining_blocks_of(at)
    }

    fn connect(&mut self, new: NewConnection) {
        // Of a volume that has just been stopped or is about to go: the next one is refused in words.
        let is_served = self.volumes.has(new.volume) && !self.volumes[new.volume].is_stopped();
        if !matches!(self.stopping, Stopping::No) || !is_served || self.removals.takes_no_clients(new.volume)
        {
            return;
        }
        // As much as the system allows: large replies are then sent in fewer parts. With less it works as well.
        let _ = set_socket_send_buffer_size(&new.socket, SEND_BUFFER_BYTES);
        self.volumes[new.volume]
            .note_client(&format!("a client connected from {}", peer(&new.socket)), self.now_ns);
        let socket = self.driver.add_socket(new.socket);
        let transmission = Transmission::new(&self.volumes[new.volume].export, &new.negotiated);
        let encoder = ReplyEncoder::new(new.negotiated.structured);
        let connection = Connection::new(socket, new.volume, transmission, encoder, &new.early, new.permit);
        let key = self.connections.insert(connection);
        self.parse(key);
        self.touch(key);
    }

    fn touch(&mut self, key: usize) {
        let connection = &mut self.connections[key];
        if !connection.touched {
            connection.touched = true;
            self.touched.push(key);
        }
    }

    fn dispatch(&mut self, done: Done) {
        let key = (done.token & ((1 << KIND_SHIFT) - 1)) as usize;
        match done.token >> KIND_SHIFT {
            FILE => {
                let id = done.token & ((1 << VOLUME_SHIFT) - 1);
                let at = (done.token >> VOLUME_SHIFT) as usize;
                // An SSD that was given up may answer when its volume is gone.
                if !self.volumes.has(at) {
                    return;
                }
                match self.volumes[at].is_stopped() {
                    true => {
                        self.due.insert(at);
                        self.guard_stopped(at, |volume| volume.complete_stopped(id, &done));
                    }
                    false => _ = self.with_volume(at, |volume| volume.complete(id, done)),
                }
            }
            LOOK_UP => {
                let at = (done.token >> VOLUME_SHIFT) as usize & (MAX_VOLUMES - 1);
                let key = (done.token & ((1 << VOLUME_SHIFT) - 1)) as usize;
                self.with_volume(at, |volume| volume.look_up_ended(key, done));
            }
            RECEIVE => {
                let Payload::Buf(buf) = done.payload else { return };
                self.touch(key);
                self.connections[key].received(buf, done.result.unwrap_or(0));
                match done.result {
                    Ok(0) => self.end(key, "it hung up"),
                    Ok(_) => self.parse(key),
                    Err(_) => self.kill(key, "nothing can be received from it"),
                }
            }
            _ => {
                let Payload::Message(message) = done.payload else { return };
                self.touch(key);
                let connection = &mut self.connections[key];
                connection.sent(message);
                if done.result.is_err() {
                    self.kill(key, "nothing can be sent to it");
                } else if connection.stall == Some(Stall::Own) {
                    connection.stall = None;
                    self.parse(key);
                }
            }
        }
    }

    /// Takes requests from what came in, up to the limits.
    fn parse(&mut self, key: usize) {
        let connection = &mut self.connections[key];
        let at = connection.volume;
        self.due.insert(at);
        let volume = &mut self.volumes[at];
        if volume.is_stopped() {
            return;
        }
        let now_ns = self.now_ns;
        let done = guarded(|| {
            volume.set_clock(now_ns);
            take_requests(connection, volume, key, now_ns);
        });
        if let Err(defect) = done {
            self.stop_volume(at, &defect);
        }
    }

    /// Takes no more requests from a connection.
    fn end(&mut self, key: usize, reason: &'static str) {
        let connection = &mut self.connections[key];
        connection.note_end(reason);
        if connection.phase == Phase::Open {
            connection.phase = Phase::Ending;
        }
        self.forget_unread(key);
    }

    /// Hangs up.
    fn kill(&mut self, key: usize, reason: &'static str) {
        let connection = &mut self.connections[key];
        connection.note_end(reason);
        if connection.phase != Phase::Dead {
            connection.phase = Phase::Dead;
            self.driver.remove_socket(connection.socket);
        }
        self.forget_unread(key);
    }

    /// Forgets requests that did not come in completely, or were not looked at.
    fn forget_unread(&mut self, key: usize) {
        let connection = &mut self.connections[key];
        let at = connection.volume;
        // Others may go on that waited for what is given up here.
        self.due.insert(at);
        if connection.stall.take() == Some(Stall::Volume) {
            self.volumes[at].stalled.retain(|other| *other != key);
        }
        if let Some(write) = connection.incoming.take() {
            connection.requests -= 1;
            self.guard(at, |volume| volume.abandon_write(&write.request));
        }
        self.touch(key);
    }

    /// Moves everything on that can move: engines, answers, connections that waited for engines.
    fn settle(&mut self) {
        while let Some(at) = self.next_due() {
            self.pump(at);
            self.resume(at);
        }
        while let Some(key) = self.touched.pop() {
            self.advance(key);
        }
    }

    /// The next volume that may be moved on; all of them when a device that they share has done something.
    fn next_due(&mut self) -> Option<usize> {
        let news = self.volumes.iter().next().map_or(0, Volume::news);
        if std::mem::replace(&mut self.news, news) != news {
            self.due.insert_all();
        }
        self.due.next()
    }

    /// Carries an engine's commands to its devices and its answers to their connections.
    fn pump(&mut self, at: usize) {
        if !self.volumes.has(at) {
            return;
        }
        if self.volumes[at].is_stopped() {
            return self.guard_stopped(at, Volume::forget_decided);
        }
        self.guard(at, Volume::note_shared_devices);
        self.change_files(at);
        self.put_up_fence(at);
        self.guard(at, Volume::ask_for_space);
        while let Some(Some((id, file, command))) = self.guard(at, Volume::next_command) {
            let token = FILE << KIND_SHIFT | (at as u64) << VOLUME_SHIFT | id;
            self.driver.submit(token, file, command);
        }
        while let Some(Some((file, Lookup { key, bytes }))) = self.guard(at, Volume::next_lookup) {
            self.driver.map(LOOK_UP << KIND_SHIFT | (at as u64) << VOLUME_SHIFT | key, file, bytes);
        }
        let now_ns = self.clock(Instant::now());
        while let Some(Some(done)) = self.guard(at, |volume| volume.next_answer(now_ns)) {
            self.answer(done);
        }
    }

    /// Opens and closes files of a pair of SSDs.
    fn change_files(&mut self, at: usize) {
        while let Some(Some((pair, change))) = self.guard(at, Volume::next_file_change) {
            match change {
                FileChange::Close(file) => self.driver.remove_file(file),
                FileChange::Open(member, file) => {
                    let file = self.driver.add_file(file);
                    self.guard(at, |volume| volume.file_opened(pair, member, file));
                }
            }
        }
    }

    /// Has it remembered what a volume whose device failed wants remembered.
    fn put_up_fence(&mut self, at: usize) {
        if let Some(Some((file, fence))) = self.guard(at, Volume::next_fence) {
            self.fences.begin(at, file, fence, || self.driver.waker());
        }
    }

    fn read_fences(&mut self) {
        while let Some(FenceEnd { volume, fence, result }) = self.fences.next_ended() {
            self.with_volume(volume, |volume| volume.fence_ended(fence, &result));
        }
    }

    fn answer(&mut self, done: Answered) {
        let key = done.connection;
        let connection = &mut self.connections[key];
        connection.requests -= 1;
        if connection.phase != Phase::Dead {
            let list = connection.answer(done);
            let at = connection.volume;
            self.guard(at, |volume| volume.take_back(list));
        }
        self.touch(key);
    }

    /// Lets connections go on that waited for an engine.
    fn resume(&mut self, at: usize) {
        let waiting = if self.volumes.has(at) { self.volumes[at].stalled.len() } else { 0 };
        for _ in 0..waiting {
            let volume = &mut self.volumes[at];
            if volume.is_full() {
                break;
            }
            let Some(key) = volume.stalled.pop_front() else { break };
            self.connections[key].stall = None;
            self.parse(key);
            self.touch(key);
        }
    }

    /// Sends, receives, hangs up and forgets, whatever is due on a connection.
    fn advance(&mut self, key: usize) {
        let connection = &mut self.connections[key];
        connection.touched = false;
        if let Some(message) = connection.next_send() {
            self.driver.send(SEND << KIND_SHIFT | key as u64, connection.socket, message);
        }
        if let Some(Receive { buf, range, all }) = connection.next_receive() {
            self.driver.receive(RECEIVE << KIND_SHIFT | key as u64, connection.socket, buf, range, all);
        }
        if connection.phase == Phase::Ending && connection.is_quiet() {
            connection.phase = Phase::Dead;
            self.driver.remove_socket(connection.socket);
        }
        if connection.is_over() {
            let connection = self.connections.remove(key);
            let (at, left) = (connection.volume, format!("a client left: {}", connection.ended_by()));
            // It counts as a connection until it is gone.
            drop(connection);
            self.volumes[at].note_client(&left, self.now_ns);
        }
    }
}

#[cfg(test)]
mod tests;
