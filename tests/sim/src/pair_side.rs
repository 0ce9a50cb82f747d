//! One volume's way to a pair of SSDs that others may use as well: which devices its commands go to, and how far it has followed what became
//! of the pair. It must not know engines, or what is on the SSDs.

use lode_engine::command::{Command, DeviceId};
use lode_format::VolumeTag;
use lode_store::pair::{
    DeviceChange, Followed, Leg, MEMBERS, PairCommand, PairNews, PairOptions, PairVolume,
};
use lode_types::{Bufs, MediaError};

use crate::pair::{SimPair, To};

/// Ticks after which a member that does not answer is given up.
pub(crate) const MOST_TICKS: u64 = 10;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct PairSide {
    volume: PairVolume,
    /// By which number the pair's followers know the volume.
    follower: u64,
    /// Which of the devices that were a member its commands go to.
    sends_to: [u64; MEMBERS],
}

impl PairSide {
    /// Of a volume that is served from now on.
    pub(crate) fn new(pair: &mut SimPair, tag: VolumeTag) -> PairSide {
        let volume = PairVolume::new(tag, MOST_TICKS, (pair.health, pair.version), pair.were_dropped);
        let follower = pair.followers.join(volume.followed());
        PairSide { volume, follower, sends_to: pair.devices }
    }

    /// The volume is served no more.
    pub(crate) fn leave(mut self, pair: &mut SimPair) {
        self.volume.retire(|number| pair.resilvering.resilver.end_write(number));
        pair.followers.leave(self.follower);
    }

    /// Commands to members for one to the pair.
    pub(crate) fn begin(&mut self, pair: &mut SimPair, command: PairCommand) {
        self.volume.begin(command, Some(&mut pair.resilvering.resilver));
    }

    /// Commands that waited for what is copied where they write, which may go on.
    pub(crate) fn begin_parked(&mut self, pair: &mut SimPair) {
        self.volume.take_parked().into_iter().for_each(|command| self.begin(pair, command));
    }

    /// The end of a command to the pair, as far as it may be told.
    pub(crate) fn next_news(&mut self, pair: &mut SimPair) -> Option<PairNews> {
        let resilver = &mut pair.resilvering.resilver;
        let news = self.volume.next_news(|number| resilver.end_write(number))?;
        self.note(pair);
        Some(news)
    }

    fn note(&self, pair: &mut SimPair) {
        pair.followers.note(self.follower, self.volume.followed());
    }

    /// Whether the volume has not followed a change of the pair.
    pub(crate) fn has_news(&self, pair: &SimPair) -> bool {
        self.followed().adopted != pair.version
    }

    fn followed(&self) -> Followed {
        self.volume.followed()
    }

    /// The volume goes by what is known of the pair now.
    pub(crate) fn follow(&mut self, pair: &mut SimPair) {
        self.volume.follow(pair.health, pair.version);
        while let Some(change) = self.volume.next_change() {
            if let DeviceChange::Open(member) = change {
                self.sends_to[member] = pair.devices[member];
                self.volume.opened(member);
                self.volume.follow(pair.health, pair.version);
            }
        }
        self.note(pair);
        self.begin_parked(pair);
    }

    /// Whether commands wait for what is copied where they write.
    pub(crate) fn somebody_waits(&self) -> bool {
        self.volume.has_parked()
    }

    /// Whether anything waits for what is copied or for what the volume does not know yet.
    pub(crate) fn waits_for(&self, pair: &SimPair) -> bool {
        self.somebody_waits() || self.has_news(pair)
    }

    /// The next command to a member, and to which one.
    pub(crate) fn next_leg(&mut self, pair: &SimPair) -> Option<(Command, To)> {
        let Leg { token, member, kind } = self.volume.next_leg()?;
        let to = To { pair: pair.number(), member, device: self.sends_to[member] };
        let (device, options) = (DeviceId::Ssd, PairOptions::default());
        Some((Command { id: token, device, kind, options }, to))
    }

    /// A command to a member has ended.
    pub(crate) fn leg_ended(
        &mut self,
        pair: &mut SimPair,
        token: u64,
        result: Result<(), MediaError>,
        bufs: Bufs,
    ) {
        if result.is_err() {
            // The other one may have been resilvered meanwhile, and count.
            self.follow(pair);
        }
        if let Some(member) = self.volume.leg_ended(token, result, bufs) {
            pair.drop_member(member);
            self.begin_parked(pair);
            self.follow(pair);
        }
    }

    /// About a second has gone by.
    pub(crate) fn tick(&mut self, pair: &mut SimPair) {
        // The last one that has everything is not given up.
        self.follow(pair);
        if let Some(member) = self.volume.tick() {
            pair.drop_member(member);
            self.begin_parked(pair);
            self.follow(pair);
        }
    }

    /// Blocks that were written again on a member on which they were damaged.
    pub(crate) fn healed(&self) -> u64 {
        self.volume.healed()
    }
}
