//! What a backing disk that is written in the order of the guest's flushes may hold: the oracle of guarantee 11.
//!
//! A state is in order when there is a moment at which a power cut could have left it of a disk that loses nothing it has
//! acknowledged: everything acknowledged before that moment is there, nothing submitted after it is, and of what was under way
//! each sector is or is not. So every content of a sector allows the moments from its write's submission to the acknowledgement of a
//! later write of that sector, and a state is in order when all of its sectors have a moment in common.

use std::collections::HashMap;
use std::ops::Range;

use crate::model::{Change, Model, SECTOR};

const NEVER: u64 = u64::MAX;

/// A change of a sector.
#[derive(Clone, Copy, Debug)]
struct Past {
    write: u32,
    change: Change,
    submitted: u64,
    acknowledged: u64,
}

impl Past {
    const FIRST: Past = Past { write: 0, change: Change::Zero, submitted: 0, acknowledged: 0 };

    fn allows(&self, sector: usize, bytes: &[u8]) -> bool {
        Model::is_content(self.write, self.change, sector, bytes)
    }
}

/// All changes of one volume, in the order in which they were submitted.
#[derive(Debug)]
pub(crate) struct History {
    sectors: Vec<Vec<Past>>,
    under_way: HashMap<u32, Range<usize>>,
    now: u64,
    /// For each tick of the engine that runs, a moment before it.
    ticks: Vec<u64>,
    /// When it was last looked how many ticks there were.
    looked: u64,
}

impl History {
    /// Of a volume of zeroes.
    pub(crate) fn new(sectors: usize) -> History {
        let sectors = vec![Vec::new(); sectors];
        History { sectors, under_way: HashMap::new(), now: 0, ticks: Vec::new(), looked: 0 }
    }

    /// A change is submitted, with the number that the model gave it.
    pub(crate) fn submit(&mut self, write: u32, sectors: Range<usize>, change: Change) {
        self.now += 1;
        let past = Past { write, change, submitted: self.now, acknowledged: NEVER };
        self.sectors[sectors.clone()].iter_mut().for_each(|sector| sector.push(past));
        self.under_way.insert(write, sectors);
    }

    /// It is acknowledged.
    pub(crate) fn acknowledge(&mut self, write: u32) {
        self.now += 1;
        let Some(sectors) = self.under_way.remove(&write) else { return };
        for sector in &mut self.sectors[sectors] {
            if let Some(past) = sector.iter_mut().rev().find(|past| past.write == write) {
                past.acknowledged = self.now;
            }
        }
    }

    /// A sector was found to hold this after a crash, and does so from now on.
    pub(crate) fn found(&mut self, sector: usize, bytes: &[u8]) {
        let past = self.sectors[sector].last().copied().unwrap_or(Past::FIRST);
        if past.acknowledged == NEVER || past.change == Change::Trim || !past.allows(sector, bytes) {
            self.now += 1;
            let (write, change) = Model::named(bytes);
            self.sectors[sector].push(Past { write, change, submitted: self.now, acknowledged: self.now });
        }
    }

    /// The engine that runs has had so many ticks.
    pub(crate) fn note_ticks(&mut self, ticks: u64) {
        if ticks < self.ticks.len() as u64 {
            self.ticks.clear();
        }
        self.ticks.resize(ticks as usize, self.looked);
        self.looked = self.now;
    }

    /// No later than the moment so many ticks ago.
    pub(crate) fn moment_before(&self, ticks: u32) -> u64 {
        match (self.ticks.len() as u64).checked_sub(ticks.into()) {
            // Less than a tick ago is later than that.
            Some(at) if at > 0 => self.ticks[at as usize - 1],
            _ => 0,
        }
    }

    /// Whether these bytes of the whole volume are a state of no earlier than this moment.
    pub(crate) fn check(&self, bytes: &[u8], earliest: u64) -> Result<(), String> {
        // How many sectors more, or fewer, a moment suits than the one before.
        let mut steps = vec![0i64; self.now as usize + 2];
        for (sector, bytes) in bytes.chunks(SECTOR).enumerate() {
            let moments = self.moments(sector, bytes);
            if moments.is_empty() {
                return Err(format!(
                    "sector {sector} holds {:?}, which was never there",
                    Model::named(bytes)
                ));
            }
            for moments in moments {
                steps[moments.start as usize] += 1;
                steps[moments.end as usize] -= 1;
            }
        }
        let (mut suits, mut best) = (0, (0, 0));
        for (moment, step) in (0..=self.now).zip(&steps) {
            suits += step;
            if suits >= best.0 {
                best = (suits, moment);
            }
        }
        if best.0 < self.sectors.len() as i64 {
            return Err(format!(
                "no moment suits more than {} of {} sectors{}",
                best.0,
                self.sectors.len(),
                { self.odd_ones(bytes, best.1) }
            ));
        }
        if best.1 < earliest {
            let odd = self.odd_ones(bytes, earliest);
            return Err(format!(
                "the state is of moment {}, and is said to be of {earliest} or later{odd}",
                best.1
            ));
        }
        Ok(())
    }

