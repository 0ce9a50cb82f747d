//! Where every field of on-disk format 1 is: distinct values are written, and looked for at fixed offsets.
//!
//! The offsets here are the format. They never change: a field that moves makes a new format with a version of its own.

use std::ops::Range;

use lode_format::*;
use lode_types::BlockSize;

const CACHE: CacheId =
    CacheId([0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xcb, 0xcc, 0xcd, 0xce, 0xcf]);
const TAG: VolumeTag = VolumeTag(0x1817_1615_1413_1211);
/// Distinct values of 8 bytes.
const A: u64 = 0xa8a7_a6a5_a4a3_a2a1;
const B: u64 = 0xb8b7_b6b5_b4b3_b2b1;
const C: u64 = 0x2827_2625_2423_2221;
const D: u64 = 0xd8d7_d6d5_d4d3_d2d1;
const E: u64 = 0xe8e7_e6e5_e4e3_e2e1;

/// What is at an offset, as hexadecimal digits.
fn at(bytes: &[u8], offset: usize, count: usize) -> String {
    bytes[offset..offset + count].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Each field: its offset and its bytes in hexadecimal.
fn check_fields(bytes: &[u8], fields: &[(usize, &str)]) {
    for &(offset, expected) in fields {
        assert_eq!(at(bytes, offset, expected.len() / 2), expected, "at {offset:#x}");
    }
}

/// What all pages begin with: magic, checksum of the rest with its own four bytes zero, version, cache. Everything else
/// but the fields is zero.
fn check_page(page: &[u8], magic: &str, fields: &[(usize, &str)]) {
    assert_eq!(page.len(), 0x1000);
    let mut unsealed = page.to_vec();
    unsealed[0x8..0xc].fill(0);
    let crc = at(&crc32c::crc32c(&unsealed).to_le_bytes(), 0, 4);
    let cache = "c0c1c2c3c4c5c6c7c8c9cacbcccdcecf";
    let magic: String = magic.bytes().map(|byte| format!("{byte:02x}")).collect();
    let head: [(usize, &str); 4] = [(0x0, &magic), (0x8, &crc), (0xc, "01000000"), (0x10, cache)];
    let all = [&head[..], fields].concat();
    check_fields(page, &all);
    for &(offset, expected) in &all {
        unsealed[offset..offset + expected.len() / 2].fill(0);
    }
    let other = unsealed.iter().position(|&byte| byte != 0);
    assert_eq!(other, None, "something is where no field is");
}

#[test]
fn superblock() {
    let superblock = Superblock {
        cache: CACHE,
        generation: A,
        epoch: B,
        device_bytes: 0x1234_5000,
        extent_bytes: 0x40_0000,
        block: BlockSize::new(0x2000).unwrap(),
    };
    check_page(
        &superblock.encode()[..],
        "LODEsupr",
        &[
            (0x20, "a1a2a3a4a5a6a7a8"), // generation
            (0x28, "b1b2b3b4b5b6b7b8"), // epoch
            (0x30, "0050341200000000"), // bytes of the device
            (0x38, "0000400000000000"), // bytes of an extent
            (0x40, "00200000"),         // bytes of a block
        ],
    );
}

#[test]
fn label_of_a_read_ssd() {
    let label = ReadSsdLabel { id: CACHE, device_bytes: A };
    check_page(&label.encode()[..], "LODEread", &[(0x20, "a1a2a3a4a5a6a7a8")]);
}

#[test]
fn label_of_a_pair() {
    let label = PairLabel {
        pair: CACHE,
        generation: A,
        device_bytes: 0x1234_5000,
        pair_bytes: 0x1200_0000,
        member: 1,
        in_sync: [false, true],
        number: 2,
        pairs: 4,
        dropped_in: [B, C],
        resilvered_bytes: 0x1111_2222,
        awaits_other: false,
    };
    check_page(
        &label.encode()[..],
        "LODEpair",
        &[
            (0x20, "a1a2a3a4a5a6a7a8"), // generation
            (0x28, "0050341200000000"), // bytes of the device
            (0x30, "0000001200000000"), // bytes of the pair
            (0x38, "01"),               // member
            (0x39, "0001"),             // which have everything
            (0x3b, "02"),               // which of the pairs
            (0x3c, "03"),               // pairs beside it
            // In which epochs its members were dropped.
            (0x3d, "b1b2b3b4b5b6b7b82122232425262728"),
            (0x4d, "2222111100000000"), // bytes that are resilvered
        ],
    );
    assert_eq!(PairLabel::decode(&label.encode()[..]), Ok(label));
    let impossible = [
        PairLabel { member: 2, ..label },
        PairLabel { in_sync: [false; 2], ..label },
        PairLabel { pair_bytes: 0x1234_5000, ..label },
        PairLabel { pair_bytes: u64::MAX, ..label },
        PairLabel { generation: u64::MAX, ..label },
        PairLabel { number: 4, ..label },
        PairLabel { resilvered_bytes: label.pair_bytes + 1, ..label },
        // One was dropped, so that it has been there.
        PairLabel { awaits_other: true, ..label },
        PairLabel { awaits_other: true, in_sync: [true; 2], dropped_in: [0; 2], ..label },
    ];
    assert!(impossible.iter().all(|label| PairLabel::decode(&label.encode()[..]).is_err()));
    // Those from before there could be several have zeroes there.
    let one = PairLabel { number: 0, pairs: 1, dropped_in: [0; 2], resilvered_bytes: 0, ..label };
    assert!(one.encode()[0x3b..].iter().all(|&byte| byte == 0));
    // One that says that the other SSD has not come yet differs in one byte: a program from before that takes it for one of a pair whose
    // other SSD was dropped.
    let awaits = PairLabel { awaits_other: true, ..one };
    let (bytes, before) = (awaits.encode(), one.encode());
    assert_eq!(PairLabel::decode(&bytes[..]), Ok(awaits));
    let differing: Vec<_> = (0x20..bytes.len()).filter(|&at| bytes[at] != before[at]).collect();
    assert_eq!((differing, bytes[0x55]), (vec![0x55], 1));
}

/// 18 pages of 15 volumes each, then 9 pages of 2,000 extents each.
#[test]
fn directory() {
    const PAGE: usize = 0x1000;
    let mut directory = Directory::empty(0x7d2);
    directory.generation = A;
    let volume = |name: &str, ring| {
        let one = |home, before| DroppedCopies { home, before };
        Some(Volume {
            name: name.to_owned(),
            tag: TAG,
            backing_bytes: B,
            ring,
            is_ring_longer: name == "other",
            attached_in: B,
            run_version: A,
            dropped: [one(0x0201, C), one(0x0403, D)],
        })
    };
    directory.volumes = vec![None; 17];
    directory.volumes[1] = volume("vm", C);
    directory.volumes[16] = volume("other", D);
    directory.set_extents_of(1, &VolumeExtents { written: vec![0, 0x7d1], unwritten: Vec::new() });
    directory.set_extents_of(16, &VolumeExtents { written: vec![3], unwritten: vec![4] });
    let bytes = directory.encode(CACHE).unwrap();
    assert_eq!(bytes.len(), 27 * PAGE);
    assert_eq!(Directory::COPY_BYTES, bytes.len());
    for (number, page) in bytes.chunks(PAGE).enumerate() {
        let number_bytes = at(&(number as u32).to_le_bytes(), 0, 4);
        let mut fields = vec![
            (0x20, "a1a2a3a4a5a6a7a8"), // generation
            (0x28, &number_bytes),      // page
            (0x2c, "d2070000"),         // extents
        ];
        let free = "ff".repeat(2000 * 2);
        match number {
            // Volumes of 0xe4 bytes from 0x30 on: tag, bytes of the backing disk, ring, bytes of the name with
            // 0x8000 where the ring may have become longer, in use, name.
            0 => fields.extend([
                (0x114, "1112131415161718"),
                (0x11c, "b1b2b3b4b5b6b7b8"),
                (0x124, "2122232425262728"),
                (0x12c, "0200"),
                (0x12e, "0100"),
                (0x130, "766d"),
                // With which versions the last runs began, from 0xde4 on.
                (0xdec, "a1a2a3a4a5a6a7a8"),
                // Of 0x1c bytes from 0xe5c on: epoch of the last start, before which versions copies are gone, and the homes of these.
                (0xe78, "b1b2b3b4b5b6b7b8"),
                (0xe80, "2122232425262728d1d2d3d4d5d6d7d8"),
                (0xe90, "01020304"),
            ]),
            1 => fields.extend([
                (0x114, "1112131415161718"),
                (0x11c, "b1b2b3b4b5b6b7b8"),
                (0x124, "d1d2d3d4d5d6d7d8"),
                (0x12c, "0580"),
                (0x12e, "0100"),
                (0x130, "6f74686572"),
                (0xdec, "a1a2a3a4a5a6a7a8"),
                (0xe78, "b1b2b3b4b5b6b7b8"),
                (0xe80, "2122232425262728d1d2d3d4d5d6d7d8"),
                (0xe90, "01020304"),
            ]),
            // The number of the volume that owns the extent, with 0x8000 while it is unwritten, or 0xffff.
            18 => fields.extend([(0x30, "0100ffffffff10001080"), (0x3a, &free[..1995 * 4])]),
            19 => fields.push((0x30, "ffff0100")),
            _ => {}
        }
        check_page(page, "LODEdirc", &fields);
    }
}

#[test]
fn slot_table() {
    let mut table = TablePage::empty(TAG, 0x3433_3231, 0x4443_4241, A);
    table.stamp = B;
    table.entries[0] = TableEntry { state: EntryState::Clean, block: C, version: D, crc: 0x5453_5251 };
    table.entries[165] = TableEntry { state: EntryState::Dirty, block: D, version: C, crc: 0x6463_6261 };
    check_page(
        &table.encode(CACHE)[..],
        "LODEslot",
        &[
            (0x20, "1112131415161718"), // tag of the volume
            (0x28, "a1a2a3a4a5a6a7a8"), // sequence
            (0x30, "b1b2b3b4b5b6b7b8"), // stamp
            (0x38, "31323334"),         // extent
            (0x3c, "41424344"),         // page
            // Entries of 0x18 bytes from 0x50 on: block, version, checksum, state (0 free, 1 clean, 2 dirty).
            (0x50, "2122232425262728"),
            (0x58, "d1d2d3d4d5d6d7d8"),
            (0x60, "51525354"),
            (0x64, "0100"),
            (0xfc8, "d1d2d3d4d5d6d7d8"),
            (0xfd0, "2122232425262728"),
            (0xfd8, "61626364"),
            (0xfdc, "0200"),
        ],
    );
}

#[test]
fn journal_page() {
    let record = |kind, place, block, version, crc| Record { kind, place, block, version, crc };
    let mut records = vec![
        record(RecordKind::Clean, 0x3433_3231, A, B, 0x5453_5251),
        record(RecordKind::Dirty, 0x4443_4241, B, A, 0x6463_6261),
    ];
    records.resize(RECORDS_PER_PAGE, record(RecordKind::Free, 0, 0, 0, 0));
    let (ring, number, tail) = (A, B, C);
    let (durable_page, durable_version, durable_tables) = (D, E, A);
    let page = JournalPage {
        volume: TAG,
        ring,
        number,
        tail,
        durable_page,
        durable_version,
        durable_tables,
        records,
    };
    let mut fields = vec![
        (0x20, "1112131415161718"), // tag of the volume
        (0x28, "a1a2a3a4a5a6a7a8"), // ring
        (0x30, "b1b2b3b4b5b6b7b8"), // number
        (0x38, "2122232425262728"), // tail
        (0x40, "d1d2d3d4d5d6d7d8"), // durable page
        (0x48, "e1e2e3e4e5e6e7e8"), // durable version
        (0x50, "7d00"),             // number of records
        (0x58, "a1a2a3a4a5a6a7a8"), // version below which table pages are durable
        // Records of 0x20 bytes from 0x60 on: kind (1 clean, 2 dirty, 3 free), checksum, place, block, version.
        (0x60, "01"),
        (0x64, "51525354"),
        (0x68, "31323334"),
        (0x70, "a1a2a3a4a5a6a7a8"),
        (0x78, "b1b2b3b4b5b6b7b8"),
        (0x80, "02"),
        (0x84, "61626364"),
        (0x88, "41424344"),
        (0x90, "b1b2b3b4b5b6b7b8"),
        (0x98, "a1a2a3a4a5a6a7a8"),
    ];
    fields.extend((2..125).map(|record| (0x60 + record * 0x20, "03")));
    check_page(&page.encode(CACHE)[..], "LODEjrnl", &fields);
}

#[test]
fn record_buffer() {
    let header = RecordBufferHeader {
        cache: CACHE,
        boot: BootId([
            0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff,
        ]),
        volume: TAG,
        ring: A,
        epoch: B,
        after: C,
        cells: 0x3433_3231,
    };
    let (page, seed) = header.encode();
    check_page(
        &page[..],
        "LODErbuf",
        &[
            (0x20, "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"), // boot
            (0x30, "1112131415161718"),                 // tag of the volume
            (0x38, "a1a2a3a4a5a6a7a8"),                 // ring
            (0x40, "b1b2b3b4b5b6b7b8"),                 // epoch
            (0x48, "2122232425262728"),                 // after this version
            (0x50, "31323334"),                         // cells
        ],
    );
    assert_eq!(seed, crc32c::crc32c(&page[..]), "records' checksums begin with the page's");
}

/// Kind (0 none, 1 clean, 2 dirty, 3 free), checksum of the record, checksum of the block, place, block, version. A record's
/// checksum goes on from its buffer's, over the record with its own four bytes zero.
#[test]
fn record_of_a_record_buffer() {
    const SEED: u32 = 0x7473_7271;
    assert_eq!(BUFFERED_RECORD_BYTES, 0x20);
    // A version's cell, after the page.
    assert_eq!(RecordBufferHeader::offset(8, 19), 0x1000 + 3 * 0x20);
    assert_eq!(RecordBufferHeader::bytes(8), 0x1000 + 8 * 0x20);
    let record =
        |kind| Buffered::Record(Record { kind, place: 0x4443_4241, block: A, version: B, crc: 0x6463_6261 });
    for (buffered, kind, rest) in [
        (record(RecordKind::Clean), "01000000", ["61626364", "41424344", "a1a2a3a4a5a6a7a8"]),
        (record(RecordKind::Dirty), "02000000", ["61626364", "41424344", "a1a2a3a4a5a6a7a8"]),
        (record(RecordKind::Free), "03000000", ["61626364", "41424344", "a1a2a3a4a5a6a7a8"]),
        (Buffered::Empty { version: B }, "00000000", ["00000000", "00000000", "0000000000000000"]),
    ] {
        let bytes = encode_buffered(SEED, &buffered);
        let mut unsealed = bytes;
        unsealed[0x4..0x8].fill(0);
        let check = at(&crc32c::crc32c_append(SEED, &unsealed).to_le_bytes(), 0, 4);
        let version = "b1b2b3b4b5b6b7b8";
        check_fields(&bytes, &[(0x0, kind), (0x4, &check), (0x8, rest[0]), (0xc, rest[1])]);
        check_fields(&bytes, &[(0x10, rest[2]), (0x18, version)]);
    }
}

/// The checksum of a block: the volume's tag, the block's number, its bytes.
#[test]
fn checksum_of_a_block() {
    let mut bytes = TAG.0.to_le_bytes().to_vec();
    bytes.extend(A.to_le_bytes());
    bytes.extend([0x5a; 4096]);
    assert_eq!(data_checksum(TAG, A, &[0x5a; 4096]), crc32c::crc32c(&bytes));
    assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283, "the Castagnoli polynomial");
}

