//! The disks that a daemon serves, and what their sidecars and this host's state file say of it: claimed before the first guest is
//! served, given back when the disk alone is the VM's disk. Each step is durable before the next one begins, so that whoever finds
//! things as they are between two steps is neither told of blocks that are not there nor left without a word of those that are:
//!
//! 1. what must not be believed any more is dropped from the SSD (by the start, before this);
//! 2. the state file says which generation is about to be written, and no longer what the image looked like;
//! 3. the sidecar says who serves the disk;
//! 4. the state file says that this is what it says.
//!
//! It must not know how volumes are recovered or served.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lode_format::{CacheId, VolumeTag};
use lode_media::{FileTimes, MediaFile};
use lode_types::planted;
use tracing::{error, warn};

use super::decide::{CHANGED, DiskFacts, Seen, Verdict, claimed, decide};
use super::{CacheOwner, DiskState, Sidecar, path_of};
use crate::backing::identify;
use crate::config::{Config, VmConfig};
use crate::error::{ServerError, ServerErrorKind};
use crate::identity::StateFile;
use crate::new_file::{folder_of, sync_folder};

/// Sidecars that are written at once.
const THREADS: usize = 8;
/// File systems tell times to a tick of the kernel's clock. What is written later than this has another time.
const CLOCK_TICK: Duration = Duration::from_millis(20);

/// What outlives a daemon and a power cut. When a call returns, it does.
pub(crate) trait Keeper {
    /// What this host remembers of these VMs' disks; none: nothing any more.
    fn note(&self, seen: &[(String, Option<Seen>)]) -> Result<(), ServerError>;
    /// What these sidecars say.
    fn write(&self, sidecars: &[(PathBuf, Sidecar)]) -> Result<(), ServerError>;
}

/// The files themselves.
#[derive(Debug)]
struct Files {
    state: StateFile,
}

impl Keeper for Files {
    fn note(&self, seen: &[(String, Option<Seen>)]) -> Result<(), ServerError> {
        if seen.is_empty() { Ok(()) } else { self.state.note_seen(seen) }
    }

    fn write(&self, sidecars: &[(PathBuf, Sidecar)]) -> Result<(), ServerError> {
        let fault = |path: &Path, error| {
            let what = format!(
                "Cannot write the sidecar {}. Another host could not know that this cache serves the disk: make its folder \
                 writable, or give `backing.sidecar` another place (\"none\": do without)",
                path.display()
            );
            ServerError::because(ServerErrorKind::Identity, what, error)
        };
        let write = |list: &[(PathBuf, Sidecar)]| -> Result<(), ServerError> {
            list.iter().try_for_each(|(path, one)| one.write(path).map_err(|error| fault(path, error)))
        };
        let a_thread = sidecars.len().div_ceil(THREADS).max(1);
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                sidecars.chunks(a_thread).map(|list| scope.spawn(move || write(list))).collect();
            let failed = || Err(ServerError::new(ServerErrorKind::Thread, "A thread ended; see the log"));
            threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| failed()))
        })?;
        let mut folders: Vec<&Path> = sidecars.iter().map(|(path, _)| folder_of(path)).collect();
        folders.sort_unstable();
        folders.dedup();
        folders.into_iter().try_for_each(|folder| sync_folder(folder).map_err(|error| fault(folder, error)))
    }
}

/// A disk whose sidecar is to say that it is served here.
#[derive(Clone, Debug)]
pub(super) struct Begin {
    pub vm: String,
    pub path: Option<PathBuf>,
    pub found: Option<Sidecar>,
    pub seen: Option<Seen>,
    /// What the cache held was not to be believed, and is dropped.
    pub changed: bool,
    /// What the sidecar is to say; none: as it is, because nothing is written to the disk.
    pub next: Option<Sidecar>,
}

