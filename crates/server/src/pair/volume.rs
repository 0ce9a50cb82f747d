//! One volume's commands to the pair: they become commands to its members, whose ends are told once it is known what they are worth.
//! What goes where and when is [`PairVolume`]'s; files and flushes are here. It must not know engines.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use lode_engine::command::{CommandKind, MediaError};
use lode_format::VolumeTag;
use lode_media::{Done, FileId, MediaFile, Payload};
use lode_store::pair::{DeviceChange, Followed, Leg, MEMBERS, PairCommand, PairNews, PairVolume};
use lode_types::Bufs;

use super::served::ServedPair;
use crate::flushes::{Flushes, Verdict};
use crate::guard::guarded;

/// What its shard's driver is to do with a member's file.
pub(crate) enum FileChange {
    /// Nothing more goes to it.
    Close(FileId),
    /// Commands are about to go to it: [`VolumePair::opened`] is told its number.
    Open(usize, MediaFile),
}

/// See the module's documentation.
pub(crate) struct VolumePair {
    pair: Arc<ServedPair>,
    volume: PairVolume,
    files: [Option<FileId>; MEMBERS],
    /// Flushes of members, by their tokens.
    flushes: Flushes,
    /// By which number the pair knows how far it has followed, and what it was told last.
    follower: u64,
    followed: Followed,
    /// Why a member failed last.
    failure: String,
}

impl VolumePair {
    pub(crate) fn new(
        pair: Arc<ServedPair>,
        tag: VolumeTag,
        open: impl FnMut(MediaFile) -> FileId,
    ) -> VolumePair {
        // Before it is known what it goes by, so that nothing comes in the place of what it opens.
        let follower = pair.follow();
        let (health, version) = pair.health();
        // After it: what is dropped in between is told twice.
        let dropped = pair.dropped();
        let mut open = open;
        let files = [0, 1].map(|member| pair.file(member).filter(|_| health.uses(member)).map(&mut open));
        let flushes = Flushes::new([0, 1].map(|member| pair.disks_of(member)).into());
        // Ticks are seconds.
        let volume = PairVolume::new(tag, pair.limit().as_secs(), (health, version), dropped);
        let followed = volume.followed();
        pair.followers().note(follower, followed);
        VolumePair { pair, volume, files, flushes, follower, followed, failure: String::new() }
    }

    /// The files that its commands go to.
    pub(crate) fn files(&self) -> impl Iterator<Item = FileId> + use<> {
        self.files.into_iter().flatten()
    }

    /// Blocks that were written again on a member on which they were damaged.
    pub(crate) fn healed(&self) -> u64 {
        self.volume.healed()
    }

    /// Why a command failed last, in words.
    pub(crate) fn failure(&self) -> String {
        match self.pair.is_awaiting() {
            true => self.failure.clone(),
            false => format!("neither SSD of the pair: {}", self.failure),
        }
    }

    /// Takes a command to the pair.
    pub(crate) fn begin(&mut self, command: PairCommand) {
        if self.volume.health().resilvering.is_some() {
            self.pair.has_commands.store(true, Ordering::Relaxed);
        }
        let needs_it = self.volume.needs_resilver(&command.kind);
        let mut resilver = needs_it.then(|| self.pair.resilver());
        if !self.volume.begin(command, resilver.as_deref_mut()) {
            // Under the lock: whoever copies looks for it after that.
            self.pair.somebody_waits.store(true, Ordering::SeqCst);
        }
    }

    /// The next command to a member: its token, its file, and what is to be done there.
    pub(crate) fn next_leg(&mut self) -> Option<(u64, FileId, CommandKind)> {
        loop {
            let Leg { token, member, kind } = self.volume.next_leg()?;
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
        if result.is_err() {
            // The other one may have been resilvered meanwhile, and count.
            self.follow();
        }
        if let Some(member) = self.volume.leg_ended(token, result, bufs) {
            self.pair.drop_member(member, &self.failure);
            self.follow();
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
        self.forget_writes();
        self.pair.followers().note(self.follower, Followed::RETIRED);
    }

    fn forget_writes(&mut self) {
        let pair = &self.pair;
        self.volume.retire(|number| pair.resilver().end_write(number));
    }

    /// Takes over what is known by now: of flushes beside others, and of the pair.
    pub(crate) fn note(&mut self) {
        while let Some((token, verdict)) = self.flushes.next_decided() {
            self.flush_decided(token, verdict);
        }
        let health = *self.volume.health();
        for member in (0..MEMBERS).filter(|&member| health.uses(member)) {
            if self.flushes.has_failed(member) {
                match health.in_sync[1 - member] {
                    true => self.pair.drop_member(member, "a flush of it failed"),
                    false => self.pair.disks().fail_file(),
                }
            }
        }
        self.follow();
        for command in self.volume.take_parked() {
            self.begin(command);
        }
    }

    /// Goes by what is known of the pair from now on.
    fn follow(&mut self) {
        let (health, version) = self.pair.health();
        self.volume.follow(health, version);
        self.tell_followed();
    }

    fn tell_followed(&mut self) {
        let followed = self.volume.followed();
        if followed != self.followed {
            self.followed = followed;
            self.pair.followers().note(self.follower, followed);
        }
    }

    /// What is to be done with a file next.
    pub(crate) fn next_file_change(&mut self) -> Option<FileChange> {
        loop {
            match self.volume.next_change()? {
                DeviceChange::Close(member) => {
                    if let Some(file) = self.files[member].take() {
                        return Some(FileChange::Close(file));
                    }
                }
                DeviceChange::Open(member) => match self.pair.file(member) {
                    Some(file) => return Some(FileChange::Open(member, file)),
                    // It was dropped again.
                    None => self.volume.not_opened(),
                },
            }
        }
    }

    /// A member's file is open.
    pub(crate) fn opened(&mut self, member: usize, file: FileId) {
        self.files[member] = Some(file);
        if let Some(disks) = self.pair.disks_of(member) {
            self.flushes.replace(member, disks);
        }
        self.volume.opened(member);
        self.follow();
    }

    /// What the volume is to be told next.
    pub(crate) fn next_news(&mut self) -> Option<PairNews> {
        let pair = &self.pair;
        let news = self.volume.next_news(|number| {
            pair.resilver().end_write(number);
            pair.resilver_changed.notify_all();
        })?;
        self.tell_followed();
        Some(news)
    }

    /// About a second has gone by.
    pub(crate) fn tick(&mut self) {
        // The last one that has everything is not given up.
        self.follow();
        if let Some(member) = self.volume.tick() {
            let why = format!("it has not answered for {} s", self.pair.limit().as_secs());
            self.pair.drop_member(member, &why);
        }
        self.pair.record();
        self.follow();
    }
}

impl Drop for VolumePair {
    fn drop(&mut self) {
        // After a defect nothing of the pair's is sure to end well, and others go on.
        let _ = guarded(|| self.forget_writes());
        self.pair.followers().leave(self.follower);
    }
}
