//! How many blocks of a level are looked at for each that leaves. It must not know what they are worth.

/// Blocks of a level for each that is looked at, where more are looked at than are set.
const LEVEL_PER_SAMPLE: u64 = 8;

/// As many as are set, and of a large level perhaps more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Samples {
    set: u64,
    most: u64,
}

impl Samples {
    /// So many of a level of any size.
    pub(super) fn new(set: u64) -> Samples {
        Samples { set, most: set }
    }

    /// So many times as many, of a level that is large enough.
    pub(super) fn times(self, times: u64) -> Samples {
        Samples { most: self.set * times, ..self }
    }

    /// Of a level that holds so many blocks. More than are set are no more than a small part of the level: where nearly all are looked at,
    /// blocks that come again one after the other leave one after the other, just before they come, while chance keeps some of them.
    pub(super) fn of(self, blocks: u32) -> usize {
        let count = self.set.max(self.most.min(u64::from(blocks) / LEVEL_PER_SAMPLE));
        if blocks == 0 { 0 } else { count as usize }
    }
}
