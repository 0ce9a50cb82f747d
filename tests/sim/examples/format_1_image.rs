//! How `testdata/format-1.img.zst` was made: an SSD in on-disk format 1 with two volumes whose hosts lost power.
//!
//! The committed image stays as it is for as long as format 1 can be read, whatever later engines write; this program
//! documents it, and is a pattern for the image of the next format. It writes to the file that is named, packed with zstd, and
//! prints what the image holds:
//!
//! ```text
//! cargo run -p lode-sim --example format_1_image -- FILE
//! ```
//!
//! * `alpha` wrote 100 blocks, which were written back and stayed, and wrote 30 of them and 30 others again. While it went on
//!   writing ten more, the power went in the middle of a checkpoint: of one page of its place table the copy that was being
//!   written is torn, of the other page one copy is newer.
//! * `beta` wrote 40 blocks, of which 20 were written back. The power went while it wrote its journal: the latest page is
//!   torn on one side.

use lode_engine::{Buf, GuestOp, GuestRequest};
use lode_format::{CacheId, DeviceLayout, Directory, JournalPage, PAGE_BYTES, TablePage, VolumeTag};
use lode_policy::Quota;
use lode_sim::scenario::{BLOCK, flush, machine, pattern, write};
use lode_sim::{Machine, Rng, SimDisk, World};
use lode_store::Store;

const CACHE: CacheId = CacheId(*b"format 1, golden");
/// Power cuts that are tried at one moment.
const CUTS: u64 = 8;

fn volume(name: &str) -> Machine {
    let mut machine = machine("lru", &["write_policy=wb"], Quota::new(0, 160));
    machine.name = name.to_owned();
    // The journal alone is to say what there is.
    machine.kept_records = 0;
    machine
}

/// What a cut left of a page.
#[derive(PartialEq)]
enum Found<T> {
    Nothing,
    Torn,
    Page(T),
}

/// The page of this magic that may be at an offset.
fn page<T>(ssd: &SimDisk, at: u64, magic: &[u8], decode: impl Fn(&[u8]) -> Option<T>) -> Found<T> {
    let mut bytes = [0; PAGE_BYTES];
    ssd.peek(at, &mut bytes);
    match decode(&bytes) {
        Some(page) => Found::Page(page),
        None if bytes.starts_with(magic) => Found::Torn,
        None => Found::Nothing,
    }
}

/// How the device is divided, and tag and extent of a volume.
fn find(ssd: &mut SimDisk, name: &str) -> (DeviceLayout, VolumeTag, u32) {
    let layout = Store::probe(ssd).expect("a cache").layout().expect("a layout");
    let copies = [0, 1].map(|copy| {
        let mut bytes = vec![0; Directory::COPY_BYTES];
        ssd.peek(DeviceLayout::directory(copy), &mut bytes);
        bytes
    });
    let directory = Directory::newest(CACHE, [&copies[0], &copies[1]]).expect("a directory");
    let (number, volume) = directory.find(name).expect("the volume");
    (layout, volume.tag, directory.extents_of(number).written[0])
}

/// A torn copy of one page of the place table, whose other copy is whole, and two copies of the other that differ.
fn has_interrupted_checkpoint(ssd: &mut SimDisk) -> bool {
    let (layout, tag, extent) = find(ssd, "alpha");
    let copies = |number: u32| {
        [0, 1].map(|copy| {
            let at = layout.extent_start(extent) + layout.extent.table_page(number, copy);
            page(ssd, at, b"LODEslot", |bytes| TablePage::decode(CACHE, tag, extent, number, bytes).ok())
        })
    };
    let is_torn = |copies: &[Found<TablePage>; 2]| {
        matches!(copies, [Found::Torn, Found::Page(_)] | [Found::Page(_), Found::Torn])
    };
    let differs = |copies: &[Found<TablePage>; 2]| match copies {
        [Found::Page(one), Found::Page(other)] => one.entries != other.entries,
        _ => false,
    };
    let (first, second) = (copies(0), copies(1));
    is_torn(&first) && differs(&second) || differs(&first) && is_torn(&second)
}

