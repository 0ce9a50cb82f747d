//! An SSD of the pair goes, comes, or another one comes in its place, while guests are served. It must not know who asks.

use std::path::{Path, PathBuf};

use lode_media::MediaFile;

use super::parts::Parts;
use super::{Done, Failure};
use crate::config::Config;
use crate::pair::{ServedPair, add_served, open_for, remove_served, resume_resilver};

/// What is to be done.
#[derive(Clone, Debug)]
pub(crate) enum DeviceChange {
    Remove { path: PathBuf },
    Add { path: PathBuf, force: bool },
    Replace { path: PathBuf, by: PathBuf, force: bool },
}

/// See the module's documentation.
pub(crate) struct ChangeDevice {
    pub change: DeviceChange,
    pub config: Config,
}

impl ChangeDevice {
    pub(super) fn run(self, parts: &Parts) -> Result<Done, Failure> {
        let pair = parts.host.pair.clone().ok_or_else(|| {
            "The cache is on one SSD; a pair is made with `lode format DEVICE --mirror DEVICE`".to_owned()
        })?;
        let mut config = None;
        match &self.change {
            DeviceChange::Remove { path } => remove_served(&pair, path)?,
            DeviceChange::Add { path, force } => {
                let file = open_for(&pair, path, *force)?;
                self.add(&pair, parts, (path, file), &mut config)?;
            }
            DeviceChange::Replace { path, by, force } => {
                // Before anything is taken out.
                let file = open_for(&pair, by, *force)?;
                remove_served(&pair, path)?;
                self.add(&pair, parts, (by, file), &mut config).map_err(|failure| {
                    let (Failure::Unchanged(why) | Failure::Partly(why)) = failure;
                    Failure::Partly(format!("{} was taken out, but: {why}", path.display()))
                })?;
            }
        }
        Ok(Done::Device { view: pair.view(), config: config.map(Box::new) })
    }

    fn add(
        &self,
        pair: &std::sync::Arc<ServedPair>,
        parts: &Parts,
        (path, file): (&Path, MediaFile),
        config: &mut Option<Config>,
    ) -> Result<(), Failure> {
        let save = |before: &Path| {
            let words = |error: crate::error::ServerError| error.to_string();
            Config::load(&self.config.path)
                .and_then(|file| file.with_ssd(before, path)?.write())
                .map_err(words)?;
            *config = Some(self.config.with_ssd(before, path).map_err(words)?);
            Ok(())
        };
        let disks = |path: &Path| parts.disks().under_path(path).map_err(|error| error.to_string());
        add_served(pair, (path, file), disks, used(parts), save)
    }
}

/// Goes on with an SSD of the pair that was being resilvered when the last run ended.
pub(crate) fn resume_device(parts: &Parts) {
    let Some(pair) = &parts.host.pair else { return };
    let disks = |path: &Path| parts.disks().under_path(path).map_err(|error| error.to_string());
    if let Err(why) = resume_resilver(pair, disks, used(parts)) {
        tracing::error!("The resilver of an SSD of the pair does not go on: {why}");
    }
}

/// The bytes of the pair that mean anything when it is asked.
fn used(parts: &Parts) -> impl FnOnce() -> Vec<std::ops::Range<u64>> + Send + 'static {
    let space = std::sync::Arc::clone(&parts.space);
    move || {
        space.with_broker(|broker| {
            broker.directory().map_or_else(Vec::new, lode_store::SpaceDirectory::used_bytes)
        })
    }
}
