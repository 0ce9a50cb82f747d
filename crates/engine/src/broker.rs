//! Who of the volumes of a host gets frames and extents that are nobody's. First come, first served: how much each is to have is
//! decided elsewhere, and is asked for by its engine ([`crate::SpaceRequest`]).
//!
//! Frames are given out as they come back. Extents are lent, and are a volume's when the directory says so; one volume at a
//! time changes its own, because each change is another directory. It must not know threads: drivers of several threads
//! put a lock around it.

use std::collections::VecDeque;

use lode_format::VolumeTag;
use lode_store::{Attached, DirectoryOutput, MembershipChange, SpaceDirectory, StoreError};
use lode_types::Counter;

use crate::membership::{Membership, MembershipEnd, MembershipRefusal};
use crate::space::{SpaceAnswer, SpaceRequest};

/// One of the volumes.
#[derive(Debug)]
struct ServedVolume {
    id: usize,
    /// `None`: it is on no SSD.
    tag: Option<VolumeTag>,
    frames: u32,
}

/// Whose turn it is to change the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// A volume's, which changes its extents.
    Volume(usize),
    /// The host's, whose volumes change.
    Host,
}

/// Frames and extents of a host, and who waits for them.
#[derive(Debug)]
pub struct SpaceBroker {
    free_frames: u32,
    /// Frames that the host has no more, and that volumes still have.
    owed_frames: u32,
    directory: Option<SpaceDirectory>,
    volumes: Vec<ServedVolume>,
    /// Who waits, and for how much, in order.
    want_frames: VecDeque<(usize, u32)>,
    want_extents: VecDeque<(usize, u32)>,
    want_turn: VecDeque<usize>,
    turn: Option<Turn>,
    answers: VecDeque<(usize, SpaceAnswer)>,
    membership: Membership,
    failed: bool,
}

