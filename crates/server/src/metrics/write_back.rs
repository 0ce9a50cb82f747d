//! What is told of when blocks are written back, and how far that is.

use super::Row;
use super::Samples::Gauge;

pub(super) fn families() -> Vec<Row> {
    vec![
        (
            "lode_dirty_limit_blocks",
            "Dirty blocks above which older ones are written back; 0 when only the scheme writes back",
            Gauge(|vm| vm.writeback.map_or(0, |limits| limits.dirty_limit_blocks.into())),
        ),
        (
            "lode_dirty_max_blocks",
            "Dirty blocks from which on writes wait; 0 when only the scheme writes back",
            Gauge(|vm| vm.writeback.map_or(0, |limits| limits.dirty_max_blocks.into())),
        ),
        (
            "lode_write_back_age_seconds",
            "How long a block may be dirty; 0: for ever",
            Gauge(|vm| vm.writeback.and_then(|limits| limits.age_s).unwrap_or(0).into()),
        ),
        (
            "lode_write_back_idle_seconds",
            "How long a VM asks for nothing before all is written back; 0: it is not",
            Gauge(|vm| vm.writeback.and_then(|limits| limits.idle_s).unwrap_or(0).into()),
        ),
        (
            "lode_behind_seconds",
            "With ordered write-back, age of the first write that the disk lacks; 0 without",
            Gauge(|vm| vm.ordered.map_or(0, |ordered| ordered.behind_s.into())),
        ),
        (
            "lode_behind_bytes",
            "With ordered write-back, what the disk lacks; 0 without",
            Gauge(|vm| vm.ordered.map_or(0, |ordered| ordered.behind_bytes)),
        ),
        (
            "lode_behind_stuck",
            "1 when ordered write-back cannot go on: a device refuses it, or a block is damaged",
            Gauge(|vm| vm.ordered.is_some_and(|ordered| ordered.is_stuck).into()),
        ),
        (
            "lode_scrub_period_seconds",
            "Within so long every block on the SSD is compared with its checksum; 0: none is",
            Gauge(|vm| vm.scrub_s.unwrap_or(0).into()),
        ),
    ]
}
