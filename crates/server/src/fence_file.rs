//! What this host remembers of a volume whose SSD failed: what of it is not to be believed at the next start, because
//! blocks were written to the backing disk that the SSD's journal knows nothing of. A file for each volume, because the
//! shards that write them know nothing of each other.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use lode_store::Distrust;

use crate::config::Config;
use crate::error::{ServerError, ServerErrorKind};

const CLEAN: &str = "clean\n\nThe cache SSD failed, and what it held is being written to the backing disk without it. The \
                     next start drops this VM's clean blocks on the SSD and removes this file.\n";
const ALL: &str = "all\n\nThe cache SSD failed, and what it held was written to the backing disk without it. The next start \
                   drops all of this VM's blocks on the SSD and removes this file.\n";

/// The mark of one volume.
#[derive(Clone, Debug)]
pub(crate) struct FenceFile {
    path: PathBuf,
}

impl FenceFile {
    pub(crate) fn of(config: &Config, vm: &str) -> FenceFile {
        FenceFile { path: config.state_dir.join(format!("{}.{vm}.failed", config.name)) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What is not to be believed of the volume.
    ///
    /// # Errors
    /// When the file cannot be read, or says something else.
    pub(crate) fn distrust(&self) -> Result<Option<Distrust>, ServerError> {
        let text = match std::fs::read_to_string(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            outcome => outcome.map_err(|error| self.fault("read", error))?,
        };
        match text.lines().next() {
            Some("clean") => Ok(Some(Distrust::Clean)),
            Some("all") => Ok(Some(Distrust::All)),
            _ => {
                let text = format!(
                    "{} does not begin with 'clean' or 'all'; write 'clean' into it if in doubt, because the cache SSD \
                     failed when this VM was last served",
                    self.path.display()
                );
                Err(ServerError::new(ServerErrorKind::Identity, text))
            }
        }
    }

    /// When this returns, a crash cannot undo it.
    pub(crate) fn write(&self, distrust: Distrust) -> std::io::Result<()> {
        let text = if distrust == Distrust::All { ALL } else { CLEAN };
        let new = self.path.with_extension("failed.new");
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, &self.path)?;
        self.sync_folder()
    }

    /// Notes what was noted under another name, if that is stricter, and takes it away there.
    pub(crate) fn take_over(&self, other: &FenceFile) -> Result<(), ServerError> {
        let Some(distrust) = other.distrust()? else { return Ok(()) };
        if self.distrust()? != Some(Distrust::All) {
            self.write(distrust).map_err(|error| self.fault("write", error))?;
        }
        other.remove()
    }

    /// What was not to be believed is gone.
    pub(crate) fn remove(&self) -> Result<(), ServerError> {
        let gone = std::fs::remove_file(&self.path).and_then(|()| self.sync_folder());
        gone.map_err(|error| self.fault("remove", error))
    }

    fn sync_folder(&self) -> std::io::Result<()> {
        File::open(self.path.parent().unwrap_or(Path::new(".")))?.sync_all()
    }

    fn fault(&self, what: &str, error: std::io::Error) -> ServerError {
        let text = format!("Cannot {what} {}; check `state_dir`", self.path.display());
        ServerError::because(ServerErrorKind::Identity, text, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_up_is_found_until_it_is_taken_down() {
        let folder = tempfile::TempDir::new().unwrap();
        let fence = FenceFile { path: folder.path().join("host1.vm1.failed") };
        assert_eq!(fence.distrust().unwrap(), None);
        for distrust in [Distrust::Clean, Distrust::All] {
            fence.write(distrust).unwrap();
            assert_eq!(fence.distrust().unwrap(), Some(distrust));
        }
        std::fs::write(&fence.path, "").unwrap();
        assert!(fence.distrust().unwrap_err().to_string().contains("'clean' or 'all'"));
        fence.remove().unwrap();
        assert_eq!(fence.distrust().unwrap(), None);
        // The stricter of two stays.
        let other = FenceFile { path: folder.path().join("host1.vm2.failed") };
        other.write(Distrust::All).unwrap();
        fence.take_over(&other).unwrap();
        other.write(Distrust::Clean).unwrap();
        fence.take_over(&other).unwrap();
        assert_eq!((fence.distrust().unwrap(), other.distrust().unwrap()), (Some(Distrust::All), None));
        fence.take_over(&other).unwrap();
        assert_eq!(fence.distrust().unwrap(), Some(Distrust::All));
    }
}
