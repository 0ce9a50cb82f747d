//! Guests: what they ask of their disks, and whether the answers are right. It must not know devices.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use lode_nbd::proto::CMD_FLAG_NO_HOLE;
use lode_nbd::{Command, CommandFlags};
use lode_types::Rng;

use crate::client::{Client, Lost, Outcome};
use crate::model::{Change, GuestEvent, Model, Version};
use crate::sector::{SECTOR_BYTES, WriteId, contents};
use crate::world::{Counts, World};

/// Sectors of the smallest block that a cache has.
const BLOCK_SECTORS: u64 = 8;
/// A read of the whole disk is made of reads of so many sectors.
const CHECK_SECTORS: u64 = 512;
/// So many of them are under way at once.
const CHECKS_UNDER_WAY: usize = 4;
/// Most complaints of one read that are told.
const MOST_TOLD: usize = 4;

/// A VM's disk, as its connections share it.
pub struct Disk<'w> {
    /// The log.
    pub world: &'w World,
    /// Which VM.
    pub vm: usize,
    /// How many sectors it has.
    pub sectors: u64,
    /// No device fails: every answer is as guarantee 1 says, and no request fails.
    pub nothing_fails: bool,
    /// What its guest is like.
    pub habits: Habits,
    busy: Mutex<Vec<Busy>>,
}

/// How often a guest wants to know that something is durable. What guests seldom ask for is tried where nothing else of them makes
/// it good a moment later.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// So many of a hundred requests are FLUSH.
    pub flush_percent: u64,
    /// So many of a hundred changes have FUA.
    pub fua_percent: u64,
}

impl Habits {
    /// Any.
    pub fn any(rng: &mut Rng) -> Habits {
        let (flush_percent, fua_percent) =
            [(7, 15), (7, 15), (0, 0), (0, 0), (0, 3), (1, 1), (20, 0), (2, 50)][rng.below(8) as usize];
        Habits { flush_percent, fua_percent }
    }
}

/// What a connection has asked.
struct Busy {
    connection: u64,
    cookie: Option<u64>,
    sectors: Range<u64>,
}

