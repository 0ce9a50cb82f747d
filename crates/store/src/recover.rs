//! From the bytes of a volume's extents to what its places hold.
//!
//! The slot tables give a state, the journal what came after, and a record buffer of the same boot what the journal
//! does not have because the process died. Records and entries of the SSD alone that are not known to have been durable
//! are believed only if the bytes they speak of are there; otherwise the version before them counts, which is still
//! whole because its place was not used again. Bytes that cannot be read are not bytes that are not there: the entry
//! stays, and whoever reads the block gets its bytes or an error, never older ones. What the buffer holds was
//! acknowledged on this boot, and is believed as the journal is.

use std::collections::{HashMap, HashSet};

use lode_format::{
    CacheId, DeviceLayout, Entry, EntryState, JournalPage, PAGE_BYTES, RECORDS_PER_PAGE, Record, RecordKind,
    TablePage, VolumeTag, data_checksum,
};

use crate::device::{SyncDevice, read};
use crate::error::{StoreError, StoreErrorKind};
use crate::journal::page_offset;
use crate::spec::Distrust;
use crate::volume::{local_place, place_offset};

/// What can be done about metadata that is damaged.
const HOW_TO_GO_ON: &str =
    "Restore the SSD from a copy, or give up this volume alone with `lode volume remove --force`";

/// Highest version and page number that a cache can reach in its lifetime.
const MOST: u64 = u64::MAX / 2;

/// What a volume's extents say.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    /// One entry a place; every block at most once.
    pub(crate) entries: Vec<Entry>,
    /// What the slot tables alone say, to know which pages are out of date.
    pub(crate) in_tables: Vec<Entry>,
    /// For each table page, over all extents: both copies say the same and all of it is durable.
    pub(crate) settled: Vec<bool>,
    /// Version up to which each place's table page speaks of durable things only.
    pub(crate) stamps: Vec<u64>,
    /// Sequence of the newest copy of each table page, over all extents.
    pub(crate) sequences: Vec<u64>,
    /// The highest version ever seen.
    pub(crate) version: u64,
    /// Above this version nothing is known to be durable.
    pub(crate) durable: u64,
    /// Records that only the record buffer had.
    pub(crate) buffered: u64,
    /// Blocks newer than the backing disk whose bytes could not be read.
    pub(crate) unreadable: u64,
}

impl Recovered {
    /// Blocks newer than the backing disk.
    pub(crate) fn dirty(&self) -> u64 {
        self.entries.iter().filter(|entry| entry.state == EntryState::Dirty).count() as u64
    }

    /// Places of dirty blocks that are not known to be durable.
    pub(crate) fn tentative_dirty(&self) -> impl Iterator<Item = (usize, &Entry)> {
        let places = self.entries.iter().enumerate();
        places.filter(|(place, entry)| {
            entry.state == EntryState::Dirty && entry.version > self.durable.max(self.stamps[*place])
        })
    }

    /// Forgets blocks that must not be believed.
    pub(crate) fn drop_distrusted(&mut self, distrust: Distrust) {
        let goes = |entry: &&mut Entry| distrust == Distrust::All || entry.state == EntryState::Clean;
        self.entries.iter_mut().filter(goes).for_each(|entry| *entry = Entry::default());
    }
}

/// Where to recover from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecoverySource<'a> {
    pub(crate) cache: CacheId,
    pub(crate) tag: VolumeTag,
    pub(crate) ring: u64,
    pub(crate) layout: DeviceLayout,
    pub(crate) extents: &'a [u32],
    /// Blocks of the volume.
    pub(crate) blocks: u64,
    /// What the last run's record buffer has, in ascending order of their versions.
    pub(crate) buffered: &'a [Record],
}

/// Whether a place holds the bytes that an entry speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Evidence {
    There,
    NotThere,
    Unreadable,
}

#[derive(Default)]
struct Tables {
    entries: Vec<Entry>,
    stamps: Vec<u64>,
    sequences: Vec<u64>,
    settled: Vec<bool>,
}

/// Reads a volume's extents.
pub(crate) fn recover(
    device: &mut dyn SyncDevice,
    source: RecoverySource<'_>,
) -> Result<Recovered, StoreError> {
    let mut tables = read_tables(device, &source)?;
    let in_tables = tables.entries.clone();
    let journal = read_journal(device, &source)?;
    let durable = journal.iter().map(|page| page.durable_version).max().unwrap_or(0);
    let (records, buffered) = merge(&journal, source.buffered, durable);
    let versions = tables.entries.iter().map(|entry| entry.version);
    let versions = versions.chain(tables.stamps.iter().copied()).chain(records.iter().map(|r| r.version));
    let version = versions.max().unwrap_or(0).max(durable);
    let kept = source.buffered.last().map_or(0, |record| record.version);
    let mut replay =
        Replay { device, source, durable, kept, superseded: HashMap::new(), unreadable: HashSet::new() };
    replay.check_tentative(&mut tables);
    for record in &records {
        replay.apply(&mut tables, record)?;
    }
    let Replay { superseded, unreadable, .. } = replay;
    keep_newest(&mut tables.entries, &superseded);
    let is_sane = |entry: &Entry| entry.state == EntryState::Free || entry.block < source.blocks;
    if version > MOST || !tables.entries.iter().all(is_sane) {
        return Err(StoreError::new(
            StoreErrorKind::Damaged,
            format!(
                "a slot table or the journal speaks of blocks beyond the volume's end, or of impossible versions. \
                 {HOW_TO_GO_ON}"
            ),
        ));
    }
    let Tables { entries, stamps, sequences, settled } = tables;
    let stays = |&&(place, version): &&(u32, u64)| entries[place as usize].version == version;
    let unreadable = unreadable.iter().filter(stays).count() as u64;
    Ok(Recovered { entries, in_tables, settled, stamps, sequences, version, durable, buffered, unreadable })
}

