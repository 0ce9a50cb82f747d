//! The schemes among which is chosen, with the settings that are chosen with them: benefit-density, by benefit with more or less that
//! a write to the SSD has to be worth, and by recency; and ucache-like, which lets in what was hit in DRAM.
//!
//! It must not know which of them decides.

use lode_types::{BlockNo, Level};

use crate::effect::Slot;
use crate::quota::Quota;
use crate::scheme::Scheme;
use crate::schemes::benefit_density::{BenefitDensity, Order};
use crate::schemes::ucache_like::UcacheLike;
use crate::settings::Settings;

/// Prices that are tried, in parts of the one that is set.
const PRICES: [f64; 3] = [1.0, 0.1, 10.0];
/// Hits in DRAM that are tried as what makes a block worth a place on the SSD.
const WORTH_HITS: [u8; 1] = [1];

/// The cache that serves guests chooses what leaves among so many times as many blocks as a shadow, which looks at `samples`: there is a
/// shadow for each candidate, and each only has to be as good as the others.
const LIVE_SAMPLES: u64 = 4;

/// A scheme with settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Candidate {
    /// benefit-density by benefit.
    Benefit { price_us: f64 },
    /// benefit-density by recency, with the price that is set, which then counts for nothing.
    Recency { price_us: f64 },
    /// ucache-like.
    Ucache { worth_hits: u8 },
}

impl Candidate {
    /// How many there are at most.
    pub(super) const MOST: u64 = (PRICES.len() + 1 + WORTH_HITS.len()) as u64;

    pub(super) fn is_same_scheme(self, other: Candidate) -> bool {
        matches!(self, Candidate::Ucache { .. }) == matches!(other, Candidate::Ucache { .. })
    }

    /// Whether what is known of blocks counts for nothing with it, but counts with the other one.
    pub(super) fn ignores_what_counts_with(self, other: Candidate) -> bool {
        matches!(self, Candidate::Recency { .. }) && matches!(other, Candidate::Benefit { .. })
    }

    /// All of them; the one to begin with is the first.
    pub(super) fn all(settings: &Settings) -> Vec<Candidate> {
        let price_us = settings.number("write_price_us");
        let benefit = PRICES.iter().map(|part| Candidate::Benefit { price_us: price_us * part });
        let ucache = WORTH_HITS.iter().map(|&worth_hits| Candidate::Ucache { worth_hits });
        benefit.chain([Candidate::Recency { price_us }]).chain(ucache).collect()
    }

    /// Whether it holds to a budget of SSD writes, at a price that follows.
    pub(super) fn holds_to_budgets(self) -> bool {
        matches!(self, Candidate::Benefit { .. })
    }

    /// An empty cache that serves nobody.
    pub(super) fn build(self, settings: &Settings, quota: Quota) -> Cache {
        match self {
            Candidate::Benefit { .. } | Candidate::Recency { .. } => {
                let scheme = BenefitDensity::new(settings, quota, Order::Benefit);
                let mut cache = Cache::Benefit(Box::new(scheme));
                self.set(&mut cache);
                cache
            }
            Candidate::Ucache { worth_hits } => {
                Cache::Ucache(Box::new(UcacheLike::with_worth(settings, quota, worth_hits)))
            }
        }
    }

    /// An empty cache that serves nobody and stays with this candidate: by recency it need learn nothing of blocks, and its lists say who
    /// leaves, where that of [`Candidate::build`] looks for the oldest among 256 blocks.
    pub(super) fn build_to_stay(self, settings: &Settings, quota: Quota) -> Cache {
        match self {
            Candidate::Recency { .. } => Cache::Ucache(Box::new(UcacheLike::as_one_lru(settings, quota))),
            _ => self.build(settings, quota),
        }
    }

    /// An empty cache that serves guests.
    pub(super) fn build_live(self, settings: &Settings, quota: Quota) -> Cache {
        let mut cache = self.build(settings, quota);
        if let Cache::Benefit(scheme) = &mut cache {
            scheme.multiply_samples(LIVE_SAMPLES);
        }
        cache
    }

    /// Sets a cache's own settings to those of the candidate. False: it is a cache of another scheme.
    pub(super) fn set(self, cache: &mut Cache) -> bool {
        match (self, cache) {
            (Candidate::Benefit { price_us }, Cache::Benefit(scheme)) => {
                scheme.set_write_price(price_us);
                scheme.set_order(Order::Benefit);
            }
            (Candidate::Recency { price_us }, Cache::Benefit(scheme)) => {
                scheme.set_write_price(price_us);
                scheme.set_order(Order::Recency);
            }
            (Candidate::Ucache { worth_hits }, Cache::Ucache(scheme)) => scheme.set_worth_hits(worth_hits),
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
            Candidate::Recency { .. } => write!(f, "benefit-density:order=recency"),
            Candidate::Ucache { worth_hits } => write!(f, "ucache-like:worth_hits={worth_hits}"),
        }
    }
}

/// One VM's DRAM and SSD under one of the candidates.
#[derive(Debug)]
pub(super) enum Cache {
    /// See [`BenefitDensity`].
    Benefit(Box<BenefitDensity>),
    /// See [`UcacheLike`].
    Ucache(Box<UcacheLike>),
}

macro_rules! each {
    ($any:expr, $this:ident => $call:expr) => {
        match $any {
            Cache::Benefit($this) => $call,
            Cache::Ucache($this) => $call,
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