/// A device of 3 MiB with extents of 1 MiB and blocks of 4 KiB, as that of `testdata/format-1.img.zst`.
#[test]
fn places_on_the_device() {
    let layout = DeviceLayout::new(3 << 20, 1 << 20, BlockSize::KIB_4).unwrap();
    assert_eq!([DeviceLayout::superblock(0), DeviceLayout::superblock(1)], [0x0, 0x1000]);
    assert_eq!([DeviceLayout::directory(0), DeviceLayout::directory(1)], [0x2000, 0x1d000]);
    assert_eq!(layout.extents, 2);
    assert_eq!([layout.extent_start(0), layout.extent_start(1)], [0x38000, 0x138000]);
    let extent = layout.extent;
    assert_eq!((extent.places, extent.table_pages, extent.journal_pairs), (244, 2, 4));
    assert_eq!([extent.table_page(0, 0), extent.table_page(0, 1)], [0x0, 0x1000]);
    assert_eq!([extent.table_page(1, 0), extent.table_page(1, 1)], [0x2000, 0x3000]);
    assert_eq!([extent.journal_page(0, 0), extent.journal_page(0, 1)], [0x4000, 0x5000]);
    assert_eq!([extent.journal_page(3, 0), extent.journal_page(3, 1)], [0xa000, 0xb000]);
    assert_eq!([extent.place(0), extent.place(243)], [0xc000, 0xff000]);
}

