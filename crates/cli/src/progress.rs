//! How far long work is, on standard error, when that is a terminal.

use std::ops::Deref;

use indicatif::{ProgressBar, ProgressStyle};
use lode_plan::CompareProgress;
use lode_trace::{ReadProgress, SortProgress};

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

/// What vanishes when it is dropped. Away from a terminal it shows nothing.
struct Shown(ProgressBar);

impl Shown {
    fn new(template: &str, name: &'static str) -> Shown {
        let bar = ProgressBar::no_length().with_message(name);
        bar.set_style(style(template));
        Shown(bar)
    }
}

impl Deref for Shown {
    type Target = ProgressBar;

    fn deref(&self) -> &ProgressBar {
        &self.0
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A bar for bytes that are read.
pub struct Bar {
    bar: Shown,
    has_total: bool,
}

impl Bar {
    /// A bar for work of this name.
    pub fn new(name: &'static str) -> Bar {
        Bar { bar: Shown::new(UNKNOWN, name), has_total: false }
    }

    /// Shows how far all `inputs` together are read.
    pub fn update(&mut self, inputs: impl Iterator<Item = ReadProgress>) {
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

/// A bar for bytes whose number is known as soon as any are done.
pub struct Bytes {
    bar: Shown,
}

impl Bytes {
    /// A bar for work of this name.
    pub fn new(name: &'static str) -> Bytes {
        Bytes { bar: Shown::new(KNOWN, name) }
    }

    /// Shows how far the work is.
    pub fn update(&mut self, done_bytes: u64, of_bytes: u64) {
        self.bar.set_length(of_bytes);
        self.bar.set_position(done_bytes);
    }
}

/// A bar for requests whose number is known.
pub struct Steps {
    bar: Shown,
}

impl Steps {
    /// A bar for work of this name.
    pub fn new(name: &'static str) -> Steps {
        Steps { bar: Shown::new(STEPS, name) }
    }

    /// Shows how far the work is.
    pub fn update(&mut self, progress: SortProgress) {
        self.bar.set_length(progress.total);
        self.bar.set_position(progress.done);
    }
}

/// A bar for replays that run at the same time.
pub struct Meter {
    bar: Shown,
}

impl Meter {
    /// A bar that has heard of nothing.
    pub fn new() -> Meter {
        Meter { bar: Shown::new(READING, "") }
    }

    /// Shows how far they are; may be called by any thread.
    pub fn update(&self, progress: CompareProgress) {
        match progress {
            CompareProgress::Reading(requests) => self.bar.set_position(requests),
            CompareProgress::Counting(requests) => {
                self.bar.set_style(style(COUNTING));
                self.bar.set_position(requests);
            }
            CompareProgress::ReadingFuture { traces_bytes, future_bytes } => {
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

/// A bar for blocks of which fewer and fewer are left.
pub struct Countdown {
    bar: Shown,
}

impl Countdown {
    /// A bar for work of this name.
    pub fn new(name: &'static str) -> Countdown {
        Countdown { bar: Shown::new(LEFT, name) }
    }

    /// Shows how many blocks are left; the most that ever were are the whole.
    pub fn update(&mut self, left: u64) {
        let whole = self.bar.length().unwrap_or(0).max(left);
        self.bar.set_length(whole);
        self.bar.set_position(whole - left);
    }
}

/// A bar for a number of things that is known from the start.
pub struct Counter {
    bar: Shown,
}

impl Counter {
    /// A bar for work of this name on `total` things that are called `what`.
    pub fn new(name: &'static str, what: &'static str, total: u64) -> Counter {
        let bar = Shown::new(COUNTED, name);
        bar.set_prefix(what);
        bar.set_length(total);
        Counter { bar }
    }

    /// Shows how many are done.
    pub fn update(&self, done: u64) {
        self.bar.set_position(done);
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
