//! One run: boots of a host one after the other, and crash states of each. A seed decides what is done; when what is done
//! meets what, the machine does.

use std::path::{Path, PathBuf};

use lode_types::Rng;

use crate::host::Host;
use crate::operator::{Complaints, End, Operator};
use crate::order::{Order, Tally, Trouble};
use crate::plan::{Plan, Scheme};
use crate::tape::{Start, Tape};
use crate::world::{Counts, Faults};

/// Lives of a run.
const BOOTS: u64 = 4;
/// Crash states of each.
const STATES: usize = 16;
/// Power cuts while what another one left is recovered, one in the other, at most.
const MOST_NESTED: u64 = 3;

/// What is attacked, and how.
pub struct Attack {
    /// The program.
    pub lode: PathBuf,
    /// Schemes that it has.
    pub schemes: Vec<Scheme>,
    /// All VMs are under this one.
    pub scheme: Option<String>,
    /// Where crash states are kept that showed something wrong; nowhere for self-tests.
    pub keep: Option<PathBuf>,
    /// Devices that lie about flushes, as each boot's devices are numbered.
    pub liars: Liars,
}

/// Devices that lie about flushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liars {
    /// None.
    None,
    /// The cache SSD.
    Ssd,
    /// The disks.
    Disks,
    /// The redo logs of disks with ordered write-back.
    RedoLogs,
}

/// What a run did.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Starts on what a power cut left.
    pub states: u64,
    /// Of these, those where the power was cut while another one's remains were recovered.
    pub nested: u64,
    /// Starts after a kill.
    pub kills: u64,
    /// Starts after an orderly stop.
    pub stops: u64,
    /// Errors that devices answered.
    pub errors: u64,
    /// Flushes that lied.
    pub lies: u64,
    /// Writes that no flush covered, over all crash states.
    pub volatile_writes: u64,
    /// Flushes that came while a write to the same device was under way.
    pub flushes_among_writes: u64,
    /// Requests of guests that were answered.
    pub answers: u64,
    /// Disks with ordered write-back, without the cache SSDs.
    pub order: Tally,
    /// What was found to be wrong.
    pub found: Option<Found>,
}

/// Something that is against the guarantees.
#[derive(Clone, Debug)]
pub struct Found {
    /// When it was found.
    pub moment: String,
    /// What.
    pub complaints: Complaints,
    /// Which devices had failed before, in this run.
    pub failures: Vec<String>,
    /// The daemon's log, from its end.
    pub log: String,
    /// Where the crash state is, with which [`repeat`] shows it again.
    pub kept: Option<PathBuf>,
}

/// One run under way.
struct Run<'a> {
    operator: Operator<'a>,
    /// How daemons are configured now.
    configured: Plan,
    rng: Rng,
    outcome: Outcome,
    /// Which devices have failed so far.
    failures: Vec<String>,
    attack: &'a Attack,
    goes_on: &'a dyn Fn() -> bool,
}

/// What ends a run early.
enum Stop {
    Found(String, Complaints),
    /// There is no time left, or something is wrong with the machine: the reason.
    Time,
    Machine(String),
}

impl From<String> for Stop {
    fn from(what: String) -> Stop {
        Stop::Machine(what)
    }
}

fn wrong(moment: impl Into<String>) -> impl FnOnce(Complaints) -> Stop {
    let moment = moment.into();
    |complaints| Stop::Found(moment, complaints)
}

/// Runs one seed, as long as `goes_on` says so.
///
/// # Errors
/// When the machine cannot do what is needed.
pub fn run(attack: &Attack, plan: &Plan, goes_on: &dyn Fn() -> bool) -> Result<Outcome, String> {
    let host = Host::new(plan, &attack.lode)?;
    let operator = Operator { host: &host, plan, schemes: &attack.schemes };
    let rng = Rng::part(plan.seed, 2);
    let configured = plan.clone();
    let (outcome, failures) = (Outcome::default(), Vec::new());
    let mut run = Run { operator, configured, rng, outcome, failures, attack, goes_on };
    let ended = run.boots();
    let counts = &host.world.counts;
    run.outcome.errors = Counts::get(&counts.errors);
    run.outcome.lies = Counts::get(&counts.lies);
    run.outcome.answers = Counts::get(&counts.answers);
    match ended {
        Ok(()) | Err(Stop::Time) => Ok(run.outcome),
        Err(Stop::Machine(what)) => Err(what),
        Err(Stop::Found(moment, complaints)) => {
            if run.outcome.found.is_none() {
                let failures = run.failures;
                run.outcome.found = Some(Found { moment, complaints, failures, log: host.log(), kept: None });
            }
            Ok(run.outcome)
        }
    }
}

