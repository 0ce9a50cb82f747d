//! What the response time of TICA-A beside uCache-like hangs on: settings of its controllers, sizes, and the share of reads.

use lode_draw::Unit;

use super::{Kind, job_of, place};
use crate::chart::{Bars, Chart, Lines, Scale};
use crate::claim::Shown;
use crate::experiment::{Experiment, Finding, mean, ratio};
use crate::job::{Job, Replay, Scheme, Size};
use crate::measures::latency_us;
use crate::paper::Paper;
use crate::run::Results;
use crate::workload::{OTHER_READS, TICA, Workload};

/// A sweep.
pub(super) const SWEEP: Experiment = Experiment {
    paper: Paper::Tica,
    figure: "response",
    title: "what TICA-A's response time hangs on",
    ran: "Nothing: the paper has one setting of each, and leaves some of them open",
    here: &[
        "Response time of TICA-A to that of uCache-like, mean of six workloads: one setting at a time, then sizes, then two workloads with \
         other shares of reads",
        "The goal is 0.95 or less",
    ],
    claims: &[],
    jobs,
    measure,
};

/// Those that the paper speaks of by name.
const WORKLOADS: [&str; 6] = ["TPCC", "Webserver", "DevToolRel", "Ts_0", "Usr_0", "Hm_1"];

/// At most so much of uCache-like's, which is the goal of Fig. 11.
const GOAL: f64 = 0.95;

/// Settings of TICA-A, one or two at a time; none: its defaults.
const SETTINGS: [&[(&str, &str)]; 20] = [
    &[],
    &[("t_min", "0.01")],
    &[("t_min", "0.05")],
    &[("t_min", "0.3")],
    &[("t_max", "0.1")],
    &[("t_max", "0.5")],
    &[("t_max", "1")],
    &[("t_min", "0.01"), ("t_max", "1")],
    &[("t_hdd", "0.05")],
    &[("t_hdd", "0.5")],
    &[("t_read", "0.05")],
    &[("t_read", "0.5")],
    &[("t_hdd", "0.05"), ("t_read", "0.05")],
    &[("identifier", "printed")],
    &[("state_machine", "printed")],
    &[("identifier", "printed"), ("state_machine", "printed")],
    &[("steps", "1")],
    &[("write_percent", "5")],
    &[("write_percent", "75")],
    &[("copy_rate", "0")],
];

/// Ten-thousandths of the blocks touched.
const DRAM: [u32; 5] = [10, 25, 100, 300, 1_000];
const SSD: [u32; 5] = [250, 500, 1_000, 2_000, 4_000];
const OWN_DRAM: u32 = 100;
const OWN_SSD: u32 = 1_000;

fn sized(workload: &'static Workload, kind: Kind, dram: u32, ssd: u32) -> Replay {
    job_of(workload, kind, Size::OfTouched(dram), Size::OfTouched(ssd))
}

fn workload(name: &str) -> &'static Workload {
    &TICA[place(name)]
}

/// TICA-A with these settings.
fn with(workload: &'static Workload, settings: &[(&'static str, &'static str)]) -> Replay {
    let own = sized(workload, Kind::Adaptive, OWN_DRAM, OWN_SSD);
    let set = |scheme: Scheme, &(key, value): &(&'static str, &'static str)| scheme.set(key, value);
    Replay { scheme: settings.iter().fold(own.scheme.clone(), set), ..own }
}

fn sizes() -> impl Iterator<Item = (u32, u32)> {
    DRAM.map(|dram| (dram, OWN_SSD)).into_iter().chain(SSD.map(|ssd| (OWN_DRAM, ssd)))
}

/// Beside it: the schemes that it chooses between, as far as a reading may be nearer to one of them.
const BESIDE: [(&str, Kind); 3] =
    [("TICA-A", Kind::Adaptive), ("TICA-EF", Kind::Ef), ("TICA-WED", Kind::Wed)];

fn jobs() -> Vec<Job> {
    let mut jobs = Vec::new();
    for name in WORKLOADS {
        jobs.extend(SETTINGS.map(|settings| with(workload(name), settings)));
        for (dram, ssd) in sizes() {
            let kinds = BESIDE.map(|(_, kind)| kind).into_iter().chain([Kind::UCache]);
            jobs.extend(kinds.map(|kind| sized(workload(name), kind, dram, ssd)));
        }
    }
    for workload in OTHER_READS.iter().flatten() {
        jobs.extend([Kind::Adaptive, Kind::UCache].map(|kind| sized(workload, kind, OWN_DRAM, OWN_SSD)));
    }
    jobs.into_iter().map(Job::Replay).collect()
}

/// A setting as a row.
fn name(settings: &[(&str, &str)]) -> String {
    match settings {
        [] => "as committed".to_owned(),
        _ => settings.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", "),
    }
}

