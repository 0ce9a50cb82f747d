//! The demonstration: a daemon of our own as a child process, guests played by fio, a live view and a table.

mod guests;
mod host;
mod sharing;
mod table;
mod view;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub use self::table::Comparison;

use self::guests::{GUESTS, GuestResult};
use self::host::{Host, Kind};
use self::view::View;
use crate::error::CliError;

/// How often the view is brought up to date.
const REFRESH: Duration = Duration::from_millis(250);
/// What starting, stopping and writing back may add to the guests' time.
const OVERHEAD: Duration = Duration::from_secs(3);

/// What is to be shown.
pub struct Plan {
    run_time: Duration,
    stopped: Arc<AtomicBool>,
}

/// What one of the two runs came to.
pub struct Outcome {
    /// The daemon's status at the end.
    status: serde_json::Value,
    guests: Vec<GuestResult>,
}

impl Plan {
    /// Two runs that together take about `total`. From here on a signal to end is noticed and obeyed after
    /// cleaning up.
    pub fn new(total: Duration) -> Result<Plan, CliError> {
        let stopped = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, stopped.clone())
                .map_err(|error| CliError::Failure(format!("Cannot watch for signals: {error}")))?;
        }
        guests::require_fio()?;
        let run_time = total.saturating_sub(OVERHEAD).max(Duration::from_secs(2)) / 2;
        Ok(Plan { run_time, stopped })
    }

    /// Serves and drives the VMs once, with or without a cache. Nothing stays behind.
    pub fn run(&self, with_cache: bool) -> Result<Outcome, CliError> {
        let host = Host::start(if with_cache { Kind::Cached } else { Kind::Plain })?;
        let mut running =
            GUESTS.iter().map(|guest| guest.start(&host, self.run_time)).collect::<Result<Vec<_>, _>>()?;
        let view = View::new(with_cache, self.run_time);
        let start = Instant::now();
        while start.elapsed() < self.run_time {
            std::thread::sleep(REFRESH);
            self.check_stopped()?;
            for guest in &mut running {
                guest.check()?;
            }
            view.update(start.elapsed(), &host.status()?);
        }
        let guests = running.into_iter().map(guests::Running::finish).collect::<Result<Vec<_>, _>>()?;
        let status = host.status()?;
        drop(view);
        host.stop()?;
        Ok(Outcome { status, guests })
    }

    /// Fails once a signal has asked for the end.
    fn check_stopped(&self) -> Result<(), CliError> {
        match self.stopped.load(Ordering::Relaxed) {
            true => Err(CliError::Failure("Stopped by a signal; everything is cleaned up".to_owned())),
            false => Ok(()),
        }
    }
}

/// A number in the daemon's status; 0 where there is none.
fn number(value: &serde_json::Value, pointer: &str) -> f64 {
    value.pointer(pointer).and_then(serde_json::Value::as_f64).unwrap_or(0.0)
}

/// A VM in the daemon's status.
fn vm<'a>(status: &'a serde_json::Value, name: &str) -> Option<&'a serde_json::Value> {
    status["vms"].as_array()?.iter().find(|vm| vm["name"] == name)
}
