//! Which property decides what ETICA gains: what follows from how the schemes work, beside what is measured.

use lode_papers::run::RunOptions;
use lode_papers::workload::Length;
use lode_papers::{Chart, Curve, ExperimentReport, Lines, Paper, experiments, run_experiments};

/// How far a measured share may be from the expected one: a tenth of the length has few accesses, and some are first ones.
const NEAR: f64 = 0.15;
/// SSD writes that rise are shares of few.
const NEAR_WRITES: f64 = 0.25;
/// So near half of overwrites an interval of a tenth of its length, which has few requests, may be on either side.
const BESIDE_HALF: f64 = 0.03;

fn measured() -> ExperimentReport {
    let chosen: Vec<_> =
        experiments().filter(|one| one.paper == Paper::Etica && one.figure == "property").collect();
    let options =
        RunOptions { length: Length::Tiny, traces: Default::default(), threads: 2, memory_bytes: 1 << 30 };
    let report = run_experiments(&chosen, None, options, &|_| {}, &|_, _| {}).expect("a run");
    report.experiments.into_iter().next().expect("the experiment")
}

fn curve<'a>(lines: &'a Lines, name: &str) -> &'a Curve {
    lines.series.iter().find(|curve| curve.name == name).unwrap_or_else(|| panic!("no curve '{name}'"))
}

fn is_beside_half(at: f64) -> bool {
    (at - 0.5).abs() < BESIDE_HALF
}

fn compare(lines: &Lines, what: &str, near: f64) {
    let measured = curve(lines, &format!("{what}, NPE"));
    let expected = curve(lines, &format!("{what}, NPE expected"));
    assert_eq!(measured.points.len(), expected.points.len());
    for (one, other) in measured.points.iter().zip(&expected.points) {
        if lines.x.label.starts_with("Overwrites") && is_beside_half(one.0) {
            continue;
        }
        let larger = one.1.abs().max(other.1.abs()).max(1.0);
        let off = (one.1 - other.1).abs() / larger;
        assert!(
            off <= near,
            "{}, {what} at {}: {} measured, {} expected",
            lines.title,
            one.0,
            one.1,
            other.1
        );
    }
}

#[test]
fn gains_follow_the_property_that_is_varied() {
    let report = measured();
    let lines: Vec<&Lines> = report
        .charts
        .iter()
        .filter_map(|chart| match chart {
            Chart::Lines(lines) => Some(lines),
            Chart::Bars(_) => None,
        })
        .collect();
    let [by_cold, by_writes, by_hot] = lines[..] else { panic!("three sweeps, not {}", lines.len()) };
    for lines in [by_cold, by_writes, by_hot] {
        compare(lines, "latency", NEAR);
        compare(lines, "SSD writes", NEAR_WRITES);
    }
    let gains =
        |lines: &Lines| curve(lines, "latency, NPE").points.iter().map(|point| point.1).collect::<Vec<_>>();
    let by_cold = gains(by_cold);
    assert!(by_cold.is_sorted_by(|fewer, more| fewer > more), "{by_cold:?}");
    assert!(by_cold[0] > 0.45 && by_cold[by_cold.len() - 1] < 0.10, "{by_cold:?}");
    let writes = curve(by_writes, "SSD writes, NPE");
    for (&(overwrites, fewer), gain) in writes.points.iter().zip(gains(by_writes)) {
        if !is_beside_half(overwrites) {
            let above = overwrites >= 0.5;
            assert_eq!((above, above), (gain > 0.45, fewer < 0.0), "at {overwrites}");
        }
    }
    let by_hot = gains(by_hot);
    assert!(by_hot[0] > 0.45 && by_hot[by_hot.len() - 1] < -1.0, "{by_hot:?}");
}

#[test]
fn no_reading_meets_both_goals_on_the_profiles() {
    let report = measured();
    let pairs = report.notes.iter().find(|note| note.contains("20 pairs")).expect("the note of readings");
    assert!(pairs.ends_with(", 0 both"), "{pairs}");
}
