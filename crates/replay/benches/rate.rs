//! How fast traces are replayed, and how much memory that takes, beside a bare hash table in the same run.
//!
//! Run with `cargo bench -p lode-replay`, with a part of a name after `--` to run some schemes only;
//! `LODE_BENCH_QUICK=1` makes the trace small. The trace is one 4 KiB
//! block a request, zipf(0.9) over scattered block numbers, 70 % reads, from a fixed seed. The yardstick looks each
//! block up in a `hashbrown::HashMap<u64, u32>` and inserts it when it is absent; it is measured before and after
//! each replay, and the mean counts. Every scheme is replayed several times; the medians are shown, and the least
//! share of the yardstick. Rates are per second of processor time. `of LRU` is a scheme's share of the yardstick as a
//! share of `lru`'s; a line says so where it is below what is required.
//!
//! A second table is of a trace whose requests have many blocks: `lru` before and after each replay, and the share of its
//! rate.
//!
//! A third one is of `auto` beside what decides in it, on a shorter trace of the first kind: benefit-density, which looks at as many blocks
//! for each that leaves as it does in `auto`, before and after each replay, and at its defaults.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use lode_policy::schemes::etica::Etica;
use lode_policy::schemes::lru::Lru;
use lode_policy::{
    AnyScheme, Counters, Lookahead, NextUsesBuilder, Quota, SchemeInfo, Settings, all_schemes, build,
    build_with_future,
};
use lode_replay::{Driver, ServiceTimes};
use lode_trace::{ReadOptions, open_trace};
use lode_types::{BlockSize, Level, Origin, RequestOp, TraceRequest};

/// Replays of each scheme; odd.
const ROUNDS: usize = 3;
const SKEW: f64 = 0.9;
const READ_PERCENT: u64 = 70;
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
/// Least share of LRU's rate, in per cent.
const LEAST_OF_LRU: f64 = 20.0;
/// Those of which less is asked, and how much.
const LEAST_OF_SOME: (&[&str], f64) = (&["belady", "lirs"], 10.0);
/// The trace whose requests have many blocks, a tenth of its distinct blocks, and a quarter of that.
const TRACE: &str = "cloudphysics-2h";
const TRACE_SSD_BLOCKS: u32 = 26_880;
const TRACE_DRAM_BLOCKS: u32 = TRACE_SSD_BLOCKS / 4;
/// Blocks of both levels of `auto`, a fifth of them DRAM; least share of the rate of what decides, in per cent; and how many blocks
/// `auto` has it look at.
const AUTO_BLOCKS: [u32; 3] = [7_500, 20_000, 60_000];
const LEAST_OF_CHOSEN: f64 = 40.0;
const SAMPLES_OF_AUTO: &str = "samples=128";
/// Set in a packed request that is a write; the other bits are the block number.
const WRITE: u32 = 1 << 31;

struct Scale {
    requests: usize,
    blocks: u32,
    dram_blocks: u32,
    ssd_blocks: u32,
}

/// Schemes beside lru, which all are measured against, that need not know what comes; each runs at its defaults.
fn others() -> impl Iterator<Item = &'static SchemeInfo> {
    all_schemes().iter().filter(|info| info.name != "lru" && !info.needs_future())
}

/// Of what there is, the levels that the scheme uses.
fn used_levels(info: &SchemeInfo, physical: Quota) -> Quota {
    physical.map(|level, blocks| if info.levels.contains(&level) { blocks } else { 0 })
}

