//! Decisions in words and numbers, each with its reason.

use lode_policy::Quota;
use lode_policy::host::{Change, Division, Reason};
use lode_reuse::sizing::Objective;
use lode_types::Level;

use super::Sharing;
use crate::config::{HostMode, Size};
use crate::events::{EventKind, Other, ShareChange};

/// Shares of a level that a division tells one by one, the largest moves; the rest of many is a sum. A thousand VMs would have what
/// is kept of the past last for a few divisions.
const MOST_TOLD: usize = 32;
/// Others that a sentence names.
const MOST_NAMED: usize = 3;

/// Blocks that go from one VM to another; none: free ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flow {
    from: Option<usize>,
    to: Option<usize>,
    blocks: u32,
}

/// Why a VM begins with its share of a level.
#[derive(Clone, Copy, Debug)]
struct First {
    entitled: Entitled,
    /// What others did not have of the level, and all of it.
    free_bytes: u64,
    capacity_bytes: u64,
}

/// What a VM would have of a level if all were free.
#[derive(Clone, Copy, Debug)]
enum Entitled {
    /// What is named.
    Named { bytes: u64 },
    /// A part of the level, by its weight and that of all VMs together.
    ByWeight { own: f64, all: f64 },
}

impl Sharing {
    /// Tells of an interval that ended: of its divisions, and to a log with more detail what every VM could have used.
    pub(super) fn tell_interval(&self, divisions: &[Division]) {
        for (at, vm) in self.vms.iter().enumerate() {
            for level in Level::SIZED {
                let view = self.sizer.view(at, level);
                let Some(demand) = view.demand else { continue };
                let [demand, share, target] =
                    [demand, view.share, view.target].map(|blocks| self.size(blocks));
                tracing::debug!(
                    "VM {}: could have used {demand} of the {} level in the interval that ended, with {} block accesses; has {share}, is to \
                     have {target}",
                    vm.name,
                    level.name(),
                    view.accesses
                );
            }
        }
        if divisions.is_empty() {
            tracing::debug!("Shares stay as they are: no other division is worth a move");
        }
        divisions.iter().for_each(|division| self.tell(division));
    }

    /// Tells a log with more detail of shares that come into force.
    pub(super) fn tell_step(&self, shares: &[(usize, Quota)]) {
        for (vm, share) in shares {
            let [dram, ssd] = [share.dram_blocks, share.ssd_blocks].map(|blocks| self.size(blocks));
            tracing::debug!("VM {}: {dram} of DRAM and {ssd} of the SSD from now on", self.vms[*vm].name);
        }
    }

    /// Tells of a division: to the log, and as an event for each VM.
    pub(super) fn tell(&self, division: &Division) {
        let advises = self.host.mode == HostMode::Advise;
        // Where shares do not follow, what counts is how far they are from what they should be.
        let old = |change: &Change| if advises { change.share } else { change.from };
        let moves: Vec<(usize, u32, u32)> =
            division.changes.iter().map(|change| (change.vm, old(change), change.to)).collect();
        let flows = flows(&moves);
        let moves = |change: &&Change| old(change) != change.to;
        let (told, rest) = largest(division.changes.iter().filter(moves).collect(), old);
        for change in told {
            let share = self.share_change(division, change, old(change), &flows);
            let name = &self.vms[change.vm].name;
            let kind = if advises { EventKind::Advice } else { EventKind::Share };
            let text = text(&share, &self.reason(division), advises);
            tracing::info!("VM {name}: {text}");
            self.events.note_share(kind, name, text, share);
        }
        if let Some(text) = self.sum(division.level, &rest, old) {
            let text = if advises { format!("advice: {text}") } else { text };
            tracing::info!("{text}");
            self.events.note(if advises { EventKind::Advice } else { EventKind::Share }, None, text);
        }
    }

    /// Tells of the share with which the VM that came last begins: to the log, and as an event for each level that it may have a
    /// share of.
    pub(super) fn tell_first(&self, share: Quota) {
        let Some((vm, others)) = self.vms.split_last() else { return };
        let at = others.len();
        for level in Level::SIZED.into_iter().filter(|level| vm.reach.of(*level) > 0) {
            let bytes = |blocks: u32| u64::from(blocks) * self.block_bytes;
            let capacity = bytes(self.sizer.capacity().of(level));
            let taken: u64 = (0..at).map(|other| bytes(self.sizer.view(other, level).share)).sum();
            let weight_of = |vm: usize| self.sizer.rule(vm).map_or(0.0, |rule| rule.weight);
            let named = self.sizer.rule(at).and_then(|rule| rule.named.get(level).copied());
            let first = First {
                entitled: match named {
                    Some(blocks) => Entitled::Named { bytes: bytes(blocks) },
                    None => Entitled::ByWeight { own: weight_of(at), all: (0..=at).map(weight_of).sum() },
                },
                free_bytes: capacity.saturating_sub(taken),
                capacity_bytes: capacity,
            };
            let to_bytes = bytes(share.of(level));
            let from_free = Other { vm: None, bytes: to_bytes, expected_hit_ratio_change: None };
            let share = ShareChange {
                level: level.name(),
                from_bytes: 0,
                to_bytes,
                expected_hit_ratio_from: None,
                expected_hit_ratio_to: None,
                others: if to_bytes > 0 { vec![from_free] } else { Vec::new() },
            };
            let text = first_text(&share, &first);
            tracing::info!("VM {}: {text}", vm.name);
            self.events.note_share(EventKind::Share, &vm.name, text, share);
        }
    }

