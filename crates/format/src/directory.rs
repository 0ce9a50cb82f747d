//! The directory: the volumes of the cache, and which volume owns which extent. Two copies, written in
//! turn; the valid one with the higher generation counts. A copy is several pages that stand or fall
//! together: each carries the generation, which no two directories share: after a power cut a copy may be pages of the one that
//! was being written and pages of what was there before.

use std::collections::BTreeSet;

use lode_types::planted;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::FORMAT_VERSION;
use crate::checksum::VolumeTag;
use crate::error::{FormatError, Wrong};
use crate::layout::DeviceLayout;
use crate::page::{self, CacheId, Head, PAGE_BYTES};

pub(crate) const MAGIC: &[u8; 8] = b"LODEdirc";
const WHAT: &str = "Directory";

const VOLUMES_PER_PAGE: usize = 15;
const VOLUME_PAGES: usize = 18;
const EXTENTS_PER_PAGE: usize = 2000;
const EXTENT_PAGES: usize = (DeviceLayout::MAX_EXTENTS as usize).div_ceil(EXTENTS_PER_PAGE);
/// Pages of one copy.
pub(crate) const DIRECTORY_PAGES: usize = VOLUME_PAGES + EXTENT_PAGES;

const NO_OWNER: u16 = u16::MAX;
/// Added to the owner of an extent that is unwritten. A program that does not know it refuses the directory.
const UNWRITTEN: u16 = 1 << 15;
const _: () = assert!(Directory::MAX_VOLUMES < UNWRITTEN as usize);
/// Added to the length of a volume's name where its ring may have become longer: a program that does not know it refuses the directory,
/// too, and does not take the ring's pages for those of another time.
const LONGER_RING: u16 = 1 << 15;

/// A run has so many generations to give, and the next one has others.
const GENERATIONS_OF_RUN: u64 = 1 << 32;
/// No cache has so many; beyond are directories that somebody made up.
const MOST_GENERATIONS: u64 = u64::MAX - GENERATIONS_OF_RUN + 1;
/// So many can always be counted to.
const GENERATIONS_LEFT: u64 = 1 << 20;

/// One volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its name in the configuration.
    pub name: String,
    /// Its identity within the cache.
    pub tag: VolumeTag,
    /// Bytes of its backing disk.
    pub backing_bytes: u64,
    /// The journal ring in force: pages of another ring are of an earlier run.
    pub ring: u64,
    /// It may have become longer since it began, so that a page's number does not say where it is.
    pub is_ring_longer: bool,
    /// With which version its last run began: pages of its tables that were written since are stamped with that or a later one, or speak
    /// of one. 0: in one of before this was written, or none, or a start since then may have written tables.
    pub run_version: u64,
    /// In the run of which epoch it was last given its space at a start; 0: in one of before this was written.
    pub attached_in: u64,
    /// Which clean copies went with devices that were dropped before then.
    pub dropped: [DroppedCopies; Volume::MOST_DROPPED],
}

/// Clean copies that went with the only device that had them, which was dropped from its pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DroppedCopies {
    /// The device that was home to them; [`DroppedCopies::ANY_HOME`] stands for all.
    pub home: u16,
    /// Those of earlier versions than this are gone; 0: none.
    pub before: u64,
}

impl DroppedCopies {
    /// Stands for all devices.
    pub const ANY_HOME: u16 = u16::MAX;

    /// Whether a clean copy of this version went, to which this device was home.
    pub fn has(&self, home: u16, version: u64) -> bool {
        version < self.before && (self.home == home || self.home == Self::ANY_HOME)
    }
}

impl Volume {
    /// Longest name in bytes.
    pub const MAX_NAME_BYTES: usize = 200;
    /// Devices of which it is known since when their copies are gone.
    pub const MOST_DROPPED: usize = 2;
}

/// Volumes and the owners of the extents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Grows with every write of a directory.
    pub generation: u64,
    /// The volumes; a volume's place is its number and never changes while it exists.
    pub volumes: Vec<Option<Volume>>,
    /// For every extent the number of the volume that owns it.
    pub owners: Vec<Option<u16>>,
    /// Owned extents that are *unwritten*: whatever is there, their tables are empty and there is nothing of a journal.
    pub unwritten: BTreeSet<u32>,
}

