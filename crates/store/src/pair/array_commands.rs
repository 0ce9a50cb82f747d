//! One volume's commands to a cache on several pairs: which pair each goes to, and what becomes of one that goes to more than one, as a
//! flush does. With a single pair they go there as they are. It must not know members, devices, or who else uses the pairs.

use std::sync::Arc;

use hashbrown::HashMap;
use lode_types::{Buf, Bufs, Bytes, CommandKind, Counter, MediaError, planted};
use smallvec::SmallVec;

use super::fanout::{PairCommand, PairEnd, PairOptions};
use super::stripes::{Part, Stripes};

/// A command that went to several pairs, or to several places of one.
#[derive(Debug)]
struct Divided {
    id: u64,
    parts_left: usize,
    error: Option<MediaError>,
    is_write: bool,
    /// The buffers of a read, by part.
    bufs: SmallVec<[Bufs; 2]>,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct ArrayCommands {
    stripes: Arc<Stripes>,
    divided: HashMap<u64, Divided>,
    /// Of each part under way its command, and which of its parts it is.
    parts: HashMap<u64, (u64, usize)>,
    next: u64,
}

impl ArrayCommands {
    /// Of a volume on a cache that lies on its pairs like this.
    pub fn new(stripes: Arc<Stripes>) -> ArrayCommands {
        ArrayCommands { stripes, divided: HashMap::new(), parts: HashMap::new(), next: 0 }
    }

    /// Where the cache is on its pairs.
    pub fn stripes(&self) -> &Stripes {
        &self.stripes
    }

    /// Takes a command, and gives those that it is for pairs, each with the number of its pair.
    ///
    /// # Panics
    /// When a buffer is on two extents: no block and no page of metadata is.
    pub fn begin(&mut self, command: PairCommand, mut send: impl FnMut(usize, PairCommand)) {
        if self.stripes.pairs() == 1 {
            return send(0, command);
        }
        if matches!(command.kind, CommandKind::Flush) {
            return self.begin_flush(command, send);
        }
        let (start, length) = command.kind.range();
        let parts = self.stripes.parts(start..start + length);
        let PairCommand { id, mut kind, mut options } = command;
        if let [Part { pair, offset_bytes, .. }] = parts[..] {
            move_to(&mut kind, offset_bytes);
            return send(pair, PairCommand { id: whole(id), kind, options });
        }
        let is_write = !matches!(kind, CommandKind::Read { .. });
        let first = self.divide(id, parts.len(), is_write);
        for (part, place) in (first..).zip(&parts) {
            let (kind, options) = take_part(&mut kind, &mut options, place);
            send(place.pair, PairCommand { id: part_id(part), kind, options });
        }
    }

    fn begin_flush(&mut self, command: PairCommand, mut send: impl FnMut(usize, PairCommand)) {
        let pairs = if planted("flush-of-one-pair-only") { 1 } else { self.stripes.pairs() };
        let first = self.divide(command.id, pairs, true);
        for (part, pair) in (first..).zip(0..pairs) {
            let (kind, options) = (CommandKind::Flush, PairOptions::default());
            send(pair, PairCommand { id: part_id(part), kind, options });
        }
    }

    /// Notes a command in so many parts. Gives the number of the first.
    fn divide(&mut self, id: u64, parts: usize, is_write: bool) -> u64 {
        let first = self.next;
        self.next += parts as u64;
        self.parts.extend((first..self.next).zip(0..).map(|(part, at)| (part, (first, at))));
        let bufs = (0..parts).map(|_| Bufs::new()).collect();
        self.divided.insert(first, Divided { id, parts_left: parts, error: None, is_write, bufs });
        first
    }

