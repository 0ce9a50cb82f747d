//! The vocabulary of a driver: operations in, completions out. Every buffer moves in with its operation
//! and comes back with its completion.

use lode_types::Buf;
use lode_types::{CommandKind, MediaError};

use crate::table::Key;

/// A file added to a driver. Finds nothing once the file is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId(pub(crate) Key);

/// A socket added to a driver. Finds nothing once the socket is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SocketId(pub(crate) Key);

/// One of the buffers of a [`Op::Send`].
#[derive(Debug)]
pub enum Piece {
    /// Plain bytes, such as a reply's header.
    Bytes(Vec<u8>),
    /// A device buffer, such as a read's data.
    Buf(Buf),
}

impl Piece {
    /// The bytes to send.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Piece::Bytes(bytes) => bytes,
            Piece::Buf(buf) => buf.as_slice(),
        }
    }
}

impl From<Vec<u8>> for Piece {
    fn from(bytes: Vec<u8>) -> Piece {
        Piece::Bytes(bytes)
    }
}

impl From<Buf> for Piece {
    fn from(buf: Buf) -> Piece {
        Piece::Buf(buf)
    }
}

/// One operation. Operations on a file run in any order; what must be ordered waits for a completion.
/// On a socket, sends run in the order of submission, and so do receives.
#[derive(Debug)]
pub enum Op {
    /// Fill the whole of `buf` from `offset_bytes`; reading beyond the file's size fails.
    Read {
        /// From which file.
        file: FileId,
        /// First byte in the file.
        offset_bytes: u64,
        /// Where the bytes go; its length is the length of the read.
        buf: Buf,
    },
    /// Write the whole of `buf` at `offset_bytes`; writing beyond the file's size fails.
    Write {
        /// To which file.
        file: FileId,
        /// First byte in the file.
        offset_bytes: u64,
        /// The bytes.
        buf: Buf,
    },
    /// Make every write that completed before this operation was submitted durable.
    Flush {
        /// Which file.
        file: FileId,
    },
    /// The bytes are no longer needed. Advisory: a device that cannot trim answers with success.
    Trim {
        /// Which file.
        file: FileId,
        /// First byte in the file.
        offset_bytes: u64,
        /// Number of bytes; only the whole logical blocks among them are trimmed.
        length_bytes: u64,
    },
    /// The bytes must read back as zeroes.
    WriteZeroes {
        /// Which file.
        file: FileId,
        /// First byte in the file.
        offset_bytes: u64,
        /// Number of bytes.
        length_bytes: u64,
    },
    /// Receive between one byte and `buf.len()` bytes into the start of `buf`. Zero bytes: the peer closed.
    Recv {
        /// From which socket.
        socket: SocketId,
        /// Room for the bytes: its length counts, not its capacity.
        buf: Vec<u8>,
    },
    /// Send all bytes of all pieces, in order. Completes when the kernel has taken the last one.
    Send {
        /// To which socket.
        socket: SocketId,
        /// What to send.
        bufs: Vec<Piece>,
    },
}

impl Op {
    /// The operation that carries out an engine's command on `file`.
    pub fn for_file(file: FileId, kind: CommandKind) -> Op {
        match kind {
            CommandKind::Read { offset_bytes, buf } => Op::Read { file, offset_bytes, buf },
            CommandKind::Write { offset_bytes, buf } => Op::Write { file, offset_bytes, buf },
            CommandKind::Flush => Op::Flush { file },
            CommandKind::Trim { offset_bytes, length_bytes } => Op::Trim { file, offset_bytes, length_bytes },
            CommandKind::WriteZeroes { offset_bytes, length_bytes } => {
                Op::WriteZeroes { file, offset_bytes, length_bytes }
            }
        }
    }
}

/// The buffers of an operation, handed back.
#[derive(Debug)]
pub enum Payload {
    /// The operation had none.
    None,
    /// The buffer of a read or write.
    Buf(Buf),
    /// The buffer of a receive.
    Bytes(Vec<u8>),
    /// The pieces of a send.
    Pieces(Vec<Piece>),
}

/// The end of an operation.
#[derive(Debug)]
pub struct Done {
    /// What the operation was submitted with.
    pub token: u64,
    /// Bytes moved (0 for flush, trim and write-zeroes), or why it failed. After a failed read the
    /// buffer's bytes mean nothing; after a failed send nobody knows how much the peer has seen.
    pub result: Result<usize, MediaError>,
    /// The operating system's error number behind a failure, for the log.
    pub os_error: Option<i32>,
    /// The buffers.
    pub payload: Payload,
}

/// The buffer of a file command, as a payload.
pub(crate) fn payload_of(kind: CommandKind) -> Payload {
    match kind {
        CommandKind::Read { buf, .. } | CommandKind::Write { buf, .. } => Payload::Buf(buf),
        CommandKind::Flush | CommandKind::Trim { .. } | CommandKind::WriteZeroes { .. } => Payload::None,
    }
}
