//! Opening files and block devices: size, alignment of direct I/O, locking. It must not know who reads
//! and writes them afterwards.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use lode_types::{Buf, Bytes, CommandKind, MediaError, PAGE_BYTES};
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom, StatxFlags, flock, fstat, fsync, ftruncate,
    ioctl_blksszget, seek, stat, statx,
};
use rustix::io::{Errno, pread};

use crate::blocking;
use crate::delay::{Access, Delay, HddModel};
use crate::error::{FaultKind, MediaFault, classify};
use crate::holder::lock_holder;
use crate::signature::identify;

/// The unit of 512-byte sectors: what every device without a larger logical block understands.
const SECTOR_BYTES: u32 = 512;

/// Whether to go around the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direct {
    /// Direct I/O where the file system allows it for this file, else through the page cache;
    /// [`MediaFile::is_direct`] tells which.
    Prefer,
    /// Direct I/O, or the open fails.
    Require,
    /// Through the page cache.
    Off,
}

/// Whether to claim the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Nobody else who locks may have it open. An advisory lock (`flock`); on a block device the kernel is
    /// asked as well, so that a mounted device is refused. Held until the last handle is dropped.
    Exclusive,
    /// No claim.
    None,
}

/// How to open a file.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Open for writing as well as reading.
    pub write: bool,
    /// Whether to go around the page cache.
    pub direct: Direct,
    /// Create a sparse file of this many bytes if the path does not exist. If it exists, its size must be
    /// this one.
    pub create_size: Option<u64>,
    /// Whether to claim the file.
    pub lock: Lock,
}

impl Default for OpenOptions {
    /// For reading and writing, direct where possible, claimed, and it must exist.
    fn default() -> OpenOptions {
        OpenOptions { write: true, direct: Direct::Prefer, create_size: None, lock: Lock::Exclusive }
    }
}

/// Size and times of a file, in seconds since 1970 began and nanoseconds. Whoever writes to it changes the last one, which
/// cannot be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileTimes {
    /// Size in bytes.
    pub size_bytes: u64,
    /// When it was written to last.
    pub written: (i64, u32),
    /// When it was written to, renamed, or given other attributes last.
    pub changed: (i64, u32),
}

/// An open regular file or block device.
pub(crate) struct RealFile {
    pub fd: OwnedFd,
    pub is_block_device: bool,
    pub logical_block_bytes: u32,
    path: PathBuf,
    size_bytes: u64,
    is_direct: bool,
    /// Alignment in bytes that direct I/O asks of memory and of the length of each part of it; at most a page.
    memory_align: usize,
    writable: bool,
}

impl RealFile {
    /// Gathers the bytes of a write that are not aligned as the device asks; those of buffers always are.
    pub fn align(&self, kind: &mut CommandKind) {
        let CommandKind::Write { data, .. } = kind else { return };
        let is_aligned =
            |bytes: &Bytes| (bytes.as_ptr() as usize | bytes.len()).is_multiple_of(self.memory_align);
        if self.is_direct && !data.iter().all(is_aligned) {
            let gathered = Buf::copy_of(&data.concat());
            data.clear();
            data.push(gathered.freeze());
        }
    }
}

/// A file or block device to add to a driver. A clone is another handle on the same
/// file: add one to the driver of every thread that shares it.
#[derive(Clone)]
pub struct MediaFile {
    real: Arc<RealFile>,
    delay: Option<Arc<Delay>>,
}

