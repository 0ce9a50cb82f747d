//! Which record buffer is believed: only that of the volume's last life, on this boot of this host. Any other one is of a
//! past that the SSD knows better.

use lode_format::{
    BootId, Buffered, CacheId, DeviceLayout, FormatError, Record, RecordBufferHeader, VolumeTag,
};

use crate::checkpoint::local_place;

/// Why a record buffer is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BufferIgnored {
    /// Its bytes are not those of a record buffer, or of a version that this program does not know.
    #[error("it is damaged ({0}); what guests wrote and did not flush before the daemon died may be missing")]
    Damaged(#[from] FormatError),
    /// It is of another boot.
    #[error(
        "it is of another boot of this host; what guests wrote and did not flush before the host went down may be missing, \
         as after every power cut"
    )]
    OtherBoot,
    /// It is of another cache.
    #[error("it belongs to another cache, whose records mean nothing here")]
    OtherCache,
    /// It is of another volume.
    #[error("it belongs to another volume, whose records mean nothing here")]
    OtherVolume,
    /// The volume was started since, or its SSD is an older copy.
    #[error("it is of another start of this volume, and the SSD has what that one left")]
    OtherStart,
    /// There is no such volume.
    #[error("the cache holds no such volume")]
    NoVolume,
    /// A record is about space that the volume does not have.
    #[error(
        "it speaks of space that is not this volume's; what guests wrote and did not flush before the daemon died may be \
         missing"
    )]
    OtherSpace,
}

/// What a record buffer that is believed holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenOver {
    /// Records, those that the journal has as well included.
    pub records: u64,
    /// Records that cannot be read: blocks that they spoke of may be older than guests were told.
    pub damaged: u64,
}

pub(super) fn read_buffer(
    bytes: &[u8],
    boot: BootId,
    cache: CacheId,
    (tag, ring): (VolumeTag, u64),
    layout: &DeviceLayout,
    extents: &[u32],
) -> Result<(Vec<Record>, TakenOver), BufferIgnored> {
    let header = RecordBufferHeader::decode(bytes)?;
    let refusals = [
        (header.cache != cache, BufferIgnored::OtherCache),
        (header.boot != boot, BufferIgnored::OtherBoot),
        (header.volume != tag, BufferIgnored::OtherVolume),
        (header.ring != ring, BufferIgnored::OtherStart),
    ];
    if let Some((_, refusal)) = refusals.into_iter().find(|(is_so, _)| *is_so) {
        return Err(refusal);
    }
    let found = header.records(bytes)?;
    let records = found.records.iter().filter_map(|buffered| match buffered {
        Buffered::Record(record) => Some(*record),
        Buffered::Empty { .. } => None,
    });
    let records: Vec<Record> = records.collect();
    if records.iter().any(|record| local_place(layout, extents, record.slot).is_none()) {
        return Err(BufferIgnored::OtherSpace);
    }
    let taken = TakenOver { records: records.len() as u64, damaged: u64::from(found.damaged) };
    Ok((records, taken))
}
