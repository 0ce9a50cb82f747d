//! The resilver of a member while volumes are served: which parts of the pair are still to be copied to it, and that no write
//! meets the part which is being copied. It must not know devices, threads, or who writes.
//!
//! Whatever is written meanwhile goes to both members. A write that overlaps the part under way waits, and a part is copied when no
//! write that overlaps it is under way; so what the new member has of it in the end is what the other one has.

use std::collections::VecDeque;
use std::ops::Range;

use hashbrown::HashMap;
use lode_format::PairLabel;
use lode_types::{MediaError, planted};

use crate::device::SyncDevice;

/// What is left to be copied, and the writes under way. See the module's documentation.
#[derive(Debug, Default)]
pub struct Resilver {
    left: VecDeque<Range<u64>>,
    part: Option<Range<u64>>,
    writes: HashMap<u64, Range<u64>>,
    next_write: u64,
    copied_bytes: u64,
    total_bytes: u64,
    /// Up to where all is copied that is to be.
    resilvered_bytes: u64,
}

impl Resilver {
    /// Most bytes of a part: as long as they are copied, writes to them wait.
    pub const PART_BYTES: u64 = 512 << 10;

    /// These bytes of the pair are to be copied, but for those of its first `resilvered_bytes`, which were before. All writes that are under way by
    /// now were begun here.
    ///
    /// Numbers of writes go on from one time to the next: those of the time before may end later.
    pub fn begin(&mut self, mut used: Vec<Range<u64>>, resilvered_bytes: u64) {
        let bytes = |ranges: &mut dyn Iterator<Item = &Range<u64>>| {
            ranges.map(|range| range.end - range.start).sum::<u64>()
        };
        used.sort_unstable_by_key(|range| range.start);
        self.total_bytes = bytes(&mut used.iter());
        let rest = |range: Range<u64>| range.start.max(resilvered_bytes)..range.end;
        self.left = used.into_iter().map(rest).filter(|range| range.start < range.end).collect();
        self.copied_bytes = self.total_bytes - bytes(&mut self.left.iter());
        self.resilvered_bytes = resilvered_bytes;
    }

    /// A write to these bytes begins, under a number that [`Resilver::end_write`] is told. None: they are being copied, and it has to
    /// wait.
    pub fn begin_write(&mut self, bytes: Range<u64>) -> Option<u64> {
        let meets = self.part.as_ref().is_some_and(|part| overlap(part, &bytes));
        if meets && !planted("resilver-meets-writes") {
            return None;
        }
        let number = self.next_write;
        self.next_write += 1;
        self.writes.insert(number, bytes);
        Some(number)
    }

    /// Nothing more is copied.
    pub fn give_up(&mut self) {
        self.left.clear();
        self.part = None;
    }

    /// A write is over, on both members.
    pub fn end_write(&mut self, number: u64) {
        self.writes.remove(&number);
    }

    /// The next part to be copied, of so many bytes at most, to which nobody writes from now on. It is copied once [`Resilver::may_copy`] says so.
    /// None: all were.
    pub fn next_part(&mut self, most_bytes: u64) -> Option<Range<u64>> {
        assert!(self.part.is_none(), "one part at a time");
        let mut range = self.left.pop_front()?;
        let part = range.start..range.end.min(range.start + most_bytes);
        range.start = part.end;
        if !range.is_empty() {
            self.left.push_front(range);
        }
        self.part = Some(part.clone());
        Some(part)
    }

    /// Whether no write to the part under way is.
    pub fn may_copy(&self) -> bool {
        self.part.as_ref().is_none_or(|part| !self.writes.values().any(|bytes| overlap(part, bytes)))
    }

    /// The part under way was copied. Whoever waits to write to it may.
    pub fn part_copied(&mut self) {
        let part = self.part.take().expect("a part is under way");
        self.copied_bytes += part.end - part.start;
        self.resilvered_bytes = part.end;
    }

    /// So many of the pair's first bytes are resilvered, as far as they mean anything.
    pub fn resilvered_bytes(&self) -> u64 {
        self.resilvered_bytes
    }

