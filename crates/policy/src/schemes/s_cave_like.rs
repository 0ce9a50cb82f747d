//! S-CAVE, as far as it is known (Luo et al., "S-CAVE: Effective SSD Caching to Improve Virtual Machine Storage Performance",
//! PACT 2013, recalled): what counts is how much of its share a VM came back to within the window (the ratio of effective
//! cache space, rECS). Chunks move from the VM where that is lowest to the one where it is highest; write-through.
//!
//! It must not know how chunks move: see [`Sizer`](crate::Sizer).

use lode_reuse::CurvePoint;
use lode_types::Access;

use crate::effect::{Effect, Slot};
use crate::parts::growth;
use crate::parts::sized::{Measure, Measured};
use crate::parts::{mapping, ssd_level};
use crate::quota::Quota;
use crate::registry::{AnyScheme, LEAN, SchemeInfo};
use crate::scheme::{LevelDemand, Points};
use crate::settings::{SettingInfo, Settings};
use crate::sizer;
use crate::tracked::Footprint;

static SETTINGS: &[SettingInfo] = &[ssd_level::write_policy("wt"), sizer::CHUNK_PERCENT];

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo {
    name: "s-cave-like",
    about: "one SSD level that grows by chunks where most of it is in use, and shrinks where least is; \
            write-through",
    source: "S-CAVE: its abstract and ETICA's text; the rest recalled",
    tables: &[mapping::SETTINGS, SETTINGS, &[sizer::SIZED], sizer::SETTINGS],
    build: |settings, physical, quota| {
        AnyScheme::SCaveLike(Box::new(SCaveLike::new(settings, physical, quota)))
    },
    footprint: Footprint::new(LEAN, 24).with_sets(16),
    ..SchemeInfo::PLAIN
};

/// One VM's cache sized by what it comes back to.
pub type SCaveLike = Measured<EffectiveSpace>;

/// The cached blocks that were hit in the window.
#[derive(Debug, Default)]
pub struct EffectiveSpace {
    /// By slot, a bit: whether the block that is there was hit.
    hit: Vec<u64>,
    blocks: u32,
    hits: u64,
    accesses: u64,
    /// What a VM grows by at a time.
    chunk_blocks: u32,
}

impl EffectiveSpace {
    #[inline]
    fn hit(&mut self, slot: Slot) {
        let (word, bit) = Self::place(slot);
        growth::extend_to(&mut self.hit, word, 0);
        let word = &mut self.hit[word as usize];
        self.hits += 1;
        self.blocks += u32::from(*word & bit == 0);
        *word |= bit;
    }

    #[inline]
    fn place(slot: Slot) -> (u32, u64) {
        (slot / u64::BITS, 1 << (slot % u64::BITS))
    }
}

impl Measure for EffectiveSpace {
    fn new(settings: &Settings, physical: Quota) -> EffectiveSpace {
        let part = settings.number(sizer::CHUNK_PERCENT.key) / 100.0;
        EffectiveSpace {
            chunk_blocks: sizer::chunk_blocks(physical.ssd_blocks, part),
            ..EffectiveSpace::default()
        }
    }

    #[inline(always)]
    fn access(&mut self, _: Access, _: u32) {
        self.accesses += 1;
    }

    #[inline(always)]
    fn effect(&mut self, effect: &Effect) {
        match *effect {
            Effect::ReadLevel { slot, .. } | Effect::WriteLevel { slot, hit: true, .. } => self.hit(slot),
            Effect::Evict { slot, .. } | Effect::Invalidate { slot, .. } => self.lost(slot),
            _ => {}
        }
    }

    #[inline]
    fn lost(&mut self, slot: Slot) {
        let (word, bit) = Self::place(slot);
        if let Some(word) = self.hit.get_mut(word as usize) {
            self.blocks -= u32::from(*word & bit != 0);
            *word &= !bit;
        }
    }

    fn demand(&mut self, _: Points, share_blocks: u32) -> LevelDemand {
        let (blocks, hits) = (std::mem::take(&mut self.blocks), std::mem::take(&mut self.hits));
        let accesses = std::mem::take(&mut self.accesses);
        self.hit.fill(0);
        let point = |size_blocks: u32, hits| CurvePoint { size_blocks: u64::from(size_blocks), hits };
        let mut curve = if blocks == 0 { Vec::new() } else { vec![point(blocks, hits)] };
        // Nobody can come back to what lies beyond the share. A host that divides by demands finds out a chunk at a time, of which
        // as much is expected as of what is in use; without a share, all.
        let missed = accesses.saturating_sub(hits);
        let beyond = match blocks {
            0 if share_blocks == 0 => missed,
            0 => 0,
            blocks => (hits * u64::from(self.chunk_blocks) / u64::from(blocks)).min(missed),
        };
        let trial_blocks = if beyond > 0 { self.chunk_blocks } else { 0 };
        if trial_blocks > 0 {
            curve.push(point(blocks.saturating_add(trial_blocks), hits + beyond));
        }
        LevelDemand { blocks, curve, accesses, trial_blocks, ..LevelDemand::default() }
    }

    fn memory_bytes(&self) -> usize {
        self.hit.capacity() * size_of::<u64>()
    }
}
