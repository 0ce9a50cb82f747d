//! The host's part in shares that change: who gets frames and extents that are nobody's, and the directory's way to the SSD.
//! It belongs to all volumes, as the SSD does, and goes from one to the other with it.

use std::collections::VecDeque;
use std::ops::Range;

use lode_engine::{EndedFlush, FlushTicket, MembershipEnd, SpaceAnswer, SpaceBroker, SpaceRequest, Worth};
use lode_format::VolumeTag;
use lode_store::{Attached, DirectoryOutput, MembershipChange, SpaceDirectory};
use lode_types::Rng;

use crate::disk::{Access, SimDisk};
use crate::machine::Faults;
use crate::model::SECTOR;
use crate::pair_directory::{self, PairDirectory, Pairs};

/// A write or flush of the directory on its way.
#[derive(Debug)]
enum UnderWay {
    Write {
        offset_bytes: u64,
        bytes: Vec<u8>,
    },
    Flush {
        mark: u64,
        ticket: FlushTicket,
    },
    /// The flush ended well, and others decide what that is worth.
    Open(EndedFlush),
}

/// Where the directory is written.
#[derive(Debug)]
enum Way {
    OnSsd(Option<UnderWay>),
    OnPairs(Box<PairDirectory>),
}

/// Frames and extents of the host, and what is under way for them.
#[derive(Debug)]
pub(crate) struct HostSpace {
    broker: SpaceBroker,
    /// Frames of the host.
    frames: u32,
    way: Way,
    /// The number of the latest change of what volumes there are.
    membership: u64,
    /// Answers that have not arrived, by volume.
    answers: Vec<VecDeque<SpaceAnswer>>,
    /// Changes of the directory that came to their end.
    pub(crate) changes: u64,
}

impl HostSpace {
    /// With so many frames that are nobody's, and a directory that is on pairs of SSDs if that is how it is written.
    pub(crate) fn new(
        free_frames: u32,
        directory: SpaceDirectory,
        on_pairs: Option<PairDirectory>,
    ) -> HostSpace {
        let broker = SpaceBroker::new(free_frames, Some(directory));
        HostSpace {
            broker,
            frames: free_frames,
            way: on_pairs.map_or(Way::OnSsd(None), |directory| Way::OnPairs(Box::new(directory))),
            membership: 0,
            answers: Vec::new(),
            changes: 0,
        }
    }

    /// The next volume joins, which has so many frames.
    pub(crate) fn join(&mut self, volume: lode_format::VolumeTag, frames: u32) {
        self.frames += frames;
        self.broker.join(self.answers.len(), Some(volume), frames);
        self.answers.push(VecDeque::new());
    }

    /// A volume that is at rest is served no more. What was on its way to it is the host's again.
    pub(crate) fn leave(&mut self, volume: usize) {
        self.answers[volume].clear();
        self.broker.leave(volume);
        self.hand_out();
    }

    /// Whether the directory is being replaced for this volume.
    pub(crate) fn is_changing(&self, volume: usize) -> bool {
        self.broker.is_changing(volume)
    }

    /// Takes up to so many frames that are nobody's, for a volume that is to come.
    pub(crate) fn take_frames(&mut self, frames: u32) -> u32 {
        self.broker.take_frames(frames)
    }

    /// Frames that were taken for a volume which does not come.
    pub(crate) fn give_frames(&mut self, frames: u32) {
        self.broker.add_frames(frames);
        self.hand_out();
    }

    /// Whether what volumes there are can change in this run.
    pub(crate) fn has_failed(&self) -> bool {
        self.broker.has_failed()
    }

    /// What volumes there are is to change. Nothing else of the kind is under way, and the directory has not failed.
    pub(crate) fn change_membership(&mut self, change: MembershipChange) {
        self.membership = self.broker.change_membership(change).expect("one at a time, before a failure");
        self.hand_out();
    }

    /// How that ended.
    pub(crate) fn membership_ended(&mut self) -> Option<MembershipEnd> {
        self.broker.membership_ended(self.membership)
    }

