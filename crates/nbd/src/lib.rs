//! The Network Block Device protocol as pure state machines, the server's side: bytes in, events and bytes out.
//!
//! Must not know sockets, threads, clocks or what a disk is for. A caller that polls sockets feeds what it
//! received in slices of any size, and sends what was appended to its output. Timeouts are the caller's.
//!
//! A server starts with [`Handshake`]; when it is [`HandshakeStep::Done`], the unconsumed rest of the input and all
//! that follows go to [`Transmission`], and replies are written by [`ReplyEncoder`].
//!
//! # What is supported
//!
//! | Part of the protocol | Server |
//! |---|---|
//! | fixed newstyle handshake | yes |
//! | old style; newstyle that is not fixed | no; `EXPORT_NAME` only |
//! | `EXPORT_NAME`, with and without `NO_ZEROES` | yes |
//! | `ABORT` | yes |
//! | `LIST`, with descriptions | yes |
//! | an export with as many connections as it may have | `GO`: `ERR_POLICY`; `EXPORT_NAME`: connection closed |
//! | `INFO` | yes |
//! | `GO` with `EXPORT`, `NAME`, `DESCRIPTION`, `BLOCK_SIZE` | yes |
//! | default export | the only one, or one with the empty name |
//! | `STRUCTURED_REPLY` | yes |
//! | `LIST_META_CONTEXT`, `SET_META_CONTEXT` | `base:allocation`, after `STRUCTURED_REPLY` |
//! | `STARTTLS`, `EXTENDED_HEADERS`, others | `ERR_UNSUP` |
//! | `READ`, simple and structured (`OFFSET_DATA`, `OFFSET_HOLE`, `NONE`, `ERROR`) | yes |
//! | `BLOCK_STATUS`, with `REQ_ONE` | with `base:allocation`, else `EINVAL` |
//! | `WRITE`, `FLUSH`, `TRIM`, `WRITE_ZEROES`, `CACHE`, `DISC` | yes |
//! | `RESIZE`, others | `EINVAL` |
//! | FUA, `DF`, `NO_HOLE` | yes |
//! | `FAST_ZERO` | not offered: `EINVAL` |
//! | several connections to an export | offered |
//!
//! # What a request must keep, or be answered with
//!
//! | Fault | Answer |
//! |---|---|
//! | offset or length not a multiple of 512 bytes, of a client that asked for block sizes and an export whose size is a multiple of that; length zero; unknown command or flag | `EINVAL` |
//! | read or write above 32 MiB | `EINVAL`; `EOVERFLOW` for a read with `DF` |
//! | beyond the end | `ENOSPC` for writes and zeroes, `EINVAL` for the rest |
//! | writing to a read-only export | `EPERM` |
//! | write payload above 64 MiB, wrong magic | connection closed |

pub mod bytes;
mod error;
mod export;
mod handshake;
mod option;
pub mod proto;
mod reply;
mod request;
mod transmission;

pub use error::{CommandError, Error, ErrorKind};
pub use export::{
    DEFAULT_PREFERRED_BLOCK_BYTES, ExportInfo, MAX_EXPORT_BYTES, MAX_PAYLOAD_BYTES, MIN_BLOCK_BYTES,
};
pub use handshake::{
    Handshake, HandshakeStep, MAX_NAME_BYTES, MAX_OPTION_BYTES, MAX_OPTION_SKIP_BYTES, MAX_OPTIONS,
    Negotiated,
};
pub use reply::{MAX_MESSAGE_BYTES, ReplyEncoder, StatusDescriptor};
pub use request::{Command, CommandFlags, Limits, Refusal, Request};
pub use transmission::{MAX_DRAINED_BYTES, Received, Transmission};
