//! The io_uring backend: one ring, one thread, one system call to submit and wait.
//!
//! Trims and write-zeroes go to the thread pool: on block devices they are `ioctl`s, on files the kernel
//! would hand them to threads of its own, and either may have to fall back to something else.

mod flight;

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{Builder, IoUring, opcode, squeue};
use lode_types::CommandKind;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::{Errno, ioctl_fionbio};

use self::flight::{Flight, Frame, Transfer};
use crate::error::{FaultKind, MediaFault};
use crate::op::{Payload, payload_of};
use crate::outbox::Outbox;
use crate::pool::{FileJob, MapJob, Pool};
use crate::port::Backend;
use crate::socket::{RecvJob, SendJob, Socket};
use crate::spin::Spin;
use crate::table::{Key, Table};
use crate::waker::Waker;

/// Operations that fit into one system call; more are held back until the next.
const SUBMIT_ENTRIES: u32 = 256;
/// Completions the ring holds. More are not lost: the kernel keeps them until there is room.
const COMPLETE_ENTRIES: u32 = 4096;
/// How long a dropped driver waits for what is in flight before it gives the memory up instead.
const DRAIN_LIMIT: Duration = Duration::from_secs(30);

/// Marks the completion of the read on the waker's event. No key of a flight has these bits.
const WAKE: u64 = u64::MAX;
/// Marks the completion of a cancellation.
const CANCEL: u64 = u64::MAX - 1;

/// With so many reads and writes in flight a sleep is short by itself, and those that end meanwhile are taken together.
const MANY_TRANSFERS: u32 = 8;
/// Most descriptions of sends that are kept.
const MOST_FRAMES: usize = 64;

