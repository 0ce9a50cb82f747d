//! What an operator does with the SSDs of pairs: looking at them, taking one out, putting one in. While a daemon serves the pairs it is
//! done there, and otherwise here. It must not know how commands are asked for.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use lode_media::{MediaFile, OpenOptions};
use lode_store::Store;
use lode_store::pair::{MEMBERS, Pair, erase_label, probe_pair, write_label};
use serde::{Deserialize, Serialize};

use super::awaiting::find_awaiting;
use super::device::{MemberDevice, PairFiles};
use super::found::{find_pairs, find_pairs_without};
use super::served::{ServedPair, TICK};
use super::volumes::ServedPairs;
use super::which::{Known, member_at, pair_for, refuse_if_of_another};
use crate::config::{Config, Size};
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairView {
    /// Identity of the cache.
    pub uuid: String,
    /// Grows with every change of what the SSDs say of each other: the generation of the labels, of several pairs all of theirs added up;
    /// none where there is one SSD.
    pub generation: Option<u64>,
    /// One, or the two of each pair.
    pub ssds: Vec<MemberView>,
    /// Where the second SSD of the pair has not come yet, the bytes that it needs at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaited_ssd_bytes: Option<u64>,
}

/// One SSD.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberView {
    /// The device or file.
    pub path: PathBuf,
    /// Where there are several pairs, which one it is of, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<usize>,
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
    /// There is one, which has everything; another one may be to come.
    Single,
    /// It has everything, as the other one has, or alone.
    InSync,
    /// It is being resilvered.
    Resilvering,
    /// It lacks something, and is not read.
    OutOfSync,
}

impl PairView {
    /// Of a cache on one SSD.
    pub(crate) fn single(uuid: &str, path: &Path) -> PairView {
        let (path, state) = (path.to_path_buf(), MemberState::Single);
        let one = MemberView { path, pair: None, state, why: None, done_bytes: None, of_bytes: None };
        PairView { uuid: uuid.to_owned(), generation: None, ssds: vec![one], awaited_ssd_bytes: None }
    }

    /// Of a cache on these pairs.
    fn together(pairs: impl Iterator<Item = PairView>) -> PairView {
        let mut all = PairView::default();
        for PairView { uuid, generation, ssds, awaited_ssd_bytes } in pairs {
            (all.uuid, all.awaited_ssd_bytes) = (uuid, awaited_ssd_bytes);
            all.generation = Some(all.generation.unwrap_or(0) + generation.unwrap_or(0));
            all.ssds.extend(ssds);
        }
        all
    }
}

/// By which number people know a pair, where there are several.
fn number_of(pair: &Pair) -> Option<usize> {
    (pair.pairs > 1).then_some(pair.number + 1)
}

impl ServedPairs {
    /// How they stand.
    pub(crate) fn view(&self) -> PairView {
        PairView::together(self.pairs.iter().map(|pair| pair.view()))
    }

    /// The same; none while the second SSD has not come yet, and the cache is as one on a single SSD.
    pub(crate) fn view_of_both(&self) -> Option<PairView> {
        Some(self.view()).filter(|view| view.awaited_ssd_bytes.is_none())
    }

    /// The pair and the member at a path.
    ///
    /// # Errors
    /// In words, when none is there.
    pub(crate) fn member_at(&self, path: &Path) -> Result<(usize, usize), String> {
        let paths: Vec<_> = self.pairs.iter().map(|pair| pair.known().paths).collect();
        member_at(&paths, path)
    }

    /// Refuses an SSD for this pair that another one is named with.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn refuse_if_of_another(&self, path: &Path, number: usize) -> Result<(), String> {
        let paths: Vec<_> = self.pairs.iter().map(|pair| pair.known().paths).collect();
        refuse_if_of_another(&paths, path, number)
    }

    /// The number of the pair that an SSD comes to; `wanted` is the one that is asked for, from 1.
    ///
    /// # Errors
    /// In words, when it cannot be told.
    pub(crate) fn pair_for(&self, path: &Path, wanted: Option<usize>) -> Result<usize, String> {
        let known: Vec<_> = self.pairs.iter().map(|pair| pair.known()).collect();
        pair_for(&known, path, wanted)
    }
}