/// Extents of a volume, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeExtents {
    /// Those whose tables say what they hold.
    pub written: Vec<u32>,
    /// Those that hold nothing, see [`Directory::unwritten`].
    pub unwritten: Vec<u32>,
}

impl VolumeExtents {
    /// How many these are.
    pub fn count(&self) -> usize {
        self.written.len() + self.unwritten.len()
    }
}

/// The pages of one copy, in order.
pub type DirectoryCopy = Vec<u8>;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    head: Head,
    generation: U64,
    page: U32,
    extents: U32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawVolume {
    tag: U64,
    backing_bytes: U64,
    ring: U64,
    name_bytes: U16,
    used: U16,
    name: [u8; Volume::MAX_NAME_BYTES],
}

const BODY: usize = size_of::<Raw>();
/// What a page says of a volume behind all volumes; in pages of before this was written there are zeroes.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawStart {
    attached_in: U64,
    dropped_before: [U64; Volume::MOST_DROPPED],
    dropped_home: [U16; Volume::MOST_DROPPED],
}

/// Where a page has these.
const STARTS: usize = PAGE_BYTES - VOLUMES_PER_PAGE * size_of::<RawStart>();
/// Where a page has the versions with which the last runs of its volumes began; in pages of before these were written there are zeroes.
const RUN_VERSIONS: usize = STARTS - VOLUMES_PER_PAGE * size_of::<U64>();
const _: () = assert!(BODY + VOLUMES_PER_PAGE * size_of::<RawVolume>() <= RUN_VERSIONS);
const _: () = assert!(BODY + EXTENTS_PER_PAGE * 2 <= PAGE_BYTES);

fn wrong(field: &'static str) -> FormatError {
    FormatError { what: WHAT, wrong: Wrong::Field(field) }
}

impl Directory {
    /// Most volumes of a cache.
    pub const MAX_VOLUMES: usize = VOLUMES_PER_PAGE * VOLUME_PAGES;
    /// Bytes of one copy.
    pub const COPY_BYTES: usize = DIRECTORY_PAGES * PAGE_BYTES;

    /// No volumes and `extents` free extents.
    pub fn empty(extents: u32) -> Directory {
        let owners = vec![None; extents as usize];
        Directory { generation: 0, volumes: Vec::new(), owners, unwritten: BTreeSet::new() }
    }

    /// The generation of the directory that is written after this one, in a run of this epoch: for the other copy, and one that no
    /// other run has given to a directory that was torn or lost before anybody read it.
    pub fn next_generation(&self, epoch: u64) -> u64 {
        let next = self.generation + 1;
        let first_of_run = epoch.saturating_mul(GENERATIONS_OF_RUN).min(MOST_GENERATIONS);
        match next < first_of_run && !planted("generation-given-twice") {
            true => first_of_run + (next & 1),
            false => next,
        }
    }

    /// The copy that this generation is written to.
    pub fn copy(&self) -> u8 {
        (self.generation & 1) as u8
    }

    /// The number and the volume of this name.
    pub fn find(&self, name: &str) -> Option<(u16, &Volume)> {
        let mut volumes = self.volumes.iter().enumerate();
        volumes.find_map(|(i, v)| v.as_ref().filter(|v| v.name == name).map(|v| (i as u16, v)))
    }

    /// The extents that a volume owns, ascending.
    pub fn extents_of(&self, volume: u16) -> VolumeExtents {
        let owned = (0..).zip(&self.owners).filter(|(_, owner)| **owner == Some(volume));
        let (unwritten, written) =
            owned.map(|(extent, _)| extent).partition(|extent| self.unwritten.contains(extent));
        VolumeExtents { written, unwritten }
    }

    /// A volume owns these extents from now on, and no others.
    pub fn set_extents_of(&mut self, volume: u16, extents: &VolumeExtents) {
        self.free_extents_of(volume);
        for &extent in extents.written.iter().chain(&extents.unwritten) {
            self.owners[extent as usize] = Some(volume);
        }
        self.unwritten.extend(&extents.unwritten);
    }

    /// A volume owns nothing from now on.
    pub fn free_extents_of(&mut self, volume: u16) {
        for (extent, owner) in (0..).zip(&mut self.owners).filter(|(_, owner)| **owner == Some(volume)) {
            *owner = None;
            self.unwritten.remove(&extent);
        }
    }

