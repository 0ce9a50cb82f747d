//! Table pages as they are read and written again, many at a time: the tables of an extent are short, and a device that is asked for those
//! of one after the other is slow. It must not know what pages say.

use std::iter::Peekable;
use std::ops::Range;

use lode_format::{DeviceLayout, PAGE_BYTES};
use lode_types::MediaError;

use crate::device::{SyncDevice, at_once, read_each_page, whole_pages};
use crate::error::StoreError;

/// Bytes of a page with both its copies, which lie side by side.
pub(crate) const PAIR_BYTES: usize = 2 * PAGE_BYTES;
/// Bytes that are read at once.
const BATCH_BYTES: usize = 4 << 20;
/// Pages of a run at most: several make a batch, also where the tables of an extent are long.
const MOST_PAGES: u32 = ((512 << 10) / PAIR_BYTES) as u32;
const _: () = assert!(MOST_PAGES as usize * PAIR_BYTES <= BATCH_BYTES);
/// So many pages between two that are wanted are read along rather than that there are two runs.
const MOST_BETWEEN: usize = 8;

/// Neighbouring pages of an extent, by its number among the volume's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableRun {
    pub(crate) ordinal: usize,
    pub(crate) pages: Range<u32>,
}

impl TableRun {
    /// The runs of which these pages of an extent consist.
    pub(crate) fn of(ordinal: usize, pages: Range<u32>) -> impl Iterator<Item = TableRun> {
        let end = pages.end;
        let firsts = pages.step_by(MOST_PAGES as usize);
        firsts.map(move |first| TableRun { ordinal, pages: first..end.min(first + MOST_PAGES) })
    }

    /// The runs in which these pages lie, which are in ascending order and numbered over all extents of so many pages each.
    pub(crate) fn around(pages: &[usize], per_extent: u32) -> impl Iterator<Item = TableRun> {
        let per_extent = per_extent as usize;
        let are_near = move |one: &usize, next: &usize| {
            next - one <= 1 + MOST_BETWEEN && one / per_extent == next / per_extent
        };
        pages.chunk_by(are_near).flat_map(move |near| {
            let (ordinal, first) = (near[0] / per_extent, near[0] % per_extent);
            let end = near[near.len() - 1] % per_extent + 1;
            TableRun::of(ordinal, first as u32..end as u32)
        })
    }

    fn bytes(&self) -> usize {
        self.pages.len() * PAIR_BYTES
    }
}

/// A run that was read: both copies of each of its pages, and where they are.
pub(crate) struct ReadRun<'a> {
    pub(crate) run: TableRun,
    pub(crate) offset_bytes: u64,
    pub(crate) bytes: &'a mut [u8],
    /// How many of its pages, counting both copies, could not be read. Their bytes are zeroes.
    pub(crate) unreadable: usize,
}

/// Reads runs of the tables of these extents, and hands them on in their order, as many at a time as are read at once.
///
/// # Errors
/// Those of the device and of `take`; nothing more is read then.
pub(crate) fn read_runs(
    device: &mut dyn SyncDevice,
    layout: &DeviceLayout,
    extents: &[u32],
    runs: impl Iterator<Item = TableRun>,
    mut take: impl FnMut(&mut dyn SyncDevice, Vec<ReadRun<'_>>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut runs = runs.peekable();
    let mut batch = Batch::default();
    while batch.fill(&mut runs) {
        let result = device.read_pages_at_once(&mut batch.places(layout, extents));
        batch.read_again(device, layout, extents, result)?;
        take(device, batch.runs(layout, extents).collect())?;
    }
    Ok(())
}

/// As [`read_runs`], reading on while `take` has those before.
pub(crate) fn read_runs_ahead(
    device: &mut dyn SyncDevice,
    layout: &DeviceLayout,
    extents: &[u32],
    runs: impl Iterator<Item = TableRun>,
    mut take: impl FnMut(ReadRun<'_>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut runs = runs.peekable();
    // At first none was read before, and at last none is left to be read.
    let (mut read, mut ahead) = (Batch::default(), Batch::default());
    loop {
        let is_last = !ahead.fill(&mut runs);
        let mut taken = Ok(());
        let mut take_all = || taken = read.runs(layout, extents).try_for_each(&mut take);
        let result = device.read_pages_beside(&mut ahead.places(layout, extents), &mut take_all);
        taken?;
        ahead.read_again(device, layout, extents, result)?;
        if is_last {
            return Ok(());
        }
        std::mem::swap(&mut read, &mut ahead);
    }
}

/// Runs that are read at once, one behind the other in memory.
#[derive(Default)]
struct Batch {
    runs: Vec<TableRun>,
    bytes: Vec<u8>,
    /// Offsets of pages that cannot be read.
    unreadable: Vec<u64>,
}

impl Batch {
    /// The next runs, as many as are read at once. False: there are none.
    fn fill(&mut self, runs: &mut Peekable<impl Iterator<Item = TableRun>>) -> bool {
        self.runs.clear();
        self.unreadable.clear();
        let mut batch_bytes = 0;
        while let Some(run) = runs.next_if(|run| batch_bytes + run.bytes() <= BATCH_BYTES) {
            batch_bytes += run.bytes();
            self.runs.push(run);
        }
        self.bytes.resize(batch_bytes, 0);
        !self.runs.is_empty()
    }

    /// Where a read of all of them has failed, reads them one by one.
    fn read_again(
        &mut self,
        device: &mut dyn SyncDevice,
        layout: &DeviceLayout,
        extents: &[u32],
        result: Result<(), (u64, MediaError)>,
    ) -> Result<(), StoreError> {
        if !matches!(result, Err((_, MediaError::Io))) {
            return at_once("read", result);
        }
        let mut unreadable = Vec::new();
        for (offset_bytes, bytes) in self.places(layout, extents) {
            unreadable.extend(read_each_page(device, offset_bytes, bytes)?);
        }
        self.unreadable = unreadable;
        Ok(())
    }

    fn runs<'a>(&'a mut self, layout: &DeviceLayout, extents: &[u32]) -> impl Iterator<Item = ReadRun<'a>> {
        let Batch { runs, bytes, unreadable } = self;
        let mut rest = &mut bytes[..];
        runs.iter().map(move |run| {
            let (bytes, behind) = std::mem::take(&mut rest).split_at_mut(run.bytes());
            rest = behind;
            let offset_bytes =
                layout.extent_start(extents[run.ordinal]) + layout.extent.table_page(run.pages.start, 0);
            let inside = offset_bytes..offset_bytes + run.bytes() as u64;
            let unreadable = unreadable.iter().filter(|at| inside.contains(at)).count();
            ReadRun { run: run.clone(), offset_bytes, bytes, unreadable }
        })
    }

    /// Where they are, and where they are to go.
    fn places<'a>(&'a mut self, layout: &DeviceLayout, extents: &[u32]) -> Vec<(u64, &'a mut [u8])> {
        self.runs(layout, extents).map(|ReadRun { offset_bytes, bytes, .. }| (offset_bytes, bytes)).collect()
    }
}

