//! Which members a pair has, and which of them have everything: what their labels say together. It must not know what the pair
//! holds.

use lode_format::{CacheId, DeviceLayout, PAGE_BYTES, PairLabel};
use lode_types::planted;

use super::member::{MEMBERS, other};
use crate::device::{SyncDevice, flush, read, write};
use crate::error::{StoreError, StoreErrorKind};

/// Stands for an epoch that is not known yet, and later than all others.
const JUST_NOW: u64 = u64::MAX;

/// A pair, as the labels of its members say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Which cache it holds, or a part of.
    pub id: CacheId,
    /// Which of the cache's pairs it is, from 0, and how many there are.
    pub number: usize,
    /// See [`Pair::number`].
    pub pairs: usize,
    /// Grows with every change of what labels say.
    pub generation: u64,
    /// Bytes of the pair.
    pub pair_bytes: u64,
    /// Bytes of each member's device.
    pub device_bytes: [u64; MEMBERS],
    /// Which members have everything.
    pub in_sync: [bool; MEMBERS],
    /// See [`PairLabel::dropped_in`]; [`JUST_NOW`] where labels do not say it yet.
    pub dropped_in: [u64; MEMBERS],
    /// See [`PairLabel::resilvered_bytes`]: what a resilver that was cut short need not copy again.
    pub resilvered_bytes: u64,
    /// The member that does not have everything has not come yet ([`PairLabel::awaits_other`]).
    pub awaits_other: bool,
}

impl Pair {
    /// The only pair of a cache, of devices of these sizes, each of which keeps what the smaller one has room for.
    ///
    /// # Errors
    /// [`StoreErrorKind::Geometry`] when there is no room behind the labels.
    pub fn new(id: CacheId, device_bytes: [u64; MEMBERS]) -> Result<Pair, StoreError> {
        let smaller = device_bytes[0].min(device_bytes[1]);
        let usable = smaller.saturating_sub(PairLabel::DATA_START_BYTES);
        let pair_bytes = usable - usable % PAGE_BYTES as u64;
        if pair_bytes == 0 {
            let context = format!("{smaller} bytes are too few for an SSD of a pair");
            return Err(StoreError::new(StoreErrorKind::Geometry, context));
        }
        Ok(Pair {
            id,
            number: 0,
            pairs: 1,
            generation: 1,
            pair_bytes,
            device_bytes,
            in_sync: [true; MEMBERS],
            dropped_in: [0; MEMBERS],
            resilvered_bytes: 0,
            awaits_other: false,
        })
    }

    /// The pair before its second SSD has come. What it has room for stays: that one needs [`Pair::least_device_bytes`].
    #[must_use]
    pub(super) fn awaiting(mut self) -> Pair {
        (self.in_sync, self.awaits_other) = ([true, false], true);
        self.device_bytes[1] = 0;
        self
    }

    /// Bytes that a device has at least that can be a member.
    pub fn least_device_bytes(&self) -> u64 {
        PairLabel::DATA_START_BYTES + self.pair_bytes
    }

    /// The pairs of a cache, of devices of these sizes.
    ///
    /// # Errors
    /// As [`Pair::new`], and [`StoreErrorKind::Geometry`] when there are more than a label can say.
    pub fn several(id: CacheId, device_bytes: &[[u64; MEMBERS]]) -> Result<Vec<Pair>, StoreError> {
        let pairs = device_bytes.len();
        if pairs > PairLabel::MOST_PAIRS {
            let context = format!("{pairs} pairs of SSDs; a cache has {} at most", PairLabel::MOST_PAIRS);
            return Err(StoreError::new(StoreErrorKind::Geometry, context));
        }
        let of_bytes = |(number, &bytes)| Ok(Pair { number, pairs, ..Pair::new(id, bytes)? });
        device_bytes.iter().enumerate().map(of_bytes).collect()
    }

