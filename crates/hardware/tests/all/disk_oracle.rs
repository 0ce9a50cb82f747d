//! A disk with an arm against a slow one that is written in bytes, milliseconds and revolutions.

use lode_hardware::{Arm, Backing, BackingTimes, Disk, Host, Raid};
use proptest::prelude::*;

/// A host whose backing is an array of disks with these figures.
fn backing(raid: &str, disks: u32, seeks: [f64; 3], rpm: f64, span: &str) -> Backing {
    let [track, mean, full] = seeks;
    let text = format!(
        "[hdd.h]\nabout = ''\nsource = ''\nrpm = {rpm:.1}\nseek_track_us = {track:?}\nseek_mean_us = {mean:?}\n\
         seek_full_us = {full:?}\ntransfer_mb_per_s = 200.0\noverhead_us = 100.0\ncapacity_gb = 1000.0\n\
         active_w = 8.0\nidle_w = 5.0\nusd_per_gb = 0.03\n\
         [backing.b]\nabout = ''\nsource = ''\nraid = '{raid}'\ndisks = {disks}\ndisk = 'h'\n{span}\n\
         [host.x]\nabout = ''\nsource = ''\ndram = 'ddr4'\nssd = 'sata'\nbacking = 'b'\n"
    );
    Host::parse(&text).expect("a profile").backing
}

struct Oracle {
    data_disks: f64,
    passes: f64,
    /// Where the next byte of the array comes under the heads; nowhere before the first command.
    head_byte: Option<f64>,
    seeks_ms: [f64; 3],
    turn_ms: f64,
}

impl Oracle {
    const BLOCK: f64 = 4096.0;
    const CAPACITY: f64 = 1e12;
    const BYTES_PER_MS: f64 = 200e3;

    /// The curve through the three seeks, found by trying: `track + root*sqrt(x) + (full-track-root)*x` for the root
    /// that gives the mean.
    fn seek_ms(&self, x: f64) -> f64 {
        let [track, mean, full] = self.seeks_ms;
        let curve = |root: f64, x: f64| track + root * x.sqrt() + (full - track - root) * x;
        // Means are linear in the root.
        let at = |root| mean_of(|x| curve(root, x));
        let root = (mean - at(0.0)) / (at(1.0) - at(0.0));
        curve(root, x)
    }

    fn time_ms(&mut self, block: u64, is_write: bool) -> f64 {
        let start = block as f64 * Oracle::BLOCK;
        let head = self.head_byte.replace(start + Oracle::BLOCK);
        let one_disk = Oracle::BLOCK / Oracle::BYTES_PER_MS;
        if head == Some(start) {
            return 0.1 + one_disk / self.data_disks;
        }
        let anywhere = self.seeks_ms[1] + self.turn_ms / 2.0;
        let positioning = match head {
            None => anywhere,
            Some(head) => {
                // On one member of the array, whose share of the distance this is.
                let far = (start - head).abs() / self.data_disks;
                if far >= (Oracle::CAPACITY / Oracle::BLOCK).floor() * Oracle::BLOCK {
                    anywhere
                } else if start + Oracle::BLOCK == head {
                    self.turn_ms
                } else {
                    let sought = self.seek_ms(far / Oracle::CAPACITY) + self.turn_ms / 2.0;
                    if start > head { sought.min(far / Oracle::BYTES_PER_MS) } else { sought }
                }
            }
        };
        (if is_write { self.passes } else { 1.0 }) * (positioning + 0.1 + one_disk)
    }
}

/// Mean over the distances of two places that are equally likely anywhere, by adding up many.
fn mean_of(curve: impl Fn(f64) -> f64) -> f64 {
    const STEPS: usize = 20_000;
    let places = (0..STEPS).map(|step| (step as f64 + 0.5) / STEPS as f64);
    places.map(|x| curve(x) * 2.0 * (1.0 - x)).sum::<f64>() / STEPS as f64
}

fn arrays() -> impl Strategy<Value = (&'static str, u32, f64, f64)> {
    proptest::sample::select(vec![
        ("none", 1, 1.0, 1.0),
        ("raid5", 6, 5.0, 2.0),
        ("raid6", 8, 6.0, 2.0),
        ("raid10", 4, 2.0, 1.0),
    ])
}

