//! A host made of a seed: its volumes, schemes, faults and the way in which it goes down, mixed at random. What the tests
//! of single guarantees leave out by being about one thing each is found here.

use lode_engine::{EngineConfig, WriteBackLimits};
use lode_policy::Quota;
use lode_types::Rng;

use crate::machine::{Faults, Machine};
use crate::minimize::run_host;
use crate::run::{Crash, Decay, Plan, RunCounts, run};
use crate::scenario::{VOLUME_BYTES, all_schemes, machine, ordered, plan, spread, tica_schemes};
use crate::together::run_together;

/// Most volumes of a host.
const MOST_VOLUMES: u64 = 3;

/// What always changes while volumes are served; the rest does in some hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changing {
    /// Nothing does always.
    Anything,
    /// Shares.
    Shares,
    /// Schemes.
    Schemes,
}

/// The plans of a host's volumes. It goes down so, or at random.
pub fn attack_plans(seed: u64, crash: Crash, changing: Changing) -> Vec<Plan> {
    let mut plans = plans_in_full(seed, crash, changing);
    let mut rng = Rng::new(seed.rotate_left(13) ^ 0x5851_f42d_4c95_7f2d);
    for plan in &mut plans {
        // Smaller ones are looked at sooner, and meet themselves more often.
        let volume_bytes = (VOLUME_BYTES >> rng.below(3)) - 1024;
        plan.machines.iter_mut().for_each(|machine| machine.config.volume_bytes = volume_bytes);
        plan.most_spare_places = if rng.chance(30) { plan.most_spare_places } else { 0 };
        // Most lives are short: what a power cut meets is mostly what came last, and the next start soon meets another one.
        plan.requests = 1 + (plan.requests >> rng.below(4));
        plan.looks_around = true;
        plan.rot = if rng.chance(40) { 70 } else { 0 };
    }
    let mut of_media = Rng::new(seed.rotate_left(29) ^ 0x3d15);
    let clock_jumps = if of_media.chance(20) { 1 + of_media.below(2) } else { 0 };
    // What the last commit before a kill or power cut wrote elsewhere looks as if it had never been written.
    let is_undamaged = crash == Crash::Stop && plans[0].faults == Faults::default() && plans[0].flips == 0;
    let ssd_misdirected = if is_undamaged && of_media.chance(50) { 1 + of_media.below(3) } else { 0 };
    for plan in &mut plans {
        plan.clock_jumps = clock_jumps;
        plan.faults.ssd_misdirected = ssd_misdirected;
    }
    plans
}

/// The same as hosts were before volumes were of several sizes, without many free places, and looked at by chance.
fn plans_in_full(seed: u64, crash: Crash, changing: Changing) -> Vec<Plan> {
    let always = |so| if changing == so { 100 } else { 0 };
    let (shares, schemes) = (always(Changing::Shares), always(Changing::Schemes));
    plans(seed, crash, shares.max(SOME_MOVE_SHARES), schemes.max(SOME_SWITCH))
}

/// In how many of a hundred hosts shares change while volumes are served.
const SOME_MOVE_SHARES: u64 = 40;
/// In how many of a hundred hosts schemes change while volumes are served.
const SOME_SWITCH: u64 = 30;

