//! Recognises what a device already holds, so that formatting can refuse. Recognises; never parses
//! further, and trusts no length or offset it finds. It must not know how bytes are read.
//!
//! Offsets and magic numbers are those of the formats' own specifications.

/// A fixed byte string at a fixed place.
struct Magic {
    name: &'static str,
    offset_bytes: u64,
    bytes: &'static [u8],
}

const fn magic(name: &'static str, offset_bytes: u64, bytes: &'static [u8]) -> Magic {
    Magic { name, offset_bytes, bytes }
}

/// Layers below a file system: what they hold may look like a file system too, so they are asked first.
const CONTAINERS: &[Magic] = &[
    magic("LUKS encrypted volume", 0, b"LUKS\xba\xbe"),
    magic("LUKS encrypted volume (second header)", 0x4000, b"SKUL\xba\xbe"),
    magic(
        "bcache device",
        4096 + 24,
        &[0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba, 0x6d, 0x81],
    ),
    magic("QCOW2 image", 0, b"QFI\xfb"),
];

const FILE_SYSTEMS: &[Magic] = &[
    magic("XFS file system", 0, b"XFSB"),
    magic("btrfs file system", 0x10040, b"_BHRfS_M"),
    magic("f2fs file system", 1024, &[0x10, 0x20, 0xf5, 0xf2]),
    magic("squashfs file system", 0, b"hsqs"),
    magic("squashfs file system", 0, b"sqsh"),
    magic("ISO 9660 file system", 0x8001, b"CD001"),
    magic("NTFS file system", 3, b"NTFS    "),
    magic("exFAT file system", 3, b"EXFAT   "),
];

const SECTOR_BYTES: u64 = 512;
/// Page sizes of the machines that may have written a swap header.
const SWAP_PAGE_BYTES: [u64; 5] = [4096, 8192, 16384, 32768, 65536];
const MD_MAGIC: u32 = 0xa92b_4efc;
const ZFS_LABEL_BYTES: u64 = 256 << 10;
/// The second half of a label is a ring of uberblocks.
const ZFS_RING_BYTES: u64 = 128 << 10;
const ZFS_UBERBLOCK: u64 = 0x00ba_b10c;

/// What a device of `size_bytes` holds, or none when nothing known is found (which is no proof that it is
/// empty). `read(offset_bytes, length_bytes)` returns exactly that many bytes and is never asked for bytes
/// beyond `size_bytes`; its error ends the search.
pub fn identify<E>(
    size_bytes: u64,
    read: impl FnMut(u64, usize) -> Result<Vec<u8>, E>,
) -> Result<Option<&'static str>, E> {
    let mut device = Device { size_bytes, read };
    let mut found = device.first_of(CONTAINERS)?;
    let questions = [Device::raid, Device::lvm, Device::zfs, Device::swap, Device::ext];
    for question in questions {
        if found.is_none() {
            found = question(&mut device)?;
        }
    }
    if found.is_none() {
        found = device.first_of(FILE_SYSTEMS)?;
    }
    // Last: the other formats leave room for these in front of them.
    for question in [Device::fat, Device::gpt, Device::mbr] {
        if found.is_none() {
            found = question(&mut device)?;
        }
    }
    Ok(found)
}

struct Device<R> {
    size_bytes: u64,
    read: R,
}

type Found<E> = Result<Option<&'static str>, E>;

impl<E, R: FnMut(u64, usize) -> Result<Vec<u8>, E>> Device<R> {
    /// The bytes, or none of them where the device is too small to hold them all.
    fn bytes(&mut self, offset_bytes: u64, length_bytes: usize) -> Result<Vec<u8>, E> {
        match offset_bytes.checked_add(length_bytes as u64) {
            Some(end) if end <= self.size_bytes => (self.read)(offset_bytes, length_bytes),
            _ => Ok(Vec::new()),
        }
    }

    fn has(&mut self, offset_bytes: u64, wanted: &[u8]) -> Result<bool, E> {
        Ok(self.bytes(offset_bytes, wanted.len())? == wanted)
    }

    fn first_of(&mut self, magics: &[Magic]) -> Found<E> {
        for magic in magics {
            if self.has(magic.offset_bytes, magic.bytes)? {
                return Ok(Some(magic.name));
            }
        }
        Ok(None)
    }

    fn raid(&mut self) -> Found<E> {
        let sectors = self.size_bytes / SECTOR_BYTES;
        // Version 1.1 at the start, 1.2 at 4 KiB, 1.0 at 8 to 12 KiB before the end.
        let at_end = sectors.checked_sub(16).map(|sector| sector / 8 * 8 * SECTOR_BYTES);
        for offset_bytes in [Some(0), Some(4096), at_end].into_iter().flatten() {
            let header = self.bytes(offset_bytes, 8)?;
            if le32(&header, 0) == Some(MD_MAGIC) && le32(&header, 4) == Some(1) {
                return Ok(Some("Linux RAID member"));
            }
        }
        // Version 0.90 in the last whole 64 KiB but one, in the byte order of the machine that wrote it.
        if let Some(sector) = (sectors / 128 * 128).checked_sub(128) {
            let header = self.bytes(sector * SECTOR_BYTES, 8)?;
            let magic = le32(&header, 0);
            if magic == Some(MD_MAGIC) || magic == Some(MD_MAGIC.swap_bytes()) {
                return Ok(Some("Linux RAID member"));
            }
        }
        Ok(None)
    }

