//! The disks that volumes share, and what the flushes of one mean to the others, on whatever thread these are. A lock is
//! taken by flushes alone. It must not know engines.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use lode_engine::command::MediaError;
use lode_engine::{EndedFlush, FlushTicket, SharedDevice, Worth};
use lode_media::{Waker, disks_under};

use crate::error::{ServerError, ServerErrorKind};

/// One disk, or the whole of a file that several volumes use.
#[derive(Debug, Default)]
struct Disk {
    device: Mutex<SharedDevice>,
    has_failed: AtomicBool,
    /// Flushes that ended well and of which it is open what they are worth.
    open: AtomicUsize,
}

impl Disk {
    fn device(&self) -> MutexGuard<'_, SharedDevice> {
        // Nothing that holds it can panic half way.
        self.device.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// All disks of the daemon, by their numbers.
#[derive(Default)]
pub(crate) struct Disks {
    by_number: BTreeMap<u64, Arc<Disk>>,
    news: Arc<News>,
}

/// Who is to hear when something was decided or failed, and how often that was.
#[derive(Default)]
struct News {
    count: AtomicU64,
    wakers: Mutex<Vec<Waker>>,
}

impl Disks {
    /// The disks under a file or device.
    pub(crate) fn under(&mut self, path: &Path) -> std::io::Result<DisksOf> {
        let numbers = disks_under(path)?;
        let disks = numbers.into_iter().map(|number| Arc::clone(self.by_number.entry(number).or_default()));
        Ok(DisksOf { file: Arc::default(), disks: disks.collect(), news: Arc::clone(&self.news) })
    }

    /// The same, with an error in words.
    pub(crate) fn under_path(&mut self, path: &Path) -> Result<DisksOf, ServerError> {
        self.under(path).map_err(|error| {
            let what = format!("Cannot find out on which disk {} is", path.display());
            ServerError::because(ServerErrorKind::Media, what, error)
        })
    }

    /// Something that lies on no disk of its own, such as a pair of SSDs, whose members do.
    pub(crate) fn under_nothing(&self) -> DisksOf {
        DisksOf { file: Arc::default(), disks: Vec::new(), news: Arc::clone(&self.news) }
    }
}

/// What a volume's file lies on. Clones are of the same file.
#[derive(Clone)]
pub(crate) struct DisksOf {
    /// What fails of the file itself does not concern others on the same disks.
    file: Arc<Disk>,
    disks: Vec<Arc<Disk>>,
    news: Arc<News>,
}

impl std::fmt::Debug for DisksOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DisksOf").field("disks", &self.disks.len()).finish_non_exhaustive()
    }
}

/// A flush under way.
#[derive(Debug)]
pub(crate) struct Flushing(Vec<FlushTicket>);

/// A flush that ended well.
#[derive(Debug)]
pub(crate) struct Flushed(Vec<EndedFlush>);

impl DisksOf {
    /// This thread is woken when it is decided what an open flush on any disk is worth, and when a disk fails.
    pub(crate) fn wakes(&self, waker: Waker) {
        self.news.wakers.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(waker);
    }

