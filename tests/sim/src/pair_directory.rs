//! The way of a cache's directory to its pairs, as the daemon's thread for it goes: each write and flush is carried out on one member after
//! the other, waits for what a resilver copies there, and counts when labels say who lacks it. It must not know volumes, or what the
//! directory says.

use std::collections::VecDeque;
use std::sync::Arc;

use lode_engine::command::CommandKind;
use lode_engine::{EndedFlush, FlushTicket, Worth};
use lode_format::PairLabel;
use lode_store::DirectoryOutput;
use lode_store::pair::{
    ArrayCommands, Followed, InTurn, MEMBERS, PairCommand, PairOptions, Stripes, bytes_of,
};
use lode_types::{MediaError, Rng};

use crate::disk::{Access, SimDisk};
use crate::machine::Faults;
use crate::pair::{SimPair, To};
use crate::pair_side::MOST_TICKS;
use crate::space::write;

/// The pairs of a cache, each with its first member.
pub(crate) type Pairs<'a> = Vec<(&'a mut SimDisk, &'a mut SimPair)>;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct PairDirectory {
    stripes: Arc<Stripes>,
    /// By which number the followers of each pair know it.
    followers: Vec<u64>,
    /// What is to be done for the write or flush under way: on which pair, and what there.
    left: VecDeque<(usize, CommandKind)>,
    now: Option<OnPair>,
    is_under_way: bool,
    has_failed: bool,
    /// The member that may hang in this run.
    hanging: Option<usize>,
}

/// A write or flush of one pair.
#[derive(Debug)]
struct OnPair {
    pair: usize,
    kind: CommandKind,
    /// By which number the resilver knows the write.
    number: Option<u64>,
    asked: InTurn,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// It waits for what is copied where it writes.
    Turn,
    /// A member has it: since which tick, and of a flush what it covers.
    On { to: To, since_tick: u64, flush: Option<(u64, FlushTicket)> },
    /// The flush of a member ended well, and others decide what that is worth.
    Open { to: To, since_tick: u64, ended: EndedFlush },
    /// It is told when labels say who lacks it.
    Told,
}

/// What a step has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// It waits for something.
    Waits,
    On,
    /// The write or flush is over, well or not.
    Over(bool),
}

impl PairDirectory {
    /// Of a cache that lies on its pairs like this. `hanging` is the member that may hang.
    pub(crate) fn new(stripes: Arc<Stripes>, hanging: Option<usize>, pairs: &mut Pairs) -> PairDirectory {
        let followers = pairs.iter_mut().map(|(_, pair)| pair.followers.join(Followed::RETIRED)).collect();
        let left = VecDeque::new();
        let (is_under_way, has_failed) = (false, false);
        PairDirectory { stripes, followers, left, now: None, is_under_way, has_failed, hanging }
    }

    /// Whether something is on its way.
    pub(crate) fn is_under_way(&self) -> bool {
        self.is_under_way
    }

    /// Whether it waits for what a resilver copies.
    pub(crate) fn waits_for_copy(&self) -> bool {
        matches!(self.now, Some(OnPair { stage: Stage::Turn, .. }))
    }

    /// Whether it waits for flushes of others.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.now, Some(OnPair { stage: Stage::Open { .. }, .. }))
    }

    /// Sends it on its way.
    pub(crate) fn begin(&mut self, output: DirectoryOutput) {
        let kind = match output {
            DirectoryOutput::Write { offset_bytes, buf } => CommandKind::write(offset_bytes, buf),
            DirectoryOutput::Flush => CommandKind::Flush,
        };
        let command = PairCommand { id: 0, kind, options: PairOptions::default() };
        let left = &mut self.left;
        ArrayCommands::new(Arc::clone(&self.stripes))
            .begin(command, |pair, command| left.push_back((pair, command.kind)));
        (self.is_under_way, self.has_failed) = (true, false);
    }

    /// Goes a step further, which may fail.
    pub(crate) fn step(&mut self, pairs: &mut Pairs, faults: &Faults, rng: &mut Rng) -> Way {
        let Some(now) = &mut self.now else { return self.next(pairs) };
        let (first, pair) = &mut pairs[now.pair];
        match now.step(first, pair, (faults, self.hanging), rng) {
            None => return Way::Waits,
            Some(Way::Over(is_ok)) => {
                pair.followers.note(self.followers[now.pair], Followed::RETIRED);
                self.has_failed |= !is_ok;
                self.now = None;
            }
            Some(_) => {}
        }
        Way::On
    }

    /// Begins on the next pair, or is over.
    fn next(&mut self, pairs: &mut Pairs) -> Way {
        let Some((number, kind)) = self.left.pop_front() else {
            return if std::mem::take(&mut self.is_under_way) {
                Way::Over(!self.has_failed)
            } else {
                Way::Waits
            };
        };
        let pair = &mut *pairs[number].1;
        // A resilver waits for what was begun before it.
        let follows = Followed { adopted: pair.version, drained: pair.version };
        pair.followers.note(self.followers[number], follows);
        let stage = if pair.health.is_lost { Stage::Told } else { Stage::Turn };
        let asked = InTurn::new(pair.health);
        self.now = Some(OnPair { pair: number, kind, number: None, asked, stage });
        Way::On
    }

    /// The daemon dies, or the host.
    pub(crate) fn go_down(&mut self, pairs: &mut Pairs, power_cut: bool, rng: &mut Rng) {
        if let Some(OnPair { pair, kind: CommandKind::Write { offset_bytes, data }, stage, .. }) =
            self.now.take()
            && let Stage::On { to, .. } = stage
            && (power_cut || rng.chance(50))
        {
            let (first, pair) = &mut pairs[pair];
            write(pair.device_of_mut(first, to), at(offset_bytes), &data.concat(), None);
        }
    }
}

