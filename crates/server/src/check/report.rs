//! What a check has found, for people and scripts. It must not know how it was found.

use std::path::PathBuf;

use lode_store::{CopiesCheck, CopyCounts, HeadsCheck, StoreView, VolumeCheck, VolumeInfo};
use serde::Serialize;

use crate::pair::MemberState;

/// How it stands with a cache SSD, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// All that was looked at is whole.
    Sound,
    /// Something is damaged or missing that another copy, the other SSD of the pair or the backing disk has.
    Mendable,
    /// Blocks newer than the backing disk are damaged here, and an SSD of the pair that was not looked at may have them.
    Incomplete,
    /// Blocks newer than the backing disk are damaged, or it cannot be told whether there are any.
    Lossy,
}

/// What was found on a cache SSD, or on the pairs that a cache is on.
#[derive(Clone, Debug, Serialize)]
pub struct CheckReport {
    /// The device or file, or several.
    pub ssd: String,
    /// Identity of the cache.
    pub uuid: String,
    /// How it stands now, after a repair.
    pub verdict: Verdict,
    /// No volume holds blocks newer than its backing disk.
    pub is_clean: bool,
    /// Records of the last run that outlive the daemon in memory were looked for. Without a configuration they are not.
    pub knows_records: bool,
    /// Copies of the superblock that any SSD has; 2 where all is well.
    pub superblock_copies: u32,
    /// Copies of the directory that any SSD has; 2 where all is well.
    pub directory_copies: u32,
    /// Each SSD.
    pub ssds: Vec<CheckedSsd>,
    /// By name.
    pub volumes: Vec<CheckedVolume>,
    /// Why a repair left something that could be mended.
    pub not_mended: Option<String>,
}

/// What was found of one SSD.
#[derive(Clone, Debug, Serialize)]
pub struct CheckedSsd {
    /// Where it is, or should be; `None`: nobody has said.
    pub path: Option<PathBuf>,
    /// How it stands in its pair.
    pub state: MemberState,
    /// Why it is not used.
    pub why: Option<String>,
    /// Labels say that it has everything, and it was not looked at: it may have what is damaged on the other one.
    pub is_missed: bool,
    /// Readable copies of its label, of 2; none of a single SSD, and of one that was not looked at.
    pub label_copies: Option<u32>,
    /// What it lacks that the other SSD of the pair has.
    pub lacks: SsdCopies,
    /// What it lacked, and a repair wrote there from the other one.
    pub mended: SsdCopies,
    #[serde(skip)]
    pub(super) device: u16,
}

/// Copies on one SSD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SsdCopies {
    /// Of superblock and directory.
    pub heads: u64,
    /// Of pages of place tables.
    pub table_pages: u64,
    /// Of pages of journals.
    pub journal_pages: u64,
    /// Of blocks newer than the backing disk.
    pub dirty_blocks: u64,
}

impl SsdCopies {
    /// All of them.
    pub fn all(&self) -> u64 {
        self.heads + self.table_pages + self.journal_pages + self.dirty_blocks
    }

    fn add(&mut self, other: &SsdCopies) {
        self.heads += other.heads;
        self.table_pages += other.table_pages;
        self.journal_pages += other.journal_pages;
        self.dirty_blocks += other.dirty_blocks;
    }

    fn of(all: &[CopyCounts], device: u16) -> SsdCopies {
        let counts = all.iter().find(|counts| counts.device == device).copied().unwrap_or_default();
        let CopyCounts { heads, table_pages, journal_pages, dirty_blocks, .. } = counts;
        SsdCopies { heads, table_pages, journal_pages, dirty_blocks }
    }
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
    /// Place table pages of which one copy cannot be read on any SSD.
    pub lone_table_pages: u64,
    /// Journal pages of which one SSD of a pair has an older state than the other one.
    pub behind_journal_pages: u64,
    /// Clean blocks whose bytes are not there.
    pub damaged_clean_blocks: u64,
    /// Dirty blocks whose bytes are on no SSD.
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

/// What a volume holds, or which one it is and why that cannot be said.
pub(super) type Checked = Result<VolumeCheck, (VolumeInfo, String)>;

/// What a look at a cache has found.
pub(super) struct Looked {
    pub heads: HeadsCheck,
    pub volumes: Vec<Checked>,
}

impl Looked {
    /// What each SSD lacks that another one has, and what of that was mended.
    pub fn on_devices(&self) -> CopiesCheck {
        let mut all = self.heads.on_devices.clone();
        self.volumes.iter().flatten().for_each(|volume| all.add(&volume.on_devices));
        all
    }

