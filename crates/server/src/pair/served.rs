//! What all volumes of all shards know of the pair that they are served from: who has everything, and whether the labels say so. What
//! fails for one of them has failed for all. A member that fails is dropped: first nothing is acknowledged any more, then the label of
//! the other one says so durably, then the state file remembers that label, and then acknowledgements go on. It must not know
//! volumes.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use lode_engine::Worth;
use lode_engine::command::{CommandKind, MediaError};
use lode_format::PairLabel;
use lode_media::MediaFile;
use lode_store::SyncDevice;
use lode_store::pair::{
    Followed, Followers, InTurn, MEMBERS, Pair, PairHealth, Resilver, bytes_of, write_label,
};

use super::device::{MemberDevice, PairFiles};
use crate::config::ResilverRates;
use crate::events::{EventKind, Events};
use crate::identity::StateFile;
use crate::shared::DisksOf;
use crate::sync_device::FileDevice;

/// How often it is looked whether something has come to pass that other threads do.
pub(super) const TICK: Duration = Duration::from_millis(2);
/// How often the state file is tried again.
const STATE_PAUSE: Duration = Duration::from_secs(1);

/// What the members of a pair lie on, and the pair as a whole, which is on nothing but them.
pub(crate) struct MemberDisks {
    pub pair: DisksOf,
    pub members: [Option<DisksOf>; MEMBERS],
}

/// A member, as it is served.
#[derive(Clone)]
pub(super) struct Member {
    /// None is there of one that has not come yet.
    pub path: Option<PathBuf>,
    /// While anything is sent to it.
    pub file: Option<MediaFile>,
    pub disks: Option<DisksOf>,
    /// Why it does not have everything.
    pub why: Option<String>,
    /// Its own label says that it is to be resilvered.
    pub wants_resilver: bool,
}

impl Member {
    /// Where it is, for people.
    pub(super) fn shown(&self) -> String {
        self.path.as_ref().map_or("the second SSD".to_owned(), |path| path.display().to_string())
    }
}

pub(super) struct State {
    /// What the labels say, or are about to.
    pub labels: Pair,
    pub members: [Member; MEMBERS],
    /// Which resilver it is.
    pub resilver: u64,
    /// It has everything, and labels are about to say so.
    pub counts: Option<usize>,
    /// Members that were dropped in this run.
    dropped: [bool; MEMBERS],
    /// The label is to be written, and whether a thread does.
    must_record: bool,
    is_recording: bool,
}

impl State {
    /// See [`ServedPair::is_awaiting`].
    pub(super) fn is_awaiting(&self) -> bool {
        self.members.iter().any(|member| member.path.is_none())
    }
}

/// See the module's documentation.
pub(crate) struct ServedPair {
    /// See [`pack`].
    health: AtomicU64,
    state: Mutex<State>,
    followers: Mutex<Followers>,
    /// See [`ServedPair::label_turn`].
    label_turns: [Mutex<()>; MEMBERS],
    /// The thread that writes the directory has something under way.
    directory: Mutex<()>,
    resilver: Mutex<Resilver>,
    pub(super) resilver_changed: Condvar,
    /// A volume waits for the part that is copied.
    pub(super) somebody_waits: AtomicBool,
    /// Volumes have begun commands since this was looked at.
    pub(super) has_commands: AtomicBool,
    disks: DisksOf,
    pub(super) state_file: StateFile,
    limit: Duration,
    /// How fast a resilver copies.
    pub(super) rates: ResilverRates,
    /// Epoch of the run.
    pub(super) epoch: u64,
    events: OnceLock<Events>,
    is_closing: AtomicBool,
}

const RECORDED: u64 = 1 << 2;
const LOST: u64 = 1 << 3;
const RESILVERING_SHIFT: u32 = 4;
const VERSION_SHIFT: u32 = 8;

/// A health and its version in one number, so that they are read together.
fn pack(health: &PairHealth, version: u64) -> u64 {
    let in_sync = u64::from(health.in_sync[0]) | u64::from(health.in_sync[1]) << 1;
    let recorded = if health.is_recorded { RECORDED } else { 0 };
    let lost = if health.is_lost { LOST } else { 0 };
    let resilvering = health.resilvering.map_or(0, |member| member as u64 + 1) << RESILVERING_SHIFT;
    in_sync | recorded | lost | resilvering | version << VERSION_SHIFT
}

fn unpack(bits: u64) -> (PairHealth, u64) {
    let health = PairHealth {
        in_sync: [0, 1].map(|member| bits >> member & 1 == 1),
        is_recorded: bits & RECORDED != 0,
        is_lost: bits & LOST != 0,
        resilvering: (bits >> RESILVERING_SHIFT & 3).checked_sub(1).map(|member| member as usize),
    };
    (health, bits >> VERSION_SHIFT)
}

