//! One volume's commands to the pair: they become commands to its members, whose ends are told once it is known what they are worth.
//! It must not know engines.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use lode_engine::command::{CommandKind, MediaError};
use lode_format::VolumeTag;
use lode_media::{Done, FileId, MediaFile, Payload};
use lode_store::pair::{Fanout, Leg, MEMBERS, PairEnd, PairHealth, PairRead};
use lode_types::Bufs;

use super::served::{Follower, ServedPair, bytes_of};
use crate::flushes::{Flushes, Verdict};

/// What its shard's driver is to do with a member's file.
pub(crate) enum FileChange {
    /// Nothing more goes to it.
    Close(FileId),
    /// Commands are about to go to it: [`VolumePair::opened`] is told its number.
    Open(usize, MediaFile),
}

/// A command that waits for what is copied where it writes.
struct Parked {
    id: u64,
    kind: CommandKind,
    read: PairRead,
}

/// See the module's documentation.
pub(crate) struct VolumePair {
    pair: Arc<ServedPair>,
    fanout: Fanout,
    /// What it goes by, and which version of it.
    health: PairHealth,
    version: u64,
    files: [Option<FileId>; MEMBERS],
    /// A member's file was handed out to be opened.
    opening: bool,
    changes: VecDeque<FileChange>,
    /// Flushes of members, by their tokens.
    flushes: Flushes,
    follower: Arc<Follower>,
    /// Writes and flushes under way that no [`lode_store::pair::Resilver`] knows.
    plain: usize,
    /// Those that one knows, with their numbers there; flushes have none.
    known: HashMap<u64, Option<u64>>,
    parked: VecDeque<Parked>,
    /// Why a member failed last.
    failure: String,
}

impl VolumePair {
    pub(crate) fn new(
        pair: Arc<ServedPair>,
        tag: VolumeTag,
        open: impl FnMut(MediaFile) -> FileId,
    ) -> VolumePair {
        let follower = pair.follow();
        let (health, version) = pair.health();
        let mut open = open;
        let in_use = |member: usize| health.in_sync[member] || health.filling == Some(member);
        let files = [0, 1].map(|member| pair.file(member).filter(|_| in_use(member)).map(&mut open));
        let flushes = Flushes::new([0, 1].map(|member| pair.disks_of(member)).into());
        // Ticks are seconds.
        let fanout = Fanout::new(tag, pair.limit().as_secs());
        follower.adopted.store(version, Ordering::SeqCst);
        follower.drained.store(version, Ordering::SeqCst);
        VolumePair {
            pair,
            fanout,
            health,
            version,
            files,
            opening: false,
            changes: VecDeque::new(),
            flushes,
            follower,
            plain: 0,
            known: HashMap::new(),
            parked: VecDeque::new(),
            failure: String::new(),
        }
    }

    /// The files that its commands go to.
    pub(crate) fn files(&self) -> impl Iterator<Item = FileId> + use<> {
        self.files.into_iter().flatten()
    }

    /// Blocks that were written again on a member on which they were damaged.
    pub(crate) fn healed(&self) -> u64 {
        self.fanout.healed()
    }

    /// Why a member failed last.
    pub(crate) fn failure(&self) -> &str {
        &self.failure
    }

    /// Takes a command to the pair.
    pub(crate) fn begin(&mut self, id: u64, kind: CommandKind, read: PairRead) {
        if matches!(kind, CommandKind::Read { .. }) {
            return self.fanout.begin(id, kind, read, &self.health);
        }
        if self.health.filling.is_none() {
            self.plain += 1;
            return self.fanout.begin(id, kind, read, &self.health);
        }
        let number = match bytes_of(&kind) {
            None => None,
            Some(bytes) => {
                let mut resilver = self.pair.resilver();
                let number = resilver.begin_write(bytes);
                if number.is_none() {
                    self.pair.somebody_waits.store(true, Ordering::SeqCst);
                    return self.parked.push_back(Parked { id, kind, read });
                }
                number
            }
        };
        self.known.insert(id, number);
        self.fanout.begin(id, kind, read, &self.health);
    }

    /// The next command to a member: its token, its file, and what is to be done there.
    pub(crate) fn next_leg(&mut self) -> Option<(u64, FileId, CommandKind)> {
        loop {
            let Leg { token, member, kind } = self.fanout.next_leg()?;
            let Some(file) = self.files[member] else {
                self.leg_failed(token, "it is closed");
                continue;
            };
            // Nothing may fail between its begin and its end, which others on the member wait for.
            if matches!(kind, CommandKind::Flush) {
                self.flushes.begin(token, member);
            }
            return Some((token, file, kind));
        }
    }

    fn leg_failed(&mut self, token: u64, why: &str) {
        why.clone_into(&mut self.failure);
        self.end_leg(token, Err(MediaError::Gone), Bufs::new());
    }

