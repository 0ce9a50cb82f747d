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
        let in_sync = [true; MEMBERS];
        let dropped_in = [0; MEMBERS];
        Ok(Pair { id, number: 0, pairs: 1, generation: 1, pair_bytes, device_bytes, in_sync, dropped_in })
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
    /// later label.
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
        let said_in_sync = [0, 1].map(|member| of_newest().all(|label| label.in_sync[member]));
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
        };
        let is_missed = |&member: &usize| said_in_sync[member] && !in_sync[member];
        Ok((0..MEMBERS).filter(is_missed).fold(said, Pair::missing))
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
        }
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
        self.generation += 1;
        self
    }

    /// What labels are to say before commands go by it that this device, of so many bytes, has everything as this member, and what they are
    /// to say after that. Between the two it alone has clean blocks: should the second not come about, they go with it, as if it had been
    /// dropped in the run of this epoch.
    #[must_use]
    pub fn counting(self, member: usize, device_bytes: u64, epoch: u64) -> (Pair, Pair) {
        let mut before = Pair { generation: self.generation + 1, ..self };
        before.device_bytes[member] = device_bytes;
        if !planted("resilvered-member-counts-before-its-label") {
            before.dropped_in[member] = epoch;
        }
        (before, Pair { generation: before.generation, ..self }.with(member, device_bytes))
    }

    /// The pair of which a member is not there, or not what labels say, which they do not know yet.
    #[must_use]
    pub(super) fn missing(mut self, member: usize) -> Pair {
        (self.in_sync[member], self.dropped_in[member]) = (false, JUST_NOW);
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
        dropped_in > 0 && dropped_in >= epoch && !planted("copies-of-a-replaced-member-believed")
    }

    /// The pair when this device, of so many bytes, has everything as this member.
    #[must_use]
    pub fn with(mut self, member: usize, device_bytes: u64) -> Pair {
        self.in_sync[member] = true;
        self.device_bytes[member] = device_bytes;
        self.generation += 1;
        self
    }

    /// The pair as a start that found these labels is to record it. A member whose label is not among them, because it is missing or another
    /// device is in its place, may have one that is a generation later than all that are, so that the record skips past that, by an odd
    /// number: it must not be written over the latest copy of a label.
    #[must_use]
    pub(super) fn begun(mut self, labels: [Option<PairLabel>; MEMBERS]) -> Pair {
        const SKIPPED: u64 = 3;
        let is_alone = self.in_sync != [true; MEMBERS] || labels.contains(&None);
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
mod tests {
    use super::*;

    fn pair() -> Pair {
        Pair::new(CacheId([3; 16]), [9 << 20, 8 << 20]).unwrap()
    }

    fn kind(found: Result<Pair, StoreError>) -> StoreErrorKind {
        found.expect_err("it is refused").kind()
    }

    #[test]
    fn the_newest_label_speaks_for_both() {
        let pair = pair();
        assert_eq!((pair.pair_bytes, pair.first_in_sync()), (7 << 20, 0));
        let both = [Some(pair.label(0)), Some(pair.label(1))];
        assert_eq!(Pair::of(both, None), Ok(pair));
        assert_eq!(Pair::of(both, Some(1)), Ok(pair));
        // The first was dropped, and does not know it.
        let alone = pair.without(0, 1);
        let found = Pair::of([Some(pair.label(0)), Some(alone.label(1))], None).unwrap();
        assert_eq!((found.in_sync, found.generation, found.first_in_sync()), ([false, true], 2, 1));
        // It has everything again, and only one of the two says so yet.
        let again = alone.with(0, 10 << 20);
        let found = Pair::of([Some(again.label(0)), Some(alone.label(1))], Some(2)).unwrap();
        assert_eq!((found.in_sync, found.device_bytes), ([true, true], [10 << 20, 8 << 20]));
        // Of two of one generation that do not say the same nobody is believed whom one of them says to lack something.
        let other = Pair { generation: again.generation, ..alone };
        for labels in [[again.label(0), other.label(1)], [other.label(0), again.label(1)]] {
            assert_eq!(Pair::of(labels.map(Some), None).unwrap().in_sync, [false, true]);
        }
    }

    #[test]
    fn one_alone_is_believed_when_the_other_one_cannot_have_gone_on() {
        let pair = pair();
        let alone = pair.without(0, 1);
        assert!(Pair::of([None, Some(alone.label(1))], None).is_ok());
        assert!(Pair::of([None, Some(pair.label(1))], Some(1)).is_ok());
        // It has everything again, and nobody remembers it yet.
        assert!(Pair::of([Some(alone.with(0, 9 << 20).label(0)), None], Some(2)).is_ok());
        for (labels, known) in [
            ([None, Some(pair.label(1))], None),
            ([Some(pair.label(0)), None], Some(2)),
            ([Some(alone.label(0)), None], Some(2)),
            ([None, None], None),
            // Both are copies of what they were.
            ([Some(pair.label(0)), Some(pair.label(1))], Some(2)),
        ] {
            assert_eq!(kind(Pair::of(labels, known)), StoreErrorKind::WrongMember, "{labels:?} {known:?}");
        }
    }

    #[test]
    fn one_that_was_replaced_is_not_believed_when_it_comes_back() {
        let pair = pair();
        let again = pair.without(0, 1).with(0, 9 << 20);
        // The first is the one in whose place another came, which has everything and is elsewhere.
        let labels = [Some(pair.label(0)), Some(again.label(1))];
        let found = Pair::of(labels, Some(again.generation)).unwrap();
        assert_eq!((found.in_sync, found.generation), ([false, true], 3));
        // The one that came may have gone on without the second.
        assert_eq!(kind(Pair::of(labels, None)), StoreErrorKind::WrongMember);
        assert_eq!(kind(Pair::of(labels, Some(1))), StoreErrorKind::WrongMember);
        assert_eq!(kind(Pair::of(labels, Some(4))), StoreErrorKind::WrongMember);
    }

    /// One is put back as it was in an earlier run: labels of runs are two generations apart at least, those of a start that was cut short one.
    #[test]
    fn one_as_it_was_in_an_earlier_run_is_not_believed() {
        let older = pair();
        let (mut begun, mut later) = (older, older);
        begun.generation += 1;
        later.generation += 2;
        let of =
            |one: &Pair, other: &Pair, known| Pair::of([Some(one.label(0)), Some(other.label(1))], known);
        let in_sync = |one, other| of(one, other, Some(later.generation)).unwrap().in_sync;
        assert_eq!(in_sync(&later, &older), [true, false]);
        assert_eq!(in_sync(&older, &later), [false, true]);
        assert_eq!(of(&begun, &older, Some(1)).unwrap().in_sync, [true; MEMBERS]);
        assert_eq!(in_sync(&later, &begun), [true; MEMBERS]);
        // Where nobody remembers, the one that is newer there may not be the newest.
        let refused = of(&later, &older, None).unwrap_err();
        assert!(refused.to_string().contains("an old copy of one SSD"), "{refused}");
        let refused = of(&older, &older, Some(later.generation)).unwrap_err();
        assert!(refused.to_string().contains("both SSDs of pair"), "{refused}");
    }

    /// The host goes down between the two labels that say that a member has everything, its own and then the other one's.
    #[test]
    fn g9_one_that_came_and_is_missed_at_the_next_start_is_not_believed_when_it_is_back() {
        let before = pair().without(1, 1);
        let after = before.with(1, 9 << 20);
        let both = [Some(before.label(0)), Some(after.label(1))];
        assert_eq!(Pair::of(both, Some(before.generation)).unwrap().in_sync, [true; MEMBERS]);
        // Either of them may be missing.
        assert!(Pair::of([None, both[1]], Some(before.generation)).is_ok());
        let alone = Pair::of([both[0], None], Some(before.generation)).unwrap().begun([both[0], None]);
        let back = Pair::of([Some(alone.label(0)), both[1]], Some(alone.generation)).unwrap();
        assert_eq!(back.in_sync, [true, false], "what was written meanwhile it lacks");
        // The one in whose place it came may be there instead.
        let older = [both[0], Some(pair().label(1))];
        let alone = Pair::of(older, Some(before.generation)).unwrap().begun(older);
        let back = Pair::of([Some(alone.label(0)), both[1]], Some(alone.generation)).unwrap();
        assert_eq!(back.in_sync, [true, false], "what was written meanwhile it lacks");
    }

    #[test]
    fn strangers_and_copies_are_refused() {
        let (one, other) = (pair(), Pair { id: CacheId([4; 16]), ..pair() });
        for labels in
            [[one.label(0), other.label(1)], [one.label(0), one.label(0)], [one.label(1), one.label(0)]]
        {
            assert_eq!(kind(Pair::of(labels.map(Some), None)), StoreErrorKind::WrongMember);
        }
        assert_eq!(
            Pair::new(CacheId([3; 16]), [1 << 20, 8 << 20]).expect_err("no room").kind(),
            StoreErrorKind::Geometry
        );
    }

    fn three() -> Vec<Pair> {
        Pair::several(CacheId([3; 16]), &[[9 << 20, 8 << 20], [8 << 20; 2], [30 << 20; 2]]).unwrap()
    }

    fn labels_of(pair: &Pair) -> [Option<PairLabel>; MEMBERS] {
        [0, 1].map(|member| Some(pair.label(member)))
    }

    #[test]
    fn each_pair_of_a_cache_is_judged_by_its_own_labels() {
        let pairs = three();
        let sizes = pairs.iter().map(|pair| pair.pair_bytes >> 20);
        assert_eq!(sizes.collect::<Vec<_>>(), [7, 7, 29]);
        let mut labels: Vec<_> = pairs.iter().map(labels_of).collect();
        assert_eq!(Pair::all_of(&labels, &[None; 3]).unwrap(), pairs);
        // In each another member is missing, or was dropped.
        let alone = pairs[1].without(0, 1);
        labels[0][1] = None;
        labels[1][1] = Some(alone.label(1));
        let found = Pair::all_of(&labels, &[Some(1), None, Some(1)]).unwrap();
        assert_eq!(
            found.iter().map(|pair| pair.in_sync).collect::<Vec<_>>(),
            [[true; 2], [false, true], [true; 2]]
        );
        // Nobody remembers the first.
        let refused = Pair::all_of(&labels, &[None; 3]).unwrap_err();
        assert!(refused.to_string().contains("pair 1 of 3: one SSD"), "{refused}");
        // All of the third is missing.
        labels[2] = [None, None];
        let refused = Pair::all_of(&labels, &[Some(1); 3]).unwrap_err();
        assert!(refused.to_string().contains("pair 3 of 3: neither SSD"), "{refused}");
        assert_eq!(refused.kind(), StoreErrorKind::WrongMember);
    }

    #[test]
    fn pairs_that_are_not_one_cache_are_refused_by_number() {
        let pairs = three();
        let all: Vec<_> = pairs.iter().map(labels_of).collect();
        let stranger = labels_of(&Pair { id: CacheId([4; 16]), ..pairs[1] });
        let mixed = [Some(pairs[1].label(0)), Some(pairs[2].label(1))];
        for (given, words) in [
            (vec![all[0], stranger, all[2]], "for pair 2 of 3 is of cache 04"),
            (vec![all[0], all[2], all[1]], "for pair 2 of 3 is of pair 3"),
            (vec![all[0], all[1], all[1]], "for pair 3 of 3 is of pair 2"),
            (vec![all[0], mixed, all[2]], "for pair 2 of 3 is of pair 3"),
            (vec![all[0], all[1]], "pair 1 of the 3 of cache 03"),
            (vec![all[2]], "pair 3 of the 3"),
            (vec![all[0], all[1], all[2], all[0]], "and 4 were given"),
            (vec![labels_of(&pair()), labels_of(&pair())], "pair 1 of the 1"),
        ] {
            let refused = Pair::all_of(&given, &vec![Some(1); given.len()]).unwrap_err();
            assert!(refused.to_string().contains(words), "{words}: {refused}");
            assert_eq!(refused.kind(), StoreErrorKind::WrongMember);
        }
        assert_eq!(kind(Pair::of(mixed, Some(1))), StoreErrorKind::WrongMember);
        assert!(pairs[1..].iter().all(|pair| Pair::of(labels_of(pair), Some(1)) == Ok(*pair)));
        let many = vec![[8 << 20; 2]; PairLabel::MOST_PAIRS + 1];
        assert_eq!(Pair::several(CacheId([3; 16]), &many).unwrap_err().kind(), StoreErrorKind::Geometry);
    }
}
