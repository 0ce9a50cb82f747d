//! What each of the devices below a cache has of some bytes, and writing the copy that is right over one that is not. Nobody is dropped who
//! fails to take it: what it has may be the only copy of something else. It must not know what the bytes say.

use lode_types::planted;

use crate::device::SyncDevice;
use crate::error::StoreError;

/// What is looked at on each device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Superblock,
    Directory,
    TablePage,
    JournalPage,
    DirtyBlock,
}

/// Copies on one of the devices below, of what another one has as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyCounts {
    /// Which device, as [`SyncDevice::home`] numbers them.
    pub device: u16,
    /// Of superblock and directory.
    pub heads: u64,
    /// Of pages of place tables.
    pub table_pages: u64,
    /// Of pages of journals that a start needs.
    pub journal_pages: u64,
    /// Of blocks newer than the backing disk.
    pub dirty_blocks: u64,
}

impl CopyCounts {
    /// All of them.
    pub fn all(&self) -> u64 {
        self.heads + self.table_pages + self.journal_pages + self.dirty_blocks
    }

    fn count(&mut self, what: What) {
        match what {
            What::Superblock | What::Directory => self.heads += 1,
            What::TablePage => self.table_pages += 1,
            What::JournalPage => self.journal_pages += 1,
            What::DirtyBlock => self.dirty_blocks += 1,
        }
    }

    fn add(&mut self, other: &CopyCounts) {
        self.heads += other.heads;
        self.table_pages += other.table_pages;
        self.journal_pages += other.journal_pages;
        self.dirty_blocks += other.dirty_blocks;
    }
}

/// Copies that are not as they should be where another device has the right one, by device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopiesCheck {
    /// Those that a device lacks.
    pub lacks: Vec<CopyCounts>,
    /// Those that it lacked, and that were written there again.
    pub mended: Vec<CopyCounts>,
}

impl CopiesCheck {
    /// Whether no device lacks anything.
    pub fn is_whole(&self) -> bool {
        self.lacks.is_empty()
    }

    /// Puts what was found elsewhere beside this.
    pub fn add(&mut self, other: &CopiesCheck) {
        other.lacks.iter().for_each(|counts| of_device(&mut self.lacks, counts.device).add(counts));
        other.mended.iter().for_each(|counts| of_device(&mut self.mended, counts.device).add(counts));
    }
}

fn of_device(all: &mut Vec<CopyCounts>, device: u16) -> &mut CopyCounts {
    let at = all.binary_search_by_key(&device, |counts| counts.device).unwrap_or_else(|at| {
        all.insert(at, CopyCounts { device, ..CopyCounts::default() });
        at
    });
    &mut all[at]
}

/// What one of the devices has.
pub(super) struct Copy {
    pub(super) device: u16,
    bytes: Vec<u8>,
    unit_bytes: usize,
    is_readable: Vec<bool>,
}

impl Copy {
    /// A page or block of it, if it can be read.
    pub(super) fn unit(&self, at: usize) -> Option<&[u8]> {
        let bytes = &self.bytes[at * self.unit_bytes..(at + 1) * self.unit_bytes];
        self.is_readable[at].then_some(bytes)
    }
}

/// The devices, looked at one beside the other.
pub(super) struct Looking<'a> {
    pub(super) device: &'a mut dyn SyncDevice,
    /// Whether what a device lacks is written there.
    pub(super) mends: bool,
    pub(super) found: CopiesCheck,
}

impl<'a> Looking<'a> {
    pub(super) fn new(device: &'a mut dyn SyncDevice, mends: bool) -> Looking<'a> {
        Looking { device, mends, found: CopiesCheck::default() }
    }

    /// Reads so many pages or blocks of so many bytes as each device has them, or `only` this one if it is there; where not all can be
    /// read, each by itself.
    pub(super) fn read_each(
        &mut self,
        offset_bytes: u64,
        (units, unit_bytes): (usize, usize),
        only: Option<u16>,
    ) -> Vec<Copy> {
        let mut devices = self.device.copies(offset_bytes);
        if let Some(only) = only.filter(|only| devices.contains(only)) {
            devices = vec![only];
        }
        if planted("check-looks-at-one-ssd") {
            devices.truncate(1);
        }
        let read = |device: u16| {
            let mut bytes = vec![0; units * unit_bytes];
            let is_read = self.device.read_copy(device, offset_bytes, &mut bytes).is_ok();
            let offsets = (offset_bytes..).step_by(unit_bytes);
            let mut read_one =
                |(at, unit): (u64, &mut [u8])| is_read || self.device.read_copy(device, at, unit).is_ok();
            let is_readable = offsets.zip(bytes.chunks_exact_mut(unit_bytes)).map(&mut read_one).collect();
            Copy { device, bytes, unit_bytes, is_readable }
        };
        devices.into_iter().map(read).collect()
    }

    /// Which of these copies are right here. Those that are not get the bytes of one that is.
    pub(super) fn compare(
        &mut self,
        what: What,
        offset_bytes: u64,
        (copies, at): (&[Copy], usize),
        is_right: &dyn Fn(&[u8]) -> bool,
    ) -> bool {
        let (right, wrong): (Vec<&Copy>, Vec<&Copy>) =
            copies.iter().partition(|copy| copy.unit(at).is_some_and(is_right));
        let Some(bytes) = right.first().and_then(|copy| copy.unit(at)) else { return false };
        for copy in wrong {
            match (planted("repair-takes-the-wrong-copy"), copy.unit(at)) {
                (true, Some(damaged)) => self.lacks(what, right[0].device, offset_bytes, damaged),
                _ => self.lacks(what, copy.device, offset_bytes, bytes),
            }
        }
        true
    }

    /// A device lacks these bytes, which another one has.
    pub(super) fn lacks(&mut self, what: What, device: u16, offset_bytes: u64, bytes: &[u8]) {
        let is_mended = self.mends && self.device.write_copy(device, offset_bytes, bytes).is_ok();
        let counts = if is_mended { &mut self.found.mended } else { &mut self.found.lacks };
        of_device(counts, device).count(what);
    }

    /// Makes durable what was written.
    ///
    /// # Errors
    /// [`StoreErrorKind::Media`](crate::StoreErrorKind::Media).
    pub(super) fn end(self) -> Result<CopiesCheck, StoreError> {
        for counts in &self.found.mended {
            self.device.flush_copy(counts.device).map_err(|error| StoreError::media("flush", 0, error))?;
        }
        Ok(self.found)
    }
}
