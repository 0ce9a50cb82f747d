//! From the bytes of a volume's extents to what its places hold.
//!
//! The place tables give a state, the journal what came after, and a record buffer of the same boot what the journal
//! does not have because the process died. Records and entries of the SSD alone that are not known to have been durable
//! are believed only if the bytes they speak of are there; otherwise the version before them counts, which is still
//! whole because its place was not used again. Bytes that cannot be read are not bytes that are not there: the entry
//! stays, and whoever reads the block gets its bytes or an error, never older ones (`unreadable_copies.rs`). What the buffer holds was
//! acknowledged on this boot, and is believed as the journal is.

use hashbrown::HashSet;
use lode_format::{
    CacheId, DeviceLayout, DroppedCopies, ENTRIES_PER_PAGE, EntryState, JournalPage, PAGE_BYTES, Record,
    RecordKind, TableEntry, TableView, Volume, VolumeTag, data_checksum,
};
use lode_types::planted;

use crate::device::{SyncDevice, Task, for_each_copy, read_with_tries};
use crate::error::{StoreError, StoreErrorKind};
use crate::found::FoundPlaces;
use crate::found_page::{FoundPage, RightCopies, Says};
use crate::found_run::FoundRun;
use crate::latest_versions::NotedVersions;
use crate::place::Place;
use crate::read_journal::{ReadJournal, read_journal};
use crate::spec::Distrust;
use crate::stretches::{ReadStretch, Stretch, read_ahead};
use crate::table_runs::{PAIR_BYTES, TableRun};
use crate::unreadable_copies::UnreadableCopies;
use crate::volume::{local_place, place_offset};

/// What can be done about metadata that is damaged.
pub(crate) const HOW_TO_GO_ON: &str =
    "Restore the SSD from a copy, or give up this volume alone with `lode volume remove --force`";

/// Highest version and page number that a cache can reach in its lifetime.
pub(crate) const MOST: u64 = u64::MAX / 2;

/// What a volume's extents say.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// What each place holds, every block at most once.
    pub(crate) found: FoundPlaces,
    /// The highest version ever seen.
    pub(crate) version: u64,
    /// Above this version nothing is known to be durable.
    pub(crate) durable: u64,
    /// Records that only the record buffer had.
    pub(crate) buffered: u64,
    /// Blocks newer than the backing disk whose bytes could not be read, or are not what they were.
    pub(crate) unreadable: UnreadableCopies,
    /// Pages of tables and journal that could not be read, and are not needed.
    pub(crate) unreadable_pages: u64,
    /// Which clean copies went with the devices that were home to them.
    pub(crate) dropped: [DroppedCopies; Volume::MOST_DROPPED],
}

impl Recovered {
    /// Of a volume that is new, and has no extents yet.
    pub(crate) fn nothing(layout: &DeviceLayout, blocks: u64) -> Recovered {
        let found = FoundPlaces::new(layout.extent.places, layout.extent.table_pages, blocks);
        let (unreadable, dropped) = Default::default();
        Recovered { found, version: 0, durable: 0, buffered: 0, unreadable, unreadable_pages: 0, dropped }
    }

    /// The version with which a run begins after this start, which no record has: what is stamped below it was written before.
    pub(crate) fn run_version(&self) -> u64 {
        self.version + 1
    }

    /// Blocks newer than the backing disk.
    pub(crate) fn dirty(&self) -> u64 {
        self.found.count(EntryState::Dirty)
    }

    /// A device was dropped: all clean copies of until now that only it had are gone. Of more devices than there is room for all count as
    /// dropped then.
    pub(crate) fn note_dropped(&mut self, home: u16) {
        let before = self.version + 1;
        let free = self.dropped.iter().position(|dropped| dropped.before == 0 || dropped.home == home);
        match free {
            Some(at) => self.dropped[at] = DroppedCopies { home, before },
            None => {
                self.dropped = Default::default();
                self.dropped[0] = DroppedCopies { home: DroppedCopies::ANY_HOME, before };
            }
        }
    }

