//! How old what places hold is, in a byte a place. Exact versions are needed only of what is not durable yet
//! ([`crate::young`]); of the rest it is enough to know which came before others, and what came before a certain moment.
//!
//! Time is divided into *eras*, each of which begins with a version: after so many versions, and where somebody marks a
//! moment in order to tell later what came before it. A place's age is the number of its era, counted from the base of its
//! group of neighbours. When that does not fit any more, the group's base rises, and what is older than the new base
//! counts as of the base's era from then on, with the age 0.
//!
//! How many places of each era are dirty is counted, so that the age of the oldest is known.
//!
//! It must not know which blocks places hold, or what is durable.

use std::collections::VecDeque;

use lode_format::EntryState;
use lode_types::Counter;

use crate::contents::{Content, Contents};
use crate::place::Place;

/// Places whose ages count from the same base.
const GROUP_PLACES: u32 = 256;
/// Eras behind the present one that a group tells apart when its base has just risen.
const ERAS_KEPT: u64 = 128;
/// Eras whose first version is known. Of one before these it is known that it ended before the first of them.
const MOST_BEGINS: usize = 1024;
/// A volume turns over once in so many eras.
const ERAS_PER_TURNOVER: u32 = 64;
/// Eras into which a start divides what it found.
const ERAS_AT_START: usize = 128;

/// A number of an era: of which two the larger one is later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Era(u64);

/// Eras, and from which one each group of places counts.
#[derive(Debug)]
pub(crate) struct Ages {
    /// The first versions of eras, ascending. The last one goes on.
    begins: VecDeque<u64>,
    /// The era of the first of these.
    oldest: u64,
    versions_per_era: u64,
    bases: Vec<u64>,
    /// Dirty places of each of these eras, and those that are older, or may be.
    dirty: VecDeque<u32>,
    dirty_before: u32,
}

/// See [`Ages::at_start`]. Versions are divided into equal parts, in most of which no era or one begins.
#[derive(Debug)]
pub(crate) struct AgesAtStart {
    oldest: u8,
    begins: Vec<u64>,
    from: u64,
    shift: u32,
    /// How many eras begin before each part; the last one begins in the part before the last.
    parts: Vec<u8>,
}

impl AgesAtStart {
    const PARTS_LOG2: u32 = 12;

    pub(crate) fn of(&self, version: u64) -> u8 {
        let part = (version.saturating_sub(self.from) >> self.shift) as usize;
        let part = part.min(self.parts.len() - 2);
        let (before, to) = (self.parts[part] as usize, self.parts[part + 1] as usize);
        let begun = before + self.begins[before..to].iter().filter(|&&begin| begin <= version).count();
        self.oldest + begun as u8 - 1
    }
}

impl Ages {
    /// Of a volume of so many places. What a start found is divided into eras by these versions, in ascending order; all of it is up to
    /// `version`.
    pub(crate) fn new(places: u32, begins: &[u64], version: u64) -> Ages {
        let mut ages = Ages {
            begins: VecDeque::new(),
            oldest: 1,
            versions_per_era: 1,
            bases: Vec::new(),
            dirty: VecDeque::new(),
            dirty_before: 0,
        };
        ages.begin(0);
        begins.iter().for_each(|&begin| ages.begin(begin));
        ages.begin(version + 1);
        ages.set_places(places);
        ages
    }

    /// The versions with which what a start found is divided into eras that have as much each: of so many versions, in any order, those that
    /// begin one.
    pub(crate) fn begins_at_start(mut versions: Vec<u64>) -> Vec<u64> {
        versions.sort_unstable();
        let per_era = versions.len().div_ceil(ERAS_AT_START).max(1);
        versions.into_iter().step_by(per_era).collect()
    }

    /// There are so many places from now on.
    pub(crate) fn set_places(&mut self, places: u32) {
        let groups = places.div_ceil(GROUP_PLACES) as usize;
        self.bases.reserve_exact(groups.saturating_sub(self.bases.len()));
        self.bases.resize(groups, 0);
        self.bases.shrink_to_fit();
        self.versions_per_era = u64::from(places / ERAS_PER_TURNOVER).max(1);
    }

    fn begin(&mut self, version: u64) {
        if self.begins.back().is_none_or(|&last| last < version) {
            self.begins.push_back(version);
            self.dirty.push_back(0);
        }
        if self.begins.len() > MOST_BEGINS {
            self.begins.pop_front();
            self.dirty_before += self.dirty.pop_front().unwrap_or(0);
            self.oldest += 1;
        }
    }

    fn present(&self) -> u64 {
        self.oldest + self.begins.len() as u64 - 1
    }

    /// A record gets this version.
    pub(crate) fn note(&mut self, version: u64) {
        let last = self.begins.back().copied().unwrap_or(0);
        if version >= last + self.versions_per_era {
            self.begin(version);
        }
    }

