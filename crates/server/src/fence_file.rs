//! What this host remembers of a volume whose device failed: what of it on the SSD is not to be believed by starts to come. After
//! the SSD failed, because blocks were written to the backing disk that the SSD's journal knows nothing of; after a flush of
//! the backing disk failed, because what is read of that disk until the next reboot may be lost with it. A file for each
//! volume, because the shards that write them know nothing of each other. What is noted of a disk counts for whoever is served
//! from it, as long as `state_dir` is the same.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use lode_engine::Fence;
use lode_store::Distrust;

use crate::boot::boot_text;
use crate::config::Config;
use crate::error::{ServerError, ServerErrorKind};
use crate::files::file_identity;
use crate::new_file::{folder_of, replace_durably, sync_folder};

const CLEAN: &str = "The cache SSD failed, and what it held is being written to the backing disk without it. The next start drops \
                     this VM's clean blocks on the SSD and removes this file.\n";
const ALL: &str = "The cache SSD failed, and what it held was written to the backing disk without it. The next start drops all of \
                   this VM's blocks on the SSD and removes this file.\n";
const ALL_BEFORE: &str = "Before that the cache SSD failed, and what it held was written to the backing disk without it: the next start \
                          drops all of this VM's blocks on the SSD.\n";
const UNTIL_REBOOT: &str = "A flush of the backing disk or of its redo log failed. What it should have covered may be readable until this host goes \
                            down, and lost then. Each start drops this VM's clean blocks on the SSD; the first one after a \
                            reboot removes this file.\n";

/// Before the boot in which a flush of the backing disk failed.
const DISK_FAILED: &str = "disk failed in boot ";
/// Before what tells the disk from others in that boot.
const DISK: &str = "disk ";
/// Stands for a boot that the system did not tell: no other one is known to be later.
const UNKNOWN_BOOT: &str = "unknown";

const ENDING: &str = ".failed";

/// What is remembered of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Noted {
    /// What the next start drops.
    pub distrust: Distrust,
    /// The boot in which a flush of the backing disk failed: clean blocks are dropped until another one.
    failed_boot: Option<String>,
    /// Which disks that were, see [`disk_in_boot`]: mostly one.
    disks: Vec<String>,
}

/// What tells a disk from others in this boot, also under another path: device and inode of an image, or the number of a block device.
/// After a reboot they may be another disk's, so that notes of another boot concern their own names alone.
fn disk_in_boot(path: &Path) -> Option<String> {
    let of = |data: Metadata| match file_identity(&data) {
        (true, number, _) => format!("device {number}"),
        (false, device, inode) => format!("file {device} {inode}"),
    };
    std::fs::metadata(path).ok().map(of)
}

impl Noted {
    fn of(fence: Fence, boot: Option<String>, disk: Option<String>) -> Noted {
        let boot = || boot.unwrap_or_else(|| UNKNOWN_BOOT.to_owned());
        let is_of_disk = fence == Fence::CleanUntilReboot;
        let disks = disk.filter(|_| is_of_disk).into_iter().collect();
        Noted { distrust: fence.distrust(), failed_boot: is_of_disk.then(boot), disks }
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
        let disks = lines.map_while(|line| line.strip_prefix(DISK)).map(str::to_owned);
        Some(Noted { distrust, disks: disks.filter(|_| failed_boot.is_some()).collect(), failed_boot })
    }

    fn text(&self) -> String {
        let is_all = self.distrust == Distrust::All;
        let mut text = if is_all { "all\n" } else { "clean\n" }.to_owned();
        if let Some(boot) = &self.failed_boot {
            let disks: String = self.disks.iter().map(|disk| format!("{DISK}{disk}\n")).collect();
            text = format!("{text}{DISK_FAILED}{boot}\n{disks}\n{UNTIL_REBOOT}");
        }
        match (is_all, &self.failed_boot) {
            (true, None) => text + "\n" + ALL,
            (true, Some(_)) => text + "\n" + ALL_BEFORE,
            (false, None) => text + "\n" + CLEAN,
            (false, Some(_)) => text,
        }
    }

    /// What is noted in this boot where both were: of two boots the one that is not over.
    fn and(self, other: Noted, boot: Option<&str>) -> Noted {
        let distrust = self.distrust.max(other.distrust);
        let (mut kept, added) = if other.is_over(boot) { (self, other) } else { (other, self) };
        if !added.is_over(boot) {
            kept.disks.extend(added.disks);
            kept.disks.sort_unstable();
            kept.disks.dedup();
        }
        Noted { distrust, ..kept }
    }

    /// Whether there was a reboot since a flush of the disk failed, or none had failed.
    fn is_over(&self, boot: Option<&str>) -> bool {
        let is_other = |failed: &String| failed != UNKNOWN_BOOT && boot.is_some_and(|boot| boot != failed);
        self.failed_boot.as_ref().is_none_or(is_other)
    }

