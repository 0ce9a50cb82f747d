//! `lode format`: make a device into a cache SSD or a read SSD.

use std::path::{Path, PathBuf};

use clap::Args;
use lode_server::{
    FormatOptions, FormatPlan, PairPaths, format, format_pairs, format_read_ssd, plan_format, plan_pairs,
    plan_read_ssd,
};
use lode_types::BlockSize;
use serde::Serialize;

use crate::amounts::{parse_size, show_count, show_size};
use crate::error::CliError;
use crate::results::JsonArgs;

/// Blocks of a disk, for what tables need: a larger one needs a byte more for each place.
const USUAL_DISK_BLOCKS: u64 = 1 << 30;

/// What is given in the place of an SSD that comes later.
const LATER: &str = "later";

/// Make a device or file into an empty cache SSD, and print its identity.
#[derive(Args)]
#[command(
    after_help = "Example: lode format /dev/nvme1n1\n         lode format cache.img --create 8GiB\n         lode format /dev/nvme1n1 --dry-run\n         lode format /dev/nvme1n1 --mirror /dev/nvme2n1\n         lode format /dev/nvme1n1 --mirror later\n         lode format /dev/nvme1n1 --mirror /dev/nvme2n1 --pair /dev/nvme3n1 /dev/nvme4n1\n         lode format --read-ssd /dev/nvme2n1"
)]
pub struct FormatCommand {
    /// The device or file.
    device: PathBuf,

    /// Make a pair with this device or file: two SSDs with every dirty block on both, so that the loss of either loses nothing. With
    /// `later` the second one comes later, with `lode device add`, and until then the cache is on one SSD; a file of this name is ./later.
    #[arg(long, value_name = "DEVICE", conflicts_with = "read_ssd")]
    mirror: Option<PathBuf>,

    /// Have the cache on one more pair, of these two devices or files: its size is that of all pairs together. May be given several times.
    #[arg(long, value_names = ["DEVICE", "DEVICE"], num_args = 2, requires = "mirror")]
    pair: Vec<PathBuf>,

    /// Size of a cache block.
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = parse_size)]
    block: u64,

    /// Size of the pieces in which space is given to VMs [default: what suits the device]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    extent: Option<u64>,

    /// Make it a read SSD: a second SSD for schemes that keep dirty blocks on two devices.
    #[arg(long, conflicts_with_all = ["block", "extent"])]
    read_ssd: bool,

    /// Lose whatever the device holds, and the other ones of pairs.
    #[arg(long)]
    force: bool,

    /// Only say what would be written, how the device would be divided, and what memory tables need.
    #[arg(long)]
    dry_run: bool,

    /// Create a file of this size if it does not exist; of pairs each of the two.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    create: Option<u64>,

    #[command(flatten)]
    json: JsonArgs,
}

/// What was formatted, or would be with `--dry-run`: then there is no identity yet.
#[derive(Serialize)]
struct Formatted<'a> {
    device: &'a Path,
    mirror: Option<&'a Path>,
    pairs: Option<Vec<PairPaths<'a>>>,
    kind: &'static str,
    uuid: Option<String>,
    device_bytes: u64,
    creates_file: Option<bool>,
    extent_bytes: Option<u64>,
    block_bytes: Option<u64>,
    extents: Option<u64>,
    places: Option<u64>,
    data_bytes: Option<u64>,
    places_memory_bytes: Option<u64>,
    slots_memory_bytes: Option<u64>,
}

impl FormatCommand {
    pub fn run(&self) -> Result<(), CliError> {
        if self.read_ssd && self.dry_run {
            let (size_bytes, creates) = plan_read_ssd(&self.device, self.create, self.force)?;
            let plan =
                Formatted { creates_file: Some(creates), ..self.formatted("read-ssd", None, size_bytes) };
            let text = || self.nothing_written(creates, size_bytes, &[("label, 2 copies", 0, 8192)]);
            return self.json.write(&plan, text);
        }
        if self.read_ssd {
            let label = format_read_ssd(&self.device, self.create, self.force)?;
            let (device, size) = (self.device.display(), show_size(label.device_bytes));
            let formatted = self.formatted("read-ssd", Some(label.id.to_string()), label.device_bytes);
            return self.json.write(&formatted, || format!("Read SSD {} on {device}: {size}\n", label.id));
        }
        let options = FormatOptions {
            block: BlockSize::new(self.block).map_err(|error| CliError::Usage(error.to_string()))?,
            extent_bytes: self.extent,
            force: self.force,
            create_bytes: self.create,
        };
        self.check_later()?;
        let pairs = self.pairs();
        if self.dry_run {
            let plan = match &pairs[..] {
                [] => plan_format(&self.device, &options)?,
                pairs => plan_pairs(pairs, &options)?,
            };
            let text = || {
                self.nothing_written(plan.creates, plan.device_bytes, &plan.writes)
                    + &division_text(&plan)
                    + self.later_text()
            };
            return self.json.write(&self.planned(&plan), text);
        }
        let (superblock, device_bytes) = match &pairs[..] {
            [] => {
                let superblock = format(&self.device, &options)?;
                (superblock, superblock.device_bytes)
            }
            pairs => format_pairs(pairs, &options)?,
        };
        let formatted = Formatted {
            extent_bytes: Some(superblock.extent_bytes),
            block_bytes: Some(superblock.block.bytes()),
            ..self.formatted(self.kind(), Some(superblock.cache.to_string()), device_bytes)
        };
        let text = || {
            format!(
                "Cache {} on {}: {}, extents of {}, blocks of {}\n{}",
                superblock.cache,
                self.shown(),
                show_size(device_bytes),
                show_size(superblock.extent_bytes),
                show_size(superblock.block.bytes()),
                self.later_text()
            )
        };
        self.json.write(&formatted, text)
    }

