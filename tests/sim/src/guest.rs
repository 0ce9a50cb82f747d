//! A random guest of one volume, held against the model.

mod damage;
mod meanwhile;
mod order;
mod starts;
mod ticks;
mod waits;

use std::collections::HashMap;
use std::ops::Range;

use lode_engine::{Answer, Buf, GuestError, GuestOp, GuestRequest, WaitedFor};
use lode_history::History;
use lode_policy::{CounterReport, Counters};
use lode_types::Rng;

use crate::machine::Faults;
use crate::model::{Change, Expected, Model, SECTOR};
use crate::run::{Crash, Decay, Plan, RunCounts};
use crate::world::World;
use meanwhile::meanwhile;
use ticks::Ticks;

/// A guest's request on its way.
#[derive(Debug)]
enum Asked {
    Read { sectors: Range<usize>, expected: Expected },
    Write { write: u32, fua: bool },
    Flush { mark: u64 },
}

/// Writes and flushes at which a start may be cut short.
pub(crate) const MOST_WRITES_OF_A_START: u64 = 40;

/// How much of a run is left.
#[derive(Debug)]
pub(crate) struct RunBudget {
    /// Requests to ask.
    left: u64,
    /// Of those, the last ones, during which devices may fail.
    sound: u64,
    last_step: Option<u64>,
}

/// The sectors that a read has returned.
fn in_sectors(answer: &Answer) -> impl Iterator<Item = &[u8]> {
    answer.data.iter().flat_map(|bytes| bytes.chunks(SECTOR))
}

/// Guarantee 8, as far as counters can say.
fn conserved(counters: &Counters) -> Result<(), String> {
    match CounterReport::from(counters).broken_sum() {
        None => Ok(()),
        Some(sum) => Err(format!("the counters do not add up: {sum}: {counters:?}")),
    }
}

/// Longest that a request may take while all devices work, in virtual time: some hundred times what the slowest of them
/// takes for one command.
const MOST_LATENCY_NS: u64 = 4_000_000_000;

/// Sectors that are read at once after a crash.
const MOST_SECTORS_LOOKED_AT: usize = 128;
/// The same where not all are read.
const SECTORS_LOOKED_AT: usize = 32;
/// In how many of a hundred looks after a crash each stretch is read that can hold nothing else than before.
const LOOKS_AT_SETTLED: u64 = 12;

pub(crate) struct Guest {
    requests_may_fail: bool,
    /// Requests may wait for the engine's next tick, because something failed.
    may_wait: bool,
    /// A read failed during a start. What was kept then may be something that never arrived, and is an error for whoever
    /// reads it until it is overwritten.
    start_had_read_error: bool,
    /// The SSD died, and all that was dirty is on another device as well.
    pub(crate) is_rescued: bool,
    /// What was damaged has no second copy any more once the host has gone down.
    mirrors_are_lost: bool,
    /// Which of those of a host it is, as the model's contents say.
    volume: u32,
    pub(crate) model: Model,
    asked: HashMap<u64, (Asked, u64)>,
    token: u64,
    /// The time that requests say, where the clock jumps.
    clock_ns: u64,
    /// Writes go past the SSD, and nothing was dirty since.
    nothing_dirty: bool,
    /// Where the backing disk is written in the order of the guest's flushes and nothing goes past the SSD.
    history: Option<History<Change>>,
    ticks: Ticks,
    pub(crate) tally: RunCounts,
}

impl Guest {
    pub(crate) fn new(plan: &Plan, volume: u32) -> Guest {
        Guest {
            requests_may_fail: plan.requests_may_fail(),
            may_wait: plan.may_wait(),
            start_had_read_error: false,
            is_rescued: false,
            mirrors_are_lost: plan.decay > 0 && plan.decays == Decay::Mirrored,
            volume,
            model: Model::new(plan.machines[0].config.volume_bytes, volume),
            asked: HashMap::new(),
            token: 0,
            clock_ns: 0,
            nothing_dirty: false,
            history: Guest::history(plan),
            ticks: Ticks::default(),
            tally: RunCounts::default(),
        }
    }

