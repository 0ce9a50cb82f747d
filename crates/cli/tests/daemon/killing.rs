//! kill -9 in the middle of traffic: what a flush was acknowledged for is there afterwards.

use std::collections::HashMap;
use std::ops::Range;
use std::process::{Command as Process, Stdio};

use lode_nbd::{Command, CommandFlags};

use crate::client::Client;
use crate::common::{Daemon, Numbers, Site, pattern, version_of};

/// Few enough that writes meet each other's blocks, and more than the level of DRAM holds.
const SECTORS: u64 = 1 << 15;
const SECTOR_BYTES: u64 = 512;
const VMS: [&str; 2] = ["vm1", "vm2"];

/// What a sector may hold: the version that was durable, or a later one that was sent.
#[derive(Clone, Copy, Default)]
struct Known {
    durable: u64,
    acknowledged: u64,
    sent: u64,
}

/// One VM's disk as its guest knows it.
struct Guest {
    vm: &'static str,
    known: Vec<Known>,
    numbers: Numbers,
    version: u64,
    answered: u64,
}

/// A write that is not answered.
struct InFlight {
    sectors: Range<u64>,
    version: u64,
    fua: bool,
}

impl Guest {
    fn new(vm: &'static str, seed: u64) -> Guest {
        let known = vec![Known::default(); SECTORS as usize];
        Guest { vm, known, numbers: Numbers(seed), version: 0, answered: 0 }
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
                self.version += 1;
                let (version, fua) = (self.version, self.numbers.below(8) == 0);
                let flags = if fua { CommandFlags::FUA } else { CommandFlags::NONE };
                let offset = sectors.start * SECTOR_BYTES;
                let length = (sectors.end - sectors.start) * SECTOR_BYTES;
                let bytes = pattern(offset, version, length as usize);
                self.known_of(&sectors).iter_mut().for_each(|sector| sector.sent = version);
                let Some(cookie) = client.send(Command::Write, offset, length as u32, flags, &bytes) else {
                    return;
                };
                in_flight.insert(cookie, InFlight { sectors, version, fua });
            }
            while !in_flight.is_empty() {
                let Some((cookie, result)) = client.wait() else { return };
                result.unwrap();
                self.answered += 1;
                let InFlight { sectors, version, fua } = in_flight.remove(&cookie).unwrap();
                for sector in self.known_of(&sectors) {
                    sector.acknowledged = version;
                    if fua {
                        sector.durable = version;
                    }
                }
            }
            if self.numbers.below(3) == 0 {
                match client.ask(Command::Flush, 0, 0, false, &[]) {
                    None => return,
                    Some(result) => drop(result.unwrap()),
                }
                self.known.iter_mut().for_each(|sector| sector.durable = sector.acknowledged);
            }
        }
    }

    fn known_of(&mut self, sectors: &Range<u64>) -> &mut [Known] {
        &mut self.known[sectors.start as usize..sectors.end as usize]
    }

    fn verify(&mut self, mut client: Client, round: u64) {
        const SECTORS_PER_READ: usize = 2048;
        for (at, known) in self.known.chunks_mut(SECTORS_PER_READ).enumerate() {
            let first = (at * SECTORS_PER_READ) as u64;
            let bytes = client.read(first * SECTOR_BYTES, (known.len() as u64 * SECTOR_BYTES) as u32);
            let sectors = bytes.chunks(SECTOR_BYTES as usize).zip(known).zip(first..);
            for ((bytes, known), sector) in sectors {
                let version = found_version(bytes, sector, known).unwrap_or_else(|| {
                    panic!(
                        "round {round}, {} sector {sector}: neither version {} nor one up to {}, but {:?}",
                        self.vm,
                        known.durable,
                        known.sent,
                        &bytes[..32]
                    )
                });
                *known = Known { durable: version, acknowledged: version, sent: version };
            }
        }
        // What was read once may not change back: the next kill starts from here.
        client.flush();
    }
}

/// Which of the versions that a sector may hold it does hold.
fn found_version(bytes: &[u8], sector: u64, known: &Known) -> Option<u64> {
    // Zeroes say version 0. Where a write began makes no difference to what it put into a sector.
    let version = version_of(bytes);
    let is_it = match version {
        0 => bytes == [0; SECTOR_BYTES as usize],
        version => bytes == pattern(sector * SECTOR_BYTES, version, bytes.len()),
    };
    (is_it && (known.durable..=known.sent).contains(&version)).then_some(version)
}

/// Traffic of all guests until the daemon is killed, in some rounds while the caches are drained.
fn round(site: &Site, daemon: Daemon<'_>, guests: &mut [Guest], numbers: &mut Numbers) {
    let delay = std::time::Duration::from_millis(100 + numbers.below(400));
    let draining = numbers.below(3) == 0;
    let clients: Vec<Client> = guests.iter().map(|guest| daemon.client(guest.vm)).collect();
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

/// Most of a round is waiting, so that several hosts at once take little longer than one.
const HOSTS: u64 = 3;

#[test]
fn flushed_data_survives_kills() {
    let rounds = std::env::var("LODE_KILL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(50u64);
    std::thread::scope(|scope| {
        for host in 1..=HOSTS {
            scope.spawn(move || survive_kills(rounds.div_ceil(HOSTS), host));
        }
    });
}

fn survive_kills(rounds: u64, seed: u64) {
    let site = Site::new();
    let mut guests = [Guest::new(VMS[0], 0x1234_5678 * seed), Guest::new(VMS[1], 0x8765_4321 * seed)];
    let mut numbers = Numbers(0x5555_1234 * seed);
    for number in 0..rounds {
        round(&site, site.serve(), &mut guests, &mut numbers);
        let daemon = site.serve();
        for guest in &mut guests {
            guest.verify(daemon.client(guest.vm), number);
        }
        daemon.kill();
    }
    for guest in &guests {
        assert!(guest.answered > 100 * rounds, "{}: there was traffic: {}", guest.vm, guest.answered);
    }
}
