//! The cache SSD as starts see it, be it one or on pairs. A member of a pair that does not answer is not waited for longer than the
//! configuration says: it is as good as gone. It must not know labels, or what is read and written.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use lode_engine::command::MediaError;
use lode_format::PairLabel;
use lode_media::MediaFile;
use lode_store::pair::{MEMBERS, Pair, PairArray, PairDevice, Stripes};
use lode_store::{PagesRead, ReadAndWritten, StoreError, SyncDevice, Workers, pieces_of};

use crate::sync_device::{FileDevice, Threads, while_doing};

/// The SSDs of a pair, by member.
#[derive(Clone)]
pub(crate) struct PairFiles {
    /// What labels and the host's memory say together.
    pub pair: Pair,
    pub labels: [Option<PairLabel>; MEMBERS],
    /// None is there of one that has not come yet, and that the configuration does not name.
    pub paths: [Option<PathBuf>; MEMBERS],
    /// Those that can be opened and have a label of the pair.
    pub files: [Option<MediaFile>; MEMBERS],
    /// Why one is not used.
    pub left_out: [Option<String>; MEMBERS],
    /// How long a member may take for anything.
    pub limit: Duration,
}

impl PairFiles {
    /// Whether a member has everything and can be used.
    pub(crate) fn is_used(&self, member: usize) -> bool {
        self.pair.in_sync[member] && self.files[member].is_some()
    }

    /// Whether a member gets what a start writes.
    pub(crate) fn is_written(&self, member: usize) -> bool {
        self.pair.writes_to(member) && self.files[member].is_some()
    }

    /// Whether labels say that a member has everything, and it is not used: it may have what nobody else has.
    pub(crate) fn is_missed(&self, member: usize) -> bool {
        let newest = self.labels.iter().flatten().filter(|label| label.generation == self.pair.generation);
        !self.is_used(member)
            && newest.map(|label| label.in_sync[member]).reduce(|one, other| one && other) == Some(true)
    }

    /// The pair as one device.
    pub(crate) fn device(&self) -> PairDevice<MemberDevice> {
        let device = |member: usize| {
            let file = self.files[member].as_ref().filter(|_| self.is_written(member))?;
            Some(match self.is_awaiting() {
                true => MemberDevice::alone(file.clone(), self.limit),
                false => MemberDevice::new(file.clone(), self.limit),
            })
        };
        PairDevice::new(self.pair, [device(0), device(1)])
    }

    /// The path of the one that is read first.
    pub(crate) fn first_path(&self) -> &PathBuf {
        let path = &self.paths[usize::from(!self.is_used(0))];
        path.as_ref().expect("one that has come has a path")
    }

    /// Whether the other SSD has not come yet, and the configuration names none.
    pub(crate) fn is_awaiting(&self) -> bool {
        self.paths.contains(&None)
    }
}

/// The pairs that a cache is on.
#[derive(Clone)]
pub(crate) struct CachePairs {
    /// In the order of their numbers.
    pub pairs: Vec<PairFiles>,
    /// Where the cache is on them.
    pub stripes: Arc<Stripes>,
}

impl CachePairs {
    /// Finds out how the cache is divided over its pairs.
    ///
    /// # Errors
    /// As [`PairArray::new`].
    pub(crate) fn new(pairs: Vec<PairFiles>) -> Result<CachePairs, StoreError> {
        let array = PairArray::new(pairs.iter().map(PairFiles::device).collect())?;
        Ok(CachePairs { stripes: Arc::clone(array.stripes()), pairs })
    }

    /// All of them as one device.
    pub(crate) fn device(&self) -> PairArray<MemberDevice> {
        PairArray::on(self.pairs.iter().map(PairFiles::device).collect(), Arc::clone(&self.stripes))
    }
}

/// The cache SSD, or the pairs of them, as one device.
pub(crate) enum CacheDevice {
    One(FileDevice<MediaFile>),
    Pairs(PairArray<MemberDevice>),
}

/// Calls a method of whichever it is.
macro_rules! either {
    ($any:expr, $device:ident => $call:expr) => {
        match $any {
            CacheDevice::One($device) => $call,
            CacheDevice::Pairs($device) => $call,
        }
    };
}

impl SyncDevice for CacheDevice {
    fn size_bytes(&self) -> u64 {
        either!(self, device => device.size_bytes())
    }

    fn read(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        either!(self, device => device.read(offset_bytes, buf))
    }

    fn has_copies(&self) -> bool {
        either!(self, device => device.has_copies())
    }

