//! Volumes that come to a shard that serves others, leave it, or get another name. It must not know who asks, or what becomes
//! of their space.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use lode_media::Driver;
use lode_nbd::ExportInfo;

use super::progress::ProgressTimer;
use super::stopping::Stopping;
use super::{Shard, VmLog};
use crate::connection::{close, count, open_again};
use crate::fence_file::FenceFile;
use crate::guard::guarded;
use crate::membership::{Failure, keeps};
use crate::start::Prepared;
use crate::volume::{Migration, Volume};

/// How long a volume that leaves may get no further before it is served on.
const REMOVAL_LIMIT: Duration = Duration::from_secs(10);

/// Why connections end.
const REMOVED: &str = "its VM is removed";

/// Why nothing becomes of it.
const FAILED: &str = "A device failed it, or a defect of the program: restart the service first";

/// A volume on its way out.
struct Removal {
    at: usize,
    /// It stays here, and its disk may be opened elsewhere.
    is_release: bool,
    stage: Stage,
    progress: ProgressTimer,
    /// Its clients were cut off.
    cut_off: bool,
    answer: SyncSender<Result<(), Failure>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Dirty blocks are written back while clients go on: so many there were.
    Draining { blocks: u64 },
    /// Requests in flight are answered; then clients that have not gone are hung up on.
    Guests,
    /// What they wrote in the meantime is written back.
    DrainingRest,
    /// The backing disk is flushed.
    Flushing,
}

/// What a volume has come to that is to leave.
#[derive(Debug)]
enum Step {
    Wait,
    Drain,
    CutOff,
    Flush,
    Gone,
    Stay(String),
}

/// How far a volume is that leaves.
struct Standing {
    dirty: u64,
    drains: Option<u64>,
    is_quiet: bool,
    flushed: Option<bool>,
}

impl Standing {
    /// None: a device has failed it.
    fn of(volume: &Volume) -> Option<Standing> {
        (!volume.has_failed()).then(|| Standing {
            dirty: volume.dirty_and_lost_blocks().0,
            drains: volume.draining_blocks(),
            is_quiet: volume.is_quiet(),
            flushed: volume.ended(),
        })
    }
}

/// The volumes that are to leave.
#[derive(Default)]
pub(super) struct Removals(Vec<Removal>);

impl Removals {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this one is to leave: its drains are for that, and nobody else's.
    pub(super) fn has(&self, at: usize) -> bool {
        self.0.iter().any(|removal| removal.at == at)
    }

    /// Whether it has no clients any more, and gets none.
    pub(super) fn takes_no_clients(&self, at: usize) -> bool {
        self.0.iter().any(|removal| removal.at == at && !matches!(removal.stage, Stage::Draining { .. }))
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
        let driver = &mut self.driver;
        let Ok(volume) = guarded(|| Volume::new(vm, driver, connections, log, space)) else { return false };
        self.volumes.insert(at, volume);
        self.due.insert(at);
        self.taking_over.push(at);
        self.ask_engine(at);
        true
    }

    /// Begins to lead a volume out, if that can be now.
    pub(super) fn begin_removal(
        &mut self,
        at: usize,
        disconnect: bool,
        answer: SyncSender<Result<(), Failure>>,
    ) {
        if let Err(reason) = self.check_removal(at, disconnect) {
            let _ = answer.try_send(Err(Failure::Unchanged(reason)));
            return;
        }
        self.guard(at, Volume::take_over_the_rest);
        let progress = ProgressTimer::begin(Instant::now(), REMOVAL_LIMIT);
        let blocks = self.dirty_and_lost_blocks(at).0;
        let stage = Stage::Draining { blocks };
        let (is_release, cut_off) = (false, false);
        self.removals.0.push(Removal { at, is_release, stage, progress, cut_off, answer });
        match blocks {
            0 => self.cut_off(self.removals.0.len() - 1),
            _ => self.drain_removed(at),
        }
    }

    fn drain_removed(&mut self, at: usize) {
        let now_ns = self.now_ns;
        self.with_volume(at, |volume| volume.drain(false, now_ns));
        self.settle();
    }

