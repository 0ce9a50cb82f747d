//! Admission from first principles: who waits for whom is found anew after each step.

use std::collections::{BTreeMap, BTreeSet};

use lode_policy::criticality::{AdmissionPolicy, CompletionVerdict, Device, Object, SubmittedWrite, Verdict};

/// What is known of a write that went to the disk.
#[derive(Clone, Debug)]
struct Sent {
    write: SubmittedWrite,
    reissued: bool,
    /// How the disk and the cache ended, if they did.
    ends: [Option<bool>; 2],
    told: bool,
}

impl Sent {
    /// Only the first reissue counts, and only while nothing has ended.
    fn wants_reissue(&self) -> bool {
        !self.reissued && self.ends == [None, None]
    }

    fn has(&self, block: u64) -> bool {
        (self.write.first_block..self.write.first_block + u64::from(self.write.blocks)).contains(&block)
    }
}

/// Everything as plain lists.
#[derive(Debug)]
pub struct Oracle {
    policy: AdmissionPolicy,
    pi_sync_only: bool,
    pub critical: BTreeSet<u32>,
    pub waits: BTreeMap<u32, Object>,
    /// Waiters of each lock in order.
    queues: BTreeMap<u32, Vec<u32>>,
    owners: Vec<(u32, u32)>,
    deliverers: Vec<(u32, u32)>,
    sent: BTreeMap<u32, Sent>,
}

fn remove_first(list: &mut Vec<(u32, u32)>, pair: (u32, u32)) {
    if let Some(at) = list.iter().position(|other| *other == pair) {
        list.remove(at);
    }
}

impl Oracle {
    pub fn new(policy: AdmissionPolicy, pi_sync_only: bool) -> Oracle {
        Oracle {
            policy,
            pi_sync_only,
            critical: BTreeSet::new(),
            waits: BTreeMap::new(),
            queues: BTreeMap::new(),
            owners: Vec::new(),
            deliverers: Vec::new(),
            sent: BTreeMap::new(),
        }
    }

    /// Those that a process waits for.
    fn ahead(&self, process: u32) -> BTreeSet<u32> {
        let mut found = BTreeSet::new();
        match self.waits.get(&process) {
            Some(Object::Lock(lock)) => {
                found.extend(self.owners.iter().filter(|(_, of)| of == lock).map(|(owner, _)| *owner));
                found.extend(self.queues[lock].iter().take_while(|waiter| **waiter != process));
            }
            Some(Object::Event(event)) => {
                found.extend(self.deliverers.iter().filter(|(_, of)| of == event).map(|(by, _)| *by));
            }
            _ => {}
        }
        found.remove(&process);
        found
    }

    /// Everybody reachable from somebody critical by at least one wait.
    pub fn inherited(&self) -> BTreeSet<u32> {
        let mut inherited = BTreeSet::new();
        if !self.policy.inherits() {
            return inherited;
        }
        loop {
            let more: BTreeSet<u32> =
                self.critical.union(&inherited).flat_map(|&process| self.ahead(process)).collect();
            if more.is_subset(&inherited) {
                return inherited;
            }
            inherited.extend(more);
        }
    }

    pub fn verdict(&self, process: u32, write: &SubmittedWrite) -> Verdict {
        let critical = self.critical.contains(&process);
        let inherited = self.inherited().contains(&process);
        let cp = critical && write.sync;
        let admits = match self.policy {
            AdmissionPolicy::All => true,
            AdmissionPolicy::Sync => write.sync,
            AdmissionPolicy::Wal => write.log,
            AdmissionPolicy::Cp => cp,
            _ if self.pi_sync_only => cp || (inherited && write.sync),
            _ => cp || inherited,
        };
        if admits { Verdict::Cache } else { Verdict::Disk }
    }

    pub fn block(&mut self, process: u32, object: Object) {
        self.unblock(process);
        self.waits.insert(process, object);
        if let Object::Lock(lock) = object {
            self.queues.entry(lock).or_default().push(process);
        }
    }

    pub fn unblock(&mut self, process: u32) {
        self.waits.remove(&process);
        self.queues.values_mut().for_each(|queue| queue.retain(|waiter| *waiter != process));
    }

    pub fn acquire(&mut self, process: u32, lock: u32) {
        if self.waits.get(&process) == Some(&Object::Lock(lock)) {
            self.unblock(process);
        }
        self.owners.push((process, lock));
    }

    pub fn release(&mut self, process: u32, lock: u32) {
        remove_first(&mut self.owners, (process, lock));
    }

    pub fn expect(&mut self, process: u32, event: u32) {
        self.deliverers.push((process, event));
    }

    pub fn is_under_way(&self, id: u32) -> bool {
        self.sent.contains_key(&id)
    }

    pub fn on_disk(&mut self, write: SubmittedWrite) {
        self.sent.insert(write.id, Sent { write, reissued: false, ends: [None, None], told: false });
    }

    /// Writes that must be issued again now, because somebody critical waits for them.
    pub fn reissues(&mut self) -> BTreeSet<u32> {
        if !self.policy.reissues() {
            return BTreeSet::new();
        }
        let inherited = self.inherited();
        let awaited = |id: u32| {
            let waits = |process: &&u32| self.waits.get(process) == Some(&Object::Write(id));
            self.critical.union(&inherited).any(|process| waits(&process))
        };
        let now: BTreeSet<u32> = self
            .sent
            .iter()
            .filter(|(id, sent)| sent.wants_reissue() && awaited(**id))
            .map(|(id, _)| *id)
            .collect();
        now.iter().for_each(|id| self.sent.get_mut(id).unwrap().reissued = true);
        now
    }

    /// Writes that overlap, or all of them.
    pub fn overlap(&mut self, process: u32, range: Option<std::ops::Range<u64>>) -> BTreeSet<u32> {
        if !self.policy.reissues()
            || !(self.critical.contains(&process) || self.inherited().contains(&process))
        {
            return BTreeSet::new();
        }
        let mut found = BTreeSet::new();
        for (id, sent) in &mut self.sent {
            if sent.wants_reissue()
                && range.clone().is_none_or(|mut range| range.any(|block| sent.has(block)))
            {
                sent.reissued = true;
                found.insert(*id);
            }
        }
        found
    }

    pub fn holds_destage(&self, block: u64) -> bool {
        let both = |sent: &Sent| sent.reissued && sent.ends[0].is_none() && sent.ends[1] != Some(false);
        self.sent.values().any(|sent| both(sent) && sent.has(block))
    }

    /// Whether this device still owes a completion.
    pub fn owes(&self, id: u32, from: Device) -> bool {
        self.sent.get(&id).is_some_and(|sent| match from {
            Device::Disk => sent.ends[0].is_none(),
            Device::Cache => sent.reissued && sent.ends[1].is_none(),
        })
    }

    pub fn complete(&mut self, id: u32, from: Device, ok: bool) -> CompletionVerdict {
        let sent = self.sent.get_mut(&id).unwrap();
        sent.ends[usize::from(from == Device::Cache)] = Some(ok);
        let owed = sent.ends[0].is_none() || (sent.reissued && sent.ends[1].is_none());
        let completion = match (sent.told, ok) {
            (true, _) => CompletionVerdict::Discard,
            (false, true) => CompletionVerdict::Acknowledge,
            (false, false) if owed => CompletionVerdict::Wait,
            (false, false) => CompletionVerdict::Fail,
        };
        sent.told |= ok;
        if !owed {
            self.sent.remove(&id);
        }
        completion
    }
}
