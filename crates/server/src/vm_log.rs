//! What the log says of one VM: who comes and goes, how drains go, which devices fail, which requests are slow. It must not
//! know how any of it comes about.

use lode_engine::Alarms;
use lode_nbd::{Command, Request};
use tracing::{debug, error, info, warn};

use crate::events::{EventKind, Events};
use crate::waited::Took;

/// Lines of a kind that are told within [`PERIOD_NS`]; others are counted, and told at debug level.
const LINES: u32 = 10;
const PERIOD_NS: u64 = 10_000_000_000;
/// How often it is told how far a drain is.
const PROGRESS_NS: u64 = 10_000_000_000;
const NS_PER_MS: u64 = 1_000_000;

/// Lets so many lines of a kind through.
#[derive(Debug, Default)]
struct Pace {
    period_start_ns: u64,
    told: u32,
    untold: u64,
}

impl Pace {
    /// Whether there may be a line now, and then what it says of those that there were not.
    fn next(&mut self, now_ns: u64) -> Option<String> {
        if now_ns.saturating_sub(self.period_start_ns) >= PERIOD_NS {
            (self.period_start_ns, self.told) = (now_ns, 0);
        }
        if self.told == LINES {
            self.untold += 1;
            return None;
        }
        self.told += 1;
        Some(match std::mem::take(&mut self.untold) {
            0 => String::new(),
            untold => format!(" ({untold} more like this before were not told)"),
        })
    }
}

/// A drain under way.
#[derive(Debug)]
struct Drain {
    blocks: u64,
    began_ns: u64,
    told_ns: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct VmLog {
    vm: String,
    /// Requests that take so long are slow; 0: none is.
    slow_ns: u64,
    clients: Pace,
    slow: Pace,
    drain: Option<Drain>,
    events: Events,
}

impl VmLog {
    pub(crate) fn new(vm: &str, slow_request_ms: u32, events: Events) -> VmLog {
        let (clients, slow) = (Pace::default(), Pace::default());
        let mut log = VmLog { vm: vm.to_owned(), slow_ns: 0, clients, slow, drain: None, events };
        log.set_slow_request_ms(slow_request_ms);
        log
    }

    /// The VM has another name from now on.
    pub(crate) fn rename(&mut self, vm: &str) {
        vm.clone_into(&mut self.vm);
    }

    /// Requests that take so long are slow; 0: none is.
    pub(crate) fn set_slow_request_ms(&mut self, slow_request_ms: u32) {
        self.slow_ns = u64::from(slow_request_ms) * NS_PER_MS;
    }

    fn note(&self, kind: EventKind, text: String) {
        self.events.note(kind, Some(&self.vm), text);
    }

    /// The VM is served on, but not as it should be.
    pub(crate) fn failed(&self, text: &str) {
        error!("VM {}: {text}", self.vm);
        self.note(EventKind::Failure, text.to_owned());
    }

    /// Another scheme decides from now on.
    pub(crate) fn scheme_switched(&self, from: &str, to: &str) {
        let text = match from == to {
            true => format!("scheme {to} decides with its new settings from now on"),
            false => format!("scheme {to} decides from now on, instead of {from}"),
        };
        info!("VM {}: {text}", self.vm);
        self.note(EventKind::Setting, text);
    }

    /// Another scheme was to decide, and does not.
    pub(crate) fn scheme_stays(&self, scheme: &str, wanted: &str) {
        let text = format!(
            "scheme {scheme} stays, and {wanted} does not follow: a device failed, and what it held is being saved"
        );
        warn!("VM {}: {text}", self.vm);
        self.note(EventKind::Failure, text);
    }

    /// A client came or went.
    pub(crate) fn client(&mut self, what: &str, connections: u32, now_ns: u64) {
        let vm = &self.vm;
        match self.clients.next(now_ns) {
            Some(more) => {
                info!("VM {vm}: {what}; connections: {connections}{more}");
                self.note(EventKind::Client, format!("{what}; connections: {connections}{more}"));
            }
            None => debug!("VM {vm}: {what}; connections: {connections}"),
        }
    }

    /// A request is answered.
    pub(crate) fn answered(&mut self, request: &Request, took: Took, now_ns: u64) {
        if self.slow_ns == 0 || took.all_ns < self.slow_ns {
            return;
        }
        let (vm, text) = (&self.vm, slow(request, &took));
        match self.slow.next(now_ns) {
            Some(more) => {
                warn!("VM {vm}: {text}{more}");
                self.note(EventKind::Slow, format!("{text}{more}"));
            }
            None => debug!("VM {vm}: {text}"),
        }
    }

