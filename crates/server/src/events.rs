//! What happened lately, for whoever asks later: decisions with their reasons, clients, drains, failures, changes. It must not
//! know who asks.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// Events that are kept.
pub(crate) const KEPT_EVENTS: usize = 10_000;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EventKind {
    /// The daemon began to serve.
    Start,
    /// A client came or went.
    Client,
    /// A drain began, ended or was cancelled.
    Drain,
    /// A device or a part of the program failed.
    Failure,
    /// A request was slow.
    Slow,
    /// A VM's share changes, or one that came begins with it.
    Share,
    /// A VM's share would change if the host did as demands say.
    Advice,
    /// What a VM may write to the SSD changes, or the host's budget cannot be kept.
    Budget,
    /// A setting changed.
    Setting,
}

/// One of them.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Event {
    /// Counts up from 1 at each start of the daemon.
    pub number: u64,
    /// Milliseconds since 1970 began, UTC.
    pub time_ms: u64,
    pub kind: EventKind,
    /// None: the daemon as a whole.
    pub vm: Option<String>,
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<ShareChange>,
}

/// A share that changes, in numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ShareChange {
    /// `dram` or `ssd`.
    pub level: &'static str,
    pub from_bytes: u64,
    pub to_bytes: u64,
    /// Of the blocks that the VM read in the last interval, those that a level of either size would have served; none where
    /// nothing measures that.
    pub expected_hit_ratio_from: Option<f64>,
    pub expected_hit_ratio_to: Option<f64>,
    /// From whom it comes or to whom it goes.
    pub others: Vec<Other>,
}

/// What one VM gives to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Other {
    /// None: what nobody had.
    pub vm: Option<String>,
    pub bytes: u64,
    /// What that does to the hit ratio of that VM in all.
    pub expected_hit_ratio_change: Option<f64>,
}

#[derive(Debug, Default)]
struct Kept {
    last: u64,
    events: VecDeque<Event>,
}

/// The latest events, which any thread may add to: they are rare.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    began_ms: u64,
    kept: Arc<Mutex<Kept>>,
}

impl Default for Events {
    fn default() -> Events {
        Events { began_ms: now_ms(), kept: Arc::default() }
    }
}

/// Milliseconds since 1970 began, UTC. A clock before that tells nothing.
fn now_ms() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Events {
    /// When events began to be numbered, in milliseconds since 1970 began, UTC: another start of the daemon has another time.
    pub(crate) fn began_ms(&self) -> u64 {
        self.began_ms
    }

    /// Something happened.
    pub(crate) fn note(&self, kind: EventKind, vm: Option<&str>, text: impl Into<String>) {
        self.add(kind, vm, text.into(), None);
    }

    /// A share changes.
    pub(crate) fn note_share(&self, kind: EventKind, vm: &str, text: String, share: ShareChange) {
        self.add(kind, Some(vm), text, Some(share));
    }

    fn add(&self, kind: EventKind, vm: Option<&str>, text: String, share: Option<ShareChange>) {
        let time_ms = now_ms();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.last += 1;
        let event = Event { number: kept.last, time_ms, kind, vm: vm.map(str::to_owned), text, share };
        if kept.events.len() == KEPT_EVENTS {
            kept.events.pop_front();
        }
        kept.events.push_back(event);
    }

    /// The number of the latest event, and the `most` first ones after number `after`, of one VM or of all.
    pub(crate) fn after(&self, after: u64, vm: Option<&str>, most: usize) -> (u64, Vec<Event>) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_meant = |event: &&Event| event.number > after && (vm.is_none() || event.vm.as_deref() == vm);
        (kept.last, kept.events.iter().filter(is_meant).take(most).cloned().collect())
    }

    /// Whether there is any of a VM.
    pub(crate) fn has_any_of(&self, vm: &str) -> bool {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.events.iter().any(|event| event.vm.as_deref() == Some(vm))
    }

    /// The `most` latest events, in the order in which they came.
    pub(crate) fn latest(&self, vm: Option<&str>, most: usize) -> (u64, Vec<Event>) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_meant = |event: &&Event| vm.is_none() || event.vm.as_deref() == vm;
        let mut events: Vec<Event> = kept.events.iter().rev().filter(is_meant).take(most).cloned().collect();
        events.reverse();
        (kept.last, events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_kept_and_numbered() {
        let events = Events::default();
        for at in 0..KEPT_EVENTS + 5 {
            events.note(EventKind::Client, (at % 2 == 0).then_some("web"), format!("{at}"));
        }
        let (last, all) = events.after(0, None, usize::MAX);
        assert_eq!((last as usize, all.len()), (KEPT_EVENTS + 5, KEPT_EVENTS));
        assert_eq!((all[0].number, all[0].text.as_str()), (6, "5"));
        let numbers = |events: Vec<Event>| events.iter().map(|event| event.number).collect::<Vec<_>>();
        assert_eq!(numbers(events.after(last - 3, None, 2).1), [last - 2, last - 1]);
        assert_eq!(numbers(events.latest(Some("web"), 2).1), [last - 2, last]);
        assert_eq!(numbers(events.after(last - 3, Some("web"), 9).1), [last - 2, last]);
        assert!(events.after(last, None, 9).1.is_empty());
        assert!(events.has_any_of("web") && !events.has_any_of("wed"));
    }
}
