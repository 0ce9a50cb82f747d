//! The redo log of a volume with ordered write-back, as a start or an operator's command sees it: making one, and bringing the
//! group that it holds to the backing disk. Applying one again changes nothing, so that it may be cut short anywhere.
//!
//! It must not know the cache: the log and the disk are all there is when every SSD is lost. Nothing else in this crate writes to
//! a backing disk.

use std::ops::Range;

use lode_format::{
    FormatError, PAGE_BYTES, RedoEntry, RedoLabel, RedoLayout, RedoRanges, RedoState, RedoTablePage, Wrong,
    data_checksum,
};
use lode_types::planted;

use crate::device::{SyncDevice, flush, read, write, write_zeroes};
use crate::error::{StoreError, StoreErrorKind};

/// Bytes of a range that are read and written again at once.
const AGAIN_BYTES: u64 = 1 << 20;

/// What a redo log holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedoLog {
    /// Whose it is.
    pub label: RedoLabel,
    /// Number of its latest group.
    pub group: u64,
    /// Generation of the disk's sidecar in which that group was written; 0: not known.
    pub generation: u64,
    /// The blocks that the backing disk may lack, ascending; none: the disk has every group.
    pub entries: Vec<RedoEntry>,
    /// Ranges of blocks that were trimmed or zeroed on the disk past groups, maybe not durably; none beside a group.
    pub ranges: Vec<Range<u64>>,
}

impl RedoLog {
    /// Whether the disk durably has everything that the log is for.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.ranges.is_empty()
    }
}

/// Makes an empty log. Whatever the device holds is lost.
///
/// # Errors
/// [`StoreErrorKind::Geometry`] when the device is too small, [`StoreErrorKind::Media`].
pub fn create_redo_log(device: &mut dyn SyncDevice, label: &RedoLabel) -> Result<(), StoreError> {
    let needed = label.layout.bytes();
    if device.size_bytes() < needed {
        let context = format!(
            "a redo log of {} blocks needs {needed} bytes, and its file has {}",
            label.layout.capacity_blocks,
            device.size_bytes()
        );
        return Err(StoreError::new(StoreErrorKind::Geometry, context));
    }
    // Without a label nothing of it is believed.
    write(device, 0, &[0; PAGE_BYTES])?;
    flush(device)?;
    write_states(device, label, &RedoState { volume: label.volume, group: 0, blocks: 0, generation: 0 })?;
    write(device, 0, &label.encode()[..])?;
    flush(device)
}

fn write_states(device: &mut dyn SyncDevice, label: &RedoLabel, state: &RedoState) -> Result<(), StoreError> {
    for copy in 0..RedoLayout::STATES {
        write(device, RedoLayout::state(copy), &state.encode(label.cache)[..])?;
    }
    flush(device)
}

/// Reads whose a log is. `None`: there is none, but something else, or one that was never made whole.
///
/// # Errors
/// [`StoreErrorKind::Damaged`], [`StoreErrorKind::OtherVersion`]; [`StoreErrorKind::Media`].
pub fn read_redo_label(device: &mut dyn SyncDevice) -> Result<Option<RedoLabel>, StoreError> {
    let mut page = vec![0; PAGE_BYTES];
    if device.size_bytes() < PAGE_BYTES as u64 {
        return Ok(None);
    }
    read(device, 0, &mut page)?;
    match RedoLabel::decode(&page) {
        Ok(label) => Ok(Some(label)),
        Err(error) if error.is_of_other_version() => Err(error.into()),
        // The label is written last, and once: it is none, or something else.
        Err(error) if matches!(error.wrong, Wrong::Magic) => Ok(None),
        Err(error) => Err(damaged(error.to_string())),
    }
}

/// Reads a log. `None`: there is none, but something else, or one that was never made whole.
///
/// # Errors
/// [`StoreErrorKind::Damaged`] when a group that was complete is not any more, [`StoreErrorKind::OtherVersion`] when any part of the log is
/// of a version that this program does not know; [`StoreErrorKind::Media`].
pub fn read_redo_log(device: &mut dyn SyncDevice) -> Result<Option<RedoLog>, StoreError> {
    let Some(label) = read_redo_label(device)? else { return Ok(None) };
    let mut page = vec![0; PAGE_BYTES];
    if device.size_bytes() < label.layout.bytes() {
        return Err(damaged("it is shorter than it was made".to_owned()));
    }
    let (mut states, mut unreadable) = ([None; RedoLayout::STATES as usize], None);
    for copy in 0..RedoLayout::STATES {
        match read(device, RedoLayout::state(copy), &mut page) {
            Ok(()) => match RedoState::decode(&label, &page) {
                Err(error) if error.is_of_other_version() => return Err(error.into()),
                state => states[usize::from(copy)] = state.ok(),
            },
            Err(error) => unreadable = Some(error),
        }
    }
    // Each is in one sector, which is written whole or not at all: that neither is one is damage.
    let lost = || unreadable.unwrap_or_else(|| damaged("neither copy of its state is one".to_owned()));
    let state = RedoState::newest(states).ok_or_else(lost)?;
    let mut entries = Vec::with_capacity(state.blocks as usize);
    for number in 0..RedoLayout::table_pages(state.blocks) {
        read(device, RedoLayout::table_page(number), &mut page)?;
        let table = RedoTablePage::decode(&label, &state, number, &page);
        entries.extend(table.map_err(of_page)?.entries);
    }
    let mut ranges = Vec::new();
    if state.blocks == 0 {
        // Something else is there where none were written since the last group, or where the power failed meanwhile.
        read(device, RedoRanges::AT, &mut page)?;
        match RedoRanges::decode(&label, &state, &page) {
            Err(error) if error.is_of_other_version() => return Err(error.into()),
            found => ranges = found.map_or(ranges, |found| found.ranges),
        }
    }
    let RedoState { group, generation, .. } = state;
    Ok(Some(RedoLog { label, group, generation, entries, ranges }))
}

