//! Which set a block belongs to, and how many blocks a set may hold.
//!
//! The paper's caches are set associative with 512 blocks a set (EnhanceIO, flashcache). Ours follow a
//! share that changes while a VM runs, so the number of sets is a power of two and the share is spread
//! over the sets evenly: a set has from `assoc` to `2 * assoc - 1` ways, a share that is a power-of-two
//! multiple of `assoc` gives exactly `assoc`, and the sets split or merge only when the share doubles
//! or falls well below half.

use lode_types::BlockNo;

/// How a block's cluster (`assoc` consecutive blocks) is mapped to a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapKind {
    /// Cluster number modulo the number of sets (EnhanceIO, old flashcache).
    Modulo,
    /// Bob Jenkins' hash of the cluster number modulo the number of sets (flashcache since format 3).
    Jhash,
}

/// The sets of one level of one VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Blocks of a set; 0 means full associativity.
    assoc: u32,
    cluster_shift: u32,
    map: MapKind,
    sets_log2: u32,
    /// Which bits of a cluster's hash are its set.
    set_mask: u32,
    blocks: u32,
    /// Blocks of every set, and how many of the sets, the first ones, have one more.
    even_ways: u32,
    wider_sets: u32,
}

impl Geometry {
    /// The sets of a share of `blocks`. `assoc` 0 makes one set of everything.
    pub fn new(assoc: u32, map: MapKind, blocks: u32) -> Geometry {
        let cluster_shift = if assoc == 0 { 0 } else { assoc.ilog2() };
        let empty = Geometry {
            assoc,
            cluster_shift,
            map,
            sets_log2: 0,
            set_mask: 0,
            blocks: 0,
            even_ways: 0,
            wider_sets: 0,
        };
        empty.with(fresh_sets_log2(assoc, blocks), blocks)
    }

    fn with(self, sets_log2: u32, blocks: u32) -> Geometry {
        let set_mask = (1 << sets_log2) - 1;
        let (even_ways, wider_sets) = (blocks >> sets_log2, blocks & set_mask);
        Geometry { sets_log2, set_mask, blocks, even_ways, wider_sets, ..self }
    }

    /// The sets after the share changed. The number of sets stays where it is until the share would
    /// give sets of `2 * assoc` ways or more, or of less than three quarters of `assoc`.
    pub fn resized(&self, blocks: u32) -> Geometry {
        let ways = blocks >> self.sets_log2;
        let keep = self.assoc == 0
            || (ways < self.assoc.saturating_mul(2)
                && (self.sets_log2 == 0 || ways >= self.assoc - self.assoc / 4));
        let sets_log2 = if keep { self.sets_log2 } else { fresh_sets_log2(self.assoc, blocks) };
        self.with(sets_log2, blocks)
    }

    /// Blocks of a set as they were asked for; 0 means full associativity.
    pub fn assoc(&self) -> u32 {
        self.assoc
    }

    /// Number of sets, a power of two.
    pub fn sets(&self) -> u32 {
        1 << self.sets_log2
    }

    /// Blocks that all sets together may hold.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Blocks that `set` may hold.
    #[inline]
    pub fn ways(&self, set: u32) -> u32 {
        self.even_ways + u32::from(set < self.wider_sets)
    }

    /// The set of `block`.
    #[inline]
    pub fn set_of(&self, block: BlockNo) -> u32 {
        let cluster = block >> self.cluster_shift;
        let hash = match self.map {
            MapKind::Modulo => cluster as u32,
            MapKind::Jhash => jhash(cluster),
        };
        hash & self.set_mask
    }
}

/// The largest power of two of sets that have at least `assoc` ways each; one set when there is not
/// enough for that.
fn fresh_sets_log2(assoc: u32, blocks: u32) -> u32 {
    blocks.checked_div(assoc).map_or(0, |sets| sets.max(1).ilog2())
}

/// Bob Jenkins' lookup3 over the two 32-bit halves of `cluster`.
fn jhash(cluster: u64) -> u32 {
    const INITIAL: u32 = 0xdead_beef + (2 << 2);
    let mut words = [INITIAL.wrapping_add(cluster as u32), INITIAL, INITIAL];
    words[1] = words[1].wrapping_add((cluster >> 32) as u32);
    for (into, from, turn) in
        [(2, 1, 14), (0, 2, 11), (1, 0, 25), (2, 1, 16), (0, 2, 4), (1, 0, 14), (2, 1, 24)]
    {
        words[into] = (words[into] ^ words[from]).wrapping_sub(words[from].rotate_left(turn));
    }
    words[2]
}