/// The records of the journal and those of the buffer that the journal does not have, in order, and how many these are.
fn merge(journal: &[JournalPage], buffered: &[Record], durable: u64) -> (Vec<Record>, u64) {
    let mut records: Vec<Record> = journal.iter().flat_map(|page| &page.records).copied().collect();
    // A page may be filled up with its last record.
    records.dedup();
    let in_journal: HashSet<u64> = records.iter().map(|record| record.version).collect();
    let before = records.len();
    let is_news = |record: &&Record| record.version > durable && !in_journal.contains(&record.version);
    records.extend(buffered.iter().filter(is_news));
    records.sort_by_key(|record| record.version);
    let news = records.len() - before;
    (records, news as u64)
}

fn read_tables(device: &mut dyn SyncDevice, source: &RecoverySource<'_>) -> Result<Tables, StoreError> {
    let extent_layout = &source.layout.extent;
    let mut tables = Tables::default();
    for &extent in source.extents {
        let mut bytes = vec![0; extent_layout.table_pages as usize * 2 * PAGE_BYTES];
        read(device, source.layout.extent_start(extent), &mut bytes)?;
        let mut left = extent_layout.slots as usize;
        for page in 0..extent_layout.table_pages {
            let copies = [0, 1].map(|copy| {
                let at = extent_layout.table_page(page, copy) as usize;
                TablePage::decode(source.cache, source.tag, extent, page, &bytes[at..at + PAGE_BYTES]).ok()
            });
            tables.settled.push(match &copies {
                [Some(one), Some(other)] => {
                    let stamp = one.stamp.min(other.stamp);
                    one.entries == other.entries && one.entries.iter().all(|entry| entry.version <= stamp)
                }
                _ => false,
            });
            let newest = copies.into_iter().flatten().max_by_key(|copy| copy.sequence).ok_or_else(|| {
                StoreError::new(
                    StoreErrorKind::Damaged,
                    format!(
                        "both copies of slot table page {page} of extent {extent} are unreadable; blocks \
                         newer than their backing disk may be lost. {HOW_TO_GO_ON}"
                    ),
                )
            })?;
            let take = left.min(newest.entries.len());
            left -= take;
            tables.entries.extend_from_slice(&newest.entries[..take]);
            tables.stamps.resize(tables.entries.len(), newest.stamp);
            tables.sequences.push(newest.sequence);
        }
    }
    Ok(tables)
}

/// The readable journal pages of this ring in order, up to the first that is missing after the last one
/// known to be durable.
fn read_journal(
    device: &mut dyn SyncDevice,
    source: &RecoverySource<'_>,
) -> Result<Vec<JournalPage>, StoreError> {
    let pairs = source.extents.len() as u64 * u64::from(source.layout.extent.journal_pairs);
    let mut pages: HashMap<u64, JournalPage> = HashMap::new();
    let mut bytes = vec![0; 2 * PAGE_BYTES];
    for pair in 0..pairs {
        read(device, page_offset(&source.layout, source.extents, pair, 0), &mut bytes)?;
        for side in bytes.chunks_exact(PAGE_BYTES) {
            let Ok(page) = JournalPage::decode(source.cache, side) else { continue };
            if page.volume == source.tag && page.ring > source.ring {
                return Err(StoreError::new(
                    StoreErrorKind::Damaged,
                    format!("the directory is older than the volume's journal. {HOW_TO_GO_ON}"),
                ));
            }
            let ours = page.volume == source.tag
                && page.ring == source.ring
                && page.number % pairs == pair
                && page.number <= MOST;
            let fullness =
                |page: &JournalPage| (page.records.len(), page.tail, page.durable_page, page.durable_version);
            let fuller = |old: &JournalPage| fullness(&page) > fullness(old);
            if ours && pages.get(&page.number).is_none_or(fuller) {
                pages.insert(page.number, page);
            }
        }
    }
    let Some(tail) = pages.values().map(|page| page.tail).max() else { return Ok(Vec::new()) };
    let durable = pages.values().map(|page| page.durable_page).max().unwrap_or(0);
    let mut number = tail;
    let mut in_order = Vec::new();
    loop {
        match pages.remove(&number) {
            // A page before the last durable one is full; where it is not, its last side is unreadable.
            Some(page) if number >= durable || page.records.len() == RECORDS_PER_PAGE => in_order.push(page),
            _ if number <= durable => {
                return Err(StoreError::new(
                    StoreErrorKind::Damaged,
                    format!(
                        "journal page {number} is unreadable although it was durable; blocks newer than \
                         their backing disk may be lost. {HOW_TO_GO_ON}"
                    ),
                ));
            }
            _ => return Ok(in_order),
        }
        number += 1;
    }
}

