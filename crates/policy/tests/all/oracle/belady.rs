//! MIN by looking through all steps that are to come.

use lode_types::BlockNo;

use super::level::Entry;
use super::one_level::PlainReplacement;
use crate::driver::Step;

#[derive(Debug)]
pub struct PlainMin {
    blocks: usize,
    bypass: bool,
    steps: Vec<Step>,
    /// Where in the steps the access under way stands.
    at: Option<usize>,
    /// With the step of their next use, as it was seen at the last one.
    cached: Vec<(Entry, usize)>,
}

/// Of a block that is not used again.
const NEVER: usize = usize::MAX;

fn accessed(step: &Step) -> Option<BlockNo> {
    match *step {
        Step::Read(block) | Step::Write(block, _) => Some(block),
        _ => None,
    }
}

impl PlainMin {
    pub fn new(bypass: bool, steps: &[Step], blocks: u32) -> PlainMin {
        PlainMin { blocks: blocks as usize, bypass, steps: steps.to_vec(), at: None, cached: vec![] }
    }

    /// The step of the next use of `block` after the access under way, unless it is discarded before.
    fn next_use(&self, block: BlockNo) -> usize {
        let from = self.at.map_or(0, |at| at + 1);
        for (at, step) in self.steps.iter().enumerate().skip(from) {
            match *step {
                Step::Discard(gone) if gone == block => return NEVER,
                _ if accessed(step) == Some(block) => return at,
                _ => {}
            }
        }
        NEVER
    }

    fn farthest(&self) -> usize {
        let order = |at: &usize| (self.cached[*at].1, self.cached[*at].0.block);
        (0..self.cached.len()).max_by_key(order).unwrap()
    }
}

impl PlainReplacement for PlainMin {
    fn entries(&mut self) -> Vec<&mut Entry> {
        self.cached.iter_mut().map(|(entry, _)| entry).collect()
    }

    fn note(&mut self, block: BlockNo) {
        let from = self.at.map_or(0, |at| at + 1);
        let next = (from..self.steps.len()).find(|at| accessed(&self.steps[*at]).is_some());
        assert_eq!(next.and_then(|at| accessed(&self.steps[at])), Some(block));
        self.at = next;
    }

    fn touch(&mut self, block: BlockNo) {
        let next_use = self.next_use(block);
        let of_block = self.cached.iter_mut().filter(|(entry, _)| entry.block == block);
        of_block.for_each(|(_, next)| *next = next_use);
    }

    fn admit(&mut self, block: BlockNo) -> Option<Vec<Entry>> {
        if self.blocks == 0 {
            return None;
        }
        let next_use = self.next_use(block);
        let mut gone = Vec::new();
        if self.cached.len() >= self.blocks {
            let farthest = self.farthest();
            if self.bypass && next_use >= self.cached[farthest].1 {
                return None;
            }
            gone.push(self.cached.remove(farthest).0);
        }
        self.cached.push((Entry { block, dirty: false }, next_use));
        Some(gone)
    }

    fn restore(&mut self, block: BlockNo) -> bool {
        let fits = self.cached.len() < self.blocks;
        if fits {
            self.cached.push((Entry { block, dirty: false }, NEVER));
        }
        fits
    }

    fn remove(&mut self, block: BlockNo) {
        self.cached.retain(|(entry, _)| entry.block != block);
    }

    fn resize(&mut self, blocks: u32) -> Vec<Entry> {
        self.blocks = blocks as usize;
        let too_many = self.cached.len().saturating_sub(self.blocks);
        (0..too_many)
            .map(|_| {
                let farthest = self.farthest();
                self.cached.remove(farthest).0
            })
            .collect()
    }
}
