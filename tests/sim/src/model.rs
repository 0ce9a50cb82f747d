//! What a guest may read: the oracle.
//!
//! Every write gives each of its sectors a content that names the write. For each sector the model keeps
//! the writes whose content may still be there, oldest first.

use std::collections::HashMap;

use smallvec::{SmallVec, smallvec};

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
    change: Change,
    /// Step at which it was acknowledged; [`NEVER`] also for ever when it failed.
    acknowledged: u64,
}

const NEVER: u64 = u64::MAX;
/// Stands for a step after all that a flush covers: the content is there, and may be lost when the host goes down.
const UNTIL_REBOOT: u64 = NEVER - 1;

/// Bits of a write's id that tell it from the others of its volume; those above them say which volume's it is.
const BITS_IN_VOLUME: u32 = 28;

/// What a sector is that was never written.
static FIRST: [Version; 1] = [Version { write: 0, change: Change::Zero, acknowledged: 0 }];

impl Version {
    fn is_acknowledged(&self) -> bool {
        self.acknowledged != NEVER
    }

    /// Whether `sector` may read so after this.
    pub fn allows(&self, sector: usize, bytes: &[u8]) -> bool {
        Model::is_content(self.write, self.change, sector, bytes)
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

/// What a read may return, of all of its sectors.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    versions: Vec<Version>,
    /// Where those of each sector end.
    ends: Vec<usize>,
}

impl Expected {
    /// What each of the sectors may hold, in their order.
    pub(crate) fn by_sector(&self) -> impl Iterator<Item = &[Version]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, &end)| &self.versions[begin..end])
    }
}

/// The sectors of one volume.
#[derive(Debug)]
pub struct Model {
    /// What each may hold, oldest first; nothing of one that was never written.
    sectors: Vec<SmallVec<[Version; 2]>>,
    /// Those that may hold one of several contents, in no order, and some that were settled lately.
    open: Vec<usize>,
    writes: HashMap<WriteId, std::ops::Range<usize>>,
    next: WriteId,
    step: u64,
}

impl Model {
    /// A volume of zeroes. No two volumes, told apart by their number, ever have a content in common.
    pub fn new(volume_bytes: u64, volume: u32) -> Model {
        Model {
            sectors: vec![SmallVec::new(); volume_bytes as usize / SECTOR],
            open: Vec::new(),
            writes: HashMap::new(),
            next: (volume << BITS_IN_VOLUME) + 1,
            step: 0,
        }
    }

    /// What a sector may hold.
    fn versions(&self, sector: usize) -> &[Version] {
        let versions = &self.sectors[sector];
        if versions.is_empty() { &FIRST } else { versions }
    }

    /// A change of these sectors is submitted. Returns its id.
    pub fn submit(&mut self, sectors: std::ops::Range<usize>, change: Change) -> u32 {
        self.step += 1;
        let write = self.next;
        self.next += 1;
        for sector in sectors.clone() {
            let versions = &mut self.sectors[sector];
            if versions.is_empty() {
                versions.extend(FIRST);
            }
            if versions.len() == 1 {
                self.open.push(sector);
            }
            versions.push(Version { write, change, acknowledged: NEVER });
        }
        self.writes.insert(write, sectors);
        write
    }

    /// Forgets which sectors may hold several contents where they do not any more.
    fn close(&mut self) {
        let sectors = &self.sectors;
        self.open.retain(|&sector| sectors[sector].len() > 1);
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

    /// Whether `sector` may read so after this write.
    pub(crate) fn is_content(of: WriteId, change: Change, sector: usize, bytes: &[u8]) -> bool {
        match change {
            Change::Data => Model::content(of, sector)[..] == *bytes,
            Change::Zero => is_zero(bytes),
            Change::Trim => {
                let write = (head_of(bytes) >> 32) as u32;
                let is_older = write < of && write >> BITS_IN_VOLUME == of >> BITS_IN_VOLUME;
                is_zero(bytes) || (is_older && Model::content(write, sector)[..] == *bytes)
            }
        }
    }

    /// The write that a sector's content names, if it is what that wrote.
    pub(crate) fn named(bytes: &[u8]) -> (WriteId, Change) {
        match is_zero(bytes) {
            true => (0, Change::Zero),
            false => ((head_of(bytes) >> 32) as u32, Change::Data),
        }
    }

    /// The volume and the sector that a sector's content names, if a write has given it that.
    pub(crate) fn origin(bytes: &[u8]) -> Option<(u32, usize)> {
        let head = head_of(bytes);
        let (write, sector) = ((head >> 32) as u32, head as u32 as usize);
        (!is_zero(bytes) && Model::content(write, sector)[..] == *bytes)
            .then_some((write >> BITS_IN_VOLUME, sector))
    }

    /// The content that write `write` gives these sectors.
    pub fn contents(write: u32, sectors: std::ops::Range<usize>) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(sectors.len() * SECTOR);
        sectors.for_each(|sector| bytes.extend_from_slice(&Model::content(write, sector)));
        bytes
    }