fn plans(seed: u64, crash: Crash, move_shares: u64, switch: u64) -> Vec<Plan> {
    let mut rng = Rng::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let volumes = 1 + rng.below(MOST_VOLUMES);
    let schemes = all_schemes();
    // None, too few, and more than are ever needed.
    let kept_records = [0, 2 + rng.below(40) as u32, 1024, 1024][rng.below(4) as usize];
    let ssd_bytes = (2 + 2 * volumes) << 20;
    let common = common_plan(&mut rng, seed, crash);
    // Of its own numbers, so that a seed's host is otherwise what it always was.
    let mut of_shares = Rng::new(!seed);
    let moves_shares = of_shares.chance(move_shares);
    let ssd_bytes = if moves_shares { ssd_bytes + ((1 + of_shares.below(4)) << 20) } else { ssd_bytes };
    let mut of_schemes = Rng::new((!seed).rotate_left(32));
    let switches = of_schemes.chance(switch);
    // Where space is on the move.
    let membership_changes =
        if moves_shares && of_schemes.chance(switch) { 1 + of_schemes.below(3) } else { 0 };
    let mut of_scrubs = Rng::new(seed.rotate_left(16) ^ 0x5c2b);
    let mut plan_of = |number: u64| {
        let runs = if rng.chance(50) { 2 } else { 1 };
        let mut machine_of = |_| {
            let mut machine = schemes[rng.below(schemes.len() as u64) as usize].1.clone();
            if rng.chance(25) {
                machine = large();
            }
            machine.config.write_back = rng.chance(50).then(|| write_back(&mut rng));
            machine.config.scrub_ticks = of_scrubs.chance(40).then(|| 1 + of_scrubs.below(3) as u32);
            Machine { name: format!("vm{number}"), ssd_bytes, kept_records, ..machine }
        };
        let machines = (0..runs).map(&mut machine_of).collect();
        let requests = (10 + rng.below(240)) as u32;
        let depth = 1 + rng.below(24) as usize;
        let longest_sectors = 1 + rng.below(80);
        let share_changes = if moves_shares { 1 + of_shares.below(4) } else { 0 };
        let scheme_switches = if switches { 1 + of_schemes.below(4) } else { 0 };
        Plan {
            machines,
            requests,
            depth,
            longest_sectors,
            share_changes,
            scheme_switches,
            membership_changes,
            ..common.clone()
        }
    };
    (0..volumes).map(&mut plan_of).collect()
}

/// What concerns the host as a whole.
fn common_plan(rng: &mut Rng, seed: u64, crash: Crash) -> Plan {
    let mut plan = Plan { crash, rounds: 4, ..plan(Vec::new(), seed) };
    if rng.chance(35) {
        plan.faults = faults(rng);
    }
    plan.failed_starts = rng.below(3) as u32;
    plan.start_read_errors = if rng.chance(25) { 60 } else { 0 };
    plan.shares_backing = rng.chance(50);
    plan.drains = if rng.chance(25) { 1 + rng.below(5) } else { 0 };
    plan.ends_drained = rng.chance(10);
    plan.most_steps = rng.chance(50).then(|| 1 + rng.below(400));
    // A medium that damages just what no flush has covered makes it look as if it had never been written.
    if crash == Crash::Stop && plan.faults == Faults::default() && rng.chance(50) {
        plan.flips = rng.below(16) as u32;
    }
    plan
}

/// Background write-back that has something to do in a short life.
fn write_back(rng: &mut Rng) -> WriteBackLimits {
    let dirty_limit_blocks = rng.below(50) as u32;
    WriteBackLimits {
        dirty_limit_blocks,
        dirty_max_blocks: dirty_limit_blocks + rng.below(50) as u32,
        age_ticks: rng.chance(50).then(|| 1 + rng.below(4) as u32),
        idle_ticks: rng.chance(50).then(|| 1 + rng.below(2) as u32),
    }
}

fn faults(rng: &mut Rng) -> Faults {
    let mut percent = |most: u64| if rng.chance(30) { 1 + rng.below(most) } else { 0 };
    Faults {
        ssd_read_errors: percent(4),
        ssd_write_errors: percent(4),
        ssd_metadata_errors: percent(3),
        ssd_flush_errors: percent(5),
        backing_read_errors: percent(4),
        backing_write_errors: percent(10),
        backing_flush_errors: percent(5),
        redo_write_errors: 0,
        redo_flush_errors: 0,
        read_ssd_read_errors: percent(4),
        read_ssd_write_errors: percent(4),
        ssd_misdirected: 0,
        ssd_gone: percent(1) > 0 && percent(1) > 0,
        read_ssd_gone: percent(1) > 0 && percent(1) > 0,
        only_member: None,
        only_pair: None,
        hanging_member: None,
    }
}

/// A volume with another number of extents.
fn large() -> Machine {
    let mut large = machine("lru", &["write_policy=wb"], Quota::new(0, 300));
    large.config.reserve = Quota::new(24, 40);
    large
}

/// Runs the host of a seed.
///
/// # Errors
/// What a guest saw that it must not see, with the command that shows it again.
pub fn attack(seed: u64, crash: Crash, changing: Changing) -> Result<Vec<RunCounts>, String> {
    attack_host(&attack_plans(seed, crash, changing))
}

/// Runs volumes that share an SSD. Where they fail, says with how much less of everything they fail as well.
///
/// # Errors
/// As [`attack`].
pub fn attack_host(plans: &[Plan]) -> Result<Vec<RunCounts>, String> {
    run_host(plans, run_together)
}

