//! Whether what was written to the SSD is within the budgets of a run. It must not know how schemes keep to them.

use lode_hardware::time::{SECOND_NS, SECONDS_PER_DAY};
use lode_policy::{Settings, WriteBudget};
use lode_types::BlockSize;

const NS_PER_DAY: f64 = SECONDS_PER_DAY * SECOND_NS;
/// So much more than allowed is within what a governor may be late by.
const MOST_OVER: f64 = 1.02;

/// What a run asked for and wrote.
pub(crate) struct Written {
    pub accesses: u64,
    pub ssd_blocks: u64,
    pub vms: u64,
    /// From the first request to the last; none where times are not known.
    pub span_ns: Option<u64>,
}

/// Says that a budget was not met, and what the least possible is: one of the scheme's settings, or that of all VMs together.
pub(crate) fn budget_warning(
    settings: &Settings,
    block: BlockSize,
    daily_blocks: Option<f64>,
    run: &Written,
) -> Option<String> {
    let settings = settings.clone().for_blocks(block);
    // Each VM has its own budget, and all of them that of the host.
    let own = settings.budgets().map(|(key, budget)| (key, budget, run.vms as f64));
    let host = daily_blocks.map(|blocks| ("--ssd-writes", WriteBudget::PerDay(blocks), 1.0));
    let mut budgets = own.chain(host);
    budgets.find_map(|(key, budget, times)| {
        let allowed = match budget {
            WriteBudget::Any => return None,
            WriteBudget::PerAccess(blocks) => blocks * run.accesses as f64,
            WriteBudget::PerDay(blocks) => blocks * times * run.span_ns? as f64 / NS_PER_DAY,
        };
        (run.ssd_blocks as f64 > allowed * MOST_OVER).then(|| {
            format!(
                "`{key}` is not met: it allows {} to be written to the SSD over these traces, and {} were; the least \
                 possible is nothing, without a share of the SSD",
                blocks_text(allowed),
                blocks_text(run.ssd_blocks as f64)
            )
        })
    })
}

/// A number of blocks, which may be a part of one.
fn blocks_text(blocks: f64) -> String {
    match blocks {
        1.0 => "1 block".to_owned(),
        few if few < 10.0 && few.fract() > 0.0 => format!("{few:.2} blocks"),
        many => format!("{many:.0} blocks"),
    }
}
