//! How much memory schemes' tables take for each block that is cached, once all levels are full, and at the most while they
//! fill: as the allocator counts it.
//!
//! Run with `cargo bench -p lode-policy --bench memory`, with a part of a name after `--` to run some lines only;
//! `LODE_BENCH_BLOCKS=n` sets the blocks of the SSD (default 1,048,576), of which DRAM has a quarter and the read SSD as
//! many. The streams are synthetic, from fixed seeds, 70 % reads: `skewed` are blocks that lie scattered, four times as many as
//! the SSD has, the lower their rank the oftener (the square of a uniform number), every third access being the next of a
//! sequential pass over all of them; `scan` is passes alone, read and written. A copy in every level counts as a cached block.

use lode_allocations::{CountingAllocator, held_bytes};
use lode_policy::{AnyScheme, NullSink, Points, Quota, Scheme, SchemeInfo, Settings, build};
use lode_types::{Access, Level};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Schemes, with what is set.
const LINES: &[(&str, &[&str])] = &[
    ("lru", &[]),
    ("lru", &["assoc=0"]),
    ("etica", &[]),
    ("etica", &["distances=sampled"]),
    ("etica", &["sizing=off"]),
    ("etica", &["mode=full-hybrid"]),
    ("eci-cache-like", &[]),
    ("eci-cache-like", &["distances=sampled"]),
    ("centaur-like", &["distances=sampled"]),
    ("vcacheshare-like", &["distances=sampled"]),
    ("s-cave-like", &[]),
    ("tica-ef", &[]),
    ("tica-wed", &[]),
    ("tica-adaptive", &[]),
    ("rpac", &[]),
    ("rpac-prototype", &[]),
    ("arc", &[]),
    ("flashcache", &[]),
];

/// Turns of the stream over all of its blocks.
const TURNS: u64 = 4;

/// As many times as many blocks as the SSD has.
const FOOTPRINT: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stream {
    Skewed,
    Scan,
}

fn accesses(stream: Stream, blocks: u64) -> impl Iterator<Item = Access> {
    let mut state = 1u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 32
    };
    (0..blocks * TURNS).map(move |at| {
        let uniform = random() as f64 / 2f64.powi(32);
        let rank = match stream {
            Stream::Skewed if at % 3 > 0 => (uniform * uniform * blocks as f64) as u64,
            Stream::Skewed => at / 3 % blocks,
            Stream::Scan => at % blocks,
        };
        // An odd factor: no two ranks have the same block.
        let block = if stream == Stream::Skewed { rank.wrapping_mul(0x9e37_79b1) % (1 << 32) } else { rank };
        if random() % 10 < 7 { Access::read(block) } else { Access::write(block) }
    })
}

fn cached(scheme: &AnyScheme) -> u64 {
    Level::ALL.iter().map(|&level| u64::from(scheme.resident_blocks(level))).sum()
}

fn main() {
    let given = std::env::var("LODE_BENCH_BLOCKS")
        .ok()
        .map(|blocks| blocks.parse::<u32>().expect("a number of blocks"));
    let blocks = given.unwrap_or(1 << 20);
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    println!("SSD of {blocks} blocks, {FOOTPRINT} times as many in the stream, {TURNS} turns");
    println!(
        "{:<36} {:<8} {:>12} {:>10} {:>12} {:>12}",
        "scheme", "stream", "cached", "B/block", "most B/block", "said B/block"
    );
    for (name, pairs) in LINES {
        let mut settings = SchemeInfo::find(name).expect("a scheme of the registry").settings();
        pairs.iter().for_each(|pair| settings.set_pair(pair).expect("a setting of the scheme"));
        let title = [&[*name], *pairs].concat().join(" ");
        for stream in [Stream::Skewed, Stream::Scan] {
            if title.contains(&only) {
                measure(&title, &settings, blocks, stream);
            }
        }
    }
}

fn measure(title: &str, settings: &Settings, blocks: u32, stream: Stream) {
    let info = SchemeInfo::find(settings.scheme()).expect("a scheme of the registry");
    let all = Quota::new(blocks / 4, blocks).with(Level::ReadSsd, blocks);
    let quota = all.map(|level, blocks| if info.levels.contains(&level) { blocks } else { 0 });
    let levels: u64 = Level::ALL.iter().map(|&level| u64::from(quota.of(level))).sum();
    let before = held_bytes();
    let held = || (held_bytes() - before) as u64;
    let mut scheme = build(settings, quota, quota);
    let mut most = 0;
    for (at, access) in (1u64..).zip(accesses(stream, u64::from(blocks) * FOOTPRINT)) {
        scheme.access(access, &mut NullSink);
        scheme.end_request(0, &mut NullSink);
        if at % 4096 == 0 {
            most = most.max(held());
        }
        // A sizing interval.
        if at % 40_000 == 0 {
            scheme.sizing().map(|sizing| sizing.demand(Points::LastWithin(quota)));
        }
    }
    let (bytes, cached) = (held(), cached(&scheme));
    let said = scheme.memory_bytes() as u64;
    assert!(
        said <= bytes + (4 << 10) && bytes <= said + said / 50 + (8 << 10),
        "{title}: {said} said, {bytes} held"
    );
    let of = |bytes: u64, blocks: u64| bytes as f64 / blocks as f64;
    println!(
        "{title:<36} {:<8} {cached:>12} {:>10.1} {:>12.1} {:>12.1}{}",
        format!("{stream:?}").to_lowercase(),
        of(bytes, cached),
        of(most, cached),
        of(lode_policy::most_memory_bytes(settings, quota, quota, u64::MAX), levels),
        if cached < levels { format!("  of {levels}") } else { String::new() },
    );
}
