//! The baseline of the papers (ETICA section 3, Figs. 3 and 5a) and of every comparison: sets, or one set of everything, where
//! the least recently used block leaves.

use crate::parts::sets::{self, Sets};
use crate::parts::ssd_level::SsdLevel;
use crate::registry::{AnyScheme, LEAN, SchemeInfo};
use crate::tracked::Footprint;

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo {
    name: "lru",
    about: "one SSD level that gives up the least recently used block",
    source: "ETICA section 3; textbook",
    tables: sets::TABLES,
    build: |settings, _, quota| AnyScheme::Lru(Lru::new(settings, quota)),
    footprint: Footprint::new(LEAN, 24).with_sets(16),
    ..SchemeInfo::PLAIN
};

/// One VM's cache that gives up the least recently used block of a full set.
pub type Lru = SsdLevel<Sets<true>>;
