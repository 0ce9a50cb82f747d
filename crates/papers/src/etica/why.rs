//! Which property of a trace decides what ETICA gains over ECI-Cache-like: of traces at hand, each alone, as they come.
//! `property` varies one property at a time.

use lode_draw::Unit;
use lode_policy::CounterReport;

use super::SIZING;
use super::at_hand::report;
use super::host::{ECI, ECI_WB, FULL, NPE, vms_faster, vms_sparing};
use super::property::{Times, writes_to_disk};
use crate::at_hand::{Ran, Stage, TraceFacts, rank_correlation};
use crate::chart::{Bars, Chart};
use crate::claim::Shown;
use crate::experiment::{Finding, least, less, mean, most, ratio};

/// Of all accesses, the writes that ECI-Cache-like has to send to the disk to be called read-only for a while.
const SENT: f64 = 0.01;

/// One VM, with what both make of it: a trace alone, or one of those that share a host.
#[derive(Clone, Copy)]
struct Vm<'a> {
    facts: &'a TraceFacts,
    stage: &'a Stage<'a>,
    /// Its number on its host.
    at: usize,
}

impl<'a> Vm<'a> {
    fn all_of(stage: &'a Stage<'a>) -> impl Iterator<Item = Vm<'a>> + Clone {
        stage.facts.iter().enumerate().map(move |(at, facts)| Vm { facts, stage, at })
    }

    fn counters(&self, kind: usize) -> &'a CounterReport {
        &report(self.stage, kind).vms[self.at].counts.counters
    }

    /// Of the accesses.
    fn share(&self, kind: usize, blocks: fn(&CounterReport) -> u64) -> Option<f64> {
        let counters = self.counters(kind);
        ratio(Some(blocks(counters) as f64), Some(counters.block_accesses as f64))
    }

    /// Writes to the disk, of the accesses.
    fn sent(&self, kind: usize) -> Option<f64> {
        writes_to_disk(report(self.stage, kind), self.at)
    }

    fn times(&self, kind: usize) -> Times {
        Times::of(report(self.stage, kind), self.at)
    }

    /// Of ECI-Cache-like's time by accesses.
    fn of_time(&self, us: f64) -> Option<f64> {
        ratio(Some(us), Some(self.times(ECI).total_us()))
    }

    /// By how much less latency one has than the other.
    fn faster(&self, kind: usize, base: usize) -> Option<f64> {
        vms_faster(report(self.stage, kind), report(self.stage, base))[self.at]
    }

    fn sparing(&self, kind: usize) -> Option<f64> {
        vms_sparing(report(self.stage, kind), report(self.stage, ECI))[self.at]
    }

    /// What accesses at each device times its time say that NPE gains.
    fn by_accesses(&self) -> Option<f64> {
        less(Some(self.times(NPE).total_us()), Some(self.times(ECI).total_us()))
    }

    /// The reads that no scheme can spare the disk, of ECI-Cache-like's time.
    fn unavoidable(&self) -> Option<f64> {
        let blocks = self.facts.cold_reads? * self.counters(ECI).block_accesses as f64;
        self.of_time(blocks * report(self.stage, ECI).model.disk_random_us)
    }
}

/// A property of a trace, or of what the schemes make of it.
type Property = (&'static str, fn(&Vm<'_>) -> Option<f64>);

/// Of the trace alone.
const OF_TRACES: [Property; 7] = [
    ("reads, of all accesses", |vm| vm.facts.read_share),
    ("overwrites, of all accesses", |vm| vm.facts.overwrites),
    ("reads of blocks never accessed before, of all accesses", |vm| vm.facts.cold_reads),
    ("reads of blocks never accessed before, of the reads", |vm| vm.facts.first_of_reads),
    ("reads of blocks just written, of the reads", |vm| vm.facts.after_write_of_reads),
    ("blocks both read and written, of those touched", |vm| vm.facts.read_and_written),
    ("accesses to blocks accessed before, of all accesses", |vm| vm.facts.reuse),
];