    /// Whether it waits for space that others are to give up.
    pub(crate) fn membership_waits(&self) -> bool {
        self.broker.membership_waits_for(self.membership).is_some()
    }

    /// Gives it up, if it has not begun.
    pub(crate) fn cancel_membership(&mut self) -> bool {
        let is_cancelled = self.broker.cancel_membership(self.membership);
        self.hand_out();
        is_cancelled
    }

    /// A volume that has come, with frames that were taken for it.
    pub(crate) fn come(&mut self, volume: usize, tag: VolumeTag, frames: u32, places: u64) -> Attached {
        self.broker.join(volume, Some(tag), frames);
        self.broker.attach_new(tag, places).expect("it has come")
    }

    /// A volume asks for something.
    pub(crate) fn ask(&mut self, volume: usize, request: SpaceRequest) {
        self.broker.ask(volume, request);
        self.hand_out();
    }

    /// Guarantee 4, before reads show it: a volume writes to extents that are its own.
    pub(crate) fn assert_may_write(&self, volume: usize, offset_bytes: u64) {
        let is_its_own = self.broker.may_write(volume, offset_bytes);
        assert!(is_its_own, "volume {volume} writes at {offset_bytes}, which is not its own");
    }

    /// Which bytes of the cache mean anything now.
    pub(crate) fn used_bytes(&self) -> Vec<Range<u64>> {
        self.broker.directory().map_or_else(Vec::new, SpaceDirectory::used_bytes)
    }

    /// Frames and extents that no volume has or will be told of.
    pub(crate) fn free(&self) -> (u32, u32) {
        self.broker.free()
    }

    /// What is wrong with how many frames the volumes have; `None`: nothing.
    pub(crate) fn complaint_of_frames(&self, used: u32) -> Option<String> {
        let told = |answer: &SpaceAnswer| if let SpaceAnswer::Frames(frames) = answer { *frames } else { 0 };
        let on_their_way: u32 = self.answers.iter().flatten().map(told).sum();
        let (free, total) = (self.free().0, self.frames);
        (used + on_their_way + free != total).then(|| {
            format!("{used} frames are used, {on_their_way} on their way and {free} free, of {total}")
        })
    }

    fn hand_out(&mut self) {
        while let Some((volume, answer)) = self.broker.next_answer() {
            self.changes += u64::from(answer == SpaceAnswer::Changed);
            self.answers[volume].push_back(answer);
        }
    }

    /// The next answer to a volume.
    pub(crate) fn next_answer(&mut self, volume: usize) -> Option<SpaceAnswer> {
        self.answers[volume].pop_front()
    }

    /// Whether something can happen for this volume, or for all.
    pub(crate) fn has_something(&self, volume: usize, ssd: &SimDisk) -> bool {
        let is_over = |under_way: &UnderWay| match under_way {
            UnderWay::Open(ended) => ssd.shared.worth(*ended) != Worth::Open,
            _ => true,
        };
        let may_move = match &self.way {
            Way::OnSsd(under_way) => under_way.as_ref().is_some_and(is_over),
            Way::OnPairs(directory) => directory.is_under_way(),
        };
        !self.answers[volume].is_empty() || may_move
    }

    /// Whether a flush ended whose worth others decide.
    pub(crate) fn is_open(&self) -> bool {
        match &self.way {
            Way::OnSsd(under_way) => matches!(under_way, Some(UnderWay::Open(_))),
            Way::OnPairs(directory) => directory.is_open(),
        }
    }

    /// Whether the directory waits for what a resilver copies.
    pub(crate) fn waits_for_copy(&self) -> bool {
        matches!(&self.way, Way::OnPairs(directory) if directory.waits_for_copy())
    }

