//! Which record buffer is believed: only that of the volume's last run, on this boot of this host. Any other one is of a
//! past that the SSD knows better.

use lode_format::{
    BootId, Buffered, DeviceLayout, FormatError, Record, RecordBufferHeader, Superblock, VolumeTag,
};
use lode_types::planted;

use crate::journal::is_ring_of_run;
use crate::volume::local_place;

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

pub(crate) fn read_buffer(
    bytes: &[u8],
    boot: BootId,
    superblock: &Superblock,
    (tag, ring): (VolumeTag, u64),
    layout: &DeviceLayout,
    extents: &[u32],
) -> Result<(Vec<Record>, TakenOver), BufferIgnored> {
    let header = RecordBufferHeader::decode(bytes)?;
    let refusals = [
        (header.cache != superblock.cache, BufferIgnored::OtherCache),
        (header.boot != boot && !planted("records-of-another-boot"), BufferIgnored::OtherBoot),
        (header.volume != tag, BufferIgnored::OtherVolume),
        (!is_ring_of_run(header.ring, ring) || header.epoch > superblock.epoch, BufferIgnored::OtherStart),
    ];
    if let Some((_, refusal)) = refusals.into_iter().find(|(is_so, _)| *is_so) {
        return Err(refusal);
    }
    let found = header.records(bytes)?;
    let records = found.records.iter().filter_map(|buffered| match buffered {
        Buffered::Record(record) => Some(*record),
        Buffered::Empty { .. } => None,
    });
    let mut records: Vec<Record> = records.collect();
    let is_ours = |record: &Record| local_place(layout, extents, record.place).is_some();
    if header.ring != ring {
        // Extents were given up since the buffer was begun, and when they were, the tables said everything.
        records.retain(is_ours);
    } else if !records.iter().all(is_ours) {
        return Err(BufferIgnored::OtherSpace);
    }
    let taken = TakenOver { records: records.len() as u64, damaged: u64::from(found.damaged) };
    Ok((records, taken))
}

#[cfg(test)]
mod tests {
    use lode_format::CacheId;
    use lode_types::BlockSize;

    use super::*;
    use crate::journal::first_ring_after;

    #[test]
    fn only_the_buffer_of_the_last_life_on_this_boot_is_believed() {
        let (cache, boot, volume) = (CacheId([1; 16]), BootId([2; 16]), VolumeTag(3));
        let superblock = Superblock {
            cache,
            generation: 1,
            epoch: 5,
            device_bytes: 4 << 20,
            extent_bytes: 1 << 20,
            block: BlockSize::KIB_4,
        };
        let layout = superblock.layout().unwrap();
        let ring = first_ring_after(3);
        let last = RecordBufferHeader { cache, boot, volume, ring, epoch: 5, after: 0, cells: 8 };
        let read_now = |header: RecordBufferHeader, ring_now: u64| {
            let mut bytes = vec![0; RecordBufferHeader::bytes(header.cells)];
            bytes[..lode_format::PAGE_BYTES].copy_from_slice(&header.encode().0[..]);
            read_buffer(&bytes, boot, &superblock, (volume, ring_now), &layout, &[0]).map(|(_, taken)| taken)
        };
        let read = |header| read_now(header, ring);
        assert_eq!(read(last), Ok(TakenOver::default()));
        assert_eq!(
            read(RecordBufferHeader { epoch: 4, ..last }),
            Ok(TakenOver::default()),
            "a start came to nothing since"
        );
        let refused = [
            (RecordBufferHeader { cache: CacheId([9; 16]), ..last }, BufferIgnored::OtherCache),
            (RecordBufferHeader { boot: BootId([9; 16]), ..last }, BufferIgnored::OtherBoot),
            (RecordBufferHeader { volume: VolumeTag(9), ..last }, BufferIgnored::OtherVolume),
            (RecordBufferHeader { ring: 3, ..last }, BufferIgnored::OtherStart),
            (RecordBufferHeader { ring: ring + 1, ..last }, BufferIgnored::OtherStart),
            (RecordBufferHeader { epoch: 6, ..last }, BufferIgnored::OtherStart),
        ];
        assert_eq!(read_now(last, ring + 7), Ok(TakenOver::default()), "its extents changed since");
        assert_eq!(read_now(last, first_ring_after(ring)), Err(BufferIgnored::OtherStart));
        assert_eq!(read_now(RecordBufferHeader { ring: 4, ..last }, 5), Err(BufferIgnored::OtherStart));
        for (header, refusal) in refused {
            assert_eq!(read(header), Err(refusal));
        }
    }
}
