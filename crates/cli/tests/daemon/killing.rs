//! kill -9 in the middle of traffic: what was acknowledged is there afterwards, and if the host's memory was lost as well, what
//! a flush was acknowledged for.

use std::collections::HashMap;
use std::ops::Range;
use std::process::{Command as Process, Stdio};

use lode_nbd::{Command, CommandFlags};

use crate::client::Client;
use crate::common::{Daemon, Numbers, Site};
use crate::known::{KnownDisk, Older, SECTOR_BYTES};

/// Few enough that writes meet each other's blocks, and more than the level of DRAM holds.
const SECTORS: u64 = 1 << 15;
const VMS: [&str; 2] = ["vm1", "vm2"];

/// One VM's guest, and its disk as it knows it.
struct Guest {
    disk: KnownDisk,
    numbers: Numbers,
}

/// A write that is not answered.
struct InFlight {
    sectors: Range<u64>,
    version: u64,
    fua: bool,
}

impl Guest {
    fn new(vm: &str, seed: u64) -> Guest {
        Guest { disk: KnownDisk::new(vm, SECTORS), numbers: Numbers(seed) }
    }

    /// A place for a write: one sector to a few blocks, aligned to blocks or not.
    fn place(&mut self) -> Range<u64> {
        let (length, align) = match self.numbers.below(4) {
            0 => (1 + self.numbers.below(7), 1),
            1 => (1 + self.numbers.below(64), 1),
            _ => (8 * (1 + self.numbers.below(3)), 8),
        };
        let start = self.numbers.below((SECTORS - length) / align) * align;
        start..start + length
    }

    /// Writes, flushes and FUA writes until the daemon is gone.
    fn traffic(&mut self, mut client: Client) {
        let mut in_flight: HashMap<u64, InFlight> = HashMap::new();
        loop {
            for _ in 0..1 + self.numbers.below(48) {
                let sectors = self.place();
                // One write to a sector at a time, so that its order is known.
                let meets =
                    |other: &InFlight| other.sectors.start < sectors.end && sectors.start < other.sectors.end;
                if in_flight.values().any(meets) {
                    continue;
                }
                let fua = self.numbers.below(8) == 0;
                let flags = if fua { CommandFlags::FUA } else { CommandFlags::NONE };
                let (version, bytes) = self.disk.send(&sectors);
                let (offset, length) = (sectors.start * SECTOR_BYTES, bytes.len() as u32);
                let Some(cookie) = client.send(Command::Write, offset, length, flags, &bytes) else {
                    return;
                };
                in_flight.insert(cookie, InFlight { sectors, version, fua });
            }
            while !in_flight.is_empty() {
                let Some((cookie, result)) = client.wait() else { return };
                result.unwrap();
                let InFlight { sectors, version, fua } = in_flight.remove(&cookie).unwrap();
                self.disk.acknowledge(&sectors, version, fua);
            }
            if self.numbers.below(3) == 0 {
                match client.ask(Command::Flush, 0, 0, false, &[]) {
                    None => return,
                    Some(result) => drop(result.unwrap()),
                }
                self.disk.flushed();
            }
        }
    }
}

/// Traffic of all guests until the daemon is killed, in some rounds while the caches are drained.
fn round(site: &Site, daemon: Daemon<'_>, guests: &mut [Guest], numbers: &mut Numbers) {
    let delay = std::time::Duration::from_millis(100 + numbers.below(400));
    let draining = numbers.below(3) == 0;
    let clients: Vec<Client> = guests.iter().map(|guest| daemon.client(&guest.disk.vm)).collect();
    std::thread::scope(|scope| {
        for (guest, client) in guests.iter_mut().zip(clients) {
            scope.spawn(move || guest.traffic(client));
        }
        std::thread::sleep(delay / 2);
        let drain = draining.then(|| {
            Process::new(env!("CARGO_BIN_EXE_lode"))
                .args(["drain", &site.text("test.toml")])
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        });
        std::thread::sleep(delay / 2);
        daemon.kill();
        // How it ends depends on when its daemon was killed.
        drain.map(|mut drain| drain.wait().unwrap());
    });
}

/// What ended: the daemon alone, or its host with all that was in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Daemon,
    Host,
}

/// Most of a round is waiting, so that several hosts at once take little longer than one.
const HOSTS: u64 = 3;

#[test]
fn flushed_data_survives_the_end_of_the_host() {
    on_several_hosts(&[End::Host]);
}

#[test]
fn acknowledged_data_survives_kills() {
    // One kind of end after the other finds what the other left behind.
    on_several_hosts(&[End::Daemon, End::Daemon, End::Host]);
}

fn on_several_hosts(ends: &[End]) {
    let rounds = std::env::var("LODE_KILL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(36u64);
    std::thread::scope(|scope| {
        for host in 1..=HOSTS {
            scope.spawn(move || survive_kills(rounds.div_ceil(HOSTS), host, ends));
        }
    });
}

fn survive_kills(rounds: u64, seed: u64, ends: &[End]) {
    let site = Site::new();
    let mut guests = [Guest::new(VMS[0], 0x1234_5678 * seed), Guest::new(VMS[1], 0x8765_4321 * seed)];
    let mut numbers = Numbers(0x5555_1234 * seed);
    for number in 0..rounds {
        round(&site, site.serve(), &mut guests, &mut numbers);
        let end = ends[numbers.below(ends.len() as u64) as usize];
        if end == End::Host {
            site.lose_memory();
        }
        let daemon = site.serve();
        for Guest { disk, .. } in &mut guests {
            let older = disk.compare(&mut daemon.client(&disk.vm));
            let allowed = match end {
                End::Daemon => Older::default(),
                End::Host => Older { than_durable: 0, ..older },
            };
            assert_eq!(older, allowed, "round {number}, end of {end:?}, blocks of {}", disk.vm);
        }
        daemon.kill();
    }
    for Guest { disk, .. } in &guests {
        assert!(disk.answered > 100 * rounds, "{}: there was traffic: {}", disk.vm, disk.answered);
    }
}
