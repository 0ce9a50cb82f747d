//! Popularity of a block (ETICA, Eq. 1). It must not know who keeps scores, nor for how long.

/// What one re-access at distance `pod` adds to its block's popularity in a cache of `cache_blocks`:
/// `exp(-pod / cache_blocks)`, and 0 when there is no cache.
pub fn contribution(pod: u64, cache_blocks: u64) -> f64 {
    if cache_blocks == 0 { 0.0 } else { (-(pod as f64) / cache_blocks as f64).exp() }
}
