//! `BlockIndex` against a plain map, with hashes that collide as often as they can.

use lode_reuse::BlockIndex;
use proptest::prelude::*;
use std::collections::HashMap;

#[derive(Clone, Debug)]
enum Step {
    Insert(u32),
    Remove(usize),
    RemoveAbsent(u32),
    Replace(usize),
    /// Ids go on from here, if they were not there yet.
    LeapTo(u32),
    Expect(usize),
    Reserve(usize),
}

/// Few distinct hashes, some at both ends of the table, and some that a tag cannot tell apart.
fn hash() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => any::<u32>(),
        2 => 0u32..4,
        2 => (u32::MAX - 4)..=u32::MAX,
        2 => (0u32..32).prop_map(|x| x << 27),
        2 => (0u32..32).prop_map(|x| x << 27 | 0x00ff_ffff),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        16 => hash().prop_map(Step::Insert),
        9 => any::<usize>().prop_map(Step::Remove),
        2 => hash().prop_map(Step::RemoveAbsent),
        3 => any::<usize>().prop_map(Step::Replace),
        1 => (8u32..32).prop_map(|bits| Step::LeapTo((1 << bits) - 3)),
        1 => (0usize..300).prop_map(Step::Expect),
        1 => (0usize..300).prop_map(Step::Reserve),
    ]
}

/// An index beside what it should hold.
#[derive(Default)]
struct Both {
    index: BlockIndex,
    plain: HashMap<u32, u32>,
    ids: Vec<u32>,
}

impl Both {
    fn insert(&mut self, hash: u32, id: u32) {
        self.index.insert(hash, id, |id| self.plain[&id]);
        self.plain.insert(id, hash);
        self.ids.push(id);
    }

    fn remove(&mut self, which: usize) {
        let id = self.ids.swap_remove(which % self.ids.len());
        let hash = self.plain[&id];
        assert!(self.index.remove(hash, id, |id| self.plain[&id]));
        self.plain.remove(&id);
        assert!(!self.index.remove(hash, id, |id| self.plain[&id]));
    }

    fn replace(&mut self, which: usize, to: u32) {
        let at = which % self.ids.len();
        let from = std::mem::replace(&mut self.ids[at], to);
        let hash = self.plain[&from];
        assert!(self.index.replace(hash, from, to, |id| self.plain[&id]));
        self.plain.remove(&from);
        self.plain.insert(to, hash);
        assert!(!self.index.replace(hash, from, to, |id| self.plain[&id]));
    }

