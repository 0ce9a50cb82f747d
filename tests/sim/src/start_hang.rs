//! A device that stops answering inside a start. What a start asks for at once it is asked for one after the other here, in any order. It must not know what a
//! start does.
//!
//! What the daemon does then: a start waits for a single SSD, a backing disk or a redo log however long it takes, until the kernel gives the
//! command up or somebody ends the host or the process. A member of a pair it asks on a thread, gives it up after `ssd.timeout`, and asks it
//! nothing more until it opens the device again. The thread has the file open, and with it the lock, until the kernel is through with the
//! command: `pwrite` does not return before that, closing a file and ending a process wait for it, and io_uring keeps a file open as long. So
//! a late write lands after later writes of the same start to other devices, and while that serves guests, but never after a write of a
//! later start to the same device: before the command has ended nobody can lock the device who would write to it. A command that the kernel
//! itself has given up (NVMe and SCSI abort it, and reset the device) has happened or not when the caller is told.

use lode_types::{MediaError, Rng};

use crate::disk::SimDisk;
use crate::model::SECTOR;

/// Commands of a start of which one finds that its device does not answer.
const MOST_COMMANDS: u64 = 70;
/// Commands that the kernel gives up in a row, at most: a start reads nothing of that it has to believe less often than once more.
const MOST_GIVEN_UP: u64 = 3;
/// In how many of a hundred times a command that was given up has ended when the device is looked at again.
const ENDS_SOON: u64 = 30;
/// In how many of a hundred times it has not ended when the process was to end, and the next start finds the device locked.
const STAYS: u64 = 30;

/// What a device is asked for in a start.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked<'a> {
    Read,
    Write(u64, &'a [u8]),
    Flush,
}

/// How a hang goes on.
#[derive(Clone, Copy, Debug)]
pub enum HangEnd {
    /// The device carries out what it was asked for after a time.
    Answers,
    /// The kernel gives up this command and so many of those that come next.
    GivenUp {
        /// So many.
        more: u64,
    },
    /// Whoever asks gives it up, or never comes to know how it ends.
    Late,
}

/// A device that is to stop answering.
#[derive(Clone, Debug)]
pub(crate) struct StartHang {
    /// So many commands before that.
    after: u64,
    end: HangEnd,
    has_begun: bool,
    rng: Rng,
}

/// A command that nobody waits for any more and that the kernel still has. What it writes, or covers.
#[derive(Clone, Debug)]
pub(crate) struct LateCommand {
    what: Late,
    rng: Rng,
}

#[derive(Clone, Debug)]
enum Late {
    Read,
    Write(u64, Vec<u8>),
    Flush(u64),
}

impl StartHang {
    /// Somewhere in the next start, by chance for so long that nobody notices.
    pub(crate) fn pick(rng: &mut Rng) -> StartHang {
        let end = match rng.below(10) {
            0 => HangEnd::Answers,
            1..4 => HangEnd::GivenUp { more: rng.below(MOST_GIVEN_UP) },
            _ => HangEnd::Late,
        };
        // Starts differ in how much they ask for.
        let most = 1 + rng.below(MOST_COMMANDS);
        let after = rng.below(most);
        StartHang { after, end, has_begun: false, rng: Rng::new(rng.bits()) }
    }

    /// Whether the device stopped answering.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }
}

impl SimDisk {
    /// Whether the kernel still has a command that nobody waits for, so that the device is locked.
    pub(crate) fn is_locked(&self) -> bool {
        self.late.is_some()
    }

    /// What comes of asking for something in a start, before that is carried out.
    pub(crate) fn hang_in_start(&mut self, asked: Asked<'_>) -> Result<(), MediaError> {
        if self.is_locked() {
            return Err(MediaError::Gone);
        }
        let Some(hang) = &mut self.start_hang else { return Ok(()) };
        if hang.after > 0 {
            hang.after -= 1;
            return Ok(());
        }
        hang.has_begun = true;
        let mut rng = Rng::new(hang.rng.bits());
        match &mut hang.end {
            HangEnd::Answers => Ok(()),
            HangEnd::GivenUp { more } => {
                match more.checked_sub(1) {
                    Some(left) => *more = left,
                    None => hang.end = HangEnd::Answers,
                }
                let what = self.late(asked);
                if let Late::Flush(mark) = what {
                    self.drop_covered(mark);
                } else {
                    self.land(what, &mut rng);
                }
                Err(MediaError::Io)
            }
            HangEnd::Late => {
                hang.end = HangEnd::Answers;
                self.late = Some(LateCommand { what: self.late(asked), rng });
                Err(MediaError::Gone)
            }
        }
    }

    fn late(&self, asked: Asked<'_>) -> Late {
        match asked {
            Asked::Read => Late::Read,
            Asked::Write(at, bytes) => Late::Write(at, bytes.to_vec()),
            Asked::Flush => Late::Flush(self.flush_mark()),
        }
    }

    /// A command that nobody waits for happens wholly, in part or not at all.
    fn land(&mut self, what: Late, rng: &mut Rng) {
        match what {
            Late::Read => {}
            Late::Write(at, bytes) => {
                let sectors = (bytes.len() / SECTOR) as u64;
                let first = match rng.below(4) {
                    0 => 0,
                    1 => rng.below(sectors + 1),
                    _ => sectors,
                };
                let each = rng.chance(25);
                for (number, sector) in (0..).zip(bytes.chunks(SECTOR)) {
                    if if each { rng.chance(50) } else { number < first } {
                        self.put(at + number * SECTOR as u64, sector);
                    }
                }
            }
            // Nobody is told how it ended.
            Late::Flush(mark) if rng.chance(50) => self.settle(mark),
            Late::Flush(mark) => self.drop_covered(mark),
        }
    }

    /// The kernel is through with a command that nobody waits for, if there is one, and the device is unlocked.
    pub(crate) fn end_late(&mut self) {
        if let Some(LateCommand { what, mut rng }) = self.late.take() {
            self.land(what, &mut rng);
        }
    }

    /// By chance that has come about when the device is to be opened again.
    pub(crate) fn try_to_unlock(&mut self) {
        self.end_late_by_chance(ENDS_SOON);
    }

    /// The process has ended, or was to end; with the power all ends.
    pub(crate) fn process_ends(&mut self, power_cut: bool) {
        self.end_late_by_chance(if power_cut { 100 } else { 100 - STAYS });
    }

    fn end_late_by_chance(&mut self, percent: u64) {
        if self.late.as_mut().is_some_and(|late| late.rng.chance(percent)) {
            self.end_late();
        }
    }

    /// In the next start it stops answering after so many commands.
    pub fn hang_at_command(&mut self, after: u64, end: HangEnd, seed: u64) {
        self.start_hang = Some(StartHang { after, end, has_begun: false, rng: Rng::new(seed) });
    }

    /// As a copy of what is on it.
    pub(crate) fn medium(&self) -> SimDisk {
        let mut copy = self.clone();
        (copy.start_hang, copy.late) = (None, None);
        copy
    }
}
