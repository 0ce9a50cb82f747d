//! A device that remembers what a power cut could take away.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::ops::Range;

use lode_engine::SharedDevice;
use lode_store::{PagesRead, StoreError, StoreView, SyncDevice};
use lode_types::{Buf, MediaError, Rng};

use crate::start_hang::{Asked, LateCommand, StartHang};

const SECTOR: usize = 512;
const CHUNK_BYTES: usize = 128 * SECTOR;

/// Bytes of a stretch that was written to; what was never written costs nothing, so that a simulated disk may be as large as a
/// real one.
type Chunk = Box<[u8]>;

/// A write to a sector that is not durable. What the sector held before it is kept beside.
#[derive(Clone, Copy, Debug)]
struct Unsettled {
    write: u64,
    sector: usize,
    /// A flush that covered it failed: no later one covers it.
    dropped: bool,
}

/// What a device is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To read.
    Read,
    /// To write, trim or zero.
    Write,
    /// To flush.
    Flush,
}

/// What a power cut leaves of a write.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Whole,
    Nothing,
    /// So many of its first sectors.
    Prefix(usize),
    /// Each sector for itself.
    Sectors,
}

/// A simulated device. See the crate's documentation for what it may lose.
#[derive(Clone, Debug)]
pub struct SimDisk {
    chunks: Vec<Option<Chunk>>,
    bytes: u64,
    /// In the order of the writes, and what each of them found.
    unsettled: VecDeque<Unsettled>,
    before: VecDeque<[u8; SECTOR]>,
    writes: u64,
    /// A flush failed, and some of what it covered has not been written again.
    has_dropped: bool,
    /// Writes and flushes until all fail, for surprise-shutdown tests; `None`: none fails.
    pub fail_after: Option<u64>,
    /// Reads of a start until one fails, and each that begins where it does; `None`: none fails.
    pub fail_read_after: Option<u64>,
    /// Where reads fail.
    unreadable_at: Option<u64>,
    /// How many times they do until they succeed again.
    pub unreadable_times: u64,
    /// Pages that a start cannot read until they are written again.
    pub bad_pages: BTreeSet<u64>,
    /// Where set, what is asked of it at once is carried out in this order; and of what was asked at once with a write that fails, each has
    /// happened or not.
    pub at_once: Option<Rng>,
    /// So many accesses of a kind until one fails, once; `None`: none does any more.
    pub fail_nth: Option<(Access, u64)>,
    /// So many writes of pages that describe the cache until one goes to other pages that hold something, which is known by chance; `None`:
    /// none does any more.
    pub misdirect_nth: Option<(u64, Rng)>,
    /// It says that flushes have ended, and does nothing.
    pub lies: bool,
    /// Flushes that were asked of it while a volume was served.
    pub flushes: u64,
    /// What the flushes of all who use it are worth.
    pub shared: SharedDevice,
    /// Ticks until it answers again; 0: it does.
    pub hang_ticks: u64,
    /// How many times the system has given up what it was asked for in a hang.
    pub(crate) given_up: u64,
    /// Where it stops answering in a start, and a command that is still under way although nobody waits for it.
    pub(crate) start_hang: Option<StartHang>,
    pub(crate) late: Option<LateCommand>,
    /// Whether it does so at the end of this one.
    pub(crate) gives_up: bool,
    /// What the host remembers: no flush has failed since it went down or since the last run began.
    pub(crate) counts_as_durable: bool,
}

impl SimDisk {
    /// A device of zeroes.
    pub fn new(bytes: u64) -> SimDisk {
        let chunks = bytes.div_ceil(CHUNK_BYTES as u64) as usize;
        SimDisk {
            chunks: vec![None; chunks],
            bytes,
            unsettled: VecDeque::new(),
            before: VecDeque::new(),
            writes: 0,
            has_dropped: false,
            fail_after: None,
            fail_read_after: None,
            unreadable_at: None,
            unreadable_times: u64::MAX,
            bad_pages: BTreeSet::new(),
            at_once: None,
            fail_nth: None,
            misdirect_nth: None,
            lies: false,
            flushes: 0,
            shared: SharedDevice::default(),
            hang_ticks: 0,
            given_up: 0,
            start_hang: None,
            late: None,
            gives_up: false,
            counts_as_durable: false,
        }
    }

    /// It answers nothing for so many ticks; then it goes on, or the system gives up what it was asked for.
    pub(crate) fn hang(&mut self, ticks: u64, gives_up: bool) {
        (self.hang_ticks, self.gives_up) = (ticks, gives_up);
    }

