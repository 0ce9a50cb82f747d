//! request-oriented: an SSD level that takes only writes, and of these only those that the admission lets in. After Kim
//! et al., USENIX ATC 2015, whose write cache is flashcache.
//!
//! What is admitted, and which writes on their way to the disk are issued again, the hooks of
//! [`crate::criticality`] say. This module must not know who waits for whom: accesses do not tell it. Which blocks
//! leave and which are written back, [`flashcache`] knows.

use lode_types::{Access, BlockNo, Direction, Level, OriginFields};

use crate::criticality::{
    Admission, AdmissionOptions, AdmissionPolicy, Population, ProcessId, Stall, SubmittedWrite, Verdict,
    WriteId,
};
use crate::effect::{Effect, Sink, Slot};
use crate::needs::RequestSource;
use crate::parts::cut_off::Cleaner;
use crate::parts::mapping;
use crate::parts::ssd_level::{Newcomer, Replacement, SsdLevel, WritePolicy};
use crate::prefetch::{Lookahead, Prefetch, PrefetchHint};
use crate::quota::Quota;
use crate::registry::{AnyScheme, LEAN, SchemeInfo};
use crate::scheme::{Reissuing, Scheme};
use crate::schemes::flashcache::{self, CleanedSets};
use crate::settings::{SettingError, SettingInfo, Settings};
use crate::tracked::Footprint;

/// The setting that says which writes are cached.
const ADMISSION: &str = "admission";

/// The setting that says where the log begins.
const LOG_FIRST_BLOCK: &str = "log_first_block";

static SETTINGS: &[SettingInfo] = &[
    SettingInfo::choice(ADMISSION, "all", &["all", "sync", "wal", "cp", "cp-pi", "cp-pi-ioi"])
        .about(
            "which writes are cached: all, synchronous ones, those to the log, synchronous ones of critical \
             processes; the last two are for `lode requests` alone",
        )
        .source("paper, section 7.1"),
    SettingInfo::integer(LOG_FIRST_BLOCK, "0", 0, 1 << 40)
        .about("first block of the log on the VM's first volume, with admission=wal")
        .source("ours: the paper's log has a device of its own"),
    SettingInfo::integer("log_blocks", "0", 0, 1 << 40)
        .about("blocks of the log, with admission=wal")
        .source("ours"),
    SettingInfo::choice("reissue", "off", &["on", "off"])
        .about(
            "whether a write on its way to the disk is issued again to the SSD when somebody comes to wait \
             for it; nothing in a replay, where no two requests are under way at once",
        )
        .source("paper, section 4.2.2, as far as a guest tells; off is the paper's SYNC and WAL"),
];

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo {
    name: "request-oriented",
    about: "one SSD level that takes only writes, and of these all, those that somebody waits for, those of \
            critical processes, or the log",
    source: "Kim et al., USENIX ATC 2015",
    tables: &[mapping::SETTINGS, SETTINGS, flashcache::CLEANING],
    build: |settings, _, quota| AnyScheme::RequestOriented(Box::new(WriteCache::new(settings, quota))),
    footprint: Footprint::new(LEAN, 64).with_sets(256),
    origins: check,
    disk: check_log,
    ..SchemeInfo::PLAIN
};

/// To the hooks a guest is two processes: whoever somebody waits for, who is critical, and whoever nobody waits for. They
/// own no locks and wait for no events, because no guest tells, so that neither ever inherits anything.
const PROCESSES: u32 = 2;
/// Who issues what somebody waits for.
pub const WAITED_FOR: ProcessId = 0;
/// Who issues the rest.
pub const IN_BACKGROUND: ProcessId = 1;

/// The hooks for a guest.
fn hooks(settings: &Settings) -> Admission {
    let reissue = settings.is_on("reissue");
    let policy = AdmissionPolicy::from_name(settings.text(ADMISSION)).unwrap_or(AdmissionPolicy::All);
    let options = AdmissionOptions { policy, pi_sync_only: false, stall: Stall::Bypass, reissue };
    let mut hooks = Admission::new(options, Population { processes: PROCESSES, ..Population::default() });
    // Nobody waits for anything yet, so that nothing follows.
    hooks.set_critical(WAITED_FOR, true, &mut Vec::new());
    hooks
}

