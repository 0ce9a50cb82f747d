//! Host memory as a cache level. It must not know what is in it.

use serde::{Deserialize, Serialize};

use crate::cost::cost_usd;
use crate::energy::PowerW;
use crate::profile::figure::{self, Figure, Figures};

/// Memory, in modules of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dram {
    /// What it is.
    pub about: String,
    /// Where the figures come from.
    pub source: String,
    /// A read or write of one block, with the software around it.
    pub access_us: f64,
    /// Power of one module.
    pub power_w: PowerW,
    /// Size of a module, in 10^9 bytes; without it there is one module, however large.
    pub device_gb: Option<f64>,
    /// Price.
    pub usd_per_gb: f64,
    /// Mean time to failure of a module.
    pub mttf_h: f64,
}

impl Dram {
    /// Price of so many bytes.
    pub fn cost_usd(&self, bytes: u64) -> f64 {
        cost_usd(self.usd_per_gb, bytes)
    }
}

impl Figures for Dram {
    fn figures(&self) -> Vec<Figure> {
        let mut figures = vec![Figure::new("access_us", self.access_us, figure::TIME_US)];
        figures.extend(self.power_w.figures());
        figures.extend(self.device_gb.map(|gb| Figure::new("device_gb", gb, figure::CAPACITY_GB)));
        figures.push(Figure::new("usd_per_gb", self.usd_per_gb, figure::USD_PER_GB));
        figures.push(Figure::new("mttf_h", self.mttf_h, figure::MTTF_H));
        figures
    }
}