/// As [`attack_host`], of one volume alone.
fn attack_alone(plan: Plan) -> Result<Vec<RunCounts>, String> {
    run_host(&[plan], |plans| run(&plans[0]).map(|counts| vec![counts]))
}

/// As [`attack`], of a host as seeds stood for until [`attack_plans`] varied more: those that once failed are of that time.
///
/// # Errors
/// As [`attack`].
pub fn attack_in_full(seed: u64, crash: Crash, changing: Changing) -> Result<Vec<RunCounts>, String> {
    attack_host(&plans_in_full(seed, crash, changing))
}

/// As [`attack`], of a host whose shares change, and schemes and volumes most times, while blocks on its SSD go bad and writes go
/// elsewhere there, whatever the end.
///
/// # Errors
/// As [`attack`].
pub fn attack_damaged(seed: u64, crash: Crash) -> Result<Vec<RunCounts>, String> {
    let mut rng = Rng::new(seed.rotate_left(48) ^ 0xdeca);
    let mut plans = attack_plans(seed, crash, Changing::Shares);
    let faults =
        Faults { ssd_misdirected: if rng.chance(50) { 1 + rng.below(4) } else { 0 }, ..Faults::default() };
    let (decay, flips) = (rng.below(4), rng.below(16) as u32);
    let membership_changes = if rng.chance(60) { 1 + rng.below(3) } else { 0 };
    let switches = rng.chance(60);
    for plan in &mut plans {
        (plan.faults, plan.decay, plan.flips) = (faults, decay, flips);
        plan.membership_changes = membership_changes;
        plan.scheme_switches = if switches { 1 + rng.below(4) } else { 0 };
    }
    attack_host(&plans)
}

/// As [`attack`], of a host whose volumes begin with schemes that keep dirty blocks on two devices, and whose shares change: either device
/// fails or dies, or blocks on it go bad.
///
/// # Errors
/// As [`attack`].
pub fn attack_two_devices(seed: u64, crash: Crash) -> Result<Vec<RunCounts>, String> {
    let mut rng = Rng::new(seed.rotate_left(56) ^ 0x71ca);
    let mut plans = attack_plans(seed, crash, Changing::Shares);
    let schemes = tica_schemes();
    let membership_changes = if rng.chance(60) { 1 + rng.below(3) } else { 0 };
    let switches = rng.chance(60);
    let happens = rng.below(3);
    let (mut faults, mut ssd_deaths, mut decay, mut decays) = (Faults::default(), 0, 0, Decay::ReadSsd);
    match happens {
        0 => {
            let mut percent = |most: u64| if rng.chance(50) { 1 + rng.below(most) } else { 0 };
            (faults.read_ssd_read_errors, faults.read_ssd_write_errors) = (percent(10), percent(10));
            (faults.read_ssd_gone, decay) = (percent(1) > 0 && percent(1) > 0, percent(6));
        }
        1 => ssd_deaths = 70,
        _ => (decay, decays) = (1 + rng.below(6), Decay::Mirrored),
    }
    for plan in &mut plans {
        for machine in &mut plan.machines {
            let (_, tica) = schemes[rng.below(schemes.len() as u64) as usize].clone();
            let config = EngineConfig {
                volume_bytes: machine.config.volume_bytes,
                write_back: machine.config.write_back,
                scrub_ticks: machine.config.scrub_ticks,
                ..tica.config
            };
            (machine.settings, machine.config) = (tica.settings, config);
        }
        // Another scheme has no second copies.
        let may_switch = switches && decays != Decay::Mirrored;
        plan.scheme_switches = if may_switch { 1 + rng.below(3) } else { 0 };
        (plan.faults, plan.decay, plan.decays, plan.ssd_deaths) = (faults, decay, decays, ssd_deaths);
        (plan.membership_changes, plan.flips, plan.start_read_errors) = (membership_changes, 0, 0);
    }
    attack_host(&plans)
}

/// As [`attack`], of one volume on a pair of SSDs. Half of them fail or are lost one at a time, and no guest may notice that.
///
/// # Errors
/// As [`attack`].
pub fn attack_pair(seed: u64, crash: Crash) -> Result<Vec<RunCounts>, String> {
    attack_alone(pair_plan(seed, crash))
}

