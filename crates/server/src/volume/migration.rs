//! A volume whose disk is to be opened elsewhere: writes go around the SSD while what is dirty is written back; then nothing more is
//! taken; then the disk is released, until it may be served here again. It must not know who asks, or what is written beside the
//! disk.

use serde::Serialize;

use super::{Answered, Failed, ReplyData, Volume};
use lode_engine::ByteList;
use lode_nbd::{Command, Request};

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Migration {
    /// Writes go to the backing disk, and what is dirty is written back.
    WriteAround,
    /// Nothing more is taken, and the backing disk is flushed.
    Refusing,
    /// The disk may be opened elsewhere.
    Released,
}

impl Volume {
    pub(crate) fn migration(&self) -> Option<Migration> {
        self.migration
    }

    /// Writes go around the SSD from now on, and what is dirty is written back, until nothing is.
    pub(crate) fn write_around(&mut self, now_ns: u64) {
        if self.migration.is_none() {
            self.migration = Some(Migration::WriteAround);
            self.engine.set_writes_around(true);
        }
        self.drain(false, now_ns);
    }

    /// Nothing more is taken.
    pub(crate) fn refuse_requests(&mut self, now_ns: u64) {
        self.write_around(now_ns);
        self.migration = Some(Migration::Refusing);
    }

    /// Its disk has everything durably.
    pub(crate) fn released(&mut self) {
        self.migration = Some(Migration::Released);
    }

    /// It is not released after all: guests are served as before, past the SSD.
    pub(crate) fn refuse_no_more(&mut self) {
        self.last_flush = None;
        self.migration = self.migration.map(|_| Migration::WriteAround);
    }

    /// It is served as ever, with a sidecar of this generation where that is another one.
    pub(crate) fn end_migration(&mut self, generation: Option<u64>) {
        if let Some(generation) = generation {
            self.engine.set_generation(generation);
        }
        self.last_flush = None;
        self.migration = None;
        self.engine.set_writes_around(false);
    }

    /// What was decided before writes went around may have become dirty since.
    pub(super) fn drain_on(&mut self) {
        let is_due = self.migration.is_some() && self.engine.drain_left().is_none();
        let (dirty, lost) = self.dirty_and_lost_blocks();
        if is_due && dirty > lost && !self.engine.alarms().failed {
            self.engine.drain();
        }
    }

    /// Answers a request that is not taken any more. False: it is.
    pub(super) fn answer_without_disk(&mut self, connection: usize, request: &Request) -> bool {
        let is_flush = request.command == Command::Flush;
        let result = match self.migration {
            // The disk has everything, and nothing was taken since.
            Some(Migration::Released) if is_flush => Ok(ReplyData::Bytes(ByteList::new())),
            Some(Migration::Released) => Err(Failed::Released),
            Some(Migration::Refusing) if !is_flush => Err(Failed::Released),
            _ => return false,
        };
        self.looked_up.push_back(Answered { connection, request: *request, result });
        true
    }
}
