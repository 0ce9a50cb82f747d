//! Start-up: makes a plan for every VM, checks all of them, and recovers every VM's cache. Nothing is served before
//! all of it has succeeded.

mod ordered;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::time::Instant;

use lode_engine::{Engine, EngineConfig};
use lode_format::{Superblock, VolumeTag};
use lode_media::MediaFile;
use lode_nbd::ExportInfo;
use lode_policy::{Quota, SchemeInfo};
use lode_store::{Attached, Distrust, StoreView, VolumeSpec};
use lode_types::{BlockSize, Level};
use tracing::{info, warn};

use crate::config::{Config, Size, VmConfig};
use crate::division::{Divided, HostFrames, frames_of_host};
use crate::error::{ServerError, ServerErrorKind};
use crate::fence_file::{FenceFile, Noted};
use crate::files::{check_disk, check_files, open_backing};
use crate::identity::LastEnd;
use crate::live_scheme::LiveScheme;
use crate::memory::check_memory;
use crate::messages::LiveKeys;
use crate::pair::ServedPairs;
use crate::read_ssd::ReadSsd;
use crate::records::{Records, records_bytes};
use crate::redo::{self, OpenRedo};
use crate::shared::{Disks, DisksOf};
use crate::sharing::{Started, first_budget};
use crate::sidecar::claims::{Checked, Claims};
use crate::ssd::{FoundSsd, OpenSsd, SsdMedia, tell_unreadable};
use crate::status::ShmView;

/// One VM's disk, ready to be served by any thread.
pub(crate) struct Prepared {
    pub engine: Engine,
    /// The share that it begins with, and the largest that it can be given while it runs.
    pub started: Started,
    pub live: LiveKeys,
    pub scheme: LiveScheme,
    pub export: ExportInfo,
    pub backing: MediaFile,
    pub ssd: Option<SsdMedia>,
    pub read_ssd: Option<MediaFile>,
    /// Beside a disk that is written in the order of its guest's flushes.
    pub redo: Option<MediaFile>,
    /// What the files lie on, and whose flushes concern each other.
    pub disks: VmDisks,
    pub shm: ShmView,
    /// Its volume on the SSD, if it has one.
    pub tag: Option<VolumeTag>,
    /// What its next start is to know of a failed SSD.
    pub fence: FenceFile,
    /// What its sidecar said.
    pub disk: Option<Checked>,
    /// FLUSH and FUA are acknowledged at once.
    pub acknowledges_early: bool,
}

/// The disks under a VM's files.
#[derive(Clone, Debug)]
pub(crate) struct VmDisks {
    pub ssd: Option<DisksOf>,
    pub backing: DisksOf,
    pub redo: Option<DisksOf>,
}

/// A VM whose backing disk is open and checked.
pub(crate) struct Plan<'c> {
    vm: &'c VmConfig,
    backing: MediaFile,
    pub config: EngineConfig,
    /// Whether the host divides, and not the VM's own sizer.
    is_divided: bool,
    export: ExportInfo,
    /// It has a volume on the SSD, or is to have one.
    has_space: bool,
    /// Places of an extent there.
    extent_places: u32,
    fence: FenceFile,
    /// What is remembered of a device of it that failed, also from when its disk was another VM's.
    noted: Option<Noted>,
    /// What its sidecar says.
    disk: Option<Checked>,
    redo: Option<OpenRedo>,
}

