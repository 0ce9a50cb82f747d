//! Who of the volumes of a host gets frames and extents that are nobody's. First come, first served: how much each is to have is
//! decided elsewhere, and is asked for by its engine ([`crate::SpaceRequest`]).
//!
//! Frames are given out as they come back. Extents are lent, and are a volume's when the directory says so; one volume at a
//! time changes its own, because while it does it makes nothing durable. It must not know threads: drivers of several threads
//! put a lock around it.

use std::collections::VecDeque;

use lode_format::VolumeTag;
use lode_store::{Attached, DirectoryOutput, MembershipChange, SpaceDirectory, StoreError};

use crate::space::{SpaceAnswer, SpaceRequest};

/// One of the volumes.
#[derive(Debug)]
struct Member {
    id: usize,
    /// `None`: it is on no SSD.
    volume: Option<VolumeTag>,
    frames: u32,
}

/// Whose turn it is to change the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// A volume's, which changes its extents.
    Member(usize),
    /// The host's, whose volumes change.
    Host,
}

/// Frames and extents of a host, and who waits for them.
#[derive(Debug)]
pub struct SpaceBroker {
    free_frames: u32,
    directory: Option<SpaceDirectory>,
    members: Vec<Member>,
    /// Who waits, and for how much, in order.
    want_frames: VecDeque<(usize, u32)>,
    want_extents: VecDeque<(usize, u32)>,
    want_turn: VecDeque<usize>,
    turn: Option<Turn>,
    answers: VecDeque<(usize, SpaceAnswer)>,
    /// What is to become of a volume, before its turn, and how it ended.
    membership: Option<MembershipChange>,
    membership_ended: Option<Result<VolumeTag, StoreError>>,
    failed: bool,
}

impl SpaceBroker {
    /// Of a host with so many frames that are no volume's, and the directory of its SSD.
    pub fn new(free_frames: u32, directory: Option<SpaceDirectory>) -> SpaceBroker {
        SpaceBroker {
            free_frames,
            directory,
            members: Vec::new(),
            want_frames: VecDeque::new(),
            want_extents: VecDeque::new(),
            want_turn: VecDeque::new(),
            turn: None,
            answers: VecDeque::new(),
            membership: None,
            membership_ended: None,
            failed: false,
        }
    }

    /// Takes up to so many free frames, for a volume that is to join with them.
    pub fn take_frames(&mut self, frames: u32) -> u32 {
        let taken = frames.min(self.free_frames);
        self.free_frames -= taken;
        taken
    }

    /// Whether a write or a flush of the directory failed: nothing of the SSD changes hands any more.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// A volume joins that has so many frames, which are not among the free ones. Its `id` is no other member's.
    pub fn join(&mut self, id: usize, volume: Option<VolumeTag>, frames: u32) {
        self.members.push(Member { id, volume, frames });
    }

    /// A volume is served no more, and nothing of it is under way on any device, nor a change of its extents
    /// ([`SpaceBroker::is_changing`]). Its extents stay its own; its frames are free, and so is what was lent to it.
    pub fn leave(&mut self, id: usize) {
        let Some(at) = self.members.iter().position(|member| member.id == id) else { return };
        let member = self.members.swap_remove(at);
        self.free_frames += member.frames;
        self.want_frames.retain(|&(one, _)| one != id);
        self.want_extents.retain(|&(one, _)| one != id);
        self.want_turn.retain(|&one| one != id);
        self.answers.retain(|&(one, _)| one != id);
        if let (Some(directory), Some(volume)) = (&mut self.directory, member.volume) {
            let lent = directory.lent_to(volume);
            directory.take_back(volume, &lent);
        }
        if self.turn == Some(Turn::Member(id)) {
            self.turn = None;
        }
        self.deal();
    }

    /// The host has so many frames more, which are nobody's.
    pub fn add_frames(&mut self, frames: u32) {
        self.free_frames += frames;
        self.deal();
    }

    /// The host has up to so many frames less, as far as they are nobody's.
    pub fn remove_frames(&mut self, frames: u32) {
        self.free_frames = self.free_frames.saturating_sub(frames);
    }

