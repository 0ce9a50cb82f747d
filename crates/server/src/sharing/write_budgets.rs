//! The host's budget of writes to the SSD: what VMs wrote and wanted to write is looked at every so often, and each is told what
//! it may write from then on. It must not know how a scheme holds to that.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lode_engine::SsdWriteUse;
use lode_hardware::time::SECONDS_PER_DAY;
use lode_policy::WriteBudget;
use lode_policy::host::{Writer, divide_writes};
use lode_types::{BlockSize, Level};

use super::{STEP, Sharing};
use crate::config::{Config, DailyBytes, Size, VmConfig};
use crate::events::EventKind;
use crate::host::Host;
use crate::messages::ToShard;

/// From one division to the next: often enough that what a VM does not use is soon another one's.
const INTERVAL: Duration = Duration::from_secs(60);
/// How far means follow what they are of in an interval, so that they take about ten.
const RATE: f64 = 0.1;
/// Bytes that an SSD takes for each byte of blocks, journal and tables included: at least, and at most for one write at a time with
/// a flush each (docs/design.md, "Costs").
const LEAST_OVERHEAD: f64 = 1.0;
const MOST_OVERHEAD: f64 = 2.1;
/// An amount is told anew when it is another one by this part.
const TOLD_CHANGE: f64 = 0.25;

/// What is known of a VM's writes.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    last: SsdWriteUse,
    /// Blocks a day, on average of some time; none before it was looked at for the second time.
    wanted: Option<f64>,
    written: Option<f64>,
    /// What it was told that it may write, in blocks a day.
    told: Option<f64>,
    budget: Option<f64>,
}

/// What is known of all.
#[derive(Debug)]
pub(super) struct WriteBudgets {
    next: Option<Instant>,
    last: Option<Instant>,
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

    /// Notes what a VM has written so far, and so long after the last time that it was known of it.
    fn note(&mut self, number: usize, now: SsdWriteUse, passed: Option<Duration>) {
        let Some(known) = self.vms.get_mut(&number) else {
            // What it wants will be known the next time.
            self.vms.insert(number, Known { last: now, ..Known::default() });
            return;
        };
        // A scheme that began anew has wanted nothing before.
        let since = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now) as f64;
        let written = since(now.written_blocks, known.last.written_blocks);
        let wanted = since(now.wanted_blocks, known.last.wanted_blocks).max(written);
        if let Some(passed) = passed {
            let days = passed.as_secs_f64() / SECONDS_PER_DAY;
            let follow =
                |mean: Option<f64>, new: f64| mean.map_or(new, |mean| mean + (new - mean) * rate_in(passed));
            known.wanted = Some(follow(known.wanted, wanted / days));
            known.written = Some(follow(known.written, written / days));
        }
        known.last = now;
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
        self.note_overhead(&uses, passed);
        self.write_budgets.vms.retain(|number, _| uses.contains_key(number));
        uses.iter().for_each(|(&number, &used)| self.write_budgets.note(number, used, passed));
        let Some(allowed) = self.host.ssd_writes else {
            self.write_budgets.next = None;
            self.tell_budgets(host, &vec![WriteBudget::Any; self.vms.len()]);
            return Ok(());
        };
        self.write_budgets.next = Some(now + INTERVAL);
        let blocks = allowed.0 as f64 / self.block_bytes as f64 / self.write_budgets.overhead;
        let writers: Vec<Writer> = self.vms.iter().enumerate().map(|(at, _)| self.writer(at)).collect();
        let division = divide_writes(blocks, &writers);
        self.warn_of_least(allowed, blocks, division.least, &writers);
        self.tell_budgets(host, &division.budgets);
        Ok(())
    }

    fn writer(&self, at: usize) -> Writer {
        let known = self.write_budgets.vms.get(&self.vms[at].number).copied().unwrap_or_default();
        Writer {
            weight: self.sizer.rule(at).map_or(1.0, |rule| rule.weight),
            holds: known.last.holds,
            wanted: known.wanted,
            written: known.written.unwrap_or(0.0),
        }
    }

    /// What the SSD took since the last time for what was decided.
    fn note_overhead(&mut self, uses: &BTreeMap<usize, SsdWriteUse>, passed: Option<Duration>) {
        let (mut bytes, mut blocks) = (0, 0);
        for (number, now) in uses {
            let last = self.write_budgets.vms.get(number).map(|known| known.last).unwrap_or_default();
            bytes += now.device_bytes.saturating_sub(last.device_bytes);
            blocks += now.written_blocks.saturating_sub(last.written_blocks);
        }
        if let Some(passed) = passed.filter(|_| blocks > 0) {
            let overhead = bytes as f64 / (blocks as f64 * self.block_bytes as f64);
            let overhead = overhead.clamp(LEAST_OVERHEAD, MOST_OVERHEAD);
            self.write_budgets.overhead += (overhead - self.write_budgets.overhead) * rate_in(passed);
        }
    }

    /// Says once what the least is, where VMs that hold to no budget write more than there is.
    fn warn_of_least(&mut self, allowed: DailyBytes, blocks: f64, least: f64, writers: &[Writer]) {
        if least <= blocks {
            self.write_budgets.told_least = None;
            return;
        }
        if self.write_budgets.told_least.is_some_and(|told| is_near(told, least)) {
            return;
        }
        self.write_budgets.told_least = Some(least);
        let free = self.vms.iter().zip(writers).filter(|(_, one)| !one.holds && one.written > 0.0);
        let names: Vec<&str> = free.map(|(vm, _)| vm.name.as_str()).collect();
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
            let known = self.write_budgets.vms.entry(number).or_default();
            known.budget = blocks;
            let is_same = match known.told.zip(blocks) {
                Some((told, blocks)) => is_near(told, blocks),
                None => known.told.is_none() && blocks.is_none(),
            };
            if !is_same {
                known.told = blocks;
                told.push((at, blocks, known.wanted));
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

/// How far means follow in so much time.
fn rate_in(passed: Duration) -> f64 {
    1.0 - (1.0 - RATE).powf(passed.as_secs_f64() / INTERVAL.as_secs_f64())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn used(blocks: u64) -> SsdWriteUse {
        SsdWriteUse { holds: true, wanted_blocks: blocks, written_blocks: blocks, device_bytes: 0 }
    }

    #[test]
    fn what_a_vm_wants_is_known_from_the_second_look_on() {
        let mut budgets = WriteBudgets::default();
        budgets.note(0, used(1000), Some(INTERVAL));
        assert_eq!((budgets.vms[&0].wanted, budgets.vms[&0].written), (None, None));
        budgets.note(0, used(1060), Some(INTERVAL));
        assert_eq!(budgets.vms[&0].wanted.map(f64::round), Some(86_400.0));
    }

    #[test]
    fn a_look_after_a_moment_says_little() {
        let mut budgets = WriteBudgets::default();
        budgets.note(0, used(0), None);
        budgets.note(0, used(60), Some(INTERVAL));
        // A hundred blocks in five milliseconds, as after a reload.
        budgets.note(0, used(160), Some(Duration::from_millis(5)));
        let after = budgets.vms[&0].wanted.unwrap();
        assert!(after < 3.0 * 86_400.0, "{after} blocks a day");
        assert!((rate_in(INTERVAL) - RATE).abs() < 1e-12 && rate_in(10 * INTERVAL) < 1.0);
    }
}