/// As [`attack_pair`], on three or four pairs of SSDs over which the volume is spread. What happens to one SSD of a pair happens to one
/// of each, or of one of the pairs alone.
///
/// # Errors
/// As [`attack`].
pub fn attack_pairs(seed: u64, crash: Crash) -> Result<Vec<RunCounts>, String> {
    let mut plan = pair_plan(seed, crash);
    let mut rng = Rng::new(seed.rotate_left(48) ^ 0x3a1d);
    let other_pairs = 2 + rng.below(2);
    for machine in &mut plan.machines {
        *machine = spread(machine.clone(), other_pairs);
    }
    if rng.chance(50) && (plan.faults.only_member.is_some() || plan.faults.hanging_member.is_some()) {
        plan.faults.only_pair = Some(rng.below(1 + other_pairs) as usize);
    }
    attack_alone(plan)
}

/// As [`attack`], of a host whose cache is on one to four pairs of SSDs and whose shares change, and schemes and volumes most times, while
/// members fail, go, and are replaced and resilvered.
///
/// # Errors
/// As [`attack`].
pub fn attack_changing_pairs(seed: u64, crash: Crash) -> Result<Vec<RunCounts>, String> {
    let mut rng = Rng::new(seed.rotate_left(8) ^ 0xc4a2);
    let mut plans = attack_plans(seed, crash, Changing::Shares);
    let other_pairs = if rng.chance(40) { 1 + rng.below(3) } else { 0 };
    let membership_changes = if rng.chance(60) { 1 + rng.below(3) } else { 0 };
    let switches = rng.chance(60);
    let member_losses = if rng.chance(60) { 10 + rng.below(60) } else { 0 };
    let member_changes = if rng.chance(60) { 1 + rng.below(4) } else { 0 };
    let mut faults = if rng.chance(60) { member_faults(&mut rng) } else { Faults::default() };
    if rng.chance(50) && faults != Faults::default() {
        faults.only_pair = Some(rng.below(1 + other_pairs) as usize);
    }
    for plan in &mut plans {
        for machine in &mut plan.machines {
            machine.config.ssd_is_pair = true;
            if other_pairs > 0 {
                spread_shared(machine, other_pairs);
            }
        }
        plan.scheme_switches = if switches { 1 + rng.below(4) } else { 0 };
        (plan.faults, plan.membership_changes) = (faults, membership_changes);
        (plan.member_losses, plan.member_changes) = (member_losses, member_changes);
        plan.flips = 0;
        (plan.start_reads_beside, plan.starts_at_once) = (reads_beside(seed), true);
        stand_still(plan);
        begin_on_one(plan, seed);
    }
    attack_host(&plans)
}

/// As [`attack`], of a host whose devices stop answering for a time, now and then, and go on with what they were asked for in any order, or
/// the system gives it up. Some are on pairs of SSDs, of which one hangs, or both do.
///
/// # Errors
/// As [`attack`].
pub fn attack_hangs(seed: u64, crash: Crash) -> Result<Vec<RunCounts>, String> {
    let mut rng = Rng::new(seed.rotate_left(20) ^ 0x4a96);
    let mut plans = attack_plans(seed, crash, Changing::Anything);
    let is_pair = rng.chance(40);
    let hangs_give_up = !is_pair && rng.chance(40);
    let is_ordered = !is_pair && rng.chance(25);
    let other_pairs = if rng.chance(30) { 1 } else { 0 };
    let member_changes = if is_pair && rng.chance(40) { 1 + rng.below(3) } else { 0 };
    for plan in &mut plans {
        set_devices(plan, &mut rng, is_ordered, is_pair.then_some(other_pairs));
        (plan.faults, plan.flips, plan.start_read_errors) = (Faults::default(), 0, 0);
        (plan.hangs, plan.hangs_give_up) = (1 + rng.below(2), hangs_give_up);
        plan.starts_at_once = true;
        (plan.member_changes, plan.clock_jumps) = (member_changes, 0);
    }
    attack_host(&plans)
}