/// Blocks of an array of up to six disks of data, near each other or far apart, and some beyond any disk.
fn blocks() -> impl Strategy<Value = Vec<(u64, bool)>> {
    let near = 0u64..50;
    let far = 0u64..1_400_000_000;
    let other_volume = (1u64 << 44)..(1 << 44) + 20;
    let block = prop_oneof![4 => near, 4 => far, 1 => other_volume];
    let step = prop_oneof![3 => Just(None), 1 => (-3i64..40).prop_map(Some)];
    proptest::collection::vec((block, step, any::<bool>()), 1..12).prop_map(|parts| {
        let mut last = 0u64;
        parts
            .into_iter()
            .map(|(block, step, is_write)| {
                last = step.map_or(block, |step| last.saturating_add_signed(step));
                (last, is_write)
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn the_disk_takes_the_time_that_a_slow_one_takes(
        (raid, disks, data_disks, passes) in arrays(),
        track in 200.0f64..1000.0,
        full in 2000.0f64..20_000.0,
        place in 0.0f64..1.0,
        rpm in 5000.0f64..15_000.0,
        blocks in blocks(),
    ) {
        let rise = full - track;
        let mean = track + rise * (1.0 / 3.0 + place * 0.4 * 0.999 + 0.0002);
        let rpm = (rpm * 10.0).round() / 10.0;
        let backing = backing(raid, disks, [track, mean, full], rpm, "");
        prop_assert_eq!(f64::from(backing.data_disks()), data_disks);
        let times = backing.times(4096);
        let mut disk = Disk::default();
        let seeks_ms = [track / 1e3, mean / 1e3, full / 1e3];
        let mut oracle = Oracle { data_disks, passes, head_byte: None, seeks_ms, turn_ms: 60_000.0 / rpm };
        for (block, is_write) in blocks {
            let found =
                if is_write { disk.write_ns(block, &times) } else { disk.read_ns(block, &times) };
            let expected = oracle.time_ms(block, is_write) * 1e6;
            // A microsecond: the oracle's curve is found by sums.
            prop_assert!((found as f64 - expected).abs() < 1000.0, "{} {} {}", block, found, expected);
        }
    }
}

fn arm(times: &BackingTimes) -> &Arm {
    times.arm.as_ref().expect("the disks have arms")
}

/// What the mean says must be what reads all over the span take.
#[test]
fn the_mean_is_that_of_places_all_over_the_span() {
    for (span, share) in [("", 1.0), ("span_gb = 1000.0", 0.2), ("span_gb = 50.0", 0.01)] {
        let times = backing("raid5", 6, [500.0, 8500.0, 16_000.0], 7200.0, span).times(4096);
        let blocks = (share * 5e12 / 4096.0) as u64;
        const PLACES: u64 = 400;
        let place = |i: u64| blocks * (2 * i + 1) / (2 * PLACES);
        let mut sum = 0.0;
        for from in (0..PLACES).map(place) {
            // Behind the head, so that nothing is passed over; both directions seek alike.
            let ns: f64 = (0..PLACES)
                .map(place)
                .map(|to| arm(&times).positioning_ns(Some(from.max(to) + 2), from.min(to)))
                .sum();
            sum += ns;
        }
        let (found, mean) = (sum / (PLACES * PLACES) as f64, arm(&times).positioning_ns(None, 0));
        assert!((found / mean - 1.0).abs() < 0.01, "{span}: {found} {mean}");
        // Reads also transfer and pay the controller.
        let read_ns = mean + 100_000.0 + 4096.0 / 200.0 * 1000.0;
        assert!((times.random_read.ns as f64 - read_ns).abs() < 2.0, "{} {read_ns}", times.random_read.ns);
    }
}

#[test]
fn short_strokes_are_short() {
    let random_ns =
        |span: &str| backing("none", 1, [500.0, 8500.0, 16_000.0], 7200.0, span).times(4096).random_read.ns;
    let all = random_ns("");
    assert_eq!(all, random_ns("span_gb = 1000.0"));
    assert_eq!(all, random_ns("span_gb = 5000.0"));
    let tenth = random_ns("span_gb = 100.0");
    let hundredth = random_ns("span_gb = 10.0");
    assert!(hundredth < tenth && tenth < all, "{hundredth} {tenth} {all}");
    // Never below half a revolution, one track, the controller and the transfer.
    assert!(hundredth > 4_166_666 + 500_000 + 100_000 + 20_480);
}

#[test]
fn writes_are_never_cheaper_than_reads() {
    for (raid, disks) in [("none", 1), ("raid5", 3), ("raid6", 4), ("raid10", 4)] {
        let backing = backing(raid, disks, [500.0, 8500.0, 16_000.0], 7200.0, "");
        let times = backing.times(4096);
        assert!(times.random_write.ns >= times.random_read.ns, "{raid}");
        let work = |reads, writes| times.random_work_ns(reads, writes);
        assert!(work(0, 1) >= work(1, 0), "{raid}");
        let penalty = work(0, 100) as f64 / work(100, 0) as f64;
        let expected = f64::from(backing.raid.small_write_accesses());
        assert!((penalty - expected).abs() < 1e-3, "{raid} {penalty}");
        assert_eq!(backing.raid == Raid::None, disks == 1);
    }
}
