//! Making a device or file into a cache SSD, unless it holds something.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use lode_engine::EngineConfig;
use lode_format::{
    CacheId, DeviceLayout, Directory, ExtentLayout, PAGE_BYTES, PairLabel, ReadSsdLabel, Superblock,
};
use lode_media::{MediaFile, OpenOptions};
use lode_policy::{Quota, SchemeInfo};
use lode_store::pair::{PairArray, PairDevice, Stripes, probe_pair};
use lode_store::{self as engine_store, Store, StoreError, SyncDevice, signature_of};
use lode_types::BlockSize;

use crate::config::Size;
use crate::error::{ServerError, ServerErrorKind};
use crate::files::file_identity;
use crate::new_file::create;
use crate::sync_device::FileDevice;

const MIB: u64 = 1 << 20;

/// How to format.
#[derive(Clone, Copy, Debug)]
pub struct FormatOptions {
    /// Size of a cache block.
    pub block: BlockSize,
    /// Bytes of an extent; none for what suits the device.
    pub extent_bytes: Option<u64>,
    /// Overwrite whatever is there.
    pub force: bool,
    /// Create a file of this many bytes, all of them allocated, if the path does not exist.
    pub create_bytes: Option<u64>,
}

/// Formats a cache SSD. A file that this call created does not outlive a failure.
///
/// # Errors
/// [`ServerErrorKind::InUse`] when the device holds a cache or something else that is known and `force` is
/// not set; it is left as it was then. [`ServerErrorKind::Config`] when sizes do not fit each other.
pub fn format(path: &Path, options: &FormatOptions) -> Result<Superblock, ServerError> {
    let created = match options.create_bytes {
        Some(size_bytes) => {
            check_sizes(path, size_bytes, all_bytes, options)?;
            create(path, size_bytes)?
        }
        None => false,
    };
    let outcome = format_existing(path, options);
    if created && outcome.is_err() {
        // The error that matters is the first one; a file left behind is harmless.
        let _ = fs::remove_file(path);
    }
    outcome
}

/// What [`format()`] would make of a device.
#[derive(Clone, Debug)]
pub struct FormatPlan {
    /// Bytes of the device; of pairs those of the smaller one of each.
    pub device_bytes: u64,
    /// Where on each device the first of them is.
    pub start_bytes: u64,
    /// How it is divided.
    pub layout: DeviceLayout,
    /// The file does not exist yet.
    pub creates: bool,
    /// What is written: what it is, the first byte, and how many.
    pub writes: Vec<(&'static str, u64, u64)>,
}

impl FormatPlan {
    /// Bytes of an extent's place tables, both copies. Whoever gets an extent first writes them.
    pub fn table_bytes(&self) -> u64 {
        self.layout.extent.journal_page(0, 0)
    }

    /// Bytes that an extent adds to the journal of its volume.
    pub fn journal_bytes(&self) -> u64 {
        u64::from(self.layout.extent.journal_pairs) * 2 * PAGE_BYTES as u64
    }

    /// Places for blocks.
    pub fn places(&self) -> u64 {
        u64::from(self.layout.extents) * u64::from(self.layout.extent.places)
    }

