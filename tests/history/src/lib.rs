//! What a disk that is written in the order of its guest's flushes may hold: the oracle of guarantee 11, for the simulator and the
//! attack from outside. It must not know how the guarantee is kept, nor how contents of sectors are told apart.
//!
//! A state is in order when there is a moment at which a power cut could have left it of a disk that loses nothing which it
//! acknowledged: what was acknowledged before that moment is there, what was submitted after it is not, and of what was under way
//! each sector is or is not. So every content of a sector allows the moments from its write's submission to the acknowledgement of
//! a later write of that sector, and a state is in order when all of its sectors have a moment in common. Moments are counted in
//! submissions and answers.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::fmt::Debug;
use std::ops::Range;

/// When what has no answer was acknowledged.
const NEVER: u64 = u64::MAX;
/// Sectors that a message tells of.
const MOST_TOLD: usize = 4;

/// What a sector is found to hold, which a message shows.
pub trait Content: Debug {
    /// What a request does to its sectors.
    type Change: Copy + Debug;

    /// Whether the sector may hold this after a change, which write number `write` made.
    fn may_follow(&self, sector: usize, write: u32, change: Self::Change) -> bool;
    /// Whether a sector has one content, and no other, after a change that was acknowledged.
    fn is_certain_after(change: Self::Change) -> bool;
    /// A change that leaves this content and no other, and the number of its write.
    fn as_change(&self) -> (u32, Self::Change);
}

/// A change of a sector.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Past<C> {
    write: u32,
    change: C,
    submitted: u64,
    acknowledged: u64,
}

/// All changes of one disk, in the order in which they were submitted.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct History<C> {
    /// What each sector was before its first change.
    first: Past<C>,
    sectors: Vec<Vec<Past<C>>>,
    now: u64,
    /// Not saved: who reads a history again submits nothing that was under way.
    #[cfg_attr(feature = "serde", serde(skip))]
    under_way: HashMap<u32, Range<usize>>,
}

impl<C: Copy + Debug> History<C> {
    /// Of a disk of so many sectors, all of which are as `first` left them.
    pub fn new(sectors: usize, first: C) -> History<C> {
        let first = Past { write: 0, change: first, submitted: 0, acknowledged: 0 };
        History { first, sectors: vec![Vec::new(); sectors], now: 0, under_way: HashMap::new() }
    }

    /// The moment that it is.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// A change is submitted. No other one has its number.
    pub fn submit(&mut self, write: u32, sectors: Range<usize>, change: C) {
        self.now += 1;
        let past = Past { write, change, submitted: self.now, acknowledged: NEVER };
        self.sectors[sectors.clone()].iter_mut().for_each(|sector| sector.push(past));
        self.under_way.insert(write, sectors);
    }

    /// It is acknowledged.
    pub fn acknowledge(&mut self, write: u32) {
        self.now += 1;
        let Some(sectors) = self.under_way.remove(&write) else { return };
        for sector in &mut self.sectors[sectors] {
            if let Some(past) = sector.iter_mut().rev().find(|past| past.write == write) {
                past.acknowledged = self.now;
            }
        }
    }

    /// It is answered with an error: it may be there or not at any later moment, as if it were under way.
    pub fn fail(&mut self, write: u32) {
        self.under_way.remove(&write);
    }

    /// What has no answer now will have none: it is as if it were under way.
    pub fn end(&mut self) {
        self.under_way.clear();
    }

    /// A sector that may have held something else is found to hold this after an end. With `stays` it does so from now on; without,
    /// it may yet be as it was.
    pub fn found<V: Content<Change = C>>(&mut self, sector: usize, content: &V, stays: bool) {
        let past = *self.sectors[sector].last().unwrap_or(&self.first);
        if past.acknowledged == NEVER
            || !V::is_certain_after(past.change)
            || !content.may_follow(sector, past.write, past.change)
        {
            self.now += 1;
            let (write, change) = content.as_change();
            let acknowledged = if stays { self.now } else { NEVER };
            self.sectors[sector].push(Past { write, change, submitted: self.now, acknowledged });
        }
    }

    /// Whether a disk that holds this, by sector, is in a state of no earlier than a moment. Gives the latest moment that it can be
    /// of.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, contents: &[impl Content<Change = C>], earliest: u64) -> Result<u64, String> {
        // How many sectors more, or fewer, a moment suits than the one before.
        let mut steps = vec![0i64; self.now as usize + 2];
        for (sector, content) in contents.iter().enumerate() {
            let moments = self.moments(sector, content);
            if moments.is_empty() {
                return Err(format!("sector {sector} holds {content:?}, which was never there"));
            }
            for moments in moments {
                steps[moments.start as usize] += 1;
                steps[moments.end as usize] -= 1;
            }
        }
        let (mut suits, mut most, mut moment) = (0, 0, 0);
        for (at, step) in (0..=self.now).zip(&steps) {
            suits += step;
            if suits >= most {
                (most, moment) = (suits, at);
            }
        }
        let all = self.sectors.len();
        if most < all as i64 {
            let odd = self.odd_ones(contents, moment);
            return Err(format!("no moment suits more than {most} of {all} sectors{odd}"));
        }
        if moment < earliest {
            let odd = self.odd_ones(contents, earliest);
            return Err(format!("it is of moment {moment}, and was said to be of {earliest} or later{odd}"));
        }
        Ok(moment)
    }

    /// Some sectors that a moment does not suit, for the message.
    fn odd_ones(&self, contents: &[impl Content<Change = C>], moment: u64) -> String {
        let odd = contents.iter().enumerate().filter(|&(sector, content)| {
            !self.moments(sector, content).iter().any(|moments| moments.contains(&moment))
        });
        let told = odd.take(MOST_TOLD).map(|(sector, content)| {
            format!("; at {moment} not sector {sector} with {content:?} of {:?}", self.sectors[sector])
        });
        told.collect()
    }

    /// The moments that this content of a sector allows, apart from each other, the latest first.
    fn moments(&self, sector: usize, content: &impl Content<Change = C>) -> Vec<Range<u64>> {
        let mut moments: Vec<Range<u64>> = Vec::new();
        let mut end = self.now + 1;
        for past in self.sectors[sector].iter().rev().chain(std::iter::once(&self.first)) {
            if content.may_follow(sector, past.write, past.change) && past.submitted < end {
                match moments.last_mut() {
                    Some(last) if last.start <= end => last.start = past.submitted,
                    _ => moments.push(past.submitted..end),
                }
            }
            end = end.min(past.acknowledged);
        }
        moments
    }
}

#[cfg(test)]
mod tests;
