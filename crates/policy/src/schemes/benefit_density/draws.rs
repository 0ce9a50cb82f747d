//! Which blocks of a level chance chooses. Numbers are drawn ahead of the sample that will take them, so that what it looks at has
//! been fetched by then.
//!
//! It must not know what the blocks are looked at for.

use lode_types::{Level, Rng, scaled};

use super::frames::Frames;

/// Numbers that are drawn ahead.
const AHEAD: usize = 32;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Draws {
    rng: Rng,
    /// The next numbers, round and round, and where the first of them is.
    bits: [u64; AHEAD],
    first: usize,
    /// The blocks that they stand for in a level with so many.
    at: [u32; AHEAD],
    of: (Level, u32),
}

impl Draws {
    pub(super) fn new(mut rng: Rng) -> Draws {
        let bits = std::array::from_fn(|_| rng.bits());
        Draws { rng, bits, first: 0, at: [0; AHEAD], of: (Level::Dram, 0) }
    }

    /// Some of the next blocks that chance chooses of a level that has some, with replacement, by their numbers: one at least, and
    /// at most so many.
    #[inline(always)]
    pub(super) fn next(&mut self, level: Level, frames: &Frames, most: usize) -> &[u32] {
        if self.of != (level, frames.len()) {
            self.of = (level, frames.len());
            for (at, &bits) in self.at.iter_mut().zip(&self.bits) {
                *at = scaled(bits, frames.len().into()) as u32;
                frames.prefetch(*at);
            }
        }
        let later = &self.at[self.first..];
        &later[..most.min(later.len())]
    }

    /// So many that were given last are taken. Fetches those that come in their places: of the same level most likely.
    #[inline(always)]
    pub(super) fn take(&mut self, frames: &Frames, count: usize) {
        let places = self.first..self.first + count;
        for (at, bits) in self.at[places.clone()].iter_mut().zip(&mut self.bits[places.clone()]) {
            *bits = self.rng.bits();
            *at = scaled(*bits, frames.len().into()) as u32;
            frames.prefetch(*at);
        }
        self.first = places.end % AHEAD;
    }
}
