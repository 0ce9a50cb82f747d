//! Popularity scores (ETICA Eq. 1) with ageing, and the order of blocks by score.
//!
//! `popularity(B) = sum over B's accesses of exp(-POD / cache size)`, every score multiplied by `ageing`
//! at the end of each promotion interval. Instead of ageing every score, the worth of a new access grows
//! by `1 / ageing` an interval ("inflation"): the order of the scores is the same and an interval costs
//! nothing. When the inflation gets large, all scores are scaled down by a power of two, exactly.
//!
//! Where the best few percent of the candidates begin is found by counting scores in classes of a sixteenth of an octave
//! (six percent), kept up to date at every change.

use lode_types::BlockNo;

use super::config::Config;
use super::records::{Record, Records};
use super::worst::Worst;
use crate::parts::growth;

/// A power of two: scaling by it is exact. A score is at most a few billion times as large, which still is a number.
const LARGEST_INFLATION: f32 = (1u128 << 80) as f32;

/// A smaller factor leaves nothing that single precision could tell from nothing.
const LEAST_AGEING: f32 = 1.0 / (1u64 << 40) as f32;

/// A block outside the SSD that has a score.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// Both as in the record, so that nobody has to fetch it to see whether it stands a chance.
    pub(super) block: BlockNo,
    pub(super) score: f32,
    pub(super) id: u32,
}

/// How many blocks have a score of each class.
#[derive(Debug)]
pub(super) struct Classes {
    counts: Box<[u32; Classes::COUNT]>,
    total: u32,
}

impl Classes {
    pub(super) const KEPT_MANTISSA_BITS: u32 = 4;
    const COUNT: usize = 1 << (8 + Self::KEPT_MANTISSA_BITS);

    fn new() -> Classes {
        Classes { counts: Box::new([0; Self::COUNT]), total: 0 }
    }

    /// The class of a score, growing with it: the float's exponent and first mantissa bits.
    #[inline]
    pub(super) fn of(score: f32) -> u32 {
        score.to_bits() >> (23 - Self::KEPT_MANTISSA_BITS)
    }

    #[inline]
    fn count_mut(&mut self, score: f32) -> &mut u32 {
        &mut self.counts[Self::of(score) as usize % Self::COUNT]
    }

    #[inline]
    fn add(&mut self, score: f32) {
        *self.count_mut(score) += 1;
        self.total += 1;
    }

    #[inline]
    fn remove(&mut self, score: f32) {
        *self.count_mut(score) -= 1;
        self.total -= 1;
    }

    /// Whether the class changes nothing foretells, so that nobody asks.
    #[inline]
    fn change(&mut self, from: f32, to: f32) {
        *self.count_mut(from) -= 1;
        *self.count_mut(to) += 1;
    }

    fn clear(&mut self) {
        self.counts.fill(0);
        self.total = 0;
    }

    /// The lowest class that the best `share` of the blocks reaches, and how many of its blocks are among them; `None`
    /// without blocks.
    pub(super) fn best(&self, share: Share) -> Option<(u32, usize)> {
        let mut wanted = share.of(self.total as usize);
        for (class, &count) in self.counts.iter().enumerate().rev() {
            let count = count as usize;
            if count >= wanted && count > 0 {
                return Some((class as u32, wanted));
            }
            wanted -= count;
        }
        None
    }
}

/// A part of some blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    percent: f64,
}

impl Share {
    /// A product this little above a whole number is one that was not rounded well.
    const ROUNDING: f64 = 1e-12;

    pub(super) fn of_percent(percent: f64) -> Share {
        Share { percent }
    }

    /// So many of `count` blocks, rounded up.
    pub(super) fn of(self, count: usize) -> usize {
        (count as f64 * self.percent / 100.0 * (1.0 - Self::ROUNDING)).ceil() as usize
    }
}

/// Scores' surroundings: who is a candidate, how candidates' scores are spread, and who is worst in the SSD.
#[derive(Debug)]
pub(super) struct Popularity {
    pub(super) candidates: Vec<Candidate>,
    pub(super) outside: Classes,
    pub(super) inside: Worst,
    inflation: f32,
    ageing: f32,
    floor: f32,
    on: bool,
}

