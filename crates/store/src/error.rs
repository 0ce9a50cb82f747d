//! Why a cache could not be formatted, opened or extended.

use lode_format::FormatError;

use lode_types::MediaError;

/// What a caller may act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The device holds no Lodestore cache that this program can read.
    NotACache,
    /// A program of another version of the format wrote what the device holds, and this one does not know what it means.
    OtherVersion,
    /// The device has another size than when it was formatted.
    WrongSize,
    /// Metadata that was durable cannot be read any more.
    Damaged,
    /// There is not enough free space, or too much that must be kept.
    NoSpace,
    /// The device or the sizes asked for do not fit the format.
    Geometry,
    /// The backing disk is not the one the volume was made with.
    WrongBacking,
    /// The volume holds so many blocks newer than its backing disk, which what was asked for would lose.
    HoldsDirty {
        /// How many.
        blocks: u64,
    },
    /// The cache holds no volume of this name.
    NoSuchVolume,
    /// The SSDs given are not those of one pair, or the one of them that has everything is missing.
    WrongMember,
    /// The device failed.
    Media,
}

/// Why a cache could not be formatted, opened or extended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Cache SSD: {context}")]
pub struct StoreError {
    kind: StoreErrorKind,
    pub(crate) context: String,
}

impl StoreError {
    pub(crate) fn new(kind: StoreErrorKind, context: impl Into<String>) -> StoreError {
        StoreError { kind, context: context.into() }
    }

    pub(crate) fn media(what: &str, offset: u64, error: MediaError) -> StoreError {
        StoreError::new(
            StoreErrorKind::Media,
            format!(
                "{what} at byte {offset} failed ({error:?}); see the system log, and start again when that is mended"
            ),
        )
    }

    pub(crate) fn geometry(error: FormatError) -> StoreError {
        let advice = "choose a larger device, or an --extent size that divides it into 1 to 16384 extents";
        StoreError::new(StoreErrorKind::Geometry, format!("{error}; {advice}"))
    }

    /// The same, and of which part of the device it is said.
    #[must_use]
    pub(crate) fn within(self, part: &str) -> StoreError {
        StoreError { context: format!("{part}: {}", self.context), ..self }
    }

    /// The directory could not be written while volumes were served.
    pub fn directory_failed() -> StoreError {
        let context =
            "its directory could not be written in this run; look at the SSD, then restart the service";
        StoreError::new(StoreErrorKind::Media, context)
    }

    /// What went wrong, for whoever says of what: not every device is a cache SSD.
    pub fn context(&self) -> &str {
        &self.context
    }

    /// What to act on.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }
}

impl StoreError {
    /// A page was not accepted, which means this unless it is of another version.
    pub(crate) fn of_page(otherwise: StoreErrorKind, error: FormatError) -> StoreError {
        let kind = if error.is_of_other_version() { StoreErrorKind::OtherVersion } else { otherwise };
        StoreError::new(kind, error.to_string())
    }
}

impl From<FormatError> for StoreError {
    fn from(error: FormatError) -> StoreError {
        StoreError::of_page(StoreErrorKind::Damaged, error)
    }
}
