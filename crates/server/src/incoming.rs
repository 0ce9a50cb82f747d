//! A write whose bytes are coming in: gathered in buffers that go to the devices as they are.

use std::ops::Range;

use lode_engine::{Buf, ByteList, MAX_PIECE_BYTES, PAGE_BYTES};
use lode_nbd::Request;

/// Buffers end at multiples of this, so that no block is in two of them.
const BUFFER_BYTES: u64 = MAX_PIECE_BYTES;

/// A write whose bytes are coming in.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub request: Request,
    /// When it began, on the shard's clock.
    pub since_ns: u64,
    /// What is there in full buffers.
    data: ByteList,
    /// First byte of the volume that is not in those.
    at: u64,
    /// For what begins there. A byte has the same place in its page as on the volume, which keeps blocks aligned.
    buf: Buf,
    filled: Range<usize>,
}

impl Incoming {
    pub(crate) fn new(request: &Request, since_ns: u64) -> Incoming {
        let (at, data) = (request.offset_bytes, ByteList::new());
        let mut write =
            Incoming { request: *request, since_ns, data, at, buf: Buf::for_overwrite(0), filled: 0..0 };
        write.next_buffer();
        write
    }

    fn next_buffer(&mut self) {
        let end = self.request.offset_bytes + u64::from(self.request.length_bytes);
        let to = end.min((self.at / BUFFER_BYTES + 1) * BUFFER_BYTES);
        let start = (self.at % PAGE_BYTES as u64) as usize;
        self.buf = Buf::for_overwrite(start + (to - self.at) as usize);
        self.filled = start..start;
    }

    /// Room in the buffer that is being filled; none once everything is there.
    pub(crate) fn room(&self) -> Range<usize> {
        self.filled.end..self.buf.len()
    }

    /// The buffer that is being filled, for [`Incoming::room`]; it comes back with [`Incoming::received`].
    pub(crate) fn lend(&mut self) -> Buf {
        std::mem::replace(&mut self.buf, Buf::for_overwrite(0))
    }

    /// Takes back a buffer with so many more bytes in it.
    pub(crate) fn received(&mut self, buf: Buf, length: usize) {
        self.buf = buf;
        self.filled.end += length;
        if self.filled.end < self.buf.len() {
            return;
        }
        let (filled, whole) = (self.filled.clone(), self.lend().freeze());
        self.at += filled.len() as u64;
        self.data.push(if filled.start == 0 { whole } else { whole.slice(filled) });
        self.filled = 0..0;
        if self.at < self.request.offset_bytes + u64::from(self.request.length_bytes) {
            self.next_buffer();
        }
    }

    /// Copies the next bytes.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.room().is_empty() {
            let room = self.room();
            let (now, later) = bytes.split_at(bytes.len().min(room.len()));
            let mut buf = self.lend();
            buf.as_mut_slice()[room][..now.len()].copy_from_slice(now);
            self.received(buf, now.len());
            bytes = later;
        }
    }

    /// The bytes of the write, once all are there.
    pub(crate) fn data(&mut self) -> Option<ByteList> {
        let have: usize = self.data.iter().map(|bytes| bytes.len()).sum();
        (have == self.request.length_bytes as usize).then(|| std::mem::take(&mut self.data))
    }
}

#[cfg(test)]
mod tests {
    use lode_nbd::{Command, CommandFlags};

    use super::*;

    #[test]
    fn bytes_arrive_in_order_aligned_as_on_the_volume_and_cut_between_blocks() {
        let (offset, length) = (BUFFER_BYTES - 4096 - 512, 2 * BUFFER_BYTES + 1024);
        let sent: Vec<u8> = (0..length).map(|at| (at / 7) as u8).collect();
        for step in [1000, 5000, 70_000, sent.len()] {
            let request = Request {
                cookie: 1,
                offset_bytes: offset,
                length_bytes: length as u32,
                command: Command::Write,
                flags: CommandFlags::NONE,
            };
            let mut write = Incoming::new(&request, 0);
            let mut rest = &sent[..];
            for turn in 0.. {
                assert_eq!(write.data(), None);
                let room = write.room();
                let most = if turn % 2 == 0 { step } else { step.min(room.len()) };
                let (now, later) = rest.split_at(most.min(rest.len()));
                if turn % 2 == 0 {
                    write.take(now);
                } else {
                    let mut buf = write.lend();
                    buf.as_mut_slice()[room][..now.len()].copy_from_slice(now);
                    write.received(buf, now.len());
                }
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            let data = write.data().unwrap();
            assert!(data.concat() == sent, "steps of {step}");
            let mut at = offset;
            for bytes in &data {
                assert_eq!(bytes.as_ptr() as usize % PAGE_BYTES, at as usize % PAGE_BYTES);
                at += bytes.len() as u64;
                assert!(at.is_multiple_of(BUFFER_BYTES) || at == offset + length);
            }
        }
    }
}