impl Popularity {
    pub(super) fn new(config: &Config) -> Popularity {
        Popularity {
            candidates: Vec::new(),
            outside: Classes::new(),
            inside: Worst::default(),
            inflation: 1.0,
            ageing: if config.ageing < LEAST_AGEING { 0.0 } else { config.ageing },
            floor: config.score_floor,
            on: config.promotes(),
        }
    }

    /// Counts what an access at distance `pod`, if it counts, contributes to the popularity of its block (Eq. 1).
    #[inline]
    pub(super) fn add(&mut self, record: &mut Record, id: u32, pod: Option<u32>, cache_blocks: u32) {
        let Some(pod) = pod else { return };
        if !self.on || cache_blocks == 0 {
            return;
        }
        let worth = (-(pod as f32) / cache_blocks as f32).exp() * self.inflation;
        let before = record.score;
        record.score = before + worth;
        if record.ssd_slot().is_some() {
            return;
        }
        if let Some(place) = record.candidate() {
            self.outside.change(before, record.score);
            self.candidates[place as usize].score = record.score;
        } else {
            self.track(record, id);
        }
    }

    /// The block enters the SSD. Call before its record gets a slot.
    #[inline]
    pub(super) fn enter(&mut self, records: &mut Records, id: u32) {
        if self.on {
            self.untrack(records, id);
            self.inside.enter(records[id as usize].standing(), id);
        }
    }

    /// The block has left the SSD and its record says so.
    pub(super) fn leave(&mut self, records: &mut Records, id: u32) {
        if self.on {
            let record = &mut records[id as usize];
            self.inside.leave(record.standing());
            self.track(record, id);
        }
    }

    /// Makes a block with a score a candidate.
    fn track(&mut self, record: &mut Record, id: u32) {
        if record.score > 0.0 {
            record.set_candidate(self.candidates.len() as u32);
            growth::push(&mut self.candidates, Candidate { block: record.block, score: record.score, id });
            self.outside.add(record.score);
        }
    }

    /// Strikes a block off the candidates, if it is one. Its score stays.
    pub(super) fn untrack(&mut self, records: &mut Records, id: u32) {
        let Some(place) = records[id as usize].candidate() else { return };
        records[id as usize].clear_ssd();
        self.outside.remove(self.candidates[place as usize].score);
        self.candidates.swap_remove(place as usize);
        if let Some(moved) = self.candidates.get(place as usize) {
            records[moved.id as usize].set_candidate(place);
        }
    }

    /// Drops candidates whose score aged below the floor.
    pub(super) fn drop_faded(&mut self, records: &mut Records) {
        let floor = self.floor * self.inflation;
        let faded = self.candidates.iter().filter(|candidate| candidate.score < floor);
        let faded: Vec<u32> = faded.map(|candidate| candidate.id).collect();
        // The last candidates will take the places of those that go.
        let last = self.candidates.iter().rev().map(|candidate| candidate.id);
        faded.iter().copied().chain(last.take(faded.len())).for_each(|id| records.prefetch(id));
        for id in faded {
            self.untrack(records, id);
            records[id as usize].score = 0.0;
        }
    }

    /// Ages every score. Says by what factor the scores themselves were multiplied, if they were: whoever
    /// keeps scores must do the same.
    pub(super) fn age(&mut self, records: &mut Records) -> Option<f32> {
        if self.ageing == 0.0 {
            self.scale(records, 0.0);
            return Some(0.0);
        }
        self.inflation /= self.ageing;
        if self.inflation < LARGEST_INFLATION {
            return None;
        }
        self.inflation /= LARGEST_INFLATION;
        self.scale(records, 1.0 / LARGEST_INFLATION);
        Some(1.0 / LARGEST_INFLATION)
    }

    fn scale(&mut self, records: &mut Records, factor: f32) {
        self.inside.clear();
        for slice in records.slices_mut() {
            slice.iter_mut().for_each(|record| record.score *= factor);
        }
        self.outside.clear();
        for Candidate { id, .. } in std::mem::take(&mut self.candidates) {
            let record = &mut records[id as usize];
            record.clear_ssd();
            self.track(record, id);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.candidates.capacity() * size_of::<Candidate>()
            + self.outside.counts.len() * size_of::<u32>()
            + self.inside.memory_bytes()
    }
}
