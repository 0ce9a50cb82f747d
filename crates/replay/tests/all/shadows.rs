//! What the shadows of `auto` reckon is what a replay reckons of the same decisions: latency, disk time and SSD writes.

use lode_policy::{AccessSink, Decision, NullSink, Quota, Scheme, SchemeInfo, Settings, build};
use lode_replay::{ServiceTimes, Tally};
use lode_types::{Access, Direction, Rng};

const REQUESTS: u64 = 3000;
const QUOTA: Quota = Quota::new(20, 80);

fn settings(scheme: &str, pairs: &[(&str, &str)]) -> Settings {
    let mut settings = SchemeInfo::find(scheme).expect("a scheme").settings();
    pairs.iter().for_each(|(key, value)| settings.set(key, value).expect("a setting"));
    settings
}

/// One to four neighbours, some of them written in part; so many accesses in all.
fn requests(seed: u64) -> (Vec<Vec<Access>>, u64) {
    let mut rng = Rng::new(seed);
    let mut requests = Vec::new();
    let mut accesses = 0;
    for _ in 0..REQUESTS {
        let first = if rng.chance(60) { rng.below(60) } else { 1000 + rng.below(2000) };
        let (op, partial) =
            if rng.chance(50) { (Direction::Write, rng.chance(50)) } else { (Direction::Read, false) };
        let blocks = first..first + 1 + rng.below(4);
        accesses += blocks.end - blocks.start;
        requests.push(blocks.map(|block| Access { op, partial, ..Access::read(block) }).collect());
    }
    (requests, accesses)
}

/// The first choice, which is made at the end of all of them, if there is a better price.
fn choice(requests: &[Vec<Access>], accesses: u64) -> Option<Decision> {
    // The times of the default devices.
    let look = accesses.to_string();
    let eager = [("look_accesses", look.as_str()), ("set_percent", "0"), ("set_cost_percent", "0")];
    let same = [("switch_percent", "100"), ("disk_write_us", "8000")];
    let mut auto = build(&settings("auto", &[eager.as_slice(), &same].concat()), QUOTA, QUOTA);
    for request in requests {
        request.iter().for_each(|access| auto.access(*access, &mut NullSink));
        auto.end_request(0, &mut NullSink);
    }
    let decisions = auto.choosing().expect("it chooses").decisions();
    decisions.latest().next().cloned()
}

fn tally(candidate: &str, requests: &[Vec<Access>]) -> Tally {
    let (scheme, setting) = candidate.split_once(':').expect("with a setting");
    let (key, value) = setting.split_once('=').expect("one setting");
    let mut scheme = build(&settings(scheme, &[(key, value), ("disk_write_us", "8000")]), QUOTA, QUOTA);
    let mut tally = Tally::new(ServiceTimes::default());
    for request in requests {
        for access in request {
            tally.begin_access(access);
            scheme.access(*access, &mut tally);
        }
        scheme.end_request(0, &mut tally);
        tally.end_request(request[0].op);
    }
    tally
}

#[test]
fn shadows_reckon_as_a_replay_does() {
    let mut choices = 0;
    for seed in 0..8 {
        let (requests, accesses) = requests(seed);
        let Some(choice) = choice(&requests, accesses) else { continue };
        choices += 1;
        let own = (choice.from_latency_us, choice.from_disk_us, choice.from_ssd_writes);
        let new = (choice.to_latency_us, choice.to_disk_us, choice.to_ssd_writes);
        for (candidate, (latency_us, disk_us, ssd_writes)) in [(choice.from, own), (choice.to, new)] {
            let tally = tally(&candidate, &requests);
            let done = tally.operations();
            let each = |number: u64| number as f64 / REQUESTS as f64;
            let close = |shadow: Option<f64>, replay: f64| {
                (shadow.expect("measured") - replay).abs() < 1e-6 * replay.max(1.0)
            };
            assert!(close(latency_us, tally.mean_latency_us().expect("requests")), "{candidate}: latency");
            let work_us = each(done.backing_work_ns.expect("a disk")) / 1e3;
            assert!(close(disk_us, work_us), "{candidate}: {disk_us:?} of the disk, and {work_us}");
            assert!(close(ssd_writes, each(done.ssd_writes)), "{candidate}: SSD writes");
        }
    }
    assert!(choices >= 4, "{choices} choices");
}
