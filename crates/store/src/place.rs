//! What a place is called. It must not know what is there.

/// A place on the SSD: an index into the volume's places there.
pub type Place = u32;