/// Steps 2 to 4. Returns what each sidecar says then.
pub(super) fn begin(keeper: &impl Keeper, disks: &[Begin]) -> Result<Vec<Option<Sidecar>>, ServerError> {
    let pending = |disk: &Begin| {
        let before = disk.seen.clone().unwrap_or_default();
        let before = match &disk.found {
            // Whoever comes back here after a crash is to find the same.
            Some(found) if !disk.changed => seen_of(found),
            _ => Seen { image: None, next: None, ..before },
        };
        let next = disk.next.as_ref().filter(|next| disk.found.as_ref() != Some(next));
        let next = next.map(|next| next.generation);
        if next.is_none() && disk.path.is_none() { None } else { Some(Seen { next, ..before }) }
    };
    let noted = disks.iter().map(|disk| (disk, pending(disk)));
    let noted: Vec<_> = noted.filter(|(disk, seen)| disk.seen != *seen).collect();
    keeper.note(&noted.into_iter().map(|(disk, seen)| (disk.vm.clone(), seen)).collect::<Vec<_>>())?;

    let is_new = |disk: &&Begin| disk.next.is_some() && disk.next != disk.found;
    let written = disks.iter().filter(is_new);
    let written = written.filter_map(|disk| Some((disk.path.clone()?, disk.next.clone()?)));
    keeper.write(&written.collect::<Vec<_>>())?;

    let says = |disk: &Begin| disk.path.as_ref().and(disk.next.clone().or_else(|| disk.found.clone()));
    let seen = |disk: &Begin| (disk.vm.clone(), says(disk).map(|sidecar| seen_of(&sidecar)));
    let settled = disks.iter().map(|disk| (disk, seen(disk)));
    let settled: Vec<_> = settled.filter(|(disk, (_, seen))| pending(disk) != *seen).collect();
    keeper.note(&settled.into_iter().map(|(_, seen)| seen).collect::<Vec<_>>())?;
    Ok(disks.iter().map(says).collect())
}

/// A disk that is served no more.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub vm: String,
    pub path: Option<PathBuf>,
    pub says: Option<Sidecar>,
    /// The disk has everything durably.
    pub is_clean: bool,
    /// What the image looks like.
    pub image: Option<String>,
}

/// Says of disks that have everything that they do, and remembers what images look like. Returns what each sidecar says then.
pub(super) fn end(keeper: &impl Keeper, disks: &[End]) -> Result<Vec<Option<Sidecar>>, ServerError> {
    let says = |disk: &End| {
        let says = disk.says.clone()?;
        Some(if disk.is_clean { Sidecar { state: DiskState::Clean, ..says } } else { says })
    };
    let written = disks.iter().filter(|disk| says(disk) != disk.says);
    let written = written.filter_map(|disk| Some((disk.path.clone()?, says(disk)?)));
    keeper.write(&written.collect::<Vec<_>>())?;
    let seen = |disk: &End| {
        let seen = says(disk).map_or_else(Seen::default, |sidecar| seen_of(&sidecar));
        let seen = Seen { image: disk.image.clone(), ..seen };
        (disk.vm.clone(), (seen != Seen::default()).then_some(seen))
    };
    keeper.note(&disks.iter().map(seen).collect::<Vec<_>>())?;
    Ok(disks.iter().map(says).collect())
}

fn seen_of(sidecar: &Sidecar) -> Seen {
    Seen { generation: Some(sidecar.generation), cache: sidecar.cache.clone(), ..Seen::default() }
}

/// A disk that was looked at and may be served.
#[derive(Clone)]
pub(crate) struct Checked {
    vm: String,
    path: Option<PathBuf>,
    found: Option<Sidecar>,
    seen: Option<Seen>,
    is_read_only: bool,
    backing: MediaFile,
    /// Its times tell whether somebody wrote to it.
    has_times: bool,
    /// Why nothing that the cache holds of it may be believed: its clean blocks are to be dropped.
    pub drops_clean: Option<String>,
    /// The cache that is to serve it, and its volume for it before that.
    owner: CacheOwner,
    volume: Option<VolumeTag>,
    /// It was touched, at most, and not written.
    is_as_left: bool,
    /// The redo log beside it, once it is open.
    redo: Option<MediaFile>,
}

impl Checked {
    /// It is served with this redo log: whoever may open the one may open the other.
    pub(crate) fn with_redo(self, redo: Option<MediaFile>) -> Checked {
        Checked { redo, ..self }
    }

    fn lock(&self) -> Result<(), ServerError> {
        self.backing.lock()?;
        let locked = self.redo.iter().try_for_each(MediaFile::lock);
        locked.map_err(|fault| self.backing.unlock().err().unwrap_or(fault).into())
    }

    fn unlock(&self) -> Result<(), ServerError> {
        self.redo.iter().try_for_each(MediaFile::unlock)?;
        Ok(self.backing.unlock()?)
    }

