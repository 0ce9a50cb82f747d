//! The volume's places on the SSD: what each holds, which are free, and which may not be used again yet.
//!
//! A block that is written again gets a new place; the old one is kept until the journal says durably
//! that it is superseded, so that a power cut finds either the old bytes or the new ones, whole.

use std::collections::VecDeque;

use hashbrown::{HashMap, HashSet};
use lode_format::{
    Buffered, ENTRIES_PER_PAGE, EntryState, PlaceNo, Record, RecordKind, TableEntry, VolumeTag, data_checksum,
};
use lode_types::{BlockNo, Counter, NumberFilter, planted};

use crate::ages::{Ages, Era};
use crate::circulation::Circulation;
use crate::contents::{Content, Contents, HeldBlock};
use crate::dropped::DroppedPlaces;
use crate::place::Place;
use crate::record_buffer::RecordBuffer;
use crate::young::Young;

/// All places of the volume.
#[derive(Debug)]
pub struct Places {
    tag: VolumeTag,
    pub(crate) contents: Contents,
    pub(crate) ages: Ages,
    /// Exact versions of what is not durable yet.
    young: Young,
    /// Those of volatile copies, durable or not, for whoever was told them.
    volatile: HashMap<Place, u64>,
    circulation: Circulation,
    /// Places of superseded or written-back dirty copies, free when this version is durable.
    waiting: VecDeque<(u64, Place)>,
    /// Places of dirty copies that were written back and stay, clean when this version is durable.
    cleaning: VecDeque<(u64, Place)>,
    /// Blocks whose clean copy was given up, with the version that says so, until it is durable.
    given_up: HashMap<BlockNo, u64>,
    given_up_order: VecDeque<(u64, BlockNo)>,
    /// Table pages that changed since the last checkpoint, and between it and the one before: both copies of a page get every change.
    changed: Vec<u64>,
    half_written: Vec<u64>,
    places_per_extent: u32,
    pages_per_extent: u32,
    /// The volume's extents: those of the start ascending, then those that came since.
    extents: Vec<u32>,
    /// Records not yet handed to the journal.
    pub(crate) records: Vec<Record>,
    /// The same records where they outlive the process.
    buffer: RecordBuffer,
    next_version: u64,
    durable_version: u64,
    pub(crate) dropped: DroppedPlaces,
    /// Places that failed: what they hold may still count, but they are not used again.
    quarantined: HashSet<Place>,
    dirty: u32,
    journal_failed: bool,
}

impl Places {
    /// What was recovered, and is durable, and how many of it are dirty. How old it is nobody knows before [`Places::put_in_order`]. Versions
    /// continue above `version`. Of the places no more are used than `most`, if those that hold something leave any free.
    pub(crate) fn new(
        tag: VolumeTag,
        (contents, dirty): (Contents, u32),
        version: u64,
        (places_per_extent, pages_per_extent): (u32, u32),
        extents: Vec<u32>,
        most: u64,
    ) -> Places {
        let used = contents.occupied().map(|(place, _)| place);
        let circulation = Circulation::new(contents.places(), used, places_per_extent, most);
        let words = (contents.extents() * pages_per_extent as usize).div_ceil(64);
        let mut ages = Ages::new(contents.places(), &[], version);
        ages.found([dirty].into_iter());
        Places {
            tag,
            circulation,
            contents,
            ages,
            young: Young::default(),
            volatile: HashMap::new(),
            waiting: VecDeque::new(),
            cleaning: VecDeque::new(),
            given_up: HashMap::new(),
            given_up_order: VecDeque::new(),
            changed: vec![0; words],
            half_written: vec![0; words],
            places_per_extent,
            pages_per_extent,
            extents,
            records: Vec::new(),
            buffer: RecordBuffer::default(),
            next_version: version + 1,
            durable_version: version,
            dropped: DroppedPlaces::default(),
            quarantined: HashSet::new(),
            dirty,
            journal_failed: false,
        }
    }

