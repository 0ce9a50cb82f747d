//! Shadows of all candidates: each is the ordinary scheme, with a part of the cache, for the same part of the blocks, which
//! holds no data and serves nobody. What their decisions would cost says which candidate is to decide.
//!
//! Blocks are sampled (SHARDS: Waldspurger et al., FAST 2015; miniature simulations: Waldspurger et al., USENIX ATC 2017) by
//! regions of the disk, and not one by one, so that a sample has neighbours, runs and requests of several blocks. It must not
//! know which candidate decides.

use lode_types::{Access, BlockNo, Level};

use super::candidates::{Cache, Candidate};
use super::cost::Cost;
use crate::effect::NullSink;
use crate::prefetch::PrefetchHint;
use crate::quota::Quota;
use crate::scheme::Scheme;
use crate::settings::Settings;

/// Blocks of a region, which is in the sample as a whole: a power of two.
const REGION_BITS: u32 = 6;
/// Another sample than those that others take.
const SALT: u64 = 0x6175_746f_2073_6861;
/// From one look at the costs to the next there are as many accesses as so many parts of the blocks of both levels, at least.
const PARTS: u64 = 4;
/// What is left of the sums after each look.
const KEPT: f64 = 0.9;

#[derive(Debug)]
struct Shadow {
    cache: Cache,
    cost: Cost,
    /// Of some time, the later counting more.
    recent: Spent,
}

/// What requests took with a candidate: together, or each on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Spent {
    /// Time of requests.
    pub(super) us: f64,
    /// Blocks written to the SSD.
    pub(super) ssd_writes: f64,
}

impl Spent {
    fn times(self, factor: f64) -> Spent {
        Spent { us: self.us * factor, ssd_writes: self.ssd_writes * factor }
    }

    fn and(self, other: Spent) -> Spent {
        Spent { us: self.us + other.us, ssd_writes: self.ssd_writes + other.ssd_writes }
    }
}

/// What a look at the shadows shows, by candidate.
#[derive(Debug)]
pub(super) struct Look {
    /// Of all requests since the last look, together.
    pub(super) new: Vec<Spent>,
    /// Of each request, on average of some time, the later counting more.
    pub(super) mean: Vec<Spent>,
    /// Requests that access as many blocks as both levels have, about, in the sample.
    pub(super) turnover_requests: f64,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Trial {
    shadows: Vec<Shadow>,
    /// Of 2^`sample_bits` regions one is in the sample.
    sample_bits: u32,
    least_blocks: u64,
    least_accesses: u64,
    /// Requests in the sample that count as recent, and those since the last look; and of these, block accesses.
    requests: f64,
    new_requests: u64,
    recent_accesses: f64,
    new_accesses: u64,
    /// The request under way has blocks of the sample.
    is_seen: bool,
    accesses: u64,
    next_look: u64,
    look_accesses: u64,
}

impl Trial {
    pub(super) fn new(settings: &Settings, candidates: &[Candidate], quota: Quota) -> Trial {
        let least_blocks = settings.integer("shadow_blocks");
        let sample_bits = sample_bits(least_blocks, quota);
        let share = sampled(quota, sample_bits);
        let shadow = |candidate: &Candidate| Shadow {
            cache: candidate.build(settings, share),
            cost: Cost::new(settings),
            recent: Spent::default(),
        };
        let least_accesses = settings.integer("look_accesses");
        let look_accesses = look_accesses(least_accesses, quota);
        Trial {
            shadows: candidates.iter().map(shadow).collect(),
            sample_bits,
            least_blocks,
            least_accesses,
            requests: 0.0,
            new_requests: 0,
            recent_accesses: 0.0,
            new_accesses: 0,
            is_seen: false,
            accesses: 0,
            next_look: look_accesses,
            look_accesses,
        }
    }

    /// Block accesses so far, in the sample or not.
    pub(super) fn accesses(&self) -> u64 {
        self.accesses
    }

    #[inline(always)]
    fn follows(&self, block: BlockNo) -> bool {
        let mut hash = ((block >> REGION_BITS) ^ SALT).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^= hash >> 32;
        hash = hash.wrapping_mul(0xd6e8_feb8_6659_fd93);
        hash.leading_zeros() >= self.sample_bits
    }

