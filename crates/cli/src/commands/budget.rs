//! What a budget of SSD writes did to a replay, for those who set one that leaves little. It must not know how schemes hold to it.

use lode_policy::{Settings, WriteBudget};
use lode_replay::Report;

use crate::amounts::show_size;

const S_PER_DAY: f64 = 86_400.0;
/// With this part of what is allowed used, more would have been written without the budget.
const USED_UP: f64 = 0.9;
/// Where less than this part of the SSD may be written over a whole replay, it is as good as shut off.
const SHUT_OFF: f64 = 0.01;

/// A replay with a budget.
struct Budgeted {
    /// The setting or option, and how much it allows for each day or so many accesses.
    allows: String,
    allowed_blocks: f64,
    written_blocks: u64,
    ssd_blocks: u32,
    block_bytes: u64,
}

/// Lines; nothing without a budget, and where one is far from used. The settings have been told the size of blocks.
pub fn budget_text(report: &Report, settings: &Settings) -> String {
    of_vms(report, settings).into_iter().chain(of_host(report)).filter_map(|run| run.text()).collect()
}

/// The budget that each VM's scheme has by a setting.
fn of_vms(report: &Report, settings: &Settings) -> Option<Budgeted> {
    let (key, budget) = settings.budgets().find(|(_, budget)| *budget != WriteBudget::Any)?;
    let vms = report.vms.len() as f64;
    let each = if report.vms.len() > 1 { " for each VM" } else { "" };
    let (allows, allowed_blocks) = match budget {
        WriteBudget::Any => return None,
        WriteBudget::PerAccess(blocks) => (
            format!("{key} allows {:.4} blocks for each hundred accesses", 100.0 * blocks),
            blocks * report.total.counters.block_accesses as f64,
        ),
        WriteBudget::PerDay(blocks) => (
            format!("{key} allows {} a day{each}", show_size((blocks * report.block_bytes as f64) as u64)),
            blocks * vms * report.devices.span_s? / S_PER_DAY,
        ),
    };
    Some(Budgeted::of(report, allows, allowed_blocks))
}

/// The budget that all VMs have together.
fn of_host(report: &Report) -> Option<Budgeted> {
    let bytes = report.ssd_write_budget_bytes_per_day?;
    let allows = format!("--ssd-writes allows {} a day", show_size(bytes));
    let blocks = bytes as f64 / report.block_bytes as f64;
    Some(Budgeted::of(report, allows, blocks * report.devices.span_s? / S_PER_DAY))
}

impl Budgeted {
    fn of(report: &Report, allows: String, allowed_blocks: f64) -> Budgeted {
        Budgeted {
            allows,
            allowed_blocks,
            written_blocks: report.total.counters.ssd_writes.total,
            ssd_blocks: report.physical.ssd_blocks,
            block_bytes: report.block_bytes,
        }
    }

    fn text(&self) -> Option<String> {
        let Budgeted { allows, allowed_blocks, written_blocks, ssd_blocks, block_bytes } = self;
        let meaning = if *allowed_blocks < SHUT_OFF * f64::from(*ssd_blocks) {
            "that is less than a hundredth of the SSD, which is as good as shut off"
        } else if *written_blocks as f64 >= USED_UP * allowed_blocks {
            "it is used up, and keeps more from being written"
        } else {
            return None;
        };
        let bytes = |blocks: f64| show_size((blocks * *block_bytes as f64) as u64);
        let used = match *allowed_blocks > 0.0 {
            true => format!(" ({:.0} %)", 100.0 * *written_blocks as f64 / allowed_blocks),
            false => String::new(),
        };
        Some(format!(
            "{allows}, {} over these traces, and {}{used} were written: {meaning}.\n",
            bytes(*allowed_blocks),
            bytes(*written_blocks as f64)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_that_leaves_little_is_told() {
        let text = |allowed_blocks, written_blocks| {
            let allows = "write_budget allows 1 MiB a day".to_owned();
            Budgeted { allows, allowed_blocks, written_blocks, ssd_blocks: 1000, block_bytes: 4096 }.text()
        };
        assert_eq!(text(100.0, 89), None);
        assert_eq!(
            text(100.0, 90).as_deref(),
            Some(
                "write_budget allows 1 MiB a day, 400 KiB over these traces, and 360 KiB (90 %) were written: it is used up, \
                 and keeps more from being written.\n"
            )
        );
        let shut = text(0.25, 0).expect("a line");
        assert!(
            shut.contains("and 0 B (0 %) were written") && shut.contains("as good as shut off"),
            "{shut}"
        );
        assert!(text(0.0, 0).expect("a line").contains("0 B were written"));
    }
}
