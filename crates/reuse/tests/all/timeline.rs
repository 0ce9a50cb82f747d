//! `Timeline` against a list of blocks in the order of their latest access.

use lode_reuse::{NEVER, Timeline};
use proptest::prelude::*;

struct Model {
    timeline: Timeline,
    /// Position of each block, also stale ones from before a reset.
    positions: Vec<u32>,
    /// Live blocks, least recent first.
    recency: Vec<usize>,
}

impl Model {
    fn new(blocks: usize, live: usize) -> Model {
        Model { timeline: Timeline::with_capacity(live), positions: vec![NEVER; blocks], recency: Vec::new() }
    }

    fn make_room(&mut self) {
        let positions = &mut self.positions;
        self.timeline.compact(|remap| {
            for position in positions.iter_mut() {
                *position = remap.new_position(*position);
            }
        });
        assert!(!self.timeline.is_full());
    }

    fn touch(&mut self, block: usize) {
        if self.timeline.is_full() {
            self.make_room();
        }
        self.check(block);
        let previous = self.positions[block];
        self.positions[block] = if self.timeline.is_live(previous) && block.is_multiple_of(2) {
            let (distance, position) = self.timeline.revisit(previous);
            let expected = self.recency.iter().rev().position(|&b| b == block);
            assert_eq!(Some(distance as usize), expected);
            position
        } else {
            self.timeline.touch(previous)
        };
        self.recency.retain(|&b| b != block);
        self.recency.push(block);
    }

    fn remove(&mut self, block: usize) {
        self.timeline.remove(self.positions[block]);
        self.positions[block] = NEVER;
        self.recency.retain(|&b| b != block);
    }

    fn check(&self, block: usize) {
        let position = self.positions[block];
        let expected = self.recency.iter().rev().position(|&b| b == block);
        let found = self.timeline.is_live(position).then(|| self.timeline.distance(position) as usize);
        assert_eq!(found, expected);
        if let Some(distance) = expected {
            assert_eq!(self.timeline.at_distance(distance as u32), Some(position));
        }
        assert_eq!(self.timeline.at_distance(self.recency.len() as u32), None);
        assert_eq!(self.timeline.live() as usize, self.recency.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn distances_are_places_in_the_recency_list(
        seed in any::<u64>(), blocks in 1usize..1500, live in 0usize..3000, rare in 50u64..20_000,
    ) {
        let mut model = Model::new(blocks, live);
        let mut state = seed | 1;
        for _ in 0..25_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let block = (state >> 33) as usize % blocks;
            match (state >> 20) % rare {
                0 => model.make_room(),
                1 => {
                    model.timeline.reset();
                    model.recency.clear();
                }
                2..=5 => model.remove(block),
                _ => model.touch(if state & 1 << 60 == 0 { block } else { block / 16 }),
            }
        }
        for block in 0..blocks {
            model.check(block);
        }
    }
}

#[test]
fn grows_with_what_is_live() {
    let mut timeline = Timeline::new();
    let mut positions = Vec::new();
    for _ in 0..200_000 {
        if timeline.is_full() {
            timeline.compact(|remap| {
                positions.iter_mut().for_each(|p: &mut u32| *p = remap.new_position(*p));
            });
        }
        positions.push(timeline.touch(NEVER));
    }
    assert_eq!(timeline.live(), 200_000);
    for (before, &position) in positions.iter().enumerate() {
        assert_eq!(timeline.distance(position) as usize, 199_999 - before);
    }
    assert!(timeline.memory_bytes() < 200_000, "{} bytes", timeline.memory_bytes());
}

#[test]
#[should_panic(expected = "compact it first")]
fn refuses_to_run_over() {
    Timeline::new().touch(NEVER);
}
