//! request-oriented: an SSD level that takes only writes, and of these only those that the admission lets in. After Kim
//! et al., USENIX ATC 2015, whose write cache is flashcache.
//!
//! It must not know who waits for whom: that is for [`crate::request_oriented`], and accesses do not tell it. Which
//! blocks leave and which are written back, [`flashcache`] knows.

use lode_types::{Access, AccessOp, BlockNo, Level, OriginFields};

use crate::effect::{Effect, Sink, Slot};
use crate::quota::Quota;
use crate::scheme::{Hint, Scheme};
use crate::schemes::cut_off::Cleaner;
use crate::schemes::flashcache::{self, CleanedSets};
use crate::schemes::mapping;
use crate::schemes::ssd_level::{Replacement, SsdLevel, WritePolicy};
use crate::settings::{SettingError, SettingInfo, SettingKind, Settings};

/// The scheme's name.
pub(crate) const NAME: &str = "request-oriented";

static SETTINGS: &[SettingInfo] = &[
    SettingInfo {
        key: "admission",
        default: "all",
        kind: SettingKind::Choice(&["all", "sync", "wal", "cp", "cp-pi", "cp-pi-ioi"]),
        about: "which writes are cached: all, synchronous ones, those to the log, synchronous ones of critical \
                processes; the last two are for `lode requests` alone",
        source: "paper, section 7.1",
    },
    SettingInfo {
        key: "log_first_block",
        default: "0",
        kind: SettingKind::Integer { min: 0, max: 1 << 40 },
        about: "first block of the log on the VM's first volume, with admission=wal",
        source: "ours: the paper's log has a device of its own",
    },
    SettingInfo {
        key: "log_blocks",
        default: "0",
        kind: SettingKind::Integer { min: 0, max: 1 << 40 },
        about: "blocks of the log, with admission=wal",
        source: "ours",
    },
];

pub(crate) static TABLES: &[&[SettingInfo]] = &[mapping::SETTINGS, SETTINGS, flashcache::CLEANING];

/// Which writes are let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    All,
    Sync,
    /// Writes of so many blocks from the first.
    Log(BlockNo, u64),
    Critical,
}

impl Admission {
    /// Without anybody who tells of waits nobody inherits criticality, and what is left of the policies that hand it on
    /// is `cp`; [`check`] keeps them from being run so.
    fn new(settings: &Settings) -> Admission {
        match settings.text("admission") {
            "all" => Admission::All,
            "sync" => Admission::Sync,
            "wal" => Admission::Log(settings.integer("log_first_block"), settings.integer("log_blocks")),
            _ => Admission::Critical,
        }
    }

    /// Whether a write is let in. One that does not tell whether it is synchronous, or critical, counts as neither.
    #[inline]
    fn admits(self, access: &Access) -> bool {
        let is_sync = access.origin.sync() == Some(true);
        match self {
            Admission::All => true,
            Admission::Sync => is_sync,
            Admission::Log(first, blocks) => access.block.checked_sub(first).is_some_and(|at| at < blocks),
            Admission::Critical => is_sync && access.origin.critical() == Some(true),
        }
    }
}

/// Refuses an admission that cannot do its work where `told` is all that requests tell.
pub(crate) fn check(settings: &Settings, told: OriginFields) -> Result<(), SettingError> {
    let admission = settings.text("admission");
    let needed = match admission {
        "cp-pi" | "cp-pi-ioi" => {
            return Err(SettingError::Origins(format!(
                "Setting admission={admission} needs to know who waits for whom, which neither traces nor guests tell; \
                 simulate it with `lode requests`, or set all, sync, wal or cp"
            )));
        }
        "wal" if settings.integer("log_blocks") == 0 => {
            return Err(SettingError::Origins(
                "Setting admission=wal needs to know where the log is; set log_first_block and log_blocks"
                    .to_owned(),
            ));
        }
        "sync" => OriginFields { sync: true, ..OriginFields::NONE },
        "cp" => OriginFields { sync: true, critical: true, ..OriginFields::NONE },
        _ => OriginFields::NONE,
    };
    if needed.and(told) == needed {
        return Ok(());
    }
    let told_names = match told.names() {
        names if names.is_empty() => "nothing of who asks".to_owned(),
        names => format!("only '{}'", names.join("', '")),
    };
    Err(SettingError::Origins(format!(
        "Setting admission={admission} needs requests that tell '{}', and these tell {told_names}; set admission=all or \
         wal, or take traces that tell (`lode trace info` names what they do)",
        needed.names().join("' and '")
    )))
}

/// One VM's write cache.
#[derive(Debug)]
pub struct WriteCache {
    level: SsdLevel<CleanedSets>,
    admission: Admission,
}

impl WriteCache {
    /// A cache of `quota.ssd_blocks`; the scheme uses no DRAM.
    pub fn new(settings: &Settings, quota: Quota) -> WriteCache {
        WriteCache {
            level: SsdLevel::with_policy(settings, quota, WritePolicy::WriteBackWriteOnly),
            admission: Admission::new(settings),
        }
    }

    /// A write that is not let in. What is newer here than on the disk must stay the newest; a clean copy gives way.
    #[inline]
    fn write_outside<S: Sink>(&mut self, access: Access, hint: Hint, sink: &mut S) {
        match self.level.cached(hint, access.block) {
            Some((id, _)) if self.level.replacement_mut().is_dirty(id) => {
                return self.level.access_foreseen(access, hint, sink);
            }
            Some((id, slot)) => {
                self.level.replacement_mut().remove(access.block, id);
                sink.effect(Effect::Invalidate { level: Level::Ssd, slot });
            }
            None => {}
        }
        sink.effect(Effect::WriteBacking);
    }
}

impl Scheme for WriteCache {
    #[inline]
    fn access_foreseen<S: Sink>(&mut self, access: Access, hint: Hint, sink: &mut S) {
        if access.op == AccessOp::Write && !self.admission.admits(&access) {
            self.write_outside(access, hint, sink);
        } else {
            self.level.access_foreseen(access, hint, sink);
        }
    }

    #[inline]
    fn end_request<S: Sink>(&mut self, now_ns: u64, sink: &mut S) {
        self.level.replacement_mut().clean(now_ns, sink);
    }

    forward_to_level!();

    fn memory_bytes(&self) -> usize {
        self.level.memory_bytes()
    }
}
