//! Proving what a cache SSD holds while no daemon serves it, and mending what can be mended. It must not know how bytes are
//! laid out there.

mod devices;
mod report;
mod target;

use lode_store::pair::{MEMBERS, count_labels};
use lode_store::{StoreView, SyncDevice, VolumeInfo};
use lode_types::planted;

pub use self::devices::check_devices;
pub use self::report::{
    CheckReport, CheckedSsd, CheckedVolume, DamagedBlockView, Mended, SsdCopies, Verdict,
};
use self::report::{Checked, Looked};
pub use self::target::{CheckTarget, check_targets};
use crate::config::Config;
use crate::error::ServerError;
use crate::pair::{MemberState, PairFiles};
use crate::ssd::{FoundSsd, SsdFiles};
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

/// How far a check is: the volume, and the bytes of blocks that were looked at of all that are held.
pub type CheckProgress<'a> = &'a mut dyn FnMut(&str, u64, u64);

/// Checks the cache SSD of a configuration, or its pairs, and mends it if asked to: first what one SSD of a pair lacks and the other one has, and
/// what is left where nothing of that is, because an SSD that fails meanwhile is dropped from its pair with all that it alone has.
///
/// # Errors
/// When the configuration names no SSD, a daemon serves it, it is not the right one, or nothing of it can be read.
pub fn check(
    config: &Config,
    options: &CheckOptions,
    progress: CheckProgress<'_>,
) -> Result<CheckReport, ServerError> {
    let mut found = volumes::find(config)?;
    let missed = found.files.missed();
    let mends = options.repair && (missed.is_empty() || planted("repair-leaves-the-missing-behind"));
    let mut looked = look_at(&found, (options, mends), progress)?;
    let mut report = report_of(&found, &looked);
    if options.repair && !mends {
        report.not_mended = (report.verdict != Verdict::Sound).then(|| missed_text(&missed));
        return Ok(report);
    }
    if mends && found.files.has_copies() && options.metadata_only && looked.needs_run(&report.ssds) {
        // Whoever fails in a run goes with what it alone has, blocks as well.
        let all = CheckOptions { metadata_only: false, ..*options };
        looked = look_at(&found, (&all, mends), progress)?;
        report = report_of(&found, &looked).after(&report, false);
    }
    if mends && !looked.on_devices().mended.is_empty() {
        looked = look_at(&found, (options, false), &mut |_, _, _| {})?;
        report = report_of(&found, &looked).after(&report, false);
    }
    if mends && !looked.on_devices().is_whole() {
        report.not_mended = Some(refusing_text(&report));
    } else if mends && found.files.has_copies() && looked.volumes.iter().any(Result::is_err) {
        report.not_mended = (looked.needs_run(&report.ssds)).then(|| damaged_text(&report));
    } else if mends && looked.needs_run(&report.ssds) {
        found.mend(&looked.volumes)?;
        found = volumes::find(config)?;
        looked = look_at(&found, (options, false), &mut |_, _, _| {})?;
        report = report_of(&found, &looked).after(&report, true);
    }
    Ok(report)
}

fn look_at(
    found: &FoundSsd<'_>,
    how: (&CheckOptions, bool),
    progress: CheckProgress<'_>,
) -> Result<Looked, ServerError> {
    let looked = look(&mut found.files.device(), &found.view, how, progress);
    looked.map_err(|error| ServerError::store(found.files.path().display(), error))
}

fn report_of(found: &FoundSsd<'_>, looked: &Looked) -> CheckReport {
    let path = found.files.path().display().to_string();
    CheckReport::new(path, &found.view, looked, (found.files.checked(), true))
}

/// Why nothing was written, with an SSD missing that may have what is damaged elsewhere.
fn missed_text(missed: &[String]) -> String {
    format!(
        "Nothing was written: {}, which is to have everything, was not looked at, and a repair would leave it behind with what it alone may \
         have. Bring it back; if it is gone for good, `lode device remove` has the cache go on without it",
        missed.join(" and ")
    )
}

