//! What devices are bought for. It must not know what they do.

use serde::Serialize;

use crate::GB_BYTES;

/// Price of the cache levels of a host, in US dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LevelCost {
    /// Of host memory.
    pub dram: f64,
    /// Of the SSDs, all copies.
    pub ssd: f64,
    /// Of the read SSD.
    pub read_ssd: f64,
    /// Of all.
    pub total: f64,
}

/// Price of so many bytes at a price for 10^9.
pub(crate) fn cost_usd(usd_per_gb: f64, bytes: u64) -> f64 {
    usd_per_gb * (bytes as f64 / GB_BYTES)
}

/// Devices of `device_gb` that hold so many bytes; one, however large, when no size is given.
pub(crate) fn devices(device_gb: Option<f64>, bytes: u64) -> f64 {
    match device_gb {
        _ if bytes == 0 => 0.0,
        Some(gb) => (bytes as f64 / (gb * GB_BYTES)).ceil(),
        None => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_whole() {
        let counts = |gb| [0, 1, 16_000_000_000, 16_000_000_001].map(|bytes| devices(gb, bytes));
        assert_eq!(counts(Some(16.0)), [0.0, 1.0, 1.0, 2.0]);
        assert_eq!(counts(None), [0.0, 1.0, 1.0, 1.0]);
    }
}
