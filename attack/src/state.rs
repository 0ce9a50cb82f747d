//! The files that a daemon keeps on its host: what it remembers in its state folder. It must not know what they say, but for
//! the name of the host's boot, which changes with a power cut.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The regular files of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateFiles(BTreeMap<String, String>);

impl StateFiles {
    /// Reads them.
    pub fn read(folder: &Path) -> io::Result<StateFiles> {
        let mut files = BTreeMap::new();
        for (name, _) in stamps(folder)? {
            // One that was replaced meanwhile is there under its other name.
            if let Ok(bytes) = fs::read(folder.join(&name)) {
                files.insert(name, String::from_utf8_lossy(&bytes).into_owned());
            }
        }
        Ok(StateFiles(files))
    }

    /// Replaces what the folder has, sockets included.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            fs::remove_file(entry?.path())?;
        }
        self.0.iter().try_for_each(|(name, text)| fs::write(folder.join(name), text))
    }

    /// As the next boot of the host finds them, after the one that it is: this one was called by another name.
    pub fn of_an_earlier_boot(&self, name: u64) -> io::Result<StateFiles> {
        let boot = fs::read_to_string(BOOT_ID)?;
        let earlier = format!("00000000-0000-4000-8000-{:012x}", name & 0xffff_ffff_ffff);
        let renamed =
            |(name, text): (&String, &String)| (name.clone(), text.replace(boot.trim_end(), &earlier));
        Ok(StateFiles(self.0.iter().map(renamed).collect()))
    }
}

type Stamp = (u64, u64, i64, i64);

/// Names of the files, and what changes when they do.
fn stamps(folder: &Path) -> io::Result<BTreeMap<String, Stamp>> {
    let mut stamps = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if let Ok(found) = entry.metadata()
            && found.is_file()
        {
            let name = entry.file_name().to_string_lossy().into_owned();
            stamps.insert(name, (found.ino(), found.len(), found.mtime(), found.mtime_nsec()));
        }
    }
    Ok(stamps)
}

/// Notices changes of a folder.
#[derive(Debug)]
pub struct Watch {
    folder: PathBuf,
    stamps: BTreeMap<String, Stamp>,
}

impl Watch {
    /// Of this folder, from now on.
    pub fn new(folder: &Path) -> Watch {
        Watch { folder: folder.to_owned(), stamps: stamps(folder).unwrap_or_default() }
    }

    /// The files, when they are not those of the last look.
    pub fn changed(&mut self) -> Option<Arc<StateFiles>> {
        let now = stamps(&self.folder).ok()?;
        if now == self.stamps {
            return None;
        }
        let files = StateFiles::read(&self.folder).ok()?;
        self.stamps = now;
        Some(Arc::new(files))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_replaced_are_noticed_and_can_be_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let boot = fs::read_to_string(BOOT_ID).unwrap();
        fs::write(path.join("a.state"), format!("boot {boot}")).unwrap();
        let mut watch = Watch::new(path);
        let before = StateFiles::read(path).unwrap();
        assert_eq!(watch.changed(), None);
        fs::write(path.join("new"), "other").unwrap();
        fs::rename(path.join("new"), path.join("a.state")).unwrap();
        assert_eq!(watch.changed().as_deref(), Some(&StateFiles::read(path).unwrap()));
        before.of_an_earlier_boot(7).unwrap().write(path).unwrap();
        let text = fs::read_to_string(path.join("a.state")).unwrap();
        assert!(text.contains("-8000-000000000007") && !text.contains(boot.trim_end()), "{text}");
    }
}