    /// What the labels of the members of each pair of a cache say together, pairs in the order of their numbers. `known_generations`
    /// are what the host remembers of each.
    ///
    /// # Errors
    /// As [`Pair::of`], for each pair, and [`StoreErrorKind::WrongMember`] when they are not the pairs of one cache.
    ///
    /// # Panics
    /// When there is none, or not one generation for each.
    pub fn all_of(
        labels: &[[Option<PairLabel>; MEMBERS]],
        known_generations: &[Option<u64>],
    ) -> Result<Vec<Pair>, StoreError> {
        assert!(!labels.is_empty() && labels.len() == known_generations.len(), "a generation for each pair");
        let wrong = |context: String| Err(StoreError::new(StoreErrorKind::WrongMember, context));
        let given = labels.len();
        let there = || {
            labels
                .iter()
                .enumerate()
                .flat_map(|(at, pair)| pair.iter().flatten().map(move |label| (at, label)))
        };
        let first = there().next().map(|(_, label)| label);
        for (at, label) in there() {
            let PairLabel { pair: id, number, pairs, .. } = *label;
            let (place, name) = (at + 1, number + 1);
            if pairs != given {
                return wrong(format!(
                    "an SSD that was given is of pair {name} of the {pairs} of cache {id}, and {given} were given; give all \
                     pairs of the cache, and no others"
                ));
            }
            if let Some(first) = first.filter(|first| given > 1 && first.pair != id) {
                return wrong(format!(
                    "an SSD given for pair {place} of {given} is of cache {id}, and others are of cache {}; give those that belong \
                     together",
                    first.pair
                ));
            }
            if number != at {
                return wrong(format!(
                    "an SSD given for pair {place} of {given} is of pair {name} of cache {id}; give each pair once, in the order of \
                     their numbers, with its own SSDs"
                ));
            }
        }
        let each = labels.iter().zip(known_generations).enumerate();
        each.map(|(at, (labels, &known))| {
            Pair::of(*labels, known).map_err(|error| match given {
                1 => error,
                _ => error.within(&format!("pair {} of {given}", at + 1)),
            })
        })
        .collect()
    }

    /// What the labels of the members that are there say together, of one pair, whichever of how many it is. `known_generation` is what
    /// the host remembers of the pair.
    ///
    /// A member is believed to have everything where the newest label says so, and its own is not older than the one before. Where only one is there, the other one may have
    /// gone on without it: it is believed when its own label says that the other one was dropped, or when the host remembers no
    /// later label. Of a member that does not have everything the first bytes count as resilvered that all newest labels and its own say,
    /// unless that is as old.
    ///
    /// # Errors
    /// [`StoreErrorKind::WrongMember`] when they are not of one pair, or nobody is there who is known to have everything.
    pub fn of(
        labels: [Option<PairLabel>; MEMBERS],
        known_generation: Option<u64>,
    ) -> Result<Pair, StoreError> {
        let wrong = |context: String| StoreError::new(StoreErrorKind::WrongMember, context);
        let Some(newest) = labels.iter().flatten().max_by_key(|label| label.generation) else {
            return Err(wrong("neither SSD of the pair can be read".to_owned()));
        };
        check_are_one(&labels, newest)?;
        if known_generation.is_some_and(|known| known > newest.generation) {
            return Err(wrong(old_copies(&labels, newest)));
        }
        // Every label before the newest one was written to all who had everything then. One that is older still is of a device
        // that was dropped, and in whose place another one came, or as it was in an earlier run.
        let is_outdated = |label: &PairLabel| {
            label.generation + 1 < newest.generation && !planted("replaced-member-believed")
        };
        // Those of one generation say the same, but for what went wrong on the way. Nobody has everything whom one of them says to lack it.
        let of_newest = || labels.iter().flatten().filter(|label| label.generation == newest.generation);
        let awaits_other = of_newest().all(|label| label.awaits_other);
        let is_new_believed = awaits_other && !labels.contains(&None) && planted("new-ssd-believed");
        let says_in_sync = |member: usize| is_new_believed || of_newest().all(|label| label.in_sync[member]);
        let said_in_sync = [0, 1].map(says_in_sync);
        let dropped_in =
            [0, 1].map(|member| of_newest().map(|label| label.dropped_in[member]).max().unwrap_or(0));
        let in_sync =
            [0, 1].map(|member| said_in_sync[member] && !labels[member].as_ref().is_some_and(is_outdated));
        let has_everything = |&member: &usize| in_sync[member] && labels[member].is_some();
        let complete = (0..MEMBERS).filter(has_everything).count();
        if complete == 0 {
            let context = format!(
                "the SSD of pair {} that has everything is missing; the one that is there lacks what was written since it \
                 was dropped",
                newest.pair
            );
            return Err(wrong(context));
        }
        let is_alone = complete == 1 && said_in_sync == [true; MEMBERS];
        // A label is remembered after it was written, and before anything is done on its strength.
        let is_remembered =
            known_generation.is_some_and(|known| known.saturating_add(1) >= newest.generation);
        if is_alone && !is_remembered {
            return Err(wrong(may_have_gone_on(&labels, newest)));
        }
        let device_bytes = [0, 1].map(|member| labels[member].map_or(0, |label| label.device_bytes));
        let PairLabel { pair: id, number, pairs, generation, pair_bytes, .. } = *newest;
        let said = Pair {
            id,
            number,
            pairs,
            generation,
            pair_bytes,
            device_bytes,
            in_sync: said_in_sync,
            dropped_in,
            resilvered_bytes: 0,
            awaits_other: awaits_other && !is_new_believed,
        };
        let is_missed = |&member: &usize| said_in_sync[member] && !in_sync[member];
        let mut found = (0..MEMBERS).filter(is_missed).fold(said, Pair::missing);
        let behind = (0..MEMBERS).find(|&member| !said_in_sync[member]).and_then(|member| labels[member]);
        if let Some(own) = behind.filter(|own| !is_outdated(own)) {
            let said = of_newest().map(|label| label.resilvered_bytes).min().unwrap_or(0);
            found.resilvered_bytes = said.min(own.resilvered_bytes);
        }
        Ok(found)
    }

