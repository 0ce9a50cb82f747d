//! Pages of place tables that a start writes once more to where they are: those that no flush is known to cover, and on a pair of SSDs those that
//! differ. It must not know what the pages say, beyond whose they are.

use std::ops::Range;

use lode_format::{PAGE_BYTES, TableView, VolumeTag};
use lode_types::planted;

use crate::attach::RecoveredSpace;
use crate::device::{SyncDevice, for_each_copy};
use crate::error::StoreError;
use crate::store::Store;
use crate::stretches::{ReadStretch, Stretch, rewrite};
use crate::table_runs::{PAIR_BYTES, TableRun};

impl Store {
    /// Writes the pages of the place tables that no flush is known to cover once more to where they are: the flush that should have covered them may
    /// have failed, and with the older copy of a page written over, here or by a checkpoint, a power cut could take both. The older copies are
    /// written along, because they lie between. What was written before the last start, or before the latest checkpoint that the journal calls
    /// durable, is covered.
    ///
    /// Of a pair one SSD was read. Pages that differ on the other one are written, too; should that come to nothing, the next start finds
    /// them alike, and must not take them for durable.
    pub(crate) fn write_tables_again(
        &mut self,
        device: &mut dyn SyncDevice,
        tag: VolumeTag,
        space: &RecoveredSpace,
    ) -> Result<(), StoreError> {
        if self.view.is_durable || planted("tables-not-written-again") {
            return Ok(());
        }
        let runs = self.runs_to_write_again(device, space)?;
        let has_copies = device.has_copies();
        if has_copies && !runs.is_empty() {
            self.forget_run(device, tag)?;
        }
        let (layout, extents) = (&self.view.layout, &space.extents.written);
        rewrite(device, runs.into_iter().map(|run| run.stretch(layout, extents)), |read| {
            if has_copies {
                self.leave_out_foreign(tag, extents, read);
            }
        })
    }

    fn runs_to_write_again(
        &self,
        device: &mut dyn SyncDevice,
        space: &RecoveredSpace,
    ) -> Result<Vec<TableRun>, StoreError> {
        let (pages, extents) = (self.view.layout.extent.table_pages, &space.extents.written);
        let mut again = Vec::new();
        for run in (0..extents.len()).flat_map(|ordinal| TableRun::of(ordinal, 0..pages)) {
            let recent = space.recovered.found.recent_pages(run.ordinal, run.pages.clone());
            let pages = hull([recent, self.different_pages(device, extents, &run)?]);
            if !pages.is_empty() {
                again.push(TableRun { pages, ..run });
            }
        }
        Ok(again)
    }

    /// The pages of a run that differ between the SSDs of a pair, and those between them. All of them where an SSD does not answer, or only one
    /// is in sync: the other one may be resilvered at the moment, and have pages that no flush covered and nobody reads before it counts.
    fn different_pages(
        &self,
        device: &mut dyn SyncDevice,
        extents: &[u32],
        run: &TableRun,
    ) -> Result<Range<u32>, StoreError> {
        let Stretch { offset_bytes, bytes, .. } = run.clone().stretch(&self.view.layout, extents);
        let copies = device.copies(offset_bytes).len();
        if !device.has_copies() || planted("old-tables-of-a-pair-left") {
            return Ok(0..0);
        }
        if copies < 2 && !planted("tables-of-the-resilvered-left") {
            return Ok(run.pages.clone());
        }
        let (mut first, mut answers, mut different): (Option<Vec<u8>>, _, _) = (None, 0, 0..0);
        for_each_copy(device, (offset_bytes, bytes), |copy, _| {
            answers += 1;
            let first = first.get_or_insert_with(|| copy.to_vec());
            let pairs = first.chunks_exact(PAIR_BYTES).zip(copy.chunks_exact(PAIR_BYTES));
            for (page, _) in run.pages.clone().zip(pairs).filter(|(_, (one, other))| one != other) {
                different = hull([different.clone(), page..page + 1]);
            }
            Ok(())
        })?;
        Ok(if answers == copies { different } else { run.pages.clone() })
    }

    /// On a pair of SSDs leaves out what is whole and does not belong there: it would be written over the right page of the other SSD.
    fn leave_out_foreign(
        &self,
        tag: VolumeTag,
        extents: &[u32],
        ReadStretch { what: TableRun { ordinal, pages }, bytes, .. }: &mut ReadStretch<'_, TableRun>,
    ) {
        if planted("foreign-page-on-both-ssds") {
            return;
        }
        let (cache, extent) = (self.view.superblock.cache, extents[*ordinal]);
        for (page, pair) in pages.clone().zip(bytes.chunks_exact_mut(PAIR_BYTES)) {
            for (number, side) in (0..).zip(pair.chunks_exact_mut(PAGE_BYTES)) {
                let table = TableView::open(cache, tag, extent, page, side);
                if !table.is_ok_and(|table| table.is_copy(number)) {
                    side.fill(0);
                }
            }
        }
    }
}

/// The least range with both in it.
fn hull([one, other]: [Range<u32>; 2]) -> Range<u32> {
    match (one.is_empty(), other.is_empty()) {
        (true, _) => other,
        (_, true) => one,
        _ => one.start.min(other.start)..one.end.max(other.end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hull_has_both_and_what_lies_between() {
        assert_eq!(hull([2..3, 7..9]), 2..9);
        assert_eq!(hull([7..9, 2..8]), 2..9);
        assert_eq!((hull([5..5, 2..3]), hull([2..3, 0..0]), hull([0..0, 0..0])), (2..3, 2..3, 0..0));
    }
}