    /// Why a level is divided anew, in words.
    fn reason(&self, division: &Division) -> String {
        let wished = self.host.objective.name();
        let reason = match division.reason {
            Reason::Gain { before, after } => gain(division.objective, [before, after], self.block_bytes),
            Reason::Kept => format!("a VM had less than {wished} keeps for it"),
            Reason::Rules => "VMs, their limits or what there is changed".to_owned(),
        };
        match division.objective.name() {
            name if name == wished => reason,
            name => format!("{reason}, by {name}: what {wished} keeps for VMs does not fit"),
        }
    }

    /// Moves that are not told one by one, in a sentence.
    fn sum(&self, level: Level, rest: &[&Change], old: impl Fn(&Change) -> u32) -> Option<String> {
        let most = rest.iter().map(|change| change.to.abs_diff(old(change))).max()?;
        let sum = |grows: bool| -> u64 {
            let meant = rest.iter().filter(|change| (change.to > old(change)) == grows);
            meant.map(|change| u64::from(change.to.abs_diff(old(change)))).sum()
        };
        let [gain, lose] = [true, false].map(|grows| Size(sum(grows) * self.block_bytes));
        Some(format!(
            "{} VMs more, by at most {} of {} each: +{gain} and -{lose} together",
            rest.len(),
            self.size(most),
            if level == Level::Dram { "DRAM" } else { "SSD" }
        ))
    }

    fn share_change(&self, division: &Division, change: &Change, old: u32, flows: &[Flow]) -> ShareChange {
        let bytes = |blocks: u32| u64::from(blocks) * self.block_bytes;
        let [from, to] = [old, change.to].map(|blocks| self.expected(change.vm, division.level, blocks));
        let grows = change.to > old;
        let others = flows.iter().filter_map(|flow| {
            let (own, other) = if grows { (flow.to, flow.from) } else { (flow.from, flow.to) };
            (own == Some(change.vm)).then(|| Other {
                vm: other.map(|vm| self.vms[vm].name.clone()),
                bytes: bytes(flow.blocks),
                expected_hit_ratio_change: other.and_then(|vm| self.change_of(division, vm)),
            })
        });
        ShareChange {
            level: division.level.name(),
            from_bytes: bytes(old),
            to_bytes: bytes(change.to),
            expected_hit_ratio_from: from,
            expected_hit_ratio_to: to,
            others: others.collect(),
        }
    }

    /// What a division does to a VM's hit ratio.
    fn change_of(&self, division: &Division, vm: usize) -> Option<f64> {
        let change = division.changes.iter().find(|change| change.vm == vm)?;
        let old = if self.host.mode == HostMode::Advise { change.share } else { change.from };
        let ratio = |blocks| self.expected(vm, division.level, blocks);
        Some(ratio(change.to)? - ratio(old)?)
    }

    /// Of the blocks that a VM read in the last interval, those that a level of so many blocks would have served.
    pub(super) fn expected(&self, vm: usize, level: Level, blocks: u32) -> Option<f64> {
        let hits = self.sizer.expected_hits(vm, level, blocks)?;
        let reads = self.vms[vm].last_reads?.reads;
        // Schemes that count writes among their hits promise no more than all.
        (reads > 0).then(|| (hits as f64 / reads as f64).min(1.0))
    }
}

/// The largest moves in their order, and the others.
fn largest(changes: Vec<&Change>, old: impl Fn(&Change) -> u32) -> (Vec<&Change>, Vec<&Change>) {
    let mut sizes: Vec<u32> = changes.iter().map(|change| change.to.abs_diff(old(change))).collect();
    sizes.sort_unstable_by_key(|&blocks| std::cmp::Reverse(blocks));
    let Some(&least) = sizes.get(MOST_TOLD) else { return (changes, Vec::new()) };
    // Those that are as large as the first one of the rest belong to it.
    changes.into_iter().partition(|change| change.to.abs_diff(old(change)) > least)
}