/// A pair of journal pages of which one side is torn and the other one whole.
fn has_torn_journal_page(ssd: &mut SimDisk) -> bool {
    let (layout, _, extent) = find(ssd, "beta");
    (0..layout.extent.journal_pairs).any(|pair| {
        let sides = [0, 1].map(|side| {
            let at = layout.extent_start(extent) + layout.extent.journal_page(pair, side);
            page(ssd, at, b"LODEjrnl", |bytes| JournalPage::decode(CACHE, bytes).ok())
        });
        matches!(sides, [Found::Torn, Found::Page(_)] | [Found::Page(_), Found::Torn])
    })
}

/// Writes ten blocks over and over, each time with another pattern and a flush, until a power cut leaves what is wanted.
fn cut_power(mut world: World, first_block: u64, wanted: impl Fn(&mut SimDisk) -> bool) -> SimDisk {
    for round in 0u64.. {
        let offset_bytes = (first_block + round % 10) * BLOCK;
        let buf = Buf::copy_of(&pattern(100 + (round % 100) as u8, BLOCK as usize));
        let op = GuestOp::write(offset_bytes, buf, true);
        world.submit(GuestRequest { token: round, op, now_ns: world.now_ns() });
        while world.take_events().is_empty() && world.step_or_tick() {
            for seed in 0..CUTS {
                let mut cut = world.ssd.after_power_cut(&mut Rng::new(round * CUTS + seed));
                if wanted(&mut cut) {
                    return cut;
                }
            }
        }
    }
    unreachable!("checkpoints come again and again")
}

fn write_blocks(world: &mut World, blocks: std::ops::Range<u64>, names: impl Fn(u64) -> u8) {
    for block in blocks {
        write(world, block * BLOCK, BLOCK, names(block)).expect("a write");
    }
    flush(world).expect("a flush");
}

fn make() -> SimDisk {
    let mut ssd = SimDisk::new(volume("alpha").ssd_bytes);
    let config = volume("alpha").config;
    Store::format(&mut ssd, CACHE, config.block, Some(volume("alpha").extent_bytes)).expect("a cache");

    let mut alpha = World::on(volume("alpha"), 1, ssd).expect("a start");
    write_blocks(&mut alpha, 0..100, |block| block as u8);
    alpha.drain();
    alpha.settle();
    alpha.go_down(false);

    let mut beta = World::on(volume("beta"), 2, alpha.ssd.clone()).expect("a start");
    write_blocks(&mut beta, 300..320, |block| block as u8);
    beta.drain();
    beta.settle();
    beta.stop_drain();
    write_blocks(&mut beta, 320..340, |block| block as u8);
    let ssd = cut_power(beta, 400, has_torn_journal_page);

    alpha.ssd = ssd;
    alpha.restart(volume("alpha")).expect("a start");
    write_blocks(&mut alpha, 60..90, |block| 200 - block as u8);
    write_blocks(&mut alpha, 120..150, |block| 200 - block as u8);
    cut_power(alpha, 200, has_interrupted_checkpoint)
}

/// What the next run reads over a zeroed backing disk: runs of blocks that hold something.
fn print_contents(ssd: &SimDisk, name: &str) {
    let mut world = World::on(volume(name), 1, ssd.clone()).expect("a start");
    let counts = world.engine().gauges();
    println!("{name}: {counts:?}");
    for block in 0..volume(name).config.volume_bytes / BLOCK {
        let bytes = lode_sim::scenario::read(&mut world, block * BLOCK, BLOCK).expect("a read");
        if let Some(found) = (0..=u8::MAX).find(|&found| bytes == pattern(found, BLOCK as usize)) {
            print!("{block}:{found} ");
        }
    }
    println!();
}

fn main() -> std::io::Result<()> {
    let path = std::env::args_os().nth(1).expect("name the file to write");
    let ssd = make();
    let mut bytes = vec![0; volume("alpha").ssd_bytes as usize];
    ssd.peek(0, &mut bytes);
    std::fs::write(path, zstd::encode_all(&bytes[..], 19)?)?;
    print_contents(&ssd, "alpha");
    print_contents(&ssd, "beta");
    Ok(())
}