    /// The pairs that are to be made; none where it is one device.
    fn pairs(&self) -> Vec<PairPaths<'_>> {
        let first = self.mirror.as_ref().map(|_| (&*self.device, self.second()));
        // Each time that it is given, two.
        let others = self.pair.chunks_exact(2).map(|pair| (&*pair[0], Some(&*pair[1])));
        first.into_iter().chain(others).collect()
    }

    /// The second SSD of the first pair, if it is there already.
    fn second(&self) -> Option<&Path> {
        self.mirror.as_deref().filter(|mirror| !is_later(mirror))
    }

    /// What is to be done about an SSD that comes later.
    fn later_text(&self) -> &'static str {
        if self.mirror.is_none() || self.second().is_some() {
            return "";
        }
        "The configuration names this SSD alone (`ssd.path`) until `lode device add CONFIG.toml DEVICE` makes another one, at least as large, \
         the second of the pair\n"
    }

    /// Refuses several pairs of which a second SSD comes later.
    fn check_later(&self) -> Result<(), CliError> {
        let is_later = self.pair.iter().chain(&self.mirror).any(|path| is_later(path));
        if !is_later || self.pair.is_empty() {
            return Ok(());
        }
        let text = "`later` is for the second SSD of a single pair, given with --mirror; of several pairs both SSDs have to be there. A file \
                    of this name is given as ./later";
        Err(CliError::Usage(text.to_owned()))
    }

    fn kind(&self) -> &'static str {
        match self.pairs().len() {
            0 => "cache",
            1 => "pair",
            _ => "pairs",
        }
    }

    /// The device, or those of pairs, for people.
    fn shown(&self) -> String {
        let pairs: Vec<_> = self
            .pairs()
            .iter()
            .map(|(first, second)| match second {
                Some(second) => format!("{} and {}", first.display(), second.display()),
                None => first.display().to_string(),
            })
            .collect();
        if pairs.is_empty() { self.device.display().to_string() } else { pairs.join(", ") }
    }

    fn formatted(&self, kind: &'static str, uuid: Option<String>, device_bytes: u64) -> Formatted<'_> {
        Formatted {
            device: &self.device,
            mirror: self.second(),
            pairs: Some(self.pairs()).filter(|pairs| pairs.len() > 1),
            kind,
            uuid,
            device_bytes,
            creates_file: None,
            extent_bytes: None,
            block_bytes: None,
            extents: None,
            places: None,
            data_bytes: None,
            places_memory_bytes: None,
            slots_memory_bytes: None,
        }
    }

    fn planned(&self, plan: &FormatPlan) -> Formatted<'_> {
        let extent = &plan.layout.extent;
        let [(_, places_memory_bytes), (_, slots_memory_bytes)] = plan.memory_bytes(USUAL_DISK_BLOCKS);
        Formatted {
            creates_file: Some(plan.creates),
            extent_bytes: Some(extent.extent_bytes),
            block_bytes: Some(extent.block.bytes()),
            extents: Some(plan.layout.extents.into()),
            places: Some(plan.places()),
            data_bytes: Some(plan.places() * extent.block.bytes()),
            places_memory_bytes: Some(places_memory_bytes),
            slots_memory_bytes: Some(slots_memory_bytes),
            ..self.formatted(self.kind(), None, plan.device_bytes)
        }
    }

    /// What would be written, and where.
    fn nothing_written(&self, creates: bool, size_bytes: u64, writes: &[(&str, u64, u64)]) -> String {
        let (device, size) = (self.shown(), show_size(size_bytes));
        let what = if creates { "make the file, of" } else { "lose what is on it, of" };
        let mut text = format!("Nothing was written. Formatting {device} would {what} {size}, and write:\n");
        if !self.pair.is_empty() {
            text += "(to the SSDs of the first pair; to others their labels alone)\n";
        }
        for (what, first, bytes) in writes {
            text += &format!("  {what}: {} from byte {first}\n", show_size(*bytes));
        }
        text
    }
}

fn is_later(path: &Path) -> bool {
    path.as_os_str() == LATER
}

/// How a device would be divided, and what memory its tables need.
fn division_text(plan: &FormatPlan) -> String {
    let extent = &plan.layout.extent;
    let block_bytes = extent.block.bytes();
    let data_bytes = plan.places() * block_bytes;
    let of_device = 100.0 * (plan.device_bytes - data_bytes) as f64 / plan.device_bytes as f64;
    let mut text = format!(
        "Space for VMs: {} of {} from byte {}, each with {} for blocks of {}: {} places, {}.\n\
         A VM that gets an extent writes its place tables first, {} each; its journal has {} there. {of_device:.1} % of the \
         device are not for blocks.\n\
         Memory for tables when all places are used, beside the scheme's (`lode serve --check` knows that):\n",
        show_count(plan.layout.extents.into(), "extent"),
        show_size(extent.extent_bytes),
        plan.start_bytes + plan.layout.extent_start(0),
        show_count(extent.places.into(), "place"),
        show_size(block_bytes),
        plan.places(),
        show_size(data_bytes),
        show_size(plan.table_bytes()),
        show_size(plan.journal_bytes()),
    );
    for (what, bytes) in plan.memory_bytes(USUAL_DISK_BLOCKS) {
        let a_place = bytes as f64 / plan.places() as f64;
        text += &format!("  {what}: {a_place:.1} bytes a place, {} in all\n", show_size(bytes));
    }
    text
}