    /// From now on records outlive the process here.
    pub(crate) fn keep_records_in(&mut self, buffer: RecordBuffer) {
        self.buffer = buffer;
    }

    /// Whether records outlive the process.
    pub(crate) fn keeps_records(&self) -> bool {
        self.buffer.has_memory()
    }

    /// The version up to which everything outlives the process, when journal pages up to `written` are on the SSD.
    pub(crate) fn kept_version(&self, written: u64) -> u64 {
        self.buffer.kept(written)
    }

    /// Places that can be taken. Who relies on some of them counts these, and says so to [`crate::VolumeStore::circulate`].
    pub fn free(&self) -> u32 {
        self.circulation.free()
    }

    /// Places that become available when the journal is committed.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The next places to be taken are, where possible, so many that lie together on the device.
    pub fn prefer_run(&mut self, places: u32) {
        self.circulation.prefer_run(places);
    }

    /// Takes a free place to write to. It is [`Places::put`] to use, or fails and is quarantined.
    ///
    /// # Panics
    /// When none is free.
    pub fn take(&mut self) -> Place {
        self.circulation.take()
    }

    /// The place's medium failed: it is not used again once what it holds is given up.
    pub fn quarantine(&mut self, place: Place) {
        let is_new = self.quarantined.insert(place);
        if is_new && self.held(place).state == EntryState::Free {
            self.circulation.release(place, planted("bad-place-used-again"));
        }
    }

    /// Places that failed.
    pub fn quarantined(&self) -> u32 {
        self.quarantined.len() as u32
    }

    /// Those of them before this place.
    pub(crate) fn quarantined_before(&self, end: Place) -> u32 {
        self.quarantined.iter().filter(|&&place| place < end).count() as u32
    }

    fn hold(&mut self, place: Place, content: Content) {
        let old = self.contents.get(place);
        self.contents.set(place, content);
        self.ages.changes(place, &old, &content);
        self.dirty.count_down_by(u32::from(old.held.state == EntryState::Dirty));
        self.dirty += u32::from(content.held.state == EntryState::Dirty);
        self.mark_changed(place);
    }

    /// What a place holds.
    #[inline]
    pub fn held(&self, place: Place) -> HeldBlock {
        self.contents.get(place).held
    }

    /// Places that hold something, in ascending order, and what.
    pub fn held_all(&self) -> impl Iterator<Item = (Place, HeldBlock)> {
        self.contents.occupied().map(|(place, content)| (place, content.held))
    }

    /// Tells of the places that hold one of these blocks, and of few others, in ascending order.
    pub fn look_for(&self, blocks: &NumberFilter, found: impl FnMut(Place, HeldBlock)) {
        self.contents.look_for(blocks, found);
    }

    /// Fetches what these places hold, for whoever will soon ask.
    pub fn prefetch(&self, places: &[Place]) {
        self.contents.prefetch(places);
    }

    /// Whether the journal does not know what a place holds, because the backing disk may still lose it.
    pub fn is_volatile(&self, place: Place) -> bool {
        self.contents.get(place).is_volatile
    }

    /// Whether a place holds a block that is newer than the backing disk.
    pub fn is_dirty(&self, place: Place) -> bool {
        self.held(place).state == EntryState::Dirty
    }

    /// The version at which it is durable that a place holds what it does; no later than the durable one where it is.
    pub fn recorded_at(&self, place: Place) -> u64 {
        self.young.get(place).unwrap_or(self.durable_version)
    }

    /// What is put somewhere from now on can be told from what is there, see [`Places::is_up_to`].
    pub fn mark(&mut self) {
        self.ages.mark(self.next_version);
    }

    /// What has versions up to this one is of this era or an earlier one; what is of these has no later version, where it was
    /// marked as the latest one not too long ago.
    pub fn era_of(&self, version: u64) -> Era {
        self.ages.era_of(version)
    }

