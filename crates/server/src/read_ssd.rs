//! The read SSD of a configuration: finding it, making sure that it is one, and dividing it between the VMs. Nothing on
//! it outlives a stop, so that every start divides it anew. It must not know what is put there.

use lode_engine::EngineConfig;
use lode_format::ReadSsdLabel;
use lode_media::{MediaFile, OpenOptions};
use lode_store::{Store, StoreErrorKind, probe_read_ssd};
use tracing::info;

use crate::config::{Config, Size, SsdConfig};
use crate::error::{ServerError, ServerErrorKind};
use crate::files::open_patiently;
use crate::sync_device::FileDevice;

/// A read SSD that is the right one.
pub(crate) struct ReadSsd {
    pub file: MediaFile,
    pub label: ReadSsdLabel,
}

impl ReadSsd {
    /// Opens the read SSD of a configuration, if it names one.
    pub(crate) fn find(config: &Config) -> Result<Option<ReadSsd>, ServerError> {
        let Some(SsdConfig { path, uuid, .. }) = &config.read_ssd else { return Ok(None) };
        let device = path.display();
        let file = open_patiently(path, &OpenOptions::default()).map_err(|fault| {
            ServerError::because(ServerErrorKind::Media, "Cannot open the read SSD (`read_ssd.path`)", fault)
        })?;
        let label = probe_read_ssd(&mut FileDevice(&file)).map_err(|error| {
            let advice = match (error.kind(), Store::probe(&mut FileDevice(&file))) {
                (StoreErrorKind::NotACache, Ok(_)) => {
                    "it holds a cache; are `ssd.path` and `read_ssd.path` exchanged?".to_owned()
                }
                (StoreErrorKind::NotACache, Err(_)) => {
                    format!("correct `read_ssd.path`, or if the device is new run `lode format --read-ssd {device}` first")
                }
                _ => return ServerError::store(path.display(), error),
            };
            let what = format!("{device} is not a read SSD; {advice}");
            ServerError::because(ServerErrorKind::Store, what, error)
        })?;
        if let Some(wanted) = *uuid
            && wanted != label.id
        {
            let text = format!(
                "{device} is read SSD {}, and the configuration's `read_ssd.uuid` is {wanted}; correct `path` or `uuid`",
                label.id
            );
            return Err(ServerError::new(ServerErrorKind::Identity, text));
        }
        info!(
            "Read SSD {} on {device}, {}{}",
            label.id,
            Size(label.device_bytes),
            if file.is_direct() { "" } else { "; direct I/O does not work there, the page cache is used" }
        );
        Ok(Some(ReadSsd { file, label }))
    }

    /// Gives each of these its part, one behind the other.
    ///
    /// # Errors
    /// When together they need more than there is.
    pub(crate) fn divide<'e>(
        &self,
        engines: impl Iterator<Item = &'e mut EngineConfig>,
    ) -> Result<(), ServerError> {
        let mut next_bytes = ReadSsdLabel::DATA_START_BYTES;
        for config in engines {
            config.read_ssd_start_bytes = next_bytes;
            next_bytes += config.read_ssd_bytes();
        }
        if next_bytes <= self.label.device_bytes {
            return Ok(());
        }
        let text = format!(
            "The VMs' shares of the read SSD take {} with their reserves, and it has {}; make `read_ssd` of some VM \
             smaller, or use a larger device",
            Size(next_bytes),
            Size(self.label.device_bytes)
        );
        Err(ServerError::new(ServerErrorKind::Config, text))
    }
}
