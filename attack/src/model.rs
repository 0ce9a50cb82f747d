//! The checker: what the sectors of a VM's disk may hold, by the published guarantees alone (docs/design.md, "Guarantees").
//! It must not know how they are kept.
//!
//! For each sector it has the versions that a power cut now might leave, oldest first, and from which of them on a read may
//! answer. A write that was acknowledged with FUA, or followed by an acknowledged FLUSH, ends all that is older (2). A kill
//! loses nothing that was acknowledged (10). What a read returned after either, and a FLUSH was acknowledged for, stays (2).
//!
//! A model follows from events, so that what was promised at any moment of a log is found by going through it again.

use std::collections::HashMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::history::DiskHistory;
use crate::sector::{Value, WriteId, read_value};

/// What a request does to its sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// Bytes that name the write.
    Data,
    /// Zeroes.
    Zero,
    /// Zeroes, or anything that the sector held before: the protocol promises no more of a trim.
    Trim,
    /// None: a read found this, after an end that left it open.
    Seen(Value),
}

impl Change {
    /// Whether a sector may hold this after the change, which write number `write` made.
    pub fn allows(self, write: WriteId, value: Value) -> bool {
        match (self, value) {
            (Change::Data, Value::Of(found)) => found == write,
            (Change::Zero | Change::Trim, Value::Zero) => true,
            (Change::Trim, Value::Of(found)) => found < write,
            (Change::Seen(seen), value) => seen == value,
            _ => false,
        }
    }
}

/// One version of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    write: WriteId,
    change: Change,
    /// How many answers came before its own; `None`: it has none, and will have none after an end.
    acknowledged: Option<u64>,
    /// A flush that should have covered it failed: no later one does.
    doubtful: bool,
}

impl Version {
    fn allows(&self, value: Value) -> bool {
        self.change.allows(self.write, value)
    }
}

/// What a guest did and was told, in the order in which it knows it.
#[derive(Clone, Debug)]
pub enum GuestEvent {
    /// A change is about to be sent.
    Submitted { write: WriteId, sectors: Range<u64>, change: Change },
    /// It was answered; `durable`: with FUA. What it was is for those who look for such a moment.
    Acknowledged { write: WriteId, durable: bool, change: Change },
    /// It was answered with an error; `durable`: it was to be flushed.
    Failed { write: WriteId, durable: bool },
    /// A FLUSH is about to be sent.
    FlushSent { flush: u64 },
    /// It was answered.
    FlushAcknowledged { flush: u64 },
    /// It was answered with an error.
    FlushFailed { flush: u64 },
    /// Reads found these values in sectors that might have held others.
    Seen { values: Vec<(u64, Value)> },
    /// The daemon said that the disk alone is of no earlier moment of its history.
    Told { earliest: u64 },
    /// The daemon died and its host lives; `doubtful`: after a flush of a device had failed.
    Killed { doubtful: bool },
    /// The daemon ended in order.
    Stopped,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Sector {
    versions: Vec<Version>,
    /// The oldest version that a read may return while the host lives.
    live: usize,
}

/// The disk of one VM. See the module's documentation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Model {
    vm: usize,
    sectors: Vec<Sector>,
    next_write: WriteId,
    answers: u64,
    /// What the disk alone may hold, where its write-back is ordered.
    #[serde(default)]
    history: Option<DiskHistory>,
    /// Changes that are not answered.
    #[serde(skip)]
    open: HashMap<WriteId, Range<u64>>,
    /// Answers there were when these flushes were sent.
    #[serde(skip)]
    flushes: HashMap<u64, u64>,
}

impl Model {
    /// A disk of zeroes.
    pub fn new(vm: usize, sectors: u64) -> Model {
        let zeroes = Version { write: 0, change: Change::Zero, acknowledged: Some(0), doubtful: false };
        let sector = Sector { versions: vec![zeroes], live: 0 };
        Model {
            vm,
            sectors: vec![sector; sectors as usize],
            next_write: 1,
            answers: 0,
            history: None,
            open: HashMap::new(),
            flushes: HashMap::new(),
        }
    }

    /// The same of a disk whose write-back is ordered.
    pub fn in_order(self) -> Model {
        let history = Some(DiskHistory::new(self.sectors()));
        Model { history, ..self }
    }

    /// What the disk alone may hold, where its write-back is ordered.
    pub fn history(&self) -> Option<&DiskHistory> {
        self.history.as_ref()
    }

    /// How many sectors there are.
    pub fn sectors(&self) -> u64 {
        self.sectors.len() as u64
    }

    /// The number of the next write.
    pub fn next_write(&self) -> WriteId {
        self.next_write
    }

