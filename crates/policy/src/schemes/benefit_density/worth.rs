//! What blocks' copies are worth, which of some is worth least, and whether one is worth a write to the SSD.
//!
//! It must not know what becomes of them.

use lode_types::Level;

use super::frames::{Aged, Frame};
use super::{BenefitDensity, Order};
use crate::parts::ssd_level::Id;

impl BenefitDensity {
    /// Accesses since the last one to a block.
    #[inline(always)]
    pub(super) fn since(&self, aged: Aged) -> u32 {
        (self.clock as u32).wrapping_sub(aged.last)
    }

    /// What the SSD's copy of a block saves for each access that it stays, in microseconds.
    #[inline(always)]
    pub(super) fn worth(&self, aged: Aged) -> f64 {
        self.ages.density(aged.class, self.since(aged)) * self.runs.cost_us(aged)
    }

    /// What a block saves on the SSD beyond what the block does that leaves for it.
    pub(super) fn surplus_us(&self, aged: Aged) -> f64 {
        let cost_us = self.runs.cost_us(aged);
        let rate = if self.blocks.cached(Level::Ssd) < self.blocks.capacity(Level::Ssd) {
            0.0
        } else {
            self.victim_worth
        };
        self.ages.surplus(aged.class, self.since(aged), cost_us, rate)
    }

    /// Whether blocks that save so much together are to be written to the SSD.
    pub(super) fn is_worth_a_write(&mut self, saved_us: f64, blocks: u32) -> bool {
        let is_worth_it = self.order == Order::Recency || saved_us > self.price.us() * f64::from(blocks);
        if !is_worth_it {
            self.price.note_refused(saved_us, blocks);
        }
        is_worth_it
    }

    /// Of some blocks of a level, drawn at random with replacement, `except` not among them, the one that is worth least, if that is
    /// less than `below`; of equals the one that was accessed longest ago, and of these the first.
    pub(super) fn least_worth(&mut self, level: Level, except: Option<Id>, below: f64) -> Option<Frame> {
        let (frames, clock) = (self.blocks.frames(level), self.clock as u32);
        let parts = &self.parts[level.index()];
        let mut left = self.samples.of(frames.len());
        let (mut least, mut longest, mut found) = (below, u32::MAX, None);
        while left > 0 {
            let sample = self.draws.next(level, frames, left);
            let count = sample.len();
            for &at in sample {
                let Frame { id, aged, .. } = frames.used()[at as usize];
                let since = clock.wrapping_sub(aged.last);
                let density = self.ages.density(aged.class, since);
                let worth = density * self.runs.cost_us(aged) * parts[aged.form()];
                if worth <= least && (worth < least || since > longest) && Some(id) != except {
                    (least, longest, found) = (worth, since, Some(at));
                    // It may be the one.
                    self.blocks.prefetch_record(id);
                }
            }
            self.draws.take(frames, count);
            left -= count;
        }
        found.map(|at| frames.used()[at as usize])
    }
}
