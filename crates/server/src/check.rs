//! Proving what a cache SSD holds while no daemon serves it, and mending what can be mended. It must not know how bytes are
//! laid out there.

use std::path::Path;

use lode_format::PairLabel;
use lode_media::{Lock, MediaFile, OpenOptions};
use lode_store::pair::{MEMBERS, Pair, PairDevice, probe_pair};
use lode_store::{
    CacheCopies, StoreErrorKind, StoreView, SyncDevice, VolumeCheck, probe_read_ssd, signature_of,
};
use serde::Serialize;

use crate::config::Config;
use crate::error::{ServerError, ServerErrorKind};
use crate::foreign::other_version;
use crate::sync_device::FileDevice;
use crate::volumes;

/// What to look at, and whether to write.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckOptions {
    /// Metadata alone: no block is read.
    pub metadata_only: bool,
    /// Mend what costs nothing.
    pub repair: bool,
}

/// How it stands with a cache SSD, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// All that was looked at is whole.
    Sound,
    /// Something is damaged that the other copy or the backing disk has.
    Mendable,
    /// Blocks newer than the backing disk are damaged, or it cannot be told whether there are any.
    Lossy,
}

/// What was found on a cache SSD.
#[derive(Clone, Debug, Serialize)]
pub struct CheckReport {
    /// The device or file.
    pub ssd: String,
    /// Identity of the cache.
    pub uuid: String,
    /// How it stands now, after a repair.
    pub verdict: Verdict,
    /// No volume holds blocks newer than its backing disk.
    pub is_clean: bool,
    /// Records of the last run that outlive the daemon in memory were looked for. Without a configuration they are not.
    pub knows_records: bool,
    /// Readable copies of the superblock; 2 where all is well.
    pub superblock_copies: u32,
    /// Readable copies of the directory; 2 where all is well.
    pub directory_copies: u32,
    /// By name.
    pub volumes: Vec<CheckedVolume>,
}

/// What was found of one volume.
#[derive(Clone, Debug, Serialize)]
pub struct CheckedVolume {
    /// Name of the VM that it was made for.
    pub name: String,
    /// Its space on the SSD.
    pub space_bytes: u64,
    /// Why nothing more can be said: its metadata is damaged.
    pub damage: Option<String>,
    /// Blocks that equal the backing disk.
    pub clean_blocks: u64,
    /// Blocks newer than it.
    pub dirty_blocks: u64,
    /// Place table pages of which one copy cannot be read.
    pub lone_table_pages: u64,
    /// Clean blocks whose bytes are not there.
    pub damaged_clean_blocks: u64,
    /// Dirty blocks whose bytes are not there.
    pub damaged_dirty_blocks: u64,
    /// The first of the damaged blocks.
    pub damaged: Vec<DamagedBlockView>,
    /// What was mended: table pages and clean blocks, which were given up.
    pub mended: Option<Mended>,
}

/// A block whose bytes are not there.
#[derive(Clone, Debug, Serialize)]
pub struct DamagedBlockView {
    /// Where it is on the VM's disk.
    pub disk_offset_bytes: u64,
    /// Where its bytes should be on the SSD.
    pub ssd_offset_bytes: u64,
    /// It is newer than the backing disk.
    pub is_dirty: bool,
    /// The SSD gave an error; otherwise the checksum differs.
    pub is_unreadable: bool,
}

/// What a repair did to a volume.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Mended {
    /// Place table pages that have two copies again.
    pub table_pages: u64,
    /// Damaged clean blocks that were given up; the backing disk has them.
    pub clean_blocks: u64,
}

/// How far a check is: the volume, and the bytes of blocks that were looked at of all that are held.
pub type CheckProgress<'a> = &'a mut dyn FnMut(&str, u64, u64);