    /// A run, its end, and what is there after it. At the end the host is down.
    pub(crate) fn round(
        &mut self,
        plan: &Plan,
        world: &mut World,
        rng: &mut Rng,
        round: u32,
    ) -> Result<(), String> {
        let mut run = self.begin(plan, world, rng);
        while self.go_on(plan, world, rng, &mut run)? {}
        let crash = plan.crash.pick(rng);
        self.end(plan, world, crash)?;
        // What was stopped in order is durable, unless a device failed.
        let is_durable = crash == Crash::Stop && !world.engine().alarms().failed;
        world.ssd.counts_as_durable = is_durable;
        let failed_starts = rng.below(u64::from(plan.failed_starts) + 1);
        let then_power = Guest::power_fails_during_starts(crash, failed_starts, rng);
        self.crash(world, crash, then_power);
        self.check_order(world, None).map_err(|error| format!("after {crash:?}: {error}"))?;
        self.lose_ssd(plan, world, rng, then_power)?;
        // Where the power fails later, the copy that does not rot may be volatile still.
        self.tally.rotten += world.rot(if then_power { 0 } else { plan.rot });
        let known = Guest::known_durable(plan, crash, then_power, &mut world.ssd);
        let lost = std::mem::take(&mut world.lost);
        self.doubt(lost.iter().filter(|lost| known.is_doubtful(lost.at)), world.block_bytes());
        world.damage_known(plan.flips, &known);
        if plan.member_losses > 0 {
            self.tally.members_dropped += world.lose_members(plan.member_losses);
        }
        let next = plan.machine(round + 1);
        for _ in 0..failed_starts {
            world.ssd.fail_after = Some(rng.below(MOST_WRITES_OF_A_START));
            let started = world.restart(next.clone());
            world.ssd.fail_after = None;
            self.tally.failed_starts += u64::from(started.is_err());
            self.tally.starts_cut += 1;
            world.go_down(crash == Crash::Power || is_durable || then_power);
        }
        let may_lose = crash == Crash::Power || is_durable || then_power;
        self.restart(plan, world, rng, next, may_lose).map_err(|error| error.to_string())?;
        self.look(plan, world, round).map_err(|error| format!("after {crash:?}: {error}"))?;
        if plan.member_losses > 0 {
            world.resilver_by_chance();
        }
        self.crash(world, Crash::Kill, false);
        Ok(())
    }

    pub(crate) fn begin(&self, plan: &Plan, world: &World, rng: &mut Rng) -> RunBudget {
        let left = 1 + rng.below(u64::from(plan.requests));
        let last_step = plan.most_steps.map(|steps| world.steps() + steps);
        RunBudget { left, sound: rng.below(left + 1), last_step }
    }

    /// Asks as much as may be under way, and lets one thing happen. False: the run is over.
    pub(crate) fn go_on(
        &mut self,
        plan: &Plan,
        world: &mut World,
        rng: &mut Rng,
        run: &mut RunBudget,
    ) -> Result<bool, String> {
        if run.left == 0 || run.last_step.is_some_and(|last| world.steps() >= last) {
            return Ok(false);
        }
        while self.asked.len() < plan.depth && run.left > 0 {
            run.left -= 1;
            if run.left <= run.sound {
                world.faults = plan.faults;
            }
            let mut request = self.ask(plan, world.now_ns(), rng);
            if plan.clock_jumps > 0 {
                request.now_ns = self.clock(plan, world, rng);
            }
            world.submit(request);
        }
        if self.history.is_some() {
            self.look_at_order(world, rng)?;
        }
        meanwhile(plan, world, rng);
        run.may_end_in_hang(plan, world, rng);
        // Another scheme has no second copies of what it takes over, and who asks for it may not know yet that the SSD died.
        self.is_rescued &= !world.switched_since;
        self.write_around(plan, world, rng)?;
        if !world.step() && self.asked.is_empty() {
            return Ok(true);
        }
        self.collect(world)?;
        if !self.asked.is_empty() && self.asked.len() >= plan.depth {
            self.wait_for_one(world)?;
        }
        Ok(true)
    }

