//! Places step by step.

use super::*;

/// Four free places of one extent.
fn four() -> Places {
    let mut contents = Contents::new(4, 1 << 20);
    contents.insert_extent(0);
    Places::new(VolumeTag(1), (contents, 0), 0, (4, 1), vec![5], 4)
}

/// What the SSD's journal calls dirty must stay what it was when no journal will say otherwise.
#[test]
fn after_the_journal_failed_no_place_is_used_again() {
    let mut places = four();
    let dirty = places.take();
    places.put(dirty, 7, 99, true, false, None);
    places.durable(places.version());
    places.note_journal_failed();
    places.clean_unrecorded(dirty);
    places.give_up_clean(dirty);
    assert_eq!(places.free(), 3);
    (0..3).for_each(|_| assert_ne!(places.take(), dirty));
}

/// A clean place is given up and overwritten at once, so that it must not be clean before the journal says so.
#[test]
fn a_cleaned_place_is_dirty_until_the_journal_knows() {
    let mut places = four();
    let place = places.take();
    places.put(place, 7, 99, true, false, None);
    places.records.clear();
    let version = places.clean(place);
    assert_eq!(
        places.records,
        [Record { kind: RecordKind::Clean, place: 20 + place, block: 7, version, crc: 99 }]
    );
    places.durable(version - 1);
    assert!(places.is_dirty(place) && places.dirty() == 1);
    assert_eq!(places.page_entries(0)[place as usize].state, EntryState::Dirty);
    places.take_changed_pages();
    places.take_changed_pages();
    assert_eq!(places.take_changed_pages(), [] as [u32; 0]);
    places.durable(version);
    assert_eq!(places.held(place), HeldBlock { state: EntryState::Clean, block: 7, crc: 99 });
    assert_eq!(places.page_entries(0)[place as usize].version, version);
    assert_eq!((places.dirty(), places.take_changed_pages()), (0, vec![0]));
}

/// A clean copy that was given up, made again and given up again may come back until the later giving up is durable: the disk
/// must not be written before.
#[test]
fn a_later_giving_up_does_not_end_with_an_earlier_one() {
    let mut places = four();
    let [first, second] = [0, 1].map(|_| {
        let place = places.take();
        places.put(place, 7, 99, false, false, None);
        places.give_up_clean(place);
        places.version()
    });
    places.durable(first);
    assert!(places.may_come_back(7));
    places.durable(second);
    assert!(!places.may_come_back(7));
}

/// A place whose medium failed is not handed out again, whether it held something then or was being written.
#[test]
fn a_place_that_failed_is_not_handed_out_again() {
    let mut places = four();
    let [held, written] = [(); 2].map(|()| places.take());
    places.put(held, 7, 99, false, false, None);
    places.quarantine(written);
    places.quarantine(held);
    places.give_up_clean(held);
    places.durable(places.version());
    assert_eq!((places.free(), places.quarantined()), (2, 2));
    let left = [(); 2].map(|()| places.take());
    assert!(left.iter().all(|place| ![held, written].contains(place)), "{left:?}");
}

/// An entry of a table page bears the version of its own record until that is durable, as a start compares it with the journal's.
#[test]
fn an_entry_is_as_young_as_its_record_until_that_is_durable() {
    let mut places = four();
    let place = places.take();
    places.put(place, 7, 99, true, false, None);
    let version = places.version();
    let entry = |places: &Places| places.page_entries(0)[place as usize];
    assert_eq!((entry(&places).state, entry(&places).version), (EntryState::Dirty, version));
    places.durable(version);
    assert_eq!(entry(&places).version, version);
}