    /// What gets this version or a later one can be told from what had an earlier one.
    pub(crate) fn mark(&mut self, version: u64) {
        self.begin(version);
    }

    /// The age of what a place holds from now on.
    pub(crate) fn now(&mut self, place: Place, contents: &mut Contents) -> u8 {
        let present = self.present();
        let group = (place / GROUP_PLACES) as usize;
        let base = self.bases[group];
        if present - base > u64::from(u8::MAX) {
            let rise = present - ERAS_KEPT - base;
            self.bases[group] += rise;
            let lost = u8::try_from(rise).unwrap_or(u8::MAX);
            let first = place / GROUP_PLACES * GROUP_PLACES;
            for place in first..(first + GROUP_PLACES).min(contents.places()) {
                let before = contents.get(place);
                let content = Content { age: before.age.saturating_sub(lost), ..before };
                contents.set(place, content);
                if content.held.state == EntryState::Dirty {
                    self.dirty_of(before.age, Era(base + u64::from(before.age))).count_down();
                    *self.dirty_of(content.age, self.era(place, content.age)) += 1;
                }
            }
        }
        (present - self.bases[group]) as u8
    }

    /// The number of dirty places to which one with this age belongs: those of its era, or those of which it is not known any
    /// more how old they are.
    fn dirty_of(&mut self, age: u8, Era(era): Era) -> &mut u32 {
        match era.checked_sub(self.oldest).filter(|_| age > 0) {
            Some(at) => &mut self.dirty[at as usize],
            None => &mut self.dirty_before,
        }
    }

    /// A place holds something else from now on, or something with another age.
    pub(crate) fn changes(&mut self, place: Place, from: &Content, to: &Content) {
        if from.held.state == EntryState::Dirty {
            self.dirty_of(from.age, self.era(place, from.age)).count_down();
        }
        if to.held.state == EntryState::Dirty {
            *self.dirty_of(to.age, self.era(place, to.age)) += 1;
        }
    }

    /// A start found so many dirty places of each age from 0 on, which is that of those whose ages are not known yet.
    pub(crate) fn found(&mut self, dirty: impl Iterator<Item = u32>) {
        for (age, dirty) in (0..=u8::MAX).zip(dirty).filter(|&(_, dirty)| dirty > 0) {
            *self.dirty_of(age, Era(age.into())) += dirty;
        }
    }

    /// The first version of the era of the oldest dirty place; 0 where that is not known any more, and `None` without one.
    pub(crate) fn oldest_dirty(&self) -> Option<u64> {
        match self.dirty.iter().position(|&dirty| dirty > 0) {
            _ if self.dirty_before > 0 => Some(0),
            at => Some(self.begins[at?]),
        }
    }

    /// Tells the ages of what a start found, by their versions, which it is asked for millions of times.
    pub(crate) fn at_start(&self) -> AgesAtStart {
        let begins: Vec<u64> = self.begins.iter().copied().collect();
        u8::try_from(self.oldest as usize + begins.len()).expect("a start knows few eras");
        // The first era begins with 0, which may be long before all versions.
        let from = begins.get(1).copied().unwrap_or(0);
        let last = begins.last().copied().unwrap_or(0).saturating_sub(from);
        let shift = (u64::BITS - last.leading_zeros()).saturating_sub(AgesAtStart::PARTS_LOG2);
        let begun_before =
            |part: u64| begins.partition_point(|&begin| begin.saturating_sub(from) >> shift < part) as u8;
        let parts = (0..=(last >> shift) + 1).map(begun_before).collect();
        AgesAtStart { oldest: self.oldest as u8, begins, from, shift, parts }
    }

    /// The era of what a place with this age holds, or a later one.
    pub(crate) fn era(&self, place: Place, age: u8) -> Era {
        Era(self.bases[(place / GROUP_PLACES) as usize] + u64::from(age))
    }

    /// The latest era with versions up to this one.
    pub(crate) fn era_of(&self, version: u64) -> Era {
        let begun = self.begins.partition_point(|&begin| begin <= version) as u64;
        Era(self.oldest + begun - 1)
    }

    /// Whether what a place with this age holds may be of this era or an earlier one. Where its age is not known any more, it
    /// may be.
    pub(crate) fn is_up_to(&self, place: Place, age: u8, era: Era) -> bool {
        age == 0 || self.era(place, age) <= era
    }

