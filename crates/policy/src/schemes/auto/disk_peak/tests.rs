//! Intervals on clocks of all kinds, and what work in them counts for.

use super::*;
use crate::registry::SchemeInfo;

const S: u64 = 1_000_000_000;

fn peak(interval_s: u64) -> DiskPeak {
    let mut settings = SchemeInfo::find("auto").unwrap().settings();
    settings.set("disk_peak_weight", "1").unwrap();
    settings.set("disk_peak_interval_s", &interval_s.to_string()).unwrap();
    DiskPeak::new(&settings).unwrap()
}

#[test]
fn nothing_is_counted_without_a_weight() {
    assert!(DiskPeak::new(&SchemeInfo::find("auto").unwrap().settings()).is_none());
}

/// At which of these seconds an interval of 10 s begins after the first.
fn begin(times_s: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut peak = peak(10);
    times_s.into_iter().filter(|&s| peak.begins_with(s.saturating_mul(S))).collect()
}

#[test]
fn intervals_begin_with_requests() {
    assert_eq!(begin([7, 8, 16, 17, 18, 26, 27]), [17, 27]);
    // A pause is one interval's.
    assert_eq!(begin([0, 5, 1000, 1001, 1009, 1010]), [1000, 1010]);
    assert_eq!(begin([3; 1000]), []);
}

#[test]
fn stray_times_end_one_interval_at_most() {
    let far = 18_000_000_000;
    assert_eq!(begin((0..5).chain([far]).chain(5..40)), [far, 15, 25, 35]);
    assert_eq!(begin([far].into_iter().chain(0..30)), [10, 20]);
    // What is a little behind is in the interval under way, and time stands still for it.
    assert_eq!(begin((100..105).chain([98, 97, 99]).chain(105..125)), [110, 120]);
    // So it is with one far behind; of two it is the time before that was astray.
    assert_eq!(begin((100..105).chain([0]).chain(105..125)), [110, 120]);
    assert_eq!(begin((100..105).chain(0..20)), [6, 16]);
    // To and fro: no interval in which nothing could be seen.
    let to_and_fro = (0..100).map(|at| if at % 2 == 0 { 0 } else { far });
    assert!(begin(to_and_fro).len() <= 50);
}

#[test]
fn rests_do_not_pass() {
    let mut peak = peak(10);
    let found: Vec<u64> = [0, 6, 1000, 1003, 1004, 5000, 5009, 5010]
        .into_iter()
        .filter(|&s| {
            if s % 1000 == 0 {
                peak.rest();
            }
            peak.begins_with(s * S)
        })
        .collect();
    assert_eq!(found, [1004, 5010]);
}

/// What the work of each interval counts for, by shadow.
fn counted(peak: &mut DiskPeak, intervals: &[&[f64]]) -> Vec<Vec<f64>> {
    let of_interval = |works: &&[f64]| {
        let scale_us = peak.scale_us(works.iter().sum::<f64>() / works.len() as f64, true);
        let count = |&us: &f64| {
            let mut work = Work::default();
            work.add(us);
            work.count(scale_us)
        };
        works.iter().map(count).collect()
    };
    intervals.iter().map(of_interval).collect()
}

#[test]
fn work_counts_with_how_busy_the_disks_are() {
    let found =
        counted(&mut peak(1), &[&[80.0, 80.0], &[40.0, 40.0], &[80.0, 0.0], &[160.0, 160.0], &[0.0, 0.0]]);
    let close = |one: f64, other: f64| assert!((one - other).abs() <= 0.02 * other, "{one} {other}");
    close(found[0][0], 80.0);
    close(found[1][0], 40.0 / 8.0);
    close(found[2][0], 80.0);
    assert_eq!(found[2][1], 0.0);
    close(found[3][0], 160.0);
    assert_eq!(found[4], [0.0, 0.0]);
}

/// One storm is forgotten, and idle times and the largest numbers lead to none that is not finite.
#[test]
fn the_busiest_interval_fades() {
    let mut peak = peak(1);
    counted(&mut peak, &[&[1e30]]);
    let mut last = 0.0;
    for _ in 0..1420 {
        last = counted(&mut peak, &[&[1e29]])[0][0];
    }
    let expected = 1e29 * (0.1_f64 * 4.0).powi(3);
    assert!((last / expected - 1.0).abs() < 0.02, "{last} {expected}");
    for _ in 0..2_000_000 {
        peak.scale_us(0.0, true);
    }
    let one = counted(&mut peak, &[&[f64::MIN_POSITIVE, 0.0], &[1.0, 0.0]]);
    assert!(one.iter().flatten().all(|us| us.is_finite()), "{one:?}");
    assert_eq!(one[1], [8.0, 0.0]);
}

/// Looks within an interval change nothing of what counts in all.
#[test]
fn counts_within_an_interval_add_up() {
    let scale_us = 1e6;
    let (mut whole, mut parts, mut sum) = (Work::default(), Work::default(), 0.0);
    for at in 0..1000 {
        let us = f64::from(at % 7) * 300.0;
        whole.add(us);
        parts.add(us);
        if at % 3 == 0 {
            sum += parts.count(scale_us);
        }
    }
    sum += parts.count(scale_us);
    let all = whole.count(scale_us);
    assert!((sum / all - 1.0).abs() < 1e-12, "{sum} {all}");
    assert_eq!(all, (whole.us() / scale_us).powi(3) * whole.us());
    assert_eq!((whole.count(scale_us), Work::default().count(0.0)), (0.0, 0.0));
}
