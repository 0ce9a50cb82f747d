//! What the labels of pairs say before a start writes anything else. It must not know what the pairs hold.

use lode_store::StoreError;
use lode_store::pair::PairArray;
use tracing::{info, warn};

use super::device::{CachePairs, MemberDevice};
use crate::config::Size;
use crate::error::{ServerError, ServerErrorKind};

enum Failure {
    OfPairs(StoreError),
    OfHost(ServerError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::OfPairs(error)
    }
}

/// Has labels say what is missing, and then that a run begins ([`PairArray::begin`]).
///
/// # Errors
/// When no SSD of a pair can be written, or one failed, so that the start has to begin again; those of `remember`.
pub(crate) fn begin_pairs(
    files: &CachePairs,
    array: &mut PairArray<MemberDevice>,
    mut remember: impl FnMut(usize, u64) -> Result<(), ServerError>,
) -> Result<(), ServerError> {
    for pair in &files.pairs {
        if pair.is_awaiting() {
            info!(
                "The cache is on one SSD until the second one of its pair comes, of {} at least: `lode device add`",
                Size(pair.pair.least_device_bytes())
            );
        }
        for (member, (path, why)) in pair.paths.iter().zip(&pair.left_out).enumerate() {
            let (Some(path), Some(why)) = (path, why) else { continue };
            let (used, until) = match pair.pair.resilvered_member() == Some(member) {
                true => ("read", " until then"),
                false => (
                    "used",
                    "; `lode device add` resilvers it, or another one in its place, while guests are served",
                ),
            };
            warn!(
                "SSD {} of the pair is not {used}: {why}. What the other one holds dirty is on one SSD{until}",
                path.display()
            );
        }
    }
    let labels: Vec<_> = files.pairs.iter().map(|pair| pair.labels).collect();
    let in_sync = |array: &PairArray<_>| array.pairs().map(|pair| pair.in_sync).collect::<Vec<_>>();
    let before = in_sync(array);
    let remember = |number, generation| remember(number, generation).map_err(Failure::OfHost);
    array.begin(&labels, remember).map_err(|failure| match failure {
        Failure::OfPairs(error) => ServerError::store(files.pairs[0].first_path().display(), error),
        Failure::OfHost(error) => error,
    })?;
    if in_sync(array) != before {
        let text = "An SSD of the pair failed when it was to say what it is; start again";
        return Err(ServerError::new(ServerErrorKind::Media, text));
    }
    Ok(())
}
