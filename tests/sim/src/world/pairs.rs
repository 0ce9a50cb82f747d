//! What a world does with the pairs that its SSD is: which of their members commands go to, what each pair goes on with by itself, and
//! what becomes of its members. It must not know what devices make of commands.

use lode_engine::command::{Command, Completion, DeviceId};
use lode_store::pair::{ArrayCommands, MEMBERS, Pair, PairCommand, PairEnd, PairNews};
use lode_store::{Attached, Store, StoreError, StoreView};

use super::World;
use crate::disk::SimDisk;
use crate::pair::{SimPair, To, each_of, open};

impl World {
    /// Each pair with its first member.
    pub(super) fn each_pair(&mut self) -> impl Iterator<Item = (&mut SimDisk, &mut SimPair)> {
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
        let member = self.pairs().nth(pair)?.victim;
        Some(To { pair, member, is_gone: false })
    }

    /// Whether what happens to `only` of each pair happens to this member: while the other one has everything, too.
    pub(super) fn is_concerned(&self, member: Option<To>, only: Option<usize>) -> bool {
        let Some(to) = member else { return true };
        if self.faults.only_pair.is_some_and(|only_pair| to.pair != only_pair) {
            return false;
        }
        let Some(only) = only else { return true };
        let Some(pair) = self.pairs().nth(to.pair) else { return true };
        // One that was resilvered has everything when its labels say so.
        let is_alone = !pair.health.in_sync[1 - to.member] || pair.is_resilvering();
        to.member == only && !to.is_gone && !is_alone
    }

    /// The next command to a device, and of a pair to which member.
    pub(super) fn next_command(&mut self) -> Option<(Command, Option<To>)> {
        let World { ssd, pair, other_pairs, array, engine, .. } = self;
        let mut pairs: Vec<&mut SimPair> =
            each_of(ssd, pair.as_deref_mut(), other_pairs).map(|(_, pair)| pair).collect();
        loop {
            if let Some((leg, to)) = pairs.iter_mut().find_map(|pair| pair.next_leg()) {
                let id = array.token(to.pair, leg.id);
                return Some((Command { id, ..leg }, Some(to)));
            }
            match engine.next_command()? {
                Command { id, device: DeviceId::Ssd, kind, options } if !pairs.is_empty() => {
                    array
                        .begin(PairCommand { id, kind, options }, |pair, command| pairs[pair].begin(command));
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
        let (_, pair) = self.each_pair().nth(number).expect("a command to its member");
        pair.leg_ended(token, result, bufs);
    }

    /// What the pairs go on with by themselves: labels on their way, what the volume has not followed yet, resilvers, and the ends of
    /// commands that waited for any of them.
    pub(super) fn pair_step(&mut self) {
        const CHANCE: u64 = 20;
        let is_alone = self.due.is_empty() && self.held.is_empty();
        let World { ssd, pair, other_pairs, array, engine, rng, .. } = self;
        for (number, (first, pair)) in each_of(ssd, pair.as_deref_mut(), other_pairs).enumerate() {
            while pair.is_recording() && (is_alone || rng.chance(CHANCE)) {
                if !pair.record(first) {
                    engine.device_failed(DeviceId::Ssd);
                }
            }
            if pair.has_news() && (is_alone || rng.chance(CHANCE)) {
                pair.follow();
            }
            loop {
                let has_to = |pair: &SimPair| is_alone && pair.somebody_waits();
                while pair.is_resilvering()
                    && (has_to(pair) || rng.chance(CHANCE))
                    && pair.resilver_step(first)
                {}
                let Some(news) = pair.next_news() else { break };
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

    /// Where no device has anything to do, lets the pairs do what commands wait for. False: none does, or that waits for others.
    pub(super) fn pair_step_alone(&mut self) -> bool {
        if !self.pairs().any(SimPair::is_waited_for) {
            return false;
        }
        self.pair_step();
        self.take_commands();
        !self.due.is_empty() || !self.pairs().any(SimPair::is_waited_for)
    }

    /// Has resilvers come to their ends, as far as nothing under way keeps them from that.
    pub(super) fn resilver_pairs(&mut self) {
        if !self.due.is_empty() {
            return;
        }
        for (first, pair) in self.each_pair() {
            pair.follow();
            while pair.is_resilvering() && pair.resilver_step(first) {
                pair.follow();
            }
        }
    }

    /// An operator takes a member out, or puts another device in the place of one that is out.
    pub(crate) fn change_members(&mut self) {
        // The one that is left is one to which nothing happens.
        let failing = self.faults.only_member.or(self.faults.hanging_member);
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
        let to = |is_gone| To { pair: number, member, is_gone };
        let (here, gone) = (to(false), to(true));
        let is_busy = |to: Option<To>| to == Some(gone);
        if self.pending.values().any(|one| is_busy(one.member))
            || self.held.iter().any(|one| is_busy(one.member))
        {
            // One device after the other.
            return;
        }
        self.each_pair().skip(number).take(1).for_each(|(first, pair)| pair.replace_online(first, member));
        let goes_with_it = |to: &mut Option<To>| *to = if *to == Some(here) { Some(gone) } else { *to };
        self.pending.values_mut().for_each(|one| goes_with_it(&mut one.member));
        self.held.iter_mut().for_each(|one| goes_with_it(&mut one.member));
    }

    /// A flush that failed for one has failed for all: the member is dropped, or the SSD has failed.
    pub(super) fn notice_failed_members(&mut self) {
        let World { ssd, pair, other_pairs, engine, .. } = self;
        for (first, pair) in each_of(ssd, pair.as_deref_mut(), other_pairs) {
            let has_failed = [first.shared.has_failed(), pair.second.shared.has_failed()];
            for (member, has_failed) in has_failed.into_iter().enumerate() {
                if has_failed && pair.health.in_sync[member] {
                    match pair.health.in_sync == [true; MEMBERS] {
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
            pair.resilvers = rng.chance(50);
        }
    }

    /// The volume on the pairs, recovered.
    pub(super) fn attach_pairs(&mut self) -> Result<Attached, StoreError> {
        let in_sync = |world: &mut World| -> Vec<_> {
            world.each_pair().map(|(first, pair)| pair.found_in_sync(first)).collect()
        };
        let before = in_sync(self);
        let mut attached = self.attach_on_pairs();
        // A member that failed was dropped, and what is there is looked for again.
        if attached.is_err() && in_sync(self) != before {
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
        let attached = store.attach(&mut array, &spec)?;
        let (labels, stripes) = (array.pairs().copied().collect::<Vec<Pair>>(), array.stripes().clone());
        let epoch = store.superblock().epoch;
        let used = store.into_directory().used_bytes();
        for (number, (_, pair)) in self.each_pair().enumerate() {
            pair.begin_run(labels[number], (attached.tag(), epoch), stripes.on_pair(number, &used));
        }
        self.array = ArrayCommands::new(stripes);
        Ok(attached)
    }
}