    /// A volume is to come, to go or to get another name. One that goes has left ([`SpaceBroker::leave`]). It has its turn as
    /// a volume has that changes its extents; how it ended says [`SpaceBroker::membership_ended`]. One at a time.
    ///
    /// # Panics
    /// On a host without an SSD.
    pub fn change_membership(&mut self, change: MembershipChange) {
        assert!(self.directory.is_some() && self.membership.is_none(), "one at a time, and on an SSD");
        self.membership = Some(change);
        self.deal();
    }

    /// What became of [`SpaceBroker::change_membership`]: the volume that it was about, or why nothing was changed. After a
    /// failure of the SSD nobody knows whether it was.
    pub fn membership_ended(&mut self) -> Option<Result<VolumeTag, StoreError>> {
        self.membership_ended.take()
    }

    /// Gives up a change that has not begun. False: it has, and comes to its end, or has ended.
    pub fn cancel_membership(&mut self) -> bool {
        self.membership.take().is_some()
    }

    /// What a volume has on the SSD that has come, and was not attached before. Of its places no more are used than `places`.
    ///
    /// # Errors
    /// When there is no such volume.
    ///
    /// # Panics
    /// On a host without an SSD.
    pub fn attach_new(&self, volume: VolumeTag, places: u64) -> Result<Attached, StoreError> {
        self.directory.as_ref().expect("a volume is on an SSD").attach_new(volume, places)
    }

    /// What the SSD's directory says, if there is one.
    pub fn directory(&self) -> Option<&SpaceDirectory> {
        self.directory.as_ref()
    }

    /// Whether the directory is being replaced for this volume.
    pub fn is_changing(&self, id: usize) -> bool {
        self.turn == Some(Turn::Member(id))
            && self.directory.as_ref().is_some_and(SpaceDirectory::is_changing)
    }

    /// Frames and extents that are nobody's.
    pub fn free(&self) -> (u32, u32) {
        (self.free_frames, self.directory.as_ref().map_or(0, SpaceDirectory::free_extents))
    }

    /// Whether a volume may write to the extent that this byte of the SSD is in: it is its own, or lent to it.
    pub fn may_write(&self, id: usize, offset_bytes: u64) -> bool {
        let volume = self.members.iter().find(|member| member.id == id).and_then(|member| member.volume);
        let directory = self.directory.as_ref();
        directory.zip(volume).is_some_and(|(directory, volume)| directory.may_write(volume, offset_bytes))
    }

    /// Takes what a volume asks for or gives back.
    pub fn ask(&mut self, id: usize, request: SpaceRequest) {
        let Some(member) = self.members.iter_mut().find(|member| member.id == id) else { return };
        match request {
            SpaceRequest::WantFrames(frames) => replace(&mut self.want_frames, id, frames),
            SpaceRequest::WantExtents(extents) => {
                replace(&mut self.want_extents, id, extents);
                if extents > 0 {
                    self.ask_for_spares(id);
                }
            }
            SpaceRequest::ReturnFrames(frames) => {
                member.frames -= frames;
                self.free_frames += frames;
            }
            SpaceRequest::ReturnExtents(extents) => {
                if let (Some(directory), Some(volume)) = (&mut self.directory, member.volume) {
                    directory.take_back(volume, &extents);
                }
            }
            SpaceRequest::WantTurn => self.want_turn.push_back(id),
            SpaceRequest::ReturnTurn => self.turn = self.turn.filter(|&turn| turn != Turn::Member(id)),
            SpaceRequest::Change(change) => {
                assert!(self.turn == Some(Turn::Member(id)), "a volume changes its extents in its turn");
                if let Some(directory) = self.directory.as_mut().filter(|_| !self.failed) {
                    directory.begin(&change);
                }
            }
        }
        self.deal();
    }

    /// Others may have more extents than they need. What one wants and there is need not be asked of them.
    fn ask_for_spares(&mut self, id: usize) {
        let wanted: u32 = self.want_extents.iter().map(|&(_, extents)| extents).sum();
        if wanted > self.free().1 {
            let others = self.members.iter().filter(|member| member.id != id);
            self.answers.extend(others.map(|member| (member.id, SpaceAnswer::GiveUpSpares)));
        }
    }

