//! What a disk may hold after the end of its daemon, as its guest knows it, and a guest that finds out.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use lode_nbd::{Command, CommandFlags};

use crate::client::Client;
use crate::common::{Numbers, pattern, version_of};

pub const SECTOR_BYTES: u64 = 512;
pub const SECTORS_PER_BLOCK: u64 = 8;

/// What a sector may hold: the version that is promised, or a later one that was sent.
#[derive(Clone, Copy, Default)]
struct Known {
    /// Flushed or written with FUA: promised whatever happens.
    durable: u64,
    /// Promised as long as the host lives.
    acknowledged: u64,
    sent: u64,
    /// The newest version that is zeroes.
    zeroes: u64,
}

/// Blocks that are older than what they are known to have held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Older {
    pub than_acknowledged: usize,
    pub than_durable: usize,
}

/// One VM's disk as its guest knows it. It begins with zeroes, version 0.
pub struct KnownDisk {
    pub vm: String,
    /// Writes that were answered.
    pub answered: u64,
    /// Reads that did not return the newest bytes.
    pub stale_reads: u64,
    sectors: Vec<Known>,
    version: u64,
}

impl KnownDisk {
    pub fn new(vm: &str, sectors: u64) -> KnownDisk {
        KnownDisk {
            vm: vm.to_owned(),
            answered: 0,
            stale_reads: 0,
            sectors: vec![Known::default(); sectors as usize],
            version: 0,
        }
    }

    pub fn sectors(&self) -> u64 {
        self.sectors.len() as u64
    }

    /// A new version, and its bytes, of what is about to be sent.
    pub fn send(&mut self, sectors: &Range<u64>) -> (u64, Vec<u8>) {
        self.version += 1;
        let version = self.version;
        self.part(sectors).iter_mut().for_each(|sector| sector.sent = version);
        let length = (sectors.end - sectors.start) * SECTOR_BYTES;
        (version, pattern(sectors.start * SECTOR_BYTES, version, length as usize))
    }

    /// A new version that is zeroes.
    pub fn send_zeroes(&mut self, sectors: &Range<u64>) -> u64 {
        let (version, _) = self.send(sectors);
        self.part(sectors).iter_mut().for_each(|sector| sector.zeroes = version);
        version
    }

    /// A write was answered. One that was sent before it may have been so already.
    pub fn acknowledge(&mut self, sectors: &Range<u64>, version: u64, fua: bool) {
        self.answered += 1;
        for sector in self.part(sectors) {
            sector.acknowledged = sector.acknowledged.max(version);
            if fua {
                sector.durable = sector.durable.max(version);
            }
        }
    }

    /// A flush was answered, and nothing was acknowledged since it was sent.
    pub fn flushed(&mut self) {
        self.sectors.iter_mut().for_each(|sector| sector.durable = sector.acknowledged);
    }

    /// What a read returns that is sent now.
    fn newest(&self, sectors: &Range<u64>) -> Vec<u8> {
        let sent = |sector: u64| match self.sectors[sector as usize] {
            Known { sent, zeroes, .. } if sent == zeroes => vec![0; SECTOR_BYTES as usize],
            Known { sent, .. } => pattern(sector * SECTOR_BYTES, sent, SECTOR_BYTES as usize),
        };
        sectors.clone().flat_map(sent).collect()
    }

    fn part(&mut self, sectors: &Range<u64>) -> &mut [Known] {
        &mut self.sectors[sectors.start as usize..sectors.end as usize]
    }

    /// Reads everything and says how many blocks are older than they should be. Bytes that were never sent are an error in
    /// any case. What was read once may not change back: the next end is compared with it.
    pub fn compare(&mut self, client: &mut Client) -> Older {
        const SECTORS_PER_READ: usize = 2048;
        let (mut unacknowledged, mut volatile) = (BTreeSet::new(), BTreeSet::new());
        for (at, part) in self.sectors.chunks_mut(SECTORS_PER_READ).enumerate() {
            let first = (at * SECTORS_PER_READ) as u64;
            let bytes = client.read(first * SECTOR_BYTES, (part.len() as u64 * SECTOR_BYTES) as u32);
            let sectors = bytes.chunks(SECTOR_BYTES as usize).zip(part).zip(first..);
            for ((bytes, known), sector) in sectors {
                let version = sent_version(bytes, sector, known).unwrap_or_else(|| {
                    let (vm, sent) = (&self.vm, known.sent);
                    panic!("{vm} sector {sector}: not a version up to {sent}, but {:?}", &bytes[..32])
                });
                if version < known.acknowledged {
                    unacknowledged.insert(sector / SECTORS_PER_BLOCK);
                }
                if version < known.durable {
                    volatile.insert(sector / SECTORS_PER_BLOCK);
                }
                *known = Known { durable: version, acknowledged: version, sent: version, ..*known };
            }
        }
        client.flush();
        Older { than_acknowledged: unacknowledged.len(), than_durable: volatile.len() }
    }
}

