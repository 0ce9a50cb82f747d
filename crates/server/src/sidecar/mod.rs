//! The sidecar of a backing disk: a small file beside it that says which cache served the disk last, and whether that cache may
//! hold blocks that are newer. It goes where the disk goes, so that a cache on another host can know. It must not know what
//! follows from it (`decide`), or when it is written (`claims`).

pub(crate) mod claims;
pub(crate) mod decide;
#[cfg(test)]
mod model;

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::{SidecarPlace, VmConfig};
use crate::error::{ServerError, ServerErrorKind};
use crate::new_file::{BY_UMASK, beside, replace};

/// Version of the file; a later one is not written over.
const VERSION: u32 = 1;
/// Longest file that is read: one that is longer is no sidecar.
const MAX_BYTES: u64 = 8 << 10;
/// What is added to the name of an image.
const ENDING: &str = ".sidecar";
const HEADER: &str = "# Written by Lodestore. It says which cache served this disk last; move it with the disk, and do not edit it.\n";

/// Where the newest bytes of a disk may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DiskState {
    /// A cache serves the disk, or holds blocks that are newer, or ended without a word.
    Held,
    /// A daemon that keeps nothing of it on an SSD serves the disk, or ended without a word.
    Uncached,
    /// The disk alone is the VM's disk.
    Clean,
}

/// What a sidecar says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sidecar {
    version: u32,
    /// Higher with every cache and every period in which the disk is written.
    pub(crate) generation: u64,
    pub(crate) state: DiskState,
    /// Who served it last: the cache's identity (none without an SSD) and name, its host, and there the VM and its volume's tag.
    pub(crate) cache: Option<String>,
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) vm: String,
    pub(crate) volume: Option<String>,
}

/// Who serves disks here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CacheOwner {
    /// Identity of the cache; none without an SSD.
    pub cache: Option<String>,
    pub name: String,
    pub host: String,
}

impl CacheOwner {
    pub(crate) fn new(cache: Option<String>, name: &str) -> CacheOwner {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        CacheOwner { cache, name: name.to_owned(), host }
    }

    /// Whether this is what one of its own runs wrote.
    pub(crate) fn wrote(&self, sidecar: &Sidecar) -> bool {
        match &self.cache {
            Some(_) => sidecar.cache == self.cache,
            None => sidecar.cache.is_none() && sidecar.name == self.name && sidecar.host == self.host,
        }
    }
}

impl Sidecar {
    pub(crate) fn new(owner: &CacheOwner, vm: &str, volume: Option<String>, generation: u64) -> Sidecar {
        Sidecar {
            version: VERSION,
            generation,
            state: if volume.is_some() { DiskState::Held } else { DiskState::Uncached },
            cache: owner.cache.clone(),
            name: owner.name.clone(),
            host: owner.host.clone(),
            vm: vm.to_owned(),
            volume,
        }
    }

    /// Who wrote it, for people.
    pub(crate) fn who(&self) -> String {
        let cache = self.cache.as_ref().map(|uuid| format!(" ({uuid})")).unwrap_or_default();
        format!("cache {}{cache} on host {}, VM {}", self.name, self.host, self.vm)
    }

    /// What the file at this path says; none where there is no such file.
    ///
    /// # Errors
    /// When it cannot be read or is no sidecar: then nobody knows who has the newest bytes.
    pub(crate) fn read(path: &Path) -> Result<Option<Sidecar>, ServerError> {
        let shown = path.display();
        let cannot = |error| {
            let what = format!("Cannot read the sidecar {shown}; check `backing.sidecar` and permissions");
            ServerError::because(ServerErrorKind::Identity, what, error)
        };
        let file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(cannot)?,
        };
        let mut text = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(cannot)?;
        Sidecar::parse(text, path).map(Some)
    }

    /// What the text of the file at this path says.
    ///
    /// # Errors
    /// [`ServerErrorKind::Identity`] when it is no sidecar, or one of a later version.
    pub fn parse(text: Vec<u8>, path: &Path) -> Result<Sidecar, ServerError> {
        let shown = path.display();
        let refuse = |why: String| {
            let text = format!(
                "The sidecar {shown} is {why}. It says which cache may hold blocks newer than its disk: make sure that none does \
                 (`lode stop --drain` where it was served), then remove the file"
            );
            ServerError::new(ServerErrorKind::Identity, text)
        };
        let text = String::from_utf8(text).ok().filter(|text| text.len() as u64 <= MAX_BYTES);
        let text = text.ok_or_else(|| refuse("damaged: no text, or too long".to_owned()))?;
        let table: toml::Table =
            toml::from_str(&text).map_err(|error| refuse(format!("damaged: {}", error.message())))?;
        match table.get("version").and_then(toml::Value::as_integer) {
            Some(version) if version == i64::from(VERSION) => {}
            Some(version) => {
                let text = format!(
                    "The sidecar {shown} is of version {version}; serve this disk with a newer `lode`"
                );
                return Err(ServerError::new(ServerErrorKind::Identity, text));
            }
            None => return Err(refuse("damaged: it has no version".to_owned())),
        }
        table.try_into().map_err(|error| refuse(format!("damaged: {}", error.message())))
    }

    /// The text of a file that says it.
    ///
    /// # Errors
    /// When a number is too large for the file.
    pub fn to_text(&self) -> std::io::Result<String> {
        let text = toml::to_string(self).map_err(|error| std::io::Error::other(error.to_string()))?;
        Ok(format!("{HEADER}{text}"))
    }

    /// Writes it in place of what is there. When this and [`crate::new_file::sync_folder`] of its folder returned, a crash cannot undo it; at any
    /// time there is the old file or the new one.
    fn write(&self, path: &Path) -> std::io::Result<()> {
        let text = self.to_text()?;
        let mut new: OsString = path.into();
        // Another host may be at the same file; then each is at its own.
        new.push(format!(".{}.new", self.name));
        replace(path, Path::new(&new), BY_UMASK, |file| file.write_all(text.as_bytes()))
    }
}