    /// Its size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.bytes
    }

    /// Whether it answers nothing now.
    pub(crate) fn hangs(&self) -> bool {
        self.hang_ticks > 0
    }

    /// Of one that hangs, about a second has gone by.
    pub(crate) fn tick(&mut self) {
        if self.hang_ticks > 0 {
            self.hang_ticks -= 1;
            self.given_up += u64::from(self.hang_ticks == 0 && self.gives_up);
        }
    }

    /// Another device of zeroes that comes in the place of one: what is to fail is that place's, whichever device is there.
    pub(crate) fn new_in_place_of(other: &SimDisk) -> SimDisk {
        let SimDisk { fail_nth, fail_after, fail_read_after, unreadable_times, bytes, .. } = *other;
        let new = SimDisk { fail_nth, fail_after, fail_read_after, unreadable_times, ..SimDisk::new(bytes) };
        SimDisk { start_hang: other.start_hang.clone(), at_once: other.at_once.clone(), ..new }
    }

    /// The chunk of a byte, and its offset in it.
    fn position(offset_bytes: u64) -> (usize, usize) {
        ((offset_bytes / CHUNK_BYTES as u64) as usize, (offset_bytes % CHUNK_BYTES as u64) as usize)
    }

    fn chunk_mut(&mut self, chunk: usize) -> &mut [u8] {
        self.chunks[chunk].get_or_insert_with(|| vec![0; CHUNK_BYTES].into_boxed_slice())
    }

    fn sector_mut(&mut self, sector: usize) -> &mut [u8] {
        let (chunk, at) = SimDisk::position((sector * SECTOR) as u64);
        &mut self.chunk_mut(chunk)[at..at + SECTOR]
    }

    /// Fills `buf` with what a read of whole sectors would return now. The device's last one may be short.
    pub fn peek(&self, mut offset_bytes: u64, mut buf: &mut [u8]) {
        self.assert_in_sectors(offset_bytes, buf.len());
        while !buf.is_empty() {
            let (chunk, at) = SimDisk::position(offset_bytes);
            let (now, later) = buf.split_at_mut(buf.len().min(CHUNK_BYTES - at));
            match &self.chunks[chunk] {
                Some(chunk) => now.copy_from_slice(&chunk[at..at + now.len()]),
                None => now.fill(0),
            }
            offset_bytes += now.len() as u64;
            buf = later;
        }
    }

    fn assert_in_sectors(&self, offset_bytes: u64, len: usize) {
        let is_border = |at: u64| at.is_multiple_of(SECTOR as u64) || at == self.bytes;
        let end = offset_bytes + len as u64;
        assert!(is_border(offset_bytes) && is_border(end), "{offset_bytes}..{end} cuts a sector");
    }

    /// Fills buffers, one after the other, with what a read would return now.
    pub fn peek_into(&self, mut offset_bytes: u64, bufs: &mut [Buf]) {
        for buf in bufs {
            self.peek(offset_bytes, buf.as_mut_slice());
            offset_bytes += buf.len() as u64;
        }
    }

    /// Carries out a write: visible at once, durable later.
    pub fn put(&mut self, offset_bytes: u64, bytes: &[u8]) {
        self.put_parts(offset_bytes, std::iter::once(bytes));
    }

    /// As [`SimDisk::put`], of bytes in parts, which end between sectors.
    pub fn put_parts<'a>(&mut self, mut offset_bytes: u64, parts: impl Iterator<Item = &'a [u8]>) {
        self.writes += 1;
        let mut parts = parts.peekable();
        if self.misdirect_nth.is_some() && parts.peek().is_some_and(|part| is_metadata(part)) {
            offset_bytes = self.perhaps_elsewhere(offset_bytes);
        }
        for part in parts {
            self.assert_in_sectors(offset_bytes, part.len());
            if !self.bad_pages.is_empty() {
                pages_of(offset_bytes, part.len()).for_each(|page| _ = self.bad_pages.remove(&page));
            }
            for bytes in part.chunks(SECTOR) {
                let (write, sector) = (self.writes, (offset_bytes / SECTOR as u64) as usize);
                self.unsettled.push_back(Unsettled { write, sector, dropped: false });
                let held = self.sector_mut(sector);
                let before = <[u8; SECTOR]>::try_from(&*held).expect("a sector");
                held[..bytes.len()].copy_from_slice(bytes);
                self.before.push_back(before);
                offset_bytes += bytes.len() as u64;
            }
        }
    }

    /// Where a write of pages that describe the cache goes.
    fn perhaps_elsewhere(&mut self, offset_bytes: u64) -> u64 {
        match &mut self.misdirect_nth {
            Some((0, _)) => {}
            Some((left, _)) => {
                *left -= 1;
                return offset_bytes;
            }
            None => return offset_bytes,
        }
        let Some((_, mut rng)) = self.misdirect_nth.take() else { return offset_bytes };
        const PAGE: u64 = lode_format::PAGE_BYTES as u64;
        let holds_something = |at: &u64| {
            let mut page = [0; PAGE as usize];
            self.peek(*at, &mut page);
            *at != offset_bytes && page.iter().any(|&byte| byte != 0)
        };
        // Of a table page the other copy is beside it.
        let beside = offset_bytes ^ PAGE;
        if rng.chance(30) && holds_something(&beside) {
            return beside;
        }
        // What is written at once is a directory at most.
        let last = self.bytes.saturating_sub(lode_format::Directory::COPY_BYTES as u64);
        let pages: Vec<u64> = (0..last).step_by(PAGE as usize).filter(holds_something).collect();
        if pages.is_empty() { offset_bytes } else { pages[rng.below(pages.len() as u64) as usize] }
    }

    /// What a flush issued now covers.
    pub fn flush_mark(&self) -> u64 {
        self.writes
    }

    /// Reads succeed again. Says whether one failed.
    pub fn end_read_errors(&mut self) -> bool {
        self.fail_read_after = None;
        let has_failed = self.unreadable_at.take().is_some() || self.unreadable_times == 0;
        self.unreadable_times = u64::MAX;
        has_failed
    }

    /// A flush that covers everything up to `mark` is complete.
    pub fn settle(&mut self, mark: u64) {
        if self.lies {
            return;
        }
        let covered = self.unsettled.partition_point(|unsettled| unsettled.write <= mark);
        if !self.has_dropped {
            self.unsettled.drain(..covered);
            self.before.drain(..covered);
            return;
        }
        // What was dropped stays undecided until its sector is durably written again.
        let mut settled: HashMap<usize, u64> = HashMap::new();
        for unsettled in self.unsettled.range(..covered).filter(|unsettled| !unsettled.dropped) {
            settled.insert(unsettled.sector, unsettled.write);
        }
        let stays = |one: &Unsettled| settled.get(&one.sector).is_none_or(|&write| one.write > write);
        let logged = self.unsettled.drain(..).zip(self.before.drain(..));
        (self.unsettled, self.before) = logged.filter(|(one, _)| stays(one)).unzip();
        self.has_dropped = self.unsettled.iter().any(|unsettled| unsettled.dropped);
    }

    /// A flush that should have covered everything up to `mark` failed. What it should have covered can be read, and no
    /// later flush makes it durable: the system has told once that it is lost.
    pub fn drop_covered(&mut self, mark: u64) {
        let covered = self.unsettled.partition_point(|unsettled| unsettled.write <= mark);
        self.has_dropped |= covered > 0;
        self.unsettled.range_mut(..covered).for_each(|unsettled| unsettled.dropped = true);
    }

    /// Whether a flush failed and what it covered is still undecided.
    pub fn has_dropped(&self) -> bool {
        self.has_dropped
    }

    /// The power goes and comes back.
    pub fn power_cut(&mut self, rng: &mut Rng) {
        self.decide(rng, |_| true);
        self.counts_as_durable = true;
    }

    /// What a start finds here. From now on the host does not know that it is durable.
    pub(crate) fn view(&mut self) -> Result<StoreView, StoreError> {
        let mut view = StoreView::read(self)?;
        if std::mem::take(&mut self.counts_as_durable) {
            view.count_as_durable();
        }
        Ok(view)
    }

    /// What was dropped by flushes that failed is there for good or not, sector by sector.
    pub fn decide_dropped(&mut self, rng: &mut Rng) {
        if self.has_dropped {
            let dropped: HashSet<usize> =
                self.unsettled.iter().filter(|one| one.dropped).map(|one| one.sector).collect();
            self.decide(rng, |sector| dropped.contains(&sector));
        }
    }

    /// Decides what becomes durable of these sectors: some cuts decide each sector for itself, most each write, whole, in
    /// part or not at all.
    fn decide(&mut self, rng: &mut Rng, is_due: impl Fn(usize) -> bool) {
        let by_sector = rng.chance(25);
        let before: Vec<[u8; SECTOR]> = std::mem::take(&mut self.before).into();
        // Of each sector that is due, by which of the writes, and whether that got so far.
        let mut writes: Vec<(usize, usize, bool)> = Vec::with_capacity(before.len());
        // The latest write, its fate, and how many of its sectors were looked at.
        let mut latest = (0, Fate::Nothing, 0);
        for (at, one) in std::mem::take(&mut self.unsettled).into_iter().enumerate() {
            if !is_due(one.sector) {
                self.unsettled.push_back(one);
                self.before.push_back(before[at]);
                continue;
            }
            if latest.2 == 0 || latest.0 != one.write {
                latest = (one.write, Fate::pick(rng, by_sector), 0);
            }
            latest.2 += 1;
            let arrives = match latest.1 {
                Fate::Whole => true,
                Fate::Nothing => false,
                Fate::Prefix(sectors) => latest.2 <= sectors,
                Fate::Sectors => rng.chance(50),
            };
            writes.push((one.sector, at, arrives));
        }
        self.has_dropped = false;
        writes.sort_unstable_by_key(|&(sector, at, _)| (sector, at));
        for history in writes.chunk_by(|one, next| one.0 == next.0) {
            // What a write put there is what the next one found; the last one's is there.
            let content = outcome(rng, history).map(|at| history.get(at).map(|&(_, at, _)| &before[at]));
            match content {
                Some(Some(content)) => self.sector_mut(history[0].0).copy_from_slice(content),
                Some(None) => {}
                None => self.sector_mut(history[0].0).copy_from_slice(&before[history[0].1]),
            }
        }
    }

    /// What a power cut now could leave.
    pub fn after_power_cut(&self, rng: &mut Rng) -> SimDisk {
        let mut copy = SimDisk { fail_after: None, fail_read_after: None, fail_nth: None, ..self.clone() };
        copy.power_cut(rng);
        copy
    }

    /// Flips a bit, as a medium that goes bad does.
    pub fn flip_bit(&mut self, offset_bytes: u64, bit: u8) {
        let sector = self.sector_mut((offset_bytes / SECTOR as u64) as usize);
        sector[(offset_bytes % SECTOR as u64) as usize] ^= 1 << (bit % 8);
    }

    /// The page there cannot be read by starts, until it is written again.
    pub fn make_unreadable(&mut self, offset_bytes: u64) {
        self.bad_pages.extend(pages_of(offset_bytes, 1));
    }

    fn check(&self, offset_bytes: u64, len: usize) -> Result<(), MediaError> {
        let end = offset_bytes.checked_add(len as u64);
        if end.is_some_and(|end| end <= self.bytes) { Ok(()) } else { Err(MediaError::Io) }
    }

    /// Whether this access is the one that is to fail.
    pub(crate) fn is_nth(&mut self, access: Access) -> bool {
        match &mut self.fail_nth {
            Some((kind, 0)) if *kind == access => {
                self.fail_nth = None;
                true
            }
            Some((kind, left)) if *kind == access => {
                *left -= 1;
                false
            }
            _ => false,
        }
    }

    fn nth(&mut self, access: Access) -> Result<(), MediaError> {
        if self.is_nth(access) { Err(MediaError::Io) } else { Ok(()) }
    }

    /// In which order so many commands that are asked for at once are carried out.
    fn order(&mut self, commands: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..commands).collect();
        if let Some(rng) = &mut self.at_once {
            (1..commands).rev().for_each(|at| order.swap(at, rng.below(at as u64 + 1) as usize));
        }
        order
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

