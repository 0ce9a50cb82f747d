//! Commands to a pair while a volume is served: what is written goes to both members, or to one where that is enough; what is read
//! comes from one of them, and from the other one where it is not what it should be. What was found damaged or unreadable is written again with what the other one
//! has; a member that does not even take that is to be dropped. It must not know devices, threads, or what else uses the pair.

use std::collections::VecDeque;

use hashbrown::HashMap;
use lode_format::{PairLabel, VolumeTag, data_checksum};
use lode_types::{BlockNo, Buf, Bufs, CommandKind, Counter, MediaError, planted};
use smallvec::SmallVec;

use super::member::{MEMBERS, home_member, other};

/// A command to the pair.
#[derive(Debug)]
pub struct PairCommand {
    /// What its end is told with.
    pub id: u64,
    /// What it is to do.
    pub kind: CommandKind,
    /// Which copies it is about.
    pub options: PairOptions,
}

/// What the host knows of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairHealth {
    /// Which members have everything; at least one.
    pub in_sync: [bool; MEMBERS],
    /// The labels say so durably. While they do not, nothing that is written is acknowledged.
    pub is_recorded: bool,
    /// They could not be made to: nothing is acknowledged any more.
    pub is_lost: bool,
    /// This member does not have everything, and is being resilvered: it gets whatever is written, and is dropped when it fails.
    pub resilvering: Option<usize>,
}

impl PairHealth {
    /// Whether anything is sent to this member.
    pub fn uses(&self, member: usize) -> bool {
        self.in_sync[member] || self.resilvering == Some(member)
    }
}

/// Which copies a read or write of blocks is about.
#[derive(Clone, Debug, Default)]
pub struct PairOptions {
    /// What a read is to find: block and checksum of each of its buffers. None: whatever can be read is right.
    pub checks: SmallVec<[(BlockNo, u32); 1]>,
    /// Of a read: every member is read, not only the first whose bytes are right.
    pub every_copy: bool,
    /// Only the block's home has it ([`home_member`](super::home_member)): a write goes there alone, and a read looks nowhere else as
    /// long as that member has everything. With a member that is dropped goes what it alone had.
    pub one_copy: bool,
}

/// A command to a member.
#[derive(Debug)]
pub struct Leg {
    /// What its end is told with.
    pub token: u64,
    /// Which member.
    pub member: usize,
    /// What it is to do, at the member's own offsets.
    pub kind: CommandKind,
}

/// The end of a command to the pair.
#[derive(Debug)]
pub struct PairEnd {
    /// The command's id.
    pub id: u64,
    /// How it ended.
    pub result: Result<(), MediaError>,
    /// The buffers of a read, in which for each block are bytes that are right, if a member has them.
    pub bufs: Bufs,
    /// It was no read.
    pub is_write: bool,
}

#[derive(Clone, Copy, Debug)]
struct LegUnderWay {
    command: u64,
    member: usize,
    since_tick: u64,
}

/// A command to the pair that is under way.
#[derive(Debug)]
struct Joint {
    id: u64,
    legs_left: usize,
    /// Which members were asked to take it, and which did.
    asked: [bool; MEMBERS],
    took: [bool; MEMBERS],
    error: Option<MediaError>,
    read: Option<ReadUnderWay>,
    /// A write for which one member is enough, for the other one, should the first one not take it, or go.
    one_copy: Option<CommandKind>,
}

#[derive(Debug)]
struct ReadUnderWay {
    offset_bytes: u64,
    lens: SmallVec<[usize; 1]>,
    want: PairOptions,
    /// Which members were asked, and what they gave.
    asked: [bool; MEMBERS],
    found: [Option<Bufs>; MEMBERS],
    /// What is given, while members are written again.
    best: Option<Bufs>,
}

/// An end that may have to wait until the labels say who has everything.
#[derive(Debug)]
struct Ended {
    end: PairEnd,
    /// This member lacks it.
    lacks: Option<usize>,
    /// Only this member has it, which is enough; for the other one, should that go.
    only: Option<(usize, CommandKind)>,
}