impl Plan<'_> {
    /// It begins with another share than the configuration says, and can be given more up to `reach`; of the read SSD it has
    /// as much for good.
    pub(crate) fn begin_with(&mut self, share: Quota, reach: Quota) {
        self.config.share = share;
        self.config.largest_share = Some(reach);
        self.config.write_back = self.vm.write_back.limits(share.ssd_blocks, self.config.block.bytes());
        self.has_space = reach.ssd_blocks > 0;
    }

    /// Where its part of the read SSD begins.
    pub(crate) fn begin_read_ssd_at(&mut self, start_bytes: u64) {
        self.config.read_ssd_start_bytes = start_bytes;
    }

    /// It has nothing on the SSD any more that would not be believed.
    pub(crate) fn obey_fence(&mut self) -> Result<(), ServerError> {
        self.noted.take().map_or(Ok(()), |noted| self.fence.obeyed(noted))
    }

    /// Why nothing that is clean on the SSD may be believed: somebody else wrote to the disk.
    fn drops_clean(&self) -> Option<&str> {
        self.disk.as_ref()?.drops_clean.as_deref()
    }

    /// What of it on the SSD is not to be believed.
    fn distrusts(&self) -> Option<Distrust> {
        self.noted
            .as_ref()
            .map(|noted| noted.distrust)
            .or_else(|| self.drops_clean().map(|_| Distrust::Clean))
    }

    /// Its disk was looked at.
    pub(crate) fn note_disk(&mut self, disk: Checked) {
        self.disk = Some(disk);
    }

    /// With what it has on the SSDs.
    pub(crate) fn ready(
        self,
        attached: Option<Attached>,
        ssd: Option<SsdMedia>,
        read_ssd: Option<MediaFile>,
        disks: VmDisks,
    ) -> Prepared {
        let Plan { vm, backing, mut config, is_divided, export, fence, disk, redo, .. } = self;
        config.ssd_is_pair = ssd.as_ref().is_some_and(|ssd| ssd.pairs().is_some());
        let shm = attached.as_ref().map_or(ShmView::default(), |attached| ShmView {
            bytes: if attached.keeps_records() { records_bytes() } else { 0 },
            records_taken_over: attached.taken_over_records,
        });
        let tag = attached.as_ref().map(Attached::tag);
        // The shard has it take over what was found, while guests are served.
        let engine = Engine::start(config, &vm.settings, attached);
        let scheme = LiveScheme::new(vm.settings.clone(), is_divided, config.share);
        let (share, largest_share) = (config.share, config.largest_share);
        let started = Started { number: 0, share, largest_share, has_volume: tag.is_some() };
        let live = LiveKeys::of(vm, largest_share);
        Prepared {
            engine,
            scheme,
            started,
            live,
            export,
            backing,
            ssd,
            read_ssd,
            disk: disk.map(|disk| disk.with_redo(redo.as_ref().map(|redo| redo.file.clone()))),
            redo: redo.map(|redo| redo.file),
            disks,
            shm,
            tag,
            fence,
            acknowledges_early: vm.acknowledges_early,
        }
    }

    /// What it asks of the SSD. Where `kept` is given, a volume goes on with the extents that it has there, and gets others,
    /// or gives some back, when it is served.
    fn spec(&self, kept: Option<&StoreView>) -> VolumeSpec {
        // Without a share as well a volume takes an extent, of which nobody else may have a part to spare.
        let needed = self.config.ssd_places().max(self.has_space.into());
        let spare = self.config.spare_ssd_places();
        let (places, spare_places) = match kept.map_or(0, |view| view.places_of(&self.vm.name)) {
            0 => (needed, spare),
            has => (has, (needed + spare).saturating_sub(has)),
        };
        VolumeSpec {
            name: self.vm.name.clone(),
            backing_bytes: self.config.volume_bytes,
            places,
            spare_places,
            ready_places: VolumeSpec::READY_BYTES / self.config.block.bytes(),
            read_only: self.vm.read_only,
            distrusts: self.distrusts(),
        }
    }
}

/// Everything that the configuration names, opened and checked. The cache SSD has not been changed: whatever is
/// refused until here leaves the last run of the cache as it was.
pub(crate) struct Start<'c> {
    plans: Vec<Plan<'c>>,
    ssd: Option<FoundSsd<'c>>,
    read_ssd: Option<ReadSsd>,
    /// Volumes go on with the extents that they have.
    keeps_extents: bool,
    /// Volumes that nobody serves, and that hold nothing which their backing disks do not have.
    expendable: Vec<String>,
    /// Memory for frames of all VMs.
    frames: HostFrames,
    divides: bool,
    /// Memory for tables of all VMs.
    tables_limit_bytes: u64,
    extent_places: u32,
    claims: Claims,
}