    /// A write is acknowledged. With `durable` (FUA) nothing before it can come back.
    pub fn acknowledge(&mut self, write: u32, durable: bool) {
        self.step += 1;
        let Some(sectors) = self.writes.remove(&write) else { return };
        for sector in sectors {
            let versions = &mut self.sectors[sector];
            let Some(at) = versions.iter().position(|version| version.write == write) else { continue };
            versions[at].acknowledged = self.step;
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
        for &sector in &self.open {
            let versions = &mut self.sectors[sector];
            let durable = |version: &Version| version.is_acknowledged() && version.acknowledged <= mark;
            if let Some(at) = versions.iter().rposition(durable) {
                versions.drain(..at);
            }
        }
        self.close();
    }

    /// A write failed: its sectors hold what they held or what they were given, each for itself.
    pub fn fail(&mut self, write: u32) {
        self.writes.remove(&write);
    }

    /// What a read submitted now may return for `sector`. Blocks are served in order of arrival, so it is
    /// the newest write submitted; where writes may fail, any since the newest acknowledged one.
    pub fn expected(&self, sector: usize, writes_may_fail: bool) -> Vec<Version> {
        self.newest(sector, writes_may_fail).to_vec()
    }

    fn newest(&self, sector: usize, writes_may_fail: bool) -> &[Version] {
        let versions = self.versions(sector);
        let acknowledged = || versions.iter().rposition(Version::is_acknowledged).unwrap_or(0);
        &versions[if writes_may_fail { acknowledged() } else { versions.len() - 1 }..]
    }

    /// The same of several sectors.
    pub(crate) fn expected_of(&self, sectors: std::ops::Range<usize>, writes_may_fail: bool) -> Expected {
        let mut expected = Expected::default();
        for sector in sectors {
            expected.versions.extend_from_slice(self.newest(sector, writes_may_fail));
            expected.ends.push(expected.versions.len());
        }
        expected
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
        self.close();
        for &sector in &self.open {
            self.sectors[sector].iter_mut().for_each(|version| version.acknowledged = NEVER);
        }
    }

    /// After a crash: what was written last to these sectors was damaged before it was known to be durable, so that they may look as
    /// if it had not been written, and be whatever they were before.
    pub(crate) fn may_be_older(&mut self, sectors: std::ops::Range<usize>) {
        for sector in sectors {
            let versions = &mut self.sectors[sector];
            if versions.is_empty() {
                versions.extend(FIRST);
            }
            if versions.len() == 1 {
                self.open.push(sector);
            }
            versions.insert(0, Version { write: self.next, change: Change::Trim, acknowledged: NEVER });
        }
    }

    /// The daemon died and the host stays up: nothing that was acknowledged is lost, flushed or not.
    pub fn killed(&mut self) {
        self.flushed(u64::MAX);
        self.crash();
    }

    /// Whether these sectors have one content each that they must have.
    pub fn is_settled(&self, sectors: std::ops::Range<usize>) -> bool {
        self.sectors[sectors].iter().all(|versions| versions.len() <= 1)
    }

    /// Sectors that may hold one of several contents, in no order, and some that were settled lately.
    pub(crate) fn unsettled(&self) -> &[usize] {
        &self.open
    }

    /// Whether a crash now could leave these bytes in a sector.
    pub fn may_hold(&self, sector: usize, bytes: &[u8]) -> Result<(), String> {
        Self::complaint(sector, bytes, self.versions(sector)).map_or(Ok(()), Err)
    }

    /// The first read after a crash: the content must be one that may be there, and stays from now on.
    pub fn settle(&mut self, sector: usize, bytes: &[u8]) -> Result<(), String> {
        self.may_hold(sector, bytes)?;
        let versions = &mut self.sectors[sector];
        // A trimmed sector had one of several contents and has this one from now on.
        let (write, change) = Model::named(bytes);
        versions.clear();
        versions.push(Version { write, change, acknowledged: 0 });
        Ok(())
    }

    /// As [`Model::settle`], of a disk of which a flush has failed: it stays until the host goes down, and is one of those that
    /// may be there then.
    pub(crate) fn settle_until_reboot(&mut self, sector: usize, bytes: &[u8]) -> Result<(), String> {
        self.may_hold(sector, bytes)?;
        let versions = &mut self.sectors[sector];
        if versions.len() > 1 {
            let (write, change) = Model::named(bytes);
            versions.retain(|version| (version.write, version.change) != (write, change));
            versions.iter_mut().for_each(|version| version.acknowledged = NEVER);
            versions.push(Version { write, change, acknowledged: UNTIL_REBOOT });
        }
        Ok(())
    }

    /// Every cache SSD is lost: a sector holds what the backing disk has.
    pub(crate) fn replace(&mut self, sector: usize, bytes: &[u8]) {
        let (write, change) = Model::named(bytes);
        self.sectors[sector] = smallvec![Version { write, change, acknowledged: 0 }];
    }

    /// Number of sectors.
    pub fn sectors(&self) -> usize {
        self.sectors.len()
    }
}
