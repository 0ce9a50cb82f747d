//! How curves are obtained, and over which intervals. It must not know what curves are for.

use lode_reuse::{CounterStacksConfig, MIN_FOLLOWED_BLOCKS, Method};

use crate::streams::Interval;

/// Blocks of a VM that `auto` follows one by one: those of 4 GiB.
const AUTO_BLOCKS: u32 = 1 << 20;

/// How curves are obtained when nothing is said: exactly as long as that is quick. What is slow is the curve of a
/// write-only cache of many blocks.
pub fn auto_method(has_wbwo: bool) -> Method {
    if has_wbwo { Method::Size(AUTO_BLOCKS) } else { Method::Exact }
}

/// What `--sample` asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Followed {
    /// Every block.
    Exact,
    /// This share of the blocks. A curve follows more where that leaves few; a simulation keeps to it.
    Rate(f64),
    /// At most so many blocks.
    Size(u32),
    /// Every block, but not where it lies: average eviction time.
    Aet,
    /// No block by itself: Counter Stacks.
    CounterStacks,
}

impl Followed {
    /// The same of a curve.
    pub fn method(self) -> Method {
        match self {
            Followed::Exact => Method::Exact,
            Followed::Rate(rate) => Method::LeastRate(rate),
            Followed::Size(blocks) => Method::Size(blocks),
            Followed::Aet => Method::Aet,
            Followed::CounterStacks => Method::CounterStacks(CounterStacksConfig::default()),
        }
    }
}

/// How curves are obtained: `exact`, `rate=0.01`, `size=8192`, `aet`, `counter-stacks`.
pub fn parse_method(text: &str) -> Result<Followed, String> {
    sampling(text).unwrap_or_else(|| match text {
        "aet" => Ok(Followed::Aet),
        "counter-stacks" => Ok(Followed::CounterStacks),
        _ => Err("Write exact, rate=R, size=N, aet or counter-stacks".to_owned()),
    })
}

/// The same without models, which know no pairs of levels: `exact`, `rate=0.01`, `size=8192`.
pub fn parse_sampling(text: &str) -> Result<Followed, String> {
    sampling(text).unwrap_or_else(|| Err("Write exact, rate=R or size=N".to_owned()))
}

/// All or a part of the blocks; none for anything else.
fn sampling(text: &str) -> Option<Result<Followed, String>> {
    let sampled = match text.split_once('=') {
        Some(("rate", value)) => match value.parse::<f64>() {
            Ok(rate) if rate > 0.0 && rate <= 1.0 => Ok(Followed::Rate(rate)),
            Ok(_) => Err("A rate is above 0 and at most 1, such as rate=0.01".to_owned()),
            Err(_) => Err(format!("'{value}' is not a number")),
        },
        Some(("size", value)) => match value.parse() {
            Ok(blocks) if blocks >= MIN_FOLLOWED_BLOCKS => Ok(Followed::Size(blocks)),
            _ => Err(format!(
                "A size is a whole number of blocks from {MIN_FOLLOWED_BLOCKS} to {}, such as size=8192",
                u32::MAX
            )),
        },
        None if text == "exact" => Ok(Followed::Exact),
        _ => return None,
    };
    Some(sampled)
}

const NS_PER_S: u64 = 1_000_000_000;

/// Whole days of the longest interval, whose nanoseconds are below 2^64.
const MAX_INTERVAL_DAYS: u64 = u64::MAX / NS_PER_S / 86_400;

/// An interval: so many requests (`10000`), or so much time (`10min`, `30s`).
pub fn parse_interval(text: &str) -> Result<Interval, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err("Write a number of requests, or a time such as 10min".to_owned());
    }
    let too_long =
        || format!("Intervals are of up to {MAX_INTERVAL_DAYS}d, or {} requests; write less", u64::MAX);
    let number: u64 = number.parse().map_err(|_| too_long())?;
    let unit_s = match unit.trim() {
        "" if number > 0 => return Ok(Interval::Requests(number)),
        "s" => 1,
        "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => 0,
    };
    match number.checked_mul(unit_s * NS_PER_S) {
        None => Err(too_long()),
        Some(ns) if ns > 0 => Ok(Interval::TimeNs(ns)),
        _ => Err("Write a number of requests above 0, or a time in s, min, h or d such as 10min".to_owned()),
    }
}