    /// The era of what a place holds: of two copies the one of the later era is the newer one.
    pub fn era(&self, place: Place) -> Era {
        self.ages.era(place, self.contents.get(place).age)
    }

    /// Whether what a place holds is of this era or an earlier one. What is so old that nothing is known of its age is.
    pub fn is_up_to(&self, place: Place, era: Era) -> bool {
        self.ages.is_up_to(place, self.contents.get(place).age, era)
    }

    /// The checksum of these bytes as the volume's block.
    pub fn checksum(&self, block: BlockNo, bytes: &[u8]) -> u32 {
        data_checksum(self.tag, block, bytes)
    }

    /// Whether these bytes are the ones the place was given.
    pub fn is_intact(&self, place: Place, bytes: &[u8]) -> bool {
        let held = self.held(place);
        !self.is_dropped(place) && data_checksum(self.tag, held.block, bytes) == held.crc
    }

    /// Version of the latest record.
    pub fn version(&self) -> u64 {
        self.next_version - 1
    }

    /// A place taken for `block` has been written. `old` is the block's place before.
    pub fn put(
        &mut self,
        place: Place,
        block: BlockNo,
        crc: u32,
        dirty: bool,
        volatile: bool,
        old: Option<Place>,
    ) {
        let (state, kind) = match dirty {
            true => (EntryState::Dirty, RecordKind::Dirty),
            false => (EntryState::Clean, RecordKind::Clean),
        };
        let version = if volatile { self.skip_version() } else { self.record(kind, place, block, crc) };
        if volatile {
            self.volatile.insert(place, version);
        }
        self.dropped.remove(place);
        self.hold_as_of(
            place,
            version,
            Content { held: HeldBlock { state, block, crc }, is_volatile: volatile, age: 0 },
        );
        match old {
            Some(old) if planted("superseded-place-used-at-once") => self.clear(old),
            Some(old) if self.is_dirty(old) && self.journal_failed => self.clean_unrecorded(old),
            Some(old) if self.is_dirty(old) => self.waiting.push_back((version, old)),
            Some(old) => self.clear(old),
            None => {}
        }
    }

    /// The backing disk durably holds what this volatile place holds: the journal may know it.
    pub fn make_known(&mut self, place: Place, version: u64) {
        // Its extent may have been given up since.
        if self.volatile.get(&place) == Some(&version) {
            self.volatile.remove(&place);
            let held = self.held(place);
            let version = self.record(RecordKind::Clean, place, held.block, held.crc);
            self.hold_as_of(place, version, Content { held, is_volatile: false, age: 0 });
        }
    }

    /// A place holds this from now on, with the latest version.
    fn hold_as_of(&mut self, place: Place, version: u64, content: Content) {
        self.young.put(place, version);
        let age = self.ages.now(place, &mut self.contents);
        self.hold(place, Content { age, ..content });
    }

    /// Gives up a clean copy. The place can be used at once: should the journal not survive, the bytes
    /// no longer fit their checksum and the copy is not believed.
    pub fn give_up_clean(&mut self, place: Place) {
        let Content { held, is_volatile, .. } = self.contents.get(place);
        if !is_volatile {
            let version = self.free_record(place);
            self.given_up.insert(held.block, version);
            self.given_up_order.push_back((version, held.block));
        }
        self.clear(place);
    }

    /// Gives up a dirty copy that the backing disk now durably holds, or that the guest trimmed. Returns
    /// the version at which it is durably gone; the place stays unused until then.
    pub fn give_up_dirty(&mut self, place: Place) -> u64 {
        let version = self.free_record(place);
        self.waiting.push_back((version, place));
        version
    }

    /// The backing disk durably holds what this dirty place holds. Returns the version at which the place is durably
    /// clean. Until then it stays dirty here and in the tables: a clean place may be given up and overwritten at once,
    /// and a restart that still found it dirty would miss its bytes.
    pub fn clean(&mut self, place: Place) -> u64 {
        let HeldBlock { block, crc, .. } = self.held(place);
        let version = self.record(RecordKind::Clean, place, block, crc);
        if planted("clean-before-journal") {
            self.clean_unrecorded(place);
        }
        self.cleaning.push_back((version, place));
        version
    }

