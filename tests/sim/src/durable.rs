//! Which blocks on a cache SSD a start has to believe whatever becomes of their bytes, and which ones look unwritten once they are
//! damaged. It goes by the format alone, and must not know how a start recovers.

use std::collections::{BTreeMap, BTreeSet};

use lode_format::{
    CacheId, DeviceLayout, Directory, EntryState, JournalPage, PAGE_BYTES, RecordKind, TablePage, VolumeTag,
};
use lode_store::StoreView;

use crate::disk::SimDisk;
use crate::model::{Model, SECTOR};

/// A page of the SSD that was damaged, or did not get what was written there.
#[derive(Clone, Debug)]
pub(crate) struct Lost {
    pub at: u64,
    /// What was there, or should be.
    pub bytes: Vec<u8>,
}

impl Lost {
    /// Which volume's it is, and one of its sectors. `None`: a page of zeroes or of something else.
    pub(crate) fn named(&self) -> Option<(u32, usize)> {
        self.bytes.chunks(SECTOR).find_map(Model::origin)
    }
}

/// What a start has to believe of the blocks on an SSD without looking at their bytes.
#[derive(Debug)]
pub(crate) enum Known {
    /// All that is said of them.
    All,
    /// Nothing: less may be durable than seems so.
    Nothing,
    /// What tables and journal call durable, and clean copies, whose bytes are on the disk as well.
    Pages {
        /// Where there are such blocks.
        durable: Vec<u64>,
        /// Where there are dirty ones that nothing calls durable: with other bytes there they look as if they had not been written.
        doubtful: BTreeSet<u64>,
    },
}

impl Known {
    /// What is known of this SSD. After a power cut, or a kill that no power cut follows, and after pages have rotted: one of them may be the
    /// only one that calls something durable.
    pub(crate) fn of(ssd: &mut SimDisk) -> Known {
        Known::read(ssd).unwrap_or(Known::Nothing)
    }

    fn read(ssd: &mut SimDisk) -> Option<Known> {
        let superblock = *StoreView::read(ssd).ok()?.superblock();
        let (layout, cache) = (superblock.layout().ok()?, superblock.cache);
        let copies = [0, 1].map(|copy| {
            let mut bytes = vec![0; Directory::COPY_BYTES];
            ssd.peek(DeviceLayout::directory(copy), &mut bytes);
            bytes
        });
        let directory = Directory::newest(cache, [&copies[0], &copies[1]]).ok()?;
        let (mut durable, mut doubtful) = (Vec::new(), BTreeSet::new());
        for (number, volume) in directory.volumes.iter().enumerate() {
            let Some(volume) = volume else { continue };
            let extents = directory.extents_of(number as u16).written;
            let entries = Entries::read(ssd, cache, layout, &extents, (volume.tag, volume.ring));
            for (&(extent, within), entry) in &entries.latest {
                let first = layout.extent_start(extent) + layout.extent.place(within);
                let pages = (first..first + superblock.block.bytes()).step_by(PAGE_BYTES);
                match entry.state {
                    EntryState::Free => {}
                    EntryState::Dirty if entry.version > entries.durable.max(entry.stamp) => {
                        doubtful.extend(pages);
                    }
                    EntryState::Clean | EntryState::Dirty => durable.extend(pages),
                }
            }
        }
        Some(Known::Pages { durable, doubtful })
    }

    /// Whether damage to this page could make a block look as if it had not been written.
    pub(crate) fn is_doubtful(&self, at: u64) -> bool {
        match self {
            Known::All => false,
            Known::Nothing => true,
            Known::Pages { doubtful, .. } => doubtful.contains(&at),
        }
    }
}

/// The latest that is said of a place: its version, whether there is a dirty block, or a clean one, and the version up to which its table
/// page is durable.
#[derive(Clone, Copy, Debug)]
struct Entry {
    version: u64,
    state: EntryState,
    stamp: u64,
}

/// What tables and journal of a volume say of its places, by extent and number within it.
struct Entries {
    latest: BTreeMap<(u32, u32), Entry>,
    /// The journal calls everything durable up to this version.
    durable: u64,
}

impl Entries {
    fn read(
        ssd: &SimDisk,
        cache: CacheId,
        layout: DeviceLayout,
        extents: &[u32],
        (tag, ring): (VolumeTag, u64),
    ) -> Entries {
        let page_at = |at: u64| {
            let mut bytes = [0; PAGE_BYTES];
            ssd.peek(at, &mut bytes);
            bytes
        };
        let mut entries = Entries { latest: BTreeMap::new(), durable: 0 };
        for &extent in extents {
            let start = layout.extent_start(extent);
            let mut first = 0;
            for page in 0..layout.extent.table_pages {
                let copies = [0, 1].map(|copy| {
                    let bytes = page_at(start + layout.extent.table_page(page, copy));
                    TablePage::decode(cache, tag, extent, page, &bytes).ok()
                });
                let newest = copies.into_iter().flatten().max_by_key(|table| table.sequence);
                let Some(table) = newest else { continue };
                for (within, entry) in (first..).zip(&table.entries) {
                    entries.say((extent, within), entry.version, entry.state, Some(table.stamp));
                }
                first += table.entries.len() as u32;
            }
        }
        for &extent in extents {
            for pair in 0..layout.extent.journal_pairs {
                for side in [0, 1] {
                    let at = layout.extent_start(extent) + layout.extent.journal_page(pair, side);
                    let Ok(page) = JournalPage::decode(cache, &page_at(at)) else { continue };
                    if (page.volume, page.ring) == (tag, ring) {
                        entries.replay(&page, layout.extent.places);
                    }
                }
            }
        }
        entries
    }

    fn replay(&mut self, page: &JournalPage, places_of_extent: u32) {
        self.durable = self.durable.max(page.durable_version);
        for record in &page.records {
            let state = match record.kind {
                RecordKind::Clean => EntryState::Clean,
                RecordKind::Dirty => EntryState::Dirty,
                RecordKind::Free => EntryState::Free,
            };
            let at = (record.place / places_of_extent, record.place % places_of_extent);
            self.say(at, record.version, state, None);
        }
    }

    /// The latest counts.
    fn say(&mut self, at: (u32, u32), version: u64, state: EntryState, stamp: Option<u64>) {
        let entry = self.latest.entry(at).or_insert(Entry { version, state, stamp: 0 });
        entry.stamp = stamp.unwrap_or(entry.stamp);
        if version >= entry.version {
            (entry.version, entry.state) = (version, state);
        }
    }
}