    /// The label of a member.
    ///
    /// # Panics
    /// When it is not known in which run a member was dropped.
    pub fn label(&self, member: usize) -> PairLabel {
        assert!(!self.dropped_in.contains(&JUST_NOW), "a start says first what is missing");
        PairLabel {
            pair: self.id,
            number: self.number,
            pairs: self.pairs,
            generation: self.generation,
            device_bytes: self.device_bytes[member],
            pair_bytes: self.pair_bytes,
            member,
            in_sync: self.in_sync,
            dropped_in: self.dropped_in,
            resilvered_bytes: self.resilvered_bytes,
            awaits_other: self.awaits_other,
        }
    }

    /// The label of a device, of so many bytes, that is to be the member which does not have everything, and has nothing yet.
    ///
    /// # Panics
    /// As [`Pair::label`].
    pub fn label_of_new(&self, device_bytes: u64) -> PairLabel {
        PairLabel { device_bytes, resilvered_bytes: 0, ..self.label(usize::from(self.in_sync[0])) }
    }

    /// The member that does not have everything, and of which labels say how much it has.
    pub fn resilvered_member(&self) -> Option<usize> {
        (0..MEMBERS).find(|&member| !self.in_sync[member]).filter(|_| self.resilvered_bytes > 0)
    }

    /// Whether a member gets what is written, because what labels say of it holds no longer than that.
    pub fn writes_to(&self, member: usize) -> bool {
        self.in_sync[member] || self.resilvered_member() == Some(member)
    }

    /// The pair when this device, of so many bytes, durably has so many of the first ones as the member that does not have everything, and gets
    /// what is written.
    #[must_use]
    pub fn with_resilvered(mut self, device_bytes: u64, resilvered_bytes: u64) -> Pair {
        self.device_bytes[usize::from(self.in_sync[0])] = device_bytes;
        self.resilvered_bytes = resilvered_bytes;
        self.generation += 1;
        self
    }

    /// The pair when the member that does not have everything does not get what is written any more.
    #[must_use]
    pub fn without_resilvered(mut self) -> Pair {
        if !planted("resilvered-stays-after-a-failure") {
            self.resilvered_bytes = 0;
        }
        self.generation += 1;
        self
    }

    /// The pair when a member does not have everything any more, since the run of this epoch.
    ///
    /// # Panics
    /// When the other one does not have everything.
    #[must_use]
    pub fn without(mut self, member: usize, epoch: u64) -> Pair {
        assert!(self.in_sync[other(member)], "somebody has everything");
        self.in_sync[member] = false;
        self.dropped_in[member] = epoch;
        self.resilvered_bytes = 0;
        self.generation += 1;
        self
    }

