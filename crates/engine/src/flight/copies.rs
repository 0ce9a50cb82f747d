//! The copies of a block in flight: which is read, what a damaged one means, and which may not go.

use lode_policy::CopySource;
use lode_store::Place;
use lode_types::{Level, planted};

use super::{BlockOp, Damage, Facts, Flight};
use crate::guest::Served;

/// Where the bytes of a read, a merge or a copy come from. Fast to slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyAt {
    Dram,
    ReadSsd,
    Ssd,
    Backing,
}

impl CopyAt {
    const ALL: [CopyAt; 4] = [CopyAt::Dram, CopyAt::ReadSsd, CopyAt::Ssd, CopyAt::Backing];
}

impl From<Level> for CopyAt {
    fn from(level: Level) -> CopyAt {
        match level {
            Level::Dram => CopyAt::Dram,
            Level::Ssd => CopyAt::Ssd,
            Level::ReadSsd => CopyAt::ReadSsd,
        }
    }
}

impl From<CopySource> for CopyAt {
    fn from(from: CopySource) -> CopyAt {
        from.level().map_or(CopyAt::Backing, CopyAt::from)
    }
}

impl From<CopyAt> for Served {
    fn from(copy: CopyAt) -> Served {
        match copy {
            CopyAt::Dram => Served::Dram,
            CopyAt::ReadSsd => Served::ReadSsd,
            CopyAt::Ssd => Served::Ssd,
            CopyAt::Backing => Served::Backing,
        }
    }
}

/// A block's copy on the SSD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SsdCopy {
    /// There is none.
    #[default]
    None,
    /// It is at this place.
    Whole(Place),
    /// It is newer than the backing disk and damaged. Without another copy reads fail until the block is overwritten.
    Lost(Place),
}

impl SsdCopy {
    /// Where it is, damaged or not.
    pub(crate) fn place(self) -> Option<Place> {
        match self {
            SsdCopy::None => None,
            SsdCopy::Whole(place) | SsdCopy::Lost(place) => Some(place),
        }
    }

    /// Where it is if it can be used.
    pub(crate) fn whole(self) -> Option<Place> {
        if let SsdCopy::Whole(place) = self { Some(place) } else { None }
    }

    /// Where it is if its bytes can be read, there or with another copy elsewhere.
    pub(crate) fn readable(self, has_spare: bool) -> Option<Place> {
        if has_spare { self.place() } else { self.whole() }
    }

    pub(crate) fn is_lost(self) -> bool {
        matches!(self, SsdCopy::Lost(_))
    }
}

impl Flight {
    /// Whether there is a copy beside the one on the SSD.
    pub(crate) fn has_spare(&self) -> bool {
        self.frame.is_some() || self.mirror.is_some()
    }

    /// Where the block's newest bytes are read from: the copy that was decided on while it is there, else the fastest.
    /// `None`: the only copy is damaged.
    pub(crate) fn source(&self, decided: CopyAt) -> Option<CopyAt> {
        let is_there = |copy: &CopyAt| match copy {
            CopyAt::Dram => self.frame.is_some(),
            CopyAt::ReadSsd => self.mirror.is_some(),
            CopyAt::Ssd => self.copy.whole().is_some(),
            CopyAt::Backing => self.copy.place().is_none(),
        };
        std::iter::once(decided).chain(CopyAt::ALL).find(is_there)
    }

    /// The place of the copy on the SSD if it is dirty and its bytes can be read.
    pub(crate) fn dirty_copy(&self, facts: &Facts) -> Option<Place> {
        self.copy.readable(self.has_spare()).filter(|_| facts.is_dirty)
    }

    /// Whether the block's newest bytes may soon be nowhere else than in the copies beside the one on the SSD: that one
    /// is dirty, and damaged, on its way out, or on an SSD that failed.
    pub(crate) fn stands_in(&self, facts: &Facts) -> bool {
        match self.copy {
            SsdCopy::None => false,
            SsdCopy::Lost(_) => true,
            SsdCopy::Whole(_) => facts.is_dirty && (self.slot(Level::Ssd).is_none() || !facts.is_well),
        }
    }

    /// This copy was read and is damaged, or could not be read: it is not read again. `None` for copies that are none of
    /// the cache's.
    pub(super) fn damaged(&mut self, copy: CopyAt, facts: &Facts) -> Option<Damage> {
        match copy {
            CopyAt::Dram | CopyAt::Backing => None,
            CopyAt::ReadSsd => {
                self.mirror = None;
                Some(Damage::Mirror { last: self.copy.is_lost() && !self.has_spare() })
            }
            CopyAt::Ssd => {
                let place = self.copy.place().expect("its copy was read");
                Some(if !facts.is_dirty || planted("damaged-dirty-block-is-clean") {
                    self.copy = SsdCopy::None;
                    Damage::Clean(place)
                } else {
                    self.copy = SsdCopy::Lost(place);
                    if self.has_spare() {
                        self.queue.push_back(BlockOp::Repair);
                        Damage::Mirrored(place)
                    } else {
                        Damage::Lost(place)
                    }
                })
            }
        }
    }
}