impl ServedPair {
    /// Of a pair as a start has left it, whose labels and state file say so, in the run of this epoch.
    pub(crate) fn new(
        files: PairFiles,
        (labels, epoch): (Pair, u64),
        disks: MemberDisks,
        state_file: StateFile,
        rates: ResilverRates,
    ) -> ServedPair {
        // One of which labels say how much it has gets what is written from the beginning.
        let (in_sync, resilvering) = (labels.in_sync, labels.resilvered_member());
        let health = PairHealth { in_sync, is_recorded: true, is_lost: false, resilvering };
        let MemberDisks { pair, members: mut member_disks } = disks;
        let member = |member: usize| {
            let is_used = health.uses(member);
            let says = files.labels[member];
            Member {
                path: files.paths[member].clone(),
                file: files.files[member].clone().filter(|_| is_used),
                disks: None,
                why: files.left_out[member].clone().filter(|_| !is_used),
                wants_resilver: !is_used && says.is_some_and(|label| !label.in_sync[member]),
            }
        };
        let mut members = [member(0), member(1)];
        for (member, disks) in members.iter_mut().zip(&mut member_disks) {
            member.disks = disks.take();
        }
        ServedPair {
            health: AtomicU64::new(pack(&health, 1)),
            state: Mutex::new(State {
                labels,
                members,
                resilver: 0,
                counts: None,
                dropped: [false; MEMBERS],
                must_record: false,
                is_recording: false,
            }),
            followers: Mutex::default(),
            label_turns: Default::default(),
            directory: Mutex::default(),
            resilver: Mutex::default(),
            resilver_changed: Condvar::new(),
            somebody_waits: AtomicBool::new(false),
            has_commands: AtomicBool::new(false),
            disks: pair,
            state_file,
            limit: files.limit,
            rates,
            epoch,
            events: OnceLock::new(),
            is_closing: AtomicBool::new(false),
        }
    }

    /// Where it is noted what happens.
    pub(crate) fn connect(&self, events: Events) {
        // It is told once.
        let _ = self.events.set(events);
    }

    pub(super) fn note(&self, kind: EventKind, text: &str) {
        if let Some(events) = self.events.get() {
            events.note(kind, None, text);
        }
    }

    /// The service ends: what is done in the background is given up.
    pub(crate) fn close(&self) {
        self.is_closing.store(true, Ordering::SeqCst);
        self.resilver_changed.notify_all();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::SeqCst)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // What it holds is changed in whole steps.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the second SSD has not come yet.
    pub(super) fn is_awaiting(&self) -> bool {
        self.state().is_awaiting()
    }

    /// Members that were dropped in this run.
    pub(super) fn dropped(&self) -> [bool; MEMBERS] {
        self.state().dropped
    }

    /// Taken after [`ServedPair::state`], where both are.
    pub(super) fn resilver(&self) -> MutexGuard<'_, Resilver> {
        self.resilver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it stands, and a number that grows with every change of that.
    pub(super) fn health(&self) -> (PairHealth, u64) {
        unpack(self.health.load(Ordering::SeqCst))
    }

    /// Changes the health, under the lock. Threads are woken by [`ServedPair::tell_all`]. Gives the version.
    pub(super) fn set_health(&self, _state: &State, change: impl FnOnce(&mut PairHealth)) -> u64 {
        let (mut health, version) = self.health();
        change(&mut health);
        self.health.store(pack(&health, version + 1), Ordering::SeqCst);
        version + 1
    }

    pub(super) fn tell_all(&self) {
        self.disks.tell_all();
        self.resilver_changed.notify_all();
    }

    /// The pair as a whole, of which all volumes are told when it fails.
    pub(crate) fn disks(&self) -> &DisksOf {
        &self.disks
    }

    /// How long a member may take for a command.
    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    /// What a member's commands go to, as long as any do.
    pub(super) fn file(&self, member: usize) -> Option<MediaFile> {
        self.state().members[member].file.clone()
    }

    pub(super) fn disks_of(&self, member: usize) -> Option<DisksOf> {
        self.state().members[member].disks.clone()
    }

    /// The turn to write a member's label: whoever has it looks once more whether what it writes still holds, so that no label
    /// is written over a newer one, nor on a device that was taken out. Taken before [`ServedPair::state`], where both are.
    pub(super) fn label_turn(&self, member: usize) -> MutexGuard<'_, ()> {
        self.label_turns[member].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far volumes have followed. Never held together with another lock.
    pub(super) fn followers(&self) -> MutexGuard<'_, Followers> {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A volume is about to be served from it, and has followed nothing. Gives its number among [`ServedPair::followers`].
    pub(super) fn follow(&self) -> u64 {
        self.followers().join(Followed { adopted: 0, drained: 0 })
    }

