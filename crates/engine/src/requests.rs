//! Guests' requests under way, their answers, and who of them waits for durability: those that asked for it, and plain
//! writes until a death of the process cannot lose them any more. It must not know blocks in flight or devices.

use std::collections::VecDeque;

use lode_types::prefetch::prefetch_within;
use lode_types::{BlockNo, Buf, ByteList, Bytes, Counter, PAGE_BYTES, planted};
use slab::Slab;

use crate::flight::{PartEnd, RequestSlice};
use crate::guest::{Answer, GuestError, Served};
use crate::waits::{WaitedFor, Waits};

/// How far things are durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Durability {
    /// What is acknowledged as durable is.
    pub(crate) is_well: bool,
    /// The latest version of the journal; up to where it outlives the process; and up to where it is durable.
    pub(crate) version: u64,
    pub(crate) kept: u64,
    pub(crate) durable: u64,
    /// The latest mark of the backing disk, and up to where it was flushed.
    pub(crate) mark: u64,
    pub(crate) flushed: u64,
}

/// A guest's request on its way.
#[derive(Debug)]
struct Pending {
    token: u64,
    /// The bytes of a write, as the guest gave them; those of a read, block by block.
    data: ByteList,
    /// The block with which it begins.
    first_block: BlockNo,
    parts_left: u32,
    durable: bool,
    /// What must outlive the process before the answer: the version of the latest dirty copy that it made; 0 without one.
    kept_version: u64,
    error: Option<GuestError>,
    served: Served,
    /// Until when it is known what it waited for.
    waited_ns: u64,
    waits: Waits,
}

/// A request that is answered once both media are durable this far.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    request: usize,
    version: u64,
    mark: u64,
    /// The journal was durable this far when last looked at.
    is_recorded: bool,
}

/// All requests under way.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    pending: Slab<Pending>,
    waiters: Vec<Waiter>,
    /// Requests that are answered once this version outlives the process.
    keepers: Vec<(u64, usize)>,
    answers: VecDeque<Answer>,
    /// Empty lists of reads of several blocks, for others.
    lists: Vec<ByteList>,
    /// What time it is.
    now_ns: u64,
}

/// Most such lists that are kept, and most blocks that there is memory for in each.
const MOST_LISTS: usize = 64;
const MOST_KEPT_BLOCKS: usize = 1024;

/// Whether bytes are as devices want them, which transfer between pages and their own: in the same place of a page as in
/// their block.
fn is_aligned(bytes: &[u8], slice: &RequestSlice) -> bool {
    bytes.as_ptr().addr() % PAGE_BYTES == slice.start as usize % PAGE_BYTES
}

impl Requests {
    /// A request with one part, which stands for its being decided; `durable`: it is answered when it is durable. It arrived at
    /// `since_ns`.
    pub(crate) fn begin(
        &mut self,
        token: u64,
        data: ByteList,
        first_block: BlockNo,
        durable: bool,
        since_ns: u64,
    ) -> usize {
        self.pending.insert(Pending {
            token,
            data,
            first_block,
            parts_left: 1,
            durable,
            kept_version: 0,
            error: None,
            served: Served::Dram,
            waited_ns: since_ns,
            waits: Waits::default(),
        })
    }