    /// The sidecar that was found.
    pub(crate) fn sidecar(&self) -> Option<&Sidecar> {
        self.found.as_ref()
    }

    /// The cache that is to serve the disk; none without an SSD.
    pub(crate) fn cache(&self) -> Option<CacheId> {
        self.owner.cache.as_ref()?.parse().ok()
    }

    /// The volume that the cache has for the disk already.
    pub(crate) fn volume(&self) -> Option<VolumeTag> {
        self.volume
    }

    /// Why the disk is not as this cache left it.
    pub(crate) fn changed(&self) -> Option<&str> {
        self.drops_clean.as_deref().filter(|_| !self.is_as_left)
    }

    /// What the sidecar is to say while the disk is served with this volume; none: as it is, or there is to be none.
    fn next(&self, volume: Option<VolumeTag>) -> Option<Sidecar> {
        let volume = volume.map(tag_text);
        let facts = DiskFacts {
            owner: &self.owner,
            volume: volume.as_deref(),
            sidecar: self.found.as_ref(),
            seen: self.seen.as_ref(),
            image: None,
            lost_caches: &[],
        };
        let is_others = self.found.as_ref().is_some_and(|found| !self.owner.wrote(found));
        let changed = self.drops_clean.is_some() || is_others;
        (self.path.is_some() && !self.is_read_only).then(|| claimed(&facts, &self.vm, changed))
    }

    /// The generation of that; 0: there is none.
    pub(crate) fn next_generation(&self, volume: Option<VolumeTag>) -> u64 {
        let next =
            if planted("group-of-the-generation-before") { self.found.clone() } else { self.next(volume) };
        next.map_or(0, |next| next.generation)
    }
}

/// A disk that is served.
struct Claim {
    checked: Checked,
    says: Option<Sidecar>,
    /// It may be opened elsewhere, and what the image looked like then.
    released: Option<Option<String>>,
}

/// See the module's documentation. VMs are known by their numbers.
pub(crate) struct Claims {
    owner: CacheOwner,
    files: Files,
    by_number: Mutex<BTreeMap<usize, Claim>>,
}

/// A sidecar as `status` shows it.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct SidecarView {
    pub path: PathBuf,
    pub generation: u64,
}

impl Claims {
    pub(crate) fn new(config: &Config, cache: Option<String>) -> Claims {
        let owner = CacheOwner::new(cache, &config.name);
        Claims { owner, files: Files { state: StateFile::of(config) }, by_number: Mutex::default() }
    }

    /// The cache that disks are served with; none without an SSD.
    pub(crate) fn cache(&self) -> Option<CacheId> {
        self.owner.cache.as_ref()?.parse().ok()
    }

    fn claims(&self) -> MutexGuard<'_, BTreeMap<usize, Claim>> {
        self.by_number.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks whether a VM's disk may be served with what the cache holds of it: `dirty_blocks` counts those that are newer than
    /// the disk, and is asked only where that matters. Nothing is changed.
    pub(crate) fn check(
        &self,
        config: &Config,
        vm: &VmConfig,
        backing: &MediaFile,
        (volume, seen): (Option<VolumeTag>, Option<&Seen>),
        dirty_blocks: impl FnOnce() -> Result<u64, String>,
    ) -> Result<Checked, ServerError> {
        let path = path_of(vm).map_err(|error| {
            let what = format!("VM {}: cannot find {}", vm.name, vm.backing.display());
            ServerError::because(ServerErrorKind::Media, what, error)
        })?;
        let found = path.as_deref().map(Sidecar::read).transpose()?.flatten();
        let has_times = identify(&vm.backing).is_some() && !backing.is_block_device();
        let image = if has_times { image_text(backing)? } else { None };
        // Where there is to be no sidecar there is nothing to compare one with.
        let compared = seen.map(|seen| match path {
            Some(_) => seen.clone(),
            None => Seen { image: seen.image.clone(), ..Seen::default() },
        });
        let verdict = decide(&DiskFacts {
            owner: &self.owner,
            volume: volume.map(tag_text).as_deref(),
            sidecar: found.as_ref(),
            seen: compared.as_ref(),
            image: image.as_deref(),
            lost_caches: &config.danger.lost_caches,
        });
        let refuse = |text| Err(ServerError::new(ServerErrorKind::Identity, text));
        let is_as_left = !matches!(verdict, Verdict::Changed(_));
        let drops_clean = match verdict {
            Verdict::AsLeft => None,
            Verdict::Touched(why) => Some(why),
            Verdict::HeldElsewhere(sidecar) => return refuse(held_elsewhere(vm, path.as_deref(), &sidecar)),
            Verdict::Changed(why) => match dirty_blocks() {
                Ok(0) => Some(why),
                Ok(dirty) => {
                    return refuse(two_versions(config, vm, path.as_deref(), (&why, &dirty.to_string())));
                }
                Err(error) => {
                    let count = format!("it cannot be told how many ({error})");
                    return refuse(two_versions(config, vm, path.as_deref(), (&why, &count)));
                }
            },
        };
        if let Some(sidecar) = &found
            && sidecar.state == DiskState::Uncached
            && !self.owner.wrote(sidecar)
        {
            warn!(
                "VM {}: {} served the disk without an SSD and did not end in order, or serves it still: make sure that it does not",
                vm.name,
                sidecar.who()
            );
        }
        Ok(Checked {
            vm: vm.name.clone(),
            path,
            found,
            seen: seen.cloned(),
            is_read_only: vm.read_only,
            backing: backing.clone(),
            has_times,
            drops_clean,
            owner: self.owner.clone(),
            volume,
            is_as_left,
            redo: None,
        })
    }

