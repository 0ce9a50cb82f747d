//! Table pages as they are read and written again, many at a time: the tables of an extent are short, and a device that is asked for those
//! of one after the other is slow. It must not know what pages say.

use std::iter::Peekable;
use std::ops::Range;

use lode_format::{DeviceLayout, PAGE_BYTES};

use crate::device::{SyncDevice, at_once, whole_pages};
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
        at_once("read", device.read_pages_at_once(&mut batch.places(layout, extents)))?;
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
        at_once("read", result)?;
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
}

impl Batch {
    /// The next runs, as many as are read at once. False: there are none.
    fn fill(&mut self, runs: &mut Peekable<impl Iterator<Item = TableRun>>) -> bool {
        self.runs.clear();
        let mut batch_bytes = 0;
        while let Some(run) = runs.next_if(|run| batch_bytes + run.bytes() <= BATCH_BYTES) {
            batch_bytes += run.bytes();
            self.runs.push(run);
        }
        self.bytes.resize(batch_bytes, 0);
        !self.runs.is_empty()
    }

    fn runs<'a>(&'a mut self, layout: &DeviceLayout, extents: &[u32]) -> impl Iterator<Item = ReadRun<'a>> {
        let mut rest = &mut self.bytes[..];
        self.runs.iter().map(move |run| {
            let (bytes, behind) = std::mem::take(&mut rest).split_at_mut(run.bytes());
            rest = behind;
            let table = layout.extent.table_page(run.pages.start, 0);
            ReadRun {
                run: run.clone(),
                offset_bytes: layout.extent_start(extents[run.ordinal]) + table,
                bytes,
            }
        })
    }

    /// Where they are, and where they are to go.
    fn places<'a>(&'a mut self, layout: &DeviceLayout, extents: &[u32]) -> Vec<(u64, &'a mut [u8])> {
        self.runs(layout, extents).map(|ReadRun { offset_bytes, bytes, .. }| (offset_bytes, bytes)).collect()
    }
}

/// Writes pages of runs to where they were read, as far as they are whole.
pub(crate) fn write_runs<'a>(device: &mut dyn SyncDevice, runs: &'a [ReadRun<'_>]) -> Result<(), StoreError> {
    let of_run = |run: &'a ReadRun<'_>| {
        whole_pages(run.bytes).into_iter().map(|(at, pages)| (run.offset_bytes + at, pages))
    };
    let parts: Vec<(u64, &[u8])> = runs.iter().flat_map(of_run).collect();
    at_once("write", device.write_at_once(&parts))
}

#[cfg(test)]
mod tests {
    use super::*;

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
