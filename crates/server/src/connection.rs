//! One client's connection on its shard: what came in, what goes out, and how much of both there may be.
//! It must not know threads or the engine.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lode_engine::GuestError;
use lode_media::{Piece, SocketId};
use lode_nbd::{Command, CommandError, ReplyEncoder, Transmission};

use crate::volume::{Incoming, Pending, ReadData, cost_bytes};

/// Bytes received at once: room for many small requests, or a piece of a large write.
pub(crate) const RECEIVE_BYTES: usize = 256 << 10;
/// Reads up to this length are copied behind their header, which is cheaper than to send them apart.
const COPIED_BYTES: u32 = 16 << 10;
/// A reply buffer larger than this is not kept for the next replies.
const KEPT_BYTES: usize = 1 << 20;

/// One of the connections that a VM's disk may have. Gives its place back when dropped.
#[derive(Debug)]
pub(crate) struct Permit(Arc<AtomicU32>);

impl Permit {
    /// A place, if fewer than `limit` are taken.
    pub(crate) fn take(taken: &Arc<AtomicU32>, limit: u32) -> Option<Permit> {
        let more = |now: u32| (now < limit).then_some(now + 1);
        taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Permit(Arc::clone(taken)))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How far the session has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Requests are taken.
    Open,
    /// No more requests are taken; what is in flight is answered.
    Ending,
    /// The socket is gone; what is in flight ends without an answer.
    Dead,
}

/// What keeps a connection from taking its next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stall {
    /// Its own answers, not all of which the client has taken.
    Own,
    /// The work of the engine.
    Volume,
}

/// A connection. See the module's documentation.
pub(crate) struct Connection {
    pub socket: SocketId,
    pub volume: usize,
    pub phase: Phase,
    pub stall: Option<Stall>,
    pub transmission: Transmission,
    pub encoder: ReplyEncoder,
    /// The write whose bytes are coming in.
    pub incoming: Option<Incoming>,
    /// Requests that the engine has not answered.
    pub requests: u32,
    /// Whether it is in the shard's list of connections to look after.
    pub touched: bool,
    pub receiving: bool,
    input: Vec<u8>,
    unread: Range<usize>,
    /// Of requests that are not answered, or whose answers are not sent.
    in_flight_bytes: u64,
    replies: Vec<Piece>,
    replies_cost: u64,
    /// Cost of the answers that are being sent.
    sending_cost: Option<u64>,
    /// An empty buffer for the next replies.
    spare: Vec<u8>,
    _permit: Permit,
}

impl Connection {
    /// `early` came in behind the handshake.
    pub(crate) fn new(
        socket: SocketId,
        volume: usize,
        transmission: Transmission,
        encoder: ReplyEncoder,
        early: &[u8],
        permit: Permit,
    ) -> Connection {
        let mut input = vec![0; RECEIVE_BYTES.max(early.len())];
        input[..early.len()].copy_from_slice(early);
        Connection {
            socket,
            volume,
            phase: Phase::Open,
            stall: None,
            transmission,
            encoder,
            incoming: None,
            requests: 0,
            touched: false,
            receiving: false,
            input,
            unread: 0..early.len(),
            in_flight_bytes: 0,
            replies: Vec::new(),
            replies_cost: 0,
            sending_cost: None,
            spare: Vec::new(),
            _permit: permit,
        }
    }

