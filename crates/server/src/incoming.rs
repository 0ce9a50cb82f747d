//! A write whose bytes are coming in: gathered in buffers that go to the devices as they are. Parts of blocks are merged
//! later, and stay where they came in until then.

use std::ops::Range;

use lode_engine::{Buf, ByteList, Bytes, MAX_PIECE_BYTES, PAGE_BYTES};
use lode_nbd::Request;
use lode_types::BlockSize;

use crate::input::Input;

/// Buffers end at multiples of this, so that no block is in two of them.
const BUFFER_BYTES: u64 = MAX_PIECE_BYTES;

/// A write whose bytes are coming in.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub request: Request,
    /// When it began, on the shard's clock.
    pub since_ns: u64,
    block: BlockSize,
    /// What is there in full buffers, and parts of blocks where they came in.
    data: ByteList,
    /// First byte of the volume that is not in those.
    at: u64,
    /// For what begins there: whole blocks, or a part of one. A byte has the same place in its page as on the volume, which
    /// keeps blocks aligned.
    buf: Buf,
    filled: Range<usize>,
}

impl Incoming {
    pub(crate) fn new(request: &Request, block: BlockSize, since_ns: u64) -> Incoming {
        let (at, data) = (request.offset_bytes, ByteList::new());
        let buf = Buf::for_overwrite(0);
        let mut write = Incoming { request: *request, since_ns, block, data, at, buf, filled: 0..0 };
        write.next_buffer();
        write
    }

    fn end(&self) -> u64 {
        self.request.offset_bytes + u64::from(self.request.length_bytes)
    }

    /// Where the part of a block ends that the next bytes belong to; `None` where they belong to whole blocks.
    fn part_end(&self) -> Option<u64> {
        let start = self.block.start_of(self.block.block_of(self.at));
        let next = start + self.block.bytes();
        (start < self.request.offset_bytes || next > self.end()).then(|| next.min(self.end()))
    }

    fn next_buffer(&mut self) {
        let whole_end = self.block.start_of(self.block.block_of(self.end()));
        let to = self.part_end().unwrap_or(whole_end.min((self.at / BUFFER_BYTES + 1) * BUFFER_BYTES));
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
        self.push(if filled.start == 0 { whole } else { whole.slice(filled) });
    }

    fn push(&mut self, bytes: Bytes) {
        self.at += bytes.len() as u64;
        self.data.push(bytes);
        self.filled = 0..0;
        if self.at < self.end() {
            self.next_buffer();
        } else {
            self.buf = Buf::for_overwrite(0);
        }
    }

    /// Takes the next bytes out of what came in. Returns the length of the last part of a block among them.
    pub(crate) fn take(&mut self, input: &mut Input, mut range: Range<usize>) -> Option<usize> {
        let mut part_bytes = None;
        while !range.is_empty() && !self.room().is_empty() {
            let room = self.room();
            let now = range.start..range.end.min(range.start + room.len());
            range.start = now.end;
            let is_part = self.part_end().is_some();
            if is_part {
                part_bytes = Some(now.len());
            }
            let (may_share, is_whole) = (is_part && self.filled.is_empty(), now.len() == room.len());
            match may_share.then(|| input.share(now.clone(), is_whole)).flatten() {
                Some(bytes) => self.push(bytes),
                None => {
                    let mut buf = self.lend();
                    buf.as_mut_slice()[room][..now.len()].copy_from_slice(&input.as_slice()[now.clone()]);
                    self.received(buf, now.len());
                }
            }
        }
        part_bytes
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

    fn write(offset_bytes: u64, length_bytes: u64) -> Incoming {
        let request = Request {
            cookie: 1,
            offset_bytes,
            length_bytes: length_bytes as u32,
            command: Command::Write,
            flags: CommandFlags::NONE,
        };
        Incoming::new(&request, BlockSize::KIB_4, 0)
    }

    fn came_in(bytes: &[u8]) -> Input {
        Input::Own(Buf::copy_of(bytes))
    }

    #[test]
    fn bytes_arrive_in_order_aligned_as_on_the_volume_and_cut_between_blocks() {
        let (offset, length) = (BUFFER_BYTES - 4096 - 512, 2 * BUFFER_BYTES + 1024);
        let sent: Vec<u8> = (0..length).map(|at| (at / 7) as u8).collect();
        for step in [1000, 5000, 70_000, sent.len()] {
            let mut write = write(offset, length);
            let mut rest = &sent[..];
            for turn in 0.. {
                assert_eq!(write.data(), None);
                let room = write.room();
                let most = if turn % 2 == 0 { step } else { step.min(room.len()) };
                let (now, later) = rest.split_at(most.min(rest.len()));
                if turn % 2 == 0 {
                    write.take(&mut came_in(now), 0..now.len());
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
            let (mut at, end) = (offset, offset + length);
            for bytes in &data {
                let next = at + bytes.len() as u64;
                // Whole blocks; the parts at both ends are merged, wherever they are.
                if at.is_multiple_of(4096) && next.is_multiple_of(4096) {
                    assert!(bytes.as_ptr().addr().is_multiple_of(PAGE_BYTES));
                    assert!(next.is_multiple_of(BUFFER_BYTES) || end - next < 4096);
                } else {
                    assert!(bytes.len() < 4096);
                }
                at = next;
            }
        }
    }

    #[test]
    fn parts_of_blocks_stay_where_they_came_in_unless_that_keeps_too_much() {
        // The end of one block, a whole one, and the beginning of a third.
        let (offset, length) = (4096 - 512, 512 + 4096 + 1024);
        let sent: Vec<u8> = (0..length).map(|at| (at / 3) as u8).collect();
        let mut input = came_in(&[&sent[..], &[0; 100]].concat()[..]);
        let mut first = write(offset, length);
        assert_eq!(first.take(&mut input, 0..length as usize), Some(1024));
        let data = first.data().unwrap();
        let came_in_range = input.as_slice().as_ptr_range();
        let stays = |bytes: &[u8]| came_in_range.contains(&bytes.as_ptr());
        assert_eq!(data.iter().map(|bytes| stays(bytes)).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(data.concat(), sent);
        // A page of small ones.
        let mut input = came_in(&sent[..4096]);
        let mut second = write(100, 300);
        assert_eq!(second.take(&mut input, 28..328), Some(300));
        assert!(matches!(input, Input::Shared(_)));
        assert_eq!(second.data().unwrap().concat(), sent[28..328]);
        // Byte by byte, of which each would keep a page.
        let mut third = write(100, 300);
        for (at, byte) in sent[..300].iter().enumerate() {
            let mut input = came_in(&[[*byte; 1].as_slice(), &[0; 4095]].concat());
            third.take(&mut input, 0..1);
            assert!(matches!(input, Input::Own(_)) || at == 299);
        }
        assert_eq!(third.data().unwrap().concat(), sent[..300]);
    }
}