    /// The bytes of a copy. Names longer than [`Volume::MAX_NAME_BYTES`] and more than
    /// [`Directory::MAX_VOLUMES`] volumes are refused.
    pub fn encode(&self, cache: CacheId) -> Result<DirectoryCopy, FormatError> {
        if self.volumes.len() > Self::MAX_VOLUMES {
            return Err(wrong("volumes"));
        }
        let mut bytes = vec![0; Self::COPY_BYTES];
        for (number, page) in bytes.as_chunks_mut().0.iter_mut().enumerate() {
            let header = Raw {
                head: Head::new(MAGIC, cache),
                generation: U64::new(self.generation),
                page: U32::new(number as u32),
                extents: U32::new(self.owners.len() as u32),
            };
            page::begin(page, &header);
            if number < VOLUME_PAGES {
                self.encode_volumes(number, page)?;
            } else {
                self.encode_owners(number - VOLUME_PAGES, page);
            }
            page::seal(page);
        }
        Ok(bytes)
    }

    fn encode_volumes(&self, number: usize, page: &mut [u8; PAGE_BYTES]) -> Result<(), FormatError> {
        let volumes = self.volumes.iter().skip(number * VOLUMES_PER_PAGE).take(VOLUMES_PER_PAGE);
        for (place, volume) in volumes.enumerate() {
            let Some(volume) = volume else { continue };
            let mut name = [0; Volume::MAX_NAME_BYTES];
            let text = volume.name.as_bytes();
            name.get_mut(..text.len()).ok_or(wrong("name"))?.copy_from_slice(text);
            let raw = RawVolume {
                tag: U64::new(volume.tag.0),
                backing_bytes: U64::new(volume.backing_bytes),
                ring: U64::new(volume.ring),
                name_bytes: U16::new(text.len() as u16 | if volume.is_ring_longer { LONGER_RING } else { 0 }),
                used: U16::new(1),
                name,
            };
            let at = BODY + place * size_of::<RawVolume>();
            page[at..at + size_of::<RawVolume>()].copy_from_slice(raw.as_bytes());
            let start = RawStart {
                attached_in: U64::new(volume.attached_in),
                dropped_before: volume.dropped.map(|dropped| U64::new(dropped.before)),
                dropped_home: volume.dropped.map(|dropped| U16::new(dropped.home)),
            };
            let at = STARTS + place * size_of::<RawStart>();
            page[at..at + size_of::<RawStart>()].copy_from_slice(start.as_bytes());
            let at = RUN_VERSIONS + place * size_of::<U64>();
            page[at..at + size_of::<U64>()].copy_from_slice(U64::new(volume.run_version).as_bytes());
        }
        Ok(())
    }

    fn encode_owners(&self, number: usize, page: &mut [u8; PAGE_BYTES]) {
        let owners = self.owners.iter().skip(number * EXTENTS_PER_PAGE).take(EXTENTS_PER_PAGE);
        for (place, owner) in owners.enumerate() {
            let at = BODY + place * 2;
            let extent = (number * EXTENTS_PER_PAGE + place) as u32;
            let flag = if self.unwritten.contains(&extent) { UNWRITTEN } else { 0 };
            let raw = owner.map_or(NO_OWNER, |owner| owner | flag);
            page[at..at + 2].copy_from_slice(&raw.to_le_bytes());
        }
    }

    /// Reads one copy.
    pub fn decode(cache: CacheId, bytes: &[u8]) -> Result<Directory, FormatError> {
        let mut directory: Option<Directory> = None;
        for number in 0..DIRECTORY_PAGES {
            let page = bytes.get(number * PAGE_BYTES..(number + 1) * PAGE_BYTES);
            let page = page.ok_or(FormatError { what: WHAT, wrong: Wrong::Length })?;
            let raw: Raw = page::open(WHAT, MAGIC, Some(cache), page)?;
            if raw.extents.get() > DeviceLayout::MAX_EXTENTS {
                return Err(wrong("extents"));
            }
            if raw.generation.get() > u64::MAX - GENERATIONS_LEFT {
                return Err(wrong("generation"));
            }
            let directory = directory.get_or_insert_with(|| Directory {
                generation: raw.generation.get(),
                ..Directory::empty(raw.extents.get())
            });
            if raw.generation.get() != directory.generation
                || raw.page.get() != number as u32
                || raw.extents.get() as usize != directory.owners.len()
            {
                return Err(wrong("generation"));
            }
            if number < VOLUME_PAGES {
                directory.decode_volumes(number, page)?;
            } else {
                directory.decode_owners(number - VOLUME_PAGES, page);
            }
        }
        let directory = directory.ok_or(wrong("pages"))?;
        directory.check()?;
        Ok(directory)
    }

