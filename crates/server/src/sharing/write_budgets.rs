//! The host's budget of writes to the SSD: every so often VMs are asked what they wrote and wanted to write, and each is told what
//! it may write from then on. It must not know how that is divided, or how a scheme holds to it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lode_engine::SsdWriteUse;
use lode_policy::WriteBudget;
use lode_policy::host::{BUDGET_INTERVAL_NS, WriteGovernor, follow};
use lode_types::{BlockSize, Level};

use super::{STEP, Sharing};
use crate::config::{Config, DailyBytes, Size, VmConfig};
use crate::events::EventKind;
use crate::host::Host;
use crate::messages::ToShard;

/// Bytes that an SSD takes for each byte of blocks, journal and tables included: at least, and at most for one write at a time with
/// a flush each (docs/design.md, "Costs").
const LEAST_OVERHEAD: f64 = 1.0;
const MOST_OVERHEAD: f64 = 2.1;
/// An amount is told anew when it is another one by this part.
const TOLD_CHANGE: f64 = 0.25;

/// What a VM was told, and what it took for that.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Bytes that the SSD had taken at the last look.
    device_bytes: u64,
    /// What the operator was told that it may write, in blocks a day.
    told: Option<f64>,
    budget: Option<f64>,
}

/// What is known of all.
#[derive(Debug)]
pub(super) struct WriteBudgets {
    next: Option<Instant>,
    last: Option<Instant>,
    governor: WriteGovernor,
    /// By number.
    vms: BTreeMap<usize, Known>,
    /// Bytes that the SSD takes for each byte of blocks: the most, until it is known.
    overhead: f64,
    /// Blocks a day that VMs write which hold to no budget, when that was told to be too much.
    told_least: Option<f64>,
}

impl Default for WriteBudgets {
    fn default() -> WriteBudgets {
        WriteBudgets {
            next: None,
            last: None,
            governor: WriteGovernor::default(),
            vms: BTreeMap::new(),
            overhead: MOST_OVERHEAD,
            told_least: None,
        }
    }
}

impl WriteBudgets {
    /// When budgets are divided anew.
    pub(super) fn due(&self) -> Option<Instant> {
        self.next
    }

    /// VMs came or went, or may write another amount.
    pub(super) fn change(&mut self, config: &Config) {
        let had_budget = self.vms.values().any(|known| known.budget.is_some());
        if config.host.ssd_writes.is_some() || had_budget {
            self.next = Some(Instant::now());
        }
    }

    /// What this VM may write to the SSD in a day, in bytes; none where it is held to nothing.
    pub(super) fn budget_bytes(&self, number: usize, block_bytes: u64) -> Option<u64> {
        let blocks = self.vms.get(&number)?.budget?;
        Some((blocks * self.overhead * block_bytes as f64) as u64)
    }

    /// Notes what VMs have written so far, so long after the last look at them, and what the SSD took for it.
    fn note(&mut self, uses: &BTreeMap<usize, SsdWriteUse>, passed: Option<Duration>, block_bytes: u64) {
        self.governor.retain(|number| uses.contains_key(&number));
        self.vms.retain(|number, _| uses.contains_key(number));
        let passed_ns = passed.map(|passed| passed.as_nanos() as u64);
        let (mut bytes, mut blocks) = (0, 0);
        for (&number, now) in uses {
            let known = self.vms.entry(number).or_default();
            bytes += now.device_bytes.saturating_sub(known.device_bytes);
            known.device_bytes = now.device_bytes;
            blocks += self.governor.note(number, now.decided, passed_ns);
        }
        if let Some(passed_ns) = passed_ns.filter(|_| blocks > 0) {
            let overhead = bytes as f64 / (blocks as f64 * block_bytes as f64);
            self.overhead = follow(self.overhead, overhead.clamp(LEAST_OVERHEAD, MOST_OVERHEAD), passed_ns);
        }
    }
}