    /// A number that changes before threads are woken: something is new of any of the daemon's disks.
    pub(crate) fn news(&self) -> u64 {
        self.news.count.load(Ordering::Acquire)
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Disk>> {
        std::iter::once(&self.file).chain(&self.disks)
    }

    pub(crate) fn begin_flush(&self) -> Flushing {
        Flushing(self.all().map(|disk| disk.device().begin_flush()).collect())
    }

    pub(crate) fn end_flush(&self, Flushing(tickets): Flushing, ok: bool) -> Flushed {
        let (mut ended, mut wakes) = (Vec::new(), !ok);
        for (disk, ticket) in self.all().zip(tickets) {
            ended.push(disk.device().end_flush(ticket, ok));
            if !ok {
                disk.has_failed.store(true, Ordering::Release);
            }
            wakes |= disk.open.load(Ordering::Acquire) > 0;
        }
        if wakes {
            self.tell_all();
        }
        Flushed(ended)
    }

    /// What a flush that ended well is worth.
    pub(crate) fn worth(&self, Flushed(ended): &Flushed) -> Worth {
        let each: Vec<Worth> =
            self.all().zip(ended).map(|(disk, &ended)| disk.device().worth(ended)).collect();
        match [Worth::Nothing, Worth::Open].into_iter().find(|worth| each.contains(worth)) {
            Some(worth) => worth,
            None => Worth::Durable,
        }
    }

    /// Flushes on this thread, and waits until it is known what that is worth: no longer than `limit` for flushes of others beside it,
    /// which a device that hangs does not end. [`Worth::Open`]: it is not known by then.
    pub(crate) fn flush_with(
        &self,
        flush: impl FnOnce() -> Result<(), MediaError>,
        limit: Option<Duration>,
    ) -> Result<Worth, MediaError> {
        const TICK: Duration = Duration::from_millis(2);
        // Nothing may fail between its begin and its end, which others on the device wait for.
        let flushing = self.begin_flush();
        let outcome = flush();
        let flushed = self.end_flush(flushing, outcome.is_ok());
        outcome?;
        let began = Instant::now();
        loop {
            match self.worth(&flushed) {
                Worth::Open if limit.is_none_or(|limit| began.elapsed() < limit) => std::thread::sleep(TICK),
                worth => return Ok(worth),
            }
        }
    }

    /// Somebody waits to know what a flush is worth, or (`waits` is false) does no more.
    pub(crate) fn note_open(&self, waits: bool) {
        for disk in self.all() {
            match waits {
                true => disk.open.fetch_add(1, Ordering::AcqRel),
                false => disk.open.fetch_sub(1, Ordering::AcqRel),
            };
        }
    }

    /// The file failed one of its volumes in another way than by a flush.
    pub(crate) fn fail_file(&self) {
        if !self.file.has_failed.swap(true, Ordering::AcqRel) {
            self.file.device().fail();
            self.tell_all();
        }
    }

    /// Whether the file, or a disk that it lies on, has failed anybody.
    pub(crate) fn have_failed(&self) -> bool {
        self.all().any(|disk| disk.has_failed.load(Ordering::Acquire))
    }

    /// Wakes all who are to hear of something new.
    pub(crate) fn tell_all(&self) {
        self.news.count.fetch_add(1, Ordering::AcqRel);
        let wakers = self.news.wakers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        wakers.iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_that_fails_for_one_file_fails_the_disk_of_another() {
        let folder = tempfile::TempDir::new().unwrap();
        let [one, other] = ["one", "other"].map(|name| {
            let path = folder.path().join(name);
            std::fs::write(&path, name).unwrap();
            path
        });
        let mut disks = Disks::default();
        let (one, other) = (disks.under(&one).unwrap(), disks.under(&other).unwrap());
        let (first, second) = (one.begin_flush(), other.begin_flush());
        let second = other.end_flush(second, true);
        assert_eq!(other.worth(&second), Worth::Open);
        let _ = one.end_flush(first, false);
        assert_eq!(other.worth(&second), Worth::Nothing);
        assert!(one.have_failed() && other.have_failed());
    }

    #[test]
    fn what_fails_of_a_file_alone_is_its_own() {
        let folder = tempfile::TempDir::new().unwrap();
        let paths = ["one", "other"].map(|name| folder.path().join(name));
        paths.iter().for_each(|path| std::fs::write(path, "").unwrap());
        let mut disks = Disks::default();
        let [one, other] = paths.map(|path| disks.under(&path).unwrap());
        one.fail_file();
        assert!(one.clone().have_failed() && !other.have_failed());
        let flush = one.begin_flush();
        let flush = one.end_flush(flush, true);
        assert_eq!(one.worth(&flush), Worth::Nothing);
    }
}
