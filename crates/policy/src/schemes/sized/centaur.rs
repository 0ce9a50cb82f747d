//! Centaur, as far as it is known (Koller et al., "Centaur: Host-side SSD Caching for Storage Performance Control", ICAC 2015,
//! recalled, and what ETICA section 2.1 says of it): shares by reuse distances over all accesses, write-back.
//!
//! It must not know how distances are found.

use super::reuse::{Reading, Reuse, Stream};
use super::{HISTORY, Measured};
use crate::schemes::{mapping, ssd_level};
use crate::settings::{SettingInfo, Settings};
use crate::sizer;

static OBJECTIVES: &[SettingInfo] = &[sizer::objective_setting("latency"), sizer::PPC_FLOOR];

pub(crate) static TABLES: &[&[SettingInfo]] =
    &[mapping::SETTINGS, ssd_level::SETTINGS, OBJECTIVES, sizer::SETTINGS, HISTORY];

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