/// A set of set-up flags to try, with its name for the log.
type Setup = (&'static str, fn(&mut Builder));

/// From the best to the plainest. Completions are then processed when this thread asks for them, rather
/// than by interrupting it.
const SETUPS: [Setup; 4] = [
    ("SINGLE_ISSUER, DEFER_TASKRUN, COOP_TASKRUN", |builder| {
        builder.setup_single_issuer().setup_defer_taskrun().setup_coop_taskrun().setup_taskrun_flag();
    }),
    ("SINGLE_ISSUER, COOP_TASKRUN", |builder| {
        builder.setup_single_issuer().setup_coop_taskrun().setup_taskrun_flag();
    }),
    ("COOP_TASKRUN", |builder| {
        builder.setup_coop_taskrun().setup_taskrun_flag();
    }),
    ("no flags", |_| {}),
];

pub(crate) struct Uring {
    ring: IoUring,
    flights: Table<Flight>,
    /// Bits of flights (or `WAKE`) for which the submission queue had no room.
    held_back: VecDeque<u64>,
    /// Completions taken from the ring; kept to reuse its memory.
    reaped: Vec<(u64, i32)>,
    pool: Pool,
    waker: Waker,
    /// Where the kernel puts the event's counter.
    wake_counter: Box<[u8; 8]>,
    wake_armed: bool,
    spin: Spin,
    /// Reads and writes of files in flight.
    transfers: u32,
    /// Descriptions of sends that are over, for others.
    #[expect(clippy::vec_box, reason = "the kernel reads each where it is, so that it must not move")]
    frames: Vec<Box<Frame>>,
    #[cfg(test)]
    enters: u64,
}

impl Uring {
    /// Opens a ring with the best flags the kernel takes, and returns their names.
    pub fn open(spin: Spin) -> Result<(Uring, &'static str), MediaFault> {
        Uring::with_entries(SUBMIT_ENTRIES, COMPLETE_ENTRIES, &SETUPS, spin)
    }

    fn with_entries(
        submit: u32,
        complete: u32,
        setups: &[Setup],
        spin: Spin,
    ) -> Result<(Uring, &'static str), MediaFault> {
        let (ring, flags) = build_ring(submit, complete, setups)?;
        let waker = Waker::new(false)?;
        let mut uring = Uring {
            ring,
            flights: Table::new(),
            held_back: VecDeque::new(),
            reaped: Vec::new(),
            pool: Pool::new(waker.clone()),
            waker,
            wake_counter: Box::new([0; 8]),
            wake_armed: false,
            spin,
            transfers: 0,
            frames: Vec::new(),
            #[cfg(test)]
            enters: 0,
        };
        uring.queue(WAKE);
        Ok((uring, flags))
    }

    fn launch(&mut self, flight: Flight) {
        let key = self.flights.insert(flight);
        self.queue(key.to_bits());
    }

    /// Puts an operation into the submission queue, or holds it back when the queue is full.
    fn queue(&mut self, bits: u64) {
        if !self.held_back.is_empty() || !self.push(bits) {
            self.held_back.push_back(bits);
        }
    }

    /// Whether there was room.
    fn push(&mut self, bits: u64) -> bool {
        let entry = if bits == WAKE {
            self.wake_armed = true;
            let into = self.wake_counter.as_mut_ptr();
            opcode::Read::new(Fd(self.waker.event().as_raw_fd()), into, self.wake_counter.len() as u32)
                .build()
        } else {
            match self.flights.get_mut(Key::from_bits(bits)) {
                Some(flight) => flight.entry(),
                None => return true,
            }
        };
        self.push_entry(entry.user_data(bits))
    }

    fn push_entry(&mut self, entry: squeue::Entry) -> bool {
        // SAFETY: every pointer in an entry leads to heap memory owned by a flight, or to the wake counter,
        // and every descriptor is owned by the same flight, or by the waker. Flights are dropped when their
        // completion has been taken from the ring (`settle`), and the rest when nothing is in the ring any
        // more (`drop`); while they live their memory is not touched. If the ring cannot be emptied, `drop`
        // leaks them.
        unsafe { self.ring.submission().push(&entry) }.is_ok()
    }

    /// The one system call of a turn.
    fn enter(&mut self, want: usize, pause: Option<Duration>) -> Result<(), MediaFault> {
        #[cfg(test)]
        {
            self.enters += 1;
        }
        let submitter = self.ring.submitter();
        let outcome = match pause {
            Some(pause) if want > 0 => {
                let pause = Timespec::from(pause);
                submitter.submit_with_args(want, &SubmitArgs::new().timespec(&pause))
            }
            _ => submitter.submit_and_wait(want),
        };
        let Err(error) = outcome else { return Ok(()) };
        match Errno::from_io_error(&error) {
            // The time is up; a signal; or completions must be taken before more can be submitted.
            Some(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
            _ => {
                Err(MediaFault::system("The io_uring failed; restart the service, or choose threads", error))
            }
        }
    }

    /// Submits and waits for one completion: looks for it, then sleeps.
    fn wait_for_one(&mut self, pause: Option<Duration>) -> Result<(), MediaFault> {
        if !self.spin.is_on() {
            return self.enter(1, pause);
        }
        let began = Instant::now();
        if self.spin.is_open() && self.transfers < MANY_TRANSFERS {
            if !self.ring.submission().is_empty() {
                self.enter(0, None)?;
            }
            if !self.ring.completion().is_empty() {
                // Nothing was waited for.
                return Ok(());
            }
            // Completions that the kernel has ready, or work of which it wants to make some.
            let ring = &mut self.ring;
            let found =
                self.spin.look(pause, || ring.submission().taskrun() || !ring.completion().is_empty());
            if !found || ring.submission().taskrun() {
                self.enter(1, pause)?;
            }
        } else {
            self.enter(1, pause)?;
        }
        if !self.ring.completion().is_empty() {
            self.spin.waited(began.elapsed());
        }
        Ok(())
    }

    /// Submits, waits for at most `pause`, and takes completions. Returns whether the waker was signalled.
    fn go_around(&mut self, pause: Option<Duration>, outbox: &mut Outbox) -> Result<bool, MediaFault> {
        while let Some(bits) = self.held_back.front().copied()
            && self.push(bits)
        {
            self.held_back.pop_front();
        }
        let hurry = pause == Some(Duration::ZERO) || !self.held_back.is_empty();
        match hurry {
            true => self.enter(0, None)?,
            false => self.wait_for_one(pause)?,
        }
        let mut reaped = std::mem::take(&mut self.reaped);
        reaped.extend(self.ring.completion().map(|entry| (entry.user_data(), entry.result())));
        let mut signalled = false;
        for (bits, result) in reaped.drain(..) {
            match bits {
                CANCEL => {}
                WAKE => {
                    self.wake_armed = false;
                    signalled = true;
                    check_wake(result)?;
                }
                _ => self.settle(Key::from_bits(bits), result, outbox),
            }
        }
        self.reaped = reaped;
        Ok(signalled)
    }

    /// A completion has arrived: go on if there is more to do, else report.
    fn settle(&mut self, key: Key, result: i32, outbox: &mut Outbox) {
        let mut result = outcome_of(result);
        let Some(flight) = self.flights.get_mut(key) else { return };
        let unfinished = match (&mut *flight, result) {
            (_, Err(Errno::INTR | Errno::AGAIN)) => true,
            (_, Err(_)) | (Flight::Flush { .. }, Ok(_)) => false,
            (Flight::Recv { job, .. }, Ok(received)) => !job.note(received),
            (Flight::Transfer { .. } | Flight::Send { .. }, Ok(0)) => {
                // The file was cut short since it was opened.
                result = Err(Errno::IO);
                false
            }
            (Flight::Transfer { at, .. }, Ok(moved)) => {
                at.moved_bytes += moved;
                at.moved_bytes < at.total_bytes
            }
            (Flight::Send { job, .. }, Ok(sent)) => {
                job.sent_bytes += sent;
                job.sent_bytes < job.total_bytes
            }
        };
        if unfinished {
            self.queue(key.to_bits());
        } else if let Some(flight) = self.flights.remove(key) {
            self.report(flight, result, outbox);
        }
    }

    /// Hands an operation's buffers back and begins the one that waited behind it.
    fn report(&mut self, flight: Flight, result: Result<usize, Errno>, outbox: &mut Outbox) {
        match flight {
            Flight::Transfer { token, due, at, .. } => {
                self.transfers -= 1;
                outbox.finish(token, due, result.map(|_| at.moved_bytes), payload_of(at.kind));
            }
            Flight::Flush { token, due, .. } => outbox.finish(token, due, result, Payload::None),
            Flight::Recv { socket, job } => {
                if let Some(job) = socket.end_recv(job, result.map(drop), outbox) {
                    self.start_recv(socket, job);
                }
            }
            Flight::Send { socket, job, frame } => match socket.end_send(job, result.map(|_| ()), outbox) {
                Some(job) => self.launch(Flight::Send { socket, job, frame }),
                None if self.frames.len() < MOST_FRAMES => self.frames.push(frame),
                None => {}
            },
        }
    }

    /// Brings everything in the ring to its end. Whether that worked in time.
    fn drain(&mut self) -> bool {
        for bits in std::mem::take(&mut self.held_back) {
            // The kernel has not seen these.
            self.flights.remove(Key::from_bits(bits));
        }
        self.flights.iter().filter_map(Flight::socket).for_each(Socket::hang_up);
        let deadline = Instant::now() + DRAIN_LIMIT;
        let mut lost = Outbox::default();
        let mut cancelling = false;
        while self.flights.len() > 0 || self.wake_armed {
            if self.wake_armed && !cancelling {
                cancelling = self.push_entry(opcode::AsyncCancel::new(WAKE).build().user_data(CANCEL));
            }
            let pause =
                if cancelling { deadline.saturating_duration_since(Instant::now()) } else { Duration::ZERO };
            if Instant::now() >= deadline || self.go_around(Some(pause), &mut lost).is_err() {
                return false;
            }
        }
        true
    }
}

impl Backend for Uring {
    fn prepare(&self, socket: &OwnedFd) -> Result<(), Errno> {
        // On a non-blocking socket the ring would answer "try again" instead of waiting.
        ioctl_fionbio(socket, false)
    }

    fn start_file(&mut self, job: FileJob) {
        let FileJob { token, due, file, kind } = job;
        let flight = match kind {
            CommandKind::Read { .. } | CommandKind::Write { .. } => {
                self.transfers += 1;
                Flight::Transfer { token, due, file, at: Transfer::new(kind) }
            }
            CommandKind::Flush => Flight::Flush { token, due, file },
            CommandKind::Trim { .. } | CommandKind::WriteZeroes { .. } => {
                return self.pool.start(FileJob { token, due, file, kind });
            }
        };
        self.launch(flight);
    }

    fn start_map(&mut self, job: MapJob) {
        self.pool.start(job);
    }

    fn start_recv(&mut self, socket: Rc<Socket>, job: RecvJob) {
        self.launch(Flight::Recv { socket, job });
    }

    fn start_send(&mut self, socket: Rc<Socket>, job: SendJob) {
        let frame = self.frames.pop().unwrap_or_else(Frame::new);
        self.launch(Flight::Send { socket, job, frame });
    }

    fn turn(&mut self, pause: Option<Duration>, outbox: &mut Outbox) -> Result<bool, MediaFault> {
        if !self.go_around(pause, outbox)? {
            return Ok(false);
        }
        self.queue(WAKE);
        let asked = self.waker.seen();
        self.pool.collect(outbox);
        Ok(asked)
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        if !self.drain() {
            // A device does not answer. The kernel may still write to these buffers, so they are given up
            // rather than freed.
            std::mem::forget(std::mem::replace(&mut self.flights, Table::new()));
            std::mem::forget(std::mem::take(&mut self.wake_counter));
        }
    }
}

/// A completion's number: a count, or an error number below zero.
fn outcome_of(result: i32) -> Result<usize, Errno> {
    if result < 0 { Err(Errno::from_raw_os_error(result.saturating_neg())) } else { Ok(result as usize) }
}

fn check_wake(result: i32) -> Result<(), MediaFault> {
    match outcome_of(result) {
        Ok(_) | Err(Errno::CANCELED | Errno::INTR | Errno::AGAIN) => Ok(()),
        Err(errno) => Err(MediaFault::system("Cannot read the wake-up event; restart the service", errno)),
    }
}

fn build_ring(submit: u32, complete: u32, setups: &[Setup]) -> Result<(IoUring, &'static str), MediaFault> {
    let mut refused = None;
    for (name, set_up) in setups {
        let mut builder = IoUring::builder();
        builder.setup_clamp().setup_cqsize(complete);
        set_up(&mut builder);
        match builder.build(submit) {
            Ok(ring) if ring.params().is_feature_ext_arg() && ring.params().is_feature_nodrop() => {
                return Ok((ring, name));
            }
            Ok(_) => {
                let text = "This kernel's io_uring is too old; use Linux 5.11 or newer, or choose threads";
                return Err(MediaFault::new(FaultKind::Unsupported, text));
            }
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => refused = Some(error),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    let text = "This host refuses io_uring; allow it (seccomp profile, kernel.io_uring_disabled, memory lock \
                limit), or choose threads";
    Err(match refused {
        Some(error) => MediaFault::system(text, error),
        None => MediaFault::new(FaultKind::Unsupported, text),
    })
}

#[cfg(test)]
mod tests;