/// Checks the cache SSD of a configuration, and mends it if asked to.
///
/// # Errors
/// When the configuration names no SSD, a daemon serves it, it is not the right one, or nothing of it can be read.
pub fn check(
    config: &Config,
    options: &CheckOptions,
    progress: CheckProgress<'_>,
) -> Result<CheckReport, ServerError> {
    let mut found = volumes::find(config)?;
    let path = found.files.path().display().to_string();
    let (copies, checked) = look(&mut found.files.device(), &found.view, options, progress);
    let mut report = report(path, &found.view, (copies, &checked), true);
    if options.repair && report.verdict != Verdict::Sound && mends_something(&report) {
        found.mend(&checked)?;
        found = volumes::find(config)?;
        let (copies, again) = look(&mut found.files.device(), &found.view, options, &mut |_, _, _| {});
        let mut after = self::report(report.ssd, &found.view, (copies, &again), true);
        for (after, before) in after.volumes.iter_mut().zip(&report.volumes) {
            after.mended = before.damage.is_none().then_some(Mended {
                table_pages: before.lone_table_pages - after.lone_table_pages.min(before.lone_table_pages),
                clean_blocks: before.damaged_clean_blocks,
            });
        }
        report = after;
    }
    Ok(report)
}

/// Checks a cache SSD without a configuration. Nothing is written, and records of the last run that memory may still have are
/// not looked for.
///
/// # Errors
/// When a daemon serves it, or it holds no cache.
pub fn check_device(
    path: &Path,
    options: &CheckOptions,
    progress: CheckProgress<'_>,
) -> Result<CheckReport, ServerError> {
    let shown = path.display();
    if options.repair {
        let text = format!(
            "{shown} can only be repaired with the configuration that names it, because memory may still have what its last \
             run acknowledged: `lode check --repair CONFIG.toml`"
        );
        return Err(ServerError::new(ServerErrorKind::Config, text));
    }
    let file = MediaFile::open(path, &OpenOptions { write: false, ..OpenOptions::default() })?;
    if let Ok(label) = probe_pair(&mut FileDevice(&file)) {
        return check_member(&file, label, options, progress);
    }
    let view = StoreView::read(&mut FileDevice(&file)).map_err(|error| match error.kind() {
        StoreErrorKind::NotACache if probe_read_ssd(&mut FileDevice(&file)).is_ok() => ServerError::new(
            ServerErrorKind::Store,
            format!(
                "{shown} is a read SSD, which holds nothing that outlives a run: there is nothing to check"
            ),
        ),
        StoreErrorKind::NotACache => {
            other_version(path, &mut FileDevice(&file)).unwrap_or_else(|| ServerError::store(&shown, error))
        }
        _ => ServerError::store(&shown, error),
    })?;
    let (copies, checked) = look(&mut FileDevice(&file), &view, options, progress);
    Ok(report(shown.to_string(), &view, (copies, &checked), false))
}

/// Checks one SSD of a pair by itself.
fn check_member(
    file: &MediaFile,
    label: PairLabel,
    options: &CheckOptions,
    progress: CheckProgress<'_>,
) -> Result<CheckReport, ServerError> {
    let shown = file.path().display();
    if label.pairs > 1 {
        let text = format!(
            "{shown} is an SSD of pair {} of {} of cache {}, and what it holds can only be read together with the other pairs: give `lode \
             check` the configuration that names all of them in `ssd.pairs`",
            label.number + 1,
            label.pairs,
            label.pair
        );
        return Err(ServerError::new(ServerErrorKind::Config, text));
    }
    let mut labels = [None; MEMBERS];
    // It is asked what it holds, whoever has everything. The other one is missing, and with it clean blocks that it alone has.
    let in_sync = [0, 1].map(|member| member == label.member || label.in_sync[member]);
    labels[label.member] = Some(PairLabel { in_sync, awaits_other: false, ..label });
    let pairs = Pair::all_of(&[labels], &[Some(label.generation)])
        .map_err(|error| ServerError::store(&shown, error))?;
    let mut devices = [None, None];
    devices[label.member] = Some(FileDevice(file));
    let mut device = PairDevice::new(pairs[0], devices);
    let view = StoreView::read(&mut device).map_err(|error| ServerError::store(&shown, error))?;
    let (copies, checked) = look(&mut device, &view, options, progress);
    Ok(report(format!("{shown}, one SSD of a pair"), &view, (copies, &checked), false))
}

