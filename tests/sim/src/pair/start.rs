//! A pair as starts see it: which members can be opened, what their labels say, and what the start goes on with. It must not know what is done with
//! the pair once it is served.

use lode_format::PairLabel;
use lode_store::StoreError;
use lode_store::pair::{MEMBERS, Pair, PairArray, PairDevice, probe_pair};

use super::SimPair;
use crate::disk::SimDisk;

impl SimPair {
    /// The labels of both members.
    pub(super) fn found(&mut self, first: &mut SimDisk) -> [Option<PairLabel>; MEMBERS] {
        // One that is locked cannot be opened.
        let is_locked = first.is_locked();
        let look = |disk: &mut SimDisk| if disk.is_locked() { None } else { probe_pair(disk).ok() };
        let labels = [first, &mut self.second].map(look);
        let awaits_other = labels[0].is_some_and(|label| label.awaits_other);
        self.is_second_named &= !(std::mem::take(&mut self.loses_name) && awaits_other);
        if self.is_second_named {
            return labels;
        }
        // As the daemon, which refuses any other SSD of a pair that is named alone.
        assert!(awaits_other || is_locked, "nothing is on the second alone");
        [labels[0], None]
    }

    /// Which members cannot be opened, because the kernel still has a command of theirs.
    fn locked(&self, first: &SimDisk) -> [bool; MEMBERS] {
        [first, &self.second].map(SimDisk::is_locked)
    }

    /// As the daemon, which does without a member that somebody has locked only where the newest label says that it lacks something.
    fn refuse_locked(
        &mut self,
        first: &mut SimDisk,
        labels: &[Option<PairLabel>; MEMBERS],
        locked: [bool; MEMBERS],
    ) -> Result<(), StoreError> {
        let newest = labels.iter().flatten().max_by_key(|label| label.generation);
        let is_needed = |member: usize| newest.is_none_or(|label| label.in_sync[member]);
        let mut disks = [first, &mut self.second];
        match (0..MEMBERS).find(|&member| locked[member] && is_needed(member)) {
            Some(member) => probe_pair(&mut disks[member]).map(drop),
            None => Ok(()),
        }
    }

    /// The pair as a start sees it that found these labels, which say this, and what the host remembers of it.
    fn device<'a>(
        &'a mut self,
        first: &'a mut SimDisk,
        labels: &[Option<PairLabel>; MEMBERS],
        said: Pair,
    ) -> (PairDevice<&'a mut SimDisk>, &'a mut Option<u64>) {
        // One that was being resilvered says so itself.
        let is_unfinished = |member: usize| labels[member].is_some_and(|label| !label.in_sync[member]);
        self.resilvers |= (0..MEMBERS).any(is_unfinished);
        let is_used = |member: usize| labels[member].is_some() && said.writes_to(member);
        self.started_on = [0, 1].map(is_used);
        let mut devices = [Some(first), Some(&mut self.second)];
        for member in (0..MEMBERS).filter(|&member| !is_used(member)) {
            devices[member] = None;
        }
        (PairDevice::new(said, devices), &mut self.known_generation)
    }

    /// Which members a start would find to have everything.
    pub fn found_in_sync(&mut self, first: &mut SimDisk) -> [bool; MEMBERS] {
        let labels = self.found(first);
        let found = Pair::of(labels, self.known_generation).map_or([false; MEMBERS], |said| said.in_sync);
        [0, 1].map(|member| found[member] && labels[member].is_some())
    }

    /// Which members a start would write to.
    fn found_written(&mut self, first: &mut SimDisk) -> [bool; MEMBERS] {
        // No start looks here.
        let hangs = [first.start_hang.take(), self.second.start_hang.take()];
        let labels = self.found(first);
        [first.start_hang, self.second.start_hang] = hangs;
        let said = Pair::of(labels, self.known_generation);
        [0, 1]
            .map(|member| said.as_ref().is_ok_and(|said| said.writes_to(member)) && labels[member].is_some())
    }
}

/// As the daemon after a start that failed: whether fewer members would get what another one writes than got what that wrote. Then it begins again,
/// because what it found on the others is believed no more.
pub(crate) fn begins_again<'a>(pairs: impl Iterator<Item = (&'a mut SimDisk, &'a mut SimPair)>) -> bool {
    let (mut before, mut now) = (0, 0);
    let count = |members: [bool; MEMBERS]| members.into_iter().filter(|&is_written| is_written).count();
    for (first, pair) in pairs {
        [&mut *first, &mut pair.second].into_iter().for_each(SimDisk::try_to_unlock);
        before += count(pair.started_on);
        now += count(pair.found_written(first));
    }
    now < before
}

/// The pairs of a cache as a start sees them, with what labels and the host's memory say.
///
/// # Errors
/// What a start is refused for.
pub(crate) fn open<'a>(
    pairs: impl Iterator<Item = (&'a mut SimDisk, &'a mut SimPair)>,
) -> Result<PairArray<&'a mut SimDisk>, StoreError> {
    let Found { mut array, labels, mut known } = find(pairs)?;
    array.begin(&labels, |number, generation| {
        *known[number] = Some(generation);
        Ok::<_, StoreError>(())
    })?;
    Ok(array)
}

/// As [`open`], by somebody who only looks.
///
/// # Errors
/// As [`open`].
pub(crate) fn look<'a>(
    pairs: impl Iterator<Item = (&'a mut SimDisk, &'a mut SimPair)>,
) -> Result<PairArray<&'a mut SimDisk>, StoreError> {
    find(pairs).map(|found| found.array)
}

/// Pairs to which nothing was written, the labels of each, and what the host remembers of it.
struct Found<'a> {
    array: PairArray<&'a mut SimDisk>,
    labels: Vec<[Option<PairLabel>; MEMBERS]>,
    known: Vec<&'a mut Option<u64>>,
}

fn find<'a>(
    pairs: impl Iterator<Item = (&'a mut SimDisk, &'a mut SimPair)>,
) -> Result<Found<'a>, StoreError> {
    let mut pairs: Vec<_> = pairs.collect();
    pairs.iter_mut().for_each(|(_, pair)| pair.started_on = [false; MEMBERS]);
    let locked: Vec<_> = pairs.iter().map(|(first, pair)| pair.locked(first)).collect();
    let labels: Vec<_> = pairs.iter_mut().map(|(first, pair)| pair.found(first)).collect();
    for (((first, pair), labels), locked) in pairs.iter_mut().zip(&labels).zip(locked) {
        pair.refuse_locked(first, labels, locked)?;
    }
    let known: Vec<_> = pairs.iter().map(|(_, pair)| pair.known_generation).collect();
    let said = Pair::all_of(&labels, &known)?;
    let found = labels.iter().zip(said);
    let devices = pairs.into_iter().zip(found);
    let devices = devices.map(|((first, pair), (labels, said))| pair.device(first, labels, said));
    let (devices, known): (Vec<_>, Vec<_>) = devices.unzip();
    Ok(Found { array: PairArray::new(devices)?, labels, known })
}