    /// Forgets blocks that must not be believed.
    pub(crate) fn drop_distrusted(&mut self, distrust: Distrust) {
        self.found.forget(|_, entry| distrust == Distrust::All || entry.state == EntryState::Clean);
    }
}

/// Where to recover from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecoverySource<'a> {
    pub(crate) cache: CacheId,
    pub(crate) tag: VolumeTag,
    pub(crate) ring: u64,
    /// With which version the last run began; 0 where that is not known, or a start since then may have written tables.
    pub(crate) run_version: u64,
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

/// Reads a volume's extents.
pub(crate) fn recover(
    device: &mut dyn SyncDevice,
    source: RecoverySource<'_>,
) -> Result<Recovered, StoreError> {
    let ReadJournal { pages, durable, durable_tables, unreadable: of_journal } =
        read_journal(device, &source)?;
    let (mut tables, in_tables, of_tables) = read_tables(device, &source, durable_tables)?;
    let (mut records, buffered) = merge(pages, source.buffered, durable);
    let version = records.iter().map(|record| record.version).max().unwrap_or(0).max(in_tables).max(durable);
    let is_sane = |record: &Record| record.kind == RecordKind::Free || record.block < source.blocks;
    if version > MOST || !records.iter().all(is_sane) {
        return Err(impossible());
    }
    let kept = source.buffered.last().map_or(0, |record| record.version);
    // Drawn when the cache was made, and told no guest.
    let key = u128::from_le_bytes(source.cache.0);
    let key = (key >> 64) as u64 ^ key as u64;
    let mut replay = Replay {
        device,
        source,
        durable,
        kept,
        superseded: NotedVersions::new(key),
        missing: NotedVersions::new(key),
        unreadable: UnreadableCopies::default(),
    };
    replay.check_tentative(&mut tables);
    // What becomes of a place depends on its own records alone, in their order; what is known of it lies near what is of its neighbours.
    records.sort_by_key(|record| record.place);
    for of_place in records.chunk_by(|one, next| one.place == next.place) {
        replay.apply_all(&mut tables, of_place)?;
    }
    // They are not needed any more, and what follows takes the most memory of a start.
    drop(records);
    let Replay { device, source, superseded, missing, mut unreadable, .. } = replay;
    let (superseded, missing) = (superseded.finish(), missing.finish());
    unreadable.forget_needless(&mut tables, &superseded, |place, entry| {
        look_for(device, &source, place, entry) == Evidence::There
    });
    tables.keep_newest(&superseded, |copies| choose_of_equals(device, &source, copies, &mut unreadable));
    if !missing.is_empty() && !planted("clean-copy-before-a-missing-one-counts") {
        tables.forget_versions_before(&missing, |entry| entry.state == EntryState::Clean);
    }
    let unreadable_pages = of_journal + of_tables;
    let dropped = Default::default();
    Ok(Recovered { found: tables, version, durable, buffered, unreadable, unreadable_pages, dropped })
}

fn impossible() -> StoreError {
    StoreError::new(
        StoreErrorKind::Damaged,
        format!(
            "a place table or the journal speaks of blocks beyond the volume's end, or of impossible versions. \
             {HOW_TO_GO_ON}"
        ),
    )
}

/// The records of the journal and those of the buffer that the journal does not have, in order, and how many these are.
fn merge(journal: Vec<JournalPage>, buffered: &[Record], durable: u64) -> (Vec<Record>, u64) {
    let mut records = Vec::with_capacity(journal.iter().map(|page| page.records.len()).sum());
    journal.into_iter().for_each(|page| records.extend(page.records));
    // A page may be filled up with its last record.
    records.dedup();
    let is_beyond = |record: &&Record| record.version > durable;
    let in_journal: HashSet<u64> = records.iter().filter(is_beyond).map(|record| record.version).collect();
    let before = records.len();
    let is_news = |record: &&Record| is_beyond(record) && !in_journal.contains(&record.version);
    records.extend(buffered.iter().filter(is_news));
    records.sort_by_key(|record| record.version);
    let news = records.len() - before;
    (records, news as u64)
}

