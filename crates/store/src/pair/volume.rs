//! One volume's commands to its pair: which members they go to, what has to wait for what a resilver copies, and how the volume
//! follows the changes of the pair. It must not know devices, threads, or what else uses the pair.

use std::collections::VecDeque;
use std::ops::Range;

use hashbrown::HashMap;
use lode_format::VolumeTag;
use lode_types::{Bufs, CommandKind, Counter, MediaError, planted};

use super::fanout::{Fanout, Leg, PairCommand, PairEnd, PairHealth};
use super::followers::Followed;
use super::member::MEMBERS;
use super::resilver::Resilver;

/// What is to be done with a volume's way to a member's device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChange {
    /// Nothing more goes to the device that is open.
    Close(usize),
    /// Commands are about to go to the device that is this member now: [`PairVolume::opened`] is told when they can.
    Open(usize),
}

/// What a volume is to be told.
#[derive(Debug)]
pub enum PairNews {
    /// A member was dropped, and with it went what it alone had: whatever was written before with
    /// [`one_copy`](super::PairOptions::one_copy), where that member is [home](super::home_member). What is read of it from now on, from the
    /// other one or from whoever is resilvered, was never written there.
    Dropped(usize),
    /// A command to the pair has ended.
    End(PairEnd),
}

/// See the module's documentation.
#[derive(Debug)]
pub struct PairVolume {
    fanout: Fanout,
    /// What its commands go by, and which version of it.
    health: PairHealth,
    version: u64,
    /// Members to whose devices commands can be sent.
    open: [bool; MEMBERS],
    /// This member's device was asked to be opened.
    opening: Option<usize>,
    changes: VecDeque<DeviceChange>,
    /// Members that were dropped, which the volume was not told yet.
    dropped: [bool; MEMBERS],
    /// Writes and flushes under way that no [`Resilver`] knows.
    plain: usize,
    /// Those that one knows, with their numbers there; flushes have none.
    known: HashMap<u64, Option<u64>>,
    parked: VecDeque<PairCommand>,
    drained: u64,
}

impl PairVolume {
    /// Of the volume with this tag, which goes by this version of the health from the beginning, and whose way is open to the devices
    /// of members in use. Those in `dropped` were dropped since the volume was recovered. See [`Fanout::new`] for `most_ticks`.
    pub fn new(
        tag: VolumeTag,
        most_ticks: u64,
        (health, version): (PairHealth, u64),
        dropped: [bool; MEMBERS],
    ) -> PairVolume {
        PairVolume {
            fanout: Fanout::new(tag, most_ticks),
            health,
            version,
            open: [0, 1].map(|member| health.uses(member)),
            opening: None,
            changes: VecDeque::new(),
            dropped,
            plain: 0,
            known: HashMap::new(),
            parked: VecDeque::new(),
            drained: version,
        }
    }

    /// What its commands go by.
    pub fn health(&self) -> &PairHealth {
        &self.health
    }

    /// How far it has followed.
    pub fn followed(&self) -> Followed {
        Followed { adopted: self.version, drained: self.drained }
    }

    /// Whether [`PairVolume::begin`] has to be given the pair's resilver with this command.
    pub fn needs_resilver(&self, kind: &CommandKind) -> bool {
        self.health.resilvering.is_some() && bytes_of(kind).is_some()
    }

    /// Takes a command. False: it waits for what is copied where it writes, until [`PairVolume::take_parked`].
    ///
    /// # Panics
    /// When the resilver is needed and not given.
    pub fn begin(&mut self, command: PairCommand, resilver: Option<&mut Resilver>) -> bool {
        match bytes_of(&command.kind) {
            _ if matches!(command.kind, CommandKind::Read { .. }) => {}
            _ if self.health.resilvering.is_none() => self.plain += 1,
            None => _ = self.known.insert(command.id, None),
            Some(bytes) => {
                let Some(number) = resilver.expect("a write beside a resilver").begin_write(bytes) else {
                    self.parked.push_back(command);
                    return false;
                };
                self.known.insert(command.id, Some(number));
            }
        }
        self.fanout.begin(command, &self.health);
        true
    }

    /// Commands that waited, which are to be begun once more.
    pub fn take_parked(&mut self) -> VecDeque<PairCommand> {
        std::mem::take(&mut self.parked)
    }