/// As [`attack`], of a host whose devices stop answering inside starts: for a time, until the system or the start gives up what it was asked for, or
/// for good. Copies of metadata rot between the runs of some, and blocks between those of some that are on one SSD. Most are on pairs of SSDs,
/// which are lost and replaced as well, and no guest may notice.
///
/// # Errors
/// As [`attack`].
pub fn attack_start_hangs(seed: u64, crash: Crash) -> Result<Vec<RunCounts>, String> {
    let mut rng = Rng::new(seed.rotate_left(12) ^ 0x57a7);
    let mut plans = attack_plans(seed, crash, Changing::Anything);
    let is_pair = rng.chance(60);
    let other_pairs = if rng.chance(30) { 1 } else { 0 };
    let is_ordered = !is_pair && rng.chance(30);
    let member_losses = if is_pair && rng.chance(60) { 10 + rng.below(60) } else { 0 };
    let member_changes = if is_pair && rng.chance(30) { 1 + rng.below(3) } else { 0 };
    let hangs = if rng.chance(30) { 1 } else { 0 };
    let (rot, mut of_rot) = rot(seed);
    let flips = if !is_pair && of_rot.chance(30) { 1 + of_rot.below(8) as u32 } else { 0 };
    for plan in &mut plans {
        set_devices(plan, &mut rng, is_ordered, is_pair.then_some(other_pairs));
        (plan.faults, plan.flips, plan.rot, plan.start_read_errors) = (Faults::default(), flips, rot, 0);
        (plan.start_hangs, plan.starts_at_once, plan.rounds) = (80, true, 6);
        (plan.hangs, plan.member_losses, plan.member_changes) = (hangs, member_losses, member_changes);
        plan.clock_jumps = 0;
    }
    attack_host(&plans)
}

/// Has the volumes of a host be on a pair of SSDs with so many others, if it is on any, and their disks be written in order, if they are to.
fn set_devices(plan: &mut Plan, rng: &mut Rng, are_ordered: bool, other_pairs: Option<u64>) {
    let (group_blocks, group_ticks) = (8 + rng.below(120) as u32, rng.below(3) as u32);
    for machine in &mut plan.machines {
        if are_ordered {
            *machine = ordered(machine.clone(), group_blocks, group_ticks);
        }
        machine.config.ssd_is_pair = other_pairs.is_some();
        if let Some(other_pairs) = other_pairs.filter(|&others| others > 0) {
            spread_shared(machine, other_pairs);
        }
    }
}

/// Has a volume that shares its SSDs be on several pairs, with not more space than on one, so that volumes wait for each other's.
fn spread_shared(machine: &mut Machine, other_pairs: u64) {
    *machine = spread(machine.clone(), other_pairs);
    machine.ssd_bytes = (machine.ssd_bytes / (1 + other_pairs)).max(3 << 20) >> 20 << 20;
    let blocks = &mut machine.config.share.ssd_blocks;
    *blocks = (*blocks).min(60);
}

fn pair_plan(seed: u64, crash: Crash) -> Plan {
    let mut rng = Rng::new(seed.rotate_left(24) ^ 0x9a1f);
    let mut plan = plans(seed, crash, 0, SOME_SWITCH).swap_remove(0);
    for machine in &mut plan.machines {
        machine.config.ssd_is_pair = true;
    }
    (plan.rounds, plan.starts_at_once) = (6, true);
    if plan.flips == 0 {
        plan.member_losses = if rng.chance(70) { 10 + rng.below(60) } else { 0 };
        if rng.chance(70) {
            plan.faults = member_faults(&mut rng);
        }
        plan.member_changes = if rng.chance(50) { 1 + rng.below(8) } else { 0 };
        if plan.member_losses == 0 && plan.faults == Faults::default() && rng.chance(50) {
            // Whatever goes astray on one is on the other one, as long as that is there; starts that are cut short, or cannot read the
            // first one's label, lose that.
            (plan.member_changes, plan.failed_starts, plan.start_read_errors) = (0, 0, 0);
            plan.faults = Faults {
                ssd_misdirected: 1 + rng.below(5),
                only_member: Some(rng.below(2) as usize),
                ..Faults::default()
            };
        }
    }
    plan.clock_jumps = if rng.chance(20) { 1 + rng.below(2) } else { 0 };
    stand_still(&mut plan);
    begin_on_one(&mut plan, seed);
    plan.rot = rot(seed).0;
    plan.start_reads_beside = reads_beside(seed);
    plan
}

/// How likely it is that a copy of metadata rots between two runs of this seed, in per cent; and the numbers by which that was chosen, which
/// are of its own, so that seeds are otherwise what they were.
fn rot(seed: u64) -> (u64, Rng) {
    let mut rng = Rng::new(seed.rotate_left(52) ^ 0x0707);
    (if rng.chance(40) { 70 } else { 0 }, rng)
}

