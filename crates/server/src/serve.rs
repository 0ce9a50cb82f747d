//! Putting the daemon together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use lode_format::{ReadSsdLabel, Superblock};
use lode_nbd::ExportInfo;
use lode_types::BlockSize;
use tracing::info;

use crate::config::{Address, Config, Listen};
use crate::control::{Control, Endpoint, Signals};
use crate::division::Divided;
use crate::error::{ServerError, ServerErrorKind};
use crate::events::{EventKind, Events};
use crate::host::Host;
use crate::identity::StateFile;
use crate::listen::Listener;
use crate::scrape::ScrapeThread;
use crate::sharing::{Sharing, Started, TableMemory};
use crate::space::{Space, SpaceOfShard};
use crate::start::{Prepared, Recovered, Start};
use crate::status::{CacheView, ReadSsdView};
use crate::threads::{ShardThread, ShardVms};

/// Serves the VMs of a configuration until SIGTERM, SIGINT or a `stop` on the control socket; then answers
/// what is in flight, saves what the cache holds, and returns.
///
/// # Errors
/// Whatever keeps it from starting, before anything is served; or the failure of a thread or driver. What
/// guests were told is durable is safe in either case.
pub fn serve(config: &Config) -> Result<(), ServerError> {
    let (_caught, signals, reloads) = Signals::catch().map_err(|error| {
        ServerError::because(ServerErrorKind::Thread, "Cannot catch signals; restart the service", error)
    })?;
    std::fs::create_dir_all(&config.state_dir).map_err(|error| {
        let what = format!("Cannot create `state_dir` {}", config.state_dir.display());
        ServerError::because(ServerErrorKind::Config, what, error)
    })?;
    // Before the SSD: a daemon that runs already has this socket.
    let commands = Listener::open(&Address::Unix(config.control.clone()).into())?;
    let start = Start::plan(config)?;
    // Before anything on the SSD changes. Clients that come early wait for the recovery.
    let endpoints = open_endpoints(config, &start.exports())?;
    let scraped = config.metrics.as_ref().map(Listener::open).transpose()?;
    let recovered = start.recover()?;
    let connections: Vec<_> = recovered.vms.iter().map(|_| Arc::new(AtomicU32::new(0))).collect();
    let events = Events::default();
    let sharing = begin_sharing(config, &recovered, &events);
    let shards = start_shards(config, recovered.vms, recovered.divided, &connections, &events)?;
    for endpoint in &endpoints {
        info!("Serving {} on {}", names(&endpoint.exports), endpoint.listener.address());
    }
    let now = Instant::now();
    let host = Host {
        name: config.name.clone(),
        last_end: recovered.last_end,
        cache: recovered.superblock.as_ref().map(view),
        read_ssd: recovered.read_ssd.as_ref().map(view_read_ssd),
        start: now,
        vms: connections.len(),
        shards: shards.iter().map(ShardThread::messenger).collect(),
        sharing: sharing.view(),
    };
    let control = Control {
        scraping: scraped.map(|listener| ScrapeThread::start(listener, host.clone())).transpose()?,
        host,
        config: config.clone(),
        sharing,
        events,
        endpoints,
        commands,
        shards,
        connections,
        signals,
        reloads,
        handshakes: Vec::new(),
        sessions: Vec::new(),
        stoppers: Vec::new(),
        drain_at_stop: false,
        accept_after: None,
        complain_after: now,
    };
    let (records, tags) = (recovered.records, recovered.tags);
    // What earlier runs left is on the SSD, durably: from here on it is this one's records that count.
    let state = StateFile::of(config);
    if let Some(records) = &records {
        state.note_run(|run| {
            run.shm = records.leave(&run.shm, &tags);
            (run.served, run.keeps_records_of) = (true, recovered.keeps_records_of);
        })?;
    }
    control.run()?;
    // Everything is saved. First what says so: whoever finds these files without it takes them for the only ones.
    if let Some(records) = &records {
        let has_failed = recovered.ssd_disks.is_some_and(|disks| disks.have_failed());
        state.note_run(|run| (run.ended, run.all_durable) = (true, recovered.serves_all && !has_failed))?;
        records.remove(&[], &tags);
    }
    Ok(())
}

/// The control loop of the VMs as they are served from now on.
fn begin_sharing(config: &Config, recovered: &Recovered, events: &Events) -> Sharing {
    let block = recovered.superblock.as_ref().map_or(BlockSize::KIB_4, |superblock| superblock.block);
    let started: Vec<Started> = recovered.vms.iter().map(|vm| vm.started).collect();
    let text = format!("lode {} serves {} VMs", env!("CARGO_PKG_VERSION"), started.len());
    events.note(EventKind::Start, None, text);
    let room = recovered.divided.as_ref().map(|divided| divided.room);
    let engines = recovered.vms.iter().zip(&config.vms);
    let engines = engines.map(|(vm, of_vm)| (*vm.engine.config(), of_vm.settings.clone()));
    let tables = TableMemory::new(recovered.tables_limit_bytes, recovered.extent_places, engines);
    Sharing::new(config, block.bytes(), &started, room, tables, events.clone())
}

/// One listening socket for each address, for all VMs that name it.
fn open_endpoints(config: &Config, exports: &[ExportInfo]) -> Result<Vec<Endpoint>, ServerError> {
    let mut by_address: BTreeMap<&Address, (&Listen, Vec<usize>)> = BTreeMap::new();
    for (at, vm) in config.vms.iter().enumerate() {
        for listen in &vm.listen {
            let (_, vms) = by_address.entry(&listen.address).or_insert((listen, Vec::new()));
            if !vms.contains(&at) {
                vms.push(at);
            }
        }
    }
    let endpoints = by_address.into_values().map(|(listen, vms)| {
        let exports = vms.iter().map(|vm| exports[*vm].clone()).collect();
        Ok(Endpoint { listener: Listener::open(listen)?, vms, exports })
    });
    endpoints.collect()
}

fn start_shards(
    config: &Config,
    prepared: Vec<Prepared>,
    divided: Option<Divided>,
    connections: &[Arc<AtomicU32>],
    events: &Events,
) -> Result<Vec<ShardThread>, ServerError> {
    let count = config.shards.min(prepared.len());
    let mut vms: Vec<ShardVms> = (0..count).map(|_| Vec::new()).collect();
    for (at, vm) in prepared.into_iter().enumerate() {
        vms[at % count].push((vm, Arc::clone(&connections[at])));
    }
    let space = divided.map(|divided| Arc::new(Space::new(divided.broker, divided.ssd, events.clone())));
    let start = |(number, vms)| {
        let space = space.clone().map(|space| SpaceOfShard { space, shard: number, shards: count });
        ShardThread::start(number, config, vms, events.clone(), space)
    };
    let shards = vms.into_iter().enumerate().map(start).collect::<Result<Vec<_>, _>>()?;
    if let Some(space) = &space {
        space.connect(shards.iter().map(ShardThread::messenger).collect());
    }
    Ok(shards)
}

fn names(exports: &[ExportInfo]) -> String {
    exports.iter().map(ExportInfo::name).collect::<Vec<_>>().join(", ")
}

fn view_read_ssd(label: &ReadSsdLabel) -> ReadSsdView {
    ReadSsdView { uuid: label.id.to_string(), device_bytes: label.device_bytes }
}

fn view(superblock: &Superblock) -> CacheView {
    CacheView {
        uuid: superblock.cache.to_string(),
        epoch: superblock.epoch,
        device_bytes: superblock.device_bytes,
        block_bytes: superblock.block.bytes(),
    }
}