/// Starts a daemon on a crash state that was kept, and says what is wrong with what it serves.
///
/// # Errors
/// When it cannot be read, or the machine cannot do what is needed.
pub fn repeat(attack: &Attack, folder: &Path) -> Result<Complaints, String> {
    let plan = std::fs::read(folder.join("plan.json")).map_err(|error| error.to_string())?;
    let plan: Plan = serde_json::from_slice(&plan).map_err(|error| error.to_string())?;
    let host = Host::new(&plan, &attack.lode)?;
    let start = Start::load(folder).map_err(|error| error.to_string())?;
    let order = Order { host: &host, plan: &plan };
    match order.check(&start, &mut Rng::new(plan.seed), &mut Tally::default()) {
        Ok(()) => {}
        Err(Trouble::Wrong(complaints)) => return Ok(complaints),
        Err(Trouble::Machine(what)) => return Err(what),
    }
    host.begin(start)?;
    let operator = Operator { host: &host, plan: &plan, schemes: &attack.schemes };
    Ok(operator.start(true).err().unwrap_or_default())
}

impl<'a> Run<'a> {
    fn boots(&mut self) -> Result<(), Stop> {
        let mut start = self.operator.host.as_it_is()?;
        for number in 0..BOOTS {
            self.operator.host.begin(start)?;
            let after_stop = self.boot(number)?;
            let tape = self.operator.host.world.end();
            self.outcome.flushes_among_writes += tape.flushes_among_writes();
            if let Some(stopped) = &after_stop {
                self.lose_ssds(&format!("boot {number}, after its stop"), stopped)?;
            }
            let left = self.crash_states(number, &tape)?;
            start = match after_stop {
                Some(start) if self.rng.chance(50) => start,
                _ => left,
            };
        }
        Ok(())
    }

    /// A boot of the host with several daemons, killed one after the other, on devices whose power stays on. When the last one is stopped in
    /// order, what it leaves is returned.
    fn boot(&mut self, number: u64) -> Result<Option<Start>, Stop> {
        let flushes = self.rng.chance(75);
        let mut daemon =
            self.operator.start(flushes).map_err(wrong(format!("boot {number}, at its start")))?;
        for kill in 0..self.rng.below(4) {
            let (answers, faults) = (self.answers(30, 1500), self.faults());
            self.note_failures(&format!("boot {number}, before kill {kill}"), &faults);
            self.operator
                .work(daemon, &mut self.rng, answers, End::Killed, &faults)
                .map_err(wrong(format!("boot {number}, before kill {kill}, {faults:?}")))?;
            self.outcome.kills += 1;
            if self.rng.chance(30) {
                let faults = self.faults();
                self.note_failures(&format!("boot {number}, in a start after kill {kill}"), &faults);
                self.operator.start_in_vain(&mut self.rng, &faults);
                self.outcome.kills += 1;
            }
            self.operator.host.world.set_faults(self.patient_faults());
            let flushes = self.rng.chance(50);
            daemon = self
                .operator
                .start(flushes)
                .map_err(wrong(format!("boot {number}, after kill {kill}, {faults:?}")))?;
            self.time()?;
        }
        let (answers, faults) = (self.answers(100, 2000), self.faults());
        self.note_failures(&format!("boot {number}, at its end"), &faults);
        let stops = faults.failing.is_empty() && self.rng.chance(30);
        let end = if stops { End::Answered } else { End::Killed };
        let ended = self.operator.work(daemon, &mut self.rng, answers, end, &faults);
        let daemon = ended.map_err(wrong(format!("boot {number}, at its end, {faults:?}")))?;
        let Some(daemon) = daemon else { return Ok(None) };
        let drained = self.rng.chance(50);
        daemon.stop(drained).map_err(|what| Stop::Found(format!("boot {number}"), vec![what]))?;
        let left = self.operator.host.as_it_is()?;
        self.operator.host.world.note_stop();
        self.outcome.stops += 1;
        let left = Start { models: self.operator.host.world.models(), ..left };
        if drained {
            let complaints = self.operator.check_disks(&left.images, &left.models);
            if !complaints.is_empty() {
                return Err(Stop::Found(format!("boot {number}"), complaints));
            }
        }
        Ok(Some(left))
    }

    /// Power cuts in the boot that a tape tells. Returns what one of them left.
    fn crash_states(&mut self, boot: u64, tape: &Tape) -> Result<Start, Stop> {
        let mut moments: Vec<usize> = (0..STATES).map(|_| tape.moment(&mut self.rng)).collect();
        moments.sort_unstable();
        let goes_on_from = self.rng.below(STATES as u64) as usize;
        let (mut player, mut left) = (tape.player(), None);
        for (number, moment) in moments.into_iter().enumerate() {
            player.advance(moment);
            let start = player.after_power_cut(&mut self.rng).map_err(|error| error.to_string())?;
            self.outcome.volatile_writes += player.volatile_writes() as u64;
            let name = format!("boot {boot}, power cut at event {moment} of {}", tape.events.len());
            if number == goes_on_from {
                left = Some(start.clone());
            }
            self.crash_state(&name, start, 1)?;
        }
        left.ok_or_else(|| Stop::Machine("no crash state was made".to_owned()))
    }