impl ServedPair {
    /// How it stands.
    fn view(&self) -> PairView {
        let progress = Some(self.resilver().progress());
        let state = self.state();
        let (health, _) = self.health();
        let is_awaiting = state.is_awaiting();
        let ssds = (0..MEMBERS).filter_map(|member| {
            // Until the labels say that it counts, a start would not take it for one that has everything; but where it is alone, it
            // is the one that has.
            let is_to_count = state.counts == Some(member) && health.in_sync == [true; MEMBERS];
            let is_resilvered = health.resilvering == Some(member) || is_to_count;
            let (done_bytes, of_bytes) = progress.filter(|_| is_resilvered).unzip();
            Some(MemberView {
                path: state.members[member].path.clone()?,
                pair: number_of(&state.labels),
                state: match is_resilvered {
                    true => MemberState::Resilvering,
                    false if is_awaiting => MemberState::Single,
                    false if health.in_sync[member] => MemberState::InSync,
                    false => MemberState::OutOfSync,
                },
                why: state.members[member].why.clone().filter(|_| !health.in_sync[member] && !is_resilvered),
                done_bytes,
                of_bytes,
            })
        });
        let (uuid, generation) = (state.labels.id.to_string(), Some(state.labels.generation));
        let awaited_ssd_bytes = is_awaiting.then(|| state.labels.least_device_bytes());
        PairView { uuid, generation, ssds: ssds.collect(), awaited_ssd_bytes }
    }

    /// What is known of it where a command may be about it.
    fn known(&self) -> Known {
        let state = self.state();
        let (health, _) = self.health();
        Known {
            paths: [0, 1].map(|member| state.members[member].path.clone()),
            in_sync: health.in_sync,
            is_resilvering: health.resilvering.is_some(),
        }
    }
}

fn is_out(path: &Path) -> String {
    format!("{} is out of the pair already", path.display())
}