/// Whether in the starts of this seed reads of other devices fail as well.
fn reads_beside(seed: u64) -> bool {
    Rng::new(seed.rotate_left(60) ^ 0x4ead).chance(50)
}

/// Has the second SSDs of pairs of some seeds come later. What is damaged while there is one SSD is lost, and so is what goes astray on it: there
/// both have to be there.
fn begin_on_one(plan: &mut Plan, seed: u64) {
    let is_whole = (plan.flips, plan.faults.ssd_misdirected) == (0, 0);
    if is_whole && Rng::new(seed.rotate_left(40) ^ 0x1a70).chance(25) {
        plan.machines.iter_mut().for_each(|machine| machine.mirror_later = true);
    }
}

/// Devices stand still while the clock jumps. For that a member is dropped, and it may be the only one that has everything, that
/// answers, or from which a read that failed on the other one is under way: then it does not jump.
fn stand_still(plan: &mut Plan) {
    let faults = &plan.faults;
    if faults.ssd_misdirected > 0 || faults.ssd_read_errors > 0 || faults.hanging_member.is_some() {
        plan.clock_jumps = 0;
    }
}

/// As [`attack`], of volumes whose backing disks are written in the order of their guests' flushes. Alone on its SSD a volume loses
/// it now and then.
///
/// # Errors
/// As [`attack`].
pub fn attack_ordered(seed: u64, crash: Crash) -> Result<Vec<RunCounts>, String> {
    let mut rng = Rng::new(seed.rotate_left(40) ^ 0x0d3a);
    let are_together = rng.chance(25);
    let mut plans = match are_together {
        true => attack_plans(seed, crash, Changing::Anything),
        false => vec![plans(seed, crash, 0, SOME_SWITCH).swap_remove(0)],
    };
    for plan in &mut plans {
        let volume_bytes = (VOLUME_BYTES >> rng.below(3)) - 1024;
        let (group_blocks, group_ticks) = (8 + rng.below(120) as u32, rng.below(3) as u32);
        let max_lag_ticks = rng.chance(30).then(|| 1 + rng.below(4) as u32);
        for machine in &mut plan.machines {
            *machine = ordered(machine.clone(), group_blocks, group_ticks);
            machine.config.volume_bytes = volume_bytes;
            machine.config.ordered.iter_mut().for_each(|config| config.max_lag_ticks = max_lag_ticks);
        }
        plan.looks_around = true;
        plan.start_reads_beside = reads_beside(seed);
        if !are_together && rng.chance(20) {
            plan.write_arounds = 1 + rng.below(2);
        }
        if plan.faults != Faults::default() {
            let mut percent = |most: u64| if rng.chance(30) { 1 + rng.below(most) } else { 0 };
            (plan.faults.redo_write_errors, plan.faults.redo_flush_errors) = (percent(10), percent(5));
        }
    }
    if are_together {
        // What fails the redo log of one fails the disk of all.
        let most =
            |error: fn(&Faults) -> u64| plans.iter().map(|plan| error(&plan.faults)).max().unwrap_or(0);
        let (writes, flushes) =
            (most(|faults| faults.redo_write_errors), most(|faults| faults.redo_flush_errors));
        for plan in &mut plans {
            (plan.faults.redo_write_errors, plan.faults.redo_flush_errors) = (writes, flushes);
        }
        return attack_host(&plans);
    }
    let mut plan = plans.swap_remove(0);
    (plan.rounds, plan.ssd_losses) = (6, 50);
    attack_alone(plan)
}

/// What happens to one SSD of a pair.
fn member_faults(rng: &mut Rng) -> Faults {
    let only_member = Some(rng.below(2) as usize);
    if rng.chance(15) {
        return Faults { hanging_member: only_member, ..Faults::default() };
    }
    let mut percent = |most: u64| if rng.chance(40) { 1 + rng.below(most) } else { 0 };
    Faults {
        ssd_read_errors: percent(8),
        ssd_write_errors: percent(8),
        ssd_metadata_errors: percent(6),
        ssd_flush_errors: percent(10),
        ssd_gone: percent(1) > 0 && percent(1) > 0,
        only_member,
        ..Faults::default()
    }
}
