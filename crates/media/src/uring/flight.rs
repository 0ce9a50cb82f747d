//! What the kernel is doing for us: one entry for each operation in the ring, which owns the memory the
//! kernel uses, and the ring entry that describes it.

use std::ptr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use io_uring::types::{Fd, FsyncFlags};
use io_uring::{opcode, squeue};
use lode_types::CommandKind;
use rustix::fd::AsRawFd;
use rustix::net::SendFlags;

use crate::file::RealFile;
use crate::op::MAX_VECTORS;
use crate::socket::{RecvJob, SendJob, Socket};

/// The most one ring entry moves; longer operations go on where the last part ended.
const MAX_TRANSFER_BYTES: usize = 1 << 30;
/// `MSG_WAITALL` of `linux/socket.h`: the kernel goes on after a short send or receive by itself.
const MSG_WAITALL: u32 = 0x100;

/// `struct iovec`, as the kernel reads it.
#[repr(C)]
#[derive(Clone, Copy)]
struct IoVec {
    base: *const u8,
    len: usize,
}

impl IoVec {
    /// Bytes that the kernel reads.
    fn to_read(bytes: &[u8]) -> IoVec {
        IoVec { base: bytes.as_ptr(), len: bytes.len() }
    }

    /// Bytes that the kernel writes.
    fn to_fill(bytes: &mut [u8]) -> IoVec {
        IoVec { base: bytes.as_mut_ptr(), len: bytes.len() }
    }
}

/// `struct user_msghdr`, as the kernel reads it.
#[repr(C)]
struct MsgHdr {
    name: *const u8,
    name_len: i32,
    iov: *const IoVec,
    iov_len: usize,
    control: *const u8,
    control_len: usize,
    flags: u32,
}

/// The description of one `sendmsg`, at an address that stays the same until it has ended.
pub(super) struct Frame {
    header: MsgHdr,
    vectors: Vec<IoVec>,
}

impl Frame {
    pub fn new() -> Box<Frame> {
        let (name, iov, control) = (ptr::null(), ptr::null(), ptr::null());
        let header = MsgHdr { name, name_len: 0, iov, iov_len: 0, control, control_len: 0, flags: 0 };
        Box::new(Frame { header, vectors: Vec::new() })
    }

    /// Describes the bytes of `job` that were not sent yet.
    fn describe(&mut self, job: &SendJob) -> *const MsgHdr {
        describe(&mut self.vectors, job.rest().map(IoVec::to_read), 0);
        self.header.iov = self.vectors.as_ptr();
        self.header.iov_len = self.vectors.len();
        &raw const self.header
    }
}

/// Describes what is left of some slices after the first `skip` bytes, as far as the kernel takes it at once.
fn describe(vectors: &mut Vec<IoVec>, slices: impl Iterator<Item = IoVec>, mut skip: usize) {
    vectors.clear();
    for IoVec { base, len } in slices {
        let skipped = len.min(skip);
        skip -= skipped;
        let (base, len) = (base.wrapping_add(skipped), len - skipped);
        let count = vectors.len();
        match vectors.last_mut() {
            // The blocks of a large write lie together.
            Some(last) if last.base.wrapping_add(last.len) == base => last.len += len,
            _ if len == 0 => {}
            _ if count == MAX_VECTORS => break,
            _ => vectors.push(IoVec { base, len }),
        }
    }
}

/// An operation in the ring. It is kept until its completion has been taken from the ring: what it owns
/// is what the kernel reads and writes meanwhile.
pub(super) enum Flight {
    Transfer { token: u64, due: Option<Instant>, file: Arc<RealFile>, at: Transfer },
    Flush { token: u64, due: Option<Instant>, file: Arc<RealFile> },
    Recv { socket: Rc<Socket>, job: RecvJob },
    Send { socket: Rc<Socket>, job: SendJob, frame: Box<Frame> },
}

/// A read or write and how far it has come.
pub(super) struct Transfer {
    pub kind: CommandKind,
    pub moved_bytes: usize,
    pub total_bytes: usize,
    /// What is left of it, at an address that stays the same.
    vectors: Vec<IoVec>,
}

impl Transfer {
    pub fn new(kind: CommandKind) -> Transfer {
        let total_bytes = kind.range().1 as usize;
        Transfer { kind, moved_bytes: 0, total_bytes, vectors: Vec::new() }
    }

    fn entry(&mut self, fd: Fd) -> squeue::Entry {
        let is_write = match &mut self.kind {
            CommandKind::Write { data, .. } => {
                let slices = data.iter().map(|bytes| IoVec::to_read(bytes));
                describe(&mut self.vectors, slices, self.moved_bytes);
                true
            }
            CommandKind::Read { bufs, .. } => {
                let slices = bufs.iter_mut().map(|buf| IoVec::to_fill(buf.as_mut_slice()));
                describe(&mut self.vectors, slices, self.moved_bytes);
                false
            }
            other => unreachable!("{other:?} is no transfer"),
        };
        let offset_bytes = self.kind.range().0 + self.moved_bytes as u64;
        if let [IoVec { base, len }] = self.vectors[..] {
            let length = len.min(MAX_TRANSFER_BYTES) as u32;
            return match is_write {
                true => opcode::Write::new(fd, base, length).offset(offset_bytes).build(),
                false => opcode::Read::new(fd, base.cast_mut(), length).offset(offset_bytes).build(),
            };
        }
        let (vectors, count) = (self.vectors.as_ptr().cast(), self.vectors.len() as u32);
        match is_write {
            true => opcode::Writev::new(fd, vectors, count).offset(offset_bytes).build(),
            false => opcode::Readv::new(fd, vectors, count).offset(offset_bytes).build(),
        }
    }
}

impl Flight {
    /// The ring entry for what is left to do. It points into memory that this flight owns on the heap, so
    /// it stays valid wherever the flight itself is moved, until the flight is dropped.
    pub fn entry(&mut self) -> squeue::Entry {
        match self {
            Flight::Transfer { file, at, .. } => at.entry(Fd(file.fd.as_raw_fd())),
            Flight::Flush { file, .. } => {
                opcode::Fsync::new(Fd(file.fd.as_raw_fd())).flags(FsyncFlags::DATASYNC).build()
            }
            Flight::Recv { socket, job } => {
                let flags = if job.all { MSG_WAITALL as i32 } else { 0 };
                let rest = job.rest();
                let length = rest.len().min(MAX_TRANSFER_BYTES) as u32;
                opcode::Recv::new(Fd(socket.fd.as_raw_fd()), rest.as_mut_ptr(), length).flags(flags).build()
            }
            Flight::Send { socket, job, frame } => {
                let header = frame.describe(job);
                let flags = SendFlags::NOSIGNAL.bits() | MSG_WAITALL;
                opcode::SendMsg::new(Fd(socket.fd.as_raw_fd()), header.cast()).flags(flags).build()
            }
        }
    }

    pub fn socket(&self) -> Option<&Socket> {
        match self {
            Flight::Recv { socket, .. } | Flight::Send { socket, .. } => Some(socket),
            Flight::Transfer { .. } | Flight::Flush { .. } => None,
        }
    }
}
