//! What a host's volumes divide, as their shards see it: a lock around the broker, a thread that carries changes of the
//! directory to the SSD, and answers as messages. It must not know how much anybody is to have.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lode_engine::command::{CommandKind, MediaError};
use lode_engine::{SpaceAnswer, SpaceBroker, SpaceRequest, Worth};
use lode_store::DirectoryOutput;

use crate::events::{EventKind, Events};
use crate::guard::guarded;
use crate::messages::ToShard;
use crate::shared::DisksOf;
use crate::ssd::SsdMedia;
use crate::threads::Messenger;

/// The SSD whose directory says who has which extents.
#[derive(Clone)]
pub(crate) struct DirectorySsd {
    pub media: SsdMedia,
    pub disks: DisksOf,
}

/// See the module's documentation. Members of the broker are VMs, by their numbers.
pub(crate) struct SharedSpace {
    state: Mutex<State>,
    ssd: Option<DirectorySsd>,
    events: Events,
}

struct State {
    broker: SpaceBroker,
    /// Empty before all shards are started.
    shards: Vec<Messenger>,
    /// Answers to shards that are not started yet.
    early: Vec<(usize, SpaceAnswer)>,
    /// Something for which no thread could be started.
    waiting: Option<DirectoryOutput>,
    /// A thread carries something to the SSD.
    is_writing: bool,
}

/// A shard's way to it.
#[derive(Clone)]
pub(crate) struct SpaceOfShard {
    pub space: Arc<SharedSpace>,
    pub shard: usize,
    pub shards: usize,
}

impl SpaceOfShard {
    /// That of one of the shard's volumes.
    pub(crate) fn of(&self, volume: usize) -> SpaceOfVolume {
        SpaceOfVolume { space: Arc::clone(&self.space), vm: volume * self.shards + self.shard }
    }
}

/// A volume's way to it.
pub(crate) struct SpaceOfVolume {
    space: Arc<SharedSpace>,
    vm: usize,
}

impl SpaceOfVolume {
    /// The volume asks for something, or gives it back.
    pub(crate) fn ask(&self, request: SpaceRequest) {
        self.space.ask(self.vm, request);
    }

    /// The volume asks for nothing any more, and answers nothing.
    pub(crate) fn stop(&self) {
        self.space.with_broker(|broker| broker.stop(self.vm));
    }
}

impl SharedSpace {
    pub(crate) fn new(broker: SpaceBroker, ssd: Option<DirectorySsd>, events: Events) -> SharedSpace {
        let state = State { broker, shards: Vec::new(), early: Vec::new(), waiting: None, is_writing: false };
        SharedSpace { state: Mutex::new(state), ssd, events }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The broker refuses what it cannot do before it has changed anything.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All shards are started. VM `i` is volume `i / shards.len()` of shard `i % shards.len()`.
    pub(crate) fn connect(&self, shards: Vec<Messenger>) {
        let mut state = self.state();
        state.shards = shards;
        let early = std::mem::take(&mut state.early);
        early.into_iter().for_each(|(vm, answer)| state.send(vm, answer));
    }

    fn ask(self: &Arc<Self>, vm: usize, request: SpaceRequest) {
        self.with_broker(|broker| broker.ask(vm, request));
    }

    /// Does something with the broker, and what follows from it.
    pub(crate) fn with_broker<T>(self: &Arc<Self>, work: impl FnOnce(&mut SpaceBroker) -> T) -> T {
        let mut state = self.state();
        let done = work(&mut state.broker);
        state.hand_out();
        self.start_writing(&mut state);
        done
    }

    /// The file with the directory, and the disks that it lies on.
    pub(crate) fn ssd(&self) -> Option<&DirectorySsd> {
        self.ssd.as_ref()
    }

    /// Whether the directory is being written.
    pub(crate) fn is_writing(&self) -> bool {
        let state = self.state();
        state.is_writing || state.waiting.is_some()
    }

    /// Tries again what could not be begun.
    pub(crate) fn tick(self: &Arc<Self>) {
        self.start_writing(&mut self.state());
    }

    /// Has a thread of its own carry to the SSD what is to be done there, unless one does.
    fn start_writing(self: &Arc<Self>, state: &mut State) {
        let Some(ssd) = self.ssd.clone().filter(|_| !state.is_writing) else { return };
        state.waiting = state.waiting.take().or_else(|| state.broker.next_output());
        if state.waiting.is_none() {
            return;
        }
        let space = Arc::clone(self);
        let write = move || {
            if let Err(defect) = guarded(|| space.write_all(&ssd)) {
                space.fail(&ssd, &format!("a defect of the program: {defect}"));
            }
        };
        match std::thread::Builder::new().name("directory".to_owned()).spawn(write) {
            Ok(_) => state.is_writing = true,
            Err(error) => tracing::error!(
                "Cannot start a thread that writes the SSD's directory: {error}. Until it can be, shares of the SSD do not \
                 change, and the VM whose change it is may get no flush answered, or no place to write to; raise the limit of threads"
            ),
        }
    }

    /// Carries to the SSD what there is, one after the other.
    fn write_all(&self, ssd: &DirectorySsd) {
        loop {
            let output = {
                let mut state = self.state();
                let next = state.waiting.take().or_else(|| state.broker.next_output());
                state.is_writing = next.is_some();
                next
            };
            let Some(output) = output else { return };
            if let Err(reason) = carry_out(ssd, output) {
                return self.fail(ssd, &reason);
            }
            let mut state = self.state();
            state.broker.done(true);
            state.hand_out();
        }
    }

    /// Which of two directories counts is not known before the next start: the SSD has failed, for all who use it.
    fn fail(&self, ssd: &DirectorySsd, reason: &str) {
        ssd.disks.fail_file();
        let text = format!("the cache SSD's directory could not be written: {reason}");
        tracing::error!(
            "While extents of the SSD changed hands {text}. Nothing on that SSD is acknowledged as durable any more, and what it \
             holds is brought to the backing disks; look at the SSD and the system log, then restart the service"
        );
        self.events.note(EventKind::Failure, None, text);
        let mut state = self.state();
        state.broker.done(false);
        (state.is_writing, state.waiting) = (false, None);
        state.hand_out();
    }
}

impl State {
    /// Sends answers while the lock is held: each volume gets them in their order.
    fn hand_out(&mut self) {
        while let Some((vm, answer)) = self.broker.next_answer() {
            self.send(vm, answer);
        }
    }