/// Of what the schemes make of it.
const OF_RUNS: [Property; 5] = [
    ("writes that ECI-Cache-like sends to the disk and NPE does not", |vm| {
        Some(vm.sent(ECI)? - vm.sent(NPE)?)
    }),
    ("reads that miss with ECI-Cache-like and hit with NPE", |vm| {
        Some(vm.share(ECI, |c| c.read_misses)? - vm.share(NPE, |c| c.read_misses)?)
    }),
    ("reads that miss with ECI-Cache-like", |vm| vm.share(ECI, |c| c.read_misses)),
    ("reads that hit DRAM with NPE", |vm| vm.share(NPE, |c| c.read_hits.dram)),
    ("fills, of the SSD writes of ECI-Cache-like", |vm| {
        let writes = &vm.counters(ECI).ssd_writes;
        ratio(Some(writes.fill as f64), Some(writes.total as f64))
    }),
];

/// What is gained.
const GAINS: [Property; 3] = [
    ("NPE's gain in latency", |vm| vm.faster(NPE, ECI)),
    ("NPE's gain in SSD writes", |vm| vm.sparing(NPE)),
    ("Full's gain in latency", |vm| vm.faster(FULL, ECI)),
];

/// Says what decides, and draws what it is said by.
pub(super) fn explain(found: &mut Finding, ran: &Ran<'_>) {
    found.question =
        Some("Why does ETICA's advantage in latency differ so much between traces: which property decides?");
    let (sent, kept): (Vec<Vm<'_>>, Vec<Vm<'_>>) =
        ran.with_both().flat_map(Vm::all_of).partition(|vm| vm.sent(ECI) > Some(SENT));
    let alone: Vec<Vm<'_>> = ran.traces.iter().flat_map(Vm::all_of).collect();
    let together: Vec<Vm<'_>> = ran.host.iter().flat_map(Vm::all_of).collect();
    let notes = [
        groups(&sent, &kept),
        not_long_enough(&kept),
        bound(&kept),
        reading(&alone),
        on_host(&together),
        full(&[&sent[..], &kept[..]].concat()),
    ];
    found.notes.extend(notes.into_iter().flatten());
    let both = [[&sent[..], &kept[..]].concat(), together.clone()];
    found.notes.extend(GAINS.iter().filter_map(|gain| ranked(gain, &both)));
    found.draw(properties(&alone)).draw(writes(&alone, &together)).draw(times(&alone));
}

fn percent(value: impl Into<Option<f64>>) -> String {
    Shown::Percent.text(value.into())
}

