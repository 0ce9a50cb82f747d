//! A cache SSD as start-up and formatting see it: byte by byte, in order. Long reads and writes, of place tables and journals, are
//! cut into pieces that are under way on several threads at once, because a device that is asked for one thing at a time
//! is slow; whoever called waits for all of them.

use std::borrow::Borrow;
use std::convert::Infallible;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use lode_engine::Buf;
use lode_engine::command::{CommandKind, MediaError};
use lode_media::MediaFile;
use lode_store::{PagesRead, ReadAndWritten, SyncDevice, Task, Workers};

/// Bytes of a piece: as many as there are buffers for that are used again.
const PIECE_BYTES: usize = 256 << 10;
/// Pieces that are under way at once.
const THREADS: usize = 8;
/// Processors that are kept busy at once.
const MOST_PROCESSORS: usize = 4;

/// A [`MediaFile`], or a reference to one, as [`SyncDevice`].
pub(crate) struct FileDevice<F> {
    file: F,
    /// Commands that have ended, for whoever watches from another thread.
    ended: Arc<AtomicU64>,
}

impl<F: Borrow<MediaFile>> FileDevice<F> {
    pub(crate) fn new(file: F) -> FileDevice<F> {
        FileDevice { file, ended: Arc::new(AtomicU64::new(0)) }
    }

    /// Counts commands that have ended.
    pub(crate) fn ended(&self) -> &Arc<AtomicU64> {
        &self.ended
    }

