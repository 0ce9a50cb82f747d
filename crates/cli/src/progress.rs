//! How far a trace is read, on standard error, when that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use lode_trace::Progress;

const KNOWN: &str = "{msg} {bar:30} {percent}% of {total_bytes}, {eta} left";
const UNKNOWN: &str = "{msg} {spinner} {bytes} in {elapsed}";

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

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
