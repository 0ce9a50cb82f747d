//! What a start asks of the store for one volume.

/// A volume as the configuration wants it.
#[derive(Clone, Debug)]
pub struct VolumeSpec {
    /// Its name.
    pub name: String,
    /// Bytes of its backing disk.
    pub backing_bytes: u64,
    /// Places it needs: its share and what it takes to replace blocks safely.
    pub places: u64,
    /// Places that it takes beside while no volume needs them, see [`StoreView::grant_spares`](crate::StoreView::grant_spares):
    /// the more there are, the more can be written between two commits of the journal.
    pub spare_places: u64,
    /// Places that are to be free when it begins to be served, as far as it has so many. Extents beyond may stay unwritten until they
    /// are needed ([`VolumeStore::initialize`](crate::VolumeStore::initialize)).
    pub ready_places: u64,
    /// Nothing may be written to its backing disk, so that a volume with dirty blocks is refused.
    pub read_only: bool,
    /// What of the volume is dropped, because a device failed in an earlier run, or somebody else wrote to the backing disk.
    pub distrusts: Option<Distrust>,
}

impl VolumeSpec {
    /// What is usually to be ready: it is initialized in a fraction of a second, and not written full while more is.
    pub const READY_BYTES: u64 = 2 << 30;
}

/// What of an SSD is not believed any more after a device failed; the stricter is the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distrust {
    /// Its clean blocks: they may be older than the backing disk.
    Clean,
    /// All blocks: the backing disk has what guests had written.
    All,
}
