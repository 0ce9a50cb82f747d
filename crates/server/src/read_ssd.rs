//! The read SSD of a configuration: finding it, making sure that it is one, and dividing it between the VMs, those as well that
//! come and go while others are served. Nothing on it outlives a stop, so that every start divides it anew. It must not know
//! what is put there.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lode_engine::EngineConfig;
use lode_format::ReadSsdLabel;
use lode_media::{MediaFile, OpenOptions};
use lode_store::{Store, StoreErrorKind, probe_read_ssd};
use tracing::info;

use crate::config::{Config, Size, SsdConfig};
use crate::error::{ServerError, ServerErrorKind};
use crate::files::open_patiently;
use crate::foreign::other_version;
use crate::ssd::FoundSsd;
use crate::sync_device::FileDevice;

/// A read SSD that is the right one.
pub(crate) struct ReadSsd {
    pub file: MediaFile,
    pub label: ReadSsdLabel,
}

impl ReadSsd {
    /// Opens the read SSD of a configuration, if it names one, and has the cache beside it remember which that is.
    pub(crate) fn find(
        config: &Config,
        cache: Option<&mut FoundSsd<'_>>,
    ) -> Result<Option<ReadSsd>, ServerError> {
        let Some(SsdConfig { path, uuid, .. }) = &config.read_ssd else { return Ok(None) };
        let device = path.display();
        let file = open_patiently(path, &OpenOptions::default()).map_err(|fault| {
            ServerError::because(ServerErrorKind::Media, "Cannot open the read SSD (`read_ssd.path`)", fault)
        })?;
        let label = probe_read_ssd(&mut FileDevice::new(&file)).map_err(|error| {
            let advice = match (error.kind(), Store::probe(&mut FileDevice::new(&file))) {
                (StoreErrorKind::NotACache, Ok(_)) => {
                    "it holds a cache; are `ssd.path` and `read_ssd.path` exchanged?".to_owned()
                }
                (StoreErrorKind::NotACache, Err(_)) => {
                    if let Some(other) = other_version(path, &mut FileDevice::new(&file)) {
                        return other;
                    }
                    format!("correct `read_ssd.path`, or if the device is new run `lode format --read-ssd {device}` first")
                }
                (StoreErrorKind::OtherVersion, _) => {
                    let what = format!(
                        "{device} is a read SSD of another version, and nothing was changed: use the lode that made it, or give another device"
                    );
                    return ServerError::because(ServerErrorKind::Store, what, error);
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
        cache.map_or(Ok(()), |cache| cache.check_read_ssd(&label, path))?;
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

/// The parts of a read SSD that VMs have while they are served, by their numbers.
pub(crate) struct ReadSsdParts {
    file: MediaFile,
    device_bytes: u64,
    taken: Mutex<TakenParts>,
}

/// By the byte with which each begins: its bytes, and whose it is.
type TakenParts = BTreeMap<u64, (u64, usize)>;

impl ReadSsdParts {
    /// As a start divided it.
    pub(crate) fn new<'e>(
        read_ssd: ReadSsd,
        engines: impl Iterator<Item = (usize, &'e EngineConfig)>,
    ) -> ReadSsdParts {
        let part = |(number, config): (usize, &EngineConfig)| {
            (config.read_ssd_start_bytes, (config.read_ssd_bytes(), number))
        };
        let taken = engines.filter(|(_, config)| config.read_ssd_bytes() > 0).map(part).collect();
        let ReadSsd { file, label } = read_ssd;
        ReadSsdParts { file, device_bytes: label.device_bytes, taken: Mutex::new(taken) }
    }

    fn taken(&self) -> MutexGuard<'_, TakenParts> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device, for who has a part of it.
    pub(crate) fn file(&self) -> MediaFile {
        self.file.clone()
    }

    /// Gives a VM that comes the first part that is large enough. Returns where it begins.
    ///
    /// # Errors
    /// With the arithmetic, when there is none.
    pub(crate) fn take(&self, number: usize, vm: &str, bytes: u64) -> Result<u64, String> {
        let mut taken = self.taken();
        let gaps = gaps(&taken, self.device_bytes);
        if let Some(&(start, _)) = gaps.iter().find(|(_, free)| *free >= bytes) {
            taken.insert(start, (bytes, number));
            return Ok(start);
        }
        let (all, largest) = (gaps.iter().map(|gap| gap.1).sum(), gaps.iter().map(|gap| gap.1).max());
        let largest = largest.unwrap_or(0);
        let (what, advice) = if all >= bytes {
            (
                "in one piece",
                ", or write it to the configuration file and restart the service, which divides the read SSD anew",
            )
        } else {
            ("at most", "")
        };
        Err(format!(
            "VM {vm} cannot come: its share of the read SSD takes {} with its reserve, and of {} there are {} free, {} {what}; \
             make its `read_ssd` smaller{advice}",
            Size(bytes),
            Size(self.device_bytes),
            Size(all),
            Size(largest)
        ))
    }

    /// A VM has gone, and nothing of it is under way.
    pub(crate) fn give_back(&self, number: usize) {
        self.taken().retain(|_, (_, whose)| *whose != number);
    }
}

/// Where nobody has anything: the first byte, and how many there are, ascending.
fn gaps(taken: &TakenParts, device_bytes: u64) -> Vec<(u64, u64)> {
    let (mut gaps, mut end) = (Vec::new(), ReadSsdLabel::DATA_START_BYTES);
    for (start, bytes) in taken.iter().map(|(&start, &(bytes, _))| (start, bytes)).chain([(device_bytes, 0)])
    {
        if start > end {
            gaps.push((end, start - end));
        }
        end = start + bytes;
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A read SSD of 100 MiB beside its label.
    fn parts(folder: &tempfile::TempDir) -> ReadSsdParts {
        let device_bytes = ReadSsdLabel::DATA_START_BYTES + (100 << 20);
        let options = OpenOptions { create_size: Some(device_bytes), ..OpenOptions::default() };
        let file = MediaFile::open(&folder.path().join("read-ssd"), &options).unwrap();
        ReadSsdParts { file, device_bytes, taken: Mutex::default() }
    }

    #[test]
    fn parts_are_one_vms_each_and_come_back() {
        let folder = tempfile::TempDir::new().unwrap();
        let parts = parts(&folder);
        let start = ReadSsdLabel::DATA_START_BYTES;
        let take = |number, mib: u64| parts.take(number, "new", mib << 20);
        assert_eq!(
            [take(1, 30), take(2, 30), take(3, 40)],
            [0, 30, 60].map(|mib: u64| Ok(start + (mib << 20)))
        );
        let said = take(4, 1).unwrap_err();
        assert!(said.contains("takes 1 MiB") && said.contains("there are 0 B free"), "{said}");
        parts.give_back(2);
        parts.give_back(7);
        assert_eq!(take(4, 20), Ok(start + (30 << 20)));
        parts.give_back(1);
        let said = take(5, 35).unwrap_err();
        let words = ["takes 35 MiB", "40 MiB free, 30 MiB in one piece", "divides the read SSD anew"];
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
        assert_eq!(take(5, 30), Ok(start));
        assert_eq!(take(6, 10), Ok(start + (50 << 20)));
    }
}
