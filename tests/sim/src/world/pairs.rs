//! What a world does with the pairs that its SSD is: which of their members commands go to, what each pair goes on with by itself, and
//! what becomes of its members. It must not know what devices make of commands.

use std::ops::Range;
use std::sync::Arc;

use lode_engine::command::{Command, CommandKind, Completion, DeviceId};
use lode_format::{DeviceLayout, PairLabel, VolumeTag};
use lode_store::pair::{ArrayCommands, MEMBERS, Pair, PairArray, PairCommand, PairEnd, PairNews, Stripes};
use lode_store::{Attached, Store, StoreError, StoreView};

use super::World;
use crate::disk::SimDisk;
use crate::pair::{Cache, SimPair, To, begins_again, each_of, open};
use crate::pair_directory::PairDirectory;
use crate::pair_side::PairSide;
use crate::space::HostSpace;

/// What a start on pairs has found of them: what the labels say, and where the cache is on them.
pub(crate) struct FoundPairs {
    labels: Vec<Pair>,
    stripes: Arc<Stripes>,
}

impl FoundPairs {
    pub(crate) fn of(array: &PairArray<&mut SimDisk>) -> FoundPairs {
        FoundPairs { labels: array.pairs().copied().collect(), stripes: Arc::clone(array.stripes()) }
    }

    /// The start has succeeded: the run of this epoch begins on these pairs, of whose cache these bytes mean anything.
    pub(crate) fn begin_run<'a>(
        &self,
        pairs: impl Iterator<Item = (&'a mut SimDisk, &'a mut SimPair)>,
        epoch: u64,
        used: &[Range<u64>],
    ) {
        for (number, (first, pair)) in pairs.enumerate() {
            pair.begin_run(first, self.labels[number], epoch, self.stripes.on_pair(number, used));
        }
    }

    /// Volumes of these tags, which share the pairs, join them. Gives the directory's way there; `hanging` is the member that may hang.
    pub(crate) fn join<'a>(
        self,
        cache: &mut Cache,
        tags: &[VolumeTag],
        volumes: impl Iterator<Item = &'a mut World>,
        hanging: Option<usize>,
    ) -> PairDirectory {
        for (&tag, world) in tags.iter().zip(volumes) {
            world.join_pairs(cache.pairs(), &self.stripes, tag);
        }
        PairDirectory::new(self.stripes, hanging, &mut cache.pairs().collect())
    }
}

impl World {
    /// Each pair with its first member.
    pub(crate) fn each_pair(&mut self) -> impl Iterator<Item = (&mut SimDisk, &mut SimPair)> {
        each_of(&mut self.ssd, self.pair.as_deref_mut(), &mut self.other_pairs)
    }

