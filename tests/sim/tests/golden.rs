//! The committed image of on-disk format 1 opens to exactly what was put on it, for ever.
//!
//! `tests/sim/examples/format_1_image.rs` tells how it was made. It is not made again: when a test fails here, the code
//! has stopped reading what earlier releases wrote, and the code is to be mended, not the image. The next format gets an
//! image of its own beside this one.

use std::ops::Range;

use lode_format::{
    CacheId, DeviceLayout, JournalPage, PAGE_BYTES, Superblock, TablePage, VolumeTag, Wrong, data_checksum,
};
use lode_policy::Quota;
use lode_sim::scenario::{BLOCK, VOLUME_BYTES, machine, pattern, read};
use lode_sim::{Machine, SimDisk, World};
use lode_store::{BlockCounts, StoreView, VolumeInfo};
use lode_types::BlockSize;

const CACHE: CacheId = CacheId(*b"format 1, golden");
const ALPHA_TAG: VolumeTag = VolumeTag(10_483_154_727_110_009_408);
const BETA_TAG: VolumeTag = VolumeTag(8_748_421_130_042_744_405);
const BACKING_BYTES: u64 = VOLUME_BYTES - 1024;
/// What the backing disks hold here, to tell it from what the SSD holds.
const ON_DISK: u8 = 0xee;

/// Blocks in a row in the same state, and each one's pattern.
struct BlockRun {
    blocks: Range<u64>,
    is_dirty: bool,
    name: fn(u64) -> u8,
}

const fn clean(blocks: Range<u64>, name: fn(u64) -> u8) -> BlockRun {
    BlockRun { blocks, is_dirty: false, name }
}

const fn dirty(blocks: Range<u64>, name: fn(u64) -> u8) -> BlockRun {
    BlockRun { blocks, is_dirty: true, name }
}

const ALPHA: [BlockRun; 6] = [
    clean(0..60, |block| block as u8),
    dirty(60..90, |block| 200 - block as u8),
    clean(90..100, |block| block as u8),
    dirty(120..150, |block| 200 - block as u8),
    dirty(200..202, |block| (block - 100) as u8),
    dirty(202..210, |block| (block - 10) as u8),
];

const BETA: [BlockRun; 4] = [
    clean(300..320, |block| block as u8),
    dirty(320..340, |block| block as u8),
    dirty(400..403, |block| (block - 290) as u8),
    dirty(403..410, |block| (block - 300) as u8),
];

/// The SSD as it was committed.
fn image() -> SimDisk {
    let packed = std::fs::read(lode_testdata::committed("format-1.img.zst")).expect("the image is committed");
    let bytes = zstd::decode_all(&packed[..]).expect("the image is whole");
    assert_eq!(data_checksum(VolumeTag(0), 0, &bytes), 0xa2ac_0a0c, "the image was replaced");
    let mut ssd = SimDisk::new(bytes.len() as u64);
    ssd.put(0, &bytes);
    ssd.settle(ssd.flush_mark());
    ssd
}

fn volume(name: &str) -> Machine {
    let mut machine = machine("lru", &["write_policy=wb"], Quota::new(0, 160));
    machine.name = name.to_owned();
    machine
}

/// A run of this volume on the image, over a backing disk that is full of [`ON_DISK`].
fn start(name: &str) -> World {
    let mut world = World::down(volume(name), 1);
    world.ssd = image();
    world.backing.put(0, &vec![ON_DISK; BACKING_BYTES as usize]);
    world.restart(volume(name)).expect("the image opens");
    world
}

fn page_at(ssd: &SimDisk, at: u64) -> [u8; PAGE_BYTES] {
    let mut page = [0; PAGE_BYTES];
    ssd.peek(at, &mut page);
    page
}

