//! What two levels serve that hold each block once, beside caches that are followed block by block.

use lode_reuse::{Behind, Curve, CurveKind, Method, Profiler};
use lode_types::{BlockNo, Direction};
use proptest::prelude::*;

type Access = (Direction, BlockNo);

fn curve(kind: CurveKind, stream: &[Access]) -> Curve {
    let mut profiler = Profiler::new(kind, Method::Exact, 0).expect("in range");
    profiler.access_all(stream).expect("few blocks");
    profiler.curve()
}

/// Takes a block out of a list, most recent last.
fn take(list: &mut Vec<BlockNo>, block: BlockNo) -> bool {
    list.iter().position(|&held| held == block).map(|at| list.remove(at)).is_some()
}

/// Read hits of an LRU cache of so many blocks that keeps whatever is accessed; `only_reads`: that keeps no block beyond a write.
fn alone(stream: &[Access], blocks: u64, only_reads: bool) -> u64 {
    let (mut cache, mut hits) = (Vec::new(), 0);
    for &(op, block) in stream {
        let is_held = take(&mut cache, block);
        hits += u64::from(is_held && op == Direction::Read);
        if op == Direction::Read || !only_reads {
            cache.push(block);
        }
        if cache.len() as u64 > blocks {
            cache.remove(0);
        }
    }
    hits
}

/// Read hits of both levels: what is read goes to the first; what leaves it, and what is written, to the second, which keeps what
/// was accessed last.
fn in_turn(stream: &[Access], first_blocks: u64, second_blocks: u64) -> (u64, u64) {
    let (mut first, mut second): (Vec<BlockNo>, Vec<(usize, BlockNo)>) = (Vec::new(), Vec::new());
    let mut last_access = std::collections::HashMap::new();
    let mut hits = (0, 0);
    for (time, &(op, block)) in stream.iter().enumerate() {
        let was_first = take(&mut first, block);
        let was_second = second.iter().position(|held| held.1 == block).map(|at| second.remove(at)).is_some();
        last_access.insert(block, time);
        if op == Direction::Read {
            hits.0 += u64::from(was_first);
            hits.1 += u64::from(was_second);
            first.push(block);
        } else {
            second.push((time, block));
        }
        if first.len() as u64 > first_blocks {
            let left = first.remove(0);
            second.push((last_access[&left], left));
        }
        second.sort_unstable();
        if second.len() as u64 > second_blocks {
            second.remove(0);
        }
    }
    hits
}

fn streams(write_part: u32) -> impl Strategy<Value = Vec<Access>> {
    let op = prop_oneof![
        4 => Just(Direction::Read),
        write_part => Just(Direction::Write),
    ];
    prop::collection::vec((op, 0u64..14), 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Of reads alone it is what the levels serve, to the last hit.
    #[test]
    fn reads_are_exact(blocks in prop::collection::vec(0u64..14, 0..120)) {
        let stream: Vec<Access> = blocks.into_iter().map(|block| (Direction::Read, block)).collect();
        let (ro, wb) = (curve(CurveKind::Ro, &stream), curve(CurveKind::Wb, &stream));
        let both = Behind { ro: &ro, wb: &wb };
        for first in 0..16 {
            for second in 0..16 {
                prop_assert_eq!(both.hits(first, second), in_turn(&stream, first, second), "{} {}", first, second);
            }
        }
    }

    /// With writes it is what the module's documentation says, by caches of each kind; more of either level never serves fewer,
    /// and the curve behind each first level has the hits of every size.
    #[test]
    fn writes_take_blocks_from_the_first_level(stream in streams(4)) {
        let (ro, wb) = (curve(CurveKind::Ro, &stream), curve(CurveKind::Wb, &stream));
        let both = Behind { ro: &ro, wb: &wb };
        let sum = |hits: (u64, u64)| hits.0 + hits.1;
        for first in 0..16 {
            let behind = both.curve(first);
            let points = behind.points();
            prop_assert!(points.windows(2).all(|w| w[0].size_blocks < w[1].size_blocks && w[0].hits < w[1].hits));
            for second in 0..16 {
                let served = alone(&stream, first, true);
                let all = alone(&stream, first + second, false);
                let most = alone(&stream, first + second, true) + alone(&stream, second, false);
                let expected = (served, all.min(most).saturating_sub(served));
                prop_assert_eq!(both.hits(first, second), expected, "{} {}", first, second);
                prop_assert_eq!(behind.hits_at(second), expected.1, "{} {}", first, second);
                prop_assert!(sum(both.hits(first + 1, second)) >= sum(expected));
                prop_assert!(sum(both.hits(first, second + 1)) >= sum(expected));
            }
            prop_assert_eq!(both.hits(first, 0).1, 0);
        }
    }

    /// Few writes make little difference between that and levels that are followed block by block.
    #[test]
    fn a_few_writes_leave_it_close(stream in streams(1)) {
        let (ro, wb) = (curve(CurveKind::Ro, &stream), curve(CurveKind::Wb, &stream));
        let writes = stream.iter().filter(|access| access.0 == Direction::Write).count() as u64;
        for (first, second) in [(2, 4), (4, 4), (3, 9)] {
            let (found, followed) = (Behind { ro: &ro, wb: &wb }.hits(first, second), in_turn(&stream, first, second));
            prop_assert_eq!(found.0, followed.0);
            prop_assert!(found.1.abs_diff(followed.1) <= 2 * writes, "{:?} {:?} {}", found, followed, writes);
        }
    }
}

#[test]
fn a_reader_has_a_use_for_the_second_level() {
    // A loop larger than the first level, and not than both.
    let stream: Vec<Access> = (0..300).map(|at| (Direction::Read, at % 30)).collect();
    let (ro, wb) = (curve(CurveKind::Ro, &stream), curve(CurveKind::Wb, &stream));
    let both = Behind { ro: &ro, wb: &wb };
    assert_eq!((both.hits(10, 19), both.hits(10, 20)), ((0, 0), (0, 270)));
    assert_eq!(both.curve(10).blocks_needed(), 20);
    assert_eq!(both.curve(30).points(), []);
}