    /// Starts a daemon on a crash state, and in some cases cuts the power again while it recovers.
    fn crash_state(&mut self, name: &str, start: Start, nested: u64) -> Result<(), Stop> {
        self.time()?;
        self.lose_ssds(name, &start)?;
        let host = self.operator.host;
        host.begin(start.clone())?;
        host.world.set_faults(self.patient_faults());
        self.outcome.states += 1;
        self.outcome.nested += u64::from(nested > 1);
        if let Err(complaints) = self.recover() {
            return Err(self.keep(name, &start, complaints));
        }
        let tape = host.world.end();
        if nested >= MOST_NESTED || !self.rng.chance(35) {
            return Ok(());
        }
        let moment = tape.moment(&mut self.rng);
        let mut player = tape.player();
        player.advance(moment);
        let start = player.after_power_cut(&mut self.rng).map_err(|error| error.to_string())?;
        let name = format!("{name}, then at event {moment} of {} of the recovery", tape.events.len());
        self.crash_state(&name, start, nested + 1)
    }

    /// Looks at what is left of disks with ordered write-back when all cache SSDs are lost.
    fn lose_ssds(&mut self, name: &str, start: &Start) -> Result<(), Stop> {
        let Operator { host, plan, .. } = self.operator;
        if plan.redo_logs().next().is_none() {
            return Ok(());
        }
        let order = Order { host, plan };
        match order.check(start, &mut self.rng, &mut self.outcome.order) {
            Ok(()) => Ok(()),
            Err(Trouble::Machine(what)) => Err(Stop::Machine(what)),
            Err(Trouble::Wrong(complaints)) => {
                let name = format!("{name}, and all cache SSDs are lost");
                Err(self.keep(&name, start, complaints))
            }
        }
    }

    /// Has a daemon take over what is there; in some cases after `lode check`, after a start among failing devices, or with another
    /// scheme than before.
    fn recover(&mut self) -> Result<(), Complaints> {
        match self.rng.below(20) {
            0 | 1 => self.operator.inspect(self.rng.chance(50))?,
            2 => {
                let faults = self.failing();
                self.note_failures(
                    &format!("in a start, before crash state {}", self.outcome.states),
                    &faults,
                );
                self.operator.start_in_vain(&mut self.rng, &faults);
            }
            3 | 4 => {
                self.configured.change_a_scheme(&self.attack.schemes, &mut self.rng);
                self.operator.host.configure(&self.configured).map_err(|what| vec![what])?;
            }
            _ => {}
        }
        let flushes = self.rng.chance(75);
        self.operator.start(flushes).map(drop)
    }

    fn keep(&mut self, moment: &str, start: &Start, complaints: Complaints) -> Stop {
        let log = self.operator.host.log();
        let kept = self.attack.keep.as_ref().and_then(|folder| {
            let folder =
                folder.join(format!("seed-{}-state-{}", self.operator.plan.seed, self.outcome.states));
            let plan = serde_json::to_vec(&self.configured).ok()?;
            start.save(&folder).and_then(|()| std::fs::write(folder.join("plan.json"), plan)).ok()?;
            Some(folder)
        });
        let failures = self.failures.clone();
        self.outcome.found =
            Some(Found { moment: moment.to_owned(), complaints: complaints.clone(), failures, log, kept });
        Stop::Found(moment.to_owned(), complaints)
    }

    fn note_failures(&mut self, when: &str, faults: &Faults) {
        if !faults.failing.is_empty() {
            self.failures.push(format!("{when}: {faults:?}"));
        }
    }

    fn time(&self) -> Result<(), Stop> {
        if (self.goes_on)() { Ok(()) } else { Err(Stop::Time) }
    }

    /// How many requests a daemon is asked, at least `least`. Where disks are written in order guests wait for these, and a small
    /// write may be four large ones of devices, all of which the log keeps.
    fn answers(&mut self, least: u64, more: u64) -> u64 {
        let is_ordered = self.operator.plan.redo_logs().next().is_some();
        least + self.rng.below(if is_ordered { more / 3 } else { more })
    }

    /// Devices that take their time, in some cases, and lie if they are to.
    fn patient_faults(&mut self) -> Faults {
        let (delayed_percent, delay_us) =
            [(0, 0), (50, 500), (20, 2000), (5, 20_000)][self.rng.below(4) as usize];
        let liars = match self.attack.liars {
            Liars::None => Vec::new(),
            Liars::Ssd => vec![0],
            Liars::Disks => {
                (0..self.operator.plan.vms.len()).map(|vm| self.operator.plan.disk_of(vm)).collect()
            }
            Liars::RedoLogs => self.operator.plan.redo_logs().collect(),
        };
        Faults { delayed_percent, delay_us, liars, ..Faults::default() }
    }

    /// The same, and in some cases errors.
    fn faults(&mut self) -> Faults {
        if self.attack.liars == Liars::None && self.rng.chance(25) {
            self.failing()
        } else {
            self.patient_faults()
        }
    }

    /// Devices that take their time, and fail.
    fn failing(&mut self) -> Faults {
        let patient = self.patient_faults();
        let rng = &mut self.rng;
        let failing = (0..self.operator.host.devices()).filter(|_| rng.chance(50)).collect();
        let mut rate = || [0, 0, 5, 50, 500][rng.below(5) as usize];
        let (failed_reads, failed_writes, failed_flushes) = (rate(), rate(), rate() * 4);
        Faults { failing, failed_reads, failed_writes, failed_flushes, ..patient }
    }
}