    fn send(&mut self, vm: usize, answer: SpaceAnswer) {
        match self.shards.len() {
            0 => self.early.push((vm, answer)),
            shards => self.shards[vm % shards].tell(ToShard::Space { volume: vm / shards, answer }),
        }
    }
}

/// Returns when it is done, and a flush when it is known to be worth something.
fn carry_out(ssd: &DirectorySsd, output: DirectoryOutput) -> Result<(), String> {
    if ssd.disks.have_failed() {
        return Err("the SSD has failed before".to_owned());
    }
    match output {
        DirectoryOutput::Write { offset_bytes, buf } => {
            let outcome = run_now(ssd, CommandKind::write(offset_bytes, buf));
            outcome.map_err(|error| words("a write", error))
        }
        DirectoryOutput::Flush => {
            // Flushes beside it are other threads', which end them whatever happens here.
            let worth = ssd.disks.flush_with(|| run_now(ssd, CommandKind::Flush), None);
            match worth.map_err(|error| words("a flush", error))? {
                Worth::Durable => Ok(()),
                _ => Err("a flush beside that of the directory failed".to_owned()),
            }
        }
    }
}

/// Carries a write or flush out on the SSD, and of a pair on both.
fn run_now(ssd: &DirectorySsd, mut kind: CommandKind) -> Result<(), MediaError> {
    match &ssd.media {
        SsdMedia::One(file) => file.run_now(&mut kind).map(drop),
        SsdMedia::Pairs(pairs) => pairs.run_now(kind),
    }
}

fn words(what: &str, error: MediaError) -> String {
    let why = match error {
        MediaError::Io => "failed",
        MediaError::Gone => "found the device gone",
        MediaError::NoSpace => "found the device full",
    };
    format!("{what} {why}")
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::{Duration, Instant};

    use lode_format::{CacheId, VolumeExtents};
    use lode_media::{MediaFile, OpenOptions};
    use lode_store::{DirectoryChange, Store, StoreView, VolumeSpec};
    use lode_types::BlockSize;

    use super::*;
    use crate::shared::Disks;
    use crate::sync_device::FileDevice;

    const PATIENCE: Duration = Duration::from_secs(20);
    const VM: usize = 0;

    /// A cache SSD with one volume, whose turn it is to change its extents, and a change that gives all but the first up.
    fn space(path: &Path, can_write: bool) -> (Arc<SharedSpace>, DirectorySsd, DirectoryChange) {
        let options = OpenOptions { create_size: Some(64 << 20), ..OpenOptions::default() };
        let (change, store) = {
            let file = MediaFile::open(path, &options).unwrap();
            let mut device = FileDevice::new(&file);
            Store::format(&mut device, CacheId([7; 16]), BlockSize::KIB_4, None).unwrap();
            let mut store = Store::open(&mut device).unwrap();
            let spec = VolumeSpec {
                name: "one".to_owned(),
                backing_bytes: 1 << 30,
                places: 8192,
                spare_places: 0,
                ready_places: u64::MAX,
                read_only: false,
                distrusts: None,
            };
            let volume = store.attach(&mut device, &spec).unwrap().tag();
            let only_first = VolumeExtents { written: vec![0], unwritten: Vec::new() };
            (DirectoryChange { volume, extents: only_first, ring: 1 << 60 }, store)
        };
        let options = OpenOptions { write: can_write, create_size: None, ..options };
        let file = MediaFile::open(path, &options).unwrap();
        let ssd = DirectorySsd { media: SsdMedia::One(file), disks: Disks::default().under(path).unwrap() };
        let mut broker = SpaceBroker::new(0, Some(store.into_directory()));
        broker.join(VM, Some(change.volume), 0);
        let space = Arc::new(SharedSpace::new(broker, Some(ssd.clone()), Events::default()));
        space.ask(VM, SpaceRequest::WantTurn);
        assert_eq!(space.state().early, [(VM, SpaceAnswer::Turn)]);
        (space, ssd, change)
    }

    fn wait_for_end(space: &SharedSpace) {
        let began = Instant::now();
        while space.is_writing() {
            assert!(began.elapsed() < PATIENCE, "the directory is not written");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn extents(path: &Path) -> u32 {
        let file = MediaFile::open(path, &OpenOptions::default()).unwrap();
        StoreView::read(&mut FileDevice::new(&file)).unwrap().volumes().map(|volume| volume.extents).sum()
    }

    #[test]
    fn a_change_is_told_when_flushes_beside_it_have_ended() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("ssd");
        let (space, ssd, change) = space(&path, true);
        let beside = ssd.disks.begin_flush();
        space.ask(VM, SpaceRequest::Change(change));
        std::thread::sleep(Duration::from_millis(100));
        assert!(space.is_writing() && space.state().early.len() == 1, "it is not known to be durable");
        let _ = ssd.disks.end_flush(beside, true);
        wait_for_end(&space);
        assert_eq!(space.state().early[1..], [(VM, SpaceAnswer::Changed)]);
        assert!(!ssd.disks.have_failed());
        drop((space, ssd));
        assert_eq!(extents(&path), 1);
    }

    /// Others would never get a place otherwise.
    #[test]
    fn the_turn_of_a_vm_that_is_stopped_is_the_next_ones() {
        let folder = tempfile::TempDir::new().unwrap();
        let (space, ..) = space(&folder.path().join("ssd"), true);
        for other in [1, 2] {
            space.with_broker(|broker| broker.join(other, None, 0));
            space.ask(other, SpaceRequest::WantTurn);
        }
        SpaceOfVolume { space: Arc::clone(&space), vm: 1 }.stop();
        assert_eq!(space.state().early.len(), 1);
        SpaceOfVolume { space: Arc::clone(&space), vm: VM }.stop();
        assert_eq!(space.state().early[1..], [(2, SpaceAnswer::Turn)]);
    }

    #[test]
    fn g7_a_directory_that_cannot_be_written_fails_the_ssd_for_all() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("ssd");
        let (space, ssd, change) = space(&path, false);
        space.ask(VM, SpaceRequest::Change(change));
        wait_for_end(&space);
        assert!(ssd.disks.have_failed());
        assert_eq!(space.state().early.len(), 1, "nobody is told that it is durable");
        let (_, events) = space.events.latest(None, 1);
        assert!(events[0].text.contains("directory could not be written: a write"), "{}", events[0].text);
        drop((space, ssd));
        assert!(extents(&path) > 1);
    }

    #[test]
    fn g7_a_flush_that_fails_beside_that_of_the_directory_fails_it() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("ssd");
        let (space, ssd, change) = space(&path, true);
        let beside = ssd.disks.begin_flush();
        space.ask(VM, SpaceRequest::Change(change));
        std::thread::sleep(Duration::from_millis(50));
        let _ = ssd.disks.end_flush(beside, false);
        wait_for_end(&space);
        assert_eq!(space.state().early.len(), 1, "nobody is told that it is durable");
        assert!(ssd.disks.have_failed());
    }
}
