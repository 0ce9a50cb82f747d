//! The resilver of a member while guests are served. Everything that is written goes to it from the beginning, and what was there
//! before is copied, part by part, as fast as the configuration allows. Only then it counts: first what it lacks from then on is told
//! as of any member, then the labels say that it has everything. It must not know where a new member comes from.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use lode_format::PairLabel;
use lode_media::MediaFile;
use lode_store::SyncDevice;
use lode_store::pair::{MEMBERS, Pair, Resilver, read_part, write_label, write_part};

use super::device::MemberDevice;
use super::served::{ServedPair, State, TICK, flush_member};
use crate::config::{ResilverRates, Size};
use crate::events::EventKind;
use crate::guard::guarded;
use crate::shared::DisksOf;

/// Longest that it sleeps at once to go no faster than it may.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// Bytes of a part while volumes ask for something, whose commands wait behind it at the SSDs.
const PART_BESIDE_GUESTS_BYTES: u64 = 64 << 10;
/// As many times as long as such a part took the SSDs are left to guests.
const LEFT_TO_GUESTS: u32 = 6;
/// How often labels say how much is resilvered, so that a start can go on from there.
const PROGRESS_PAUSE: Duration = Duration::from_secs(5);
/// What is said of one that is not finished when the service ends; the next start goes on with it.
const SERVICE_ENDS: &str = "the service ends; it goes on with the next start";

/// What is said of one that was dropped meanwhile.
const GIVEN_UP: &str = "it was given up";

/// What is said where something else happens to the pair.
const NOT_AT_REST: &str = "The pair is not at rest: see `lode device list` and the log, and try again";

/// How long is waited after a part of so many bytes that took so long: as the highest rate asks for; and while guests ask for something until the
/// SSDs were left to them, but no longer than the lowest rate allows. A resilver that guests hold up for ever leaves what is dirty on one SSD.
fn pause_after(part_bytes: u64, took: Duration, has_commands: bool, rates: ResilverRates) -> Duration {
    let left_of = |rate_bytes: u64| {
        let of_part = part_bytes as f64 / rate_bytes.max(1) as f64;
        Duration::try_from_secs_f64(of_part).unwrap_or(Duration::MAX).saturating_sub(took)
    };
    let to_guests = if has_commands { took.saturating_mul(LEFT_TO_GUESTS) } else { Duration::ZERO };
    left_of(rates.most_bytes).max(to_guests.min(left_of(rates.least_bytes)))
}

/// Why labels could not be written.
enum LabelError {
    /// The SSD that has everything does not take its own.
    OfSource(String),
    /// The one that is resilvered does not, or was given up.
    OfTarget(String),
}

/// A member that is resilvered, and which time that is.
#[derive(Clone, Copy)]
struct Resilvered {
    member: usize,
    number: u64,
}

impl ServedPair {
    /// Begins to resilver a device as the member that does not have everything. Its label says so already. `used` gives the
    /// bytes of the pair that mean anything, when it is asked.
    ///
    /// # Errors
    /// In words, when there is no such member now.
    pub(super) fn begin_resilver(
        self: &Arc<Self>,
        (path, file): (&Path, MediaFile),
        disks: DisksOf,
        used: impl FnOnce() -> Vec<Range<u64>> + Send + 'static,
    ) -> Result<(), String> {
        // A volume that has not followed yet may still send commands to a device that was this member before.
        let (_, before) = self.health();
        if !self.wait_until(|followers| followers.may_replace(before)) {
            return Err(SERVICE_ENDS.to_owned());
        }
        let member = self.may_resilver()?;
        let mut state = self.state();
        if self.health().1 != before {
            return Err(NOT_AT_REST.to_owned());
        }
        let joins = &mut state.members[member];
        (joins.path, joins.file, joins.disks) = (Some(path.to_path_buf()), Some(file), Some(disks));
        (joins.why, joins.wants_resilver) = (None, false);
        state.resilver += 1;
        let number = state.resilver;
        let version = self.set_health(&state, |health| health.resilvering = Some(member));
        drop(state);
        self.tell_all();
        self.spawn_resilver(Resilvered { member, number }, version, used)
    }

    /// Goes on with the member that gets what is written since the run began, because labels say how much it has.
    ///
    /// # Errors
    /// In words.
    pub(super) fn resume_copying(
        self: &Arc<Self>,
        used: impl FnOnce() -> Vec<Range<u64>> + Send + 'static,
    ) -> Result<(), String> {
        let mut state = self.state();
        let (health, version) = self.health();
        // It may have been dropped just now.
        let Some(member) = health.resilvering else { return Ok(()) };
        state.members[member].why = None;
        state.resilver += 1;
        let number = state.resilver;
        drop(state);
        self.spawn_resilver(Resilvered { member, number }, version, used)
    }

