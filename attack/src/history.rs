//! What a disk with ordered write-back may hold when every cache SSD is lost, by guarantee 11 alone. It must not know how it is kept.
//!
//! A state is in order when there is a moment at which a power cut could have left it of a disk that loses nothing which it
//! acknowledged: what was acknowledged before that moment is there, what was sent after it is not, and of what was under way
//! each sector is or is not. So every content of a sector allows the moments from its write's submission to the acknowledgement of
//! a later write of that sector, and a state is in order when all of its sectors have a moment in common.

use std::collections::HashMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::image::Image;
use crate::model::Change;
use crate::sector::{SECTOR_BYTES, Value, WriteId, read_value};

/// What has no answer.
const NEVER: u64 = u64::MAX;
/// Sectors that a message tells of.
const MOST_TOLD: usize = 4;

/// A change of a sector. Moments are counted in what the guest did and was told.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Past {
    write: WriteId,
    change: Change,
    submitted: u64,
    acknowledged: u64,
}

const FIRST: Past = Past { write: 0, change: Change::Zero, submitted: 0, acknowledged: 0 };

/// All changes of one VM's disk, in the order in which they were sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct History {
    sectors: Vec<Vec<Past>>,
    now: u64,
    /// The disk alone is of no earlier moment, as the daemon said.
    earliest: u64,
    /// A flush had failed before the daemon died: what was found on the disk since then may go with the next power cut.
    #[serde(default)]
    is_doubtful: bool,
    #[serde(skip)]
    open: HashMap<WriteId, Range<u64>>,
}

impl History {
    /// Of a disk of zeroes.
    pub fn new(sectors: u64) -> History {
        let sectors = vec![Vec::new(); sectors as usize];
        History { sectors, now: 0, earliest: 0, is_doubtful: false, open: HashMap::new() }
    }

    /// The moment that it is.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Whether the daemon has said that the disk alone is of a later moment than the first.
    pub fn is_bounded(&self) -> bool {
        self.earliest > 0
    }

    /// A change is about to be sent.
    pub fn submit(&mut self, write: WriteId, sectors: &Range<u64>, change: Change) {
        self.now += 1;
        let past = Past { write, change, submitted: self.now, acknowledged: NEVER };
        self.part(sectors).iter_mut().for_each(|sector| sector.push(past));
        self.open.insert(write, sectors.clone());
    }

    /// It was acknowledged.
    pub fn acknowledge(&mut self, write: WriteId) {
        self.now += 1;
        let Some(sectors) = self.open.remove(&write) else { return };
        let now = self.now;
        for sector in self.part(&sectors) {
            if let Some(past) = sector.iter_mut().rev().find(|past| past.write == write) {
                past.acknowledged = now;
            }
        }
    }

    /// It was answered with an error: it may be there or not at any later moment, as if it were under way.
    pub fn fail(&mut self, write: WriteId) {
        self.open.remove(&write);
    }

    /// What has no answer now has none any more. `doubtful`: the daemon died, its host lives, and a flush had failed.
    pub fn end(&mut self, doubtful: bool) {
        self.open.clear();
        self.is_doubtful |= doubtful;
    }

    /// A power cut has decided what is there.
    pub fn power_cut(&mut self) {
        self.end(false);
        self.is_doubtful = false;
    }

    /// A sector that may have held something else was found to hold this after an end, and does so from now on.
    pub fn found(&mut self, sector: u64, value: Value) {
        let past = self.sectors[sector as usize].last().copied().unwrap_or(FIRST);
        let is_known = past.acknowledged != NEVER && past.change != Change::Trim;
        if !is_known || !past.change.allows(past.write, value) {
            self.now += 1;
            let (submitted, acknowledged) = (self.now, if self.is_doubtful { NEVER } else { self.now });
            let seen = Past { write: 0, change: Change::Seen(value), submitted, acknowledged };
            self.sectors[sector as usize].push(seen);
        }
    }

    /// The daemon said that the disk alone is of no earlier moment.
    pub fn told(&mut self, earliest: u64) {
        self.earliest = self.earliest.max(earliest);
    }

