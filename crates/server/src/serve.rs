//! Putting the daemon together.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use lode_format::{ReadSsdLabel, Superblock};
use lode_nbd::ExportInfo;
use lode_types::BlockSize;
use tracing::info;

use crate::config::{Address, Config, Listen, SsdConfig};
use crate::control::{Control, EndOfService, Endpoint, Signals};
use crate::danger::warn_of;
use crate::division::Divided;
use crate::error::{ServerError, ServerErrorKind};
use crate::events::{EventKind, Events};
use crate::host::Host;
use crate::identity::StateFile;
use crate::listen::Listener;
use crate::membership::{Changes, Parts, resume_device};
use crate::read_ssd::ReadSsdParts;
use crate::scrape::ScrapeThread;
use crate::served::{ServedVm, ServedVms};
use crate::sharing::{Sharing, Started, TableMemory};
use crate::space::{SharedSpace, SpaceOfShard};
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
    let commands = Listener::open(&config.control_listen())?;
    let start = Start::plan(config)?;
    // Before anything on the SSD changes. Clients that come early wait for the recovery.
    let endpoints = open_endpoints(config, &start.exports())?;
    let scraped = config.metrics.as_ref().map(Listener::open).transpose()?;
    let recovered = recover(config, start)?;
    warn_of(config);
    let keeps_records_of = recovered.keeps_records_of.clone();
    let (records, serves_all) = (recovered.records.clone(), recovered.serves_all);
    let ssd_disks = recovered.ssd_disks.clone();
    let control = control(config, recovered, Sockets { commands, endpoints, scraped, signals, reloads })?;
    // What earlier runs left is on the SSD, durably: from here on it is this one's records that count.
    let (state, tags) = (StateFile::of(config), control.served.tags());
    if let Some(records) = &records {
        state.note_run(|run| {
            run.shm = records.leave(&run.shm, &tags);
            (run.served, run.keeps_records_of) = (true, keeps_records_of);
        })?;
    }
    let (parts, pairs) = (Arc::clone(&control.parts), control.host.pairs.clone());
    let EndOfService { tags, disks, outcome } = control.run();
    pairs.iter().flat_map(|pairs| &pairs.pairs).for_each(|pair| pair.close());
    parts.claims.end(&disks);
    outcome?;
    // Everything is saved. First what says so: whoever finds these files without it takes them for the only ones.
    if let Some(records) = &records {
        let has_failed = ssd_disks.is_some_and(|disks| disks.have_failed());
        state.note_run(|run| (run.ended, run.all_durable) = (true, serves_all && !has_failed))?;
        records.remove(&[], &tags);
    }
    Ok(())
}

/// Recovers what the SSD holds. When one of a pair fails on the way it is dropped, and everything is looked for again without it:
/// what was found on the one that failed is believed no more.
fn recover<'c>(config: &'c Config, mut start: Start<'c>) -> Result<Recovered, ServerError> {
    loop {
        let before = start.members_in_use();
        let error = match start.recover() {
            Ok(recovered) => return Ok(recovered),
            Err(error) if before == 0 => return Err(error),
            Err(error) => error,
        };
        match Start::plan(config) {
            Ok(again) if again.members_in_use() < before => {
                tracing::warn!("The start begins again without the SSD of the pair that failed: {error}");
                start = again;
            }
            _ => return Err(error),
        }
    }
}

/// What the control thread listens on.
struct Sockets {
    commands: Listener,
    endpoints: Vec<Endpoint>,
    scraped: Option<Listener>,
    signals: UnixStream,
    reloads: UnixStream,
}

