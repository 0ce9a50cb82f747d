use hashbrown::HashSet;
use lode_types::mix;
use proptest::prelude::*;

use super::*;
use crate::ages::Ages;
use crate::latest_versions::NotedVersions;

/// What the tables said of a place before anything else was found.
fn in_tables(found: &FoundPlaces, place: Place) -> TableEntry {
    let (page, number) = found.split(place);
    found.entries_of_page(page, Says::Before)[usize::from(number)]
}

const SLOTS: u32 = 200;

fn entry() -> impl Strategy<Value = TableEntry> {
    let some = (1u8..3, 0u64..1 << 40, 1u64..60, any::<u32>());
    some.prop_map(|(state, block, version, crc)| {
        let state = if state == 1 { EntryState::Clean } else { EntryState::Dirty };
        // Few blocks, but among them such as are far apart.
        let block = if block & 1 == 0 { block % 200 } else { (block % 8) << 36 };
        TableEntry { state, block, version, crc }
    })
}

fn read_page(found: &mut FoundPlaces, page: usize, entry: impl Fn(Place) -> TableEntry) {
    let (places, per_extent) = (found.places_of_page(page), found.pages_per_extent as usize);
    let within = (page % per_extent) as u32;
    let run = TableRun { ordinal: page / per_extent, pages: within..within + 1 };
    let mut runs = found.runs(&[(&run, true)]);
    assert_eq!(runs[0].places_of(within), places.len());
    runs[0].read_page(within, places.map(entry));
    let counts = runs.remove(0).counts;
    found.add_counts(counts);
}

fn found(entries: &[(Place, TableEntry)]) -> FoundPlaces {
    let mut found = FoundPlaces::new(SLOTS, 2, 1 << 40);
    let page = |stamp| FoundPage { sequence: 1, stamp, ..FoundPage::EMPTY };
    (0..3).for_each(|ordinal| found.insert_extent(ordinal, page(100)));
    *found.page_mut(2) = page(30);
    let entries: HashMap<Place, TableEntry> = entries.iter().copied().collect();
    for page in 0..6 {
        let of_place = |place| entries.get(&place).copied().unwrap_or_default();
        read_page(&mut found, page, of_place);
    }
    found
}

/// The obvious way: of all entries of a block the newest; of several the first one that is there, or else the first.
fn newest(
    entries: &[TableEntry],
    superseded: &HashMap<u64, u64>,
    is_there: impl Fn(Place) -> bool,
) -> Vec<TableEntry> {
    let mut newest = superseded.clone();
    for entry in entries.iter().filter(|entry| entry.state != EntryState::Free) {
        let at = newest.entry(entry.block).or_default();
        *at = entry.version.max(*at);
    }
    let mut left = vec![TableEntry::default(); entries.len()];
    for (block, version) in newest {
        let has_it = |entry: &TableEntry| {
            entry.state != EntryState::Free && (entry.block, entry.version) == (block, version)
        };
        let of_it: Vec<usize> = (0..entries.len()).filter(|&place| has_it(&entries[place])).collect();
        let stays = of_it.iter().find(|&&place| is_there(place as Place)).or(of_it.first());
        stays.into_iter().for_each(|&place| left[place] = entries[place]);
    }
    left
}

fn first_there(copies: &[(Place, TableEntry)], is_there: impl Fn(Place) -> bool) -> Place {
    copies.iter().find(|(place, _)| is_there(*place)).unwrap_or(&copies[0]).0
}