    /// Disks are served from now on. What was to be dropped is, durably; nothing has been written to the disks yet.
    pub(crate) fn begin(&self, disks: Vec<(usize, Checked, Option<VolumeTag>)>) -> Result<(), ServerError> {
        let begin_of = |(_, checked, tag): &(usize, Checked, Option<VolumeTag>)| {
            let Checked { vm, path, found, seen, drops_clean, .. } = checked;
            let (vm, path, found, seen) = (vm.clone(), path.clone(), found.clone(), seen.clone());
            Begin { vm, path, found, seen, changed: drops_clean.is_some(), next: checked.next(*tag) }
        };
        let says = begin(&self.files, &disks.iter().map(begin_of).collect::<Vec<_>>())?;
        let mut claims = self.claims();
        for ((number, checked, _), says) in disks.into_iter().zip(says) {
            claims.insert(number, Claim { checked, says, released: None });
        }
        Ok(())
    }

    /// A disk is served no more and has everything durably: its sidecar says so, and others may open it.
    pub(crate) fn release(&self, number: usize) -> Result<Option<SidecarView>, ServerError> {
        let mut claims = self.claims();
        let Some(claim) = claims.get_mut(&number) else { return Ok(None) };
        if claim.released.is_none() {
            let disk = claim.end_of(true, &self.owner);
            let image = disk.image.clone();
            claim.says = match end(&self.files, &[disk]) {
                Ok(mut says) => says.pop().flatten(),
                Err(error) => {
                    // It is served on, and others must not take it for given back.
                    let held = claim.checked.path.clone().zip(claim.says.clone());
                    let again = self.files.write(&held.into_iter().collect::<Vec<_>>());
                    again.unwrap_or_else(|again| error!("{again}. It may say that the disk is free"));
                    return Err(error);
                }
            };
            claim.released = Some(image);
            claim.checked.unlock()?;
        }
        Ok(claim.view())
    }

    /// The redo log of a disk that is served no more is closed, whose lock would keep it from being removed.
    pub(crate) fn close_redo(&self, number: usize) {
        if let Some(claim) = self.claims().get_mut(&number) {
            claim.checked.redo = None;
        }
    }

    /// Whether a disk was given back, so that others may serve it.
    pub(crate) fn is_released(&self, number: usize) -> bool {
        self.claims().get(&number).is_some_and(|claim| claim.released.is_some())
    }

    /// A disk that was released is served again.
    ///
    /// # Errors
    /// When it was opened elsewhere or changed since: what the cache holds is not to be believed then.
    pub(crate) fn resume(&self, number: usize) -> Result<(), ServerError> {
        let mut claims = self.claims();
        let Some(claim) = claims.get_mut(&number) else { return Ok(()) };
        let Some(image) = claim.released.clone() else { return Ok(()) };
        claim.checked.lock()?;
        let resumed = claim.resume(&self.files, &self.owner, image);
        if resumed.is_err() {
            claim.checked.unlock()?;
        }
        resumed
    }

