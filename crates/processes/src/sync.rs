//! Locks and events of the simulated processes: who goes on when. It must not know why a process locks, nor what follows
//! from its waiting.

use std::collections::VecDeque;

use lode_policy::criticality::ProcessId;

use crate::script::Mode;

/// How somebody wants a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Want {
    Own(Mode),
    /// To own it alone, or to have its work done by another owner.
    Join {
        skip_ops: u32,
    },
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    process: ProcessId,
    want: Want,
    /// The present owner's work will do for it.
    covered: bool,
}

/// Who goes on after a release, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    Owns(ProcessId),
    /// Owns it, and does the work of so many others.
    OwnsFor {
        process: ProcessId,
        others: u32,
    },
    Joined {
        process: ProcessId,
        skip_ops: u32,
    },
}

/// A lock that is given in order of arrival; neighbouring readers get it together.
#[derive(Debug, Default)]
pub(crate) struct Lock {
    owners: Vec<ProcessId>,
    shared: bool,
    queue: VecDeque<Waiter>,
}

impl Lock {
    /// True: the process owns the lock. False: it waits.
    pub fn acquire(&mut self, process: ProcessId, want: Want) -> bool {
        let reads = matches!(want, Want::Own(Mode::Read));
        let is_free = self.owners.is_empty() || (self.shared && reads);
        if is_free && self.queue.is_empty() {
            self.owners.push(process);
            self.shared = reads;
            return true;
        }
        self.queue.push_back(Waiter { process, want, covered: false });
        false
    }

    /// Appends to `woken` who goes on. False: the process did not own the lock.
    pub fn release(&mut self, process: ProcessId, woken: &mut Vec<Woken>) -> bool {
        let Some(at) = self.owners.iter().position(|&owner| owner == process) else { return false };
        self.owners.remove(at);
        if !self.owners.is_empty() {
            return true;
        }
        self.queue.retain(|waiter| match waiter.want {
            Want::Join { skip_ops } if waiter.covered => {
                woken.push(Woken::Joined { process: waiter.process, skip_ops });
                false
            }
            _ => true,
        });
        self.hand_over(woken);
        true
    }

    /// Who owns it.
    pub fn owners(&self) -> &[ProcessId] {
        &self.owners
    }

    fn hand_over(&mut self, woken: &mut Vec<Woken>) {
        let Some(next) = self.queue.pop_front() else { return };
        self.shared = matches!(next.want, Want::Own(Mode::Read));
        self.owners.push(next.process);
        let joins = |waiter: &&Waiter| matches!(waiter.want, Want::Join { .. });
        woken.push(match next.want {
            Want::Own(_) => Woken::Owns(next.process),
            Want::Join { .. } => {
                let others = self.queue.iter().filter(joins).count() as u32;
                Woken::OwnsFor { process: next.process, others }
            }
        });
        if self.shared {
            while let Some(&Waiter { process, want: Want::Own(Mode::Read), .. }) = self.queue.front() {
                self.queue.pop_front();
                self.owners.push(process);
                woken.push(Woken::Owns(process));
            }
        } else {
            self.queue.iter_mut().for_each(|waiter| waiter.covered = true);
        }
    }
}

/// An event: a counter of signals, and a service that one process does for all who ask.
#[derive(Debug, Default)]
pub(crate) struct SyncEvent {
    signals: u64,
    waiters: VecDeque<ProcessId>,
    callers: Vec<ProcessId>,
    /// The first so many callers are served in this round.
    collected: usize,
    collector: Option<ProcessId>,
}

impl SyncEvent {
    /// True: there was a signal. False: the process waits.
    pub fn wait(&mut self, process: ProcessId) -> bool {
        if self.signals > 0 {
            self.signals -= 1;
            return true;
        }
        self.waiters.push_back(process);
        false
    }

    /// Who goes on.
    pub fn signal(&mut self) -> Option<ProcessId> {
        let next = self.waiters.pop_front();
        if next.is_none() {
            self.signals = self.signals.saturating_add(1);
        }
        next
    }

    /// The process waits for the service. Returns the server, if it waited for this.
    pub fn call(&mut self, process: ProcessId) -> Option<ProcessId> {
        self.callers.push(process);
        let server = self.collector.take();
        if server.is_some() {
            self.collected = self.callers.len();
        }
        server
    }

    /// True: somebody asked. False: the server waits.
    pub fn collect(&mut self, server: ProcessId) -> bool {
        if self.callers.is_empty() {
            self.collector = Some(server);
            return false;
        }
        self.collected = self.callers.len();
        true
    }

    /// Those who were collected go on.
    pub fn deliver(&mut self) -> Vec<ProcessId> {
        let collected = std::mem::take(&mut self.collected);
        self.callers.drain(..collected).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_and_writers_wait_their_turn() {
        let mut lock = Lock::default();
        let mut woken = Vec::new();
        assert!(lock.acquire(0, Want::Own(Mode::Read)));
        assert!(lock.acquire(1, Want::Own(Mode::Read)));
        assert!(!lock.acquire(2, Want::Own(Mode::Write)));
        assert!(!lock.acquire(3, Want::Own(Mode::Read)), "it came after the writer");
        assert!(!lock.acquire(4, Want::Own(Mode::Read)));
        assert!(lock.release(0, &mut woken) && woken.is_empty());
        assert!(lock.release(1, &mut woken));
        assert_eq!(woken, [Woken::Owns(2)]);
        woken.clear();
        assert!(lock.release(2, &mut woken));
        assert_eq!(woken, [Woken::Owns(3), Woken::Owns(4)]);
        assert!(!lock.release(2, &mut woken), "it owns nothing");
    }

    #[test]
    fn who_joins_was_there_before_the_work_began() {
        let mut lock = Lock::default();
        let mut woken = Vec::new();
        let join = Want::Join { skip_ops: 2 };
        assert!(lock.acquire(0, join));
        assert!(!lock.acquire(1, join));
        assert!(!lock.acquire(2, join));
        lock.release(0, &mut woken);
        assert_eq!(woken, [Woken::OwnsFor { process: 1, others: 1 }], "0 began before they came");
        woken.clear();
        assert!(!lock.acquire(3, join));
        lock.release(1, &mut woken);
        assert_eq!(
            woken,
            [Woken::Joined { process: 2, skip_ops: 2 }, Woken::OwnsFor { process: 3, others: 0 }]
        );
    }

    #[test]
    fn a_service_serves_those_who_asked_before_it_began() {
        let mut event = SyncEvent::default();
        assert!(!event.collect(9));
        assert_eq!(event.call(1), Some(9));
        assert_eq!(event.call(2), None);
        assert_eq!(event.deliver(), [1]);
        assert!(event.collect(9));
        assert_eq!(event.deliver(), [2]);
    }

    #[test]
    fn signals_are_counted() {
        let mut event = SyncEvent::default();
        assert_eq!(event.signal(), None);
        assert!(event.wait(1));
        assert!(!event.wait(1));
        assert_eq!(event.signal(), Some(1));
    }
}