impl Fate {
    fn pick(rng: &mut Rng, by_sector: bool) -> Fate {
        match rng.below(4) {
            _ if by_sector => Fate::Sectors,
            0 => Fate::Whole,
            1 => Fate::Nothing,
            2 => Fate::Prefix(rng.below(9) as usize),
            _ => Fate::Sectors,
        }
    }
}

/// Whether a write that begins so is of pages that describe the cache.
pub(crate) fn is_metadata(bytes: &[u8]) -> bool {
    bytes.starts_with(b"LODE")
}

/// The numbers of the pages in which these bytes lie.
fn pages_of(offset_bytes: u64, len: usize) -> Range<u64> {
    let page = lode_format::PAGE_BYTES as u64;
    offset_bytes / page..(offset_bytes + len as u64).div_ceil(page)
}

/// What a sector holds after its writes arrived or did not: mostly the last one that did, now and then an older one, because
/// devices reorder. As the number of the write that found it so; `None`: as it was before all of them.
fn outcome(rng: &mut Rng, history: &[(usize, usize, bool)]) -> Option<usize> {
    let arrived: Vec<usize> = (0..history.len()).filter(|&at| history[at].2).collect();
    let &last = arrived.last()?;
    Some(1 + if rng.chance(20) { arrived[rng.below(arrived.len() as u64) as usize] } else { last })
}

