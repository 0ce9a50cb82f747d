//! Volumes that come to a shard that serves others, leave it, release their disks, or get another name. It must not know who asks,
//! or what becomes of their space.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use lode_media::Driver;
use lode_nbd::ExportInfo;

use super::stopping::Stopping;
use super::{Shard, VmLog};
use crate::connection::{close, count, open_again};
use crate::fence_file::FenceFile;
use crate::start::Prepared;
use crate::volume::{Migration, Volume};

/// How long a volume may take to leave before it is served on.
const REMOVAL_LIMIT: Duration = Duration::from_secs(10);

/// Why connections end.
const REMOVED: &str = "its VM is removed";

/// A volume on its way out.
struct Removal {
    at: usize,
    /// It stays here, and its disk may be opened elsewhere.
    is_release: bool,
    deadline: Instant,
    stage: Stage,
    answer: SyncSender<Result<(), String>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Requests in flight are answered, and dirty blocks written back.
    Draining,
    /// The backing disk is flushed.
    Flushing,
}

/// What a volume has come to that is to leave.
enum Step {
    Wait,
    Flush,
    Gone,
    Stay(String),
}

/// The volumes that are to leave.
#[derive(Default)]
pub(super) struct Removals(Vec<Removal>);

impl Removals {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has(&self, at: usize) -> bool {
        self.0.iter().any(|removal| removal.at == at)
    }
}

impl Shard {
    /// Serves a volume from now on, unless the service stops.
    pub(super) fn add_volume(&mut self, at: usize, vm: Prepared, connections: Arc<AtomicU32>) -> bool {
        if !matches!(self.stopping, Stopping::No) {
            return false;
        }
        let log = VmLog::new(vm.export.name(), vm.live.limits.slow_request_ms, self.context.events.clone());
        let space = self.context.space.as_ref().map(|space| space.of(at));
        let volume = Volume::new(vm, &mut self.driver, connections, log, space);
        self.volumes.insert(at, volume);
        self.due.insert(at);
        true
    }

    /// Begins to lead a volume out, if that can be now.
    pub(super) fn begin_removal(
        &mut self,
        at: usize,
        disconnect: bool,
        answer: SyncSender<Result<(), String>>,
    ) {
        if let Err(reason) = self.check_removal(at, disconnect) {
            let _ = answer.try_send(Err(reason));
            return;
        }
        close(&self.volumes[at].connections);
        let keys = self.connections.iter().filter(|(_, one)| one.volume == at).map(|(key, _)| key);
        for key in keys.collect::<Vec<_>>() {
            self.end(key, REMOVED);
        }
        let deadline = Instant::now() + REMOVAL_LIMIT;
        self.removals.0.push(Removal { at, is_release: false, deadline, stage: Stage::Draining, answer });
        let now_ns = self.now_ns;
        self.with_volume(at, |volume| volume.drain(false, now_ns));
    }

    /// Has a volume's writes go around the SSD while what is dirty is written back. Returns how many blocks these are.
    pub(super) fn write_around(&mut self, at: usize) -> Result<u64, String> {
        self.check_served(at)?;
        let now_ns = self.now_ns;
        self.with_volume(at, |volume| volume.write_around(now_ns));
        Ok(self.guard(at, |volume| volume.draining_blocks()).flatten().unwrap_or(0))
    }

    /// Begins to bring a volume to rest, so that its disk may be opened elsewhere, if that can be now.
    pub(super) fn begin_release(
        &mut self,
        at: usize,
        refuse_clients: bool,
        answer: SyncSender<Result<(), String>>,
    ) {
        let checked = self.check_served(at).and_then(|()| match count(&self.volumes[at].connections) {
            0 => Ok(()),
            _ if refuse_clients => Ok(()),
            clients => Err(format!(
                "{clients} clients are connected; end or pause the guest, and disconnect them or add --refuse-clients"
            )),
        });
        let is_released = self.volumes.has(at) && self.volumes[at].migration() == Some(Migration::Released);
        if checked.is_err() || is_released {
            let _ = answer.try_send(checked);
            return;
        }
        close(&self.volumes[at].connections);
        let deadline = Instant::now() + REMOVAL_LIMIT;
        self.removals.0.push(Removal { at, is_release: true, deadline, stage: Stage::Draining, answer });
        let now_ns = self.now_ns;
        self.with_volume(at, |volume| volume.refuse_requests(now_ns));
    }

    /// Serves a volume as ever that was released or was to be. False: it cannot be.
    pub(super) fn resume_volume(&mut self, at: usize) -> bool {
        if self.check_served(at).is_err() {
            return false;
        }
        self.with_volume(at, Volume::end_migration);
        open_again(&self.volumes[at].connections);
        true
    }

