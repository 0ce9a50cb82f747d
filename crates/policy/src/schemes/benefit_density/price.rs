//! What a write to the SSD has to be worth: a small price, or one that holds the writes to a budget.
//!
//! It must not know what is written.

use crate::settings::Settings;

/// Writes that may be saved up: so many, and this part of what was allowed so far.
const SAVED_BLOCKS: f64 = 16.0;
const SAVED_PART: f64 = 0.002;
/// The price rises by this part with each write that is asked for, and falls by as much with each that is allowed.
const STEP: f64 = 1.0 / 64.0;
/// No write is worth more than that.
const MOST_US: f64 = 1e6;

/// The price of a write to the SSD, and how many may come.
#[derive(Debug)]
pub(super) struct Price {
    least_us: f64,
    us: f64,
    /// Writes allowed for each access; 0: any.
    blocks_per_access: f64,
    /// Writes allowed so far, and how many of them may come now.
    allowed_blocks: f64,
    left_blocks: f64,
}

impl Price {
    pub(super) fn new(settings: &Settings) -> Price {
        let least_us = settings.number("write_price_us");
        let blocks_per_access = settings.number("write_budget") / 100.0;
        Price { least_us, us: least_us, blocks_per_access, allowed_blocks: 0.0, left_blocks: SAVED_BLOCKS }
    }

    /// The least price from now on, which is the price at once, unless a budget has raised it above.
    pub(super) fn set_least(&mut self, us: f64) {
        self.us = if self.us > self.least_us { self.us.max(us) } else { us };
        self.least_us = us;
    }

    /// What the saving by a block has to exceed.
    #[inline]
    pub(super) fn us(&self) -> f64 {
        self.us
    }

    /// A block is accessed.
    #[inline]
    pub(super) fn note_access(&mut self) {
        if self.blocks_per_access > 0.0 {
            self.allowed_blocks += self.blocks_per_access;
            let most = SAVED_BLOCKS + self.allowed_blocks * SAVED_PART;
            self.left_blocks = (self.left_blocks + self.blocks_per_access).min(most);
            self.us = (self.us / (1.0 + STEP * self.blocks_per_access)).max(self.least_us);
        }
    }

    /// Whether a block that is worth it may be written now; it will be.
    pub(super) fn pay(&mut self) -> bool {
        if self.blocks_per_access == 0.0 {
            return true;
        }
        // From nothing, too, it has to rise.
        self.us = ((self.us + STEP) * (1.0 + STEP)).min(MOST_US);
        let pays = self.left_blocks >= 1.0;
        if pays {
            self.left_blocks -= 1.0;
        }
        pays
    }
}