    /// A version that is no earlier than that of what a place with this age holds; `None`: any that there is now.
    pub(crate) fn latest_version(&self, place: Place, age: u8) -> Option<u64> {
        let Era(era) = self.era(place, age);
        let next = (era + 1).saturating_sub(self.oldest) as usize;
        self.begins.get(next).map(|begin| begin - 1)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        (self.bases.capacity() + self.begins.capacity()) * size_of::<u64>()
            + self.dirty.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::contents::HeldBlock;

    fn put(ages: &mut Ages, contents: &mut Contents, place: Place) {
        let age = ages.now(place, contents);
        let held = HeldBlock { state: EntryState::Dirty, block: 1, crc: 2 };
        let content = Content { held, is_volatile: false, age };
        ages.changes(place, &contents.get(place), &content);
        contents.set(place, content);
    }

    proptest! {
        #[test]
        fn ages_at_a_start_are_eras(
            shift in 0u32..60,
            from in any::<u32>(),
            mut versions in proptest::collection::vec(any::<u64>(), 0..400),
        ) {
            versions.iter_mut().for_each(|version| *version = u64::from(from) + (*version >> 4 >> shift));
            let last = versions.iter().max().copied().unwrap_or(0);
            let ages = Ages::new(10, &Ages::begins_at_start(versions.clone()), last);
            let at_start = ages.at_start();
            for version in versions.into_iter().chain([0, 1, last + 1, u64::MAX]) {
                prop_assert_eq!(u64::from(at_start.of(version)), ages.era_of(version).0);
            }
        }

        /// What is known of a version is never wrong, and exact at moments that were marked not long ago.
        #[test]
        fn ages_stand_for_versions(steps in proptest::collection::vec((0u32..600, 0u32..40), 1..700)) {
            let mut contents = Contents::new(300, 1 << 20);
            (0..2).for_each(|ordinal| contents.insert_extent(ordinal));
            let found = [(3, 5), (4, 9), (280, 9), (299, 70)];
            let begins = Ages::begins_at_start(found.map(|(_, version)| version).to_vec());
            let mut ages = Ages::new(600, &begins, 80);
            let at_start = ages.at_start();
            let mut versions: Vec<Option<u64>> = vec![None; 600];
            for (place, version) in found {
                put(&mut ages, &mut contents, place);
                let content = Content { age: at_start.of(version), ..contents.get(place) };
                ages.changes(place, &contents.get(place), &content);
                contents.set(place, content);
                versions[place as usize] = Some(version);
            }
            let mut version = 80;
            let mut marks = VecDeque::new();
            for (place, what) in steps {
                version += 1;
                ages.note(version);
                put(&mut ages, &mut contents, place);
                versions[place as usize] = Some(version);
                if what == 0 {
                    ages.mark(version + 1);
                    marks.push_back(version);
                }
            }
            for (place, exact) in (0..).zip(&versions) {
                let Some(exact) = *exact else { continue };
                let age = contents.get(place).age;
                prop_assert!(ages.latest_version(place, age).is_none_or(|latest| latest >= exact && latest <= version));
                for &mark in &marks {
                    let is_before = ages.is_up_to(place, age, ages.era_of(mark));
                    prop_assert!(is_before || exact > mark, "what was there is found");
                    prop_assert!(exact <= mark || age == 0 || !is_before, "{} is not before {}", exact, mark);
                }
                prop_assert!(ages.is_up_to(place, age, ages.era_of(u64::MAX)));
            }
            let oldest = contents.occupied().map(|(place, content)| ages.era(place, content.age)).min();
            let oldest = oldest.map(|era| if era.0 < ages.oldest { 0 } else { ages.begins[(era.0 - ages.oldest) as usize] });
            prop_assert_eq!(ages.oldest_dirty(), oldest);
        }
    }

    /// Ages of a group that is written all the time saturate, and those of others stay what they are.
    #[test]
    fn what_is_too_old_counts_as_old() {
        let mut contents = Contents::new(600, 1 << 20);
        contents.insert_extent(0);
        let mut ages = Ages::new(600, &[], 0);
        put(&mut ages, &mut contents, 0);
        put(&mut ages, &mut contents, 300);
        let at_first = ages.era_of(1);
        for version in 1..=2000 {
            ages.mark(version);
            put(&mut ages, &mut contents, 1);
        }
        let age = |place| contents.get(place).age;
        assert_eq!((age(0), age(300) > 0), (0, true));
        assert!(ages.is_up_to(0, age(0), at_first) && ages.is_up_to(300, age(300), at_first));
        assert!(!ages.is_up_to(1, age(1), at_first));
        assert_eq!(ages.latest_version(1, age(1)), None);
        let latest = ages.latest_version(0, 0).expect("an era that is over");
        assert!((1..2000).contains(&latest), "{latest}");
        assert!(ages.begins.len() <= MOST_BEGINS);
        assert_eq!(ages.oldest_dirty(), Some(0), "place 300 has been dirty for longer than eras are kept");
        let gone = contents.get(300);
        ages.changes(300, &gone, &Content::default());
        assert_eq!(
            ages.oldest_dirty(),
            Some(0),
            "nor is it known any more of place 0, whose group was written all the time"
        );
        let gone = contents.get(0);
        ages.changes(0, &gone, &Content::default());
        assert_eq!(ages.oldest_dirty(), Some(2000), "place 1 was written last");
    }
}
