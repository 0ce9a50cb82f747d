//! What metrics say of a pair of SSDs.

use super::Row;
use super::Samples::{Counter, HostGauge};
use crate::pair::{MemberState, MemberView};
use crate::status::Status;

pub(super) fn pair_families() -> Vec<Row> {
    vec![
        (
            "lode_pair_in_sync_ssds",
            "SSDs of the pair that have everything: 2 where all is well",
            HostGauge(|s| in_state(s, MemberState::InSync)),
        ),
        (
            "lode_pair_resilvering_ssds",
            "SSDs of the pair that are being resilvered",
            HostGauge(|s| in_state(s, MemberState::Resilvering)),
        ),
        (
            "lode_pair_resilvered_bytes",
            "Of the SSD that is being resilvered, what is done",
            HostGauge(|s| resilver(s, |ssd| ssd.done_bytes)),
        ),
        (
            "lode_pair_resilver_bytes",
            "Bytes in all that are to be compared and copied to it",
            HostGauge(|s| resilver(s, |ssd| ssd.of_bytes)),
        ),
        (
            "lode_healed_blocks",
            "Blocks that were damaged on one SSD of the pair and written there again",
            Counter(|vm| vm.healed_blocks.unwrap_or(0)),
        ),
    ]
}

/// SSDs of the pair that stand so; none where there is no pair.
fn in_state(status: &Status, state: MemberState) -> Option<u64> {
    let pair = status.cache.as_ref()?.pair.as_ref()?;
    Some(pair.ssds.iter().filter(|ssd| ssd.state == state).count() as u64)
}

/// Something of the SSD that is being resilvered, if one is.
fn resilver(status: &Status, of: fn(&MemberView) -> Option<u64>) -> Option<u64> {
    status.cache.as_ref()?.pair.as_ref()?.ssds.iter().find_map(of)
}
