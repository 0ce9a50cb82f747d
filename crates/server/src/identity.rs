//! What this host remembers of its cache SSD and of the disks behind it, to notice another one or an old copy in
//! its place.
//!
//! An old copy is dangerous: its dirty blocks are older than what guests were told is durable, and its
//! clean blocks may be older than the backing disk. With another backing disk all of its blocks are wrong.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lode_format::{CacheId, Superblock};
use serde::{Deserialize, Serialize};

use crate::config::{Config, SsdConfig};
use crate::error::{ServerError, ServerErrorKind};
use crate::new_file::replace_durably;
use crate::sidecar::decide::Seen;

/// The state file's contents.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Remembered {
    uuid: String,
    epoch: u64,
    ssd: PathBuf,
    /// The generation of the labels of a pair of SSDs, of several the first; none where there is one SSD.
    #[serde(skip_serializing_if = "Option::is_none")]
    pair_generation: Option<u64>,
    /// Those of the others, in their order; 0 where it is not known, which no label has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    other_pair_generations: Vec<u64>,
    /// The latest run; none in files of older versions.
    run: Option<DaemonRun>,
    /// The read SSD that was used last; none where there was none, and in files of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    read_ssd: Option<String>,
    /// A VM that is getting another name; none in files of older versions.
    renaming: Option<NewName>,
    #[serde(default)]
    backings: Backings,
    #[serde(default)]
    seen: SeenDisks,
}

impl Remembered {
    /// By the numbers of pairs.
    fn pair_generations(&self) -> Vec<Option<u64>> {
        if self.pair_generation.is_none() && self.other_pair_generations.is_empty() {
            return Vec::new();
        }
        let others =
            self.other_pair_generations.iter().map(|&generation| Some(generation).filter(|&one| one > 0));
        std::iter::once(self.pair_generation).chain(others).collect()
    }
}

/// Generations of pairs as they are written: of the first one, and of the others.
fn written(generations: &[Option<u64>]) -> (Option<u64>, Vec<u64>) {
    let others = generations.iter().skip(1).map(|generation| generation.unwrap_or(0));
    (generations.first().copied().flatten(), others.collect())
}

/// Another name of a VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewName {
    pub from: String,
    pub to: String,
}

/// One run of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DaemonRun {
    /// The host's boot.
    pub boot: Option<String>,
    /// How the run before it ended.
    pub before: LastEnd,
    /// It came to serve guests: until then what the run before it left counts.
    pub served: bool,
    /// It ended in order, with everything saved.
    pub ended: bool,
    /// Everything on the cache SSD is durable: it ended in order, no flush failed, and no volume was left out.
    #[serde(default)]
    pub all_durable: bool,
    /// The boot on which this host last wrote to the cache SSD, by this run or a removal; none where that is not known, or
    /// somebody else wrote to it since.
    pub written_boot: Option<String>,
    /// VMs whose records outlive it.
    #[serde(default)]
    pub keeps_records_of: Vec<String>,
    /// Folders in which there may be records that count.
    #[serde(default)]
    pub shm: Vec<PathBuf>,
}

/// How the run before this one ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LastEnd {
    /// There was none that is remembered.
    None,
    /// It was stopped.
    Orderly,
    /// It was killed or crashed, and the host has been up since.
    Killed,
    /// The host went down with it.
    HostLost,
}

impl LastEnd {
    /// As it is written in a status.
    pub(crate) fn name(self) -> &'static str {
        match self {
            LastEnd::None => "none",
            LastEnd::Orderly => "orderly",
            LastEnd::Killed => "killed",
            LastEnd::HostLost => "host-lost",
        }
    }
}

impl DaemonRun {
    /// How the latest run that served ended, as the boot after it sees it.
    pub(crate) fn end_of(last: Option<&DaemonRun>, boot: Option<&str>) -> LastEnd {
        let Some(run) = last else { return LastEnd::None };
        let end = match (run.ended, run.served) {
            (true, _) => LastEnd::Orderly,
            (false, true) => LastEnd::Killed,
            (false, false) => run.before,
        };
        let is_this_boot = run.boot.is_some() && run.boot.as_deref() == boot;
        if end == LastEnd::Killed && !is_this_boot { LastEnd::HostLost } else { end }
    }

