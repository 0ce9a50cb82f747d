//! One client's connection on its shard: what came in, what goes out, and how much of both there may be.
//! It must not know threads or the engine.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lode_engine::{Buf, ByteList, GuestError};
use lode_media::{Message, SocketId};
use lode_nbd::{Command, CommandError, ReplyEncoder, Request, Transmission};

use crate::allocation::{Stretch, cut_zeroes};
use crate::incoming::Incoming;
use crate::input::Input;
use crate::request_cost::cost_bytes;
use crate::volume::{Answered, Failed, ReplyData};

/// Bytes received at once: room for many small requests.
pub(crate) const RECEIVE_BYTES: usize = 256 << 10;
/// Bytes received at once where another large write is likely to follow, whose bytes need not be copied then.
const SHORT_RECEIVE_BYTES: usize = 4 << 10;
/// Least rest of a write that is received where it belongs instead of being copied there.
const DIRECT_BYTES: usize = 16 << 10;
/// A buffer for the headers of replies that is larger than this is not kept for the next ones.
const KEPT_BYTES: usize = 1 << 20;

/// Set in a number of connections: there may be no more.
const CLOSED: u32 = 1 << 31;

/// There may be no more connections to a VM's disk.
pub(crate) fn close(taken: &AtomicU32) {
    taken.fetch_or(CLOSED, Ordering::Relaxed);
}

/// There may be some again.
pub(crate) fn open_again(taken: &AtomicU32) {
    taken.fetch_and(!CLOSED, Ordering::Relaxed);
}

/// Connections to a VM's disk.
pub(crate) fn count(taken: &AtomicU32) -> u32 {
    taken.load(Ordering::Relaxed) & !CLOSED
}

/// One of the connections that a VM's disk may have. Gives its place back when dropped.
#[derive(Debug)]
pub(crate) struct Permit(Arc<AtomicU32>);

