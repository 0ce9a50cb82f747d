//! The write cache of request-oriented admission: a plain level that an origin may keep a write out of.

use lode_types::{BlockNo, Level, Origin};

use super::cut_off::PlainFlash;
use super::one_level::{PlainOneLevel, PlainReplacement};
use crate::driver::{Observed, Step};

#[derive(Debug)]
pub struct PlainWriteCache {
    pub level: PlainOneLevel<PlainFlash>,
    pub admission: &'static str,
    /// First block of the log and the one after its last.
    pub log: (BlockNo, BlockNo),
}

impl PlainWriteCache {
    fn admits(&self, block: BlockNo, origin: Origin) -> bool {
        match self.admission {
            "all" => true,
            "sync" => origin.sync() == Some(true),
            "cp" => origin.sync() == Some(true) && origin.critical() == Some(true),
            "wal" => self.log.0 <= block && block < self.log.1,
            other => panic!("{other} needs processes"),
        }
    }

    pub fn step(&mut self, step: Step, origin: Origin) -> Vec<Observed> {
        if let Step::Write(block, _) = step
            && !self.admits(block, origin)
        {
            let copy = self.level.residents().get(&block).copied();
            if copy != Some(true) {
                self.level.counters.block_writes += 1;
                self.level.counters.backing_writes += 1;
                let mut observed = Vec::new();
                if copy == Some(false) {
                    self.level.replacement.remove(block);
                    observed.push(Observed::Invalidate(Level::Ssd));
                }
                observed.push(Observed::WriteBacking);
                return observed;
            }
        }
        self.level.step_and_clean(step)
    }
}
