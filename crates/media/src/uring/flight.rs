//! What the kernel is doing for us: one entry for each operation in the ring, which owns the memory the
//! kernel uses, and the ring entry that describes it.

use std::ptr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use io_uring::types::{Fd, FsyncFlags};
use io_uring::{opcode, squeue};
use lode_types::Buf;
use rustix::fd::AsRawFd;
use rustix::net::SendFlags;

use crate::file::RealFile;
use crate::socket::{RecvJob, SendJob, Socket};

/// The most one ring entry moves; longer operations go on where the last part ended.
const MAX_TRANSFER_BYTES: usize = 1 << 30;
/// Pieces handed to one `sendmsg`; the rest follows in the next.
const MAX_PIECES: usize = 32;
/// `MSG_WAITALL` of `linux/socket.h`: on a send, the kernel goes on after a short one by itself.
const MSG_WAITALL: u32 = 0x100;

/// `struct iovec`, as the kernel reads it.
#[repr(C)]
#[derive(Clone, Copy)]
struct IoVec {
    base: *const u8,
    len: usize,
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
    vectors: [IoVec; MAX_PIECES],
}

impl Frame {
    pub fn new() -> Box<Frame> {
        let (name, iov, control) = (ptr::null(), ptr::null(), ptr::null());
        let header = MsgHdr { name, name_len: 0, iov, iov_len: 0, control, control_len: 0, flags: 0 };
        Box::new(Frame { header, vectors: [IoVec { base: ptr::null(), len: 0 }; MAX_PIECES] })
    }

    /// Describes the bytes of `job` that were not sent yet.
    fn describe(&mut self, job: &SendJob) -> *const MsgHdr {
        let mut count = 0;
        for (vector, bytes) in self.vectors.iter_mut().zip(job.rest()) {
            *vector = IoVec { base: bytes.as_ptr(), len: bytes.len() };
            count += 1;
        }
        self.header.iov = self.vectors.as_ptr();
        self.header.iov_len = count;
        &raw const self.header
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
    pub write: bool,
    pub offset_bytes: u64,
    pub buf: Buf,
    pub moved_bytes: usize,
}

impl Transfer {
    fn entry(&mut self, fd: Fd) -> squeue::Entry {
        let rest = &mut self.buf.as_mut_slice()[self.moved_bytes..];
        let length = rest.len().min(MAX_TRANSFER_BYTES) as u32;
        let offset_bytes = self.offset_bytes + self.moved_bytes as u64;
        if self.write {
            opcode::Write::new(fd, rest.as_ptr(), length).offset(offset_bytes).build()
        } else {
            opcode::Read::new(fd, rest.as_mut_ptr(), length).offset(offset_bytes).build()
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
                let length = job.buf.len().min(MAX_TRANSFER_BYTES) as u32;
                opcode::Recv::new(Fd(socket.fd.as_raw_fd()), job.buf.as_mut_ptr(), length).build()
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