    /// Whether a flush of the disk has failed in this boot.
    pub(crate) fn is_of_this_boot(&self) -> bool {
        !self.is_over(boot_text().as_deref())
    }

    /// What starts of this boot must still know after one has dropped what it had to drop.
    fn left(self, boot: Option<&str>) -> Option<Noted> {
        (!self.is_over(boot)).then_some(Noted { distrust: Distrust::Clean, ..self })
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
                "a flush of its backing disk or redo log has failed, so that its clean blocks on the SSD were dropped; so they are at each start \
                 up to the first one after a reboot"
            }
        }
    }
}

/// The file of one volume. It is written by the thread of its shard's fences, and by others only before that or while a volume gets
/// another name.
#[derive(Clone, Debug)]
pub(crate) struct FenceFile {
    path: PathBuf,
    /// See [`disk_in_boot`].
    disk: Option<String>,
}

impl FenceFile {
    pub(crate) fn of(config: &Config, vm: &str) -> FenceFile {
        FenceFile { path: config.state_dir.join(format!("{}.{vm}{ENDING}", config.name)), disk: None }
    }

    /// The same, of a volume with this backing disk.
    pub(crate) fn of_disk(self, backing: &Path) -> FenceFile {
        FenceFile { disk: disk_in_boot(backing), ..self }
    }

