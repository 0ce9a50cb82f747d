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
    /// What of the volume is dropped, because the SSD failed in an earlier run and its dirty blocks were written to the
    /// backing disk without it.
    pub distrusts: Option<Distrust>,
}

/// What an SSD that failed is not believed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distrust {
    /// Its clean blocks: they may be older than the backing disk.
    Clean,
    /// All blocks: the backing disk has what guests had written.
    All,
}