/// Refuses an admission that cannot do its work where `told` is all that requests of `source` tell.
pub(crate) fn check(
    settings: &Settings,
    told: OriginFields,
    source: RequestSource,
) -> Result<(), SettingError> {
    let admission = settings.text(ADMISSION);
    let refused = |message: String| {
        let message = format!("Setting {ADMISSION}={admission} needs {message}");
        Err(SettingError::Origins { key: ADMISSION, message })
    };
    let needed = match admission {
        "cp-pi" | "cp-pi-ioi" => {
            let (teller, others) = match source {
                RequestSource::Trace => ("trace", "all, sync, wal or cp"),
                RequestSource::Guest => ("guest", "all, sync or wal"),
            };
            return refused(format!(
                "to know who waits for whom, which no {teller} tells; simulate it with `lode requests`, or set {others}; \
                 with reissue=on writes under way are issued again where single requests tell of waiting"
            ));
        }
        "wal" if settings.integer("log_blocks") == 0 => {
            return refused("to know where the log is; set log_first_block and log_blocks".to_owned());
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
    let needed_names = needed.names().join("' and '");
    refused(match source {
        RequestSource::Trace => format!(
            "requests that tell '{needed_names}', and these tell {told_names}; set {ADMISSION} to all or wal, or take \
             traces that tell (`lode trace info` names what they do)"
        ),
        RequestSource::Guest => {
            let others = if told.sync { "all, sync or wal" } else { "all or wal" };
            format!(
                "requests that tell '{needed_names}', and guests tell {told_names}; set {ADMISSION} to {others}"
            )
        }
    })
}

/// Refuses a log of which nothing is on the disk: no write would ever be admitted.
pub(crate) fn check_log(settings: &Settings, disk_blocks: u64) -> Result<(), SettingError> {
    let value = settings.integer(LOG_FIRST_BLOCK);
    if settings.text(ADMISSION) == "wal" && value >= disk_blocks {
        return Err(SettingError::BeyondDisk { key: LOG_FIRST_BLOCK, value, disk_blocks });
    }
    Ok(())
}

/// One VM's write cache.
#[derive(Debug)]
pub struct WriteCache {
    level: SsdLevel<CleanedSets>,
    hooks: Admission,
    log_first_block: BlockNo,
    log_blocks: u64,
}

impl WriteCache {
    /// A cache of `quota.ssd_blocks`; the scheme uses no DRAM.
    pub fn new(settings: &Settings, quota: Quota) -> WriteCache {
        WriteCache {
            level: SsdLevel::with_policy(settings, quota, WritePolicy::WriteBackWriteOnly),
            hooks: hooks(settings),
            log_first_block: settings.integer(LOG_FIRST_BLOCK),
            log_blocks: settings.integer("log_blocks"),
        }
    }

    /// A write that is not let in. What is newer here than on the disk must stay the newest; a clean copy gives way.
    #[inline]
    fn write_outside<S: Sink>(&mut self, access: Access, hint: PrefetchHint, sink: &mut S) {
        match self.level.cached(hint, access.block) {
            Some((id, _)) if self.level.replacement_mut().is_dirty(id) => {
                return self.level.access_prefetched(access, hint, sink);
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

impl Reissuing for WriteCache {
    fn hooks(&mut self) -> &mut Admission {
        &mut self.hooks
    }

    #[inline]
    fn submitted(&self, id: WriteId, access: &Access) -> SubmittedWrite {
        SubmittedWrite {
            id,
            first_block: access.block,
            blocks: 1,
            sync: access.origin.sync() == Some(true),
            log: access.block.checked_sub(self.log_first_block).is_some_and(|at| at < self.log_blocks),
        }
    }

    #[inline]
    fn on_submit(&self, access: &Access) -> Verdict {
        let critical = access.origin.critical() == Some(true);
        let process = if critical { WAITED_FOR } else { IN_BACKGROUND };
        self.hooks.on_submit(process, &self.submitted(0, access))
    }

    fn take_in(&mut self, block: BlockNo, mut sink: &mut dyn Sink) {
        let hint = PrefetchHint::new(block);
        if self.level.cached(hint, block).is_some() {
            return;
        }
        let sets = self.level.replacement_mut();
        let new = Newcomer { hash: hint.hash, block, ghost: None };
        let Some((id, slot)) = sets.admit(new, &mut sink) else { return };
        sets.set_dirty(id, true);
        sink.effect(Effect::WriteLevel { level: Level::Ssd, slot, hit: false, dirty: true });
    }
}

impl Prefetch for WriteCache {
    prefetch_by!(level);
}

impl Lookahead for WriteCache {
    #[inline]
    fn access_prefetched<S: Sink>(&mut self, access: Access, hint: PrefetchHint, sink: &mut S) {
        if access.op == Direction::Write && self.on_submit(&access) == Verdict::Disk {
            self.write_outside(access, hint, sink);
        } else {
            self.level.access_prefetched(access, hint, sink);
        }
    }
}

impl Scheme for WriteCache {
    #[inline]
    fn end_request<S: Sink>(&mut self, now_ns: u64, sink: &mut S) {
        self.level.replacement_mut().clean(now_ns, sink);
    }

    forward_to_level!(memory);

    fn reissuing(&mut self) -> Option<&mut dyn Reissuing> {
        if self.hooks.options().reissue { Some(self) } else { None }
    }
}