    /// What labels are to say before commands go by it that this device, of so many bytes, has everything as this member, and what they are
    /// to say after that. Between the two it alone has clean blocks: should the second not come about, they go with it, as if it had been
    /// dropped in the run of this epoch. Where the other one had not come yet, it has from the first of them on.
    #[must_use]
    pub fn counting(self, member: usize, device_bytes: u64, epoch: u64) -> (Pair, Pair) {
        let mut before = Pair { generation: self.generation + 1, ..self };
        (before.device_bytes[member], before.awaits_other) = (device_bytes, false);
        if !planted("resilvered-member-counts-before-its-label") {
            before.dropped_in[member] = epoch;
        }
        (before, Pair { generation: before.generation, ..self }.with(member, device_bytes))
    }

    /// The pair of which a member is not there, or not what labels say, which they do not know yet.
    #[must_use]
    pub(super) fn missing(mut self, member: usize) -> Pair {
        (self.in_sync[member], self.dropped_in[member]) = (false, JUST_NOW);
        self.resilvered_bytes = 0;
        self
    }

    /// The same when labels are to say that this was after the run of this epoch.
    #[must_use]
    pub(super) fn since(mut self, epoch: u64) -> Pair {
        self.dropped_in.iter_mut().filter(|dropped_in| **dropped_in == JUST_NOW).for_each(|at| *at = epoch);
        self
    }

    /// Whether a member was dropped in the run of this epoch or a later one, and with it went what it alone had.
    pub(super) fn was_dropped_since(&self, member: usize, epoch: u64) -> bool {
        let dropped_in = self.dropped_in[member];
        if self.awaits_other && planted("awaited-ssd-counts-as-dropped") {
            return !self.in_sync[member];
        }
        dropped_in > 0 && dropped_in >= epoch && !planted("copies-of-a-replaced-member-believed")
    }

    /// The pair when this device, of so many bytes, has everything as this member.
    #[must_use]
    pub fn with(mut self, member: usize, device_bytes: u64) -> Pair {
        self.in_sync[member] = true;
        self.device_bytes[member] = device_bytes;
        (self.resilvered_bytes, self.awaits_other) = (0, false);
        self.generation += 1;
        self
    }

    /// The pair as a start that found these labels is to record it. A member whose label is not among them, because it is missing or another
    /// device is in its place, may have one that is a generation later than all that are, so that the record skips past that, by an odd
    /// number: it must not be written over the latest copy of a label.
    #[must_use]
    pub(super) fn begun(mut self, labels: [Option<PairLabel>; MEMBERS]) -> Pair {
        const SKIPPED: u64 = 3;
        let is_alone = !(0..MEMBERS).all(|member| self.writes_to(member)) || labels.contains(&None);
        if is_alone && !planted("missing-member-has-no-later-label") {
            self.generation += SKIPPED;
        }
        self
    }

    /// The one that is read first.
    pub fn first_in_sync(&self) -> usize {
        usize::from(!self.in_sync[0])
    }
}

/// Why labels are refused that are older than those which the host remembers.
fn old_copies(labels: &[Option<PairLabel>; MEMBERS], newest: &PairLabel) -> String {
    match labels {
        [Some(_), Some(_)] => format!(
            "both SSDs of pair {} are old copies: this host has served newer ones; bring those back",
            newest.pair
        ),
        _ => format!(
            "the other SSD of pair {} has gone on without the one that is there, which is older; bring back the other one",
            newest.pair
        ),
    }
}

/// Why the only member that has everything is refused, where nobody knows of the other one.
fn may_have_gone_on(labels: &[Option<PairLabel>; MEMBERS], newest: &PairLabel) -> String {
    let what = match labels {
        [Some(_), Some(_)] => format!("an old copy of one SSD of pair {} is in its place", newest.pair),
        _ => format!("one SSD of pair {} is missing", newest.pair),
    };
    format!(
        "{what}, and it cannot be told whether it has gone on without the other one, which is there; bring it back, or start where the \
         pair was served last"
    )
}