    /// Whether all that can be read of the SSD is known to be durable. A flush that failed on another boot does not matter
    /// any more: what it lost cannot be read.
    pub(crate) fn left_all_durable(&self, boot: Option<&str>) -> bool {
        let written = self.written_boot.as_deref();
        let is_other_boot = written.is_some() && boot.is_some() && written != boot;
        self.all_durable || is_other_boot
    }
}

/// What is remembered of a cache beside its identity.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub backings: Backings,
    pub seen: SeenDisks,
    pub run: Option<DaemonRun>,
    /// Of each pair of SSDs that the cache is on, the generation of its labels, if it is known.
    pub pair_generations: Vec<Option<u64>>,
    /// The read SSD that was used last.
    pub read_ssd: Option<String>,
    /// Which names a VM has in which places is not known: it was getting another one.
    pub renaming: Option<NewName>,
}

impl Known {
    /// A VM that was getting another name has this one, and not the other.
    pub(crate) fn settle_name(&mut self, name: &str, other: &str) {
        self.renaming = None;
        move_name(&mut self.backings, name, other);
        move_name(&mut self.seen, name, other);
        if let Some(run) = &mut self.run
            && run.keeps_records_of.iter().any(|one| one == other)
        {
            run.keeps_records_of.retain(|one| one != other && one != name);
            run.keeps_records_of.push(name.to_owned());
        }
    }
}

/// What each volume's backing disk is known by.
pub(crate) type Backings = BTreeMap<String, String>;

/// What was last seen beside each volume's backing disk.
pub(crate) type SeenDisks = BTreeMap<String, Seen>;

/// What is known of a volume under one name is known under another.
fn move_name<T>(map: &mut BTreeMap<String, T>, name: &str, other: &str) {
    let value = map.remove(other);
    if let Some(value) = value.filter(|_| !map.contains_key(name)) {
        map.insert(name.to_owned(), value);
    }
}

/// Held while a state file is read and replaced: several threads note what they know.
static NOTING: Mutex<()> = Mutex::new(());

fn noting() -> MutexGuard<'static, ()> {
    NOTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state file of one cache.
#[derive(Clone, Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
}

