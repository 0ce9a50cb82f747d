//! `lode events`: what happened lately in a running daemon.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use lode_server::{LatestEvents, MAX_EVENTS, ServerErrorKind};
use serde_json::Value;

use crate::arguments::Daemon;
use crate::error::CliError;
use crate::output::{note, write};

/// How often new events are asked for.
const PAUSE: Duration = Duration::from_millis(500);

/// Show what happened lately in a running daemon.
///
/// Decisions about shares with their reasons in numbers, clients that come and go, drains, failures, slow requests and changed
/// settings. The daemon keeps the latest 10,000.
#[derive(Args)]
#[command(after_help = "Example: lode events /etc/lodestore/host1.toml --follow --vm web")]
pub struct EventsCommand {
    #[command(flatten)]
    daemon: Daemon,

    /// Go on with what happens from now on, until interrupted: also when the daemon is started anew.
    #[arg(long, short)]
    follow: bool,

    /// Only those of this VM.
    #[arg(long, value_name = "NAME")]
    vm: Option<String>,

    /// Only so many, the latest.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    last: u32,

    /// Write JSON to standard output in place of the text, one object a line.
    #[arg(long)]
    json: bool,
}

impl EventsCommand {
    pub fn run(&self) -> Result<(), CliError> {
        let control = self.daemon.control()?;
        let LatestEvents { events, mut last, mut began_ms } = self.latest(&control)?;
        let mut is_gone = false;
        self.show(&events)?;
        if !self.follow {
            return Ok(());
        }
        loop {
            std::thread::sleep(PAUSE);
            let after = |last| lode_server::events(&control, Some(last), self.vm.as_deref(), MAX_EVENTS);
            let mut found = match after(last) {
                // It is being started anew, or will be.
                Err(error) if error.kind() == ServerErrorKind::Socket => {
                    if !is_gone {
                        note(&format!("{error}. Waiting for it"));
                    }
                    is_gone = true;
                    continue;
                }
                // After a restart there may be nothing of the VM yet.
                Err(error) if error.kind() == ServerErrorKind::Refused => continue,
                found => found?,
            };
            is_gone = false;
            // A daemon that was started anew counts anew.
            if found.began_ms != began_ms {
                (last, began_ms) = (0, found.began_ms);
                found = match after(last) {
                    Ok(found) if found.began_ms == began_ms => found,
                    // It has ended meanwhile, which the next turn sees.
                    _ => continue,
                };
            }
            self.show(&found.events)?;
            last = match found.events.last().map(number) {
                Some(number) if found.events.len() == MAX_EVENTS => number,
                _ => found.last,
            };
        }
    }

    /// The latest events, and the number after which others are new.
    fn latest(&self, control: &Path) -> Result<LatestEvents, CliError> {
        let ask = |after, most| lode_server::events(control, after, self.vm.as_deref(), most);
        let latest = ask(None, (self.last as usize).min(MAX_EVENTS))?;
        if self.last as usize <= MAX_EVENTS {
            return Ok(latest);
        }
        // More than one answer holds: all that there are, of which the last ones are meant.
        let (mut all, mut after) = (Vec::new(), 0);
        loop {
            let LatestEvents { events, last, began_ms } = ask(Some(after), MAX_EVENTS)?;
            let count = events.len();
            after = events.last().map_or(last, number);
            all.extend(events);
            if count < MAX_EVENTS {
                let surplus = all.len().saturating_sub(self.last as usize);
                all.drain(..surplus);
                return Ok(LatestEvents { events: all, last, began_ms });
            }
        }
    }

    fn show(&self, events: &[Value]) -> Result<(), CliError> {
        let line = |event: &Value| if self.json { event.to_string() } else { event_text(event) };
        events.iter().try_for_each(|event| write(&format!("{}\n", line(event))))
    }
}

fn number(event: &Value) -> u64 {
    event["number"].as_u64().unwrap_or(0)
}

/// An event as a line.
pub fn event_text(event: &Value) -> String {
    let time = utc(event["time_ms"].as_u64().unwrap_or(0));
    let word = |key: &str| event[key].as_str().unwrap_or_default();
    let vm = event["vm"].as_str().map(|vm| format!("{vm}: ")).unwrap_or_default();
    format!("{time}  {:<7}  {vm}{}", word("kind"), word("text"))
}

/// Milliseconds since 1970 as a time of the day of RFC 3339.
fn utc(ms: u64) -> String {
    let (days, s) = (ms / 86_400_000, ms / 1000 % 86_400);
    // Days since 1 March of the year 0, in eras of 400 years (Howard Hinnant, "chrono-compatible low-level date algorithms").
    let from_march = days + 719_468;
    let (era, day) = (from_march / 146_097, from_march % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year + 400 * era + next;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", s / 3600, s / 60 % 60, s % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399_999, "2000-02-28T23:59:59Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (1_709_251_199_000, "2024-02-29T23:59:59Z"),
            (1_735_689_599_000, "2024-12-31T23:59:59Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(ms), text);
        }
    }

    #[test]
    fn a_line_has_time_kind_vm_and_text() {
        let event = serde_json::json!({"number": 7, "time_ms": 0, "kind": "share", "vm": "web", "text": "+1 GiB SSD"});
        assert_eq!(event_text(&event), "1970-01-01T00:00:00Z  share    web: +1 GiB SSD");
        let event =
            serde_json::json!({"number": 8, "time_ms": 0, "kind": "start", "vm": null, "text": "serves"});
        assert_eq!(event_text(&event), "1970-01-01T00:00:00Z  start    serves");
    }
}
