//! Whether blocks leave by what they save or by when they were accessed last, and the latter: both levels together as one LRU.
//!
//! It must not know when which of them is better.

use lode_types::Level;

use super::BenefitDensity;
use super::frames::Frame;
use crate::parts::ssd_level::Id;
use crate::settings::{SettingInfo, Settings};

const BENEFIT: &str = "benefit";
const RECENCY: &str = "recency";

pub(crate) static SETTING: &[SettingInfo] = &[SettingInfo::choice("order", BENEFIT, &[BENEFIT, RECENCY])
    .about(
        "benefit: what is worth least leaves, and what is worth a write is written to the SSD; recency: both levels together are one LRU, \
         and everything is written",
    )
    .source("ours")];

/// For the one that was accessed longest ago so many blocks are looked at from each on that chance chooses: who leaves gives up its place
/// to another one, so that neighbours there have nothing in common, and nothing of them has to be looked up. With 32 blocks requests of
/// profiles took 1.4 % longer than with 1024 and at most 8 %, with 256 0.1 % and at most 1.1 %.
const IN_A_ROW: usize = 8;

/// By what blocks leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// What is worth least first; what enters the SSD has to be worth it.
    Benefit,
    /// What was accessed longest ago first; everything enters.
    Recency,
}

impl Order {
    pub(super) fn new(settings: &Settings) -> Order {
        if settings.text("order") == RECENCY { Order::Recency } else { Order::Benefit }
    }
}

impl BenefitDensity {
    /// Sets `order` anew. What is known of blocks stays, and is kept up to date in either.
    pub(crate) fn set_order(&mut self, order: Order) {
        if self.order != order {
            // Who was to leave next was so by the other order.
            self.leaving = [None; 2];
            self.order = order;
        }
    }

    /// Of some blocks of a level, drawn at random with replacement, and those that stand behind each, `except` not among them, the one that
    /// was accessed longest ago; of equals the first.
    pub(super) fn oldest(&mut self, level: Level, except: Option<Id>) -> Option<Frame> {
        let (frames, clock) = (self.blocks.frames(level), self.clock as u32);
        let mut left = self.samples.of(frames.len());
        let mut oldest: Option<(u32, Frame)> = None;
        while left > 0 {
            let sample = self.draws.next(level, frames, left);
            let count = sample.len();
            for &at in sample {
                for frame in frames.used()[at as usize..].iter().take(IN_A_ROW) {
                    let since = clock.wrapping_sub(frame.aged.last);
                    if oldest.is_none_or(|(longest, _)| since > longest) && Some(frame.id) != except {
                        oldest = Some((since, *frame));
                    }
                }
            }
            self.draws.take(frames, count);
            left -= count;
        }
        oldest.map(|(_, frame)| frame)
    }

    /// Whether a block that leaves DRAM would leave the SSD before the one that would have to leave for it.
    pub(super) fn is_older(&self, newcomer: Id, leaves: Id) -> bool {
        let [newcomer, leaves] = [newcomer, leaves].map(|id| self.since(self.blocks.get(id).aged()));
        newcomer >= leaves
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use lode_types::{Access, BlockNo};

    use super::*;
    use crate::effect::{Effect, NullSink};
    use crate::quota::Quota;
    use crate::registry::SchemeInfo;
    use crate::scheme::Scheme;

    const QUOTA: Quota = Quota::new(20, 80);
    /// Blocks that are read again and again, and as many between them that never come again: more than both levels hold.
    const BLOCKS: usize = 60;

    fn scheme(order: Order) -> BenefitDensity {
        let settings = SchemeInfo::find("benefit-density").unwrap().settings();
        BenefitDensity::new(&settings, QUOTA, order)
    }

    fn read(scheme: &mut BenefitDensity, block: BlockNo) -> Vec<Effect> {
        let mut effects = Vec::new();
        scheme.access(Access::read(block), &mut effects);
        scheme.end_request(0, &mut NullSink);
        effects
    }

    /// In each of these rounds, hits of the blocks that come again.
    fn rounds(scheme: &mut BenefitDensity, numbers: Range<u64>) -> Vec<usize> {
        let round = |number: u64| {
            let again = (0..BLOCKS as u64).map(|block| block * 2);
            let hits = again.filter(|&block| !read(scheme, block).contains(&Effect::ReadBacking)).count();
            for block in 0..BLOCKS as u64 {
                read(scheme, 1000 + (number * BLOCKS as u64 + block) * 2);
            }
            hits
        };
        numbers.map(round).collect()
    }

    #[test]
    fn what_was_learned_is_kept_there_and_back() {
        let mut there = scheme(Order::Benefit);
        rounds(&mut there, 0..100);
        there.set_order(Order::Recency);
        let by_recency = rounds(&mut there, 100..200);
        there.set_order(Order::Benefit);
        let back = rounds(&mut there, 200..204);
        let mut new = scheme(Order::Benefit);
        let from_nothing = rounds(&mut new, 200..204);
        // By recency nothing that comes again does so in time, but what was there already.
        assert!(by_recency.iter().sum::<usize>() <= BLOCKS, "{by_recency:?}");
        // Back it knows at once what comes again, which a new one has yet to learn.
        assert!(back[1..].iter().all(|&hits| hits == BLOCKS), "{back:?}");
        assert_eq!(from_nothing, [0; 4]);
    }

    #[test]
    fn by_recency_it_learns_as_well() {
        let mut learns = scheme(Order::Recency);
        rounds(&mut learns, 0..200);
        learns.set_order(Order::Benefit);
        let hits = rounds(&mut learns, 200..204);
        assert!(hits[1..].iter().all(|&hits| hits == BLOCKS), "{hits:?}");
    }
}
