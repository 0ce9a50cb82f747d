//! ECI-Cache, as far as it is known (Ahmadian et al., "ECI-Cache: A High-Endurance and Cost-Efficient I/O Caching Scheme for
//! Virtualized Platforms", POMACS 2(1), 2018: its abstract, and what ETICA says of it; the rest is recalled): shares by useful
//! reuse distances, and for each VM write-back or read-only, by how much of its stream overwrites.
//!
//! It must not know how distances are found.

use lode_types::{Access, BlockNo, Level};

use crate::effect::{Sink, Slot};
use crate::interval::Interval;
use crate::parts::mapping;
use crate::parts::sized::reuse::{Counts, Reading, Reuse, Stream};
use crate::parts::sized::{FOOTPRINT, HISTORY, Measured};
use crate::parts::ssd_level::WritePolicy;
use crate::prefetch::{Lookahead, Prefetch, PrefetchHint};
use crate::quota::Quota;
use crate::registry::{AnyScheme, SchemeInfo};
use crate::scheme::{Scheme, Sizing};
use crate::schemes::lru::Lru;
use crate::settings::{SettingInfo, Settings};
use crate::sizer;

static SETTINGS: &[SettingInfo] = &[
    SettingInfo::number("write_threshold", "0.5", 0.0, 1.0)
        .about(
            "from this part of writes to known blocks (WAW and WAR) among all accesses on, the VM's cache \
             is read-only; below, write-back",
        )
        .source("ECI-Cache (recalled); the value is ours"),
    SettingInfo::scaled("policy_interval", "10000", 1, 1_000_000_000)
        .about("requests of the VM between two choices of its write policy")
        .source("as sizing_interval: ECI-Cache chooses both at once"),
    SettingInfo::number("policy_interval_s", "600", 0.001, 86_400.0)
        .about("seconds between two choices of the write policy, with trigger=time")
        .source("as sizing_interval_s"),
];

static OBJECTIVES: &[SettingInfo] = &[sizer::objective_setting("latency"), sizer::PPC_FLOOR];

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo {
    name: "eci-cache-like",
    about: "one SSD level whose share follows useful reuse distances, write-back or read-only by how much \
            the VM overwrites",
    source: "ECI-Cache: its abstract and ETICA's text; the rest recalled",
    tables: &[mapping::SETTINGS, SETTINGS, OBJECTIVES, &[sizer::SIZED], sizer::SETTINGS, HISTORY],
    build: |settings, physical, quota| {
        AnyScheme::EciCacheLike(Box::new(EciCacheLike::new(settings, physical, quota)))
    },
    footprint: FOOTPRINT,
    variants: &["window"],
    ..SchemeInfo::PLAIN
};

/// The demand is that of the distances; the history is needed for the write policy, too.
#[derive(Debug)]
pub struct Useful;

impl Reading for Useful {
    const STREAM: Stream = Stream::Useful;
    const ALWAYS: bool = true;

    fn new(_: &Settings) -> Useful {
        Useful
    }
}

/// One VM's cache sized by useful reuse distances, write-back or read-only.
#[derive(Debug)]
pub struct EciCacheLike {
    level: Measured<Reuse<Useful>>,
    policy: WritePolicy,
    threshold: f64,
    interval: Interval,
    /// What had come when it began.
    start: Counts,
}

impl EciCacheLike {
    /// A cache of `quota.ssd_blocks` on a host that has `physical`; the scheme uses no DRAM. It begins with write-back.
    pub fn new(settings: &Settings, physical: Quota, quota: Quota) -> EciCacheLike {
        let policy = WritePolicy::WriteBack;
        EciCacheLike {
            level: Measured::over(Lru::with_policy(settings, quota, policy), settings, physical),
            policy,
            threshold: settings.number("write_threshold"),
            interval: sizer::interval(settings, "policy_interval", "policy_interval_s"),
            start: Counts::default(),
        }
    }

    #[inline(never)]
    fn choose_policy<S: Sink>(&mut self, sink: &mut S) {
        let now = self.level.measure.counts();
        let Counts { rewrites, followed, .. } = now.since(&std::mem::replace(&mut self.start, now));
        let overwrites = rewrites >= self.threshold * followed;
        let policy = if overwrites { WritePolicy::ReadOnly } else { WritePolicy::WriteBack };
        // What nobody followed says nothing.
        if followed == 0.0 || policy == self.policy {
            return;
        }
        if policy == WritePolicy::ReadOnly {
            self.level.level.replacement_mut().clean_all(sink);
        }
        self.level.level.set_policy(policy);
        self.policy = policy;
    }
}

impl Prefetch for EciCacheLike {
    prefetch_by!(level);
}

impl Lookahead for EciCacheLike {
    #[inline]
    fn access_prefetched<S: Sink>(&mut self, access: Access, hint: PrefetchHint, sink: &mut S) {
        self.level.access_prefetched(access, hint, sink);
    }
}

impl Scheme for EciCacheLike {
    #[inline]
    fn end_request<S: Sink>(&mut self, now_ns: u64, sink: &mut S) {
        if self.interval.ends_with(now_ns) {
            self.choose_policy(sink);
        }
    }

    forward_to_level!(memory);

    fn sizing(&mut self) -> Option<&mut dyn Sizing> {
        self.level.sizing()
    }
}