impl MediaFile {
    /// Opens a regular file or block device.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<MediaFile, MediaFault> {
        let real = open_real(path, options).map_err(|fault| fault.at(path))?;
        Ok(MediaFile { real: Arc::new(real), delay: None })
    }

    /// The same file behind the service times of `model`: completions are held back until one spindle,
    /// shared by all clones of the result, would have served them.
    pub fn with_delay(self, model: HddModel) -> MediaFile {
        MediaFile { delay: Some(Arc::new(Delay::new(model))), ..self }
    }

    /// Size in bytes when it was opened. Nothing may be read or written beyond it.
    pub fn size_bytes(&self) -> u64 {
        self.real.size_bytes
    }

    /// With direct I/O, offsets and lengths must be multiples of this (else they fail with
    /// [`MediaError::Io`]); without, it is 512 and any offset will do.
    pub fn logical_block_bytes(&self) -> u32 {
        self.real.logical_block_bytes
    }

    /// Whether the page cache is bypassed.
    pub fn is_direct(&self) -> bool {
        self.real.is_direct
    }

    /// Whether this is a block device rather than a file.
    pub fn is_block_device(&self) -> bool {
        self.real.is_block_device
    }

    /// Where it was opened.
    pub fn path(&self) -> &Path {
        &self.real.path
    }

    /// Makes everything of it durable, the times that it was written at included.
    pub fn sync_all(&self) -> Result<(), MediaFault> {
        let fault = |errno| MediaFault::system("Cannot flush it; check the device", errno).at(self.path());
        fsync(&self.real.fd).map_err(fault)
    }

    /// Size and times of a file; none of a block device.
    pub fn times(&self) -> Result<Option<FileTimes>, MediaFault> {
        if self.real.is_block_device {
            return Ok(None);
        }
        let fault = |errno| MediaFault::system("Cannot look at its times", errno).at(self.path());
        let found = fstat(&self.real.fd).map_err(fault)?;
        Ok(Some(FileTimes {
            size_bytes: found.st_size as u64,
            written: (found.st_mtime, found.st_mtime_nsec as u32),
            changed: (found.st_ctime, found.st_ctime_nsec as u32),
        }))
    }

    /// Lets others lock a file that is open here. A block device stays claimed on this host.
    pub fn unlock(&self) -> Result<(), MediaFault> {
        let fault = |errno| MediaFault::system("Cannot unlock the file", errno).at(self.path());
        flock(&self.real.fd, FlockOperation::Unlock).map_err(fault)
    }

    /// Locks it again.
    ///
    /// # Errors
    /// [`FaultKind::Busy`] when somebody else has locked it meanwhile.
    pub fn lock(&self) -> Result<(), MediaFault> {
        claim(&self.real.fd).map_err(|fault| fault.at(self.path()))
    }

    /// Carries out one command on the calling thread, which waits for it. For the control thread: formatting,
    /// inspecting. Returns the bytes moved; a read's buffers are filled then.
    pub fn run_now(&self, kind: &mut CommandKind) -> Result<usize, MediaError> {
        self.run_checked(kind).map_err(classify)
    }

    /// The bytes from `offset_bytes`, read as [`MediaFile::run_now`] does.
    pub fn read_now(&self, offset_bytes: u64, length_bytes: usize) -> Result<Buf, MediaError> {
        self.read_checked(offset_bytes, length_bytes).map_err(classify)
    }

    fn read_checked(&self, offset_bytes: u64, length_bytes: usize) -> Result<Buf, Errno> {
        let mut kind = CommandKind::read(offset_bytes, Buf::for_overwrite(length_bytes));
        self.run_checked(&mut kind)?;
        match kind {
            CommandKind::Read { mut bufs, .. } => bufs.pop().ok_or(Errno::IO),
            _ => Err(Errno::IO),
        }
    }

    /// What the file holds already (a file system, a partition table ...), or nothing known.
    pub fn identify(&self) -> Result<Option<&'static str>, MediaFault> {
        identify(self.size_bytes(), |offset_bytes, length_bytes| {
            self.read_unaligned(offset_bytes, length_bytes)
        })
    }

    fn read_unaligned(&self, offset_bytes: u64, length_bytes: usize) -> Result<Vec<u8>, MediaFault> {
        let granule = PAGE_BYTES as u64;
        let start = offset_bytes / granule * granule;
        let end = (offset_bytes + length_bytes as u64).next_multiple_of(granule).min(self.size_bytes());
        let result = self.read_checked(start, (end - start) as usize);
        let fault = |errno| {
            let text = format!("Cannot read {length_bytes} bytes at offset {offset_bytes}; check the device");
            MediaFault::system(text, errno).at(self.path())
        };
        let buf = result.map_err(fault)?;
        let skip = (offset_bytes - start) as usize;
        Ok(buf.as_slice()[skip..skip + length_bytes].to_vec())
    }

    fn run_checked(&self, kind: &mut CommandKind) -> Result<usize, Errno> {
        if let Some(outcome) = self.check(kind) {
            return outcome;
        }
        self.real.align(kind);
        blocking::carry_out(&self.real, kind)
    }

    /// The outcome of a command that needs no device: one of no bytes, or one that no device may see.
    pub(crate) fn check(&self, kind: &CommandKind) -> Option<Result<usize, Errno>> {
        if matches!(kind, CommandKind::Flush) {
            return None;
        }
        let (offset_bytes, length_bytes) = kind.range();
        let writes = !matches!(kind, CommandKind::Read { .. });
        let inside = offset_bytes.checked_add(length_bytes).is_some_and(|end| end <= self.size_bytes());
        if !inside {
            return Some(Err(Errno::IO));
        }
        if writes && !self.real.writable {
            return Some(Err(Errno::BADF));
        }
        let block = u64::from(self.real.logical_block_bytes);
        let aligned = offset_bytes.is_multiple_of(block) && length_bytes.is_multiple_of(block);
        if self.real.is_direct && !aligned && !matches!(kind, CommandKind::Trim { .. }) {
            return Some(Err(Errno::INVAL));
        }
        if length_bytes == 0 { Some(Ok(0)) } else { None }
    }

    /// When the modelled device would finish this command, if there is one.
    pub(crate) fn due(&self, kind: &CommandKind) -> Option<Instant> {
        let delay = self.delay.as_ref()?;
        let (offset_bytes, length_bytes) = kind.range();
        Some(delay.due(match kind {
            CommandKind::Flush | CommandKind::Trim { .. } => Access::Flush,
            _ => Access::Transfer { offset_bytes, length_bytes },
        }))
    }

    pub(crate) fn real(&self) -> &Arc<RealFile> {
        &self.real
    }
}