    /// Has a thread resilver the member, which gets what is written as of this version of the health.
    fn spawn_resilver(
        self: &Arc<Self>,
        one @ Resilvered { member, number }: Resilvered,
        version: u64,
        used: impl FnOnce() -> Vec<Range<u64>> + Send + 'static,
    ) -> Result<(), String> {
        let pair = Arc::clone(self);
        let body = move || {
            let done = guarded(|| pair.resilver_member(one, version, used));
            let done = done.unwrap_or_else(|defect| Err(format!("a defect of the program: {defect}")));
            match done {
                Ok(()) => {}
                Err(why) if pair.is_closing() => tracing::info!("An SSD is not resilvered: {why}"),
                Err(why) if pair.state().resilver == number => pair.drop_member(member, &why),
                // It was given up before, and said to be.
                Err(_) => {}
            }
        };
        match thread::Builder::new().name("resilver".to_owned()).spawn(body) {
            Ok(_) => Ok(()),
            Err(error) => {
                let why = format!("cannot start a thread ({error}); raise the limit of threads");
                self.drop_member(member, &why);
                Err(why)
            }
        }
    }

    /// The member that can be resilvered.
    ///
    /// # Errors
    /// In words, when there is none now.
    pub(super) fn may_resilver(&self) -> Result<usize, String> {
        let (health, _) = self.health();
        let member = (0..MEMBERS).find(|&member| !health.in_sync[member]);
        let Some(member) = member else {
            return Err(
                "Both SSDs of the pair are in use; take one out first (`lode device remove`)".to_owned()
            );
        };
        if health.resilvering.is_some() {
            return Err("An SSD is being resilvered; `lode device list` shows how far that is".to_owned());
        }
        if health.is_recorded && !health.is_lost { Ok(member) } else { Err(NOT_AT_REST.to_owned()) }
    }

    fn resilver_member(
        self: &Arc<Self>,
        one: Resilvered,
        version: u64,
        used: impl FnOnce() -> Vec<Range<u64>>,
    ) -> Result<(), String> {
        // From then on all that is written goes there as well, and is known to the resilver.
        if !self.wait_until(|followers| followers.may_copy(version)) {
            return Err(SERVICE_ENDS.to_owned());
        }
        let member = one.member;
        let (path, resilvered_bytes) = {
            let state = self.state();
            (state.members[member].shown(), state.labels.resilvered_bytes)
        };
        let used = used();
        let begin = |pair: &ServedPair| {
            let mut resilver = pair.resilver();
            resilver.begin(used, resilvered_bytes);
            resilver.progress()
        };
        let (done, total) = self.while_current(one, begin)?;
        let before = if done > 0 { format!(", and {} were before", Size(done)) } else { String::new() };
        tracing::info!("SSD {path} is resilvered: {} to copy{before}", Size(total - done));
        self.note(EventKind::Setting, &format!("SSD {path} is being resilvered"));
        let device = |member: usize| {
            let file = self.file(member).ok_or_else(|| "an SSD was closed".to_owned())?;
            Ok::<_, String>(MemberDevice::new(file, self.limit()))
        };
        let (mut from, mut to) = (device(1 - member)?, device(member)?);
        let began = Instant::now();
        self.copy_parts(one, &mut from, &mut to)?;
        self.flush_resilvered(member, &mut to)?;
        if !self.count(one, &mut from, &mut to)? {
            return Ok(());
        }
        let text = format!(
            "SSD {path} has everything: {} were copied in {:.0} s",
            Size(total - done),
            began.elapsed().as_secs_f64()
        );
        tracing::info!("{text}");
        self.note(EventKind::Setting, &text);
        Ok(())
    }

    /// Copies all that is left, as fast as the configuration and guests allow. Now and then labels say how much is resilvered.
    fn copy_parts(
        self: &Arc<Self>,
        one: Resilvered,
        from: &mut MemberDevice,
        to: &mut MemberDevice,
    ) -> Result<(), String> {
        let mut recorded = Instant::now();
        loop {
            let has_commands = self.has_commands.swap(false, Ordering::Relaxed);
            let most_bytes = if has_commands { PART_BESIDE_GUESTS_BYTES } else { Resilver::PART_BYTES };
            let Some(part) = self.next_part(one, most_bytes)? else { return Ok(()) };
            let part_began = Instant::now();
            copy(from, to, &part)?;
            let took = part_began.elapsed();
            self.while_current(one, |pair| pair.resilver().part_copied())?;
            self.resilver_changed.notify_all();
            if self.somebody_waits.swap(false, Ordering::SeqCst) {
                self.tell_all();
            }
            if recorded.elapsed() >= PROGRESS_PAUSE {
                self.record_progress(one, from, to)?;
                recorded = Instant::now();
            }
            self.pace(part.end - part.start, took, has_commands);
        }
    }