/// The commands of one volume to its pair. See the module's documentation.
#[derive(Debug)]
pub struct Fanout {
    tag: VolumeTag,
    commands: HashMap<u64, Joint>,
    under_way: HashMap<u64, LegUnderWay>,
    /// How many of them are of each member.
    outstanding: [u32; MEMBERS],
    next_command: u64,
    next_token: u64,
    tick: u64,
    /// A member that does not answer for more ticks is given up.
    most_ticks: u64,
    legs: VecDeque<Leg>,
    ended: VecDeque<Ended>,
    /// Blocks that were written again on a member on which they could not be read, or were damaged.
    healed: u64,
}

impl Fanout {
    /// Ticks after which a member that does not answer is usually given up.
    pub const USUAL_TICKS: u64 = 10;

    /// Of the volume whose blocks' checksums this tag is in. A member may take `most_ticks` for a command.
    pub fn new(tag: VolumeTag, most_ticks: u64) -> Fanout {
        Fanout {
            tag,
            commands: HashMap::new(),
            under_way: HashMap::new(),
            outstanding: [0; MEMBERS],
            next_command: 0,
            next_token: 0,
            tick: 0,
            most_ticks,
            legs: VecDeque::new(),
            ended: VecDeque::new(),
            healed: 0,
        }
    }

    /// Takes a command to the pair. What members are to do for it is taken from [`Fanout::next_leg`].
    pub fn begin(&mut self, PairCommand { id, kind, options }: PairCommand, health: &PairHealth) {
        let command = self.next_command;
        self.next_command += 1;
        let (asked, took) = ([false; MEMBERS], [false; MEMBERS]);
        let mut joint = Joint { id, legs_left: 0, asked, took, error: None, read: None, one_copy: None };
        match kind {
            CommandKind::Read { offset_bytes, bufs } => {
                let member = self.reads_from(home_member(offset_bytes), &options, health);
                let lens = bufs.iter().map(Buf::len).collect();
                let mut asked = [false; MEMBERS];
                asked[member] = true;
                let found = [None, None];
                joint.read =
                    Some(ReadUnderWay { offset_bytes, lens, want: options, asked, found, best: None });
                joint.legs_left = 1;
                self.send(command, member, CommandKind::Read { offset_bytes, bufs });
            }
            CommandKind::Write { offset_bytes, .. }
                if options.one_copy && health.in_sync == [true; MEMBERS] =>
            {
                let member = home_member(offset_bytes);
                joint.one_copy = Some(copy_of(&kind));
                joint.legs_left = 1;
                joint.asked[member] = true;
                self.send(command, member, kind);
            }
            kind => {
                let resilvering = health.resilvering.filter(|_| !planted("writes-pass-the-resilver"));
                for member in members(health).chain(resilvering) {
                    joint.legs_left += 1;
                    joint.asked[member] = true;
                    self.send(command, member, copy_of(&kind));
                }
            }
        }
        self.commands.insert(command, joint);
    }

    /// Which member is read first of what this one is home to: of what both have the one that is asked for less, because it answers sooner
    /// where the other one is slow.
    fn reads_from(&self, home: usize, options: &PairOptions, health: &PairHealth) -> usize {
        let is_on_both = health.in_sync == [true; MEMBERS] && !options.one_copy;
        let is_busier = self.outstanding[home] > self.outstanding[other(home)];
        if !health.in_sync[home] || (is_on_both && is_busier) { other(home) } else { home }
    }

    fn send(&mut self, command: u64, member: usize, mut kind: CommandKind) {
        let (CommandKind::Read { offset_bytes, .. }
        | CommandKind::Write { offset_bytes, .. }
        | CommandKind::Trim { offset_bytes, .. }
        | CommandKind::WriteZeroes { offset_bytes, .. }) = &mut kind
        else {
            return self.send_as_it_is(command, member, kind);
        };
        *offset_bytes += PairLabel::DATA_START_BYTES;
        self.send_as_it_is(command, member, kind);
    }

    fn send_as_it_is(&mut self, command: u64, member: usize, kind: CommandKind) {
        let token = self.next_token;
        self.next_token += 1;
        self.under_way.insert(token, LegUnderWay { command, member, since_tick: self.tick });
        self.outstanding[member] += 1;
        self.legs.push_back(Leg { token, member, kind });
    }

    /// The next command to a member, of those that were not given up meanwhile.
    pub fn next_leg(&mut self) -> Option<Leg> {
        loop {
            let leg = self.legs.pop_front()?;
            if self.under_way.contains_key(&leg.token) {
                return Some(leg);
            }
        }
    }

