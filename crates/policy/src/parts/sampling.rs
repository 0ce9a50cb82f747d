//! Whose reuse distances are measured: those of all blocks, or of a sample of them (SHARDS: Waldspurger et al., "Efficient
//! MRC construction with SHARDS", FAST 2015; see [`lode_reuse::Sample`]).
//!
//! A history reaches back over so many distinct blocks, and a sample that begins with all blocks sinks to the rate at which
//! its part of so many is as many as it may hold, and stays there. So the memory is bounded whatever comes, few blocks are all
//! followed, and the rate does not sink without end while a VM lives. It must not know what is made of the distances.

use lode_reuse::{LEAST_BLOCKS, Method, Sample};
use lode_types::BlockNo;

use crate::settings::{SettingInfo, Settings};

/// Word of the setting.
pub(crate) const SAMPLED: &str = "sampled";

/// Which blocks.
pub(crate) const DISTANCES: SettingInfo = SettingInfo::choice("distances", "exact", &["exact", SAMPLED])
    .about("whose reuse distances are measured: exact: those of all blocks; sampled: those of sample_blocks of them")
    .source("the papers (exact); SHARDS (sampled)");

/// How many.
pub(crate) const SAMPLE_BLOCKS: SettingInfo =
    SettingInfo::integer("sample_blocks", "16384", LEAST_BLOCKS as u64, 1 << 24)
        .about("with distances=sampled: most blocks of a VM whose distances are measured")
        .source("ours: with so many, curves of real traces were within one percent");

/// Every sample is the same, so that equal streams are measured equally, and not the one that a replay of a sample has: of the
/// blocks of that it would follow all, or none.
const SALT: u64 = 0x6469_7374_616e_6365;

/// A sample of one VM's blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampling {
    sample: Sample,
    most_blocks: u32,
}

impl Sampling {
    /// The sample of a history of `track_limit` blocks; `None`: every block is followed.
    pub(crate) fn new(settings: &Settings, track_limit: u32) -> Option<Sampling> {
        if !is_on(settings) {
            return None;
        }
        let most_blocks = most_blocks(settings, track_limit);
        let rate = (f64::from(most_blocks) / f64::from(track_limit.max(1))).min(1.0);
        let sample = Sample::new(Method::LeastRate(rate), SALT).expect("a share of the blocks above none");
        Some(Sampling { sample, most_blocks })
    }

    /// Most blocks of a history.
    pub(crate) fn most_blocks(&self) -> u32 {
        self.most_blocks
    }

    #[inline]
    pub(crate) fn follows(&self, block: BlockNo) -> bool {
        self.sample.follows(block)
    }

    /// The share of all blocks that is followed.
    #[inline]
    pub(crate) fn rate(&self) -> f64 {
        self.sample.rate()
    }

    /// Lowers the rate when so many followed blocks are more than may be. Says whether it did: then the blocks that are
    /// followed no more are to be forgotten.
    #[inline]
    pub(crate) fn lower(&mut self, followed: u32) -> bool {
        self.sample.lower_to_limit(followed as usize)
    }
}

/// Whether distances are measured on a sample.
pub(crate) fn is_on(settings: &Settings) -> bool {
    settings.text(DISTANCES.key) == SAMPLED
}

/// Most blocks that a history of `track_limit` has, sampled: all of them, or so many that the rate may still have to sink.
fn most_blocks(settings: &Settings, track_limit: u32) -> u32 {
    let sample_blocks = settings.integer(SAMPLE_BLOCKS.key) as u32;
    if track_limit <= sample_blocks { track_limit } else { sample_blocks.max(LEAST_BLOCKS + 1) }
}

/// Blocks that a history of `track_limit` has at most under these settings.
pub(crate) fn tracked_blocks(settings: &Settings, track_limit: u32) -> u32 {
    if is_on(settings) { most_blocks(settings, track_limit) } else { track_limit }
}