fn open_real(path: &Path, options: &OpenOptions) -> Result<RealFile, MediaFault> {
    let created = create(path, options)?;
    let is_block_device = check_type(path)?;
    let flags = open_flags(options, is_block_device);
    let want_direct = options.direct != Direct::Off;
    let mut opened = open_with(path, flags, want_direct)?;
    let (size_bytes, alignment) = loop {
        let size_bytes = measure(&opened.0, is_block_device, options.create_size)?;
        match (opened.1, direct_alignment(&opened.0, is_block_device, size_bytes)) {
            (false, _) => break (size_bytes, Alignment::NONE),
            (true, Some(found)) if size_bytes.is_multiple_of(found.logical_block_bytes.into()) => {
                break (size_bytes, found);
            }
            (true, _) if options.direct == Direct::Require => return Err(no_direct()),
            (true, _) => {
                // Closed first: a claim on a block device would stand in its own way.
                drop(opened);
                opened = open_with(path, flags, false)?;
            }
        }
    };
    let (fd, is_direct) = opened;
    if options.direct == Direct::Require && !is_direct {
        return Err(no_direct());
    }
    if options.lock == Lock::Exclusive {
        claim(&fd)?;
    }
    if created {
        persist_name(path)?;
    }
    let path = path.to_path_buf();
    Ok(RealFile {
        fd,
        is_block_device,
        logical_block_bytes: alignment.logical_block_bytes,
        path,
        size_bytes,
        is_direct,
        memory_align: alignment.memory_bytes,
        writable: options.write,
    })
}

fn no_direct() -> MediaFault {
    MediaFault::new(
        FaultKind::Unsupported,
        "Direct I/O does not work on this file; move it to a file system with O_DIRECT and make its size a \
         multiple of 4096, or open it without requiring direct I/O",
    )
}

/// Creates the file if it is to be created and absent. A file that cannot get its size is removed again.
fn create(path: &Path, options: &OpenOptions) -> Result<bool, MediaFault> {
    let Some(size_bytes) = options.create_size else { return Ok(false) };
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let fd = match rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR) {
        Err(Errno::EXIST) => return Ok(false),
        outcome => outcome.map_err(|errno| {
            MediaFault::system("Cannot create the file; check that its folder exists and is writable", errno)
        })?,
    };
    match ftruncate(&fd, size_bytes).and_then(|()| fsync(&fd)) {
        Ok(()) => Ok(true),
        Err(errno) => {
            // The error that matters is the first one; the file is empty and harmless if this fails too.
            let _ = std::fs::remove_file(path);
            let text = format!("Cannot make the new file {size_bytes} bytes long; choose a smaller size");
            Err(MediaFault::system(text, errno))
        }
    }
}

/// Makes the directory entry of a new file survive power loss.
fn persist_name(path: &Path) -> Result<(), MediaFault> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    rustix::fs::open(parent, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .and_then(fsync)
        .map_err(|errno| {
            MediaFault::system("Cannot make the new file's folder durable; check the disk", errno)
        })
}

/// Whether it is a block device. Looked at before opening: opening a FIFO would wait for its other end.
fn check_type(path: &Path) -> Result<bool, MediaFault> {
    let found = stat(path).map_err(|errno| {
        MediaFault::system("Cannot find the file; check the path, or create it with a size", errno)
    })?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Ok(false),
        FileType::BlockDevice => Ok(true),
        other => {
            let what = match other {
                FileType::Directory => "a folder",
                FileType::CharacterDevice => "a character device",
                FileType::Fifo => "a named pipe",
                FileType::Socket => "a socket",
                _ => "of an unknown type",
            };
            let text = format!("It is {what}, neither a regular file nor a block device; give another path");
            Err(MediaFault::new(FaultKind::Mismatch, text))
        }
    }
}