#[test]
fn g6_the_image_says_which_cache_and_which_volumes() {
    let mut ssd = image();
    let view = StoreView::read(&mut ssd).expect("the image opens");
    let expected = Superblock {
        cache: CACHE,
        generation: 7,
        epoch: 3,
        device_bytes: 3 << 20,
        extent_bytes: 1 << 20,
        block: BlockSize::KIB_4,
    };
    assert_eq!(*view.superblock(), expected);
    let volume = |name: &str, tag| VolumeInfo {
        name: name.to_owned(),
        tag,
        backing_bytes: BACKING_BYTES,
        extents: 1,
        space_bytes: 1 << 20,
    };
    assert_eq!(view.volumes().collect::<Vec<_>>(), [volume("alpha", ALPHA_TAG), volume("beta", BETA_TAG)]);
    assert_eq!(view.free_extents(), 0);
    let counts = |name| view.count_blocks(&mut image(), name).expect("a recovery");
    assert_eq!(counts("alpha"), BlockCounts { clean: 70, dirty: 70 });
    assert_eq!(counts("beta"), BlockCounts { clean: 20, dirty: 30 });
}

/// What is read of a page: two of its numbers, or what is wrong with it.
type Found = Result<(u64, u64), Wrong>;

/// An interrupted checkpoint and a torn page of each kind are on the image: without them it would show less.
#[test]
fn g6_the_image_has_an_interrupted_checkpoint_and_torn_pages() {
    let ssd = image();
    let layout = DeviceLayout::new(3 << 20, 1 << 20, BlockSize::KIB_4).expect("a layout");
    // Sequence and stamp.
    let table = |page, copy| -> Found {
        let at = layout.extent_start(0) + layout.extent.table_page(page, copy);
        let table = TablePage::decode(CACHE, ALPHA_TAG, 0, page, &page_at(&ssd, at));
        table.map(|table| (table.sequence, table.stamp)).map_err(|error| error.wrong)
    };
    assert_eq!([table(0, 0), table(0, 1)], [Err(Wrong::Checksum), Ok((125, 3261))]);
    assert_eq!([table(1, 0), table(1, 1)], [Ok((18, 3262)), Ok((17, 3261))]);
    // Number of the page, and of records.
    let journal = |pair, side| -> Found {
        let at = layout.extent_start(1) + layout.extent.journal_page(pair, side);
        let page = JournalPage::decode(CACHE, &page_at(&ssd, at));
        page.map(|page| (page.number, page.records.len() as u64)).map_err(|error| error.wrong)
    };
    assert_eq!([journal(0, 0), journal(0, 1)], [Ok((40, 125)), Ok((40, 125))]);
    assert_eq!([journal(1, 0), journal(1, 1)], [Ok((41, 13)), Err(Wrong::Checksum)]);
}

fn check_contents(name: &str, runs: &[BlockRun]) {
    let blocks = || runs.iter().flat_map(|run| run.blocks.clone().map(move |block| (block, run)));
    let mut world = start(name);
    // Those on the SSD first: they are found there, and nothing has to leave.
    for (block, run) in blocks() {
        let expected = pattern((run.name)(block), BLOCK as usize);
        assert_eq!(read(&mut world, block * BLOCK, BLOCK), Ok(expected), "{name}: block {block}");
    }
    let on_ssd: Vec<u64> = blocks().map(|(block, _)| block).collect();
    for block in (0..BACKING_BYTES / BLOCK).filter(|block| !on_ssd.contains(block)) {
        let bytes = read(&mut world, block * BLOCK, BLOCK);
        assert!(bytes == Ok(vec![ON_DISK; BLOCK as usize]), "{name}: block {block} is on the SSD");
    }
    // What is newer than the backing disk is written back, and nothing else.
    let mut world = start(name);
    world.drain();
    world.settle();
    for (block, run) in blocks() {
        let mut on_disk = vec![0; BLOCK as usize];
        world.backing.peek(block * BLOCK, &mut on_disk);
        let written_back = pattern((run.name)(block), BLOCK as usize);
        let expected = if run.is_dirty { written_back } else { vec![ON_DISK; BLOCK as usize] };
        assert!(on_disk == expected, "{name}: block {block} is not as dirty as it was");
    }
}

#[test]
fn g2_alpha_has_what_it_had() {
    check_contents("alpha", &ALPHA);
}

#[test]
fn g2_beta_has_what_it_had() {
    check_contents("beta", &BETA);
}
