//! Centaur, as far as it is known (Koller et al., "Centaur: Host-side SSD Caching for Storage Performance Control", ICAC 2015,
//! recalled, and what ETICA section 2.1 says of it): shares by reuse distances over all accesses, write-back.
//!
//! It must not know how distances are found.

use crate::parts::sized::reuse::{Reading, Reuse, Stream};
use crate::parts::sized::{FOOTPRINT, HISTORY, Measured};
use crate::parts::{mapping, ssd_level};
use crate::registry::{AnyScheme, SchemeInfo};
use crate::settings::{SettingInfo, Settings};
use crate::sizer;

static OBJECTIVES: &[SettingInfo] = &[sizer::objective_setting("latency"), sizer::PPC_FLOOR];

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo {
    name: "centaur-like",
    about: "one SSD level whose share follows reuse distances over all accesses, write-back",
    source: "Centaur: its abstract and ETICA's text; the rest recalled",
    tables: &[mapping::SETTINGS, ssd_level::SETTINGS, OBJECTIVES, &[sizer::SIZED], sizer::SETTINGS, HISTORY],
    build: |settings, physical, quota| {
        AnyScheme::CentaurLike(Box::new(CentaurLike::new(settings, physical, quota)))
    },
    footprint: FOOTPRINT,
    variants: &["window"],
    ..SchemeInfo::PLAIN
};

/// One VM's cache sized by total reuse distances.
pub type CentaurLike = Measured<Reuse<Total>>;

/// The demand is that of the distances.
#[derive(Debug)]
pub struct Total;

impl Reading for Total {
    const STREAM: Stream = Stream::Total;
    const ALWAYS: bool = false;

    fn new(_: &Settings) -> Total {
        Total
    }
}
