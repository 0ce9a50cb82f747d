//! Random guests against a world, with crashes in between, held against the model.

use lode_types::Rng;

use crate::disk::SimDisk;
use crate::guest::Guest;
use crate::machine::{Faults, Machine};
use crate::minimize::PartOfHost;
use crate::world::World;

/// How the host goes down between two rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// By chance one of the others.
    Any,
    /// The process is killed.
    Kill,
    /// The power fails.
    Power,
    /// The daemon is stopped in order.
    Stop,
}

impl Crash {
    pub(crate) fn pick(self, rng: &mut Rng) -> Crash {
        match self {
            Crash::Any => [Crash::Kill, Crash::Power, Crash::Stop][rng.below(3) as usize],
            crash => crash,
        }
    }
}

/// Blocks that go bad while a volume is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decay {
    /// Any on the SSD. Requests may fail then.
    Ssd,
    /// The volume's own on the SSD, while all that are dirty are on two devices. No request of the first run may fail; what a restart
    /// finds has one copy.
    Mirrored,
    /// Any on the read SSD. No request may fail.
    ReadSsd,
}

/// One simulated run of a volume.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The machines of the rounds, taken in turn: what a new configuration may change may differ.
    pub machines: Vec<Machine>,
    /// Everything random follows from it.
    pub seed: u64,
    /// Runs from start to crash.
    pub rounds: u32,
    /// Requests of a run.
    pub requests: u32,
    /// Requests under way at most.
    pub depth: usize,
    /// How a run ends.
    pub crash: Crash,
    /// Longest read or write, in sectors.
    pub longest_sectors: u64,
    /// How often devices fail. Requests may fail then, but what a read returns must still be right.
    pub faults: Faults,
    /// Damaged blocks of data on the SSD after every run; after one that was not stopped, of those that are known to be durable. Reads
    /// may fail then, but what they return must be right.
    pub flips: u32,
    /// Of a pair of SSDs: in how many of a hundred ends one of the two is lost, unless it is the only one that has everything. By
    /// chance a new one comes in its place. No request may fail for it.
    pub member_losses: u64,
    /// Of a pair of SSDs: in how many of a hundred steps an operator takes one out, or puts another one in the place of one that is out.
    /// No request may fail for it.
    pub member_changes: u64,
    /// Of a volume alone on its SSD, whose backing disk is written in the order of its flushes: in how many of a hundred ends of a
    /// run the SSD is lost, and the disk has to be a state of before.
    pub ssd_losses: u64,
    /// In how many of a hundred steps a block of these goes bad while the volume is served.
    pub decay: u64,
    /// Which ones.
    pub decays: Decay,
    /// With other volumes: in how many of a hundred runs the SSD dies while they are served. Where a scheme keeps dirty blocks on two
    /// devices and all of them are then, no read may fail, and the disk gets all that was acknowledged.
    pub ssd_deaths: u64,
    /// In how many of a hundred ends of a run copies rot of what the SSD holds twice.
    pub rot: u64,
    /// Most starts after every run in which the SSD stops writing somewhere on the way and the power
    /// fails.
    pub failed_starts: u32,
    /// In how many of a hundred starts a read fails, once. The start is refused then and tried again, or it succeeds, and
    /// what could not be read may fail to be read later; older bytes must not come in its place.
    pub start_read_errors: u64,
    /// Such a read fails so many times at most, and then succeeds; 0: for as long as the start lasts.
    pub start_read_tries: u64,
    /// It may be a read of another device as well: of any SSD of a pair, where the other one has everything, or of a redo log. The start may be
    /// refused for that, and no more.
    pub start_reads_beside: bool,
    /// In how many of a hundred starts a device stops answering somewhere on the way: for a time, until the system or the start gives a command
    /// up, or for good. Of a pair that costs nothing; another start fails, or is ended, and is tried again.
    pub start_hangs: u64,
    /// What a start asks of the SSD at once is carried out in any order, and where it is cut short, each of it has happened or not.
    pub starts_at_once: bool,
    /// Schemes are told by and by of what starts find, while guests are served.
    pub takes_over_in_steps: bool,
    /// A few commands to SSDs take longer than a write-back.
    pub slow_commands: bool,
    /// With other volumes: their backing disks are one device, whose flushes cover and fail all.
    pub shares_backing: bool,
    /// In how many of a hundred steps a drain begins, or a few times ends early.
    pub drains: u64,
    /// With other volumes: in how many of a hundred steps the host wants another share for the volume. Then frames and
    /// extents move between volumes while they are served.
    pub share_changes: u64,
    /// With other volumes whose shares change: in how many of a hundred steps a volume goes, comes back or gets another name.
    pub membership_changes: u64,
    /// In how many of a hundred steps writes begin to go past the SSD, with a drain, or a few times do so no more. Once nothing
    /// is dirty then, nothing may become so.
    pub write_arounds: u64,
    /// In how many of a hundred steps another scheme is to decide from then on.
    pub scheme_switches: u64,
    /// With other volumes: bound of the places beyond its share and reserve that it asks for at a start.
    pub most_spare_places: u64,
    /// After every run but the last what can hold nothing else than before is looked at by chance only.
    pub looks_around: bool,
    /// Every run ends with a drain, after which the backing disk alone is looked at.
    pub ends_drained: bool,
    /// In how many of a hundred steps one of the volume's devices stops answering for a time.
    pub hangs: u64,
    /// At the end of that the system gives up what it was asked for. Requests may fail then.
    pub hangs_give_up: bool,
    /// In how many of a hundred requests the clock jumps: by hours, back, or so that ticks come all at once.
    pub clock_jumps: u64,
    /// The SSD says that a flush has ended and does nothing, which no guarantee holds against. For tests of the simulator itself.
    pub ssd_lies: bool,
    /// Every run ends after so many completions of devices, if not before.
    pub most_steps: Option<u64>,
}

