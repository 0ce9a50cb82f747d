//! What there is to say of a trace without any cache. It must not know schemes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use lode_replay::{Recording, RequestStream};
use lode_trace::vm_block;
use lode_types::{RequestOp, blocks_of};
use serde::Serialize;

use crate::run::BLOCK;

/// A trace at hand: what is run of it. Shares are from 0 to 1, of block accesses where nothing else is said; none of nothing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceFacts {
    /// What it is called.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// It was made from a profile, and is no recording.
    pub synthetic: bool,
    /// It has times.
    pub has_times: bool,
    /// Requests that are run.
    pub requests: u64,
    /// Blocks that they read or write, each as often as it is accessed.
    pub block_accesses: u64,
    /// Different ones.
    pub touched_blocks: u64,
    /// Accesses that read.
    pub read_share: Option<f64>,
    /// Accesses that write to a block that was accessed before.
    pub overwrites: Option<f64>,
    /// Accesses that read a block for the first time, before which it was not written: no cache serves them.
    pub cold_reads: Option<f64>,
    /// The same, of the reads.
    pub first_of_reads: Option<f64>,
    /// Of the reads, those of a block whose latest access before was a write.
    pub after_write_of_reads: Option<f64>,
    /// Of the touched blocks, those that are both read and written.
    pub read_and_written: Option<f64>,
    /// Accesses to blocks that were accessed before.
    pub reuse: Option<f64>,
}

/// What is known of a block.
#[derive(Clone, Copy, Default)]
struct Seen {
    read: bool,
    written: bool,
    /// By its latest access.
    just_written: bool,
}

/// Accesses of one kind or the other.
#[derive(Default)]
struct Counted {
    reads: u64,
    writes: u64,
    overwrites: u64,
    cold_reads: u64,
    reads_after_write: u64,
}

impl Counted {
    fn access(&mut self, is_read: bool, block: &mut Seen) {
        let is_known = block.read || block.written;
        if is_read {
            self.reads += 1;
            self.cold_reads += u64::from(!is_known);
            self.reads_after_write += u64::from(block.just_written);
            block.read = true;
        } else {
            self.writes += 1;
            self.overwrites += u64::from(is_known);
            block.written = true;
        }
        block.just_written = !is_read;
    }
}

impl TraceFacts {
    /// Of these requests.
    pub(crate) fn of(name: &str, path: &Path, recording: &Recording) -> TraceFacts {
        let mut blocks: HashMap<u64, Seen> = HashMap::new();
        let mut counted = Counted::default();
        for (_, request) in recording.requests_by_time() {
            let is_read = match request.op {
                RequestOp::Read => true,
                RequestOp::Write => false,
                RequestOp::Trim | RequestOp::Flush => continue,
            };
            let parts = blocks_of(BLOCK, request.offset_bytes, request.length_bytes.into());
            for block in parts.filter_map(|part| vm_block(request.volume, part.block)) {
                counted.access(is_read, blocks.entry(block).or_default());
            }
        }
        let Counted { reads, writes, overwrites, cold_reads, reads_after_write } = counted;
        let (accesses, touched) = (reads + writes, blocks.len() as u64);
        let both = blocks.values().filter(|block| block.read && block.written).count() as u64;
        let share = |part: u64, of: u64| (of > 0).then(|| part as f64 / of as f64);
        let inputs = recording.play().inputs();
        TraceFacts {
            name: name.to_owned(),
            path: path.to_owned(),
            synthetic: inputs.iter().any(|input| input.synthetic),
            has_times: recording.play().has_times(),
            requests: recording.requests() as u64,
            block_accesses: accesses,
            touched_blocks: touched,
            read_share: share(reads, accesses),
            overwrites: share(overwrites, accesses),
            cold_reads: share(cold_reads, accesses),
            first_of_reads: share(cold_reads, reads),
            after_write_of_reads: share(reads_after_write, reads),
            read_and_written: share(both, touched),
            reuse: share(accesses - touched, accesses),
        }
    }

    /// Whether it both reads and writes: each in one of a hundred accesses at least.
    pub fn reads_and_writes(&self) -> bool {
        self.read_share.is_some_and(|share| (0.01..=0.99).contains(&share))
    }

    /// Its name in a row, with what a reader has to know of it.
    pub(crate) fn row(&self) -> String {
        let mut marks = Vec::new();
        if self.synthetic {
            marks.push("made");
        }
        match self.read_share {
            Some(share) if share >= 1.0 => marks.push("reads alone"),
            Some(share) if share <= 0.0 => marks.push("writes alone"),
            Some(share) if share > 0.99 => marks.push("hardly writes"),
            Some(share) if share < 0.01 => marks.push("hardly reads"),
            _ => {}
        }
        match marks[..] {
            [] => self.name.clone(),
            _ => format!("{} ({})", self.name, marks.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_are_what_they_follow() {
        let mut block = Seen::default();
        let mut counted = Counted::default();
        // Read for the first time, read again, written over, read after a write, read again.
        [true, true, false, true, true].into_iter().for_each(|is_read| counted.access(is_read, &mut block));
        let mut other = Seen::default();
        // Written for the first time, written over, read after a write: nothing cold.
        [false, false, true].into_iter().for_each(|is_read| counted.access(is_read, &mut other));
        let Counted { reads, writes, overwrites, cold_reads, reads_after_write } = counted;
        assert_eq!((reads, writes, overwrites, cold_reads, reads_after_write), (5, 3, 2, 1, 2));
    }
}
