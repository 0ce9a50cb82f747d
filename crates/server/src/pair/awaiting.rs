//! The cache SSD that a configuration names alone, of a pair whose other SSD has not come yet. It must not know what it holds.

use lode_media::MediaFile;
use lode_store::pair::{Pair, probe_pair};

use super::device::{MemberDevice, PairFiles};
use crate::config::SsdConfig;
use crate::error::{ServerError, ServerErrorKind};

/// The pair whose only SSD until now this file is; none where it is not one of a pair, or others of it were there once.
/// `known_generation` is as for [`find_pairs`](super::find_pairs).
///
/// # Errors
/// When this host has served the pair later than its label says.
pub(crate) fn find_awaiting(
    file: &MediaFile,
    ssd: &SsdConfig,
    known_generation: impl Fn(&str, usize) -> Result<Option<u64>, ServerError>,
) -> Result<Option<PairFiles>, ServerError> {
    let label = probe_pair(&mut MemberDevice::alone(file.clone(), ssd.timeout)).ok();
    let Some(label) = label.filter(|label| label.awaits_other && label.in_sync[label.member]) else {
        return Ok(None);
    };
    let known = known_generation(&label.pair.to_string(), label.number)?;
    let (mut labels, mut paths, mut files) = ([None; 2], [None, None], [None, None]);
    labels[label.member] = Some(label);
    paths[label.member] = Some(ssd.path.clone());
    files[label.member] = Some(file.clone());
    let mut pairs = Pair::all_of(&[labels], &[known]).map_err(|error| {
        ServerError::new(ServerErrorKind::Identity, format!("{}: {error}", ssd.path.display()))
    })?;
    let (pair, left_out) = (pairs.remove(0), [None, None]);
    Ok(Some(PairFiles { pair, labels, paths, files, left_out, limit: ssd.timeout }))
}
