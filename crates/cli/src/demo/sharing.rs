//! The second act: memory that VMs divide moves to the one that profits, and again when another one does.

use std::fmt::Write;
use std::time::{Duration, Instant};

use super::guests::{GUESTS, Guest};
use super::host::{Host, Kind, SHARED_DRAM_BYTES};
use super::{Plan, REFRESH, number, vm};
use crate::amounts::show_size;
use crate::commands::event_text;
use crate::error::CliError;
use crate::output::{say, table};
use crate::shares::percent;

/// How long each VM works by itself.
const ACT_TIME: Duration = Duration::from_secs(9);
/// What it reads again and again: more than its part of the memory, less than all of it.
const REGION_BYTES: u64 = SHARED_DRAM_BYTES * 2 / 3;
/// Those that work, one after the other.
const ACTORS: [usize; 2] = [1, 0];
/// Most events that are looked through for decisions.
const MOST_EVENTS: usize = 1000;

/// What came of it.
pub struct Moved {
    /// Every VM's share at the beginning, and after each part, in MiB.
    shares: Vec<Vec<f64>>,
    /// What those had who worked: hits expected and measured.
    hits: Vec<(&'static str, Option<f64>, Option<f64>)>,
    /// Decisions, each with its reason.
    decisions: Vec<String>,
}

impl Plan {
    /// Serves the VMs with memory that they divide, and has them work one after the other.
    pub fn share(&self) -> Result<Moved, CliError> {
        let host = Host::start(Kind::Shared)?;
        let mut moved =
            Moved { shares: vec![shares(&host.status()?)], hits: Vec::new(), decisions: Vec::new() };
        for at in ACTORS {
            let guest = &GUESTS[at];
            say(&format!("shared memory: {} s of '{}' alone\n", ACT_TIME.as_secs(), guest.name));
            moved.hits.push(self.act(&host, guest)?);
            moved.shares.push(shares(&host.status()?));
        }
        let events = lode_server::events(host.control(), None, None, MOST_EVENTS)?.events;
        // Those who gain say from whom.
        let gains = |event: &&serde_json::Value| {
            event["kind"] == "share"
                && event["share"]["to_bytes"].as_u64() > event["share"]["from_bytes"].as_u64()
        };
        moved.decisions = events.iter().filter(gains).map(event_text).collect();
        host.stop()?;
        Ok(moved)
    }

    /// One VM reads a region again and again. What was expected and measured of it near the end.
    fn act(&self, host: &Host, guest: &Guest) -> Result<(&'static str, Option<f64>, Option<f64>), CliError> {
        let mut running = guest.read_again(host, ACT_TIME, REGION_BYTES)?;
        let (began, mut hits) = (Instant::now(), (None, None));
        while began.elapsed() < ACT_TIME {
            std::thread::sleep(REFRESH);
            self.check_stopped()?;
            running.check()?;
            let status = host.status()?;
            if let Some(sharing) = vm(&status, guest.name).map(|vm| &vm["sharing"]) {
                let ratio = |key: &str| sharing[key].as_f64();
                hits = (ratio("expected_hit_ratio"), ratio("measured_hit_ratio"));
            }
        }
        running.finish()?;
        Ok((guest.name, hits.0, hits.1))
    }
}

/// Every VM's share of the memory, in MiB.
fn shares(status: &serde_json::Value) -> Vec<f64> {
    let share = |guest: &Guest| {
        let blocks = vm(status, guest.name).map_or(0.0, |vm| number(vm, "/quota/dram_blocks"));
        blocks * number(status, "/host/block_bytes") / f64::from(1 << 20)
    };
    GUESTS.iter().map(share).collect()
}

impl std::fmt::Display for Moved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (all, region) = (show_size(SHARED_DRAM_BYTES), show_size(REGION_BYTES));
        writeln!(
            f,
            "{all} of memory that the VMs divide; one VM after the other reads {region} again and again"
        )?;
        let mut titles = vec!["MiB of".to_owned(), "at first".to_owned()];
        titles.extend(ACTORS.iter().map(|&at| format!("after {}", GUESTS[at].name)));
        let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
        let mut shares = table(&titles, 1);
        for (at, guest) in GUESTS.iter().enumerate() {
            let of_guest = self.shares.iter().map(|shares| format!("{:.1}", shares[at]));
            shares.add_row([guest.name.to_owned()].into_iter().chain(of_guest));
        }
        writeln!(f, "{shares}\n")?;
        let mut hits = String::new();
        for (name, expected, measured) in &self.hits {
            let [expected, measured] = [*expected, *measured].map(percent);
            writeln!(
                hits,
                "{name}: {expected} % read hits expected at the last division, {measured} % since"
            )?;
        }
        writeln!(f, "{hits}\nWhy (`lode events`)\n{}", self.decisions.join("\n"))
    }
}