/// Why nothing is written that an SSD might be dropped for.
fn damaged_text(report: &CheckReport) -> String {
    let damaged = report.volumes.iter().filter(|volume| volume.damage.is_some());
    let names: Vec<_> = damaged.map(|volume| volume.name.as_str()).collect();
    format!(
        "The rest was not mended: of {} nobody knows what each SSD of the pair has, and one that failed meanwhile would be dropped with it. \
         Give up what cannot be brought back with `lode volume remove --force`, and repair again",
        names.join(", ")
    )
}

/// Why something is still lacking after it was to be written.
fn refusing_text(report: &CheckReport) -> String {
    let refusing = report.ssds.iter().filter(|ssd| ssd.lacks.all() > 0);
    let paths: Vec<_> = refusing.map(CheckedSsd::name).collect();
    format!(
        "What {} lacks could not be written there, so that nothing else was: `lode device replace` gives the cache another SSD in its place",
        paths.join(" and ")
    )
}

/// Looks at everything. With `mends`, what one SSD of a pair lacks and the other one has is written there.
fn look(
    device: &mut dyn SyncDevice,
    view: &StoreView,
    (options, mends): (&CheckOptions, bool),
    progress: CheckProgress<'_>,
) -> Result<Looked, lode_store::StoreError> {
    let heads = view.check_heads(device, mends)?;
    let mut infos: Vec<_> = view.volumes().collect();
    infos.sort_by(|a, b| a.name.cmp(&b.name));
    let block_bytes = view.superblock().block.bytes();
    // A pass over metadata says how much there is to read.
    let held = |info: &VolumeInfo, device: &mut dyn SyncDevice| {
        view.count_blocks(device, &info.name).map_or(0, |counts| (counts.clean + counts.dirty) * block_bytes)
    };
    let total_bytes = match options.metadata_only {
        true => 0,
        false => infos.iter().map(|info| held(info, device)).sum(),
    };
    let mut done_bytes = 0;
    let check = |info: VolumeInfo| -> Checked {
        let mut tell = |bytes| {
            done_bytes += bytes;
            progress(&info.name, done_bytes, total_bytes);
        };
        let data = !options.metadata_only;
        let checked = match mends {
            true => view.mend_copies(device, &info.name, data, &mut tell),
            false => view.check_volume(device, &info.name, data, &mut tell),
        };
        checked.map_err(|error| (info, error.to_string()))
    };
    Ok(Looked { heads, volumes: infos.into_iter().map(check).collect() })
}

impl SsdFiles {
    /// Its SSDs, before what was found of them is known.
    fn checked(&self) -> Vec<CheckedSsd> {
        match self {
            SsdFiles::One(file) => {
                vec![CheckedSsd::there(Some(file.path().to_path_buf()), MemberState::Single, 0, None)]
            }
            SsdFiles::Pairs(files) => {
                files.pairs.iter().enumerate().flat_map(|(number, pair)| checked_pair(number, pair)).collect()
            }
        }
    }

    /// Whether any pair has both SSDs in use.
    fn has_copies(&self) -> bool {
        match self {
            SsdFiles::One(_) => false,
            SsdFiles::Pairs(files) => {
                files.pairs.iter().any(|pair| (0..MEMBERS).all(|member| pair.is_used(member)))
            }
        }
    }

    /// SSDs that labels say have everything, and that are not there.
    fn missed(&self) -> Vec<String> {
        self.checked().iter().filter(|ssd| ssd.is_missed).map(CheckedSsd::name).collect()
    }
}

fn checked_pair(number: usize, pair: &PairFiles) -> Vec<CheckedSsd> {
    let member = |member: usize| {
        let path = pair.paths[member].clone()?;
        let is_used = pair.is_used(member);
        let label = pair.files[member].as_ref().filter(|_| is_used);
        let labels = label.map(|file| count_labels(&mut FileDevice::new(file)));
        let state = match () {
            () if pair.is_awaiting() => MemberState::Single,
            () if is_used => MemberState::InSync,
            () if pair.is_written(member) => MemberState::Resilvering,
            () => MemberState::OutOfSync,
        };
        let ssd = CheckedSsd::there(Some(path), state, (number * MEMBERS + member) as u16, labels);
        let why = pair.left_out[member].clone().filter(|_| !is_used);
        Some(CheckedSsd { why, is_missed: pair.is_missed(member), ..ssd })
    };
    (0..MEMBERS).filter_map(member).collect()
}
