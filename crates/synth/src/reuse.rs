//! The stream whose reuse follows a distribution of stack distances (Mattson, Gecsei, Slutz, Traiger, "Evaluation
//! techniques for storage hierarchies", IBM Systems Journal 9(2), 1970, define the distance). It must not know sizes'
//! and arrivals' distributions.
//!
//! Blocks lie in runs. A run fills from its start on, and runs are scattered over the range, so that blocks that became
//! known one after the other are neighbours, as files are.

use lode_types::Rng;

use crate::area::{Area, Scatter};
use crate::profile::Reuse;
use crate::stack::Stack;
use crate::steer::{Aim, Steer};

/// Runs that one operation fills at the same time.
const OPEN_RUNS: usize = 4;
/// Aims taken for one at which there is a block whose latest touch was of the kind asked for.
const AIMS: usize = 4;
/// Blocks looked at for one whose latest touch was of the kind asked for.
const CANDIDATES: usize = 32;
/// Blocks walked back from a candidate to the start of a request.
const MAX_BACK: u32 = 1024;

/// The state of one stream.
#[derive(Clone, Debug)]
pub(crate) struct ReuseStream {
    area: Area,
    scatter: Scatter,
    run_blocks: u32,
    /// For each run, how many of its blocks are known: the first ones.
    filled: Vec<u32>,
    /// Runs that reads, and that writes, fill.
    open: [Vec<u32>; 2],
    most_runs: u64,
    new_left: u64,
    stack: Stack,
    /// One bit for each block: a request has started in it.
    starts: Vec<u64>,
    steer: [Steer; 2],
    /// Where in which run the last request ended, for each place to go on from.
    ends: Vec<Option<(u32, u64)>>,
}

impl ReuseStream {
    /// A stream over the `blocks` of `area`, of so many reads and writes.
    pub(crate) fn new(
        reuse: &Reuse,
        area: Area,
        blocks: u64,
        requests: [u64; 2],
        places: u32,
    ) -> ReuseStream {
        let run_blocks = reuse.run_bytes / area.block_bytes;
        let most_runs = blocks.div_ceil(run_blocks);
        let new_by_reads = blocks as f64 * reuse.new_by_reads_share;
        ReuseStream {
            area,
            scatter: Scatter::new(most_runs),
            run_blocks: run_blocks as u32,
            filled: Vec::new(),
            open: Default::default(),
            most_runs,
            new_left: blocks,
            stack: Stack::default(),
            starts: Vec::new(),
            steer: [
                Steer::new(&reuse.read, new_by_reads, requests[0]),
                Steer::new(&reuse.write, blocks as f64 - new_by_reads, requests[1]),
            ],
            ends: vec![None; places as usize],
        }
    }

    /// Where a request that starts where the last one of this place ended is, if there may be one.
    pub(crate) fn follow(&mut self, from: usize, writes: bool, bytes: u32) -> Option<u64> {
        let (run, at) = self.ends[from]?;
        let end = at + u64::from(bytes);
        let blocks = end.div_ceil(self.area.block_bytes);
        let known = u64::from(self.filled[run as usize]);
        let fits = blocks <= u64::from(self.run_blocks) && blocks.saturating_sub(known) <= self.new_left;
        fits.then(|| self.touch(from, (run, at), bytes, writes))
    }

    /// Where the next request goes, from which that place goes on.
    pub(crate) fn choose(&mut self, from: usize, writes: bool, bytes: u32, rng: &mut Rng) -> u64 {
        let mut block = None;
        for _ in 0..AIMS {
            let known = self.stack.len();
            let aim = self.steer[usize::from(writes)].aim(known, self.new_left > 0, rng);
            let Aim::Again { from, to, after_write } = aim else {
                block = None;
                break;
            };
            let (found, is_of_kind) = self.candidate((from, to), after_write, rng);
            block = found;
            if is_of_kind {
                break;
            }
        }
        let (run, mut first) = match block {
            Some(block) => (block / self.run_blocks, block % self.run_blocks),
            None => {
                let run = self.open_run(writes, rng);
                (run, self.filled[run as usize])
            }
        };
        let inside = self.area.inside(u64::from(run) * u64::from(self.run_blocks) + u64::from(first));
        let blocks = (inside + u64::from(bytes)).div_ceil(self.area.block_bytes) as u32;
        // The checked profile has runs that hold every request, wherever in a block it starts.
        let mut most = self.run_blocks;
        if u64::from((first + blocks).saturating_sub(self.filled[run as usize])) > self.new_left {
            most = self.filled[run as usize].max(blocks);
        }
        first = first.min(most.saturating_sub(blocks));
        self.touch(from, (run, u64::from(first) * self.area.block_bytes + inside), bytes, writes)
    }

