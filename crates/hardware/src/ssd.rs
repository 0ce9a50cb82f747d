//! An SSD: how fast it is, how busy, and how long it lasts. It must not know what is written to it.

use serde::{Deserialize, Serialize};

use crate::HardwareError;
use crate::cost::cost_usd;
use crate::energy::PowerW;
use crate::profile::figure::{self, Figure, Figures};
use crate::service::{ns_of, transfer_us};
use crate::time::{DAYS_PER_YEAR, SECONDS_PER_DAY};

/// Bytes of one TB in ratings, where vendors count in powers of ten.
pub const RATED_TB_BYTES: f64 = 1e12;

/// Bytes to which `read_us` and `write_us` refer; larger blocks take the transfer of the rest longer.
const LATENCY_BYTES: u64 = 4096;

/// An SSD with a SATA or NVMe interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ssd {
    /// What it is.
    pub about: String,
    /// Where the figures come from.
    pub source: String,
    /// Read of 4 KiB, alone.
    pub read_us: f64,
    /// Write of 4 KiB, alone.
    pub write_us: f64,
    /// Rate of large reads, in 10^6 bytes a second. Without it size does not matter.
    pub read_mb_per_s: Option<f64>,
    /// Rate of large writes, in 10^6 bytes a second. Without it size does not matter.
    pub write_mb_per_s: Option<f64>,
    /// Commands that it serves at once without taking longer for each.
    pub queue_depth: f64,
    /// Power of one SSD.
    pub power_w: PowerW,
    /// Size of one SSD, in 10^9 bytes; without it there is one, however large.
    pub device_gb: Option<f64>,
    /// Price.
    pub usd_per_gb: f64,
    /// Mean time to failure.
    pub mttf_h: f64,
    /// Endurance: bytes that may be written for each byte of capacity. Either this or the next two.
    pub writes_per_gb: Option<f64>,
    /// Endurance: times that the whole capacity may be written each day, for as long as the warranty lasts.
    pub dwpd: Option<f64>,
    /// Years of that warranty.
    pub warranty_years: Option<f64>,
    /// Bytes that wear the SSD for each byte that is written to it, in comparison with the load of its rating. An
    /// assumption about the load: 1 when it is like the rating's.
    pub write_amplification: f64,
}

/// Years that SSDs are commonly rated for, where a profile gives endurance by capacity alone.
const USUAL_YEARS: f64 = 5.0;

/// Endurance by day: times that the whole capacity may be written each day for so many years.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SsdRating {
    /// Writes of the whole capacity a day.
    pub drive_writes_per_day: f64,
    /// For so many years.
    pub years: f64,
}

impl Ssd {
    /// Read of one block, in nanoseconds.
    pub fn read_ns(&self, block_bytes: u64) -> u64 {
        latency_ns(self.read_us, self.read_mb_per_s, block_bytes)
    }

    /// Write of one block, in nanoseconds.
    pub fn write_ns(&self, block_bytes: u64) -> u64 {
        latency_ns(self.write_us, self.write_mb_per_s, block_bytes)
    }

    /// Most reads and most writes a second: what the queue lets through, or the rate.
    pub fn bounds_per_s(&self, block_bytes: u64) -> (f64, f64) {
        let bound = |ns, rate| 1e6 / self.share_us(ns, rate, block_bytes);
        (
            bound(self.read_ns(block_bytes), self.read_mb_per_s),
            bound(self.write_ns(block_bytes), self.write_mb_per_s),
        )
    }

    /// Time, in seconds, that these reads and writes need at least.
    pub(crate) fn least_s(&self, reads: f64, writes: f64, block_bytes: u64) -> f64 {
        let (reads_per_s, writes_per_s) = self.bounds_per_s(block_bytes);
        reads / reads_per_s + writes / writes_per_s
    }

    /// What one command takes of the SSD's time when its queue is full.
    fn share_us(&self, ns: u64, rate: Option<f64>, block_bytes: u64) -> f64 {
        let alone = ns.max(1) as f64 / 1000.0 / self.queue_depth;
        rate.map_or(alone, |rate| alone.max(transfer_us(block_bytes, rate)))
    }

