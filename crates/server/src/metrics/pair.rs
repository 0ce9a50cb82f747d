//! What metrics say of pairs of SSDs.

use super::Row;
use super::Samples::{Counter, HostGauge};
use crate::pair::{MemberState, MemberView};
use crate::status::Status;

pub(super) fn pair_families() -> Vec<Row> {
    vec![
        (
            "lode_pair_in_sync_ssds",
            "SSDs of pairs that have everything: 2 of each pair where all is well",
            HostGauge(|s| in_state(s, MemberState::InSync)),
        ),
        (
            "lode_pair_resilvering_ssds",
            "SSDs of pairs that are being resilvered",
            HostGauge(|s| in_state(s, MemberState::Resilvering)),
        ),
        (
            "lode_pair_resilvered_bytes",
            "Of the SSDs that are being resilvered, what is done",
            HostGauge(|s| resilver(s, |ssd| ssd.done_bytes)),
        ),
        (
            "lode_pair_resilver_bytes",
            "Bytes in all that are to be compared and copied to them",
            HostGauge(|s| resilver(s, |ssd| ssd.of_bytes)),
        ),
        (
            "lode_healed_blocks",
            "Blocks that were damaged on one SSD of a pair and written there again",
            Counter(|vm| vm.healed_blocks.unwrap_or(0)),
        ),
    ]
}

/// SSDs of pairs that stand so; none where there is no pair.
fn in_state(status: &Status, state: MemberState) -> Option<u64> {
    let pair = status.cache.as_ref()?.pair.as_ref()?;
    Some(pair.ssds.iter().filter(|ssd| ssd.state == state).count() as u64)
}

/// Something of the SSDs that are being resilvered, if any is.
fn resilver(status: &Status, of: fn(&MemberView) -> Option<u64>) -> Option<u64> {
    let ssds = &status.cache.as_ref()?.pair.as_ref()?.ssds;
    ssds.iter().filter_map(of).reduce(|one, other| one + other)
}