    /// Has labels say how much is resilvered, once that is durable. Where the other one does not take its label, that is tried again later.
    fn record_progress(
        self: &Arc<Self>,
        one @ Resilvered { member, .. }: Resilvered,
        from: &mut MemberDevice,
        to: &mut MemberDevice,
    ) -> Result<(), String> {
        let resilvered_bytes = self.while_current(one, |pair| pair.resilver().resilvered_bytes())?;
        self.flush_resilvered(member, to)?;
        let device_bytes = to.size_bytes();
        match self.update_labels(one, from, to, |was| was.with_resilvered(device_bytes, resilvered_bytes)) {
            Ok(_) => Ok(()),
            Err(LabelError::OfSource(why)) => {
                let path = self.state().members[1 - member].shown();
                tracing::warn!("SSD {path} does not take a label that says how far the resilver is: {why}");
                Ok(())
            }
            Err(LabelError::OfTarget(why)) => Err(why),
        }
    }

    fn flush_resilvered(&self, member: usize, to: &mut MemberDevice) -> Result<(), String> {
        let disks = self.disks_of(member).ok_or("it was closed")?;
        let flushed = flush_member(to, &disks, self.limit());
        flushed.map_err(|error| format!("a flush of it failed ({error:?})"))
    }

    /// The next part, when nobody writes to it.
    fn next_part(&self, one: Resilvered, most_bytes: u64) -> Result<Option<Range<u64>>, String> {
        let part = self.while_current(one, |pair| pair.resilver().next_part(most_bytes))?;
        let Some(part) = part else { return Ok(None) };
        loop {
            if self.is_closing() {
                return Err(SERVICE_ENDS.to_owned());
            }
            if self.while_current(one, |pair| pair.resilver().may_copy())? {
                return Ok(Some(part));
            }
            let waited = self.resilver_changed.wait_timeout(self.resilver(), TICK);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Does something unless the member was given up meanwhile, or another time has begun.
    fn while_current<T>(&self, one: Resilvered, work: impl FnOnce(&ServedPair) -> T) -> Result<T, String> {
        let state = self.state();
        if self.is_current(&state, one) { Ok(work(self)) } else { Err(GIVEN_UP.to_owned()) }
    }

    fn is_current(&self, state: &State, one: Resilvered) -> bool {
        state.resilver == one.number && self.health().0.resilvering == Some(one.member)
    }

    /// Waits until the next part may be copied after one of so many bytes that took so long.
    fn pace(&self, part_bytes: u64, took: Duration, has_commands: bool) {
        self.pause(pause_after(part_bytes, took, has_commands, self.rates));
    }

    fn pause(&self, pause: Duration) {
        let began = Instant::now();
        while let Some(left) = pause.checked_sub(began.elapsed()).filter(|left| !left.is_zero())
            && !self.is_closing()
        {
            thread::sleep(left.min(LONGEST_PAUSE));
        }
    }

    /// It has everything, durably: from now on it is waited for as for the other one. When everybody goes by that, the labels say so.
    /// Whether they do: when one of the pair is dropped before, or the service ends, they go on saying what they say.
    fn count(
        self: &Arc<Self>,
        Resilvered { member, number }: Resilvered,
        from: &mut MemberDevice,
        to: &mut MemberDevice,
    ) -> Result<bool, String> {
        let one = Resilvered { member, number };
        let labels = self.record_before_it_counts(one, from, to)?;
        let mut state = self.state();
        if !self.is_current(&state, one) {
            return Err(GIVEN_UP.to_owned());
        }
        state.labels = labels;
        state.counts = Some(member);
        let version =
            self.set_health(&state, |health| (health.in_sync[member], health.resilvering) = (true, None));
        drop(state);
        self.tell_all();
        let have_followed = self.wait_until(|followers| followers.have_adopted(version));
        // Otherwise the labels go on saying that it lacks something; or one was dropped again, and a later label says so.
        let written =
            if have_followed { self.write_both_labels(labels, member, from, to) } else { Ok(false) };
        let mut state = self.state();
        if state.resilver == number {
            state.counts = None;
        }
        written
    }

    /// From when it counts it alone has some clean blocks, and labels say so only later: until then they say that these go with it. Gives
    /// the labels that are to say that it counts.
    fn record_before_it_counts(
        &self,
        one @ Resilvered { member, .. }: Resilvered,
        from: &mut MemberDevice,
        to: &mut MemberDevice,
    ) -> Result<Pair, String> {
        let counting = |was: Pair, device_bytes| was.counting(member, device_bytes, self.epoch);
        let device_bytes = to.size_bytes();
        match self.update_labels(one, from, to, |was| counting(was, device_bytes).0) {
            Ok(was) => Ok(counting(was, device_bytes).1),
            Err(LabelError::OfSource(why)) => Err(format!("the other SSD does not take its label: {why}")),
            Err(LabelError::OfTarget(why)) => Err(why),
        }
    }

    /// Has labels of both say something more of the member that is resilvered. Gives what they said before.
    fn update_labels(
        &self,
        one @ Resilvered { member, .. }: Resilvered,
        from: &mut MemberDevice,
        to: &mut MemberDevice,
        next: impl FnOnce(Pair) -> Pair,
    ) -> Result<Pair, LabelError> {
        // The state, unless the member was given up meanwhile, or labels say something else by now.
        let current = |labels: Option<Pair>| {
            let state = self.state();
            let is_so = self.is_current(&state, one) && labels.is_none_or(|labels| labels == state.labels);
            is_so.then_some(state).ok_or_else(|| LabelError::OfTarget(GIVEN_UP.to_owned()))
        };
        // The other one first: it is who has everything, and must not be older than what this one says.
        let turn = self.label_turn(1 - member);
        let was = current(None)?.labels;
        let said = next(was);
        write_label(from, &said.label(1 - member))
            .map_err(|error| LabelError::OfSource(error.to_string()))?;
        drop(turn);
        current(Some(was))?.labels = said;
        self.remember(said.number, said.generation);
        let _turn = self.label_turn(member);
        // Otherwise it may be somebody else's by now.
        drop(current(Some(said))?);
        write_label(to, &said.label(member)).map_err(|error| LabelError::OfTarget(error.to_string()))?;
        Ok(was)
    }

    /// The label of the one that counts now, and that of the other one. Whether they were written: not, where a later one says otherwise.
    fn write_both_labels(
        self: &Arc<Self>,
        labels: Pair,
        member: usize,
        from: &mut MemberDevice,
        to: &mut MemberDevice,
    ) -> Result<bool, String> {
        for (at, device) in [(member, to), (1 - member, from)] {
            let turn = self.label_turn(at);
            if self.state().labels != labels {
                return Ok(false);
            }
            let written = write_label(device, &labels.label(at));
            drop(turn);
            match written {
                Err(error) if at == member => return Err(error.to_string()),
                Err(error) => self.drop_member(at, &error.to_string()),
                Ok(()) => {}
            }
        }
        self.remember(labels.number, labels.generation);
        Ok(true)
    }
}

/// Has one member have what the other one has of these bytes.
fn copy(from: &mut MemberDevice, to: &mut MemberDevice, part: &Range<u64>) -> Result<(), String> {
    let at = PairLabel::DATA_START_BYTES + part.start;
    let bytes = read_part(from, part).map_err(|error| {
        format!(
            "the other SSD cannot be read at byte {at} ({error:?}), so that nothing else can be resilvered from it: `lode drain` what it \
             holds, stop, and format a new pair"
        )
    })?;
    write_part(to, part, &bytes).map_err(|error| format!("it cannot be written at byte {at} ({error:?})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resilver_spares_guests_but_does_end() {
        const MS: Duration = Duration::from_millis(1);
        let rates = ResilverRates { most_bytes: 64 << 20, least_bytes: 4 << 20 };
        let pause = |took, has_commands| pause_after(64 << 10, took, has_commands, rates);
        // At the highest rate a part takes a 1024th of a second, at the lowest a 64th.
        assert_eq!(
            [pause(MS / 2, false), pause(MS, false)],
            [Duration::from_secs(1) / 1024 - MS / 2, Duration::ZERO]
        );
        assert_eq!(
            [pause(MS / 20, true), pause(MS, true)],
            [Duration::from_secs(1) / 1024 - MS / 20, 6 * MS]
        );
        assert_eq!(
            [pause(2 * MS, true), pause(3 * MS, true)],
            [12 * MS, Duration::from_secs(1) / 64 - 3 * MS]
        );
        assert_eq!(pause(16 * MS, true), Duration::ZERO);
        let never = ResilverRates { least_bytes: 0, ..rates };
        assert_eq!(pause_after(64 << 10, 900 * MS, true, never), 5400 * MS);
    }
}