/// What happened, for tests that must know that something did.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunCounts {
    /// What tells the commands of a run and their order from another's.
    pub digest: u64,
    /// Requests answered.
    pub answered: u64,
    /// Sectors read and found right.
    pub sectors_checked: u64,
    /// Crashes survived.
    pub crashes: u64,
    /// Blocks read from the SSD or DRAM.
    pub read_hits: u64,
    /// Blocks written back.
    pub write_backs: u64,
    /// Reads that failed.
    pub failed_reads: u64,
    /// Other requests that failed.
    pub failed_writes: u64,
    /// Starts that failed.
    pub failed_starts: u64,
    /// Starts that a power cut or a kill ended, or met right after.
    pub starts_cut: u64,
    /// Starts in which a device stopped answering.
    pub start_hangs: u64,
    /// Starts during which a read failed.
    pub start_read_errors: u64,
    /// Blocks that could not be read after a start during which a read failed.
    pub unreadable: u64,
    /// Times at which a backing disk alone was found to be a state of before, in order.
    pub in_order: u64,
    /// Cache SSDs that were lost while all that their disks lacked was on them.
    pub ssds_lost: u64,
    /// Writes to the SSD that went elsewhere.
    pub misdirected: u64,
    /// Times at which the clock jumped.
    pub clock_jumps: u64,
    /// Devices that stopped answering for a time.
    pub hangs: u64,
    /// Blocks that went bad while volumes were served, or after a crash.
    pub decayed: u64,
    /// Blocks that a crash may have left as they were before, because they were damaged before they were known to be durable.
    pub doubtful: u64,
    /// Copies of metadata that rotted.
    pub rotten: u64,
    /// Damaged blocks that were noticed.
    pub damaged: u64,
    /// Volumes all of whose dirty blocks were on two devices when the SSD died.
    pub rescued: u64,
    /// Blocks of a pair of SSDs that were damaged on one and written again from the other.
    pub healed: u64,
    /// Clean copies that were looked for, and had gone with an SSD of a pair.
    pub dropped_clean_copies: u64,
    /// SSDs of a pair that failed, or were lost.
    pub members_dropped: u64,
    /// SSDs of a pair that were resilvered.
    pub members_resilvered: u64,
    /// Resilvers that a start went on with where the run before had ended.
    pub members_resumed: u64,
    /// SSDs of a pair in whose place another one came while guests were served.
    pub members_replaced: u64,
    /// Commands on the SSD that failed.
    pub ssd_errors: u64,
    /// Commands on the read SSD that failed.
    pub read_ssd_errors: u64,
    /// Blocks written to the read SSD.
    pub mirrored: u64,
    /// Blocks that drains wrote back.
    pub cleaned: u64,
    /// Write-backs of drains that failed.
    pub drain_failures: u64,
    /// Writes that were issued again to the SSD.
    pub reissued: u64,
    /// Completions of writes whose guests had been answered by the other device.
    pub discarded: u64,
    /// Changes of the directory while volumes were served.
    pub share_moves: u64,
    /// Blocks that were moved out of extents that were to be given up.
    pub moved: u64,
    /// Schemes that began to decide while volumes were served.
    pub switches: u64,
    /// Volumes that went while others were served.
    pub gone: u64,
    /// Those that came then.
    pub came: u64,
    /// Those that got another name.
    pub renamed: u64,
    /// Runs that ended with a drained cache.
    pub drained: u64,
    /// Times at which writes that went past the SSD left nothing dirty.
    pub around: u64,
}