/// Starts the shards, and puts the control thread's state together.
fn control(config: &Config, recovered: Recovered, sockets: Sockets) -> Result<Control, ServerError> {
    let Sockets { commands, endpoints, scraped, signals, reloads } = sockets;
    let changes = Changes::new().map_err(|error| {
        let what = "Cannot wait for threads; raise the limit of open files";
        ServerError::because(ServerErrorKind::Thread, what, error)
    })?;
    let served = served_vms(&recovered.vms);
    let events = Events::default();
    let sharing = begin_sharing(config, &recovered, &events);
    let pairs = recovered.pairs.iter().flat_map(|pairs| &pairs.pairs);
    pairs.for_each(|pair| pair.connect(events.clone()));
    let read_ssd_view = recovered.read_ssd.as_ref().map(|read_ssd| view_read_ssd(&read_ssd.label));
    let engines = recovered.vms.iter().map(|vm| vm.engine.config()).enumerate();
    let read_ssd = recovered.read_ssd.map(|read_ssd| ReadSsdParts::new(read_ssd, engines));
    let Divided { broker, ssd, .. } = recovered.divided;
    let space = Arc::new(SharedSpace::new(broker, ssd, events.clone()));
    let shards = start_shards(config, recovered.vms, &space, &served, &events)?;
    for endpoint in &endpoints {
        info!("Serving {} on {}", names(&endpoint.exports), endpoint.listener.address());
    }
    let now = Instant::now();
    let host = Host {
        name: config.name.clone(),
        last_end: recovered.last_end,
        cache: recovered.superblock.as_ref().map(|superblock| view(superblock, config)),
        read_ssd: read_ssd_view,
        pairs: recovered.pairs,
        start: now,
        shards: shards.iter().map(ShardThread::messenger).collect(),
        sharing: sharing.view(),
    };
    let parts = Parts {
        host: host.clone(),
        space,
        records: recovered.records,
        read_ssd,
        disks: Mutex::new(recovered.disks),
        expendable: recovered.expendable,
        claims: recovered.claims,
        block: recovered.superblock.as_ref().map_or(BlockSize::KIB_4, |superblock| superblock.block),
        extent_places: recovered.extent_places,
    };
    resume_device(&parts);
    Ok(Control {
        parts: Arc::new(parts),
        changes,
        scraping: scraped.map(|listener| ScrapeThread::start(listener, host.clone())).transpose()?,
        host,
        config: config.clone(),
        sharing,
        events,
        endpoints,
        commands,
        shards,
        served,
        signals,
        reloads,
        handshakes: Vec::new(),
        sessions: Vec::new(),
        stoppers: Vec::new(),
        drain_at_stop: false,
        accept_after: None,
        complain_after: now,
    })
}

