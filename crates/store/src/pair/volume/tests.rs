use std::collections::BTreeMap;

use lode_types::{Buf, Rng};

use super::super::fanout::PairOptions;
use super::super::followers::Followers;
use super::super::member::{home_member, other};
use super::*;

const TAG: VolumeTag = VolumeTag(5);
/// All of them lie on several stripes.
const BLOCK: u64 = 8 << 10;
const BLOCKS: u64 = 200;
const MOST_TICKS: u64 = 3;

/// What a device holds: a byte for each block.
type Device = Vec<u8>;

struct Volume {
    pair: PairVolume,
    number: u64,
    /// Which devices its commands to members go to.
    open: [Option<usize>; MEMBERS],
    /// Commands to members on their way: the device that they were sent to, token, block and byte.
    under_way: Vec<(usize, u64, u64, u8)>,
    /// Writes that were begun: blocks and bytes, by their ids.
    begun: BTreeMap<u64, (u64, u8)>,
    /// What it has of blocks for which one copy is enough.
    copies: BTreeMap<u64, u8>,
}

/// Of every other group of four blocks one copy is enough.
fn has_one_copy(block: u64) -> bool {
    block / 4 % 2 == 1
}

/// A pair, the volumes that are served from it, and all devices that ever were its members.
struct Host {
    devices: Vec<Device>,
    members: [usize; MEMBERS],
    health: PairHealth,
    version: u64,
    followers: Followers,
    resilver: Resilver,
    /// Since which version a member is resilvered, and whether it is copied.
    since: Option<(u64, bool)>,
    part: Option<Range<u64>>,
    /// Since which version it has everything, which labels do not say yet.
    counts: Option<u64>,
    volumes: Vec<Volume>,
    writes: u64,
}

impl Host {
    fn new(volumes: usize) -> Host {
        let health =
            PairHealth { in_sync: [true; MEMBERS], is_recorded: true, is_lost: false, resilvering: None };
        let mut followers = Followers::default();
        let volume = |_| {
            let pair = PairVolume::new(TAG, MOST_TICKS, (health, 1), [false; MEMBERS]);
            let number = followers.join(pair.followed());
            let (under_way, begun, copies) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
            Volume { pair, number, open: [Some(0), Some(1)], under_way, begun, copies }
        };
        let volumes = (0..volumes).map(volume).collect();
        Host {
            devices: vec![vec![0; BLOCKS as usize]; MEMBERS],
            members: [0, 1],
            health,
            version: 1,
            followers,
            resilver: Resilver::default(),
            since: None,
            part: None,
            counts: None,
            volumes,
            writes: 0,
        }
    }

    fn change(&mut self, change: impl FnOnce(&mut PairHealth)) {
        change(&mut self.health);
        self.version += 1;
    }

    /// A member is dropped, and the labels say so. False: the other one does not have everything.
    fn drop_member(&mut self, member: usize) -> bool {
        if !self.health.in_sync[other(member)] || !self.health.uses(member) || self.counts.is_some() {
            return false;
        }
        self.change(|health| {
            health.in_sync[member] = false;
            health.resilvering = None;
        });
        self.resilver.give_up();
        (self.since, self.part) = (None, None);
        true
    }

    /// Another device comes in the place of the member that was dropped. False: there is none, or it may not yet.
    fn replace(&mut self) -> bool {
        let Some(member) = (0..MEMBERS).find(|&member| !self.health.uses(member)) else { return false };
        if self.since.is_some() || !self.followers.may_replace(self.version) {
            return false;
        }
        self.members[member] = self.devices.len();
        self.devices.push(vec![0xee; BLOCKS as usize]);
        self.change(|health| health.resilvering = Some(member));
        self.since = Some((self.version, false));
        true
    }

    /// The resilver goes a step further. False: it waits, or there is none.
    fn resilver(&mut self) -> bool {
        if let Some(version) = self.counts {
            // Nothing is dropped until the labels say it.
            let is_known = self.followers.have_adopted(version);
            self.counts = self.counts.filter(|_| !is_known);
            return is_known;
        }
        let (Some((version, is_copied)), Some(member)) = (self.since, self.health.resilvering) else {
            return false;
        };
        if !is_copied {
            if !self.followers.may_copy(version) {
                return false;
            }
            self.resilver.begin(std::iter::once(0..BLOCKS * BLOCK).collect(), 0);
            self.since = Some((version, true));
        }
        if self.part.is_none() {
            self.part = self.resilver.next_part(Resilver::PART_BYTES);
        }
        let Some(part) = self.part.clone() else {
            self.change(|health| (health.in_sync[member], health.resilvering) = (true, None));
            (self.since, self.counts) = (None, Some(self.version));
            return true;
        };
        if !self.resilver.may_copy() {
            return false;
        }
        let blocks = (part.start / BLOCK) as usize..(part.end / BLOCK) as usize;
        let bytes = self.devices[self.members[other(member)]][blocks.clone()].to_vec();
        self.devices[self.members[member]][blocks].copy_from_slice(&bytes);
        self.resilver.part_copied();
        self.part = None;
        true
    }

