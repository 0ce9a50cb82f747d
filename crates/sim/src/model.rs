//! What a guest may read: the oracle.
//!
//! Every write gives each of its sectors a content that names the write. For each sector the model keeps
//! the writes whose content may still be there, oldest first.

use std::collections::HashMap;

/// Bytes of a sector.
pub const SECTOR: usize = 512;

/// One write to one sector; 0 is the zeroes that were there first.
type WriteId = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    write: WriteId,
    /// Step at which it was acknowledged.
    acknowledged: Option<u64>,
    zero: bool,
}

/// The sectors of one volume.
#[derive(Debug)]
pub struct Model {
    sectors: Vec<Vec<Version>>,
    writes: HashMap<WriteId, std::ops::Range<usize>>,
    next: WriteId,
    step: u64,
}

impl Model {
    /// A volume of zeroes.
    pub fn new(volume_bytes: u64) -> Model {
        let first = Version { write: 0, acknowledged: Some(0), zero: true };
        Model {
            sectors: vec![vec![first]; volume_bytes as usize / SECTOR],
            writes: HashMap::new(),
            next: 1,
            step: 0,
        }
    }

    /// A write (or zeroing) of these sectors is submitted. Returns its id.
    pub fn submit(&mut self, sectors: std::ops::Range<usize>, zero: bool) -> u32 {
        self.step += 1;
        let write = self.next;
        self.next += 1;
        for versions in &mut self.sectors[sectors.clone()] {
            versions.push(Version { write, acknowledged: None, zero });
        }
        self.writes.insert(write, sectors);
        write
    }

    /// The content that write `write` gives `sector`.
    pub fn content(write: u32, sector: usize) -> [u8; SECTOR] {
        let mut bytes = [0; SECTOR];
        for (i, chunk) in bytes.chunks_exact_mut(16).enumerate() {
            let word = (u64::from(write) << 32) | sector as u64;
            chunk[..8].copy_from_slice(&word.to_le_bytes());
            chunk[8..].copy_from_slice(&(word ^ (i as u64) << 56).to_le_bytes());
        }
        bytes
    }

    /// A write is acknowledged. With `durable` (FUA) nothing before it can come back.
    pub fn acknowledge(&mut self, write: u32, durable: bool) {
        self.step += 1;
        let Some(sectors) = self.writes.remove(&write) else { return };
        for sector in sectors {
            let versions = &mut self.sectors[sector];
            let Some(at) = versions.iter().position(|version| version.write == write) else { continue };
            versions[at].acknowledged = Some(self.step);
            if durable {
                versions.drain(..at);
            }
        }
    }

    /// A flush is submitted: returns what to hand to [`Model::flushed`] when it is acknowledged.
    pub fn flush_mark(&self) -> u64 {
        self.step
    }

    /// A flush is acknowledged: of everything acknowledged before it was submitted only the newest can
    /// still be there.
    pub fn flushed(&mut self, mark: u64) {
        for versions in &mut self.sectors {
            let durable = |version: &Version| version.acknowledged.is_some_and(|at| at <= mark);
            if let Some(at) = versions.iter().rposition(durable) {
                versions.drain(..at);
            }
        }
    }

    /// The write that a read submitted now must return for `sector`: blocks are served in order of
    /// arrival, so it is the newest submitted one.
    pub fn expected(&self, sector: usize) -> [u8; SECTOR] {
        Self::bytes_of(self.sectors[sector].last().expect("a sector has a content"), sector)
    }

    fn bytes_of(version: &Version, sector: usize) -> [u8; SECTOR] {
        if version.zero { [0; SECTOR] } else { Self::content(version.write, sector) }
    }

    /// The host crashed: any of the contents a sector may have is as good as another, until it is read.
    pub fn crash(&mut self) {
        self.writes.clear();
    }

    /// The first read after a crash: the content must be one that may be there, and stays from now on.
    pub fn settle(&mut self, sector: usize, bytes: &[u8]) -> Result<(), String> {
        let versions = &mut self.sectors[sector];
        let found = versions.iter().rposition(|version| Self::bytes_of(version, sector)[..] == *bytes);
        let Some(at) = found else {
            let writes: Vec<u32> = versions.iter().map(|version| version.write).collect();
            let head = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
            return Err(format!(
                "sector {sector} holds {head:#x} (write {}), and only writes {writes:?} may be there",
                head >> 32
            ));
        };
        let kept = Version { acknowledged: Some(0), ..versions[at] };
        versions.clear();
        versions.push(kept);
        Ok(())
    }

    /// Number of sectors.
    pub fn sectors(&self) -> usize {
        self.sectors.len()
    }
}