/// Who gives to whom: in the order of the VMs, and what is still missing from what is free.
fn flows(moves: &[(usize, u32, u32)]) -> Vec<Flow> {
    let mut givers: Vec<(usize, u32)> =
        moves.iter().filter(|(_, from, to)| to < from).map(|&(vm, from, to)| (vm, from - to)).collect();
    givers.reverse();
    let mut flows = Vec::new();
    for &(vm, from, to) in moves.iter().filter(|(_, from, to)| to > from) {
        let mut missing = to - from;
        while missing > 0 {
            let Some((giver, left)) = givers.last_mut() else {
                flows.push(Flow { from: None, to: Some(vm), blocks: missing });
                break;
            };
            let blocks = missing.min(*left);
            flows.push(Flow { from: Some(*giver), to: Some(vm), blocks });
            (missing, *left) = (missing - blocks, *left - blocks);
            if *left == 0 {
                givers.pop();
            }
        }
    }
    flows.extend(givers.into_iter().rev().map(|(vm, blocks)| Flow { from: Some(vm), to: None, blocks }));
    flows
}

/// What a division gains by its objective, whose values are of blocks of this size.
fn gain(objective: Objective, [before, after]: [f64; 2], block_bytes: u64) -> String {
    let per_gib = (1_u64 << 30) as f64 / block_bytes as f64;
    match objective {
        Objective::SumHitRatio => format!("all VMs together {before:.3} to {after:.3}"),
        Objective::Hits => format!("hits of all VMs together {before:.0} to {after:.0}"),
        // It maximises what is less than nothing.
        Objective::Latency { .. } => {
            format!("mean latencies of all VMs together {:.1} to {:.1} us", -before, -after)
        }
        Objective::PpcTotal { .. } | Objective::PpcLiteral { .. } => {
            format!("hit ratios for each GiB {:.3} to {:.3}", before * per_gib, after * per_gib)
        }
        Objective::MaxMin => format!("the VM that is worst off {before:.3} to {after:.3}"),
    }
}

/// One VM's change as a sentence.
fn text(share: &ShareChange, reason: &str, advises: bool) -> String {
    let grows = share.to_bytes > share.from_bytes;
    let (sign, direction) = if grows { ('+', "from") } else { ('-', "to") };
    let [from, to] = [share.from_bytes, share.to_bytes].map(Size);
    let level = if share.level == Level::Dram.name() { "DRAM" } else { "SSD" };
    let change = Size(share.to_bytes.abs_diff(share.from_bytes));
    let mut text = format!("{sign}{change} {level} ({from} to {to})");
    if advises {
        text = format!("advice: {text}");
    }
    if let (Some(from), Some(to)) = (share.expected_hit_ratio_from, share.expected_hit_ratio_to) {
        text += &format!(
            ": {:+.1} % read hits expected ({:.1} to {:.1} %)",
            100.0 * (to - from),
            100.0 * from,
            100.0 * to
        );
    }
    let other = |other: &Other| {
        let name = other.vm.as_deref().unwrap_or("what was free");
        let change = other.expected_hit_ratio_change.map(|change| format!(", {:+.1} %", 100.0 * change));
        format!("{name}{}", change.unwrap_or_default())
    };
    // What nobody takes is what rounding leaves, or the host has become smaller.
    let others: Vec<&Other> = share.others.iter().filter(|other| grows || other.vm.is_some()).collect();
    let named: Vec<String> = others.iter().take(MOST_NAMED).map(|one| other(one)).collect();
    if !named.is_empty() {
        text += &format!("; {direction} {}", named.join(", "));
    }
    if let Some(more @ 1..) = others.len().checked_sub(MOST_NAMED) {
        text += &format!(" and {more} more");
    }
    format!("{text}; {reason}")
}

