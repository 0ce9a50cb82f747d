//! A device as a file of a file system of its own, so that flushes of one device tell nothing of another. It must not know what
//! becomes of what it carries.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyWrite, Request, WriteFlags,
};

use crate::image::{Data, Image, PAGE_BYTES};
use crate::tape::Start;
use crate::world::{SharedWorld, Ticket, World};

/// The name of the file.
pub const FILE: &str = "disk";

const FILE_NUMBER: INodeNo = INodeNo(2);
/// How long the kernel may remember names and sizes, which do not change.
const REMEMBERED: Duration = Duration::from_secs(3600);
/// Requests to one device that are under way at once, at most.
const THREADS: usize = 4;
const PUNCH_HOLE: i32 = 0x02;
const ZERO_RANGE: i32 = 0x10;
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

struct Device {
    world: SharedWorld,
    number: usize,
}

/// Whether devices can be mounted here; if not, why.
///
/// # Errors
/// The reason.
pub fn probe() -> Result<(), String> {
    const DEVICE: &str = "/dev/fuse";
    if !Path::new(DEVICE).exists() {
        return Err(format!("there is no {DEVICE}"));
    }
    let start = Start { images: vec![Image::new(PAGE_BYTES)], state: Arc::default(), models: Vec::new() };
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let world = Arc::new(World::new(start, folder.path(), 0));
    mount(&world, 0, folder.path()).map(drop).map_err(|error| format!("mounting was refused: {error}"))
}

/// Mounts device number `number` on a folder, until the session is dropped.
///
/// # Errors
/// When FUSE is not to be had.
pub fn mount(world: &SharedWorld, number: usize, folder: &Path) -> io::Result<BackgroundSession> {
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("lode-attack".to_owned()), MountOption::NoExec];
    config.n_threads = Some(THREADS);
    fuser::spawn_mount(Device { world: world.clone(), number }, folder, &config)
}

/// Unmounts a device that is in use, or whose process is gone.
pub fn detach(folder: &Path) {
    // It fails where nothing is mounted.
    let _ = Command::new("fusermount3").args(["-u", "-z", "-q"]).arg(folder).status();
}

impl Device {
    fn attributes(&self, number: INodeNo) -> Option<FileAttr> {
        let is_folder = number == INodeNo::ROOT;
        if !is_folder && number != FILE_NUMBER {
            return None;
        }
        let size = if is_folder { 0 } else { self.world.size_bytes(self.number) };
        Some(FileAttr {
            ino: number,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_folder { FileType::Directory } else { FileType::RegularFile },
            perm: if is_folder { 0o700 } else { 0o600 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: PAGE_BYTES as u32,
            flags: 0,
        })
    }

    fn change(&self, offset: u64, data: &Data) -> Result<(), Errno> {
        let ticket = self.world.begin_write(self.number, offset, data);
        take_time(&ticket);
        self.world.end_write(self.number, &ticket, offset, data).map_err(|_| Errno::EIO)
    }

    fn flush_medium(&self) -> Result<(), Errno> {
        let ticket = self.world.begin_flush(self.number);
        take_time(&ticket);
        self.world.end_flush(self.number, &ticket).map_err(|_| Errno::EIO)
    }
}

fn take_time(ticket: &Ticket) {
    if !ticket.delay.is_zero() {
        std::thread::sleep(ticket.delay);
    }
}

fn finish(outcome: Result<(), Errno>, reply: ReplyEmpty) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Device {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without it a write holds off flushes until it is answered, and no flush would meet one under way. Old kernels
        // lack it, and are attacked with less.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(FILE_NUMBER).filter(|_| parent == INodeNo::ROOT && name == FILE) {
            Some(attributes) => reply.entry(&REMEMBERED, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(number) {
            Some(attributes) => reply.attr(&REMEMBERED, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        if offset == 0 {
            let _ = reply.add(FILE_NUMBER, 1, FileType::RegularFile, FILE);
        }
        reply.ok();
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        self.world.open();
        reply.opened(FileHandle(0), flags);
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.world.close();
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.world.read(self.number, offset, u64::from(size)) {
            Ok(bytes) => reply.data(&bytes),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.change(offset, &Data::Bytes(data.into())) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Of closing: no medium hears of it.
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        finish(self.flush_medium(), reply);
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        if mode & (PUNCH_HOLE | ZERO_RANGE) == 0 {
            return reply.error(Errno::EOPNOTSUPP);
        }
        finish(self.change(offset, &Data::Zeroes(length)), reply);
    }

    fn lseek(&self, _: &Request, _: INodeNo, _: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        let image = self.world.image(self.number);
        let found = match whence {
            SEEK_DATA => image.next_data(offset as u64),
            SEEK_HOLE => image.next_hole(offset as u64),
            _ => return reply.error(Errno::EINVAL),
        };
        match found {
            Some(found) => reply.offset(found as i64),
            None => reply.error(Errno::ENXIO),
        }
    }
}