    /// Whether all that is left to mend takes a run of its own: what no SSD has, or what is given up.
    pub fn needs_run(&self, ssds: &[CheckedSsd]) -> bool {
        self.heads_are_lone()
            || ssds.iter().any(CheckedSsd::lacks_label)
            || self.volumes.iter().flatten().any(VolumeCheck::is_mendable)
    }

    pub fn heads_are_lone(&self) -> bool {
        self.heads.copies.superblocks < 2 || self.heads.copies.directories < 2
    }
}

impl CheckedSsd {
    /// One that was looked at.
    pub(super) fn there(
        path: Option<PathBuf>,
        state: MemberState,
        device: u16,
        label_copies: Option<u32>,
    ) -> CheckedSsd {
        let (lacks, mended) = (SsdCopies::default(), SsdCopies::default());
        CheckedSsd { path, state, why: None, is_missed: false, label_copies, lacks, mended, device }
    }

    /// Its path, for people.
    pub fn name(&self) -> String {
        self.path
            .as_ref()
            .map_or_else(|| "the other SSD of the pair".to_owned(), |path| path.display().to_string())
    }

    fn lacks_label(&self) -> bool {
        self.label_copies.is_some_and(|copies| copies < 2)
    }

    fn is_mendable(&self) -> bool {
        let is_in_order = matches!(self.state, MemberState::Single | MemberState::InSync);
        !is_in_order || self.lacks_label() || self.lacks.all() > 0
    }
}

impl CheckReport {
    /// Of the SSDs of a cache. What the configuration says is known beside them.
    pub(super) fn new(
        ssd: String,
        view: &StoreView,
        looked: &Looked,
        (mut ssds, knows_records): (Vec<CheckedSsd>, bool),
    ) -> CheckReport {
        let on_devices = looked.on_devices();
        for ssd in &mut ssds {
            ssd.lacks = SsdCopies::of(&on_devices.lacks, ssd.device);
            ssd.mended = SsdCopies::of(&on_devices.mended, ssd.device);
        }
        let block_bytes = view.superblock().block.bytes();
        let volumes: Vec<_> =
            looked.volumes.iter().map(|checked| volume_view(checked, block_bytes)).collect();
        let is_lossy = |volume: &CheckedVolume| volume.damage.is_some() || volume.damaged_dirty_blocks > 0;
        let is_mendable = looked.heads_are_lone()
            || looked.volumes.iter().flatten().any(VolumeCheck::is_mendable)
            || ssds.iter().any(CheckedSsd::is_mendable);
        let verdict = match () {
            () if !volumes.iter().any(is_lossy) && is_mendable => Verdict::Mendable,
            () if !volumes.iter().any(is_lossy) => Verdict::Sound,
            () if ssds.iter().any(|ssd| ssd.is_missed) => Verdict::Incomplete,
            () => Verdict::Lossy,
        };
        CheckReport {
            ssd,
            uuid: view.superblock().cache.to_string(),
            verdict,
            is_clean: volumes.iter().all(|volume| volume.damage.is_none() && volume.dirty_blocks == 0),
            knows_records,
            superblock_copies: looked.heads.copies.superblocks,
            directory_copies: looked.heads.copies.directories,
            ssds,
            volumes,
            not_mended: None,
        }
    }

    /// The same after a repair, of which this is what was found before.
    pub(super) fn after(mut self, before: &CheckReport, gave_up: bool) -> CheckReport {
        for (after, before) in self.ssds.iter_mut().zip(&before.ssds) {
            after.mended.add(&before.mended);
        }
        for (after, before) in self.volumes.iter_mut().zip(&before.volumes).filter(|_| gave_up) {
            after.mended = before.damage.is_none().then_some(Mended {
                table_pages: before.lone_table_pages - after.lone_table_pages.min(before.lone_table_pages),
                clean_blocks: before.damaged_clean_blocks,
            });
        }
        self
    }
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
        behind_journal_pages: count(|check| check.behind_journal_pages),
        damaged_clean_blocks: count(|check| check.damaged_clean_blocks),
        damaged_dirty_blocks: count(|check| check.damaged_dirty_blocks),
        damaged: damaged.collect(),
        mended: None,
    }
}
