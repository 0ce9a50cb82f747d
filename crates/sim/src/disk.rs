//! A device that remembers what a power cut could take away.

use std::collections::{BTreeMap, VecDeque};

use lode_engine::command::MediaError;
use lode_engine::store::Bytes;

use crate::rng::Rng;

const SECTOR: usize = 512;
const SECTORS_PER_CHUNK: usize = 128;

/// Sectors of a stretch that was written to; what was never written costs nothing, so that a simulated
/// disk may be as large as a real one.
type Chunk = Box<[[u8; SECTOR]; SECTORS_PER_CHUNK]>;

/// A write to a sector that is not durable, and what the sector held before it.
#[derive(Clone, Debug)]
struct Unsettled {
    write: u64,
    sector: usize,
    before: [u8; SECTOR],
}

/// A simulated device. See the crate's documentation for what it may lose.
#[derive(Clone, Debug)]
pub struct SimDisk {
    chunks: Vec<Option<Chunk>>,
    bytes: u64,
    /// In the order of the writes.
    unsettled: VecDeque<Unsettled>,
    writes: u64,
    /// Writes and flushes until one fails, for surprise-shutdown tests; `None`: none fails.
    pub fail_after: Option<u64>,
}

impl SimDisk {
    /// A device of zeroes. Its size is a multiple of 512 bytes.
    pub fn new(bytes: u64) -> SimDisk {
        let chunks = bytes.div_ceil((SECTOR * SECTORS_PER_CHUNK) as u64) as usize;
        SimDisk { chunks: vec![None; chunks], bytes, unsettled: VecDeque::new(), writes: 0, fail_after: None }
    }

    fn sector(&self, sector: usize) -> &[u8; SECTOR] {
        match &self.chunks[sector / SECTORS_PER_CHUNK] {
            Some(chunk) => &chunk[sector % SECTORS_PER_CHUNK],
            None => &[0; SECTOR],
        }
    }

    fn sector_mut(&mut self, sector: usize) -> &mut [u8; SECTOR] {
        let chunk = &mut self.chunks[sector / SECTORS_PER_CHUNK];
        let chunk = chunk.get_or_insert_with(|| Box::new([[0; SECTOR]; SECTORS_PER_CHUNK]));
        &mut chunk[sector % SECTORS_PER_CHUNK]
    }

    /// Fills `buf` with what a read of whole sectors would return now.
    pub fn peek(&self, offset_bytes: u64, buf: &mut [u8]) {
        let first = (offset_bytes / SECTOR as u64) as usize;
        for (i, to) in buf.chunks_exact_mut(SECTOR).enumerate() {
            to.copy_from_slice(self.sector(first + i));
        }
    }

    /// Carries out a write: visible at once, durable later.
    pub fn put(&mut self, offset_bytes: u64, bytes: &[u8]) {
        self.writes += 1;
        for (i, new) in bytes.chunks_exact(SECTOR).enumerate() {
            let sector = (offset_bytes / SECTOR as u64) as usize + i;
            let new: [u8; SECTOR] = new.try_into().expect("a sector");
            let before = std::mem::replace(self.sector_mut(sector), new);
            self.unsettled.push_back(Unsettled { write: self.writes, sector, before });
        }
    }

    /// What a flush issued now covers.
    pub fn flush_mark(&self) -> u64 {
        self.writes
    }

    /// A flush that covers everything up to `mark` is complete.
    pub fn settle(&mut self, mark: u64) {
        let settled = self.unsettled.partition_point(|unsettled| unsettled.write <= mark);
        self.unsettled.drain(..settled);
    }

    /// The power goes and comes back.
    pub fn power_cut(&mut self, rng: &mut Rng) {
        // For each sector what is durable, and what each write but the last put there; that one's is there now.
        let mut contents: BTreeMap<usize, Vec<[u8; SECTOR]>> = BTreeMap::new();
        for Unsettled { sector, before, .. } in std::mem::take(&mut self.unsettled) {
            contents.entry(sector).or_default().push(before);
        }
        for (sector, contents) in contents {
            let pick = rng.below(contents.len() as u64 + 1) as usize;
            if let Some(content) = contents.get(pick) {
                *self.sector_mut(sector) = *content;
            }
        }
    }

    /// What a power cut now could leave.
    pub fn after_power_cut(&self, rng: &mut Rng) -> SimDisk {
        let mut copy = SimDisk { fail_after: None, ..self.clone() };
        copy.power_cut(rng);
        copy
    }

    /// Flips a bit, as a medium that goes bad does.
    pub fn flip_bit(&mut self, offset_bytes: u64, bit: u8) {
        let sector = self.sector_mut((offset_bytes / SECTOR as u64) as usize);
        sector[(offset_bytes % SECTOR as u64) as usize] ^= 1 << (bit % 8);
    }

    fn check(&self, offset_bytes: u64, len: usize) -> Result<(), MediaError> {
        let end = offset_bytes.checked_add(len as u64);
        if end.is_some_and(|end| end <= self.bytes) { Ok(()) } else { Err(MediaError::Io) }
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
        self.bytes
    }

    fn read(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.check(offset_bytes, buf.len())?;
        self.peek(offset_bytes, buf);
        Ok(())
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        self.count_down()?;
        self.check(offset_bytes, bytes.len())?;
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
            let mut bytes = [0; 1024];
            copy.peek(0, &mut bytes);
            assert_eq!(bytes[..512], [1; 512]);
            seen.insert(bytes[512]);
        }
        assert_eq!(seen, [1, 2].into());
    }
}
