//! Checksums of cached blocks.

use lode_types::planted;

/// Short identity of a volume within a cache, random when the volume is created: part of every data
/// checksum, so that a block of one volume can never pass for a block of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VolumeTag(pub u64);

/// CRC32C over the volume, the block's number and the block's bytes.
///
/// With the identity inside, a block that was written to the wrong place, or a place that was reused,
/// fails the check as surely as damaged bytes do.
pub fn data_checksum(volume: VolumeTag, block: u64, bytes: &[u8]) -> u32 {
    let tag = if planted("checksum-without-tag") { 0 } else { volume.0 };
    let block = if planted("checksum-without-block") { 0 } else { block };
    let crc = crc32c::crc32c(&tag.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &block.to_le_bytes());
    crc32c::crc32c_append(crc, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_is_part_of_the_checksum() {
        let bytes = [7u8; 4096];
        let sum = data_checksum(VolumeTag(1), 2, &bytes);
        assert_ne!(sum, data_checksum(VolumeTag(2), 2, &bytes));
        assert_ne!(sum, data_checksum(VolumeTag(1), 3, &bytes));
        assert_eq!(sum, data_checksum(VolumeTag(1), 2, &bytes));
    }
}
