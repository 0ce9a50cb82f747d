//! What an operator sees of an engine: alarms and gauges.

use lode_policy::host::WriteUse;

use crate::command::DeviceId;
use crate::flight::Damage;
use crate::io::{Owner, Segment};
use crate::reissue::ReissueCounts;

/// Things that should not happen, counted. Each is worth an operator's look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alarms {
    /// Cached blocks whose bytes did not fit their checksum and were read again from another copy or the backing disk.
    pub damaged_clean: u64,
    /// Cached blocks newer than the backing disk that were damaged on the SSD and that a second device held too.
    pub damaged_mirrored: u64,
    /// Cached blocks that were damaged and that nothing else held: guests get errors for them.
    pub damaged_dirty: u64,
    /// Blocks newer than the backing disk that could not be read during the start, or were not what they had been: guests
    /// get errors for them while that is so, until they are overwritten.
    pub unreadable_at_start: u64,
    /// Failed commands on the SSD.
    pub ssd_errors: u64,
    /// Failed commands on the read SSD.
    pub read_ssd_errors: u64,
    /// The read SSD failed so often that nothing is put on it any more.
    pub read_ssd_gone: bool,
    /// Failed commands on the backing disk, or on its redo log.
    pub backing_errors: u64,
    /// The journal or a flush failed: nothing is acknowledged as durable any more.
    pub failed: bool,
    /// It was the SSD that failed, for this volume or for another one on it.
    pub ssd_failed: bool,
    /// It was the backing disk that failed, for this volume or for another one on it.
    pub backing_failed: bool,
}

/// What is in the cache and under way now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Blocks held in DRAM.
    pub dram_blocks: u32,
    /// Blocks held on the SSD.
    pub ssd_blocks: u32,
    /// Blocks held on the read SSD.
    pub read_ssd_blocks: u32,
    /// Of those, newer than the backing disk, those on their way to it included.
    pub dirty_blocks: u32,
    /// Under a scheme that keeps blocks newer than the backing disk on two devices, those that are on one only: since a
    /// restart, or the loss of a copy.
    pub unmirrored_blocks: u32,
    /// Blocks newer than the backing disk whose only copy is damaged: guests get errors for them until they are
    /// overwritten, and nothing can write them back.
    pub lost_blocks: u32,
    /// Clean copies that were looked for and had gone with an SSD of the pair, which alone had them.
    pub dropped_clean_copies: u64,
    /// Blocks waiting to be written back.
    pub write_backs_waiting: u32,
    /// Write-backs of drains and cleanings that failed; a drain tries them again.
    pub drain_failures: u64,
    /// Blocks that drains, or cleanings of the scheme, wrote back and left in the SSD.
    pub cleaned_blocks: u64,
    /// Blocks on the SSD that were compared with their checksums in the background.
    pub scrubbed_blocks: u64,
    /// How often all of them were.
    pub scrub_passes: u64,
    /// Writes on their way to the backing disk that were issued again to the SSD.
    pub reissued_writes: u64,
    /// Those that could not be: in part of a block, with a newer write behind them, or without room.
    pub refused_reissues: u64,
    /// Completions of the slower of two devices that had the same write; its guest was answered before.
    pub discarded_completions: u64,
    /// Copies into SSDs waiting for their turn or a place.
    pub promotions_waiting: u32,
    /// Frames of host memory that the volume may use.
    pub frames: u32,
    /// Frames that it waits for, because others have not given them back.
    pub frames_waited_for: u32,
    /// Extents of the SSD that it has.
    pub extents: u32,
    /// Of those, extents that are to be given up once nothing is in them.
    pub retiring_extents: u32,
    /// Extents that it waits for.
    pub extents_waited_for: u32,
    /// Blocks that were moved out of extents that are to be given up.
    pub moved_blocks: u64,
    /// Schemes that began to decide after the first one.
    pub scheme_switches: u64,
    /// Places on the SSD that are not trusted any more.
    pub quarantined: u32,
    /// Places on the read SSD that are not trusted any more.
    pub read_ssd_quarantined: u32,
    /// Bytes of memory: tables and frames.
    pub memory_bytes: u64,
    /// Guest data written to the SSD.
    pub ssd_data_bytes: u64,
    /// Journal and tables written to the SSD.
    pub ssd_metadata_bytes: u64,
    /// Data written to the read SSD.
    pub read_ssd_data_bytes: u64,
    /// Bytes read from the backing disk.
    pub backing_read_bytes: u64,
    /// Bytes written to the backing disk.
    pub backing_written_bytes: u64,
    /// Bytes written to the redo log beside it.
    pub redo_written_bytes: u64,
}

/// What was written to the SSD since the engine began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SsdWriteUse {
    /// What was decided.
    pub decided: WriteUse,
    /// Bytes that the SSD took, journal and tables included.
    pub device_bytes: u64,
}

impl Alarms {
    pub(crate) fn note_error(&mut self, device: DeviceId) {
        match device {
            DeviceId::Ssd => self.ssd_errors += 1,
            DeviceId::ReadSsd => self.read_ssd_errors += 1,
            DeviceId::Backing | DeviceId::Redo => self.backing_errors += 1,
        }
    }

    pub(crate) fn note_damage(&mut self, damage: Damage) {
        match damage {
            Damage::Clean(_) => self.damaged_clean += 1,
            Damage::Mirrored(_) => self.damaged_mirrored += 1,
            Damage::Lost(_) => self.damaged_dirty += 1,
            Damage::Mirror { last } => {
                self.damaged_clean += 1;
                self.damaged_dirty += u64::from(last);
            }
        }
    }
}

impl Gauges {
    /// These writes were issued again, or could not be, beside others.
    pub(crate) fn add_reissues(&mut self, counts: &ReissueCounts) {
        self.reissued_writes += counts.issued;
        self.refused_reissues += counts.refused;
        self.discarded_completions += counts.discarded;
    }

    /// A segment of a command has ended well.
    pub(crate) fn note(&mut self, device: DeviceId, is_write: bool, segment: &Segment) {
        let bytes = segment.len as u64;
        match (device, is_write, segment.owner) {
            (DeviceId::Backing, true, _) => self.backing_written_bytes += bytes,
            (DeviceId::Backing, false, _) => self.backing_read_bytes += bytes,
            (DeviceId::Ssd, true, Owner::Block(_) | Owner::Reissue(_)) => self.ssd_data_bytes += bytes,
            (DeviceId::Ssd, true, _) => self.ssd_metadata_bytes += bytes,
            (DeviceId::ReadSsd, true, _) => self.read_ssd_data_bytes += bytes,
            (DeviceId::Redo, ..) => self.redo_written_bytes += bytes,
            (DeviceId::Ssd | DeviceId::ReadSsd, false, _) => {}
        }
    }
}
