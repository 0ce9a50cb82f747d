//! What there is to divide between the VMs of a host while they are served: frames and extents, and how large shares can be
//! with them. It must not know who gets what.

use lode_engine::{EngineConfig, SpaceBroker};
use lode_policy::Quota;
use lode_store::StoreView;
use lode_types::Level;

use crate::config::{Config, Size};
use crate::space::DirectorySsd;
use crate::ssd::OpenSsd;
use crate::start::Prepared;

/// See the module's documentation.
pub(crate) struct Divided {
    /// It knows the VMs by their numbers.
    pub broker: SpaceBroker,
    pub ssd: Option<DirectorySsd>,
    /// What all shares together find space for; none where they do not change.
    pub room: Option<Quota>,
}

/// An engine with the largest share that it can be given.
pub(crate) fn largest(config: &EngineConfig) -> EngineConfig {
    EngineConfig { share: config.largest_share.unwrap_or(config.share), ..*config }
}

/// Memory that the host's VMs can have at one time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HostFrames {
    /// All shares together, in blocks.
    pub shares: u32,
    /// Frames for them, with what engines have beside their shares.
    pub frames: u64,
}

/// Memory for the VMs of a host that divides it.
pub(crate) fn frames_of_host<'e>(
    config: &Config,
    engines: impl Iterator<Item = &'e EngineConfig>,
) -> HostFrames {
    let largest: Vec<EngineConfig> = engines.map(largest).collect();
    let Some(one) = largest.first() else { return HostFrames::default() };
    let of_each: u64 = largest.iter().map(|engine| u64::from(engine.share.dram_blocks)).sum();
    let of_host = config.host.bytes.get(Level::Dram).map(|bytes| bytes / one.block.bytes());
    let shares = match of_host {
        // What the host has is there for VMs whose schemes come to use it only later.
        Some(of_host) => of_host,
        None if config.host.mode.measures() => {
            of_each.min(config.level_bytes(Level::Dram) / one.block.bytes())
        }
        None => of_each,
    };
    let shares = u32::try_from(shares).unwrap_or(u32::MAX);
    // Each has at least the least reserve, and all together no more than one with all of it beyond that.
    let with_all = EngineConfig { share: Quota::new(shares, 0), ..*one };
    let may_use = |engine: &&EngineConfig| of_host.is_some() || engine.share.dram_blocks > 0;
    let least = largest.iter().filter(may_use).map(|engine| u64::from(engine.reserve.of(Level::Dram)));
    let frames = with_all.places(Level::Dram) + least.sum::<u64>();
    let most: u64 = largest.iter().map(|engine| engine.places(Level::Dram)).sum();
    HostFrames { shares, frames: if of_host.is_some() { frames } else { frames.min(most) } }
}

impl Divided {
    /// Says where the host is to have more of the SSD than there is.
    pub(crate) fn tell_room(&self, config: &Config, block_bytes: u64) {
        let (Some(room), Some(&bytes)) = (self.room, config.host.bytes.get(Level::Ssd)) else { return };
        let room_bytes = u64::from(room.ssd_blocks) * block_bytes;
        if bytes > room_bytes {
            tracing::warn!(
                "`host.ssd` is {}, and the SSD has room for shares of {} in all beside what replacing blocks safely takes: that is \
                 what VMs divide",
                Size(bytes),
                Size(room_bytes)
            );
        }
    }

    /// Of a host with so much memory, when its VMs are recovered.
    pub(crate) fn of(memory: HostFrames, divides: bool, vms: &[Prepared], ssd: Option<OpenSsd>) -> Divided {
        let taken: u64 = vms.iter().map(|vm| u64::from(vm.engine.gauges().frames)).sum();
        let free = u32::try_from(memory.frames.saturating_sub(taken)).unwrap_or(u32::MAX);
        let shares = |level| vms.iter().map(|vm| u64::from(vm.started.share.of(level))).sum::<u64>();
        let ssd_room = ssd.as_ref().map_or(0, |ssd| {
            let view = ssd.store.view();
            ssd_room(view, vms).max(vms.iter().map(|vm| share_with_places(view, vm)).sum())
        });
        let ssd_room = u32::try_from(ssd_room).unwrap_or(u32::MAX);
        let dram_room = memory.shares.max(u32::try_from(shares(Level::Dram)).unwrap_or(u32::MAX));
        let room = divides.then_some(Quota::new(dram_room, ssd_room));
        let (directory, ssd) = ssd
            .map(|ssd| (ssd.store.into_directory(), DirectorySsd { media: ssd.media, disks: ssd.disks }))
            .unzip();
        let mut broker = SpaceBroker::new(free, directory);
        for (number, vm) in vms.iter().enumerate() {
            broker.join(number, vm.tag, vm.engine.gauges().frames);
        }
        Divided { broker, ssd, room }
    }
}

/// Blocks of the share that a VM begins with for which its volume has places: one that is older than the share may have fewer.
fn share_with_places(view: &StoreView, vm: &Prepared) -> u64 {
    let (share, needed) = (u64::from(vm.started.share.ssd_blocks), vm.engine.config().ssd_places().max(1));
    let mut volumes = view.volumes();
    let has =
        volumes.find(|volume| Some(volume.tag) == vm.tag).map_or(0, |volume| view.places_in(volume.extents));
    share.min(share * has / needed)
}

/// Blocks of all shares together for which these VMs' extents and free ones suffice, whoever has which: each has whole extents,
/// and a reserve beside its share.
fn ssd_room(view: &StoreView, vms: &[Prepared]) -> u64 {
    let is_served = |tag| vms.iter().any(|vm| vm.tag == Some(tag));
    let served = view.volumes().filter(|volume| is_served(volume.tag)).map(|volume| volume.extents);
    let extents = view.free_extents() + served.sum::<u32>();
    let with_volume = vms.iter().filter(|vm| vm.tag.is_some()).map(|vm| vm.engine.config());
    ssd_shares(view.places_in(extents), view.places_in(1), with_volume)
}

/// Blocks of all shares of these volumes for which so many places suffice, in extents of so many.
pub(crate) fn ssd_shares<'e>(
    places: u64,
    extent_places: u64,
    volumes: impl Iterator<Item = &'e EngineConfig>,
) -> u64 {
    let volumes: Vec<&EngineConfig> = volumes.collect();
    let of_each = volumes.iter().map(|config| u64::from(config.reserve.of(Level::Ssd)) + extent_places);
    let left = places.saturating_sub(of_each.sum());
    // Beside a large share its reserve grows with it.
    let all = u32::try_from(left).unwrap_or(u32::MAX);
    let Some(one) = volumes.first() else { return 0 };
    let with_all = EngineConfig { share: Quota::new(0, all), ..**one };
    left.saturating_sub(with_all.reserve_of(Level::Ssd).into())
}