fn names(vms: &[Vm<'_>]) -> String {
    vms.iter().map(|vm| vm.facts.row()).collect::<Vec<_>>().join(", ")
}

/// From the smallest to the largest.
fn range(vms: &[Vm<'_>], of: fn(&Vm<'_>) -> Option<f64>) -> String {
    let [least, most] = [least(vms.iter().map(of)), most(vms.iter().map(of))].map(percent);
    if least == most { least } else { format!("{least} to {most}") }
}

/// Where ECI-Cache-like sends writes to the disk, and where it does not.
fn groups(sent: &[Vm<'_>], kept: &[Vm<'_>]) -> Option<String> {
    let mut parts = Vec::new();
    if !sent.is_empty() {
        parts.push(format!(
            "Where it sends more than {} of the accesses as writes to the disk ({}), NPE has {} less latency, and {} against the same with every \
             cache write-back",
            percent(SENT),
            names(sent),
            range(sent, |vm| vm.faster(NPE, ECI)),
            range(sent, |vm| vm.faster(NPE, ECI_WB))
        ));
    }
    if !kept.is_empty() {
        let gain = range(kept, |vm| vm.faster(NPE, ECI));
        parts.push(format!("Where it does not ({}), NPE has {gain} less", names(kept)));
    }
    let model = &report(sent.first().or(kept.first())?.stage, ECI).model;
    Some(format!(
        "Of traces alone it is overwrites that decide, by way of one rule of ECI-Cache-like: after an interval in which half of the accesses or \
         more overwrite, it is read-only and its writes go to the disk, each for {:.1} times as long as a read that misses; ETICA takes them into \
         the SSD. {}",
        model.disk_random_write_us / model.disk_random_us,
        parts.join(". ")
    ))
}

/// Traces that overwrite enough, and end before that has any consequence.
fn not_long_enough(kept: &[Vm<'_>]) -> Option<String> {
    let is_short = |vm: &Vm<'_>| vm.facts.overwrites >= Some(0.5) && vm.facts.requests <= SIZING;
    let short: Vec<Vm<'_>> = kept.iter().copied().filter(is_short).collect();
    (!short.is_empty()).then(|| {
        format!(
            "What counts is the overwrites of an interval, and that others follow: of {} {} are overwrites, but it has no more requests than one \
             interval ({SIZING}), so that the choice comes with its end",
            names(&short),
            range(&short, |vm| vm.facts.overwrites)
        )
    })
}

/// What both wait for.
fn bound(kept: &[Vm<'_>]) -> Option<String> {
    let largest = most(kept.iter().map(|vm| vm.unavoidable().map(|share| 1.0 - share)))?;
    let model = &report(kept.first()?.stage, ECI).model;
    Some(format!(
        "Where both buffer the writes, both wait for the same misses: {} of ECI-Cache-like's time by accesses, {} of it for blocks never accessed \
         before, which no scheme can spare the disk: none could gain more than {} there. What else differs is that a read hits DRAM and not \
         the SSD, which saves a {:.0}th of what a miss takes",
        range(kept, |vm| vm.of_time(vm.times(ECI).misses_us)),
        range(kept, |vm| vm.unavoidable()),
        percent(largest),
        model.disk_random_us / (model.ssd_read_us - model.dram_us)
    ))
}

/// Traces that write nothing.
fn reading(alone: &[Vm<'_>]) -> Option<String> {
    let reading: Vec<Vm<'_>> = alone.iter().copied().filter(|vm| vm.facts.read_share == Some(1.0)).collect();
    (!reading.is_empty()).then(|| {
        format!(
            "Where nothing is written ETICA's SSD stays empty, and DRAM, a fifth of the space, is all there is: {} less latency ({})",
            range(&reading, |vm| vm.faster(NPE, ECI)),
            names(&reading)
        )
    })
}

/// VMs without a share.
fn on_host(together: &[Vm<'_>]) -> Option<String> {
    let (lost, others): (Vec<Vm<'_>>, Vec<Vm<'_>>) = together
        .iter()
        .copied()
        .partition(|vm| vm.sent(NPE).zip(vm.sent(ECI)).is_some_and(|(npe, eci)| npe > eci + SENT));
    (!lost.is_empty()).then(|| {
        format!(
            "On one host the same turns round. A VM whose reads do not come back to what it wrote asks for no SSD, and its writes \
             go to the disk: of the accesses of {} NPE sends {} there, ECI-Cache-like {}, and NPE has {} less latency; of the others {}",
            names(&lost),
            range(&lost, |vm| vm.sent(NPE)),
            range(&lost, |vm| vm.sent(ECI)),
            range(&lost, |vm| vm.faster(NPE, ECI)),
            range(&others, |vm| vm.faster(NPE, ECI))
        )
    })
}

/// Writes that Full sends to the disk.
fn full(with_both: &[Vm<'_>]) -> Option<String> {
    (!with_both.is_empty()).then(|| {
        format!(
            "Full is slower than NPE for the same reason: alone, it sends a write without a free way to the disk, {} of the accesses, and NPE {}; \
             Full has {} less latency than ECI-Cache-like",
            range(with_both, |vm| vm.sent(FULL)),
            range(with_both, |vm| vm.sent(NPE)),
            range(with_both, |vm| vm.faster(FULL, ECI))
        )
    })
}

/// How alike properties and a gain rank the VMs, alone and on one host.
fn ranked((name, gain): &Property, groups: &[Vec<Vm<'_>>; 2]) -> Option<String> {
    let of = |property: fn(&Vm<'_>) -> Option<f64>, vms: &[Vm<'_>]| {
        rank_correlation(&vms.iter().filter_map(|vm| Some((property(vm)?, gain(vm)?))).collect::<Vec<_>>())
    };
    let by_accesses: [Property; 1] =
        [("what accesses at each device times its time say", |vm| vm.by_accesses())];
    let of_npe = by_accesses.iter().filter(|_| *name == GAINS[0].0);
    let all = OF_TRACES.iter().chain(&OF_RUNS).chain(of_npe);
    let mut found: Vec<(f64, String)> = all
        .filter_map(|(what, property)| {
            let [alone, together] = [of(*property, &groups[0]), of(*property, &groups[1])];
            let text = |r: Option<f64>| r.map_or("-".to_owned(), |r| format!("{r:.2}"));
            let strength = mean([alone.map(f64::abs), together.map(f64::abs)])?;
            Some((strength, format!("{what} {} and {}", text(alone), text(together))))
        })
        .collect();
    found.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let listed: Vec<String> = found.into_iter().map(|(_, text)| text).collect();
    (!listed.is_empty()).then(|| {
        format!(
            "Rank correlation (Spearman) of {name} over the {} traces that read and write, alone and as VMs of one host, the strongest first: {}",
            groups[0].len(),
            listed.join("; ")
        )
    })
}

fn bars(title: &str, vms: &[Vm<'_>]) -> Bars {
    Bars::new(title, Unit::Ratio, vms.iter().map(|vm| vm.facts.row()))
}

fn properties(alone: &[Vm<'_>]) -> Chart {
    let bars = bars("Properties of the traces", alone);
    Chart::Bars(OF_TRACES.iter().fold(bars, |bars, (name, of)| bars.part(name, alone.iter().map(of))))
}

/// Writes that go to the disk at once.
fn writes(alone: &[Vm<'_>], together: &[Vm<'_>]) -> Chart {
    let mut bars = bars("Writes to the disk, of all accesses", alone);
    for (name, kind) in [("ECI-Cache-like", ECI), ("NPE", NPE), ("Full", FULL)] {
        bars = bars.part(name, alone.iter().map(|vm| vm.sent(kind)));
    }
    for (name, kind) in [("ECI-Cache-like, as a VM of the host", ECI), ("NPE, as a VM", NPE)] {
        let on_host = |vm: &Vm<'_>| together.iter().find(|one| one.facts.name == vm.facts.name)?.sent(kind);
        bars = bars.part(name, alone.iter().map(on_host));
    }
    Chart::Bars(bars)
}

/// One of the things that time goes to, in microseconds.
type Part = fn(&Times) -> f64;

/// What the time goes to, of all that ECI-Cache-like takes.
fn times(alone: &[Vm<'_>]) -> Chart {
    let parts: [(&str, Part); 3] = [
        ("writes to the disk", |times| times.writes_us),
        ("reads that miss", |times| times.misses_us),
        ("the rest", |times| times.rest_us),
    ];
    let mut bars = bars("Time by accesses, of all that ECI-Cache-like takes", alone);
    for (what, part) in parts {
        for (name, kind) in [("ECI-Cache-like", ECI), ("NPE", NPE)] {
            let of = |vm: &Vm<'_>| vm.of_time(part(&vm.times(kind)));
            bars = bars.part(&format!("{what}, {name}"), alone.iter().map(of));
        }
    }
    Chart::Bars(bars.part("reads of blocks never accessed before", alone.iter().map(Vm::unavoidable)))
}
