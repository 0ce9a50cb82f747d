//! What a start found, put in order while the volume is served already: each place gets an age, and all of them are sorted by it. An order of
//! versions would be finer and take much longer. It must not know blocks.

use lode_format::EntryState;

use crate::ages::{Ages, AgesAtStart};
use crate::contents::Contents;
use crate::place::Place;
use crate::places::Places;

/// In how many steps places get ages, and in how many they are sorted. Each takes about as long as to look at all places once.
const STEPS: usize = 4;
/// Places that are looked at to divide all into eras.
const MOST_SAMPLES: usize = 1 << 16;
const AGES: usize = 1 << u8::BITS;

/// Places that hold something, on their way into an order.
#[derive(Debug)]
pub struct FoundOrder {
    /// The exact versions of each extent's places, until they have ages; none of one that holds nothing.
    versions: Vec<Box<[u64]>>,
    /// Up to which version all of them are.
    version: u64,
    held: usize,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Found,
    /// So many extents have ages. Of each age so many places are counted, and so many dirty ones.
    Aging {
        ages: Ages,
        at_start: AgesAtStart,
        extents: usize,
        counts: Box<[Counts; AGES]>,
    },
    /// So many extents are sorted. The next place of each age goes there.
    Sorting {
        extents: usize,
        ends: Box<[usize; AGES]>,
        order: Vec<Place>,
    },
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    held: usize,
    dirty: u32,
}

impl FoundOrder {
    /// So many places hold something, with versions up to this one.
    pub(crate) fn new(versions: Vec<Box<[u64]>>, version: u64, held: usize) -> FoundOrder {
        FoundOrder { versions, version, held, stage: Stage::Found }
    }

    /// Places that hold something.
    pub fn len(&self) -> usize {
        self.held
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Bytes of memory that this takes.
    pub fn memory_bytes(&self) -> usize {
        let versions: usize = self.versions.iter().map(|versions| versions.len()).sum();
        let places = match &self.stage {
            Stage::Sorting { order, .. } => order.capacity(),
            Stage::Found | Stage::Aging { .. } => 0,
        };
        versions * size_of::<u64>() + places * size_of::<Place>()
    }

    /// Goes on with a part. Once all are in order, the places: from the least recent era to the most recent one and in ascending order within
    /// each.
    pub(crate) fn advance(&mut self, contents: &mut Contents, ages: &mut Ages) -> Option<Vec<Place>> {
        if let Stage::Found = self.stage {
            let ages = Ages::new(contents.places(), &self.era_begins(contents), self.version);
            let counts = Box::new([Counts::default(); AGES]);
            self.stage = Stage::Aging { at_start: ages.at_start(), ages, extents: 0, counts };
        }
        let all = contents.extents();
        let next = |done: usize| done..all.min(done + all.div_ceil(STEPS));
        match &mut self.stage {
            Stage::Found => unreachable!("places get ages first"),
            Stage::Aging { ages: now, at_start, extents, counts } => {
                let some = next(*extents);
                *extents = some.end;
                for ordinal in some {
                    let versions = std::mem::take(&mut self.versions[ordinal]);
                    contents.set_ages(ordinal, |within, is_dirty| {
                        let age = at_start.of(versions[within]);
                        let Counts { held, dirty } = &mut counts[usize::from(age)];
                        (*held, *dirty) = (*held + 1, *dirty + u32::from(is_dirty));
                        age
                    });
                }
                if *extents == all {
                    now.found(counts.iter().map(|counts| counts.dirty));
                    std::mem::swap(ages, now);
                    self.stage = Stage::sorting(counts);
                }
                None
            }
            Stage::Sorting { extents, ends, order } => {
                let some = next(*extents);
                *extents = some.end;
                for (place, content) in contents.occupied_in(some) {
                    let at = &mut ends[usize::from(content.age)];
                    order[*at] = place;
                    *at += 1;
                }
                (*extents == all).then(|| std::mem::take(order))
            }
        }
    }

    /// With which versions the eras of what was found begin. Where much was found, some of it stands for the rest.
    fn era_begins(&self, contents: &Contents) -> Vec<u64> {
        let every = self.held.div_ceil(MOST_SAMPLES).max(1);
        let of_extent = |(ordinal, versions): (usize, &[u64])| {
            let first = ordinal * versions.len();
            let some = (0..versions.len()).step_by(every);
            let is_held = |within: &usize| contents.held((first + within) as Place).state != EntryState::Free;
            some.filter(is_held).map(|within| versions[within]).collect::<Vec<u64>>()
        };
        Ages::begins_at_start(
            self.versions.iter().map(|versions| &**versions).enumerate().flat_map(of_extent).collect(),
        )
    }
}

impl Stage {
    fn sorting(counts: &[Counts; AGES]) -> Stage {
        let (mut ends, mut before) = (Box::new([0; AGES]), 0);
        for (end, counts) in ends.iter_mut().zip(counts) {
            *end = before;
            before += counts.held;
        }
        Stage::Sorting { extents: 0, ends, order: vec![0; before] }
    }
}

impl Places {
    /// Goes on to put what was found at the start in order. Once that is done, the places that hold something, from the least recent to the
    /// most recent.
    ///
    /// # Panics
    /// When any place was used since.
    pub fn put_in_order(&mut self, found: &mut FoundOrder) -> Option<Vec<Place>> {
        assert!(
            self.version() == found.version,
            "what was found is put in order before anything else is done"
        );
        found.advance(&mut self.contents, &mut self.ages)
    }
}
