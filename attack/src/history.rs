//! What a disk with ordered write-back may hold when every cache SSD is lost, by guarantee 11 and what the daemon said of how far
//! behind it is. It must not know how either is kept.

use std::ops::Range;

use lode_history::{Content, History};
use serde::{Deserialize, Serialize};

use crate::image::Image;
use crate::model::Change;
use crate::sector::{SECTOR_BYTES, Value, WriteId, read_value};

/// All changes of one VM's disk, in the order in which they were sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiskHistory {
    changes: History<Change>,
    sectors: u64,
    /// The disk alone is of no earlier moment, as the daemon said.
    earliest: u64,
    /// A flush had failed before the daemon died: what was found on the disk since then may go with the next power cut.
    #[serde(default)]
    is_doubtful: bool,
}

impl Content for Value {
    type Change = Change;

    fn may_follow(&self, _sector: usize, write: WriteId, change: Change) -> bool {
        change.allows(write, *self)
    }

    fn is_certain_after(change: Change) -> bool {
        change != Change::Trim
    }

    fn as_change(&self) -> (WriteId, Change) {
        (0, Change::Seen(*self))
    }
}

impl DiskHistory {
    /// Of a disk of zeroes.
    pub fn new(sectors: u64) -> DiskHistory {
        let changes = History::new(sectors as usize, Change::Zero);
        DiskHistory { changes, sectors, earliest: 0, is_doubtful: false }
    }

    /// The moment that it is.
    pub fn now(&self) -> u64 {
        self.changes.now()
    }

    /// Whether the daemon has said that the disk alone is of a later moment than the first.
    pub fn is_bounded(&self) -> bool {
        self.earliest > 0
    }

    /// A change is about to be sent.
    pub fn submit(&mut self, write: WriteId, sectors: &Range<u64>, change: Change) {
        self.changes.submit(write, sectors.start as usize..sectors.end as usize, change);
    }

    /// It was acknowledged.
    pub fn acknowledge(&mut self, write: WriteId) {
        self.changes.acknowledge(write);
    }

    /// It was answered with an error: it may be there or not at any later moment, as if it were under way.
    pub fn fail(&mut self, write: WriteId) {
        self.changes.fail(write);
    }

    /// What has no answer now has none any more. `doubtful`: the daemon died, its host lives, and a flush had failed.
    pub fn end(&mut self, doubtful: bool) {
        self.changes.end();
        self.is_doubtful |= doubtful;
    }

    /// A power cut has decided what is there.
    pub fn power_cut(&mut self) {
        self.end(false);
        self.is_doubtful = false;
    }

    /// A sector that may have held something else was found to hold this after an end.
    pub fn found(&mut self, sector: u64, value: Value) {
        self.changes.found(sector as usize, &value, !self.is_doubtful);
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
        let mut values = Vec::with_capacity(self.sectors as usize);
        for sector in 0..self.sectors {
            let bytes = disk.read(sector * SECTOR_BYTES, SECTOR_BYTES);
            let value = read_value(vm, sector, &bytes);
            values.push(value.map_err(|what| format!("VM {vm} sector {sector} holds {what}"))?);
        }
        self.changes.check(&values, self.earliest).map_err(|what| format!("VM {vm}: {what}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Data, PAGE_BYTES};
    use crate::sector::contents;

    /// A disk of VM 1 with what these writes gave its sectors; 0: zeroes.
    fn disk(writes: &[WriteId]) -> Image {
        let mut disk = Image::new(PAGE_BYTES);
        for (sector, &write) in (0..).zip(writes) {
            if write != 0 {
                disk.write(
                    sector * SECTOR_BYTES,
                    &Data::Bytes(contents(1, write, sector..sector + 1).into()),
                );
            }
        }
        disk
    }

    fn write(history: &mut DiskHistory, write: WriteId, sector: u64) {
        history.submit(write, &(sector..sector + 1), Change::Data);
        history.acknowledge(write);
    }

    #[test]
    fn g11_a_disk_is_of_no_earlier_moment_than_was_told() {
        let mut history = DiskHistory::new(2);
        write(&mut history, 1, 0);
        let then = history.now();
        write(&mut history, 2, 1);
        assert!(history.check(1, &disk(&[0, 0])).is_ok());
        assert!(history.check(1, &disk(&[0, 2])).is_err(), "the second without the first");
        history.told(then);
        assert_eq!(history.check(1, &disk(&[1, 0])), Ok(3));
        assert!(history.check(1, &disk(&[0, 0])).unwrap_err().contains("said to be of 2 or later"));
        history.told(0);
        assert!(history.is_bounded(), "what was said once stays said");
        assert!(history.check(2, &disk(&[1, 0])).is_err(), "another VM's");
    }

    #[test]
    fn what_was_found_while_a_flush_had_failed_may_go_with_the_power() {
        let mut history = DiskHistory::new(1);
        history.submit(1, &(0..1), Change::Data);
        history.end(true);
        history.found(0, Value::Of(1));
        history.told(history.now());
        for content in [0, 1] {
            assert!(history.check(1, &disk(&[content])).is_ok(), "{content}");
        }
        history.power_cut();
        history.found(0, Value::Of(1));
        history.told(history.now());
        assert!(history.check(1, &disk(&[1])).is_ok());
        assert!(history.check(1, &disk(&[0])).is_err());
    }
}