    /// Bytes of memory that tables of all places take at most, when VMs with disks of so many blocks use them: what each holds,
    /// and which one each slot of a scheme has.
    pub fn memory_bytes(&self, disk_blocks: u64) -> [(&'static str, u64); 2] {
        let share = Quota::new(0, u32::try_from(self.places()).unwrap_or(u32::MAX));
        let block = self.layout.extent.block;
        let engine = EngineConfig::new(block, disk_blocks * block.bytes(), share);
        let settings = SchemeInfo::find("lru").map(SchemeInfo::settings);
        let memory = settings.map(|settings| engine.most_memory(&settings, self.layout.extent.places));
        let memory = memory.unwrap_or_default();
        [("SSD places", memory.ssd_places_bytes), ("slots", memory.slots_bytes)]
    }
}

/// Finds out what [`format()`] would do, and writes nothing.
///
/// # Errors
/// As [`format()`].
pub fn plan_format(path: &Path, options: &FormatOptions) -> Result<FormatPlan, ServerError> {
    let (device_bytes, creates) = look(path, options.create_bytes, options.force)?;
    check_sizes(path, device_bytes, all_bytes, options)?;
    let extent_bytes = options.extent_bytes.unwrap_or(DeviceLayout::suitable_extent_bytes(device_bytes));
    Ok(FormatPlan { creates, ..plan_of(path, device_bytes, extent_bytes, options)? })
}

/// What would be made of a device with so many bytes for a cache, and there already.
fn plan_of(
    path: &Path,
    cache_bytes: u64,
    extent_bytes: u64,
    options: &FormatOptions,
) -> Result<FormatPlan, ServerError> {
    let layout = DeviceLayout::new(cache_bytes, extent_bytes, options.block)
        .map_err(|error| cannot_format(path, error))?;
    let of_copies = |what, first, bytes| (what, first, 2 * bytes);
    let writes = vec![
        of_copies("superblock, 2 copies", DeviceLayout::superblock(0), PAGE_BYTES as u64),
        of_copies("directory, 2 copies", DeviceLayout::directory(0), Directory::COPY_BYTES as u64),
    ];
    Ok(FormatPlan { device_bytes: cache_bytes, start_bytes: 0, layout, creates: false, writes })
}

/// Devices or files that are to be a pair. The second may come later.
pub type PairPaths<'p> = (&'p Path, Option<&'p Path>);

/// All devices of pairs that are there.
fn paths_of<'a, 'p>(pairs: &'a [PairPaths<'p>]) -> impl Iterator<Item = &'p Path> + use<'a, 'p> {
    pairs.iter().flat_map(|&(first, second)| std::iter::once(first).chain(second))
}

