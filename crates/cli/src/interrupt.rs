//! Files that are being written, and their removal when the program is told to end before they are complete. It must not
//! know what is in them.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Paths of unfinished files, and of the folders that were made for them.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Whether signals are looked at.
static WATCHED: OnceLock<()> = OnceLock::new();

/// What is removed when the program is told to end while this lives.
pub struct Unfinished(PathBuf);

impl Unfinished {
    /// A file, or a folder for such files.
    pub fn new(path: &Path) -> Unfinished {
        // Where signals cannot be looked at, they end the program as ever.
        WATCHED.get_or_init(|| watch().unwrap_or_default());
        unfinished().push(path.to_owned());
        Unfinished(path.to_owned())
    }

    /// Gives the file its name, or removes it, without being told to end in between.
    pub fn settle<T>(&self, end: impl FnOnce() -> T) -> T {
        let mut paths = unfinished();
        let ended = end();
        forget(&mut paths, &self.0);
        ended
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        forget(&mut unfinished(), &self.0);
    }
}

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn forget(paths: &mut Vec<PathBuf>, path: &Path) {
    if let Some(at) = paths.iter().position(|known| known == path) {
        paths.swap_remove(at);
    }
}

/// Starts to look at the signals that end a program, but for those that whoever started it wants ignored, as `nohup` does.
fn watch() -> std::io::Result<()> {
    let (mut reader, writer) = UnixStream::pair()?;
    let which = Arc::new(AtomicUsize::new(0));
    let ignored = ignored_signals();
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        if ignored & (1 << (signal - 1)) == 0 {
            signal_hook::flag::register_usize(signal, Arc::clone(&which), signal as usize)?;
            signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
        }
    }
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if reader.read_exact(&mut [0]).is_ok() {
            let paths = unfinished();
            for path in paths.iter() {
                // A folder goes only when it is empty: what else is in it is somebody's.
                std::fs::remove_file(path).or_else(|_| std::fs::remove_dir(path)).ok();
            }
            let signal = i32::try_from(which.load(Ordering::SeqCst)).unwrap_or(SIGTERM);
            // It ends here, so that the lock is kept and nothing gets its name any more.
            signal_hook::low_level::emulate_default_handler(signal).ok();
        }
    })?;
    Ok(())
}

/// A bit for each signal that is ignored, from the lowest on; none where the system does not tell.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