    /// Takes the end of a command to a member; `why` is why it failed, if it did.
    pub(crate) fn leg_ended(&mut self, token: u64, done: Done, why: Option<String>) {
        let bufs = if let Payload::Bufs(bufs) = done.payload { bufs } else { Bufs::new() };
        let result = done.result.map(drop);
        if let Some(why) = why {
            self.failure = why;
        }
        match self.flushes.end(token, result.is_ok()) {
            Some(verdict) if result.is_ok() => self.flush_decided(token, verdict),
            _ => self.end_leg(token, result, bufs),
        }
    }

    fn flush_decided(&mut self, token: u64, verdict: Verdict) {
        match verdict {
            Verdict::Open => {}
            Verdict::Durable => self.end_leg(token, Ok(()), Bufs::new()),
            Verdict::Failed => self.leg_failed(token, "a flush of it failed"),
        }
    }

    fn end_leg(&mut self, token: u64, result: Result<(), MediaError>, bufs: Bufs) {
        if let Some(member) = self.fanout.leg_ended(token, result, bufs, &self.health) {
            self.pair.drop_member(member, &self.failure);
            self.adopt();
        }
    }

    /// A volume that is stopped has nothing to do any more with its commands but that others wait for its flushes.
    pub(crate) fn leg_ended_stopped(&mut self, token: u64, is_ok: bool) {
        self.flushes.end(token, is_ok);
        self.retire();
    }

    /// What is known by now of flushes of a volume that is stopped.
    pub(crate) fn forget_decided(&mut self) {
        while self.flushes.next_decided().is_some() {}
        self.retire();
    }

    /// Nothing is acknowledged here any more, so that nobody has to wait for it.
    fn retire(&mut self) {
        self.forget_known();
        self.follower.adopted.store(u64::MAX, Ordering::SeqCst);
        self.follower.drained.store(u64::MAX, Ordering::SeqCst);
    }

    fn forget_known(&mut self) {
        for number in self.known.drain().filter_map(|(_, number)| number) {
            self.pair.resilver().end_write(number);
        }
    }

    /// Takes over what is known by now: of flushes beside others, and of the pair.
    pub(crate) fn note(&mut self) {
        while let Some((token, verdict)) = self.flushes.next_decided() {
            self.flush_decided(token, verdict);
        }
        for member in (0..MEMBERS).filter(|&member| self.health.in_sync[member]) {
            if self.flushes.has_failed(member) {
                match self.health.in_sync == [true; MEMBERS] {
                    true => self.pair.drop_member(member, "a flush of it failed"),
                    false => self.pair.disks().fail_file(),
                }
            }
        }
        self.adopt();
        for Parked { id, kind, read } in std::mem::take(&mut self.parked) {
            self.begin(id, kind, read);
        }
    }

    /// Goes by what is known of the pair from now on.
    fn adopt(&mut self) {
        let (health, version) = self.pair.health();
        if version == self.version {
            return;
        }
        if let Some(member) = health.filling.filter(|&member| self.files[member].is_none()) {
            // Not before commands can go there.
            if let Some(file) = self.pair.file(member).filter(|_| !self.opening) {
                self.opening = true;
                self.changes.push_back(FileChange::Open(member, file));
            }
            return;
        }
        (self.health, self.version) = (health, version);
        for member in 0..MEMBERS {
            if !health.in_sync[member] && health.filling != Some(member) {
                self.fanout.give_up(member, &health);
                // Another device may come in its place.
                self.changes
                    .retain(|change| !matches!(change, FileChange::Open(opens, _) if *opens == member));
                self.opening = false;
                self.changes.extend(self.files[member].take().map(FileChange::Close));
            }
        }
        self.follower.adopted.store(version, Ordering::SeqCst);
        self.note_drained();
    }

    fn note_drained(&self) {
        if self.plain == 0 {
            self.follower.drained.store(self.version, Ordering::SeqCst);
        }
    }

    /// What is to be done with a file next.
    pub(crate) fn next_file_change(&mut self) -> Option<FileChange> {
        self.changes.pop_front()
    }

    /// A member's file is open.
    pub(crate) fn opened(&mut self, member: usize, file: FileId) {
        self.opening = false;
        self.files[member] = Some(file);
        if let Some(disks) = self.pair.disks_of(member) {
            self.flushes.replace(member, disks);
        }
        self.adopt();
    }

    /// The end of a command to the pair, as far as it may be told.
    pub(crate) fn next_end(&mut self) -> Option<PairEnd> {
        let end = self.fanout.next_end(&self.health)?;
        if end.is_write {
            match self.known.remove(&end.id) {
                None => {
                    self.plain -= 1;
                    self.note_drained();
                }
                Some(None) => {}
                Some(Some(number)) => {
                    self.pair.resilver().end_write(number);
                    self.pair.resilver_changed.notify_all();
                }
            }
        }
        Some(end)
    }

    /// About a second has gone by.
    pub(crate) fn tick(&mut self) {
        if let Some(member) = self.fanout.tick(&self.health) {
            let why = format!("it has not answered for {} s", self.pair.limit().as_secs());
            self.pair.drop_member(member, &why);
        }
        self.pair.record();
        self.adopt();
    }
}

impl Drop for VolumePair {
    fn drop(&mut self) {
        self.forget_known();
    }
}
