//! The cache SSD of a configuration: finding it, making sure that it is the right one, and beginning a new run of
//! it. It must not know what volumes are for.

mod removing;

use std::path::Path;
use std::sync::Arc;

use lode_format::{ReadSsdLabel, Superblock, VolumeTag};
use lode_media::{MediaFile, OpenOptions};
use lode_store::pair::{MEMBERS, Pair};
use lode_store::{Attached, Store, StoreView, VolumeCheck, VolumeSpec};
use tracing::{info, warn};

use crate::backing::identify;
use crate::config::{Config, Size, SsdConfig, VmConfig};
use crate::error::{ServerError, ServerErrorKind};
use crate::fence_file::FenceFile;
use crate::files::open_patiently;
use crate::foreign::no_cache;
use crate::identity::{DaemonRun, Known, LastEnd, NewName, StateFile};
use crate::pair::{
    CacheDevice, CachePairs, MemberDisks, PairFiles, ServedPair, ServedPairs, begin_pairs, find_awaiting,
    find_pairs,
};
use crate::records::Records;
use crate::shared::{Disks, DisksOf};
use crate::sidecar::decide::Seen;
use crate::sync_device::FileDevice;

/// What a cache is on, open.
pub(crate) enum SsdFiles {
    One(MediaFile),
    Pairs(CachePairs),
}

/// What a cache is served from.
#[derive(Clone)]
pub(crate) enum SsdMedia {
    One(MediaFile),
    Pairs(ServedPairs),
}

impl SsdMedia {
    /// The pairs, if it is on any.
    pub(crate) fn pairs(&self) -> Option<ServedPairs> {
        match self {
            SsdMedia::One(_) => None,
            SsdMedia::Pairs(pairs) => Some(pairs.clone()),
        }
    }
}

impl SsdFiles {
    /// All of it as one device.
    pub(crate) fn device(&self) -> CacheDevice {
        match self {
            SsdFiles::One(file) => CacheDevice::One(FileDevice::new(file.clone())),
            SsdFiles::Pairs(files) => CacheDevice::Pairs(files.device()),
        }
    }

    /// Where it is, for people.
    pub(crate) fn path(&self) -> &Path {
        match self {
            SsdFiles::One(file) => file.path(),
            SsdFiles::Pairs(files) => files.pairs[0].first_path(),
        }
    }

    /// How many SSDs of its pairs get what is written; 0 where it is on one SSD.
    pub(crate) fn members_in_use(&self) -> usize {
        let in_use = |pair: &PairFiles| (0..MEMBERS).filter(|&member| pair.is_written(member)).count();
        self.pairs().iter().map(in_use).sum()
    }

    fn pairs(&self) -> &[PairFiles] {
        match self {
            SsdFiles::One(_) => &[],
            SsdFiles::Pairs(files) => &files.pairs,
        }
    }

    fn is_direct(&self) -> bool {
        match self {
            SsdFiles::One(file) => file.is_direct(),
            SsdFiles::Pairs(files) => {
                files.pairs.iter().flat_map(|pair| pair.files.iter().flatten()).all(MediaFile::is_direct)
            }
        }
    }
}

/// A cache SSD, or pairs of them, that is the right one, and has not been changed yet.
pub(crate) struct FoundSsd<'c> {
    pub files: SsdFiles,
    pub view: StoreView,
    /// Where journal records outlive the daemon.
    pub records: Records,
    /// How the run before ended.
    pub last_end: LastEnd,
    known: Known,
    /// A VM was getting another name when the last run ended.
    renaming: Option<NewName>,
    /// Its volume has another name here than on the SSD.
    is_renamed: bool,
    config: &'c Config,
    ssd: &'c SsdConfig,
}

/// The cache SSD in its new run.
pub(crate) struct OpenSsd {
    pub media: SsdMedia,
    /// What it lies on.
    pub disks: DisksOf,
    pub store: Store,
    pub records: Records,
    device: CacheDevice,
}