    fn read_pieces(&self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        for (offset_bytes, piece) in (offset_bytes..).step_by(PIECE_BYTES).zip(buf.chunks_mut(PIECE_BYTES)) {
            piece.copy_from_slice(self.file.borrow().read_now(offset_bytes, piece.len())?.as_slice());
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn write_pieces(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        for (offset_bytes, piece) in (offset_bytes..).step_by(PIECE_BYTES).zip(bytes.chunks(PIECE_BYTES)) {
            self.file.borrow().run_now(&mut CommandKind::write(offset_bytes, Buf::copy_of(piece)))?;
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// What each thread has to do of so many bytes: as many pieces as the others.
fn stripe_bytes(bytes: usize) -> usize {
    bytes.div_ceil(THREADS).next_multiple_of(PIECE_BYTES)
}

/// A thread for each processor, up to [`MOST_PROCESSORS`].
pub(crate) struct Threads;

impl Workers for Threads {
    fn run(&self, tasks: &mut [Task<'_>]) {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let helpers = processors.min(MOST_PROCESSORS).min(tasks.len()).saturating_sub(1);
        let do_one = |task: &mut Task<'_>| -> Result<(), Infallible> {
            task();
            Ok(())
        };
        let tasks: Vec<_> = tasks.iter_mut().map(|task| move || do_one(task)).collect();
        let Ok(()) = with_helpers(tasks, helpers, || {});
    }
}

/// Does all of this, at once as far as there are threads for it, and gives an error if there was one.
fn at_once<P, E: Send>(parts: impl Iterator<Item = P>) -> Result<(), E>
where
    P: FnOnce() -> Result<(), E> + Send,
{
    let parts: Vec<P> = parts.collect();
    let helpers = parts.len().saturating_sub(1);
    with_helpers(parts, helpers, || {})
}

/// As [`at_once`] with so many other threads, while this one does something else first.
fn with_helpers<P, E: Send>(parts: Vec<P>, helpers: usize, first: impl FnOnce()) -> Result<(), E>
where
    P: FnOnce() -> Result<(), E> + Send,
{
    let left = Mutex::new(parts.into_iter());
    let work = || {
        let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
        std::iter::from_fn(next).map(|part| part()).fold(Ok(()), Result::and)
    };
    thread::scope(|scope| {
        // What no thread can be had for is done here.
        let helpers = (0..helpers).map_while(|_| thread::Builder::new().spawn_scoped(scope, work).ok());
        let helpers: Vec<_> = helpers.collect();
        first();
        let own = work();
        let ends =
            helpers.into_iter().map(|helper| helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
        ends.fold(own, Result::and)
    })
}

/// Does all of this, each on a thread of its own, while something else is done, and gives an error if there was one.
fn beside<P, E: Send>(parts: Vec<P>, meanwhile: &mut dyn FnMut(&dyn Workers)) -> Result<(), E>
where
    P: FnOnce() -> Result<(), E> + Send,
{
    let helpers = parts.len();
    with_helpers(parts, helpers, || meanwhile(&Threads))
}

/// Does one thing on a thread of its own while something else is done. What came of the first.
pub(crate) fn while_doing<T: Send>(
    work: impl FnOnce() -> T + Send,
    meanwhile: &mut dyn FnMut(&dyn Workers),
) -> T {
    let mut result = None;
    let part = || {
        result = Some(work());
        Ok::<_, Infallible>(())
    };
    let Ok(()) = beside(vec![part], meanwhile);
    result.expect("all parts were done")
}

impl<F: Borrow<MediaFile> + Sync> FileDevice<F> {
    /// Reads of these places, divided among threads.
    fn reads<'a>(
        &'a self,
        parts: &'a mut [(u64, &mut [u8])],
    ) -> impl Iterator<Item = impl FnOnce() -> Result<(), (u64, MediaError)> + Send + 'a> {
        let read =
            |(at, buf): &mut (u64, &mut [u8])| self.read_pieces(*at, buf).map_err(|error| (*at, error));
        let shares = parts.chunks_mut(parts.len().div_ceil(THREADS).max(1));
        shares.map(move |share| move || share.iter_mut().try_for_each(read))
    }

    /// Writes to these places, divided among threads.
    fn writes<'a>(
        &'a self,
        parts: &'a [(u64, &[u8])],
    ) -> impl Iterator<Item = impl FnOnce() -> Result<(), (u64, MediaError)> + Send + 'a> {
        let write = |(at, bytes): &(u64, &[u8])| self.write_pieces(*at, bytes).map_err(|error| (*at, error));
        let shares = parts.chunks(parts.len().div_ceil(THREADS).max(1));
        shares.map(move |share| move || share.iter().try_for_each(write))
    }
}

impl<F: Borrow<MediaFile> + Sync> SyncDevice for FileDevice<F> {
    fn size_bytes(&self) -> u64 {
        self.file.borrow().size_bytes()
    }

    fn read(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        if buf.len() <= PIECE_BYTES {
            return self.read_pieces(offset_bytes, buf);
        }
        let (this, stripe) = (&*self, stripe_bytes(buf.len()));
        let offsets = (offset_bytes..).step_by(stripe);
        at_once(offsets.zip(buf.chunks_mut(stripe)).map(|(at, part)| move || this.read_pieces(at, part)))
    }

    fn read_pages_at_once(&mut self, parts: &mut [(u64, &mut [u8])]) -> PagesRead {
        at_once(self.reads(parts)).map(|()| Vec::new())
    }

    fn read_pages_beside(
        &mut self,
        parts: &mut [(u64, &mut [u8])],
        meanwhile: &mut dyn FnMut(&dyn Workers),
    ) -> PagesRead {
        let parts: Vec<_> = self.reads(parts).collect();
        beside(parts, meanwhile).map(|()| Vec::new())
    }

    fn with_workers(&self, work: &mut dyn FnMut(&dyn Workers)) {
        work(&Threads);
    }

    fn read_pages_beside_writes(
        &mut self,
        reads: &mut [(u64, &mut [u8])],
        writes: &[(u64, &[u8])],
    ) -> ReadAndWritten {
        let this = &*self;
        let write = || at_once(this.writes(writes));
        thread::scope(|scope| {
            let writer = thread::Builder::new().spawn_scoped(scope, write);
            let read = at_once(this.reads(reads)).map(|()| Vec::new());
            // Without a thread for it one comes after the other.
            let written = writer.map_or_else(
                |_| write(),
                |writer| writer.join().unwrap_or_else(|panic| resume_unwind(panic)),
            );
            (read, written)
        })
    }

    fn write_at_once(&mut self, parts: &[(u64, &[u8])]) -> Result<(), (u64, MediaError)> {
        at_once(self.writes(parts))
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        if bytes.len() <= PIECE_BYTES {
            return self.write_pieces(offset_bytes, bytes);
        }
        let (this, stripe) = (&*self, stripe_bytes(bytes.len()));
        let offsets = (offset_bytes..).step_by(stripe);
        at_once(offsets.zip(bytes.chunks(stripe)).map(|(at, part)| move || this.write_pieces(at, part)))
    }

    fn write_zeroes(&mut self, offset_bytes: u64, length_bytes: usize) -> Result<(), MediaError> {
        let length_bytes = length_bytes as u64;
        let mut zeroes = CommandKind::WriteZeroes { offset_bytes, length_bytes, unmap: true };
        self.file.borrow().run_now(&mut zeroes).map(drop)
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        self.file.borrow().run_now(&mut CommandKind::Flush).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use lode_media::OpenOptions;

    use super::*;

    #[test]
    fn all_tasks_are_done_once() {
        let mut done = vec![0; 100];
        let mut tasks: Vec<_> = done.iter_mut().map(|done| || *done += 1).collect();
        let mut tasks: Vec<Task<'_>> = tasks.iter_mut().map(|task| task as Task<'_>).collect();
        Threads.run(&mut tasks);
        Threads.run(&mut tasks);
        Threads.run(&mut []);
        assert_eq!(done, vec![2; 100]);
    }

    #[test]
    fn pieces_are_where_they_belong() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let path = folder.path().join("ssd");
        let size_bytes = 6 << 20;
        fs::write(&path, vec![0; size_bytes]).expect("a file");
        let file = MediaFile::open(&path, &OpenOptions::default()).expect("it opens");
        let mut device = FileDevice::new(&file);
        let mut plain = vec![0; size_bytes];
        let lengths = [4096, PIECE_BYTES, PIECE_BYTES + 4096, 5 * PIECE_BYTES - 8192, 4 << 20];
        for (number, length) in (1u8..).zip(lengths) {
            let at = usize::from(number) * 12_288;
            let bytes: Vec<u8> = (0..length).map(|i| (i / 512) as u8 ^ number).collect();
            device.write(at as u64, &bytes).expect("it takes it");
            plain[at..at + length].copy_from_slice(&bytes);
            let mut read = vec![0; length + 8192];
            device.read(at as u64 - 4096, &mut read).expect("it has it");
            assert_eq!(read, plain[at - 4096..at + length + 4096]);
        }
        let (start, end) = (1 << 20, (1 << 20) + 12_288);
        device.write_zeroes(start as u64, end - start).expect("it takes it");
        plain[start..end].fill(0);
        assert_eq!(fs::read(&path).expect("it is there"), plain);
        // Several at once, in any order.
        let [mut one, mut other, mut third] = [vec![0; 8192], vec![0; 2 * PIECE_BYTES], vec![0; 4096]];
        device
            .write_at_once(&[(1 << 20, &[7; 4096]), (0, &[8; 8192]), (5 << 20, &[9; 4096])])
            .expect("it takes them");
        plain[1 << 20..(1 << 20) + 4096].fill(7);
        plain[..8192].fill(8);
        plain[5 << 20..(5 << 20) + 4096].fill(9);
        device
            .read_pages_at_once(&mut [(5 << 20, &mut one), (0, &mut other), (1 << 20, &mut third)])
            .expect("it has them");
        assert!(one == plain[5 << 20..][..8192] && other == plain[..2 * PIECE_BYTES] && third == [7; 4096]);
        let mut is_done = false;
        let (mut here, mut there) = (vec![0; 8192], vec![0; 4096]);
        device
            .read_pages_beside(&mut [(0, &mut here), (1 << 20, &mut there)], &mut |_| is_done = true)
            .expect("it has them");
        assert!(is_done && here == plain[..8192] && there == [7; 4096]);
        let results = device.read_pages_beside_writes(
            &mut [(0, &mut here), (1 << 20, &mut there)],
            &[(2 << 20, &[3; 8192]), (3 << 20, &[4; 4096])],
        );
        plain[2 << 20..(2 << 20) + 8192].fill(3);
        plain[3 << 20..(3 << 20) + 4096].fill(4);
        assert!(results == (Ok(Vec::new()), Ok(())) && here == plain[..8192] && there == [7; 4096]);
        assert!(fs::read(&path).expect("it is there") == plain);
        let beyond = (size_bytes as u64, &mut vec![0; 4096][..]);
        let failed = device.read_pages_at_once(&mut [(0, &mut one), beyond]);
        assert_eq!(failed, Err((size_bytes as u64, MediaError::Io)), "one of them does not exist");
        let mut beyond = vec![0; 4 << 20];
        assert_eq!(device.read(4 << 20, &mut beyond), Err(MediaError::Io), "a part of it does not exist");
    }
}