    /// The same, of a volume that had another name before.
    pub(crate) fn of_disk_of(self, before: &FenceFile) -> FenceFile {
        FenceFile { disk: before.disk.clone(), ..self }
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
                "{} does not begin with 'clean' or 'all', and a device failed when this VM was last served: if in doubt write the lines \
                 'clean' and '{DISK_FAILED}{UNKNOWN_BOOT}' into it, and remove it after the next reboot",
                self.path.display()
            );
            ServerError::new(ServerErrorKind::Identity, text)
        })?;
        Ok(Some(noted))
    }

    /// The same with what is noted in this boot of its disk under other names.
    ///
    /// # Errors
    /// As [`FenceFile::noted`], of any file: which disk one is of that cannot be read is not known.
    pub(crate) fn noted_of_disk(&self) -> Result<Option<Noted>, ServerError> {
        let (mut noted, boot) = (self.noted()?, boot_text());
        let Some(disk) = &self.disk else { return Ok(noted) };
        for name in self.names_beside()? {
            let other = FenceFile { path: self.path.with_file_name(&name), disk: None };
            let found = other.noted()?.filter(|found| !found.is_over(boot.as_deref()));
            if let Some(found) = found.filter(|found| found.disks.contains(disk)) {
                let of_disk = Noted { distrust: Distrust::Clean, disks: vec![disk.clone()], ..found };
                noted = Some(match noted {
                    Some(noted) => noted.and(of_disk, boot.as_deref()),
                    None => of_disk,
                });
            }
        }
        Ok(noted)
    }

    /// Names of other such files in the folder.
    fn names_beside(&self) -> Result<Vec<String>, ServerError> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let entries = match std::fs::read_dir(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.and_then(Iterator::collect::<std::io::Result<Vec<_>>>),
        };
        let entries = entries.map_err(|error| self.fault("look beside", error))?;
        let names = entries.iter().filter_map(|entry| entry.file_name().into_string().ok());
        let is_other = |name: &String| name.ends_with(ENDING) && self.path.file_name() != Some(name.as_ref());
        Ok(names.filter(is_other).collect())
    }

    /// Notes this beside what is noted. When it returns, a crash cannot undo it.
    pub(crate) fn add(&self, fence: Fence) -> std::io::Result<()> {
        let before = self.noted().map_err(std::io::Error::other)?;
        let boot = boot_text();
        let new = Noted::of(fence, boot.clone(), self.disk.clone());
        self.write(&match before {
            Some(before) => new.and(before, boot.as_deref()),
            None => new,
        })
    }

    fn write(&self, noted: &Noted) -> std::io::Result<()> {
        replace_durably(&self.path, &self.path.with_extension("failed.new"), &noted.text())
    }

    /// Notes what was noted under another name beside what is noted, and takes it away there.
    pub(crate) fn take_over(&self, other: &FenceFile) -> Result<(), ServerError> {
        let Some(others) = other.noted()? else { return Ok(()) };
        let noted = match self.noted()? {
            Some(noted) => noted.and(others, boot_text().as_deref()),
            None => others,
        };
        self.write(&noted).map_err(|error| self.fault("write", error))?;
        other.remove()
    }

    /// What stands here of a VM that nobody serves any more concerns none that gets its name, but for what is noted of disks in this
    /// boot.
    pub(crate) fn make_way(&self) -> Result<(), ServerError> {
        self.noted()?.map_or(Ok(()), |noted| self.obeyed(noted))
    }

    /// What was not to be believed is gone for good: only what starts of this boot must still know stays.
    pub(crate) fn obeyed(&self, noted: Noted) -> Result<(), ServerError> {
        match noted.left(boot_text().as_deref()) {
            None => self.remove(),
            Some(left) => self.write(&left).map_err(|error| self.fault("write", error)),
        }
    }

    fn remove(&self) -> Result<(), ServerError> {
        let gone = match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            gone => gone.and_then(|()| sync_folder(folder_of(&self.path))),
        };
        gone.map_err(|error| self.fault("remove", error))
    }

    pub(crate) fn fault(&self, what: &str, error: std::io::Error) -> ServerError {
        let text = format!("Cannot {what} {}; check `state_dir`", self.path.display());
        ServerError::because(ServerErrorKind::Identity, text, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::new_file::failing::at_each_step;

    fn noted(distrust: Distrust, failed_boot: Option<&str>) -> Noted {
        Noted { distrust, failed_boot: failed_boot.map(str::to_owned), disks: Vec::new() }
    }

    fn file(folder: &Path, vm: &str) -> FenceFile {
        FenceFile { path: folder.join(format!("host1.{vm}.failed")), disk: None }
    }

    fn obey(fence: &FenceFile) {
        fence.obeyed(fence.noted().unwrap().unwrap()).unwrap();
    }

    #[test]
    fn what_was_put_up_is_found_until_it_is_obeyed() {
        let folder = tempfile::TempDir::new().unwrap();
        let fence = file(folder.path(), "vm1");
        assert_eq!(fence.noted().unwrap(), None);
        for (kind, distrust) in [(Fence::Clean, Distrust::Clean), (Fence::All, Distrust::All)] {
            fence.add(kind).unwrap();
            assert_eq!(fence.noted().unwrap(), Some(noted(distrust, None)));
        }
        // A weaker one takes nothing away.
        fence.add(Fence::Clean).unwrap();
        assert_eq!(fence.noted().unwrap(), Some(noted(Distrust::All, None)));
        obey(&fence);
        assert_eq!(fence.noted().unwrap(), None);
        std::fs::write(&fence.path, "").unwrap();
        assert!(fence.noted().unwrap_err().to_string().contains("'clean' or 'all'"));
        assert!(fence.add(Fence::Clean).is_err());
    }

    /// Guarantee 2: whichever step fails, what was not to be believed stays so, also when it comes under another name.
    #[test]
    fn g2_a_failure_that_cannot_be_noted_makes_no_other_one_forgotten() {
        let folder = tempfile::TempDir::new().unwrap();
        let [fence, other] = ["vm1", "vm2"].map(|vm| file(folder.path(), vm));
        let distrust = |fence: &FenceFile| fence.noted().unwrap().map(|noted| noted.distrust);
        fence.add(Fence::Clean).unwrap();
        let after = |result: std::io::Result<()>, has_failed: bool| {
            assert_eq!(result.is_err(), has_failed);
            let found = distrust(&fence);
            assert!(
                found == Some(Distrust::All) || has_failed && found == Some(Distrust::Clean),
                "{found:?}"
            );
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
            obey(&fence);
            fence.add(Fence::Clean).unwrap();
        };
        at_each_step(|| fence.add(Fence::All), after);
        other.add(Fence::All).unwrap();
        let after = |result: Result<(), ServerError>, has_failed: bool| {
            assert_eq!(result.is_err(), has_failed);
            let all = Some(Distrust::All);
            assert!(distrust(&fence) == all || has_failed && distrust(&other) == all);
            assert!(has_failed || distrust(&other).is_none());
            [&fence, &other].into_iter().filter(|fence| distrust(fence).is_some()).for_each(obey);
            fence.add(Fence::Clean).unwrap();
            other.add(Fence::All).unwrap();
        };
        at_each_step(|| fence.take_over(&other), after);
    }

    /// Guarantees 1 and 2: it is believed again after a reboot, and not after any number of starts before.
    #[test]
    fn g1_a_failed_disk_is_remembered_until_another_boot() {
        let folder = tempfile::TempDir::new().unwrap();
        let fence = file(folder.path(), "vm1");
        // The SSD's own failure does not make it forgotten, and is obeyed once.
        for kind in [Fence::CleanUntilReboot, Fence::Clean, Fence::All] {
            fence.add(kind).unwrap();
        }
        let boot = boot_text();
        let until = |distrust| Some(noted(distrust, boot.as_deref()));
        assert_eq!(fence.noted().unwrap(), until(Distrust::All));
        for _ in 0..2 {
            obey(&fence);
            assert_eq!(fence.noted().unwrap(), until(Distrust::Clean));
        }
        let text = std::fs::read_to_string(&fence.path).unwrap();
        std::fs::write(&fence.path, text.replace(boot.as_deref().unwrap(), "another")).unwrap();
        obey(&fence);
        assert_eq!(fence.noted().unwrap(), None);
    }

    #[test]
    fn a_boot_that_nobody_tells_is_never_over() {
        let of = |fence, boot: Option<&str>| Noted::of(fence, boot.map(str::to_owned), None);
        let failed = |boot| of(Fence::CleanUntilReboot, boot);
        for (failed_in, now, is_left) in [
            (Some("a"), Some("a"), true),
            (Some("a"), Some("b"), false),
            (Some("a"), None, true),
            (None, Some("b"), true),
            (None, None, true),
        ] {
            assert_eq!(failed(failed_in).left(now).is_some(), is_left, "{failed_in:?} {now:?}");
        }
        assert_eq!(of(Fence::All, Some("a")).left(Some("a")), None);
        // Of two boots the one that is not over stays, whichever was noted first.
        for kept in ["now", UNKNOWN_BOOT] {
            for (one, other) in [("old", kept), (kept, "old")] {
                let both = failed(Some(one)).and(failed(Some(other)), Some("now"));
                assert_eq!(both, failed(Some(kept)), "{one} {other}");
            }
        }
    }

    #[test]
    fn the_stricter_of_two_stays_under_another_name() {
        let folder = tempfile::TempDir::new().unwrap();
        let [fence, other] = ["vm1", "vm2"].map(|vm| file(folder.path(), vm));
        other.add(Fence::All).unwrap();
        fence.take_over(&other).unwrap();
        other.add(Fence::CleanUntilReboot).unwrap();
        fence.take_over(&other).unwrap();
        fence.take_over(&other).unwrap();
        let both = noted(Distrust::All, boot_text().as_deref());
        assert_eq!((fence.noted().unwrap(), other.noted().unwrap()), (Some(both), None));
    }

    /// The hazard is the disk's, under whatever name a VM is served from it, and in that boot.
    #[test]
    fn g1_a_failed_disk_is_remembered_under_other_names() {
        let folder = tempfile::TempDir::new().unwrap();
        let [disk, moved, another] = ["disk", "moved", "another"].map(|name| folder.path().join(name));
        [&disk, &another].into_iter().for_each(|path| std::fs::write(path, "").unwrap());
        let of = |vm: &str, disk: &Path| file(folder.path(), vm).of_disk(disk);
        let before = of("vm1", &disk);
        before.add(Fence::CleanUntilReboot).unwrap();
        std::fs::rename(&disk, &moved).unwrap();
        assert_eq!(of("vm2", &another).noted_of_disk().unwrap(), None);
        let fence = of("vm2", &moved);
        let noted = fence.noted_of_disk().unwrap();
        assert_eq!(noted, before.noted().unwrap());
        // It has a note of its own from then on, which a second disk does not take away.
        fence.obeyed(noted.unwrap()).unwrap();
        of("vm2", &another).add(Fence::CleanUntilReboot).unwrap();
        let disks = fence.noted().unwrap().unwrap().disks;
        assert_eq!(disks.len(), 2, "{disks:?}");
        for disk in [&moved, &another] {
            assert!(of("vm3", disk).noted_of_disk().unwrap().is_some());
        }
        // What cannot be read may be of any disk.
        std::fs::write(&file(folder.path(), "vm9").path, "?").unwrap();
        assert!(of("vm3", &moved).noted_of_disk().is_err());
        file(folder.path(), "vm9").remove().unwrap();
        // After a reboot names count alone, and a note stays until its own VM is served.
        for file in [&before, &fence] {
            let text = std::fs::read_to_string(&file.path).unwrap();
            std::fs::write(&file.path, text.replace(boot_text().as_deref().unwrap(), "another")).unwrap();
        }
        assert_eq!(of("vm3", &moved).noted_of_disk().unwrap(), None);
        fence.obeyed(fence.noted_of_disk().unwrap().unwrap()).unwrap();
        assert_eq!((fence.noted().unwrap(), before.noted().unwrap().is_some()), (None, true));
    }

    #[test]
    fn what_is_left_of_another_vm_is_not_obeyed_by_one_that_gets_its_name() {
        let folder = tempfile::TempDir::new().unwrap();
        let fence = file(folder.path(), "vm1");
        fence.make_way().unwrap();
        fence.add(Fence::All).unwrap();
        fence.make_way().unwrap();
        assert_eq!(fence.noted().unwrap(), None);
        [Fence::All, Fence::CleanUntilReboot].into_iter().for_each(|kind| fence.add(kind).unwrap());
        fence.make_way().unwrap();
        assert_eq!(fence.noted().unwrap(), Some(noted(Distrust::Clean, boot_text().as_deref())));
    }
}
