//! Daemons with a VM for each scheme, and for the ways in which schemes write.

use std::fmt::Write as _;
use std::fs::File;

use lode_policy::{SchemeInfo, all_schemes};
use lode_types::Level;

use crate::client::Client;
use crate::common::{Daemon, MIB, Numbers, Site, lode_ok};
use crate::equality::eventful;
use crate::known::{KnownDisk, Older, SECTOR_BYTES, Writer};

/// More than a VM's share of the SSD.
const DISK_MIB: u64 = 8;
const DRAM_MIB: u64 = 1;
const SSD_MIB: u64 = 5;
const READ_SSD_MIB: u64 = 2;

/// Most of a round is waiting, so that several hosts at once take little longer than one.
const HOSTS: usize = 3;

/// Ways of writing that are not those of the scheme's own settings.
const WAYS: &[(&str, &[&str])] = &[
    ("etica", &["mode=npe"]),
    ("etica", &["mode=full-strict"]),
    ("lru", &["write_policy=wt"]),
    ("lru", &["write_policy=ro"]),
    ("lru", &["write_policy=wbwo"]),
    ("lru", &["write_policy=wa"]),
    ("s-rac-like", &["write_policy=wb"]),
    ("opencas-like", &["write_policy=pt"]),
    ("flashcache", &["write_policy=wb"]),
    ("request-oriented", &["admission=sync", "reissue=on"]),
];

/// A scheme and its settings.
#[derive(Clone)]
pub struct Kind {
    info: &'static SchemeInfo,
    sets: &'static [&'static str],
}

impl Kind {
    pub fn new(scheme: &str, sets: &'static [&'static str]) -> Kind {
        Kind { info: SchemeInfo::find(scheme).unwrap(), sets }
    }

    /// Every scheme that a daemon can run, and every way of writing.
    pub fn all() -> Vec<Kind> {
        let schemes = all_schemes().iter().filter(|info| !info.needs_future());
        let own = schemes.map(|info| Kind { info, sets: eventful(info.name) });
        own.chain(WAYS.iter().map(|(scheme, sets)| Kind::new(scheme, sets))).collect()
    }

    fn name(&self) -> String {
        let settings = self.sets.iter().map(|set| set.split_once('=').unwrap().1);
        [self.info.name].into_iter().chain(settings).collect::<Vec<_>>().join("-")
    }

    fn uses(&self, level: Level) -> bool {
        self.info.levels.contains(&level)
    }
}

/// A site with a VM of each kind, and their disks.
pub struct Fleet {
    pub site: Site,
    pub disks: Vec<KnownDisk>,
    pub numbers: Numbers,
}

impl Fleet {
    pub fn new(kinds: &[Kind], seed: u64) -> Fleet {
        let site = Site::new();
        let folder = site.folder.path().display();
        let mut text = format!(
            "name = \"test\"\nstate_dir = \"{folder}/state\"\nshards = 2\n\
             [ssd]\npath = \"{folder}/ssd.img\"\n"
        );
        if kinds.iter().any(|kind| kind.uses(Level::ReadSsd)) {
            lode_ok(&["format", "--read-ssd", &site.text("read.img"), "--create", "32MiB"]);
            writeln!(text, "[read_ssd]\npath = \"{folder}/read.img\"").unwrap();
        }
        for kind in kinds {
            let name = kind.name();
            File::create(site.path(&format!("{name}.img"))).unwrap().set_len(DISK_MIB * MIB).unwrap();
            let settings = kind.sets.iter().map(|set| set.split_once('=').unwrap());
            let settings: Vec<_> = settings.map(|(key, value)| format!("{key} = \"{value}\"")).collect();
            writeln!(
                text,
                "[[vm]]\nname = \"{name}\"\nbacking = {{ path = \"{folder}/{name}.img\" }}\n\
                 scheme = \"{}\"\nsettings = {{ {} }}\nlisten = [\"unix:{folder}/{name}.sock\"]",
                kind.info.name,
                settings.join(", ")
            )
            .unwrap();
            let shares = [("dram", Level::Dram, DRAM_MIB), ("ssd", Level::Ssd, SSD_MIB)];
            let shares = shares.into_iter().chain([("read_ssd", Level::ReadSsd, READ_SSD_MIB)]);
            for (key, _, mib) in shares.filter(|(_, level, _)| kind.uses(*level)) {
                writeln!(text, "{key} = \"{mib}MiB\"").unwrap();
            }
        }
        std::fs::write(site.path("test.toml"), text).unwrap();
        let sectors = DISK_MIB * MIB / SECTOR_BYTES;
        let disks = kinds.iter().map(|kind| KnownDisk::new(&kind.name(), sectors)).collect();
        Fleet { site, disks, numbers: Numbers(seed) }
    }

    /// Does the same with several sites at once, which have all kinds between them.
    pub fn on_several_hosts(work: impl Fn(Fleet) + Sync) {
        let all = Kind::all();
        std::thread::scope(|scope| {
            for host in 0..HOSTS {
                let kinds: Vec<Kind> = all.iter().skip(host).step_by(HOSTS).cloned().collect();
                let work = &work;
                scope.spawn(move || work(Fleet::new(&kinds, 0x2468_ace1 * (host as u64 + 1))));
            }
        });
    }
}

/// Has a guest for each disk do something, all at once, while `meanwhile` happens here. A guest is given two connections
/// and a number of its own.
pub fn at_work<'d, R>(
    disks: &mut [KnownDisk],
    daemon: Daemon<'d>,
    numbers: &mut Numbers,
    guest: impl Fn(&mut KnownDisk, Client, Client, u64) + Sync,
    meanwhile: impl FnOnce(Daemon<'d>) -> R,
) -> R {
    std::thread::scope(|scope| {
        for disk in disks.iter_mut() {
            let (guest, seed) = (&guest, numbers.below(1 << 32));
            let (first, second) = (daemon.client(&disk.vm), daemon.client(&disk.vm));
            scope.spawn(move || guest(disk, first, second, seed));
        }
        meanwhile(daemon)
    })
}

/// Has a guest for each disk write until it has so many answers, and all that are to come. A flush goes through another
/// connection.
pub fn write_some<'d>(
    disks: &mut [KnownDisk],
    daemon: Daemon<'d>,
    numbers: &mut Numbers,
    answers: u64,
    is_flushed: bool,
) -> Daemon<'d> {
    let write = |disk: &mut KnownDisk, client: Client, mut other: Client, seed: u64| {
        let mut writer = Writer::new(disk, client, seed);
        writer.work(answers).and_then(|()| writer.drain()).expect("it serves");
        if is_flushed {
            other.flush();
            disk.flushed();
        }
    };
    at_work(disks, daemon, numbers, write, |daemon| daemon)
}

/// Flushes through new connections and reads everything. Returns which VMs have blocks that are older than they should be.
pub fn compare(disks: &mut [KnownDisk], daemon: &Daemon<'_>) -> Vec<(String, Older)> {
    let found: Vec<_> = std::thread::scope(|scope| {
        let compare = |disk: &mut KnownDisk| {
            daemon.client(&disk.vm).flush();
            (disk.vm.clone(), disk.compare(&mut daemon.client(&disk.vm)))
        };
        let threads: Vec<_> = disks.iter_mut().map(|disk| scope.spawn(move || compare(disk))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it holds what was sent")).collect()
    });
    found.into_iter().filter(|(_, older)| *older != Older::default()).collect()
}