/// Makes pairs of two devices or files each, with one cache on all of them. Of a pair whose second comes later the cache has what the first has
/// room for. Files that this call created do not outlive a failure.
/// `create_bytes` of the options are each one's. Gives the cache, and the bytes of the smaller device of each pair added up: the cache has
/// less, because each device begins with a label.
///
/// # Errors
/// As [`format()`]; [`ServerErrorKind::Config`] when a device is given twice.
///
/// # Panics
/// When there is no pair.
pub fn format_pairs(
    pairs: &[PairPaths<'_>],
    options: &FormatOptions,
) -> Result<(Superblock, u64), ServerError> {
    let mut created = Vec::new();
    let outcome = create_and_format(pairs, options, &mut created);
    if outcome.is_err() {
        // The error that matters is the first one; a file left behind is harmless.
        created.iter().for_each(|path| _ = fs::remove_file(path));
    }
    outcome
}

fn create_and_format<'p>(
    pairs: &[PairPaths<'p>],
    options: &FormatOptions,
    created: &mut Vec<&'p Path>,
) -> Result<(Superblock, u64), ServerError> {
    refuse_same(pairs)?;
    if let Some(size_bytes) = options.create_bytes {
        check_pairs(pairs, &vec![size_bytes; pairs.len()], options)?;
        for path in paths_of(pairs) {
            if create(path, size_bytes)? {
                created.push(path);
            }
        }
    }
    let open = |path| open(path, options.create_bytes, options.force);
    let open_both = |(first, second): PairPaths<'p>| Ok((open(first)?, second.map(open).transpose()?));
    let files = pairs.iter().copied().map(open_both).collect::<Result<Vec<_>, ServerError>>()?;
    let smaller_of = |(first, second): &(MediaFile, Option<MediaFile>)| {
        second.iter().map(MediaFile::size_bytes).fold(first.size_bytes(), u64::min)
    };
    let smaller: Vec<u64> = files.iter().map(smaller_of).collect();
    check_pairs(pairs, &smaller, options)?;
    let fault = |error| {
        let paths: Vec<_> = paths_of(pairs).map(|path| path.display().to_string()).collect();
        ServerError::store(format!("Cannot format {}", paths.join(" and ")), error)
    };
    let devices: Vec<_> = files
        .iter()
        .map(|(first, second)| (FileDevice::new(first), second.as_ref().map(FileDevice::new)))
        .collect();
    let made =
        PairArray::format(devices, random_id()?, options.block, options.extent_bytes).map_err(fault)?;
    let made = made.into_iter().zip(&files).map(|(pair, (first, second))| {
        PairDevice::new(pair, [Some(FileDevice::new(first)), second.as_ref().map(FileDevice::new)])
    });
    let mut array = PairArray::new(made.collect()).map_err(fault)?;
    let superblock = Store::probe(&mut array).map_err(fault)?;
    Ok((superblock, smaller.iter().sum()))
}

/// Finds out what [`format_pairs()`] would do, and writes nothing. The layout is that of the cache, which on the first pair begins behind
/// the labels.
///
/// # Errors
/// As [`format_pairs()`].
///
/// # Panics
/// When there is no pair.
pub fn plan_pairs(pairs: &[PairPaths<'_>], options: &FormatOptions) -> Result<FormatPlan, ServerError> {
    refuse_same(pairs)?;
    let look = |path| look(path, options.create_bytes, options.force);
    let (mut smaller, mut creates) = (Vec::new(), false);
    for &(first, second) in pairs {
        let (first_bytes, creates_first) = look(first)?;
        let (second_bytes, creates_second) = second.map(look).transpose()?.unwrap_or((first_bytes, false));
        smaller.push(first_bytes.min(second_bytes));
        creates |= creates_first || creates_second;
    }
    check_pairs(pairs, &smaller, options)?;
    let stripes = stripes_of(&smaller, options).map_err(|error| cannot_format(pairs[0].0, error))?;
    let mut plan = plan_of(pairs[0].0, stripes.size_bytes(), extent_of(&smaller, options), options)?;
    (plan.device_bytes, plan.creates) = (smaller.iter().sum(), creates);
    plan.start_bytes = PairLabel::DATA_START_BYTES;
    plan.writes.iter_mut().for_each(|(_, first, _)| *first += PairLabel::DATA_START_BYTES);
    plan.writes.insert(0, ("label, 2 copies", DeviceLayout::superblock(0), 2 * PAGE_BYTES as u64));
    Ok(plan)
}

/// Bytes of an extent of a cache on pairs of SSDs, the smaller ones of which have so many bytes.
fn extent_of(smaller_bytes: &[u64], options: &FormatOptions) -> u64 {
    let cache_bytes = smaller_bytes.iter().map(|&bytes| of_pair(bytes)).sum();
    options.extent_bytes.unwrap_or(DeviceLayout::suitable_extent_bytes(cache_bytes))
}

/// Where such a cache is on its pairs.
fn stripes_of(smaller_bytes: &[u64], options: &FormatOptions) -> Result<Stripes, StoreError> {
    let pair_bytes: Vec<u64> = smaller_bytes.iter().map(|&bytes| of_pair(bytes)).collect();
    Stripes::new(&pair_bytes, extent_of(smaller_bytes, options), options.block)
}

/// Refuses sizes of pairs that do not fit each other.
fn check_pairs(
    pairs: &[PairPaths<'_>],
    smaller_bytes: &[u64],
    options: &FormatOptions,
) -> Result<(), ServerError> {
    if let &[bytes] = smaller_bytes {
        return check_sizes(pairs[0].0, bytes, of_pair, options);
    }
    check_extent(options)?;
    if pairs.len() > PairLabel::MOST_PAIRS {
        let text = format!("{} pairs of SSDs; a cache has {} at most", pairs.len(), PairLabel::MOST_PAIRS);
        return Err(ServerError::new(ServerErrorKind::Config, text));
    }
    stripes_of(smaller_bytes, options).map(drop).map_err(|error| cannot_format(pairs[0].0, error))
}

fn cannot_format(path: &Path, error: impl std::error::Error + Send + Sync + 'static) -> ServerError {
    ServerError::because(ServerErrorKind::Config, format!("Cannot format {}", path.display()), error)
}

/// Bytes that a cache has on an SSD of so many bytes.
fn all_bytes(device_bytes: u64) -> u64 {
    device_bytes
}

/// Bytes that a cache has on a pair of SSDs of so many bytes.
fn of_pair(device_bytes: u64) -> u64 {
    device_bytes.saturating_sub(PairLabel::DATA_START_BYTES) / PAGE_BYTES as u64 * PAGE_BYTES as u64
}

/// Refuses a device that is given twice.
fn refuse_same(pairs: &[PairPaths<'_>]) -> Result<(), ServerError> {
    let (mut names, mut identities) = (HashSet::new(), HashSet::new());
    for path in paths_of(pairs) {
        let found = fs::metadata(path).ok();
        let is_new = names.insert(path) && found.is_none_or(|found| identities.insert(file_identity(&found)));
        if !is_new {
            let of =
                if pairs.len() == 1 { "is the same device" } else { "is a device that was given before" };
            let text = format!("{} {of}; a pair is two SSDs", path.display());
            return Err(ServerError::new(ServerErrorKind::Config, text));
        }
    }
    Ok(())
}

/// Finds out what [`format_read_ssd()`] would do, and writes nothing: bytes of the device, and whether the file is to be made.
///
/// # Errors
/// As [`format_read_ssd()`].
pub fn plan_read_ssd(
    path: &Path,
    create_bytes: Option<u64>,
    force: bool,
) -> Result<(u64, bool), ServerError> {
    look(path, create_bytes, force)
}

/// Size of a device that may be overwritten, and whether it is a file that is still to be made.
fn look(path: &Path, create_bytes: Option<u64>, force: bool) -> Result<(u64, bool), ServerError> {
    if let Some(size_bytes) = create_bytes.filter(|_| !path.exists()) {
        return Ok((size_bytes, true));
    }
    let file = MediaFile::open(path, &OpenOptions { write: false, ..OpenOptions::default() })?;
    if !force {
        refuse_if_used(path, &file, &mut FileDevice::new(&file))?;
    }
    Ok((file.size_bytes(), false))
}

/// Makes a device or file a read SSD. A file that this call created does not outlive a failure.
///
/// # Errors
/// As [`format()`].
pub fn format_read_ssd(
    path: &Path,
    create_bytes: Option<u64>,
    force: bool,
) -> Result<ReadSsdLabel, ServerError> {
    let created = create_bytes.map(|size_bytes| create(path, size_bytes)).transpose()?.unwrap_or(false);
    let outcome = open(path, create_bytes, force).and_then(|file| {
        engine_store::format_read_ssd(&mut FileDevice::new(&file), random_id()?)
            .map_err(|error| ServerError::store(format!("Cannot format {}", path.display()), error))
    });
    if created && outcome.is_err() {
        // The error that matters is the first one; a file left behind is harmless.
        let _ = fs::remove_file(path);
    }
    outcome
}

/// Opens a device that may be overwritten.
fn open(path: &Path, create_bytes: Option<u64>, force: bool) -> Result<MediaFile, ServerError> {
    let open = OpenOptions { create_size: create_bytes, ..OpenOptions::default() };
    let file = MediaFile::open(path, &open)?;
    if !force {
        refuse_if_used(path, &file, &mut FileDevice::new(&file))?;
    }
    Ok(file)
}

fn format_existing(path: &Path, options: &FormatOptions) -> Result<Superblock, ServerError> {
    let file = open(path, options.create_bytes, options.force)?;
    check_sizes(path, file.size_bytes(), all_bytes, options)?;
    let cache = random_id()?;
    Store::format(&mut FileDevice::new(&file), cache, options.block, options.extent_bytes)
        .map_err(|error| ServerError::store(format!("Cannot format {}", path.display()), error))
}

/// Refuses sizes that do not fit each other, and says which would.
fn check_sizes(
    path: &Path,
    device_bytes: u64,
    usable: fn(u64) -> u64,
    options: &FormatOptions,
) -> Result<(), ServerError> {
    check_extent(options)?;
    let block = options.block;
    let extent = |bytes| options.extent_bytes.unwrap_or(DeviceLayout::suitable_extent_bytes(usable(bytes)));
    let fits = |bytes| DeviceLayout::new(usable(bytes), extent(bytes), block).is_ok();
    if fits(device_bytes) {
        return Ok(());
    }
    // Eight extents fit any format; which side of them a size is on tells what is wrong with it.
    let fitting_mib = extent(0) / MIB * 8;
    let too_small = device_bytes < fitting_mib * MIB;
    let wrong_mib = if too_small { device_bytes / MIB } else { device_bytes.div_ceil(MIB) };
    let nearest_mib = last_that_fits(fitting_mib, wrong_mib, |mib| fits(mib * MIB));
    let (words, most) = if too_small { ("few", "smallest") } else { ("many", "largest") };
    let text = format!(
        "{device_bytes} bytes are too {words} for a cache on {} with blocks of {} and extents of {}; the {most} \
         possible size is {nearest_mib} MiB",
        path.display(),
        Size(block.bytes()),
        Size(extent(device_bytes)),
    );
    Err(ServerError::new(ServerErrorKind::Config, text))
}

/// Refuses a size of extents that cannot be.
fn check_extent(options: &FormatOptions) -> Result<(), ServerError> {
    match options.extent_bytes {
        Some(extent_bytes) if ExtentLayout::new(extent_bytes, options.block).is_err() => {
            let (least, most) = (ExtentLayout::MIN_EXTENT_BYTES, ExtentLayout::MAX_EXTENT_BYTES);
            let text = format!(
                "An extent cannot have {extent_bytes} bytes; choose an --extent that is a power of two from {} to {}",
                Size(least),
                Size(most)
            );
            Err(ServerError::new(ServerErrorKind::Config, text))
        }
        _ => Ok(()),
    }
}

/// The number nearest to `wrong` that fits, between `right`, which does, and `wrong`, which does not.
fn last_that_fits(mut right: u64, mut wrong: u64, fits: impl Fn(u64) -> bool) -> u64 {
    while right.abs_diff(wrong) > 1 {
        let middle = right.midpoint(wrong);
        *(if fits(middle) { &mut right } else { &mut wrong }) = middle;
    }
    right
}

/// Refuses a device that holds something which is known.
pub(crate) fn refuse_if_used(
    path: &Path,
    file: &MediaFile,
    device: &mut dyn SyncDevice,
) -> Result<(), ServerError> {
    let found = match (Store::probe(device), engine_store::probe_read_ssd(device), probe_pair(device)) {
        (Ok(superblock), _, _) => Some(format!("Lodestore cache {}", superblock.cache)),
        (_, Ok(label), _) => Some(format!("Lodestore read SSD {}", label.id)),
        (_, _, Ok(label)) => Some(format!("an SSD of Lodestore pair {}", label.pair)),
        // Of another version, damaged, or not as large as it was: somebody's all the same.
        _ => match signature_of(device) {
            Some(signature) => Some(signature.to_string()),
            None => file.identify()?.map(str::to_owned),
        },
    };
    let Some(found) = found else { return Ok(()) };
    let text = format!(
        "{} is in use, it holds: {found}; give another device, or --force to lose what it holds",
        path.display()
    );
    Err(ServerError::new(ServerErrorKind::InUse, text))
}

fn random_id() -> Result<CacheId, ServerError> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(|error| ServerError::because(ServerErrorKind::Media, "Cannot read /dev/urandom", error))?;
    // Version 4, variant 1: a random UUID.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(CacheId(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(
        device_bytes: u64,
        usable: fn(u64) -> u64,
        block_bytes: u64,
        extent_bytes: Option<u64>,
    ) -> Option<String> {
        let block = BlockSize::new(block_bytes).unwrap();
        let options = FormatOptions { block, extent_bytes, force: false, create_bytes: None };
        check_sizes(Path::new("x"), device_bytes, usable, &options).err().map(|error| {
            assert_eq!(error.kind(), ServerErrorKind::Config);
            error.to_string()
        })
    }

    /// The size that a refusal names is accepted, and the next one beyond it is not.
    #[test]
    fn the_size_that_is_named_is_the_limit() {
        for (usable, block_bytes) in
            [(all_bytes as fn(u64) -> u64, 4 << 10), (all_bytes, 64 << 10), (of_pair, 4 << 10)]
        {
            for extent_bytes in [None, Some(1 << 20), Some(64 << 20), Some(4 << 30)] {
                for (device_bytes, word) in [(0, "smallest"), (1 << 20, "smallest"), (u64::MAX, "largest")] {
                    let said =
                        refusal(device_bytes, usable, block_bytes, extent_bytes).expect("no such device");
                    assert!(said.contains(word), "{said}");
                    let words: Vec<&str> = said.split(' ').collect();
                    let mib: u64 = words[words.len() - 2].parse().expect("a number of MiB");
                    assert_eq!(refusal(mib * MIB, usable, block_bytes, extent_bytes), None, "{said}");
                    let beyond = if word == "smallest" { mib - 1 } else { mib + 1 };
                    assert!(refusal(beyond * MIB, usable, block_bytes, extent_bytes).is_some(), "{said}");
                }
            }
        }
    }

    #[test]
    fn extents_have_limits_in_words() {
        for extent_bytes in [0, 1, 512 << 10, 3 << 20, 8 << 30] {
            let said = refusal(1 << 40, all_bytes, 4 << 10, Some(extent_bytes)).expect("no such extent");
            assert!(said.contains("--extent") && said.contains("from 1 MiB to 4 GiB"), "{said}");
        }
    }
}