/// Refuses labels that are not those of one pair, each of its own member.
fn check_are_one(labels: &[Option<PairLabel>; MEMBERS], newest: &PairLabel) -> Result<(), StoreError> {
    let wrong = |context: String| Err(StoreError::new(StoreErrorKind::WrongMember, context));
    let there = || labels.iter().flatten();
    if let Some(stranger) = there().find(|label| label.pair != newest.pair) {
        let context = format!(
            "its SSDs are of different pairs, {} and {}; give those that belong together",
            newest.pair, stranger.pair
        );
        return wrong(context);
    }
    if let Some(other) = there().find(|label| (label.number, label.pairs) != (newest.number, newest.pairs)) {
        let context = format!(
            "its SSDs are of different pairs of cache {}, {} and {} of {}; give those that belong together",
            newest.pair,
            newest.number + 1,
            other.number + 1,
            newest.pairs.max(other.pairs)
        );
        return wrong(context);
    }
    if (0..MEMBERS).any(|member| labels[member].is_some_and(|label| label.member != member)) {
        let context = "one SSD of the pair was given twice, or a copy of it; give both".to_owned();
        return wrong(context);
    }
    Ok(())
}

/// The label of a device, if it is one of a pair.
///
/// # Errors
/// [`StoreErrorKind::NotACache`] when it is none, [`StoreErrorKind::OtherVersion`], [`StoreErrorKind::WrongSize`] when it is smaller than
/// it was, [`StoreErrorKind::Media`].
pub fn probe_pair(device: &mut dyn SyncDevice) -> Result<PairLabel, StoreError> {
    let not_one = |context: String| StoreError::new(StoreErrorKind::NotACache, context);
    if device.size_bytes() <= PairLabel::DATA_START_BYTES {
        return Err(not_one("the device is too small to be one of a pair".to_owned()));
    }
    let mut copies = [vec![0; PAGE_BYTES], vec![0; PAGE_BYTES]];
    let mut failed = None;
    for (copy, page) in copies.iter_mut().enumerate() {
        failed = read(device, DeviceLayout::superblock(copy as u8), page).err().or(failed);
    }
    let label = PairLabel::newest([&copies[0], &copies[1]]).map_err(|error| match failed {
        Some(failed) if !error.is_of_other_version() => failed,
        _ => StoreError::of_page(StoreErrorKind::NotACache, error),
    })?;
    if device.size_bytes() < label.device_bytes {
        let context = format!(
            "the device has {} bytes and came to its pair with {}; restore the size, or replace it in the pair",
            device.size_bytes(),
            label.device_bytes
        );
        return Err(StoreError::new(StoreErrorKind::WrongSize, context));
    }
    Ok(label)
}

/// How many of the two copies of its label a member of a pair has.
pub fn count_labels(device: &mut dyn SyncDevice) -> u32 {
    let mut page = vec![0; PAGE_BYTES];
    // Formatting writes one.
    let is_new = probe_pair(device).is_ok_and(|label| label.generation == 1);
    let mut is_there = |copy| {
        let is_read = read(device, DeviceLayout::superblock(copy), &mut page).is_ok();
        is_read && (PairLabel::decode(&page).is_ok() || is_new && page.iter().all(|&byte| byte == 0))
    };
    (0..2).map(|copy| u32::from(is_there(copy))).sum()
}

/// Has a member say durably what its label is to say. The copy before it stays until this one is there.
///
/// # Errors
/// [`StoreErrorKind::Media`].
pub fn write_label(device: &mut dyn SyncDevice, label: &PairLabel) -> Result<(), StoreError> {
    write(device, DeviceLayout::superblock(label.copy()), &label.encode()[..])?;
    flush(device)
}

/// Has a device say nothing of a pair, durably: it is nobody's from then on.
///
/// # Errors
/// [`StoreErrorKind::Media`].
pub fn erase_label(device: &mut dyn SyncDevice) -> Result<(), StoreError> {
    for copy in 0..2 {
        write(device, DeviceLayout::superblock(copy), &[0; PAGE_BYTES])?;
    }
    flush(device)
}

#[cfg(test)]
mod tests;