    /// The end of a command to a member. Gives a member that has failed, if there is another one that has not, or may not have: it is to be
    /// dropped, and said to be, before [`Fanout::next_end`] is asked with what is known then.
    #[must_use]
    pub fn leg_ended(
        &mut self,
        token: u64,
        result: Result<(), MediaError>,
        bufs: Bufs,
        health: &PairHealth,
    ) -> Option<usize> {
        // Of one that was given up nobody waits for the end.
        let LegUnderWay { command, member, .. } = self.under_way.remove(&token)?;
        self.outstanding[member].count_down();
        let joint = self.commands.get_mut(&command)?;
        joint.legs_left.count_down();
        joint.error = joint.error.or(result.err());
        let is_first_read = joint.read.as_ref().is_some_and(|read| read.best.is_none());
        let mut failed = None;
        if is_first_read {
            let read = joint.read.as_mut().expect("it is a read");
            read.found[member] = result.is_ok().then_some(bufs);
            self.was_read(command, health);
        } else {
            joint.took[member] = result.is_ok();
            // What failed on all who have everything has failed, and nobody is to be dropped for it.
            let is_repair = joint.read.is_some();
            let left = joint.legs_left == 0;
            if left {
                failed = self.finish(command, health);
            }
            let goes = result.is_err_and(|error| is_repair || is_to_go_at_once(member, error, health));
            if goes && health.uses(member) && health.in_sync[other(member)] {
                failed = Some(member);
            }
        }
        failed
    }

    /// All of a command's legs are over, or given up.
    fn finish(&mut self, command: u64, health: &PairHealth) -> Option<usize> {
        if self.ask_other(command, health) {
            return None;
        }
        let joint = self.commands.remove(&command)?;
        let is_write = joint.read.is_none();
        if let Some(ReadUnderWay { best: Some(bufs), .. }) = joint.read {
            let end = PairEnd { id: joint.id, result: Ok(()), bufs, is_write };
            self.ended.push_back(Ended { end, lacks: None, only: None });
            return None;
        }
        // Who was not asked was resilvered since, with what was written before.
        let lacks_it = |member: &usize| joint.asked[*member] && !joint.took[*member];
        let lacks = members(health).find(lacks_it);
        let is_taken = members(health).any(|member| joint.took[member]);
        let result = if is_taken { Ok(()) } else { Err(joint.error.unwrap_or(MediaError::Gone)) };
        // One that is resilvered may be the last that has everything when this is told.
        let lacks = lacks.filter(|_| is_taken).or(health.resilvering.filter(lacks_it));
        let end = PairEnd { id: joint.id, result, bufs: Bufs::new(), is_write };
        let taker = (0..MEMBERS).find(|&member| joint.took[member]);
        self.ended.push_back(Ended { end, lacks, only: taker.zip(joint.one_copy) });
        lacks
    }

    /// A write for which one member is enough goes to the other one, where the first one did not take it. Whether it does.
    fn ask_other(&mut self, command: u64, health: &PairHealth) -> bool {
        let Some(joint) = self.commands.get_mut(&command) else { return false };
        let other = members(health).find(|&member| !joint.asked[member]);
        let (false, Some(member), Some(kind)) = (joint.took.contains(&true), other, &joint.one_copy) else {
            return false;
        };
        let kind = copy_of(kind);
        joint.asked[member] = true;
        (joint.legs_left, joint.error) = (1, None);
        self.send(command, member, kind);
        true
    }

    /// What only this member took goes to the other one, if nobody was told of it yet.
    fn write_elsewhere(&mut self, member: usize) {
        let ended = std::mem::take(&mut self.ended);
        for ended in ended {
            match ended.only {
                Some((only, kind)) if only == member => {
                    let command = self.next_command;
                    self.next_command += 1;
                    let mut asked = [false; MEMBERS];
                    asked[other(member)] = true;
                    let (id, took) = (ended.end.id, [false; MEMBERS]);
                    let joint =
                        Joint { id, legs_left: 1, asked, took, error: None, read: None, one_copy: None };
                    self.commands.insert(command, joint);
                    self.send(command, other(member), kind);
                }
                _ => self.ended.push_back(ended),
            }
        }
    }

