//! The label of an SSD that is one of a pair, two SSDs with all that is dirty on both: which pair, which of the two, and who of them has
//! everything. Two copies, written in turn where a cache SSD has its superblocks, so that a device is never taken for both; the valid
//! one with the higher generation counts, and of two members the label with the higher generation speaks for both. Several pairs may
//! hold one cache together, each a part of it: a label says which of how many its pair is.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::copies;
use crate::error::{FormatError, Wrong};
use crate::page::{self, CacheId, Head, PAGE_BYTES};

pub(crate) const MAGIC: &[u8; 8] = b"LODEpair";
const WHAT: &str = "Label of an SSD of a pair";

/// What the label says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairLabel {
    /// Which cache the pair holds, or a part of.
    pub pair: CacheId,
    /// Grows with every change of what labels say.
    pub generation: u64,
    /// Bytes of this device when it came to the pair.
    pub device_bytes: u64,
    /// Bytes of the pair: what each member has behind its label.
    pub pair_bytes: u64,
    /// Which of the two this is: 0 or 1.
    pub member: usize,
    /// Which of the two have everything that was written to the pair; at least one does.
    pub in_sync: [bool; PairLabel::MEMBERS],
    /// Which of the cache's pairs this is, from 0, and how many there are.
    pub number: usize,
    /// See [`PairLabel::number`]; at least 1.
    pub pairs: usize,
    /// In the run of which epoch of the cache each of them was dropped last, and with it what it alone had; 0: never.
    pub dropped_in: [u64; PairLabel::MEMBERS],
    /// While one of the two does not have everything: so many of the pair's first bytes it has all the same, as the other one, and gets what is
    /// written. 0 where it is not resilvered.
    pub resilvered_bytes: u64,
    /// The one of the two that does not have everything has not come yet: none was ever dropped, and nothing was ever on another SSD than on
    /// the one that has everything.
    pub awaits_other: bool,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    head: Head,
    generation: U64,
    device_bytes: U64,
    pair_bytes: U64,
    member: u8,
    in_sync: [u8; PairLabel::MEMBERS],
    number: u8,
    /// Pairs beside this one: a label from before there could be several has zeroes here, and is of the only one.
    other_pairs: u8,
    dropped_in: [U64; PairLabel::MEMBERS],
    /// Zeroes in a label from before a resilver could be resumed.
    resilvered_bytes: U64,
    /// A zero in a label from before a pair could be made of one SSD.
    awaits_other: u8,
}

impl PairLabel {
    /// SSDs of a pair.
    pub const MEMBERS: usize = 2;
    /// Most pairs of a cache.
    pub const MOST_PAIRS: usize = 64;
    /// No pair has so many changes; beyond are labels that somebody made up.
    const MOST_GENERATIONS: u64 = u64::MAX - (1 << 32);
    /// Where on each member the first byte of the pair is.
    pub const DATA_START_BYTES: u64 = 1 << 20;

    /// The page to write.
    ///
    /// # Panics
    /// When it says that there are no pairs, or more than [`PairLabel::MOST_PAIRS`].
    pub fn encode(&self) -> Box<[u8; PAGE_BYTES]> {
        assert!((1..=PairLabel::MOST_PAIRS).contains(&self.pairs), "{} pairs", self.pairs);
        let mut page = page::start_page(&Raw {
            head: Head::new(MAGIC, self.pair),
            generation: U64::new(self.generation),
            device_bytes: U64::new(self.device_bytes),
            pair_bytes: U64::new(self.pair_bytes),
            member: self.member as u8,
            in_sync: self.in_sync.map(u8::from),
            number: self.number as u8,
            other_pairs: self.pairs as u8 - 1,
            dropped_in: self.dropped_in.map(U64::new),
            resilvered_bytes: U64::new(self.resilvered_bytes),
            awaits_other: self.awaits_other.into(),
        });
        page::seal(&mut page);
        page
    }

    /// Reads one copy.
    pub fn decode(bytes: &[u8]) -> Result<PairLabel, FormatError> {
        let raw: Raw = page::open(WHAT, MAGIC, None, bytes)?;
        let label = PairLabel {
            pair: raw.head.cache,
            generation: raw.generation.get(),
            device_bytes: raw.device_bytes.get(),
            pair_bytes: raw.pair_bytes.get(),
            member: raw.member.into(),
            in_sync: raw.in_sync.map(|flag| flag == 1),
            number: raw.number.into(),
            pairs: usize::from(raw.other_pairs) + 1,
            dropped_in: raw.dropped_in.map(U64::get),
            resilvered_bytes: raw.resilvered_bytes.get(),
            awaits_other: raw.awaits_other == 1,
        };
        let wrong = |field| Err(FormatError { what: WHAT, wrong: Wrong::Field(field) });
        if label.generation > PairLabel::MOST_GENERATIONS {
            return wrong("generation");
        }
        if label.member >= PairLabel::MEMBERS {
            return wrong("member");
        }
        if raw.in_sync.iter().any(|&flag| flag > 1) || label.in_sync == [false; PairLabel::MEMBERS] {
            return wrong("in_sync");
        }
        if label.pairs > PairLabel::MOST_PAIRS {
            return wrong("pairs");
        }
        if label.number >= label.pairs {
            return wrong("number");
        }
        let fits = |end: u64| end <= label.device_bytes;
        if !label.pair_bytes.checked_add(PairLabel::DATA_START_BYTES).is_some_and(fits) {
            return wrong("pair_bytes");
        }
        if label.resilvered_bytes > label.pair_bytes {
            return wrong("resilvered_bytes");
        }
        let has_had_both =
            label.in_sync == [true; PairLabel::MEMBERS] || label.dropped_in != [0; PairLabel::MEMBERS];
        if raw.awaits_other > 1 || (label.awaits_other && has_had_both) {
            return wrong("awaits_other");
        }
        Ok(label)
    }

    /// The newer valid one of two copies. One of another version is an error, whatever the other one is.
    pub fn newest(copies: [&[u8]; 2]) -> Result<PairLabel, FormatError> {
        copies::newest(copies.map(PairLabel::decode), |label| label.generation)
    }

    /// The copy that this generation is written to.
    pub fn copy(&self) -> u8 {
        (self.generation & 1) as u8
    }
}