impl Sharing {
    /// Divides what may be written, where that is due.
    pub(super) fn divide_writes(&mut self, host: &Host, now: Instant) -> Result<(), String> {
        if self.write_budgets.next.is_none_or(|next| now < next) {
            return Ok(());
        }
        // A shard that is busy is asked again soon.
        self.write_budgets.next = Some(now + STEP);
        let uses = host.ask_volumes(|_, answer| ToShard::SsdWrites(answer))?;
        let last = self.write_budgets.last.replace(now);
        let passed = last.map(|last| now - last).filter(|passed| !passed.is_zero());
        self.write_budgets.note(&uses, passed, self.block_bytes);
        let Some(allowed) = self.host.ssd_writes else {
            self.write_budgets.next = None;
            self.tell_budgets(host, &vec![WriteBudget::Any; self.vms.len()]);
            return Ok(());
        };
        self.write_budgets.next = Some(now + Duration::from_nanos(BUDGET_INTERVAL_NS));
        let blocks = allowed.0 as f64 / self.block_bytes as f64 / self.write_budgets.overhead;
        let weight = |at| self.sizer.rule(at).map_or(1.0, |rule| rule.weight);
        let vms = self.vms.iter().enumerate().map(|(at, vm)| (vm.number, weight(at)));
        let division = self.write_budgets.governor.divide(blocks, vms);
        self.warn_of_least(allowed, blocks, division.least);
        self.tell_budgets(host, &division.budgets);
        Ok(())
    }

    /// Says once what the least is, where VMs that hold to no budget write more than there is.
    fn warn_of_least(&mut self, allowed: DailyBytes, blocks: f64, least: f64) {
        if least <= blocks {
            self.write_budgets.told_least = None;
            return;
        }
        if self.write_budgets.told_least.is_some_and(|told| is_near(told, least)) {
            return;
        }
        self.write_budgets.told_least = Some(least);
        let writes_freely = |vm: &&super::Vm| {
            let writer = self.write_budgets.governor.writer(vm.number, 1.0);
            !writer.holds && writer.written > 0.0
        };
        let names: Vec<&str> = self.vms.iter().filter(writes_freely).map(|vm| vm.name.as_str()).collect();
        let text = format!(
            "the budget of {allowed} of SSD writes cannot be kept: {} of VMs whose schemes hold to no budget ({}) is written a day, \
             which is the least possible; give them scheme \"auto\", or the host a larger `ssd_writes`",
            self.daily(least),
            names.join(", "),
        );
        tracing::warn!("{text}");
        self.events.note(EventKind::Budget, None, text);
    }

    /// Bytes that the SSD takes for so many blocks.
    fn daily(&self, blocks: f64) -> Size {
        Size((blocks * self.write_budgets.overhead * self.block_bytes as f64) as u64)
    }

    /// Has VMs hold to these budgets.
    fn tell_budgets(&mut self, host: &Host, budgets: &[WriteBudget]) {
        let mut told = Vec::new();
        for (at, &budget) in budgets.iter().enumerate() {
            let number = self.vms[at].number;
            host.tell(number, |volume| ToShard::Budget(volume, budget));
            let blocks = if let WriteBudget::PerDay(blocks) = budget { Some(blocks) } else { None };
            let wanted = self.write_budgets.governor.wanted(number);
            let known = self.write_budgets.vms.entry(number).or_default();
            known.budget = blocks;
            let is_same = match known.told.zip(blocks) {
                Some((told, blocks)) => is_near(told, blocks),
                None => known.told.is_none() && blocks.is_none(),
            };
            if !is_same {
                known.told = blocks;
                told.push((at, blocks, wanted));
            }
        }
        for (at, blocks, wanted) in told {
            let wanted =
                wanted.map(|wanted| format!("; without a budget it would write {}", self.daily(wanted)));
            let text = match blocks {
                Some(blocks) => format!(
                    "it may write {} a day to the SSD{}",
                    self.daily(blocks),
                    wanted.unwrap_or_default()
                ),
                None => "what it may write to the SSD has no limit of the host any more".to_owned(),
            };
            tracing::info!("VM {}: {text}", self.vms[at].name);
            self.events.note(EventKind::Budget, Some(&self.vms[at].name), text);
        }
    }
}

/// Whether an amount need not be told again.
fn is_near(told: f64, now: f64) -> bool {
    (now - told).abs() <= told * TOLD_CHANGE
}

/// What a VM may write to the SSD until the first division: its part by weight of what the host allows.
pub(crate) fn first_budget(config: &Config, vm: &VmConfig, block: BlockSize) -> WriteBudget {
    let holds = |vm: &VmConfig| vm.scheme().levels.contains(&Level::Ssd) && vm.scheme().holds_to_budgets();
    match config.host.ssd_writes {
        Some(DailyBytes(bytes)) if holds(vm) => {
            let others = config.vms.iter().filter(|one| one.name != vm.name && holds(one));
            let weights = others.map(|one| one.bounds.weight).sum::<f64>() + vm.bounds.weight;
            let part = vm.bounds.weight / weights;
            WriteBudget::PerDay(bytes as f64 / block.bytes() as f64 * part / MOST_OVERHEAD)
        }
        _ => WriteBudget::Any,
    }
}