/// What the tables say, the latest version that they speak of, and how many copies of pages could not be read. The journal says that
/// pages with a stamp below `durable_tables` are durable.
fn read_tables(
    device: &mut dyn SyncDevice,
    source: &RecoverySource<'_>,
    durable_tables: u64,
) -> Result<(FoundPlaces, u64, u64), StoreError> {
    let layout = &source.layout.extent;
    let mut tables = FoundPlaces::new(layout.places, layout.table_pages, source.blocks);
    let nothing = FoundPage { sequence: 0, right: RightCopies::Neither, is_recent: true, ..FoundPage::EMPTY };
    (0..source.extents.len()).for_each(|ordinal| tables.insert_extent(ordinal, nothing));
    let (mut latest, mut unreadable_pages) = (0, 0);
    // Where the run is not known, a start that was cut short may have written any page since.
    let durable_tables = if source.run_version == 0 { 0 } else { source.run_version.max(durable_tables) };
    let runs = (0..source.extents.len()).flat_map(|ordinal| TableRun::of(ordinal, 0..layout.table_pages));
    let runs = runs.map(|run| run.stretch(&source.layout, source.extents));
    let has_copies = device.has_copies() && !planted("table-of-one-ssd-counts");
    let mut damaged = Vec::new();
    read_ahead(device, runs, |reads, workers| {
        let of_runs: Vec<(&TableRun, bool)> =
            reads.iter().map(|read| (read.what, may_hold(read.bytes))).collect();
        let runs = tables.runs(&of_runs).into_iter();
        let take = |(read, run)| TakenRun { read, run, taken: Ok(0), damaged: Vec::new() };
        let mut taken: Vec<TakenRun<'_>> = reads.into_iter().zip(runs).map(take).collect();
        let mut all: Vec<_> =
            taken.iter_mut().map(|run| || run.take(source, durable_tables, has_copies)).collect();
        workers.run(&mut all.iter_mut().map(|one| one as Task<'_>).collect::<Vec<_>>());
        drop(all);
        let mut found = Vec::new();
        for TakenRun { read, run, taken, damaged: of_run } in taken {
            latest = taken?.max(latest);
            unreadable_pages += read.unreadable.len() as u64;
            damaged.extend(of_run);
            found.push(run.counts);
        }
        found.into_iter().for_each(|counts| tables.add_counts(counts));
        Ok(())
    })?;
    for run in damaged {
        let pair = newest_of_each(device, source, &run)?;
        let (of_page, mut runs) = ((run.ordinal, run.pages.start), tables.runs(&[(&run, may_hold(&pair))]));
        let found = runs.first_mut().expect("one was asked for");
        let copies = open_copies(source, of_page, &pair);
        latest = take_page(found, source, (of_page, durable_tables), copies)?.max(latest);
        // Whichever device has it right, others have not.
        let page = found.page_mut(of_page.1);
        (page.right, page.is_recent) = (RightCopies::Neither, true);
        let counts = std::mem::take(&mut found.counts);
        tables.add_counts(counts);
    }
    tables.free_unused_room();
    Ok((tables, latest, unreadable_pages))
}

/// Whether any of these pages may say something of a place.
fn may_hold(bytes: &[u8]) -> bool {
    bytes.chunks_exact(PAGE_BYTES).any(TableView::may_hold)
}

/// A run that was read, and what comes of it.
struct TakenRun<'a> {
    read: ReadStretch<'a, TableRun>,
    run: FoundRun<'a>,
    /// The latest version that it speaks of.
    taken: Result<u64, StoreError>,
    /// Pages of which another device may have what belongs there.
    damaged: Vec<TableRun>,
}

impl TakenRun<'_> {
    /// Takes all that its pages say.
    fn take(&mut self, source: &RecoverySource<'_>, durable_tables: u64, has_copies: bool) {
        let TableRun { ordinal, ref pages } = *self.read.what;
        let is_right = |copy: Option<TableView<'_>>, side| copy.is_some_and(|copy| copy.is_copy(side));
        let mut latest = 0;
        for (page, pair) in pages.clone().zip(self.read.bytes.chunks_exact(PAIR_BYTES)) {
            let copies = open_copies(source, (ordinal, page), pair);
            if has_copies && !(is_right(copies.0, 0) && is_right(copies.1, 1)) {
                self.damaged.push(TableRun { ordinal, pages: page..page + 1 });
                continue;
            }
            match take_page(&mut self.run, source, ((ordinal, page), durable_tables), copies) {
                Ok(of_page) => latest = of_page.max(latest),
                Err(error) => return self.taken = Err(error),
            }
            self.run.page_mut(page).is_recent |= self.differs(page - pages.start);
        }
        self.taken = Ok(latest);
    }

    /// Whether one of the two copies of this page of the run may be another one on another device.
    fn differs(&self, page: u32) -> bool {
        let start = self.read.offset_bytes + u64::from(page) * PAIR_BYTES as u64;
        let mut differing = self.read.differing.iter();
        differing.any(|at| (start..start + PAIR_BYTES as u64).contains(at))
            && !planted("old-tables-of-a-pair-left")
    }
}

