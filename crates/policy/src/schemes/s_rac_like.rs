//! S-RAC, as much as is known of it: LARC, where a block that was hit is spared once.

use crate::parts::queue_level::QueueLevel;
use crate::parts::ssd_level::SsdLevel;
use crate::registry::{AnyScheme, SchemeInfo};
use crate::schemes::larc::{self, Lazy};

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo {
    name: "s-rac-like",
    about: "LARC, and a second chance for blocks that were hit",
    source: "S-RAC, of which little is known; Huang et al., MSST 2013",
    build: |settings, _, quota| AnyScheme::SRacLike(SRacLike::new(settings, quota)),
    ..larc::INFO
};

/// One VM's SSD level under LARC with a second chance for what was hit.
pub type SRacLike = SsdLevel<QueueLevel<Lazy<true>, 2>>;