fn main() {
    let quick = std::env::var_os("LODE_BENCH_QUICK").is_some_and(|value| value == "1");
    let scale = if quick {
        Scale { requests: 1_000_000, blocks: 100_000, dram_blocks: 2_500, ssd_blocks: 10_000 }
    } else {
        Scale { requests: 20_000_000, blocks: 2_000_000, dram_blocks: 50_000, ssd_blocks: 200_000 }
    };
    let trace = generate(&scale);
    let resident_at_start = status_bytes("VmRSS:");
    let distinct = yardstick(&trace).1;
    println!(
        "{} requests of one block, {READ_PERCENT} % reads, zipf({SKEW}) over {} blocks, {distinct} of them met",
        scale.requests, scale.blocks
    );
    println!(
        "{:<24} {:>10} {:>10} {:>11} {:>7} {:>8} {:>9} {:>12} {:>10}",
        "scheme", "M req/s", "yardstick", "% of it", "least", "of LRU", "hit %", "B/dist. blk", "RSS B/blk"
    );
    let ssd = Quota::new(0, scale.ssd_blocks);
    let both = Quota::new(scale.dram_blocks, scale.ssd_blocks);
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let mut bench = Bench { trace: &trace, distinct, only, resident_at_start, lru_percent: 100.0 };
    let lru = settings("lru", &[]);
    let mut of_lru = bench.measure(&lru, ssd, any(&lru, ssd));
    bench.lru_percent = median(&mut of_lru.ratios);
    if bench.wants("lru") {
        bench.print("lru", of_lru);
    }
    bench.run("lru, concrete", &lru, ssd, {
        let lru = lru.clone();
        move |share| Lru::new(&lru, share)
    });
    let full = settings("lru", &["assoc=0"]);
    bench.run("lru, one set", &full, ssd, any(&full, ssd));
    let levels = both.with(Level::ReadSsd, scale.ssd_blocks);
    for info in others() {
        let (settings, physical) = (info.settings(), used_levels(info, levels));
        bench.run(info.name, &settings, physical, any(&settings, physical));
    }
    bench.belady(ssd);
    let hybrid = settings("etica", &["mode=full-hybrid"]);
    bench.run("etica, full-hybrid", &hybrid, both, any(&hybrid, both));
    let etica = settings("etica", &[]);
    bench.run("etica, concrete", &etica, both, {
        let etica = etica.clone();
        move |share| Etica::new(&etica, both, share)
    });
    let fixed = settings("etica", &["sizing=off"]);
    bench.run("etica, sizing off", &fixed, both, any(&fixed, both));
    for trace in lode_testdata::traces(TRACE) {
        many_blocks(&trace.path, &bench.only);
    }
    if bench.wants("auto") {
        beside_what_decides(if quick { 200_000 } else { 2_000_000 });
    }
}

/// The share of LRU's rate on a trace whose requests have many blocks.
fn many_blocks(path: &Path, only: &str) {
    let mut reader = open_trace(path, &ReadOptions::default()).expect("the trace");
    let (mut requests, mut batch) = (Vec::new(), Vec::new());
    while reader.next_batch(&mut batch).expect("good requests") > 0 {
        requests.append(&mut batch);
    }
    println!(
        "\n{}, {} requests, DRAM {TRACE_DRAM_BLOCKS} and SSD {TRACE_SSD_BLOCKS} blocks",
        reader.volumes()[0],
        requests.len()
    );
    println!("{:<24} {:>10} {:>10} {:>8} {:>7}", "scheme", "M req/s", "lru", "of LRU", "least");
    let ssd = Quota::new(0, TRACE_SSD_BLOCKS);
    let levels = Quota::new(TRACE_DRAM_BLOCKS, TRACE_SSD_BLOCKS).with(Level::ReadSsd, TRACE_SSD_BLOCKS);
    let mut rows = vec![("lru, one set", settings("lru", &["assoc=0"]), ssd)];
    rows.push(("etica, full-hybrid", settings("etica", &["mode=full-hybrid"]), levels));
    rows.extend(others().map(|info| (info.name, info.settings(), used_levels(info, levels))));
    rows.push(("flashcache, one set", settings("flashcache", &["assoc=0"]), ssd));
    let lru = settings("lru", &[]);
    for (name, settings, physical) in rows.into_iter().filter(|row| row.0.contains(only)) {
        let mut rates = [(); ROUNDS].map(|()| {
            let before = rate_of(&requests, &lru, ssd);
            let rate = rate_of(&requests, &settings, physical);
            (rate, (before + rate_of(&requests, &lru, ssd)) / 2.0)
        });
        rates.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
        let percent = |(rate, lru): (f64, f64)| 100.0 * rate / lru;
        let middle = rates[ROUNDS / 2];
        println!(
            "{name:<24} {:>10.2} {:>10.2} {:>8.1} {:>7.1}{}",
            middle.0 / 1e6,
            middle.1 / 1e6,
            percent(middle),
            percent(rates[0]),
            verdict(settings.scheme(), percent(middle)),
        );
    }
}

