//! Place tables that a start brings up to what it found, both copies of each page, so that the journal of before is not needed any more. It
//! must not know how anything was found.

use lode_format::{CacheId, DeviceLayout, TablePage, VolumeTag, page_checksum};
use lode_types::planted;

use crate::attach::RecoveredSpace;
use crate::device::{SyncDevice, Task, Workers, at_once, flush};
use crate::error::StoreError;
use crate::found::FoundPlaces;
use crate::found_page::{FoundPage, Says};
use crate::recover::Recovered;
use crate::store::Store;
use crate::table_runs::TableRun;

/// Pages, with both copies, that are made and written at once, and those of them that are made one after the other.
const PAGES_AT_ONCE: usize = 1024;
const PAGES_OF_SHARE: usize = 128;

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
            self.write_pages(
                device,
                tag,
                space,
                &with_believed,
                ToSay { says: Says::FoundAndBefore, stamp: None },
            )?;
        }
        // A volume that is new, or was closed, has none: what else was written, the caller flushes.
        let copies =
            [&stale, &both_stale].into_iter().take(2 - usize::from(planted("copy-stale-after-start")));
        for pages in copies.filter(|pages| !pages.is_empty()) {
            // Moved blocks and verified tails must be durable before a table speaks of them, and one copy
            // before the other is changed.
            flush(device)?;
            self.write_pages(device, tag, space, pages, ToSay { says: Says::Found, stamp: Some(version) })?;
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

    /// Writes pages to their older copies: what they are to say. Newer copies whose bytes are known are
    /// written along as they are, because they lie between, and so are the pages between, of which the older copy comes to say what the newer one does:
    /// page by page it would take many times as long. A sector that gets the bytes that it has is the same whether or not the write comes to its end.
    fn write_pages(
        &self,
        device: &mut dyn SyncDevice,
        tag: VolumeTag,
        RecoveredSpace { extents, recovered: Recovered { found, .. } }: &mut RecoveredSpace,
        pages: &[usize],
        to_say: ToSay,
    ) -> Result<(), StoreError> {
        let layout = &self.view.layout;
        let per_extent = layout.extent.table_pages as usize;
        let mut left = pages.iter().copied().peekable();
        let runs = TableRun::around(pages, layout.extent.table_pages);
        let around = runs.flat_map(|TableRun { ordinal, pages }| {
            let first = ordinal * per_extent;
            first + pages.start as usize..first + pages.end as usize
        });
        let to_write = around.map(|page| (page, left.next_if_eq(&page).map(|_| to_say)));
        let to_write: Vec<ToWrite> = to_write.collect();
        let images = PageImages { cache: self.view.superblock.cache, tag, layout, extents: &extents.written };
        // Memory that is used again: new memory takes the kernel as long to clear as all that is put there.
        let mut batches: Vec<Batch> = (0..PAGES_AT_ONCE / PAGES_OF_SHARE).map(|_| Batch::default()).collect();
        for some in to_write.chunks(PAGES_AT_ONCE) {
            let with_memory = some.chunks(PAGES_OF_SHARE).zip(&mut batches);
            let mut shares: Vec<Share<'_>> =
                with_memory.map(|(pages, batch)| Share::new(pages, batch)).collect();
            let mut make = |workers: &dyn Workers| {
                let found = &*found;
                let mut all: Vec<_> = shares.iter_mut().map(|share| || share.make(&images, found)).collect();
                workers.run(&mut all.iter_mut().map(|one| one as Task<'_>).collect::<Vec<_>>());
            };
            device.with_workers(&mut make);
            let pieces: Vec<(u64, &[u8])> = shares.iter().flat_map(|share| share.batch.pieces()).collect();
            at_once("write", device.write_at_once(&pieces))?;
            let written = shares.iter().flat_map(|share| &share.written);
            let asked = some.iter().filter(|(_, to_say)| to_say.is_some()).count();
            assert!(written.clone().count() >= asked, "workers made all pages that were to be written");
            written.for_each(|(index, page)| *found.page_mut(*index) = *page);
        }
        Ok(())
    }
}

/// What the older copy of a page is to say, and with which stamp, if not that of the newer one.
#[derive(Clone, Copy)]
struct ToSay {
    says: Says,
    stamp: Option<u64>,
}

/// A page, by its number over all extents, and what its older copy is to say, if not what the newer one does.
type ToWrite = (usize, Option<ToSay>);

/// What pages of a volume are made of.
struct PageImages<'a> {
    cache: CacheId,
    tag: VolumeTag,
    layout: &'a DeviceLayout,
    extents: &'a [u32],
}

/// Pages that are made beside others.
struct Share<'a> {
    pages: &'a [ToWrite],
    /// What is known of them once they are written.
    written: Vec<(usize, FoundPage)>,
    batch: &'a mut Batch,
}

