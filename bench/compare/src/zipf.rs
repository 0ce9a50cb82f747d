//! The synthetic trace: zipf by Vose's alias method, from a fixed seed, as the bench `rate` of `lode-replay` has it.

use std::error::Error;

use crate::trace::WRITE;

const SKEW: f64 = 0.9;
const READ_PERCENT: u64 = 70;
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
/// Odd: ranks become block numbers that are scattered and stay apart.
const SCATTER: u32 = 0x9e37_79b1;
/// More would not fit into memory beside their tables.
const MOST_BLOCKS: u32 = 1 << 28;

/// The requests of a trace of `blocks` blocks.
pub fn words(requests: usize, blocks: u32) -> Result<Vec<u32>, Box<dyn Error>> {
    if blocks == 0 || blocks > MOST_BLOCKS {
        return Err(format!("A trace has from 1 to {MOST_BLOCKS} blocks, not {blocks}").into());
    }
    let (keep, alias) = tables(blocks);
    let mut state = SEED;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let words = (0..requests).map(|_| {
        let pick = ((random() >> 32) * u64::from(blocks)) >> 32;
        let share = (random() >> 11) as f64 / (1u64 << 53) as f64;
        let rank = if share < keep[pick as usize] { pick as u32 } else { alias[pick as usize] };
        let op = if random() % 100 < READ_PERCENT { 0 } else { WRITE };
        rank.wrapping_mul(SCATTER) & !WRITE | op
    });
    Ok(words.collect())
}

/// What each rank keeps of its column, and who has the rest of it.
fn tables(blocks: u32) -> (Vec<f64>, Vec<u32>) {
    let weights: Vec<f64> = (1..=blocks).map(|rank| f64::from(rank).powf(-SKEW)).collect();
    let total: f64 = weights.iter().sum();
    let mut keep: Vec<f64> = weights.iter().map(|weight| weight / total * f64::from(blocks)).collect();
    let mut alias: Vec<u32> = (0..blocks).collect();
    let (mut small, mut large): (Vec<u32>, Vec<u32>) = (0..blocks).partition(|&i| keep[i as usize] < 1.0);
    while let (Some(low), Some(&high)) = (small.pop(), large.last()) {
        alias[low as usize] = high;
        keep[high as usize] -= 1.0 - keep[low as usize];
        if keep[high as usize] < 1.0 {
            large.pop();
            small.push(high);
        }
    }
    (keep, alias)
}
