//! What a switch to another scheme is made of: the scheme that is to decide, who has the blocks that it is asked about, and what
//! it begins with. It must not know the engine, which carries the switch out (`switching`).

use lode_format::EntryState;
use lode_policy::{Quota, Scheme, SchemeInfo, Settings};
use lode_store::HeldBlock;
use lode_types::{BlockNo, Level};

use crate::config::EngineConfig;
use crate::flight::Place;
use crate::front::Front;
use crate::grow::most_bytes;
use crate::levels::Levels;

/// Bytes of memory of a dirty block on its way out at most: its flight, in tables that double.
const MOST_LEAVING_BYTES: u64 = 704;

/// A scheme that is to decide from now on.
#[derive(Debug)]
pub(crate) struct Switch {
    settings: Settings,
    /// What the scheme before may grow to, which decides until this one begins; none: there is no host to give more.
    largest_before: Option<Quota>,
}

/// Who has a block on the SSD that a scheme is asked about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Holder {
    /// It is at this place and in no slot.
    Settled { place: Place, dirty: bool },
    /// Its copy is, or will be, with its flight.
    InFlight { dirty: bool },
}

impl Holder {
    /// The block that a place holds, and the place as its holder. Whoever goes through all places looks at each once, because none is in
    /// the processor's near memory.
    pub(crate) fn settled(place: Place, held: &HeldBlock) -> (BlockNo, Holder) {
        (held.block, Holder::Settled { place, dirty: held.state == EntryState::Dirty })
    }

    /// Whether the copy is newer than the backing disk.
    pub(crate) fn is_dirty(&self) -> bool {
        let (Holder::Settled { dirty, .. } | Holder::InFlight { dirty }) = *self;
        dirty
    }
}

/// The share of the levels that are used.
pub(crate) fn used(levels: &[Level], share: Quota) -> Quota {
    share.map(|level, blocks| if levels.contains(&level) { blocks } else { 0 })
}

fn info_of(settings: &Settings) -> &'static SchemeInfo {
    SchemeInfo::find(settings.scheme()).expect("settings come from a registered scheme")
}

impl Switch {
    /// A switch to these settings, instead of one that has not begun (`before`). `largest` is what the volume may grow to now.
    pub(crate) fn new(settings: Settings, before: Option<Switch>, largest: Option<Quota>) -> Switch {
        let largest_before = before.map_or(largest, |before| before.largest_before);
        Switch { settings, largest_before }
    }

    /// What the volume may grow to from now on, where the new scheme may grow to `largest`.
    pub(crate) fn largest_to_come(&self, largest: Option<Quota>) -> Option<Quota> {
        self.largest_before.map(|before| largest.unwrap_or(before))
    }

    /// What the scheme before may grow to.
    pub(crate) fn largest_before(&self) -> Option<Quota> {
        self.largest_before
    }

    /// As much of a share as the scheme before can be given, which decides until this one begins.
    pub(crate) fn within_reach(&self, share: Quota) -> Quota {
        let least = |largest: Quota| share.map(|level, blocks| blocks.min(largest.of(level)));
        self.largest_before.map_or(share, least)
    }

    /// The levels that the new scheme uses.
    pub(crate) fn levels(&self) -> &'static [Level] {
        info_of(&self.settings).levels
    }

    /// The new scheme, for what there is of the levels.
    pub(crate) fn build_front(&self, config: &EngineConfig, levels: &Levels) -> Front {
        build_front(&self.settings, config, levels)
    }

    /// Whether there is what the scheme cannot be without.
    pub(crate) fn has_least(&self, config: &EngineConfig, levels: &Levels) -> bool {
        let info = info_of(&self.settings);
        info.check_needs(used(info.levels, levels.share_in_force(config))).is_ok()
    }
}

/// A scheme for what there is of the levels.
pub(crate) fn build_front(settings: &Settings, config: &EngineConfig, levels: &Levels) -> Front {
    let uses = info_of(settings).levels;
    // What an SSD has is what there is: where levels are divided, more may come.
    let first_share = used(uses, levels.share_in_force(config));
    let largest = used(uses, config.largest_share.unwrap_or(config.share));
    let settings = settings.clone().for_blocks(config.block);
    let mut scheme = lode_policy::build(&settings, largest, first_share);
    if let Some(budgeting) = scheme.budgeting() {
        budgeting.set_host_budget(config.host_budget);
    }
    Front::new(scheme, uses, config)
}

impl EngineConfig {
    /// Bytes of memory that a switch to these settings takes at most while it lasts, beside what the volume takes anyway, when it
    /// has so many dirty blocks: what the new scheme knows while the one before is still there, a list of the places on the SSD,
    /// and what is known of each dirty block on its way to the backing disk, because the new scheme may keep none.
    pub fn most_switch_memory_bytes(&self, settings: &Settings, dirty_blocks: u64) -> u64 {
        let largest = EngineConfig { share: self.largest_share.unwrap_or(self.share), ..*self };
        let volume_blocks = self.volume_bytes.div_ceil(self.block.bytes());
        let places = largest.places(Level::Ssd) + largest.spare_ssd_places();
        let listed_bytes = places * size_of::<Place>() as u64;
        let scheme_bytes =
            lode_policy::most_memory_bytes(settings, largest.share, largest.share, volume_blocks);
        let leaving_bytes = dirty_blocks.saturating_mul(MOST_LEAVING_BYTES);
        scheme_bytes.saturating_add(listed_bytes + most_bytes::<u32>(places) + leaving_bytes)
    }
}