impl std::ops::AddAssign for RunCounts {
    /// Another run after these.
    fn add_assign(&mut self, other: RunCounts) {
        self.digest = self.digest.rotate_left(1) ^ other.digest;
        self.answered += other.answered;
        self.sectors_checked += other.sectors_checked;
        self.crashes += other.crashes;
        self.read_hits += other.read_hits;
        self.write_backs += other.write_backs;
        self.failed_reads += other.failed_reads;
        self.failed_writes += other.failed_writes;
        self.failed_starts += other.failed_starts;
        self.starts_cut += other.starts_cut;
        self.start_hangs += other.start_hangs;
        self.start_read_errors += other.start_read_errors;
        self.unreadable += other.unreadable;
        self.in_order += other.in_order;
        self.ssds_lost += other.ssds_lost;
        self.misdirected += other.misdirected;
        self.clock_jumps += other.clock_jumps;
        self.hangs += other.hangs;
        self.decayed += other.decayed;
        self.doubtful += other.doubtful;
        self.rotten += other.rotten;
        self.damaged += other.damaged;
        self.rescued += other.rescued;
        self.healed += other.healed;
        self.dropped_clean_copies += other.dropped_clean_copies;
        self.members_dropped += other.members_dropped;
        self.members_resilvered += other.members_resilvered;
        self.members_resumed += other.members_resumed;
        self.members_replaced += other.members_replaced;
        self.ssd_errors += other.ssd_errors;
        self.read_ssd_errors += other.read_ssd_errors;
        self.mirrored += other.mirrored;
        self.cleaned += other.cleaned;
        self.drain_failures += other.drain_failures;
        self.reissued += other.reissued;
        self.discarded += other.discarded;
        self.share_moves += other.share_moves;
        self.moved += other.moved;
        self.switches += other.switches;
        self.gone += other.gone;
        self.came += other.came;
        self.renamed += other.renamed;
        self.drained += other.drained;
        self.around += other.around;
    }
}

/// The command that shows a failure again.
pub(crate) fn repeat(seed: u64) -> String {
    repeat_part(seed, &PartOfHost::from_environment().unwrap_or_default())
}