/// The share of `auto` of the rate of what decides in it, on so many requests.
fn beside_what_decides(requests: usize) {
    let scale = Scale { requests, blocks: 200_000, dram_blocks: 0, ssd_blocks: 0 };
    let trace = generate(&scale);
    let requests: Vec<TraceRequest> = (0..).zip(&trace).map(|(at, &packed)| unpack(at, packed)).collect();
    println!("\n{} requests of one block, zipf({SKEW}) over {} blocks", scale.requests, scale.blocks);
    println!(
        "{:<24} {:>10} {:>10} {:>10} {:>7} {:>12}",
        "blocks of auto", "M req/s", "decides", "% of it", "least", "of defaults"
    );
    let [auto, defaults] = ["auto", "benefit-density"].map(|scheme| settings(scheme, &[]));
    let decides = settings("benefit-density", &[SAMPLES_OF_AUTO]);
    for blocks in AUTO_BLOCKS {
        let levels = Quota::new(blocks / 5, blocks - blocks / 5);
        let mut rates = [(); ROUNDS].map(|()| {
            let before = rate_of(&requests, &decides, levels);
            let rate = rate_of(&requests, &auto, levels);
            let decides = (before + rate_of(&requests, &decides, levels)) / 2.0;
            (rate, decides, rate_of(&requests, &defaults, levels))
        });
        rates.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
        let percent = |(rate, decides, _): (f64, f64, f64)| 100.0 * rate / decides;
        let middle = rates[ROUNDS / 2];
        let is_below = percent(middle) < LEAST_OF_CHOSEN;
        let below = if is_below { format!("  BELOW {LEAST_OF_CHOSEN} %") } else { String::new() };
        println!(
            "{blocks:<24} {:>10.2} {:>10.2} {:>10.1} {:>7.1} {:>12.1}{below}",
            middle.0 / 1e6,
            middle.1 / 1e6,
            percent(middle),
            percent(rates[0]),
            100.0 * middle.0 / middle.2,
        );
    }
}

/// Requests a second of one replay.
fn rate_of(requests: &[TraceRequest], settings: &Settings, physical: Quota) -> f64 {
    let mut driver = Driver::new(
        settings,
        physical,
        BlockSize::KIB_4,
        ServiceTimes::default(),
        1,
        any(settings, physical),
    );
    let clock = Clock::start();
    for request in requests {
        driver.push(0, request).expect("one volume");
    }
    driver.finish();
    requests.len() as f64 / clock.seconds()
}

/// What a line says at its end of a share of LRU's rate.
fn verdict(scheme: &str, percent: f64) -> String {
    let (some, less) = LEAST_OF_SOME;
    let least = if some.contains(&scheme) { less } else { LEAST_OF_LRU };
    if percent < least { format!("  BELOW {least} %") } else { String::new() }
}

fn settings(scheme: &str, pairs: &[&str]) -> Settings {
    let mut settings = SchemeInfo::find(scheme).expect("a scheme of the registry").settings();
    pairs.iter().for_each(|pair| settings.set_pair(pair).expect("a setting of the scheme"));
    settings
}

fn any(settings: &Settings, physical: Quota) -> impl Fn(Quota) -> AnyScheme + Clone + 'static {
    let settings = settings.clone();
    move |share| build(&settings, physical, share)
}