    /// Every entry is found, and whoever is not there is not.
    fn check(&self) {
        assert_eq!(self.index.len(), self.plain.len());
        assert_eq!(self.index.is_empty(), self.plain.is_empty());
        let mut by_hash: HashMap<u32, Vec<u32>> = HashMap::from([(7, Vec::new()), (u32::MAX, Vec::new())]);
        for (&id, &hash) in &self.plain {
            by_hash.entry(hash).or_default().push(id);
        }
        for (hash, mut wanted) in by_hash {
            wanted.sort_unstable();
            // Others are asked about too, but only such as are there.
            let mut found = Vec::new();
            let none = self.index.find(hash, |id| {
                found.extend((self.plain[&id] == hash).then_some(id));
                false
            });
            assert_eq!(none, None);
            found.sort_unstable();
            assert_eq!(found, wanted);
            let candidate = self.index.candidate(hash);
            assert!(if candidate == BlockIndex::NO_ID {
                wanted.is_empty()
            } else {
                self.plain.contains_key(&candidate)
            });
            for id in wanted {
                assert_eq!(self.index.find(hash, |other| other == id), Some(id));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn behaves_like_a_map_of_ids(steps in prop::collection::vec(step(), 0..600)) {
        let mut both = Both::default();
        let mut next = 0u32;
        for step in steps {
            match step {
                Step::Insert(hash) => {
                    both.insert(hash, next);
                    next += 1;
                }
                Step::Remove(which) if !both.ids.is_empty() => both.remove(which),
                Step::Replace(which) if !both.ids.is_empty() => {
                    both.replace(which, next);
                    next += 1;
                }
                Step::RemoveAbsent(hash) => {
                    prop_assert!(!both.index.remove(hash, next, |id| both.plain[&id]));
                }
                Step::Remove(_) | Step::Replace(_) => {
                    prop_assert!(!both.index.replace(0, next, next, |id| both.plain[&id]));
                }
                Step::LeapTo(id) => next = next.max(id),
                Step::Expect(entries) => both.index.expect(entries),
                Step::Reserve(entries) => both.index.reserve(entries),
            }
            prop_assert_eq!(both.index.len(), both.plain.len());
        }
        both.check();
    }

    /// A table that is always as full as it may be, where entries come and go, so that many are far from home.
    #[test]
    fn finds_everything_after_much_change(seed in any::<u64>(), few_homes in any::<bool>()) {
        const ENTRIES: u32 = 600;
        let mut both = Both::default();
        let mut state = seed | 1;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as u32
        };
        both.index.expect(ENTRIES as usize);
        for id in 0..ENTRIES * 12 {
            let hash = random();
            let hash = if few_homes && hash & 1 == 0 { hash & 0x0001_ffff | 0x7000_0000 } else { hash };
            if id >= ENTRIES {
                both.remove(random() as usize);
            }
            both.insert(hash, id);
            if id % 1800 == 0 {
                both.check();
            }
        }
        both.check();
    }
}

#[test]
fn stays_within_its_memory() {
    const ENTRIES: u32 = 300_000;
    let hash_of = |id: u32| BlockIndex::hash(u64::from(id) << 20);
    let bytes_at_most = |mut index: BlockIndex| {
        assert_eq!(index.memory_bytes(), 0);
        let mut most: f64 = 0.0;
        for id in 0..ENTRIES {
            index.insert(hash_of(id), id, hash_of);
            if id > 20_000 {
                most = most.max(index.memory_bytes() as f64 / index.len() as f64);
            }
        }
        (most, index.memory_bytes() as f64 / f64::from(ENTRIES))
    };
    let (most, _) = bytes_at_most(BlockIndex::new());
    assert!(most <= 8.01, "{most} bytes per entry");
    let mut expecting = BlockIndex::new();
    expecting.expect(ENTRIES as usize);
    let (most, last) = bytes_at_most(expecting);
    assert!(most <= 8.01 && last <= 5.82, "{most} bytes per entry, {last} in the end");
}

#[test]
fn a_table_that_was_reserved_is_as_large_as_it_ends() {
    const ENTRIES: u32 = 300_000;
    let hash_of = |id: u32| BlockIndex::hash(u64::from(id) << 20);
    let mut index = BlockIndex::new();
    index.expect(ENTRIES as usize);
    index.reserve(ENTRIES as usize);
    let bytes = index.memory_bytes();
    (0..ENTRIES).for_each(|id| index.insert(hash_of(id), id, hash_of));
    assert_eq!(index.memory_bytes(), bytes, "it did not grow");
    assert!(bytes as f64 / f64::from(ENTRIES) <= 5.82, "{bytes} bytes");
    index.reserve(2 * ENTRIES as usize);
    assert_eq!(index.memory_bytes(), bytes, "what has entries stays as it is");
}

#[test]
fn hash_spreads_every_pattern_of_block_numbers() {
    for shift in [0u32, 1, 9, 20, 32, 40, 48] {
        let mut counts = [0u32; 64];
        for number in 0..(1u64 << 16) {
            let block = number << shift | number >> (64 - shift.max(1));
            counts[(BlockIndex::hash(block) >> 26) as usize] += 1;
        }
        // 1,024 expected in each; six standard deviations are 192.
        assert!(counts.iter().all(|&c| c.abs_diff(1024) < 192), "Shift {shift}: {counts:?}");
    }
}

#[test]
#[should_panic(expected = "reserved")]
fn refuses_the_reserved_id() {
    BlockIndex::new().insert(1, u32::MAX, |_| 0);
}
