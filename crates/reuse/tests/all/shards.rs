//! SHARDS word by word, slow and obvious, on the hash of [`Sample`]: what the fast one is held against.
//!
//! Fixed rate: an access is followed when its block's hash is below the rate's share of the range of hashes; a distance among
//! followed blocks stands for one over the rate as many; what is missing between expected and found accesses is added to
//! the smallest bucket. Fixed size: a list of the followed blocks, from which that with the largest hash leaves when it is
//! too long, which lowers the rate to that hash; old counts are rescaled by new rate over old. (Waldspurger et al., FAST 2015,
//! sections 3 and 4, as recalled.)

use lode_reuse::{Curve, CurveKind, LEAST_BLOCKS, Method, Profiler, Sample};
use lode_types::{BlockNo, Direction};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// How the rate sinks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    /// As the paper says: to the largest hash that is followed, whose block leaves.
    LargestHash,
    /// As ours does: by an eighth, but not below this rate, and whoever is above that leaves.
    Eighth(f64),
}

/// What a block is dealt by.
type Hash = fn(&Sample, BlockNo) -> u64;

/// A hash that deals nothing evenly.
fn plain_hash(sample: &Sample, block: BlockNo) -> u64 {
    // The order of blocks is the salt's; the finisher is that of SplitMix64 (Steele et al., OOPSLA 2014, as recalled).
    let mut hash = (block ^ sample.hash(1 << 40)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

struct Reference {
    sample: Sample,
    hash: Hash,
    rule: Rule,
    most: usize,
    counts_writes: bool,
    rate: f64,
    /// Followed blocks, the latest first.
    stack: Vec<BlockNo>,
    /// Hits by the smallest size that has them, in accesses of a sample of the present rate.
    histogram: BTreeMap<u64, f64>,
    /// Followed accesses that could hit, likewise.
    followed: f64,
    /// Accesses of the stream that could hit.
    able: u64,
}

impl Reference {
    fn new(salt: u64, hash: Hash, rule: Rule, most: usize, counts_writes: bool) -> Reference {
        let sample = Sample::at_rate(1.0, salt).expect("in range");
        let (stack, histogram, rate) = (Vec::new(), BTreeMap::new(), 1.0);
        Reference { sample, hash, rule, most, counts_writes, rate, stack, histogram, followed: 0.0, able: 0 }
    }

    fn follows(&self, block: BlockNo) -> bool {
        ((self.hash)(&self.sample, block) as f64) < self.rate * 2f64.powi(64)
    }

    fn access(&mut self, op: Direction, block: BlockNo) {
        let counts = self.counts_writes || op == Direction::Read;
        self.able += u64::from(counts);
        if !self.follows(block) {
            return;
        }
        self.followed += f64::from(u8::from(counts));
        if let Some(depth) = self.stack.iter().position(|&other| other == block) {
            self.stack.remove(depth);
            if counts {
                // The middle of what the depth leaves open: see "Depth" in docs/curves.md.
                let size = ((depth as f64 + 0.5) / self.rate).ceil() as u64;
                *self.histogram.entry(size).or_default() += 1.0;
            }
        }
        self.stack.insert(0, block);
        let least = if let Rule::Eighth(least) = self.rule { least } else { 0.0 };
        while self.stack.len() > self.most && self.rate > least {
            self.sink();
        }
    }

    fn sink(&mut self) {
        let hashes = self.stack.iter().map(|&block| (self.hash)(&self.sample, block));
        let before = self.rate;
        self.rate = match self.rule {
            Rule::LargestHash => hashes.max().unwrap_or(0) as f64 / 2f64.powi(64),
            Rule::Eighth(least) => (self.rate * 7.0 / 8.0).max(least),
        };
        let stack = std::mem::take(&mut self.stack);
        self.stack = stack.into_iter().filter(|&block| self.follows(block)).collect();
        self.histogram.values_mut().for_each(|count| *count *= self.rate / before);
        self.followed *= self.rate / before;
    }

    /// Hits of a cache of so many blocks: the counts up to it, and in the smallest bucket what is missing of the accesses that
    /// were to be expected.
    fn hits(&self, size: u64) -> f64 {
        let Some(smallest) = self.histogram.keys().next() else { return 0.0 };
        if size < *smallest {
            return 0.0;
        }
        let adjustment = self.able as f64 * self.rate - self.followed;
        let counted: f64 = self.histogram.range(..=size).map(|(_, count)| count).sum();
        ((counted + adjustment) / self.rate).clamp(0.0, self.able as f64)
    }
}

fn profiler(method: Method, salt: u64, counts_writes: bool) -> Profiler {
    let kind = if counts_writes { CurveKind::Trd } else { CurveKind::Urd };
    Profiler::new(kind, method, salt).expect("in range")
}

/// Sizes of samples of so few blocks are far below those that are kept in bins.
const SMALL: u64 = 80;

fn stream(most: usize) -> impl Strategy<Value = Vec<(Direction, BlockNo)>> {
    let op = prop_oneof![Just(Direction::Read), Just(Direction::Write)];
    // Single blocks, and runs that are dealt together.
    let block = prop_oneof![0..SMALL, (0..SMALL).prop_map(|block| block << 20), 5000..5000 + SMALL];
    prop::collection::vec((op, block), 0..most)
}

/// One access at a time, so that both look at the limit as often.
fn run_both(
    stream: impl IntoIterator<Item = (Direction, BlockNo)>,
    ours: &mut Profiler,
    reference: &mut Reference,
) -> Result<(), TestCaseError> {
    for (op, block) in stream {
        ours.access_all(&[(op, block)]).expect("few blocks");
        reference.access(op, block);
    }
    prop_assert!((ours.rate() - reference.rate).abs() < 1e-12);
    let blocks = (reference.stack.len() as f64 / reference.rate).round() as u64;
    prop_assert_eq!(ours.distinct_blocks(), blocks);
    assert_same(&ours.curve(), reference)
}

fn assert_same(ours: &Curve, reference: &Reference) -> Result<(), TestCaseError> {
    for size in 0..300 {
        let (ours, theirs) = (ours.hits_at(size) as f64, reference.hits(size));
        // Misses are rounded to whole ones.
        prop_assert!((ours - theirs).abs() <= 0.5 + 1e-6, "{ours} and {theirs} of a cache of {size}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// So many blocks are touched once that the rate sinks to what was asked for; what comes then is followed at it.
    #[test]
    fn a_fixed_rate_is_that_of_the_paper(
        stream in stream(400), salt in any::<u64>(), rate in 0.5f64..0.9, writes in any::<bool>(),
    ) {
        let mut ours = profiler(Method::LeastRate(rate), salt, writes);
        let most = LEAST_BLOCKS as usize;
        let mut reference = Reference::new(salt, Sample::hash, Rule::Eighth(rate), most, writes);
        let blocks = (f64::from(LEAST_BLOCKS) * 1.3 / rate) as u64;
        let once = (0..blocks).map(|block| (Direction::Read, 1 << 40 | block));
        run_both(once.chain(stream), &mut ours, &mut reference)?;
        prop_assert!((ours.rate() - rate).abs() < 1e-12);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Weighting each access by the rate of its time is rescaling all that were before, and the steps are eighths.
    #[test]
    fn a_fixed_size_is_that_of_the_paper_but_for_the_steps(
        stream in stream(600), salt in any::<u64>(), most in 64usize..80, writes in any::<bool>(),
    ) {
        let mut ours = profiler(Method::Size(most as u32), salt, writes);
        let mut reference = Reference::new(salt, Sample::hash, Rule::Eighth(0.0), most, writes);
        run_both(stream, &mut ours, &mut reference)?;
    }

    /// As long as the sample holds every block there is nothing to depart from.
    #[test]
    fn few_blocks_are_exact_in_both(stream in stream(400), salt in any::<u64>(), batch in 1usize..200) {
        let mut ours = profiler(Method::Size(3 * SMALL as u32), salt, true);
        let most = 3 * SMALL as usize;
        let mut reference = Reference::new(salt, Sample::hash, Rule::LargestHash, most, true);
        stream.chunks(batch).for_each(|batch| ours.access_all(batch).expect("few blocks"));
        stream.iter().for_each(|&(op, block)| reference.access(op, block));
        prop_assert_eq!(reference.rate, 1.0);
        assert_same(&ours.curve(), &reference)?;
    }
}

/// Runs of neighbours that are used alike, and blocks that are popular alone.
fn long_stream() -> Vec<(Direction, BlockNo)> {
    let mut state = 17_u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut stream = Vec::new();
    while stream.len() < 12_000 {
        let op = if next(10) < 3 { Direction::Write } else { Direction::Read };
        match next(6) {
            0 => {
                let first = (next(4) << 10) + next(300);
                stream.extend((first..first + 40).map(|block| (op, block)));
            }
            1..=3 => stream.push((op, (next(30) * next(30)) << 5)),
            _ => stream.push((op, 50_000 + next(800))),
        }
    }
    stream
}

/// How far hit ratios are off over many salts: the mean error, and the square root of the mean square, of all sizes.
fn off(estimates: &[Vec<f64>], exact: &[f64]) -> (f64, f64) {
    let errors =
        || estimates.iter().flat_map(|estimate| estimate.iter().zip(exact).map(|(one, exact)| one - exact));
    let count = errors().count() as f64;
    (errors().sum::<f64>() / count, (errors().map(|error| error * error).sum::<f64>() / count).sqrt())
}

/// Where ours departs from the paper, in the hash and in the steps, it is no worse. See "How far off" in docs/curves.md.
#[test]
fn departures_do_no_harm() {
    const SALTS: u64 = 60;
    let (stream, most) = (long_stream(), 128);
    let mut exact = profiler(Method::Exact, 0, true);
    exact.access_all(&stream).expect("few blocks");
    let exact = exact.curve();
    let sizes: Vec<u64> = (1..=20).map(|part| exact.blocks_needed() * part / 20).collect();
    let truth: Vec<f64> = sizes.iter().map(|&size| exact.hit_ratio_at(size)).collect();
    let ours = |salt: u64| {
        let mut ours = profiler(Method::Size(most as u32), salt, true);
        ours.access_all(&stream).expect("few blocks");
        let curve = ours.curve();
        assert!(ours.rate() < 0.15, "a sample, and no more: {}", ours.rate());
        sizes.iter().map(|&size| curve.hit_ratio_at(size)).collect::<Vec<f64>>()
    };
    let reference = |salt: u64, hash: Hash, rule: Rule| {
        let mut reference = Reference::new(salt, hash, rule, most, true);
        stream.iter().for_each(|&(op, block)| reference.access(op, block));
        sizes.iter().map(|&size| reference.hits(size) / stream.len() as f64).collect::<Vec<f64>>()
    };
    let over = |one: &dyn Fn(u64) -> Vec<f64>| off(&(0..SALTS).map(one).collect::<Vec<_>>(), &truth);
    let (bias, spread) = over(&ours);
    let (paper_bias, paper_spread) = over(&|salt| reference(salt, Sample::hash, Rule::LargestHash));
    let (plain_bias, plain_spread) = over(&|salt| reference(salt, plain_hash, Rule::LargestHash));
    println!("ours: bias {bias:.4}, spread {spread:.4}");
    println!("largest hash: bias {paper_bias:.4}, spread {paper_spread:.4}");
    println!("largest hash, plain: bias {plain_bias:.4}, spread {plain_spread:.4}");
    assert!(bias.abs() < 0.01, "{bias}");
    // Between two steps a sample is smaller by up to an eighth.
    assert!(spread < 1.15 * paper_spread, "{spread} and {paper_spread} with the steps of the paper");
    assert!(spread < plain_spread, "{spread} and {plain_spread} with a plain hash");
    assert!(bias.abs() < paper_bias.abs() + 0.005, "{bias} and {paper_bias}");
    assert!(plain_bias.abs() < 0.02, "the reference itself: {plain_bias}");
}