impl<'a> Share<'a> {
    fn new(pages: &'a [ToWrite], batch: &'a mut Batch) -> Share<'a> {
        batch.bytes.clear();
        batch.starts.clear();
        Share { pages, written: Vec::with_capacity(pages.len()), batch }
    }

    fn make(&mut self, images: &PageImages<'_>, found: &FoundPlaces) {
        for &page in self.pages {
            if let Some(of_page) = images.put(self.batch, found, page) {
                self.written.push((page.0, of_page));
            }
        }
    }
}

impl PageImages<'_> {
    /// Puts what is to be written of a page into a batch. What is known of it then; none where nothing is.
    fn put(&self, batch: &mut Batch, found: &FoundPlaces, (index, to_say): ToWrite) -> Option<FoundPage> {
        let per_extent = self.layout.extent.table_pages as usize;
        let (extent, page) = (self.extents[index / per_extent], (index % per_extent) as u32);
        let mut of_page = found.page(index);
        let encode = |sequence, stamp, entries| {
            let table = TablePage { volume: self.tag, extent, page, sequence, stamp, entries };
            (table.copy(), table.encode(self.cache))
        };
        let before = found.entries_of_page(index, of_page.says);
        let ToSay { says, stamp } = to_say.unwrap_or(ToSay { says: of_page.says, stamp: None });
        let now = if says == of_page.says { before.clone() } else { found.entries_of_page(index, says) };
        let (side, newer) = encode(of_page.sequence, of_page.stamp, before);
        // Whoever wrote it may have said the same in other words.
        let is_same =
            of_page.checksum == Some(page_checksum(&newer)) || planted("newer-copy-written-as-it-should-be");
        if to_say.is_none() && !is_same {
            return None;
        }
        (of_page.sequence, of_page.says) = (of_page.sequence + 1, says);
        of_page.stamp = stamp.unwrap_or(of_page.stamp);
        let (older_side, older) = encode(of_page.sequence, of_page.stamp, now);
        of_page.checksum = Some(page_checksum(&older));
        let mut sides = [(side, newer), (older_side, older)];
        sides.sort_unstable_by_key(|&(side, _)| side);
        for (copy, bytes) in sides.iter().filter(|&&(copy, _)| copy == older_side || is_same) {
            let offset_bytes = self.layout.extent_start(extent) + self.layout.extent.table_page(page, *copy);
            batch.put(offset_bytes, &bytes[..]);
        }
        Some(of_page)
    }
}

/// Pages that are written at once: what lies together as one piece.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Where each piece goes on the device, and where it begins here.
    starts: Vec<(u64, usize)>,
}

impl Batch {
    fn put(&mut self, offset_bytes: u64, page: &[u8]) {
        let is_next = |&(at, start): &(u64, usize)| at + (self.bytes.len() - start) as u64 == offset_bytes;
        if !self.starts.last().is_some_and(is_next) {
            self.starts.push((offset_bytes, self.bytes.len()));
        }
        self.bytes.extend_from_slice(page);
    }

    fn pieces(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let ends = self.starts.iter().skip(1).map(|&(_, start)| start).chain([self.bytes.len()]);
        self.starts
            .iter()
            .zip(ends)
            .map(|(&(offset_bytes, start), end)| (offset_bytes, &self.bytes[start..end]))
    }
}