    /// A member was read for this command, or could not be.
    fn was_read(&mut self, command: u64, health: &PairHealth) {
        let joint = self.commands.get_mut(&command).expect("it is under way");
        let read = joint.read.as_mut().expect("it is a read");
        let is_right = |member: usize| {
            let found = read.found[member].as_ref();
            found.is_some_and(|bufs| (0..bufs.len()).all(|at| is_right(self.tag, &read.want, at, &bufs[at])))
        };
        // In the place of a block that only its home has, the other one has something else.
        let is_home_read = (0..MEMBERS).any(|member| read.asked[member] && health.in_sync[member]);
        let may_be_elsewhere = !(read.want.one_copy && is_home_read);
        let needs_more = may_be_elsewhere && (read.want.every_copy || !(0..MEMBERS).any(is_right));
        let unasked = members(health).find(|&member| !read.asked[member]);
        if let Some(member) = unasked.filter(|_| needs_more) {
            read.asked[member] = true;
            joint.legs_left += 1;
            let bufs = read.lens.iter().map(|&len| Buf::for_overwrite(len)).collect();
            let kind = CommandKind::Read { offset_bytes: read.offset_bytes, bufs };
            return self.send(command, member, kind);
        }
        self.choose(command, health);
    }

    /// Takes of each block the bytes that are right, and has members on which they are not written again.
    fn choose(&mut self, command: u64, health: &PairHealth) {
        let joint = self.commands.get_mut(&command).expect("it is under way");
        let read = joint.read.as_mut().expect("it is a read");
        let tag = self.tag;
        let right = |read: &ReadUnderWay, member: usize, at: usize| {
            read.found[member].as_ref().is_some_and(|bufs| is_right(tag, &read.want, at, &bufs[at]))
        };
        let rights: Vec<[bool; MEMBERS]> =
            (0..read.lens.len()).map(|at| [0, 1].map(|member| right(read, member, at))).collect();
        let Some(first) = (0..MEMBERS).find(|&member| read.found[member].is_some()) else {
            let joint = self.commands.remove(&command).expect("it is under way");
            let result = Err(joint.error.unwrap_or(MediaError::Io));
            // Buffers of the length that was asked for go back with an error, too.
            let lens = joint.read.expect("it is a read").lens;
            let bufs = lens.iter().map(|&len| Buf::for_overwrite(len)).collect();
            let end = PairEnd { id: joint.id, result, bufs, is_write: false };
            return self.ended.push_back(Ended { end, lacks: None, only: None });
        };
        let mut best = read.found[first].take().expect("it was found");
        let mut second = read.found[other(first)].take();
        let mut repairs: Vec<(usize, u64, usize)> = Vec::new();
        let mut offset_bytes = read.offset_bytes;
        for (at, right) in rights.iter().enumerate() {
            if !right[first] && right[other(first)] {
                std::mem::swap(&mut best[at], &mut second.as_mut().expect("it was found")[at]);
            }
            let bad = |member: &usize| read.asked[*member] && health.in_sync[*member] && !right[*member];
            if right.contains(&true) {
                repairs.extend((0..MEMBERS).filter(bad).map(|member| (member, offset_bytes, at)));
            }
            offset_bytes += read.lens[at] as u64;
        }
        joint.legs_left = repairs.len();
        let writes: Vec<(usize, CommandKind)> = repairs
            .iter()
            .map(|&(member, offset, at)| {
                (member, CommandKind::write(offset, Buf::copy_of(best[at].as_slice())))
            })
            .collect();
        read.best = Some(best);
        self.healed += writes.len() as u64;
        if writes.is_empty() {
            self.finish(command, health);
        }
        for (member, kind) in writes {
            self.send(command, member, kind);
        }
    }

    /// The end of a command to the pair, as far as it may be told.
    pub fn next_end(&mut self, health: &PairHealth) -> Option<PairEnd> {
        // Another volume may have found meanwhile that the member which took it fails, and the one that lacks it is the last.
        let is_nowhere = |ended: &Ended| {
            ended.lacks.is_some_and(|member| health.in_sync[member] && !health.in_sync[other(member)])
        };
        let may_be_told = |ended: &Ended| {
            let is_known = ended.lacks.is_none_or(|member| !health.in_sync[member]);
            let is_over = ended.end.result.is_err() || health.is_lost || is_nowhere(ended);
            let is_recorded = health.is_recorded || planted("acknowledged-before-the-label");
            !ended.end.is_write || is_over || (is_recorded && is_known)
        };
        let at = self.ended.iter().position(may_be_told)?;
        let mut ended = self.ended.remove(at)?;
        if ended.end.is_write && (health.is_lost || is_nowhere(&ended)) {
            ended.end.result = Err(MediaError::Gone);
        }
        Some(ended.end)
    }

