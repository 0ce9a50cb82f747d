//! S-CAVE, as far as it is known (Luo et al., "S-CAVE: Effective SSD Caching to Improve Virtual Machine Storage Performance",
//! PACT 2013, recalled): what counts is how much of its share a VM came back to within the window (the ratio of effective
//! cache space, rECS). Chunks move from the VM where that is lowest to the one where it is highest; write-through.
//!
//! It must not know how chunks move: see [`Sizer`](crate::Sizer).

use lode_reuse::CurvePoint;
use lode_types::Access;

use crate::effect::{Effect, Slot};
use crate::growth;
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
    tables: &[mapping::SETTINGS, SETTINGS, sizer::SETTINGS],
    build: |settings, physical, quota| {
        AnyScheme::SCaveLike(Box::new(SCaveLike::new(settings, physical, quota)))
    },
    footprint: Footprint::new(LEAN, 64).with_sets(16),
    ..SchemeInfo::PLAIN
};

/// One VM's cache sized by what it comes back to.
pub type SCaveLike = Measured<EffectiveSpace>;

/// No window has this number.
const NEVER: u32 = 0;

/// The cached blocks that were hit in the window.
#[derive(Debug)]
pub struct EffectiveSpace {
    /// By slot, the window of the last hit on the block that is there.
    hit_in: Vec<u32>,
    window: u32,
    blocks: u32,
    hits: u64,
    accesses: u64,
}

impl EffectiveSpace {
    #[inline]
    fn hit(&mut self, slot: Slot) {
        growth::extend_to(&mut self.hit_in, slot, NEVER);
        let at = slot as usize;
        self.hits += 1;
        self.blocks += u32::from(self.hit_in[at] != self.window);
        self.hit_in[at] = self.window;
    }
}

impl Measure for EffectiveSpace {
    fn new(_: &Settings, _: Quota) -> EffectiveSpace {
        EffectiveSpace { hit_in: Vec::new(), window: NEVER + 1, blocks: 0, hits: 0, accesses: 0 }
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
        if let Some(window) = self.hit_in.get_mut(slot as usize) {
            self.blocks -= u32::from(*window == self.window);
            *window = NEVER;
        }
    }

    fn demand(&mut self, _: Points) -> LevelDemand {
        let (blocks, hits) = (std::mem::take(&mut self.blocks), std::mem::take(&mut self.hits));
        let accesses = std::mem::take(&mut self.accesses);
        self.window = self.window.wrapping_add(1);
        if self.window == NEVER {
            self.hit_in.fill(NEVER);
            self.window = NEVER + 1;
        }
        let curve =
            if blocks == 0 { Vec::new() } else { vec![CurvePoint { size_blocks: u64::from(blocks), hits }] };
        LevelDemand { blocks, curve, accesses, weight: 1.0 }
    }

    fn memory_bytes(&self) -> usize {
        self.hit_in.capacity() * size_of::<u32>()
    }
}
