//! Pages of place tables that a start writes once more to where they are: those that no flush is known to cover, and on a pair of SSDs those that
//! differ. It must not know what the pages say, beyond whose they are.

use lode_format::{PAGE_BYTES, TableView, VolumeTag};
use lode_types::planted;

use crate::attach::RecoveredSpace;
use crate::device::SyncDevice;
use crate::error::StoreError;
use crate::store::Store;
use crate::stretches::{ReadStretch, rewrite};
use crate::table_runs::{PAIR_BYTES, TableRun};

impl Store {
    /// Writes the pages of the place tables that no flush is known to cover once more to where they are: the flush that should have covered them may
    /// have failed, and with the older copy of a page written over, here or by a checkpoint, a power cut could take both. The older copies are
    /// written along, because they lie between. What was written before the last start, or before the latest checkpoint that the journal calls
    /// durable, is covered.
    ///
    /// Of a pair pages that differ are written, too; should that come to nothing, the next start finds them alike, and must not take them
    /// for durable.
    pub(crate) fn write_tables_again(
        &mut self,
        device: &mut dyn SyncDevice,
        tag: VolumeTag,
        space: &RecoveredSpace,
    ) -> Result<(), StoreError> {
        if self.view.is_durable || planted("tables-not-written-again") {
            return Ok(());
        }
        let runs = self.runs_to_write_again(space);
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

    fn runs_to_write_again(&self, space: &RecoveredSpace) -> Vec<TableRun> {
        let pages = self.view.layout.extent.table_pages;
        let runs = (0..space.extents.written.len()).flat_map(|ordinal| TableRun::of(ordinal, 0..pages));
        let recent = |TableRun { ordinal, pages }| TableRun {
            pages: space.recovered.found.recent_pages(ordinal, pages),
            ordinal,
        };
        runs.map(recent).filter(|run| !run.pages.is_empty()).collect()
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