    /// Some sectors that a moment does not suit, for the message.
    fn odd_ones(&self, bytes: &[u8], moment: u64) -> String {
        let suits = |sector, bytes| self.moments(sector, bytes).iter().any(|range| range.contains(&moment));
        let odd = bytes.chunks(SECTOR).enumerate().filter(|&(sector, bytes)| !suits(sector, bytes));
        let told = odd.take(4).map(|(sector, bytes)| {
            let named = Model::named(bytes);
            format!("; at {moment} not sector {sector} with {named:?} of {:?}", self.sectors[sector])
        });
        told.collect()
    }

    /// The moments that these bytes allow, apart from each other.
    fn moments(&self, sector: usize, bytes: &[u8]) -> Vec<Range<u64>> {
        let mut moments: Vec<Range<u64>> = Vec::new();
        let mut end = self.now + 1;
        let all = std::iter::once(&Past::FIRST).chain(&self.sectors[sector]);
        for past in all.collect::<Vec<_>>().into_iter().rev() {
            if past.allows(sector, bytes) && past.submitted < end {
                match moments.last_mut() {
                    Some(last) if last.start <= end => last.start = last.start.min(past.submitted),
                    _ => moments.push(past.submitted..end),
                }
            }
            end = end.min(past.acknowledged);
        }
        moments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(of: &[u32]) -> Vec<u8> {
        let sector = |(sector, &write): (usize, &u32)| match write {
            0 => vec![0; SECTOR],
            write => Model::content(write, sector).to_vec(),
        };
        of.iter().enumerate().flat_map(sector).collect()
    }

    #[test]
    fn states_are_in_order_when_there_is_a_moment_for_all_sectors() {
        let mut history = History::new(3);
        history.submit(1, 0..1, Change::Data);
        history.acknowledge(1);
        history.submit(2, 1..2, Change::Data);
        history.submit(3, 0..1, Change::Data);
        history.acknowledge(3);
        history.acknowledge(2);
        history.submit(4, 2..3, Change::Data);
        let is_in_order = |of: &[u32]| history.check(&state(of), 0).is_ok();
        for good in [[0, 0, 0], [1, 0, 0], [1, 2, 0], [3, 0, 0], [3, 2, 0], [3, 2, 4]] {
            assert!(is_in_order(&good), "{good:?}");
        }
        // The second without the first, the last one without what was acknowledged before it, and what was never there.
        for bad in [[0, 2, 0], [1, 2, 4], [3, 0, 4], [9, 0, 0]] {
            assert!(!is_in_order(&bad), "{bad:?}");
        }
        assert!(history.check(&state(&[1, 2, 0]), 4).is_ok());
        assert!(history.check(&state(&[1, 2, 0]), 5).is_err(), "later than the acknowledgement of 3");
    }

    #[test]
    fn what_a_crash_left_may_be_older_than_what_was_acknowledged() {
        let mut history = History::new(2);
        history.submit(1, 0..1, Change::Data);
        history.acknowledge(1);
        history.submit(2, 0..1, Change::Data);
        history.acknowledge(2);
        assert!(history.check(&state(&[1, 0]), 4).is_err());
        history.found(0, &state(&[1, 0])[..SECTOR]);
        history.submit(3, 1..2, Change::Data);
        history.acknowledge(3);
        assert!(history.check(&state(&[1, 3]), 6).is_ok());
    }

    #[test]
    fn a_tick_is_no_earlier_than_it_is_taken_for() {
        let mut history = History::new(1);
        history.note_ticks(0);
        history.submit(1, 0..1, Change::Data);
        history.note_ticks(1);
        history.acknowledge(1);
        history.note_ticks(3);
        assert_eq!([0, 1, 2, 3].map(|ticks| history.moment_before(ticks)), [1, 1, 0, 0]);
        history.note_ticks(1);
        assert_eq!(history.moment_before(0), 2);
    }
}
