//! What a VM's requests waited for: what its engine says, and what was before and beside that. It must not know how long is too
//! long.

use lode_engine::{WaitedFor, Waits};

/// How many things there are that a request can wait for.
pub(crate) const CAUSES: usize = WaitedFor::COUNT + 2;

/// What a request can wait for, as [`Took::waits_ns`] orders it: its name in status and metrics, and that for people.
pub(crate) const CAUSE_NAMES: [(&str, &str); CAUSES] = [
    ("order", "earlier requests to the same blocks"),
    ("room", "a free frame or place"),
    ("dirty_limit", "dirty blocks to become fewer"),
    ("read_ssd_read", "reads of the read SSD"),
    ("ssd_read", "reads of the cache SSD"),
    ("ssd_write", "writes to the cache SSD"),
    ("journal", "the journal"),
    ("backing_read", "reads of the backing disk"),
    ("backing_write", "writes to the backing disk"),
    ("backing_flush", "flushes of the backing disk"),
    ("start", "the start to take over what the SSD holds"),
    ("client", "its bytes from the client"),
    ("daemon", "the daemon"),
];

const NS_PER_MS: u64 = 1_000_000;

/// How long a request took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    /// From its arrival to its answer.
    pub all_ns: u64,
    /// Of this, until the last of its bytes was there.
    pub arrival_ns: u64,
    /// Of the rest, what the engine knows.
    pub waits: Waits,
}

impl Took {
    /// How long it waited for each of [`CAUSE_NAMES`]; the daemon itself has what is left.
    fn waits_ns(&self) -> [u64; CAUSES] {
        let mut waits_ns = [0; CAUSES];
        for cause in WaitedFor::ALL {
            waits_ns[cause as usize] = self.waits.ns(cause);
        }
        waits_ns[WaitedFor::COUNT] = self.arrival_ns;
        waits_ns[WaitedFor::COUNT + 1] = self.all_ns.saturating_sub(waits_ns.iter().sum());
        waits_ns
    }

    /// Which of [`CAUSE_NAMES`] it waited for longest.
    pub(crate) fn longest(&self) -> usize {
        let waits_ns = self.waits_ns();
        let longest = (0..CAUSES).max_by_key(|&cause| waits_ns[cause]);
        longest.expect("there are causes")
    }

    /// All that it waited for a millisecond or longer, the longest first, in words; what it waited for longest where none did.
    pub(crate) fn text(&self) -> String {
        let mut waits: Vec<(u64, &str)> = std::iter::zip(self.waits_ns(), CAUSE_NAMES.map(|name| name.1))
            .map(|(ns, name)| (ns / NS_PER_MS, name))
            .filter(|&(ms, _)| ms > 0)
            .collect();
        if waits.is_empty() {
            return format!("under 1 ms for {}", CAUSE_NAMES[self.longest()].1);
        }
        waits.sort_by_key(|&(ms, _)| std::cmp::Reverse(ms));
        let waits: Vec<String> = waits.iter().map(|(ms, name)| format!("{ms} ms for {name}")).collect();
        waits.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nothing_else_took_the_daemon_did() {
        let took = Took { all_ns: 9_000_000, arrival_ns: 4_000_000, waits: Waits::default() };
        assert_eq!(took.text(), "5 ms for the daemon, 4 ms for its bytes from the client");
        assert_eq!(CAUSE_NAMES[took.longest()].0, "daemon");
        let took = Took { arrival_ns: 8_500_000, ..took };
        assert_eq!(CAUSE_NAMES[took.longest()].0, "client");
        assert_eq!(took.text(), "8 ms for its bytes from the client");
        let none = Took { all_ns: 0, arrival_ns: 0, waits: Waits::default() };
        assert_eq!(
            (CAUSE_NAMES[none.longest()].0, none.text().as_str()),
            ("daemon", "under 1 ms for the daemon")
        );
    }
}