/// Which of the versions that were sent to a sector it holds.
fn sent_version(bytes: &[u8], sector: u64, known: &Known) -> Option<u64> {
    // Where a write began makes no difference to what it put into a sector.
    let version = match version_of(bytes) {
        0 => (bytes == [0; SECTOR_BYTES as usize]).then_some(known.zeroes),
        version => (bytes == pattern(sector * SECTOR_BYTES, version, bytes.len())).then_some(version),
    };
    version.filter(|version| *version <= known.sent)
}

/// Requests that a [`Writer`] keeps in flight.
const DEPTH: usize = 16;
/// Most writes go to this many blocks at the beginning, which are written again and again.
pub const HOT_BLOCKS: u64 = 384;

/// A guest that writes blocks, reads some and makes some zeroes, and never flushes.
pub struct Writer<'a> {
    pub disk: &'a mut KnownDisk,
    client: Client,
    numbers: Numbers,
    in_flight: HashMap<u64, Asked>,
    /// Requests for what is in flight are sent, too. Only on a way that keeps their order.
    pub overlapping: bool,
}

struct Asked {
    sectors: Range<u64>,
    what: What,
}

enum What {
    Write { version: u64 },
    Read { expected: Vec<u8> },
}

impl<'a> Writer<'a> {
    pub fn new(disk: &'a mut KnownDisk, client: Client, seed: u64) -> Writer<'a> {
        let numbers = Numbers(seed.wrapping_mul(0x1234_5679) | 1);
        Writer { disk, client, numbers, in_flight: HashMap::new(), overlapping: true }
    }

    /// Fills up what is in flight, and takes one answer. `None`: the daemon is gone.
    pub fn step(&mut self) -> Option<()> {
        while self.in_flight.len() < DEPTH {
            let blocks = self.disk.sectors() / SECTORS_PER_BLOCK;
            let among = if self.numbers.below(4) == 0 { blocks } else { blocks.min(HOT_BLOCKS) };
            let first = self.numbers.below(among - 2) * SECTORS_PER_BLOCK;
            let block = first..first + SECTORS_PER_BLOCK;
            let (command, sectors) = match self.numbers.below(24) {
                0 | 1 => (Command::Read, block),
                // Not whole blocks: what is around them stays.
                2 => (Command::WriteZeroes, first + 3..first + 5 + self.numbers.below(12)),
                _ => (Command::Write, block),
            };
            let meets =
                |asked: &Asked| asked.sectors.start < sectors.end && sectors.start < asked.sectors.end;
            if self.overlapping || !self.in_flight.values().any(meets) {
                self.ask(command, sectors)?;
            }
        }
        self.take_answer()
    }

    fn ask(&mut self, command: Command, sectors: Range<u64>) -> Option<()> {
        let mut payload = Vec::new();
        let what = match command {
            Command::Read => What::Read { expected: self.disk.newest(&sectors) },
            Command::WriteZeroes => What::Write { version: self.disk.send_zeroes(&sectors) },
            _ => {
                let (version, bytes) = self.disk.send(&sectors);
                payload = bytes;
                What::Write { version }
            }
        };
        let (offset, length) = (sectors.start * SECTOR_BYTES, (sectors.end - sectors.start) * SECTOR_BYTES);
        let cookie = self.client.send(command, offset, length as u32, CommandFlags::NONE, &payload)?;
        self.in_flight.insert(cookie, Asked { sectors, what });
        Some(())
    }

    fn take_answer(&mut self) -> Option<()> {
        let (cookie, result) = self.client.wait()?;
        let Asked { sectors, what } = self.in_flight.remove(&cookie).expect("an answer is given once");
        let bytes = result.unwrap_or_else(|error| panic!("{} {sectors:?}: {error:?}", self.disk.vm));
        match what {
            What::Write { version } => self.disk.acknowledge(&sectors, version, false),
            What::Read { expected } => self.disk.stale_reads += u64::from(bytes != expected),
        }
        Some(())
    }

    /// So many answers, while others stay in flight. `None`: the daemon is gone.
    pub fn work(&mut self, answers: u64) -> Option<()> {
        (0..answers).try_for_each(|_| self.step())
    }

    /// Waits for all answers. `None`: the daemon is gone.
    pub fn drain(&mut self) -> Option<()> {
        while !self.in_flight.is_empty() {
            self.take_answer()?;
        }
        Some(())
    }

    /// Goes on until the daemon is gone.
    pub fn work_until_the_end(&mut self) {
        while self.step().is_some() {}
    }
}
