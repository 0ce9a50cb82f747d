//! Memory that outlives the process: a file on a file system in memory, mapped. It must not know what is put there.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, compiler_fence};

use lode_store::RecordMemory;
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, open, statfs};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// What `statfs` calls a tmpfs and a ramfs.
const TMPFS_MAGIC: i64 = 0x0102_1994;
const RAMFS_MAGIC: i64 = 0x8584_58f6;

/// Whether what is written below `path` stays in memory.
pub fn is_in_memory(path: &Path) -> io::Result<bool> {
    let kind = i64::from(statfs(path)?.f_type as u32);
    Ok(kind == TMPFS_MAGIC || kind == RAMFS_MAGIC)
}

/// A mapped file of zeroes at first. Its owner alone may read and write it.
#[derive(Debug)]
pub struct SharedMemory {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to this value alone, and any thread may write to it.
unsafe impl Send for SharedMemory {}

impl SharedMemory {
    /// Makes the file `path` anew, in place of whatever had this name, and maps it. All its memory is taken now, so that
    /// no later write finds none.
    pub fn create(path: &Path, length: usize) -> io::Result<SharedMemory> {
        let new = path.with_extension("new");
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = open(&new, flags, Mode::RUSR | Mode::WUSR)?;
        let memory = SharedMemory::map(file, length);
        let memory = memory.and_then(|memory| std::fs::rename(&new, path).map(|()| memory));
        if memory.is_err() {
            // It has failed already, and what is left over is replaced by the next one.
            let _ = std::fs::remove_file(&new);
        }
        memory
    }

    fn map(file: OwnedFd, length: usize) -> io::Result<SharedMemory> {
        fallocate(&file, FallocateFlags::empty(), 0, length as u64)?;
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: a new mapping at an address that the kernel chooses changes nothing that exists. The file was made
        // here and has a name that only its owner may open, so that nobody else makes it shorter.
        let start = unsafe { mmap(std::ptr::null_mut(), length, access, flags, &file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("a mapping at address 0"))?;
        drop(File::from(file));
        Ok(SharedMemory { start, length })
    }
}

impl RecordMemory for SharedMemory {
    fn put(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset.checked_add(bytes.len()).is_some_and(|end| end <= self.length), "within the mapping");
        // SAFETY: the range lies within the mapping, which lives as long as this value and which nobody else in this
        // process has a pointer to.
        unsafe { self.start.as_ptr().add(offset).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        // Whoever looks at the memory after this process died must find what was put there in this order, and before
        // what was sent to anybody: the processor keeps it, and this the compiler.
        compiler_fence(Ordering::SeqCst);
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing points into it any more.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), self.length) };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn what_is_put_there_is_in_the_file_and_its_owners_alone() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("records");
        std::fs::write(&path, "something older").unwrap();
        let mut memory = SharedMemory::create(&path, 8192).unwrap();
        memory.put(4090, &[1, 2, 3, 4, 5, 6, 7, 8]);
        drop(memory);
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!((bytes.len(), &bytes[4088..4100]), (8192, &[0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0][..]));
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(!folder.path().join("records.new").exists());
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        assert!(SharedMemory::create(Path::new("/nonexistent/records"), 4096).is_err());
        assert!(is_in_memory(Path::new("/nonexistent")).is_err());
    }
}