    /// What time it is.
    pub(crate) fn set_clock(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// What time it was said to be.
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// What a request waited for until now is this.
    pub(crate) fn waited(&mut self, request: usize, cause: WaitedFor) {
        self.waited_until(request, cause, self.now_ns);
    }

    /// What a request waited for until then is this.
    pub(crate) fn waited_until(&mut self, request: usize, cause: WaitedFor, until_ns: u64) {
        let Pending { waits, waited_ns, .. } = &mut self.pending[request];
        if *waited_ns < until_ns {
            waits.add(cause, *waited_ns, until_ns);
            *waited_ns = until_ns;
        }
    }

    /// A list for the bytes of so many blocks.
    pub(crate) fn list_of(&mut self, blocks: usize) -> ByteList {
        let mut list = if blocks > 1 { self.lists.pop().unwrap_or_default() } else { ByteList::new() };
        list.resize(blocks, Bytes::new());
        list
    }

    /// Takes back a list whose bytes were taken out.
    pub(crate) fn take_back(&mut self, list: ByteList) {
        let is_of_use = list.spilled() && list.is_empty() && list.capacity() <= MOST_KEPT_BLOCKS;
        if is_of_use && self.lists.len() < MOST_LISTS {
            self.lists.push(list);
        }
    }

    /// The request has one more part.
    pub(crate) fn add_part(&mut self, request: usize) {
        self.pending[request].parts_left += 1;
    }

    pub(crate) fn is_durable(&self, request: usize) -> bool {
        self.pending[request].durable
    }

    /// The bytes of a slice of a write: where they are, if they are in one place there, aligned as in their block.
    pub(crate) fn payload(&self, slice: &RequestSlice) -> Bytes {
        let (mut skip, len) = (slice.buf_at as usize, slice.len as usize);
        for bytes in &self.pending[slice.request].data {
            if skip + len <= bytes.len() && is_aligned(&bytes[skip..], slice) {
                return bytes.slice(skip..skip + len);
            }
            if skip < bytes.len() {
                break;
            }
            skip -= bytes.len();
        }
        let mut buf = Buf::for_overwrite(len);
        self.copy_payload(slice, buf.as_mut_slice());
        buf.freeze()
    }

    /// Copies the bytes of a slice of a write, wherever they are.
    fn copy_payload(&self, slice: &RequestSlice, mut to: &mut [u8]) {
        let mut skip = slice.buf_at as usize;
        for bytes in &self.pending[slice.request].data {
            let range = skip.min(bytes.len())..(skip + to.len()).min(bytes.len());
            skip -= range.start;
            let (now, later) = to.split_at_mut(range.len());
            now.copy_from_slice(&bytes[range]);
            to = later;
        }
        assert!(to.is_empty(), "a write has all its bytes");
    }

    /// The whole block as it is after a slice of a write: `old`, where the slice covers less, with the guest's bytes in it.
    pub(crate) fn whole_block(&self, slice: &RequestSlice, block_bytes: usize, old: Option<Buf>) -> Bytes {
        if slice.len as usize == block_bytes {
            return self.payload(slice);
        }
        // What the volume's last block lacks to a whole one is zero.
        let mut full = old.unwrap_or_else(|| Buf::zeroed(block_bytes));
        self.copy_payload(slice, &mut full.as_mut_slice()[slice.start as usize..][..slice.len as usize]);
        full.freeze()
    }

    /// Whether nothing longer than a block stays in memory as long as bytes of this request do.
    pub(crate) fn is_short(&self, request: usize, block_bytes: usize) -> bool {
        self.pending[request].data.iter().all(|bytes| bytes.len() <= block_bytes)
    }

    /// Gives a read its slice of the block's bytes.
    pub(crate) fn deliver(&mut self, block: BlockNo, slice: &RequestSlice, bytes: &Bytes) {
        // Whoever sends them looks at them next.
        prefetch_within(bytes, slice.start as usize);
        let Pending { data, first_block, .. } = &mut self.pending[slice.request];
        data[(block - *first_block) as usize] =
            bytes.slice(slice.start as usize..(slice.start + slice.len) as usize);
    }

    /// The answer of the request waits until this version outlives the process.
    pub(crate) fn keep_until(&mut self, request: usize, version: u64) {
        self.pending[request].kept_version = version;
    }

    pub(crate) fn fail(&mut self, request: usize, error: GuestError) {
        self.pending[request].error.get_or_insert(error);
    }

    /// One part of a request is done. The last one answers it, now or when it is durable.
    pub(crate) fn end_part(&mut self, request: usize, end: PartEnd, now: &Durability) {
        let entry = &mut self.pending[request];
        let served = match end {
            PartEnd::Served(served) => served,
            PartEnd::Failed(error) => {
                entry.error.get_or_insert(error);
                Served::Backing
            }
        };
        entry.served = entry.served.max(served);
        entry.parts_left.count_down();
        if entry.parts_left > 0 {
            return;
        }
        if entry.durable && !now.is_well {
            entry.error.get_or_insert(GuestError::Io);
        }
        match (entry.durable, entry.error) {
            (true, None) => {
                let is_recorded = now.version <= now.durable;
                self.waiters.push(Waiter { request, version: now.version, mark: now.mark, is_recorded });
                self.release_durable(now);
            }
            (false, None) if entry.kept_version > now.kept && !planted("answered-before-it-is-kept") => {
                if now.is_well {
                    self.keepers.push((entry.kept_version, request));
                } else {
                    self.fail(request, GuestError::Io);
                    self.answer(request);
                }
            }
            _ => self.answer(request),
        }
    }

    /// A request is not under way any more, and nobody is told.
    pub(crate) fn withdraw(&mut self, request: usize) {
        self.pending.remove(request);
    }

    fn answer(&mut self, request: usize) {
        let Pending { token, data, error, served, waits, .. } = self.pending.remove(request);
        self.answers.push_back(Answer { token, result: error.map_or(Ok(()), Err), data, served, waits });
    }

    /// Answers a request that is not taken.
    pub(crate) fn refuse(&mut self, token: u64, error: GuestError) {
        let (data, served, waits) = (ByteList::new(), Served::Dram, Waits::default());
        self.answers.push_back(Answer { token, result: Err(error), data, served, waits });
    }

    pub(crate) fn next_answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    /// Answers requests that waited to outlive the process and now do.
    pub(crate) fn release_kept(&mut self, now: &Durability) {
        let released: Vec<_> = self.keepers.extract_if(.., |&mut (version, _)| version <= now.kept).collect();
        for (_, request) in released {
            self.waited(request, WaitedFor::Journal);
            self.answer(request);
        }
    }

    /// Answers requests whose durability has been reached.
    pub(crate) fn release_durable(&mut self, now: &Durability) {
        let mut at = 0;
        while let Some(&waiter) = self.waiters.get(at) {
            let is_flushed = waiter.mark <= now.flushed || planted("flush-without-the-disk");
            let is_recorded = waiter.version <= now.durable;
            if is_recorded && !waiter.is_recorded {
                self.waiters[at].is_recorded = true;
                self.waited(waiter.request, WaitedFor::Journal);
            }
            if is_recorded && is_flushed {
                self.waiters.swap_remove(at);
                self.waited(waiter.request, WaitedFor::BackingFlush);
                self.answer(waiter.request);
            } else {
                at += 1;
            }
        }
    }

    /// Nothing will become durable any more: whoever waits for it is told.
    pub(crate) fn end_durability(&mut self) {
        let of_waiter = |waiter: Waiter| match waiter.is_recorded {
            true => (waiter.request, WaitedFor::BackingFlush),
            false => (waiter.request, WaitedFor::Journal),
        };
        let waiters: Vec<_> = self.waiters.drain(..).map(of_waiter).collect();
        let keepers: Vec<_> =
            self.keepers.drain(..).map(|(_, request)| (request, WaitedFor::Journal)).collect();
        for (request, cause) in waiters.into_iter().chain(keepers) {
            self.waited(request, cause);
            self.fail(request, GuestError::Io);
            self.answer(request);
        }
    }

    /// The journal version that somebody waits to be durable; 0 if nobody does.
    pub(crate) fn version_waited_for(&self) -> u64 {
        self.waiters.iter().map(|waiter| waiter.version).max().unwrap_or(0)
    }

    /// The version that somebody waits to outlive the process; 0 if nobody does.
    pub(crate) fn kept_waited_for(&self) -> u64 {
        self.keepers.iter().map(|keeper| keeper.0).max().unwrap_or(0)
    }

    /// The backing mark that somebody waits for; 0 if nobody does.
    pub(crate) fn mark_waited_for(&self) -> u64 {
        self.waiters.iter().map(|waiter| waiter.mark).max().unwrap_or(0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }
}