    /// Price of so many bytes.
    pub fn cost_usd(&self, bytes: u64) -> f64 {
        cost_usd(self.usd_per_gb, bytes)
    }

    /// Bytes that may be written for each byte of capacity.
    pub fn rated_writes_per_gb(&self) -> f64 {
        let by_day = self.dwpd.zip(self.warranty_years).map(|(dwpd, years)| dwpd * DAYS_PER_YEAR * years);
        self.writes_per_gb.or(by_day).unwrap_or(0.0)
    }

    /// The endurance by day of what a host writes, with the amplification assumed: over the years of the warranty, or five
    /// where the profile has none.
    pub fn rating(&self) -> SsdRating {
        let years = self.warranty_years.unwrap_or(USUAL_YEARS);
        let writes_per_day = self.rated_writes_per_gb() / self.write_amplification / DAYS_PER_YEAR;
        SsdRating { drive_writes_per_day: writes_per_day / years, years }
    }

    /// Bytes that a host may write to an SSD of this capacity in all, with the amplification assumed.
    pub fn endurance_bytes(&self, capacity_bytes: u64) -> f64 {
        capacity_bytes as f64 * self.rated_writes_per_gb() / self.write_amplification
    }

    /// Years until an SSD of this capacity, to which `written_bytes` have been written, has taken all writes that it
    /// may take, when `bytes_per_s` more are written; zero when it has. `None` when nothing wears it.
    pub fn years_left(&self, capacity_bytes: u64, written_bytes: f64, bytes_per_s: f64) -> Option<f64> {
        let left = (self.endurance_bytes(capacity_bytes) - written_bytes).max(0.0);
        let years = left / bytes_per_s / (DAYS_PER_YEAR * SECONDS_PER_DAY);
        (bytes_per_s > 0.0 && years.is_finite()).then_some(years)
    }

    /// Checks that endurance is given in one way.
    pub(crate) fn check(&self, path: &str) -> Result<(), HardwareError> {
        match (self.writes_per_gb, self.dwpd, self.warranty_years) {
            (Some(_), None, None) | (None, Some(_), Some(_)) => Ok(()),
            _ => Err(HardwareError::Key {
                path: path.to_owned(),
                message: "write either writes_per_gb, or dwpd and warranty_years".to_owned(),
            }),
        }
    }
}

fn latency_ns(us: f64, rate: Option<f64>, block_bytes: u64) -> u64 {
    let more = block_bytes.saturating_sub(LATENCY_BYTES);
    ns_of(us + rate.map_or(0.0, |rate| transfer_us(more, rate)))
}

impl Figures for Ssd {
    fn figures(&self) -> Vec<Figure> {
        let given = |key, value: Option<f64>, range| value.map(|value| Figure::new(key, value, range));
        let mut figures = vec![
            Figure::new("read_us", self.read_us, figure::TIME_US),
            Figure::new("write_us", self.write_us, figure::TIME_US),
            Figure::new("queue_depth", self.queue_depth, figure::QUEUE_DEPTH),
        ];
        figures.extend(self.power_w.figures());
        figures.push(Figure::new("usd_per_gb", self.usd_per_gb, figure::USD_PER_GB));
        figures.push(Figure::new("mttf_h", self.mttf_h, figure::MTTF_H));
        let optional = [
            given("read_mb_per_s", self.read_mb_per_s, figure::RATE_MB_PER_S),
            given("write_mb_per_s", self.write_mb_per_s, figure::RATE_MB_PER_S),
            given("device_gb", self.device_gb, figure::CAPACITY_GB),
            given("writes_per_gb", self.writes_per_gb, figure::WRITES_PER_GB),
            given("dwpd", self.dwpd, figure::DWPD),
            given("warranty_years", self.warranty_years, figure::YEARS),
        ];
        figures.extend(optional.into_iter().flatten());
        figures.push(Figure::new("write_amplification", self.write_amplification, figure::AMPLIFICATION));
        figures
    }
}
