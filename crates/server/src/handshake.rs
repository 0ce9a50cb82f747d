//! A connection whose handshake is under way, on the control thread. It must not know what becomes of it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use lode_nbd::{ExportInfo, Handshake, HandshakeStep, Negotiated};
use rustix::buffer::spare_capacity;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::connection::Permit;

/// How long a client may take for its handshake.
pub(crate) const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// Bytes taken from a client at once.
const INPUT_BYTES: usize = 4096;
/// Turns that one client gets before others are looked at.
const MAX_STEPS: u32 = 16;

/// How a handshake ended.
pub(crate) enum End {
    /// The client chose an export, and has one of its connections. With it comes what was received behind the handshake.
    Done(Negotiated, Permit, Vec<u8>),
    /// The connection is to be closed, for this reason, if it is worth telling.
    Closed(Option<String>),
}

/// A handshake under way.
pub(crate) struct PendingHandshake {
    pub socket: OwnedFd,
    /// Which listener it came from.
    pub listener: usize,
    pub deadline: Instant,
    handshake: Handshake,
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    outcome: Option<HandshakeStep>,
    /// The connection that it has of the export that was chosen.
    permit: Option<Permit>,
}

impl PendingHandshake {
    pub(crate) fn new(socket: OwnedFd, listener: usize, now: Instant) -> PendingHandshake {
        let mut output = Vec::new();
        let handshake = Handshake::start(&mut output);
        PendingHandshake {
            socket,
            listener,
            deadline: now + HANDSHAKE_LIMIT,
            handshake,
            input: Vec::new(),
            output,
            sent: 0,
            outcome: None,
            permit: None,
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// What to wait for.
    pub(crate) fn waits_for(&self) -> PollFlags {
        if self.sent < self.output.len() { PollFlags::OUT } else { PollFlags::IN }
    }

    /// Goes on as far as possible without waiting. `admit` gives one of an export's connections, if there is one left.
    /// `None`: it is not over.
    pub(crate) fn advance(
        &mut self,
        exports: &[ExportInfo],
        admit: impl Fn(usize) -> Option<Permit>,
    ) -> Option<End> {
        for _ in 0..MAX_STEPS {
            match self.step(exports, &admit) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(end) => return Some(end),
            }
        }
        None
    }

    /// Sends, or understands, or receives. False: nothing can be done now.
    fn step(
        &mut self,
        exports: &[ExportInfo],
        admit: &impl Fn(usize) -> Option<Permit>,
    ) -> Result<bool, End> {
        if self.sent < self.output.len() {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            return match send(&self.socket, &self.output[self.sent..], flags) {
                Ok(length) => {
                    self.sent += length;
                    Ok(true)
                }
                Err(Errno::AGAIN | Errno::INTR) => Ok(false),
                Err(_) => Err(End::Closed(None)),
            };
        }
        self.output.clear();
        self.sent = 0;
        match (self.outcome, self.permit.take()) {
            (Some(HandshakeStep::Done(negotiated)), Some(permit)) => {
                return Err(End::Done(negotiated, permit, std::mem::take(&mut self.input)));
            }
            (Some(HandshakeStep::Aborted), _) => return Err(End::Closed(None)),
            _ => {}
        }
        if self.input.is_empty() {
            return self.receive();
        }
        let admit = |export| {
            self.permit = admit(export);
            self.permit.is_some()
        };
        let (length, progress) = self
            .handshake
            .advance(&self.input, exports, admit, &mut self.output)
            .map_err(|error| End::Closed(Some(error.to_string())))?;
        self.input.drain(..length);
        self.outcome = Some(progress);
        Ok(true)
    }

    fn receive(&mut self) -> Result<bool, End> {
        self.input.reserve(INPUT_BYTES);
        match recv(&self.socket, spare_capacity(&mut self.input), RecvFlags::DONTWAIT) {
            Ok((_, 0)) => Err(End::Closed(None)),
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(_) => Err(End::Closed(None)),
        }
    }
}