    /// Takes an event in.
    pub fn apply(&mut self, event: &GuestEvent) {
        if let Some(history) = &mut self.history {
            note_in(history, event);
        }
        match event {
            GuestEvent::Submitted { write, sectors, change } => self.submit(*write, sectors, *change),
            GuestEvent::Acknowledged { write, durable, .. } => self.acknowledge(*write, *durable),
            GuestEvent::Failed { write, durable } => {
                self.open.remove(write);
                if *durable {
                    self.doubt();
                }
            }
            GuestEvent::FlushSent { flush } => {
                self.flushes.insert(*flush, self.answers);
            }
            GuestEvent::FlushAcknowledged { flush } => {
                if let Some(answers) = self.flushes.remove(flush) {
                    self.flushed(answers);
                }
            }
            GuestEvent::FlushFailed { flush } => {
                self.flushes.remove(flush);
                self.doubt();
            }
            GuestEvent::Seen { values } => values.iter().for_each(|&(sector, value)| self.see(sector, value)),
            GuestEvent::Told { .. } => {}
            GuestEvent::Killed { doubtful } => {
                if *doubtful {
                    self.doubt();
                }
                self.killed();
            }
            GuestEvent::Stopped => {
                self.flushed(u64::MAX);
                self.killed();
            }
        }
    }

    fn submit(&mut self, write: WriteId, sectors: &Range<u64>, change: Change) {
        self.next_write = self.next_write.max(write + 1);
        for sector in self.part(sectors) {
            sector.versions.push(Version { write, change, acknowledged: None, doubtful: false });
        }
        self.open.insert(write, sectors.clone());
    }

    fn acknowledge(&mut self, write: WriteId, durable: bool) {
        let Some(sectors) = self.open.remove(&write) else { return };
        self.answers += 1;
        let answers = self.answers;
        for sector in self.part(&sectors) {
            let Some(at) = sector.versions.iter().position(|version| version.write == write) else {
                continue;
            };
            sector.versions[at].acknowledged = Some(answers);
            sector.live = sector.live.max(at);
            // A trim that is durable need not have done anything, and what it left need not be durable.
            if durable && sector.versions[at].change != Change::Trim {
                sector.keep_from(at);
            }
        }
    }

    fn flushed(&mut self, answers: u64) {
        for sector in self.sectors.iter_mut().filter(|sector| sector.versions.len() > 1) {
            let is_covered = |version: &Version| {
                !version.doubtful && version.acknowledged.is_some_and(|number| number <= answers)
            };
            sector.keep_covered(is_covered);
        }
    }

    /// What is not durable need not become so before it is written again, acknowledged or not.
    fn doubt(&mut self) {
        for sector in &mut self.sectors {
            sector.versions.iter_mut().skip(1).for_each(|version| version.doubtful = true);
        }
    }

    fn see(&mut self, number: u64, value: Value) {
        self.answers += 1;
        let answers = self.answers;
        let sector = &mut self.sectors[number as usize];
        let doubtful = sector.versions.iter().any(|version| version.doubtful);
        let change = Change::Seen(value);
        sector.versions.push(Version { write: 0, change, acknowledged: Some(answers), doubtful });
        sector.live = sector.versions.len() - 1;
    }

    fn killed(&mut self) {
        self.open.clear();
        self.flushes.clear();
    }

    /// The model of what a power cut now leaves. Which of several versions a sector has is open until it is read; a later
    /// flush says nothing of it.
    pub fn after_power_cut(&self) -> Model {
        let mut model = self.clone();
        model.killed();
        if let Some(history) = &mut model.history {
            history.power_cut();
        }
        for sector in &mut model.sectors {
            sector.live = 0;
            if sector.versions.len() > 1 {
                for version in &mut sector.versions {
                    (version.acknowledged, version.doubtful) = (None, false);
                }
            }
        }
        model
    }

    fn part(&mut self, sectors: &Range<u64>) -> &mut [Sector] {
        &mut self.sectors[sectors.start as usize..sectors.end as usize]
    }

    /// What a read that is sent now may return for a sector. Where nothing fails that is the newest write that was sent
    /// (guarantee 1).
    pub fn allowed(&self, sector: u64, nothing_fails: bool) -> &[Version] {
        let Sector { versions, live } = &self.sectors[sector as usize];
        let newest = versions.len() - 1;
        let is_open = self.open.contains_key(&versions[newest].write);
        &versions[if nothing_fails && is_open { newest } else { *live }..]
    }

    /// Whether a read may return one value of this sector only.
    pub fn is_settled(&self, sector: u64) -> bool {
        matches!(self.allowed(sector, false), [version] if version.change != Change::Trim)
    }

