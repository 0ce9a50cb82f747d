//! `BlockIndex` against a plain list of pairs, with hashes that collide as often as they can.

use lode_reuse::BlockIndex;
use proptest::prelude::*;
use std::collections::HashMap;

#[derive(Clone, Debug)]
enum Step {
    Insert(u32),
    Remove(usize),
    RemoveAbsent(u32, u32),
    Replace(usize),
}

/// Few distinct hashes, some at both ends of the table.
fn hash() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => any::<u32>(),
        2 => 0u32..4,
        2 => (u32::MAX - 4)..=u32::MAX,
        2 => (0u32..32).prop_map(|x| x << 27),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => hash().prop_map(Step::Insert),
        7 => any::<usize>().prop_map(Step::Remove),
        2 => (hash(), any::<u32>()).prop_map(|(hash, id)| Step::RemoveAbsent(hash, id)),
        3 => any::<usize>().prop_map(Step::Replace),
    ]
}

fn ids_of(index: &BlockIndex, hash: u32) -> Vec<u32> {
    let mut ids = Vec::new();
    let none = index.find(hash, |id| {
        ids.push(id);
        false
    });
    assert_eq!(none, None);
    ids.sort_unstable();
    ids
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn behaves_like_a_list_of_pairs(steps in prop::collection::vec(step(), 0..400)) {
        let mut index = BlockIndex::new();
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Insert(hash) => {
                    index.insert(hash, number as u32);
                    pairs.push((hash, number as u32));
                }
                Step::Remove(which) if !pairs.is_empty() => {
                    let (hash, id) = pairs.swap_remove(which % pairs.len());
                    prop_assert!(index.remove(hash, id));
                    prop_assert!(!index.remove(hash, id));
                }
                Step::Remove(_) => {}
                Step::RemoveAbsent(hash, id) => {
                    let there = pairs.iter().position(|&pair| pair == (hash, id));
                    prop_assert_eq!(index.remove(hash, id), there.map(|at| pairs.swap_remove(at)).is_some());
                }
                Step::Replace(which) if !pairs.is_empty() => {
                    let at = which % pairs.len();
                    let (hash, id) = pairs[at];
                    prop_assert!(index.replace(hash, id, number as u32));
                    prop_assert!(!index.replace(hash, id, number as u32));
                    pairs[at].1 = number as u32;
                }
                Step::Replace(_) => prop_assert!(!index.replace(0, BlockIndex::NO_ID, number as u32)),
            }
            prop_assert_eq!(index.len(), pairs.len());
            prop_assert_eq!(index.is_empty(), pairs.is_empty());
        }
        let mut by_hash: HashMap<u32, Vec<u32>> = HashMap::from([(7, Vec::new()), (u32::MAX, Vec::new())]);
        for &(hash, id) in &pairs {
            by_hash.entry(hash).or_default().push(id);
        }
        for (hash, mut ids) in by_hash {
            ids.sort_unstable();
            prop_assert_eq!(index.candidate(hash) != BlockIndex::NO_ID, !ids.is_empty());
            prop_assert_eq!(ids_of(&index, hash), ids.clone());
            for wanted in ids {
                prop_assert_eq!(index.find(hash, |id| id == wanted), Some(wanted));
            }
        }
    }
}

#[test]
fn stays_within_its_memory() {
    let mut index = BlockIndex::new();
    assert_eq!(index.memory_bytes(), 0);
    let mut most: f64 = 0.0;
    for id in 0..300_000u32 {
        index.insert(BlockIndex::hash(u64::from(id) << 20), id);
        if id > 20_000 {
            most = most.max(index.memory_bytes() as f64 / index.len() as f64);
        }
    }
    assert!(most <= 22.1, "{most} bytes per entry");
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
    BlockIndex::new().insert(1, u32::MAX);
}
