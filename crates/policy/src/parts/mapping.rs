//! The settings that every set-associative scheme shares.

use crate::geometry::{Geometry, MapKind};
use crate::settings::{ASSOC, SettingInfo, Settings};

/// `assoc` and `map`.
pub(crate) static SETTINGS: &[SettingInfo] = &[
    SettingInfo::integer(ASSOC, "512", 0, 1 << 20)
        .about("blocks of a set, rounded so that the number of sets is a power of two; 0: full associativity")
        .source("EnhanceIO, flashcache: 512"),
    SettingInfo::choice("map", "modulo", &["modulo", "jhash"])
        .about("how clusters of `assoc` consecutive blocks are mapped to sets")
        .source("EnhanceIO: modulo; flashcache since format 3: jhash"),
];

/// The sets of a share of `blocks` under these settings.
pub(crate) fn geometry(settings: &Settings, blocks: u32) -> Geometry {
    let map = if settings.text("map") == "jhash" { MapKind::Jhash } else { MapKind::Modulo };
    Geometry::new(settings.integer(ASSOC) as u32, map, blocks)
}