    /// What a sector holds that may have one of the versions.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(vm: usize, sector: u64, bytes: &[u8], allowed: &[Version]) -> Result<Value, String> {
        let value =
            read_value(vm, sector, bytes).map_err(|what| format!("VM {vm} sector {sector} holds {what}"))?;
        if allowed.iter().any(|version| version.allows(value)) {
            return Ok(value);
        }
        Err(format!("VM {vm} sector {sector} holds {value:?}, and may hold one of {allowed:?}"))
    }

    /// Which VM it is.
    pub fn vm(&self) -> usize {
        self.vm
    }
}

/// What an event says of the disk alone.
fn note_in(history: &mut DiskHistory, event: &GuestEvent) {
    match event {
        GuestEvent::Submitted { write, sectors, change } => history.submit(*write, sectors, *change),
        GuestEvent::Acknowledged { write, .. } => history.acknowledge(*write),
        GuestEvent::Failed { write, .. } => history.fail(*write),
        GuestEvent::Seen { values } => {
            values.iter().for_each(|&(sector, value)| history.found(sector, value));
        }
        GuestEvent::Told { earliest } => history.told(*earliest),
        GuestEvent::Killed { doubtful } => history.end(*doubtful),
        GuestEvent::Stopped => history.end(false),
        GuestEvent::FlushSent { .. }
        | GuestEvent::FlushAcknowledged { .. }
        | GuestEvent::FlushFailed { .. } => {}
    }
}

impl Sector {
    /// Nothing older than the version at `at` can come back.
    fn keep_from(&mut self, at: usize) {
        self.versions.drain(..at);
        self.live = self.live.saturating_sub(at);
    }