    /// A block with a distance from `from` to below `to`, or rather where the request started that touched it: what
    /// belongs together is used together. If possible its latest touch was of this kind; says whether it was.
    fn candidate(
        &self,
        (from, to): (u32, u32),
        after_write: Option<bool>,
        rng: &mut Rng,
    ) -> (Option<u32>, bool) {
        let depths = u64::from(to.min(self.stack.len()).saturating_sub(from)).max(1);
        let (mut found, mut is_of_kind) = (None, false);
        for _ in 0..CANDIDATES {
            let Some((block, written)) = self.stack.at(from + rng.below(depths) as u32) else { break };
            is_of_kind = after_write.is_none_or(|wanted| wanted == written);
            found = Some(block);
            if is_of_kind {
                break;
            }
        }
        let start = found.map(|block| {
            let least = block - (block % self.run_blocks).min(MAX_BACK);
            let start = (least..=block).rev().find(|&at| self.is_start(at)).unwrap_or(block);
            let is_alike =
                after_write.is_none() || self.stack.is_written(start) == self.stack.is_written(block);
            if is_alike { start } else { block }
        });
        (start, is_of_kind)
    }

    fn is_start(&self, block: u32) -> bool {
        self.starts.get(block as usize / 64).is_some_and(|word| word >> (block % 64) & 1 != 0)
    }

    /// A run with room for new blocks. Reads and writes fill their own, so that what is written lies together.
    fn open_run(&mut self, writes: bool, rng: &mut Rng) -> u32 {
        for open in &mut self.open {
            open.retain(|&run| self.filled[run as usize] < self.run_blocks);
        }
        let wanted = rng.below(OPEN_RUNS as u64) as usize;
        let open = &mut self.open[usize::from(writes)];
        if wanted >= open.len() && (self.filled.len() as u64) < self.most_runs {
            let run = self.filled.len() as u32;
            self.filled.push(0);
            open.push(run);
            return run;
        }
        let own = open.get(wanted % open.len().max(1)).copied();
        let others = self.open[usize::from(!writes)].first().copied();
        // When all runs are full, which new blocks left forbid, the first one stands in.
        own.or(others).unwrap_or(0)
    }

    /// Touches the blocks of the request at byte `at` of a run; says its offset.
    fn touch(&mut self, from: usize, (run, at): (u32, u64), bytes: u32, writes: bool) -> u64 {
        let end = at + u64::from(bytes);
        let (first, last) = ((at / self.area.block_bytes) as u32, ((end - 1) / self.area.block_bytes) as u32);
        let steer = &mut self.steer[usize::from(writes)];
        let base = run * self.run_blocks;
        for block in base + first..=base + last {
            match self.stack.touch(block, writes) {
                Some((distance, after_write)) => steer.met_again(distance, after_write),
                None => {
                    steer.met_new();
                    self.new_left = self.new_left.saturating_sub(1);
                }
            }
        }
        steer.met_request();
        let filled = &mut self.filled[run as usize];
        *filled = (*filled).max(last + 1);
        let start = (base + first) as usize;
        if start / 64 >= self.starts.len() {
            self.starts.resize(start / 64 + 1, 0);
        }
        self.starts[start / 64] |= 1 << (start % 64);
        self.ends[from] = Some((run, end));
        let run_bytes = u64::from(self.run_blocks) * self.area.block_bytes;
        self.area.first_bytes + self.scatter.of(run.into()) * run_bytes + at
    }
}
