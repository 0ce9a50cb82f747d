//! What tells one backing disk from another of the same size: names of devices change with the order in which they
//! are found, and paths lead to what somebody put there. It must not know what is on a disk.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rustix::fs::{major, minor, statfs};

/// File systems in user space may number their files anew at each mount.
const FUSE_MAGIC: u64 = 0x6573_5546;

/// The attributes of a device in which drivers put a name that stays, best first.
const NAMES: [&str; 6] = ["dm/uuid", "wwid", "device/wwid", "device/serial", "serial", "loop/backing_file"];

/// A text that stays the same for one disk, however it is reached. `None`: there is nothing to tell it by.
pub(crate) fn identify(path: &Path) -> Option<String> {
    let found = std::fs::metadata(path).ok()?;
    if found.file_type().is_block_device() {
        identify_device(&device_folder(&found))
    } else {
        identify_file(path, &found)
    }
}

fn identify_file(path: &Path, found: &Metadata) -> Option<String> {
    if statfs(path).ok()?.f_type as u64 == FUSE_MAGIC {
        return None;
    }
    // The number alone is soon given to another file.
    let born = found.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(format!("file {} born {}.{:09}", found.ino(), born.as_secs(), born.subsec_nanos()))
}

fn device_folder(found: &Metadata) -> PathBuf {
    let device = found.rdev();
    let link = PathBuf::from(format!("/sys/dev/block/{}:{}", major(device), minor(device)));
    std::fs::canonicalize(&link).unwrap_or(link)
}

/// `folder` is the device's in sysfs; a partition's lies in that of its disk.
fn identify_device(folder: &Path) -> Option<String> {
    let read = |file: PathBuf| Some(std::fs::read_to_string(file).ok()?.trim().to_owned());
    let name =
        |folder: &Path| NAMES.iter().filter_map(|name| read(folder.join(name))).find(|name| !name.is_empty());
    match read(folder.join("partition")) {
        Some(number) => Some(format!("partition {number} of {}", name(folder.parent()?)?)),
        None => Some(format!("device {}", name(folder)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_is_itself_under_any_name_and_no_other() {
        let folder = tempfile::TempDir::new().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        fs::write(&one, "1").unwrap();
        fs::write(&two, "2").unwrap();
        let Some(before) = identify(&one) else {
            return lode_testdata::skip("this file system does not say when files were made");
        };
        fs::write(&one, "other bytes").unwrap();
        fs::rename(&one, folder.path().join("three")).unwrap();
        assert_eq!(identify(&folder.path().join("three")), Some(before.clone()));
        assert_ne!(identify(&two), Some(before.clone()));
        fs::copy(folder.path().join("three"), &one).unwrap();
        assert_ne!(identify(&one), Some(before), "a copy is another file");
        assert_eq!(identify(&folder.path().join("none")), None);
    }

    #[test]
    fn a_device_is_known_by_the_best_name_that_its_driver_gives() {
        let folder = tempfile::TempDir::new().unwrap();
        let disk = folder.path().join("sda");
        fs::create_dir_all(disk.join("device")).unwrap();
        assert_eq!(identify_device(&disk), None);
        fs::write(disk.join("device/serial"), " 42 \n").unwrap();
        fs::write(disk.join("serial"), "\n").unwrap();
        assert_eq!(identify_device(&disk).as_deref(), Some("device 42"));
        fs::write(disk.join("device/wwid"), "naa.5000\n").unwrap();
        assert_eq!(identify_device(&disk).as_deref(), Some("device naa.5000"));
        let part = disk.join("sda3");
        fs::create_dir(&part).unwrap();
        fs::write(part.join("partition"), "3\n").unwrap();
        assert_eq!(identify_device(&part).as_deref(), Some("partition 3 of naa.5000"));
    }
}
