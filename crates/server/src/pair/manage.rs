//! What an operator does with the SSDs of a pair: looking at them, taking one out, putting one in. While a daemon serves the pair it is
//! done there, and otherwise here. It must not know how commands are asked for.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use lode_format::PairLabel;
use lode_media::{MediaFile, OpenOptions};
use lode_store::pair::{MEMBERS, Pair, erase_label, probe_pair, write_label};
use serde::{Deserialize, Serialize};

use super::device::{MemberDevice, PairFiles};
use super::found::{find_pair, find_pair_without};
use super::served::{ServedPair, TICK};
use crate::config::{Config, Size, SsdConfig};
use crate::error::{ServerError, ServerErrorKind};
use crate::files::open_patiently;
use crate::format::refuse_if_used;
use crate::identity::StateFile;
use crate::membership::Failure;
use crate::shared::DisksOf;
use crate::ssd::FoundSsd;

/// How long it may take until a label says that a member was taken out.
const RECORD_LIMIT: Duration = Duration::from_secs(30);

/// The cache SSDs of a host, and how they stand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairView {
    /// Identity of the cache.
    pub uuid: String,
    /// Grows with every change of what the SSDs say of each other; none where there is one.
    pub generation: Option<u64>,
    /// One, or the two of a pair.
    pub ssds: Vec<MemberView>,
}

/// One SSD.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberView {
    /// The device or file.
    pub path: PathBuf,
    /// How it stands.
    pub state: MemberState,
    /// Why it does not have everything.
    pub why: Option<String>,
    /// While it is resilvered, the bytes that are done, and of how many.
    pub done_bytes: Option<u64>,
    /// See there.
    pub of_bytes: Option<u64>,
}

/// How an SSD stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemberState {
    /// There is one, which has everything.
    Single,
    /// It has everything, as the other one has, or alone.
    InSync,
    /// It is being resilvered.
    Resilvering,
    /// It lacks something, and is not used.
    OutOfSync,
}

impl PairView {
    /// Of a cache on one SSD.
    pub(crate) fn single(uuid: &str, path: &Path) -> PairView {
        let (path, state) = (path.to_path_buf(), MemberState::Single);
        let one = MemberView { path, state, why: None, done_bytes: None, of_bytes: None };
        PairView { uuid: uuid.to_owned(), generation: None, ssds: vec![one] }
    }
}

impl ServedPair {
    /// How it stands.
    pub(crate) fn view(&self) -> PairView {
        let progress = Some(self.resilver().progress());
        let state = self.state();
        let (health, _) = self.health();
        let ssds = (0..MEMBERS).map(|member| {
            // Until the labels say that it counts, a start would not take it for one that has everything; but where it is alone, it
            // is the one that has.
            let is_to_count = state.counts == Some(member) && health.in_sync == [true; MEMBERS];
            let is_resilvered = health.resilvering == Some(member) || is_to_count;
            let (done_bytes, of_bytes) = progress.filter(|_| is_resilvered).unzip();
            MemberView {
                path: state.members[member].path.clone(),
                state: match is_resilvered {
                    true => MemberState::Resilvering,
                    false if health.in_sync[member] => MemberState::InSync,
                    false => MemberState::OutOfSync,
                },
                why: state.members[member].why.clone().filter(|_| !health.in_sync[member] && !is_resilvered),
                done_bytes,
                of_bytes,
            }
        });
        let (uuid, generation) = (state.labels.id.to_string(), Some(state.labels.generation));
        PairView { uuid, generation, ssds: ssds.collect() }
    }

    fn member_at(&self, path: &Path) -> Result<usize, String> {
        let state = self.state();
        let paths = [0, 1].map(|member| state.members[member].path.clone());
        member_at(&paths, path)
    }
}

fn member_at(paths: &[PathBuf; MEMBERS], path: &Path) -> Result<usize, String> {
    let same = |one: &Path| {
        one == path
            || one.canonicalize().ok().is_some_and(|one| path.canonicalize().is_ok_and(|path| one == path))
    };
    (0..MEMBERS).find(|&member| same(&paths[member])).ok_or_else(|| {
        let [one, other] = [&paths[0], &paths[1]].map(|path| path.display());
        format!("{} is not an SSD of the pair, which are {one} and {other}", path.display())
    })
}

