//! The event loop: processes run until they wait, and go on when something wakes them. It must not know where writes go.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use lode_policy::criticality::{Admission, Consequence, Object, ProcessId, WriteId};

use crate::device::CommandId;
use crate::io::Io;
use crate::processors::{Processors, Slice};
use crate::report::{ProcessCounts, RequestsReport};
use crate::script::{DataKind, MAX_WRITE_BLOCKS, Primitive, Script, Step, WriteOp};
use crate::sync::{Lock, SyncEvent, Want, Woken};
use crate::{MAX_CACHE_BLOCKS, MAX_OPS_AT_ONCE, RequestsError, RunConfig, Stuck, check};

/// What happens at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Happening {
    Resume(ProcessId),
    /// A process used a processor, and wants it for so long yet.
    Slice(ProcessId, u64),
    Done(CommandId),
}

/// Happenings in order of time, and of their making when the times are equal.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    pub now_ns: u64,
    heap: BinaryHeap<Reverse<(u64, u64, Happening)>>,
    made: u64,
}

impl Clock {
    pub fn after(&mut self, ns: u64, happening: Happening) {
        self.made += 1;
        self.heap.push(Reverse((self.now_ns.saturating_add(ns), self.made, happening)));
    }
}

#[derive(Debug, Default)]
struct Process {
    /// Since when it waits, and in what.
    waits: Option<(u64, Primitive, Object)>,
    /// Those whose log its next write of the log has as well.
    group: u32,
    /// Operations that it has begun.
    steps: u64,
    /// Since when it serves a request.
    request_ns: Option<u64>,
    in_fsync: bool,
    finished_ns: Option<u64>,
}

/// Processes, what they share, and the machine below.
pub(crate) struct World {
    pub script: Script,
    pub config: RunConfig,
    pub clock: Clock,
    pub admission: Admission,
    pub tally: ProcessCounts,
    pub io: Io,
    processes: Vec<Process>,
    locks: Vec<Lock>,
    events: Vec<SyncEvent>,
    ready: VecDeque<ProcessId>,
    processors: Processors,
    out: Vec<Consequence>,
    woken: Vec<Woken>,
    warm: bool,
}

impl World {
    /// With `tracks_contents` it is known what each device holds.
    pub fn new(script: Script, config: &RunConfig, tracks_contents: bool) -> Result<World, RequestsError> {
        let population = script.population()?;
        check("cache blocks", config.cache_blocks as u64, 1..=MAX_CACHE_BLOCKS as u64)?;
        config.machine.check()?;
        let mut admission = Admission::new(config.admission, population);
        let mut out = Vec::new();
        for (event, info) in script.events.iter().enumerate() {
            info.deliverers.iter().for_each(|&process| admission.on_expect(process, event as u32, &mut out));
        }
        Ok(World {
            config: *config,
            clock: Clock::default(),
            admission,
            tally: ProcessCounts::new(script.programs.len()),
            io: Io::new(config, &script, tracks_contents),
            processes: script.programs.iter().map(|_| Process::default()).collect(),
            locks: script.locks.iter().map(|_| Lock::default()).collect(),
            events: script.events.iter().map(|_| SyncEvent::default()).collect(),
            ready: (0..population.processes).collect(),
            processors: Processors::new(
                config.machine.processors as u32,
                1000 * config.machine.time_slice_us,
            ),
            out,
            woken: Vec::new(),
            warm: config.warm_up_ns == 0,
            script,
        })
    }

    /// Runs until nothing is left to happen, the time is over, or so many things have happened.
    pub fn run(&mut self, happenings: u64) -> Result<(), RequestsError> {
        let mut happened = 0;
        loop {
            while let Some(process) = self.ready.pop_front() {
                self.run_process(process)?;
            }
            while let Some(Slice { process, ns, left_ns }) = self.processors.start() {
                self.clock.after(ns, Happening::Slice(process, left_ns));
            }
            if happened == happenings {
                return Ok(());
            }
            let Some(&Reverse((at_ns, _, happening))) = self.clock.heap.peek() else {
                return self.check_idle();
            };
            if at_ns > self.config.end_ns {
                self.clock.now_ns = self.config.end_ns;
                return Ok(());
            }
            self.clock.heap.pop();
            self.clock.now_ns = at_ns;
            happened += 1;
            if !self.warm && at_ns >= self.config.warm_up_ns {
                self.warm = true;
                self.tally = ProcessCounts::new(self.script.programs.len());
                self.io.forget_loads();
            }
            match happening {
                Happening::Resume(process) => self.ready.push_back(process),
                Happening::Slice(process, left_ns) => {
                    if self.processors.end(process, left_ns) {
                        self.ready.push_back(process);
                    }
                }
                Happening::Done(command) => self.command_done(command),
            }
        }
    }

    /// Whether what happens is counted.
    pub fn warm(&self) -> bool {
        self.warm
    }