/// The command that shows a failure of a part of a host again.
pub(crate) fn repeat_part(seed: u64, part: &PartOfHost) -> String {
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main").unwrap_or("NAME_OF_THE_TEST").to_owned();
    format!("repeat with: LODE_SIM_SEED={seed} {}cargo test -p lode-sim {test}", part.to_environment())
}

/// Runs a plan. The error names what a guest read that it must not, with the seed that repeats it.
pub fn run(plan: &Plan) -> Result<RunCounts, String> {
    let mut tallies = run_on_one_ssd(std::slice::from_ref(plan))?;
    Ok(tallies.pop().unwrap_or_default())
}

/// Runs the plans of several volumes that share the SSD of the first one's machine: in turn one run of
/// each. Their machines name the volumes and may take and give back extents.
pub fn run_on_one_ssd(plans: &[Plan]) -> Result<Vec<RunCounts>, String> {
    let Some(first) = plans.first() else { return Ok(Vec::new()) };
    let mut ssd = World::formatted_ssd(&first.machines[0]).map_err(|error| error.to_string())?;
    ssd.lies = first.ssd_lies;
    first.prepare_starts(&mut ssd);
    let mut volumes: Vec<Option<(World, Guest, Rng)>> = plans.iter().map(|_| None).collect();
    for round in 0..plans.iter().map(|plan| plan.rounds).max().unwrap_or(0) {
        for (i, (plan, volume)) in plans.iter().zip(&mut volumes).enumerate() {
            let fault = |error: String| format!("volume {i}, run {round}: {error}; {}", repeat(plan.seed));
            let machine = plan.machine(round);
            if let Some((world, ..)) = volume {
                std::mem::swap(&mut world.ssd, &mut ssd);
                world.restart(machine).map_err(|error| fault(error.to_string()))?;
            } else {
                let mut rng = Rng::new(plan.seed);
                let empty = std::mem::replace(&mut ssd, SimDisk::new(0));
                let world = match machine.config.ssd_is_pair {
                    true => World::new(machine, rng.bits()),
                    false => World::on(machine, rng.bits(), empty),
                };
                let mut world = world.map_err(|error| fault(error.to_string()))?;
                plan.prepare_world(&mut world);
                plan.prepare_members(world.pair.as_deref_mut(), &mut world.other_pairs);
                *volume = Some((world, Guest::new(plan, i as u32), rng));
            }
            let Some((world, guest, rng)) = volume else { continue };
            guest.round(plan, world, rng, round).map_err(fault)?;
            std::mem::swap(&mut world.ssd, &mut ssd);
        }
    }
    Ok(volumes.into_iter().flatten().map(|(_, guest, _)| guest.tally).collect())
}

impl Plan {
    /// Whether blocks on the SSD are damaged.
    pub(crate) fn is_damaged(&self) -> bool {
        let decays = self.decay > 0 && self.decays != Decay::ReadSsd;
        self.flips > 0 || decays || self.faults.ssd_misdirected > 0
    }

    /// Whether guests may see errors, of which the model then knows no more than that.
    pub(crate) fn requests_may_fail(&self) -> bool {
        let is_pair = self.machines[0].config.ssd_is_pair;
        !self.faults.are_hidden()
            || (self.flips > 0 && !is_pair)
            || (self.decay > 0 && self.decays == Decay::Ssd)
            || self.ssd_deaths > 0
            || self.start_read_errors > 0
            || (self.hangs > 0 && self.hangs_give_up)
    }

    /// Whether requests may wait for the engine's next tick, because something failed.
    pub(crate) fn may_wait(&self) -> bool {
        self.faults != Faults::default()
            || self.flips > 0
            || self.decay > 0
            || self.ssd_deaths > 0
            || self.start_read_errors > 0
            || (self.hangs > 0 && (self.hangs_give_up || self.machines[0].config.ssd_is_pair))
    }

    pub(crate) fn machine(&self, round: u32) -> Machine {
        self.machines[round as usize % self.machines.len()].clone()
    }
}
