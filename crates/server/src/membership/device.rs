//! An SSD of a pair goes, comes, or another one comes in its place, while guests are served. It must not know who asks.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lode_media::MediaFile;

use super::parts::Parts;
use super::{Done, Failure};
use crate::config::Config;
use crate::pair::{ServedPairs, add_served, open_for, remove_served, resume_resilver};

/// What is to be done.
#[derive(Clone, Debug)]
pub(crate) enum DeviceChange {
    Remove {
        path: PathBuf,
    },
    /// Where several pairs lack one, `pair` says which it comes to, from 1.
    Add {
        path: PathBuf,
        force: bool,
        pair: Option<usize>,
    },
    Replace {
        path: PathBuf,
        by: PathBuf,
        force: bool,
    },
}

/// See the module's documentation.
pub(crate) struct ChangeDevice {
    pub change: DeviceChange,
    pub config: Config,
}

impl ChangeDevice {
    pub(super) fn run(self, parts: &Parts) -> Result<Done, Failure> {
        let pairs = parts.host.pairs.clone().ok_or_else(|| {
            "The cache is on one SSD; a pair is made with `lode format DEVICE --mirror DEVICE`".to_owned()
        })?;
        let mut config = None;
        match &self.change {
            DeviceChange::Remove { path } => remove_served(&pairs, path)?,
            DeviceChange::Add { path, force, pair } => {
                let number = pairs.pair_for(path, *pair)?;
                let file = open_for(&pairs.pairs[number], path, *force)?;
                self.add((&pairs, number), parts, (path, file), &mut config)?;
            }
            DeviceChange::Replace { path, by, force } => {
                let (number, _) = pairs.member_at(path)?;
                pairs.refuse_if_of_another(by, number)?;
                // Before anything is taken out.
                let file = open_for(&pairs.pairs[number], by, *force)?;
                remove_served(&pairs, path)?;
                self.add((&pairs, number), parts, (by, file), &mut config).map_err(|failure| {
                    let (Failure::Unchanged(why) | Failure::Partly(why)) = failure;
                    Failure::Partly(format!("{} was taken out, but: {why}", path.display()))
                })?;
            }
        }
        Ok(Done::Device { view: pairs.view(), config: config.map(Box::new) })
    }

    fn add(
        &self,
        (pairs, number): (&ServedPairs, usize),
        parts: &Parts,
        (path, file): (&Path, MediaFile),
        config: &mut Option<Config>,
    ) -> Result<(), Failure> {
        let save = |before: Option<&Path>| {
            let words = |error: crate::error::ServerError| error.to_string();
            Config::load(&self.config.path)
                .and_then(|file| file.with_ssd(before, path)?.write())
                .map_err(words)?;
            *config = Some(self.config.with_ssd(before, path).map_err(words)?);
            Ok(())
        };
        let disks = |path: &Path| parts.disks().under_path(path).map_err(|error| error.to_string());
        add_served(&pairs.pairs[number], (path, file), disks, used(parts, pairs, number), save)
    }
}

/// Goes on with SSDs of pairs that were being resilvered when the last run ended.
pub(crate) fn resume_device(parts: &Parts) {
    let Some(pairs) = &parts.host.pairs else { return };
    for (number, pair) in pairs.pairs.iter().enumerate() {
        let disks = |path: &Path| parts.disks().under_path(path).map_err(|error| error.to_string());
        if let Err(why) = resume_resilver(pair, disks, used(parts, pairs, number)) {
            tracing::error!("The resilver of an SSD of the pair does not go on: {why}");
        }
    }
}

/// The bytes of a pair that mean anything when it is asked.
fn used(
    parts: &Parts,
    pairs: &ServedPairs,
    number: usize,
) -> impl FnOnce() -> Vec<Range<u64>> + Send + 'static {
    let (space, stripes) = (Arc::clone(&parts.space), Arc::clone(&pairs.stripes));
    move || {
        let used = space.with_broker(|broker| {
            broker.directory().map_or_else(Vec::new, lode_store::SpaceDirectory::used_bytes)
        });
        stripes.on_pair(number, &used)
    }
}
