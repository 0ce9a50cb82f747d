//! Requests that wait for admission, in order of arrival, and which of them may go first: one that has to do with blocks of an
//! earlier one waits for that one, so that operations on one block stay in order of arrival; all others are ready. Of long
//! requests a piece is decided at a time, and what is left has its next turn after those that wait then. It must not know what
//! ready requests wait for.

use std::collections::VecDeque;
use std::ops::Range;

use lode_types::{BlockNo, BlockSize, ByteList, Counter, blocks_of};
use slab::Slab;

use crate::guest::{GuestOp, GuestRequest, MAX_PIECE_BYTES, MAX_RANGE_BYTES};

/// What kind a request is of: those of one kind wait for the same things, and have their turns one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Flush,
    Read,
    Write,
    Zero,
    Trim,
}

impl Kind {
    pub(crate) const COUNT: usize = 5;

    pub(crate) fn of(op: &GuestOp) -> Kind {
        match op {
            GuestOp::Flush => Kind::Flush,
            GuestOp::Read { .. } => Kind::Read,
            GuestOp::Write { .. } => Kind::Write,
            GuestOp::WriteZeroes { .. } => Kind::Zero,
            GuestOp::Trim { .. } => Kind::Trim,
        }
    }

    /// Whether it may make blocks dirty.
    pub(crate) fn writes(self) -> bool {
        matches!(self, Kind::Write | Kind::Zero)
    }

    /// Whether it changes whole ranges.
    pub(crate) fn is_range(self) -> bool {
        matches!(self, Kind::Zero | Kind::Trim)
    }
}

/// A request that waits for admission, or what is left of it: long ones are decided piece by piece.
#[derive(Debug)]
pub(crate) struct Waiting {
    request: GuestRequest,
    /// Bytes of the volume that are still to be decided.
    rest: Range<u64>,
    /// The request under way, once its first piece is decided.
    key: Option<usize>,
    /// When it came, on the engine's clock.
    since_ns: u64,
    /// Until when earlier ones that have to do with its blocks waited as well; when it came, if there were none.
    behind_until_ns: u64,
    /// It could not be served past the scheme.
    is_for_scheme: bool,
}

impl Waiting {
    /// What is decided next of it: no block is in two pieces.
    fn next_piece(&self, size: BlockSize) -> Range<u64> {
        let most = if self.request.op.is_range() { MAX_RANGE_BYTES } else { MAX_PIECE_BYTES };
        let at = self.rest.start;
        at..self.rest.end.min(size.start_of(size.block_of(at.saturating_add(most))))
    }

    /// The blocks that the next piece may need frames and places for.
    pub(crate) fn blocks_needed(&self, size: BlockSize) -> u32 {
        match self.request.op {
            GuestOp::Flush | GuestOp::Trim { .. } => 0,
            // At most the two blocks at its ends are written.
            GuestOp::WriteZeroes { .. } => 2,
            GuestOp::Read { .. } | GuestOp::Write { .. } => {
                let piece = self.next_piece(size);
                blocks_of(size, piece.start, piece.end - piece.start).len() as u32
            }
        }
    }

    /// The blocks that are still to be decided.
    fn blocks(&self, size: BlockSize) -> Range<BlockNo> {
        if self.rest.is_empty() {
            return 0..0;
        }
        size.block_of(self.rest.start)..size.block_of(self.rest.end - 1) + 1
    }
}

/// One of the requests that wait.
#[derive(Debug)]
struct Entry {
    kind: Kind,
    blocks: Range<BlockNo>,
    arrived: u64,
    /// Earlier ones that wait and have to do with its blocks.
    behind: usize,
    /// `None` while a piece is being decided.
    waiting: Option<Waiting>,
}

impl Entry {
    /// Whether a later one of this kind has to wait for it, on account of these blocks of it.
    fn holds_up(&self, blocks: &Range<BlockNo>, later: &Entry) -> bool {
        let are_reads = self.kind == Kind::Read && later.kind == Kind::Read;
        let overlap = blocks.start.max(later.blocks.start) < blocks.end.min(later.blocks.end);
        self.arrived < later.arrived && !are_reads && overlap
    }
}

