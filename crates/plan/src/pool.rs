//! Several threads on the streams of many VMs: each VM's work in its order, different VMs at the same time.
//!
//! The thread that reads puts work into lanes, one a VM, and works itself whenever too much is waiting, so that as
//! many threads are busy as were asked for. What a lane computes follows from its own work alone, so that results
//! do not depend on timing. It must not know what the work is.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use lode_types::{BlockNo, Direction};

/// One block access.
pub(crate) type BlockAccess = (Direction, BlockNo);

/// Batches that may wait for each thread, so that the reader does not run ahead without end.
const WAITING_PER_THREAD: usize = 32;

/// Takes one VM's stream.
pub(crate) trait Consumer: Send {
    /// Why it may stop.
    type Error: Send;

    /// The next batches of accesses. How many come at once depends on timing, where they end does not.
    fn take(&mut self, batches: &[Vec<BlockAccess>]) -> Result<(), Self::Error>;

    /// An interval ends here.
    fn end_interval(&mut self);
}

enum Work {
    Accesses(Vec<BlockAccess>),
    EndInterval,
}

struct Lane<C> {
    /// Absent while a thread works on it.
    consumer: Option<C>,
    waiting: VecDeque<Work>,
    /// It is in the queue of ready lanes, or a thread has it.
    scheduled: bool,
}

struct State<C: Consumer> {
    lanes: Vec<Lane<C>>,
    ready: VecDeque<usize>,
    /// Pieces of work that are not done.
    pending: usize,
    /// Emptied buffers, to be filled again.
    spare: Vec<Vec<BlockAccess>>,
    closed: bool,
    failed: Option<(usize, C::Error)>,
    /// A thread panicked in the middle of its work, which will never be done.
    broken: bool,
}

/// Lanes and the threads' meeting place.
pub(crate) struct Pool<C: Consumer> {
    state: Mutex<State<C>>,
    /// A lane is ready, or everything is over.
    work: Condvar,
    /// Work was done.
    done: Condvar,
    most_pending: usize,
}

/// A lane's number and why it stopped.
pub(crate) type Failure<C> = (usize, <C as Consumer>::Error);

impl<C: Consumer> Pool<C> {
    /// Runs `read` on this thread with `threads - 1` others to help; gives its result and the lanes' consumers.
    pub(crate) fn run<R>(threads: usize, read: impl FnOnce(&Pool<C>) -> R) -> (R, Vec<C>) {
        let state = State {
            lanes: Vec::new(),
            ready: VecDeque::new(),
            pending: 0,
            spare: Vec::new(),
            closed: false,
            failed: None,
            broken: false,
        };
        let pool = Pool {
            state: Mutex::new(state),
            work: Condvar::new(),
            done: Condvar::new(),
            most_pending: WAITING_PER_THREAD * threads.max(1),
        };
        let result = thread::scope(|scope| {
            let _closing = Closing(&pool);
            (1..threads).for_each(|_| {
                scope.spawn(|| pool.help_until_closed());
            });
            read(&pool)
        });
        let state = pool.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        (result, state.lanes.into_iter().filter_map(|lane| lane.consumer).collect())
    }

    /// Adds a lane; lanes are numbered from 0 in the order of their coming.
    pub(crate) fn add_lane(&self, consumer: C) {
        self.lock().lanes.push(Lane { consumer: Some(consumer), waiting: VecDeque::new(), scheduled: false });
    }

    /// Gives a lane its next accesses and takes an empty buffer in exchange.
    pub(crate) fn push(
        &self,
        lane: usize,
        accesses: Vec<BlockAccess>,
    ) -> Result<Vec<BlockAccess>, Failure<C>> {
        self.add(lane, Work::Accesses(accesses))?;
        Ok(self.lock().spare.pop().unwrap_or_default())
    }

    /// Ends an interval of a lane.
    pub(crate) fn end_interval(&self, lane: usize) -> Result<(), Failure<C>> {
        self.add(lane, Work::EndInterval)
    }

    fn add(&self, lane: usize, work: Work) -> Result<(), Failure<C>> {
        let mut state = self.lock();
        while state.pending >= self.most_pending {
            state = self.work_or_wait(state);
        }
        if let Some(failure) = state.failed.take() {
            return Err(failure);
        }
        state.pending += 1;
        state.lanes[lane].waiting.push_back(work);
        if !state.lanes[lane].scheduled {
            state.lanes[lane].scheduled = true;
            state.ready.push_back(lane);
            self.work.notify_one();
        }
        Ok(())
    }

    /// Waits until everything is done, and shows all consumers in the order of their lanes.
    pub(crate) fn settled<R>(&self, look: impl FnOnce(&mut [&mut C]) -> R) -> Result<R, Failure<C>> {
        let mut state = self.lock();
        while state.pending > 0 {
            state = self.work_or_wait(state);
        }
        if let Some(failure) = state.failed.take() {
            return Err(failure);
        }
        let mut consumers: Vec<&mut C> =
            state.lanes.iter_mut().filter_map(|lane| lane.consumer.as_mut()).collect();
        Ok(look(&mut consumers))
    }

