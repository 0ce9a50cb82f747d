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
    /// Nothing may be written to its backing disk, so that a volume with dirty blocks is refused.
    pub read_only: bool,
    /// What of the volume is dropped, because a device failed in an earlier run, or somebody else wrote to the backing disk.
    pub distrusts: Option<Distrust>,
}

/// What of an SSD is not believed any more after a device failed; the stricter is the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distrust {
    /// Its clean blocks: they may be older than the backing disk.
    Clean,
    /// All blocks: the backing disk has what guests had written.
    All,
}
