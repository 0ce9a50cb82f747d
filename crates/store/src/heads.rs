//! What describes a cache, superblock and directory, as a start finds it: in each of its places the newest whole one counts, whichever of the
//! devices below has it. One that wrote it elsewhere, or not at all, and said that all went well has an older one there, which mostly makes no
//! difference, as both places are written one after the other. It must not know what is in them, nor labels of pairs.

use lode_format::{CacheId, DeviceLayout, Directory, FormatError, PAGE_BYTES, Superblock};
use lode_types::{MediaError, planted};

use crate::device::{SyncDevice, flush, for_each_copy, read_each_page, write};
use crate::error::{StoreError, StoreErrorKind};

/// Why a copy is none, or its generation.
type Generation = Result<u64, FormatError>;

/// What is in one of the places.
struct Head {
    at: u64,
    bytes: Vec<u8>,
    generation: Generation,
    /// Offsets of pages that no device below can read.
    unreadable: Vec<u64>,
}

fn generation_of_superblock(page: &[u8]) -> Generation {
    Superblock::decode(page).map(|superblock| superblock.generation)
}

fn generation_of_directory(cache: CacheId) -> impl Fn(&[u8]) -> Generation {
    // Of another version any of its pages may be.
    move |copy| Directory::newest(cache, [copy, copy]).map(|directory| directory.generation)
}

fn read_head(
    device: &mut dyn SyncDevice,
    at: u64,
    len: usize,
    generation_of: &dyn Fn(&[u8]) -> Generation,
) -> Result<Head, StoreError> {
    // Of several devices that of each page a whole copy: what is damaged may be so elsewhere on each of them.
    let mut bytes = vec![0; len];
    let unreadable = read_each_page(device, at, &mut bytes)?;
    let mut head = Head { at, generation: generation_of(&bytes), bytes, unreadable };
    if !device.has_copies() {
        return Ok(head);
    }
    for_each_copy(device, (at, len), |bytes, _| {
        head.take(generation_of(bytes), bytes);
        Ok(())
    })?;
    match head.generation {
        Err(error) if error.is_of_other_version() => {
            Err(StoreError::from(error).within("one SSD of the pair"))
        }
        _ => Ok(head),
    }
}

impl Head {
    /// A device has this. What is of another version is overlooked on none: a start makes all of them the same, and would write over it.
    fn take(&mut self, generation: Generation, bytes: &[u8]) {
        let is_of_other_version = |of: &Generation| of.as_ref().is_err_and(FormatError::is_of_other_version);
        let counts = match (&self.generation, &generation) {
            (before, _) if is_of_other_version(before) => false,
            (_, now) if is_of_other_version(now) => !planted("other-version-on-one-ssd-overlooked"),
            (Ok(before), Ok(now)) => now > before,
            (before, now) => before.is_err() && now.is_ok() && !planted("head-of-one-ssd-counts"),
        };
        if counts {
            (self.bytes, self.generation) = (bytes.to_vec(), generation);
        }
    }
}

fn superblocks(device: &mut dyn SyncDevice) -> Result<[Head; 2], StoreError> {
    let mut read =
        |copy| read_head(device, DeviceLayout::superblock(copy), PAGE_BYTES, &generation_of_superblock);
    Ok([read(0)?, read(1)?])
}

fn directories(device: &mut dyn SyncDevice, cache: CacheId) -> Result<[Head; 2], StoreError> {
    let generation_of = generation_of_directory(cache);
    let mut read =
        |copy| read_head(device, DeviceLayout::directory(copy), Directory::COPY_BYTES, &generation_of);
    Ok([read(0)?, read(1)?])
}

/// The superblock.
///
/// # Errors
/// None can be read, or one is of another version.
pub(crate) fn read_superblock(device: &mut dyn SyncDevice) -> Result<Superblock, StoreError> {
    let [one, other] = superblocks(device)?;
    let superblock = Superblock::newest([&one.bytes, &other.bytes]);
    superblock.map_err(|error| match one.unreadable.first().or(other.unreadable.first()) {
        // What cannot be read may be what is looked for.
        Some(&at) if !error.is_of_other_version() => StoreError::media("read", at, MediaError::Io),
        _ => StoreError::of_page(StoreErrorKind::NotACache, error),
    })
}

/// The directory of this cache, and how many of its pages cannot be read.
///
/// # Errors
/// None can be read, or a page is of another version.
pub(crate) fn read_directory(
    device: &mut dyn SyncDevice,
    cache: CacheId,
) -> Result<(Directory, u64), StoreError> {
    let [one, other] = directories(device, cache)?;
    let directory = Directory::newest(cache, [&one.bytes, &other.bytes]);
    let unreadable = one.unreadable.len() + other.unreadable.len();
    Ok((directory.map_err(|error| no_directory(cache, error))?, unreadable as u64))
}

/// Refuses a directory of which any device below has a page of another version.
///
/// # Errors
/// It is of another version, or nothing can be read.
pub(crate) fn refuse_other_directory(device: &mut dyn SyncDevice, cache: CacheId) -> Result<(), StoreError> {
    directories(device, cache).map(drop)
}

/// Neither copy of the directory can be read, or one is of another version.
fn no_directory(cache: CacheId, error: FormatError) -> StoreError {
    let advice = match error.is_of_other_version() {
        true => "",
        false => {
            ". Without it nobody knows whose blocks are where: restore the SSD from a copy; `lode format --force` makes it usable again \
             and loses what it holds"
        }
    };
    let error = StoreError::from(error);
    StoreError::new(error.kind(), format!("cache {cache}: {}{advice}", error.context()))
}

/// Has all devices below have the same in these places: of writes before a power cut each of them may have got others.
///
/// # Errors
/// Those of the device.
pub(crate) fn make_same(device: &mut dyn SyncDevice, cache: CacheId) -> Result<(), StoreError> {
    let heads = superblocks(device)?.into_iter().chain(directories(device, cache)?);
    // One that is whole nowhere, not even from pages of several of them, is none anywhere.
    for head in heads.filter(|head| head.generation.is_ok()) {
        write(device, head.at, &head.bytes)?;
    }
    flush(device)
}