    fn lock(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work_or_wait<'a>(&'a self, mut state: MutexGuard<'a, State<C>>) -> MutexGuard<'a, State<C>> {
        assert!(!state.broken, "another thread panicked");
        match state.ready.pop_front() {
            Some(lane) => self.work_on(lane, state),
            None => self.done.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
    }

    fn help_until_closed(&self) {
        let mut state = self.lock();
        loop {
            state = match state.ready.pop_front() {
                Some(lane) => self.work_on(lane, state),
                None if state.closed => return,
                None => self.work.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Does everything that waits in a lane.
    fn work_on<'a>(&'a self, lane: usize, mut state: MutexGuard<'a, State<C>>) -> MutexGuard<'a, State<C>> {
        let waiting = std::mem::take(&mut state.lanes[lane].waiting);
        let consumer = state.lanes[lane].consumer.take();
        let failed_before = state.failed.is_some();
        drop(state);
        let alarm = Alarm(self);
        let pieces = waiting.len();
        let mut buffers = Vec::with_capacity(pieces);
        let mut failure = None;
        let consumer = consumer.map(|mut consumer| {
            if !failed_before {
                failure = do_all(&mut consumer, waiting, &mut buffers).err();
            }
            consumer
        });
        buffers.iter_mut().for_each(Vec::clear);
        std::mem::forget(alarm);
        let mut state = self.lock();
        state.lanes[lane].consumer = consumer;
        state.pending -= pieces;
        state.spare.append(&mut buffers);
        state.spare.truncate(self.most_pending);
        if let Some(error) = failure {
            state.failed.get_or_insert((lane, error));
        }
        if state.lanes[lane].waiting.is_empty() {
            state.lanes[lane].scheduled = false;
        } else {
            state.ready.push_back(lane);
            self.work.notify_one();
        }
        self.done.notify_all();
        state
    }
}

/// Does the work of a lane in its order, until some of it fails. `buffers` takes what carried it.
fn do_all<C: Consumer>(
    consumer: &mut C,
    waiting: VecDeque<Work>,
    buffers: &mut Vec<Vec<BlockAccess>>,
) -> Result<(), C::Error> {
    let mut taken = 0;
    for work in waiting {
        match work {
            Work::Accesses(accesses) => buffers.push(accesses),
            Work::EndInterval => {
                consumer.take(&buffers[taken..])?;
                taken = buffers.len();
                consumer.end_interval();
            }
        }
    }
    consumer.take(&buffers[taken..])
}

/// Sends the helpers home, also when the reader panics.
struct Closing<'a, C: Consumer>(&'a Pool<C>);

impl<C: Consumer> Drop for Closing<'_, C> {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.work.notify_all();
    }
}

/// Tells whoever waits that its work will not be done. Only dropped when a consumer panics.
struct Alarm<'a, C: Consumer>(&'a Pool<C>);

impl<C: Consumer> Drop for Alarm<'_, C> {
    fn drop(&mut self) {
        self.0.lock().broken = true;
        self.0.done.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Order {
        seen: Vec<u64>,
        intervals: Vec<usize>,
        fails_at: Option<u64>,
        panics_at: Option<u64>,
    }

    impl Consumer for Order {
        type Error = u64;

        fn take(&mut self, batches: &[Vec<BlockAccess>]) -> Result<(), u64> {
            for &(_, block) in batches.iter().flatten() {
                assert_ne!(self.panics_at, Some(block), "as it should");
                if self.fails_at == Some(block) {
                    return Err(block);
                }
                self.seen.push(block);
            }
            Ok(())
        }

        fn end_interval(&mut self) {
            self.intervals.push(self.seen.len());
        }
    }

    fn batch(blocks: std::ops::Range<u64>) -> Vec<BlockAccess> {
        blocks.map(|block| (Direction::Read, block)).collect()
    }

    #[test]
    fn every_lane_keeps_its_order_with_any_number_of_threads() {
        for threads in 1..5 {
            let (result, lanes) = Pool::<Order>::run(threads, |pool| {
                (0..7).for_each(|_| pool.add_lane(Order::default()));
                for round in 0..300_u64 {
                    for lane in 0..7 {
                        pool.push(lane, batch(round * 3..round * 3 + 3))?;
                        if round % 100 == 99 {
                            pool.end_interval(lane)?;
                        }
                    }
                }
                pool.settled(|lanes| lanes.iter().map(|lane| lane.seen.len()).sum::<usize>())
            });
            assert_eq!(result, Ok(7 * 900));
            for lane in lanes {
                assert!(lane.seen.iter().copied().eq(0..900), "{threads} threads");
                assert_eq!(lane.intervals, [300, 600, 900]);
            }
        }
    }

    #[test]
    fn a_failure_reaches_the_reader_and_names_the_lane() {
        for threads in 1..4 {
            let (result, _) = Pool::<Order>::run(threads, |pool| {
                pool.add_lane(Order::default());
                pool.add_lane(Order { fails_at: Some(500), ..Order::default() });
                for round in 0..2000 {
                    pool.push(0, batch(round..round + 1))?;
                    pool.push(1, batch(round..round + 1))?;
                }
                pool.settled(|_| ())
            });
            assert_eq!(result, Err((1, 500)), "{threads} threads");
        }
    }
    #[test]
    fn a_panic_does_not_leave_the_reader_waiting() {
        for threads in 1..4 {
            let run = || {
                Pool::<Order>::run(threads, |pool| {
                    pool.add_lane(Order { panics_at: Some(5), ..Order::default() });
                    (0..2000).try_for_each(|round| pool.push(0, batch(round..round + 1)).map(drop))
                })
            };
            assert!(std::panic::catch_unwind(run).is_err(), "{threads} threads");
        }
    }
}
