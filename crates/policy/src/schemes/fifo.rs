//! The baseline beside LRU: sets, or one set of everything, where the longest resident block leaves.

use crate::parts::sets::Sets;
use crate::parts::ssd_level::SsdLevel;
use crate::registry::{AnyScheme, SchemeInfo};
use crate::schemes::lru;

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo {
    name: "fifo",
    about: "one SSD level that gives up the longest resident block",
    source: "textbook",
    build: |settings, _, quota| AnyScheme::Fifo(Fifo::new(settings, quota)),
    ..lru::INFO
};

/// One VM's cache that gives up the longest resident block of a full set.
pub type Fifo = SsdLevel<Sets<false>>;
