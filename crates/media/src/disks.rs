//! On which disks a file or block device lies, as far as the system tells: a flush that fails on one of them may have
//! lost what anybody wrote there.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{major, makedev, minor};

/// Devices on devices on devices; more is taken for a circle.
const MOST_LAYERS: u32 = 16;

/// The disks under a file or device, by their numbers. Where the system tells nothing it is the device of the file.
pub fn disks_under(path: &Path) -> std::io::Result<BTreeSet<u64>> {
    let device = device_of(&fs::metadata(path)?);
    let mut disks = BTreeSet::new();
    add_disks(Path::new("/sys/dev/block"), device, MOST_LAYERS, &mut disks);
    Ok(disks)
}

/// The device that a file lies on, or that it is.
fn device_of(found: &Metadata) -> u64 {
    if found.file_type().is_block_device() { found.rdev() } else { found.dev() }
}

fn add_disks(sys: &Path, device: u64, layers: u32, disks: &mut BTreeSet<u64>) {
    let below = if layers == 0 { Vec::new() } else { devices_below(sys, device) };
    if below.is_empty() {
        disks.insert(device);
    }
    for device in below {
        add_disks(sys, device, layers - 1, disks);
    }
}

/// The disk of a partition, the members of a mapped or striped device, the device of a loop device's file.
fn devices_below(sys: &Path, device: u64) -> Vec<u64> {
    let about = sys.join(format!("{}:{}", major(device), minor(device)));
    if about.join("partition").exists() {
        let disk = fs::canonicalize(&about).ok().and_then(|real| number_in(real.parent()?.join("dev")));
        return disk.into_iter().collect();
    }
    if let Ok(file) = fs::read_to_string(about.join("loop/backing_file")) {
        let below = fs::metadata(file.trim_end()).ok().map(|found| device_of(&found));
        return below.into_iter().filter(|&below| below != device).collect();
    }
    let slaves = fs::read_dir(about.join("slaves")).into_iter().flatten().flatten();
    slaves.filter_map(|slave| number_in(slave.path().join("dev"))).collect()
}

/// The device number in a file like `8:1`.
fn number_in(file: PathBuf) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let (major, minor) = text.trim_end().split_once(':')?;
    Some(makedev(major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn partitions_and_mapped_devices_lie_on_their_disks() {
        let folder = tempfile::TempDir::new().unwrap();
        let sys = folder.path();
        let about = |name: &str, number: &str| {
            let about = sys.join("devices").join(name);
            fs::create_dir_all(&about).unwrap();
            fs::write(about.join("dev"), format!("{number}\n")).unwrap();
            symlink(&about, sys.join(number)).unwrap();
            about
        };
        about("sda", "8:0");
        fs::write(about("sda/sda1", "8:1").join("partition"), "1\n").unwrap();
        about("sdb", "8:16");
        let mapped = about("dm-0", "253:0").join("slaves");
        fs::create_dir(&mapped).unwrap();
        symlink(sys.join("devices/sda/sda1"), mapped.join("sda1")).unwrap();
        symlink(sys.join("devices/sdb"), mapped.join("sdb")).unwrap();
        let disks = |major, minor| {
            let mut disks = BTreeSet::new();
            add_disks(sys, makedev(major, minor), MOST_LAYERS, &mut disks);
            disks
                .into_iter()
                .map(|disk| (rustix::fs::major(disk), rustix::fs::minor(disk)))
                .collect::<Vec<_>>()
        };
        assert_eq!(disks(8, 1), [(8, 0)]);
        assert_eq!(disks(253, 0), [(8, 0), (8, 16)]);
        assert_eq!(disks(0, 42), [(0, 42)], "nothing is known of it");
    }

    #[test]
    fn two_files_of_one_folder_lie_on_the_same_disks() {
        let folder = tempfile::TempDir::new().unwrap();
        let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
        fs::write(&one, "1").unwrap();
        fs::write(&other, "2").unwrap();
        let disks = disks_under(&one).unwrap();
        assert!(!disks.is_empty());
        assert_eq!(disks, disks_under(&other).unwrap());
        assert!(disks_under(&folder.path().join("none")).is_err());
    }
}