    pub(crate) fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes
    }

    /// The receive buffer and the part of it to parse, to be given back with [`Connection::end_parse`].
    pub(crate) fn begin_parse(&mut self) -> (Vec<u8>, Range<usize>) {
        (std::mem::take(&mut self.input), self.unread.clone())
    }

    pub(crate) fn end_parse(&mut self, input: Vec<u8>, unread: Range<usize>) {
        self.input = input;
        self.unread = unread;
    }

    /// Takes a buffer with `length` bytes that came in.
    pub(crate) fn received(&mut self, input: Vec<u8>, length: usize) {
        self.receiving = false;
        self.unread = 0..length.min(input.len());
        self.input = input;
    }

    /// The buffer for the next receive, if one is due.
    pub(crate) fn next_receive(&mut self) -> Option<Vec<u8>> {
        let due = self.phase == Phase::Open && !self.receiving && self.stall.is_none();
        if !due || !self.unread.is_empty() {
            return None;
        }
        self.receiving = true;
        Some(std::mem::take(&mut self.input))
    }

    /// Notes a request that will be answered.
    pub(crate) fn charge(&mut self, cost_bytes: u64) {
        self.in_flight_bytes += cost_bytes;
    }

    /// Appends an answer that is all header. `cost_bytes` was charged for its request.
    pub(crate) fn reply(&mut self, cost_bytes: u64, write: impl FnOnce(&ReplyEncoder, &mut Vec<u8>)) {
        self.replies_cost += cost_bytes;
        let encoder = self.encoder;
        write(&encoder, self.text());
    }

    /// Appends the answer to a request that the engine has done.
    pub(crate) fn answer(&mut self, done: Pending) {
        let Pending { request, error, data, .. } = done;
        let cost = cost_bytes(&request);
        let (cookie, length) = (request.cookie, request.length_bytes);
        if let Some(error) = error {
            let (error, message) = explain(error);
            return self.reply(cost, |encoder, out| encoder.error(out, cookie, error, message));
        }
        if request.command != Command::Read {
            return self.reply(cost, |encoder, out| encoder.success(out, cookie));
        }
        self.reply(cost, |encoder, out| encoder.read_data(out, cookie, request.offset_bytes, length));
        match data {
            ReadData::One(buf) if length <= COPIED_BYTES => self.text().extend_from_slice(buf.as_slice()),
            ReadData::One(buf) => self.replies.push(Piece::Buf(buf)),
            ReadData::Many(bufs) => self.replies.extend(bufs.into_iter().flatten().map(Piece::Buf)),
            ReadData::None => {}
        }
    }

    /// The plain bytes at the end of the replies.
    fn text(&mut self) -> &mut Vec<u8> {
        if !matches!(self.replies.last(), Some(Piece::Bytes(_))) {
            self.replies.push(Piece::Bytes(std::mem::take(&mut self.spare)));
        }
        match self.replies.last_mut() {
            Some(Piece::Bytes(bytes)) => bytes,
            _ => unreachable!("plain bytes were put there"),
        }
    }

    /// The replies to send now, if there are any and none are under way.
    pub(crate) fn next_send(&mut self) -> Option<Vec<Piece>> {
        if self.phase == Phase::Dead || self.sending_cost.is_some() || self.replies.is_empty() {
            return None;
        }
        self.sending_cost = Some(std::mem::take(&mut self.replies_cost));
        Some(std::mem::take(&mut self.replies))
    }

    /// Takes back what was sent.
    pub(crate) fn sent(&mut self, mut pieces: Vec<Piece>) {
        self.in_flight_bytes -= self.sending_cost.take().unwrap_or(0);
        for piece in pieces.drain(..) {
            if let Piece::Bytes(mut bytes) = piece
                && bytes.capacity() <= KEPT_BYTES
                && bytes.capacity() > self.spare.capacity()
            {
                bytes.clear();
                self.spare = bytes;
            }
        }
        if self.replies.is_empty() {
            // Its capacity is worth keeping.
            self.replies = pieces;
        }
    }

    /// Whether every request was answered and every answer sent.
    pub(crate) fn is_quiet(&self) -> bool {
        self.requests == 0 && self.replies.is_empty() && self.sending_cost.is_none()
    }

    /// Whether nothing speaks of it any more.
    pub(crate) fn is_over(&self) -> bool {
        let idle = self.requests == 0 && !self.receiving && self.sending_cost.is_none();
        self.phase == Phase::Dead && idle
    }
}

fn explain(error: GuestError) -> (CommandError, &'static str) {
    match error {
        GuestError::Invalid => (CommandError::Einval, "The request does not fit the volume"),
        GuestError::Io => (CommandError::Eio, "A device failed; see the status and the log of the host"),
        GuestError::NoSpace => (CommandError::Enospc, "A device of the host has no room"),
    }
}
