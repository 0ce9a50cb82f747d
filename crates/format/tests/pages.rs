//! Every page reads back as it was written, and nothing else is ever believed.

use lode_format::*;
use lode_types::BlockSize;
use proptest::prelude::*;

const CACHE: CacheId = CacheId([7; 16]);
const TAG: VolumeTag = VolumeTag(42);
const LABEL: ReadSsdLabel = ReadSsdLabel { id: CACHE, device_bytes: 1 << 40 };

fn record() -> impl Strategy<Value = Record> {
    (0u8..3, any::<u32>(), any::<u64>(), any::<u64>(), any::<u32>()).prop_map(
        |(kind, place, block, version, crc)| Record {
            kind: [RecordKind::Clean, RecordKind::Dirty, RecordKind::Free][kind as usize],
            place,
            block,
            version,
            crc,
        },
    )
}

fn journal_page() -> impl Strategy<Value = JournalPage> {
    let numbers = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
    (numbers, proptest::collection::vec(record(), 0..=RECORDS_PER_PAGE)).prop_map(
        |((ring, number, tail, durable_page, durable_version, durable_tables), records)| JournalPage {
            volume: TAG,
            ring,
            number,
            tail,
            durable_page,
            durable_version,
            durable_tables,
            records,
        },
    )
}

fn table_page() -> impl Strategy<Value = TablePage> {
    let entry =
        (0u8..3, any::<u64>(), any::<u64>(), any::<u32>()).prop_map(|(state, block, version, crc)| {
            let state = [EntryState::Free, EntryState::Clean, EntryState::Dirty][state as usize];
            TableEntry { state, block, version, crc }
        });
    (any::<u64>(), any::<u64>(), proptest::collection::vec(entry, ENTRIES_PER_PAGE)).prop_map(
        |(sequence, stamp, entries)| TablePage { volume: TAG, extent: 3, page: 1, sequence, stamp, entries },
    )
}

fn superblock(generation: u64) -> Superblock {
    Superblock {
        cache: CACHE,
        generation,
        epoch: 9,
        device_bytes: 64 << 20,
        extent_bytes: 1 << 20,
        block: BlockSize::KIB_4,
    }
}

fn directory() -> Directory {
    let layout = superblock(1).layout().unwrap();
    let mut directory = Directory::empty(layout.extents);
    directory.generation = 5;
    let volume = |name: &str| {
        let (name, backing_bytes) = (name.to_owned(), 1 << 30);
        let dropped = [DroppedCopies { home: 3, before: 7 }, DroppedCopies::default()];
        let is_ring_longer = name == "vm3";
        Some(Volume {
            name,
            tag: TAG,
            backing_bytes,
            ring: 3,
            is_ring_longer,
            attached_in: 9,
            run_version: 8,
            dropped,
        })
    };
    directory.volumes = vec![volume("vm1"), None, volume("vm3")];
    directory.owners[0] = Some(0);
    directory.set_extents_of(2, &VolumeExtents { written: vec![7], unwritten: vec![9, 12] });
    directory
}

proptest! {
    #[test]
    fn journal_pages_round_trip(page in journal_page()) {
        prop_assert_eq!(JournalPage::decode(CACHE, &page.encode(CACHE)[..]), Ok(page));
    }

    #[test]
    fn table_pages_round_trip(page in table_page()) {
        let bytes = page.encode(CACHE);
        prop_assert_eq!(TablePage::decode(CACHE, TAG, 3, 1, &bytes[..]), Ok(page));
        prop_assert!(TablePage::decode(CACHE, VolumeTag(43), 3, 1, &bytes[..]).is_err());
        prop_assert!(TablePage::decode(CACHE, TAG, 4, 1, &bytes[..]).is_err());
        prop_assert!(TablePage::decode(CacheId([8; 16]), TAG, 3, 1, &bytes[..]).is_err());
    }

    /// A flipped bit anywhere makes every page unreadable.
    #[test]
    fn flipped_bits_are_seen(page in journal_page(), table in table_page(), bit in 0usize..4096 * 8) {
        let flip = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes
        };
        prop_assert!(JournalPage::decode(CACHE, &flip(&page.encode(CACHE)[..])).is_err());
        prop_assert!(TablePage::decode(CACHE, TAG, 3, 1, &flip(&table.encode(CACHE)[..])).is_err());
        prop_assert!(Superblock::decode(&flip(&superblock(1).encode()[..])).is_err());
        prop_assert!(ReadSsdLabel::decode(&flip(&LABEL.encode()[..])).is_err());
    }

    /// Torn at any sector between two versions of a page, neither is read unless it is whole.
    #[test]
    fn torn_pages_are_seen(old in journal_page(), new in journal_page(), sectors in 1usize..8) {
        prop_assume!(old != new);
        let (old, new) = (old.encode(CACHE), new.encode(CACHE));
        let mut torn = old.to_vec();
        torn[..sectors * 512].copy_from_slice(&new[..sectors * 512]);
        if torn[..] != old[..] && torn[..] != new[..] {
            prop_assert!(JournalPage::decode(CACHE, &torn).is_err());
        }
    }

    #[test]
    fn noise_is_refused(bytes in proptest::collection::vec(any::<u8>(), 0..5000)) {
        prop_assert!(JournalPage::decode(CACHE, &bytes).is_err());
        prop_assert!(TablePage::decode(CACHE, TAG, 0, 0, &bytes).is_err());
        prop_assert!(Superblock::decode(&bytes).is_err());
        prop_assert!(ReadSsdLabel::decode(&bytes).is_err());
        prop_assert!(Directory::decode(CACHE, &bytes).is_err());
    }
}