impl Permit {
    /// A place, if fewer than `limit` are taken.
    pub(crate) fn take(taken: &Arc<AtomicU32>, limit: u32) -> Option<Permit> {
        let more = |now: u32| (now < limit.min(CLOSED)).then_some(now + 1);
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

/// Where bytes are being received to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Input,
    Write,
}

/// A buffer to receive into.
pub(crate) struct Receive {
    pub buf: Buf,
    pub range: Range<usize>,
    /// Less than the range will not do.
    pub all: bool,
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
    /// Whether it is in the shard's list of connections to advance.
    pub touched: bool,
    /// What ended it first.
    ended_by: Option<&'static str>,
    receiving: Option<Target>,
    /// A large write ended, and nothing else came in since.
    expects_large: bool,
    /// Length of a part of a block that was written, since the last time that something was received.
    part_bytes: Option<usize>,
    input: Input,
    unread: Range<usize>,
    /// Of requests that are not answered, or whose answers are not sent.
    in_flight_bytes: u64,
    replies: Message,
    replies_cost: u64,
    /// Cost of the answers that are being sent.
    sending_cost: Option<u64>,
    /// An empty message for the next replies.
    spare: Message,
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
        let mut input = Buf::for_overwrite(RECEIVE_BYTES.max(early.len()));
        input.as_mut_slice()[..early.len()].copy_from_slice(early);
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
            ended_by: None,
            receiving: None,
            expects_large: false,
            part_bytes: None,
            input: Input::Own(input),
            unread: 0..early.len(),
            in_flight_bytes: 0,
            replies: Message::default(),
            replies_cost: 0,
            sending_cost: None,
            spare: Message::default(),
            _permit: permit,
        }
    }

    pub(crate) fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes
    }

    /// Notes what ends it, for the log.
    pub(crate) fn note_end(&mut self, reason: &'static str) {
        self.ended_by.get_or_insert(reason);
    }

    /// What ended it.
    pub(crate) fn ended_by(&self) -> &'static str {
        self.ended_by.unwrap_or("it ended")
    }

    /// The receive buffer and the part of it to parse, to be given back with [`Connection::end_parse`].
    pub(crate) fn begin_parse(&mut self) -> (Input, Range<usize>) {
        (std::mem::replace(&mut self.input, Input::Own(Buf::for_overwrite(0))), self.unread.clone())
    }

    pub(crate) fn end_parse(&mut self, input: Input, unread: Range<usize>) {
        self.input = input;
        self.unread = unread;
    }

    /// Takes what came in of the write's bytes.
    pub(crate) fn take_data(&mut self, input: &mut Input, range: Range<usize>) {
        if let Some(write) = &mut self.incoming {
            self.part_bytes = write.take(input, range).or(self.part_bytes);
        }
    }

    /// Takes back a buffer with `length` bytes that came in.
    pub(crate) fn received(&mut self, buf: Buf, length: usize) {
        match (self.receiving.take(), &mut self.incoming) {
            (Some(Target::Write), Some(write)) => {
                // As many as were asked for at most, which is no more than are due.
                if self.transmission.payload_received(length as u32).is_ok() {
                    write.received(buf, length);
                }
            }
            // The write was given up.
            (Some(Target::Write), None) => {}
            _ => {
                self.unread = 0..length.min(buf.len());
                self.input = Input::Own(buf);
            }
        }
    }

    /// What is to be received next, if anything.
    pub(crate) fn next_receive(&mut self) -> Option<Receive> {
        let due = self.phase == Phase::Open && self.receiving.is_none() && self.stall.is_none();
        if !due || !self.unread.is_empty() {
            return None;
        }
        if let Some(write) = self.incoming.as_mut().filter(|write| write.room().len() >= DIRECT_BYTES) {
            self.receiving = Some(Target::Write);
            self.expects_large = true;
            return Some(Receive { range: write.room(), buf: write.lend(), all: true });
        }
        self.receiving = Some(Target::Input);
        let len = self.next_input_bytes();
        let buf = std::mem::replace(&mut self.input, Input::Own(Buf::for_overwrite(0))).renew(len);
        Some(Receive { range: 0..len, buf, all: false })
    }

    /// How much is received at once where requests are expected.
    fn next_input_bytes(&mut self) -> usize {
        let part_bytes = self.part_bytes.take();
        match std::mem::take(&mut self.expects_large) {
            true => SHORT_RECEIVE_BYTES,
            false => part_bytes.map_or(RECEIVE_BYTES, |part| Input::len_to_share(part).min(RECEIVE_BYTES)),
        }
    }

    /// Notes a request that will be answered.
    pub(crate) fn charge(&mut self, cost_bytes: u64) {
        self.in_flight_bytes += cost_bytes;
    }

    /// Appends an answer that is all header. `cost_bytes` was charged for its request.
    pub(crate) fn reply(&mut self, cost_bytes: u64, write: impl FnOnce(&ReplyEncoder, &mut Vec<u8>)) {
        self.replies_cost += cost_bytes;
        write(&self.encoder, self.replies.text());
    }

    /// Appends the answer to a request that the engine has done. Gives back the list of what was read.
    pub(crate) fn answer(&mut self, done: Answered) -> ByteList {
        let Answered { request, result, .. } = done;
        let (cost, cookie) = (cost_bytes(&request), request.cookie);
        match result {
            Err(error) => {
                let (error, message) = explain(error);
                self.reply(cost, |encoder, out| encoder.error(out, cookie, error, message));
            }
            Ok(ReplyData::Status(descriptors)) => {
                self.reply(cost, |encoder, out| encoder.block_status(out, cookie, &descriptors));
            }
            Ok(ReplyData::Bytes(mut data)) if request.command == Command::Read => {
                match self.cut(&request, &data) {
                    Some(stretches) => self.answer_in_pieces(&request, stretches),
                    None => {
                        let (offset, length) = (request.offset_bytes, request.length_bytes);
                        self.reply(cost, |encoder, out| encoder.read_data(out, cookie, offset, length));
                        data.drain(..).for_each(|bytes| self.replies.push(bytes));
                    }
                }
                return data;
            }
            Ok(_) => self.reply(cost, |encoder, out| encoder.success(out, cookie)),
        }
        ByteList::new()
    }

    /// What was read, with long stretches of zeroes left out, if there are any and the client takes that.
    fn cut(&self, request: &Request, data: &ByteList) -> Option<Vec<Stretch>> {
        let takes_pieces = self.encoder.is_structured() && !request.flags.df();
        if takes_pieces { cut_zeroes(data) } else { None }
    }

    fn answer_in_pieces(&mut self, request: &Request, stretches: Vec<Stretch>) {
        let (cookie, mut at) = (request.cookie, request.offset_bytes);
        for Stretch { length_bytes, is_zero, bytes } in stretches {
            let length = length_bytes as u32;
            let out = self.replies.text();
            let written = match is_zero {
                true => self.encoder.read_zeroes(out, cookie, at, length),
                false => self.encoder.read_piece(out, cookie, at, length),
            };
            written.expect("structured replies were negotiated");
            bytes.into_iter().for_each(|bytes| self.replies.push(bytes));
            at += length_bytes as u64;
        }
        self.reply(cost_bytes(request), |encoder, out| encoder.read_end(out, cookie));
    }

    /// The replies to send now, if there are any and none are under way.
    pub(crate) fn next_send(&mut self) -> Option<Message> {
        if self.phase == Phase::Dead || self.sending_cost.is_some() || self.replies.is_empty() {
            return None;
        }
        self.sending_cost = Some(std::mem::take(&mut self.replies_cost));
        Some(std::mem::replace(&mut self.replies, std::mem::take(&mut self.spare)))
    }

    /// Takes back what was sent; shared bytes are let go.
    pub(crate) fn sent(&mut self, mut message: Message) {
        self.in_flight_bytes -= self.sending_cost.take().unwrap_or(0);
        message.clear(KEPT_BYTES);
        self.spare = message;
    }

    /// Nothing more comes of its requests. Whether it had a socket until now.
    pub(crate) fn cut_off(&mut self) -> bool {
        (self.requests, self.incoming, self.stall) = (0, None, None);
        std::mem::replace(&mut self.phase, Phase::Dead) != Phase::Dead
    }

    /// Whether every request was answered and every answer sent.
    pub(crate) fn is_quiet(&self) -> bool {
        self.requests == 0 && self.replies.is_empty() && self.sending_cost.is_none()
    }

    /// Whether nothing speaks of it any more.
    pub(crate) fn is_over(&self) -> bool {
        let idle = self.requests == 0 && self.receiving.is_none() && self.sending_cost.is_none();
        self.phase == Phase::Dead && idle
    }
}

fn explain(error: Failed) -> (CommandError, &'static str) {
    let error = match error {
        Failed::Guest(error) => error,
        Failed::Released => {
            return (CommandError::Eshutdown, "The disk was handed over, and is not served here any more");
        }
    };
    match error {
        GuestError::Invalid => (CommandError::Einval, "The request does not fit the volume"),
        GuestError::Io => (CommandError::Eio, "A device failed; see the status and the log of the host"),
        GuestError::NoSpace => (CommandError::Enospc, "A device of the host is full"),
    }
}