    /// Whoever waits now waits for ever, unless it only offers a service.
    fn check_idle(&self) -> Result<(), RequestsError> {
        let stuck = (0..self.processes.len() as u32).filter_map(|process| self.stuck(process)).collect();
        match self.find_cycle() {
            Some(cycle) => Err(RequestsError::Deadlock { cycle }),
            None => match stuck {
                stuck if Vec::is_empty(&stuck) => Ok(()),
                stuck => Err(RequestsError::WaitsForEver { stuck }),
            },
        }
    }

    fn stuck(&self, process: ProcessId) -> Option<Stuck> {
        let state = &self.processes[process as usize];
        state.waits.map(|(_, _, object)| Stuck { process, step: state.steps.saturating_sub(1), object })
    }

    /// Processes that wait for each other, each for the next and the last for the first.
    fn find_cycle(&self) -> Option<Vec<Stuck>> {
        let mut path: Vec<Stuck> = Vec::new();
        // From each process along the first of those that it waits for and that wait themselves.
        let mut seen = vec![false; self.processes.len()];
        for start in 0..self.processes.len() as u32 {
            path.clear();
            let mut at = start;
            while let Some(stuck) = self.stuck(at) {
                if let Some(begins) = path.iter().position(|other| other.process == at) {
                    return Some(path.split_off(begins));
                }
                if std::mem::replace(&mut seen[at as usize], true) {
                    break;
                }
                path.push(stuck);
                let waits = |process: &ProcessId| self.processes[*process as usize].waits.is_some();
                let next = match stuck.object {
                    Object::Lock(lock) => self.locks[lock as usize].owners().iter().copied().find(waits),
                    Object::Event(event) => {
                        self.script.events[event as usize].deliverers.iter().copied().find(waits)
                    }
                    Object::Write(_) => None,
                };
                let Some(next) = next else { break };
                at = next;
            }
        }
        None
    }

    fn run_process(&mut self, process: ProcessId) -> Result<(), RequestsError> {
        if std::mem::take(&mut self.processes[process as usize].in_fsync) && !self.fsync(process) {
            return Ok(());
        }
        for _ in 0..MAX_OPS_AT_ONCE {
            let Some(op) = self.script.programs[process as usize].next() else {
                self.processes[process as usize].finished_ns = Some(self.clock.now_ns);
                return Ok(());
            };
            let state = &mut self.processes[process as usize];
            state.steps += 1;
            if let Some(what) = self.script.complaint(&op) {
                return Err(RequestsError::BadOp { process, step: state.steps - 1, what });
            }
            if !self.execute(process, op)? {
                return Ok(());
            }
        }
        Err(RequestsError::NeverWaits { process })
    }

    /// True: the process goes on at once.
    fn execute(&mut self, process: ProcessId, op: Step) -> Result<bool, RequestsError> {
        let now_ns = self.clock.now_ns;
        match op {
            Step::Cpu { ns } => {
                self.processors.want(process, ns);
                return Ok(false);
            }
            Step::Sleep { ns } => {
                self.clock.after(ns, Happening::Resume(process));
                return Ok(false);
            }
            Step::Lock { lock, mode } => return Ok(self.lock(process, lock, Want::Own(mode))),
            Step::LockOrJoin { lock, skip_ops } => {
                return Ok(self.lock(process, lock, Want::Join { skip_ops }));
            }
            Step::Unlock { lock } => self.unlock(process, lock)?,
            Step::Wait { event } => {
                if !self.events[event as usize].wait(process) {
                    self.block(process, Object::Event(event), self.script.events[event as usize].primitive);
                    return Ok(false);
                }
            }
            Step::Signal { event } => {
                if let Some(next) = self.events[event as usize].signal() {
                    self.unblock(next);
                }
            }
            Step::Call { event } => {
                let server = self.events[event as usize].call(process);
                self.block(process, Object::Event(event), self.script.events[event as usize].primitive);
                self.ready.extend(server);
                return Ok(false);
            }
            Step::Collect { event } => return Ok(self.events[event as usize].collect(process)),
            Step::Deliver { event } => {
                let served = self.events[event as usize].deliver();
                served.into_iter().for_each(|caller| self.unblock(caller));
            }
            Step::Write(write) => return Ok(self.write(process, &write)),
            Step::Append { blocks } => {
                let group = std::mem::take(&mut self.processes[process as usize].group);
                let most = MAX_WRITE_BLOCKS.min(self.script.log_blocks as u32);
                let blocks = blocks.saturating_mul(group + 1).min(most);
                let first_block = self.io.append(blocks);
                let write =
                    WriteOp { tag: None, first_block, blocks, sync: true, waits: true, data: DataKind::Log };
                return Ok(self.write(process, &write));
            }
            Step::WaitIo { target, primitive } => {
                if let Some(write) = self.io.find(target) {
                    self.wait_for_write(process, write, primitive);
                    return Ok(false);
                }
            }
            Step::Fsync => return Ok(self.fsync(process)),
            Step::RequestBegin => self.processes[process as usize].request_ns = Some(now_ns),
            Step::RequestEnd { requests } => {
                if let Some(since_ns) = self.processes[process as usize].request_ns.take() {
                    self.tally.served(now_ns - since_ns, requests);
                }
            }
            Step::SetCritical(critical) => {
                self.admission.set_critical(process, critical, &mut self.out);
                self.follow();
            }
        }
        Ok(true)
    }