#[test]
fn a_read_ssd_is_no_cache() {
    assert_eq!(ReadSsdLabel::decode(&LABEL.encode()[..]), Ok(LABEL));
    assert_eq!(ReadSsdLabel::decode(&superblock(1).encode()[..]).unwrap_err().wrong, Wrong::Magic);
    assert_eq!(Superblock::decode(&LABEL.encode()[..]).unwrap_err().wrong, Wrong::Magic);
}

#[test]
fn the_newer_superblock_counts() {
    let (old, new) = (superblock(1), superblock(2));
    assert_eq!(Superblock::newest([&old.encode()[..], &new.encode()[..]]), Ok(new));
    assert_eq!(Superblock::newest([&new.encode()[..], &[0; 4096]]), Ok(new));
    assert_eq!(Superblock::newest([&[0; 4096], &[0; 4096]]).unwrap_err().wrong, Wrong::Magic);
}

#[test]
fn directories_round_trip_and_the_newer_counts() {
    let old = directory();
    let mut new = old.clone();
    new.generation = 6;
    new.owners[8] = Some(0);
    let (old_bytes, new_bytes) = (old.encode(CACHE).unwrap(), new.encode(CACHE).unwrap());
    assert_eq!(Directory::decode(CACHE, &old_bytes), Ok(old.clone()));
    assert_eq!(Directory::newest(CACHE, [&old_bytes, &new_bytes]), Ok(new));
    let mut torn = new_bytes.clone();
    torn[..4096].copy_from_slice(&old_bytes[..4096]);
    assert_eq!(Directory::newest(CACHE, [&old_bytes, &torn]), Ok(old.clone()));
    assert_eq!(old.find("vm3").map(|(number, _)| number), Some(2));
    let extents = VolumeExtents { written: vec![7], unwritten: vec![9, 12] };
    assert_eq!(old.extents_of(2), extents);
    let mut less = old.clone();
    less.set_extents_of(2, &VolumeExtents { written: vec![9], unwritten: vec![7] });
    assert_eq!(less.owners.iter().flatten().count(), 3);
    assert_eq!(Directory::decode(CACHE, &less.encode(CACHE).unwrap()), Ok(less.clone()));
    less.free_extents_of(2);
    assert_eq!((less.extents_of(2), less.unwritten.len()), (VolumeExtents::default(), 0));
}

/// Two runs after one another that both read the same directory, because what the first of them wrote was torn.
#[test]
fn directories_of_two_runs_do_not_mix() {
    let read = directory();
    let written = |epoch: u64, owner| {
        let mut next = read.clone();
        next.generation = read.next_generation(epoch);
        next.owners[8] = owner;
        next
    };
    let (first, second) = (written(3, Some(0)), written(4, None));
    assert!(first.copy() == second.copy() && first.copy() != read.copy());
    assert!(second.generation > first.generation && first.generation > read.generation);
    assert_eq!(second.next_generation(4), second.generation + 1);
    let [first, second] = [&first, &second].map(|directory| directory.encode(CACHE).unwrap());
    for pages in 1..first.len() / 4096 {
        let mut torn = first.clone();
        torn[..pages * 4096].copy_from_slice(&second[..pages * 4096]);
        assert_eq!(Directory::decode(CACHE, &torn).unwrap_err().wrong, Wrong::Field("generation"));
    }
    // Numbers that somebody made up.
    let far = Directory { generation: u64::MAX - (1 << 20), ..read.clone() };
    assert_eq!(far.next_generation(u64::MAX), far.generation + 1);
    assert!(Directory::decode(CACHE, &far.encode(CACHE).unwrap()).is_ok());
    let made_up = Directory { generation: far.generation + 1, ..read }.encode(CACHE).unwrap();
    assert_eq!(Directory::decode(CACHE, &made_up).unwrap_err().wrong, Wrong::Field("generation"));
}

#[test]
fn names_too_long_are_refused() {
    let mut directory = directory();
    directory.volumes[0].as_mut().unwrap().name = "x".repeat(Volume::MAX_NAME_BYTES + 1);
    assert_eq!(directory.encode(CACHE).unwrap_err().wrong, Wrong::Field("name"));
}
