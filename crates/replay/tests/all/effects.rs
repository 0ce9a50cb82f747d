//! What a replay counts of single effects, and how long requests with them take.

use lode_policy::{AccessSink, CopyReason, CopySource, Effect, Sink};
use lode_replay::{ServiceTimes, Tally};
use lode_types::{Access, Direction, Level, Origin};

/// Time of all requests so far.
fn latency_ns(tally: &Tally) -> u64 {
    let requests = tally.counters().requests;
    tally.mean_latency_us().map_or(0, |mean_us| (mean_us * requests as f64 * 1000.0).round() as u64)
}

fn request(tally: &mut Tally, op: Direction, parts: &[(u64, &[Effect])]) -> u64 {
    let before = latency_ns(tally);
    for &(block, effects) in parts {
        tally.begin_access(&Access { block, op, partial: false, origin: Origin::UNKNOWN });
        effects.iter().for_each(|&effect| tally.effect(effect));
    }
    tally.end_request(op);
    latency_ns(tally) - before
}

#[test]
fn a_request_takes_as_long_as_its_slowest_block() {
    let times = ServiceTimes::default();
    let mut tally = Tally::new(times);
    let dram = Effect::ReadLevel { level: Level::Dram, slot: 0 };
    let ssd = Effect::ReadLevel { level: Level::Ssd, slot: 0 };
    let ns = request(&mut tally, Direction::Read, &[(0, &[dram]), (1, &[ssd]), (2, &[dram])]);
    assert_eq!(ns, times.ssd_read_ns);
    assert_eq!(
        request(&mut tally, Direction::Read, &[(3, &[Effect::ReadBacking])]),
        times.backing.random_read.ns
    );
    assert_eq!(
        request(&mut tally, Direction::Read, &[(4, &[Effect::ReadBacking])]),
        times.backing.sequential_read.ns
    );
    assert_eq!(request(&mut tally, Direction::Read, &[(0, &[dram])]), times.dram_ns);
    assert_eq!((tally.read_requests(), tally.read_request_hits(), tally.counters().requests), (4, 2, 4));
}

#[test]
fn a_write_back_reads_the_mirror_where_there_is_one() {
    let mut tally = Tally::new(ServiceTimes::default());
    let evict = |level, block, dirty| Effect::Evict { level, slot: 0, block, dirty };
    let effects = [
        evict(Level::Ssd, 1, true),
        evict(Level::ReadSsd, 1, false),
        evict(Level::Ssd, 2, true),
        evict(Level::ReadSsd, 3, false),
        evict(Level::Ssd, 4, false),
        evict(Level::ReadSsd, 4, false),
    ];
    request(&mut tally, Direction::Read, &[(0, &effects)]);
    let from = CopySource::Level { level: Level::Dram, slot: 0 };
    let reason = CopyReason::Move;
    let copy = Effect::Copy { to: Level::ReadSsd, slot: 0, block: 5, from, reason };
    request(&mut tally, Direction::Read, &[(0, &[copy])]);
    let done = tally.operations();
    assert_eq!((done.ssd_reads, done.read_ssd_reads, done.backing_writes), (1, 1, 2));
    assert_eq!((done.dram_reads, done.read_ssd_writes, done.ssd_writes), (1, 1, 0));
    // From DRAM where the second copy is there; not when it comes and goes later.
    request(
        &mut tally,
        Direction::Write,
        &[
            (0, &[evict(Level::Ssd, 6, true), evict(Level::Dram, 6, false)]),
            (0, &[evict(Level::Ssd, 7, true)]),
            (0, &[evict(Level::Dram, 7, false), evict(Level::ReadSsd, 7, false)]),
        ],
    );
    let done = tally.operations();
    assert_eq!((done.ssd_reads, done.read_ssd_reads, done.dram_reads), (2, 1, 2));
}

#[test]
fn a_write_waits_for_every_place_and_for_its_merge() {
    let times = ServiceTimes::default();
    let mut tally = Tally::new(times);
    let write = Effect::WriteLevel { level: Level::Ssd, slot: 0, hit: true, dirty: true };
    let merge = Effect::MergeLevel { level: Level::Ssd, slot: 0 };
    let evict = Effect::Evict { level: Level::Ssd, slot: 1, block: 9, dirty: true };
    assert_eq!(request(&mut tally, Direction::Write, &[(0, &[evict, write])]), times.ssd_write_ns);
    let merged = request(&mut tally, Direction::Write, &[(0, &[merge, write])]);
    assert_eq!(merged, times.ssd_read_ns + times.ssd_write_ns);
    let both = request(&mut tally, Direction::Write, &[(5, &[write, Effect::WriteBacking])]);
    assert_eq!(both, times.backing.random_read.ns);
    // The write-back above did not move the head, the write to the backing disk did.
    let next = request(&mut tally, Direction::Write, &[(6, &[Effect::WriteBacking])]);
    assert_eq!(next, times.backing.sequential_read.ns);
    assert_eq!((tally.read_requests(), tally.counters().requests), (0, 4));
}