/// Those of the two copies of a page of an extent that are whole and of that page.
fn open_copies<'a>(
    source: &RecoverySource<'_>,
    (ordinal, page): (usize, u32),
    pair: &'a [u8],
) -> (Option<TableView<'a>>, Option<TableView<'a>>) {
    let extent = source.extents[ordinal];
    let open = |side| TableView::open(source.cache, source.tag, extent, page, side).ok();
    let (one, other) = pair.split_at(PAGE_BYTES);
    (open(one), open(other))
}

/// Both copies of a page, each from that of the devices below which has the newest one there. What is whole on the first of them may be of elsewhere,
/// written there instead of where it belongs.
fn newest_of_each(
    device: &mut dyn SyncDevice,
    source: &RecoverySource<'_>,
    run: &TableRun,
) -> Result<Vec<u8>, StoreError> {
    let of_page = (run.ordinal, run.pages.start);
    let Stretch { offset_bytes, bytes, .. } = run.clone().stretch(&source.layout, source.extents);
    let mut newest = vec![0; bytes];
    for_each_copy(device, (offset_bytes, bytes), |found, _| {
        let sequences = |pair| {
            let (one, other) = open_copies(source, of_page, pair);
            [one, other].map(|copy| copy.map(|copy| copy.sequence))
        };
        let (before, now) = (sequences(&newest), sequences(found));
        for side in (0..2).filter(|&side| now[side] > before[side]) {
            let bytes = side * PAGE_BYTES..(side + 1) * PAGE_BYTES;
            newest[bytes.clone()].copy_from_slice(&found[bytes]);
        }
        Ok(())
    })?;
    Ok(newest)
}

