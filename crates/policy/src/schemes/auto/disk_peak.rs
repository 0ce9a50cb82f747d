//! What disks' work counts for where disks are bought for the busiest times, and not for the sum of their work (Wong et al.,
//! Baleen, FAST 2024: peak disk-head time): the more, the busier they are.
//!
//! Time is divided into intervals. Of disks that work for `w` in an interval, `w (w / r)^3` counts, where `r` is the most that they have
//! worked in an interval lately, in the mean of the shadows: a microsecond counts in full in an interval as busy as the busiest, and for
//! an eighth in one that is half as busy. Such a sum of fourth powers is least where about the maximum is, and unlike a maximum it adds
//! up, look by look; what work counts for does not depend on whether an interval just reaches a threshold. `r` is no more than a scale,
//! the same for all shadows. Where it grows within an interval, what has been counted stays, which makes that up to four times as much
//! in an interval busier than any before, in the mean of the shadows, and more with one whose disks work before those of the others;
//! taken back, costs could be negative at a look, and what is saved more than all.
//!
//! It must not know what shadows decide, or what else counts.

use crate::interval::{MOST_BACK_NS, Since};
use crate::settings::Settings;

/// What is left of the busiest interval with each later one, so that it counts for half after some 700.
const KEPT: f64 = 1.0 - 1.0 / 1024.0;

/// The intervals, and how busy the busiest was. Only time in which shadows run passes.
#[derive(Debug)]
pub(super) struct DiskPeak {
    length_ns: u64,
    passed_ns: u64,
    /// When the last request came.
    latest: Since,
    /// The most work in an interval that has ended, in the mean of the shadows.
    highest_us: f64,
}

impl DiskPeak {
    /// `None`: the peak does not count.
    pub(super) fn new(settings: &Settings) -> Option<DiskPeak> {
        let length_ns = (settings.number("disk_peak_interval_s") * 1e9) as u64;
        (settings.number("disk_peak_weight") > 0.0).then(|| DiskPeak {
            length_ns,
            passed_ns: 0,
            latest: Since::default(),
            highest_us: 0.0,
        })
    }

    /// A request comes at `now_ns`. Whether it is the first of another interval.
    pub(super) fn begins_with(&mut self, now_ns: u64) -> bool {
        self.latest.put_right(now_ns, MOST_BACK_NS);
        let passed_ns = self.latest.passed_ns(now_ns);
        if passed_ns > 0 {
            self.latest.begin(now_ns);
            self.passed_ns = self.passed_ns.saturating_add(passed_ns);
        }
        let begins = self.passed_ns >= self.length_ns;
        if begins {
            self.passed_ns = 0;
        }
        begins
    }

    /// Shadows see no requests from now on; when they do again, the interval goes on.
    pub(super) fn rest(&mut self) {
        self.latest = Since::default();
    }

    /// How much work is as much as in the busiest interval, when disks have worked so long in the one under way, in the mean of the
    /// shadows; and whether it ends with that.
    pub(super) fn scale_us(&mut self, mean_us: f64, ends: bool) -> f64 {
        let scale_us = self.highest_us.max(mean_us);
        if ends {
            self.highest_us = (self.highest_us * KEPT).max(mean_us);
        }
        scale_us
    }
}

/// How long one shadow's disks have worked in the interval under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    us: f64,
    /// Of that, what has been counted.
    counted_us: f64,
}

impl Work {
    pub(super) fn add(&mut self, us: f64) {
        self.us += us;
    }

    pub(super) fn us(self) -> f64 {
        self.us
    }

    /// Counts what has not been counted, and says for how much that counts.
    pub(super) fn count(&mut self, scale_us: f64) -> f64 {
        let before_us = std::mem::replace(&mut self.counted_us, self.us);
        if scale_us <= 0.0 {
            return 0.0;
        }
        // The difference of two fourth powers, without one of large numbers that are almost the same.
        let (before, now) = (before_us / scale_us, self.us / scale_us);
        (self.us - before_us) * (now + before) * (now * now + before * before)
    }
}

#[cfg(test)]
mod tests;