/// A redo log of 300 blocks of 4 KiB: two table pages.
#[test]
fn redo_log() {
    let layout = RedoLayout { block: BlockSize::KIB_4, capacity_blocks: 300 };
    assert_eq!([RedoLayout::state(0), RedoLayout::state(1)], [0x1000, 0x2000]);
    assert_eq!([RedoLayout::table_page(0), RedoLayout::table_page(1)], [0x3000, 0x4000]);
    assert_eq!([layout.block(0), layout.block(299), layout.bytes()], [0x5000, 0x13_0000, 0x13_1000]);
    // Larger blocks lie where a multiple of them is.
    let large = RedoLayout { block: BlockSize::new(0x1_0000).unwrap(), ..layout };
    assert_eq!([large.block(0), large.block(1)], [0x1_0000, 0x2_0000]);
    let label = RedoLabel { cache: CACHE, volume: TAG, volume_bytes: A, layout };
    check_page(
        &label.encode()[..],
        "LODErlab",
        &[
            (0x20, "1112131415161718"), // volume
            (0x28, "a1a2a3a4a5a6a7a8"), // bytes of the disk
            (0x30, "00100000"),         // bytes of a block
            (0x34, "2c010000"),         // most blocks of a group
        ],
    );
    let state = RedoState { volume: TAG, group: B, blocks: 0x101, generation: C };
    check_page(
        &state.encode(CACHE)[..],
        "LODErsta",
        &[
            (0x20, "1112131415161718"), // volume
            (0x28, "b1b2b3b4b5b6b7b8"), // group
            (0x30, "01010000"),         // blocks
            (0x38, "2122232425262728"), // generation of the sidecar
        ],
    );
    let entries = vec![RedoEntry { block: C, crc: 0x6463_6261 }, RedoEntry { block: D, crc: 0x7473_7271 }];
    let table = RedoTablePage { volume: TAG, group: B, page: 0x0403_0201, entries };
    check_page(
        &table.encode(CACHE)[..],
        "LODErtab",
        &[
            (0x20, "1112131415161718"), // volume
            (0x28, "b1b2b3b4b5b6b7b8"), // group
            (0x30, "01020304"),         // which of its pages
            (0x34, "02000000"),         // entries
            (0x38, "2122232425262728"), // first entry: block
            (0x40, "61626364"),         // first entry: checksum
            (0x48, "d1d2d3d4d5d6d7d8"), // second entry: block
            (0x50, "71727374"),         // second entry: checksum
        ],
    );
    assert_eq!(REDO_ENTRIES_PER_PAGE, 252);
}

