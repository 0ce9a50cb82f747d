//! How a shard runs a volume's engine, so that a panic stops that volume alone, and what it answers for one that is stopped. It must
//! not know what is done with a volume.

use lode_media::Driver;
use lode_policy::Quota;

use super::Shard;
use crate::events::EventKind;
use crate::guard::guarded;
use crate::status::VmView;
use crate::volume::Volume;

impl Shard {
    /// Does something with a volume that may move it on, unless it is stopped or gone.
    pub(super) fn with_volume<T>(&mut self, at: usize, work: impl FnOnce(&mut Volume) -> T) -> Option<T> {
        if self.volumes.has(at) {
            self.due.insert(at);
        }
        self.guard(at, work)
    }

    /// Does something with a volume, unless it is stopped or gone. Should that panic, the volume is, and the others are served on.
    pub(super) fn guard<T>(&mut self, at: usize, work: impl FnOnce(&mut Volume) -> T) -> Option<T> {
        if !self.volumes.has(at) {
            return None;
        }
        let volume = &mut self.volumes[at];
        if volume.is_stopped() {
            return None;
        }
        let now_ns = self.now_ns;
        let done = guarded(|| {
            volume.set_clock(now_ns);
            work(volume)
        });
        match done {
            Ok(done) => Some(done),
            Err(defect) => {
                self.stop_volume(at, &defect);
                None
            }
        }
    }

    /// Does something with a volume that is stopped, for others that wait for it. Should that panic, the log has said so, and there
    /// is no more to stop.
    pub(super) fn guard_stopped(&mut self, at: usize, work: impl FnOnce(&mut Volume)) {
        let _ = guarded(|| work(&mut self.volumes[at]));
    }

    /// Asks a volume's engine what is to be known of it, unless it is stopped or gone.
    pub(super) fn ask_engine(&mut self, at: usize) {
        self.guard(at, Volume::ask_engine);
    }

    /// A volume is not to be trusted any more: its connections are cut off, and nothing of it is acknowledged.
    pub(super) fn stop_volume(&mut self, at: usize, defect: &str) {
        self.volumes[at].stop(defect);
        self.due.insert(at);
        if let Some(space) = &self.context.space {
            space.of(at).stop();
        }
        let text = format!("stopped by a defect of the program: {defect}");
        let name = self.volumes[at].export.name();
        self.context.events.note(EventKind::Failure, Some(name), text);
        let keys = self.connections.iter().filter(|(_, one)| one.volume == at).map(|(key, _)| key);
        for key in keys.collect::<Vec<_>>() {
            if self.connections[key].cut_off() {
                self.driver.remove_socket(self.connections[key].socket);
            }
            self.touch(key);
        }
    }

    pub(super) fn view(&mut self, at: usize) -> VmView {
        self.ask_engine(at);
        self.volumes[at].known_view(self.context.number, self.now_ns)
    }

    pub(super) fn held(&mut self, at: usize) -> Quota {
        self.ask_engine(at);
        self.volumes[at].known_held()
    }

    /// Blocks that are newer than the backing disk, and of those the ones that are damaged.
    pub(super) fn dirty_and_lost_blocks(&mut self, at: usize) -> (u64, u64) {
        self.ask_engine(at);
        self.volumes[at].known_dirty_and_lost_blocks()
    }

    /// Blocks that a volume's drain still has to write back.
    pub(super) fn draining_blocks_of(&mut self, at: usize) -> u64 {
        self.guard(at, |volume| volume.draining_blocks()).flatten().unwrap_or(0)
    }
}
