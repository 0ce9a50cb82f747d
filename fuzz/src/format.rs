//! What must hold when pages of the on-disk format are read from any bytes.
//!
//! A page's checksum would stop nearly every input, so that the bytes are tried as they are and once more with the
//! checksum made to fit. Inputs are the front of a page; the rest of it is zero. Each check says whether the sealed page
//! was accepted.

use lode_format::{
    BUFFERED_RECORD_BYTES, CacheId, DeviceLayout, Directory, DroppedCopies, ENTRIES_PER_PAGE, JournalPage,
    PAGE_BYTES, PairLabel, RECORDS_PER_PAGE, REDO_ENTRIES_PER_PAGE, RecordBufferHeader, RedoLabel,
    RedoLayout, RedoRanges, RedoState, RedoTablePage, Superblock, TablePage, Volume, VolumeExtents,
    VolumeTag,
};

const CRC: std::ops::Range<usize> = 8..12;
const CACHE: std::ops::Range<usize> = 16..32;
/// Bytes of the fields of a redo log's label, and of its state.
const REDO_LABEL_BYTES: usize = 0x38;
const REDO_STATE_BYTES: usize = 0x40;
/// Bytes of the fields at the front of a record buffer.
const BUFFER_HEADER_BYTES: usize = 0x54;
/// Most records of a buffer that is made here.
const MOST_RECORDS: u32 = 1 << 12;

/// A page that begins with these bytes.
fn page(data: &[u8]) -> Vec<u8> {
    let mut page = vec![0; PAGE_BYTES];
    let count = data.len().min(PAGE_BYTES);
    page[..count].copy_from_slice(&data[..count]);
    page
}

fn seal(page: &mut [u8]) {
    page[CRC].fill(0);
    let crc = crc32c::crc32c(page);
    page[CRC].copy_from_slice(&crc.to_le_bytes());
}

fn sealed(data: &[u8]) -> Vec<u8> {
    let mut page = page(data);
    seal(&mut page);
    page
}

/// The cache that a page says it is of.
fn cache_of(page: &[u8]) -> CacheId {
    CacheId(page[CACHE].try_into().expect("16 bytes"))
}