    fn check_removal(&self, at: usize, disconnect: bool) -> Result<(), String> {
        self.check_served(at)?;
        let volume = &self.volumes[at];
        let (clients, (dirty, _)) = (count(&volume.connections), volume.dirty_and_lost_blocks());
        if clients > 0 && !disconnect {
            return Err(format!("{clients} clients are connected; disconnect them, or add --disconnect"));
        }
        if dirty > 0 && !disconnect {
            return Err(format!(
                "{dirty} of its blocks are newer than the backing disk; `lode drain --vm` first writes them back"
            ));
        }
        Ok(())
    }

    /// That a volume is served, and not on its way out.
    fn check_served(&self, at: usize) -> Result<(), String> {
        if !matches!(self.stopping, Stopping::No) {
            return Err("The service stops".to_owned());
        }
        if !self.volumes.has(at) || self.removals.has(at) {
            return Err("It is on its way out already".to_owned());
        }
        let volume = &self.volumes[at];
        if volume.is_stopped() || volume.has_failed() {
            return Err(
                "A device failed it, or a defect of the program: restart the service first".to_owned()
            );
        }
        Ok(())
    }

    /// Moves on the volumes that leave.
    pub(super) fn advance_leavings(&mut self, now: Instant) {
        for at in (0..self.removals.0.len()).rev() {
            match self.removal_step(at, now) {
                Step::Wait => {}
                Step::Flush => {
                    let (volume, now_ns) = (self.removals.0[at].at, self.now_ns);
                    self.removals.0[at].stage = Stage::Flushing;
                    self.with_volume(volume, |volume| {
                        volume.flush_last(now_ns);
                        // What the journal does not know yet is not for the next second.
                        volume.tick(now_ns);
                    });
                    self.settle();
                }
                Step::Gone if self.removals.0[at].is_release => {
                    let Removal { at, answer, .. } = self.removals.0.swap_remove(at);
                    self.with_volume(at, Volume::released);
                    let _ = answer.try_send(Ok(()));
                }
                Step::Gone => {
                    let Removal { at, answer, .. } = self.removals.0.swap_remove(at);
                    if let Some(volume) = self.volumes.remove(at) {
                        volume.files().for_each(|file| self.driver.remove_file(file));
                    }
                    let _ = answer.try_send(Ok(()));
                }
                Step::Stay(reason) => {
                    let Removal { at, answer, .. } = self.removals.0.swap_remove(at);
                    if self.volumes.has(at) && !self.volumes[at].is_stopped() {
                        self.guard(at, Volume::stay);
                        self.guard(at, Volume::refuse_no_more);
                        open_again(&self.volumes[at].connections);
                    }
                    let _ = answer.try_send(Err(reason));
                }
            }
        }
    }

    fn removal_step(&mut self, at: usize, now: Instant) -> Step {
        let Removal { at, is_release, deadline, stage, .. } = self.removals.0[at];
        let volume = &self.volumes[at];
        if !matches!(self.stopping, Stopping::No) {
            return Step::Stay("The service stops".to_owned());
        }
        if volume.is_stopped() || volume.has_failed() {
            return Step::Stay("A device failed on the way, or a defect of the program showed".to_owned());
        }
        // Clients that are refused may stay.
        let has_clients = !is_release && self.connections.iter().any(|(_, one)| one.volume == at);
        let dirty = volume.dirty_and_lost_blocks().0;
        let step = match stage {
            Stage::Draining if has_clients || dirty > 0 || !volume.is_quiet() => Step::Wait,
            Stage::Draining => Step::Flush,
            Stage::Flushing => match volume.ended() {
                Some(true) if volume.is_quiet() && self.fences_under_way == 0 => Step::Gone,
                Some(false) => Step::Stay("The backing disk could not be flushed".to_owned()),
                _ => Step::Wait,
            },
        };
        match step {
            Step::Wait if now >= deadline => {
                let what = if has_clients {
                    "clients with requests".to_owned()
                } else {
                    format!("{dirty} dirty blocks")
                };
                Step::Stay(format!(
                    "After {} s there were still {what}; it is served on",
                    REMOVAL_LIMIT.as_secs()
                ))
            }
            step => step,
        }
    }

    /// Gives a volume another name. False: not now.
    pub(super) fn rename_volume(&mut self, at: usize, export: ExportInfo, fence: FenceFile) -> bool {
        if self.fences_under_way > 0 || !self.volumes.has(at) {
            return false;
        }
        self.volumes[at].rename(export, fence);
        true
    }
}