    fn read_right(
        &mut self,
        offset_bytes: u64,
        buf: &mut [u8],
        is_right: &dyn Fn(&[u8]) -> bool,
    ) -> Result<(), MediaError> {
        either!(self, device => device.read_right(offset_bytes, buf, is_right))
    }

    fn read_pages(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        either!(self, device => device.read_pages(offset_bytes, buf))
    }

    fn read_pages_at_once(&mut self, parts: &mut [(u64, &mut [u8])]) -> PagesRead {
        either!(self, device => device.read_pages_at_once(parts))
    }

    fn read_pages_beside(
        &mut self,
        parts: &mut [(u64, &mut [u8])],
        meanwhile: &mut dyn FnMut(&dyn Workers),
    ) -> PagesRead {
        match self {
            CacheDevice::One(device) => device.read_pages_beside(parts, meanwhile),
            CacheDevice::Pairs(device) => while_doing(|| device.read_pages_at_once(parts), meanwhile),
        }
    }

    fn with_workers(&self, work: &mut dyn FnMut(&dyn Workers)) {
        work(&Threads);
    }

    fn read_pages_beside_writes(
        &mut self,
        reads: &mut [(u64, &mut [u8])],
        writes: &[(u64, &[u8])],
    ) -> ReadAndWritten {
        either!(self, device => device.read_pages_beside_writes(reads, writes))
    }

    fn home(&self, offset_bytes: u64) -> u16 {
        either!(self, device => device.home(offset_bytes))
    }

    fn copies(&self, offset_bytes: u64) -> Vec<u16> {
        either!(self, device => device.copies(offset_bytes))
    }

    fn read_copy(&mut self, copy: u16, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        either!(self, device => device.read_copy(copy, offset_bytes, buf))
    }

    fn write_copy(&mut self, copy: u16, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        either!(self, device => device.write_copy(copy, offset_bytes, bytes))
    }

    fn flush_copy(&mut self, copy: u16) -> Result<(), MediaError> {
        either!(self, device => device.flush_copy(copy))
    }

    fn dropped_since(&self, epoch: u64) -> Vec<u16> {
        either!(self, device => device.dropped_since(epoch))
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        either!(self, device => device.write(offset_bytes, bytes))
    }

    fn write_at_once(&mut self, parts: &[(u64, &[u8])]) -> Result<(), (u64, MediaError)> {
        either!(self, device => device.write_at_once(parts))
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        either!(self, device => device.flush())
    }
}

type Job = Box<dyn FnOnce(&mut FileDevice<MediaFile>) + Send>;
/// Whether a member is waited for however long it takes.
type IsNeeded = Box<dyn Fn() -> bool + Send>;

/// A member, asked on a thread of its own, which is left behind when none of the commands that it was asked for ends in time.
pub(crate) struct MemberDevice {
    file: MediaFile,
    limit: Duration,
    /// Commands of its thread that have ended.
    ended: Arc<AtomicU64>,
    jobs: Option<Sender<Job>>,
    is_needed: IsNeeded,
    is_gone: bool,
    /// Room for what it reads, which its thread has meanwhile.
    room: Vec<u8>,
}

impl MemberDevice {
    pub(crate) fn new(file: MediaFile, limit: Duration) -> MemberDevice {
        let (ended, is_needed) = (Arc::default(), Box::new(|| false));
        MemberDevice { file, limit, ended, jobs: None, is_needed, is_gone: false, room: Vec::new() }
    }

    /// The same of one that has no other one beside it: it is waited for however long it takes, as a single SSD is.
    pub(crate) fn alone(file: MediaFile, limit: Duration) -> MemberDevice {
        MemberDevice::new(file, limit).unless(|| true)
    }

    /// It is waited for beyond the limit as long as this says so.
    pub(crate) fn unless(self, is_needed: impl Fn() -> bool + Send + 'static) -> MemberDevice {
        MemberDevice { is_needed: Box::new(is_needed), ..self }
    }

