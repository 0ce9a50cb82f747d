//! What must be so after an operation, beside what the guest finds. It must not know how the operation was carried out.

use lode_sim::scenario::{BLOCK, pattern};
use lode_store::{StoreErrorKind, StoreView, probe_read_ssd};

use super::Device::{ReadSsd, Second, SecondOfOther, Ssd};
use super::runs::{formats, formats_pairs};
use super::sites::{at, name_of, write_all};
use super::{BLOCKS, Site};

pub(super) fn nothing_more(_: &mut Site, _: bool) {}

pub(super) fn is_formatted_or_nothing(site: &mut Site, done: bool) {
    match StoreView::read(&mut site.world.ssd) {
        Ok(view) => assert_eq!(view.volumes().count(), 0, "an empty cache"),
        Err(error) => {
            assert!(!done, "{error}");
            assert!(formats(site), "it is formatted once more");
        }
    }
    begin_guest(site);
}

pub(super) fn pairs_are_formatted_or_nothing(site: &mut Site, done: bool) {
    if let Err(error) = site.world.restart(site.machine.clone()) {
        assert!(!done && error.kind() == StoreErrorKind::WrongMember, "{error}");
        assert!(formats_pairs(site), "they are formatted once more");
    }
    site.world.go_down(true);
    begin_guest(site);
}

pub(super) fn read_ssd_is_formatted_or_nothing(site: &mut Site, done: bool) {
    let probed = probe_read_ssd(&mut site.world.ssd);
    assert!(probed.is_ok() || !done, "{probed:?}");
    assert!(formats(site));
    begin_guest(site);
}

/// What was empty serves a guest from now on.
pub(super) fn begin_guest(site: &mut Site) {
    site.world.restart(site.machine.clone()).unwrap();
    write_all(&mut site.world);
    site.world.go_down(true);
}

pub(super) fn serves_a_guest(site: &mut Site, _: bool) {
    begin_guest(site);
}

pub(super) fn other_is_there_or_gone(site: &mut Site, done: bool) {
    let view = StoreView::read(&mut *site.world.open_cache().unwrap()).unwrap();
    let is_there = view.volumes().any(|volume| volume.name == "other");
    assert!(!(is_there && done), "it was removed");
}

pub(super) fn drained_is_on_disk(site: &mut Site, done: bool) {
    for block in (0..BLOCKS).filter(|_| done) {
        let mut bytes = vec![0; BLOCK as usize];
        site.world.backing.peek(at(block), &mut bytes);
        assert!(bytes == pattern(name_of(block), BLOCK as usize), "block {block} of the drained disk");
    }
}

/// What is damaged on the first SSD of a pair is lost only to who loses it on the second one as well.
pub(super) fn is_healed(site: &mut Site, _: bool) {
    if !matches!(site.failing, Some(Second | SecondOfOther)) {
        site.lost = None;
    }
}

/// What was damaged has a second copy, as long as the volume is served and the read SSD does not fail.
pub(super) fn is_repaired_if_served_on(site: &mut Site, done: bool) {
    if done && site.failing != Some(ReadSsd) {
        site.lost = None;
    }
}

pub(super) fn nobody_notices_the_first(site: &mut Site, _: bool) {
    assert!(site.failing != Some(Ssd) || !site.guest_failed, "the guest notices what fails on the new SSD");
}

pub(super) fn nobody_notices_the_second(site: &mut Site, _: bool) {
    assert!(
        site.failing != Some(Second) || !site.guest_failed,
        "the guest notices what fails on the new SSD"
    );
}

/// Of everything that is kept twice both copies are whole again.
pub(super) fn has_both_copies(site: &mut Site, done: bool) {
    if done {
        let mut cache = site.world.open_cache().unwrap();
        let view = StoreView::read(&mut *cache).unwrap();
        let copies = view.check_copies(&mut *cache);
        assert_eq!((copies.superblocks, copies.directories), (2, 2));
        let found = view.check_volume(&mut *cache, "vm", true, &mut |_| {}).unwrap();
        assert_eq!(found.lone_table_pages, 0);
    }
}