/// Records as they are applied to what the tables say.
struct Replay<'a> {
    device: &'a mut dyn SyncDevice,
    source: RecoverySource<'a>,
    /// The journal knows everything up to this version to be durable.
    durable: u64,
    /// Up to this version everything was acknowledged, or may have been, on this boot.
    kept: u64,
    /// Versions at which older entries of a block stopped counting.
    superseded: HashMap<u64, u64>,
    /// Dirty entries that stay because their bytes could not be read: places and versions.
    unreadable: HashSet<(u32, u64)>,
}

impl Replay<'_> {
    /// Whether the bytes of an entry that is not known to be durable are there. Those of a clean copy are on the backing
    /// disk as well: one that cannot be read is not needed.
    fn is_there(&mut self, place: u32, entry: &Entry) -> bool {
        match look_for(self.device, &self.source, place, entry) {
            Evidence::There => true,
            Evidence::NotThere => false,
            Evidence::Unreadable if entry.state == EntryState::Clean => false,
            Evidence::Unreadable => {
                self.unreadable.insert((place, entry.version));
                true
            }
        }
    }

    /// Frees entries that are not known to be durable and whose bytes are not there.
    fn check_tentative(&mut self, tables: &mut Tables) {
        for (place, entry) in tables.entries.iter_mut().enumerate() {
            let known = self.durable.max(self.kept).max(tables.stamps[place]);
            let tentative = entry.state != EntryState::Free && entry.version > known;
            if tentative && !self.is_there(place as u32, entry) {
                *entry = Entry::default();
            }
        }
    }

    fn apply(&mut self, tables: &mut Tables, record: &Record) -> Result<(), StoreError> {
        let layout = &self.source.layout;
        let place = local_place(layout, self.source.extents, record.slot).ok_or_else(|| {
            StoreError::new(StoreErrorKind::Damaged, "the journal names a slot of another volume")
        })?;
        let state = match record.kind {
            RecordKind::Clean => EntryState::Clean,
            RecordKind::Dirty => EntryState::Dirty,
            RecordKind::Free => EntryState::Free,
        };
        let entry = Entry { state, block: record.block, version: record.version, crc: record.crc };
        let known = record.version <= tables.stamps[place as usize];
        let is_certain = record.version <= self.durable.max(self.kept);
        let is_there = state == EntryState::Free || known || is_certain || self.is_there(place, &entry);
        // A clean copy was put down when the backing disk durably held its bytes, so that what is older does not count,
        // whatever became of the copy: a block that was written back and stayed may have left its place since. A dirty
        // copy that is not known to be durable never was, unless its bytes are there. A start that was cut short may
        // have found that they are not: then the table knows of the record and does not speak of it, and what is older
        // stays.
        let counts = state != EntryState::Dirty || record.version <= self.durable || (!known && is_there);
        if counts {
            let at = self.superseded.entry(record.block).or_default();
            *at = record.version.max(*at);
        }
        let current = &mut tables.entries[place as usize];
        if is_there && !known && record.version > current.version {
            *current = if state == EntryState::Free { Entry::default() } else { entry };
        }
        Ok(())
    }
}

/// Reads a place, and compares what is there with what the entry says.
fn look_for(device: &mut dyn SyncDevice, source: &RecoverySource<'_>, place: u32, entry: &Entry) -> Evidence {
    let layout = &source.layout;
    let offset = place_offset(layout, source.extents, place);
    let mut buf = vec![0; layout.extent.block.bytes() as usize];
    match device.read(offset, &mut buf) {
        Err(_) => Evidence::Unreadable,
        Ok(()) if data_checksum(source.tag, entry.block, &buf) == entry.crc => Evidence::There,
        Ok(()) => Evidence::NotThere,
    }
}

/// Of several places that hold the same block, keeps the newest; an older one may also have been
/// superseded by a copy that is gone since.
fn keep_newest(entries: &mut [Entry], superseded: &HashMap<u64, u64>) {
    let mut newest: HashMap<u64, u64> = superseded.clone();
    for entry in entries.iter().filter(|entry| entry.state != EntryState::Free) {
        let at = newest.entry(entry.block).or_default();
        *at = entry.version.max(*at);
    }
    // Taken once: a copy that a shrinking volume moved is found twice, with one version.
    for entry in entries.iter_mut().filter(|entry| entry.state != EntryState::Free) {
        match newest.get_mut(&entry.block) {
            Some(at) if *at == entry.version => *at = u64::MAX,
            _ => *entry = Entry::default(),
        }
    }
}
