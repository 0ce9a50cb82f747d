//! The schemes among which is chosen, with the settings that are chosen with them: the one by benefit, with more or less that a
//! write to the SSD has to be worth, and the one by recency, which lets in all that leaves DRAM, or what was hit there.
//!
//! It must not know which of them decides.

use lode_types::{BlockNo, Level};

use crate::effect::Slot;
use crate::quota::Quota;
use crate::scheme::Scheme;
use crate::schemes::benefit_density::BenefitDensity;
use crate::schemes::ucache_like::UcacheLike;
use crate::settings::Settings;

/// Prices that are tried, in parts of the one that is set.
const PRICES: [f64; 3] = [1.0, 0.1, 10.0];
/// Hits in DRAM that are tried as what makes a block worth a place on the SSD.
const WORTH_HITS: [u8; 2] = [0, 1];

/// A scheme with settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Candidate {
    /// benefit-density.
    Benefit { price_us: f64 },
    /// ucache-like.
    Recency { worth_hits: u8 },
}

impl Candidate {
    /// How many there are at most.
    pub(super) const MOST: u64 = (PRICES.len() + WORTH_HITS.len()) as u64;

    pub(super) fn is_same_scheme(self, other: Candidate) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }

    /// All of them; the one to begin with is the first.
    pub(super) fn all(settings: &Settings) -> Vec<Candidate> {
        let price_us = settings.number("write_price_us");
        let benefit = PRICES.iter().map(|part| Candidate::Benefit { price_us: price_us * part });
        let recency = WORTH_HITS.iter().map(|&worth_hits| Candidate::Recency { worth_hits });
        benefit.chain(recency).collect()
    }

    /// Whether it holds to a budget of SSD writes.
    pub(super) fn holds_to_budgets(self) -> bool {
        matches!(self, Candidate::Benefit { .. })
    }

    /// An empty cache.
    pub(super) fn build(self, settings: &Settings, quota: Quota) -> Cache {
        match self {
            Candidate::Benefit { price_us } => {
                let mut scheme = BenefitDensity::new(settings, quota);
                scheme.set_write_price(price_us);
                Cache::Benefit(Box::new(scheme))
            }
            Candidate::Recency { worth_hits } => {
                Cache::Recency(Box::new(UcacheLike::with_worth(settings, quota, worth_hits)))
            }
        }
    }

    /// Sets a cache's own settings to those of the candidate. False: it is a cache of another scheme.
    pub(super) fn set(self, cache: &mut Cache) -> bool {
        match (self, cache) {
            (Candidate::Benefit { price_us }, Cache::Benefit(scheme)) => scheme.set_write_price(price_us),
            (Candidate::Recency { worth_hits }, Cache::Recency(scheme)) => scheme.set_worth_hits(worth_hits),
            _ => return false,
        }
        true
    }
}

/// As in `lode compare --schemes`.
impl std::fmt::Display for Candidate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Candidate::Benefit { price_us } => write!(f, "benefit-density:write_price_us={price_us}"),
            Candidate::Recency { worth_hits } => write!(f, "ucache-like:worth_hits={worth_hits}"),
        }
    }
}

/// One VM's DRAM and SSD under one of the candidates.
#[derive(Debug)]
pub(super) enum Cache {
    /// See [`BenefitDensity`].
    Benefit(Box<BenefitDensity>),
    /// See [`UcacheLike`].
    Recency(Box<UcacheLike>),
}

macro_rules! each {
    ($any:expr, $this:ident => $call:expr) => {
        match $any {
            Cache::Benefit($this) => $call,
            Cache::Recency($this) => $call,
        }
    };
}

/// What another scheme needs to know of one whose blocks it takes over.
impl Cache {
    /// Where a block is in a level, and whether the copy is newer than the disk.
    pub(super) fn copy(&self, level: Level, block: BlockNo) -> Option<(Slot, bool)> {
        each!(self, scheme => scheme.copy(level, block))
    }

    /// Every slot of a level that holds a block, in any order.
    pub(super) fn each_slot(&self, level: Level, note: &mut dyn FnMut(Slot)) {
        each!(self, scheme => scheme.each_slot(level, note))
    }
}

dispatch_scheme!(Cache, each);