    fn decode_volumes(&mut self, number: usize, page: &[u8]) -> Result<(), FormatError> {
        for place in 0..VOLUMES_PER_PAGE {
            let at = BODY + place * size_of::<RawVolume>();
            let (raw, _) = RawVolume::read_from_prefix(&page[at..]).map_err(|_| wrong("volume"))?;
            if raw.used.get() == 0 {
                continue;
            }
            let at = STARTS + place * size_of::<RawStart>();
            let (start, _) = RawStart::read_from_prefix(&page[at..]).map_err(|_| wrong("start"))?;
            let dropped = [0, 1].map(|at| DroppedCopies {
                home: start.dropped_home[at].get(),
                before: start.dropped_before[at].get(),
            });
            let at = RUN_VERSIONS + place * size_of::<U64>();
            let (run_version, _) = U64::read_from_prefix(&page[at..]).map_err(|_| wrong("run version"))?;
            let name_bytes = raw.name_bytes.get() & !LONGER_RING;
            let name = raw.name.get(..name_bytes.into()).ok_or(wrong("name"))?;
            let name = std::str::from_utf8(name).map_err(|_| wrong("name"))?;
            // Numbers that nobody has are there only where others follow.
            self.volumes.resize(number * VOLUMES_PER_PAGE + place, None);
            self.volumes.push(Some(Volume {
                name: name.to_owned(),
                tag: VolumeTag(raw.tag.get()),
                backing_bytes: raw.backing_bytes.get(),
                ring: raw.ring.get(),
                is_ring_longer: raw.name_bytes.get() & LONGER_RING != 0,
                run_version: run_version.get(),
                attached_in: start.attached_in.get(),
                dropped,
            }));
        }
        Ok(())
    }

    fn decode_owners(&mut self, number: usize, page: &[u8]) {
        let owners = self.owners.iter_mut().skip(number * EXTENTS_PER_PAGE).take(EXTENTS_PER_PAGE);
        for (place, owner) in owners.enumerate() {
            let at = BODY + place * 2;
            let raw = u16::from_le_bytes([page[at], page[at + 1]]);
            *owner = (raw != NO_OWNER).then_some(raw & !UNWRITTEN);
            if raw != NO_OWNER && raw & UNWRITTEN != 0 {
                self.unwritten.insert((number * EXTENTS_PER_PAGE + place) as u32);
            }
        }
    }

    fn check(&self) -> Result<(), FormatError> {
        let known = |owner: &u16| self.volumes.get(*owner as usize).is_some_and(Option::is_some);
        if self.owners.iter().flatten().all(known) { Ok(()) } else { Err(wrong("owner")) }
    }

    /// The newer valid one of two copies; the error of the first when neither is valid. A page of another version in either of them is an
    /// error, whatever the others are.
    pub fn newest(cache: CacheId, copies: [&[u8]; 2]) -> Result<Directory, FormatError> {
        let other_version = |page: &[u8]| {
            // Most pages are of this one, and their checksums are not worth the time here.
            let (head, _) = Head::read_from_prefix(page).ok()?;
            if head.version.get() == FORMAT_VERSION {
                return None;
            }
            let error = page::open::<Head>(WHAT, MAGIC, None, page).err()?;
            matches!(error.wrong, Wrong::Version { cache: of, .. } if of == cache).then_some(error)
        };
        let mut pages = copies.into_iter().flat_map(|copy| copy.chunks(PAGE_BYTES));
        if let Some(error) = pages.find_map(other_version)
            && !planted("directory-of-another-version-overlooked")
        {
            return Err(error);
        }
        // What a copy claims is true if it is whole, so that the other one is only needed where it is not.
        let claim = |bytes: &[u8]| Raw::read_from_prefix(bytes).map_or(0, |(raw, _)| raw.generation.get());
        let [one, other] = copies;
        let decode = |bytes| Directory::decode(cache, bytes);
        match claim(other) > claim(one) {
            true => decode(other).or_else(|_| decode(one)),
            false => decode(one).or_else(|error| decode(other).map_err(|_| error)),
        }
    }
}