    /// A volume goes by what is known of the pair.
    fn follow(&mut self, at: usize) {
        let volume = &mut self.volumes[at];
        volume.pair.follow(self.health, self.version);
        while let Some(change) = volume.pair.next_change() {
            match change {
                DeviceChange::Close(member) => volume.open[member] = None,
                DeviceChange::Open(member) => {
                    volume.open[member] = Some(self.members[member]);
                    volume.pair.opened(member);
                    volume.pair.follow(self.health, self.version);
                }
            }
        }
        for command in self.volumes[at].pair.take_parked() {
            self.begin(at, command);
        }
        self.take_news(at);
    }

    fn begin(&mut self, at: usize, command: PairCommand) {
        self.volumes[at].pair.begin(command, Some(&mut self.resilver));
        self.send(at);
    }

    fn send(&mut self, at: usize) {
        let Volume { pair, open, under_way, .. } = &mut self.volumes[at];
        while let Some(Leg { token, member, kind }) = pair.next_leg() {
            let CommandKind::Write { offset_bytes, data } = kind else { panic!("only writes are asked for") };
            let block = (offset_bytes - lode_format::PairLabel::DATA_START_BYTES) / BLOCK;
            let device = open[member].expect("what is sent to is open");
            under_way.push((device, token, block, data[0][0]));
        }
    }

    /// A guest of the volume writes a block that nobody else does: which one it is, is in the lowest bits.
    fn write(&mut self, at: usize, block: u64) {
        self.writes += 1;
        let kind = CommandKind::write(block * BLOCK, Buf::copy_of(&vec![self.writes as u8; BLOCK as usize]));
        let (id, one_copy) = (self.writes, has_one_copy(block));
        let options = PairOptions { one_copy, ..PairOptions::default() };
        self.volumes[at].begun.insert(id, (block, id as u8));
        self.begin(at, PairCommand { id, kind, options });
    }

    /// A device carries out a command to a member.
    fn carry_out(&mut self, at: usize, number: usize) {
        let (device, token, block, byte) = self.volumes[at].under_way.remove(number);
        self.devices[device][block as usize] = byte;
        let volume = &mut self.volumes[at];
        assert_eq!(volume.pair.leg_ended(token, Ok(()), Bufs::new()), None);
        self.take_news(at);
    }

    /// A volume is told what is to be told.
    fn take_news(&mut self, at: usize) {
        let Volume { pair, begun, copies, .. } = &mut self.volumes[at];
        while let Some(news) = pair.next_news(|write| self.resilver.end_write(write)) {
            match news {
                PairNews::Dropped(member) => copies.retain(|&block, _| home_member(block * BLOCK) != member),
                PairNews::End(PairEnd { id, result, .. }) => {
                    assert_eq!(result, Ok(()));
                    let (block, byte) = begun.remove(&id).expect("it was begun");
                    if has_one_copy(block) {
                        copies.insert(block, byte);
                    }
                }
            }
        }
        self.followers.note(self.volumes[at].number, self.volumes[at].pair.followed());
        self.send(at);
    }

    /// Everything that was begun ends, and members that have everything have the same.
    fn settle(&mut self) {
        const MOST_STEPS: usize = 1000;
        for step in 0.. {
            assert!(step < MOST_STEPS, "it does not come to rest");
            let before: u64 = self.volumes.iter().map(|volume| volume.pair.followed().adopted).sum();
            for at in 0..self.volumes.len() {
                self.follow(at);
                while !self.volumes[at].under_way.is_empty() {
                    self.carry_out(at, 0);
                }
            }
            let after: u64 = self.volumes.iter().map(|volume| volume.pair.followed().adopted).sum();
            let is_over = self.volumes.iter().all(|volume| !volume.pair.has_parked());
            if !self.resilver() && before == after && is_over {
                break;
            }
        }
        if self.health.in_sync == [true; MEMBERS] {
            let [one, other] = self.members.map(|device| &self.devices[device]);
            let on_both = (0..BLOCKS).filter(|&block| !has_one_copy(block)).map(|block| block as usize);
            on_both.for_each(|block| {
                assert_eq!(one[block], other[block], "block {block} of {:?}", self.members)
            });
        }
        for (&block, &byte) in self.volumes.iter().flat_map(|volume| &volume.copies) {
            let home = home_member(block * BLOCK);
            let member = if self.health.in_sync[home] { home } else { other(home) };
            assert_eq!(self.devices[self.members[member]][block as usize], byte, "block {block}");
        }
    }
}