proptest! {
    #[test]
    fn the_newest_of_each_block_stays(
        entries in proptest::collection::vec((0..SLOTS * 3, entry()), 0..300),
        later in proptest::collection::vec((0..SLOTS * 3, entry()), 0..20),
        superseded in proptest::collection::hash_map(0u64..200, 1u64..60, 0..40),
        one_is_there_of in 1u32..5,
    ) {
        let superseded: HashMap<u64, u64> = superseded.into_iter().collect();
        let mut found = found(&entries);
        let tables: Vec<TableEntry> = (0..found.places()).map(|place| found.entry(place)).collect();
        later.iter().for_each(|&(place, entry)| found.set(place, entry));
        let before: Vec<TableEntry> = (0..found.places()).map(|place| found.entry(place)).collect();
        let count = |state| found.occupied().filter(|(_, entry)| entry.state == state).count() as u64;
        for state in [EntryState::Clean, EntryState::Dirty] {
            prop_assert_eq!(found.count(state), count(state));
        }
        let beyond = found.occupied().filter(|(place, entry)| entry.version > found.stamp(*place));
        prop_assert_eq!(found.beyond_stamps().collect::<Vec<_>>(), beyond.collect::<Vec<_>>());
        let mut versions = NotedVersions::new(0);
        superseded.iter().for_each(|(&block, &version)| versions.note(block, version));
        let is_there = |place: Place| place.is_multiple_of(one_is_there_of);
        found.keep_newest(&versions.finish(), |copies| first_there(copies, is_there));
        prop_assert_eq!(found.count(EntryState::Free), (0..found.places()).filter(|&place| found.entry(place).state == EntryState::Free).count() as u64);
        let after: Vec<TableEntry> = (0..found.places()).map(|place| found.entry(place)).collect();
        prop_assert_eq!(&after, &newest(&before, &superseded, is_there));
        for place in 0..found.places() {
            prop_assert_eq!(in_tables(&found, place), tables[place as usize]);
            let mut of_page = found.places_of_page(found.page_of(place));
            let is_same = of_page.clone().all(|place| tables[place as usize] == after[place as usize]);
            // What became of it in between is not known.
            let has_later = of_page.any(|place| later.iter().any(|one| one.0 == place));
            let right = found.pages[found.page_of(place)].right;
            let is_settled = right == RightCopies::Both;
            prop_assert!(is_same == is_settled || has_later && is_same);
            prop_assert!(is_settled || right == RightCopies::Neither);
        }
        let unsettled = found.unsettled();
        found.settle(&unsettled);
        prop_assert!((0..found.places()).all(|place| in_tables(&found, place) == after[place as usize]));
        let held: Vec<(Place, u64)> = found.occupied().map(|(place, entry)| (place, entry.version)).collect();
        let (contents, ages, order) = in_order(found, 60);
        prop_assert_eq!(&order, &by_era(&held));
        let dirty = held.iter().filter(|(place, _)| contents.held(*place).state == EntryState::Dirty);
        let oldest = dirty.map(|&(_, version)| ages.era_of(version)).min();
        prop_assert_eq!(ages.oldest_dirty().map(|version| ages.era_of(version)), oldest);
        for (place, version) in held {
            prop_assert_eq!(ages.era(place, contents.get(place).age), ages.era_of(version));
        }
    }
}

fn in_order(found: FoundPlaces, version: u64) -> (Contents, Ages, Vec<Place>) {
    let ((mut contents, _), mut found, _) = found.into_contents(version);
    let mut ages = Ages::new(contents.places(), &[], version);
    loop {
        if let Some(order) = found.advance(&mut contents, &mut ages) {
            return (contents, ages, order);
        }
    }
}

/// The obvious way: of places with versions each 128th part, from the least recent to the most recent, in ascending order within each. Where
/// several have the version that begins a part, they belong to it.
fn by_era(held: &[(Place, u64)]) -> Vec<Place> {
    let mut versions: Vec<u64> = held.iter().map(|&(_, version)| version).collect();
    versions.sort_unstable();
    let begins: Vec<u64> = versions.chunks(versions.len().div_ceil(128).max(1)).map(|part| part[0]).collect();
    let mut held = held.to_vec();
    held.sort_by_key(|&(place, version)| (begins.iter().filter(|&&begin| begin <= version).count(), place));
    held.into_iter().map(|(place, _)| place).collect()
}

/// Guarantee 1, also where both are seen as pages are taken in, and nothing else is found.
#[test]
fn g1_of_a_block_that_two_pages_speak_of_the_newest_copy_stays() {
    let at = |place, version| {
        (place, TableEntry { state: EntryState::Clean, block: 7, version, crc: version as u32 })
    };
    // Of one page, of neighbouring ones, and of two extents.
    for other in [1, SLOTS - 1, SLOTS + 1, 2 * SLOTS + 1] {
        for versions in [[5, 9], [9, 5]] {
            let mut found = found(&[at(0, versions[0]), at(other, versions[1])]);
            found.keep_newest(&NotedVersions::new(0).finish(), |_| panic!("one is newer"));
            let newest = if versions[0] > versions[1] { at(0, 9) } else { at(other, 9) };
            assert_eq!(found.occupied().collect::<Vec<_>>(), [newest]);
        }
    }
}