impl StateFile {
    pub(crate) fn of(config: &Config) -> StateFile {
        StateFile { path: config.state_dir.join(format!("{}.state", config.name)) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Refuses an SSD that is not the expected one. To be called before anything is written to it. Returns the
    /// backing disks that its volumes were used with, and what is known of the latest run.
    pub(crate) fn check(&self, ssd: &SsdConfig, found: &Superblock) -> Result<Known, ServerError> {
        let device = ssd.path.display();
        let refuse = |text: String| Err(ServerError::new(ServerErrorKind::Identity, text));
        if let Some(wanted) = ssd.uuid
            && wanted != found.cache
        {
            return refuse(format!(
                "{device} holds cache {}, and the configuration's `uuid` is {wanted}; correct `path` or `uuid`",
                found.cache
            ));
        }
        let Some(remembered) = self.read()? else { return Ok(Known::default()) };
        let known: CacheId = remembered.uuid.parse().map_err(|error| self.damaged(error))?;
        if known != found.cache {
            return refuse(format!(
                "{device} holds cache {}, and this host last served cache {known} from {}. Blocks that only \
                 that SSD holds would be missing: correct `path`, or remove {} if that cache is gone for good",
                found.cache,
                remembered.ssd.display(),
                self.path.display()
            ));
        }
        if found.epoch < remembered.epoch {
            return refuse(format!(
                "{device} is an old copy of cache {known}: its epoch is {}, and this host has served epoch {}. \
                 Serving it would bring back old data: use the newest SSD, or format this one",
                found.epoch, remembered.epoch
            ));
        }
        let pair_generations = remembered.pair_generations();
        let mut run = remembered.run;
        if let Some(run) = run.as_mut().filter(|_| found.epoch > remembered.epoch) {
            // Somebody else wrote to it since, perhaps on this boot.
            (run.all_durable, run.written_boot) = (false, None);
        }
        let Remembered { backings, seen, renaming, read_ssd, .. } = remembered;
        Ok(Known { backings, seen, run, renaming, read_ssd, pair_generations })
    }

    /// What is remembered of the labels of a pair of SSDs of a cache, by its number, if it is of this one.
    pub(crate) fn pair_generation(&self, cache: &str, number: usize) -> Result<Option<u64>, ServerError> {
        let Some(remembered) = self.read()?.filter(|remembered| remembered.uuid == cache) else {
            return Ok(None);
        };
        Ok(remembered.pair_generations().get(number).copied().flatten())
    }

    /// The labels of the pair of SSDs of this number are of this generation, or a later one that is known already.
    pub(crate) fn note_pair(&self, number: usize, generation: u64) -> Result<(), ServerError> {
        self.note(|remembered| {
            let mut generations = remembered.pair_generations();
            generations.resize(generations.len().max(number + 1), None);
            generations[number] = generations[number].max(Some(generation));
            (remembered.pair_generation, remembered.other_pair_generations) = written(&generations);
        })
    }

    /// The cache that this host last served, and where it was.
    pub(crate) fn last_served(&self) -> Result<Option<(String, PathBuf)>, ServerError> {
        Ok(self.read()?.map(|remembered| (remembered.uuid, remembered.ssd)))
    }

    /// Refuses to go without an SSD where there was one.
    pub(crate) fn check_absence(&self) -> Result<(), ServerError> {
        let Some(remembered) = self.read()? else { return Ok(()) };
        let text = format!(
            "The configuration names no cache SSD, and this host last served cache {} from {}, which may hold blocks \
             newer than the backing disks: add [ssd] again. To go without it, `lode stop --drain` the daemon, then \
             remove {}",
            remembered.uuid,
            remembered.ssd.display(),
            self.path.display()
        );
        Err(ServerError::new(ServerErrorKind::Identity, text))
    }

    /// Remembers the SSD as it is now. When this returns, a crash cannot undo it.
    pub(crate) fn update(&self, ssd: &SsdConfig, now: &Superblock, known: Known) -> Result<(), ServerError> {
        let (uuid, epoch) = (now.cache.to_string(), now.epoch);
        let Known { backings, seen, run, renaming, read_ssd, pair_generations } = known;
        let (pair_generation, other_pair_generations) = written(&pair_generations);
        let ssd = ssd.path.clone();
        let _alone = noting();
        self.write(&Remembered {
            uuid,
            epoch,
            ssd,
            pair_generation,
            other_pair_generations,
            run,
            read_ssd,
            renaming,
            backings,
            seen,
        })
    }

    /// Remembers something more of the run.
    pub(crate) fn note_run(&self, note: impl FnOnce(&mut DaemonRun)) -> Result<(), ServerError> {
        self.note(|remembered| {
            if let Some(run) = &mut remembered.run {
                note(run);
            }
        })
    }

    fn note(&self, note: impl FnOnce(&mut Remembered)) -> Result<(), ServerError> {
        let _alone = noting();
        let Some(mut remembered) = self.read()? else { return Ok(()) };
        note(&mut remembered);
        self.write(&remembered)
    }

    /// A VM is about to get another name. What is known of it is known under both until that has ended.
    pub(crate) fn begin_renaming(&self, from: &str, to: &str) -> Result<(), ServerError> {
        self.note(|remembered| {
            remembered.renaming = Some(NewName { from: from.to_owned(), to: to.to_owned() });
            if let Some(backing) = remembered.backings.get(from).cloned() {
                remembered.backings.insert(to.to_owned(), backing);
            }
            if let Some(seen) = remembered.seen.get(from).cloned() {
                remembered.seen.insert(to.to_owned(), seen);
            }
            if let Some(run) = &mut remembered.run
                && run.keeps_records_of.iter().any(|one| one == from)
            {
                run.keeps_records_of.push(to.to_owned());
            }
        })
    }

    /// It has this name, and not the other.
    pub(crate) fn end_renaming(&self, name: &str, other: &str) -> Result<(), ServerError> {
        self.note(|remembered| {
            let (backings, seen) =
                (std::mem::take(&mut remembered.backings), std::mem::take(&mut remembered.seen));
            let run = remembered.run.take();
            let mut known = Known { backings, seen, run, ..Known::default() };
            known.settle_name(name, other);
            (remembered.backings, remembered.seen) = (known.backings, known.seen);
            (remembered.run, remembered.renaming) = (known.run, None);
        })
    }

    /// A volume is about to come, with this backing disk behind it, or a disk that is known by nothing.
    pub(crate) fn note_new_volume(&self, name: &str, backing: Option<String>) -> Result<(), ServerError> {
        self.note(|remembered| {
            remembered.backings.remove(name);
            remembered.seen.remove(name);
            remembered.backings.extend(backing.map(|backing| (name.to_owned(), backing)));
        })
    }

    /// A volume has come, whose records outlive the daemon or do not.
    pub(crate) fn note_records(&self, name: &str, keeps_records: bool) -> Result<(), ServerError> {
        self.note_run(|run| {
            run.keeps_records_of.retain(|one| one != name);
            run.keeps_records_of.extend(keeps_records.then(|| name.to_owned()));
        })
    }

    /// A volume has gone, and the cache is of this epoch since.
    pub(crate) fn note_removed(&self, name: &str, epoch: u64) -> Result<(), ServerError> {
        self.note(|remembered| {
            remembered.epoch = remembered.epoch.max(epoch);
            remembered.backings.remove(name);
            remembered.seen.remove(name);
            remembered.run.iter_mut().for_each(|run| run.keeps_records_of.retain(|one| one != name));
        })
    }

    /// What was seen beside the disks of these VMs; none: nothing.
    pub(crate) fn note_seen(&self, disks: &[(String, Option<Seen>)]) -> Result<(), ServerError> {
        self.note(|remembered| {
            for (name, seen) in disks {
                remembered.seen.remove(name);
                remembered.seen.extend(seen.clone().map(|seen| (name.clone(), seen)));
            }
        })
    }

    fn write(&self, remembered: &Remembered) -> Result<(), ServerError> {
        let text = toml::to_string(remembered).map_err(|error| self.damaged(error))?;
        replace_durably(&self.path, &self.path.with_extension("state.new"), &text).map_err(|error| {
            let what = format!("Cannot write the state file {}; check `state_dir`", self.path.display());
            ServerError::because(ServerErrorKind::Identity, what, error)
        })
    }

    fn read(&self) -> Result<Option<Remembered>, ServerError> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                let what = format!("Cannot read the state file {}", self.path.display());
                return Err(ServerError::because(ServerErrorKind::Identity, what, error));
            }
        };
        toml::from_str(&text).map(Some).map_err(|error| self.damaged(error))
    }

    fn damaged(&self, error: impl std::error::Error + Send + Sync + 'static) -> ServerError {
        let what = format!(
            "State file {} is damaged; make sure the SSD is the right one and remove the file",
            self.path.display()
        );
        ServerError::because(ServerErrorKind::Identity, what, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::new_file::failing::at_each_step;

    #[test]
    fn a_start_that_came_to_nothing_changes_nothing_of_how_the_last_run_ended() {
        let run = |before, served, ended| DaemonRun {
            boot: Some("this".to_owned()),
            before,
            served,
            ended,
            all_durable: ended,
            written_boot: None,
            keeps_records_of: Vec::new(),
            shm: Vec::new(),
        };
        let cases = [
            (run(LastEnd::Orderly, true, true), LastEnd::Orderly, LastEnd::Orderly),
            (run(LastEnd::Orderly, true, false), LastEnd::Killed, LastEnd::HostLost),
            (run(LastEnd::Orderly, false, false), LastEnd::Orderly, LastEnd::Orderly),
            (run(LastEnd::Killed, false, false), LastEnd::Killed, LastEnd::HostLost),
            (run(LastEnd::HostLost, false, false), LastEnd::HostLost, LastEnd::HostLost),
        ];
        for (run, same_boot, other_boot) in cases {
            assert_eq!(DaemonRun::end_of(Some(&run), Some("this")), same_boot, "{run:?}");
            assert_eq!(DaemonRun::end_of(Some(&run), Some("other")), other_boot, "{run:?}");
        }
        assert_eq!(DaemonRun::end_of(None, Some("this")), LastEnd::None);
    }

    /// Guarantee 9: whichever step fails, what was remembered before is, or what is new.
    #[test]
    fn g9_what_cannot_be_remembered_makes_nothing_forgotten() {
        let folder = tempfile::TempDir::new().unwrap();
        let state = StateFile { path: folder.path().join("a.state") };
        let before = "uuid = \"u\"\nepoch = 3\nssd = \"/dev/a\"\npair_generation = 4\n";
        std::fs::write(&state.path, before).unwrap();
        at_each_step(
            || state.note_pair(0, 5),
            |result, has_failed| {
                assert_eq!(result.is_err(), has_failed);
                let found = state.pair_generation("u", 0).unwrap();
                assert!(found == Some(5) || has_failed && found == Some(4), "{found:?}");
                assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
                std::fs::write(&state.path, before).unwrap();
            },
        );
    }

    #[test]
    fn generations_of_pairs_are_remembered_by_their_numbers_and_only_grow() {
        let folder = tempfile::TempDir::new().unwrap();
        let state = StateFile { path: folder.path().join("a.state") };
        let before = "uuid = \"u\"\nepoch = 3\nssd = \"/dev/a\"\n";
        let of = |number| state.pair_generation("u", number).unwrap();
        // As a program wrote it that knew one pair.
        std::fs::write(&state.path, format!("{before}pair_generation = 4\n")).unwrap();
        assert_eq!([of(0), of(1)], [Some(4), None]);
        state.note_pair(2, 7).unwrap();
        assert_eq!([of(0), of(1), of(2), of(3)], [Some(4), None, Some(7), None]);
        state.note_pair(2, 6).unwrap();
        state.note_pair(0, 5).unwrap();
        state.note_pair(1, 1).unwrap();
        assert_eq!([of(0), of(1), of(2)], [Some(5), Some(1), Some(7)]);
        assert_eq!(state.pair_generation("another", 0).unwrap(), None);
        // Where nothing is known of the first one, nothing is made up.
        std::fs::write(&state.path, before).unwrap();
        state.note_pair(1, 2).unwrap();
        assert_eq!([of(0), of(1)], [None, Some(2)]);
    }

    #[test]
    fn what_can_be_read_is_durable_after_an_orderly_end_and_on_another_boot() {
        let run = |written_boot: Option<&str>, all_durable| DaemonRun {
            boot: Some("this".to_owned()),
            before: LastEnd::Orderly,
            served: true,
            ended: all_durable,
            all_durable,
            written_boot: written_boot.map(str::to_owned),
            keeps_records_of: Vec::new(),
            shm: Vec::new(),
        };
        assert!(run(Some("this"), true).left_all_durable(Some("this")));
        assert!(run(None, true).left_all_durable(None));
        assert!(run(Some("other"), false).left_all_durable(Some("this")));
        assert!(!run(Some("this"), false).left_all_durable(Some("this")));
        assert!(!run(None, false).left_all_durable(Some("this")));
        assert!(!run(Some("this"), false).left_all_durable(None));
        let older = "boot = 'this'\nbefore = 'orderly'\nserved = true\nended = true\n";
        assert!(
            !toml::from_str::<DaemonRun>(older).unwrap().left_all_durable(Some("this")),
            "it does not say so"
        );
    }
}
