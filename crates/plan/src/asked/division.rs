//! What is to be divided and for what, in the words of whoever asks. It must not know how a division is found.

use lode_hardware::{Host, ServiceTimes};
use lode_replay::access_times;
use lode_reuse::sizing::{Objective, Solver};
use lode_types::show_size;

use super::size::{SHARE_GRANULE_BYTES, check_rule};
use crate::answer::Means;
use crate::division::{SizeOptions, VmRule};
use crate::front::Prices;
use crate::levels::LevelBytes;

/// The part of its best hit ratio that every VM keeps under the objective `ppc-total`; `lode size --help` says so.
const DEFAULT_FLOOR: f64 = 0.9;
/// The least of a VM under the objective `ppc-literal`, in bytes; `lode size --help` says so.
const DEFAULT_LEAST_BYTES: u64 = 1 << 20;

/// A division, as it is asked for on a command line or in a program.
pub struct DivisionWords<'a> {
    /// Host memory to divide.
    pub dram_bytes: Option<u64>,
    /// SSD to divide.
    pub ssd_bytes: Option<u64>,
    /// US dollars for both levels instead.
    pub budget_usd: Option<f64>,
    /// `latency`, `sum-hit-ratio`, `hits`, `ppc-total`, `ppc-literal` or `maxmin`.
    pub objective: String,
    /// With `ppc-total`: the part of its best hit ratio that every VM keeps, 0 to 1.
    pub floor: Option<f64>,
    /// With `ppc-literal`: the smallest size of a VM.
    pub least_bytes: Option<u64>,
    /// `auto`, `exact`, `greedy` or `talus`.
    pub solver: String,
    /// What single VMs may have.
    pub rules: &'a [VmRule],
    /// How whoever asks writes what is called so here, such as `--dram` for `dram`.
    pub spelled: fn(&str) -> String,
}

impl DivisionWords<'_> {
    /// What there is to divide.
    ///
    /// # Errors
    /// What to write instead.
    pub fn means(&self, host: &Host, block_bytes: u64) -> Result<Means, String> {
        let [dram, ssd, budget] = ["dram", "ssd", "budget"].map(self.spelled);
        let levels = [(&dram, self.dram_bytes), (&ssd, self.ssd_bytes)];
        if let Some(usd) = self.budget_usd {
            if levels.iter().any(|(_, bytes)| bytes.is_some()) {
                return Err(format!("Give either {budget}, or {dram} and {ssd}"));
            }
            return Ok(Means::Budget { usd, prices: Prices::of(host) });
        }
        if levels.iter().all(|(_, bytes)| bytes.unwrap_or(0) == 0) {
            return Err(format!("Say what there is to divide: {dram}, {ssd} or {budget}"));
        }
        match levels.iter().find(|(_, bytes)| bytes.is_some_and(|bytes| (1..block_bytes).contains(&bytes))) {
            Some((level, _)) => {
                Err(format!("{level} is less than a block of {}; give at least that", show_size(block_bytes)))
            }
            None => Ok(Means::Levels(LevelBytes {
                dram_bytes: self.dram_bytes.unwrap_or(0),
                ssd_bytes: self.ssd_bytes.unwrap_or(0),
                ..LevelBytes::default()
            })),
        }
    }

    /// How it is to be divided.
    ///
    /// # Errors
    /// What to write instead.
    pub fn options(&self, times: ServiceTimes, block_bytes: u64) -> Result<SizeOptions, String> {
        for rule in self.rules {
            check_rule(rule, block_bytes).map_err(|message| format!("{} {message}", (self.spelled)("vm")))?;
        }
        Ok(SizeOptions {
            objective: self.objective(&times, block_bytes)?,
            solver: self.solver()?,
            rules: self.rules.to_vec(),
            times,
            // What a daemon gives VMs is in whole granules.
            granule_bytes: SHARE_GRANULE_BYTES,
        })
    }

    fn objective(&self, times: &ServiceTimes, block_bytes: u64) -> Result<Objective, String> {
        let [objective, floor, least] = ["objective", "floor", "least"].map(self.spelled);
        if let Some(share) = self.floor.filter(|share| !(0.0..=1.0).contains(share)) {
            return Err(format!("{floor} is {share}; write a number from 0 to 1"));
        }
        for (name, is_given, of) in
            [(floor, self.floor.is_some(), "ppc-total"), (least, self.least_bytes.is_some(), "ppc-literal")]
        {
            if is_given && self.objective != of {
                return Err(format!(
                    "{name} means nothing to this objective; leave it out, or ask for {objective} {of}"
                ));
            }
        }
        let least_bytes = self.least_bytes.unwrap_or(DEFAULT_LEAST_BYTES);
        Ok(match self.objective.as_str() {
            "sum-hit-ratio" => Objective::SumHitRatio,
            "hits" => Objective::Hits,
            "latency" => access_times(times).objective(),
            "ppc-total" => Objective::PpcTotal { floor: self.floor.unwrap_or(DEFAULT_FLOOR) },
            "ppc-literal" => Objective::PpcLiteral { min_blocks: (least_bytes / block_bytes).max(1) },
            "maxmin" => Objective::MaxMin,
            other => {
                let known = "latency, sum-hit-ratio, hits, ppc-total, ppc-literal or maxmin";
                return Err(format!("{objective} is '{other}'; it is {known}"));
            }
        })
    }

    fn solver(&self) -> Result<Solver, String> {
        Ok(match self.solver.as_str() {
            "auto" => Solver::Auto,
            "exact" => Solver::Exact,
            "greedy" => Solver::Greedy,
            "talus" => Solver::Talus,
            other => {
                let solver = (self.spelled)("solver");
                return Err(format!("{solver} is '{other}'; it is auto, exact, greedy or talus"));
            }
        })
    }
}
