//! How long a disk's arm and platter take to get from one address to another. It must not know what moves them.

use crate::service::Command;

/// Positioning time by distance, in the caller's blocks.
///
/// Seek time over `d` of `D` blocks is `settle + root*sqrt(d/D) + linear*d/D`: the curve of Lee and Katz (1993), who
/// count tracks (recalled, not read: Lee-Katz-like). Half a revolution follows on average. A gap that lies ahead is
/// passed over without a seek when that is sooner, and the block just served comes round after one revolution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arm {
    /// Blocks over which the arm sweeps.
    pub(crate) sweep_blocks: u64,
    /// Seek to the next track.
    pub(crate) settle_ns: f64,
    /// Factor of the root of the distance's share of the sweep.
    pub(crate) root_ns: f64,
    /// Factor of the distance's share of the sweep.
    pub(crate) linear_ns: f64,
    /// One revolution.
    pub(crate) turn_ns: f64,
    /// What one block takes to pass under the heads.
    pub(crate) pass_ns: f64,
    /// Mean positioning time between places of the data in use.
    pub(crate) mean_ns: f64,
    /// Accesses one after the other that a write away from the head consists of.
    pub(crate) write_passes: f64,
    /// Disks that work during each of them.
    pub(crate) write_disks: f64,
}

impl Arm {
    /// Seek over a share of the sweep, from 0 to 1, in nanoseconds.
    pub(crate) fn seek_ns(&self, share: f64) -> f64 {
        self.settle_ns + self.root_ns * share.sqrt() + self.linear_ns * share
    }

    /// Mean positioning time, in nanoseconds, between two places that are equally likely anywhere in a share of the
    /// sweep. Distances between such places have density `2(1-x)`, so that the root has mean 8/15 and the distance 1/3.
    pub(crate) fn mean_over_ns(&self, share: f64) -> f64 {
        self.settle_ns
            + self.root_ns * share.sqrt() * 8.0 / 15.0
            + self.linear_ns * share / 3.0
            + self.turn_ns / 2.0
    }

    /// Positioning time from the place right after the last command to `address`, in nanoseconds. Without a place, and
    /// for a distance that no disk has (to another volume), it is the mean.
    pub fn positioning_ns(&self, from: Option<u64>, address: u64) -> f64 {
        let Some(from) = from else { return self.mean_ns };
        let gap = from.abs_diff(address);
        if gap >= self.sweep_blocks {
            return self.mean_ns;
        }
        if gap == 1 && address < from {
            return self.turn_ns;
        }
        let sought = self.seek_ns(gap as f64 / self.sweep_blocks as f64) + self.turn_ns / 2.0;
        if address >= from { sought.min(gap as f64 * self.pass_ns) } else { sought }
    }

    /// A read at this distance, from one at a mean distance. Out of line, as the next one: only disks with an arm pay
    /// for it.
    #[inline(never)]
    pub(crate) fn read(&self, mean: Command, from: Option<u64>, address: u64) -> Command {
        let more_ns = self.positioning_ns(from, address) - self.mean_ns;
        Command { ns: moved(mean.ns, more_ns), work_ns: moved(mean.work_ns, more_ns) }
    }

    /// A write at this distance, from one at a mean distance.
    #[inline(never)]
    pub(crate) fn write(&self, mean: Command, from: Option<u64>, address: u64) -> Command {
        let more_ns = self.write_passes * (self.positioning_ns(from, address) - self.mean_ns);
        Command { ns: moved(mean.ns, more_ns), work_ns: moved(mean.work_ns, self.write_disks * more_ns) }
    }
}

/// A time with another added, which may be below zero. Casts end at the type's limits; below zero is zero.
fn moved(ns: u64, more_ns: f64) -> u64 {
    (ns as f64 + more_ns).round() as u64
}