    /// Notes an access, before or after it is decided.
    #[inline]
    pub(super) fn access(&mut self, access: Access, hint: PrefetchHint) {
        self.accesses += 1;
        if self.follows(access.block) {
            self.access_sampled(access, PrefetchHint { entry: PrefetchHint::NO_ENTRY, ..hint });
        }
    }

    #[inline(never)]
    fn access_sampled(&mut self, access: Access, hint: PrefetchHint) {
        self.is_seen = true;
        self.new_accesses += 1;
        for shadow in &mut self.shadows {
            shadow.cost.begin_access(&access);
            shadow.cache.access_prefetched(access, hint, &mut shadow.cost);
        }
    }

    /// The request is over. Whether it is time to look at the costs.
    #[inline]
    pub(super) fn end_request(&mut self, now_ns: u64) -> bool {
        if self.is_seen {
            self.end_sampled(now_ns);
        }
        self.accesses >= self.next_look
    }

    #[inline(never)]
    fn end_sampled(&mut self, now_ns: u64) {
        self.is_seen = false;
        self.new_requests += 1;
        for shadow in &mut self.shadows {
            shadow.cache.end_request(now_ns, &mut shadow.cost);
            shadow.cost.end_request();
        }
    }

    /// What requests took with each candidate; `None`: there were none.
    pub(super) fn look(&mut self) -> Option<Look> {
        self.next_look = self.accesses + self.look_accesses;
        let new_requests = std::mem::take(&mut self.new_requests);
        self.requests = self.requests * KEPT + new_requests as f64;
        self.recent_accesses = self.recent_accesses * KEPT + std::mem::take(&mut self.new_accesses) as f64;
        let mut new = Vec::with_capacity(self.shadows.len());
        for shadow in &mut self.shadows {
            let spent = shadow.cost.take();
            shadow.recent = shadow.recent.times(KEPT).and(spent);
            new.push(spent);
        }
        if new_requests == 0 {
            return None;
        }
        let mean = self.shadows.iter().map(|shadow| shadow.recent.times(1.0 / self.requests)).collect();
        let turnover_accesses = ((self.look_accesses * PARTS) >> self.sample_bits) as f64;
        let turnover_requests = turnover_accesses * self.requests / self.recent_accesses;
        Some(Look { new, mean, turnover_requests })
    }

    /// The guest no longer needs a block.
    pub(super) fn discard(&mut self, block: BlockNo) {
        if self.follows(block) {
            self.shadows.iter_mut().for_each(|shadow| shadow.cache.discard(block, &mut NullSink));
        }
    }

    /// The VM has another share. Shadows keep what they know, unless the sample changes: then they begin anew.
    pub(super) fn resize(&mut self, settings: &Settings, candidates: &[Candidate], quota: Quota) {
        self.look_accesses = look_accesses(self.least_accesses, quota);
        let sample_bits = sample_bits(self.least_blocks, quota);
        let share = sampled(quota, sample_bits);
        let is_same = sample_bits == self.sample_bits;
        self.sample_bits = sample_bits;
        for (shadow, candidate) in self.shadows.iter_mut().zip(candidates) {
            match is_same {
                true => shadow.cache.resize(share, &mut NullSink),
                false => shadow.cache = candidate.build(settings, share),
            }
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let shadows = self.shadows.iter().map(|shadow| size_of::<Shadow>() + shadow.cache.memory_bytes());
        shadows.sum()
    }
}

fn blocks_of(quota: Quota) -> u64 {
    u64::from(quota.dram_blocks) + u64::from(quota.ssd_blocks)
}

fn look_accesses(least_accesses: u64, quota: Quota) -> u64 {
    (blocks_of(quota) / PARTS).max(least_accesses)
}

/// How often the blocks of both levels can be halved without being fewer than `least_blocks`.
pub(super) fn sample_bits(least_blocks: u64, quota: Quota) -> u32 {
    (blocks_of(quota) / least_blocks.max(1)).checked_ilog2().unwrap_or(0)
}

/// The part of a share that a sample has.
pub(super) fn sampled(quota: Quota, sample_bits: u32) -> Quota {
    quota.map(|level, blocks| match level {
        Level::ReadSsd => 0,
        _ if blocks == 0 => 0,
        _ => (blocks >> sample_bits).max(1),
    })
}
