//! What is done with the daemon of a host: it is started on what it finds, everything is read and compared, guests ask, and it
//! ends. It must not know what becomes of the log.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lode_types::Rng;
use serde::Deserialize;

use crate::client::{Client, Lost, PATIENCE};
use crate::counts;
use crate::guest::{Connection, Disk, Habits};
use crate::host::{Daemon, Host};
use crate::model::Model;
use crate::plan::{Plan, Scheme};
use crate::sector::SECTOR_BYTES;
use crate::world::{Counts, Faults};

/// Exit code of `lode check`: copies of metadata are lost, or blocks that the disk has as well.
const DAMAGE_THAT_COSTS_NOTHING: i32 = 3;

/// How long after each other a daemon is asked how far disks are behind.
const ASKED_EACH: Duration = Duration::from_millis(300);
/// A daemon counts ticks of a second, which come late where the machine has something else to do.
const LATE_S: u64 = 3;

/// What is asked of `lode status --json`.
#[derive(Deserialize)]
struct Status {
    vms: Vec<VmStatus>,
}

#[derive(Deserialize)]
struct VmStatus {
    name: String,
    ordered: Option<OrderedStatus>,
}

#[derive(Deserialize)]
struct OrderedStatus {
    behind_s: u64,
    is_of_before_start: bool,
}

/// What was found to be against the guarantees.
pub type Complaints = Vec<String>;

/// Who starts and ends the daemon of a host, has guests ask it and compares what it answers.
pub struct Operator<'a> {
    /// The host.
    pub host: &'a Host,
    /// What it is.
    pub plan: &'a Plan,
    /// All schemes that there are.
    pub schemes: &'a [Scheme],
}

/// How guests' work ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With all answers.
    Answered,
    /// With a kill.
    Killed,
}