/// Guarantee 5: a block that was moved by a start that was cut short is in two places with one version. One that cannot be read is not kept.
#[test]
fn g5_of_two_places_with_one_version_one_that_is_there_stays() {
    let entry = TableEntry { state: EntryState::Dirty, block: 7, version: 5, crc: 1 };
    let places = [3, SLOTS + 1, 2 * SLOTS + 1];
    for (there, stays) in [(&places[..], 3), (&[], 3), (&places[1..], places[1]), (&places[2..], places[2])] {
        let mut found = found(&places.map(|place| (place, entry)));
        found.keep_newest(&NotedVersions::new(0).finish(), |copies| {
            assert_eq!(copies, places.map(|place| (place, entry)));
            first_there(copies, |place| there.contains(&place))
        });
        assert_eq!(found.occupied().collect::<Vec<_>>(), [(stays, entry)], "{there:?}");
    }
}

/// Of many places some stand for all: parts are about as large as they should be, and none is out of order.
#[test]
fn many_places_are_divided_by_some_of_them() {
    const PLACES: u32 = 200_000;
    let mut found = FoundPlaces::new(PLACES, PLACES.div_ceil(ENTRIES_PER_PAGE as u32), 1 << 40);
    found.insert_extent(0, FoundPage { sequence: 1, stamp: 1 << 40, ..FoundPage::EMPTY });
    let version = |place: Place| mix(place.into()) >> 30;
    for page in 0..PLACES.div_ceil(ENTRIES_PER_PAGE as u32) as usize {
        let entry = |place: Place| TableEntry {
            state: EntryState::Clean,
            block: place.into(),
            version: version(place),
            crc: 1,
        };
        read_page(&mut found, page, entry);
    }
    let (contents, _, order) = in_order(found, 1 << 40);
    let parts: Vec<&[Place]> =
        order.chunk_by(|&one, &next| contents.get(one).age == contents.get(next).age).collect();
    assert!((126..=130).contains(&parts.len()), "{}", parts.len());
    let mut latest = 0;
    for part in parts {
        assert!(part.is_sorted() && part.len() < 2 * PLACES as usize / 128, "{}", part.len());
        assert!(part.iter().all(|&place| version(place) >= latest));
        latest = part.iter().map(|&place| version(place)).max().expect("a part has places");
    }
    assert_eq!(order.iter().collect::<HashSet<_>>().len(), PLACES as usize);
}

#[test]
fn extents_in_which_nothing_is_found_take_nothing() {
    let dirty = TableEntry { state: EntryState::Dirty, block: 7, version: 5, crc: 1 };
    let mut found = found(&[(SLOTS + 1, dirty)]);
    let bytes = |found: &FoundPlaces| {
        let versions = found.versions.iter().map(|versions| versions.len() * size_of::<u64>());
        found.contents.memory_bytes() + versions.sum::<usize>()
    };
    let before = bytes(&found);
    found.free_unused_room();
    assert!(bytes(&found) < before / 2, "{before}: {}", bytes(&found));
    assert_eq!(found.occupied().collect::<Vec<_>>(), [(SLOTS + 1, dirty)]);
}

#[test]
fn extents_move_up() {
    let at =
        |place, version| (place, TableEntry { state: EntryState::Dirty, block: version, version, crc: 1 });
    let mut found = found(&[at(0, 5), at(SLOTS + 1, 3), at(2 * SLOTS + 2, 4)]);
    found.set(2 * SLOTS + 3, at(0, 9).1);
    let by_version = |found: &FoundPlaces| {
        let mut held: Vec<(u64, Place)> =
            found.occupied().map(|(place, entry)| (entry.version, place)).collect();
        held.sort_unstable();
        held.into_iter().map(|(_, place)| place).collect::<Vec<_>>()
    };
    assert_eq!(by_version(&found), [SLOTS + 1, 2 * SLOTS + 2, 0, 2 * SLOTS + 3]);
    found.remove_extent(1);
    assert_eq!(by_version(&found), [SLOTS + 2, 0, SLOTS + 3]);
    assert_eq!((in_tables(&found, SLOTS + 3), found.unsettled()), (TableEntry::default(), vec![2]));
    found.insert_extent(0, FoundPage::EMPTY);
    assert_eq!((by_version(&found), found.unsettled()), (vec![2 * SLOTS + 2, SLOTS, 2 * SLOTS + 3], vec![4]));
    let (_, order, sequences) = found.into_contents(10);
    assert_eq!((order.len(), sequences), (3, vec![2, 2, 1, 1, 1, 1]));
}
