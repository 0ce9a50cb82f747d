//! What a switch to another scheme is made of: the scheme that is to decide, who has the blocks that it is asked about, and what
//! it begins with. It must not know the engine, which carries the switch out (`switching`).

use lode_policy::{Quota, Scheme, SchemeInfo, Settings};
use lode_types::Level;

use crate::config::EngineConfig;
use crate::flight::Place;
use crate::front::Front;
use crate::levels::Levels;

/// A scheme that is to decide from now on.
#[derive(Debug)]
pub(crate) struct Switch {
    pub(crate) settings: Settings,
    /// What the scheme before may grow to, which decides until this one begins.
    pub(crate) largest_before: Option<Quota>,
}

/// Who has a block on the SSD that a scheme is asked about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Holder {
    /// It is at this place and in no slot.
    Settled(Place),
    /// Its copy is, or will be, with its flight.
    InFlight { dirty: bool },
}

/// The share of the levels that are used.
pub(crate) fn used(levels: &[Level], share: Quota) -> Quota {
    share.map(|level, blocks| if levels.contains(&level) { blocks } else { 0 })
}

pub(crate) fn info_of(settings: &Settings) -> &'static SchemeInfo {
    SchemeInfo::find(settings.scheme()).expect("settings come from a registered scheme")
}

impl Switch {
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