impl SyncDevice for SimDisk {
    fn size_bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.check(offset_bytes, buf.len())?;
        self.hang_in_start(Asked::Read)?;
        self.nth(Access::Read)?;
        match &mut self.fail_read_after {
            Some(0) => (self.fail_read_after, self.unreadable_at) = (None, Some(offset_bytes)),
            Some(left) => *left -= 1,
            None => {}
        }
        if self.unreadable_at == Some(offset_bytes) {
            self.unreadable_times -= 1;
            if self.unreadable_times == 0 {
                self.unreadable_at = None;
            }
            return Err(MediaError::Io);
        }
        let pages = pages_of(offset_bytes, buf.len());
        if self.bad_pages.range(pages).next().is_some() {
            return Err(MediaError::Io);
        }
        self.peek(offset_bytes, buf);
        Ok(())
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        self.count_down()?;
        self.check(offset_bytes, bytes.len())?;
        self.hang_in_start(Asked::Write(offset_bytes, bytes))?;
        self.nth(Access::Write)?;
        self.put(offset_bytes, bytes);
        Ok(())
    }

    fn read_pages_at_once(&mut self, parts: &mut [(u64, &mut [u8])]) -> PagesRead {
        for at in self.order(parts.len()) {
            let (offset_bytes, buf) = &mut parts[at];
            self.read_pages(*offset_bytes, buf).map_err(|error| (*offset_bytes, error))?;
        }
        Ok(Vec::new())
    }

    fn write_at_once(&mut self, parts: &[(u64, &[u8])]) -> Result<(), (u64, MediaError)> {
        let mut result = Ok(());
        for at in self.order(parts.len()) {
            let (offset_bytes, bytes) = parts[at];
            if result.is_ok() {
                result = self.write(offset_bytes, bytes).map_err(|error| (offset_bytes, error));
            }
            // What was under way with it has happened or not.
            if result.is_err() && self.at_once.as_mut().is_some_and(|rng| rng.chance(50)) {
                self.put(offset_bytes, bytes);
            }
        }
        result
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        self.hang_in_start(Asked::Flush)?;
        if let Err(error) = self.count_down().and_then(|()| self.nth(Access::Flush)) {
            self.drop_covered(self.writes);
            return Err(error);
        }
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

    #[test]
    fn what_a_failed_flush_covered_is_lost_to_later_ones_until_it_is_written_again() {
        let mut seen = std::collections::HashSet::new();
        for seed in 0..50 {
            let mut disk = SimDisk::new(4096);
            disk.put(0, &[1; 512]);
            disk.settle(disk.flush_mark());
            disk.put(0, &[2; 512]);
            disk.put(512, &[2; 512]);
            disk.drop_covered(disk.flush_mark());
            disk.put(512, &[3; 512]);
            disk.settle(disk.flush_mark());
            disk.power_cut(&mut Rng::new(seed));
            let mut bytes = [0; 1024];
            disk.peek(0, &mut bytes);
            assert_eq!(bytes[512..], [3; 512]);
            seen.insert(bytes[0]);
        }
        assert_eq!(seen, [1, 2].into());
    }

    #[test]
    fn writes_survive_whole_in_part_or_not_at_all() {
        let mut outcomes = std::collections::HashSet::new();
        for seed in 0..200 {
            let mut disk = SimDisk::new(8192);
            disk.put(0, &[1; 4096]);
            disk.power_cut(&mut Rng::new(seed));
            let mut bytes = [0; 4096];
            disk.peek(0, &mut bytes);
            let there: Vec<bool> = bytes.chunks(SECTOR).map(|sector| sector[0] == 1).collect();
            let count = there.iter().filter(|&&is_there| is_there).count();
            let is_prefix = there.iter().take(count).all(|&is_there| is_there);
            outcomes.insert((count == 8, count == 0, is_prefix));
        }
        assert_eq!(outcomes.len(), 4, "{outcomes:?}");
    }
}