impl<'c> Start<'c> {
    /// Opens and checks what the configuration names.
    pub(crate) fn plan(config: &'c Config) -> Result<Start<'c>, ServerError> {
        check_files(config)?;
        let backings = config.vms.iter().map(open_backing).collect::<Result<Vec<_>, _>>()?;
        let mut ssd = FoundSsd::find(config)?;
        let block = ssd.as_ref().map_or(BlockSize::KIB_4, |ssd| ssd.view.superblock().block);
        let vms = config.vms.iter().zip(backings);
        let plan = |(vm, backing): (&'c VmConfig, _)| plan_vm(config, vm, backing, block);
        let mut plans = vms.map(plan).collect::<Result<Vec<_>, _>>()?;
        if let Some(ssd) = &ssd {
            let known: HashSet<String> = ssd.view.volumes().map(|volume| volume.name).collect();
            // A VM whose share is gone may have left dirty blocks.
            plans.iter_mut().for_each(|plan| plan.has_space |= known.contains(&plan.vm.name));
        }
        give_volumes(&mut plans, ssd.as_ref().map(|ssd| &ssd.view));
        let (frames, divides) =
            (frames_of_host(config, plans.iter().map(|plan| &plan.config)), config.divides());
        let extent_places = ssd.as_ref().map_or(1, |ssd| ssd.view.places_in(1) as u32);
        let engines = plans.iter().map(|plan| (&plan.config, &plan.vm.settings, plan.has_space));
        let tables_limit_bytes = check_memory(engines, extent_places, divides.then_some(frames))?;
        plans.iter_mut().for_each(|plan| plan.extent_places = extent_places);
        let read_ssd = ReadSsd::find(config, ssd.as_mut())?;
        if let Some(read_ssd) = &read_ssd {
            read_ssd.divide(plans.iter_mut().map(|plan| &mut plan.config))?;
        }
        let (mut keeps_extents, mut expendable) = (false, Vec::new());
        if let Some(ssd) = &mut ssd {
            let of_ssd = || plans.iter().filter(|plan| plan.has_space);
            // A VM that is new may need what others have beyond the shares that they begin with.
            let kept: Vec<_> = of_ssd().map(|plan| plan.spec(Some(&ssd.view))).collect();
            keeps_extents = divides && ssd.check(&kept).is_ok();
            if !keeps_extents {
                ssd.check(&of_ssd().map(|plan| plan.spec(None)).collect::<Vec<_>>())?;
            }
            plans.iter().try_for_each(|plan| ssd.check_backing(plan.vm))?;
            expendable = ssd.check_strangers()?;
        }
        let cache = ssd.as_ref().map(|ssd| ssd.view.superblock().cache.to_string());
        let claims = Claims::new(config, cache);
        for plan in &mut plans {
            let of_ssd = ssd.as_ref().map_or((None, None), |ssd| ssd.of_volume(&plan.vm.name));
            let count = || ssd.as_ref().map_or(Ok(0), |ssd| ssd.dirty_blocks(&plan.vm.name));
            plan.disk = Some(claims.check(config, plan.vm, &plan.backing, of_ssd, count)?);
            let volume = ssd
                .as_ref()
                .and_then(|ssd| Some((ssd.view.superblock().cache, ssd.of_volume(&plan.vm.name).0?)));
            plan.check_redo(volume, count, &|tag| ssd.as_ref()?.name_of(tag))?;
        }
        Ok(Start {
            claims,
            plans,
            ssd,
            read_ssd,
            keeps_extents,
            expendable,
            frames,
            divides,
            tables_limit_bytes,
            extent_places,
        })
    }

    /// What each VM's clients will see, in the order of the configuration.
    pub(crate) fn exports(&self) -> Vec<ExportInfo> {
        self.plans.iter().map(|plan| plan.export.clone()).collect()
    }

    /// How many SSDs of pairs have everything and are there; 0 where the cache is on no pair.
    pub(crate) fn members_in_use(&self) -> usize {
        self.ssd.as_ref().map_or(0, |ssd| ssd.files.members_in_use())
    }

    /// Begins a new run of the cache and recovers what it holds. Returns the identities of the SSDs as well.
    pub(crate) fn recover(self) -> Result<Recovered, ServerError> {
        let Start {
            plans,
            ssd,
            read_ssd,
            keeps_extents,
            expendable,
            frames,
            divides,
            tables_limit_bytes,
            extent_places,
            claims,
        } = self;
        let last_end = ssd.as_ref().map_or(LastEnd::None, |ssd| ssd.last_end);
        let mut disks = Disks::default();
        let mut ssd = ssd.map(|ssd| ssd.open(&mut disks)).transpose()?;
        let ssd_disks = ssd.as_ref().map(|ssd| ssd.disks.clone());
        let kept = ssd.as_ref().filter(|_| keeps_extents).map(|ssd| ssd.store.view());
        let mut specs: Vec<_> = plans.iter().map(|plan| plan.spec(kept)).collect();
        let order = match &ssd {
            Some(ssd) => {
                ssd.store.view().grant_spares(&mut specs);
                ssd.store.view().attach_order(&specs)
            }
            None => (0..plans.len()).collect(),
        };
        let mut plans: Vec<_> = plans.into_iter().map(Some).collect();
        let mut prepared: Vec<_> = plans.iter().map(|_| None).collect();
        for at in order {
            let plan = plans[at].take().expect("an order names everything once");
            let backing = disks.under_path(&plan.vm.backing)?;
            let folder = redo::folder_of(plan.vm)?;
            let redo = folder.map(|folder| disks.under_path(&folder)).transpose()?;
            let disks = VmDisks { ssd: ssd_disks.clone(), backing, redo };
            prepared[at] = Some(prepare_vm(plan, &specs[at], ssd.as_mut(), read_ssd.as_ref(), disks)?);
        }
        let mut vms: Vec<Prepared> = prepared.into_iter().flatten().collect();
        let disks_of_vms = vms.iter_mut().enumerate();
        let disks_of_vms = disks_of_vms.filter_map(|(number, vm)| Some((number, vm.disk.take()?, vm.tag)));
        claims.begin(disks_of_vms.collect())?;
        tell_last_end(last_end, &vms);
        let serves = |tag| vms.iter().any(|vm| vm.tag == Some(tag));
        let keeps = vms.iter().filter(|vm| vm.shm.bytes > 0).map(|vm| vm.export.name().to_owned());
        Ok(Recovered {
            serves_all: ssd.as_ref().is_none_or(|ssd| ssd.store.view().volumes().all(|one| serves(one.tag))),
            keeps_records_of: keeps.collect(),
            last_end,
            records: ssd.as_ref().map(|ssd| ssd.records.clone()),
            superblock: ssd.as_ref().map(|ssd| *ssd.store.superblock()),
            pairs: ssd.as_ref().and_then(|ssd| ssd.media.pairs()),
            divided: Divided::of(frames, divides, &vms, ssd),
            disks,
            expendable,
            tables_limit_bytes,
            extent_places,
            ssd_disks,
            claims,
            vms,
            read_ssd,
        })
    }
}

/// What is ready to be served, and the identities of the SSDs.
pub(crate) struct Recovered {
    pub vms: Vec<Prepared>,
    pub last_end: LastEnd,
    /// Every volume that has space on the cache SSD is served.
    pub serves_all: bool,
    /// VMs whose records outlive the daemon.
    pub keeps_records_of: Vec<String>,
    /// What the cache SSD lies on.
    pub ssd_disks: Option<DisksOf>,
    /// Where journal records outlive the daemon.
    pub records: Option<Records>,
    /// All disks, by what lies on them.
    pub disks: Disks,
    /// Volumes that nobody serves, and that hold nothing which their backing disks do not have.
    pub expendable: Vec<String>,
    pub superblock: Option<Superblock>,
    /// The pairs of SSDs that the cache is on, if it is on any.
    pub pairs: Option<ServedPairs>,
    /// Frames and extents, and where they go.
    pub divided: Divided,
    /// Memory for tables of all VMs.
    pub tables_limit_bytes: u64,
    /// Places of an extent of the cache SSD.
    pub extent_places: u32,
    pub read_ssd: Option<ReadSsd>,
    /// The disks, which are served from now on.
    pub claims: Claims,
}

/// Of the extents that shares leave, those with volumes of VMs that have no share yet are at most one of so many.
const LEFT_TO_SHARES: usize = 2;

/// Whoever has no share of the SSD and may be given one while it is served has a volume there from the start, of one extent.
/// Without a volume there is no space for it.
fn give_volumes(plans: &mut [Plan<'_>], view: Option<&StoreView>) {
    let specs: Vec<_> = plans.iter().filter(|plan| plan.has_space).map(|plan| plan.spec(None)).collect();
    let mut room = view.map_or(0, |view| view.volumes_left(&specs) / LEFT_TO_SHARES);
    let mut without = Vec::new();
    for plan in plans.iter_mut().filter(|plan| !plan.has_space) {
        let Some(most) = plan.config.largest_share.filter(|most| most.ssd_blocks > 0) else { continue };
        if room > 0 {
            (room, plan.has_space) = (room - 1, true);
        } else {
            plan.config.largest_share = Some(most.with(Level::Ssd, 0));
            without.push(plan.vm.name.as_str());
        }
    }
    if let [first, ..] = without[..] {
        warn!(
            "VM {first}{} cannot be given a share of the cache SSD before a restart: with what shares leave there is no room for \
             {} volume(s) more beside growing ones. Name a share (`ssd`) for it, or make shares of others smaller",
            if without.len() > 1 { format!(" and {} others", without.len() - 1) } else { String::new() },
            without.len()
        );
    }
}

/// Checks a VM whose backing disk is open.
pub(crate) fn plan_vm<'c>(
    host: &'c Config,
    vm: &'c VmConfig,
    backing: MediaFile,
    block: BlockSize,
) -> Result<Plan<'c>, ServerError> {
    let fence = FenceFile::of(host, &vm.name).of_disk(&vm.backing);
    check_disk(vm, backing.size_bytes(), block)?;
    let config = engine_config(host, vm, backing.size_bytes(), block)?;
    let export = ExportInfo::new(&vm.name, config.volume_bytes)
        .and_then(|export| export.with_description("A disk cached by Lodestore"))
        .and_then(|export| export.with_preferred_block_bytes(block.bytes() as u32))
        .map_err(|error| ServerError::because(ServerErrorKind::Config, format!("VM {}", vm.name), error))?
        .with_read_only(vm.read_only);
    let noted = fence.noted_of_disk()?;
    let (has_space, is_divided) = (config.share.ssd_blocks > 0, host.host.mode.measures());
    Ok(Plan {
        vm,
        backing,
        config,
        is_divided,
        export,
        has_space,
        extent_places: 1,
        fence,
        noted,
        disk: None,
        redo: None,
    })
}

/// What an engine is made for, of a VM with a disk of so many bytes.
pub(crate) fn engine_config(
    host: &Config,
    vm: &VmConfig,
    disk_bytes: u64,
    block: BlockSize,
) -> Result<EngineConfig, ServerError> {
    // Sizes are whole blocks and bounded, and of levels that the scheme uses: the configuration saw to it, but not how many
    // blocks they are.
    let blocks = |bytes: u64| (bytes / block.bytes()) as u32;
    let share = Quota::new(blocks(vm.dram_bytes), blocks(vm.ssd_bytes));
    let share = share.with(Level::ReadSsd, blocks(vm.read_ssd_bytes));
    let refused = |error| ServerError::because(ServerErrorKind::Config, format!("VM {}", vm.name), error);
    let scheme = SchemeInfo::find(vm.settings.scheme()).map_err(refused)?;
    scheme.check_needs(share).map_err(refused)?;
    let mut config = EngineConfig::new(block, disk_bytes, share);
    let reach = Level::SIZED
        .into_iter()
        .fold(share, |most, level| most.with(level, blocks(host.reach_bytes(vm, level))));
    // What it has beyond its share is others', whoever comes; but for one that divides its share itself.
    let sizes_itself = vm.settings.measures_demand() && !host.host.mode.measures();
    config.largest_share = (host.divides() || !sizes_itself).then_some(reach);
    config.write_back = vm.write_back.limits(share.ssd_blocks, block.bytes());
    config.ordered = vm.write_back.ordered(block.bytes()).filter(|_| vm.is_ordered());
    config.scrub_ticks = vm.scrub.ticks();
    config.host_budget = first_budget(host, vm, block);
    Ok(config)
}

fn prepare_vm(
    mut plan: Plan<'_>,
    spec: &VolumeSpec,
    ssd: Option<&mut OpenSsd>,
    read_ssd: Option<&ReadSsd>,
    disks: VmDisks,
) -> Result<Prepared, ServerError> {
    let began = Instant::now();
    let name = &plan.vm.name;
    plan.apply_redo()?;
    let mut ssd = ssd.filter(|_| plan.has_space);
    let attached = ssd.as_mut().map(|ssd| ssd.attach(spec)).transpose()?;
    plan.prepare_redo(attached.as_ref())?;
    if let Some(why) = plan.drops_clean() {
        warn!("VM {name}: {why}. The clean blocks that the cache held of it were dropped");
    }
    if attached.is_some() {
        plan.noted.iter().for_each(|noted| warn!("VM {name}: {}", noted.reason()));
    }
    if plan.has_new_redo() && plan.noted.as_ref().is_some_and(Noted::is_of_this_boot) {
        warn!(
            "VM {name}: there was no redo log. Until this host was rebooted the backing disk alone may lose what was written before \
             that flush, and not what is written now: should every cache SSD be lost until then, look at it with `fsck`"
        );
    }
    if attached.is_some() || !plan.has_space {
        plan.obey_fence()?;
    }
    let (recovered, dirty) = attached.as_ref().map_or((0, 0), Attached::recovered_blocks);
    attached.iter().for_each(|attached| tell_unreadable(name, attached));
    info!(
        "VM {name}: {} disk, {recovered} recovered blocks ({dirty} newer than the disk) in {:.1} s; takes at most {} of memory",
        Size(plan.config.volume_bytes),
        began.elapsed().as_secs_f64(),
        Size(plan.config.most_memory(&plan.vm.settings, plan.extent_places).total_bytes()),
    );
    let read_ssd = read_ssd.filter(|_| plan.config.share.read_ssd_blocks > 0).map(|ssd| ssd.file.clone());
    Ok(plan.ready(attached, ssd.map(|ssd| ssd.media.clone()), read_ssd, disks))
}

/// Says what became of the last run's writes, unless it was stopped in order.
fn tell_last_end(last_end: LastEnd, vms: &[Prepared]) {
    let taken_over: u64 = vms.iter().map(|vm| vm.shm.records_taken_over).sum();
    match last_end {
        LastEnd::None | LastEnd::Orderly => {}
        LastEnd::Killed => warn!(
            "The last run was killed or crashed, and this host has been up since: {taken_over} journal records that the SSD \
             did not have were taken over from memory"
        ),
        LastEnd::HostLost => warn!(
            "The last run ended with this host (power failure, reset): what guests wrote and did not flush may be missing, \
             as after every power failure"
        ),
    }
}