fn of_page(error: FormatError) -> StoreError {
    if error.is_of_other_version() { error.into() } else { damaged(error.to_string()) }
}

fn damaged(what: String) -> StoreError {
    StoreError::new(
        StoreErrorKind::Damaged,
        format!(
            "{what}. The backing disk may have a part of its last group. Its cache SSD has all of it: where that is there, move the log away \
             and serve the disk with it; otherwise restore disk and log from a copy"
        ),
    )
}

/// Reads a log that is to be applied to a disk of so many bytes, and all blocks that it holds. `None` where there is no log.
///
/// # Errors
/// As [`read_redo_log`], also when a block is not as it was; [`StoreErrorKind::WrongBacking`] when the disk is not as large as
/// the log's.
pub fn check_redo_log(device: &mut dyn SyncDevice, disk_bytes: u64) -> Result<Option<RedoLog>, StoreError> {
    let Some(log) = read_redo_log(device)? else { return Ok(None) };
    let label = &log.label;
    if !log.is_empty() && disk_bytes < label.volume_bytes {
        let context = format!(
            "it is of a disk with {} bytes, and this one has {disk_bytes}: give the disk that the log was beside",
            label.volume_bytes
        );
        return Err(StoreError::new(StoreErrorKind::WrongBacking, context));
    }
    let mut bytes = vec![0; label.layout.block.bytes() as usize];
    for (number, entry) in (0..).zip(&log.entries) {
        read_block(device, label, number, entry, &mut bytes)?;
    }
    Ok(Some(log))
}

/// Brings the group that a log holds to the backing disk, durably, and empties the log. Gives what was there, `None` where there
/// is no log. Nothing is written to the disk unless all of the group is as it was. What the disk has already is durable then, too, also
/// where a flush has failed that should have made it so.
///
/// # Errors
/// As [`check_redo_log`].
pub fn apply_redo_log(
    device: &mut dyn SyncDevice,
    disk: &mut dyn SyncDevice,
) -> Result<Option<RedoLog>, StoreError> {
    let Some(log) = check_redo_log(device, disk.size_bytes())? else { return Ok(None) };
    let label = &log.label;
    let empty = RedoState { volume: label.volume, group: log.group, blocks: 0, generation: log.generation };
    let full = RedoState { blocks: log.entries.len() as u32, ..empty };
    if log.entries.is_empty() {
        // A trim or zeroing of which nobody was told the end: guests see it from now on, and no later group may be there without it.
        // It comes before flushes of the log, which may fail, and lose what it says of ranges.
        if !planted("unflushed-ranges-forgotten") {
            write_again(disk, label, &log.ranges)?;
        }
        if !planted("disk-of-an-earlier-run-not-flushed") {
            flush(disk)?;
        }
        if !log.ranges.is_empty() {
            write(device, RedoRanges::AT, &[0; PAGE_BYTES])?;
        }
        // What says so may not be durable: after a power cut it could hold its last group again, with a part of the next one.
        if !planted("empty-redo-log-believed") {
            write_states(device, label, &empty)?;
        }
        return Ok(Some(log));
    }
    let size = label.layout.block;
    let mut bytes = vec![0; size.bytes() as usize];
    // The group is durable, but what says so may not be yet: after a power cut the disk would have a part of it.
    if !planted("redo-state-believed") {
        write_states(device, label, &full)?;
    }
    for (number, entry) in (0..).zip(&log.entries) {
        read_block(device, label, number, entry, &mut bytes)?;
        let start = size.start_of(entry.block);
        let len = (label.volume_bytes - start).min(size.bytes()) as usize;
        write(disk, start, &bytes[..len])?;
    }
    if !planted("redo-emptied-before-flush") {
        flush(disk)?;
    }
    write_states(device, label, &empty)?;
    Ok(Some(log))
}

/// Writes again what can be read of these ranges. Flushes cover it then, whatever became of those before, and nobody sees it change.
fn write_again(
    disk: &mut dyn SyncDevice,
    label: &RedoLabel,
    ranges: &[Range<u64>],
) -> Result<(), StoreError> {
    let size = label.layout.block;
    let mut bytes = vec![0; if ranges.is_empty() { 0 } else { AGAIN_BYTES as usize }];
    for range in ranges {
        let (mut at, end) = (size.start_of(range.start), size.start_of(range.end).min(label.volume_bytes));
        while at < end {
            let bytes = &mut bytes[..(end - at).min(AGAIN_BYTES) as usize];
            read(disk, at, bytes)?;
            match bytes.iter().all(|&byte| byte == 0) {
                true => write_zeroes(disk, at, bytes.len())?,
                false => write(disk, at, bytes)?,
            }
            at += bytes.len() as u64;
        }
    }
    Ok(())
}

fn read_block(
    device: &mut dyn SyncDevice,
    label: &RedoLabel,
    number: u32,
    entry: &RedoEntry,
    bytes: &mut [u8],
) -> Result<(), StoreError> {
    read(device, label.layout.block(number), bytes)?;
    if data_checksum(label.volume, entry.block, bytes) != entry.crc {
        return Err(damaged(format!("block {} in it is damaged", entry.block)));
    }
    Ok(())
}
