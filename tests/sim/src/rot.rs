//! What a cache keeps twice: superblock, directory and pages of the place tables. One of the two copies becomes unreadable while nobody looks, and
//! the other one has to be enough. It must not know which devices the cache is on.

use lode_format::{DeviceLayout, Directory, PAGE_BYTES, Superblock, TablePage, VolumeTag};
use lode_store::{StoreView, SyncDevice};
use lode_types::Rng;

use crate::disk::SimDisk;

/// In how many of a hundred pairs one copy rots.
const CHANCE: u64 = 30;
/// In how many of a hundred of those it is the newer one.
const NEWER: u64 = 75;

/// Which copies of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// The one that was written before the other one.
    Older,
    /// The one that was written last.
    Newer,
    /// None is left where they are.
    Both,
}

impl Copies {
    /// These of the two copies of a page.
    pub(crate) fn of<T>(self, [older, newer]: [T; 2]) -> impl Iterator<Item = T> {
        let older = Some(older).filter(|_| self != Copies::Newer);
        older.into_iter().chain(Some(newer).filter(|_| self != Copies::Older))
    }

    /// Perhaps one copy of a page rots.
    pub(crate) fn pick(rng: &mut Rng) -> Option<Copies> {
        let is_newer = rng.chance(CHANCE).then(|| rng.chance(NEWER))?;
        Some(if is_newer { Copies::Newer } else { Copies::Older })
    }
}

/// The pages of a cache on one SSD of which there are two whole copies: where the older one is, and the newer one.
pub fn pages_kept_twice(ssd: &mut SimDisk) -> Vec<[u64; 2]> {
    Kept::of(ssd).map_or_else(Vec::new, |kept| kept.whole(|at, buf| ssd.peek(at, buf)))
}

/// What tells the pages of a cache.
pub(crate) struct Kept {
    superblock: Superblock,
    layout: DeviceLayout,
    tags: Vec<VolumeTag>,
}

impl Kept {
    /// `None`: nothing can be read.
    pub(crate) fn of(cache: &mut dyn SyncDevice) -> Option<Kept> {
        let view = StoreView::read(cache).ok()?;
        let superblock = *view.superblock();
        let tags = view.volumes().map(|volume| volume.tag).collect();
        Some(Kept { superblock, layout: superblock.layout().ok()?, tags })
    }

    /// The pages of which there are two whole copies in a cache that `peek` fills a buffer from. What is there only once, because its other copy
    /// was torn, is left out.
    pub(crate) fn whole(&self, mut peek: impl FnMut(u64, &mut [u8])) -> Vec<[u64; 2]> {
        let mut page = [0; PAGE_BYTES];
        let superblocks = [0, 1].map(|copy| {
            let at = DeviceLayout::superblock(copy);
            peek(at, &mut page);
            Superblock::newest([&page, &page]).ok().map(|found| (found.generation, at))
        });
        let mut run = vec![0; Directory::COPY_BYTES];
        let directories = [0, 1].map(|copy| {
            let at = DeviceLayout::directory(copy);
            peek(at, &mut run);
            let found = Directory::decode(self.superblock.cache, &run).ok();
            found.map(|found| (found.generation, at))
        });
        let mut all = vec![superblocks, directories];
        for extent in 0..self.layout.extents {
            for number in 0..self.layout.extent.table_pages {
                all.push([0, 1].map(|copy| {
                    let at = self.layout.extent_start(extent) + self.layout.extent.table_page(number, copy);
                    peek(at, &mut page);
                    let cache = self.superblock.cache;
                    let of = |&tag| TablePage::decode(cache, tag, extent, number, &page).ok();
                    self.tags.iter().find_map(of).map(|table| (table.sequence, at))
                }));
            }
        }
        let in_order = |[one, other]: [Option<(u64, u64)>; 2]| {
            let (one, other) = (one?, other?);
            Some(if one.0 > other.0 { [other.1, one.1] } else { [one.1, other.1] })
        };
        all.into_iter().filter_map(in_order).collect()
    }
}