    fn lock(&mut self, process: ProcessId, lock: u32, want: Want) -> bool {
        if self.locks[lock as usize].acquire(process, want) {
            self.admission.on_acquire(process, lock, &mut self.out);
            self.follow();
            return true;
        }
        self.block(process, Object::Lock(lock), self.script.locks[lock as usize]);
        false
    }

    fn unlock(&mut self, process: ProcessId, lock: u32) -> Result<(), RequestsError> {
        let mut woken = std::mem::take(&mut self.woken);
        if !self.locks[lock as usize].release(process, &mut woken) {
            let step = self.processes[process as usize].steps - 1;
            return Err(RequestsError::BadOp { process, step, what: "release a lock that it does not own" });
        }
        self.admission.on_release(process, lock, &mut self.out);
        self.follow();
        for woken in woken.drain(..) {
            match woken {
                Woken::Owns(next) => self.owns(next, lock),
                Woken::OwnsFor { process: next, others } => {
                    self.processes[next as usize].group = others;
                    self.owns(next, lock);
                }
                Woken::Joined { process: next, skip_ops } => {
                    let program = &mut self.script.programs[next as usize];
                    let skipped = skip_ops.min(MAX_OPS_AT_ONCE);
                    (0..skipped).for_each(|_| {
                        program.next();
                    });
                    self.processes[next as usize].steps += u64::from(skipped);
                    self.unblock(next);
                }
            }
        }
        self.woken = woken;
        Ok(())
    }

    fn owns(&mut self, process: ProcessId, lock: u32) {
        self.admission.on_acquire(process, lock, &mut self.out);
        self.follow();
        self.wake(process);
    }

    /// True: no write of the process is under way.
    fn fsync(&mut self, process: ProcessId) -> bool {
        let Some(write) = self.io.oldest_of(process) else { return true };
        self.processes[process as usize].in_fsync = true;
        self.wait_for_write(process, write, Primitive::Fsync);
        false
    }

    /// The process waits for a write that is under way.
    pub fn wait_for_write(&mut self, process: ProcessId, write: WriteId, primitive: Primitive) {
        self.io.add_waiter(write, process);
        self.block(process, Object::Write(write), primitive);
    }

    fn block(&mut self, process: ProcessId, object: Object, primitive: Primitive) {
        self.processes[process as usize].waits = Some((self.clock.now_ns, primitive, object));
        self.admission.on_block(process, object, &mut self.out);
        self.follow();
    }

    /// The process waits no longer.
    pub fn unblock(&mut self, process: ProcessId) {
        self.admission.on_unblock(process, &mut self.out);
        self.follow();
        self.wake(process);
    }

    fn wake(&mut self, process: ProcessId) {
        let state = &mut self.processes[process as usize];
        if let Some((since_ns, primitive, _)) = state.waits.take()
            && state.request_ns.is_some()
            && self.admission.is_critical(process)
        {
            self.tally.waited(primitive, self.clock.now_ns - since_ns);
        }
        self.ready.push_back(process);
    }

    /// Does what follows from a hook.
    fn follow(&mut self) {
        let mut out = std::mem::take(&mut self.out);
        for consequence in out.drain(..) {
            match consequence {
                Consequence::Inherits(_) => self.tally.inheritances += 1,
                Consequence::Ends(_) => {}
                Consequence::Reissue(write) => self.reissue(write),
            }
        }
        self.out = out;
    }

    pub fn report(&self) -> RequestsReport {
        let counted_from_ns = if self.warm { self.config.warm_up_ns } else { 0 };
        let counted_s = self.clock.now_ns.saturating_sub(counted_from_ns) as f64 / 1e9;
        let requests = self.tally.requests();
        RequestsReport {
            policy: self.config.admission.policy.name(),
            counted_s,
            requests,
            requests_per_s: if counted_s > 0.0 { requests as f64 / counted_s } else { 0.0 },
            latency: self.tally.latency(),
            writes: self.tally.writes,
            by_process: self.tally.by_process(&self.script.roles),
            critical: self.tally.critical,
            waits: self.tally.waits(),
            inheritances: self.tally.inheritances,
            devices: self.io.devices(),
            finished_ns: self.processes.iter().map(|process| process.finished_ns).collect(),
            left: (self.admission.inheritances(), self.io.under_way() + self.admission.outstanding()),
        }
    }
}