    /// Whether the disk alone is a state of before, no earlier than the daemon said. Gives the latest moment that it can be of.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, vm: usize, disk: &Image) -> Result<u64, String> {
        let mut values = Vec::with_capacity(self.sectors.len());
        for sector in 0..self.sectors.len() as u64 {
            let bytes = disk.read(sector * SECTOR_BYTES, SECTOR_BYTES);
            let value = read_value(vm, sector, &bytes);
            values.push(value.map_err(|what| format!("VM {vm} sector {sector} holds {what}"))?);
        }
        self.check_values(&values).map_err(|what| format!("VM {vm}: {what}"))
    }

    fn check_values(&self, values: &[Value]) -> Result<u64, String> {
        // How many sectors more, or fewer, a moment suits than the one before.
        let mut steps = vec![0i64; self.now as usize + 2];
        for (sector, &value) in values.iter().enumerate() {
            let moments = self.moments(sector, value);
            if moments.is_empty() {
                return Err(format!("sector {sector} holds {value:?}, which was never there"));
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
        let (most, moment) = best;
        if most < self.sectors.len() as i64 {
            let (all, odd) = (self.sectors.len(), self.odd_ones(values, moment));
            return Err(format!("no moment suits more than {most} of {all} sectors{odd}"));
        }
        if moment < self.earliest {
            let (earliest, odd) = (self.earliest, self.odd_ones(values, self.earliest));
            return Err(format!("it is of moment {moment}, and was said to be of {earliest} or later{odd}"));
        }
        Ok(moment)
    }

    /// Some sectors that a moment does not suit, for the message.
    fn odd_ones(&self, values: &[Value], moment: u64) -> String {
        let suits =
            |sector, value| self.moments(sector, value).iter().any(|moments| moments.contains(&moment));
        let odd = values.iter().enumerate().filter(|&(sector, &value)| !suits(sector, value));
        let told = odd.take(MOST_TOLD).map(|(sector, value)| {
            format!("; at {moment} not sector {sector} with {value:?} of {:?}", self.sectors[sector])
        });
        told.collect()
    }

    /// The moments that this content of a sector allows, apart from each other.
    fn moments(&self, sector: usize, value: Value) -> Vec<Range<u64>> {
        let mut moments: Vec<Range<u64>> = Vec::new();
        let mut end = self.now + 1;
        for past in self.sectors[sector].iter().rev().chain(std::iter::once(&FIRST)) {
            if past.change.allows(past.write, value) && past.submitted < end {
                match moments.last_mut() {
                    Some(last) if last.start <= end => last.start = past.submitted,
                    _ => moments.push(past.submitted..end),
                }
            }
            end = end.min(past.acknowledged);
        }
        moments
    }

    fn part(&mut self, sectors: &Range<u64>) -> &mut [Vec<Past>] {
        &mut self.sectors[sectors.start as usize..sectors.end as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(writes: &[WriteId]) -> Vec<Value> {
        writes.iter().map(|&write| if write == 0 { Value::Zero } else { Value::Of(write) }).collect()
    }

    fn write(history: &mut History, write: WriteId, sector: u64) {
        history.submit(write, &(sector..sector + 1), Change::Data);
    }

    #[test]
    fn g11_a_state_has_a_moment_that_suits_all_sectors() {
        let mut history = History::new(3);
        write(&mut history, 1, 0);
        history.acknowledge(1);
        write(&mut history, 2, 1);
        write(&mut history, 3, 0);
        history.acknowledge(3);
        history.acknowledge(2);
        write(&mut history, 4, 2);
        let is_in_order = |writes: &[WriteId]| history.check_values(&of(writes)).is_ok();
        for good in [[0, 0, 0], [1, 0, 0], [1, 2, 0], [3, 0, 0], [3, 2, 0], [3, 2, 4]] {
            assert!(is_in_order(&good), "{good:?}");
        }
        // The second without the first, the last one without what was acknowledged before it, and what was never there.
        for bad in [[0, 2, 0], [1, 2, 4], [3, 0, 4], [9, 0, 0]] {
            assert!(!is_in_order(&bad), "{bad:?}");
        }
    }

    #[test]
    fn g11_a_state_is_no_earlier_than_was_told() {
        let mut history = History::new(2);
        write(&mut history, 1, 0);
        history.acknowledge(1);
        let then = history.now();
        write(&mut history, 2, 1);
        history.acknowledge(2);
        history.told(then);
        assert_eq!(history.check_values(&of(&[1, 0])), Ok(3));
        assert!(history.check_values(&of(&[0, 0])).unwrap_err().contains("said to be of 2 or later"));
        history.told(history.now());
        assert!(history.check_values(&of(&[1, 0])).is_err());
        assert_eq!(history.check_values(&of(&[1, 2])), Ok(4));
    }

    #[test]
    fn what_a_power_cut_left_of_an_acknowledged_write_is_older() {
        let mut history = History::new(2);
        for number in [1, 2] {
            write(&mut history, number, 0);
            history.acknowledge(number);
        }
        write(&mut history, 3, 1);
        history.acknowledge(3);
        assert!(history.check_values(&of(&[1, 3])).is_err());
        history.found(0, Value::Of(1));
        assert!(history.check_values(&of(&[1, 3])).is_ok());
        assert!(history.check_values(&of(&[1, 0])).is_ok(), "the disk may be of long before");
    }

    #[test]
    fn a_failed_write_and_a_trim_may_be_there_or_not() {
        let mut history = History::new(2);
        write(&mut history, 1, 0);
        history.acknowledge(1);
        write(&mut history, 2, 0);
        history.fail(2);
        history.submit(3, &(1..2), Change::Trim);
        history.acknowledge(3);
        write(&mut history, 4, 1);
        history.acknowledge(4);
        for good in [[1, 4], [2, 4], [1, 0]] {
            assert!(history.check_values(&of(&good)).is_ok(), "{good:?}");
        }
        assert!(history.check_values(&of(&[0, 4])).is_err());
    }
}
