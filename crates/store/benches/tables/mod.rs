//! Pages of tables and journal of a volume that is full, for benches of starts. It must not know how they are stored.

use lode_format::{
    DeviceLayout, ENTRIES_PER_PAGE, EntryState, ExtentLayout, JournalPage, RECORDS_PER_PAGE, Record,
    RecordKind, TableEntry, TablePage, VolumeTag,
};
use lode_types::mix;

/// Version up to which the pages speak of durable things.
pub const STAMP: u64 = 1 << 40;

/// One copy of a page of an extent whose places hold each another block, below `blocks`, of scattered versions, a quarter of them dirty.
pub fn full_page(
    tag: VolumeTag,
    layout: &ExtentLayout,
    (extent, page, copy): (u32, u32, u8),
    blocks: u64,
) -> TablePage {
    let mut table = TablePage::empty(tag, extent, page, 2 + u64::from(copy));
    table.stamp = STAMP;
    let first = page * ENTRIES_PER_PAGE as u32;
    for (entry, within) in table.entries.iter_mut().zip(first..layout.places) {
        *entry = full_entry(u64::from(extent) * u64::from(layout.places) + u64::from(within), blocks);
    }
    table
}

/// What the place of this number on the device holds.
fn full_entry(place: u64, blocks: u64) -> TableEntry {
    let block = place.wrapping_mul(0x9e37_79b1) % blocks;
    let state = if place.is_multiple_of(4) { EntryState::Dirty } else { EntryState::Clean };
    TableEntry { state, block, version: mix(place) % STAMP, crc: place as u32 }
}

/// The ring of the journal of a volume on these extents, of which each pair has a full page.
pub struct FullRing {
    pub volume: VolumeTag,
    /// Of the ring.
    pub number: u64,
    pub layout: DeviceLayout,
    pub extents: Vec<u32>,
    /// Blocks of the disk of which tables speak.
    pub blocks: u64,
    /// Between three and six eighths of the pages count, as many as on average: some places have got other blocks since. Otherwise
    /// none does. Those that do not are of the ring before.
    pub amid_writes: bool,
}

impl FullRing {
    fn last(&self) -> u64 {
        let all = u64::from(self.layout.extent.journal_pairs) * self.extents.len() as u64;
        if self.amid_writes { all * 9 / 16 } else { 0 }
    }

    /// The page of this number, which is that of its pair.
    pub fn page(&self, number: u64) -> JournalPage {
        let last = self.last();
        let counts = (1..=last).contains(&number);
        JournalPage {
            volume: self.volume,
            ring: if counts { self.number } else { self.number - 1 },
            number,
            tail: 1,
            durable_page: last,
            durable_version: version(last + 1, 0) - 1,
            durable_tables: 0,
            records: (0..RECORDS_PER_PAGE as u64).map(|at| self.record(version(number, at))).collect(),
        }
    }

    /// Some place gets what another one has, which is superseded by that.
    fn record(&self, version: u64) -> Record {
        let places = u64::from(self.layout.extent.places);
        let some_place = |number: u64| {
            let place = mix(number) % (self.extents.len() as u64 * places);
            u64::from(self.extents[(place / places) as usize]) * places + place % places
        };
        let TableEntry { block, crc, .. } = full_entry(some_place(version << 1 | 1), self.blocks);
        Record { kind: RecordKind::Dirty, place: some_place(version << 1) as u32, block, version, crc }
    }
}

/// Of a record in a page of the journal.
fn version(page: u64, at: u64) -> u64 {
    STAMP + 2 + page * RECORDS_PER_PAGE as u64 + at
}