    /// As [`Places::clean`], where no journal can say so: for whoever looks at this run, and at no other.
    pub fn clean_unrecorded(&mut self, place: Place) {
        let content = self.contents.get(place);
        let held = HeldBlock { state: EntryState::Clean, ..content.held };
        self.volatile.remove(&place);
        self.hold(place, Content { held, is_volatile: false, ..content });
    }

    /// No version will be durable any more. Places that wait for one stay unused, and what they hold counts no longer.
    pub fn note_journal_failed(&mut self) {
        self.journal_failed = true;
        for (_, place) in std::mem::take(&mut self.waiting) {
            self.clean_unrecorded(place);
        }
    }

    fn free_record(&mut self, place: Place) -> u64 {
        let block = self.held(place).block;
        self.record(RecordKind::Free, place, block, 0)
    }

    /// Makes the next record, and returns its version.
    fn record(&mut self, kind: RecordKind, place: Place, block: BlockNo, crc: u32) -> u64 {
        let version = self.next_version;
        self.next_version += 1;
        self.ages.note(version);
        let record = Record { kind, place: self.number_on_device(place), block, version, crc };
        self.records.push(record);
        self.buffer.append(&Buffered::Record(record), self.durable_version);
        version
    }

    /// A version of which the journal is to know nothing.
    fn skip_version(&mut self) -> u64 {
        let version = self.next_version;
        self.next_version += 1;
        self.ages.note(version);
        self.buffer.append(&Buffered::Empty { version }, self.durable_version);
        version
    }

    /// The device's number of a place.
    fn number_on_device(&self, place: Place) -> PlaceNo {
        let (ordinal, within) = (place / self.places_per_extent, place % self.places_per_extent);
        self.extents[ordinal as usize] * self.places_per_extent + within
    }

    /// The place is free, unless its medium failed, or the journal: then a restart may still find what the place held, dirty
    /// even, and would miss its bytes.
    fn clear(&mut self, place: Place) {
        if self.is_volatile(place) {
            self.volatile.remove(&place);
        }
        self.hold(place, Content::default());
        let is_bad = self.quarantined.contains(&place) && !planted("bad-place-used-again");
        let again = !is_bad && (!self.journal_failed || planted("place-used-after-journal-failed"));
        self.circulation.release(place, again);
    }

    /// The journal is durable up to `version`.
    pub(crate) fn durable(&mut self, version: u64) {
        self.durable_version = version;
        self.young.durable(version);
        self.free_up_to(version);
        while let Some(&(at, place)) = self.cleaning.front()
            && at <= version
        {
            self.cleaning.pop_front();
            // As old as the record that says so, or younger: an entry that seemed older would count as superseded by it.
            let held = HeldBlock { state: EntryState::Clean, ..self.held(place) };
            let age = self.ages.now(place, &mut self.contents);
            self.hold(place, Content { held, is_volatile: false, age });
        }
        while let Some(&(at, block)) = self.given_up_order.front()
            && at <= version
        {
            self.given_up_order.pop_front();
            if self.given_up.get(&block) == Some(&at) || planted("give-up-forgotten-with-an-older-one") {
                self.given_up.remove(&block);
            }
        }
    }

    /// Places of dirty copies that are gone as of this version can be used again.
    pub(crate) fn free_up_to(&mut self, version: u64) {
        while let Some(&(at, place)) = self.waiting.front()
            && at <= version
        {
            self.waiting.pop_front();
            self.clear(place);
        }
    }

    /// The version up to which everything is durable.
    pub(crate) fn durable_version(&self) -> u64 {
        self.durable_version
    }