/// Takes what a page of an extent says from the newer one of its readable copies. Gives the latest version that it speaks of. A flush
/// covers what was written with a stamp below `durable_tables`.
fn take_page(
    run: &mut FoundRun<'_>,
    source: &RecoverySource<'_>,
    ((ordinal, page), durable_tables): ((usize, u32), u64),
    copies: (Option<TableView<'_>>, Option<TableView<'_>>),
) -> Result<u64, StoreError> {
    let (newest, side) = match copies {
        (Some(one), Some(other)) if other.sequence >= one.sequence => (other, 1),
        (Some(one), _) => (one, 0),
        (None, Some(other)) => (other, 1),
        (None, None) => {
            let extent = source.extents[ordinal];
            return Err(StoreError::new(
                StoreErrorKind::Damaged,
                format!(
                    "both copies of place table page {page} of extent {extent} are unreadable; blocks \
                     newer than their backing disk may be lost. {HOW_TO_GO_ON}"
                ),
            ));
        }
    };
    let is_settled = matches!(copies, (Some(one), Some(other)) if say_the_same(&one, &other));
    let mut latest = newest.stamp;
    if !newest.is_empty() {
        let of_page = 0..run.places_of(page);
        let is_beyond = |entry: TableEntry| entry.state != EntryState::Free && entry.block >= source.blocks;
        if of_page.clone().any(|at| is_beyond(newest.entry(at))) {
            return Err(impossible());
        }
        latest = latest.max(newest.latest_version());
        run.read_page(page, of_page.map(|at| newest.entry(at)));
    }
    let TableView { sequence, stamp, .. } = newest;
    let is_in_place = newest.is_copy(side);
    let checksum = is_in_place.then_some(newest.checksum);
    let right = match () {
        () if is_settled => RightCopies::Both,
        () if is_in_place && latest == stamp => RightCopies::Newer,
        () => RightCopies::Neither,
    };
    // A copy that cannot be read may be the newer one.
    let is_old =
        matches!(copies, (Some(one), Some(other)) if one.stamp.max(other.stamp).max(latest) < durable_tables);
    let is_recent = !(is_old || planted("table-of-last-run-taken-for-older"));
    let says = Says::Before;
    *run.page_mut(page) = FoundPage { sequence, stamp, says, checksum, right, is_recent };
    Ok(latest)
}

/// Whether two copies of a page say the same, and all of it is durable. Versions up to a page's stamp only say that they are:
/// they may differ, because each copy was written at its own time ([`crate::places::Places::page_entries`]).
fn say_the_same(one: &TableView<'_>, other: &TableView<'_>) -> bool {
    let stamp = one.stamp.min(other.stamp);
    if one.has_entries_of(other) {
        return one.latest_version() <= stamp;
    }
    let is_same = |at| {
        let (a, b): (TableEntry, TableEntry) = (one.entry(at), other.entry(at));
        TableEntry { version: 0, ..a } == TableEntry { version: 0, ..b } && a.version.max(b.version) <= stamp
    };
    (0..ENTRIES_PER_PAGE).all(is_same)
}

/// Records as they are applied to what the tables say.
struct Replay<'a> {
    device: &'a mut dyn SyncDevice,
    source: RecoverySource<'a>,
    /// The journal knows everything up to this version to be durable.
    durable: u64,
    /// Up to this version everything was acknowledged, or may have been, on this boot.
    kept: u64,
    /// Versions at which older entries of a block stopped counting. Those of copies that could not be read are left out: a copy that stays is the
    /// newest of its block anyway.
    superseded: NotedVersions,
    /// Versions of dirty copies that do not count, because they seem never to have been written, or seemed so to a start that was cut
    /// short. If they were, and were damaged, writes to the backing disk relied on them, so that it may be newer than a clean copy
    /// from before them. (A start that is cut short after it has freed one which only a table had, and before it has freed the clean
    /// one, leaves nothing to know it by; the journal has it, too, unless a page of that was lost as well.)
    missing: NotedVersions,
    unreadable: UnreadableCopies,
}

