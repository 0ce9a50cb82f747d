//! The live view: one line a VM and the time that remains, on a terminal; one line in all elsewhere.

use std::cell::RefCell;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::guests::GUESTS;
use super::{number, vm};
use crate::output::say;

const BAR: usize = 24;

/// Lines that are brought up to date while the VMs work. They vanish when it is dropped.
pub struct View {
    all: MultiProgress,
    time: ProgressBar,
    vms: Vec<ProgressBar>,
    /// Time and requests of each VM at the last update, for rates.
    last: RefCell<(Duration, Vec<f64>)>,
}

impl View {
    pub fn new(with_cache: bool, run_time: Duration) -> View {
        let title = if with_cache { "with cache" } else { "without cache" };
        let all = MultiProgress::new();
        if all.is_hidden() {
            say(&format!("{title}: {} s\n", run_time.as_secs_f64().round()));
        }
        let time = all.add(ProgressBar::new(run_time.as_millis() as u64));
        let style = ProgressStyle::with_template("{prefix:>14} [{bar:40}] {msg}");
        time.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
        time.set_prefix(title);
        let vms = GUESTS
            .iter()
            .map(|guest| {
                let line = all.add(ProgressBar::new_spinner());
                let style = ProgressStyle::with_template("{prefix:>14} {msg}");
                line.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
                line.set_prefix(guest.name);
                line
            })
            .collect();
        View { all, time, vms, last: RefCell::new((Duration::ZERO, vec![0.0; GUESTS.len()])) }
    }

    pub fn update(&self, elapsed: Duration, status: &serde_json::Value) {
        let total = self.time.length().unwrap_or(0);
        self.time.set_position((elapsed.as_millis() as u64).min(total));
        let left = Duration::from_millis(total).saturating_sub(elapsed);
        self.time.set_message(format!("{:.0} s left; reads from D DRAM, S SSD, . disk", left.as_secs_f64()));
        let mut last = self.last.borrow_mut();
        let span = elapsed.saturating_sub(last.0).as_secs_f64().max(1e-3);
        for ((guest, line), before) in GUESTS.iter().zip(&self.vms).zip(&mut last.1) {
            let Some(vm) = vm(status, guest.name) else { continue };
            let requests = number(vm, "/counters/requests");
            let rate = (requests - *before) / span;
            *before = requests;
            line.set_message(format!(
                "{rate:>7.0} requests/s  {}  SSD writes {:>6}  dirty {:>5}",
                bar(vm),
                number(vm, "/counters/ssd_writes/total"),
                number(vm, "/gauges/dirty_blocks"),
            ));
        }
        last.0 = elapsed;
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // Nothing to say if the terminal is gone.
        let _ = self.all.clear();
    }
}

/// Where reads came from so far: D for DRAM, S for SSD, a dot for the disk.
fn bar(vm: &serde_json::Value) -> String {
    let counts = ["/counters/read_hits/dram", "/counters/read_hits/ssd", "/counters/read_misses"]
        .map(|p| number(vm, p));
    let total: f64 = counts.iter().sum();
    let cells = |count: f64| if total > 0.0 { (count / total * BAR as f64).round() as usize } else { 0 };
    let dram = cells(counts[0]);
    let ssd = cells(counts[1]).min(BAR - dram.min(BAR));
    let disk = BAR.saturating_sub(dram + ssd);
    format!("reads {}{}{}", "D".repeat(dram), "S".repeat(ssd), ".".repeat(disk))
}
