//! Who waits for whom, and who inherits criticality by it.
//!
//! A process points at those it waits for: the owners of a lock and the waiters ahead of it, or those who will bring an
//! event about. A process inherits criticality exactly when one that is critical, or inherited it, waits for it. That is
//! kept up to date: a new wait walks forward until it meets who has inherited already; an ended wait takes inheritance
//! back from all who may have lost it, and gives it again to those who have another reason. So cycles cannot keep
//! themselves alive. It must not know policies and devices.

use super::{EventId, LockId, Object, Population, ProcessId, WriteId};

#[derive(Clone, Debug, Default)]
struct Process {
    critical: bool,
    inherited: bool,
    /// What the caller was last told of `inherited`.
    told: bool,
    object: Option<Object>,
    owns: Vec<LockId>,
    delivers: Vec<EventId>,
}

/// Owners or deliverers, and waiters in order of arrival.
#[derive(Clone, Debug, Default)]
struct Parties {
    doers: Vec<ProcessId>,
    waiters: Vec<ProcessId>,
}

/// The wait-for graph.
#[derive(Debug)]
pub(super) struct Waits {
    processes: Vec<Process>,
    locks: Vec<Parties>,
    events: Vec<Parties>,
    /// Whose inheritance may have changed since the caller was told.
    touched: Vec<ProcessId>,
    stack: Vec<ProcessId>,
    /// Who may have lost every reason to inherit.
    suspects: Vec<ProcessId>,
    /// Writes that somebody critical was found to wait for.
    wanted: Vec<WriteId>,
}

impl Waits {
    pub fn new(population: Population) -> Waits {
        Waits {
            processes: vec![Process::default(); population.processes as usize],
            locks: vec![Parties::default(); population.locks as usize],
            events: vec![Parties::default(); population.events as usize],
            touched: Vec::new(),
            stack: Vec::new(),
            suspects: Vec::new(),
            wanted: Vec::new(),
        }
    }

    fn process(&self, process: ProcessId) -> &Process {
        &self.processes[process as usize]
    }

    fn process_mut(&mut self, process: ProcessId) -> &mut Process {
        &mut self.processes[process as usize]
    }

    pub fn is_critical(&self, process: ProcessId) -> bool {
        self.process(process).critical
    }

    pub fn inherited(&self, process: ProcessId) -> bool {
        self.process(process).inherited
    }

    /// Critical by itself or by inheritance.
    pub fn is_effective(&self, process: ProcessId) -> bool {
        let process = self.process(process);
        process.critical || process.inherited
    }

    pub fn inheritances(&self) -> usize {
        self.processes.iter().filter(|process| process.inherited).count()
    }

    pub fn set_critical(&mut self, process: ProcessId, critical: bool) {
        self.process_mut(process).critical = critical;
        if critical {
            self.spread(process);
        } else {
            // What it inherited may have come back to it through a cycle.
            self.suspect_all_ahead(process);
            self.suspect(process);
            self.retract();
        }
    }

    /// The process begins to wait. What it waited for before, it waits for no longer.
    pub fn block(&mut self, process: ProcessId, object: Object) {
        self.unblock(process);
        match object {
            Object::Lock(lock) => self.locks[lock as usize].waiters.push(process),
            Object::Event(event) => self.events[event as usize].waiters.push(process),
            Object::Write(_) => {}
        }
        self.process_mut(process).object = Some(object);
        if self.is_effective(process) {
            self.spread(process);
        }
    }

    /// The process waits no longer.
    pub fn unblock(&mut self, process: ProcessId) {
        let Some(object) = self.process(process).object else { return };
        if self.is_effective(process) {
            self.suspect_all_ahead(process);
        }
        self.leave(process, object);
        // Those behind it in a queue waited for it.
        self.suspect(process);
        self.retract();
    }

    /// The process owns the lock now. If it waited for it, it waits no longer.
    pub fn acquire(&mut self, process: ProcessId, lock: LockId) {
        let object = self.process(process).object;
        if object == Some(Object::Lock(lock)) {
            if self.is_effective(process) {
                self.suspect_all_ahead(process);
            }
            self.leave(process, Object::Lock(lock));
            self.suspect(process);
        }
        self.locks[lock as usize].doers.push(process);
        self.process_mut(process).owns.push(lock);
        self.retract();
        self.spread_from_waiters(Object::Lock(lock));
    }

    /// The process owns the lock no longer. An acquisition that was never seen is not missed.
    pub fn release(&mut self, process: ProcessId, lock: LockId) {
        remove(&mut self.locks[lock as usize].doers, process);
        remove(&mut self.process_mut(process).owns, lock);
        self.suspect(process);
        self.retract();
    }

    /// The process will bring the event about.
    pub fn expect(&mut self, process: ProcessId, event: EventId) {
        self.events[event as usize].doers.push(process);
        self.process_mut(process).delivers.push(event);
        self.spread_from_waiters(Object::Event(event));
    }

