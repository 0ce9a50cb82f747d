//! Where a shard has it remembered what is not to be believed of a volume whose device failed: on a thread of its own, one after the
//! other, because a failed device concerns all of its volumes at once. It must not know volumes.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};

use lode_engine::Fence;
use lode_media::Waker;

use crate::fence_file::FenceFile;

/// Something to be remembered of a volume.
struct Job {
    volume: usize,
    file: FenceFile,
    fence: Fence,
}

/// How an attempt to remember something of a volume ended.
pub(super) struct FenceEnd {
    pub volume: usize,
    pub fence: Fence,
    pub result: io::Result<()>,
}

/// The attempts of a shard, and the thread that makes them, once there was one.
#[derive(Default)]
pub(super) struct Fences {
    thread: Option<(Sender<Job>, Receiver<FenceEnd>)>,
    /// There was no thread to be had for these.
    refused: VecDeque<FenceEnd>,
    under_way: usize,
}

impl Fences {
    /// Whether no attempt is under way: a stop waits for them.
    pub(super) fn is_idle(&self) -> bool {
        self.under_way == 0
    }

    /// Begins an attempt. `wake` is told when one has ended.
    pub(super) fn begin(&mut self, volume: usize, file: FenceFile, fence: Fence, wake: impl Fn() -> Waker) {
        self.under_way += 1;
        let job = Job { volume, file, fence };
        let result = match self.thread(wake) {
            // It ends with its sender.
            Ok(jobs) => jobs.send(job).map_err(|_| io::Error::other("the thread that writes it has ended")),
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            self.thread = None;
            self.refused.push_back(FenceEnd { volume, fence, result: Err(error) });
        }
    }

    fn thread(&mut self, wake: impl Fn() -> Waker) -> io::Result<&Sender<Job>> {
        if self.thread.is_none() {
            let (jobs, todo) = mpsc::channel::<Job>();
            let (ended, ends) = mpsc::channel();
            let waker = wake();
            let work = move || {
                for Job { volume, file, fence } in todo {
                    // Every attempt has an end, which a stop waits for.
                    let result = catch_unwind(AssertUnwindSafe(|| file.add(fence))).unwrap_or_else(|_| {
                        Err(io::Error::other("a defect of the program, which the log tells of"))
                    });
                    // A shard that has ended needs no answer.
                    let _ = ended.send(FenceEnd { volume, fence, result });
                    waker.wake();
                }
            };
            std::thread::Builder::new().name("fence".to_owned()).spawn(work)?;
            self.thread = Some((jobs, ends));
        }
        Ok(&self.thread.as_ref().expect("it was begun").0)
    }

    /// The next attempt that has ended.
    pub(super) fn next_ended(&mut self) -> Option<FenceEnd> {
        let ended = || self.thread.as_ref().and_then(|(_, ends)| ends.try_recv().ok());
        let end = self.refused.pop_front().or_else(ended)?;
        self.under_way -= 1;
        Some(end)
    }
}
