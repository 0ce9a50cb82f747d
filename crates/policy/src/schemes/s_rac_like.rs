//! S-RAC, as much as is known of it: LARC, where a block that was hit is spared once.

use crate::parts::queue_level::QueueLevel;
use crate::parts::ssd_level::SsdLevel;
use crate::registry::{AnyScheme, LEAN, SchemeInfo};
use crate::schemes::larc::{self, Lazy};
use crate::tracked::Footprint;

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo::new(
    "s-rac-like",
    "LARC, and a second chance for blocks that were hit",
    "S-RAC, of which little is known; Huang et al., MSST 2013",
    larc::TABLES,
    |settings, _, quota| AnyScheme::SRacLike(SRacLike::new(settings, quota)),
)
.taking(Footprint::new(LEAN, 64).with_ghosts());

/// One VM's SSD level under LARC with a second chance for what was hit.
pub type SRacLike = SsdLevel<QueueLevel<Lazy<true>, 2>>;