/// Whose turn it is among the ready ones: those with lower numbers come first.
type Turn = (u64, usize);

/// A request that was taken to be decided; see [`Queue::take`].
#[derive(Debug)]
pub(crate) struct Taken {
    id: usize,
    waiting: Waiting,
}

impl Taken {
    pub(crate) fn request(&self) -> &GuestRequest {
        &self.waiting.request
    }

    /// The request under way, once its first piece is decided.
    pub(crate) fn key(&self) -> Option<usize> {
        self.waiting.key
    }

    /// When it came, on the engine's clock.
    pub(crate) fn since_ns(&self) -> u64 {
        self.waiting.since_ns
    }

    /// Until when it waited for earlier ones that have to do with its blocks; when it came, if there were none.
    pub(crate) fn behind_until_ns(&self) -> u64 {
        self.waiting.behind_until_ns
    }

    /// What is decided next of it.
    pub(crate) fn next_piece(&self, size: BlockSize) -> Range<u64> {
        self.waiting.next_piece(size)
    }

    /// The bytes that are to be written, which are not there any more.
    pub(crate) fn take_bytes(&mut self) -> ByteList {
        match &mut self.waiting.request.op {
            GuestOp::Write { data, .. } => std::mem::take(data),
            _ => ByteList::new(),
        }
    }

    /// Its next piece, which ends here, is decided as a part of this request under way.
    pub(crate) fn piece_decided(&mut self, key: usize, end: u64) {
        let Waiting { rest, key: known, .. } = &mut self.waiting;
        assert!(known.is_none_or(|known| known == key) && (rest.start..=rest.end).contains(&end));
        (*known, rest.start) = (Some(key), end);
    }

    /// Nothing more of it is decided.
    pub(crate) fn give_up_rest(&mut self) {
        self.waiting.rest.start = self.waiting.rest.end;
    }

    /// It could not be served past the scheme.
    pub(crate) fn leave_to_scheme(&mut self) {
        self.waiting.is_for_scheme = true;
    }

    /// Whether nothing is left of it.
    pub(crate) fn is_over(&self) -> bool {
        self.waiting.rest.is_empty()
    }
}

/// All that wait.
#[derive(Debug)]
pub(crate) struct Queue {
    size: BlockSize,
    entries: Slab<Entry>,
    /// By kind, in order of their turns.
    ready: [VecDeque<Turn>; Kind::COUNT],
    /// Number of the next arrival or turn.
    next: u64,
}