/// The control loop of the VMs as they are served from now on.
fn begin_sharing(config: &Config, recovered: &Recovered, events: &Events) -> Sharing {
    let block = recovered.superblock.as_ref().map_or(BlockSize::KIB_4, |superblock| superblock.block);
    let numbered = recovered.vms.iter().enumerate();
    let started: Vec<Started> = numbered.map(|(number, vm)| Started { number, ..vm.started }).collect();
    let text = format!("lode {} serves {} VMs", env!("CARGO_PKG_VERSION"), started.len());
    events.note(EventKind::Start, None, text);
    recovered.divided.tell_room(config, block.bytes());
    let room = recovered.divided.room;
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

/// The VMs as a start numbers them.
fn served_vms(vms: &[Prepared]) -> ServedVms {
    let served = |(number, vm): (usize, &Prepared)| ServedVm {
        number,
        connections: Arc::new(AtomicU32::new(0)),
        export: vm.export.clone(),
        tag: vm.tag,
    };
    ServedVms { list: vms.iter().enumerate().map(served).collect(), spent: Vec::new() }
}

fn start_shards(
    config: &Config,
    prepared: Vec<Prepared>,
    space: &Arc<SharedSpace>,
    served: &ServedVms,
    events: &Events,
) -> Result<Vec<ShardThread>, ServerError> {
    let count = config.shards.min(prepared.len());
    let mut vms: Vec<ShardVms> = (0..count).map(|_| Vec::new()).collect();
    for (vm, served) in prepared.into_iter().zip(&served.list) {
        vms[served.number % count].push((vm, Arc::clone(&served.connections)));
    }
    let start = |(number, vms)| {
        let space = SpaceOfShard { space: Arc::clone(space), shard: number, shards: count };
        ShardThread::start(number, config, vms, events.clone(), Some(space))
    };
    let shards = vms.into_iter().enumerate().map(start).collect::<Result<Vec<_>, _>>()?;
    space.connect(shards.iter().map(ShardThread::messenger).collect());
    Ok(shards)
}

fn names(exports: &[ExportInfo]) -> String {
    exports.iter().map(ExportInfo::name).collect::<Vec<_>>().join(", ")
}

fn view_read_ssd(label: &ReadSsdLabel) -> ReadSsdView {
    ReadSsdView { uuid: label.id.to_string(), device_bytes: label.device_bytes }
}

/// What may be written to the cache in all: each SSD of one of several pairs takes its part of that.
fn rated_write_bytes(ssd: &SsdConfig) -> Option<u64> {
    ssd.rated_write_bytes.map(|bytes| bytes.saturating_mul(ssd.pairs.len().max(1) as u64))
}

fn view(superblock: &Superblock, config: &Config) -> CacheView {
    CacheView {
        uuid: superblock.cache.to_string(),
        epoch: superblock.epoch,
        device_bytes: superblock.device_bytes,
        block_bytes: superblock.block.bytes(),
        rated_write_bytes: config.ssd.as_ref().and_then(rated_write_bytes),
        pair: None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::path::Path;
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// Two VMs without a cache, in this folder.
    fn config(folder: &Path) -> Config {
        let path = folder.display();
        let mut text = format!("name = \"a\"\nstate_dir = \"{path}\"\nio = \"threads\"\n");
        for vm in ["one", "two"] {
            std::fs::File::create(folder.join(vm)).unwrap().set_len(1 << 20).unwrap();
            text += &format!(
                "[[vm]]\nname = \"{vm}\"\nbacking = {{ path = \"{path}/{vm}\" }}\nlisten = [\"unix:{path}/{vm}.sock\"]\n"
            );
        }
        let file = folder.join("a.toml");
        std::fs::write(&file, text).unwrap();
        Config::load(&file).unwrap()
    }

    fn connect(path: &Path) -> UnixStream {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Asks on a connection of its own.
    fn ask(folder: &Path, request: &Value) -> Value {
        let mut stream = connect(&folder.join("a.sock"));
        stream.write_all(format!("{request}\n").as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    #[test]
    fn a_defect_of_the_control_thread_ends_steering_and_no_vm() {
        let folder = tempfile::TempDir::new().unwrap();
        let config = config(folder.path());
        let (_caught, signals, reloads) = Signals::catch().unwrap();
        let commands = Listener::open(&config.control_listen()).unwrap();
        let start = Start::plan(&config).unwrap();
        let endpoints = open_endpoints(&config, &start.exports()).unwrap();
        let sockets = Sockets { commands, endpoints, scraped: None, signals, reloads };
        let mut control = control(&config, start.recover().unwrap(), sockets).unwrap();
        control.sharing.bring_about_a_defect();
        let served = std::thread::spawn(move || control.run().outcome);
        let set = json!({"cmd": "vm-set", "vm": "one", "set": {"limits.connections": "3"}});
        let answer = ask(folder.path(), &set);
        let said = answer["error"].as_str().unwrap();
        assert!(said.contains("a defect of the program ended") && said.contains("served on"), "{said}");
        // From then on nothing is changed, which everybody is told.
        for request in [set, json!({"cmd": "reload"}), json!({"cmd": "vm-remove", "vm": "two"})] {
            let answer = ask(folder.path(), &request);
            assert!(answer["error"].as_str().unwrap().contains("restart the service"), "{answer}");
        }
        let status = ask(folder.path(), &json!({"cmd": "status"}));
        assert_eq!(
            (&status["host"]["stopped"], status["vms"].as_array().map(Vec::len)),
            (&json!(true), Some(2))
        );
        let events = ask(folder.path(), &json!({"cmd": "events"})).to_string();
        assert!(events.contains("a defect of the program ended"), "{events}");
        assert_eq!(ask(folder.path(), &json!({"cmd": "drain"})), json!({"draining_blocks": 0}));
        let mut greeting = [0; 8];
        connect(&folder.path().join("two.sock")).read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting, b"NBDMAGIC");
        assert_eq!(ask(folder.path(), &json!({"cmd": "stop"})), json!({"stopping": true}));
        served.join().unwrap().unwrap();
    }
}