    /// Calls `change` for every process whose inheritance is another one than it was told last, with what it is now.
    pub fn tell(&mut self, mut change: impl FnMut(ProcessId, bool)) {
        let Waits { processes, touched, .. } = self;
        for id in touched.drain(..) {
            let process = &mut processes[id as usize];
            if process.inherited != process.told {
                process.told = process.inherited;
                change(id, process.inherited);
            }
        }
    }

    /// Calls `wanted` for each write that somebody critical was found to wait for.
    pub fn take_wanted(&mut self, wanted: impl FnMut(WriteId)) {
        self.wanted.drain(..).for_each(wanted);
    }

    fn leave(&mut self, process: ProcessId, object: Object) {
        match object {
            Object::Lock(lock) => remove(&mut self.locks[lock as usize].waiters, process),
            Object::Event(event) => remove(&mut self.events[event as usize].waiters, process),
            Object::Write(_) => {}
        }
        self.process_mut(process).object = None;
    }

    fn parties(&self, object: Object) -> Option<&Parties> {
        match object {
            Object::Lock(lock) => Some(&self.locks[lock as usize]),
            Object::Event(event) => Some(&self.events[event as usize]),
            Object::Write(_) => None,
        }
    }

    /// The `i`th of those that the process waits for: doers first, then, of a lock, the waiters ahead of it.
    fn ahead(&self, process: ProcessId, i: usize) -> Option<ProcessId> {
        let object = self.process(process).object?;
        let parties = self.parties(object)?;
        if let Some(&doer) = parties.doers.get(i) {
            return Some(doer);
        }
        if !matches!(object, Object::Lock(_)) {
            return None;
        }
        parties.waiters.get(i - parties.doers.len()).copied().filter(|&waiter| waiter != process)
    }

    /// Whether somebody critical, by itself or by inheritance, waits for the process.
    fn is_awaited(&self, process: ProcessId) -> bool {
        let Process { object, owns, delivers, .. } = self.process(process);
        let counts = |&waiter: &ProcessId| waiter != process && self.is_effective(waiter);
        let of_lock = |&lock: &LockId| self.locks[lock as usize].waiters.iter().any(counts);
        let of_event = |&event: &EventId| self.events[event as usize].waiters.iter().any(counts);
        let behind = match object {
            Some(Object::Lock(lock)) => {
                let waiters = &self.locks[*lock as usize].waiters;
                waiters.iter().rev().take_while(|&&waiter| waiter != process).any(counts)
            }
            _ => false,
        };
        behind || owns.iter().any(of_lock) || delivers.iter().any(of_event)
    }

    /// Everybody on the way from the process inherits. A process that has inherited was walked through before.
    fn spread(&mut self, process: ProcessId) {
        self.stack.push(process);
        while let Some(at) = self.stack.pop() {
            if let Some(Object::Write(write)) = self.process(at).object {
                self.wanted.push(write);
            }
            let mut i = 0;
            while let Some(next) = self.ahead(at, i) {
                i += 1;
                if next != at && !self.inherited(next) {
                    let was_critical = self.is_critical(next);
                    self.process_mut(next).inherited = true;
                    self.touched.push(next);
                    // Who is critical by itself was walked through when it began to wait.
                    if !was_critical {
                        self.stack.push(next);
                    }
                }
            }
        }
    }

    fn spread_from_waiters(&mut self, object: Object) {
        let waiter =
            |waits: &Waits, i| waits.parties(object).and_then(|parties| parties.waiters.get(i).copied());
        let mut i = 0;
        while let Some(process) = waiter(self, i) {
            i += 1;
            if self.is_effective(process) {
                self.spread(process);
            }
        }
    }

    /// Takes inheritance from a process, to see later whether it still has a reason.
    fn suspect(&mut self, process: ProcessId) {
        if std::mem::take(&mut self.process_mut(process).inherited) {
            self.suspects.push(process);
            self.touched.push(process);
        }
    }

    fn suspect_all_ahead(&mut self, process: ProcessId) {
        let mut i = 0;
        while let Some(next) = self.ahead(process, i) {
            i += 1;
            self.suspect(next);
        }
    }

    /// Takes inheritance also from those behind the suspects, and gives it back where a reason is left.
    fn retract(&mut self) {
        let mut i = 0;
        while let Some(&suspect) = self.suspects.get(i) {
            i += 1;
            if !self.is_critical(suspect) {
                self.suspect_all_ahead(suspect);
            }
        }
        let suspects = std::mem::take(&mut self.suspects);
        for &suspect in &suspects {
            if !self.inherited(suspect) && self.is_awaited(suspect) {
                self.process_mut(suspect).inherited = true;
                self.spread(suspect);
            }
        }
        self.suspects = suspects;
        self.suspects.clear();
    }
}

/// Removes one occurrence, keeping the order.
fn remove(list: &mut Vec<u32>, value: u32) {
    if let Some(at) = list.iter().position(|&other| other == value) {
        list.remove(at);
    }
}