fn open_flags(options: &OpenOptions, is_block_device: bool) -> OFlags {
    let mut flags = OFlags::CLOEXEC | if options.write { OFlags::RDWR } else { OFlags::RDONLY };
    // Without CREATE, EXCL on a block device claims it from mounts, arrays and other claimants.
    flags.set(OFlags::EXCL, is_block_device && options.lock == Lock::Exclusive);
    flags
}

/// Opens the path, falling back from direct to buffered where the file system refuses direct. Returns
/// whether it is direct.
fn open_with(path: &Path, flags: OFlags, direct: bool) -> Result<(OwnedFd, bool), MediaFault> {
    if direct {
        match rustix::fs::open(path, flags | OFlags::DIRECT, Mode::empty()) {
            Ok(fd) => return Ok((fd, true)),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => {}
            Err(errno) => return Err(open_fault(errno)),
        }
    }
    rustix::fs::open(path, flags, Mode::empty()).map(|fd| (fd, false)).map_err(open_fault)
}

fn open_fault(errno: Errno) -> MediaFault {
    MediaFault::system(
        match errno {
            Errno::BUSY => {
                "The device is in use: unmount it, or take it out of its array or volume group, first"
            }
            Errno::ACCESS | Errno::PERM | Errno::ROFS => {
                "Access refused; check owner, permissions and read-only state"
            }
            _ => "Cannot open the file; check the path and the device",
        },
        errno,
    )
}

/// The size, which must not be zero and must be the one asked for.
fn measure(fd: &OwnedFd, is_block_device: bool, wanted: Option<u64>) -> Result<u64, MediaFault> {
    // Seeking to the end gives the size of block devices too; reads and writes carry their own offsets.
    let size_bytes = seek(fd, SeekFrom::End(0))
        .map_err(|errno| MediaFault::system("Cannot find out the size; check the device", errno))?;
    if size_bytes == 0 {
        let text = "The file has no bytes; create it with a size, or give another path";
        return Err(MediaFault::new(FaultKind::Mismatch, text));
    }
    match wanted {
        Some(wanted) if wanted != size_bytes && !is_block_device => Err(MediaFault::new(
            FaultKind::Mismatch,
            format!(
                "The file exists with {size_bytes} bytes, but {wanted} were asked for; remove it or change the size"
            ),
        )),
        _ => Ok(size_bytes),
    }
}

/// What direct I/O asks for.
struct Alignment {
    /// Of offsets and lengths.
    logical_block_bytes: u32,
    /// Of memory.
    memory_bytes: usize,
}

impl Alignment {
    /// Without direct I/O.
    const NONE: Alignment = Alignment { logical_block_bytes: SECTOR_BYTES, memory_bytes: 1 };

    /// What is not told of memory is taken to be the same as for offsets.
    fn of_block(block: u32) -> Alignment {
        let logical_block_bytes = block.max(SECTOR_BYTES);
        Alignment { logical_block_bytes, memory_bytes: logical_block_bytes as usize }
    }
}

/// The alignment of direct I/O on this file, or none if it does not work with page-aligned buffers.
fn direct_alignment(fd: &OwnedFd, is_block_device: bool, size_bytes: u64) -> Option<Alignment> {
    let page = PAGE_BYTES as u32;
    if let Ok(found) = statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
        && found.stx_mask & StatxFlags::DIOALIGN.bits() != 0
    {
        let (offset, memory) = (found.stx_dio_offset_align, found.stx_dio_mem_align);
        // Each part of a vectored write is a whole number of sectors, but perhaps not of logical blocks.
        let memory_bytes = memory.max(SECTOR_BYTES) as usize;
        return (offset.is_power_of_two() && offset <= page && memory.is_power_of_two() && memory <= page)
            .then(|| Alignment { memory_bytes, ..Alignment::of_block(offset) });
    }
    if is_block_device && let Ok(block) = ioctl_blksszget(fd) {
        return (block.is_power_of_two() && block <= page).then(|| Alignment::of_block(block));
    }
    let mut buf = Buf::zeroed(PAGE_BYTES);
    let works = |granule: &u32| {
        let length = *granule as usize;
        u64::from(*granule) <= size_bytes && pread(fd, &mut buf.as_mut_slice()[..length], 0).is_ok()
    };
    [SECTOR_BYTES, page].into_iter().find(works).map(Alignment::of_block)
}

fn claim(fd: &OwnedFd) -> Result<(), MediaFault> {
    match flock(fd, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => {
            let holder = fstat(fd).map_or_else(|_| "another process".to_string(), |stat| lock_holder(&stat));
            let text = format!("The file is locked by {holder}; stop that first, or give another path");
            Err(MediaFault::new(FaultKind::Busy, text))
        }
        Err(errno) => {
            Err(MediaFault::system("Cannot lock the file; its file system may not support locks", errno))
        }
    }
}