impl<'a> Operator<'a> {
    fn disks(&self, nothing_fails: bool, habits: Habits) -> Vec<Disk<'a>> {
        let sizes = self.plan.vms.iter().map(|vm| vm.disk_bytes / SECTOR_BYTES);
        let disks =
            (0..).zip(sizes).map(|(vm, size)| Disk::new(&self.host.world, vm, size, nothing_fails, habits));
        disks.collect()
    }

    /// Starts a daemon where nothing fails, reads everything, and flushes if `flushes`: then what was found is durable.
    pub fn start(&self, flushes: bool) -> Result<Daemon<'a>, Complaints> {
        let mut daemon = self.host.serve().map_err(|what| vec![what])?;
        let disks = self.disks(true, Habits { flush_percent: 0, fua_percent: 0 });
        let wrong: Complaints = std::thread::scope(|scope| {
            let threads: Vec<_> =
                disks.iter().map(|disk| scope.spawn(move || self.check(disk, flushes))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|_| panicked())).collect()
        });
        let wrong = if wrong.is_empty() { self.check_counts() } else { wrong };
        if wrong.is_empty() {
            return Ok(daemon);
        }
        Err(wrong.into_iter().chain(daemon.ended()).collect())
    }

    /// Starts a daemon and kills it, in half of the cases while it recovers. Whether it would serve does not matter where devices
    /// fail; nothing may be lost by it.
    pub fn start_in_vain(&self, rng: &mut Rng, faults: &Faults) {
        self.host.world.set_faults(faults.clone());
        let daemon = if rng.chance(50) { self.host.serve() } else { self.host.start() };
        if let Ok(daemon) = daemon {
            std::thread::sleep(Duration::from_millis(rng.below(60)));
            drop(daemon);
        }
        self.host.world.note_kill();
        self.host.world.set_faults(Faults::default());
    }

    /// Has `lode check` look at what a daemon will find: it must find it sound, and write nothing unless it `repairs`.
    pub fn inspect(&self, repairs: bool) -> Result<(), Complaints> {
        let configuration = self.host.configuration();
        let before = Counts::get(&self.host.world.counts.device_writes);
        let mut arguments = vec!["check", &configuration];
        arguments.extend(repairs.then_some("--repair"));
        let output = self.host.output(&arguments).map_err(|what| vec![what])?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let mut wrong = Vec::new();
        if !matches!(output.status.code(), Some(0 | DAMAGE_THAT_COSTS_NOTHING)) {
            wrong.push(format!("lode {} ended with {}: {text}", arguments.join(" "), output.status));
        }
        if !repairs && Counts::get(&self.host.world.counts.device_writes) != before {
            wrong.push(format!("lode check wrote to a device: {text}"));
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }

    fn check(&self, disk: &Disk<'_>, flushes: bool) -> Complaints {
        let outcome = Client::connect(&self.host.socket(disk.vm), &self.plan.vms[disk.vm].name).and_then(
            |mut client| {
                let mut wrong = disk.check_all(&mut client)?;
                if flushes && wrong.is_empty() {
                    wrong = disk.flush(&mut client)?;
                }
                Ok(wrong)
            },
        );
        outcome.unwrap_or_else(|lost| vec![describe(disk.vm, &lost)])
    }

    /// Has guests ask about `answers` requests, and others meddle. A daemon that is to be killed dies while they wait.
    pub fn work(
        &self,
        mut daemon: Daemon<'a>,
        rng: &mut Rng,
        answers: u64,
        end: End,
        faults: &Faults,
    ) -> Result<Option<Daemon<'a>>, Complaints> {
        let nothing_fails = faults.failing.is_empty();
        let disks = self.disks(nothing_fails, Habits::any(rng));
        let connections = self.connect(&disks, rng)?;
        self.host.world.set_faults(faults.clone());
        let (answered, is_over) = (AtomicU64::new(0), &AtomicBool::new(false));
        let target = if end == End::Killed { u64::MAX } else { answers };
        let wrong: Complaints = std::thread::scope(|scope| {
            let answered = &answered;
            let spawn = |connection: Connection<'_>| connection.work(answered, target);
            let threads: Vec<_> =
                connections.into_iter().map(|connection| scope.spawn(move || spawn(connection))).collect();
            let meddling = self.meddle(rng);
            let asking =
                self.plan.redo_logs().next().map(|_| scope.spawn(|| self.ask_how_far_behind(is_over)));
            let mut hangs = Vec::new();
            if end == End::Killed {
                let deadline = Instant::now() + PATIENCE;
                while answered.load(Ordering::Relaxed) < answers
                    && !threads.iter().all(|thread| thread.is_finished())
                {
                    if Instant::now() > deadline {
                        hangs.push(format!("{answers} answers are not there after {} s", PATIENCE.as_secs()));
                        break;
                    }
                    std::thread::sleep(Duration::from_micros(200));
                }
                hangs.extend(daemon.ended());
                if hangs.is_empty() {
                    hangs = self.check_counts();
                }
                daemon.kill_now();
            }
            let mut found: Complaints = threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap_or_else(|_| panicked()))
                .chain(hangs)
                .collect();
            // It ends with the daemon, or with its work.
            meddling.into_iter().for_each(|mut child| drop(child.wait()));
            is_over.store(true, Ordering::Relaxed);
            if asking.is_some_and(|thread| thread.join().is_err()) {
                found.extend(panicked());
            }
            found
        });
        let ended = if end == End::Answered { daemon.ended() } else { None };
        let mut wrong: Complaints = wrong.into_iter().chain(ended).collect();
        if end == End::Answered && wrong.is_empty() {
            wrong = self.check_counts();
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        if end == End::Killed {
            drop(daemon);
            self.host.world.note_kill();
            return Ok(None);
        }
        Ok(Some(daemon))
    }

    /// Guarantee 8, whatever is under way: a daemon says at any moment what it counted, and that adds up.
    fn check_counts(&self) -> Complaints {
        match self.host.output(&["status", &self.host.configuration(), "--json"]) {
            Ok(output) if output.status.success() => counts::check(&output.stdout),
            Ok(output) => vec![format!(
                "lode status ended with {}: {}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            )],
            Err(what) => vec![what],
        }
    }

    /// Asks, until it is over, how far disks with ordered write-back are behind: from then on they are not further.
    fn ask_how_far_behind(&self, is_over: &AtomicBool) {
        let configuration = self.host.configuration();
        while !is_over.load(Ordering::Relaxed) {
            let asked = Instant::now();
            // A daemon that dies, or has no time, says nothing.
            let output = self.host.output(&["status", &configuration, "--json"]);
            let status = output.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok());
            for vm in status.map_or_else(Vec::new, |status: Status| status.vms) {
                let number = self.plan.vms.iter().position(|one| one.name == vm.name);
                let (Some(number), Some(ordered)) = (number, vm.ordered) else { continue };
                let age = Duration::from_secs(ordered.behind_s + LATE_S);
                let since = asked.checked_sub(age).filter(|_| !ordered.is_of_before_start);
                since.into_iter().for_each(|since| self.host.world.note_behind(number, since));
            }
            std::thread::sleep(ASKED_EACH);
        }
    }

    fn connect<'d>(&self, disks: &'d [Disk<'d>], rng: &mut Rng) -> Result<Vec<Connection<'d>>, Complaints> {
        let mut connections = Vec::new();
        for disk in disks {
            for number in 0..1 + rng.below(3) {
                let path = self.host.socket(disk.vm);
                let name = &self.plan.vms[disk.vm].name;
                let connection = Connection::new(disk, number, &path, name, rng.bits());
                connections.push(connection.map_err(|lost| vec![describe(disk.vm, &lost)])?);
            }
        }
        Ok(connections)
    }

    /// What an operator may do meanwhile: drain, have another scheme decide, or change a share, so that space changes hands.
    /// What came of it does not matter.
    fn meddle(&self, rng: &mut Rng) -> Option<std::process::Child> {
        let configuration = self.host.configuration();
        let vm = &self.plan.vms[rng.below(self.plan.vms.len() as u64) as usize];
        let scheme = &self.schemes[rng.below(self.schemes.len() as u64) as usize].name;
        let (scheme, share) = (format!("scheme={scheme}"), format!("ssd={}MiB", 1 + rng.below(4)));
        let arguments: &[&str] = match rng.below(8) {
            0 => &["drain", &configuration],
            1 => &["vm", "set", &configuration, &vm.name, &scheme],
            2 | 3 => &["vm", "set", &configuration, &vm.name, &share],
            _ => return None,
        };
        self.host.spawn(arguments).ok()
    }

    /// Compares the disks themselves with what guests wrote: after a drained stop they have it all.
    pub fn check_disks(&self, images: &[crate::image::Image], models: &[Model]) -> Complaints {
        let mut wrong = Vec::new();
        for model in models {
            let image = &images[self.plan.disk_of(model.vm())];
            for sector in 0..model.sectors() {
                let bytes = image.read(sector * SECTOR_BYTES, SECTOR_BYTES);
                if let Err(what) = Model::check(model.vm(), sector, &bytes, model.allowed(sector, true)) {
                    wrong.push(format!("after a drained stop the disk itself is not whole: {what}"));
                }
            }
        }
        wrong.truncate(8);
        wrong
    }
}

fn describe(vm: usize, lost: &Lost) -> String {
    match lost {
        Lost::Ended => format!("VM {vm}: the daemon hung up"),
        Lost::Wrong(what) => format!("VM {vm}: {what}"),
    }
}

fn panicked() -> Complaints {
    vec!["the attack itself panicked; its message is above".to_owned()]
}