fn measure(results: &Results) -> Finding {
    let us = |job: &Replay| latency_us(results.replay(job));
    let base = |name: &str, dram, ssd| us(&sized(workload(name), Kind::UCache, dram, ssd));
    let by_setting = SETTINGS.map(|settings| {
        let of = |name| ratio(us(&with(workload(name), settings)), base(name, OWN_DRAM, OWN_SSD));
        (name(settings), mean(WORKLOADS.map(of)))
    });
    let by_size = |kind, dram, ssd| {
        mean(WORKLOADS.map(|name| ratio(us(&sized(workload(name), kind, dram, ssd)), base(name, dram, ssd))))
    };
    let by_reads = |one: &'static Workload| {
        let of = |kind| us(&sized(one, kind, OWN_DRAM, OWN_SSD));
        ratio(of(Kind::Adaptive), of(Kind::UCache))
    };
    // What is committed is not tried.
    let others = SETTINGS.iter().zip(&by_setting).filter(|(settings, _)| !settings.is_empty());
    let mut tried: Vec<(String, Option<f64>)> = others.map(|(_, of_settings)| of_settings.clone()).collect();
    let percent = |part: u32| f64::from(part) / 100.0;
    tried.extend(sizes().filter(|size| *size != (OWN_DRAM, OWN_SSD)).map(|(dram, ssd)| {
        let name = format!("DRAM of {} % and SSDs of {} %", percent(dram), percent(ssd));
        (name, by_size(Kind::Adaptive, dram, ssd))
    }));
    tried.extend(OTHER_READS.iter().flatten().map(|one| (one.name.to_owned(), by_reads(one))));
    let mut found = Finding::default();
    found.note(in_short(&tried));
    let bars = Bars::new(
        "Response time by settings, of uCache-like's",
        Unit::Count,
        by_setting.iter().map(|(name, _)| name.clone()),
    );
    found.draw(Chart::Bars(bars.part("TICA-A", by_setting.iter().map(|(_, value)| *value))));
    let curves = |title: &str, x: &str, points: &[(u32, u32, u32)]| {
        let lines =
            Lines::new(title, Scale::log(x, Unit::Ratio), Scale::linear("Of uCache-like's", Unit::Count));
        Chart::Lines(BESIDE.iter().fold(lines, |lines, &(name, kind)| {
            let points =
                points.iter().map(|&(at, dram, ssd)| (f64::from(at) / 1e4, by_size(kind, dram, ssd)));
            lines.curve(name, points)
        }))
    };
    let by_ssd = SSD.map(|ssd| (ssd, OWN_DRAM, ssd));
    let by_dram = DRAM.map(|dram| (dram, dram, OWN_SSD));
    found.draw(curves("Response time by SSDs", "SSDs, of the blocks touched", &by_ssd));
    found.draw(curves("Response time by DRAM", "DRAM, of the blocks touched", &by_dram));
    let rows = OTHER_READS.iter().flatten();
    let bars =
        Bars::new("Response time by reads, of uCache-like's", Unit::Count, rows.clone().map(|one| one.name));
    found.draw(Chart::Bars(bars.part("TICA-A", rows.map(by_reads))));
    found
}

/// Which of them come to the goal, and which comes nearest.
fn in_short(tried: &[(String, Option<f64>)]) -> String {
    let known: Vec<(&str, f64)> =
        tried.iter().filter_map(|(name, value)| Some((name.as_str(), (*value)?))).collect();
    let met: Vec<String> = known
        .iter()
        .filter(|(_, value)| *value <= GOAL)
        .map(|(name, value)| format!("{name} ({})", Shown::Times.text(Some(*value))))
        .collect();
    let best = known.iter().min_by(|(_, one), (_, other)| one.total_cmp(other));
    match (met.is_empty(), best) {
        (true, Some((name, value))) => format!(
            "None of {} other settings, sizes and shares of reads comes to the goal; nearest is {name}, with {}",
            known.len(),
            Shown::Times.text(Some(*value))
        ),
        _ => format!(
            "Of {} other settings, sizes and shares of reads than those that are committed, these come to the goal: {}",
            known.len(),
            met.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use lode_policy::SchemeInfo;

    use super::*;

    #[test]
    fn settings_are_those_of_the_scheme() {
        for settings in SETTINGS {
            let mut of_scheme = SchemeInfo::find("tica-adaptive").expect("a scheme").settings();
            settings.iter().for_each(|(key, value)| of_scheme.set(key, value).expect("a setting"));
        }
    }

    #[test]
    fn what_comes_to_the_goal_is_named() {
        let tried = |value| vec![("one".to_owned(), Some(1.02)), ("two".to_owned(), Some(value))];
        let missed = in_short(&tried(0.97));
        assert!(
            missed.starts_with("None of 2 other") && missed.contains("nearest is two, with 0.97 x"),
            "{missed}"
        );
        let met = in_short(&tried(0.94));
        assert!(met.ends_with("these come to the goal: two (0.94 x)"), "{met}");
    }
}
