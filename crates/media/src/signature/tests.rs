//! Synthetic headers, and images made by the real tools where they are installed.

use std::convert::Infallible;
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::identify;
use crate::{Direct, MediaFile, OpenOptions};

const SIZE_BYTES: usize = (4 << 20) + 3 * 4096 + 512;

fn identify_bytes(bytes: &[u8]) -> Option<&'static str> {
    let read = |offset: u64, length: usize| Ok::<_, Infallible>(bytes[offset as usize..][..length].to_vec());
    match identify(bytes.len() as u64, read) {
        Ok(found) => found,
        Err(never) => match never {},
    }
}

/// An image of zeroes with some bytes put in.
fn image(parts: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; SIZE_BYTES];
    for (at, part) in parts {
        bytes[*at..at + part.len()].copy_from_slice(part);
    }
    bytes
}

#[test]
fn empty_devices_hold_nothing() {
    assert_eq!(identify_bytes(&image(&[])), None);
    for size in [0, 1, 511, 512, 513, 4096, 8192, 65536, 262_144] {
        assert_eq!(identify_bytes(&vec![0; size]), None, "{size} bytes");
    }
}

#[test]
fn fixed_magics() {
    let cases: &[(&str, usize, &[u8])] = &[
        ("LUKS encrypted volume", 0, b"LUKS\xba\xbe\x00\x02"),
        ("XFS file system", 0, b"XFSB\0\0\x10\0"),
        ("btrfs file system", 65_536 + 64, b"_BHRfS_M"),
        ("f2fs file system", 1024, &0xf2f5_2010_u32.to_le_bytes()),
        ("swap space", 4086, b"SWAPSPACE2"),
        ("swap space", 65_526, b"SWAPSPACE2"),
        ("QCOW2 image", 0, b"QFI\xfb\0\0\0\x03"),
        ("squashfs file system", 0, b"hsqs"),
        ("ISO 9660 file system", 32_768, b"\x01CD001\x01"),
        ("NTFS file system", 0, b"\xeb\x52\x90NTFS    "),
        ("GPT partition table", 512, b"EFI PART"),
        ("GPT partition table", 4096, b"EFI PART"),
        ("GPT partition table", SIZE_BYTES - 512, b"EFI PART"),
        ("bcache device", 4120, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"),
    ];
    for (name, at, bytes) in cases {
        assert_eq!(identify_bytes(&image(&[(*at, bytes)])), Some(*name));
        let mut damaged = bytes.to_vec();
        damaged.iter_mut().for_each(|byte| *byte ^= 0x10);
        assert_eq!(identify_bytes(&image(&[(*at, &damaged)])), None, "{name} damaged");
    }
}

#[test]
fn ext_generations() {
    let ext = |compat: u32, incompat: u32, read_only: u32| {
        let features = [compat, incompat, read_only].map(u32::to_le_bytes).concat();
        identify_bytes(&image(&[(1080, &[0x53, 0xef]), (1024 + 0x5c, &features)]))
    };
    assert_eq!(ext(0x38, 0x2, 0x1), Some("ext2 file system"));
    assert_eq!(ext(0x3c, 0x2, 0x3), Some("ext3 file system"));
    assert_eq!(ext(0x3c, 0x242, 0x7b), Some("ext4 file system"));
    assert_eq!(ext(0, 0x8, 0), Some("external ext4 journal"));
    let absurd_block_size = image(&[(1080, &[0x53, 0xef]), (1024 + 0x18, &[77])]);
    assert_eq!(identify_bytes(&absurd_block_size), None);
}

#[test]
fn raid_versions_hide_the_file_system_inside() {
    let version_1 = [0xa92b_4efc_u32.to_le_bytes(), 1u32.to_le_bytes()].concat();
    let sectors = SIZE_BYTES / 512;
    let at_end = (sectors - 16) / 8 * 8 * 512;
    for at in [0, 4096, at_end] {
        let bytes = image(&[(1080, &[0x53, 0xef]), (at, &version_1)]);
        assert_eq!(identify_bytes(&bytes), Some("Linux RAID member"), "at {at}");
    }
    let at_090 = sectors / 128 * 128 * 512 - 65_536;
    for header in [0xa92b_4efc_u32.to_le_bytes(), 0xa92b_4efc_u32.to_be_bytes()] {
        assert_eq!(identify_bytes(&image(&[(at_090, &header)])), Some("Linux RAID member"));
    }
}

#[test]
fn lvm_label_in_any_of_the_first_four_sectors() {
    for sector in 0..5 {
        let bytes = image(&[(sector * 512, b"LABELONE"), (sector * 512 + 24, b"LVM2 001")]);
        assert_eq!(identify_bytes(&bytes), (sector < 4).then_some("LVM2 physical volume"));
    }
}

#[test]
fn zfs_uberblock_in_any_label_and_byte_order() {
    let whole = SIZE_BYTES / (256 << 10) * (256 << 10);
    for label in [0, 256 << 10, whole - (512 << 10), whole - (256 << 10)] {
        for raw in [0x00ba_b10c_u64.to_le_bytes(), 0x00ba_b10c_u64.to_be_bytes()] {
            let bytes = image(&[(label + (128 << 10) + 7 * 1024, &raw)]);
            assert_eq!(identify_bytes(&bytes), Some("ZFS pool member"));
        }
    }
}

#[test]
fn boot_sectors() {
    let mark: (usize, &[u8]) = (510, &[0x55, 0xaa]);
    let partition = [0x80, 0, 2, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 0, 1, 0];
    assert_eq!(identify_bytes(&image(&[mark])), None, "a boot mark alone");
    assert_eq!(identify_bytes(&image(&[mark, (462, &partition)])), Some("MBR partition table"));
    assert_eq!(identify_bytes(&image(&[(462, &partition)])), None, "no boot mark");
    let boot_code = image(&[mark, (446, &[0x13; 64])]);
    assert_eq!(identify_bytes(&boot_code), None, "code where the table would be");
    assert_eq!(identify_bytes(&image(&[mark, (0x52, b"FAT32   ")])), Some("FAT file system"));
    assert_eq!(identify_bytes(&image(&[mark, (0x36, b"FAT16   ")])), Some("FAT file system"));
    let protective = image(&[mark, (462, &partition), (512, b"EFI PART")]);
    assert_eq!(identify_bytes(&protective), Some("GPT partition table"));
}

#[test]
fn a_read_error_is_not_an_empty_device() {
    assert_eq!(identify(1 << 20, |_, _| Err::<Vec<u8>, _>("bad sector")), Err("bad sector"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn hostile_bytes_never_panic_and_reads_stay_inside(
        size in 0usize..200_000, seed in proptest::collection::vec(any::<u8>(), 1..600), at in 0usize..100_000,
    ) {
        let mut bytes = vec![0xff; size];
        for (index, byte) in seed.iter().enumerate() {
            if let Some(slot) = bytes.get_mut(at % size.max(1) + index) {
                *slot = *byte;
            }
        }
        // Out-of-range reads would panic in the slice.
        identify_bytes(&bytes);
    }
}

/// Makes an image with a tool and identifies it through the media file; `None` if the tool is absent.
fn made_by(tool: &str, arguments: &[&str]) -> Option<Option<&'static str>> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    std::fs::File::create(&path).unwrap().set_len(320 << 20).unwrap();
    let found = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(|folder| format!("{folder}/{tool}"));
    let program = found.into_iter().find(|program| std::path::Path::new(program).exists())?;
    let outcome =
        Command::new(program).args(arguments).arg(&path).stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(outcome.unwrap().success(), "{tool} failed");
    let options = OpenOptions { write: false, direct: Direct::Prefer, ..OpenOptions::default() };
    Some(MediaFile::open(&path, &options).unwrap().identify().unwrap())
}

#[test]
fn images_made_by_the_real_tools() {
    let cases: &[(&str, &[&str], &str)] = &[
        ("mkfs.ext2", &["-q", "-F"], "ext2 file system"),
        ("mkfs.ext3", &["-q", "-F"], "ext3 file system"),
        ("mkfs.ext4", &["-q", "-F"], "ext4 file system"),
        ("mkswap", &[], "swap space"),
        ("mkfs.xfs", &["-q", "-f"], "XFS file system"),
        ("mkfs.btrfs", &["-q", "-f"], "btrfs file system"),
        ("mkfs.vfat", &[], "FAT file system"),
    ];
    for (tool, arguments, name) in cases {
        match made_by(tool, arguments) {
            Some(found) => assert_eq!(found, Some(*name), "{tool}"),
            None => lode_testdata::skip(format_args!("{tool} is not installed")),
        }
    }
}
