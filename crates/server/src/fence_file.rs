//! What this host remembers of a volume whose device failed: what of it on the SSD is not to be believed by starts to come. After
//! the SSD failed, because blocks were written to the backing disk that the SSD's journal knows nothing of; after a flush of
//! the backing disk failed, because what is read of that disk until the next reboot may be lost with it. A file for each
//! volume, because the shards that write them know nothing of each other.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use lode_engine::Fence;
use lode_store::Distrust;

use crate::boot::boot_text;
use crate::config::Config;
use crate::error::{ServerError, ServerErrorKind};

const CLEAN: &str = "The cache SSD failed, and what it held is being written to the backing disk without it. The next start drops \
                     this VM's clean blocks on the SSD and removes this file.\n";
const ALL: &str = "The cache SSD failed, and what it held was written to the backing disk without it. The next start drops all of \
                   this VM's blocks on the SSD and removes this file.\n";
const UNTIL_REBOOT: &str = "A flush of the backing disk failed. What it should have covered may be readable until this host goes \
                            down, and lost then. Each start drops this VM's clean blocks on the SSD; the first one after a \
                            reboot removes this file.\n";

/// Before the boot in which a flush of the backing disk failed.
const DISK_FAILED: &str = "disk failed in boot ";
/// Stands for a boot that the system did not tell: no other one is known to be later.
const UNKNOWN_BOOT: &str = "unknown";

/// What is remembered of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Noted {
    /// What the next start drops.
    pub distrust: Distrust,
    /// The boot in which a flush of the backing disk failed: clean blocks are dropped until another one.
    failed_boot: Option<String>,
}

impl Noted {
    fn of(fence: Fence, boot: Option<String>) -> Noted {
        let distrust = if fence == Fence::All { Distrust::All } else { Distrust::Clean };
        let boot = || boot.unwrap_or_else(|| UNKNOWN_BOOT.to_owned());
        Noted { distrust, failed_boot: (fence == Fence::CleanUntilReboot).then(boot) }
    }

    /// What a file says, if it says one thing or the other.
    fn parse(text: &str) -> Option<Noted> {
        let mut lines = text.lines();
        let distrust = match lines.next()? {
            "clean" => Distrust::Clean,
            "all" => Distrust::All,
            _ => return None,
        };
        let failed_boot = lines.next().and_then(|line| line.strip_prefix(DISK_FAILED)).map(str::to_owned);
        Some(Noted { distrust, failed_boot })
    }

    fn text(&self) -> String {
        let is_all = self.distrust == Distrust::All;
        let mut text = if is_all { "all\n" } else { "clean\n" }.to_owned();
        if let Some(boot) = &self.failed_boot {
            text = format!("{text}{DISK_FAILED}{boot}\n\n{UNTIL_REBOOT}");
        }
        match (is_all, &self.failed_boot) {
            (true, _) => text + "\n" + ALL,
            (false, None) => text + "\n" + CLEAN,
            (false, Some(_)) => text,
        }
    }

    /// What is noted where both were.
    fn and(self, other: Noted) -> Noted {
        let is_all = self.distrust == Distrust::All || other.distrust == Distrust::All;
        let distrust = if is_all { Distrust::All } else { Distrust::Clean };
        Noted { distrust, failed_boot: self.failed_boot.or(other.failed_boot) }
    }

    /// What starts of this boot must still know after one has dropped what it had to drop.
    fn left(self, boot: Option<&str>) -> Option<Noted> {
        let is_over = |failed: &str| failed != UNKNOWN_BOOT && boot.is_some_and(|boot| boot != failed);
        let failed_boot = self.failed_boot.filter(|failed| !is_over(failed))?;
        Some(Noted { distrust: Distrust::Clean, failed_boot: Some(failed_boot) })
    }

    /// Why a start dropped blocks of a volume, and which.
    pub(crate) fn reason(&self) -> &'static str {
        match (self.distrust, &self.failed_boot) {
            (Distrust::All, _) => {
                "the cache SSD failed when it was last served, so that its blocks on it were dropped"
            }
            (Distrust::Clean, None) => {
                "the cache SSD failed when it was last served, so that its clean blocks on it were dropped"
            }
            (Distrust::Clean, Some(_)) => {
                "a flush of its backing disk has failed, so that its clean blocks on the SSD were dropped; so they are at each start \
                 up to the first one after a reboot"
            }
        }
    }
}

