//! Which block one operation should touch next, so that what it touched in all follows the distribution asked for. It
//! must not know where blocks are.
//!
//! A request touches many blocks, and only the first is chosen: the others are as far back in the stack as they are. So
//! distances are not simply drawn. What each touch turned out to be is counted, and a draw that would add to what is
//! there too often already is drawn again: the counts follow their shares, whatever the others do to them. This method
//! is ours.

use lode_types::Rng;

use crate::alias::Alias;
use crate::profile::{After, Again};

/// Touches by which a count may be ahead of its share.
const AHEAD: f64 = 256.0;
/// Draws before the count that is furthest behind is chosen instead.
const TRIES: usize = 8;
/// Blocks that new ones must be behind for the next request to be of new ones for certain.
const NEW_BEHIND: f64 = 64.0;

/// Where the next request of the operation should start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    New,
    /// At a block with a distance from `from` to below `to`, whose latest touch was of this kind (wrote it or not).
    Again {
        from: u32,
        to: u32,
        after_write: Option<bool>,
    },
}

/// Distances that are counted together.
#[derive(Clone, Debug)]
struct Bin {
    from: u32,
    to: u32,
    after_write: Option<bool>,
    share: f64,
    count: u64,
}

/// The counts of one operation.
#[derive(Clone, Debug)]
pub(crate) struct Steer {
    bins: Vec<Bin>,
    alias: Option<Alias>,
    /// For touches after reads and after writes: the bins from there on, and where each ends.
    rows: [(usize, Vec<u32>); 2],
    again: u64,
    new: u64,
    /// Blocks that are to become new a request.
    new_per_request: f64,
    requests: u64,
}

impl Steer {
    /// `new` blocks are to become known over `requests`.
    pub(crate) fn new(list: &[Again], new: f64, requests: u64) -> Steer {
        let mut bins = Vec::new();
        let mut rows = [(0, Vec::new()), (0, Vec::new())];
        for again in list {
            let sum: f64 = again.distances.iter().map(|&(_, weight)| weight).sum();
            let ends: Vec<u32> =
                again.distances.iter().map(|&(end, _)| u32::try_from(end).unwrap_or(u32::MAX)).collect();
            for after_write in [false, true] {
                let kind = if after_write { After::Write } else { After::Read };
                if again.after.is_none_or(|after| after == kind) {
                    rows[usize::from(after_write)] = (bins.len(), ends.clone());
                }
            }
            let mut from = 0;
            for (&to, &(_, weight)) in ends.iter().zip(&again.distances) {
                let after_write = again.after.map(|after| after == After::Write);
                bins.push(Bin { from, to, after_write, share: again.share * weight / sum, count: 0 });
                from = to;
            }
        }
        let shares: Vec<_> = bins.iter().map(|bin| bin.share).collect();
        let alias = shares.iter().any(|&share| share > 0.0).then(|| Alias::new(&shares));
        let new_per_request = new / requests.max(1) as f64;
        Steer { bins, alias, rows, again: 0, new: 0, new_per_request, requests: 0 }
    }

    /// Where the operation's next request should start, when `known` blocks have been touched and there are new
    /// ones or not.
    pub(crate) fn aim(&mut self, known: u32, is_new_left: bool, rng: &mut Rng) -> Aim {
        let behind = (self.requests + 1) as f64 * self.new_per_request - self.new as f64;
        if known == 0 || is_new_left && NEW_BEHIND * rng.unit() < behind {
            return Aim::New;
        }
        let bound = self.again as f64 + AHEAD;
        if let Some(alias) = &self.alias {
            for _ in 0..TRIES {
                let bin = &self.bins[alias.draw(rng)];
                // So far back there is nothing yet: what would be there has to come first.
                if is_new_left && bin.to > known && bin.draw(rng) >= known {
                    return Aim::New;
                }
                if bin.from < known && (bin.count as f64) < bin.share * bound {
                    return bin.aim();
                }
            }
        }
        let behind = |bin: &&Bin| bin.share * bound - bin.count as f64;
        let reachable = self.bins.iter().filter(|bin| bin.from < known && bin.share > 0.0);
        let furthest = reachable.max_by(|a, b| behind(a).total_cmp(&behind(b)));
        furthest.map_or(Aim::Again { from: 0, to: known, after_write: None }, Bin::aim)
    }

    /// A request is over, whose touches have been told.
    #[inline]
    pub(crate) fn met_request(&mut self) {
        self.requests += 1;
    }

    /// A touch turned out to be of a new block.
    #[inline]
    pub(crate) fn met_new(&mut self) {
        self.new += 1;
    }

    /// A touch turned out to be of a block with this distance, whose latest touch wrote it or not.
    #[inline]
    pub(crate) fn met_again(&mut self, distance: u32, after_write: bool) {
        self.again += 1;
        let (first, ends) = &self.rows[usize::from(after_write)];
        let at = ends.partition_point(|&end| end <= distance);
        if at < ends.len() {
            self.bins[first + at].count += 1;
        }
    }
}

impl Bin {
    /// One of its distances, each as likely as another.
    fn draw(&self, rng: &mut Rng) -> u32 {
        self.from + rng.below(u64::from(self.to - self.from)) as u32
    }

    fn aim(&self) -> Aim {
        Aim::Again { from: self.from, to: self.to, after_write: self.after_write }
    }
}
