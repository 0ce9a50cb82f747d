//! `lode check`: whether cache SSDs hold what they should, while no daemon serves them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use lode_server::{CheckOptions, CheckReport, CheckedVolume, Config, Verdict};

use crate::amounts::{show_count, show_size};
use crate::error::CliError;
use crate::output::{note, table};
use crate::progress::Bytes;
use crate::results::JsonArgs;

/// Exit codes, beside 0 for what is sound, 1 for a check that failed and 2 for one that cannot be.
const MENDABLE: u8 = 3;
const LOSSY: u8 = 4;

/// Check cache SSDs that no daemon serves: metadata, and every block against its checksum.
#[derive(Args)]
#[command(
    after_help = "Exit code: 0 all is sound; 3 damage that costs nothing, --repair mends it; 4 blocks newer than a backing \
                        disk are damaged; 1 the check failed; 2 it cannot be done.\n\
                        Example: lode check /etc/lodestore/host1.toml --repair"
)]
pub struct CheckCommand {
    /// Configuration files that name cache SSDs, or the devices themselves.
    #[arg(value_name = "CONFIG.toml|DEVICE", required = true)]
    targets: Vec<PathBuf>,

    /// Mend damage that costs nothing: write lost copies of metadata again, and give up damaged blocks that the backing disk has
    /// as well. Takes a configuration.
    #[arg(long)]
    repair: bool,

    /// Read metadata alone, which takes seconds, and no blocks.
    #[arg(long)]
    metadata: bool,

    #[command(flatten)]
    json: JsonArgs,
}

impl CheckCommand {
    pub fn run(&self) -> Result<(), CliError> {
        let (mut reports, mut failure) = (Vec::new(), None);
        for target in &self.targets {
            match self.check(target) {
                Ok(report) => reports.push(report),
                // The others are checked all the same.
                Err(error) if self.targets.len() > 1 => {
                    note(&error.to_string());
                    failure =
                        failure.or(Some(CliError::Failure(format!("{} was not checked", target.display()))));
                }
                Err(error) => return Err(error),
            }
        }
        self.json.write(&reports, || reports.iter().map(text).collect::<Vec<_>>().join("\n"))?;
        let worst = reports.iter().map(|report| report.verdict).max();
        match (failure, worst) {
            (_, Some(Verdict::Lossy)) => Err(CliError::Found(LOSSY)),
            (Some(failure), _) => Err(failure),
            (None, Some(Verdict::Mendable)) => Err(CliError::Found(MENDABLE)),
            (None, _) => Ok(()),
        }
    }

    fn check(&self, target: &Path) -> Result<CheckReport, CliError> {
        let options = CheckOptions { metadata_only: self.metadata, repair: self.repair };
        let mut bar = Bytes::new("Checking");
        let mut progress = |_: &str, done_bytes, of_bytes| bar.update(done_bytes, of_bytes);
        let report = match lode_server::is_cache(target) {
            true => lode_server::check_device(target, &options, &mut progress),
            false => lode_server::check(&Config::load(target)?, &options, &mut progress),
        };
        Ok(report?)
    }
}

fn text(report: &CheckReport) -> String {
    let CheckReport { ssd, uuid, superblock_copies, directory_copies, .. } = report;
    let mut text = format!("Cache {uuid} on {ssd}\n\n");
    let mut table = table(&["volume", "space", "clean", "dirty", "damaged clean", "damaged dirty"], 1);
    for volume in &report.volumes {
        let count = |blocks: u64| if volume.damage.is_some() { "?".to_owned() } else { blocks.to_string() };
        table.add_row([
            volume.name.clone(),
            show_size(volume.space_bytes),
            count(volume.clean_blocks),
            count(volume.dirty_blocks),
            count(volume.damaged_clean_blocks),
            count(volume.damaged_dirty_blocks),
        ]);
    }
    if !report.volumes.is_empty() {
        let _ = writeln!(text, "{table}\n");
    }
    for (what, copies) in [("superblock", superblock_copies), ("directory", directory_copies)] {
        if *copies < 2 {
            let _ = writeln!(text, "One of two copies of the {what} cannot be read.");
        }
    }
    report.volumes.iter().for_each(|volume| text.push_str(&volume_text(volume)));
    if !report.knows_records {
        text.push_str(
            "Records of the last run that this host's memory may still have were not looked for: give the configuration \
             file for that.\n",
        );
    }
    text.push_str(&verdict_text(report));
    text
}

fn volume_text(volume: &CheckedVolume) -> String {
    let (name, mut text) = (&volume.name, String::new());
    if let Some(damage) = &volume.damage {
        let _ = writeln!(text, "{name}: {damage}");
    }
    if volume.lone_table_pages > 0 {
        let pages = show_count(volume.lone_table_pages, "place table page");
        let _ = writeln!(text, "{name}: {pages} with one readable copy of two; a crash may leave some");
    }
    for block in &volume.damaged {
        let why = if block.is_unreadable { "cannot be read" } else { "has another checksum" };
        let what = if block.is_dirty { "newer than the backing disk" } else { "also on the backing disk" };
        let _ = writeln!(
            text,
            "{name}: block at byte {} of its disk, byte {} of the SSD, {why}; {what}",
            block.disk_offset_bytes, block.ssd_offset_bytes
        );
    }
    let more = volume.damaged_clean_blocks + volume.damaged_dirty_blocks - volume.damaged.len() as u64;
    if more > 0 {
        let _ = writeln!(text, "{name}: and {} more", show_count(more, "block"));
    }
    if let Some(mended) = &volume.mended
        && mended.table_pages + mended.clean_blocks > 0
    {
        let (pages, blocks) = (
            show_count(mended.table_pages, "place table page"),
            show_count(mended.clean_blocks, "damaged block"),
        );
        let _ = writeln!(
            text,
            "{name}: mended; {pages} written again, {blocks} given up that the backing disk has"
        );
    }
    text
}

fn verdict_text(report: &CheckReport) -> String {
    let clean = match report.is_clean {
        true => "no volume holds blocks newer than its backing disk",
        false => "it holds blocks newer than backing disks: do not part them from it before `lode drain`",
    };
    match report.verdict {
        Verdict::Sound => format!("Sound; {clean}\n"),
        Verdict::Mendable => {
            format!("Damaged, and nothing is lost: `lode check --repair` mends it; {clean}\n")
        }
        Verdict::Lossy => "Damaged: what guests wrote to the dirty blocks above is lost unless the SSD can be read again; guests \
                           get I/O errors there until they overwrite them\n"
            .to_owned(),
    }
}
