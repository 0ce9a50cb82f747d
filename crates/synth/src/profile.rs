//! What a profile says, as it stands in TOML. It must not know how requests come of it.

use serde::{Deserialize, Serialize};

use crate::check::refused;
use crate::error::SynthError;

/// A workload: `docs/profiles.md` describes every key. Lengths are bytes, and shares are numbers from 0 to 1.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Lower-case letters, digits and `_ - .`; the volume is called `synthetic:` and this.
    pub name: String,
    /// One line about the workload.
    #[serde(default)]
    pub about: String,
    /// Figures that somebody published, each with its source.
    #[serde(default)]
    pub published: Vec<String>,
    /// What is assumed where nothing is published, or what a fit leaves out.
    #[serde(default)]
    pub assumed: Vec<String>,
    /// Where chance starts.
    #[serde(default)]
    pub seed: u64,
    /// Number of requests.
    pub requests: u64,
    /// Bytes of the different blocks that requests may touch.
    pub footprint_bytes: u64,
    /// The unit of reuse; a power of two.
    #[serde(default = "default_block_bytes")]
    pub block_bytes: u64,
    /// Share of the requests that read; the others write.
    pub read_share: f64,
    /// How long requests are.
    pub sizes: Sizes,
    /// When requests come.
    pub arrival: Arrival,
    /// What is accessed, one phase after the other.
    pub phase: Vec<Phase>,
}

fn default_block_bytes() -> u64 {
    4096
}

/// Lengths of requests and where they start.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// Lengths of reads in bytes, each with its weight.
    #[serde(default)]
    pub read: Vec<(u32, f64)>,
    /// Lengths of writes in bytes, each with its weight.
    #[serde(default)]
    pub write: Vec<(u32, f64)>,
    /// Share of the places that start a block.
    #[serde(default = "one")]
    pub aligned_share: f64,
    /// The other places are at multiples of this inside a block; a power of two.
    #[serde(default = "default_alignment_bytes")]
    pub alignment_bytes: u64,
}

fn one() -> f64 {
    1.0
}

fn default_alignment_bytes() -> u64 {
    lode_types::SECTOR_BYTES
}

/// Times between requests.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Arrival {
    /// All the same.
    Constant {
        /// Requests a second.
        requests_per_s: f64,
    },
    /// Independent of each other.
    Poisson {
        /// Requests a second, in the mean.
        requests_per_s: f64,
    },
    /// Bursts in which requests are independent of each other, and silence between them.
    OnOff {
        /// Requests a second within a burst, in the mean.
        requests_per_s: f64,
        /// Mean seconds of a burst.
        on_s: f64,
        /// Mean seconds between bursts.
        off_s: f64,
    },
    /// Times drawn from a list.
    Gaps {
        /// Mean microseconds, each with its weight; a time is within a third of the mean drawn.
        gaps_us: Vec<(f64, f64)>,
    },
}

/// A part of the requests that is made in the same way.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Share of all requests; those of all phases add up to 1.
    #[serde(default = "one")]
    pub share: f64,
    /// What is mixed in it.
    pub stream: Vec<Stream>,
}

/// One of the streams that a phase mixes.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Share of the phase's requests; those of all its streams add up to 1.
    #[serde(default = "one")]
    pub weight: f64,
    /// The part of the footprint that it accesses: from and to, 0 to 1.
    #[serde(default = "whole")]
    pub range: (f64, f64),
    /// Share of its requests that read, when it is not the profile's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_share: Option<f64>,
    /// Share of its requests that start where its last one ended, as far as that is possible.
    #[serde(default)]
    pub sequential_share: f64,
    /// Number of places that it goes on from, each as likely as another: sequential streams that are mixed.
    #[serde(default = "one_place")]
    pub places: u32,
    /// Share of its requests that do what the one before did, above what chance gives.
    #[serde(default)]
    pub repeat_share: f64,
    /// Share of its other reads that go where one of its last writes went.
    #[serde(default)]
    pub read_after_write_share: f64,
    /// How it chooses where to go otherwise.
    pub pattern: Pattern,
}