impl SpaceBroker {
    /// Of a host with so many frames that are no volume's, and the directory of its SSD.
    pub fn new(free_frames: u32, directory: Option<SpaceDirectory>) -> SpaceBroker {
        SpaceBroker {
            free_frames,
            owed_frames: 0,
            directory,
            volumes: Vec::new(),
            want_frames: VecDeque::new(),
            want_extents: VecDeque::new(),
            want_turn: VecDeque::new(),
            turn: None,
            answers: VecDeque::new(),
            membership: Membership::default(),
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

    /// A volume joins that has so many frames, which are not among the free ones. Its `id` is no other volume's.
    pub fn join(&mut self, id: usize, tag: Option<VolumeTag>, frames: u32) {
        self.volumes.push(ServedVolume { id, tag, frames });
    }

    /// A volume is served no more, and nothing of it is under way on any device, nor a change of its extents
    /// ([`SpaceBroker::is_changing`]). Its extents stay its own; its frames are free, and so is what was lent to it.
    pub fn leave(&mut self, id: usize) {
        let Some(at) = self.volumes.iter().position(|one| one.id == id) else { return };
        let served = self.volumes.swap_remove(at);
        self.free_up(served.frames);
        self.forget_wants(id);
        if let (Some(directory), Some(volume)) = (&mut self.directory, served.tag) {
            let lent = directory.lent_to(volume);
            directory.take_back(volume, &lent);
        }
        self.deal();
    }

    /// A volume that has not left does nothing any more, and answers nothing. What it has stays its own, and others need not wait for
    /// it. A change of the directory that it has begun goes on.
    pub fn stop(&mut self, id: usize) {
        self.forget_wants(id);
        self.deal();
    }

    /// What a volume waits for, and its turn, unless the directory is being replaced for it.
    fn forget_wants(&mut self, id: usize) {
        self.want_frames.retain(|&(one, _)| one != id);
        self.want_extents.retain(|&(one, _)| one != id);
        self.want_turn.retain(|&one| one != id);
        self.answers.retain(|&(one, _)| one != id);
        if self.turn == Some(Turn::Volume(id)) && !self.is_changing(id) {
            self.turn = None;
        }
    }

    /// The host has so many frames more, which are nobody's.
    pub fn add_frames(&mut self, frames: u32) {
        self.free_frames += frames;
        self.deal();
    }

    /// The host has so many frames less. Those that volumes have are taken as they give them back.
    pub fn remove_frames(&mut self, frames: u32) {
        self.owed_frames += frames;
        let free = std::mem::take(&mut self.free_frames);
        self.free_up(free);
    }

    /// So many frames are nobody's, or no more the host's.
    fn free_up(&mut self, frames: u32) {
        let owed = self.owed_frames.min(frames);
        self.owed_frames -= owed;
        self.free_frames += frames - owed;
    }

    /// A volume is to come, to go or to get another name. One that goes has left ([`SpaceBroker::leave`]). It has its turn as
    /// a volume has that changes its extents, and before others that wait; one that comes waits for extents that others have beyond
    /// their shares, and are asked to give up. Gives its number, by which [`SpaceBroker::membership_ended`] says how it ended.
    ///
    /// # Errors
    /// When it cannot be now. Nothing changes then.
    pub fn change_membership(&mut self, change: MembershipChange) -> Result<u64, MembershipRefusal> {
        let Some(directory) = &self.directory else { return Err(MembershipRefusal::NoSsd) };
        if self.failed {
            return Err(MembershipRefusal::Failed);
        }
        let missing = directory.missing_extents(&change);
        let number = self.membership.put(change)?;
        if missing > 0 {
            let volumes = self.volumes.iter();
            self.answers.extend(volumes.map(|one| (one.id, SpaceAnswer::GiveUpSpares)));
        }
        self.deal();
        Ok(number)
    }

    /// What became of the change of this number, once. After a failure of the SSD nobody knows whether it was made.
    pub fn membership_ended(&mut self, number: u64) -> Option<MembershipEnd> {
        self.membership.take_end(number)
    }

    /// What the change of this number waits for, if that is space.
    pub fn membership_waits_for(&self, number: u64) -> Option<StoreError> {
        let change = self.membership.waiting().filter(|_| self.membership.is_waiting(number));
        self.directory.as_ref()?.shortage(change?)
    }

    /// Gives up the change of this number, which has not begun. False: it has, and comes to its end, or has ended.
    pub fn cancel_membership(&mut self, number: u64) -> bool {
        let is_cancelled = self.membership.cancel(number);
        self.deal();
        is_cancelled
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
        self.turn == Some(Turn::Volume(id))
            && self.directory.as_ref().is_some_and(SpaceDirectory::is_changing)
    }

    /// Frames and extents that are nobody's.
    pub fn free(&self) -> (u32, u32) {
        (self.free_frames, self.directory.as_ref().map_or(0, SpaceDirectory::free_extents))
    }

    /// Whether a volume may write to the extent that this byte of the SSD is in: it is its own, or lent to it.
    pub fn may_write(&self, id: usize, offset_bytes: u64) -> bool {
        let volume = self.volumes.iter().find(|one| one.id == id).and_then(|one| one.tag);
        let directory = self.directory.as_ref();
        directory.zip(volume).is_some_and(|(directory, volume)| directory.may_write(volume, offset_bytes))
    }

    /// Takes what a volume asks for or gives back.
    pub fn ask(&mut self, id: usize, request: SpaceRequest) {
        let Some(served) = self.volumes.iter_mut().find(|one| one.id == id) else { return };
        match request {
            SpaceRequest::WantFrames(frames) => replace(&mut self.want_frames, id, frames),
            SpaceRequest::WantExtents(extents) => {
                replace(&mut self.want_extents, id, extents);
                if extents > 0 {
                    self.ask_for_spares(id);
                }
            }
            SpaceRequest::ReturnFrames(frames) => {
                served.frames.count_down_by(frames);
                self.free_up(frames);
            }
            SpaceRequest::ReturnExtents(extents) => {
                if let (Some(directory), Some(volume)) = (&mut self.directory, served.tag) {
                    directory.take_back(volume, &extents);
                }
            }
            SpaceRequest::WantTurn => self.want_turn.push_back(id),
            SpaceRequest::ReturnTurn => self.turn = self.turn.filter(|&turn| turn != Turn::Volume(id)),
            SpaceRequest::Change(change) => {
                assert!(self.turn == Some(Turn::Volume(id)), "a volume changes its extents in its turn");
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
        let of_one_to_come = self.membership.waiting().map_or(0, MembershipChange::extents);
        if wanted + of_one_to_come > self.free().1 {
            let others = self.volumes.iter().filter(|one| one.id != id);
            self.answers.extend(others.map(|one| (one.id, SpaceAnswer::GiveUpSpares)));
        }
    }

    /// Gives what is free to those who wait.
    fn deal(&mut self) {
        while let Some((id, wanted)) = self.want_frames.front_mut().filter(|_| self.free_frames > 0) {
            let (id, given) = (*id, self.free_frames.min(*wanted));
            self.free_frames -= given;
            *wanted -= given;
            self.want_frames.retain(|&(_, left)| left > 0);
            if let Some(served) = self.volumes.iter_mut().find(|one| one.id == id) {
                served.frames += given;
            }
            self.answers.push_back((id, SpaceAnswer::Frames(given)));
        }
        let Some(directory) = self.directory.as_mut().filter(|_| !self.failed) else { return };
        // What a volume that is to come waits for is nobody else's.
        let kept = self.membership.waiting().map_or(0, MembershipChange::extents);
        while let Some((id, wanted)) =
            self.want_extents.front_mut().filter(|_| directory.free_extents() > kept)
        {
            let volume = self.volumes.iter().find(|one| one.id == *id).and_then(|one| one.tag);
            let Some(volume) = volume else {
                self.want_extents.pop_front();
                continue;
            };
            let extents = directory.lend(volume, (*wanted).min(directory.free_extents() - kept));
            wanted.count_down_by(extents.len() as u32);
            self.answers.push_back((*id, SpaceAnswer::Extents(extents)));
            self.want_extents.retain(|&(_, left)| left > 0);
        }
        if self.turn.is_some() || directory.is_changing() {
            return;
        }
        if let Some(change) =
            self.membership.waiting().filter(|change| directory.missing_extents(change) == 0)
        {
            let outcome = directory.begin_membership(change);
            let has_begun = outcome.is_ok();
            self.membership.begun(outcome);
            if has_begun {
                self.turn = Some(Turn::Host);
                return;
            }
        }
        if let Some(id) = self.want_turn.pop_front() {
            self.turn = Some(Turn::Volume(id));
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
        if !ok {
            self.failed = true;
            self.membership.fail();
        }
        let Some(directory) = self.directory.as_mut().filter(|_| !self.failed) else { return };
        if let Some(volume) = directory.done() {
            match self.turn.take() {
                Some(Turn::Volume(id)) => self.answers.push_back((id, SpaceAnswer::Changed)),
                Some(Turn::Host) => self.membership.done(volume),
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

    #[test]
    fn frames_that_the_host_has_no_more_are_taken_when_they_come_back() {
        let mut broker = SpaceBroker::new(0, None);
        broker.join(0, None, 100);
        broker.add_frames(30);
        broker.ask(0, SpaceRequest::WantFrames(20));
        assert_eq!((answers(&mut broker), broker.free()), (vec![(0, SpaceAnswer::Frames(20))], (10, 0)));
        broker.remove_frames(30);
        assert_eq!(broker.free(), (0, 0));
        broker.ask(0, SpaceRequest::ReturnFrames(15));
        assert_eq!(broker.free(), (0, 0));
        broker.ask(0, SpaceRequest::ReturnFrames(15));
        assert_eq!(broker.free(), (10, 0), "as many as there were before, less what the volume has");
        broker.leave(0);
        assert_eq!(broker.free(), (100, 0));
    }
}
