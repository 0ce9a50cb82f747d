//! A spinning disk from the figures of its data sheet. It must not know arrays or where the head is.

use serde::{Deserialize, Serialize};

use crate::arm::Arm;
use crate::profile::figure::{self, Figure, Figures};
use crate::{GB_BYTES, HardwareError, Raid};

/// Microseconds of one revolution at one revolution a minute.
const MINUTE_US: f64 = 60e6;

/// A disk with an arm and platters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hdd {
    /// What it is.
    pub about: String,
    /// Where the figures come from.
    pub source: String,
    /// Revolutions a minute.
    pub rpm: f64,
    /// Seek to the next track.
    pub seek_track_us: f64,
    /// Mean seek between places anywhere on the disk.
    pub seek_mean_us: f64,
    /// Seek over the whole disk.
    pub seek_full_us: f64,
    /// Rate at which blocks pass under a head, in 10^6 bytes a second. Zones are not told apart.
    pub transfer_mb_per_s: f64,
    /// What the controller adds to each command.
    pub overhead_us: f64,
    /// Size of the disk, in 10^9 bytes.
    pub capacity_gb: f64,
    /// Power while it serves a command.
    pub active_w: f64,
    /// Power while it spins and waits.
    pub idle_w: f64,
    /// Price.
    pub usd_per_gb: f64,
}

impl Hdd {
    /// One revolution.
    pub fn turn_us(&self) -> f64 {
        MINUTE_US / self.rpm
    }

    /// The factors of the seek curve, for the root of the distance and for the distance, both as shares of the whole
    /// sweep. They are what makes the curve agree with mean and full seek: see [`Arm::mean_over_ns`].
    fn curve_us(&self) -> (f64, f64) {
        let (mean, full) = (self.seek_mean_us - self.seek_track_us, self.seek_full_us - self.seek_track_us);
        let root = 5.0 * (mean - full / 3.0);
        (root, full - root)
    }

    /// The arm, for an array with data on `data_disks` such disks, in blocks of `block_bytes`; data lie in the
    /// first `span_bytes` of the array.
    pub(crate) fn arm(&self, raid: Raid, data_disks: u32, block_bytes: u64, span_bytes: Option<f64>) -> Arm {
        let (root_us, linear_us) = self.curve_us();
        let array_bytes = self.capacity_gb * GB_BYTES * f64::from(data_disks);
        let share = span_bytes.map_or(1.0, |span| (span / array_bytes).min(1.0));
        let pass_us = block_bytes as f64 / (self.transfer_mb_per_s * f64::from(data_disks));
        let mut arm = Arm {
            sweep_blocks: ((array_bytes / block_bytes as f64) as u64).max(1),
            settle_ns: self.seek_track_us * 1000.0,
            root_ns: root_us * 1000.0,
            linear_ns: linear_us * 1000.0,
            turn_ns: self.turn_us() * 1000.0,
            pass_ns: pass_us * 1000.0,
            mean_ns: 0.0,
            write_passes: f64::from(raid.write_passes()),
            write_disks: f64::from(raid.write_disks()),
        };
        arm.mean_ns = arm.mean_over_ns(share);
        arm
    }

    /// Checks that a curve with these seeks rises all the way.
    pub(crate) fn check(&self, path: &str) -> Result<(), HardwareError> {
        let rise = self.seek_full_us - self.seek_track_us;
        if rise < 0.0 {
            return Err(HardwareError::Key {
                path: format!("{path}.seek_full_us"),
                message: format!("write at least seek_track_us, {}", self.seek_track_us),
            });
        }
        // The root's factor must not be below zero, and at the far end the slope must not be: root/2 + linear >= 0.
        let (least, most) = (self.seek_track_us + rise / 3.0, self.seek_track_us + rise * 11.0 / 15.0);
        if self.seek_mean_us < least || self.seek_mean_us > most {
            let path = format!("{path}.seek_mean_us");
            return Err(HardwareError::Range { path, value: self.seek_mean_us, least, most });
        }
        Ok(())
    }
}

impl Figures for Hdd {
    fn figures(&self) -> Vec<Figure> {
        vec![
            Figure::new("rpm", self.rpm, figure::RPM),
            Figure::new("seek_track_us", self.seek_track_us, figure::TIME_US),
            Figure::new("seek_mean_us", self.seek_mean_us, figure::TIME_US),
            Figure::new("seek_full_us", self.seek_full_us, figure::TIME_US),
            Figure::new("transfer_mb_per_s", self.transfer_mb_per_s, figure::RATE_MB_PER_S),
            Figure::new("overhead_us", self.overhead_us, figure::TIME_US),
            Figure::new("capacity_gb", self.capacity_gb, figure::CAPACITY_GB),
            Figure::new("active_w", self.active_w, figure::POWER_W),
            Figure::new("idle_w", self.idle_w, figure::POWER_W),
            Figure::new("usd_per_gb", self.usd_per_gb, figure::USD_PER_GB),
        ]
    }
}
