//! The volume's places on the SSD: what each holds, which are free, and which may not be used again yet.
//!
//! A block that is written again gets a new place; the old one is kept until the journal says durably
//! that it is superseded, so that a power cut finds either the old bytes or the new ones, whole.

use std::collections::VecDeque;

use hashbrown::{HashMap, HashSet};
use lode_format::{Buffered, Entry, EntryState, Record, RecordKind, SlotNo, VolumeTag, data_checksum};
use lode_types::BlockNo;

use crate::circulation::Circulation;
use crate::record_buffer::RecordBuffer;

/// A place on the SSD: an index into the volume's places there.
pub type Place = u32;

/// What a place holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    entry: Entry,
    /// Not in the journal: the backing disk is not known to hold the same bytes durably.
    volatile: bool,
}

/// All places of the volume.
#[derive(Debug)]
pub struct Places {
    tag: VolumeTag,
    held: Vec<Held>,
    circulation: Circulation,
    /// Places of superseded or written-back dirty copies, free when this version is durable.
    waiting: VecDeque<(u64, Place)>,
    /// Places of dirty copies that were written back and stay, clean when this version is durable.
    cleaning: VecDeque<(u64, Place)>,
    /// Blocks whose clean copy was given up, with the version that says so, until it is durable.
    given_up: HashMap<BlockNo, u64>,
    given_up_order: VecDeque<(u64, BlockNo)>,
    /// Table pages that changed since the last checkpoint, and those that changed before it and since the
    /// one before: every change is written to both copies of its page.
    changed: Vec<u64>,
    half_written: Vec<u64>,
    entries_per_page: u32,
    slots_per_extent: u32,
    pages_per_extent: u32,
    /// The volume's extents: those of the start ascending, then those that came since.
    extents: Vec<u32>,
    /// Records not yet handed to the journal.
    pub(crate) records: Vec<Record>,
    /// The same records where they outlive the process.
    buffer: RecordBuffer,
    next_version: u64,
    durable_version: u64,
    /// Places that failed: what they hold may still count, but they are not used again.
    quarantined: HashSet<Place>,
    dirty: u32,
    journal_failed: bool,
}