    /// Writes begin to go past the SSD, or do so no more; and what is not dirty then stays so.
    fn write_around(&mut self, plan: &Plan, world: &mut World, rng: &mut Rng) -> Result<(), String> {
        if plan.write_arounds == 0 {
            return Ok(());
        }
        if rng.chance(plan.write_arounds) {
            self.nothing_dirty = false;
            if rng.chance(30) {
                world.set_writes_around(false);
            } else {
                world.set_writes_around(true);
                world.drain();
            }
        }
        let engine = world.engine();
        match (self.nothing_dirty, engine.may_have_dirty()) {
            (true, true) => Err("something became dirty although writes go past the SSD".to_owned()),
            (false, false) => {
                self.nothing_dirty = true;
                self.tally.around += 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The end of a run as far as the guest and its engine take part in it.
    pub(crate) fn end(&mut self, plan: &Plan, world: &mut World, crash: Crash) -> Result<(), String> {
        conserved(world.engine().counters())?;
        if plan.ends_drained {
            self.drain(world)?;
        }
        if self.is_rescued && plan.seed.wrapping_add(world.steps()).is_multiple_of(2) {
            self.check_rescued(world)?;
        }
        self.note(world);
        if crash == Crash::Stop {
            self.stop(world)?;
        }
        Ok(())
    }

    /// The guest is cut off, and the cache emptied of what is newer than the disk. False: it cannot be, or not wholly.
    pub(crate) fn leave(&mut self, world: &mut World) -> Result<bool, String> {
        let faults = world.faults;
        self.drain(world)?;
        self.collect(world)?;
        world.faults = faults;
        let engine = world.engine();
        let is_at_rest = engine.is_idle() && self.asked.is_empty();
        Ok(is_at_rest && engine.gauges().dirty_blocks == 0 && !engine.alarms().failed)
    }

    /// It was taken off the SSD: what its engine counted until then.
    pub(crate) fn note_gone(&mut self, world: &mut World) {
        self.note(world);
        self.tally.gone += 1;
    }

    /// The host goes down. `may_lose`: what guests were told is written and no flush covers may be gone, although it was a
    /// kill. So it is where a flush of the backing disk failed, as with every disk.
    pub(crate) fn crash(&mut self, world: &mut World, crash: Crash, may_lose: bool) {
        self.requests_may_fail |= self.mirrors_are_lost;
        self.asked.clear();
        (self.nothing_dirty, self.is_rescued) = (false, false);
        match crash {
            Crash::Power => self.model.crash(),
            _ if may_lose || world.backing.has_dropped() => self.model.crash(),
            _ => self.model.killed(),
        }
        world.go_down(crash == Crash::Power);
    }

    /// The next run finds what it may.
    pub(crate) fn look(&mut self, plan: &Plan, world: &mut World, round: u32) -> Result<(), String> {
        self.tally.crashes += 1;
        // What a kill left unflushed is only settled by a flush.
        self.flush(world)?;
        let is_pair = world.pair.is_some();
        let is_damaged = plan.is_damaged() && !is_pair;
        self.read_everything(plan, world, round, is_damaged)?;
        self.tally.healed += world.healed();
        Ok(())
    }

    fn ask(&mut self, plan: &Plan, now_ns: u64, rng: &mut Rng) -> GuestRequest {
        self.token += 1;
        let total = self.model.sectors() as u64;
        let hot = rng.chance(70);
        let space = if hot { total / 8 } else { total };
        let mut first = rng.below(space.max(1));
        let mut count = 1 + rng.below(plan.longest_sectors);
        if rng.chance(60) {
            first -= first % 8;
            count = count.next_multiple_of(8);
        }
        let last = (first + count).min(total);
        let sectors = first as usize..last as usize;
        let (offset_bytes, length_bytes) = (first * SECTOR as u64, (last - first) * SECTOR as u64);
        let kind = rng.below(100);
        let (op, asked) = if kind < 45 {
            let expected = self.model.expected_of(sectors.clone(), self.requests_may_fail);
            (GuestOp::Read { offset_bytes, length_bytes }, Asked::Read { sectors, expected })
        } else if kind < 88 {
            let fua = rng.chance(10);
            let write = self.submit(sectors.clone(), Change::Data);
            let buf = Buf::copy_of(&Model::contents(write, sectors));
            (GuestOp::write(offset_bytes, buf, fua), Asked::Write { write, fua })
        } else if kind < 95 {
            (GuestOp::Flush, Asked::Flush { mark: self.model.flush_mark() })
        } else if kind < 98 {
            let fua = rng.chance(20);
            let write = self.submit(sectors, Change::Zero);
            (
                GuestOp::WriteZeroes { offset_bytes, length_bytes, fua, unmap: !fua },
                Asked::Write { write, fua },
            )
        } else {
            let write = self.submit(sectors, Change::Trim);
            (GuestOp::Trim { offset_bytes, length_bytes }, Asked::Write { write, fua: false })
        };
        self.asked.insert(self.token, (asked, now_ns));
        GuestRequest { token: self.token, op, now_ns: 0 }
    }

    pub(crate) fn collect(&mut self, world: &mut World) -> Result<(), String> {
        for event in world.take_events() {
            self.answered(event, world.now_ns(), world.hung_until_ns)?;
        }
        world.take_complaint()
    }

    fn answered(&mut self, event: Answer, now_ns: u64, hung_until_ns: u64) -> Result<(), String> {
        let (asked, since_ns) = self.asked.remove(&event.token).ok_or("an answer to nothing")?;
        self.tally.answered += 1;
        if !self.may_wait && now_ns - since_ns.max(hung_until_ns) > MOST_LATENCY_NS {
            return Err(format!("{asked:?} took {} ms", (now_ns - since_ns) / 1_000_000));
        }
        let waited_ns: u64 = WaitedFor::ALL.iter().map(|&cause| event.waits.ns(cause)).sum();
        if waited_ns > now_ns - since_ns + 1000 {
            return Err(format!("{asked:?} waited for longer than it took: {:?}", event.waits));
        }
        match (asked, event.result) {
            (asked, Err(error)) if !self.requests_may_fail => {
                return Err(format!("{asked:?} failed with {error:?}"));
            }
            (Asked::Read { .. }, Err(error)) if self.is_rescued => {
                return Err(format!("a read failed with {error:?} although there is a second copy"));
            }
            (Asked::Read { .. }, Err(_)) => self.tally.failed_reads += 1,
            (Asked::Write { write, .. }, Err(_)) => {
                self.tally.failed_writes += 1;
                self.model.fail(write);
            }
            (Asked::Flush { .. }, Err(_)) => self.tally.failed_writes += 1,

            (Asked::Read { sectors, expected }, Ok(())) => {
                for (sector, (got, allowed)) in sectors.zip(in_sectors(&event).zip(expected.by_sector())) {
                    if let Some(complaint) = Model::complaint(sector, got, allowed) {
                        return Err(complaint);
                    }
                    self.tally.sectors_checked += 1;
                }
            }
            (Asked::Write { write, fua }, Ok(())) => {
                self.model.acknowledge(write, fua);
                if let Some(history) = &mut self.history {
                    history.acknowledge(write);
                }
            }
            (Asked::Flush { mark }, Ok(())) => self.model.flushed(mark),
        }
        Ok(())
    }

    /// An orderly stop: everything is answered, flushed and saved.
    fn stop(&mut self, world: &mut World) -> Result<(), String> {
        world.faults = Faults::default();
        world.settle();
        self.collect(world)?;
        if world.engine().alarms().failed {
            return if self.asked.is_empty() {
                Ok(())
            } else {
                Err("requests are never answered".to_owned())
            };
        }
        let mark = self.model.flush_mark();
        match self.flush(world) {
            // Nobody had noticed.
            Err(_) if world.ssd_died => return Ok(()),
            flushed => flushed?,
        }
        self.model.flushed(mark);
        world.settle();
        if !world.engine().is_idle() {
            return Err("the engine does not come to rest".to_owned());
        }
        Ok(())
    }

    /// Writes everything back. Then nothing is dirty, and the backing disk alone has what the guest may read, also
    /// after a power cut.
    fn drain(&mut self, world: &mut World) -> Result<(), String> {
        const MOST_TICKS: usize = 256;
        self.stop(world)?;
        if world.engine().alarms().failed {
            return Ok(());
        }
        world.drain();
        for _ in 0..MOST_TICKS {
            while world.step() {}
            if world.engine().drain_left().is_none() {
                break;
            }
            world.tick();
        }
        world.settle();
        let (left, gauges) = (world.engine().drain_left(), world.engine().gauges());
        // A group is written as a whole or not at all.
        let is_stuck = world.engine().behind().is_some() && gauges.lost_blocks > 0;
        if left.is_some() || (gauges.dirty_blocks != gauges.lost_blocks && !is_stuck) {
            return Err(format!("a drain without faults does not end: {left:?} left, {gauges:?}"));
        }
        if gauges.lost_blocks > 0 {
            return Ok(());
        }
        self.tally.drained += 1;
        let disk = world.backing.after_power_cut(&mut Rng::new(world.steps()));
        for sector in 0..self.model.sectors() {
            let mut bytes = [0; SECTOR];
            disk.peek(world.backing_start + (sector * SECTOR) as u64, &mut bytes);
            let on_disk = self.model.may_hold(sector, &bytes);
            on_disk.map_err(|error| format!("on the drained disk alone: {error}"))?;
        }
        Ok(())
    }

    fn flush(&self, world: &mut World) -> Result<(), String> {
        let flush = GuestRequest { token: u64::MAX, op: GuestOp::Flush, now_ns: 0 };
        let event = world.serve(flush).ok_or("a flush is never answered")?;
        event.result.map_err(|error: GuestError| format!("a flush failed: {error:?}"))?;
        Ok(())
    }

    /// Reads the volume: what is there must be allowed. What may be one of several contents is read twice, because it must
    /// stay what it was found to be.
    fn read_everything(
        &mut self,
        plan: &Plan,
        world: &mut World,
        round: u32,
        is_damaged: bool,
    ) -> Result<(), String> {
        let looks_around = plan.looks_around && round + 1 < plan.rounds;
        let piece_sectors = match looks_around {
            _ if is_damaged || self.start_had_read_error => 8,
            true => SECTORS_LOOKED_AT,
            false => MOST_SECTORS_LOOKED_AT,
        };
        let pieces = self.model.sectors().div_ceil(piece_sectors);
        let mut times = vec![2; pieces];
        if looks_around {
            // What cannot have changed is looked at by chance.
            let mut chance = Rng::new(plan.seed ^ world.digest());
            times.iter_mut().for_each(|times| *times = u8::from(chance.chance(LOOKS_AT_SETTLED)));
            self.model.unsettled().iter().for_each(|sector| times[sector / piece_sectors] = 2);
        }
        for time in 0..2 {
            for piece in (0..pieces).filter(|&piece| times[piece] > time) {
                let first = piece * piece_sectors;
                let last = (first + piece_sectors).min(self.model.sectors());
                self.look_at(world, first..last, is_damaged)?;
            }
        }
        Ok(())
    }

    /// Reads these sectors after a crash.
    fn look_at(&mut self, world: &mut World, sectors: Range<usize>, is_damaged: bool) -> Result<(), String> {
        let op = GuestOp::Read {
            offset_bytes: (sectors.start * SECTOR) as u64,
            length_bytes: (sectors.len() * SECTOR) as u64,
        };
        self.token += 1;
        let event = world.serve(GuestRequest { token: self.token, op, now_ns: 0 });
        let event = event.ok_or("a read after a crash is never answered")?;
        if is_damaged && event.result.is_err() {
            self.tally.failed_reads += 1;
            return Ok(());
        }
        if self.start_had_read_error && event.result.is_err() && !self.model.is_settled(sectors.clone()) {
            self.tally.unreadable += 1;
            return Ok(());
        }
        event.result.map_err(|error| format!("a read after a crash failed: {error:?}"))?;
        for (sector, bytes) in sectors.zip(in_sectors(&event)) {
            match world.backing.has_dropped() {
                true => self.model.settle_until_reboot(sector, bytes)?,
                false => self.model.settle(sector, bytes)?,
            }
            self.found(sector, bytes);
            self.tally.sectors_checked += 1;
        }
        Ok(())
    }

    fn note(&mut self, world: &mut World) {
        self.tally.digest = world.digest();
        let counters = world.engine().counters();
        self.tally.read_hits += counters.read_hits.iter().sum::<u64>();
        self.tally.write_backs += counters.write_backs;
        self.tally.dropped_clean_copies += world.engine().gauges().dropped_clean_copies;
        let alarms = world.engine().alarms();
        self.tally.damaged += alarms.damaged_clean + alarms.damaged_dirty + alarms.damaged_mirrored;
        self.tally.healed += world.healed();
        for (_, pair) in world.each_pair() {
            // Once for all who use it.
            self.tally.members_dropped += std::mem::take(&mut pair.dropped);
            self.tally.members_resilvered += std::mem::take(&mut pair.resilvered);
            self.tally.members_resumed += std::mem::take(&mut pair.resumed);
            self.tally.members_replaced += std::mem::take(&mut pair.replaced);
        }
        self.tally.misdirected += std::mem::take(&mut world.misdirected);
        self.tally.hangs += std::mem::take(&mut world.hangs);
        self.tally.decayed += std::mem::take(&mut world.decayed);
        self.tally.ssd_errors += alarms.ssd_errors;
        self.tally.read_ssd_errors += alarms.read_ssd_errors;
        let gauges = world.engine().gauges();
        self.tally.mirrored += gauges.read_ssd_data_bytes / world.block_bytes();
        self.tally.cleaned += gauges.cleaned_blocks;
        self.tally.drain_failures += gauges.drain_failures;
        self.tally.moved += gauges.moved_blocks;
        self.tally.switches += gauges.scheme_switches;
        self.tally.reissued += gauges.reissued_writes;
        self.tally.discarded += gauges.discarded_completions;
    }
}