    /// Gives what is free to those who wait.
    fn deal(&mut self) {
        while let Some((id, wanted)) = self.want_frames.front_mut().filter(|_| self.free_frames > 0) {
            let (id, given) = (*id, self.free_frames.min(*wanted));
            self.free_frames -= given;
            *wanted -= given;
            self.want_frames.retain(|&(_, left)| left > 0);
            if let Some(member) = self.members.iter_mut().find(|member| member.id == id) {
                member.frames += given;
            }
            self.answers.push_back((id, SpaceAnswer::Frames(given)));
        }
        let Some(directory) = self.directory.as_mut().filter(|_| !self.failed) else { return };
        while let Some((id, wanted)) = self.want_extents.front_mut().filter(|_| directory.free_extents() > 0)
        {
            let volume = self.members.iter().find(|member| member.id == *id).and_then(|member| member.volume);
            let Some(volume) = volume else {
                self.want_extents.pop_front();
                continue;
            };
            let extents = directory.lend(volume, *wanted);
            *wanted -= extents.len() as u32;
            self.answers.push_back((*id, SpaceAnswer::Extents(extents)));
            self.want_extents.retain(|&(_, left)| left > 0);
        }
        if self.turn.is_some() || directory.is_changing() {
            return;
        }
        if let Some(change) = self.membership.take() {
            match directory.begin_membership(&change) {
                Ok(_) => return self.turn = Some(Turn::Host),
                Err(error) => self.membership_ended = Some(Err(error)),
            }
        }
        if let Some(id) = self.want_turn.pop_front() {
            self.turn = Some(Turn::Member(id));
            self.answers.push_back((id, SpaceAnswer::Turn));
        }
    }

    /// What is to be done next on the SSD. One at a time: [`SpaceBroker::done`] is told before the next.
    pub fn next_output(&mut self) -> Option<DirectoryOutput> {
        self.directory.as_mut().filter(|_| !self.failed)?.next_output()
    }

    /// It is done. A flush counts as done when [`crate::SharedDevice`] says what it was worth. After an error nothing of the
    /// SSD changes hands any more in this run, and the SSD has failed for all: [`crate::SharedDevice::fail`].
    pub fn done(&mut self, ok: bool) {
        self.failed |= !ok;
        let Some(directory) = self.directory.as_mut().filter(|_| !self.failed) else { return };
        if let Some(volume) = directory.done() {
            match self.turn.take() {
                Some(Turn::Member(id)) => self.answers.push_back((id, SpaceAnswer::Changed)),
                Some(Turn::Host) => self.membership_ended = Some(Ok(volume)),
                None => {}
            }
        }
        self.deal();
    }

    /// The next answer, and whose it is.
    pub fn next_answer(&mut self) -> Option<(usize, SpaceAnswer)> {
        self.answers.pop_front()
    }
}

/// Notes that one waits for so much, where it was in the order or at its end.
fn replace(wants: &mut VecDeque<(usize, u32)>, id: usize, amount: u32) {
    match wants.iter_mut().find(|(one, _)| *one == id) {
        Some(want) => want.1 = amount,
        None => wants.push_back((id, amount)),
    }
    wants.retain(|&(_, left)| left > 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(broker: &mut SpaceBroker) -> Vec<(usize, SpaceAnswer)> {
        std::iter::from_fn(|| broker.next_answer()).collect()
    }

    #[test]
    fn g4_frames_are_given_when_they_were_given_back() {
        let mut broker = SpaceBroker::new(10, None);
        (0..3).for_each(|id| broker.join(id, None, 100));
        broker.ask(1, SpaceRequest::WantFrames(30));
        broker.ask(2, SpaceRequest::WantFrames(5));
        assert_eq!(answers(&mut broker), [(1, SpaceAnswer::Frames(10))]);
        broker.ask(0, SpaceRequest::ReturnFrames(22));
        assert_eq!(answers(&mut broker), [(1, SpaceAnswer::Frames(20)), (2, SpaceAnswer::Frames(2))]);
        // What is wanted now takes the place of what was.
        broker.ask(2, SpaceRequest::WantFrames(0));
        broker.ask(0, SpaceRequest::ReturnFrames(1));
        assert_eq!((answers(&mut broker), broker.free()), (Vec::new(), (1, 0)));
        // Whoever leaves has 130 frames, and takes none along.
        broker.ask(2, SpaceRequest::WantFrames(200));
        assert_eq!(answers(&mut broker), [(2, SpaceAnswer::Frames(1))]);
        broker.leave(1);
        assert_eq!(answers(&mut broker), [(2, SpaceAnswer::Frames(130))]);
    }
}
