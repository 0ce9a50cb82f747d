use lode_types::{BlockSize, MediaError};

use super::*;

/// Guarantee 9: nothing that went is believed, however many devices were dropped.
#[test]
fn g9_of_more_devices_than_there_is_room_for_all_count_as_dropped() {
    let layout = DeviceLayout::new(64 << 20, 1 << 20, BlockSize::KIB_4).unwrap();
    let mut recovered = Recovered::nothing(&layout, 100);
    let gone = |recovered: &Recovered, home, version| {
        recovered.dropped.iter().any(|dropped| dropped.has(home, version))
    };
    for (home, version) in [(0, 10), (3, 20), (0, 30)] {
        recovered.version = version;
        recovered.note_dropped(home);
    }
    assert!(gone(&recovered, 0, 30) && gone(&recovered, 3, 20));
    assert!(!gone(&recovered, 0, 31) && !gone(&recovered, 3, 21) && !gone(&recovered, 1, 1));
    // There is no room for a third one.
    recovered.version = 40;
    recovered.note_dropped(1);
    for home in [0, 1, 3] {
        assert!(gone(&recovered, home, 40) && !gone(&recovered, home, 41), "{home}");
    }
    // One that is dropped later is noted beside them.
    recovered.version = 50;
    recovered.note_dropped(2);
    assert!(gone(&recovered, 2, 50) && gone(&recovered, 0, 40) && !gone(&recovered, 0, 50));
}

/// A device of which nothing can be read.
struct Unreadable;

impl SyncDevice for Unreadable {
    fn size_bytes(&self) -> u64 {
        64 << 20
    }

    fn read(&mut self, _offset_bytes: u64, _buf: &mut [u8]) -> Result<(), MediaError> {
        Err(MediaError::Io)
    }

    fn write(&mut self, _offset_bytes: u64, _bytes: &[u8]) -> Result<(), MediaError> {
        Err(MediaError::Io)
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        Err(MediaError::Io)
    }
}

/// What is found in a place of which a page with this stamp says this, when the journal has a record of a dirty copy of block 7 there, at version 50, that
/// may never have been durable; and whether that ends older copies.
fn found_beside_record(stamp: u64, of_page: TableEntry) -> (TableEntry, bool) {
    let layout = DeviceLayout::new(64 << 20, 1 << 20, BlockSize::KIB_4).unwrap();
    let mut tables = FoundPlaces::new(layout.extent.places, layout.extent.table_pages, 100);
    tables.insert_extent(0, FoundPage { stamp, ..FoundPage::EMPTY });
    tables.set(3, of_page);
    let source = RecoverySource {
        cache: CacheId([1; 16]),
        tag: VolumeTag(1),
        ring: 1,
        run_version: 0,
        layout,
        extents: &[0],
        blocks: 100,
        buffered: &[],
    };
    let mut replay = Replay {
        device: &mut Unreadable,
        source,
        durable: 10,
        kept: 0,
        superseded: NotedVersions::new(1),
        missing: NotedVersions::new(1),
        unreadable: UnreadableCopies::default(),
    };
    let record = Record { kind: RecordKind::Dirty, place: 3, block: 7, version: 50, crc: 9 };
    replay.apply_all(&mut tables, &[record]).unwrap();
    (tables.entry(3), replay.superseded.finish().get(7).is_some())
}

/// Guarantee 5: a copy that cannot be read stays, but where a start that was cut short gave its place to another block, which it had moved there.
#[test]
fn g5_a_copy_that_cannot_be_read_does_not_take_a_place_from_a_block_that_was_moved_there() {
    let unreadable = TableEntry { state: EntryState::Dirty, block: 7, version: 50, crc: 9 };
    let moved = TableEntry { block: 8, version: 5, crc: 4, ..unreadable };
    assert_eq!(found_beside_record(60, moved), (moved, false));
    // The page is of before the record: the place was used again.
    assert_eq!(found_beside_record(40, moved), (unreadable, false));
    assert_eq!(found_beside_record(60, TableEntry::default()), (unreadable, false));
    let before = TableEntry { version: 5, ..unreadable };
    assert_eq!(found_beside_record(60, before), (unreadable, false));
}
