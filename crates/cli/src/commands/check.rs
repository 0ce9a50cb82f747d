//! `lode check`: whether cache SSDs hold what they should, while no daemon serves them.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use lode_server::{
    CheckOptions, CheckReport, CheckTarget, CheckedSsd, CheckedVolume, MemberState, SsdCopies, Verdict,
    check_targets,
};

use crate::amounts::{show_count, show_size};
use crate::error::CliError;
use crate::output::{note, table};
use crate::progress::Bytes;
use crate::results::JsonArgs;

/// Exit codes, beside 0 for what is sound, 1 for a check that failed and 2 for one that cannot be.
const MENDABLE: u8 = 3;
const LOSSY: u8 = 4;
const NOT_CLEAN: u8 = 5;

/// Check cache SSDs that no daemon serves: metadata, and every block against its checksum, on each SSD.
#[derive(Args)]
#[command(
    after_help = "Exit code: 0 all is sound; 3 damage that costs nothing, or an SSD of a pair is missing or lacks something; 4 blocks \
                        newer than a backing disk are damaged; 5 with --clean, nothing is damaged so, and there are blocks newer than a \
                        backing disk; 1 the check failed; 2 it cannot be done.\n\
                        Example: lode check /etc/lodestore/host1.toml --repair"
)]
pub struct CheckCommand {
    /// Configuration files that name cache SSDs, or the devices themselves. Both SSDs of a pair are checked together.
    #[arg(value_name = "CONFIG.toml|DEVICE", required = true)]
    targets: Vec<PathBuf>,

    /// Mend damage that costs nothing: write what one SSD of a pair lacks from the other one, write lost copies of metadata again, and give
    /// up damaged blocks that the backing disk has as well, which takes the configuration.
    #[arg(long)]
    repair: bool,

    /// Read metadata alone, which takes seconds, and no blocks.
    #[arg(long)]
    metadata: bool,

    /// Fail with exit code 5 where a volume holds blocks newer than its backing disk, also if all is sound.
    #[arg(long)]
    clean: bool,

    #[command(flatten)]
    json: JsonArgs,
}

impl CheckCommand {
    pub fn run(&self) -> Result<(), CliError> {
        let (mut reports, mut failure) = (Vec::new(), None);
        let targets = check_targets(&self.targets);
        let is_only = targets.len() == 1;
        for (path, target) in targets {
            match target.map_err(CliError::from).and_then(|target| self.check(&target)) {
                Ok(report) => reports.push(report),
                Err(error) if is_only => return Err(error),
                // The others are checked all the same.
                Err(error) => {
                    note(&error.to_string());
                    failure =
                        failure.or(Some(CliError::Failure(format!("{} was not checked", path.display()))));
                }
            }
        }
        self.json.write(&reports, || reports.iter().map(text).collect::<Vec<_>>().join("\n"))?;
        let worst = reports.iter().map(|report| report.verdict).max();
        let is_clean = reports.iter().all(|report| report.is_clean);
        match (failure, worst) {
            (_, Some(Verdict::Lossy | Verdict::Incomplete)) => Err(CliError::Found(LOSSY)),
            (Some(failure), _) => Err(failure),
            _ if self.clean && !is_clean => Err(CliError::Found(NOT_CLEAN)),
            (None, Some(Verdict::Mendable)) => Err(CliError::Found(MENDABLE)),
            (None, _) => Ok(()),
        }
    }

    fn check(&self, target: &CheckTarget) -> Result<CheckReport, CliError> {
        let options = CheckOptions { metadata_only: self.metadata, repair: self.repair };
        let mut bar = Bytes::new("Checking");
        let mut progress = |_: &str, done_bytes, of_bytes| bar.update(done_bytes, of_bytes);
        let report = match target {
            CheckTarget::Devices(paths) => lode_server::check_devices(paths, &options, &mut progress),
            CheckTarget::Config(config) => lode_server::check(config, &options, &mut progress),
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
    report.ssds.iter().for_each(|ssd| text.push_str(&ssd_text(ssd)));
    report.volumes.iter().for_each(|volume| text.push_str(&volume_text(volume)));
    if !report.knows_records {
        text.push_str(
            "Records of the last run that this host's memory may still have were not looked for: give the configuration \
             file for that.\n",
        );
    }
    if let Some(why) = &report.not_mended {
        let _ = writeln!(text, "{why}.");
    }
    text.push_str(&verdict_text(report));
    text
}

fn ssd_text(ssd: &CheckedSsd) -> String {
    let (name, mut text) = (ssd.name(), String::new());
    let why = ssd.why.as_deref().unwrap_or("it lacks something");
    let _ = match ssd.state {
        _ if ssd.is_missed => writeln!(
            text,
            "{name}: not looked at ({why}), and it is to have everything: what is dirty is known of one SSD alone. Bring it back; a start goes \
             on without it, and `lode device add` resilvers it then, or another one in its place"
        ),
        MemberState::OutOfSync => writeln!(
            text,
            "{name}: out of its pair ({why}); what is dirty is on one SSD alone until `lode device add` has resilvered it, or another one \
             in its place, while guests are served"
        ),
        MemberState::Resilvering => {
            writeln!(text, "{name}: {why}; what is dirty is on one SSD alone until then")
        }
        MemberState::Single | MemberState::InSync => Ok(()),
    };
    if ssd.label_copies.is_some_and(|copies| copies < 2) {
        let _ =
            writeln!(text, "{name}: one of two copies of its label cannot be read; a start writes it again");
    }
    if ssd.lacks.all() > 0 {
        let _ = writeln!(text, "{name}: lacks what the other SSD has: {}", copies_text(&ssd.lacks));
    }
    if ssd.mended.all() > 0 {
        let _ = writeln!(text, "{name}: mended from the other SSD: {}", copies_text(&ssd.mended));
    }
    text
}

/// What copies these are, for people.
fn copies_text(copies: &SsdCopies) -> String {
    let all = [
        (copies.heads, "copy of superblock or directory", "copies of superblock or directory"),
        (copies.table_pages, "copy of a place table page", "copies of place table pages"),
        (copies.journal_pages, "journal page", "journal pages"),
        (copies.dirty_blocks, "block newer than the backing disk", "blocks newer than the backing disk"),
    ];
    let there = all.into_iter().filter(|(count, ..)| *count > 0);
    let each =
        there.map(|(count, one, several)| format!("{count} {}", if count == 1 { one } else { several }));
    each.collect::<Vec<_>>().join(", ")
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
    if volume.behind_journal_pages > 0 {
        let pages = show_count(volume.behind_journal_pages, "journal page");
        let _ = writeln!(text, "{name}: {pages} in an older state on one SSD; a crash may leave some");
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
        Verdict::Mendable if report.ssds.iter().any(|ssd| ssd.is_missed || ssd.state == MemberState::OutOfSync) => {
            format!("Nothing is lost, and not all of it is on both SSDs of the pair; {clean}\n")
        }
        Verdict::Mendable => {
            format!("Damaged, and nothing is lost: `lode check --repair` mends it; {clean}\n")
        }
        Verdict::Incomplete => "Damaged here: the other SSD of the pair, which was not looked at, may have the dirty blocks above. Check both \
                               together, before anything else is done with them: give both SSDs, or the configuration\n"
            .to_owned(),
        Verdict::Lossy => "Damaged: what guests wrote to the dirty blocks above is lost unless the SSD can be read again; guests \
                           get I/O errors there until they overwrite them\n"
            .to_owned(),
    }
}
