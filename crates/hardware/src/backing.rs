//! What lies behind the cache: a disk or an array, in this host or across a network. It must not know where heads are.

use serde::{Deserialize, Serialize};

use crate::profile::figure::{self, Figure, Figures};
use crate::service::{ns_of, transfer_us};
use crate::{BackingTimes, Command, GB_BYTES, HardwareError, Hdd, Raid};

/// A disk that takes the same time wherever the head is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixedDisk {
    /// What it is.
    pub about: String,
    /// Where the figures come from.
    pub source: String,
    /// A command that does not go on where the last one ended.
    pub random_us: f64,
    /// A command that does.
    pub sequential_us: f64,
    /// Power while it serves a command.
    pub active_w: f64,
    /// Power while it waits.
    pub idle_w: f64,
    /// Price.
    pub usd_per_gb: f64,
}

impl Figures for FixedDisk {
    fn figures(&self) -> Vec<Figure> {
        vec![
            Figure::new("random_us", self.random_us, figure::TIME_US),
            Figure::new("sequential_us", self.sequential_us, figure::TIME_US),
            Figure::new("active_w", self.active_w, figure::POWER_W),
            Figure::new("idle_w", self.idle_w, figure::POWER_W),
            Figure::new("usd_per_gb", self.usd_per_gb, figure::USD_PER_GB),
        ]
    }
}

/// The way to storage elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// What it is.
    pub about: String,
    /// Where the figures come from.
    pub source: String,
    /// There and back, with the software at both ends.
    pub round_trip_us: f64,
    /// Round trips, one after the other, before a write is acknowledged: 2 when the far side passes it on to replicas
    /// first.
    pub write_round_trips: f64,
    /// Rate, in 10^6 bytes a second.
    pub transfer_mb_per_s: f64,
}

impl Network {
    fn read_us(&self, block_bytes: u64) -> f64 {
        self.round_trip_us + transfer_us(block_bytes, self.transfer_mb_per_s)
    }

    fn write_us(&self, block_bytes: u64) -> f64 {
        self.write_round_trips * self.read_us(block_bytes)
    }
}

impl Figures for Network {
    fn figures(&self) -> Vec<Figure> {
        vec![
            Figure::new("round_trip_us", self.round_trip_us, figure::TIME_US),
            Figure::new("write_round_trips", self.write_round_trips, figure::ROUND_TRIPS),
            Figure::new("transfer_mb_per_s", self.transfer_mb_per_s, figure::RATE_MB_PER_S),
        ]
    }
}

/// One of the disks that a backing storage is made of.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskKind {
    /// With fixed times.
    FixedDisk(FixedDisk),
    /// With an arm.
    Hdd(Hdd),
}

impl DiskKind {
    fn power_w(&self) -> (f64, f64) {
        match self {
            DiskKind::FixedDisk(disk) => (disk.active_w, disk.idle_w),
            DiskKind::Hdd(disk) => (disk.active_w, disk.idle_w),
        }
    }

    fn usd_per_gb(&self) -> f64 {
        match self {
            DiskKind::FixedDisk(disk) => disk.usd_per_gb,
            DiskKind::Hdd(disk) => disk.usd_per_gb,
        }
    }
}

/// Backing storage: equal disks, put together, perhaps across a network.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Backing {
    /// Its name in the profile.
    pub name: String,
    /// What it is.
    pub about: String,
    /// Where the figures come from.
    pub source: String,
    /// How the disks are put together.
    pub raid: Raid,
    /// How many there are.
    pub disks: u32,
    /// The address span that holds the data in use, in 10^9 bytes, for the mean distance; without it, everything.
    pub span_gb: Option<f64>,
    /// One of the disks.
    pub disk: DiskKind,
    /// The way to them, unless they are in this host.
    pub network: Option<Network>,
}

impl Backing {
    /// Times of one block.
    pub fn times(&self, block_bytes: u64) -> BackingTimes {
        let data_disks = self.data_disks();
        let (random_us, sequential_us, arm) = match &self.disk {
            DiskKind::FixedDisk(disk) => (disk.random_us, disk.sequential_us, None),
            DiskKind::Hdd(disk) => {
                let span_bytes = self.span_gb.map(|gb| gb * GB_BYTES);
                let arm = disk.arm(self.raid, data_disks, block_bytes, span_bytes);
                let transfer = |disks: u32| {
                    disk.overhead_us + transfer_us(block_bytes, disk.transfer_mb_per_s * f64::from(disks))
                };
                (arm.mean_ns / 1000.0 + transfer(1), transfer(data_disks), Some(arm))
            }
        };
        let way = self.network.as_ref();
        let (way_read_us, way_write_us) =
            way.map_or((0.0, 0.0), |way| (way.read_us(block_bytes), way.write_us(block_bytes)));
        let command = |disk_us: f64, way_us: f64, disks: u32| Command {
            ns: ns_of(disk_us + way_us),
            work_ns: ns_of(disk_us * f64::from(disks)),
        };
        let write_us = random_us * f64::from(self.raid.write_passes());
        BackingTimes {
            random_read: command(random_us, way_read_us, 1),
            random_write: command(write_us, way_write_us, self.raid.write_disks()),
            sequential_read: command(sequential_us, way_read_us, self.stream_disks()),
            sequential_write: command(sequential_us, way_write_us, self.stream_disks()),
            arm,
        }
    }

    /// Disks' worth of data.
    pub fn data_disks(&self) -> u32 {
        // Checked when the profile was read; an array put together by hand that cannot be counts as one disk.
        self.raid.data_disks(self.disks).unwrap_or(1)
    }

    /// Price of what holds 10^9 bytes of data.
    pub fn usd_per_data_gb(&self) -> f64 {
        self.disk.usd_per_gb() * f64::from(self.disks) / f64::from(self.data_disks())
    }

    /// Energy, in joules, over `span_s` seconds of which the disks, added up, work `work_s`.
    pub(crate) fn energy_j(&self, work_s: f64, span_s: f64) -> f64 {
        let (active_w, idle_w) = self.disk.power_w();
        work_s * active_w + (f64::from(self.disks) * span_s - work_s).max(0.0) * idle_w
    }

    /// Time, in seconds, that so much work of the disks and so many bytes need at least.
    pub(crate) fn least_s(&self, work_s: f64, bytes: f64) -> f64 {
        let disks = work_s / f64::from(self.disks.max(1));
        self.network.as_ref().map_or(disks, |way| disks.max(bytes / (way.transfer_mb_per_s * 1e6)))
    }

    /// Disks that work during a sequential command: fixed times are those of one disk, an arm's those of a stripe.
    fn stream_disks(&self) -> u32 {
        match self.disk {
            DiskKind::FixedDisk(_) => 1,
            DiskKind::Hdd(_) => self.disks,
        }
    }

    /// Checks that there can be such an array.
    pub(crate) fn check(&self, path: &str) -> Result<(), HardwareError> {
        self.raid.data_disks(self.disks).map(|_| ()).map_err(|message| HardwareError::Key {
            path: format!("{path}.disks"),
            message: message.to_owned(),
        })?;
        self.figures().iter().try_for_each(|figure| figure.check(path))
    }
}

impl Figures for Backing {
    fn figures(&self) -> Vec<Figure> {
        let mut figures = vec![Figure::new("disks", self.disks.into(), figure::DISKS)];
        figures.extend(self.span_gb.map(|gb| Figure::new("span_gb", gb, figure::CAPACITY_GB)));
        figures
    }
}