impl<'c> FoundSsd<'c> {
    /// Opens the SSD of a configuration, if it names one, and looks at what it holds.
    pub(crate) fn find(config: &'c Config) -> Result<Option<FoundSsd<'c>>, ServerError> {
        let Some(ssd) = &config.ssd else { return StateFile::of(config).check_absence().map(|()| None) };
        let (files, superblock) = open_ssd(config, ssd)?;
        // Before anything more is read of it: what another cache holds would only confuse.
        let known = StateFile::of(config).check(ssd, &superblock)?;
        let mut view = StoreView::read(&mut files.device())
            .map_err(|error| ServerError::store(ssd.path.display(), error))?;
        let (mut known, mut is_renamed) = (known, false);
        let renaming = known.renaming.clone();
        if let Some((name, other)) = settled_name(config, &known) {
            FenceFile::of(config, &name).take_over(&FenceFile::of(config, &other))?;
            is_renamed = view.rename(&other, &name);
            known.settle_name(&name, &other);
        }
        let records = Records::of(config, superblock.cache)?;
        let last_end = DaemonRun::end_of(known.run.as_ref(), records.boot_text());
        // The configuration may name another folder by now.
        let before = known.run.as_ref().map_or(&[][..], |run| &run.shm);
        let kept = known.run.as_ref().map_or(&[][..], |run| &run.keeps_records_of);
        let expects = |name: &str| last_end == LastEnd::Killed && kept.iter().any(|one| one == name);
        records.offer(&mut view, before, expects);
        // What one member of a pair has of the time before a power cut the other one may lack.
        let is_one = matches!(files, SsdFiles::One(_));
        if is_one && known.run.as_ref().is_some_and(|run| run.left_all_durable(records.boot_text())) {
            view.count_as_durable();
        }
        Ok(Some(FoundSsd { files, view, records, last_end, known, renaming, is_renamed, config, ssd }))
    }

    /// Refuses volumes for which a new run would have no room, or which would lose something.
    pub(crate) fn check(&self, specs: &[VolumeSpec]) -> Result<(), ServerError> {
        let outcome = self.view.check(&mut self.files.device(), specs);
        outcome.map_err(|error| ServerError::store(self.ssd.path.display(), error))
    }

    /// Refuses a read SSD that is not the one with which the cache was used last, unless the configuration names it, and will remember it:
    /// what somebody else has on it would be written over.
    pub(crate) fn check_read_ssd(&mut self, found: &ReadSsdLabel, path: &Path) -> Result<(), ServerError> {
        let now = found.id.to_string();
        let is_named = self
            .config
            .read_ssd
            .as_ref()
            .and_then(|read_ssd| read_ssd.uuid)
            .is_some_and(|uuid| uuid == found.id);
        match &self.known.read_ssd {
            Some(before) if *before != now && !is_named => {
                let text = format!(
                    "{} is read SSD {now}, and this host last used read SSD {before} with cache {}: correct `read_ssd.path`. If this one is \
                     to take its place, which writes over what somebody else may have on it, add `uuid = \"{now}\"` to [read_ssd]",
                    path.display(),
                    self.view.superblock().cache
                );
                Err(ServerError::new(ServerErrorKind::Identity, text))
            }
            _ => {
                self.known.read_ssd = Some(now);
                Ok(())
            }
        }
    }

    /// Refuses a backing disk that is not the one with which its volume was used, and will remember it.
    pub(crate) fn check_backing(&mut self, vm: &VmConfig) -> Result<(), ServerError> {
        let Some(now) = identify(&vm.backing) else { return Ok(()) };
        let is_used = self.view.volumes().any(|volume| volume.name == vm.name);
        match self.known.backings.get(&vm.name) {
            Some(before) if is_used && *before != now => {
                let text = format!(
                    "VM {name}: the backing disk {} is another one than when its cache was last used ({now}; before: \
                     {before}). The cached blocks belong to that one: correct `backing.path`. If the VM has a new disk, \
                     give its volume up with `lode volume remove`; if it is the same disk moved without a change, remove \
                     the line of {name} from {}",
                    vm.backing.display(),
                    StateFile::of(self.config).path().display(),
                    name = vm.name,
                );
                Err(ServerError::new(ServerErrorKind::Identity, text))
            }
            _ => {
                self.known.backings.insert(vm.name.clone(), now);
                Ok(())
            }
        }
    }

    /// The tag of a VM's volume, if there is one, and what was seen beside its disk last.
    pub(crate) fn of_volume(&self, name: &str) -> (Option<VolumeTag>, Option<&Seen>) {
        let volume = self.view.volumes().find(|volume| volume.name == name);
        (volume.map(|volume| volume.tag), self.known.seen.get(name))
    }

    /// Blocks of a volume that are newer than its disk.
    pub(crate) fn dirty_blocks(&self, name: &str) -> Result<u64, String> {
        let counts = self.view.count_blocks(&mut self.files.device(), name);
        counts.map(|counts| counts.dirty).map_err(|error| error.to_string())
    }

    /// Volumes that nobody serves keep their space and what they hold. Refuses those that hold blocks of a disk that
    /// is now served under another name: its guest would miss them, and later they would cover what it wrote.
    /// Returns the names of those that hold nothing which their backing disks do not have.
    pub(crate) fn check_strangers(&self) -> Result<Vec<String>, ServerError> {
        let mut expendable = Vec::new();
        for volume in self.view.volumes().filter(|volume| !self.config.has_vm(&volume.name)) {
            let name = volume.name;
            let disk = self.known.backings.get(&name);
            let serves_it = |vm: &&VmConfig| disk.is_some() && self.known.backings.get(&vm.name) == disk;
            let heir = self.config.vms.iter().find(serves_it);
            let dirty = match (self.view.count_blocks(&mut self.files.device(), &name), heir) {
                (Ok(counts), _) => counts.dirty,
                (Err(error), None) => {
                    warn!("The cache holds volume '{name}', which is not configured. {error}");
                    continue;
                }
                // What cannot be counted is not nothing.
                (Err(error), Some(heir)) => {
                    let text = format!(
                        "VM {}: its backing disk was served as '{name}' before, and it cannot be told whether the cache \
                         holds blocks of that volume that are newer than the disk. `lode volume remove --force` gives it \
                         up, with such blocks",
                        heir.name
                    );
                    return Err(ServerError::because(ServerErrorKind::Identity, text, error));
                }
            };
            if let Some(heir) = heir.filter(|_| dirty > 0) {
                let text = format!(
                    "VM {}: its backing disk was served as '{name}' before, and the cache holds {dirty} blocks of that \
                     volume that are newer than the disk. Serve it as '{name}', `lode stop --drain` it, and give it \
                     its new name then",
                    heir.name
                );
                return Err(ServerError::new(ServerErrorKind::Identity, text));
            }
            warn!(
                "The cache holds volume '{name}', which is not configured, with {dirty} blocks newer than its backing \
                 disk: its space stays taken until `lode volume remove` gives it back"
            );
            if dirty == 0 {
                expendable.push(name);
            }
        }
        Ok(expendable)
    }

    /// Begins a new run: raises the epoch and remembers it.
    pub(crate) fn open(self, disks: &mut Disks) -> Result<OpenSsd, ServerError> {
        let FoundSsd { files, view, records, last_end, known, renaming, is_renamed, config, ssd } = self;
        let mut shm = known.run.as_ref().map_or_else(Vec::new, |run| run.shm.clone());
        shm.extend(
            records.folder().filter(|folder| !shm.iter().any(|one| one == folder)).map(Path::to_path_buf),
        );
        let boot = records.boot_text().map(str::to_owned);
        let keeps_records_of = known.run.as_ref().map_or_else(Vec::new, |run| run.keeps_records_of.clone());
        let run = DaemonRun {
            written_boot: boot.clone(),
            boot,
            before: last_end,
            served: false,
            ended: false,
            all_durable: false,
            keeps_records_of,
            shm,
        };
        let mut known = Known { run: Some(run), ..known };
        let state = StateFile::of(config);
        let fault = |error| ServerError::store(ssd.path.display(), error);
        // Before the first write: should its flush fail, the next start knows that not all need be durable.
        state.update(ssd, view.superblock(), Known { renaming, ..known.clone() })?;
        let mut device = files.device();
        known.pair_generations = begin(&files, &mut device, &state)?;
        let mut store = Store::begin(&mut device, view).map_err(fault)?;
        if is_renamed {
            store.write_names(&mut device).map_err(fault)?;
        }
        let unreadable_pages = store.view().unreadable_pages();
        if unreadable_pages > 0 {
            warn!("Cache on {}: {}", shown_paths(ssd), unreadable_metadata(unreadable_pages));
        }
        let superblock = store.superblock();
        state.update(ssd, superblock, known)?;
        info!(
            "Cache {} on {}, epoch {}, {} with blocks of {}{}",
            superblock.cache,
            shown_paths(ssd),
            superblock.epoch,
            Size(superblock.device_bytes),
            Size(superblock.block.bytes()),
            if files.is_direct() { "" } else { "; direct I/O does not work there, the page cache is used" }
        );
        let (media, disks) = serve_from(files, (&device, superblock.epoch), &state, disks, ssd)?;
        Ok(OpenSsd { media, disks, store, records, device })
    }

    /// Mends the volumes of which a check has found something to mend, and both copies of what describes the cache. What
    /// memory still has of the last run goes to the SSD with it.
    pub(crate) fn mend(mut self, checked: &[Result<VolumeCheck, impl Sized>]) -> Result<(), ServerError> {
        let mut device = self.files.device();
        let fault = |error| ServerError::store(self.ssd.path.display(), error);
        let state = StateFile::of(self.config);
        // Before the first write, as at a start.
        let boot = self.records.boot_text().map(str::to_owned);
        state.note_run(|run| (run.all_durable, run.written_boot) = (false, boot))?;
        self.known.pair_generations = begin(&self.files, &mut device, &state)?;
        let mut store = Store::begin(&mut device, self.view).map_err(fault)?;
        let mut mended = Vec::new();
        for check in checked.iter().flatten() {
            store.mend(&mut device, check).map_err(fault)?;
            mended.push(check);
        }
        if let Some(run) = &mut self.known.run {
            // The SSD has these records now.
            run.keeps_records_of.retain(|name| mended.iter().all(|check| check.info.name != *name));
        }
        let folders = self.known.run.as_ref().map_or_else(Vec::new, |run| run.shm.clone());
        state.update(self.ssd, store.superblock(), self.known)?;
        let tags: Vec<_> = mended.iter().map(|check| check.info.tag).collect();
        self.records.remove(&folders, &tags);
        Ok(())
    }
}

/// Opens the cache SSD that a configuration names, or the pairs of them.
fn open_ssd(config: &Config, ssd: &SsdConfig) -> Result<(SsdFiles, Superblock), ServerError> {
    let known = |cache: &str, number| StateFile::of(config).pair_generation(cache, number);
    if !ssd.pairs.is_empty() {
        return on_pairs(find_pairs(&ssd.pairs, ssd.timeout, known)?, ssd);
    }
    let file = open_patiently(&ssd.path, &OpenOptions::default()).map_err(|fault| {
        ServerError::because(ServerErrorKind::Media, "Cannot open the cache SSD (`ssd.path`)", fault)
    })?;
    if let Some(pair) = find_awaiting(&file, ssd, known)? {
        return on_pairs(vec![pair], ssd);
    }
    let superblock =
        Store::probe(&mut FileDevice::new(&file)).map_err(|error| no_cache(config, &file, error))?;
    Ok((SsdFiles::One(file), superblock))
}

fn on_pairs(pairs: Vec<PairFiles>, ssd: &SsdConfig) -> Result<(SsdFiles, Superblock), ServerError> {
    let fault = |error| ServerError::store(ssd.path.display(), error);
    let files = SsdFiles::Pairs(CachePairs::new(pairs).map_err(fault)?);
    let superblock = Store::probe(&mut files.device()).map_err(fault)?;
    Ok((files, superblock))
}

/// The paths of a cache SSD, for people.
fn shown_paths(ssd: &SsdConfig) -> String {
    let paths: Vec<_> = ssd.paths().map(|path| path.display().to_string()).collect();
    match &paths[..] {
        [one, other] => format!("{one} and {other}"),
        paths => paths.join(", "),
    }
}

/// What has to be before anything else is written to pairs, if the cache is on any: their labels say what is missing and that a run
/// begins, and the host remembers it. Gives the generation of the labels of each.
fn begin(
    files: &SsdFiles,
    device: &mut CacheDevice,
    state: &StateFile,
) -> Result<Vec<Option<u64>>, ServerError> {
    let (SsdFiles::Pairs(files), CacheDevice::Pairs(array)) = (files, device) else { return Ok(Vec::new()) };
    begin_pairs(files, array, |number, generation| state.note_pair(number, generation))?;
    Ok(array.pairs().map(|pair| Some(pair.generation)).collect())
}

/// What guests are served from, and what it lies on.
fn serve_from(
    files: SsdFiles,
    (device, epoch): (&CacheDevice, u64),
    state: &StateFile,
    of_daemon: &mut Disks,
    ssd: &SsdConfig,
) -> Result<(SsdMedia, DisksOf), ServerError> {
    match (files, device) {
        (SsdFiles::Pairs(CachePairs { pairs, stripes }), CacheDevice::Pairs(array)) => {
            let of_pairs = of_daemon.under_nothing();
            let serve = |(files, pair): (PairFiles, &Pair)| {
                let mut members = [None, None];
                for member in (0..MEMBERS).filter(|&member| pair.writes_to(member)) {
                    let path = files.paths[member].as_ref().expect("one that has come has a path");
                    members[member] = Some(of_daemon.under_path(path)?);
                }
                let disks = MemberDisks { pair: of_pairs.clone(), members };
                let pair = ServedPair::new(files, (*pair, epoch), disks, state.clone(), ssd.resilver);
                Ok(Arc::new(pair))
            };
            let pairs =
                pairs.into_iter().zip(array.pairs()).map(serve).collect::<Result<_, ServerError>>()?;
            Ok((SsdMedia::Pairs(ServedPairs { pairs, stripes }), of_pairs))
        }
        (SsdFiles::One(file), _) => {
            let disks = of_daemon.under_path(file.path())?;
            Ok((SsdMedia::One(file), disks))
        }
        (SsdFiles::Pairs(_), CacheDevice::One(_)) => unreachable!("files are opened as what they are"),
    }
}

/// The name by which the configuration knows a VM that was getting another one, and the name that it does not know; none where
/// nobody was, or the configuration has both or neither.
fn settled_name(config: &Config, known: &Known) -> Option<(String, String)> {
    let NewName { from, to } = known.renaming.clone()?;
    match (config.has_vm(&from), config.has_vm(&to)) {
        (false, true) => Some((to, from)),
        (true, false) => Some((from, to)),
        _ => None,
    }
}

impl OpenSsd {
    /// Recovers a volume, or makes it. From then on its records outlive the daemon, if there is memory for them.
    pub(crate) fn attach(&mut self, spec: &VolumeSpec) -> Result<Attached, ServerError> {
        let attached = self.store.attach(&mut self.device, spec);
        let mut attached =
            attached.map_err(|error| ServerError::store(format!("VM {}", spec.name), error))?;
        if let Some(storage) = self.records.storage(attached.tag()) {
            attached.keep_records_in(storage);
        }
        Ok(attached)
    }
}

/// Says what of a volume could not be read at a start.
pub(crate) fn tell_unreadable(name: &str, attached: &Attached) {
    if attached.unreadable_blocks > 0 {
        warn!(
            "VM {name}: {} blocks that are newer than the backing disk cannot be read on the SSD, or are not what they were: guests get \
             I/O errors for them until they are overwritten; see the system log, and restart if the SSD can be read again",
            attached.unreadable_blocks
        );
    }
    if attached.unreadable_pages > 0 {
        warn!("VM {name}: {}", unreadable_metadata(attached.unreadable_pages));
    }
}

/// What is said of pages of metadata that could not be read and were not needed.
fn unreadable_metadata(pages: u64) -> String {
    format!(
        "{pages} pages of metadata on the SSD could not be read. Nothing is missing, because something else says what they said; but look at \
         the system log, and replace the SSD if it goes on"
    )
}