    /// The end of a command to a pair. Gives that of the command it is of, when that is over on all pairs.
    pub fn ended(&mut self, end: PairEnd) -> Option<PairEnd> {
        if self.stripes.pairs() == 1 {
            return Some(end);
        }
        let Some(part) = part_of(end.id) else { return Some(PairEnd { id: end.id / 2, ..end }) };
        let (number, at) = self.parts.remove(&part)?;
        let divided = self.divided.get_mut(&number)?;
        divided.bufs[at] = end.bufs;
        let before = divided.error.filter(|_| !planted("last-pair-decides"));
        divided.error = worse(before, end.result.err());
        divided.parts_left.count_down();
        if divided.parts_left > 0 {
            return None;
        }
        let Divided { id, error, is_write, bufs, .. } = self.divided.remove(&number)?;
        let bufs = bufs.into_iter().flatten().collect();
        Some(PairEnd { id, result: error.map_or(Ok(()), Err), bufs, is_write })
    }

    /// The token of a command to a member, among those of all pairs.
    pub fn token(&self, pair: usize, token: u64) -> u64 {
        token * self.stripes.pairs() as u64 + pair as u64
    }

    /// The pair that such a token is of, and what it is there.
    pub fn token_of(&self, token: u64) -> (usize, u64) {
        let pairs = self.stripes.pairs() as u64;
        ((token % pairs) as usize, token / pairs)
    }
}

/// By which pairs know a command that goes to one of them, and a part of one that does not.
fn whole(id: u64) -> u64 {
    id * 2
}

fn part_id(part: u64) -> u64 {
    part * 2 + 1
}

fn part_of(id: u64) -> Option<u64> {
    (id % 2 == 1).then_some(id / 2)
}

/// What a command failed with of whose parts one failed with each: a pair that is gone is so for everything.
fn worse(one: Option<MediaError>, other: Option<MediaError>) -> Option<MediaError> {
    let rank = |error: &Option<MediaError>| match error {
        None => 0,
        Some(MediaError::Io) => 1,
        Some(MediaError::NoSpace) => 2,
        Some(MediaError::Gone) => 3,
    };
    if rank(&other) > rank(&one) { other } else { one }
}

/// Has a command that is no flush begin elsewhere.
fn move_to(kind: &mut CommandKind, to_bytes: u64) {
    match kind {
        CommandKind::Flush => {}
        CommandKind::Read { offset_bytes, .. }
        | CommandKind::Write { offset_bytes, .. }
        | CommandKind::Trim { offset_bytes, .. }
        | CommandKind::WriteZeroes { offset_bytes, .. } => *offset_bytes = to_bytes,
    }
}

/// Takes from a command that is no flush what is for this part, of which it is the first that is left.
fn take_part(kind: &mut CommandKind, options: &mut PairOptions, part: &Part) -> (CommandKind, PairOptions) {
    let &Part { offset_bytes, length_bytes, .. } = part;
    let mut checks = SmallVec::new();
    let kind = match kind {
        CommandKind::Flush => CommandKind::Flush,
        CommandKind::Read { bufs, .. } => {
            let count = count_of(bufs.iter().map(Buf::len), length_bytes);
            checks = options.checks.drain(..count.min(options.checks.len())).collect();
            CommandKind::Read { offset_bytes, bufs: bufs.drain(..count).collect() }
        }
        CommandKind::Write { data, .. } => {
            let count = count_of(data.iter().map(Bytes::len), length_bytes);
            CommandKind::Write { offset_bytes, data: data.drain(..count).collect() }
        }
        CommandKind::Trim { .. } => CommandKind::Trim { offset_bytes, length_bytes },
        &mut CommandKind::WriteZeroes { unmap, .. } => {
            CommandKind::WriteZeroes { offset_bytes, length_bytes, unmap }
        }
    };
    (kind, PairOptions { checks, every_copy: options.every_copy, one_copy: options.one_copy })
}

/// How many of these buffers have so many bytes together.
fn count_of(lens: impl Iterator<Item = usize>, bytes: u64) -> usize {
    let mut left = bytes;
    let is_in = |len: &usize| {
        let is_in = left > 0;
        left = left.checked_sub(if is_in { *len as u64 } else { 0 }).expect("a buffer is on one extent");
        is_in
    };
    lens.take_while(is_in).count()
}

#[cfg(test)]
mod tests;