    /// Sends what is next to the SSD.
    pub(crate) fn send(&mut self, ssd: &mut SimDisk) {
        match &mut self.way {
            Way::OnPairs(directory) if directory.is_under_way() => {}
            Way::OnPairs(directory) => {
                self.broker.next_output().into_iter().for_each(|next| directory.begin(next))
            }
            Way::OnSsd(Some(_)) => {}
            Way::OnSsd(under_way) => {
                *under_way = self.broker.next_output().map(|output| match output {
                    DirectoryOutput::Write { offset_bytes, buf } => {
                        UnderWay::Write { offset_bytes, bytes: buf.as_slice().to_vec() }
                    }
                    DirectoryOutput::Flush => {
                        UnderWay::Flush { mark: ssd.flush_mark(), ticket: ssd.shared.begin_flush() }
                    }
                })
            }
        }
    }

    /// Lets what is under way to pairs go on. False: it cannot now.
    pub(crate) fn step_on_pairs(&mut self, pairs: &mut Pairs, faults: &Faults, rng: &mut Rng) -> bool {
        let Way::OnPairs(directory) = &mut self.way else { return false };
        match directory.step(pairs, faults, rng) {
            pair_directory::Way::Waits => return false,
            pair_directory::Way::On => {}
            pair_directory::Way::Over(is_ok) => {
                if !is_ok {
                    pairs.iter_mut().for_each(|(_, pair)| pair.has_failed = true);
                }
                self.broker.done(is_ok);
                self.hand_out();
            }
        }
        true
    }

    /// Lets what is under way end. False: it cannot now.
    pub(crate) fn step(&mut self, ssd: &mut SimDisk, faults: &Faults, rng: &mut Rng) -> bool {
        let mut fails = |percent: u64| faults.ssd_gone || (percent > 0 && rng.chance(percent));
        let Way::OnSsd(way) = &mut self.way else { return false };
        let ok = match way.take() {
            None => return false,
            Some(UnderWay::Write { offset_bytes, bytes }) => {
                let failed = ssd.is_nth(Access::Write) || fails(faults.ssd_metadata_errors);
                write(ssd, offset_bytes, &bytes, failed.then_some(rng));
                !failed
            }
            Some(UnderWay::Flush { mark, ticket }) => {
                let failed = ssd.is_nth(Access::Flush) || fails(faults.ssd_flush_errors);
                if !faults.ssd_gone {
                    if failed { ssd.drop_covered(mark) } else { ssd.settle(mark) }
                }
                *way = Some(UnderWay::Open(ssd.shared.end_flush(ticket, !failed)));
                return true;
            }
            Some(UnderWay::Open(ended)) => match ssd.shared.worth(ended) {
                Worth::Open => {
                    *way = Some(UnderWay::Open(ended));
                    return false;
                }
                worth => worth == Worth::Durable,
            },
        };
        if !ok {
            ssd.shared.fail();
        }
        self.broker.done(ok);
        self.hand_out();
        true
    }

    /// The daemon dies, or the host.
    pub(crate) fn go_down(&mut self, ssd: &mut SimDisk, power_cut: bool, rng: &mut Rng) {
        if let Way::OnSsd(way) = &mut self.way
            && let Some(UnderWay::Write { offset_bytes, bytes }) = way.take()
            && (power_cut || rng.chance(50))
        {
            write(ssd, offset_bytes, &bytes, None);
        }
    }

    /// As [`HostSpace::go_down`], where the cache is on pairs.
    pub(crate) fn go_down_on_pairs(&mut self, pairs: &mut Pairs, power_cut: bool, rng: &mut Rng) {
        if let Way::OnPairs(directory) = &mut self.way {
            directory.go_down(pairs, power_cut, rng);
        }
    }
}

/// Writes, or where it fails, some of the sectors.
pub(crate) fn write(ssd: &mut SimDisk, offset_bytes: u64, bytes: &[u8], fails: Option<&mut Rng>) {
    let Some(rng) = fails else {
        ssd.put(offset_bytes, bytes);
        return;
    };
    for (at, sector) in bytes.chunks(SECTOR).enumerate() {
        if rng.chance(50) {
            ssd.put(offset_bytes + (at * SECTOR) as u64, sector);
        }
    }
}
