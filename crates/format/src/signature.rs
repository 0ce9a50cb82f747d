//! What a page says that it is, be it of this version, of another one, or damaged: for whoever is about to write over it.

use zerocopy::FromBytes;

use crate::FORMAT_VERSION;
use crate::page::{CacheId, Head, PAGE_BYTES, is_sealed};

/// What begins with which eight bytes.
const KINDS: [(&[u8; 8], &str); 11] = [
    (crate::superblock::MAGIC, "a Lodestore cache"),
    (crate::pair::MAGIC, "an SSD of a Lodestore pair"),
    (crate::read_ssd::MAGIC, "a Lodestore read SSD"),
    (crate::redo::LABEL_MAGIC, "a Lodestore redo log"),
    (crate::redo::STATE_MAGIC, "a part of a Lodestore redo log"),
    (crate::redo::TABLE_MAGIC, "a part of a Lodestore redo log"),
    (crate::redo::RANGES_MAGIC, "a part of a Lodestore redo log"),
    (crate::directory::MAGIC, "a part of a Lodestore cache"),
    (crate::table::MAGIC, "a part of a Lodestore cache"),
    (crate::journal::MAGIC, "a part of a Lodestore cache"),
    (crate::record_buffer::MAGIC, "a Lodestore record buffer"),
];

/// What a page says that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSignature {
    /// What it is of, for people.
    pub what: &'static str,
    /// Version of the format.
    pub version: u32,
    /// Which cache, pair or read SSD.
    pub cache: CacheId,
    /// Its checksum is right; otherwise no more than `what` is to be believed.
    pub is_whole: bool,
}

impl PageSignature {
    /// Reads it. `None`: no page of ours.
    pub fn of(bytes: &[u8]) -> Option<PageSignature> {
        let page = bytes.get(..PAGE_BYTES)?;
        let (head, _) = Head::read_from_prefix(page).ok()?;
        let (_, what) = KINDS.into_iter().find(|(magic, _)| **magic == head.magic)?;
        Some(PageSignature {
            what,
            version: head.version.get(),
            cache: head.cache,
            is_whole: is_sealed(page),
        })
    }

    /// Whether a program of another version wrote it.
    pub fn is_of_other_version(&self) -> bool {
        self.is_whole && self.version != FORMAT_VERSION
    }
}

impl std::fmt::Display for PageSignature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.is_whole {
            true => write!(f, "{} of format version {}, UUID {}", self.what, self.version, self.cache),
            false => write!(f, "a damaged page of {}", self.what),
        }
    }
}