/// Guarantee 9: a device that came in the place of another one has all that was written, also by the volume that was the last to follow.
#[test]
fn g9_a_volume_that_follows_late_never_writes_to_the_device_that_was_there_before() {
    let mut host = Host::new(2);
    assert!(host.drop_member(1));
    host.follow(0);
    // The other one does not know yet, and writes to the device that was dropped.
    host.write(1, 3);
    host.replace();
    host.settle();
    // It has followed by now.
    host.replace();
    host.write(1, 1);
    host.settle();
    host.write(1, 9);
    host.settle();
    assert_eq!((host.health.in_sync, host.members), ([true; MEMBERS], [0, 2]));
    let held = |block: usize| host.members.map(|device| host.devices[device][block]);
    assert_eq!([held(3), held(1), held(9)], [[1, 1], [2, 2], [3, 3]]);
}

/// Volumes write, follow and lag behind at random, while members are dropped, replaced and resilvered.
#[test]
fn g9_members_that_have_everything_are_the_same_whoever_follows_when() {
    let (mut replaced, mut resilvered, mut parked, mut copies) = (0, 0, 0, 0);
    for seed in 0..600 {
        let rng = &mut Rng::new(seed);
        let mut host = Host::new(1 + rng.below(3) as usize);
        let volumes = host.volumes.len() as u64;
        for _ in 0..rng.below(400) {
            let at = rng.below(volumes) as usize;
            match rng.below(100) {
                0..2 => _ = host.drop_member(rng.below(2) as usize),
                2..6 => replaced += u32::from(host.replace()),
                6..20 => {
                    let before = host.health.resilvering.is_some();
                    host.resilver();
                    resilvered += u32::from(before && host.health.resilvering.is_none());
                }
                20..40 => host.follow(at),
                // Each volume has blocks of its own, and does not write one again that is being written.
                40..70 => {
                    let block = rng.below(BLOCKS / 4) * 4 + at as u64;
                    let volume = &host.volumes[at];
                    if !volume.pair.has_parked() && volume.under_way.iter().all(|one| one.2 != block) {
                        host.write(at, block);
                        parked += u32::from(host.volumes[at].pair.has_parked());
                    }
                }
                _ if host.volumes[at].under_way.is_empty() => {}
                _ => {
                    let number = rng.below(host.volumes[at].under_way.len() as u64) as usize;
                    host.carry_out(at, number);
                }
            }
        }
        host.settle();
        copies += host.volumes.iter().map(|volume| volume.copies.len()).sum::<usize>();
    }
    assert!(replaced > 300 && resilvered > 20 && copies > 1000, "{replaced} {resilvered} {parked} {copies}");
}

#[test]
fn what_a_dropped_member_alone_had_is_told_once() {
    let dropped = |volume: &mut PairVolume| match volume.next_news(|_| {}) {
        Some(PairNews::Dropped(member)) => Some(member),
        news => {
            assert!(news.is_none());
            None
        }
    };
    let well = PairHealth { in_sync: [true; MEMBERS], is_recorded: true, is_lost: false, resilvering: None };
    let mut volume = PairVolume::new(TAG, MOST_TICKS, (well, 1), [false; MEMBERS]);
    assert_eq!(dropped(&mut volume), None);
    volume.follow(PairHealth { is_recorded: false, ..well }, 2);
    assert_eq!(dropped(&mut volume), None);
    volume.follow(PairHealth { in_sync: [true, false], ..well }, 3);
    assert_eq!((dropped(&mut volume), dropped(&mut volume)), (Some(1), None));
    volume.follow(well, 4);
    assert_eq!(dropped(&mut volume), None, "it has everything, and what it alone had is gone all the same");
    // One was dropped, and resilvered, before the volume was served.
    let mut late = PairVolume::new(TAG, MOST_TICKS, (well, 4), [true, false]);
    assert_eq!((dropped(&mut late), dropped(&mut late)), (Some(0), None));
}
