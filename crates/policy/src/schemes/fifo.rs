//! The baseline beside LRU: sets, or one set of everything, where the longest resident block leaves.

use crate::parts::sets::{self, Sets};
use crate::parts::ssd_level::SsdLevel;
use crate::registry::{AnyScheme, LEAN, SchemeInfo};
use crate::tracked::Footprint;

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo::new(
    "fifo",
    "one SSD level that gives up the longest resident block",
    "textbook",
    sets::TABLES,
    |settings, _, quota| AnyScheme::Fifo(Fifo::new(settings, quota)),
)
.taking(Footprint::new(LEAN, 48).with_sets(16));

/// One VM's cache that gives up the longest resident block of a full set.
pub type Fifo = SsdLevel<Sets<false>>;
