//! Lodestore's own compact trace format: its layout and its writer. The decoder is with the other formats.
//! It must not know other formats.

pub(crate) mod layout;
pub(crate) mod shape;
pub(crate) mod unpack;
mod writer;

pub use layout::Recorded;
pub use writer::{CompactOutput, CompactWriter, create_compact, create_compact_with, is_compact_name};