    /// Waits until the volumes have followed a change of the health so far that something may be done. False: the service ends first.
    pub(super) fn wait_until(&self, may: impl Fn(&Followers) -> bool) -> bool {
        while !may(&self.followers()) {
            if self.is_closing() {
                return false;
            }
            thread::sleep(TICK);
        }
        // What the directory's thread began before is over as well.
        drop(self.directory.lock().unwrap_or_else(PoisonError::into_inner));
        true
    }

    /// A member has failed. The last one that has everything is not dropped.
    pub(crate) fn drop_member(self: &Arc<Self>, member: usize, why: &str) {
        self.let_go(member, why, EventKind::Failure);
    }

    /// A member is to go. The last one that has everything is not dropped. True: it was being resilvered until now, and so lacks
    /// something.
    pub(super) fn take_out(self: &Arc<Self>, member: usize) -> bool {
        self.let_go(member, "it was taken out", EventKind::Setting)
    }

    fn let_go(self: &Arc<Self>, member: usize, why: &str, kind: EventKind) -> bool {
        let mut state = self.state();
        let (health, _) = self.health();
        let path = state.members[member].shown();
        let is_resilvered = health.resilvering == Some(member);
        if is_resilvered {
            // Labels may say how much it has: before anything is acknowledged that it lacks they say that it has nothing.
            let is_known = state.labels.resilvered_bytes > 0;
            if is_known {
                state.labels = state.labels.without_resilvered();
                state.must_record = true;
            }
            self.set_health(&state, |health| {
                health.resilvering = None;
                health.is_recorded &= !is_known;
            });
            let text = format!("SSD {path} is not resilvered any more: {why}");
            tracing::warn!("{text}. What it has is not used; `lode device list` shows how the pair stands");
            self.note(kind, &text);
        } else if state.labels.in_sync == [true; MEMBERS] {
            state.labels = state.labels.without(member, self.epoch);
            state.dropped[member] = true;
            state.must_record = true;
            self.set_health(&state, |health| {
                (health.in_sync[member], health.is_recorded, health.resilvering) = (false, false, None);
            });
            let other = state.members[1 - member].shown();
            let text = format!("SSD {path} was dropped from the pair: {why}");
            let text_of_both = format!(
                "{text}. Guests are served from {other} alone, and what it holds dirty is on one SSD"
            );
            match kind {
                EventKind::Failure => tracing::error!(
                    "{text_of_both}: look at the SSD and the system log, then `lode device add` it again, or another one in its place"
                ),
                _ => tracing::warn!("{text_of_both} until `lode device add` resilvers one"),
            }
            self.note(kind, &text);
        } else {
            return false;
        }
        let gone = &mut state.members[member];
        (gone.file, gone.why) = (None, Some(why.to_owned()));
        self.resilver().give_up();
        drop(state);
        self.tell_all();
        self.record();
        is_resilvered
    }

    /// Has a thread write the label that is to be written, unless one does.
    pub(crate) fn record(self: &Arc<Self>) {
        let mut state = self.state();
        if !state.must_record || state.is_recording {
            return;
        }
        let pair = Arc::clone(self);
        match thread::Builder::new().name("pair".to_owned()).spawn(move || pair.write_labels()) {
            Ok(_) => state.is_recording = true,
            // It is tried again at the next tick of a volume.
            Err(error) => tracing::error!(
                "Cannot start a thread that notes which SSD of the pair was dropped: {error}. Until it can be nothing is acknowledged; \
                 raise the limit of threads"
            ),
        }
    }

    fn write_labels(&self) {
        loop {
            let (label, written) = {
                let mut state = self.state();
                if !state.must_record {
                    state.is_recording = false;
                    return;
                }
                state.must_record = false;
                let member = state.labels.first_in_sync();
                let (label, file) = (state.labels.label(member), state.members[member].file.clone());
                drop(state);
                // What is newer than this is written by this thread alone.
                let _turn = self.label_turn(member);
                (label, file.ok_or("it is closed".to_owned()).and_then(|file| record_on(&file, &label)))
            };
            match written {
                Ok(()) => self.remember(label.number, label.generation),
                Err(why) => return self.lose(&why),
            }
            let state = self.state();
            if !state.must_record {
                self.set_health(&state, |health| health.is_recorded = true);
            }
            drop(state);
            self.tell_all();
        }
    }

    /// Has the state file remember that labels of the pair of this number are of this generation. Without that a start could take a member for the whole that
    /// lacks something; so it is tried until it succeeds.
    pub(super) fn remember(&self, number: usize, generation: u64) {
        let mut is_told = false;
        while let Err(error) = self.state_file.note_pair(number, generation) {
            if !std::mem::replace(&mut is_told, true) {
                tracing::error!(
                    "{error}. Until it is remembered which SSD of the pair has everything, no write is acknowledged; free space in \
                     `state_dir`"
                );
            }
            if self.is_closing() {
                return;
            }
            thread::sleep(STATE_PAUSE);
        }
    }

