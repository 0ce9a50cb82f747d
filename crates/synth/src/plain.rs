//! Streams that need no memory of what they accessed: random, loop, sequential and zipf. It must not know sizes' and
//! arrivals' distributions.

use lode_types::Rng;

use crate::alias::Alias;
use crate::area::{Area, Scatter};
use crate::profile::Pattern;

/// Writes that a read may go after.
const REMEMBERED_WRITES: usize = 1024;
/// Ranks of a zipf stream are exact up to this one; above it they are in so many steps to each doubling, and within a
/// step all are as likely.
const ZIPF_STEPS: u64 = 64;

/// The state of one stream.
#[derive(Clone, Debug)]
pub(crate) struct PlainStream {
    area: Area,
    blocks: u64,
    choice: Choice,
    /// Where the last request ended, in bytes from the range's start, for each place to go on from.
    ends: Vec<Option<u64>>,
    writes: Vec<u64>,
    next_write: usize,
}

#[derive(Clone, Debug)]
enum Choice {
    Random,
    Loop,
    Sequential { run_bytes: u64 },
    Zipf(Zipf),
}

impl PlainStream {
    /// A stream over the `blocks` of `area`; `None` for the pattern with a memory.
    pub(crate) fn new(pattern: &Pattern, area: Area, blocks: u64, places: u32) -> Option<PlainStream> {
        let choice = match pattern {
            Pattern::Random => Choice::Random,
            Pattern::Loop => Choice::Loop,
            Pattern::Sequential { run_bytes } => Choice::Sequential { run_bytes: *run_bytes },
            Pattern::Zipf { exponent } => Choice::Zipf(Zipf::new(blocks, *exponent)),
            Pattern::Reuse(_) => return None,
        };
        Some(PlainStream {
            area,
            blocks,
            choice,
            ends: vec![None; places as usize],
            writes: Vec::new(),
            next_write: 0,
        })
    }

    /// Where a request that starts where the last one of this place ended is, if there may be one.
    #[inline]
    pub(crate) fn follow(&mut self, from: usize, writes: bool, bytes: u32) -> Option<u64> {
        let at = self.ends[from].filter(|end| end + u64::from(bytes) <= self.range_bytes())?;
        Some(self.touch(from, at, bytes, writes))
    }

    /// Where the next request goes, from which that place goes on; a read goes after a write with the chance given.
    #[inline]
    pub(crate) fn choose(
        &mut self,
        from: usize,
        writes: bool,
        bytes: u32,
        after_write: f64,
        rng: &mut Rng,
    ) -> u64 {
        if !writes && after_write > 0.0 && !self.writes.is_empty() && rng.unit() < after_write {
            let at = self.writes[rng.below(self.writes.len() as u64) as usize];
            return self.touch(from, at, bytes, writes);
        }
        let block = match &self.choice {
            Choice::Random => rng.below(self.blocks),
            Choice::Zipf(zipf) => zipf.draw(rng),
            Choice::Loop => {
                return self
                    .follow(from, writes, bytes)
                    .unwrap_or_else(|| self.touch(from, 0, bytes, writes));
            }
            Choice::Sequential { run_bytes } => {
                if rng.below(*run_bytes) >= u64::from(bytes)
                    && let Some(offset) = self.follow(from, writes, bytes)
                {
                    return offset;
                }
                rng.below(self.blocks)
            }
        };
        self.touch(from, block * self.area.block_bytes + self.area.inside(block), bytes, writes)
    }

    fn range_bytes(&self) -> u64 {
        self.blocks * self.area.block_bytes
    }

    /// Notes a request at byte `at` of the range, or as far before it as it must be to fit; says its offset.
    #[inline]
    fn touch(&mut self, from: usize, at: u64, bytes: u32, writes: bool) -> u64 {
        let last = self.range_bytes() - u64::from(bytes);
        // What does not fit keeps its place inside blocks if it can, so that it stays aligned.
        let blocks_back = at.saturating_sub(last).div_ceil(self.area.block_bytes);
        let at = at.checked_sub(blocks_back * self.area.block_bytes).unwrap_or(last.min(at));
        self.ends[from] = Some(at + u64::from(bytes));
        if writes {
            if self.writes.len() < REMEMBERED_WRITES {
                self.writes.push(at);
            } else {
                self.writes[self.next_write] = at;
                self.next_write = (self.next_write + 1) % REMEMBERED_WRITES;
            }
        }
        self.area.first_bytes + at
    }
}

/// Ranks by Zipf's law, scattered over the blocks.
#[derive(Clone, Debug)]
struct Zipf {
    alias: Alias,
    /// Least rank of each step, from 0.
    steps: Vec<u64>,
    scatter: Scatter,
    count: u64,
}

