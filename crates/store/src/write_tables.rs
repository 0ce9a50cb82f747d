//! Place tables that a start brings up to what it found, both copies of each page, so that the journal of before is not needed any more. It
//! must not know how anything was found.

use lode_format::{TablePage, VolumeTag, page_checksum};
use lode_types::planted;

use crate::attach::RecoveredSpace;
use crate::device::{SyncDevice, at_once, flush};
use crate::error::StoreError;
use crate::found_page::Says;
use crate::recover::Recovered;
use crate::store::Store;
use crate::table_runs::TableRun;

/// Bytes that are written at once.
const BATCH_BYTES: usize = 8 << 20;

impl Store {
    /// Brings both copies of the table pages up to what was recovered, one after the other, so that the
    /// old ring is not needed any more.
    ///
    /// Where something is believed that only memory, or a journal page that no flush covers, says, a power cut in between must
    /// not find the page that gives an older copy of a block up and not yet the one with its newer copy. So first the pages with such
    /// newer copies say what is believed *and* what they said before; of two copies the newer one counts.
    pub(crate) fn write_tables(
        &mut self,
        device: &mut dyn SyncDevice,
        tag: VolumeTag,
        space: &mut RecoveredSpace,
    ) -> Result<(), StoreError> {
        let stale = space.recovered.found.unsettled();
        if !stale.is_empty() {
            self.forget_run(device, tag)?;
        }
        let Recovered { version, durable, ref found, .. } = space.recovered;
        // Where the newer copy is right, the older one alone is written.
        let both_stale = found.with_newer_wrong(&stale);
        if version > durable && !planted("believed-and-before-not-both") {
            let with_believed = found.later_than(durable, &both_stale);
            flush(device)?;
            // Records of the journal go on counting: pages speak of no more than before as durable.
            self.write_pages(device, tag, space, &with_believed, (Says::FoundAndBefore, None))?;
        }
        // A volume that is new, or was closed, has none: what else was written, the caller flushes.
        let copies =
            [&stale, &both_stale].into_iter().take(2 - usize::from(planted("copy-stale-after-start")));
        for pages in copies.filter(|pages| !pages.is_empty()) {
            // Moved blocks and verified tails must be durable before a table speaks of them, and one copy
            // before the other is changed.
            flush(device)?;
            self.write_pages(device, tag, space, pages, (Says::Found, Some(version)))?;
        }
        space.recovered.found.settle(&stale);
        Ok(())
    }

    /// Notes durably that table pages may have been written since the last run. Should this start come to nothing, because a flush fails
    /// or the power, the next one cannot tell its pages from those that were durable before, and writes all of them again.
    pub(crate) fn forget_run(
        &mut self,
        device: &mut dyn SyncDevice,
        tag: VolumeTag,
    ) -> Result<(), StoreError> {
        let mut next = self.view.directory.clone();
        let volume = next.volumes.iter_mut().flatten().find(|volume| volume.tag == tag);
        let Some(volume) = volume.filter(|volume| volume.run_version > 0) else { return Ok(()) };
        if planted("start-not-noted-before-its-tables") {
            return Ok(());
        }
        volume.run_version = 0;
        self.write_directory(device, next)
    }

    /// Writes pages to their older copies: what they are to say, with this stamp or the one that they have. Newer copies are written along
    /// as they are, because they lie between, and so are the pages between, of which the older copy comes to say what the newer one does: page by page
    /// it would take many times as long. A sector that gets the bytes that it has is the same whether or not the write comes to its end.
    fn write_pages(
        &self,
        device: &mut dyn SyncDevice,
        tag: VolumeTag,
        space: &mut RecoveredSpace,
        pages: &[usize],
        to_say: (Says, Option<u64>),
    ) -> Result<(), StoreError> {
        let mut left = pages.iter().copied().peekable();
        let mut batch = Batch::default();
        for run in TableRun::around(pages, self.view.layout.extent.table_pages) {
            let first = run.ordinal * self.view.layout.extent.table_pages as usize;
            for page in run.pages.clone() {
                let index = first + page as usize;
                let to_say = left.next_if_eq(&index).map(|_| to_say);
                self.put_page(&mut batch, tag, space, (index, to_say));
            }
            if batch.bytes.len() >= BATCH_BYTES {
                batch.write(device)?;
            }
        }
        batch.write(device)
    }

    /// Puts what is to be written of a page, by its number over all extents, into a batch.
    fn put_page(
        &self,
        batch: &mut Batch,
        tag: VolumeTag,
        RecoveredSpace { extents, recovered: Recovered { found, .. } }: &mut RecoveredSpace,
        (index, to_say): (usize, Option<(Says, Option<u64>)>),
    ) {
        let per_extent = self.view.layout.extent.table_pages as usize;
        let (extent, page) = (extents.written[index / per_extent], (index % per_extent) as u32);
        let offset_bytes = |copy| {
            let layout = &self.view.layout;
            layout.extent_start(extent) + layout.extent.table_page(page, copy)
        };
        let mut of_page = *found.page_mut(index);
        let encode = |sequence, stamp, says| {
            let entries = found.entries_of_page(index, says);
            let table = TablePage { volume: tag, extent, page, sequence, stamp, entries };
            (table.copy(), table.encode(self.view.superblock.cache))
        };
        let (side, newer) = encode(of_page.sequence, of_page.stamp, of_page.says);
        // Whoever wrote it may have said the same in other words.
        let is_same =
            of_page.checksum == Some(page_checksum(&newer)) || planted("newer-copy-written-as-it-should-be");
        if to_say.is_none() && !is_same {
            return;
        }
        of_page.sequence += 1;
        if let Some((says, stamp)) = to_say {
            (of_page.says, of_page.stamp) = (says, stamp.unwrap_or(of_page.stamp));
        }
        let (older_side, older) = encode(of_page.sequence, of_page.stamp, of_page.says);
        of_page.checksum = Some(page_checksum(&older));
        *found.page_mut(index) = of_page;
        let mut sides = [(side, newer), (older_side, older)];
        sides.sort_unstable_by_key(|&(side, _)| side);
        for (copy, bytes) in sides.iter().filter(|&&(copy, _)| copy == older_side || is_same) {
            batch.put(offset_bytes(*copy), &bytes[..]);
        }
    }
}

/// Pages that are written at once: what lies together as one piece.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Where each piece goes on the device, and where it begins here.
    pieces: Vec<(u64, usize)>,
}

impl Batch {
    fn put(&mut self, offset_bytes: u64, page: &[u8]) {
        let is_next = |&(at, start): &(u64, usize)| at + (self.bytes.len() - start) as u64 == offset_bytes;
        if !self.pieces.last().is_some_and(is_next) {
            self.pieces.push((offset_bytes, self.bytes.len()));
        }
        self.bytes.extend_from_slice(page);
    }

    /// Writes them, and begins anew.
    fn write(&mut self, device: &mut dyn SyncDevice) -> Result<(), StoreError> {
        let ends = self.pieces.iter().skip(1).map(|&(_, start)| start).chain([self.bytes.len()]);
        let piece =
            |(&(offset_bytes, start), end): (&(u64, usize), usize)| (offset_bytes, &self.bytes[start..end]);
        let pieces: Vec<(u64, &[u8])> = self.pieces.iter().zip(ends).map(piece).collect();
        at_once("write", device.write_at_once(&pieces))?;
        self.pieces.clear();
        self.bytes.clear();
        Ok(())
    }
}
