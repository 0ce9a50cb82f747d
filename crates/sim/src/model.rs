//! What a guest may read: the oracle.
//!
//! Every write gives each of its sectors a content that names the write. For each sector the model keeps
//! the writes whose content may still be there, oldest first.

use std::collections::HashMap;

/// Bytes of a sector.
pub const SECTOR: usize = 512;

/// One write to one sector; 0 is the zeroes that were there first.
type WriteId = u32;

/// What a request does to its sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A content that names the write.
    Data,
    /// Zeroes.
    Zero,
    /// Anything the sector ever held, or zeroes.
    Trim,
}

/// A content that a sector may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    write: WriteId,
    /// Step at which it was acknowledged; `None` also for ever when it failed.
    acknowledged: Option<u64>,
    change: Change,
}

impl Version {
    /// Whether `sector` may read so after this.
    pub fn allows(&self, sector: usize, bytes: &[u8]) -> bool {
        match self.change {
            Change::Data => Model::content(self.write, sector)[..] == *bytes,
            Change::Zero => is_zero(bytes),
            Change::Trim => {
                let write = (head_of(bytes) >> 32) as u32;
                is_zero(bytes) || (write < self.write && Model::content(write, sector)[..] == *bytes)
            }
        }
    }
}

/// Compared as a whole: every sector of a volume is looked at after every crash, and byte by byte that would be most of
/// what a run takes.
fn is_zero(bytes: &[u8]) -> bool {
    bytes == [0; SECTOR]
}

/// The word that names the write and the sector.
fn head_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("a sector has eight bytes"))
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
    /// A volume of zeroes. No two volumes, told apart by their number, ever have a content in common.
    pub fn new(volume_bytes: u64, volume: u32) -> Model {
        let first = Version { write: 0, acknowledged: Some(0), change: Change::Zero };
        Model {
            sectors: vec![vec![first]; volume_bytes as usize / SECTOR],
            writes: HashMap::new(),
            next: (volume << 28) + 1,
            step: 0,
        }
    }

    /// A change of these sectors is submitted. Returns its id.
    pub fn submit(&mut self, sectors: std::ops::Range<usize>, change: Change) -> u32 {
        self.step += 1;
        let write = self.next;
        self.next += 1;
        for versions in &mut self.sectors[sectors.clone()] {
            versions.push(Version { write, acknowledged: None, change });
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

    /// The content that write `write` gives these sectors.
    pub fn contents(write: u32, sectors: std::ops::Range<usize>) -> Vec<u8> {
        let contents: Vec<_> = sectors.map(|sector| Model::content(write, sector)).collect();
        contents.concat()
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

    /// A write failed: its sectors hold what they held or what they were given, each for itself.
    pub fn fail(&mut self, write: u32) {
        self.writes.remove(&write);
    }

    /// What a read submitted now may return for `sector`. Blocks are served in order of arrival, so it is
    /// the newest write submitted; where writes may fail, any since the newest acknowledged one.
    pub fn expected(&self, sector: usize, writes_may_fail: bool) -> Vec<Version> {
        let versions = &self.sectors[sector];
        let newest = versions.len() - 1;
        let acknowledged = versions.iter().rposition(|version| version.acknowledged.is_some()).unwrap_or(0);
        versions[if writes_may_fail { acknowledged } else { newest }..].to_vec()
    }

    /// Why these bytes are wrong for a sector that may have one of these contents; `None` if they are not.
    pub fn complaint(sector: usize, bytes: &[u8], allowed: &[Version]) -> Option<String> {
        if allowed.iter().any(|version| version.allows(sector, bytes)) {
            return None;
        }
        let head = head_of(bytes);
        Some(format!("sector {sector} holds {head:#x} (write {}), and may hold {allowed:?}", head >> 32))
    }

    /// The host crashed: any of the contents a sector may have is as good as another, until it is read. A later flush
    /// says nothing of which one it is.
    pub fn crash(&mut self) {
        self.writes.clear();
        for versions in self.sectors.iter_mut().filter(|versions| versions.len() > 1) {
            versions.iter_mut().for_each(|version| version.acknowledged = None);
        }
    }

    /// The daemon died and the host stays up: nothing that was acknowledged is lost, flushed or not.
    pub fn killed(&mut self) {
        self.flushed(u64::MAX);
        self.crash();
    }

    /// Whether these sectors have one content each that they must have.
    pub fn is_settled(&self, sectors: std::ops::Range<usize>) -> bool {
        self.sectors[sectors].iter().all(|versions| versions.len() == 1)
    }

    /// Whether a crash now could leave these bytes in a sector.
    pub fn may_hold(&self, sector: usize, bytes: &[u8]) -> Result<(), String> {
        Self::complaint(sector, bytes, &self.sectors[sector]).map_or(Ok(()), Err)
    }

    /// The first read after a crash: the content must be one that may be there, and stays from now on.
    pub fn settle(&mut self, sector: usize, bytes: &[u8]) -> Result<(), String> {
        self.may_hold(sector, bytes)?;
        let versions = &mut self.sectors[sector];
        // A trimmed sector had one of several contents and has this one from now on.
        let is_zero = is_zero(bytes);
        let change = if is_zero { Change::Zero } else { Change::Data };
        let write = if is_zero { 0 } else { (head_of(bytes) >> 32) as u32 };
        versions.clear();
        versions.push(Version { write, acknowledged: Some(0), change });
        Ok(())
    }

    /// Number of sectors.
    pub fn sectors(&self) -> usize {
        self.sectors.len()
    }
}