fn u32_at(page: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(page[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(page: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(page[at..at + 8].try_into().expect("8 bytes"))
}

/// What is read is written again and read as the same, and divides its device without going beyond its end.
pub fn check_superblock(data: &[u8]) -> bool {
    let _ = Superblock::decode(data);
    let Ok(superblock) = Superblock::decode(&sealed(data)) else { return false };
    assert_eq!(Superblock::decode(&superblock.encode()[..]), Ok(superblock));
    let layout = superblock.layout().expect("what was read was checked");
    assert!(layout.extents > 0 && layout.extents <= DeviceLayout::MAX_EXTENTS);
    assert!(layout.extent_start(layout.extents) <= superblock.device_bytes);
    let extent = layout.extent;
    assert!(
        extent.places > 0 && extent.place(extent.places - 1) + extent.block.bytes() <= extent.extent_bytes
    );
    true
}

/// What is read is written again and read as the same; somebody has everything, the pair fits on its member, and is one of
/// those that there are.
pub fn check_pair_label(data: &[u8]) -> bool {
    let _ = PairLabel::decode(data);
    let Ok(label) = PairLabel::decode(&sealed(data)) else { return false };
    assert_eq!(PairLabel::decode(&label.encode()[..]), Ok(label));
    assert!(label.member < PairLabel::MEMBERS && label.in_sync.contains(&true));
    assert!(label.number < label.pairs && label.pairs <= PairLabel::MOST_PAIRS);
    assert!(label.pair_bytes <= label.device_bytes - PairLabel::DATA_START_BYTES);
    assert!(label.resilvered_bytes <= label.pair_bytes);
    true
}

/// A directory is 27 pages, too many for a fuzzer. The input is a list of patches to one with two volumes, each a page, a
/// place (2 bytes), a length and so many bytes. Pages that were patched are sealed.
pub fn check_directory(data: &[u8]) -> bool {
    let cache = CacheId([7; 16]);
    let _ = Directory::decode(cache, data);
    let mut bytes = usual_directory().encode(cache).expect("a good directory");
    let mut rest = data;
    while let [number, low, high, length, tail @ ..] = rest {
        let (patch, tail) = tail.split_at(tail.len().min(usize::from(*length)));
        let pages = bytes.len() / PAGE_BYTES;
        let page = &mut bytes[usize::from(*number) % pages * PAGE_BYTES..][..PAGE_BYTES];
        let place = usize::from(u16::from_le_bytes([*low, *high])) % PAGE_BYTES;
        let count = patch.len().min(PAGE_BYTES - place);
        page[place..place + count].copy_from_slice(&patch[..count]);
        seal(page);
        rest = tail;
    }
    let Ok(directory) = Directory::decode(cache, &bytes) else { return false };
    assert!(directory.volumes.len() <= Directory::MAX_VOLUMES);
    assert!(directory.owners.len() <= DeviceLayout::MAX_EXTENTS as usize);
    assert!(directory.unwritten.iter().all(|&extent| directory.owners[extent as usize].is_some()));
    for owner in directory.owners.iter().flatten() {
        assert!(directory.volumes[usize::from(*owner)].is_some(), "an extent of nobody");
    }
    let again = directory.encode(cache).expect("what was read can be written");
    assert_eq!(Directory::decode(cache, &again), Ok(directory));
    true
}

fn usual_directory() -> Directory {
    let volume = |name: &str, tag| {
        Some(Volume {
            name: name.to_owned(),
            tag: VolumeTag(tag),
            backing_bytes: 1 << 30,
            ring: 3,
            is_ring_longer: tag == 3,
            attached_in: 2,
            run_version: 4,
            dropped: [DroppedCopies { home: 1, before: 4 }, DroppedCopies::default()],
        })
    };
    let mut directory = Directory::empty(64);
    directory.volumes = vec![volume("vm1", 1), None, volume("vm3", 3)];
    directory.owners[0] = Some(0);
    directory.set_extents_of(2, &VolumeExtents { written: vec![7], unwritten: vec![9, 12] });
    directory
}

/// A page is read at the place it says it is of, and at no other one.
pub fn check_table(data: &[u8]) -> bool {
    let page = sealed(data);
    let (cache, volume) = (cache_of(&page), u64_at(&page, 0x20));
    let (extent, number) = (u32_at(&page, 0x38), u32_at(&page, 0x3c));
    let read = |volume: u64, extent, number, bytes: &[u8]| {
        TablePage::decode(cache, VolumeTag(volume), extent, number, bytes)
    };
    let _ = read(volume, extent, number, data);
    let Ok(table) = read(volume, extent, number, &page) else { return false };
    assert_eq!(table.entries.len(), ENTRIES_PER_PAGE);
    assert!(read(!volume, extent, number, &page).is_err());
    assert!(read(volume, !extent, number, &page).is_err());
    assert!(read(volume, extent, !number, &page).is_err());
    assert_eq!(read(volume, extent, number, &table.encode(cache)[..]), Ok(table));
    true
}

/// A page has no more records than fit, and only its own cache reads it.
pub fn check_journal(data: &[u8]) -> bool {
    let page = sealed(data);
    let cache = cache_of(&page);
    let _ = JournalPage::decode(cache, data);
    let Ok(journal) = JournalPage::decode(cache, &page) else { return false };
    assert!(journal.records.len() <= RECORDS_PER_PAGE);
    assert!(JournalPage::decode(CacheId(cache.0.map(|byte| !byte)), &page).is_err());
    assert_eq!(JournalPage::decode(cache, &journal.encode(cache)[..]), Ok(journal));
    true
}

/// The input is the fields of the page at the front, then records. The checksum of a record is made to fit unless the
/// byte after its kind is set.
pub fn check_record_buffer(data: &[u8]) -> bool {
    let _ = RecordBufferHeader::decode(data);
    let (fields, records) = data.split_at(data.len().min(BUFFER_HEADER_BYTES));
    let mut bytes = sealed(fields);
    let Ok(header) = RecordBufferHeader::decode(&bytes) else { return false };
    let (encoded, seed) = header.encode();
    assert_eq!(RecordBufferHeader::decode(&encoded[..]), Ok(header));
    if header.cells > MOST_RECORDS {
        assert!(header.records(&bytes).is_err(), "a buffer without its records");
        return true;
    }
    bytes[..PAGE_BYTES].copy_from_slice(&encoded[..]);
    bytes.extend(records);
    bytes.resize(RecordBufferHeader::bytes(header.cells), 0);
    for record in bytes[PAGE_BYTES..].chunks_exact_mut(BUFFERED_RECORD_BYTES) {
        if record[1] == 0 && record.iter().any(|&byte| byte != 0) {
            record[4..8].fill(0);
            let check = crc32c::crc32c_append(seed, record);
            record[4..8].copy_from_slice(&check.to_le_bytes());
        }
    }
    let found = header.records(&bytes).expect("a buffer of this length");
    assert!(found.records.is_sorted_by_key(|record| record.version()));
    let cells = u64::from(header.cells);
    let mut places: Vec<u64> = found.records.iter().map(|record| record.version() % cells).collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), found.records.len(), "two records of one slot");
    assert!(found.records.len() as u64 + u64::from(found.damaged) <= cells);
    true
}

/// The input is the fields of a label, those of a state, then the front of the first table page. What is read is written again and
/// read as the same; nothing lies beyond the log's end, and no block beyond the disk's or twice.
pub fn check_redo_log(data: &[u8]) -> bool {
    let (label, rest) = data.split_at(data.len().min(REDO_LABEL_BYTES));
    let (state, table) = rest.split_at(rest.len().min(REDO_STATE_BYTES));
    let _ = RedoLabel::decode(label);
    let Ok(label) = RedoLabel::decode(&sealed(label)) else { return false };
    assert_eq!(RedoLabel::decode(&label.encode()[..]), Ok(label));
    let layout = label.layout;
    let tables_end = RedoLayout::table_page(RedoLayout::table_pages(layout.capacity_blocks));
    assert!(tables_end <= layout.block(0) && layout.block(layout.capacity_blocks) == layout.bytes());
    let _ = RedoState::decode(&label, state);
    let Ok(state) = RedoState::decode(&label, &sealed(state)) else { return false };
    assert!(state.blocks <= layout.capacity_blocks);
    assert_eq!(RedoState::decode(&label, &state.encode(label.cache)[..]), Ok(state));
    let _ = RedoRanges::decode(&label, &state, table);
    if let Ok(ranges) = RedoRanges::decode(&label, &state, &sealed(table)) {
        assert!(ranges.ranges.len() <= RedoRanges::MOST && state.blocks == 0);
        let blocks = label.volume_bytes.div_ceil(layout.block.bytes());
        assert!(ranges.ranges.iter().all(|range| range.start < range.end && range.end <= blocks));
        assert_eq!(RedoRanges::decode(&label, &state, &ranges.encode(label.cache)[..]), Ok(ranges));
        return true;
    }
    let _ = RedoTablePage::decode(&label, &state, 0, table);
    let Ok(table) = RedoTablePage::decode(&label, &state, 0, &sealed(table)) else { return false };
    assert_eq!(table.entries.len(), REDO_ENTRIES_PER_PAGE.min(state.blocks as usize));
    assert!(table.entries.is_sorted_by(|one, next| one.block < next.block));
    let blocks = label.volume_bytes.div_ceil(layout.block.bytes());
    assert!(table.entries.iter().all(|entry| entry.block < blocks));
    assert!(RedoTablePage::decode(&label, &state, 1, &table.encode(label.cache)[..]).is_err());
    assert_eq!(RedoTablePage::decode(&label, &state, 0, &table.encode(label.cache)[..]), Ok(table));
    true
}
