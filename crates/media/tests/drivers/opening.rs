//! Opening files: creation, direct I/O, locks, types, and a real block device where one can be made.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::both;
use crate::common::{self, gather};
use lode_media::{AnyDriver, Direct, Driver, FaultKind, Lock, MediaFault, MediaFile, OpenOptions, Payload};
use lode_types::{Buf, CommandKind, MediaError};

fn fault(path: &Path, options: &OpenOptions) -> MediaFault {
    match MediaFile::open(path, options) {
        Ok(_) => panic!("{} must not open", path.display()),
        Err(fault) => {
            assert_eq!(fault.path(), Some(path));
            fault
        }
    }
}

#[test]
fn creates_a_sparse_file_of_the_size_asked_for() {
    use std::os::unix::fs::MetadataExt;
    let folder = common::folder();
    let path = folder.path().join("new");
    let options = OpenOptions { create_size: Some(1 << 30), ..OpenOptions::default() };
    let file = MediaFile::open(&path, &options).unwrap();
    assert_eq!((file.size_bytes(), file.path(), file.is_block_device()), (1 << 30, path.as_path(), false));
    let metadata = std::fs::metadata(&path).unwrap();
    assert_eq!(metadata.len(), 1 << 30);
    assert!(metadata.blocks() < 1000, "nothing is preallocated");
    assert_eq!(metadata.mode() & 0o777, 0o600);
    drop(file);
    // It exists now: the same size is fine, another is not, none takes it as it is.
    assert!(MediaFile::open(&path, &options).is_ok());
    let other = OpenOptions { create_size: Some(1 << 20), ..OpenOptions::default() };
    assert_eq!(fault(&path, &other).kind(), FaultKind::Mismatch);
    assert!(MediaFile::open(&path, &OpenOptions::default()).is_ok());
    // An impossible size leaves nothing behind.
    let path = folder.path().join("impossible");
    let options = OpenOptions { create_size: Some(1 << 62), ..OpenOptions::default() };
    fault(&path, &options);
    assert!(!path.exists());
}

#[test]
fn refuses_what_is_no_disk() {
    let folder = common::folder();
    let options = OpenOptions::default();
    assert_eq!(fault(&folder.path().join("absent"), &options).kind(), FaultKind::NotFound);
    assert_eq!(fault(folder.path(), &options).kind(), FaultKind::Mismatch);
    assert_eq!(fault(Path::new("/dev/null"), &options).kind(), FaultKind::Mismatch);
    let empty = folder.path().join("empty");
    std::fs::write(&empty, b"").unwrap();
    assert_eq!(fault(&empty, &options).kind(), FaultKind::Mismatch);
    let fifo = folder.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
    assert_eq!(fault(&fifo, &options).kind(), FaultKind::Mismatch);
    let nowhere = OpenOptions { create_size: Some(4096), ..options };
    assert_eq!(fault(&folder.path().join("absent/new"), &nowhere).kind(), FaultKind::NotFound);
}

#[test]
fn one_owner_at_a_time() {
    let folder = common::folder();
    let path = folder.path().join("file");
    let options = OpenOptions { create_size: Some(1 << 20), ..OpenOptions::default() };
    let first = MediaFile::open(&path, &options).unwrap();
    let refused = fault(&path, &options);
    assert_eq!(refused.kind(), FaultKind::Busy);
    if Path::new("/proc/locks").exists() {
        let me = format!("process {}", std::process::id());
        assert!(refused.to_string().contains(&me), "{refused}");
    }
    // Whoever does not lock may look; a clone keeps the lock.
    let look = OpenOptions { write: false, lock: Lock::None, ..OpenOptions::default() };
    assert!(MediaFile::open(&path, &look).is_ok());
    let clone = first.clone();
    drop(first);
    assert_eq!(fault(&path, &options).kind(), FaultKind::Busy);
    drop(clone);
    assert!(MediaFile::open(&path, &options).is_ok());
}

#[test]
fn direct_where_possible_and_never_by_halves() {
    let folder = common::folder();
    let path = folder.path().join("odd");
    std::fs::write(&path, vec![3; 10_001]).unwrap();
    // Its last bytes could not be reached by direct I/O.
    let file = MediaFile::open(&path, &OpenOptions::default()).unwrap();
    assert!(!file.is_direct());
    assert_eq!(file.read_now(10_000, 1).unwrap().as_slice(), [3]);
    drop(file);
    let require = OpenOptions { direct: Direct::Require, ..OpenOptions::default() };
    assert_eq!(fault(&path, &require).kind(), FaultKind::Unsupported);
    std::fs::write(&path, vec![3; 8192]).unwrap();
    match MediaFile::open(&path, &require) {
        Err(fault) => lode_testdata::skip(&fault),
        Ok(file) => {
            assert!(file.is_direct() && matches!(file.logical_block_bytes(), 512..=4096));
            assert_eq!(file.identify().unwrap(), None);
            assert_eq!(file.read_now(1, 512).err(), Some(MediaError::Io));
        }
    }
}

/// A loop device over a file, detached when dropped.
struct Loop(PathBuf);

impl Loop {
    fn over(path: &Path) -> Option<Loop> {
        let output =
            Command::new("losetup").args(["--find", "--show", "--direct-io=on"]).arg(path).output().ok()?;
        let name = String::from_utf8(output.stdout).ok()?;
        if output.status.success() { Some(Loop(PathBuf::from(name.trim_end()))) } else { None }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

both!(a_block_device, |driver: &mut AnyDriver| {
    let folder = common::folder();
    let path = folder.path().join("disk");
    std::fs::write(&path, vec![8; 1 << 20]).unwrap();
    let Some(device) = Loop::over(&path) else {
        lode_testdata::skip("no loop device can be made here");
        return;
    };
    let options = OpenOptions::default();
    let media = MediaFile::open(&device.0, &options).unwrap();
    assert!(media.is_block_device() && media.is_direct());
    assert_eq!(media.size_bytes(), 1 << 20);
    assert_eq!(fault(&device.0, &options).kind(), FaultKind::Busy);
    let file = driver.add_file(media);
    driver.submit(0, file, CommandKind::write(0, Buf::copy_of(&[1; 8192])));
    let zeroes = |offset_bytes, unmap| CommandKind::WriteZeroes { offset_bytes, length_bytes: 8192, unmap };
    driver.submit(1, file, zeroes(65_536, false));
    driver.submit(2, file, CommandKind::Trim { offset_bytes: 131_072, length_bytes: 65_536 });
    driver.submit(3, file, zeroes(262_144 + 512, true));
    assert!(gather(driver, 4).iter().all(|done| done.result.is_ok()));
    driver.submit(0, file, CommandKind::Flush);
    driver.submit(1, file, CommandKind::read(0, Buf::zeroed(1 << 20)));
    driver.submit(2, file, CommandKind::read((1 << 20) - 512, Buf::zeroed(4096)));
    let done = gather(driver, 3);
    assert_eq!((done[0].result, done[1].result, done[2].result), (Ok(0), Ok(1 << 20), Err(MediaError::Io)));
    let Payload::Bufs(bufs) = &done[1].payload else { panic!("no buffers") };
    let buf = &bufs[0];
    for (at, byte) in buf.as_slice().iter().enumerate() {
        match at {
            0..8192 => assert_eq!(*byte, 1),
            65_536..73_728 => assert_eq!(*byte, 0),
            262_656..270_848 => assert_eq!(*byte, 0),
            131_072..196_608 => assert!(matches!(*byte, 0 | 8)),
            _ => assert_eq!(*byte, 8, "at {at}"),
        }
    }
    driver.remove_file(file);
});