/// Where a byte of a pair is on its members.
fn at(offset_bytes: u64) -> u64 {
    PairLabel::DATA_START_BYTES + offset_bytes
}

fn fails(percent: u64, rng: &mut Rng) -> bool {
    percent > 0 && rng.chance(percent)
}

impl OnPair {
    /// Whether the member was dropped since, or did not answer in time. No other one is late: the thread's limit goes by no clock that
    /// jumps.
    fn is_closed(
        &self,
        first: &SimDisk,
        pair: &SimPair,
        (to, since_tick): (To, u64),
        hanging: Option<usize>,
    ) -> bool {
        if !pair.health.uses(to.member) || pair.is_gone(to) {
            return true;
        }
        let hangs = hanging == Some(to.member) || pair.device_of(first, to).hangs();
        hangs && pair.ticks > since_tick + MOST_TICKS && !self.asked.is_last(to.member, &pair.health)
    }

    /// Goes a step further; `None`: it cannot now.
    fn step(
        &mut self,
        first: &mut SimDisk,
        pair: &mut SimPair,
        (faults, hanging): (&Faults, Option<usize>),
        rng: &mut Rng,
    ) -> Option<Way> {
        match self.stage {
            Stage::Turn => {
                if self.asked.began().resilvering.is_some()
                    && let Some(bytes) = bytes_of(&self.kind)
                {
                    self.number = Some(pair.resilvering.resilver.begin_write(bytes)?);
                }
                self.next_member(first, pair);
            }
            Stage::On { to, since_tick, flush } => {
                let is_closed = self.is_closed(first, pair, (to, since_tick), hanging);
                let hangs = faults.hanging_member.is_some()
                    && pair.is_concerned(to, faults, faults.hanging_member)
                    || !pair.is_gone(to) && pair.device_of(first, to).hangs();
                if hangs && !is_closed {
                    return None;
                }
                self.carry_out(first, pair, (to, is_closed), flush, (faults, rng));
            }
            Stage::Open { to, since_tick, ended } => {
                let worth = pair.device_of(first, to).shared.worth(ended);
                if worth == Worth::Open && !self.is_closed(first, pair, (to, since_tick), hanging) {
                    return None;
                }
                let is_ok = worth == Worth::Durable;
                self.asked.ended(to.member, if is_ok { Ok(()) } else { Err(MediaError::Gone) });
                self.next_member(first, pair);
            }
            Stage::Told => return self.asked.end(&pair.health).map(|result| Way::Over(result.is_ok())),
        }
        Some(Way::On)
    }

    /// The next member that is to have it is asked, or it is known which ones do.
    fn next_member(&mut self, first: &mut SimDisk, pair: &mut SimPair) {
        for member in 0..MEMBERS {
            if self.asked.must_be_dropped(member, &pair.health) {
                pair.drop_member(member);
            }
        }
        if let Some(member) = self.asked.next_member() {
            let to = pair.to(member);
            let since_tick = pair.ticks;
            let disk = pair.device_of_mut(first, to);
            let is_flush = matches!(self.kind, CommandKind::Flush);
            let flush = is_flush.then(|| (disk.flush_mark(), disk.shared.begin_flush()));
            self.stage = Stage::On { to, since_tick, flush };
            return;
        }
        if let Some(number) = self.number.take() {
            pair.resilvering.resilver.end_write(number);
        }
        self.stage = Stage::Told;
        for member in self.asked.failed_members(&pair.health) {
            pair.drop_member(member);
        }
    }

    fn carry_out(
        &mut self,
        first: &mut SimDisk,
        pair: &mut SimPair,
        (to, is_closed): (To, bool),
        flush: Option<(u64, FlushTicket)>,
        (faults, rng): (&Faults, &mut Rng),
    ) {
        let concerns = pair.is_concerned(to, faults, faults.only_member);
        let faults = if concerns { *faults } else { Faults::default() };
        let is_gone = faults.ssd_gone || is_closed;
        let since_tick = pair.ticks;
        let disk = pair.device_of_mut(first, to);
        match (&self.kind, flush) {
            (CommandKind::Write { offset_bytes, data }, _) => {
                let failed = is_gone || disk.is_nth(Access::Write) || fails(faults.ssd_metadata_errors, rng);
                if !is_gone {
                    write(disk, at(*offset_bytes), &data.concat(), failed.then_some(rng));
                }
                let error = if is_gone { MediaError::Gone } else { MediaError::Io };
                self.asked.ended(to.member, if failed { Err(error) } else { Ok(()) });
                self.next_member(first, pair);
            }
            (_, Some((mark, ticket))) => {
                let failed = is_gone || disk.is_nth(Access::Flush) || fails(faults.ssd_flush_errors, rng);
                if !is_gone {
                    if failed { disk.drop_covered(mark) } else { disk.settle(mark) }
                }
                let ended = disk.shared.end_flush(ticket, !failed);
                self.stage = Stage::Open { to, since_tick, ended };
            }
            _ => unreachable!("a directory is written and flushed"),
        }
    }
}