/// The file of one volume.
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

    /// What is remembered of the volume.
    ///
    /// # Errors
    /// When the file cannot be read, or says something else.
    pub(crate) fn noted(&self) -> Result<Option<Noted>, ServerError> {
        let text = match std::fs::read_to_string(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            outcome => outcome.map_err(|error| self.fault("read", error))?,
        };
        let noted = Noted::parse(&text).ok_or_else(|| {
            let text = format!(
                "{} does not begin with 'clean' or 'all'; write 'clean' into it if in doubt, because a device failed when this \
                 VM was last served",
                self.path.display()
            );
            ServerError::new(ServerErrorKind::Identity, text)
        })?;
        Ok(Some(noted))
    }

    /// Notes this beside what is noted. When it returns, a crash cannot undo it.
    pub(crate) fn add(&self, fence: Fence) -> std::io::Result<()> {
        let before = self.noted().map_err(std::io::Error::other)?;
        let new = Noted::of(fence, boot_text());
        self.write(&before.map_or(new.clone(), |before| new.and(before)))
    }

    fn write(&self, noted: &Noted) -> std::io::Result<()> {
        let new = self.path.with_extension("failed.new");
        let mut file = File::create(&new)?;
        file.write_all(noted.text().as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, &self.path)?;
        self.sync_folder()
    }

    /// Notes what was noted under another name beside what is noted, and takes it away there.
    pub(crate) fn take_over(&self, other: &FenceFile) -> Result<(), ServerError> {
        let Some(others) = other.noted()? else { return Ok(()) };
        let noted = self.noted()?.map_or(others.clone(), |noted| noted.and(others));
        self.write(&noted).map_err(|error| self.fault("write", error))?;
        other.remove()
    }

    /// What was not to be believed is gone for good: what starts of this boot must still know stays.
    pub(crate) fn obeyed(&self, noted: Noted) -> Result<(), ServerError> {
        match noted.left(boot_text().as_deref()) {
            None => self.remove(),
            Some(left) => self.write(&left).map_err(|error| self.fault("write", error)),
        }
    }

    fn remove(&self) -> Result<(), ServerError> {
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

    fn noted(distrust: Distrust, failed_boot: Option<&str>) -> Noted {
        Noted { distrust, failed_boot: failed_boot.map(str::to_owned) }
    }

    #[test]
    fn what_was_put_up_is_found_until_it_is_obeyed() {
        let folder = tempfile::TempDir::new().unwrap();
        let fence = FenceFile { path: folder.path().join("host1.vm1.failed") };
        assert_eq!(fence.noted().unwrap(), None);
        for (kind, distrust) in [(Fence::Clean, Distrust::Clean), (Fence::All, Distrust::All)] {
            fence.add(kind).unwrap();
            assert_eq!(fence.noted().unwrap(), Some(noted(distrust, None)));
        }
        // A weaker one takes nothing away.
        fence.add(Fence::Clean).unwrap();
        assert_eq!(fence.noted().unwrap(), Some(noted(Distrust::All, None)));
        fence.obeyed(fence.noted().unwrap().unwrap()).unwrap();
        assert_eq!(fence.noted().unwrap(), None);
        std::fs::write(&fence.path, "").unwrap();
        assert!(fence.noted().unwrap_err().to_string().contains("'clean' or 'all'"));
        assert!(fence.add(Fence::Clean).is_err());
    }

    /// Guarantees 1 and 2: it is believed again after a reboot, and not after any number of starts before.
    #[test]
    fn g1_a_failed_disk_is_remembered_until_another_boot() {
        let folder = tempfile::TempDir::new().unwrap();
        let fence = FenceFile { path: folder.path().join("host1.vm1.failed") };
        // The SSD's own failure does not make it forgotten, and is obeyed once.
        for kind in [Fence::CleanUntilReboot, Fence::Clean, Fence::All] {
            fence.add(kind).unwrap();
        }
        let boot = boot_text();
        let until = |distrust| Some(noted(distrust, boot.as_deref()));
        assert_eq!(fence.noted().unwrap(), until(Distrust::All));
        for _ in 0..2 {
            fence.obeyed(fence.noted().unwrap().unwrap()).unwrap();
            assert_eq!(fence.noted().unwrap(), until(Distrust::Clean));
        }
        let text = std::fs::read_to_string(&fence.path).unwrap();
        std::fs::write(&fence.path, text.replace(boot.as_deref().unwrap(), "another")).unwrap();
        fence.obeyed(fence.noted().unwrap().unwrap()).unwrap();
        assert_eq!(fence.noted().unwrap(), None);
    }

    #[test]
    fn a_boot_that_nobody_tells_is_never_over() {
        let failed = |boot: Option<&str>| Noted::of(Fence::CleanUntilReboot, boot.map(str::to_owned));
        for (failed_in, now, is_left) in [
            (Some("a"), Some("a"), true),
            (Some("a"), Some("b"), false),
            (Some("a"), None, true),
            (None, Some("b"), true),
            (None, None, true),
        ] {
            assert_eq!(failed(failed_in).left(now).is_some(), is_left, "{failed_in:?} {now:?}");
        }
        assert_eq!(Noted::of(Fence::All, Some("a".to_owned())).left(Some("a")), None);
    }

    #[test]
    fn the_stricter_of_two_stays_under_another_name() {
        let folder = tempfile::TempDir::new().unwrap();
        let [fence, other] = ["vm1", "vm2"].map(|vm| FenceFile { path: folder.path().join(vm) });
        other.add(Fence::All).unwrap();
        fence.take_over(&other).unwrap();
        other.add(Fence::CleanUntilReboot).unwrap();
        fence.take_over(&other).unwrap();
        fence.take_over(&other).unwrap();
        let both = noted(Distrust::All, boot_text().as_deref());
        assert_eq!((fence.noted().unwrap(), other.noted().unwrap()), (Some(both), None));
    }
}
