//! A budget of SSD writes that all VMs of a replay have together.

use lode_policy::{AnyScheme, Quota, SchemeInfo, build};
use lode_replay::{Driver, Host, Options, ReplayError, Report, replay};
use lode_trace::{Merge, MergeOptions, ReadOptions, read_trace};
use lode_types::{BlockSize, Origin, RequestOp, Rng, TraceRequest};

const NS_PER_S: u64 = 1_000_000_000;
const HOURS: u64 = 2;
const TENTHS: usize = 10;
const VMS: u64 = 3;
const BLOCK: BlockSize = BlockSize::KIB_4;
const QUOTA: Quota = Quota::new(400, 1600);

/// Requests of a VM that asks all the time, of one that asks for ten minutes of each twenty, and of one that comes after half an hour and asks
/// for little, by time.
fn requests() -> Vec<(u32, TraceRequest)> {
    let mut rng = Rng::new(11);
    let mut requests = Vec::new();
    for s in 0..HOURS * 3600 {
        for vm in 0..VMS {
            let rate = match vm {
                0 => 4,
                1 => 6 * (s / 600 % 2),
                _ => u64::from(s >= 1800 && s % 4 == 0),
            };
            for _ in 0..rate {
                let near = rng.below(3) > 0;
                let block = 8 * rng.below(if near { 300 } else { 20_000 });
                let op = if rng.below(2) == 0 { RequestOp::Read } else { RequestOp::Write };
                let request = TraceRequest {
                    time_ns: s * NS_PER_S,
                    volume: 0,
                    op,
                    offset_bytes: BLOCK.start_of(block),
                    length_bytes: 8 * BLOCK.bytes() as u32,
                    origin: Origin::UNKNOWN,
                };
                requests.push((vm as u32, request));
            }
        }
    }
    requests
}

/// Blocks that each VM wrote to the SSD in each tenth of the time.
fn written(scheme: &str, daily_blocks: Option<f64>) -> Vec<Vec<u64>> {
    let settings = SchemeInfo::find(scheme).expect("a scheme").settings().for_blocks(BLOCK);
    let times = Host::find("default").expect("a host").service_times(BLOCK);
    let whole = QUOTA.map(|_, blocks| blocks * VMS as u32);
    let own = settings.clone();
    let make = move |_| build(&own, whole, QUOTA);
    let mut driver: Driver<AnyScheme> = Driver::new(&settings, whole, BLOCK, times, 2, make);
    if let Some(blocks) = daily_blocks {
        driver = driver.with_daily_budget(blocks);
    }
    let (mut tenths, mut before) = (Vec::new(), [0; VMS as usize]);
    let mut end_tenth = |driver: &mut Driver<AnyScheme>| {
        driver.finish();
        let sums = driver.outcomes().map(|outcome| outcome.tally.counters().ssd_writes.total());
        let new = sums.zip(&mut before).map(|(sum, before)| sum - std::mem::replace(before, sum));
        tenths.push(new.collect::<Vec<u64>>());
    };
    let length_ns = HOURS * 3600 * NS_PER_S / TENTHS as u64;
    let mut end_ns = length_ns;
    for (vm, request) in requests() {
        if request.time_ns >= end_ns {
            end_tenth(&mut driver);
            end_ns += length_ns;
        }
        driver.push(vm, &request).expect("one volume for each VM");
    }
    end_tenth(&mut driver);
    assert_eq!(tenths.len(), TENTHS);
    tenths
}

#[test]
fn vms_hold_to_it_together() {
    for scheme in ["auto", "benefit-density"] {
        let sum = |tenths: &[Vec<u64>]| tenths.iter().flatten().sum::<u64>();
        let free = sum(&written(scheme, None));
        let allowed = free / 2;
        let tenths = written(scheme, Some(allowed as f64 * 24.0 / HOURS as f64));
        let most = tenths.iter().map(|vms| vms.iter().sum::<u64>()).max().expect("ten");
        assert!(
            most * 100 <= allowed * 102 / 10 + 100 * 8,
            "{scheme}: {most} of {} in a tenth: {tenths:?}",
            allowed / 10
        );
        // One of them rests half of the time, one wants little, and what they do not want the first has: with fixed thirds, less than
        // two could be used.
        assert!(sum(&tenths) * 100 >= allowed * 72, "{scheme}: {} of {allowed} used", sum(&tenths));
        let late: u64 = tenths.iter().filter_map(|vms| vms.get(2)).sum();
        assert!(late > 0, "{scheme}: a VM that comes late has its part");
    }
}

fn replayed(scheme: &str, daily_ssd_bytes: Option<u64>, text: &str) -> Result<Report, ReplayError> {
    let settings = SchemeInfo::find(scheme).expect("a scheme").settings();
    let host = Host::find("default").expect("a host");
    let physical = if scheme == "lru" { Quota::new(0, 64) } else { Quota::new(16, 64) };
    let options = Options { settings, physical, block_size: BLOCK, host, shares: None, daily_ssd_bytes };
    let reader = read_trace(std::io::Cursor::new(text.to_owned().into_bytes()), "t", &ReadOptions::default());
    let merge = Merge::new(vec![reader.expect("a trace")], MergeOptions::default()).expect("a merge");
    replay(merge, &options, Some(1), &mut |_, _| {})
}

#[test]
fn it_needs_a_scheme_that_holds_to_it() {
    let refused =
        replayed("lru", Some(1 << 20), "fio version 3 iolog\n0 a read 0 4096\n").expect_err("refused");
    let told = refused.to_string();
    assert!(told.contains("'lru'") && told.contains("auto") && told.contains("--ssd-writes"), "{told}");
}

#[test]
fn one_that_was_not_kept_is_told() {
    // 64 blocks a minute for an hour, of which a budget of a block a day lets none be written.
    let mut text = "fio version 3 iolog\n".to_owned();
    (0..3600).for_each(|s| text += &format!("{} a write {} 4096\n", s * 1000, s % 64 * 4096));
    let report = replayed("auto", Some(4096), &text).expect("a report");
    assert_eq!(report.ssd_write_budget_bytes_per_day, Some(4096));
    assert!(report.total.counters.ssd_writes.total <= 2, "{}", report.total.counters.ssd_writes.total);
    let free = replayed("auto", None, &text).expect("a report");
    assert!(free.total.counters.ssd_writes.total > 1000 && free.ssd_write_budget_bytes_per_day.is_none());
}