/// A VM's first share as a sentence.
fn first_text(share: &ShareChange, first: &First) -> String {
    let level = if share.level == Level::Dram.name() { "DRAM" } else { "SSD" };
    let [to, free, capacity] = [share.to_bytes, first.free_bytes, first.capacity_bytes].map(Size);
    let entitled = match first.entitled {
        Entitled::Named { bytes } => format!("{} is named", Size(bytes)),
        Entitled::ByWeight { own, all } => format!("its weight is {own} of {all} together"),
    };
    let came = match share.to_bytes {
        0 => format!("no {level} to begin with"),
        _ => format!("+{to} {level} (0 B to {to}), its first share"),
    };
    format!("{came}: {entitled}, and {free} of {capacity} was free")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gained_comes_from_somebody() {
        let flow = |from, to, blocks| Flow { from, to, blocks };
        let moves = [(0, 100, 60), (1, 10, 90), (2, 50, 0), (3, 0, 30)];
        let expected = [
            flow(Some(0), Some(1), 40),
            flow(Some(2), Some(1), 40),
            flow(Some(2), Some(3), 10),
            flow(None, Some(3), 20),
        ];
        assert_eq!(flows(&moves), expected);
        assert_eq!(flows(&[(0, 9, 2), (1, 0, 3)]), [flow(Some(0), Some(1), 3), flow(Some(0), None, 4)]);
    }

    #[test]
    fn a_first_share_has_its_reason_in_numbers() {
        let share = |level, to_bytes| ShareChange {
            level,
            from_bytes: 0,
            to_bytes,
            expected_hit_ratio_from: None,
            expected_hit_ratio_to: None,
            others: Vec::new(),
        };
        let first = |entitled| First { entitled, free_bytes: 24 << 20, capacity_bytes: 64 << 20 };
        assert_eq!(
            first_text(&share("ssd", 16 << 20), &first(Entitled::Named { bytes: 16 << 20 })),
            "+16 MiB SSD (0 B to 16 MiB), its first share: 16 MiB is named, and 24 MiB of 64 MiB was free"
        );
        assert_eq!(
            first_text(&share("dram", 8 << 20), &first(Entitled::ByWeight { own: 0.5, all: 4.0 })),
            "+8 MiB DRAM (0 B to 8 MiB), its first share: its weight is 0.5 of 4 together, and 24 MiB of 64 MiB was free"
        );
    }

    #[test]
    fn small_moves_of_many_are_one() {
        let change =
            |vm: usize| Change { vm, share: 1000, from: 1000, to: 1000 + vm as u32, hits: None, accesses: 0 };
        let all: Vec<Change> = (1..=100).map(change).collect();
        let (told, rest) = largest(all.iter().collect(), |change| change.from);
        assert_eq!((told.len(), rest.len()), (MOST_TOLD, 100 - MOST_TOLD));
        assert!(told.iter().all(|one| rest.iter().all(|other| one.to > other.to)));
        let few: Vec<&Change> = all.iter().take(MOST_TOLD).collect();
        assert_eq!(largest(few, |change| change.from).1, Vec::<&Change>::new());
        let same: Vec<Change> = (0..100).map(|vm| Change { vm, ..change(7) }).collect();
        assert_eq!(largest(same.iter().collect(), |change| change.from).0.len(), 0, "all of them are small");
    }

    #[test]
    fn a_decision_has_its_reason_in_numbers() {
        let share = ShareChange {
            level: "ssd",
            from_bytes: 2 << 30,
            to_bytes: 40 << 30,
            expected_hit_ratio_from: Some(0.61),
            expected_hit_ratio_to: Some(0.722),
            others: vec![Other {
                vm: Some("vm03".to_owned()),
                bytes: 38 << 30,
                expected_hit_ratio_change: Some(-0.004),
            }],
        };
        let said = |objective, values| gain(objective, values, 4096);
        assert_eq!(
            text(&share, &said(Objective::SumHitRatio, [1.5, 1.608]), false),
            "+38 GiB SSD (2 GiB to 40 GiB): +11.2 % read hits expected (61.0 to 72.2 %); from vm03, -0.4 %; \
             all VMs together 1.500 to 1.608"
        );
        for (objective, values, words) in [
            (
                Objective::Latency { cache_us: 120.0, backing_us: 8000.0 },
                [-9000.5, -7100.25],
                "mean latencies of all VMs together 9000.5 to 7100.2 us",
            ),
            (Objective::Hits, [1200.0, 1350.0], "hits of all VMs together 1200 to 1350"),
            (
                Objective::PpcTotal { floor: 0.9 },
                [0.5 / 262_144.0, 0.75 / 262_144.0],
                "hit ratios for each GiB 0.500 to 0.750",
            ),
            (Objective::MaxMin, [0.25, 0.3], "the VM that is worst off 0.250 to 0.300"),
        ] {
            assert_eq!(said(objective, values), words);
        }
        let other =
            |vm: Option<&str>| Other { vm: vm.map(str::to_owned), bytes: 1, expected_hit_ratio_change: None };
        let unmeasured = ShareChange {
            level: "dram",
            from_bytes: 3 << 20,
            to_bytes: 1 << 20,
            expected_hit_ratio_from: None,
            expected_hit_ratio_to: None,
            others: vec![other(Some("a")), other(Some("b")), other(Some("c")), other(Some("d")), other(None)],
        };
        assert_eq!(
            text(&unmeasured, "limits changed", true),
            "advice: -2 MiB DRAM (3 MiB to 1 MiB); to a, b, c and 1 more; limits changed"
        );
    }
}