impl Replay<'_> {
    /// Whether the bytes of an entry that is not known to be durable are there. Those of a clean copy are on the backing
    /// disk as well: one that cannot be read is not needed.
    fn is_there(&mut self, place: u32, entry: &TableEntry) -> bool {
        match look_for(self.device, &self.source, place, entry) {
            Evidence::There => true,
            Evidence::NotThere => planted("record-believed-unseen"),
            Evidence::Unreadable if planted("unreadable-is-absent") => false,
            Evidence::Unreadable if entry.state == EntryState::Clean => false,
            Evidence::Unreadable => {
                self.unreadable.note(place, *entry);
                true
            }
        }
    }

    /// Frees entries that are not known to be durable and whose bytes are not there.
    fn check_tentative(&mut self, tables: &mut FoundPlaces) {
        let known = self.durable.max(self.kept);
        let is_tentative = |(_, entry): &(u32, TableEntry)| entry.version > known;
        let tentative: Vec<(u32, TableEntry)> = tables.beyond_stamps().filter(is_tentative).collect();
        for (place, entry) in tentative {
            if !self.is_there(place, &entry) {
                if entry.state == EntryState::Dirty {
                    self.missing.note(entry.block, entry.version);
                }
                tables.set(place, TableEntry::default());
            }
        }
    }

    /// Applies the records of one place, in order.
    fn apply_all(&mut self, tables: &mut FoundPlaces, records: &[Record]) -> Result<(), StoreError> {
        let layout = &self.source.layout;
        let place = local_place(layout, self.source.extents, records[0].place).ok_or_else(|| {
            StoreError::new(StoreErrorKind::Damaged, "the journal names a slot of another volume")
        })?;
        for record in records {
            if self.apply(tables, place, record) && !self.unreadable.has(place, record.version) {
                self.superseded.note(record.block, record.version);
            }
        }
        Ok(())
    }

    /// Applies a record of a place. Whether older copies of its block are superseded.
    fn apply(&mut self, tables: &mut FoundPlaces, place: u32, record: &Record) -> bool {
        let state = match record.kind {
            RecordKind::Clean => EntryState::Clean,
            RecordKind::Dirty => EntryState::Dirty,
            RecordKind::Free => EntryState::Free,
        };
        let entry = TableEntry { state, block: record.block, version: record.version, crc: record.crc };
        let is_certain = record.version <= self.durable.max(self.kept);
        // A page knows of the records up to its stamp, but for dirty copies that may never have been durable: a start that was cut short
        // freed them because their bytes were not there, or because memory, which is gone by now, had a later record. The bytes tell.
        let is_known_by_page =
            state != EntryState::Dirty || is_certain || planted("tentative-copy-known-by-its-page");
        let known = is_known_by_page && record.version <= tables.stamp(place);
        let is_there = state == EntryState::Free || known || is_certain || self.is_there(place, &entry);
        // A clean copy was put down when the backing disk durably held its bytes, so that what is older does not count,
        // whatever became of the copy: a block that was written back and stayed may have left its place since. A dirty
        // copy that is not known to be durable never was, unless its bytes are there.
        let counts = state != EntryState::Dirty || record.version <= self.durable || (!known && is_there);
        if !counts {
            self.missing.note(record.block, record.version);
        }
        if is_there && !known && record.version > tables.entry(place).version {
            tables.set(place, if state == EntryState::Free { TableEntry::default() } else { entry });
        }
        counts && !planted("superseded-copy-counts")
    }
}

/// Which of several places that hold a block with one version stays: the first that is there, or else the first that may be, because it cannot be
/// read. The others are used again.
fn choose_of_equals(
    device: &mut dyn SyncDevice,
    source: &RecoverySource<'_>,
    copies: &[(Place, TableEntry)],
    unreadable: &mut UnreadableCopies,
) -> Place {
    if planted("first-of-two-places-stays-unread") {
        return copies[0].0;
    }
    let mut perhaps = None;
    for &(place, ref entry) in copies {
        match look_for(device, source, place, entry) {
            Evidence::There => return place,
            Evidence::Unreadable => perhaps = perhaps.or(Some((place, *entry))),
            Evidence::NotThere => {}
        }
    }
    let (place, entry) = perhaps.unwrap_or(copies[0]);
    unreadable.note(place, entry);
    place
}

/// Reads a place, and compares what is there with what the entry says.
fn look_for(
    device: &mut dyn SyncDevice,
    source: &RecoverySource<'_>,
    place: u32,
    entry: &TableEntry,
) -> Evidence {
    let layout = &source.layout;
    let offset = place_offset(layout, source.extents, place);
    let mut buf = vec![0; layout.extent.block.bytes() as usize];
    let is_right = |bytes: &[u8]| data_checksum(source.tag, entry.block, bytes) == entry.crc;
    match read_with_tries(device, offset, &mut buf, &is_right) {
        Err(_) => Evidence::Unreadable,
        Ok(()) if is_right(&buf) => Evidence::There,
        Ok(()) => Evidence::NotThere,
    }
}

#[cfg(test)]
mod tests {
    use lode_types::BlockSize;

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
}