struct Bench<'a> {
    trace: &'a [u32],
    distinct: usize,
    /// Only schemes whose name contains this are run.
    only: String,
    resident_at_start: Option<u64>,
    /// LRU's share of the yardstick.
    lru_percent: f64,
}

impl Bench<'_> {
    /// With a future that is known before the clock starts; it counts as resident.
    fn belady(&self, ssd: Quota) {
        let belady = settings("belady", &[]);
        if !self.wants(belady.scheme()) {
            return;
        }
        let mut builder = NextUsesBuilder::new();
        for &packed in self.trace {
            builder.access(u64::from(packed & !WRITE)).expect("few enough accesses");
        }
        let future = builder.finish();
        self.run("belady", &belady.clone(), ssd, move |share| {
            build_with_future(&belady, ssd, share, &future)
        });
    }

    fn run<T: Lookahead>(
        &self,
        name: &str,
        settings: &Settings,
        physical: Quota,
        build: impl Fn(Quota) -> T + Clone + 'static,
    ) {
        if self.wants(name) {
            self.print(name, self.measure(settings, physical, build));
        }
    }

    fn wants(&self, name: &str) -> bool {
        name.contains(&self.only)
    }

    fn measure<T: Lookahead>(
        &self,
        settings: &Settings,
        physical: Quota,
        build: impl Fn(Quota) -> T + Clone + 'static,
    ) -> Measured {
        let mut measured = Measured { rates: Vec::new(), yards: Vec::new(), ratios: Vec::new(), last: None };
        for _ in 0..ROUNDS {
            let before = yardstick(self.trace).0;
            let round = self.round(settings, physical, build.clone());
            let yard = (before + yardstick(self.trace).0) / 2.0;
            measured.rates.push(round.rate);
            measured.yards.push(yard);
            measured.ratios.push(100.0 * round.rate / yard);
            measured.last = Some(round);
        }
        measured
    }

    fn print(&self, name: &str, measured: Measured) {
        let Measured { mut rates, mut yards, mut ratios, last } = measured;
        let Round { counters, memory_bytes, peak_bytes, .. } = last.expect("at least one round");
        let hits: u64 = counters.read_hits.iter().sum();
        let per_block = |bytes: u64| format!("{:.1}", bytes as f64 / self.distinct as f64);
        let ratio = median(&mut ratios);
        let of_lru = 100.0 * ratio / self.lru_percent;
        println!(
            "{name:<24} {:>10.2} {:>10.2} {ratio:>11.1} {:>7.1} {of_lru:>8.1} {:>9.2} {:>12} {:>10}{}",
            median(&mut rates) / 1e6,
            median(&mut yards) / 1e6,
            ratios[0],
            100.0 * hits as f64 / counters.block_reads as f64,
            per_block(memory_bytes),
            peak_bytes.map_or("n/a".to_owned(), per_block),
            verdict(name, of_lru),
        );
    }

    fn round<T: Lookahead>(
        &self,
        settings: &Settings,
        physical: Quota,
        build: impl Fn(Quota) -> T + 'static,
    ) -> Round {
        // Makes the peak start anew, so that it is this round's.
        let fresh_peak = std::fs::write("/proc/self/clear_refs", "5").is_ok();
        let mut driver = Driver::new(settings, physical, BlockSize::KIB_4, ServiceTimes::default(), 1, build);
        let clock = Clock::start();
        for (time_ns, &packed) in (0..).zip(self.trace) {
            driver.push(0, &unpack(time_ns, packed)).expect("one volume");
        }
        driver.finish();
        let rate = self.trace.len() as f64 / clock.seconds();
        let peak = status_bytes("VmHWM:").zip(self.resident_at_start).filter(|_| fresh_peak);
        let counters = driver.outcomes().next().expect("one VM").tally.counters();
        assert_eq!(counters.requests as usize, self.trace.len());
        let memory_bytes = driver.schemes().map(|scheme| scheme.memory_bytes() as u64).sum();
        let peak_bytes = peak.map(|(peak, before)| peak.saturating_sub(before));
        Round { rate, counters, memory_bytes, peak_bytes }
    }
}

