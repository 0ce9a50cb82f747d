//! The stacks as plain lists: every access walks through them and moves what the papers say is moved.

use lode_reuse::{Analyser, Distances, RoStack, WbwoStack};
use lode_types::Direction::{self, Read, Write};

/// What analysers and lists have in common.
pub trait Stack {
    fn depth_of(&mut self, op: Direction, block: u64) -> Option<u32>;

    fn keep_only(&mut self, keep: impl Fn(u64) -> bool);
}

impl Stack for Distances {
    fn depth_of(&mut self, op: Direction, block: u64) -> Option<u32> {
        self.access(op, block).expect("few blocks").map(|reuse| reuse.distance)
    }

    fn keep_only(&mut self, keep: impl Fn(u64) -> bool) {
        self.retain(&keep);
    }
}

impl Stack for RoStack {
    fn depth_of(&mut self, op: Direction, block: u64) -> Option<u32> {
        self.access(op, block).expect("few blocks")
    }

    fn keep_only(&mut self, keep: impl Fn(u64) -> bool) {
        self.retain(&keep);
    }
}

impl Stack for WbwoStack {
    fn depth_of(&mut self, op: Direction, block: u64) -> Option<u32> {
        self.access(op, block).expect("few blocks")
    }

    fn keep_only(&mut self, keep: impl Fn(u64) -> bool) {
        self.retain(&keep);
    }
}

/// The stack of read-only caches as a list, top first; holes are `None`.
#[derive(Default)]
pub struct RoList {
    stack: Vec<Option<u64>>,
    /// Every block ever read.
    read: Vec<u64>,
}

impl Stack for RoList {
    fn depth_of(&mut self, op: Direction, block: u64) -> Option<u32> {
        let depth = self.stack.iter().position(|&entry| entry == Some(block));
        if op == Write {
            if let Some(depth) = depth {
                self.stack[depth] = None;
            }
            return None;
        }
        if !self.read.contains(&block) {
            self.read.push(block);
        }
        let above = &self.stack[..depth.unwrap_or(self.stack.len())];
        let hole = above.iter().position(|entry| entry.is_none());
        if let Some(depth) = depth {
            self.stack[depth] = None;
        }
        if let Some(vacated) = hole.or(depth) {
            self.stack.remove(vacated);
        }
        self.stack.insert(0, Some(block));
        depth.map(|depth| depth as u32)
    }

    /// Of the holes, counted from below, as many stay as blocks do, evenly.
    fn keep_only(&mut self, keep: impl Fn(u64) -> bool) {
        let before = self.read.len();
        self.read.retain(|&block| keep(block));
        let kept = self.read.len();
        let mut number = 0;
        self.stack.reverse();
        self.stack.retain(|entry| {
            let Some(block) = entry else {
                number += 1;
                return number * kept / before > (number - 1) * kept / before;
            };
            keep(*block)
        });
        self.stack.reverse();
    }
}

/// The stack of write-only caches as a list, top first: blocks with the time of their latest access.
#[derive(Default)]
pub struct WbwoList {
    stack: Vec<(u64, usize)>,
    now: usize,
}

impl Stack for WbwoList {
    fn depth_of(&mut self, op: Direction, block: u64) -> Option<u32> {
        self.now += 1;
        let depth = self.stack.iter().position(|entry| entry.0 == block);
        if op == Read {
            let depth = depth?;
            self.stack[depth].1 = self.now;
            return Some(depth as u32);
        }
        // The top always goes, then whichever of two is older.
        let mut carried = (block, usize::MAX);
        let end = depth.unwrap_or(self.stack.len());
        for entry in &mut self.stack[..end] {
            if entry.1 < carried.1 {
                std::mem::swap(entry, &mut carried);
            }
        }
        match depth {
            Some(depth) => self.stack[depth] = carried,
            None => self.stack.push(carried),
        }
        self.stack[0].1 = self.now;
        None
    }

    fn keep_only(&mut self, keep: impl Fn(u64) -> bool) {
        self.stack.retain(|entry| keep(entry.0));
    }
}