    /// About a second has gone by. Gives a member that has not answered for too long while there is another one, and which is to be
    /// dropped as if it had failed. Where neither has answered it is not a member that hangs, but what they share: dropping one would
    /// help nobody, and both have as long again.
    #[must_use]
    pub fn tick(&mut self, health: &PairHealth) -> Option<usize> {
        self.tick += 1;
        let (tick, most_ticks) = (self.tick, self.most_ticks);
        let is_late = |leg: &LegUnderWay| leg.since_tick + most_ticks < tick;
        let late =
            [0, 1].map(|member| self.under_way.values().any(|leg| leg.member == member && is_late(leg)));
        if late == [true; MEMBERS] {
            self.under_way.values_mut().filter(|leg| is_late(leg)).for_each(|leg| leg.since_tick = tick);
            return None;
        }
        let member = (0..MEMBERS).find(|&member| late[member] && health.in_sync[other(member)])?;
        self.give_up(member, health);
        health.uses(member).then_some(member)
    }

    /// A member is not waited for any more: it was dropped, or is about to be. What it was asked for has failed there.
    pub fn give_up(&mut self, member: usize, health: &PairHealth) {
        let mut tokens: Vec<u64> =
            self.under_way.iter().filter(|(_, leg)| leg.member == member).map(|(&token, _)| token).collect();
        tokens.sort_unstable();
        for token in tokens {
            _ = self.leg_ended(token, Err(MediaError::Gone), Bufs::new(), health);
        }
        if !health.uses(member) {
            // Another device that comes in its place is not to blame for what this one lacks.
            self.commands.values_mut().for_each(|joint| joint.asked[member] = false);
        }
        self.write_elsewhere(member);
    }

    /// Whether any command is under way, or its end not told.
    pub fn is_idle(&self) -> bool {
        self.commands.is_empty() && self.ended.is_empty()
    }

    /// Blocks that were written again on a member on which they were damaged or could not be read.
    pub fn healed(&self) -> u64 {
        self.healed
    }
}

fn members(health: &PairHealth) -> impl Iterator<Item = usize> + use<> {
    let in_sync = health.in_sync;
    (0..MEMBERS).filter(move |&member| in_sync[member])
}

/// Whether a member that has failed a write or flush is dropped for it whatever the other one makes of that: one that is gone takes nothing
/// else either, and one that is resilvered lacks something from now on. Were it to stay until the other one has answered, it might
/// come to count, and the other one might be given up, which is late where this one is not.
fn is_to_go_at_once(member: usize, error: MediaError, health: &PairHealth) -> bool {
    let is_no_use = error == MediaError::Gone || health.resilvering == Some(member);
    is_no_use && !planted("failed-member-stays-until-all-answered")
}

fn is_right(tag: VolumeTag, want: &PairOptions, at: usize, buf: &Buf) -> bool {
    want.checks.get(at).is_none_or(|&(block, crc)| data_checksum(tag, block, buf.as_slice()) == crc)
}

/// A command that is no read, once more. Its bytes are shared.
fn copy_of(kind: &CommandKind) -> CommandKind {
    match kind {
        CommandKind::Read { .. } => unreachable!("a read has one buffer for each member that is asked"),
        CommandKind::Write { offset_bytes, data } => {
            CommandKind::Write { offset_bytes: *offset_bytes, data: data.clone() }
        }
        CommandKind::Flush => CommandKind::Flush,
        &CommandKind::Trim { offset_bytes, length_bytes } => CommandKind::Trim { offset_bytes, length_bytes },
        &CommandKind::WriteZeroes { offset_bytes, length_bytes, unmap } => {
            CommandKind::WriteZeroes { offset_bytes, length_bytes, unmap }
        }
    }
}

#[cfg(test)]
mod tests;
