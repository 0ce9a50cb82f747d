//! The end of a daemon: its shards stop, and whoever asked for it is told how that goes and how it went. It must
//! not know what shards do.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::commands::Session;
use crate::error::{ServerError, ServerErrorKind};
use crate::messages::ToShard;
use crate::threads::ShardThread;

/// How often those who asked for a stop are told how far its drain is.
const PROGRESS_PAUSE: Duration = Duration::from_secs(1);

/// Stops all shards, with `drain` after their caches are written back. `failure` is why the service ends, if it was
/// not asked to. Also returns the VMs, by their numbers, with whether their disks have everything durably; without those of a
/// shard that failed.
pub(crate) fn end(
    shards: Vec<ShardThread>,
    mut stoppers: Vec<Session>,
    drain: bool,
    signals: &UnixStream,
    mut failure: Option<ServerError>,
) -> (Vec<(usize, bool)>, Result<(), ServerError>) {
    let mut disks = Vec::new();
    let count = shards.len();
    shards.iter().for_each(|shard| shard.tell(ToShard::Stop { drain }));
    if drain {
        watch_drain(&shards, &mut stoppers, signals);
    }
    let (mut saved, mut dirty_blocks, mut lost_blocks) = (true, 0, 0);
    for (number, shard) in shards.into_iter().enumerate() {
        match shard.join() {
            Ok(ended) => {
                disks.extend(ended.disks.into_iter().map(|(at, is_clean)| (at * count + number, is_clean)));
                saved &= ended.saved;
                dirty_blocks += ended.dirty_blocks;
                lost_blocks += ended.lost_blocks;
            }
            // The first one that failed says more than what followed from it.
            Err(error) => failure = failure.filter(|f| f.kind() != ServerErrorKind::Thread).or(Some(error)),
        }
    }
    let saved_all = saved && failure.is_none();
    for mut stopper in stoppers {
        let (dirty, lost) = (dirty_blocks, lost_blocks);
        stopper
            .answer(&serde_json::json!({ "saved": saved_all, "dirty_blocks": dirty, "lost_blocks": lost }));
        // Whoever asked may have gone.
        let _ = stopper.send(Instant::now());
    }
    (disks, tell_end(saved, (dirty_blocks, lost_blocks), failure))
}

fn tell_end(
    saved: bool,
    (dirty_blocks, lost_blocks): (u64, u64),
    failure: Option<ServerError>,
) -> Result<(), ServerError> {
    if let Some(failure) = failure {
        return Err(failure);
    }
    if !saved {
        let text = "Stopped, but not everything could be saved in time or without an error: what guests were told \
                    is durable is on the SSD or the backing disk, later writes may be lost";
        return Err(ServerError::new(ServerErrorKind::Media, text));
    }
    if lost_blocks > 0 {
        tracing::error!("{lost_blocks} blocks are damaged on the SSD, and their backing disks are older");
    }
    match dirty_blocks {
        0 => tracing::info!("Stopped; everything is saved, and the backing disks are up to date"),
        blocks => tracing::info!(
            "Stopped; everything is saved. {blocks} blocks are newer on the SSD than on the backing disks"
        ),
    }
    Ok(())
}

/// Tells the stoppers how many blocks are left to be written back, until all shards have ended. A signal ends the
/// drain early.
fn watch_drain(shards: &[ShardThread], stoppers: &mut [Session], mut signals: &UnixStream) {
    let pause = Timespec::try_from(PROGRESS_PAUSE).ok();
    let mut running: Vec<&ShardThread> = shards.iter().collect();
    while !running.is_empty() {
        let mut fds = vec![PollFd::new(signals, PollFlags::IN)];
        fds.extend(running.iter().map(|shard| PollFd::new(*shard, PollFlags::IN)));
        match poll(&mut fds, pause.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            // Without waiting there is only joining.
            Err(_) => return,
        }
        if !fds[0].revents().is_empty() {
            tracing::info!("Asked by a signal to stop without writing everything back");
            // Only to make it quiet; what is not read now comes back.
            let _ = signals.read(&mut [0; 64]);
            running.iter().for_each(|shard| shard.tell(ToShard::Stop { drain: false }));
        }
        let ended: Vec<bool> = fds[1..].iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut ended = ended.into_iter();
        running.retain(|_| ended.next() == Some(false));
        let left: u64 = running.iter().map(|shard| shard.draining_blocks()).sum();
        for stopper in stoppers.iter_mut().filter(|stopper| stopper.is_sent()) {
            stopper.answer(&serde_json::json!({ "draining_blocks": left }));
            let _ = stopper.send(Instant::now());
        }
    }
}