/// What several replays gave.
struct Measured {
    /// Requests a second.
    rates: Vec<f64>,
    /// The yardstick's look-ups a second.
    yards: Vec<f64>,
    /// The rates as shares of the yardstick, in per cent.
    ratios: Vec<f64>,
    last: Option<Round>,
}

/// What one replay of the trace gave.
struct Round {
    /// Requests a second.
    rate: f64,
    counters: Counters,
    memory_bytes: u64,
    peak_bytes: Option<u64>,
}

/// The middle one; leaves the values in order.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn unpack(time_ns: u64, packed: u32) -> TraceRequest {
    TraceRequest {
        time_ns,
        offset_bytes: u64::from(packed & !WRITE) * 4096,
        length_bytes: 4096,
        volume: 0,
        op: if packed & WRITE == 0 { RequestOp::Read } else { RequestOp::Write },
        origin: Origin::UNKNOWN,
    }
}

/// Look-ups a second, and distinct blocks.
fn yardstick(trace: &[u32]) -> (f64, usize) {
    let clock = Clock::start();
    let mut map: HashMap<u64, u32> = HashMap::new();
    let mut sum = 0u64;
    for (index, &packed) in (0u32..).zip(trace) {
        sum += u64::from(*map.entry(u64::from(packed & !WRITE)).or_insert(index));
    }
    black_box(sum);
    (trace.len() as f64 / clock.seconds(), map.len())
}

/// A clock of the time that this process had a processor, so that other programs do not count; the wall clock where
/// the system does not say.
struct Clock {
    start: Instant,
    start_ran: Option<Duration>,
}

impl Clock {
    fn start() -> Clock {
        Clock { start: Instant::now(), start_ran: Clock::ran() }
    }

    fn ran() -> Option<Duration> {
        let stat = std::fs::read_to_string("/proc/self/schedstat").ok()?;
        Some(Duration::from_nanos(stat.split_whitespace().next()?.parse().ok()?))
    }

    fn seconds(&self) -> f64 {
        let ran = Clock::ran().zip(self.start_ran).map(|(now, start)| now.saturating_sub(start));
        ran.unwrap_or_else(|| self.start.elapsed()).as_secs_f64()
    }
}

/// One number of `/proc/self/status`, in bytes.
fn status_bytes(key: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(key))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

/// Zipf by Vose's alias method. Ranks become block numbers by an odd factor, which scatters them and keeps
/// them apart.
fn generate(scale: &Scale) -> Vec<u32> {
    const SCATTER: u32 = 0x9e37_79b1;
    let weights: Vec<f64> = (1..=scale.blocks).map(|rank| f64::from(rank).powf(-SKEW)).collect();
    let total: f64 = weights.iter().sum();
    let mut keep: Vec<f64> = weights.iter().map(|weight| weight / total * f64::from(scale.blocks)).collect();
    let mut alias: Vec<u32> = (0..scale.blocks).collect();
    let (mut small, mut large): (Vec<u32>, Vec<u32>) =
        (0..scale.blocks).partition(|&i| keep[i as usize] < 1.0);
    while let (Some(low), Some(&high)) = (small.pop(), large.last()) {
        alias[low as usize] = high;
        keep[high as usize] -= 1.0 - keep[low as usize];
        if keep[high as usize] < 1.0 {
            large.pop();
            small.push(high);
        }
    }
    let mut state = SEED;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let packed = (0..scale.requests).map(|_| {
        let pick = ((random() >> 32) * u64::from(scale.blocks)) >> 32;
        let share = (random() >> 11) as f64 / (1u64 << 53) as f64;
        let rank = if share < keep[pick as usize] { pick as u32 } else { alias[pick as usize] };
        let op = if random() % 100 < READ_PERCENT { 0 } else { WRITE };
        rank.wrapping_mul(SCATTER) & !WRITE | op
    });
    packed.collect()
}
