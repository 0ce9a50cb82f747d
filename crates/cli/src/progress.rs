//! How far long work is, on standard error, when that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use lode_plan::CompareProgress;
use lode_trace::{Progress, SortProgress};

use crate::amounts::show_size;
use crate::output;

const KNOWN: &str = "{msg} {bar:30} {percent}% of {total_bytes}, {eta} left";
const UNKNOWN: &str = "{msg} {spinner} {bytes} in {elapsed}";
const STEPS: &str = "{msg} {bar:30} {percent}% of {len} requests, {eta} left";
const COUNTED: &str = "{msg} {bar:30} {pos} of {len} {prefix}, {eta} left";
const READING: &str = "Reading {spinner} {pos} requests in {elapsed}";
const COUNTING: &str = "Counting blocks {spinner} {pos} requests in {elapsed}";
const ENDLESS: &str = "Replaying {spinner} {pos} requests in {elapsed}";
const REPLAYING: &str = "Replaying {bar:30} {percent}% of {len} requests, {eta} left";
const LEFT: &str = "{msg} {bar:30} {pos} of {len} blocks, {eta} left";

/// What a scheme that needs the future takes for it.
pub fn future_text(traces_bytes: u64, future_bytes: u64) -> String {
    format!(
        "A scheme needs to know what comes next: the traces are kept in memory, {}, and their future, {}",
        show_size(traces_bytes),
        show_size(future_bytes)
    )
}

/// A bar that vanishes when it is dropped. Away from a terminal it shows nothing.
pub struct Bar {
    bar: ProgressBar,
    has_total: bool,
}

impl Bar {
    /// A bar for work of this name.
    pub fn new(name: &'static str) -> Bar {
        let bar = ProgressBar::no_length().with_message(name);
        bar.set_style(style(UNKNOWN));
        Bar { bar, has_total: false }
    }

    /// Shows how far all `inputs` together are read.
    pub fn update(&mut self, inputs: impl Iterator<Item = Progress>) {
        let (mut read_bytes, mut total_bytes) = (0, Some(0));
        for input in inputs {
            read_bytes += input.read_bytes;
            total_bytes = total_bytes.zip(input.total_bytes).map(|(sum, bytes)| sum + bytes);
        }
        if let Some(total_bytes) = total_bytes
            && !self.has_total
        {
            self.has_total = true;
            self.bar.set_style(style(KNOWN));
            self.bar.set_length(total_bytes);
        }
        self.bar.set_position(read_bytes);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A bar for requests whose number is known. It vanishes when it is dropped.
pub struct Steps {
    bar: ProgressBar,
}

impl Steps {
    /// A bar for work of this name.
    pub fn new(name: &'static str) -> Steps {
        let bar = ProgressBar::new(0).with_message(name);
        bar.set_style(style(STEPS));
        Steps { bar }
    }

    /// Shows how far the work is.
    pub fn update(&mut self, progress: SortProgress) {
        self.bar.set_length(progress.total);
        self.bar.set_position(progress.done);
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A bar for replays that run at the same time. It vanishes when it is dropped.
pub struct Meter {
    bar: ProgressBar,
}

impl Meter {
    /// A bar that has heard of nothing.
    pub fn new() -> Meter {
        let bar = ProgressBar::no_length();
        bar.set_style(style(READING));
        Meter { bar }
    }

    /// Shows how far they are; may be called by any thread.
    pub fn update(&self, progress: CompareProgress) {
        match progress {
            CompareProgress::Reading(requests) => self.bar.set_position(requests),
            CompareProgress::Counting(requests) => {
                self.bar.set_style(style(COUNTING));
                self.bar.set_position(requests);
            }
            CompareProgress::Foreseeing { traces_bytes, future_bytes } => {
                self.bar.suspend(|| output::note(&future_text(traces_bytes, future_bytes)));
            }
            CompareProgress::Replaying { requests, of_requests: 0, .. } => {
                self.bar.set_style(style(ENDLESS));
                self.bar.set_position(requests);
            }
            CompareProgress::Replaying { requests, of_requests, .. } => self.replaying(requests, of_requests),
        }
    }

    /// Shows how many requests of how many are replayed.
    pub fn replaying(&self, requests: u64, of_requests: u64) {
        if self.bar.length() != Some(of_requests) {
            self.bar.set_style(style(REPLAYING));
            self.bar.set_length(of_requests);
            self.bar.reset_eta();
        }
        self.bar.set_position(requests);
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A bar for blocks of which fewer and fewer are left. It vanishes when it is dropped.
pub struct Countdown {
    bar: ProgressBar,
}

impl Countdown {
    /// A bar for work of this name.
    pub fn new(name: &'static str) -> Countdown {
        let bar = ProgressBar::new(0).with_message(name);
        bar.set_style(style(LEFT));
        Countdown { bar }
    }

    /// Shows how many blocks are left; the most that ever were are the whole.
    pub fn update(&mut self, left: u64) {
        let whole = self.bar.length().unwrap_or(0).max(left);
        self.bar.set_length(whole);
        self.bar.set_position(whole - left);
    }
}

impl Drop for Countdown {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A bar for a number of things that is known from the start. It vanishes when it is dropped.
pub struct Counter {
    bar: ProgressBar,
}

impl Counter {
    /// A bar for work of this name on `total` things that are called `what`.
    pub fn new(name: &'static str, what: &'static str, total: u64) -> Counter {
        let bar = ProgressBar::new(total).with_message(name).with_prefix(what);
        bar.set_style(style(COUNTED));
        Counter { bar }
    }

    /// Shows how many are done.
    pub fn update(&self, done: u64) {
        self.bar.set_position(done);
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