    /// A VM is gone, and its disk has everything.
    pub(crate) fn forget(&self, number: usize) -> Result<(), ServerError> {
        let released = self.release(number).map(drop);
        self.claims().remove(&number);
        released
    }

    /// A VM has another name.
    pub(crate) fn rename(&self, number: usize, name: &str) -> Result<(), ServerError> {
        let mut claims = self.claims();
        let Some(claim) = claims.get_mut(&number) else { return Ok(()) };
        name.clone_into(&mut claim.checked.vm);
        if let (Some(path), Some(says), None) = (&claim.checked.path, &mut claim.says, &claim.released)
            && self.owner.wrote(says)
        {
            name.clone_into(&mut says.vm);
            self.files.write(&[(path.clone(), says.clone())])?;
        }
        Ok(())
    }

    /// The sidecar of a VM.
    pub(crate) fn view(&self, number: usize) -> Option<SidecarView> {
        self.claims().get(&number).and_then(Claim::view)
    }

    /// The service has ended. The disks of these VMs, or of some of them, have everything.
    pub(crate) fn end(&self, ended: &[(usize, bool)]) {
        let mut claims = self.claims();
        claims.retain(|_, claim| claim.released.is_none());
        let ended = ended.iter().filter_map(|(number, is_clean)| Some((claims.get(number)?, *is_clean)));
        let disks: Vec<End> = ended.map(|(claim, is_clean)| claim.end_of(is_clean, &self.owner)).collect();
        if let Err(error) = end(&self.files, &disks) {
            error!("{error}. Other hosts will be told that this cache may hold newer blocks of the disk");
        }
    }
}

impl Claim {
    fn view(&self) -> Option<SidecarView> {
        Some(SidecarView { path: self.checked.path.clone()?, generation: self.says.as_ref()?.generation })
    }

    /// How its service ends. What somebody else wrote into the sidecar stays.
    fn end_of(&self, is_clean: bool, owner: &CacheOwner) -> End {
        let Checked { vm, path, backing, has_times, is_read_only, .. } = &self.checked;
        let now = path.as_deref().map(Sidecar::read);
        let is_ours = matches!(&now, Some(Ok(now)) if *now == self.says);
        if !is_ours && !is_read_only && path.is_some() {
            error!(
                "VM {vm}: the disk's sidecar is not what this cache wrote there: another host has taken the disk while it was \
                 served here. Check its file systems"
            );
        }
        let image = if *has_times { last_image_text(backing) } else { None };
        let is_own = self.says.as_ref().is_some_and(|says| owner.wrote(says));
        let (vm, path, says) = (vm.clone(), path.clone(), self.says.clone());
        End { vm, path, says, is_clean: is_clean && is_ours && is_own && !is_read_only, image }
    }

    fn resume(
        &mut self,
        files: &Files,
        owner: &CacheOwner,
        image: Option<String>,
    ) -> Result<(), ServerError> {
        let Checked { vm, path, backing, has_times, is_read_only, .. } = &self.checked;
        let found = path.as_deref().map(Sidecar::read).transpose()?.flatten();
        let now = if *has_times { image_text(backing)? } else { None };
        if found != self.says || now != image {
            let text = format!(
                "VM {vm}: its disk was opened or written elsewhere since it was released; `lode vm remove` it here, or restart the \
                 service to have what the cache holds of it looked at again"
            );
            return Err(ServerError::new(ServerErrorKind::Identity, text));
        }
        if *is_read_only {
            self.released = None;
            return Ok(());
        }
        let seen = found.as_ref().map(seen_of);
        let facts = DiskFacts {
            owner,
            volume: found.as_ref().and_then(|found| found.volume.as_deref()),
            sidecar: found.as_ref(),
            seen: seen.as_ref(),
            image: None,
            lost_caches: &[],
        };
        let next = path.is_some().then(|| claimed(&facts, vm, false));
        let seen = Some(Seen { image, ..seen.unwrap_or_default() });
        let disk = Begin { vm: vm.clone(), path: path.clone(), found, seen, changed: false, next };
        self.says = begin(files, &[disk])?.pop().flatten();
        self.released = None;
        Ok(())
    }
}