    /// A flush covers these versions: what is older than one of them cannot come back. A trim may have left what the sector held, and
    /// that is as durable as it was before.
    fn keep_covered(&mut self, is_covered: impl Fn(&Version) -> bool) {
        let is_content = |version: &Version| is_covered(version) && version.change != Change::Trim;
        if let Some(content) = self.versions.iter().rposition(is_content) {
            self.keep_from(content);
        }
        let Some(newest) = self.versions.iter().rposition(&is_covered) else { return };
        let left: Vec<Version> =
            self.versions.drain(..newest).filter(|version| !is_covered(version)).collect();
        self.live = self.live.saturating_sub(newest - left.len());
        self.versions.splice(..0, left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One sector, and what it may hold: write numbers, 0 for zeroes.
    struct One(Model);

    impl One {
        fn new() -> One {
            One(Model::new(3, 1))
        }

        fn write(&mut self, write: WriteId, change: Change) {
            self.0.apply(&GuestEvent::Submitted { write, sectors: 0..1, change });
        }

        fn acknowledged(&mut self, write: WriteId, durable: bool) {
            self.0.apply(&GuestEvent::Acknowledged { write, durable, change: Change::Data });
        }

        fn flush(&mut self) {
            self.0.apply(&GuestEvent::FlushSent { flush: 1 });
            self.0.apply(&GuestEvent::FlushAcknowledged { flush: 1 });
        }

        fn may_hold(model: &Model) -> Vec<WriteId> {
            let values = (0..9).filter(|&write| {
                let value = if write == 0 { Value::Zero } else { Value::Of(write) };
                model.allowed(0, true).iter().any(|version| version.allows(value))
            });
            values.collect()
        }

        fn now(&self) -> Vec<WriteId> {
            One::may_hold(&self.0)
        }

        fn after_power_cut(&self) -> Vec<WriteId> {
            One::may_hold(&self.0.after_power_cut())
        }
    }

    #[test]
    fn g2_a_flush_covers_what_was_acknowledged_before_it_was_sent() {
        let mut one = One::new();
        one.write(1, Change::Data);
        one.acknowledged(1, false);
        one.write(2, Change::Data);
        assert_eq!((one.now(), one.after_power_cut()), (vec![2], vec![0, 1, 2]));
        one.0.apply(&GuestEvent::FlushSent { flush: 1 });
        one.acknowledged(2, false);
        one.0.apply(&GuestEvent::FlushAcknowledged { flush: 1 });
        assert_eq!((one.now(), one.after_power_cut()), (vec![2], vec![1, 2]));
        one.flush();
        assert_eq!(one.after_power_cut(), [2]);
    }

    #[test]
    fn g2_fua_is_durable_with_its_answer_and_ends_what_is_older() {
        let mut one = One::new();
        one.write(1, Change::Zero);
        one.write(2, Change::Data);
        one.acknowledged(2, true);
        assert_eq!((one.now(), one.after_power_cut()), (vec![2], vec![2]));
        one.write(3, Change::Trim);
        one.acknowledged(3, true);
        assert_eq!(one.after_power_cut(), [0, 1, 2]);
    }

    #[test]
    fn g2_what_was_read_after_a_power_cut_stays_once_it_was_flushed() {
        let mut one = One::new();
        one.write(1, Change::Data);
        one.acknowledged(1, false);
        let mut one = One(one.0.after_power_cut());
        one.flush();
        assert_eq!(one.after_power_cut(), [0, 1], "nobody has read it");
        one.0.apply(&GuestEvent::Seen { values: vec![(0, Value::Zero)] });
        assert_eq!((one.now(), one.after_power_cut()), (vec![0], vec![0, 1]));
        one.flush();
        assert_eq!(one.after_power_cut(), [0]);
    }

    #[test]
    fn g10_a_kill_keeps_what_was_acknowledged_and_a_flush_after_it_covers_that() {
        let mut one = One::new();
        one.write(1, Change::Data);
        one.acknowledged(1, false);
        one.write(2, Change::Data);
        one.0.apply(&GuestEvent::Killed { doubtful: false });
        assert_eq!((one.now(), one.after_power_cut()), (vec![1, 2], vec![0, 1, 2]));
        one.flush();
        assert_eq!(one.after_power_cut(), [1, 2]);
    }

    #[test]
    fn g10_a_flush_that_failed_is_not_made_good_by_a_later_one() {
        let mut one = One::new();
        one.write(1, Change::Data);
        one.acknowledged(1, false);
        one.0.apply(&GuestEvent::Killed { doubtful: true });
        assert_eq!(one.now(), [1]);
        one.flush();
        assert_eq!(one.after_power_cut(), [0, 1]);
        one.write(2, Change::Data);
        one.acknowledged(2, false);
        one.flush();
        assert_eq!(one.after_power_cut(), [2]);
    }

    #[test]
    fn g10_what_was_read_of_a_write_whose_flush_failed_need_not_stay() {
        let mut one = One::new();
        one.write(1, Change::Data);
        one.0.apply(&GuestEvent::Killed { doubtful: true });
        one.0.apply(&GuestEvent::Seen { values: vec![(0, Value::Of(1))] });
        one.flush();
        assert_eq!((one.now(), one.after_power_cut()), (vec![1], vec![0, 1]));
    }

    #[test]
    fn g10_what_a_trim_left_of_a_write_whose_flush_failed_need_not_stay() {
        for fails_first in [false, true] {
            for durable in [false, true] {
                let mut one = One::new();
                one.write(1, Change::Data);
                one.acknowledged(1, false);
                one.0.apply(&GuestEvent::Killed { doubtful: fails_first });
                one.write(2, Change::Trim);
                one.acknowledged(2, durable);
                if fails_first {
                    one.flush();
                }
                one.0.apply(&GuestEvent::Killed { doubtful: !fails_first });
                one.0.apply(&GuestEvent::Seen { values: vec![(0, Value::Of(1))] });
                one.flush();
                assert_eq!((one.now(), one.after_power_cut()), (vec![1], vec![0, 1]), "{durable}");
                one.write(3, Change::Data);
                one.acknowledged(3, false);
                one.flush();
                assert_eq!(one.after_power_cut(), [3]);
            }
        }
    }

    #[test]
    fn g10_what_a_trim_left_of_a_write_that_was_flushed_stays() {
        for durable in [false, true] {
            let mut one = One::new();
            one.write(1, Change::Data);
            one.acknowledged(1, false);
            one.write(2, Change::Trim);
            one.acknowledged(2, durable);
            one.flush();
            one.0.apply(&GuestEvent::Killed { doubtful: true });
            one.0.apply(&GuestEvent::Seen { values: vec![(0, Value::Of(1))] });
            one.flush();
            assert_eq!((one.now(), one.after_power_cut()), (vec![1], vec![1]), "{durable}");
        }
    }

    #[test]
    fn a_failed_write_may_be_there_or_not() {
        let mut one = One::new();
        one.write(1, Change::Data);
        one.0.apply(&GuestEvent::Failed { write: 1, durable: false });
        one.flush();
        assert_eq!((one.now(), one.after_power_cut()), (vec![0, 1], vec![0, 1]));
        one.write(2, Change::Data);
        one.acknowledged(2, false);
        one.0.apply(&GuestEvent::Stopped);
        assert_eq!(one.after_power_cut(), [2]);
    }

    #[test]
    fn wrong_bytes_are_described() {
        let model = Model::new(3, 1);
        let bytes = crate::sector::contents(3, 5, 0..1);
        let what = Model::check(3, 0, &bytes, model.allowed(0, true)).unwrap_err();
        assert!(what.contains("sector 0 holds Of(5)"), "{what}");
        assert_eq!(Model::check(3, 0, &[0; 512], model.allowed(0, true)), Ok(Value::Zero));
    }
}