impl<'w> Disk<'w> {
    /// Nothing is under way.
    pub fn new(world: &'w World, vm: usize, sectors: u64, nothing_fails: bool, habits: Habits) -> Disk<'w> {
        Disk { world, vm, sectors, nothing_fails, habits, busy: Mutex::new(Vec::new()) }
    }

    /// Takes these sectors for a connection, if no other one has asked anything of them: only on one connection an order of
    /// requests is known.
    fn take(&self, connection: u64, sectors: &Range<u64>) -> bool {
        let busy = &mut *self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let meets = |other: &Busy| {
            other.connection != connection
                && other.sectors.start < sectors.end
                && sectors.start < other.sectors.end
        };
        let is_free = !busy.iter().any(meets);
        if is_free {
            busy.push(Busy { connection, cookie: None, sectors: sectors.clone() });
        }
        is_free
    }

    fn name(&self, connection: u64, cookie: u64) {
        let busy = &mut *self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let mut own = busy.iter_mut().filter(|one| one.connection == connection);
        if let Some(one) = own.find(|one| one.cookie.is_none()) {
            one.cookie = Some(cookie);
        }
    }

    fn give(&self, connection: u64, cookie: u64) {
        let busy = &mut *self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        busy.retain(|one| (one.connection, one.cookie) != (connection, Some(cookie)));
    }

    /// Reads everything and compares it with what may be there, while nobody writes; then what was found is settled.
    ///
    /// # Errors
    /// When the daemon goes, or does not answer.
    pub fn check_all(&self, client: &mut Client) -> Result<Vec<String>, Lost> {
        let mut wrong = Vec::new();
        let mut asked = HashMap::new();
        let mut next = 0;
        while next < self.sectors || !asked.is_empty() {
            if next < self.sectors && asked.len() < CHECKS_UNDER_WAY {
                let sectors = next..(next + CHECK_SECTORS).min(self.sectors);
                let (offset, length) = bytes_of(&sectors);
                next = sectors.end;
                asked.insert(client.send(Command::Read, offset, length, CommandFlags::NONE, &[])?, sectors);
                continue;
            }
            let (cookie, outcome) = client.wait()?;
            let sectors =
                asked.remove(&cookie).ok_or_else(|| Lost::Wrong("an answer too many".to_owned()))?;
            match outcome {
                Ok(bytes) => {
                    let found = self.world.check(self.vm, sectors.start, &bytes, self.nothing_fails);
                    note_wrong(&mut wrong, found);
                }
                Err(error) if self.nothing_fails => {
                    wrong.push(format!("VM {}: a read of sectors {sectors:?} failed: {error}", self.vm));
                }
                Err(_) => {}
            }
        }
        Ok(wrong)
    }

    /// A FLUSH while nothing else is under way.
    ///
    /// # Errors
    /// When the daemon goes, or does not answer.
    pub fn flush(&self, client: &mut Client) -> Result<Vec<String>, Lost> {
        let flush = self.world.send_flush(self.vm);
        let outcome = client.ask(Command::Flush, 0, 0)?;
        Ok(self.flush_answered(flush, outcome).into_iter().collect())
    }

    fn flush_answered(&self, flush: u64, outcome: Outcome) -> Option<String> {
        let event = match outcome {
            Ok(_) => GuestEvent::FlushAcknowledged { flush },
            Err(_) => GuestEvent::FlushFailed { flush },
        };
        self.world.note(self.vm, event);
        let error = outcome.err().filter(|_| self.nothing_fails)?;
        Some(format!("VM {}: a FLUSH failed: {error}", self.vm))
    }
}

/// The first few, and how many there are.
fn note_wrong(wrong: &mut Vec<String>, found: Vec<String>) {
    let count = found.len();
    wrong.extend(found.into_iter().take(MOST_TOLD));
    if count > MOST_TOLD {
        wrong.push(format!("... and {} sectors more of this read", count - MOST_TOLD));
    }
}

fn bytes_of(sectors: &Range<u64>) -> (u64, u64) {
    (sectors.start * SECTOR_BYTES, (sectors.end - sectors.start) * SECTOR_BYTES)
}

enum Asked {
    Change { write: WriteId, durable: bool, change: Change },
    Read { sectors: Range<u64>, allowed: Vec<Vec<Version>> },
    Flush { flush: u64 },
}

/// One connection of a guest that asks at random until the daemon goes or enough was asked.
pub struct Connection<'d> {
    disk: &'d Disk<'d>,
    number: u64,
    client: Client,
    rng: Rng,
    asked: HashMap<u64, Asked>,
    /// Most that is under way.
    depth: usize,
    /// Most requests go to the first so many sectors.
    hot_sectors: u64,
}

impl<'d> Connection<'d> {
    /// Connects to the VM's socket.
    ///
    /// # Errors
    /// When the daemon goes, or does not answer.
    pub fn new(disk: &'d Disk<'d>, number: u64, path: &Path, export: &str, seed: u64) -> Result<Self, Lost> {
        let mut rng = Rng::part(seed, number);
        let depth = [1, 4, 16, 32][rng.below(4) as usize];
        let hot_sectors = disk.sectors >> rng.below(6);
        let client = Client::connect(path, export)?;
        Ok(Connection { disk, number, client, rng, asked: HashMap::new(), depth, hot_sectors })
    }

    /// Asks until `answers` of all connections together are there, then waits for its own; or until the daemon goes. Returns
    /// what was wrong.
    pub fn work(mut self, answered: &AtomicU64, answers: u64) -> Vec<String> {
        let mut wrong = Vec::new();
        while wrong.is_empty() {
            let goes_on = answered.load(Ordering::Relaxed) < answers;
            let step = if goes_on && self.asked.len() < self.depth {
                self.ask()
            } else if self.asked.is_empty() {
                return wrong;
            } else {
                self.take_answer(&mut wrong).inspect(|()| {
                    answered.fetch_add(1, Ordering::Relaxed);
                    Counts::one(&self.disk.world.counts.answers);
                })
            };
            match step {
                Ok(()) => {}
                Err(Lost::Ended) => return wrong,
                Err(Lost::Wrong(what)) => wrong.push(format!("VM {}: {what}", self.disk.vm)),
            }
        }
        wrong
    }

    /// Sectors for a request: a few, at any place; whole blocks; seldom many.
    fn place(&mut self) -> Range<u64> {
        let rng = &mut self.rng;
        let (length, align) = match rng.below(16) {
            0..4 => (1 + rng.below(BLOCK_SECTORS - 1), 1),
            4..6 => (1 + rng.below(5 * BLOCK_SECTORS), 1),
            15 => (BLOCK_SECTORS * (16 + rng.below(49)), BLOCK_SECTORS),
            _ => (BLOCK_SECTORS * (1 + rng.below(4)), BLOCK_SECTORS),
        };
        let among = if rng.chance(80) { self.hot_sectors } else { self.disk.sectors };
        let among = among.max(length + align);
        let start = rng.below((among - length) / align + 1) * align;
        start..(start + length).min(self.disk.sectors)
    }

