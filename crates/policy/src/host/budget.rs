//! The division of what a host's SSD may take in a day between its VMs, by what they would write and by their weights. It must not
//! know how much a VM's writes are worth beside another's.

use crate::settings::WriteBudget;

/// What a VM may write beyond what it wanted lately, as a part of that: it can only want more where it may.
const HEADROOM: f64 = 1.25;

/// One VM.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Writer {
    /// How much it counts beside others; positive.
    pub weight: f64,
    /// Its scheme holds to budgets.
    pub holds: bool,
    /// Blocks that it would write in a day without a budget; none: not known yet.
    pub wanted: Option<f64>,
    /// Blocks that it writes in a day.
    pub written: f64,
}

/// Who may write how much.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetDivision {
    /// What each VM is held to, in their order.
    pub budgets: Vec<WriteBudget>,
    /// Blocks that those write in a day that hold to none: no budget below that can be kept.
    pub least: f64,
}

/// Divides what may be written: VMs that hold to no budget write what they write; of the rest everybody has what it wants, or an equal
/// part for its weight where that is less (max-min fairness), and what nobody wants is there for all.
pub fn divide_writes(blocks_per_day: f64, writers: &[Writer]) -> BudgetDivision {
    let least: f64 = writers.iter().filter(|one| !one.holds).map(|one| one.written).sum();
    let wants = |one: &Writer| one.wanted.map_or(f64::INFINITY, |wanted| wanted * HEADROOM);
    let mut parts = vec![0.0; writers.len()];
    let mut waiting: Vec<usize> = (0..writers.len()).filter(|&at| writers[at].holds).collect();
    // Those come first who want least for their weight.
    waiting.sort_by(|&one, &other| {
        let [one, other] = [one, other].map(|at| wants(&writers[at]) / writers[at].weight);
        one.total_cmp(&other)
    });
    let holding: f64 = waiting.iter().map(|&at| writers[at].weight).sum();
    let (mut left, mut weights) = ((blocks_per_day - least).max(0.0), holding);
    for &at in &waiting {
        let Writer { weight, .. } = writers[at];
        parts[at] = wants(&writers[at]).min(left * (weight / weights).min(1.0));
        left = (left - parts[at]).max(0.0);
        weights -= weight;
    }
    let budget = |(one, part): (&Writer, f64)| match one.holds {
        true => WriteBudget::PerDay(part + left * one.weight / holding),
        false => WriteBudget::Any,
    };
    BudgetDivision { budgets: writers.iter().zip(parts).map(budget).collect(), least }
}