    /// How many bytes were copied, and of how many.
    pub fn progress(&self) -> (u64, u64) {
        (self.copied_bytes, self.total_bytes)
    }
}

/// What a member that has everything has of a part.
///
/// # Errors
/// Those of the device.
pub fn read_part(device: &mut dyn SyncDevice, part: &Range<u64>) -> Result<Vec<u8>, MediaError> {
    let mut bytes = vec![0; (part.end - part.start) as usize];
    device.read(PairLabel::DATA_START_BYTES + part.start, &mut bytes)?;
    Ok(bytes)
}

/// Has the member that is resilvered have these bytes of a part. They are written also where it seems to have them: a flush of it may
/// have failed before, and what can be read then is only durable when it has been written again.
///
/// # Errors
/// Those of the device.
pub fn write_part(device: &mut dyn SyncDevice, part: &Range<u64>, bytes: &[u8]) -> Result<(), MediaError> {
    if planted("resilver-spares-what-is-equal") && read_part(device, part).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    device.write(PairLabel::DATA_START_BYTES + part.start, bytes)
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART_BYTES: u64 = Resilver::PART_BYTES;

    #[test]
    fn writes_and_the_part_that_is_copied_never_meet() {
        let used = vec![0..PART_BYTES + 4096, 4 * PART_BYTES..4 * PART_BYTES + 8192];
        let mut resilver = Resilver::default();
        let before = resilver.begin_write(4096..8192).expect("nothing is copied");
        resilver.begin(used.clone(), 0);
        assert_eq!(resilver.next_part(PART_BYTES), Some(0..PART_BYTES));
        assert!(!resilver.may_copy(), "a write is under way there");
        assert_eq!(resilver.begin_write(PART_BYTES - 1..PART_BYTES + 1), None);
        let beside = resilver.begin_write(PART_BYTES..PART_BYTES + 4096).expect("it is beside the part");
        resilver.end_write(before);
        assert!(resilver.may_copy());
        resilver.part_copied();
        assert_eq!(resilver.progress(), (PART_BYTES, PART_BYTES + 4096 + 8192));
        assert_eq!(resilver.next_part(PART_BYTES), Some(PART_BYTES..PART_BYTES + 4096));
        assert!(!resilver.may_copy());
        resilver.end_write(beside);
        assert!(resilver.may_copy() && resilver.begin_write(0..4096).is_some());
        resilver.part_copied();
        assert_eq!(resilver.next_part(PART_BYTES), Some(4 * PART_BYTES..4 * PART_BYTES + 8192));
        resilver.part_copied();
        assert_eq!(resilver.next_part(PART_BYTES), None);
        assert_eq!(resilver.progress(), (PART_BYTES + 12_288, PART_BYTES + 12_288));
        assert_eq!(resilver.resilvered_bytes(), 4 * PART_BYTES + 8192);
        // It is gone on with, at whatever byte.
        for (from, first, left) in [
            (100, 100..PART_BYTES + 100, PART_BYTES + 12_288 - 100),
            (PART_BYTES + 4096, 4 * PART_BYTES..4 * PART_BYTES + 8192, 8192),
            (4 * PART_BYTES + 1, 4 * PART_BYTES + 1..4 * PART_BYTES + 8192, 8191),
        ] {
            resilver.begin(used.iter().rev().cloned().collect(), from);
            assert_eq!(resilver.progress(), (PART_BYTES + 12_288 - left, PART_BYTES + 12_288));
            assert_eq!(
                (resilver.resilvered_bytes(), resilver.next_part(PART_BYTES)),
                (from, Some(first.clone()))
            );
            resilver.part_copied();
            assert_eq!(resilver.resilvered_bytes(), first.end);
            resilver.give_up();
        }
        resilver.begin(used, 5 * PART_BYTES);
        assert_eq!((resilver.next_part(PART_BYTES), resilver.progress().0), (None, PART_BYTES + 12_288));
    }
}
