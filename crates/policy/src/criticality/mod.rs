//! Which writes are critical: those that a request waits for. Only they are admitted to a small non-volatile write cache.
//!
//! Follows Kim et al., "Request-Oriented Durable Write Caching for Application Performance", USENIX ATC 2015,
//! sections 3 and 4. Some processes are critical, because they serve requests. A synchronous write of a critical
//! process is cached (`cp`). A process that a critical one waits for inherits criticality (`cp-pi`, section 4.2.1),
//! through chains of locks and events (4.2.3); and a write on its way to the disk that somebody critical waits for is
//! issued once more, to the cache (`cp-pi-ioi`, 4.2.2).
//!
//! [`Admission`] only decides. The same hooks are called by the simulation of processes and by whoever serves
//! requests; it must not know devices, data, clocks, or how a lock chooses its next owner. Who calls it numbers
//! processes, locks, events and writes densely from zero, so that nothing here is looked up by hashing.

mod admission;
mod in_flight;
mod waits;

pub use admission::Admission;

use lode_types::BlockNo;

use crate::settings::{SettingError, SettingInfo, Settings};

/// A process or thread.
pub type ProcessId = u32;
/// A lock, of any kind that has owners.
pub type LockId = u32;
/// Something that processes wait for and others bring about: a condition, a finished transaction.
pub type EventId = u32;
/// A write that is under way. The number may be used again when every completion of the write has come.
pub type WriteId = u32;

/// Which writes the cache admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AdmissionPolicy {
    /// Every write.
    All,
    /// Synchronous writes.
    Sync,
    /// Writes to the log device.
    Wal,
    /// Synchronous writes of critical processes.
    Cp,
    /// `Cp`, and writes of processes that inherited criticality.
    CpPi,
    /// `CpPi`, and writes under way that a critical process waits for, directly or through a chain.
    CpPiIoi,
}

impl AdmissionPolicy {
    /// Every policy, from the paper's figures.
    pub const ALL: [AdmissionPolicy; 6] = [
        AdmissionPolicy::All,
        AdmissionPolicy::Sync,
        AdmissionPolicy::Wal,
        AdmissionPolicy::Cp,
        AdmissionPolicy::CpPi,
        AdmissionPolicy::CpPiIoi,
    ];

    /// The word users write.
    pub fn name(self) -> &'static str {
        match self {
            AdmissionPolicy::All => "all",
            AdmissionPolicy::Sync => "sync",
            AdmissionPolicy::Wal => "wal",
            AdmissionPolicy::Cp => "cp",
            AdmissionPolicy::CpPi => "cp-pi",
            AdmissionPolicy::CpPiIoi => "cp-pi-ioi",
        }
    }

    /// The policy that users write so.
    pub fn from_name(name: &str) -> Option<AdmissionPolicy> {
        AdmissionPolicy::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// Whether processes inherit criticality.
    pub fn inherits(self) -> bool {
        self >= AdmissionPolicy::CpPi
    }

    /// Whether writes under way are issued again.
    pub fn reissues(self) -> bool {
        self == AdmissionPolicy::CpPiIoi
    }
}

/// What a critical write does when the cache has no free block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// It goes to the disk.
    Bypass,
    /// It waits for a free block.
    Wait,
}

/// What can be set.
pub static TABLE: &[SettingInfo] = &[
    SettingInfo::choice("admission", "cp-pi-ioi", &["all", "sync", "wal", "cp", "cp-pi", "cp-pi-ioi"])
        .about(
            "which writes are cached: all, synchronous ones, those to the log, synchronous ones of critical \
             processes, also those of processes they wait for, also writes under way they wait for",
        )
        .source("paper, section 7.1"),
    SettingInfo::choice("pi_sync_only", "off", &["on", "off"])
        .about("of a process that inherited criticality only synchronous writes are cached; nothing changes with redis, nor with postgres in runs of 45 s and less, where no such process writes asynchronously")
        .source("paper: section 5 says on, table 3 counts asynchronous ones"),
    SettingInfo::choice("stall", "bypass", &["bypass", "wait"])
        .about("when no block of the cache is free, an admitted write goes to the disk, or waits")
        .source("paper, section 7.2 (FlashCache)"),
];

/// How to admit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionOptions {
    /// Which writes.
    pub policy: AdmissionPolicy,
    /// Of a process that inherited criticality, and is not critical itself, only synchronous writes.
    pub pi_sync_only: bool,
    /// What to do without a free block; for whoever owns the cache.
    pub stall: Stall,
    /// Writes under way that somebody critical waits for are issued again; always so under
    /// [`AdmissionPolicy::CpPiIoi`].
    pub reissue: bool,
}

impl AdmissionOptions {
    /// Settings of [`TABLE`] at their defaults.
    pub fn settings() -> Settings {
        Settings::new("request-oriented", &[TABLE]).listed_by("`lode requests --settings`")
    }

    /// This policy with the other settings as given.
    ///
    /// # Errors
    /// When a pair `KEY=VALUE` names no setting, or a value it does not take.
    pub fn new(policy: AdmissionPolicy, pairs: &[String]) -> Result<AdmissionOptions, SettingError> {
        let mut settings = Self::settings();
        pairs.iter().try_for_each(|pair| settings.set_pair(pair))?;
        Ok(AdmissionOptions::of(policy, &settings))
    }

    /// This policy with the other settings as given, which have [`TABLE`] among theirs.
    pub fn of(policy: AdmissionPolicy, settings: &Settings) -> AdmissionOptions {
        AdmissionOptions {
            policy,
            pi_sync_only: settings.is_on("pi_sync_only"),
            stall: if settings.text("stall") == "wait" { Stall::Wait } else { Stall::Bypass },
            reissue: policy.reissues(),
        }
    }
}

/// How many there are of what processes wait for. Numbers from the outside are checked against it before they come here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Population {
    /// Processes.
    pub processes: u32,
    /// Locks.
    pub locks: u32,
    /// Events.
    pub events: u32,
}

/// A write as it is submitted.
#[derive(Clone, Copy, Debug)]
pub struct SubmittedWrite {
    /// Its number while it is under way.
    pub id: WriteId,
    /// First block written.
    pub first_block: BlockNo,
    /// Blocks written.
    pub blocks: u32,
    /// The submitter waits for its completion.
    pub sync: bool,
    /// It goes to the log device.
    pub log: bool,
}

/// Where a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// To the write cache, if that has room.
    Cache,
    /// To the disk.
    Disk,
}

/// What a process waits for ("blocking object", section 4.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// To own a lock: for its owners and for those who wait longer.
    Lock(LockId),
    /// For those who were announced to bring an event about.
    Event(EventId),
    /// For a write under way.
    Write(WriteId),
}

/// What follows from a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consequence {
    /// The process has criticality by inheritance from now on.
    Inherits(ProcessId),
    /// It has it no longer.
    Ends(ProcessId),
    /// Write the same data to the cache as well, and report it with [`Admission::on_complete`] or, when there is no
    /// room, with [`Admission::on_no_space`]. The copy is dirty; it is not destaged while
    /// [`Admission::holds_destage`] says so.
    Reissue(WriteId),
}

/// The device that completed a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// The write cache.
    Cache,
    /// The disk.
    Disk,
}

/// What a completion means for those who wait for the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionVerdict {
    /// The write is durable: tell them.
    Acknowledge,
    /// They were told before.
    Discard,
    /// It failed here, and the other device still has it.
    Wait,
    /// It failed on every device that had it: tell them.
    Fail,
}
