//! A device as start-up sees it: one step after the other, and errors that say what was tried where.

use lode_format::{PAGE_BYTES, is_sealed};
use lode_types::{MediaError, planted};

use crate::error::StoreError;

/// What came of reading pages at several places: the offsets of those of which not every device below that keeps a copy is known to have the same.
/// An error says where it was.
pub type PagesRead = Result<Vec<u64>, (u64, MediaError)>;

/// What came of reads and of writes that were under way together. An error says where it was.
pub type ReadAndWritten = (PagesRead, Result<(), (u64, MediaError)>);

/// Something that can be done beside other things.
pub type Task<'a> = &'a mut (dyn FnMut() + Send);

/// Does tasks at once, as far as it can.
pub trait Workers {
    /// Does all of these, in any order, and returns when they are done.
    fn run(&self, tasks: &mut [Task<'_>]);
}

/// Does one after the other.
pub(crate) struct InTurn;

impl Workers for InTurn {
    fn run(&self, tasks: &mut [Task<'_>]) {
        tasks.iter_mut().for_each(|task| task());
    }
}

/// A device, byte by byte and in order: what start-up needs. Offsets and lengths are multiples of 4 KiB.
pub trait SyncDevice {
    /// Size of the device.
    fn size_bytes(&self) -> u64;
    /// Fills `buf` from `offset_bytes`.
    fn read(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError>;
    /// Whether there are several copies of everything, which a crash may have left different.
    fn has_copies(&self) -> bool {
        false
    }
    /// As [`SyncDevice::read`]; where there are several copies of what is read, one that is right by this test, if any of them is.
    fn read_right(
        &mut self,
        offset_bytes: u64,
        buf: &mut [u8],
        _is_right: &dyn Fn(&[u8]) -> bool,
    ) -> Result<(), MediaError> {
        self.read(offset_bytes, buf)
    }
    /// As [`SyncDevice::read`], of pages of metadata; where there are several copies of them, of each one that is whole, if any is.
    fn read_pages(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.read(offset_bytes, buf)
    }
    /// As [`SyncDevice::read_pages`], of several places, which may be read at once.
    fn read_pages_at_once(&mut self, parts: &mut [(u64, &mut [u8])]) -> PagesRead {
        read_one_by_one(self, parts)
    }
    /// As [`SyncDevice::read_pages_at_once`], while something else is done, if it can be, which is given workers.
    fn read_pages_beside(
        &mut self,
        parts: &mut [(u64, &mut [u8])],
        meanwhile: &mut dyn FnMut(&dyn Workers),
    ) -> PagesRead {
        let result = self.read_pages_at_once(parts);
        meanwhile(&InTurn);
        result
    }
    /// Has something be done with workers.
    fn with_workers(&self, work: &mut dyn FnMut(&dyn Workers)) {
        work(&InTurn);
    }
    /// As [`SyncDevice::read_pages_at_once`] and [`SyncDevice::write_at_once`], of places none of which is in both; at the same time, if it can
    /// be. What came of the read, and of the write.
    fn read_pages_beside_writes(
        &mut self,
        reads: &mut [(u64, &mut [u8])],
        writes: &[(u64, &[u8])],
    ) -> ReadAndWritten {
        let written = self.write_at_once(writes);
        (self.read_pages_at_once(reads), written)
    }
    /// Which of the devices below has what is written here where one copy is enough for it.
    fn home(&self, _offset_bytes: u64) -> u16 {
        0
    }
    /// The devices below that are to have a copy of their own of what is written here where one is not enough, by the numbers of
    /// [`SyncDevice::home`]. Those that count; one that is missing or lacks something does not.
    fn copies(&self, _offset_bytes: u64) -> Vec<u16> {
        vec![0]
    }
    /// As [`SyncDevice::read`], of what this one of them has, whatever the others have. Bytes of one extent, or of before the first.
    fn read_copy(&mut self, _device: u16, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.read(offset_bytes, buf)
    }
    /// As [`SyncDevice::write`], to this one of them alone, which is not dropped when it fails.
    fn write_copy(&mut self, _device: u16, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        self.write(offset_bytes, bytes)
    }
    /// Makes durable what was written to this one of them, which is not dropped when it fails.
    fn flush_copy(&mut self, _device: u16) -> Result<(), MediaError> {
        self.flush()
    }
    /// Devices below that were dropped in the run of this epoch or a later one. With each went what it alone had.
    fn dropped_since(&self, _epoch: u64) -> Vec<u16> {
        Vec::new()
    }
    /// Writes `bytes` at `offset_bytes`.
    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError>;
    /// As [`SyncDevice::write`], to several places, which may be written at once and do not overlap. An error says where it was.
    fn write_at_once(&mut self, parts: &[(u64, &[u8])]) -> Result<(), (u64, MediaError)> {
        parts.iter().try_for_each(|(at, bytes)| self.write(*at, bytes).map_err(|error| (*at, error)))
    }
    /// Writes so many zeroes. A device that can do so without taking space for them does.
    fn write_zeroes(&mut self, offset_bytes: u64, length_bytes: usize) -> Result<(), MediaError> {
        self.write(offset_bytes, &vec![0; length_bytes])
    }
    /// Makes everything written durable.
    fn flush(&mut self) -> Result<(), MediaError>;
}

impl<D: SyncDevice + ?Sized> SyncDevice for &mut D {
    fn size_bytes(&self) -> u64 {
        (**self).size_bytes()
    }

    fn read(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        (**self).read(offset_bytes, buf)
    }

    fn has_copies(&self) -> bool {
        (**self).has_copies()
    }

    fn read_right(
        &mut self,
        offset_bytes: u64,
        buf: &mut [u8],
        is_right: &dyn Fn(&[u8]) -> bool,
    ) -> Result<(), MediaError> {
        (**self).read_right(offset_bytes, buf, is_right)
    }

    fn read_pages(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        (**self).read_pages(offset_bytes, buf)
    }

    fn read_pages_at_once(&mut self, parts: &mut [(u64, &mut [u8])]) -> PagesRead {
        (**self).read_pages_at_once(parts)
    }

    fn read_pages_beside(
        &mut self,
        parts: &mut [(u64, &mut [u8])],
        meanwhile: &mut dyn FnMut(&dyn Workers),
    ) -> PagesRead {
        (**self).read_pages_beside(parts, meanwhile)
    }

    fn with_workers(&self, work: &mut dyn FnMut(&dyn Workers)) {
        (**self).with_workers(work);
    }

    fn read_pages_beside_writes(
        &mut self,
        reads: &mut [(u64, &mut [u8])],
        writes: &[(u64, &[u8])],
    ) -> ReadAndWritten {
        (**self).read_pages_beside_writes(reads, writes)
    }

    fn home(&self, offset_bytes: u64) -> u16 {
        (**self).home(offset_bytes)
    }

    fn copies(&self, offset_bytes: u64) -> Vec<u16> {
        (**self).copies(offset_bytes)
    }

    fn read_copy(&mut self, device: u16, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        (**self).read_copy(device, offset_bytes, buf)
    }

    fn write_copy(&mut self, device: u16, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        (**self).write_copy(device, offset_bytes, bytes)
    }

    fn flush_copy(&mut self, device: u16) -> Result<(), MediaError> {
        (**self).flush_copy(device)
    }

    fn dropped_since(&self, epoch: u64) -> Vec<u16> {
        (**self).dropped_since(epoch)
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        (**self).write(offset_bytes, bytes)
    }

    fn write_at_once(&mut self, parts: &[(u64, &[u8])]) -> Result<(), (u64, MediaError)> {
        (**self).write_at_once(parts)
    }

    fn write_zeroes(&mut self, offset_bytes: u64, length_bytes: usize) -> Result<(), MediaError> {
        (**self).write_zeroes(offset_bytes, length_bytes)
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        (**self).flush()
    }
}

/// Reads pages of one place after the other, without comparing copies of them.
pub(crate) fn read_one_by_one<D: SyncDevice + ?Sized>(
    device: &mut D,
    parts: &mut [(u64, &mut [u8])],
) -> PagesRead {
    parts.iter_mut().try_for_each(|(at, buf)| device.read_pages(*at, buf).map_err(|error| (*at, error)))?;
    Ok(uncompared(device, parts))
}

/// The offsets of all of these pages, where devices below have copies: they were not compared with what another one has, because it failed to tell,
/// or is not read. One that is resilvered at the moment may have pages that no flush covered.
pub(crate) fn uncompared<D: SyncDevice + ?Sized>(device: &D, parts: &[(u64, &mut [u8])]) -> Vec<u64> {
    if !device.has_copies() || planted("pages-that-were-not-compared-count-as-the-same") {
        return Vec::new();
    }
    let pages = |(at, buf): &(u64, &mut [u8])| (*at..*at + buf.len() as u64).step_by(PAGE_BYTES);
    parts.iter().flat_map(pages).collect()
}

/// Neighbouring pieces of these lengths, of the bytes from the first on.
///
/// # Panics
/// When they are more than there are.
pub fn pieces_of(
    bytes: &mut [u8],
    lengths: impl IntoIterator<Item = usize>,
) -> impl Iterator<Item = &mut [u8]> {
    let mut rest = bytes;
    lengths.into_iter().map(move |length| {
        let (piece, behind) = std::mem::take(&mut rest).split_at_mut(length);
        rest = behind;
        piece
    })
}

pub(crate) fn read(device: &mut dyn SyncDevice, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
    device.read(offset, buf).map_err(|error| StoreError::media("read", offset, error))
}

/// How often a start tries to read something.
const TRIES: usize = 4;

/// As [`SyncDevice::read_right`], of what is believed once it was looked at: a read that fails is tried again.
pub(crate) fn read_with_tries(
    device: &mut dyn SyncDevice,
    offset: u64,
    buf: &mut [u8],
    is_right: &dyn Fn(&[u8]) -> bool,
) -> Result<(), MediaError> {
    let tries = if planted("reads-of-a-start-tried-twice") { 2 } else { TRIES };
    with_tries(tries, || device.read_right(offset, buf, is_right))
}

/// What each of the devices below has of these pages, where they have copies of their own, and the offsets of those that it cannot read, whose bytes
/// are zeroes then, which no page of ours is. One that does not answer is left out.
///
/// # Errors
/// Those of `take`, and that none of them answers.
pub(crate) fn for_each_copy(
    device: &mut dyn SyncDevice,
    (offset, bytes): (u64, usize),
    mut take: impl FnMut(&[u8], &[u64]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut buf = vec![0; bytes];
    let mut has_answered = false;
    for copy in device.copies(offset) {
        if let Ok(unreadable) = read_pages_of(device, copy, offset, &mut buf) {
            take(&buf, &unreadable)?;
            has_answered = true;
        }
    }
    if has_answered { Ok(()) } else { Err(StoreError::media("read", offset, MediaError::Gone)) }
}

/// Reads pages of one of the devices below; where that fails, page by page. Gives the offsets of those that cannot be read.
fn read_pages_of(
    device: &mut dyn SyncDevice,
    copy: u16,
    offset: u64,
    buf: &mut [u8],
) -> Result<Vec<u64>, MediaError> {
    match device.read_copy(copy, offset, buf) {
        Ok(()) => Ok(Vec::new()),
        Err(MediaError::Io) => {
            page_by_page(offset, buf, |at, page| device.read_copy(copy, at, page)).map_err(|(_, error)| error)
        }
        Err(error) => Err(error),
    }
}

/// Reads each page by itself. Gives the offsets of those that cannot be read, whose bytes are zeroes then.
///
/// # Errors
/// Others than that a place cannot be read, and where.
fn page_by_page(
    offset: u64,
    buf: &mut [u8],
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), MediaError>,
) -> Result<Vec<u64>, (u64, MediaError)> {
    /// After so many from the first on that cannot be read, each of the others is tried once: the device may fail all.
    const MOST_IN_VAIN: usize = 8;
    let mut unreadable = Vec::new();
    for (number, (at, page)) in (offset..).step_by(PAGE_BYTES).zip(buf.chunks_mut(PAGE_BYTES)).enumerate() {
        let is_in_vain = number >= MOST_IN_VAIN && unreadable.len() == number;
        match with_tries(if is_in_vain { 1 } else { TRIES }, || read(at, page)) {
            Ok(()) => {}
            Err(MediaError::Io) => {
                page.fill(0);
                unreadable.push(at);
            }
            Err(error) => return Err((at, error)),
        }
    }
    Ok(unreadable)
}

/// Reads up to so many times, because a device may fail once and then not again.
fn with_tries(tries: usize, mut read: impl FnMut() -> Result<(), MediaError>) -> Result<(), MediaError> {
    let mut result = Ok(());
    for _ in 0..tries {
        result = read();
        if result.is_ok() {
            break;
        }
    }
    result
}

/// As [`SyncDevice::read_pages`]; where that fails, page by page. Gives the offsets of those that cannot be read, whose bytes are zeroes
/// then, which no page of ours is: whoever asks has another copy of each, or finds out what may be missing.
///
/// # Errors
/// Others than that a place cannot be read.
pub(crate) fn read_each_page(
    device: &mut dyn SyncDevice,
    offset: u64,
    buf: &mut [u8],
) -> Result<Vec<u64>, StoreError> {
    match device.read_pages(offset, buf) {
        Ok(()) => return Ok(Vec::new()),
        Err(MediaError::Io) if !planted("unreadable-copy-refuses-start") => {}
        Err(error) => return Err(StoreError::media("read", offset, error)),
    }
    page_by_page(offset, buf, |at, page| device.read_pages(at, page))
        .map_err(|(at, error)| StoreError::media("read", at, error))
}

pub(crate) fn write(device: &mut dyn SyncDevice, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
    device.write(offset, bytes).map_err(|error| StoreError::media("write", offset, error))
}

/// Runs of those of these pages that are whole, each with where it begins. Of a pair of SSDs a page that is not may be what one of them has,
/// while the other one could not be read: written again, it would take the place of the right one there.
pub(crate) fn whole_pages(bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let is_whole = |page: usize| {
        let page = &bytes[page * PAGE_BYTES..(page + 1) * PAGE_BYTES];
        is_sealed(page) || planted("damaged-pages-written-again")
    };
    let pages: Vec<usize> = (0..bytes.len() / PAGE_BYTES).filter(|&page| is_whole(page)).collect();
    let runs = pages.chunk_by(|one, next| one + 1 == *next);
    let run = |run: &[usize]| (run[0] * PAGE_BYTES, (run[run.len() - 1] + 1) * PAGE_BYTES);
    runs.map(run).map(|(start, end)| (start as u64, &bytes[start..end])).collect()
}

/// What came of several reads or writes at once.
pub(crate) fn at_once<T>(what: &str, result: Result<T, (u64, MediaError)>) -> Result<T, StoreError> {
    result.map_err(|(offset, error)| StoreError::media(what, offset, error))
}

pub(crate) fn write_zeroes(device: &mut dyn SyncDevice, offset: u64, bytes: usize) -> Result<(), StoreError> {
    device.write_zeroes(offset, bytes).map_err(|error| StoreError::media("zero", offset, error))
}

pub(crate) fn flush(device: &mut dyn SyncDevice) -> Result<(), StoreError> {
    let mut result = device.flush();
    if result == Err(MediaError::Io) && planted("flush-of-a-start-tried-again") {
        result = device.flush();
    }
    result.map_err(|error| StoreError::media("flush", 0, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = PAGE_BYTES as u64;
    const PAGES: usize = 100;

    /// Two devices with copies: of each which pages it cannot read, none where it does not answer, and how often it was asked.
    struct Copies([Option<std::ops::Range<u64>>; 2], [usize; 2]);

    impl SyncDevice for Copies {
        fn size_bytes(&self) -> u64 {
            PAGES as u64 * PAGE
        }

        fn read(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
            self.read_copy(0, offset_bytes, buf)
        }

        fn has_copies(&self) -> bool {
            true
        }

        fn copies(&self, _offset_bytes: u64) -> Vec<u16> {
            vec![0, 1]
        }

        fn read_copy(&mut self, device: u16, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
            self.1[usize::from(device)] += 1;
            let Some(bad) = &self.0[usize::from(device)] else { return Err(MediaError::Gone) };
            let pages = offset_bytes / PAGE..(offset_bytes + buf.len() as u64) / PAGE;
            buf.fill(1 + device as u8);
            if pages.start < bad.end && bad.start < pages.end { Err(MediaError::Io) } else { Ok(()) }
        }

        fn write(&mut self, _offset_bytes: u64, _bytes: &[u8]) -> Result<(), MediaError> {
            Err(MediaError::Io)
        }

        fn flush(&mut self) -> Result<(), MediaError> {
            Ok(())
        }
    }

    #[test]
    fn what_a_device_cannot_read_is_told_of_each() {
        let all = 0..PAGES as u64;
        for (bad, most_reads) in [
            ([Some(3..5), Some(0..0)], 1 + PAGES + 2 * TRIES),
            ([Some(all), None], 1 + 8 * TRIES + PAGES - 8),
        ] {
            let mut device = Copies(bad.clone(), [0; 2]);
            let mut found = Vec::new();
            let take = |bytes: &[u8], unreadable: &[u64]| {
                for (at, page) in (0..).step_by(PAGE_BYTES).zip(bytes.chunks(PAGE_BYTES)) {
                    let byte = if unreadable.contains(&at) { 0 } else { 1 + found.len() as u8 };
                    assert!(page.iter().all(|&found| found == byte), "page at {at}");
                }
                found.push(unreadable.len() as u64);
                Ok(())
            };
            for_each_copy(&mut device, (0, PAGES * PAGE_BYTES), take).unwrap();
            let expected: Vec<u64> = bad.iter().flatten().map(|bad| bad.end - bad.start).collect();
            assert_eq!(found, expected);
            assert!(device.1[0] <= most_reads && device.1[1] == 1, "{:?}", device.1);
        }
        let mut silent = Copies([None, None], [0; 2]);
        let error = for_each_copy(&mut silent, (0, PAGE_BYTES), |_, _| Ok(())).unwrap_err();
        assert_eq!(error.kind(), crate::StoreErrorKind::Media);
    }
}
