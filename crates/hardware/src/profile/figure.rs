//! One number of a device with its key and its range. It must not know devices.

use crate::HardwareError;

/// A number of a device, under the key that it has in a profile; the unit is in the key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The key.
    pub key: &'static str,
    /// The number.
    pub value: f64,
    range: Range,
}

/// Least and greatest value allowed.
type Range = (f64, f64);

// Wide enough for any device that there is, narrow enough that no calculation overflows.
pub(crate) const TIME_US: Range = (0.0, 1e8);
pub(crate) const RATE_MB_PER_S: Range = (0.001, 1e7);
pub(crate) const POWER_W: Range = (0.0, 1e4);
pub(crate) const CAPACITY_GB: Range = (0.001, 1e9);
pub(crate) const USD_PER_GB: Range = (0.0, 1e6);
pub(crate) const USD: Range = (0.01, 1e9);
pub(crate) const WRITTEN_TB: Range = (0.001, 1e9);
pub(crate) const MTTF_H: Range = (1.0, 1e12);
pub(crate) const RPM: Range = (100.0, 1e6);
pub(crate) const QUEUE_DEPTH: Range = (1.0, 65536.0);
pub(crate) const WRITES_PER_GB: Range = (1.0, 1e9);
pub(crate) const DWPD: Range = (0.001, 1e5);
pub(crate) const YEARS: Range = (0.1, 100.0);
pub(crate) const AMPLIFICATION: Range = (0.01, 1000.0);
pub(crate) const DISKS: Range = (1.0, crate::raid::MAX_DISKS as f64);
pub(crate) const ROUND_TRIPS: Range = (1.0, 100.0);

/// What has figures.
pub(crate) trait Figures {
    /// All of them.
    fn figures(&self) -> Vec<Figure>;
}

impl Figure {
    pub(crate) fn new(key: &'static str, value: f64, range: Range) -> Figure {
        Figure { key, value, range }
    }

    /// Checks its range; `path` is the device's place.
    pub(crate) fn check(&self, path: &str) -> Result<(), HardwareError> {
        let (least, most) = self.range;
        // No number at all lies in no range.
        if (least..=most).contains(&self.value) {
            return Ok(());
        }
        Err(HardwareError::Range { path: format!("{path}.{}", self.key), value: self.value, least, most })
    }
}