    fn within_limit<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut FileDevice<MediaFile>) -> Result<T, MediaError> + Send + 'static,
    ) -> Result<T, MediaError> {
        let asked = self.ask(work);
        self.answer(asked)?
    }

    /// Has its thread do something. `None`: it is gone.
    fn ask<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut FileDevice<MediaFile>) -> T + Send + 'static,
    ) -> Option<Receiver<T>> {
        if self.is_gone {
            return None;
        }
        let (sender, receiver) = sync_channel(1);
        let job: Job = Box::new(move |device| {
            // Whoever asked may have given up waiting.
            let _ = sender.send(work(device));
        });
        self.jobs().is_some_and(|jobs| jobs.send(job).is_ok()).then_some(receiver)
    }

    /// What came of that, unless it does not come in time.
    fn answer<T>(&mut self, asked: Option<Receiver<T>>) -> Result<T, MediaError> {
        let answer = asked.and_then(|receiver| self.wait_for(&receiver));
        if answer.is_none() {
            (self.is_gone, self.jobs) = (true, None);
        }
        answer.ok_or(MediaError::Gone)
    }

    /// Waits for as long as commands end: many are asked for at once. `None`: for longer than the limit none has.
    fn wait_for<T>(&self, receiver: &Receiver<T>) -> Option<T> {
        let ended = || self.ended.load(Ordering::Relaxed);
        let (mut last, mut since) = (ended(), Instant::now());
        loop {
            match receiver.recv_timeout(self.limit / 4) {
                Ok(answer) => return Some(answer),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if ended() != last => {
                    (last, since) = (ended(), Instant::now())
                }
                Err(RecvTimeoutError::Timeout) if since.elapsed() >= self.limit && !(self.is_needed)() => {
                    return None;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn jobs(&mut self) -> Option<&Sender<Job>> {
        if self.jobs.is_none() {
            let (jobs, todo) = channel::<Job>();
            let mut device = FileDevice::new(self.file.clone());
            self.ended = Arc::clone(device.ended());
            let work = move || todo.into_iter().for_each(|job| job(&mut device));
            thread::Builder::new().name("member".to_owned()).spawn(work).ok()?;
            self.jobs = Some(jobs);
        }
        self.jobs.as_ref()
    }
}

impl SyncDevice for MemberDevice {
    fn size_bytes(&self) -> u64 {
        self.file.size_bytes()
    }

    fn read(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        let mut bytes = vec![0; buf.len()];
        let bytes = self.within_limit(move |device| device.read(offset_bytes, &mut bytes).map(|()| bytes))?;
        buf.copy_from_slice(&bytes);
        Ok(())
    }

    fn read_pages_at_once(&mut self, parts: &mut [(u64, &mut [u8])]) -> PagesRead {
        self.read_pages_beside(parts, &mut |_| {})
    }

    fn read_pages_beside(
        &mut self,
        parts: &mut [(u64, &mut [u8])],
        meanwhile: &mut dyn FnMut(&dyn Workers),
    ) -> PagesRead {
        let places: Vec<(u64, usize)> = parts.iter().map(|(at, buf)| (*at, buf.len())).collect();
        let mut room = std::mem::take(&mut self.room);
        room.resize(places.iter().map(|&(_, bytes)| bytes).sum(), 0);
        let asked = self.ask(move |device| {
            let bufs = pieces_of(&mut room, places.iter().map(|&(_, bytes)| bytes));
            let mut own: Vec<(u64, &mut [u8])> = places.iter().map(|&(at, _)| at).zip(bufs).collect();
            let read = device.read_pages_at_once(&mut own);
            (read, room)
        });
        meanwhile(&Threads);
        let first = parts.first().map_or(0, |(at, _)| *at);
        let (read, mut room) = self.answer(asked).map_err(|error| (first, error))?;
        let lengths: Vec<usize> = parts.iter().map(|(_, buf)| buf.len()).collect();
        for ((_, buf), piece) in parts.iter_mut().zip(pieces_of(&mut room, lengths)) {
            buf.copy_from_slice(piece);
        }
        self.room = room;
        read
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        let bytes = bytes.to_vec();
        self.within_limit(move |device| device.write(offset_bytes, &bytes))
    }

    fn write_at_once(&mut self, parts: &[(u64, &[u8])]) -> Result<(), (u64, MediaError)> {
        let own: Vec<(u64, Vec<u8>)> = parts.iter().map(|&(at, bytes)| (at, bytes.to_vec())).collect();
        let asked = self.ask(move |device| {
            let parts: Vec<(u64, &[u8])> = own.iter().map(|(at, bytes)| (*at, &bytes[..])).collect();
            device.write_at_once(&parts)
        });
        let first = parts.first().map_or(0, |&(at, _)| at);
        self.answer(asked).map_err(|error| (first, error))?
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        self.within_limit(FileDevice::flush)
    }
}

#[cfg(test)]
mod tests {
    use lode_media::OpenOptions;

    use super::*;

    #[test]
    fn a_member_that_does_not_answer_is_gone_from_then_on() {
        let folder = tempfile::TempDir::new().unwrap();
        let options = OpenOptions { create_size: Some(1 << 20), ..OpenOptions::default() };
        let file = MediaFile::open(&folder.path().join("ssd"), &options).unwrap();
        let mut device = MemberDevice::new(file, Duration::from_millis(200));
        device.write(4096, &[7; 4096]).unwrap();
        let mut bytes = vec![0; 8192];
        device.read(0, &mut bytes).unwrap();
        assert_eq!((bytes[0], bytes[4096], device.flush()), (0, 7, Ok(())));
        let (release, wait) = channel::<()>();
        let hangs = device.within_limit(move |_| {
            let _ = wait.recv();
            Ok(())
        });
        assert_eq!(hangs, Err(MediaError::Gone));
        let began = Instant::now();
        assert_eq!(device.read(0, &mut bytes), Err(MediaError::Gone));
        assert!(began.elapsed() < Duration::from_millis(150), "it is waited for once");
        drop(release);
    }

    #[test]
    fn several_places_are_asked_for_at_once_and_given_up_together() {
        let folder = tempfile::TempDir::new().unwrap();
        let options = OpenOptions { create_size: Some(4 << 20), ..OpenOptions::default() };
        let file = MediaFile::open(&folder.path().join("ssd"), &options).unwrap();
        let mut device = MemberDevice::new(file, Duration::from_millis(200));
        device.write_at_once(&[(1 << 20, &[7; 8192]), (4096, &[9; 4096])]).unwrap();
        let (mut one, mut other) = ([1; 8192], [1; 4096]);
        let mut was_meanwhile = false;
        let mut parts: [(u64, &mut [u8]); 2] = [(1 << 20, &mut one), (4096, &mut other)];
        let read = device.read_pages_beside(&mut parts, &mut |_| was_meanwhile = true);
        assert!(read == Ok(Vec::new()) && was_meanwhile && one == [7; 8192] && other == [9; 4096]);
        // The room that it reads to is that of before.
        assert_eq!(device.read_pages_at_once(&mut [(0, &mut other)]), Ok(Vec::new()));
        assert_eq!(other, [0; 4096]);
        let beyond = device.read_pages_at_once(&mut [(0, &mut other), (4 << 20, &mut one)]);
        assert_eq!(beyond, Err((4 << 20, MediaError::Io)), "it does not exist");
        let (release, wait) = channel::<()>();
        _ = device.within_limit(move |_| {
            let _ = wait.recv();
            Ok(())
        });
        let mut parts: [(u64, &mut [u8]); 1] = [(8192, &mut other)];
        assert_eq!(device.read_pages_at_once(&mut parts), Err((8192, MediaError::Gone)));
        assert_eq!(device.write_at_once(&[(4096, &[0; 4096])]), Err((4096, MediaError::Gone)));
        drop(release);
    }

    /// Guarantee 9: an SSD that is slow, and answers, is not given up.
    #[test]
    fn g9_as_long_as_commands_end_a_member_is_waited_for() {
        let folder = tempfile::TempDir::new().unwrap();
        let options = OpenOptions { create_size: Some(1 << 20), ..OpenOptions::default() };
        let file = MediaFile::open(&folder.path().join("ssd"), &options).unwrap();
        let limit = Duration::from_millis(200);
        let mut device = MemberDevice::new(file, limit);
        let began = Instant::now();
        let slow = device.within_limit(|device| {
            let mut page = [0; 4096];
            (0..12).try_for_each(|_| {
                thread::sleep(Duration::from_millis(50));
                device.read(0, &mut page)
            })
        });
        assert!(slow == Ok(()) && began.elapsed() > 2 * limit, "{slow:?}");
        let (release, wait) = channel::<()>();
        let began = Instant::now();
        let hangs = device.within_limit(move |device| {
            device.read(0, &mut [0; 4096])?;
            let _ = wait.recv();
            Ok(())
        });
        assert!(hangs == Err(MediaError::Gone) && began.elapsed() < 4 * limit, "{:?}", began.elapsed());
        drop(release);
    }

    #[test]
    fn a_member_that_no_other_one_stands_in_for_is_waited_for() {
        let folder = tempfile::TempDir::new().unwrap();
        let options = OpenOptions { create_size: Some(1 << 20), ..OpenOptions::default() };
        let file = MediaFile::open(&folder.path().join("ssd"), &options).unwrap();
        let mut device = MemberDevice::new(file, Duration::from_millis(20)).unless(|| true);
        let began = Instant::now();
        let slow = device.within_limit(|_| {
            thread::sleep(Duration::from_millis(200));
            Ok(7)
        });
        assert_eq!((slow, began.elapsed() >= Duration::from_millis(200)), (Ok(7), true));
    }
}
