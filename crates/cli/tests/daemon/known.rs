//! What a disk may hold after the end of its daemon, as its guest knows it.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::client::Client;
use crate::common::{pattern, version_of};

pub const SECTOR_BYTES: u64 = 512;
const SECTORS_PER_BLOCK: u64 = 8;

/// What a sector may hold: the version that is promised, or a later one that was sent.
#[derive(Clone, Copy, Default)]
struct Known {
    /// Flushed or written with FUA: promised whatever happens.
    durable: u64,
    /// Promised as long as the host lives.
    acknowledged: u64,
    sent: u64,
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
    sectors: Vec<Known>,
    version: u64,
}

impl KnownDisk {
    pub fn new(vm: &str, sectors: u64) -> KnownDisk {
        KnownDisk {
            vm: vm.to_owned(),
            answered: 0,
            sectors: vec![Known::default(); sectors as usize],
            version: 0,
        }
    }

    /// A new version, and its bytes, of what is about to be sent.
    pub fn send(&mut self, sectors: &Range<u64>) -> (u64, Vec<u8>) {
        self.version += 1;
        let version = self.version;
        self.part(sectors).iter_mut().for_each(|sector| sector.sent = version);
        let length = (sectors.end - sectors.start) * SECTOR_BYTES;
        (version, pattern(sectors.start * SECTOR_BYTES, version, length as usize))
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
                *known = Known { durable: version, acknowledged: version, sent: version };
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
        0 => (bytes == [0; SECTOR_BYTES as usize]).then_some(0),
        version => (bytes == pattern(sector * SECTOR_BYTES, version, bytes.len())).then_some(version),
    };
    version.filter(|version| *version <= known.sent)
}