    /// A drain begins, or begins again, with so many blocks to write back.
    pub(crate) fn drain_begins(&mut self, blocks: u64, now_ns: u64) {
        info!("VM {}: a drain begins, of {blocks} blocks", self.vm);
        self.note(EventKind::Drain, format!("a drain begins, of {blocks} blocks"));
        self.drain = Some(Drain { blocks, began_ns: now_ns, told_ns: now_ns });
    }

    /// A drain is as far as this, or over.
    pub(crate) fn drain_goes_on(&mut self, left: Option<u64>, cancelled: bool, now_ns: u64) {
        let Some(drain) = &mut self.drain else { return };
        let (vm, blocks) = (&self.vm, drain.blocks);
        match left {
            Some(left) if now_ns - drain.told_ns < PROGRESS_NS => {
                debug!("VM {vm}: draining, {left} of {blocks} blocks left");
            }
            Some(left) => {
                drain.told_ns = now_ns;
                info!("VM {vm}: draining, {left} of {blocks} blocks left");
            }
            None => {
                let ms = now_ns.saturating_sub(drain.began_ns) / NS_PER_MS;
                let how = if cancelled { "was cancelled" } else { "ended" };
                let text = format!("the drain of {blocks} blocks {how} after {ms} ms");
                info!("VM {vm}: {text}");
                self.note(EventKind::Drain, text);
                self.drain = None;
            }
        }
    }

    /// A command failed for this reason, and these were the alarms before and after. Not one line for each: a dead device
    /// fails thousands of them.
    pub(crate) fn command_failed(&self, reason: &str, before: &Alarms, after: &Alarms) {
        let vm = &self.vm;
        for (device, before, after) in [
            ("cache SSD", before.ssd_errors, after.ssd_errors),
            ("read SSD", before.read_ssd_errors, after.read_ssd_errors),
            ("backing disk", before.backing_errors, after.backing_errors),
        ] {
            if after > before && after.is_power_of_two() {
                let text =
                    format!("a command on the {device} failed: {reason}; {after} have failed there so far");
                warn!("VM {vm}: {text}. The log of the kernel may say why");
                self.note(EventKind::Failure, text);
            } else if after > before {
                debug!("VM {vm}: a command on the {device} failed: {reason}");
            }
        }
    }
}

fn slow(request: &Request, took: &Took) -> String {
    let Request { offset_bytes, length_bytes, .. } = request;
    let at = || format!(" of {length_bytes} bytes at {offset_bytes}");
    let what = match request.command {
        Command::Read => format!("read{}", at()),
        Command::Write => format!("write{}", at()),
        Command::Trim => format!("trim{}", at()),
        Command::WriteZeroes => format!("zeroing{}", at()),
        Command::BlockStatus => format!("question for holes{}", at()),
        Command::Flush | Command::Cache => "flush".to_owned(),
    };
    format!("slow {what}: {} ms, waited {}", took.all_ns / NS_PER_MS, took.text())
}

#[cfg(test)]
mod tests {
    use lode_engine::Waits;
    use lode_nbd::CommandFlags;

    use super::*;

    #[test]
    fn a_flood_has_few_lines_and_then_its_number() {
        let mut pace = Pace::default();
        let told = (0..25).filter_map(|ms| pace.next(ms * NS_PER_MS)).collect::<Vec<_>>();
        assert_eq!(told, vec![""; LINES as usize]);
        let next = pace.next(PERIOD_NS).expect("a new period");
        assert_eq!(next, " (15 more like this before were not told)");
        assert_eq!(pace.next(PERIOD_NS + 1).as_deref(), Some(""));
    }

    #[test]
    fn a_slow_request_says_what_it_waited_for() {
        let request = |command| Request {
            cookie: 1,
            offset_bytes: 8192,
            length_bytes: 4096,
            command,
            flags: CommandFlags::NONE,
        };
        let took = Took { all_ns: 1_532_999_999, arrival_ns: 1_500_000_000, waits: Waits::default() };
        assert_eq!(
            slow(&request(Command::Write), &took),
            "slow write of 4096 bytes at 8192: 1532 ms, waited 1500 ms for its bytes from the client, 32 ms for the daemon"
        );
        let took = Took { arrival_ns: 0, ..took };
        assert_eq!(
            slow(&request(Command::Flush), &took),
            "slow flush: 1532 ms, waited 1532 ms for the daemon"
        );
    }
}
