//! A device that remembers what a power cut could take away.

use std::collections::HashMap;

use lode_engine::command::MediaError;
use lode_engine::store::Bytes;

use crate::rng::Rng;

const SECTOR: usize = 512;

/// A sector with contents that are not durable.
#[derive(Debug)]
struct Unsettled {
    durable: [u8; SECTOR],
    since: Vec<(u64, [u8; SECTOR])>,
}

/// A simulated device. See the crate's documentation for what it may lose.
#[derive(Debug)]
pub struct SimDisk {
    live: Vec<u8>,
    unsettled: HashMap<usize, Unsettled>,
    writes: u64,
    /// Writes and flushes until one fails, for surprise-shutdown tests; `None`: none fails.
    pub fail_after: Option<u64>,
}

impl SimDisk {
    /// A device of zeroes.
    pub fn new(bytes: usize) -> SimDisk {
        SimDisk { live: vec![0; bytes], unsettled: HashMap::new(), writes: 0, fail_after: None }
    }

    /// The bytes at an offset, as a read now would return them.
    pub fn peek(&self, offset_bytes: u64, len: usize) -> &[u8] {
        &self.live[offset_bytes as usize..offset_bytes as usize + len]
    }

    /// Carries out a write: visible at once, durable later.
    pub fn put(&mut self, offset_bytes: u64, bytes: &[u8]) {
        self.writes += 1;
        for (i, new) in bytes.chunks_exact(SECTOR).enumerate() {
            let sector = offset_bytes as usize / SECTOR + i;
            let old = &mut self.live[sector * SECTOR..(sector + 1) * SECTOR];
            let durable: [u8; SECTOR] = (&*old).try_into().expect("a sector");
            let new: [u8; SECTOR] = new.try_into().expect("a sector");
            let unsettled =
                self.unsettled.entry(sector).or_insert_with(|| Unsettled { durable, since: Vec::new() });
            unsettled.since.push((self.writes, new));
            old.copy_from_slice(&new);
        }
    }

    /// What a flush issued now covers.
    pub fn flush_mark(&self) -> u64 {
        self.writes
    }

    /// A flush that covers everything up to `mark` is complete.
    pub fn settle(&mut self, mark: u64) {
        self.unsettled.retain(|_, unsettled| {
            let settled = unsettled.since.partition_point(|(at, _)| *at <= mark);
            if let Some((_, last)) = unsettled.since.drain(..settled).next_back() {
                unsettled.durable = last;
            }
            !unsettled.since.is_empty()
        });
    }

    /// The power goes and comes back.
    pub fn power_cut(&mut self, rng: &mut Rng) {
        let mut sectors: Vec<_> = self.unsettled.drain().collect();
        sectors.sort_unstable_by_key(|(sector, _)| *sector);
        for (sector, unsettled) in sectors {
            let pick = rng.below(unsettled.since.len() as u64 + 1) as usize;
            let content = if pick == 0 { unsettled.durable } else { unsettled.since[pick - 1].1 };
            self.live[sector * SECTOR..(sector + 1) * SECTOR].copy_from_slice(&content);
        }
    }

    /// Flips a bit, as a medium that goes bad does.
    pub fn flip_bit(&mut self, offset_bytes: u64, bit: u8) {
        self.live[offset_bytes as usize] ^= 1 << (bit % 8);
    }

    fn count_down(&mut self) -> Result<(), MediaError> {
        match &mut self.fail_after {
            Some(0) => Err(MediaError::Gone),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Bytes for SimDisk {
    fn size_bytes(&self) -> u64 {
        self.live.len() as u64
    }

    fn read(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        let from = self.live.get(offset_bytes as usize..).and_then(|live| live.get(..buf.len()));
        buf.copy_from_slice(from.ok_or(MediaError::Io)?);
        Ok(())
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        self.count_down()?;
        if offset_bytes as usize + bytes.len() > self.live.len() {
            return Err(MediaError::Io);
        }
        self.put(offset_bytes, bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        self.count_down()?;
        self.settle(self.writes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_cut_takes_only_what_was_not_flushed() {
        let mut disk = SimDisk::new(4096);
        disk.put(0, &[1; 1024]);
        let mark = disk.flush_mark();
        disk.put(512, &[2; 512]);
        disk.settle(mark);
        let mut seen = std::collections::HashSet::new();
        for seed in 0..50 {
            let mut copy = SimDisk::new(4096);
            copy.put(0, &[1; 1024]);
            copy.settle(copy.flush_mark());
            copy.put(512, &[2; 512]);
            copy.power_cut(&mut Rng::new(seed));
            assert_eq!(copy.peek(0, 512), &[1; 512]);
            seen.insert(copy.peek(512, 1)[0]);
        }
        assert_eq!(seen, [1, 2].into());
    }
}