fn is_out(path: &Path) -> String {
    format!("{} is out of the pair already", path.display())
}

/// Takes a member out of a pair that is served.
pub(crate) fn remove_served(pair: &Arc<ServedPair>, path: &Path) -> Result<(), Failure> {
    let member = pair.member_at(path)?;
    let (health, _) = pair.health();
    let is_resilvered = health.resilvering == Some(member);
    if !is_resilvered && !health.in_sync[member] {
        return Err(is_out(path).into());
    }
    if !is_resilvered && health.in_sync != [true; MEMBERS] {
        return Err(format!(
            "{} is the only SSD of the pair that has everything; resilver the other one first (`lode device add`), or stop the \
             service with `lode stop --drain`",
            path.display()
        )
        .into());
    }
    let file = pair.file(member);
    pair.take_out(member);
    if let Some(file) = file.filter(|_| is_resilvered) {
        // The next start does not go on with it. What fails of this is as well: it cannot be read then.
        let _ = erase_label(&mut MemberDevice::new(file, pair.limit()));
    }
    let deadline = Instant::now() + RECORD_LIMIT;
    while !pair.health().0.is_recorded {
        if pair.health().0.is_lost || Instant::now() >= deadline {
            let text = "The other SSD or the state file cannot be written; see the log";
            return Err(Failure::Partly(format!("{} is not used any more, but: {text}", path.display())));
        }
        thread::sleep(TICK);
    }
    Ok(())
}

/// Opens a device that may come to a pair that is served, and changes nothing.
pub(crate) fn open_for(pair: &Arc<ServedPair>, path: &Path, force: bool) -> Result<MediaFile, String> {
    let labels = pair.state().labels;
    open_new(path, &labels, force, pair.limit()).map_err(|error| error.to_string())
}