fn one_place() -> u32 {
    1
}

fn whole() -> (f64, f64) {
    (0.0, 1.0)
}

/// How a stream chooses a place.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Pattern {
    /// Every block is as likely as another.
    Random,
    /// Ascending through the range, over and over.
    Loop,
    /// Ascending in runs that start anywhere.
    Sequential {
        /// Mean bytes of a run.
        run_bytes: u64,
    },
    /// The block of rank r in proportion to r to the power of minus `exponent`; ranks are scattered over the range.
    Zipf {
        /// 0 (as random) to 4.
        exponent: f64,
    },
    /// New blocks and those used before, as distances in the stack of recency say.
    Reuse(Reuse),
}

/// Which blocks are new, and how far back the others were used. Shares are of block touches.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Reuse {
    /// Blocks that follow each other stay together in runs of these bytes, and runs are scattered over the range; a
    /// power of two, at least the longest request and a block.
    pub run_bytes: u64,
    /// Of the blocks that are touched at all, the share whose first touch reads.
    pub new_by_reads_share: f64,
    /// Touches that read a block again.
    #[serde(default)]
    pub read: Vec<Again>,
    /// Touches that write a block again.
    #[serde(default)]
    pub write: Vec<Again>,
}

/// Touches of blocks again after touches of one kind.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Again {
    /// What the block's touch before was; any when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<After>,
    /// Share of the touches again by the same operation.
    #[serde(default = "one")]
    pub share: f64,
    /// Distances, each with its weight: number n stands for those from the number before (0 at first) to n - 1, that
    /// is, for what a cache of n blocks hits and one of the number before misses.
    pub distances: Vec<(u64, f64)>,
}

/// What a block's previous touch was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum After {
    /// A read.
    Read,
    /// A write.
    Write,
}

impl Stream {
    /// A stream of all requests over the whole footprint, with this pattern and nothing else.
    pub fn new(pattern: Pattern) -> Stream {
        Stream {
            weight: 1.0,
            range: whole(),
            read_share: None,
            sequential_share: 0.0,
            places: one_place(),
            repeat_share: 0.0,
            read_after_write_share: 0.0,
            pattern,
        }
    }
}

impl Profile {
    /// The profile as TOML, which [`Profile::parse`] reads.
    ///
    /// # Errors
    /// [`SynthErrorKind::Profile`](crate::SynthErrorKind::Profile) when a number has no form in TOML.
    pub fn to_toml(&self) -> Result<String, SynthError> {
        toml::to_string(self).map_err(|error| {
            refused(&self.name, format!("Cannot write the profile as TOML: {error}; correct its numbers"))
        })
    }

    /// The same workload made smaller or larger: requests, footprint and distances times `factor`. Rates, sizes and
    /// shares stay, so that a cache of the same share of the footprint has the same hit ratio.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Profile {
        let times = |number: u64| libm::round(number as f64 * factor).max(1.0) as u64;
        let mut scaled = self.clone();
        scaled.requests = times(self.requests);
        let footprint_bytes = times(self.footprint_bytes);
        // What is too large is refused by the check.
        scaled.footprint_bytes =
            footprint_bytes.checked_next_multiple_of(self.block_bytes).unwrap_or(footprint_bytes);
        for stream in scaled.phase.iter_mut().flat_map(|phase| &mut phase.stream) {
            let Pattern::Reuse(reuse) = &mut stream.pattern else { continue };
            for again in reuse.read.iter_mut().chain(&mut reuse.write) {
                let mut merged: Vec<(u64, f64)> = Vec::with_capacity(again.distances.len());
                for &(end, weight) in &again.distances {
                    match merged.last_mut() {
                        Some((last, sum)) if *last == times(end) => *sum += weight,
                        _ => merged.push((times(end), weight)),
                    }
                }
                again.distances = merged;
            }
        }
        scaled
    }
}