/// Whether a file begins as something of Lodestore does: a cache SSD, one of a pair, a read SSD, a redo log or a part of them, be it in use or
/// not, of whatever version.
pub fn is_cache(path: &Path) -> bool {
    MediaFile::open(path, &OpenOptions { write: false, lock: Lock::None, ..OpenOptions::default() })
        .is_ok_and(|file| signature_of(&mut FileDevice(&file)).is_some())
}

type Checked = Result<VolumeCheck, (lode_store::VolumeInfo, String)>;

fn look(
    device: &mut dyn SyncDevice,
    view: &StoreView,
    options: &CheckOptions,
    progress: CheckProgress<'_>,
) -> (CacheCopies, Vec<Checked>) {
    let copies = view.check_copies(device);
    let mut infos: Vec<_> = view.volumes().collect();
    infos.sort_by(|a, b| a.name.cmp(&b.name));
    let block_bytes = view.superblock().block.bytes();
    // A pass over metadata says how much there is to read.
    let held = |info: &lode_store::VolumeInfo, device: &mut dyn SyncDevice| {
        view.count_blocks(device, &info.name).map_or(0, |counts| (counts.clean + counts.dirty) * block_bytes)
    };
    let total_bytes = match options.metadata_only {
        true => 0,
        false => infos.iter().map(|info| held(info, device)).sum(),
    };
    let mut done_bytes = 0;
    let check = |info: lode_store::VolumeInfo| {
        let mut tell = |bytes| {
            done_bytes += bytes;
            progress(&info.name, done_bytes, total_bytes);
        };
        let checked = view.check_volume(device, &info.name, !options.metadata_only, &mut tell);
        checked.map_err(|error| (info, error.to_string()))
    };
    (copies, infos.into_iter().map(check).collect())
}

fn report(
    ssd: String,
    view: &StoreView,
    (copies, checked): (CacheCopies, &[Checked]),
    knows_records: bool,
) -> CheckReport {
    let block_bytes = view.superblock().block.bytes();
    let volumes: Vec<_> = checked.iter().map(|checked| volume_view(checked, block_bytes)).collect();
    let is_lossy = |volume: &CheckedVolume| volume.damage.is_some() || volume.damaged_dirty_blocks > 0;
    let is_mendable = checked.iter().flatten().any(VolumeCheck::is_mendable);
    let verdict = match () {
        () if volumes.iter().any(is_lossy) => Verdict::Lossy,
        () if is_mendable || copies.superblocks < 2 || copies.directories < 2 => Verdict::Mendable,
        () => Verdict::Sound,
    };
    CheckReport {
        ssd,
        uuid: view.superblock().cache.to_string(),
        verdict,
        is_clean: volumes.iter().all(|volume| volume.damage.is_none() && volume.dirty_blocks == 0),
        knows_records,
        superblock_copies: copies.superblocks,
        directory_copies: copies.directories,
        volumes,
    }
}

fn mends_something(report: &CheckReport) -> bool {
    let is_mendable = |volume: &CheckedVolume| volume.lone_table_pages + volume.damaged_clean_blocks > 0;
    report.superblock_copies < 2 || report.directory_copies < 2 || report.volumes.iter().any(is_mendable)
}

fn volume_view(checked: &Checked, block_bytes: u64) -> CheckedVolume {
    let (info, damage) = match checked {
        Ok(check) => (&check.info, None),
        Err((info, damage)) => (info, Some(damage.clone())),
    };
    let check = checked.as_ref().ok();
    let count = |of: fn(&VolumeCheck) -> u64| check.map_or(0, of);
    let damaged = check.into_iter().flat_map(|check| &check.damaged).map(|one| DamagedBlockView {
        disk_offset_bytes: one.block * block_bytes,
        ssd_offset_bytes: one.offset_bytes,
        is_dirty: one.is_dirty,
        is_unreadable: one.is_unreadable,
    });
    CheckedVolume {
        name: info.name.clone(),
        space_bytes: info.space_bytes,
        damage,
        clean_blocks: count(|check| check.clean_blocks),
        dirty_blocks: count(|check| check.dirty_blocks),
        lone_table_pages: count(|check| check.lone_table_pages),
        damaged_clean_blocks: count(|check| check.damaged_clean_blocks),
        damaged_dirty_blocks: count(|check| check.damaged_dirty_blocks),
        damaged: damaged.collect(),
        mended: None,
    }
}
