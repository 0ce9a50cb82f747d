//! Dirty copies that are not known to be durable, and of which a start could not read the bytes, or found others when it read them again: nobody can tell
//! whether they arrived. Each stays,
//! so that whoever reads the block gets its bytes or an error, and never older ones. It is not needed where the copy before it has the same bytes, as
//! that of a block that was moved. Of copies in two places with one version one is kept here where none of them is there.
//!
//! It must not know devices.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};
use lode_format::{EntryState, TableEntry};
use lode_types::planted;

use crate::found::FoundPlaces;
use crate::latest_versions::LatestVersions;
use crate::place::Place;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct UnreadableCopies {
    /// By version and place.
    copies: BTreeMap<(u64, Place), TableEntry>,
}

impl UnreadableCopies {
    pub(crate) fn note(&mut self, place: Place, entry: TableEntry) {
        self.copies.insert((entry.version, place), entry);
    }

    /// The bytes are what they should be.
    pub(crate) fn forget(&mut self, place: Place, version: u64) {
        self.copies.remove(&(version, place));
    }

    pub(crate) fn has(&self, place: Place, version: u64) -> bool {
        self.copies.contains_key(&(version, place))
    }

    /// How many of them places hold.
    pub(crate) fn held(&self, tables: &FoundPlaces) -> u64 {
        self.copies.keys().filter(|&&(version, place)| tables.entry(place).version == version).count() as u64
    }

    /// Forgets each that is not needed, from the earliest to the latest: the newest other copy of its block that is no later is dirty, as one that
    /// guests wrote, has the same checksum, still counts by the versions that superseded others, and is there.
    pub(crate) fn forget_needless(
        &self,
        tables: &mut FoundPlaces,
        superseded: &LatestVersions,
        mut is_there: impl FnMut(Place, &TableEntry) -> bool,
    ) {
        if self.copies.is_empty() || planted("unreadable-copy-of-the-same-bytes-is-needed") {
            return;
        }
        let mut others = self.copies_of_their_blocks(tables);
        for (&(version, place), entry) in &self.copies {
            // Another block may be there by now.
            if tables.entry(place) != *entry {
                continue;
            }
            let Some(of_block) = others.get_mut(&entry.block) else { continue };
            // A block that a start moved has one version in both places.
            let is_before =
                |&&(other, before): &&(Place, TableEntry)| before.version <= version && other != place;
            let newest = of_block.iter().filter(is_before).max_by_key(|(_, before)| before.version);
            let Some(&(other, before)) = newest else { continue };
            let has_same_bytes = before.state == EntryState::Dirty && before.crc == entry.crc;
            let counts = superseded.get(entry.block).is_none_or(|latest| latest <= before.version);
            if has_same_bytes && counts && is_there(other, &before) {
                tables.set(place, TableEntry::default());
                of_block.retain(|&(other, _)| other != place);
            }
        }
    }

    /// All copies of their blocks, by block.
    fn copies_of_their_blocks(&self, tables: &FoundPlaces) -> HashMap<u64, Vec<(Place, TableEntry)>> {
        let blocks: HashSet<u64> = self.copies.values().map(|entry| entry.block).collect();
        let mut copies: HashMap<u64, Vec<(Place, TableEntry)>> = HashMap::new();
        for (place, entry) in tables.occupied().filter(|(_, entry)| blocks.contains(&entry.block)) {
            copies.entry(entry.block).or_default().push((place, entry));
        }
        copies
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::found_page::FoundPage;
    use crate::latest_versions::NotedVersions;

    const BLOCK: u64 = 7;

    fn dirty(version: u64, crc: u32) -> TableEntry {
        TableEntry { state: EntryState::Dirty, block: BLOCK, version, crc }
    }

    fn clean(version: u64, crc: u32) -> TableEntry {
        TableEntry { state: EntryState::Clean, ..dirty(version, crc) }
    }

    /// Puts copies into places 0, 1, …, and gives the places that hold something when those that are needless are forgotten. What is in `unreadable`
    /// cannot be read; in `not_there` there are other bytes.
    fn left(copies: &[TableEntry], unreadable: &[Place], not_there: &[Place], superseded: u64) -> Vec<Place> {
        let mut tables = FoundPlaces::new(100, 1, 1000);
        tables.insert_extent(0, FoundPage::EMPTY);
        let mut lost = UnreadableCopies::default();
        for (place, &entry) in (0..).zip(copies) {
            tables.set(place, entry);
            if unreadable.contains(&place) {
                lost.note(place, entry);
            }
        }
        let mut noted = NotedVersions::new(1);
        noted.note(BLOCK, superseded);
        noted.note(BLOCK + 1, 1000);
        let is_there = |place, _: &TableEntry| !unreadable.contains(&place) && !not_there.contains(&place);
        lost.forget_needless(&mut tables, &noted.finish(), is_there);
        let left: Vec<Place> = tables.occupied().map(|(place, _)| place).collect();
        assert_eq!(
            lost.held(&tables),
            left.iter().filter(|&place| unreadable.contains(place)).count() as u64
        );
        left
    }

    #[test]
    fn a_copy_is_needless_where_the_one_before_has_the_same_bytes() {
        let same = [dirty(5, 1), dirty(9, 1)];
        assert_eq!(left(&same, &[1], &[], 0), [0]);
        assert_eq!(left(&same, &[1], &[], 5), [0]);
        // Moved by a start, with its version.
        assert_eq!(left(&[dirty(5, 1), dirty(5, 1)], &[1], &[], 0), [0]);
        assert_eq!(left(&[dirty(5, 1), dirty(5, 1)], &[0], &[], 0), [1]);
        // Moved again and again, in any order of places.
        assert_eq!(left(&[dirty(9, 1), dirty(5, 1), dirty(12, 1)], &[0, 2], &[], 0), [1]);
        // A later one that can be read is none before it.
        assert_eq!(left(&[dirty(5, 1), dirty(9, 1), dirty(12, 2)], &[1], &[], 0), [0, 2]);
    }

    #[test]
    fn it_stays_where_that_is_not_known() {
        let both = [0, 1];
        let same = [dirty(5, 1), dirty(9, 1)];
        assert_eq!(left(&same, &[1], &[0], 0), both);
        assert_eq!(left(&same, &[0, 1], &[], 0), both);
        // Something else was written in between, of which the place was used again.
        assert_eq!(left(&same, &[1], &[], 6), both);
        assert_eq!(left(&[dirty(5, 1), dirty(9, 2)], &[1], &[], 0), both);
        // The disk may have something else than a clean copy from before.
        assert_eq!(left(&[clean(5, 1), dirty(9, 1)], &[1], &[], 0), both);
        assert_eq!(left(&[dirty(9, 1), dirty(12, 1)], &[0], &[], 0), both);
        // The one before it has other bytes, and one from before that does not count.
        assert_eq!(left(&[dirty(3, 1), dirty(5, 2), dirty(9, 1)], &[2], &[], 0), [0, 1, 2]);
    }

    #[test]
    fn what_else_is_in_its_place_stays() {
        let mut tables = FoundPlaces::new(100, 1, 1000);
        tables.insert_extent(0, FoundPage::EMPTY);
        tables.set(0, dirty(5, 1));
        let mut lost = UnreadableCopies::default();
        lost.note(1, dirty(9, 1));
        let another = TableEntry { block: BLOCK + 1, ..dirty(9, 1) };
        for entry in [another, dirty(12, 2)] {
            tables.set(1, entry);
            lost.forget_needless(&mut tables, &NotedVersions::new(1).finish(), |_, _| true);
            assert_eq!(tables.entry(1), entry);
        }
    }
}