/// Writes pages of runs to where they were read, as far as they are whole: what could not be read may be readable another time.
pub(crate) fn write_runs<'a>(device: &mut dyn SyncDevice, runs: &'a [ReadRun<'_>]) -> Result<(), StoreError> {
    let of_run = |run: &'a ReadRun<'_>| {
        whole_pages(run.bytes).into_iter().map(|(at, pages)| (run.offset_bytes + at, pages))
    };
    let parts: Vec<(u64, &[u8])> = runs.iter().flat_map(of_run).collect();
    at_once("write", device.write_at_once(&parts))
}

#[cfg(test)]
mod tests {
    use lode_format::{CacheId, TablePage, VolumeTag};
    use lode_types::BlockSize;

    use super::*;

    /// Pages of which some cannot be read, as long as they are not written.
    struct Pages {
        bytes: Vec<u8>,
        unreadable: Vec<u64>,
    }

    impl SyncDevice for Pages {
        fn size_bytes(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn read(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
            let range = offset_bytes..offset_bytes + buf.len() as u64;
            if self.unreadable.iter().any(|at| range.contains(at)) {
                return Err(MediaError::Io);
            }
            buf.copy_from_slice(&self.bytes[range.start as usize..range.end as usize]);
            Ok(())
        }

        fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
            self.bytes[offset_bytes as usize..][..bytes.len()].copy_from_slice(bytes);
            Ok(())
        }

        fn flush(&mut self) -> Result<(), MediaError> {
            Ok(())
        }
    }

    /// It may be readable another time, as on a device that was away for a moment.
    #[test]
    fn g5_what_could_not_be_read_is_not_written_over() {
        let layout = DeviceLayout::new(64 << 20, 1 << 20, BlockSize::KIB_4).unwrap();
        let at = |page, copy| (layout.extent_start(3) + layout.extent.table_page(page, copy)) as usize;
        let table = |sequence| {
            let volume = VolumeTag(1);
            let table = TablePage { volume, extent: 3, page: 0, sequence, stamp: 0, entries: Vec::new() };
            table.encode(CacheId([1; 16]))
        };
        let (before, after) = (table(1), table(2));
        let mut device = Pages { bytes: before.repeat(16 << 10), unreadable: vec![] };
        device.unreadable = [at(0, 1), at(1, 0)].map(|at| at as u64).to_vec();
        let runs = TableRun::of(0, 0..layout.extent.table_pages);
        read_runs(&mut device, &layout, &[3], runs, |device, mut read| {
            assert_eq!(read.iter().map(|read| read.unreadable).sum::<usize>(), 2);
            // One that is known again is written, of whichever copy.
            read[0].bytes[2 * PAGE_BYTES..][..PAGE_BYTES].copy_from_slice(&after[..]);
            write_runs(device, &read)
        })
        .unwrap();
        for offset in (0..device.bytes.len()).step_by(PAGE_BYTES) {
            let expected = if offset == at(1, 0) { &after } else { &before };
            assert!(device.bytes[offset..][..PAGE_BYTES] == expected[..], "page at {offset}");
        }
    }

    #[test]
    fn pages_that_lie_near_are_read_together() {
        let runs = |pages: &[usize]| TableRun::around(pages, 100).collect::<Vec<_>>();
        let run = |ordinal, pages| TableRun { ordinal, pages };
        assert_eq!(runs(&[]), []);
        // Those between are read along; of two extents none lie together.
        assert_eq!(
            runs(&[3, 4, 13, 23, 99, 100, 101, 250]),
            [run(0, 3..14), run(0, 23..24), run(0, 99..100), run(1, 0..2), run(2, 50..51)]
        );
        // No run is longer than the longest.
        let all: Vec<usize> = (0..100).collect();
        assert_eq!(runs(&all), [run(0, 0..64), run(0, 64..100)]);
    }
}