/// Resilvers a device as the member that is missing, while the pair is served. `save` has the configuration name it in the
/// place of another path. `used` is as for [`ServedPair::begin_resilver`].
pub(crate) fn add_served(
    pair: &Arc<ServedPair>,
    (path, file): (&Path, MediaFile),
    disks: impl FnOnce(&Path) -> Result<DisksOf, String>,
    used: impl FnOnce() -> Vec<std::ops::Range<u64>> + Send + 'static,
    save: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<(), Failure> {
    let member = pair.may_resilver()?;
    let (labels, before) = {
        let state = pair.state();
        (state.labels, state.members[member].path.clone())
    };
    let disks = believed(path, disks(path)?)?;
    put_label(&file, &labels, pair.limit()).map_err(|error| error.to_string())?;
    if before != path {
        save(&before)?;
    }
    pair.begin_resilver((path, file), disks, used).map_err(Failure::Partly)
}

/// A disk that failed a flush in this run will not have another one believed.
fn believed(path: &Path, disks: DisksOf) -> Result<DisksOf, String> {
    if !disks.have_failed() {
        return Ok(disks);
    }
    Err(format!(
        "{} has failed a flush in this run, and what it is told is not believed any more: restart the service, or give another SSD",
        path.display()
    ))
}

/// Goes on with a member that was being resilvered when the last run ended.
pub(crate) fn resume_resilver(
    pair: &Arc<ServedPair>,
    disks: impl FnOnce(&Path) -> Result<DisksOf, String>,
    used: impl FnOnce() -> Vec<std::ops::Range<u64>> + Send + 'static,
) -> Result<(), String> {
    let (path, labels) = {
        let state = pair.state();
        let Some(member) = state.members.iter().find(|member| member.wants_resilver) else { return Ok(()) };
        (member.path.clone(), state.labels)
    };
    let words = |error: ServerError| error.to_string();
    let file = open_new(&path, &labels, false, pair.limit()).map_err(words)?;
    put_label(&file, &labels, pair.limit()).map_err(words)?;
    pair.begin_resilver((&path, file), believed(&path, disks(&path)?)?, used)
}

/// Opens a device that is to be a member of a pair, and changes nothing.
fn open_new(path: &Path, pair: &Pair, force: bool, limit: Duration) -> Result<MediaFile, ServerError> {
    let file = open_patiently(path, &OpenOptions::default())?;
    let mut device = MemberDevice::new(file.clone(), limit);
    let needed_bytes = PairLabel::DATA_START_BYTES + pair.pair_bytes;
    if file.size_bytes() < needed_bytes {
        let text = format!(
            "{} has {} bytes, too few for pair {}; give it an SSD of at least {needed_bytes} bytes ({})",
            path.display(),
            file.size_bytes(),
            pair.id,
            Size(needed_bytes)
        );
        return Err(ServerError::new(ServerErrorKind::Config, text));
    }
    let label = probe_pair(&mut device);
    // Nobody has it open, so that it is out of the pair.
    let is_own = label.as_ref().is_ok_and(|label| label.pair == pair.id);
    if !is_own && !force {
        refuse_if_used(path, &file, &mut device)?;
    }
    Ok(file)
}

/// Has a device say that it is the member that the pair lacks, and lacks something.
fn put_label(file: &MediaFile, pair: &Pair, limit: Duration) -> Result<(), ServerError> {
    let mut device = MemberDevice::new(file.clone(), limit);
    let mut label = pair.label(usize::from(pair.in_sync[0]));
    label.device_bytes = file.size_bytes();
    let said = erase_label(&mut device).and_then(|()| write_label(&mut device, &label));
    said.map_err(|error| ServerError::store(file.path().display(), error))
}

/// The cache SSDs of a configuration that no daemon serves.
///
/// # Errors
/// When the configuration names none, they are not what they should be, or a daemon has them.
pub fn members(config: &Config) -> Result<PairView, ServerError> {
    let Some(SsdConfig { path, mirror: Some(mirror), timeout, .. }) = &config.ssd else {
        let Some(found) = FoundSsd::find(config)? else { return Err(no_pair(config)) };
        return Ok(PairView::single(&found.view.superblock().cache.to_string(), found.files.path()));
    };
    Ok(view_of(&find_pair([path, mirror], *timeout, known(config))?))
}

fn known(config: &Config) -> impl Fn(&str) -> Result<Option<u64>, ServerError> {
    move |pair| StateFile::of(config).pair_generation(pair)
}

fn view_of(files: &PairFiles) -> PairView {
    let ssds = (0..MEMBERS).map(|member| {
        let is_used = files.is_used(member);
        MemberView {
            path: files.paths[member].clone(),
            state: if is_used { MemberState::InSync } else { MemberState::OutOfSync },
            why: files.left_out[member].clone().filter(|_| !is_used),
            done_bytes: None,
            of_bytes: None,
        }
    });
    PairView {
        uuid: files.pair.id.to_string(),
        generation: Some(files.pair.generation),
        ssds: ssds.collect(),
    }
}

fn no_pair(config: &Config) -> ServerError {
    let text = match &config.ssd {
        None => "The configuration has no cache SSD; add [ssd]".to_owned(),
        Some(ssd) => format!(
            "The cache is on one SSD, {}, and not on a pair. A pair is made anew: `lode stop --drain`, `lode format {} --mirror DEVICE \
             --force`, and `mirror` in [ssd]",
            ssd.path.display(),
            ssd.path.display()
        ),
    };
    ServerError::new(ServerErrorKind::Config, text)
}

/// The pair of a configuration, whatever is in the place of `gone`, with the label that says of it that it is out. No daemon serves it.
fn take_out(config: &Config, gone: &Path) -> Result<PairFiles, ServerError> {
    let refused = |text: String| ServerError::new(ServerErrorKind::Refused, text);
    let Some(SsdConfig { path, mirror: Some(mirror), timeout, .. }) = &config.ssd else {
        return Err(no_pair(config));
    };
    let at = member_at(&[path.clone(), mirror.clone()], gone).map_err(refused)?;
    let mut files = find_pair_without([path, mirror], *timeout, known(config), at)?;
    let gone = [path, mirror][at];
    let member = usize::from(files.paths[1] == *gone);
    if !files.is_used(1 - member) {
        let text = format!(
            "{} is the only SSD of the pair that has everything, and {} does not: {}",
            gone.display(),
            files.paths[1 - member].display(),
            files.left_out[1 - member].as_deref().unwrap_or("it is missing")
        );
        return Err(refused(text));
    }
    let was_in_sync = files.pair.in_sync[member];
    let file = files.files[member].take();
    let mut device = files.device();
    device.begin(&files.labels).map_err(|error| ServerError::store(files.first_path().display(), error))?;
    files.pair = *device.pair();
    StateFile::of(config).note_pair(files.pair.generation)?;
    if let Some(file) = file.filter(|_| !was_in_sync) {
        // The next start does not go on with it.
        let erased = erase_label(&mut MemberDevice::new(file, files.limit));
        erased.map_err(|error| ServerError::store(gone.display(), error))?;
    }
    files.left_out[member] = Some("it was taken out".to_owned());
    Ok(files)
}

/// Takes an SSD out of the pair of a configuration that no daemon serves.
///
/// # Errors
/// When it is the only one that has everything, and as [`members`].
pub fn remove_member(config: &Config, path: &Path) -> Result<PairView, ServerError> {
    Ok(view_of(&take_out(config, path)?))
}

/// Has a device be the SSD that the pair of a configuration lacks. The next start resilvers it while guests are served.
///
/// # Errors
/// When both are in use, the device is too small or holds something else and `force` is not set, and as [`members`].
pub fn add_member(config: &Config, path: &Path, force: bool) -> Result<PairView, ServerError> {
    let Some(SsdConfig { path: first, mirror: Some(mirror), timeout, .. }) = &config.ssd else {
        return Err(no_pair(config));
    };
    let files = find_pair([first, mirror], *timeout, known(config))?;
    let member = usize::from(files.pair.in_sync[0]);
    if files.pair.in_sync == [true; MEMBERS] {
        let text = "Both SSDs of the pair are in use; take one out first (`lode device remove`)";
        return Err(ServerError::new(ServerErrorKind::Refused, text));
    }
    put_in(config, files, member, path, force)
}

/// The same in the place of one that is in the pair.
///
/// # Errors
/// As [`remove_member`] and [`add_member`].
pub fn replace_member(config: &Config, path: &Path, by: &Path, force: bool) -> Result<PairView, ServerError> {
    let Some(SsdConfig { path: first, mirror: Some(mirror), timeout, .. }) = &config.ssd else {
        return Err(no_pair(config));
    };
    let at = member_at(&[first.clone(), mirror.clone()], path);
    let at = at.map_err(|text| ServerError::new(ServerErrorKind::Refused, text))?;
    let files = find_pair_without([first, mirror], *timeout, known(config), at)?;
    // Before anything is taken out. It is opened again, once more of the pair is known.
    if files.files.iter().flatten().all(|file| file.path() != by) {
        open_new(by, &files.pair, force, *timeout)?;
    }
    drop(files);
    let files = take_out(config, path)?;
    let member = usize::from(files.pair.in_sync[0]);
    put_in(config, files, member, by, force)
}

fn put_in(
    config: &Config,
    mut files: PairFiles,
    member: usize,
    path: &Path,
    force: bool,
) -> Result<PairView, ServerError> {
    // It may be this one, which is open.
    files.files[member] = None;
    let file = open_new(path, &files.pair, force, files.limit)?;
    put_label(&file, &files.pair, files.limit)?;
    let before = std::mem::replace(&mut files.paths[member], path.to_path_buf());
    if before != path {
        Config::load(&config.path)?.with_ssd(&before, path)?.write()?;
    }
    files.left_out[member] = Some("the next start resilvers it while guests are served".to_owned());
    Ok(view_of(&files))
}
