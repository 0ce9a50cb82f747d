//! Which table pages are read together. It must not know what pages say.

use std::ops::Range;

use lode_format::{DeviceLayout, PAGE_BYTES};

use crate::stretches::{MOST_BYTES, Stretch};

/// Bytes of a page with both its copies, which lie side by side.
pub(crate) const PAIR_BYTES: usize = 2 * PAGE_BYTES;
/// Pages of a run at most.
const MOST_PAGES: u32 = (MOST_BYTES / PAIR_BYTES) as u32;
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

    /// Where both copies of its pages are, with it.
    pub(crate) fn stretch(self, layout: &DeviceLayout, extents: &[u32]) -> Stretch<TableRun> {
        let offset_bytes =
            layout.extent_start(extents[self.ordinal]) + layout.extent.table_page(self.pages.start, 0);
        Stretch { offset_bytes, bytes: self.pages.len() * PAIR_BYTES, what: self }
    }
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
