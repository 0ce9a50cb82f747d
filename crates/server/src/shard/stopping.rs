//! The end of a shard: guests' requests are answered, caches written back where that is asked for, and engines save what they
//! have. It must not know who asked for it.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::progress::ProgressTimer;
use super::{Ended, Shard};

/// How long a stop waits for guests' requests, and then for the engines.
pub(crate) const STOP_LIMIT: Duration = Duration::from_secs(10);
/// How often a stop looks whether it is done.
pub(super) const STOP_TICK: Duration = Duration::from_millis(20);

/// Why connections end at a stop.
const STOPS: &str = "the service stops";

/// How far a stop is.
pub(super) enum Stopping {
    No,
    /// Requests in flight are answered; then the caches are drained, or not.
    Guests {
        deadline: Instant,
        drain: bool,
    },
    /// The caches are written back, which may take as long as it makes progress.
    Draining(ProgressTimer),
    /// The engines save what they have.
    Engines(Instant),
}

impl Shard {
    /// Blocks that drains still have to write back.
    fn draining_blocks(&mut self) -> u64 {
        self.volumes.numbers().into_iter().map(|at| self.draining_blocks_of(at)).sum()
    }

    pub(super) fn begin_stop(&mut self, drain: bool) {
        match (&mut self.stopping, drain) {
            (Stopping::No, _) => {}
            // Asked again, to end without a drain.
            (Stopping::Guests { drain, .. }, false) => return *drain = false,
            (Stopping::Draining(_), false) => return self.begin_end(Instant::now()),
            _ => return,
        }
        self.stopping = Stopping::Guests { deadline: Instant::now() + STOP_LIMIT, drain };
        let keys: Vec<usize> = self.connections.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.end(key, STOPS);
        }
    }

    /// One step of a stop. At its end, how it went.
    pub(super) fn stop_step(&mut self, now: Instant) -> Option<Ended> {
        match self.stopping {
            Stopping::No => None,
            Stopping::Guests { deadline, drain } => {
                if !self.connections.is_empty() && now < deadline {
                    return None;
                }
                let keys: Vec<usize> = self.connections.iter().map(|(key, _)| key).collect();
                for key in keys {
                    self.kill(key, STOPS);
                }
                // What a failed SSD held is nowhere durable before it is on the backing disk.
                let (mut drains, now_ns) = (false, self.now_ns);
                for at in self.volumes.numbers() {
                    if drain || self.guard(at, |volume| volume.is_rescuing()) == Some(true) {
                        drains |= self.with_volume(at, |volume| volume.drain(false, now_ns)).is_some();
                    }
                }
                if drains {
                    self.settle();
                    self.stopping = Stopping::Draining(ProgressTimer::begin(now, STOP_LIMIT));
                } else {
                    self.begin_end(now);
                }
                None
            }
            Stopping::Draining(mut progress) => {
                let left = self.draining_blocks();
                self.context.draining_blocks.store(left, Ordering::Relaxed);
                match left > 0 && progress.goes_on(left, now) {
                    true => self.stopping = Stopping::Draining(progress),
                    false => self.begin_end(now),
                }
                None
            }
            Stopping::Engines(deadline) => {
                let numbers = self.volumes.numbers();
                // What a volume that is stopped had is not known to be saved.
                let ended = |&at: &usize| self.guard(at, |volume| volume.ended()).unwrap_or(Some(false));
                let ended: Vec<Option<bool>> = numbers.iter().map(ended).collect();
                let writes = self.context.space.iter().any(|space| space.space.is_writing());
                let are_over = ended.iter().all(Option::is_some);
                let is_untold =
                    |&at: &usize| self.guard(at, |volume| volume.has_untold_failure()) == Some(true);
                let untold = numbers.iter().any(is_untold);
                let over = now >= deadline || are_over && self.fences.is_idle() && !writes && !untold;
                let saved = ended.iter().all(|ended| *ended == Some(true)) && !writes && !untold;
                over.then(|| self.ended(&numbers, saved))
            }
        }
    }

    /// How it has ended.
    fn ended(&mut self, numbers: &[usize], saved: bool) -> Ended {
        let mut has_all = |at: usize| self.guard(at, |volume| volume.has_all_on_disk()) == Some(true);
        let disks = numbers.iter().map(|&at| (at, has_all(at))).collect();
        let blocks: Vec<_> = numbers.iter().map(|&at| self.dirty_and_lost_blocks(at)).collect();
        Ended {
            disks,
            saved,
            dirty_blocks: blocks.iter().map(|(dirty, _)| dirty).sum(),
            lost_blocks: blocks.iter().map(|(_, lost)| lost).sum(),
        }
    }

    /// The last step of a stop: the engines save what they have.
    fn begin_end(&mut self, now: Instant) {
        self.context.draining_blocks.store(0, Ordering::Relaxed);
        let now_ns = self.now_ns;
        for at in self.volumes.numbers() {
            self.with_volume(at, |volume| {
                volume.begin_end(now_ns);
                volume.tick(now_ns);
            });
        }
        self.settle();
        self.stopping = Stopping::Engines(now + STOP_LIMIT);
    }
}