/// In the place of the first table page, and in one sector.
#[test]
fn ranges_of_a_redo_log() {
    let layout = RedoLayout { block: BlockSize::KIB_4, capacity_blocks: 300 };
    let label = RedoLabel { cache: CACHE, volume: TAG, volume_bytes: 1 << 30, layout };
    let state = RedoState { volume: TAG, group: B, blocks: 0, generation: 0 };
    let of = |ranges: &[Range<u64>]| RedoRanges { volume: TAG, group: B, ranges: ranges.to_vec() };
    let ranges = of(&[0x0201..0x0302, 7..9]);
    check_page(
        &ranges.encode(CACHE)[..],
        "LODErrng",
        &[
            (0x20, "1112131415161718"), // volume
            (0x28, "b1b2b3b4b5b6b7b8"), // group
            (0x30, "0200000000000000"), // ranges
            (0x38, "0102000000000000"), // first range: its first block
            (0x40, "0203000000000000"), // first range: the block after its last
            (0x48, "0700000000000000"), // second range: its first block
            (0x50, "0900000000000000"), // second range: the block after its last
        ],
    );
    assert_eq!((RedoRanges::AT, RedoRanges::MOST), (RedoLayout::table_page(0), 28));
    let full = of(&vec![0..1 << 18; RedoRanges::MOST]);
    assert!(full.encode(CACHE)[512..].iter().all(|&byte| byte == 0));
    for ranges in [ranges, full, of(&[])] {
        assert_eq!(RedoRanges::decode(&label, &state, &ranges.encode(CACHE)[..]), Ok(ranges));
    }
    // A group of which nothing could be written has no state of its own.
    let page = of(&[1..2, 7..9]).encode(CACHE);
    let before = RedoState { group: B - 1, ..state };
    assert_eq!(RedoRanges::decode(&label, &before, &page[..]), Ok(of(&[1..2, 7..9])));
    // Of an earlier group, beside a group, of another volume; nothing, and beyond the disk.
    for state in [
        RedoState { group: B + 1, ..state },
        RedoState { blocks: 1, ..state },
        RedoState { volume: VolumeTag(1), ..state },
    ] {
        assert!(RedoRanges::decode(&label, &state, &page[..]).is_err());
    }
    for wrong in [7..7, 0..(1 << 18) + 1] {
        assert!(RedoRanges::decode(&label, &state, &of(&[wrong]).encode(CACHE)[..]).is_err());
    }
    assert!(RedoRanges::decode(&label, &state, &of(&vec![0..1; 29]).encode(CACHE)[..]).is_err());
}

#[test]
fn the_later_state_of_a_redo_log_counts_and_the_empty_one_of_one_group() {
    let state = |group, blocks| Some(RedoState { volume: TAG, group, blocks, generation: group });
    for (one, other, newest) in [
        (state(4, 0), state(5, 9), state(5, 9)),
        (state(5, 0), state(5, 9), state(5, 0)),
        (state(5, 9), None, state(5, 9)),
        (None, None, None),
    ] {
        assert_eq!(RedoState::newest([one, other]), newest);
        assert_eq!(RedoState::newest([other, one]), newest);
    }
}
