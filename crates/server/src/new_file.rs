//! Files that the daemon makes: durably, with all of their space and readable by nobody else, or in the place of others. And where a file beside a disk
//! is. It must not know what is in them.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};

use crate::config::Size;
use crate::error::{ServerError, ServerErrorKind};

const MIB: u64 = 1 << 20;
/// Permission bits that the process's umask decides.
pub(crate) const BY_UMASK: u32 = 0o666;

/// The folder that a path is in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes durable which names a folder has.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    step()?;
    File::open(folder)?.sync_all()
}

/// Has what `fill` writes take the place of a file: whoever reads that, or finds it after a power cut, has what was there before or all that is new. It is
/// written under another name in the same folder first, `new`, where a start that was cut short may have left something. Once [`sync_folder`] has
/// returned as well, a power cut cannot undo it.
///
/// # Errors
/// What was there before stays. Nothing is left under the other name but what nobody could remove.
pub(crate) fn replace(
    path: &Path,
    new: &Path,
    mode: u32,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    step()?;
    match fs::remove_file(new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let write = || {
        step()?;
        let mut file = File::options().write(true).create_new(true).mode(mode).open(new)?;
        step()?;
        fill(&mut file)?;
        step()?;
        file.sync_all()?;
        step()?;
        fs::rename(new, path)
    };
    // It may not have come to be, and the first error is the one that matters.
    write().inspect_err(|_| _ = fs::remove_file(new))
}

/// As [`replace`], with a text, and durably. The process's umask says who may read it.
///
/// # Errors
/// As [`replace`]; or what is new is there, and a power cut may undo it.
pub(crate) fn replace_durably(path: &Path, new: &Path, text: &str) -> io::Result<()> {
    replace(path, new, BY_UMASK, |file| file.write_all(text.as_bytes()))?;
    sync_folder(folder_of(path))
}

/// A step of making a file, which fails where a test wants it to.
#[cfg(not(test))]
fn step() -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
use failing::step;

/// Steps that fail in tests.
#[cfg(test)]
pub(crate) mod failing {
    use std::cell::Cell;
    use std::io;

    thread_local! {
        static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    }

    pub(super) fn step() -> io::Result<()> {
        let left = LEFT.get();
        LEFT.set(left.and_then(|left| left.checked_sub(1)));
        match left {
            Some(0) => Err(io::Error::other("this step was to fail")),
            _ => Ok(()),
        }
    }

    /// Does something once for each of its steps, which fails then, and once without. `check` is told what came of it, and whether a step failed.
    pub(crate) fn at_each_step<T>(mut work: impl FnMut() -> T, mut check: impl FnMut(T, bool)) {
        const MOST_STEPS: u32 = 100;
        for number in 0..MOST_STEPS {
            LEFT.set(Some(number));
            let result = work();
            let has_failed = LEFT.replace(None).is_none();
            check(result, has_failed);
            if !has_failed {
                assert!(number > 5, "it has fewer steps than a file takes");
                return;
            }
        }
        panic!("it never ends");
    }
}

/// The file beside an image whose name ends so, however the image is reached; none of a block device.
pub(crate) fn beside(image: &Path, ending: &str) -> io::Result<Option<PathBuf>> {
    let image = image.canonicalize()?;
    if !image.metadata()?.is_file() {
        return Ok(None);
    }
    let mut path: OsString = image.into();
    path.push(ending);
    Ok(Some(path.into()))
}

/// Creates a file with all its space, unless there is one; returns whether it did. The space is taken now so
/// that a full file system is noticed here and not by a guest.
pub(crate) fn create(path: &Path, size_bytes: u64) -> Result<bool, ServerError> {
    let failure = |text: String, error| ServerError::because(ServerErrorKind::Media, text, error);
    let file = match File::options().write(true).create_new(true).mode(0o600).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => {
            let text =
                format!("Cannot create {}; check that its folder exists and is writable", path.display());
            return Err(failure(text, error));
        }
    };
    let durable = || {
        allocate(&file, size_bytes)?;
        file.sync_all()?;
        sync_folder(folder_of(path))
    };
    durable().map(|()| true).map_err(|error| {
        // The error that matters is the first one; a file left behind is harmless.
        let _ = fs::remove_file(path);
        let size = Size(size_bytes);
        let text = format!(
            "Cannot take {size} for the new file {}; choose a smaller size or another file system",
            path.display()
        );
        failure(text, error)
    })
}

/// Makes the file this long, with space for every byte.
fn allocate(mut file: &File, size_bytes: u64) -> io::Result<()> {
    match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, size_bytes)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        outcome => return Ok(outcome?),
    }
    // This file system cannot promise space; what has been written has it.
    let zeroes = vec![0; MIB as usize];
    let mut left_bytes = size_bytes;
    while left_bytes > 0 {
        let length = left_bytes.min(MIB) as usize;
        file.write_all(&zeroes[..length])?;
        left_bytes -= length as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_new_file_has_all_its_space() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("ssd");
        assert!(create(&path, 3 * MIB + 512).unwrap());
        let found = fs::metadata(&path).unwrap();
        assert_eq!(found.len(), 3 * MIB + 512);
        assert!(found.blocks() * 512 >= 3 * MIB + 512, "{} sectors", found.blocks());
        assert!(!create(&path, MIB).unwrap(), "it exists");
        assert!(create(&folder.path().join("no/ssd"), MIB).is_err());
    }
}
