//! Making a device or file into a cache SSD, unless it holds something.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use lode_engine::EngineConfig;
use lode_format::{
    CacheId, DeviceLayout, Directory, ExtentLayout, PAGE_BYTES, PairLabel, ReadSsdLabel, Superblock,
};
use lode_media::{MediaFile, OpenOptions};
use lode_policy::{Quota, SchemeInfo};
use lode_store::pair::{MEMBERS, PairDevice, probe_pair};
use lode_store::{self as engine_store, Store, SyncDevice};
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
    /// Bytes of the device; of a pair those of the smaller one.
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
    plan_of(path, device_bytes, creates, all_bytes, options)
}

fn plan_of(
    path: &Path,
    device_bytes: u64,
    creates: bool,
    usable: fn(u64) -> u64,
    options: &FormatOptions,
) -> Result<FormatPlan, ServerError> {
    check_sizes(path, device_bytes, usable, options)?;
    let cache_bytes = usable(device_bytes);
    let extent_bytes = options.extent_bytes.unwrap_or(DeviceLayout::suitable_extent_bytes(cache_bytes));
    let layout = DeviceLayout::new(cache_bytes, extent_bytes, options.block).map_err(|error| {
        ServerError::because(ServerErrorKind::Config, format!("Cannot format {}", path.display()), error)
    })?;
    let of_copies = |what, first, bytes| (what, first, 2 * bytes);
    let writes = vec![
        of_copies("superblock, 2 copies", DeviceLayout::superblock(0), PAGE_BYTES as u64),
        of_copies("directory, 2 copies", DeviceLayout::directory(0), Directory::COPY_BYTES as u64),
    ];
    Ok(FormatPlan { device_bytes, start_bytes: 0, layout, creates, writes })
}

/// Makes a pair of two devices or files. Files that this call created do not outlive a failure. `create_bytes` of the options are each
/// one's. Gives the cache, and the bytes of the smaller device: the cache has less, because each begins with a label.
///
/// # Errors
/// As [`format()`]; [`ServerErrorKind::Config`] when they are one device.
pub fn format_pair(
    paths: [&Path; MEMBERS],
    options: &FormatOptions,
) -> Result<(Superblock, u64), ServerError> {
    let mut created = Vec::new();
    let outcome = create_and_format(paths, options, &mut created);
    if outcome.is_err() {
        // The error that matters is the first one; a file left behind is harmless.
        created.iter().for_each(|path| _ = fs::remove_file(path));
    }
    outcome
}

fn create_and_format<'p>(
    paths: [&'p Path; MEMBERS],
    options: &FormatOptions,
    created: &mut Vec<&'p Path>,
) -> Result<(Superblock, u64), ServerError> {
    refuse_same(paths)?;
    if let Some(size_bytes) = options.create_bytes {
        check_sizes(paths[0], size_bytes, of_pair, options)?;
        for path in paths {
            if create(path, size_bytes)? {
                created.push(path);
            }
        }
    }
    let open = |path| open(path, options.create_bytes, options.force);
    let files = [open(paths[0])?, open(paths[1])?];
    let smaller = files[0].size_bytes().min(files[1].size_bytes());
    check_sizes(paths[0], smaller, of_pair, options)?;
    let fault = |error| {
        let [one, other] = paths.map(Path::display);
        ServerError::store(format!("Cannot format {one} and {other}"), error)
    };
    let devices = [FileDevice(&files[0]), FileDevice(&files[1])];
    let pair =
        PairDevice::format(devices, random_id()?, options.block, options.extent_bytes).map_err(fault)?;
    let devices = [Some(FileDevice(&files[0])), Some(FileDevice(&files[1]))];
    let superblock = Store::probe(&mut PairDevice::new(pair, devices)).map_err(fault)?;
    Ok((superblock, smaller))
}

/// Finds out what [`format_pair()`] would do, and writes nothing. The layout is that of the pair, behind the labels.
///
/// # Errors
/// As [`format_pair()`].
pub fn plan_pair(paths: [&Path; MEMBERS], options: &FormatOptions) -> Result<FormatPlan, ServerError> {
    refuse_same(paths)?;
    let look = |path| look(path, options.create_bytes, options.force);
    let [(one, creates_one), (other, creates_other)] = [look(paths[0])?, look(paths[1])?];
    let mut plan = plan_of(paths[0], one.min(other), creates_one || creates_other, of_pair, options)?;
    plan.start_bytes = PairLabel::DATA_START_BYTES;
    plan.writes.iter_mut().for_each(|(_, first, _)| *first += PairLabel::DATA_START_BYTES);
    plan.writes.insert(0, ("label, 2 copies", DeviceLayout::superblock(0), 2 * PAGE_BYTES as u64));
    Ok(plan)
}

/// Bytes that a cache has on an SSD of so many bytes.
fn all_bytes(device_bytes: u64) -> u64 {
    device_bytes
}

/// Bytes that a cache has on a pair of SSDs of so many bytes.
fn of_pair(device_bytes: u64) -> u64 {
    device_bytes.saturating_sub(PairLabel::DATA_START_BYTES) / PAGE_BYTES as u64 * PAGE_BYTES as u64
}

fn refuse_same(paths: [&Path; MEMBERS]) -> Result<(), ServerError> {
    let identity = |path: &Path| fs::metadata(path).ok().map(|found| file_identity(&found));
    let is_same = paths[0] == paths[1]
        || identity(paths[0]).is_some_and(|one| identity(paths[1]).is_some_and(|other| one == other));
    if is_same {
        let text = format!("{} is the same device; a pair is two SSDs", paths[1].display());
        return Err(ServerError::new(ServerErrorKind::Config, text));
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
        refuse_if_used(path, &file, &mut FileDevice(&file))?;
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
        engine_store::format_read_ssd(&mut FileDevice(&file), random_id()?)
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
        refuse_if_used(path, &file, &mut FileDevice(&file))?;
    }
    Ok(file)
}

fn format_existing(path: &Path, options: &FormatOptions) -> Result<Superblock, ServerError> {
    let file = open(path, options.create_bytes, options.force)?;
    check_sizes(path, file.size_bytes(), all_bytes, options)?;
    let cache = random_id()?;
    Store::format(&mut FileDevice(&file), cache, options.block, options.extent_bytes)
        .map_err(|error| ServerError::store(format!("Cannot format {}", path.display()), error))
}

/// Refuses sizes that do not fit each other, and says which would.
fn check_sizes(
    path: &Path,
    device_bytes: u64,
    usable: fn(u64) -> u64,
    options: &FormatOptions,
) -> Result<(), ServerError> {
    let block = options.block;
    let refuse = |text: String| Err(ServerError::new(ServerErrorKind::Config, text));
    if let Some(extent_bytes) = options.extent_bytes
        && ExtentLayout::new(extent_bytes, block).is_err()
    {
        let (least, most) = (ExtentLayout::MIN_EXTENT_BYTES, ExtentLayout::MAX_EXTENT_BYTES);
        return refuse(format!(
            "An extent cannot have {extent_bytes} bytes; choose an --extent that is a power of two from {} to {}",
            Size(least),
            Size(most)
        ));
    }
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
    refuse(format!(
        "{device_bytes} bytes are too {words} for a cache on {} with blocks of {} and extents of {}; the {most} \
         possible size is {nearest_mib} MiB",
        path.display(),
        Size(block.bytes()),
        Size(extent(device_bytes)),
    ))
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
        _ => file.identify()?.map(str::to_owned),
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
