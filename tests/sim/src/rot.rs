//! Rot of what the SSD holds twice: one of the two copies of superblock, directory and pages of the place tables changes while nobody
//! looks, or cannot be read any more. The other one has to be enough.

use lode_format::{DeviceLayout, Directory, PAGE_BYTES, Superblock, TablePage};
use lode_store::StoreView;
use lode_types::Rng;

use crate::disk::SimDisk;

/// In how many of a hundred pairs one copy rots.
const CHANCE: u64 = 30;
/// In how many of a hundred of those it is the newer one.
const NEWER: u64 = 75;
/// In how many of a hundred of those it cannot be read.
const UNREADABLE: u64 = 40;

/// Has copies rot by chance. Gives how many. What is there only once, because its other copy was torn, is left alone.
pub(crate) fn rot(ssd: &mut SimDisk, rng: &mut Rng) -> u64 {
    let Ok(view) = StoreView::read(ssd) else { return 0 };
    let superblock = *view.superblock();
    let Ok(layout) = superblock.layout() else { return 0 };
    let tags: Vec<_> = view.volumes().map(|volume| volume.tag).collect();
    let mut rotten = 0;
    let superblocks = [0, 1].map(|copy| {
        let at = DeviceLayout::superblock(copy);
        let mut bytes = vec![0; PAGE_BYTES];
        ssd.peek(at, &mut bytes);
        Superblock::newest([&bytes, &bytes]).ok().map(|found| (found.generation, at))
    });
    rotten += rot_one(ssd, rng, superblocks);
    let directories = [0, 1].map(|copy| {
        let at = DeviceLayout::directory(copy);
        let mut bytes = vec![0; Directory::COPY_BYTES];
        ssd.peek(at, &mut bytes);
        Directory::decode(superblock.cache, &bytes).ok().map(|found| (found.generation, at))
    });
    rotten += rot_one(ssd, rng, directories);
    for extent in 0..layout.extents {
        for page in 0..layout.extent.table_pages {
            let tables = [0, 1].map(|copy| {
                let at = layout.extent_start(extent) + layout.extent.table_page(page, copy);
                let mut bytes = [0; PAGE_BYTES];
                ssd.peek(at, &mut bytes);
                let of = |&tag| TablePage::decode(superblock.cache, tag, extent, page, &bytes).ok();
                tags.iter().find_map(of).map(|table| (table.sequence, at))
            });
            rotten += rot_one(ssd, rng, tables);
        }
    }
    rotten
}

/// Perhaps one of two copies: how new each is, and where.
fn rot_one(ssd: &mut SimDisk, rng: &mut Rng, copies: [Option<(u64, u64)>; 2]) -> u64 {
    let [Some(one), Some(other)] = copies else { return 0 };
    if !rng.chance(CHANCE) {
        return 0;
    }
    let (newer, older) = if one.0 > other.0 { (one, other) } else { (other, one) };
    let (_, at) = if rng.chance(NEWER) { newer } else { older };
    match rng.chance(UNREADABLE) {
        true => ssd.make_unreadable(at),
        false => ssd.flip_bit(at + rng.below(PAGE_BYTES as u64), rng.below(8) as u8),
    }
    1
}
