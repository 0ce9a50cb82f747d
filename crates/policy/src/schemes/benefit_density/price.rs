//! What a write to the SSD has to be worth: a small price, or one that holds the writes to a budget.
//!
//! It must not know what is written.

use super::allowance::Allowance;
use crate::settings::{Settings, WriteBudget};

/// The price rises by this part with each write that is asked for while few are left, and falls by as much with each that is
/// allowed.
const STEP: f64 = 1.0 / 64.0;
/// No write is worth more than that.
const MOST_US: f64 = 1e6;

/// The price of a write to the SSD, and how many may come.
#[derive(Debug)]
pub(super) struct Price {
    least_us: f64,
    us: f64,
    /// By the scheme's own setting, and by what its host allows beside it.
    own: Allowance,
    of_host: Allowance,
    wanted_blocks: u64,
}

impl Price {
    pub(super) fn new(settings: &Settings) -> Price {
        let least_us = settings.number("write_price_us");
        let own = Allowance::new(settings.budget("write_budget"));
        let of_host = Allowance::new(WriteBudget::Any);
        Price { least_us, us: least_us, own, of_host, wanted_blocks: 0 }
    }

    /// The least price from now on, which is the price at once, unless a budget has raised it above.
    pub(super) fn set_least(&mut self, us: f64) {
        self.us = if self.us > self.least_us { self.us.max(us) } else { us };
        self.least_us = us;
    }

    /// What the host allows from now on.
    pub(super) fn set_of_host(&mut self, budget: WriteBudget) {
        self.of_host.set_budget(budget);
        if self.is_free() {
            self.us = self.least_us;
        }
    }

    /// Blocks that were worth the least price so far.
    pub(super) fn wanted_blocks(&self) -> u64 {
        self.wanted_blocks
    }

    #[inline(always)]
    fn is_free(&self) -> bool {
        self.own.is_any() && self.of_host.is_any()
    }

    /// What the saving by a block has to exceed.
    #[inline]
    pub(super) fn us(&self) -> f64 {
        self.us
    }

    /// Whether a block would be written at the least price.
    #[inline]
    pub(super) fn is_worth_the_least(&self, saved_us: f64) -> bool {
        saved_us > self.least_us
    }

    /// So many blocks that save so much together are not worth the price; they may be worth the least one.
    #[inline]
    pub(super) fn note_refused(&mut self, saved_us: f64, blocks: u32) {
        if self.us > self.least_us && saved_us > self.least_us * f64::from(blocks) {
            self.note_wanted(blocks);
        }
    }

    /// So many blocks would be written without a budget, and are not.
    pub(super) fn note_wanted(&mut self, blocks: u32) {
        self.wanted_blocks += u64::from(blocks);
    }

    /// Bytes of memory beside itself.
    pub(super) fn memory_bytes(&self) -> usize {
        self.own.memory_bytes() + self.of_host.memory_bytes()
    }

    /// A block is accessed.
    #[inline]
    pub(super) fn note_access(&mut self) {
        if !self.is_free() {
            let blocks = self.own.note_access() + self.of_host.note_access();
            self.fall(blocks);
        }
    }

    /// A request is over, which came at `now_ns`.
    #[inline]
    pub(super) fn end_request(&mut self, now_ns: u64) {
        if !self.is_free() {
            let blocks = self.own.end_request(now_ns) + self.of_host.end_request(now_ns);
            self.fall(blocks);
        }
    }

    fn fall(&mut self, blocks: f64) {
        self.us = (self.us / (1.0 + STEP * blocks)).max(self.least_us);
    }

    fn rise(&mut self) {
        // From nothing, too, it has to rise.
        let step = STEP * self.own.scarcity().max(self.of_host.scarcity());
        self.us = ((self.us + step) * (1.0 + step)).min(MOST_US);
    }

    /// Whether a block that is worth it may be written now; it will be.
    pub(super) fn pay(&mut self) -> bool {
        self.wanted_blocks += 1;
        if self.is_free() {
            return true;
        }
        self.rise();
        self.own.take_of_both(&mut self.of_host)
    }
}