/// Takes the member at a path out of the pair that has it, and is served.
pub(crate) fn remove_served(pairs: &ServedPairs, path: &Path) -> Result<(), Failure> {
    let (number, member) = pairs.member_at(path)?;
    let pair = &pairs.pairs[number];
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
    let lacks_something = pair.take_out(member);
    if let Some(file) = file.filter(|_| lacks_something) {
        // The next start does not go on with it. What fails of this is as well: it cannot be read then. Who resilvered it writes no
        // label after this.
        let _turn = pair.label_turn(member);
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
/// place of another path, or as the one that has come. `used` is as for [`ServedPair::begin_resilver`].
pub(crate) fn add_served(
    pair: &Arc<ServedPair>,
    (path, file): (&Path, MediaFile),
    disks: impl FnOnce(&Path) -> Result<DisksOf, String>,
    used: impl FnOnce() -> Vec<std::ops::Range<u64>> + Send + 'static,
    save: impl FnOnce(Option<&Path>) -> Result<(), String>,
) -> Result<(), Failure> {
    let member = pair.may_resilver()?;
    let (labels, before) = {
        let state = pair.state();
        (state.labels, state.members[member].path.clone())
    };
    let disks = believed(path, disks(path)?)?;
    put_label(&file, &labels, pair.limit()).map_err(|error| error.to_string())?;
    if before.as_deref() != Some(path) {
        save(before.as_deref())?;
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

/// Goes on with a member that was being resilvered when the last run ended: where that was, if labels say so, or from the beginning.
pub(crate) fn resume_resilver(
    pair: &Arc<ServedPair>,
    disks: impl FnOnce(&Path) -> Result<DisksOf, String>,
    used: impl FnOnce() -> Vec<std::ops::Range<u64>> + Send + 'static,
) -> Result<(), String> {
    if pair.health().0.resilvering.is_some() {
        return pair.resume_copying(used);
    }
    let (path, labels) = {
        let state = pair.state();
        let wanted = state.members.iter().find(|member| member.wants_resilver);
        let Some(path) = wanted.and_then(|member| member.path.clone()) else { return Ok(()) };
        (path, state.labels)
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
    let needed_bytes = pair.least_device_bytes();
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
    let is_own = label.as_ref().is_ok_and(|label| (label.pair, label.number) == (pair.id, pair.number));
    if !is_own && !force {
        refuse_if_used(path, &file, &mut device)?;
    }
    Ok(file)
}

/// Has a device say that it is the member that the pair lacks, and has nothing.
fn put_label(file: &MediaFile, pair: &Pair, limit: Duration) -> Result<(), ServerError> {
    let mut device = MemberDevice::new(file.clone(), limit);
    let label = pair.label_of_new(file.size_bytes());
    let said = erase_label(&mut device).and_then(|()| write_label(&mut device, &label));
    said.map_err(|error| ServerError::store(file.path().display(), error))
}

/// The cache SSDs of a configuration that no daemon serves.
///
/// # Errors
/// When the configuration names none, they are not what they should be, or a daemon has them.
pub fn members(config: &Config) -> Result<PairView, ServerError> {
    if let Some(pairs) = pairs_of(config)? {
        return Ok(view_of(&pairs));
    }
    let Some(found) = FoundSsd::find(config)? else { return Err(no_pair(config)) };
    Ok(PairView::single(&found.view.superblock().cache.to_string(), found.files.path()))
}

/// The pairs that the cache SSDs of a configuration are; none where the cache is on one SSD for good.
fn pairs_of(config: &Config) -> Result<Option<Vec<PairFiles>>, ServerError> {
    let ssd = config.ssd.as_ref().ok_or_else(|| no_pair(config))?;
    if !ssd.pairs.is_empty() {
        return find_pairs(&ssd.pairs, ssd.timeout, known(config)).map(Some);
    }
    let file = open_patiently(&ssd.path, &OpenOptions::default())?;
    Ok(find_awaiting(&file, ssd, known(config))?.map(|pair| vec![pair]))
}

fn known(config: &Config) -> impl Fn(&str, usize) -> Result<Option<u64>, ServerError> {
    move |cache, number| StateFile::of(config).pair_generation(cache, number)
}

fn view_of(pairs: &[PairFiles]) -> PairView {
    let view = |files: &PairFiles| {
        let ssds = (0..MEMBERS).filter_map(|member| {
            let is_used = files.is_used(member);
            Some(MemberView {
                path: files.paths[member].clone()?,
                pair: number_of(&files.pair),
                state: match is_used {
                    true if files.is_awaiting() => MemberState::Single,
                    true => MemberState::InSync,
                    false => MemberState::OutOfSync,
                },
                why: files.left_out[member].clone().filter(|_| !is_used),
                done_bytes: None,
                of_bytes: None,
            })
        });
        let (uuid, generation) = (files.pair.id.to_string(), Some(files.pair.generation));
        let awaited_ssd_bytes = files.is_awaiting().then(|| files.pair.least_device_bytes());
        PairView { uuid, generation, ssds: ssds.collect(), awaited_ssd_bytes }
    };
    PairView::together(pairs.iter().map(view))
}

fn no_pair(config: &Config) -> ServerError {
    let text = match &config.ssd {
        None => "The configuration has no cache SSD; add [ssd]".to_owned(),
        Some(ssd) => format!(
            "The cache is on one SSD, {}, and not on a pair. A pair is made anew: `lode stop --drain`, and `lode format {} --mirror DEVICE \
             --force` with `mirror` in [ssd], or `--mirror later` where the second SSD comes later",
            ssd.path.display(),
            ssd.path.display()
        ),
    };
    ServerError::new(ServerErrorKind::Config, text)
}

fn refused(text: String) -> ServerError {
    ServerError::new(ServerErrorKind::Refused, text)
}

/// The pairs of a configuration, whatever is in the place of a member that is to go, and which one that is.
fn find_without(config: &Config, gone: &Path) -> Result<(Vec<PairFiles>, (usize, usize)), ServerError> {
    let ssd = config.ssd.as_ref().ok_or_else(|| no_pair(config))?;
    let named: Vec<_> = ssd.pairs.iter().map(|pair| pair.clone().map(Some)).collect();
    let (pairs, gone) = if named.is_empty() {
        (pairs_of(config)?.ok_or_else(|| no_pair(config))?, gone)
    } else {
        let (number, member) = member_at(&named, gone).map_err(refused)?;
        let gone = &ssd.pairs[number][member];
        (find_pairs_without(&ssd.pairs, ssd.timeout, known(config), gone)?, &**gone)
    };
    // Labels may say another place than the configuration.
    let paths: Vec<_> = pairs.iter().map(|files| files.paths.clone()).collect();
    let place = member_at(&paths, gone).map_err(refused)?;
    Ok((pairs, place))
}

/// The pairs of a configuration, whatever is in the place of `gone`, with the label that says of it that it is out, and which pair it is
/// out of. No daemon serves them.
fn take_out(config: &Config, gone: &Path) -> Result<(Vec<PairFiles>, usize), ServerError> {
    let (mut pairs, (number, member)) = find_without(config, gone)?;
    let files = &mut pairs[number];
    if !files.is_used(1 - member) {
        let why = files.left_out[1 - member].as_deref().unwrap_or("it is missing");
        let other = match &files.paths[1 - member] {
            Some(other) => format!("{} does not: {why}", other.display()),
            None => "the second one has not come yet".to_owned(),
        };
        let text = format!("{} is the only SSD of the pair that has everything, and {other}", gone.display());
        return Err(refused(text));
    }
    let was_in_sync = files.pair.in_sync[member];
    let file = files.files[member].take();
    record(config, &mut pairs, number)?;
    let files = &mut pairs[number];
    if let Some(file) = file.filter(|_| !was_in_sync) {
        // The next start does not go on with it.
        let erased = erase_label(&mut MemberDevice::new(file, files.limit));
        erased.map_err(|error| ServerError::store(gone.display(), error))?;
    }
    files.left_out[member] = Some("it was taken out".to_owned());
    Ok((pairs, number))
}

/// Has the labels of a pair say durably who of it has everything, as a start does. What describes the cache is on the first pair.
fn record(config: &Config, pairs: &mut [PairFiles], number: usize) -> Result<(), ServerError> {
    let first = pairs.first().expect("a cache has a pair");
    let epoch = Store::probe(&mut first.device())
        .map_err(|error| ServerError::store(first.first_path().display(), error))?
        .epoch;
    let files = &mut pairs[number];
    let mut device = files.device();
    let begun = device.begin(&files.labels, epoch);
    begun.map_err(|error| ServerError::store(files.first_path().display(), error))?;
    files.pair = *device.pair();
    StateFile::of(config).note_pair(number, files.pair.generation)
}

/// Takes an SSD out of the pair that has it, of a configuration that no daemon serves.
///
/// # Errors
/// When it is the only one that has everything, and as [`members`].
pub fn remove_member(config: &Config, path: &Path) -> Result<PairView, ServerError> {
    let (pairs, _) = take_out(config, path)?;
    Ok(view_of(&pairs))
}

/// Has a device be the SSD that a pair of a configuration lacks. The next start resilvers it while guests are served. Where several pairs
/// lack one, `pair` says which one it is for, from 1.
///
/// # Errors
/// When all are in use, it cannot be told which pair it is for, the device is too small or holds something else and `force` is not set,
/// and as [`members`].
pub fn add_member(
    config: &Config,
    path: &Path,
    force: bool,
    pair: Option<usize>,
) -> Result<PairView, ServerError> {
    let mut pairs = pairs_of(config)?.ok_or_else(|| no_pair(config))?;
    let of = |files: &PairFiles| Known {
        paths: files.paths.clone(),
        in_sync: files.pair.in_sync,
        is_resilvering: false,
    };
    let number = pair_for(&pairs.iter().map(of).collect::<Vec<_>>(), path, pair).map_err(refused)?;
    if pairs[number].pair.in_sync == [true; MEMBERS] {
        let text = "Both SSDs of the pair are in use; take one out first (`lode device remove`)";
        return Err(refused(text.to_owned()));
    }
    // It may be that none says yet who is out, and the new one would say so alone.
    record(config, &mut pairs, number)?;
    put_in(config, pairs, number, path, force)
}

/// The same in the place of one that is in a pair.
///
/// # Errors
/// As [`remove_member`] and [`add_member`].
pub fn replace_member(config: &Config, path: &Path, by: &Path, force: bool) -> Result<PairView, ServerError> {
    let (pairs, (number, member)) = find_without(config, path)?;
    let paths: Vec<_> = pairs.iter().map(|files| files.paths.clone()).collect();
    refuse_if_of_another(&paths, by, number).map_err(refused)?;
    if member_at(&paths, by) == Ok((number, 1 - member)) {
        return Err(refused(format!("{} is the other SSD of the pair; give another one", by.display())));
    }
    let files = &pairs[number];
    // Before anything is taken out. It is opened again, once more of the pair is known.
    if files.files.iter().flatten().all(|file| file.path() != by) {
        open_new(by, &files.pair, force, files.limit)?;
    }
    drop(pairs);
    let (pairs, number) = take_out(config, path)?;
    put_in(config, pairs, number, by, force)
}

/// Puts a device in the place of the member that a pair lacks.
fn put_in(
    config: &Config,
    mut pairs: Vec<PairFiles>,
    number: usize,
    path: &Path,
    force: bool,
) -> Result<PairView, ServerError> {
    let files = &mut pairs[number];
    let member = usize::from(files.pair.in_sync[0]);
    // It may be this one, which is open.
    files.files[member] = None;
    let file = open_new(path, &files.pair, force, files.limit)?;
    put_label(&file, &files.pair, files.limit)?;
    let before = files.paths[member].replace(path.to_path_buf());
    if before.as_deref() != Some(path) {
        Config::load(&config.path)?.with_ssd(before.as_deref(), path)?.write()?;
    }
    files.left_out[member] = Some("the next start resilvers it while guests are served".to_owned());
    Ok(view_of(&pairs))
}