impl Places {
    /// `entries` is what was recovered, one a place, and durable; versions continue above `version`. Of the places no more
    /// are used than `most`, if those that hold something leave any free.
    pub(crate) fn new(
        tag: VolumeTag,
        entries: Vec<Entry>,
        version: u64,
        (slots_per_extent, pages_per_extent): (u32, u32),
        extents: Vec<u32>,
        most: u64,
    ) -> Places {
        let is_free = entries.iter().map(|entry| entry.state == EntryState::Free);
        let circulation = Circulation::new(is_free, slots_per_extent, most);
        let words =
            (entries.len() / slots_per_extent.max(1) as usize * pages_per_extent as usize).div_ceil(64);
        let dirty = entries.iter().filter(|entry| entry.state == EntryState::Dirty).count() as u32;
        Places {
            tag,
            circulation,
            held: entries.into_iter().map(|entry| Held { entry, volatile: false }).collect(),
            waiting: VecDeque::new(),
            cleaning: VecDeque::new(),
            given_up: HashMap::new(),
            given_up_order: VecDeque::new(),
            changed: vec![0; words],
            half_written: vec![0; words],
            entries_per_page: lode_format::ENTRIES_PER_PAGE as u32,
            slots_per_extent,
            pages_per_extent,
            extents,
            records: Vec::new(),
            buffer: RecordBuffer::default(),
            next_version: version + 1,
            durable_version: version,
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

    /// Places that nobody uses or has reserved.
    pub fn available(&self) -> u32 {
        self.circulation.available()
    }

    /// Places that become available when the journal is committed.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Keeps one of the available places for [`Places::take_reserved`].
    pub fn reserve(&mut self) {
        self.circulation.reserve();
    }

    /// The next places to be taken are, where possible, so many that lie together on the device.
    pub fn prefer_run(&mut self, places: u32) {
        self.circulation.prefer_run(places);
    }

    /// A reserved place is not needed.
    pub fn unreserve(&mut self) {
        self.circulation.unreserve();
    }

    /// A reserved place to write to. It is [`Places::put`] to use, or fails and is quarantined.
    pub fn take_reserved(&mut self) -> Place {
        self.circulation.take_reserved()
    }

    /// The place's medium failed: it is not used again once what it holds is given up.
    pub fn quarantine(&mut self, place: Place) {
        let is_new = self.quarantined.insert(place);
        if is_new && self.entry(place).state == EntryState::Free {
            self.circulation.release(place, false);
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

    fn hold(&mut self, place: Place, held: Held) {
        let old = std::mem::replace(&mut self.held[place as usize], held);
        self.dirty -= u32::from(old.entry.state == EntryState::Dirty);
        self.dirty += u32::from(held.entry.state == EntryState::Dirty);
        self.mark_changed(place);
    }

    /// What a place holds.
    pub fn entry(&self, place: Place) -> &Entry {
        &self.held[place as usize].entry
    }

    /// Whether the journal does not know what a place holds, because the backing disk may still lose it.
    pub fn is_volatile(&self, place: Place) -> bool {
        self.held[place as usize].volatile
    }

    /// Whether a place holds a block that is newer than the backing disk.
    pub fn is_dirty(&self, place: Place) -> bool {
        self.entry(place).state == EntryState::Dirty
    }

    /// The checksum of these bytes as the volume's block.
    pub fn checksum(&self, block: BlockNo, bytes: &[u8]) -> u32 {
        data_checksum(self.tag, block, bytes)
    }

    /// Whether these bytes are the ones the place was given.
    pub fn is_intact(&self, place: Place, bytes: &[u8]) -> bool {
        let entry = self.entry(place);
        data_checksum(self.tag, entry.block, bytes) == entry.crc
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
        self.hold(place, Held { entry: Entry { state, block, version, crc }, volatile });
        match old {
            Some(old) if self.is_dirty(old) && self.journal_failed => self.clean_unrecorded(old),
            Some(old) if self.is_dirty(old) => self.waiting.push_back((version, old)),
            Some(old) => self.clear(old),
            None => {}
        }
    }

    /// The backing disk durably holds what this volatile place holds: the journal may know it.
    pub fn make_known(&mut self, place: Place, version: u64) {
        // Its extent may have been given up since.
        let Some(held) = self.held.get_mut(place as usize) else { return };
        if held.volatile && held.entry.version == version && held.entry.state == EntryState::Clean {
            held.volatile = false;
            let Entry { block, crc, .. } = held.entry;
            let version = self.record(RecordKind::Clean, place, block, crc);
            self.held[place as usize].entry.version = version;
            self.mark_changed(place);
        }
    }

    /// Gives up a clean copy. The place can be used at once: should the journal not survive, the bytes
    /// no longer fit their checksum and the copy is not believed.
    pub fn give_up_clean(&mut self, place: Place) {
        let held = self.held[place as usize];
        if !held.volatile {
            let version = self.free_record(place);
            self.given_up.insert(held.entry.block, version);
            self.given_up_order.push_back((version, held.entry.block));
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
        let Entry { block, crc, .. } = *self.entry(place);
        let version = self.record(RecordKind::Clean, place, block, crc);
        self.cleaning.push_back((version, place));
        version
    }

    /// As [`Places::clean`], where no journal can say so: for whoever looks at this run, and at no other.
    pub fn clean_unrecorded(&mut self, place: Place) {
        let entry = Entry { state: EntryState::Clean, ..*self.entry(place) };
        self.hold(place, Held { entry, volatile: false });
    }

    /// No version will be durable any more. Places that wait for one stay unused, and what they hold counts no longer.
    pub fn note_journal_failed(&mut self) {
        self.journal_failed = true;
        for (_, place) in std::mem::take(&mut self.waiting) {
            self.clean_unrecorded(place);
        }
    }

    fn free_record(&mut self, place: Place) -> u64 {
        let block = self.entry(place).block;
        self.record(RecordKind::Free, place, block, 0)
    }

    /// Makes the next record, and returns its version.
    fn record(&mut self, kind: RecordKind, place: Place, block: BlockNo, crc: u32) -> u64 {
        let version = self.next_version;
        self.next_version += 1;
        let record = Record { kind, slot: self.slot_no(place), block, version, crc };
        self.records.push(record);
        self.buffer.append(&Buffered::Record(record), self.durable_version);
        version
    }

    /// A version of which the journal is to know nothing.
    fn skip_version(&mut self) -> u64 {
        let version = self.next_version;
        self.next_version += 1;
        self.buffer.append(&Buffered::Empty { version }, self.durable_version);
        version
    }

    /// The device's number of a place.
    fn slot_no(&self, place: Place) -> SlotNo {
        let (ordinal, within) = (place / self.slots_per_extent, place % self.slots_per_extent);
        self.extents[ordinal as usize] * self.slots_per_extent + within
    }

    /// The place is free, unless its medium failed, or the journal: then a restart may still find what the place held, dirty
    /// even, and would miss its bytes.
    fn clear(&mut self, place: Place) {
        self.hold(place, Held { entry: Entry::default(), volatile: false });
        let again = !self.quarantined.contains(&place) && !self.journal_failed;
        self.circulation.release(place, again);
    }

    /// The journal is durable up to `version`.
    pub(crate) fn durable(&mut self, version: u64) {
        self.durable_version = version;
        while let Some(&(at, place)) = self.waiting.front()
            && at <= version
        {
            self.waiting.pop_front();
            self.clear(place);
        }
        while let Some(&(at, place)) = self.cleaning.front()
            && at <= version
        {
            self.cleaning.pop_front();
            let entry = Entry { state: EntryState::Clean, version: at, ..*self.entry(place) };
            self.hold(place, Held { entry, volatile: false });
        }
        while let Some(&(at, block)) = self.given_up_order.front()
            && at <= version
        {
            self.given_up_order.pop_front();
            if self.given_up.get(&block) == Some(&at) {
                self.given_up.remove(&block);
            }
        }
    }

    /// Whether a restart could still find a clean copy of `block` that was given up.
    pub fn may_come_back(&self, block: BlockNo) -> bool {
        self.given_up.contains_key(&block)
    }

    fn table_page(&self, place: Place) -> u32 {
        let (extent, within) = (place / self.slots_per_extent, place % self.slots_per_extent);
        extent * self.pages_per_extent + within / self.entries_per_page
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
            while left != 0 {
                pages.push((word * 64) as u32 + left.trailing_zeros());
                left &= left - 1;
            }
        }
        pages
    }

    /// What a table page should say now. Volatile places pass for free.
    pub(crate) fn page_entries(&self, page: u32) -> Vec<Entry> {
        let (extent, within) = (page / self.pages_per_extent, page % self.pages_per_extent);
        let first = within * self.entries_per_page;
        let last = (first + self.entries_per_page).min(self.slots_per_extent);
        let base = extent * self.slots_per_extent;
        let places = (base + first) as usize..(base + last) as usize;
        self.held[places].iter().map(|h| if h.volatile { Entry::default() } else { h.entry }).collect()
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
        let slots = self.slots_per_extent;
        self.records.retain(|record| {
            let is_gone = gone.contains(&(record.slot / slots));
            debug_assert!(!is_gone || record.kind != RecordKind::Dirty);
            !is_gone
        });
        let places = self.extents.len() * self.slots_per_extent as usize;
        debug_assert!(self.held[places..].iter().all(|held| held.entry.state == EntryState::Free));
        self.held.truncate(places);
        self.held.shrink_to_fit();
        self.quarantined.retain(|&place| (place as usize) < places);
        self.set_pages();
    }

    /// Extents whose tables are new and empty are the volume's from now on. Their places come after all others.
    pub(crate) fn add_extents(&mut self, extents: &[u32]) {
        self.circulation.add_extents(extents.len() as u32);
        self.extents.extend_from_slice(extents);
        let places = self.extents.len() * self.slots_per_extent as usize;
        self.held.reserve_exact(places - self.held.len());
        self.held.resize(places, Held { entry: Entry::default(), volatile: false });
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

    /// Bytes of memory that this takes.
    pub fn memory_bytes(&self) -> usize {
        self.held.capacity() * size_of::<Held>() + self.circulation.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the SSD's journal calls dirty must stay what it was when no journal will say otherwise.
    #[test]
    fn after_the_journal_failed_no_place_is_used_again() {
        let mut places = Places::new(VolumeTag(1), vec![Entry::default(); 4], 0, (4, 1), vec![5], 4);
        places.reserve();
        let dirty = places.take_reserved();
        places.put(dirty, 7, 99, true, false, None);
        places.durable(places.version());
        places.reserve();
        places.note_journal_failed();
        places.clean_unrecorded(dirty);
        places.give_up_clean(dirty);
        assert_eq!(places.available(), 2);
        // What was reserved before is still there.
        assert_ne!(places.take_reserved(), dirty);
        places.reserve();
        places.reserve();
        assert!(places.take_reserved() != dirty && places.take_reserved() != dirty);
    }

    /// A clean place is given up and overwritten at once, so that it must not be clean before the journal says so.
    #[test]
    fn a_cleaned_place_is_dirty_until_the_journal_knows() {
        let mut places = Places::new(VolumeTag(1), vec![Entry::default(); 4], 0, (4, 1), vec![5], 4);
        places.reserve();
        let place = places.take_reserved();
        places.put(place, 7, 99, true, false, None);
        places.records.clear();
        let version = places.clean(place);
        assert_eq!(
            places.records,
            [Record { kind: RecordKind::Clean, slot: 20 + place, block: 7, version, crc: 99 }]
        );
        places.durable(version - 1);
        assert!(places.is_dirty(place) && places.dirty() == 1);
        assert_eq!(places.page_entries(0)[place as usize].state, EntryState::Dirty);
        places.take_changed_pages();
        places.take_changed_pages();
        assert_eq!(places.take_changed_pages(), [] as [u32; 0]);
        places.durable(version);
        assert_eq!(*places.entry(place), Entry { state: EntryState::Clean, block: 7, version, crc: 99 });
        assert_eq!((places.dirty(), places.take_changed_pages()), (0, vec![0]));
    }
}
