//! Who waits for durability: guests that asked for it, and blocks whose next step needs it. And who waits for less: a
//! guest's plain write is acknowledged when a death of the process cannot lose it any more.

use lode_types::BlockNo;

use crate::blocks::{Op, Stage};
use crate::engine::Engine;
use crate::guest::GuestError;

/// A request that is answered once both media are durable this far.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    request: usize,
    version: u64,
    mark: u64,
}

/// All who wait.
#[derive(Debug, Default)]
pub(crate) struct Durable {
    waiters: Vec<Waiter>,
    /// Requests that are answered once this version outlives the process.
    keepers: Vec<(u64, usize)>,
    gates: Vec<(u64, BlockNo)>,
}

impl Durable {
    /// The journal version that somebody waits for; 0 if nobody does.
    pub(crate) fn version_waited_for(&self) -> u64 {
        let waiters = self.waiters.iter().map(|waiter| waiter.version);
        waiters.chain(self.gates.iter().map(|gate| gate.0)).max().unwrap_or(0)
    }

    /// The version that somebody waits to outlive the process; 0 if nobody does.
    pub(crate) fn kept_waited_for(&self) -> u64 {
        self.keepers.iter().map(|keeper| keeper.0).max().unwrap_or(0)
    }

    /// The backing mark that somebody waits for; 0 if nobody does.
    pub(crate) fn mark_waited_for(&self) -> u64 {
        self.waiters.iter().map(|waiter| waiter.mark).max().unwrap_or(0)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiters.is_empty() && self.keepers.is_empty() && self.gates.is_empty()
    }

    /// The requests that wait, because nothing will become durable any more.
    pub(crate) fn give_up_waiters(&mut self) -> Vec<usize> {
        let keepers = self.keepers.drain(..).map(|(_, request)| request);
        self.waiters.drain(..).map(|waiter| waiter.request).chain(keepers).collect()
    }

    /// The blocks that wait, because nothing will become durable any more.
    pub(crate) fn give_up_gates(&mut self) -> Vec<BlockNo> {
        self.gates.drain(..).map(|(_, block)| block).collect()
    }
}

impl Engine {
    /// Holds the operation at the head of `block`'s queue until `version` is durable.
    pub(crate) fn gate(&mut self, version: u64, block: BlockNo) {
        self.set_stage(block, Stage::Gate);
        if !self.health.is_well() {
            self.gate_failed(block);
        } else {
            self.durable.gates.push((version, block));
        }
    }

    /// What the operation at the head of `block`'s queue waits for will never be durable.
    pub(crate) fn gate_failed(&mut self, block: BlockNo) {
        let Some(flight) = self.blocks.get(block) else { return };
        match flight.queue.front() {
            Some(&Op::Access(op)) => self.access_failed(block, &op, GuestError::Io),
            // A copy not yet written back is kept and can be read.
            _ => self.op_done(block),
        }
    }

    /// Answers a request once everything acknowledged so far is durable.
    pub(crate) fn answer_when_durable(&mut self, request: usize) {
        let version = self.ssd.as_ref().map_or(0, |ssd| ssd.store.places().version());
        let mark = self.backing.mark();
        self.durable.waiters.push(Waiter { request, version, mark });
        self.release_waiters();
    }

    /// Answers a request once everything up to `version` outlives the process, which usually it does already.
    pub(crate) fn answer_when_kept(&mut self, request: usize, version: u64) {
        if version <= self.kept_version() {
            self.answer(request);
        } else if !self.health.is_well() {
            self.fail_request(request, GuestError::Io);
            self.answer(request);
        } else {
            self.durable.keepers.push((version, request));
        }
    }

    fn kept_version(&self) -> u64 {
        self.ssd.as_ref().map_or(u64::MAX, |ssd| ssd.store.kept_version())
    }

    /// Journal pages were written: answers those who waited for no more.
    pub(crate) fn release_keepers(&mut self) {
        let kept = self.kept_version();
        let is_kept = |&mut (version, _): &mut (u64, usize)| version <= kept;
        let released: Vec<_> = self.durable.keepers.extract_if(.., is_kept).collect();
        released.into_iter().for_each(|(_, request)| self.answer(request));
    }

    /// Answers the requests whose durability has been reached.
    pub(crate) fn release_waiters(&mut self) {
        let version = self.ssd.as_ref().map_or(u64::MAX, |ssd| ssd.store.durable_version());
        let mut at = 0;
        while let Some(&waiter) = self.durable.waiters.get(at) {
            if waiter.version <= version && self.backing.is_flushed(waiter.mark) {
                self.durable.waiters.swap_remove(at);
                self.answer(waiter.request);
            } else {
                at += 1;
            }
        }
    }

    /// The journal is durable up to `version`.
    pub(crate) fn journal_durable(&mut self, version: u64) {
        let mut open = Vec::new();
        self.durable.gates.retain(|&(at, block)| {
            let wait = at > version;
            if !wait {
                open.push(block);
            }
            wait
        });
        for block in open {
            self.gate_opened(block);
        }
        self.range_durable(version);
        self.release_waiters();
    }
}