    /// Whether a restart could still find a clean copy of `block` that was given up.
    pub fn may_come_back(&self, block: BlockNo) -> bool {
        self.given_up.contains_key(&block)
    }

    fn table_page(&self, place: Place) -> u32 {
        let (extent, within) = self.contents.split(place);
        extent * self.pages_per_extent + within / ENTRIES_PER_PAGE as u32
    }

    fn mark_changed(&mut self, place: Place) {
        let page = self.table_page(place) as usize;
        self.changed[page / 64] |= 1 << (page % 64);
    }

    /// Table pages that changed since this was last asked or in the interval before, numbered over all
    /// extents.
    pub(crate) fn take_changed_pages(&mut self) -> Vec<u32> {
        let mut pages = Vec::new();
        for (word, (bits, before)) in self.changed.iter_mut().zip(&mut self.half_written).enumerate() {
            let now = std::mem::take(bits);
            let mut left = now | std::mem::replace(before, now);
            if planted("change-in-one-copy") {
                left = now;
            }
            while left != 0 {
                pages.push((word * 64) as u32 + left.trailing_zeros());
                left &= left - 1;
            }
        }
        pages
    }

    /// What a table page should say now, on which the durable version is the stamp. Places that are volatile, or whose bytes are gone,
    /// pass for free.
    ///
    /// An entry whose record is not durable yet has its own version, against which recovery checks its bytes. Any other one has
    /// a version that is no earlier than its own and no later than the stamp, because its own is not kept. That is enough for all
    /// that recovery ([`crate::recover`]) asks of a version:
    ///
    /// - *Is the entry known to be durable?* It is when its version is not above the stamp: neither version is.
    /// - *Is a record of this place newer?* Of those that recovery applies, which are above the stamp, all are; those up to it are
    ///   in the page.
    /// - *Which of two entries of one block counts, and does a record of the block end this entry?* Whatever ends an entry does so
    ///   with a version `v`: a newer copy elsewhere, or a record that the copy was given up. A clean copy leaves its place when
    ///   `v` is made, a dirty one when `v` is durable, so that every page that still shows it was stamped below `v`: its version
    ///   on the page is below `v`. The newer copy's own version is `v` or later, and so is what stands for it on a page. So they
    ///   compare as their own versions do.
    /// - *Which came first?* Only for the order in which a scheme is told of them: eras keep it roughly.
    pub(crate) fn page_entries(&self, page: u32) -> Vec<TableEntry> {
        let (extent, within) = (page / self.pages_per_extent, page % self.pages_per_extent);
        let first = within * ENTRIES_PER_PAGE as u32;
        let last = (first + ENTRIES_PER_PAGE as u32).min(self.places_per_extent);
        let base = extent * self.places_per_extent;
        (base + first..base + last).map(|place| self.table_entry(place)).collect()
    }

    fn table_entry(&self, place: Place) -> TableEntry {
        let Content { held: HeldBlock { state, block, crc }, is_volatile, age } = self.contents.get(place);
        let is_told = !is_volatile || planted("volatile-copy-in-table");
        if !is_told || self.is_dropped(place) || state == EntryState::Free {
            return TableEntry::default();
        }
        let durable = self.durable_version;
        let version = match self.ages.latest_version(place, age) {
            Some(latest) if latest <= durable => latest,
            _ if planted("entry-called-durable") => durable,
            _ => self.young.get(place).unwrap_or(durable),
        };
        TableEntry { state, block, crc, version }
    }

    /// These table pages have to be written again.
    pub(crate) fn mark_pages_changed(&mut self, pages: &[u32]) {
        let known = self.extents.len() as u32 * self.pages_per_extent;
        for &page in pages.iter().filter(|&&page| page < known) {
            self.changed[page as usize / 64] |= 1 << (page % 64);
        }
    }

    /// Which places are handed out.
    pub(crate) fn circulation(&self) -> &Circulation {
        &self.circulation
    }

    /// The same, to retire extents and to reinstate them.
    pub(crate) fn circulation_mut(&mut self) -> &mut Circulation {
        &mut self.circulation
    }