    /// Whether commands wait for what is copied.
    pub fn has_parked(&self) -> bool {
        !self.parked.is_empty()
    }

    /// The next command to a member.
    pub fn next_leg(&mut self) -> Option<Leg> {
        self.fanout.next_leg()
    }

    /// The end of a command to a member. Gives one that has failed and is to be dropped, see [`Fanout::leg_ended`].
    #[must_use]
    pub fn leg_ended(&mut self, token: u64, result: Result<(), MediaError>, bufs: Bufs) -> Option<usize> {
        self.fanout.leg_ended(token, result, bufs, &self.health)
    }

    /// About a second has gone by. Gives a member that is to be dropped, see [`Fanout::tick`].
    #[must_use]
    pub fn tick(&mut self) -> Option<usize> {
        self.fanout.tick(&self.health)
    }

    /// What the volume is to be told next. `end_write` is told the number of a write that the resilver knows.
    pub fn next_news(&mut self, end_write: impl FnMut(u64)) -> Option<PairNews> {
        if let Some(member) = self.dropped.iter().position(|&dropped| dropped) {
            self.dropped[member] = false;
            if !planted("copies-of-a-dropped-member-believed") {
                return Some(PairNews::Dropped(member));
            }
        }
        let end = self.fanout.next_end(&self.health)?;
        if end.is_write {
            match self.known.remove(&end.id) {
                Some(number) => number.into_iter().for_each(end_write),
                None => {
                    self.plain.count_down();
                    self.note_drained();
                }
            }
        }
        Some(PairNews::End(end))
    }

    /// Goes by what is known of the pair now, as far as it can: to a new member not before commands can go there. Afterwards
    /// [`PairVolume::followed`] says how far that is, and [`PairVolume::next_change`] what is to be opened and closed.
    pub fn follow(&mut self, health: PairHealth, version: u64) {
        if version == self.version {
            return;
        }
        if let Some(member) = health.resilvering.filter(|&member| !self.open[member]) {
            if self.opening != Some(member) {
                self.opening = Some(member);
                self.changes.push_back(DeviceChange::Open(member));
            }
            return;
        }
        for (member, dropped) in self.dropped.iter_mut().enumerate() {
            *dropped |= self.health.in_sync[member] && !health.in_sync[member];
        }
        (self.health, self.version) = (health, version);
        for member in (0..MEMBERS).filter(|&member| !health.uses(member)) {
            self.fanout.give_up(member, &health);
            // Another device may come in its place.
            self.changes.retain(|change| *change != DeviceChange::Open(member));
            self.opening = self.opening.filter(|&opening| opening != member);
            if std::mem::take(&mut self.open[member]) {
                self.changes.push_back(DeviceChange::Close(member));
            }
        }
        self.note_drained();
    }

    fn note_drained(&mut self) {
        if self.plain == 0 {
            self.drained = self.version;
        }
    }

    /// What is to be done with a member's device next.
    pub fn next_change(&mut self) -> Option<DeviceChange> {
        self.changes.pop_front()
    }

    /// The device that was to be opened cannot be any more.
    pub fn not_opened(&mut self) {
        self.opening = None;
    }

    /// Commands can be sent to the device of this member.
    pub fn opened(&mut self, member: usize) {
        self.opening = None;
        self.open[member] = true;
    }

    /// Nothing is acknowledged here any more. `end_write` is told the numbers of writes that the resilver knows.
    pub fn retire(&mut self, end_write: impl FnMut(u64)) {
        self.known.drain().filter_map(|(_, number)| number).for_each(end_write);
    }

    /// Blocks that were written again on a member on which they were damaged or could not be read.
    pub fn healed(&self) -> u64 {
        self.fanout.healed()
    }
}

/// The bytes of the pair that a command writes, if it does.
pub fn bytes_of(kind: &CommandKind) -> Option<Range<u64>> {
    match kind {
        CommandKind::Read { .. } | CommandKind::Flush => None,
        kind => {
            let (offset_bytes, length_bytes) = kind.range();
            Some(offset_bytes..offset_bytes + length_bytes)
        }
    }
}

#[cfg(test)]
mod tests;