    /// The last member failed when it was to say that it is the last.
    fn lose(&self, why: &str) {
        let state = self.state();
        self.set_health(&state, |health| health.is_lost = true);
        let of = match state.labels.pairs {
            1 => "the pair".to_owned(),
            pairs => format!("pair {} of {pairs}", state.labels.number + 1),
        };
        let text = format!("both SSDs of {of} have failed: {why}");
        tracing::error!(
            "{text}. Nothing is acknowledged as durable any more; look at both and the system log, then restart"
        );
        self.note(EventKind::Failure, &text);
        drop(state);
        self.disks.fail_file();
        self.tell_all();
    }

    /// Carries out a write or flush on all members that have everything, or are about to, on this thread, and waits until what one of
    /// them lacks may be acknowledged.
    pub(crate) fn run_now(self: &Arc<Self>, kind: &CommandKind) -> Result<(), MediaError> {
        let _alone = self.directory.lock().unwrap_or_else(PoisonError::into_inner);
        let (health, _) = self.health();
        if health.is_lost {
            return Err(MediaError::Gone);
        }
        let number = self.wait_for_turn(kind, &health);
        let mut asked = InTurn::new(health);
        while let Some(member) = asked.next_member() {
            asked.ended(member, self.run_on(member, kind, asked));
            if asked.must_be_dropped(member, &self.health().0) {
                self.drop_member(member, "a change of the directory was not answered there");
            }
        }
        if let Some(number) = number {
            self.resilver().end_write(number);
            self.resilver_changed.notify_all();
        }
        for member in asked.failed_members(&self.health().0) {
            self.drop_member(member, "a change of the directory could not be written there");
        }
        loop {
            match asked.end(&self.health().0) {
                Some(result) => return result,
                None if self.is_closing() => return Err(MediaError::Gone),
                None => thread::sleep(TICK),
            }
        }
    }

    /// Waits until nothing is copied where this writes. Gives the number under which that is noted.
    fn wait_for_turn(&self, kind: &CommandKind, health: &PairHealth) -> Option<u64> {
        health.resilvering?;
        let bytes = bytes_of(kind)?;
        let mut resilver = self.resilver();
        loop {
            match resilver.begin_write(bytes.clone()) {
                Some(number) => return Some(number),
                None => {
                    let waited = self.resilver_changed.wait_timeout(resilver, TICK);
                    resilver = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    /// Carries it out on a member, which is given up when it does not answer in time, unless no other one has it and the
    /// service goes on.
    fn run_on(self: &Arc<Self>, member: usize, kind: &CommandKind, asked: InTurn) -> Result<(), MediaError> {
        let Member { file, disks, .. } = self.state().members[member].clone();
        let (Some(file), Some(disks)) = (file, disks) else { return Err(MediaError::Gone) };
        let pair = Arc::clone(self);
        let is_last = move || !pair.is_closing() && asked.is_last(member, &pair.health().0);
        let mut device = MemberDevice::new(file, self.limit).unless(is_last.clone());
        match kind {
            CommandKind::Write { offset_bytes, data } => {
                device.write(PairLabel::DATA_START_BYTES + offset_bytes, &data.concat())
            }
            _ => {
                let mut done = flush_member(&mut device, &disks, self.limit);
                // Flushes of others on it have not ended in time.
                while done.is_err() && !disks.have_failed() && is_last() {
                    done = flush_member(&mut device, &disks, self.limit);
                }
                done
            }
        }
    }
}

/// Flushes a member, and waits until it is known to be worth something. One on which flushes of others do not end is as good as gone.
pub(super) fn flush_member(
    device: &mut MemberDevice,
    disks: &DisksOf,
    limit: Duration,
) -> Result<(), MediaError> {
    match disks.flush_with(|| device.flush(), Some(limit))? {
        Worth::Durable => Ok(()),
        Worth::Nothing | Worth::Open => Err(MediaError::Gone),
    }
}

/// Has a member say durably what its label is to say.
fn record_on(file: &MediaFile, label: &PairLabel) -> Result<(), String> {
    write_label(&mut FileDevice::new(file), label).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_health_is_one_number() {
        for in_sync in [[true, true], [true, false], [false, true]] {
            for resilvering in [None, Some(0), Some(1)] {
                for (is_recorded, is_lost) in [(true, false), (false, false), (false, true)] {
                    let health = PairHealth { in_sync, is_recorded, is_lost, resilvering };
                    assert_eq!(unpack(pack(&health, 77)), (health, 77));
                }
            }
        }
    }
}