    fn ask(&mut self) -> Result<(), Lost> {
        if self.rng.chance(self.disk.habits.flush_percent) {
            let flush = self.disk.world.send_flush(self.disk.vm);
            let cookie = self.client.send(Command::Flush, 0, 0, CommandFlags::NONE, &[])?;
            self.asked.insert(cookie, Asked::Flush { flush });
            return Ok(());
        }
        let kind = self.rng.below(100);
        let sectors = self.place();
        if !self.disk.take(self.number, &sectors) {
            // Somebody else has these. Where nothing is under way here the next try will find others.
            return Ok(());
        }
        let (cookie, asked) =
            if kind < 20 { self.ask_read(sectors)? } else { self.ask_change(kind, sectors)? };
        self.disk.name(self.number, cookie);
        self.asked.insert(cookie, asked);
        Ok(())
    }

    fn ask_read(&mut self, sectors: Range<u64>) -> Result<(u64, Asked), Lost> {
        let allowed = self.disk.world.allowed(self.disk.vm, sectors.clone(), self.disk.nothing_fails);
        let (offset, length) = bytes_of(&sectors);
        let cookie = self.client.send(Command::Read, offset, length, CommandFlags::NONE, &[])?;
        Ok((cookie, Asked::Read { sectors, allowed }))
    }

    fn ask_change(&mut self, kind: u64, sectors: Range<u64>) -> Result<(u64, Asked), Lost> {
        let (command, change) = match kind {
            20..30 => (Command::WriteZeroes, Change::Zero),
            30..36 => (Command::Trim, Change::Trim),
            _ => (Command::Write, Change::Data),
        };
        let durable = self.rng.chance(self.disk.habits.fua_percent);
        let mut flags = if durable { CommandFlags::FUA } else { CommandFlags::NONE };
        if command == Command::WriteZeroes && self.rng.chance(50) {
            flags = CommandFlags(flags.0 | CMD_FLAG_NO_HOLE);
        }
        let vm = self.disk.vm;
        let write = self.disk.world.submit(vm, sectors.clone(), change);
        let (offset, length) = bytes_of(&sectors);
        let payload =
            if command == Command::Write { contents(vm, write, sectors.clone()) } else { Vec::new() };
        let cookie = self.client.send(command, offset, length, flags, &payload)?;
        Ok((cookie, Asked::Change { write, durable, change }))
    }

    fn take_answer(&mut self, wrong: &mut Vec<String>) -> Result<(), Lost> {
        let (cookie, outcome) = self.client.wait()?;
        let asked = self.asked.remove(&cookie).ok_or_else(|| Lost::Wrong("an answer too many".to_owned()))?;
        let Disk { vm, world, nothing_fails, .. } = *self.disk;
        match asked {
            Asked::Flush { flush } => wrong.extend(self.disk.flush_answered(flush, outcome)),
            Asked::Change { write, durable, change } => {
                let event = match outcome {
                    Ok(_) => GuestEvent::Acknowledged { write, durable, change },
                    Err(_) => GuestEvent::Failed { write, durable },
                };
                world.note(vm, event);
                if let Some(error) = outcome.err().filter(|_| nothing_fails) {
                    wrong.push(format!("VM {vm}: write {write} failed: {error}"));
                }
            }
            Asked::Read { sectors, allowed } => match outcome {
                Ok(bytes) => {
                    let parts = bytes.chunks(SECTOR_BYTES as usize);
                    let parts = sectors.zip(parts).zip(&allowed);
                    let found = parts.filter_map(|((sector, bytes), allowed)| {
                        Model::check(vm, sector, bytes, allowed).err()
                    });
                    note_wrong(wrong, found.map(|what| format!("a read while served: {what}")).collect());
                }
                Err(error) if nothing_fails => {
                    wrong.push(format!("VM {vm}: a read of sectors {sectors:?} failed: {error}"));
                }
                Err(_) => {}
            },
        }
        self.disk.give(self.number, cookie);
        Ok(())
    }
}