impl Zipf {
    fn new(count: u64, exponent: f64) -> Zipf {
        let (mut steps, mut weights, mut from) = (Vec::new(), Vec::new(), 0);
        while from < count {
            let width = ((from + 1) / ZIPF_STEPS).max(1);
            let width = (1 << width.ilog2()).min(count - from);
            let middle = from as f64 + (width + 1) as f64 / 2.0;
            steps.push(from);
            weights.push(width as f64 * libm::pow(middle, -exponent));
            from += width;
        }
        Zipf { alias: Alias::new(&weights), steps, scatter: Scatter::new(count), count }
    }

    #[inline]
    fn draw(&self, rng: &mut Rng) -> u64 {
        let step = self.alias.draw(rng);
        let from = self.steps[step];
        let to = self.steps.get(step + 1).copied().unwrap_or(self.count);
        let rank = if to - from == 1 { from } else { from + rng.below(to - from) };
        self.scatter.of(rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Sizes;

    fn area() -> Area {
        let sizes = Sizes { read: vec![], write: vec![], aligned_share: 1.0, alignment_bytes: 4096 };
        Area::new(1 << 20, 4096, &sizes)
    }

    fn stream(pattern: &Pattern, blocks: u64) -> PlainStream {
        PlainStream::new(pattern, area(), blocks, 1).expect("a plain pattern")
    }

    /// Blocks of requests of one block.
    fn blocks(pattern: &Pattern, blocks: u64, count: usize) -> Vec<u64> {
        let (mut stream, mut rng) = (stream(pattern, blocks), Rng::new(5));
        (0..count).map(|_| (stream.choose(0, false, 4096, 0.0, &mut rng) - (1 << 20)) / 4096).collect()
    }

    #[test]
    fn zipf_has_the_law_s_probabilities() {
        for (count, exponent) in [(50, 0.0), (50, 1.0), (3000, 0.9), (100_000, 1.2)] {
            let draws = 400_000;
            let mut found = vec![0u32; count];
            let pattern = Pattern::Zipf { exponent };
            blocks(&pattern, count as u64, draws).into_iter().for_each(|block| found[block as usize] += 1);
            let scatter = Scatter::new(count as u64);
            let law: Vec<f64> = (1..=count).map(|rank| (rank as f64).powf(-exponent)).collect();
            let sum: f64 = law.iter().sum();
            // Chi-square over runs of ranks of some hundred expected draws each.
            let (mut expected, mut seen, mut chi, mut cells) = (0.0, 0.0, 0.0, 0);
            for (rank, weight) in law.iter().enumerate() {
                expected += weight / sum * draws as f64;
                seen += f64::from(found[scatter.of(rank as u64) as usize]);
                if expected > 400.0 {
                    chi += (seen - expected) * (seen - expected) / expected;
                    (expected, seen, cells) = (0.0, 0.0, cells + 1);
                }
            }
            let bound = f64::from(cells) + 5.0 * (2.0 * f64::from(cells)).sqrt();
            assert!(cells > 40 && chi < bound, "{count} {exponent}: {chi} of {cells} cells");
        }
    }

    #[test]
    fn loops_runs_and_chance() {
        let looped = blocks(&Pattern::Loop, 10, 25);
        assert!(looped.iter().enumerate().all(|(at, &block)| block == at as u64 % 10), "{looped:?}");
        let runs = blocks(&Pattern::Sequential { run_bytes: 40 * 4096 }, 1 << 20, 40_000);
        let jumps = runs.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
        assert!((900..1100).contains(&jumps), "{jumps}");
        let random = blocks(&Pattern::Random, 16, 16_000);
        assert!((0..16).all(|block| (800..1200).contains(&random.iter().filter(|&&b| b == block).count())));
    }

    #[test]
    fn reads_go_after_writes_and_nothing_leaves_the_range() {
        let (mut stream, mut rng) = (stream(&Pattern::Random, 1000), Rng::new(1));
        let mut written = std::collections::HashSet::new();
        let mut after = 0;
        for at in 0..4000 {
            let (writes, bytes) = (at % 2 == 0, 20_000);
            let offset = stream.choose(0, writes, bytes, 0.75, &mut rng);
            assert!(offset >= 1 << 20 && offset + 20_000 <= (1 << 20) + 1000 * 4096);
            if writes {
                written.insert(offset);
            } else {
                after += u32::from(written.contains(&offset));
            }
        }
        // 75 %, and of the rest those that meet a written block by chance.
        assert!((1500..2000).contains(&after), "{after}");
        assert_eq!(
            PlainStream::new(&Pattern::Random, area(), 1, 1).and_then(|mut s| s.follow(0, false, 1)),
            None
        );
    }
}