    /// From here on its clients are served no more.
    fn cut_off(&mut self, removal: usize) {
        let at = self.removals.0[removal].at;
        close(&self.volumes[at].connections);
        let keys = self.connections_of(at);
        let removal = &mut self.removals.0[removal];
        removal.stage = Stage::Guests;
        removal.progress = ProgressTimer::begin(Instant::now(), REMOVAL_LIMIT);
        removal.cut_off |= !keys.is_empty();
        for key in keys {
            self.end(key, REMOVED);
        }
        self.settle();
    }

    fn connections_of(&self, at: usize) -> Vec<usize> {
        self.connections.iter().filter(|(_, one)| one.volume == at).map(|(key, _)| key).collect()
    }

    /// Has a volume's writes go around the SSD while what is dirty is written back. Returns how many blocks these are.
    pub(super) fn write_around(&mut self, at: usize) -> Result<u64, String> {
        self.check_served(at)?;
        let now_ns = self.now_ns;
        self.with_volume(at, |volume| volume.write_around(now_ns)).ok_or_else(|| FAILED.to_owned())?;
        Ok(self.draining_blocks_of(at))
    }

    /// Begins to bring a volume to rest, so that its disk may be opened elsewhere, if that can be now.
    pub(super) fn begin_release(
        &mut self,
        at: usize,
        refuse_clients: bool,
        answer: SyncSender<Result<(), Failure>>,
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
            let _ = answer.try_send(checked.map_err(Failure::Unchanged));
            return;
        }
        close(&self.volumes[at].connections);
        let progress = ProgressTimer::begin(Instant::now(), REMOVAL_LIMIT);
        let (stage, is_release, cut_off) = (Stage::DrainingRest, true, false);
        self.removals.0.push(Removal { at, is_release, stage, progress, cut_off, answer });
        let now_ns = self.now_ns;
        self.with_volume(at, |volume| volume.refuse_requests(now_ns));
    }

    /// Serves a volume as ever that was released or was to be. False: it cannot be.
    pub(super) fn resume_volume(&mut self, at: usize, generation: Option<u64>) -> bool {
        if self.check_served(at).is_err() {
            return false;
        }
        if self.with_volume(at, |volume| volume.end_migration(generation)).is_none() {
            return false;
        }
        open_again(&self.volumes[at].connections);
        true
    }

    fn check_removal(&mut self, at: usize, disconnect: bool) -> Result<(), String> {
        self.check_served(at)?;
        let (dirty, _) = self.dirty_and_lost_blocks(at);
        let volume = &self.volumes[at];
        let clients = count(&volume.connections);
        if !disconnect && (clients > 0 || dirty > 0) {
            let name = volume.export.name();
            return Err(keeps(name, &format!("lode drain --vm {name}"), clients, dirty).unwrap_or_default());
        }
        Ok(())
    }

    /// That a volume is served, and not on its way out.
    fn check_served(&mut self, at: usize) -> Result<(), String> {
        if !matches!(self.stopping, Stopping::No) {
            return Err("The service stops".to_owned());
        }
        if !self.volumes.has(at) || self.removals.has(at) {
            return Err("It is being removed already".to_owned());
        }
        if self.guard(at, |volume| volume.has_failed()) != Some(false) {
            return Err(FAILED.to_owned());
        }
        Ok(())
    }

    /// Moves on the volumes that leave.
    pub(super) fn advance_leavings(&mut self, now: Instant) {
        for removal in (0..self.removals.0.len()).rev() {
            let at = self.removals.0[removal].at;
            match self.removal_step(removal, now) {
                Step::Wait => {}
                Step::Drain => self.drain_removed(at),
                Step::CutOff => self.cut_off(removal),
                Step::Flush => {
                    let now_ns = self.now_ns;
                    self.removals.0[removal].stage = Stage::Flushing;
                    self.removals.0[removal].progress = ProgressTimer::begin(now, REMOVAL_LIMIT);
                    self.with_volume(at, |volume| {
                        volume.flush_last(now_ns);
                        // What the journal does not know yet is not for the next second.
                        volume.tick(now_ns);
                    });
                    self.settle();
                }
                Step::Gone if self.removals.0[removal].is_release => {
                    let Removal { answer, .. } = self.removals.0.swap_remove(removal);
                    self.with_volume(at, Volume::released);
                    let _ = answer.try_send(Ok(()));
                }
                Step::Gone => {
                    let Removal { answer, .. } = self.removals.0.swap_remove(removal);
                    if let Some(volume) = self.volumes.remove(at) {
                        volume.files().for_each(|file| self.driver.remove_file(file));
                    }
                    let _ = answer.try_send(Ok(()));
                }
                Step::Stay(reason) => self.stay(removal, reason),
            }
        }
    }

    /// A volume does not leave after all.
    fn stay(&mut self, removal: usize, reason: String) {
        let Removal { at, is_release, answer, cut_off, .. } = self.removals.0.swap_remove(removal);
        if self.volumes.has(at) && !self.volumes[at].is_stopped() {
            let now_ns = self.now_ns;
            self.with_volume(at, |volume| {
                volume.stay();
                volume.refuse_no_more();
                if !is_release && volume.draining_blocks().is_some() {
                    volume.drain(true, now_ns);
                }
            });
            open_again(&self.volumes[at].connections);
        }
        let failure = match cut_off {
            false => Failure::Unchanged(reason),
            true => Failure::Partly(format!("{reason}. Its clients were cut off, and may connect again")),
        };
        let _ = answer.try_send(Err(failure));
    }

    fn removal_step(&mut self, removal: usize, now: Instant) -> Step {
        let Removal { at, is_release, stage, .. } = self.removals.0[removal];
        if !matches!(self.stopping, Stopping::No) {
            return Step::Stay("The service stops".to_owned());
        }
        let Some(Standing { dirty, drains, is_quiet, flushed }) =
            self.guard(at, |volume| Standing::of(volume)).flatten()
        else {
            return Step::Stay("A device failed on the way, or a defect of the program showed".to_owned());
        };
        // Clients whose requests are refused may stay.
        let clients = if is_release { Vec::new() } else { self.connections_of(at) };
        let left = match stage {
            Stage::Draining { .. } => drains.unwrap_or(0),
            _ => dirty + clients.len() as u64,
        };
        let goes_on = self.removals.0[removal].progress.goes_on(left, now);
        match stage {
            // What is written meanwhile is for the next one, as long as that becomes less.
            Stage::Draining { blocks } if drains.is_none() && dirty > 0 && dirty <= blocks / 2 => {
                self.removals.0[removal].stage = Stage::Draining { blocks: dirty };
                self.removals.0[removal].progress = ProgressTimer::begin(now, REMOVAL_LIMIT);
                Step::Drain
            }
            Stage::Draining { .. } if drains.is_none() => Step::CutOff,
            Stage::Guests if clients.is_empty() => {
                self.removals.0[removal].stage = Stage::DrainingRest;
                self.removals.0[removal].progress = ProgressTimer::begin(now, REMOVAL_LIMIT);
                Step::Wait
            }
            Stage::Guests if !goes_on && !clients.is_empty() => {
                clients.into_iter().for_each(|key| self.kill(key, REMOVED));
                self.removals.0[removal].progress = ProgressTimer::begin(now, REMOVAL_LIMIT);
                Step::Wait
            }
            Stage::DrainingRest if dirty > 0 && drains.is_none() && goes_on => Step::Drain,
            Stage::DrainingRest if dirty == 0 && is_quiet => Step::Flush,
            Stage::Flushing if flushed == Some(false) => {
                Step::Stay("The backing disk could not be flushed".to_owned())
            }
            Stage::Flushing if flushed == Some(true) && is_quiet && self.fences.is_idle() => Step::Gone,
            _ if goes_on => Step::Wait,
            _ => Step::Stay(format!(
                "Nothing more was written back for {} s, with {dirty} dirty blocks left; it stays served",
                REMOVAL_LIMIT.as_secs()
            )),
        }
    }

    /// Gives a volume another name. False: not now.
    pub(super) fn rename_volume(&mut self, at: usize, export: ExportInfo, fence: FenceFile) -> bool {
        if !self.fences.is_idle() || !self.volumes.has(at) {
            return false;
        }
        self.volumes[at].rename(export, fence);
        true
    }
}