/// Where a VM's sidecar is; none where it has none: it is a block device, and the configuration names no file, or it says that
/// there is to be none.
///
/// # Errors
/// When the backing disk cannot be found.
pub fn path_of(vm: &VmConfig) -> std::io::Result<Option<PathBuf>> {
    match &vm.sidecar {
        SidecarPlace::Nowhere => Ok(None),
        SidecarPlace::At(path) => Ok(Some(path.clone())),
        SidecarPlace::Usual => beside_image(&vm.backing),
    }
}

/// Where the sidecar of an image is unless the configuration names another place; none of a block device.
pub(crate) fn beside_image(image: &Path) -> std::io::Result<Option<PathBuf>> {
    beside(image, ENDING)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::new_file::failing::at_each_step;
    use crate::new_file::sync_folder;

    fn owner() -> CacheOwner {
        CacheOwner {
            cache: Some("00112233-4455-4677-8899-aabbccddeeff".to_owned()),
            name: "a".to_owned(),
            host: "h".to_owned(),
        }
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else_is_believed() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("disk.img.sidecar");
        assert_eq!(Sidecar::read(&path).unwrap(), None);
        let sidecar = Sidecar::new(&owner(), "web.1", Some("7".to_owned()), 3);
        sidecar.write(&path).unwrap();
        assert_eq!(Sidecar::read(&path).unwrap(), Some(sidecar.clone()));
        let uncached = Sidecar::new(&CacheOwner { cache: None, ..owner() }, "web", None, u64::MAX >> 1);
        uncached.write(&path).unwrap();
        assert_eq!(Sidecar::read(&path).unwrap(), Some(uncached));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");

        sidecar.write(&path).unwrap();
        let good = std::fs::read_to_string(&path).unwrap();
        for (from, to, said) in [
            ("version = 1", "version = 2", "newer `lode`"),
            ("version = 1", "", "no version"),
            ("generation = 3", "generation = -3", "damaged"),
            ("generation = 3", "", "damaged"),
            ("held", "hold", "damaged"),
            ("\nvm = ", "\nwm = ", "damaged"),
        ] {
            assert!(good.contains(from), "{from} in {good}");
            std::fs::write(&path, good.replace(from, to)).unwrap();
            let error = Sidecar::read(&path).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("disk.img.sidecar"), "{error}");
        }
        // Cut short anywhere, as long as something is missing, and with any noise.
        for length in 0..good.trim_end().len() {
            std::fs::write(&path, &good[..length]).unwrap();
            let read = Sidecar::read(&path);
            assert!(read.is_err() || read.unwrap().unwrap().volume.as_deref() != Some("7"), "{length}");
        }
        std::fs::write(&path, [0xff; 100]).unwrap();
        assert!(Sidecar::read(&path).is_err());
        std::fs::write(&path, good + &" ".repeat(MAX_BYTES as usize)).unwrap();
        assert!(Sidecar::read(&path).is_err());
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(Sidecar::read(&path).is_err());
    }

    /// Guarantee 1: whichever step fails, another host finds the old file or the new one.
    #[test]
    fn g1_a_sidecar_that_cannot_be_written_is_as_before() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("disk.img.sidecar");
        let [old, new] = [3, 4].map(|generation| Sidecar::new(&owner(), "web", None, generation));
        old.write(&path).unwrap();
        let written = || new.write(&path).and_then(|()| sync_folder(folder.path()));
        at_each_step(written, |result, has_failed| {
            assert_eq!(result.is_err(), has_failed);
            let found = Sidecar::read(&path).unwrap();
            assert!(found.as_ref() == Some(&new) || has_failed && found.as_ref() == Some(&old), "{found:?}");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
            old.write(&path).unwrap();
        });
    }

    #[test]
    fn a_cache_knows_what_it_wrote() {
        let own = Sidecar::new(&owner(), "web", Some("7".to_owned()), 3);
        assert!(owner().wrote(&own));
        // Under another name or on another host it is the same cache.
        assert!(CacheOwner { name: "b".to_owned(), host: "i".to_owned(), ..owner() }.wrote(&own));
        assert!(!CacheOwner { cache: None, ..owner() }.wrote(&own));
        let without = CacheOwner { cache: None, ..owner() };
        let uncached = Sidecar::new(&without, "web", None, 3);
        assert!(without.wrote(&uncached) && !owner().wrote(&uncached));
        assert!(!CacheOwner { host: "i".to_owned(), ..without }.wrote(&uncached));
    }
}
