//! What is known of a page of the place tables at a start: what its copies say, and whether that is what is found. It must not know the places.

/// A page of the place tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundPage {
    /// Sequence of its newer copy.
    pub(crate) sequence: u64,
    /// Version up to which that speaks of durable things only.
    pub(crate) stamp: u64,
    /// What it says, and its checksum where it is known to be where it belongs.
    pub(crate) says: Says,
    pub(crate) checksum: Option<u32>,
    /// Which copies say what is found. What is found of a place since ends that.
    pub(crate) right: RightCopies,
    /// A copy may have been written since the last start, and no flush be known to cover it; or not every device that keeps it is known to have the same.
    pub(crate) is_recent: bool,
}

impl FoundPage {
    /// One that says nothing of any place, in both copies.
    pub(crate) const EMPTY: FoundPage = FoundPage {
        sequence: 2,
        stamp: 0,
        says: Says::Before,
        checksum: None,
        right: RightCopies::Both,
        is_recent: false,
    };
}

/// Those of a page's two copies that say what is found, all of it durable, on each device that keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RightCopies {
    Neither,
    Newer,
    Both,
}

/// What the newer copy of a page says of its places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// What tables said before anything else was found.
    Before,
    /// What is found, and of places that hold nothing any more what was said before.
    FoundAndBefore,
    /// What is found.
    Found,
}