    /// Each pair.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = &SimPair> {
        self.pair.as_deref().into_iter().chain(self.other_pairs.iter().map(|other| &other.pair))
    }

    /// One of the pairs, if there are any, by chance.
    fn some_pair(&mut self) -> usize {
        if self.other_pairs.is_empty() {
            0
        } else {
            self.rng.below(1 + self.other_pairs.len() as u64) as usize
        }
    }

    /// Of a pair always the same member: a block that is damaged on both is lost.
    pub(super) fn some_victim(&mut self) -> Option<To> {
        let pair = self.some_pair();
        let pair = self.pairs().nth(pair)?;
        Some(pair.to(pair.victim))
    }

    /// Whether what happens to `only` of each pair happens to this device: while the other one has everything, too.
    pub(super) fn is_concerned(&self, member: Option<To>, only: Option<usize>) -> bool {
        let Some(to) = member else { return true };
        self.pairs().nth(to.pair).is_none_or(|pair| pair.is_concerned(to, &self.faults, only))
    }

    /// The volume joins the pairs, from which it is served from now on.
    pub(crate) fn join_pairs<'a>(
        &mut self,
        pairs: impl Iterator<Item = (&'a mut SimDisk, &'a mut SimPair)>,
        stripes: &Arc<Stripes>,
        tag: VolumeTag,
    ) {
        self.array = ArrayCommands::new(Arc::clone(stripes));
        self.sides = pairs.map(|(_, pair)| PairSide::new(pair, tag)).collect();
    }

    /// As [`World::join_pairs`], of the pairs that the volume has now.
    pub(super) fn join_own_pairs(&mut self, stripes: &Arc<Stripes>, tag: VolumeTag) {
        self.array = ArrayCommands::new(Arc::clone(stripes));
        let pairs = each_of(&mut self.ssd, self.pair.as_deref_mut(), &mut self.other_pairs);
        self.sides = pairs.map(|(_, pair)| PairSide::new(pair, tag)).collect();
    }

    /// The volume is served from the pairs no more, and has nothing under way there.
    pub(super) fn leave_pairs(&mut self) {
        let World { ssd, pair, other_pairs, sides, .. } = self;
        let pairs = each_of(ssd, pair.as_deref_mut(), other_pairs);
        pairs.zip(sides.drain(..)).for_each(|((_, pair), side)| side.leave(pair));
    }

    /// The volume's way to each pair, with the pair's first member.
    fn each_side(&mut self) -> impl Iterator<Item = (&mut SimDisk, &mut SimPair, &mut PairSide)> {
        let World { ssd, pair, other_pairs, sides, .. } = self;
        let pairs = each_of(ssd, pair.as_deref_mut(), other_pairs);
        pairs.zip(sides).map(|((first, pair), side)| (first, pair, side))
    }

    /// Blocks that were written again on a member on which they were damaged, in this run.
    pub fn healed(&self) -> u64 {
        self.sides.iter().map(PairSide::healed).sum()
    }

    /// The next command to a device, and of a pair to which member.
    pub(super) fn next_command(&mut self) -> Option<(Command, Option<To>)> {
        let World { ssd, pair, other_pairs, array, engine, sides, space, number, .. } = self;
        let mut pairs: Vec<(&mut SimPair, &mut PairSide)> = each_of(ssd, pair.as_deref_mut(), other_pairs)
            .zip(sides)
            .map(|((_, pair), side)| (pair, side))
            .collect();
        loop {
            if let Some((leg, to)) = pairs.iter_mut().find_map(|(pair, side)| side.next_leg(pair)) {
                let id = array.token(to.pair, leg.id);
                return Some((Command { id, ..leg }, Some(to)));
            }
            match engine.next_command()? {
                Command { id, device: DeviceId::Ssd, kind, options } if !pairs.is_empty() => {
                    if let (Some(space), CommandKind::Write { offset_bytes, .. }) = (&space, &kind) {
                        space.assert_may_write(*number, *offset_bytes);
                    }
                    array.begin(PairCommand { id, kind, options }, |number, command| {
                        let (pair, side) = &mut pairs[number];
                        side.begin(pair, command);
                    });
                }
                command => return Some((command, None)),
            }
        }
    }

    /// A device has finished something.
    pub(super) fn completed(&mut self, completion: Completion, member: Option<To>) {
        let Completion { id, result, bufs } = completion;
        if member.is_none() {
            return self.engine.complete(Completion { id, result, bufs });
        }
        let (number, token) = self.array.token_of(id);
        let (_, pair, side) = self.each_side().nth(number).expect("a command to its member");
        side.leg_ended(pair, token, result, bufs);
    }

    /// What the pairs go on with by themselves: labels on their way, what the volume has not followed yet, resilvers, and the ends of
    /// commands that waited for any of them.
    pub(super) fn pair_step(&mut self) {
        const CHANCE: u64 = 20;
        // A resilver takes long, so that much comes to pass meanwhile.
        const RESILVER_CHANCE: u64 = 8;
        self.look_at_used();
        let is_alone = self.due.is_empty() && self.held.is_empty();
        let World { ssd, pair, other_pairs, array, engine, rng, sides, space, .. } = self;
        let directory_waits = space.as_ref().is_some_and(HostSpace::waits_for_copy);
        let mut sides = sides.iter_mut();
        for (number, (first, pair)) in each_of(ssd, pair.as_deref_mut(), other_pairs).enumerate() {
            let mut side = sides.next();
            while pair.may_record(first) && (is_alone || rng.chance(CHANCE)) {
                if !pair.record(first) {
                    engine.device_failed(DeviceId::Ssd);
                }
            }
            if let Some(side) = &mut side {
                // Others may have let go of what is copied.
                side.begin_parked(pair);
                if side.has_news(pair) && (is_alone || rng.chance(CHANCE)) {
                    side.follow(pair);
                }
            }
            loop {
                let has_to = |side: &Option<&mut PairSide>| {
                    is_alone && (directory_waits || side.as_ref().is_some_and(|side| side.somebody_waits()))
                };
                while pair.is_resilvering()
                    && (has_to(&side) || rng.chance(RESILVER_CHANCE))
                    && pair.resilver_step(first)
                {
                    if let Some(side) = &mut side {
                        side.begin_parked(pair);
                    }
                }
                let Some(news) = side.as_mut().and_then(|side| side.next_news(pair)) else { break };
                let end = match news {
                    PairNews::Dropped(member) => {
                        let home = (number * MEMBERS + member) as u16;
                        let stripes = array.stripes();
                        engine.ssd_dropped(|offset_bytes| stripes.home(offset_bytes) == home);
                        continue;
                    }
                    PairNews::End(end) => end,
                };
                if let Some(PairEnd { id, result, bufs, .. }) = array.ended(end) {
                    engine.complete(Completion { id, result, bufs });
                }
            }
        }
    }

    /// What a resilver that is about to begin has to copy, where extents come and go.
    fn look_at_used(&mut self) {
        let World { ssd, pair, other_pairs, array, space, .. } = self;
        let Some(space) = space else { return };
        for (number, (_, pair)) in each_of(ssd, pair.as_deref_mut(), other_pairs).enumerate() {
            if pair.resilvering.begins_to_copy() {
                pair.set_used(array.stripes().on_pair(number, &space.used_bytes()));
            }
        }
    }

    /// Where no device has anything to do, lets the pairs do what commands wait for. False: none does, or that waits for others.
    pub(super) fn pair_step_alone(&mut self) -> bool {
        if !self.waits_for_pairs() {
            return false;
        }
        let versions = |world: &World| world.pairs().map(|pair| pair.version).collect::<Vec<_>>();
        let before = versions(self);
        self.pair_step();
        self.take_commands();
        // What has changed is to be followed next.
        !self.due.is_empty() || versions(self) != before || !self.waits_for_pairs()
    }

    pub(super) fn waits_for_pairs(&mut self) -> bool {
        self.pairs().any(SimPair::is_recording)
            || self.each_side().any(|(_, pair, side)| side.waits_for(pair))
            || self.space.as_ref().is_some_and(HostSpace::waits_for_copy)
    }

    /// About a second has gone by for the volume.
    pub(super) fn tick_pairs(&mut self) {
        self.each_pair().for_each(|(_, pair)| pair.ticks += 1);
        self.each_side().for_each(|(_, pair, side)| side.tick(pair));
    }

    /// The cache has failed as a whole, for all who use it.
    pub(super) fn pairs_have_failed(&mut self) {
        self.each_pair().for_each(|(_, pair)| pair.has_failed = true);
    }

    /// Where a byte of a member is in the cache.
    pub(super) fn in_cache(&self, to: To, offset_bytes: u64) -> u64 {
        let (stripes, on_pair) = (self.array.stripes(), offset_bytes - PairLabel::DATA_START_BYTES);
        if stripes.pairs() == 1 {
            return on_pair;
        }
        // Within an extent, offsets are the same on a pair and in the cache.
        let extent_bytes = self.machine.extent_bytes;
        let start = DeviceLayout::HEADS_BYTES.next_multiple_of(self.block_bytes());
        let within = (on_pair - start) % extent_bytes;
        let extents = (start..stripes.size_bytes()).step_by(extent_bytes as usize);
        let is_it = |at: &u64| {
            let [part] = stripes.parts(*at..at + 1)[..] else { return false };
            (part.pair, part.offset_bytes) == (to.pair, on_pair)
        };
        extents.map(|start| start + within).find(is_it).expect("a write is to an extent")
    }

    /// Whether another device has come in the place of the one that a command is for, so that nobody finds it again.
    pub(super) fn is_replaced(&self, member: Option<To>) -> bool {
        member.is_some_and(|to| self.pairs().nth(to.pair).is_some_and(|pair| pair.is_gone(to)))
    }

    /// Has everything that was begun come to its end, resilvers as well.
    pub fn settle_resilvers(&mut self) {
        // More than a resilver of all that the simulator's SSDs have takes.
        const MOST_TICKS: usize = 64;
        for _ in 0..MOST_TICKS {
            self.settle();
            self.tick();
            if !self.pairs().any(SimPair::is_resilvering) {
                break;
            }
        }
    }

    /// Has resilvers go on for a tick, as far as nothing under way keeps them from that.
    pub(super) fn resilver_pairs(&mut self) {
        // A part takes several: a run may end anywhere within.
        const STEPS: usize = 2;
        (0..STEPS).for_each(|_| self.resilver_step());
    }

    /// Has each resilver do what comes next, unless anything under way keeps it from that.
    pub fn resilver_step(&mut self) {
        if !self.due.is_empty() {
            return;
        }
        self.look_at_used();
        for (first, pair, side) in self.each_side() {
            side.follow(pair);
            if pair.is_resilvering() && pair.resilver_step(first) {
                side.follow(pair);
            }
        }
    }

    /// An operator takes a member out, or puts another device in the place of one that is out.
    pub(crate) fn change_members(&mut self) {
        // The one that is left is one to which nothing happens.
        let failing = self.failing_member.or(self.faults.only_member).or(self.faults.hanging_member);
        let number = self.some_pair();
        let in_sync = self.pairs().nth(number).map(|pair| pair.health.in_sync);
        match in_sync {
            None => {}
            Some([true, true]) => {
                let member = failing.unwrap_or_else(|| self.rng.below(MEMBERS as u64) as usize);
                self.take_member_out_of(number, member);
            }
            Some(_) => self.replace_member_of(number),
        }
    }

    /// An operator takes a member of the first pair out. The volume follows later.
    pub fn take_member_out(&mut self, member: usize) {
        self.take_member_out_of(0, member);
    }

    /// As [`World::take_member_out`], of a pair.
    pub fn take_member_out_of(&mut self, number: usize, member: usize) {
        self.each_pair().skip(number).take(1).for_each(|(_, pair)| pair.drop_member(member));
    }

    /// An operator puts another device in the place of the member of the first pair that is out, if that is known durably and nothing
    /// else goes on.
    pub fn replace_member(&mut self) {
        self.replace_member_of(0);
    }

    /// As [`World::replace_member`], of a pair.
    pub fn replace_member_of(&mut self, number: usize) {
        let Some(member) = self.pairs().nth(number).and_then(SimPair::replaceable) else { return };
        self.each_pair().skip(number).take(1).for_each(|(first, pair)| pair.replace_online(first, member));
    }

    /// A flush that failed for one has failed for all: the member is dropped, or the SSD has failed.
    pub(super) fn notice_failed_members(&mut self) {
        let World { ssd, pair, other_pairs, engine, .. } = self;
        for (first, pair) in each_of(ssd, pair.as_deref_mut(), other_pairs) {
            if pair.has_failed {
                engine.device_failed(DeviceId::Ssd);
            }
            let has_failed = [first.shared.has_failed(), pair.second.shared.has_failed()];
            for (member, has_failed) in has_failed.into_iter().enumerate() {
                if has_failed && pair.health.uses(member) {
                    match pair.health.in_sync[1 - member] {
                        true => pair.drop_member(member),
                        false => engine.device_failed(DeviceId::Ssd),
                    }
                }
            }
        }
    }

    /// By chance one of each pair is lost, and an empty one is in its place, or itself as it was when an earlier run ended; the only one that has
    /// everything is not. How many were.
    pub(crate) fn lose_members(&mut self, percent: u64) -> u64 {
        let World { ssd, pair, other_pairs, rng, .. } = self;
        let mut lost = 0;
        for (first, pair) in each_of(ssd, pair.as_deref_mut(), other_pairs) {
            let in_sync = pair.found_in_sync(first);
            let member = rng.below(MEMBERS as u64) as usize;
            let older = pair.older.take();
            pair.keep(first, rng.below(MEMBERS as u64) as usize);
            if !rng.chance(percent) {
                continue;
            }
            match older.filter(|_| rng.chance(50)) {
                Some((member, disk)) if in_sync[1 - member] => pair.put_back(first, member, disk),
                _ if in_sync[1 - member] => pair.replace(first, member),
                _ => continue,
            }
            lost += 1;
        }
        lost
    }

    /// By chance members that are missing or behind are resilvered while the next run has traffic.
    pub(crate) fn resilver_by_chance(&mut self) {
        let World { ssd, pair, other_pairs, rng, .. } = self;
        for (_, pair) in each_of(ssd, pair.as_deref_mut(), other_pairs) {
            pair.lose_name_by_chance(rng);
            pair.resilvers = rng.chance(50);
        }
    }

    /// The volume on the pairs, recovered.
    pub(super) fn attach_pairs(&mut self) -> Result<Attached, StoreError> {
        let mut attached = self.attach_on_pairs();
        if attached.is_err() && begins_again(self.each_pair()) {
            attached = self.attach_on_pairs();
        }
        attached
    }

    fn attach_on_pairs(&mut self) -> Result<Attached, StoreError> {
        let spec = self.spec();
        let World { ssd, pair, other_pairs, memory, machine, .. } = self;
        let mut array = open(each_of(ssd, pair.as_deref_mut(), other_pairs))?;
        let mut view = StoreView::read(&mut array)?;
        memory.offer(&mut view, &machine.name);
        let mut store = Store::begin(&mut array, view)?;
        // As the daemon, which serves the pairs as they are before volumes are attached.
        let (found, epoch) = (FoundPairs::of(&array), store.superblock().epoch);
        let attached = store.attach(&mut array, &spec)?;
        let used = store.into_directory().used_bytes();
        found.begin_run(self.each_pair(), epoch, &used);
        self.join_own_pairs(&found.stripes, attached.tag());
        Ok(attached)
    }
}
