//! Policy-optimised reuse distances by scanning a log of the stream, straight from their definitions.

use std::collections::HashSet;

use lode_types::BlockNo;

#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub is_read: bool,
    pub block: BlockNo,
    pub dram_hit: bool,
}

#[derive(Debug, Default)]
pub struct Log(Vec<Seen>);

/// Distinct blocks of `references` after the last one to `block`; `None` without one.
fn distance(references: &[Seen], block: BlockNo) -> Option<u32> {
    let last = references.iter().rposition(|seen| seen.block == block)?;
    let between: HashSet<BlockNo> = references[last + 1..].iter().map(|seen| seen.block).collect();
    Some(between.len() as u32)
}

impl Log {
    pub fn note(&mut self, seen: Seen) {
        self.0.push(seen);
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// A discarded block is as one never seen.
    pub fn discard(&mut self, block: BlockNo) {
        self.0.retain(|seen| seen.block != block);
    }

    /// Forgets all but the latest accesses, for streams in which no distance reaches beyond them.
    pub fn keep_last(&mut self, count: usize) {
        self.0.drain(..self.0.len().saturating_sub(count));
    }

    /// POD(RO) of a read of `block` that comes now, when it is useful.
    pub fn ro(&self, block: BlockNo, ignore_writes: bool) -> Option<u32> {
        let reads: Vec<Seen> = self.0.iter().copied().filter(|seen| seen.is_read).collect();
        let before = self.0.iter().rfind(|seen| seen.block == block)?;
        if !before.is_read && !ignore_writes {
            return None;
        }
        distance(&reads, block)
    }

    /// POD(WBWO) of an access to `block` that comes now, when the block was written before.
    pub fn wbwo(&self, block: BlockNo, chained: bool) -> Option<u32> {
        let mut written = HashSet::new();
        let mut references = Vec::new();
        for &seen in &self.0 {
            if !seen.is_read {
                written.insert(seen.block);
            }
            if written.contains(&seen.block) && !(chained && seen.dram_hit) {
                references.push(seen);
            }
        }
        distance(&references, block)
    }

    /// Reuse distance over everything.
    pub fn wb(&self, block: BlockNo) -> Option<u32> {
        distance(&self.0, block)
    }
}