impl Queue {
    pub(crate) fn new(size: BlockSize) -> Queue {
        Queue { size, entries: Slab::new(), ready: Default::default(), next: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A request arrives. Its last byte has a number.
    pub(crate) fn push(&mut self, request: GuestRequest, now_ns: u64) {
        let (offset, length) = request.op.range();
        let kind = Kind::of(&request.op);
        let rest = offset..offset + length;
        let (since_ns, behind_until_ns) = (now_ns, now_ns);
        let waiting = Waiting { request, rest, key: None, since_ns, behind_until_ns, is_for_scheme: false };
        let blocks = waiting.blocks(self.size);
        let mut entry = Entry { kind, blocks, arrived: self.next, behind: 0, waiting: Some(waiting) };
        self.next += 1;
        let earlier = self.entries.iter();
        entry.behind = earlier.filter(|(_, earlier)| earlier.holds_up(&earlier.blocks, &entry)).count();
        let (arrived, is_ready) = (entry.arrived, entry.behind == 0);
        let id = self.entries.insert(entry);
        if is_ready {
            self.ready[kind as usize].push_back((arrived, id));
        }
    }

    /// Of each kind the ready one whose turn it is, in order of their turns.
    pub(crate) fn heads(&self) -> impl Iterator<Item = (Kind, &Waiting)> {
        let (mut heads, mut count) = ([(0, 0); Kind::COUNT], 0);
        for turn in self.ready.iter().filter_map(VecDeque::front) {
            heads[count] = *turn;
            count += 1;
        }
        if count > 1 {
            heads[..count].sort_unstable();
        }
        heads.into_iter().take(count).map(|(_, id): Turn| {
            let entry = &self.entries[id];
            (entry.kind, entry.waiting.as_ref().expect("what is ready is not being decided"))
        })
    }

    /// Takes the one of a kind whose turn it is. What is left of it when a piece was decided is told [`Queue::decided`].
    pub(crate) fn take(&mut self, kind: Kind) -> Option<Taken> {
        let (_, id) = self.ready[kind as usize].pop_front()?;
        let waiting = self.entries[id].waiting.take()?;
        Some(Taken { id, waiting })
    }

    /// Takes the first ready read that may be served past the scheme.
    pub(crate) fn take_early_read(&mut self) -> Option<Taken> {
        let Queue { entries, ready, .. } = self;
        let may_be_early =
            |&(_, id): &Turn| entries[id].waiting.as_ref().is_some_and(|waiting| !waiting.is_for_scheme);
        let ready = &mut ready[Kind::Read as usize];
        let at = ready.iter().position(may_be_early)?;
        let (_, id) = ready.remove(at)?;
        let waiting = entries[id].waiting.take()?;
        Some(Taken { id, waiting })
    }

    /// A piece was decided now, and this is left; an empty rest: it waits no longer. Those that waited for what was decided no
    /// longer do.
    pub(crate) fn decided(&mut self, taken: Taken, now_ns: u64) {
        let Taken { id, waiting } = taken;
        let rest = waiting.blocks(self.size);
        if self.entries.len() > 1 {
            self.let_pass(id, &rest, now_ns);
        }
        if rest.is_empty() {
            self.entries.remove(id);
            return;
        }
        let entry = &mut self.entries[id];
        entry.blocks = rest;
        entry.waiting = Some(waiting);
        self.ready[entry.kind as usize].push_back((self.next, id));
        self.next += 1;
    }

    /// Those that only wait for blocks of this one that are not in `rest` are ready as far as it is concerned.
    fn let_pass(&mut self, id: usize, rest: &Range<BlockNo>, now_ns: u64) {
        let Entry { kind, ref blocks, arrived, .. } = self.entries[id];
        let decided = Entry { kind, blocks: blocks.clone(), arrived, behind: 0, waiting: None };
        for (later_id, later) in &mut self.entries {
            if !decided.holds_up(&decided.blocks, later) || decided.holds_up(rest, later) {
                continue;
            }
            later.behind.count_down();
            if later.behind == 0 {
                later.waiting.iter_mut().for_each(|waiting| waiting.behind_until_ns = now_ns);
                let ready = &mut self.ready[later.kind as usize];
                let at = ready.partition_point(|&(turn, _)| turn < later.arrived);
                ready.insert(at, (later.arrived, later_id));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lode_types::{Buf, Rng};

    use super::*;

    const BLOCK: u64 = 4096;

    /// What waits as a list, looked through as a whole for each question.
    #[derive(Default)]
    struct Oracle(Vec<Known>);

    #[derive(Clone, Debug)]
    struct Known {
        token: u64,
        kind: Kind,
        rest: Range<u64>,
        turn: u64,
    }

    impl Oracle {
        fn is_ready(&self, at: usize) -> bool {
            let blocks = |known: &Known| known.rest.start / BLOCK..known.rest.end.div_ceil(BLOCK);
            let own = blocks(&self.0[at]);
            !self.0[..at].iter().any(|earlier| {
                let their = blocks(earlier);
                let is_read = |known: &Known| known.kind == Kind::Read;
                let is_shared = own.start < their.end && their.start < own.end;
                is_shared
                    && earlier.kind != Kind::Flush
                    && self.0[at].kind != Kind::Flush
                    && !(is_read(earlier) && is_read(&self.0[at]))
            })
        }

        /// Tokens of the ready ones whose turn it is, of each kind.
        fn heads(&self) -> Vec<(Kind, u64)> {
            let mut heads: Vec<&Known> = Vec::new();
            let ready = (0..self.0.len()).filter(|&at| self.is_ready(at));
            let mut ready: Vec<&Known> = ready.map(|at| &self.0[at]).collect();
            ready.sort_by_key(|known| known.turn);
            for known in ready {
                if heads.iter().all(|head| head.kind != known.kind) {
                    heads.push(known);
                }
            }
            heads.into_iter().map(|known| (known.kind, known.token)).collect()
        }
    }

    fn random_op(rng: &mut Rng) -> GuestOp {
        let offset_bytes = rng.below(40) * 1024;
        let length_bytes = (1 + rng.below(40)) * 1024;
        match rng.below(8) {
            0 => GuestOp::Flush,
            1 => GuestOp::Trim { offset_bytes, length_bytes },
            2 => GuestOp::WriteZeroes { offset_bytes, length_bytes, fua: false, unmap: true },
            3..=5 => GuestOp::Read { offset_bytes, length_bytes },
            _ => GuestOp::Write {
                offset_bytes,
                data: std::iter::once(vec![0; length_bytes as usize].into()).collect::<ByteList>(),
                fua: false,
            },
        }
    }

    /// What a request waits for after those that came before it is not that they did.
    #[test]
    fn it_is_known_until_when_earlier_ones_were_in_the_way() {
        let mut queue = Queue::new(BlockSize::KIB_4);
        let read = |block: u64| GuestOp::Read { offset_bytes: block * BLOCK, length_bytes: BLOCK };
        let write = GuestOp::write(0, Buf::zeroed(2 * BLOCK as usize), false);
        for (token, op, now_ns) in [(1, write, 10), (2, read(0), 20), (3, read(1), 30), (4, read(9), 40)] {
            queue.push(GuestRequest { token, op, now_ns: 0 }, now_ns);
        }
        let mut first = queue.take(Kind::Write).unwrap();
        assert_eq!(first.behind_until_ns(), 10);
        first.waiting.rest.start = BLOCK;
        queue.decided(first, 100);
        let mut rest = queue.take(Kind::Write).unwrap();
        rest.give_up_rest();
        queue.decided(rest, 200);
        let known: Vec<_> = std::iter::from_fn(|| queue.take(Kind::Read))
            .map(|taken| (taken.request().token, taken.since_ns(), taken.behind_until_ns()))
            .collect();
        assert_eq!(known, [(2, 20, 100), (3, 30, 200), (4, 40, 40)]);
    }

    #[test]
    fn g1_order_of_arrival_by_block_as_a_list_says() {
        for seed in 0..200 {
            let rng = &mut Rng::new(seed);
            let mut queue = Queue::new(BlockSize::KIB_4);
            let (mut oracle, mut numbers) = (Oracle::default(), 0..);
            for token in 0..200 {
                if rng.below(2) == 0 {
                    let op = random_op(rng);
                    let (kind, (offset, length)) = (Kind::of(&op), op.range());
                    let turn = numbers.next().unwrap();
                    oracle.0.push(Known { token, kind, rest: offset..offset + length, turn });
                    queue.push(GuestRequest { token, op, now_ns: 0 }, 0);
                } else if let Some(&(kind, token)) = oracle.heads().get(rng.below(5) as usize) {
                    let mut taken = queue.take(kind).unwrap();
                    let rest = &mut taken.waiting.rest;
                    let ends = rng.below(3) > 0 || rest.end - rest.start <= BLOCK;
                    rest.start = if ends { rest.end } else { (rest.start / BLOCK + 1) * BLOCK };
                    let at = oracle.0.iter().position(|known| known.token == token).unwrap();
                    match rest.is_empty() {
                        true => drop(oracle.0.remove(at)),
                        false => {
                            oracle.0[at].rest = rest.clone();
                            oracle.0[at].turn = numbers.next().unwrap();
                        }
                    }
                    queue.decided(taken, 0);
                }
                let heads: Vec<_> = queue.heads().map(|(kind, next)| (kind, next.request.token)).collect();
                assert_eq!(heads, oracle.heads(), "seed {seed}");
                assert_eq!(queue.is_empty(), oracle.0.is_empty());
            }
        }
    }
}