/// After a volume was given up, with what it held of a disk: nobody is to wait for that.
pub(crate) fn give_up(config: &Config, cache: &str, vm: &str) -> Result<(), ServerError> {
    let Some(vm) = config.vms.iter().find(|one| one.name == vm) else { return Ok(()) };
    let owner = CacheOwner::new(Some(cache.to_owned()), &config.name);
    let Ok(Some(path)) = path_of(vm) else { return Ok(()) };
    let Some(found) = Sidecar::read(&path)? else { return Ok(()) };
    if !owner.wrote(&found) || found.state == DiskState::Clean {
        return Ok(());
    }
    Files { state: StateFile::of(config) }.write(&[(path, Sidecar { state: DiskState::Clean, ..found })])
}

/// The volume of this cache that a VM's sidecar says holds the disk.
pub(crate) fn held_by(config: &Config, cache: &str, vm: &str) -> Result<Option<VolumeTag>, ServerError> {
    let Some(vm) = config.vms.iter().find(|one| one.name == vm) else { return Ok(None) };
    let Ok(Some(path)) = path_of(vm) else { return Ok(None) };
    let found = Sidecar::read(&path)?;
    let held = found.filter(|found| found.cache.as_deref() == Some(cache) && found.state == DiskState::Held);
    Ok(held.and_then(|found| found.volume?.parse().ok()).map(VolumeTag))
}

fn tag_text(tag: VolumeTag) -> String {
    tag.0.to_string()
}

fn image_text(backing: &MediaFile) -> Result<Option<String>, ServerError> {
    Ok(backing.times()?.map(|times| text_of(&times)))
}

fn text_of(times: &FileTimes) -> String {
    let FileTimes { size_bytes, written, changed } = times;
    let [written, changed] = [written, changed].map(|(s, ns)| format!("{s}.{ns:09}"));
    format!("{size_bytes} bytes, written {written}{CHANGED}{changed}")
}

/// What an image looks like to which nobody here writes any more, durably, and so late that it looks different when somebody
/// else does. None where that cannot be told.
fn last_image_text(backing: &MediaFile) -> Option<String> {
    let durable = || {
        backing.sync_all()?;
        backing.times()
    };
    let times = match durable() {
        Ok(times) => times?,
        Err(error) => {
            warn!("{error}. Whether somebody writes to the image without the cache will not be noticed");
            return None;
        }
    };
    let changed = UNIX_EPOCH + Duration::new(u64::try_from(times.changed.0).ok()?, times.changed.1);
    match SystemTime::now().duration_since(changed) {
        Ok(age) => std::thread::sleep(CLOCK_TICK.saturating_sub(age)),
        // By a clock that went back everything may have a time that is still to come.
        Err(_) => return None,
    }
    Some(text_of(&times))
}

fn held_elsewhere(vm: &VmConfig, path: Option<&Path>, sidecar: &Sidecar) -> String {
    let uuid = sidecar.cache.as_deref().unwrap_or_default();
    format!(
        "VM {name}: {who} may hold blocks that are newer than the backing disk {disk}, or serves it now (sidecar {path}, \
         generation {generation}). There: `lode vm drain CONFIG.toml {vm} --for-migration`, or `lode stop --drain CONFIG.toml`. If that \
         cache is gone for good, and with it what guests wrote last: lost_caches = [\"{uuid}\"] in [danger_zone]",
        name = vm.name,
        who = sidecar.who(),
        disk = vm.backing.display(),
        path = path.unwrap_or(Path::new("-")).display(),
        generation = sidecar.generation,
        vm = sidecar.vm,
    )
}

fn two_versions(config: &Config, vm: &VmConfig, path: Option<&Path>, (why, dirty): (&str, &str)) -> String {
    let sidecar = path.map(|path| format!("{} and ", path.display())).unwrap_or_default();
    format!(
        "VM {name}: this cache holds blocks that are newer than the backing disk {disk} was ({dirty}), but {why}. There are two \
         versions of the disk, and only you know which one counts. The disk as it is: `lode volume remove --force {conf} {name}` gives \
         up what the cache holds. The cache's: remove {sidecar}the section [seen.{name}] of {state}, start, and check the guest's file \
         systems",
        name = vm.name,
        disk = vm.backing.display(),
        conf = config.path.display(),
        state = StateFile::of(config).path().display(),
    )
}
