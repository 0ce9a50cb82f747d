//! Pages of place tables that a start writes once more to where they are: those that no flush is known to cover, and those of which the SSDs of a
//! pair have not the same. It must not know what the pages say, beyond whose they are.

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
    /// Writes the pages of the place tables that no flush is known to cover once more to where they are, for the same reason as blocks: with the
    /// older copy of a page written over, here or by a checkpoint, a power cut could take both. The older copies are written along,
    /// because they lie between. What was written before the last start, or before the latest checkpoint that the journal calls durable,
    /// is covered. Of a pair one SSD was read, so that what the other one has is compared with it.
    pub(crate) fn write_tables_again(
        &self,
        device: &mut dyn SyncDevice,
        tag: VolumeTag,
        space: &RecoveredSpace,
    ) -> Result<(), StoreError> {
        if self.view.is_durable || planted("tables-not-written-again") {
            return Ok(());
        }
        let (layout, extents) = (&self.view.layout, &space.extents.written);
        let all = (0..extents.len()).flat_map(|ordinal| TableRun::of(ordinal, 0..layout.extent.table_pages));
        let mut again = Vec::new();
        for run in all {
            let recent = space.recovered.found.recent_pages(run.ordinal, run.pages.clone());
            let different = self.different_pages(device, extents, &run)?;
            let pages = hull([recent, different]);
            if !pages.is_empty() {
                again.push(TableRun { pages, ..run });
            }
        }
        let has_copies = device.has_copies();
        rewrite(device, again.into_iter().map(|run| run.stretch(layout, extents)), |read| {
            self.leave_out_foreign(has_copies, tag, extents, read);
        })
    }

    /// The pages of a run of which the SSDs of a pair have not the same, those between them included. All of them where one does not answer.
    fn different_pages(
        &self,
        device: &mut dyn SyncDevice,
        extents: &[u32],
        run: &TableRun,
    ) -> Result<Range<u32>, StoreError> {
        if !device.has_copies() || planted("old-tables-of-a-pair-left") {
            return Ok(0..0);
        }
        let Stretch { offset_bytes, bytes, .. } = run.clone().stretch(&self.view.layout, extents);
        let (mut first, mut answers, mut different): (Vec<u8>, _, _) = (Vec::new(), 0, 0..0);
        for_each_copy(device, (offset_bytes, bytes), |copy, _| {
            answers += 1;
            if first.is_empty() {
                first = copy.to_vec();
            }
            let pairs = first.chunks_exact(PAIR_BYTES).zip(copy.chunks_exact(PAIR_BYTES));
            for (page, _) in run.pages.clone().zip(pairs).filter(|(_, (one, other))| one != other) {
                different = hull([different.clone(), page..page + 1]);
            }
            Ok(())
        })?;
        let all_have_answered = answers == device.copies(offset_bytes).len();
        Ok(if all_have_answered { different } else { run.pages.clone() })
    }

    /// On a pair of SSDs leaves out what is whole and does not belong there: it would be written over the right page of the other SSD.
    pub(crate) fn leave_out_foreign(
        &self,
        has_copies: bool,
        tag: VolumeTag,
        extents: &[u32],
        ReadStretch { what: TableRun { ordinal, pages }, bytes, .. }: &mut ReadStretch<'_, TableRun>,
    ) {
        if !has_copies || planted("foreign-page-on-both-ssds") {
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