    fn lvm(&mut self) -> Found<E> {
        for sector in 0..4 {
            let label = self.bytes(sector * SECTOR_BYTES, 32)?;
            if label.starts_with(b"LABELONE") && label.ends_with(b"LVM2 001") {
                return Ok(Some("LVM2 physical volume"));
            }
        }
        Ok(None)
    }

    /// Two labels at the start and two at the end; an uberblock in any of them will do.
    fn zfs(&mut self) -> Found<E> {
        let whole = self.size_bytes / ZFS_LABEL_BYTES * ZFS_LABEL_BYTES;
        let at_end = [2, 1].map(|count| whole.checked_sub(count * ZFS_LABEL_BYTES));
        for label in [Some(0), Some(ZFS_LABEL_BYTES)].into_iter().chain(at_end).flatten() {
            let ring = self.bytes(label + ZFS_LABEL_BYTES - ZFS_RING_BYTES, ZFS_RING_BYTES as usize)?;
            let is_uberblock = |block: &[u8]| {
                let magic = le64(block, 0);
                magic == Some(ZFS_UBERBLOCK) || magic == Some(ZFS_UBERBLOCK.swap_bytes())
            };
            if ring.chunks(1024).any(is_uberblock) {
                return Ok(Some("ZFS pool member"));
            }
        }
        Ok(None)
    }

    fn swap(&mut self) -> Found<E> {
        for page in SWAP_PAGE_BYTES {
            match self.bytes(page - 10, 10)?.as_slice() {
                b"SWAPSPACE2" | b"SWAP-SPACE" => return Ok(Some("swap space")),
                bytes if bytes.starts_with(b"S1SUSPEND") || bytes.starts_with(b"S2SUSPEND") => {
                    return Ok(Some("swap space with a suspended system"));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    fn ext(&mut self) -> Found<E> {
        const HAS_JOURNAL: u32 = 0x4;
        const IS_JOURNAL: u32 = 0x8;
        /// Extents, 64 bit, MMP, flexible groups, and everything newer.
        const EXT4_INCOMPAT: u32 = !0x3f;
        /// Huge files, group checksums, large directories, large inodes, metadata checksums.
        const EXT4_READ_ONLY_COMPAT: u32 = 0x478;
        /// Block sizes go up to 1 KiB << 6.
        const MAX_LOG_BLOCK: u32 = 6;
        let superblock = self.bytes(1024, 0x68)?;
        let field = |at| le32(&superblock, at).unwrap_or(0);
        let is_ext = superblock.get(0x38..0x3a) == Some(&[0x53, 0xef]) && field(0x18) <= MAX_LOG_BLOCK;
        let (compat, incompat, read_only) = (field(0x5c), field(0x60), field(0x64));
        Ok(is_ext.then_some(if incompat & IS_JOURNAL != 0 {
            "external ext4 journal"
        } else if incompat & EXT4_INCOMPAT != 0 || read_only & EXT4_READ_ONLY_COMPAT != 0 {
            "ext4 file system"
        } else if compat & HAS_JOURNAL != 0 {
            "ext3 file system"
        } else {
            "ext2 file system"
        }))
    }

    fn fat(&mut self) -> Found<E> {
        let sector = self.bytes(0, SECTOR_BYTES as usize)?;
        let names: [(usize, &[u8]); 4] =
            [(0x36, b"FAT12   "), (0x36, b"FAT16   "), (0x36, b"FAT     "), (0x52, b"FAT32   ")];
        let named = names.iter().any(|(at, name)| sector.get(*at..at + name.len()) == Some(*name));
        Ok((named && has_boot_mark(&sector)).then_some("FAT file system"))
    }

    /// In the second logical block, and a copy in the last one.
    fn gpt(&mut self) -> Found<E> {
        for block in [SECTOR_BYTES, 4096] {
            for offset_bytes in [Some(block), self.size_bytes.checked_sub(block)].into_iter().flatten() {
                if self.has(offset_bytes, b"EFI PART")? {
                    return Ok(Some("GPT partition table"));
                }
            }
        }
        Ok(None)
    }

    fn mbr(&mut self) -> Found<E> {
        let sector = self.bytes(0, SECTOR_BYTES as usize)?;
        let Some(table) = sector.get(446..510) else { return Ok(None) };
        let mut entries = table.chunks_exact(16);
        let plausible = entries.clone().all(|entry| entry[0] & 0x7f == 0);
        let used = entries.any(|entry| entry[4] != 0 && le32(entry, 12).is_some_and(|count| count != 0));
        Ok((has_boot_mark(&sector) && plausible && used).then_some("MBR partition table"))
    }
}

fn has_boot_mark(sector: &[u8]) -> bool {
    sector.get(510..512) == Some(&[0x55, 0xaa])
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|raw| u32::from_le_bytes(*raw))
}

fn le64(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|raw| u64::from_le_bytes(*raw))
}

#[cfg(test)]
mod tests;