    /// The last extents are somebody else's from now on; nothing is in them. What is not in the journal yet and concerns them
    /// is about clean copies that came or went: what was dirty left when the journal durably knew it. No restart will look
    /// for copies there, and a journal that named somebody else's places would not be believed.
    pub(crate) fn remove_extents(&mut self, count: u32) {
        self.circulation.remove_extents(count);
        let gone = self.extents.split_off(self.extents.len() - count as usize);
        let places_per_extent = self.places_per_extent;
        self.records.retain(|record| {
            let is_gone = gone.contains(&(record.place / places_per_extent));
            assert!(!is_gone || record.kind != RecordKind::Dirty, "what was dirty has left");
            !is_gone
        });
        let places = self.extents.len() as u32 * self.places_per_extent;
        assert!((places..self.contents.places()).all(|place| self.held(place).state == EntryState::Free));
        (self.extents.len()..self.contents.extents())
            .rev()
            .for_each(|extent| self.contents.remove_extent(extent));
        self.ages.set_places(places);
        self.quarantined.retain(|&place| place < places);
        self.set_pages();
    }

    /// Extents whose tables are new and empty are the volume's from now on. Their places come after all others.
    pub(crate) fn add_extents(&mut self, extents: &[u32]) {
        self.circulation.add_extents(extents.len() as u32);
        self.extents.extend_from_slice(extents);
        (self.contents.extents()..self.extents.len()).for_each(|extent| self.contents.insert_extent(extent));
        self.ages.set_places(self.contents.places());
        self.set_pages();
    }

    /// Follows the extents with what is noted for each of their table pages.
    fn set_pages(&mut self) {
        let pages = self.extents.len() * self.pages_per_extent as usize;
        for bits in [&mut self.changed, &mut self.half_written] {
            bits.resize(pages.div_ceil(64), 0);
            if let Some(last) = bits.last_mut().filter(|_| !pages.is_multiple_of(64)) {
                *last &= (1 << (pages % 64)) - 1;
            }
        }
    }

    /// Dirty places.
    pub fn dirty(&self) -> u32 {
        self.dirty
    }

    /// A version about which the oldest of what is dirty came, and before which none did; 0 where that is not known any more,
    /// and `None` where nothing is dirty. What is moved to another place counts as of then.
    pub fn oldest_dirty(&self) -> Option<u64> {
        self.ages.oldest_dirty()
    }

    /// The most memory that so many places take, in extents of so many, of a volume of so many blocks.
    pub fn most_memory_bytes(places: u64, places_per_extent: u32, blocks: u64) -> u64 {
        /// Bits that tell for each place whether it is free, and whether its bytes are gone; sequences and states of table pages,
        /// bases of ages.
        const PLACES_PER_BYTE: u64 = 2;
        const EXTENT_BYTES: u64 = 32;
        /// What is not durable yet, and of how many places that is at most; the beginnings of eras.
        const YOUNG_BYTES: u64 = 64;
        const MOST_YOUNG: u64 = 1 << 14;
        const LEAST_BYTES: u64 = 16 << 10;
        let extents = places.div_ceil(places_per_extent.max(1).into());
        let places = extents * u64::from(places_per_extent.max(1));
        Contents::most_memory_bytes(places, places_per_extent, blocks)
            + places / PLACES_PER_BYTE
            + extents * EXTENT_BYTES
            + places.min(MOST_YOUNG) * YOUNG_BYTES
            + LEAST_BYTES
    }

    /// Bytes of memory that this takes.
    pub fn memory_bytes(&self) -> usize {
        self.contents.memory_bytes()
            + self.ages.memory_bytes()
            + self.young.memory_bytes()
            + self.circulation.memory_bytes()
            + self.dropped.memory_bytes()
            + (self.changed.capacity() + self.half_written.capacity()) * size_of::<u64>()
    }
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests;
