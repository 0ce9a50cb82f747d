//! The table of schemes. A scheme that has its line here exists in replay, in simulation and in the daemon; what is asked of a
//! scheme before it is built, it declares in its own `INFO`. This module must not know how any of them decides.

use lode_types::{Level, OriginFields};

use crate::interval::Interval;
use crate::needs::{Adjacency, RequestSource, Timed};
use crate::next_uses::NextUses;
use crate::quota::Quota;
use crate::scheme::Scheme;
use crate::schemes::*;
use crate::settings::{SettingError, SettingInfo, SettingKind, Settings, nearest_name};
use crate::tracked::Footprint;

/// What `lode schemes` says of a scheme, and how it is built.
#[derive(Clone, Copy, Debug)]
pub struct SchemeInfo {
    /// The name users give.
    pub name: &'static str,
    /// One sentence.
    pub about: &'static str,
    /// The paper or practice it follows.
    pub source: &'static str,
    /// The levels it uses.
    pub levels: &'static [Level],
    /// Its settings.
    pub(crate) tables: &'static [&'static [SettingInfo]],
    /// Keys of settings that exist to reproduce other readings of the source; their defaults are the ones to use.
    pub(crate) variants: &'static [&'static str],
    /// What its tables take.
    pub(crate) footprint: Footprint,
    /// Fewest blocks of each level with which it can work.
    pub(crate) least: Quota,
    /// What it decides by that lies in how blocks are beside each other.
    pub(crate) adjacency: Option<Adjacency>,
    /// What it decides by that requests without times do not have, beside a daily budget.
    pub(crate) timed: Option<Timed>,
    /// The host's interval, for whoever sees the requests of all VMs.
    pub(crate) host_interval: fn(&Settings) -> Option<Interval>,
    /// Refuses settings where one VM is seen by itself.
    pub(crate) alone: fn(&Settings) -> Result<(), SettingError>,
    /// Refuses settings where requests do not tell what they need.
    pub(crate) origins: fn(&Settings, OriginFields, RequestSource) -> Result<(), SettingError>,
    /// Refuses settings on a disk of so many blocks.
    pub(crate) disk: fn(&Settings, u64) -> Result<(), SettingError>,
    /// Builds one from settings, what the host has, and the VM's first share.
    pub(crate) build: fn(&Settings, Quota, Quota) -> AnyScheme,
    /// Builds it in place of `build`, where it decides by what comes next.
    pub(crate) build_with_future: Option<BuildWithFuture>,
}

/// Builds a scheme as [`SchemeInfo::build`] does, for a stream with this future.
pub(crate) type BuildWithFuture = fn(&Settings, Quota, Quota, &NextUses) -> AnyScheme;

/// The scheme of whoever does not choose one: it has DRAM and an SSD.
pub const DEFAULT_SCHEME: &str = auto::INFO.name;

/// What a few tables take once they hold anything.
pub(crate) const LEAN: u64 = 4 << 10;

/// Makes of the table of schemes the list of what is known of each, the type of any of them, and the way to call the one that
/// it is.
macro_rules! register {
    ($($variant:ident($scheme:ty)$(: $($info:expr),+)?;)*) => {
        static SCHEMES: &[SchemeInfo] = &[$($($($info,)+)?)*];

        /// Any scheme of the registry, for callers that choose at run time.
        #[derive(Debug)]
        pub enum AnyScheme {
            $(
                #[doc = concat!("`", stringify!($scheme), "`")]
                $variant($scheme),
            )*
        }

        macro_rules! each {
            ($any:expr, $this:ident => $call:expr) => {
                match $any {
                    $(AnyScheme::$variant($this) => $call,)*
                }
            };
        }
    };
}

// The table, in the order to show them. Large schemes are boxed. One without an entry is what another one is with some
// settings.
register! {
    Auto(Box<auto::Auto>): auto::INFO;
    Etica(Box<etica::Etica>): etica::INFO;
    EticaNpe(Box<etica::Npe>);
    BenefitDensity(Box<benefit_density::BenefitDensity>): benefit_density::INFO;
    Lru(lru::Lru): lru::INFO;
    Fifo(fifo::Fifo): fifo::INFO;
    Arc(arc::Arc): arc::INFO;
    S3Fifo(s3_fifo::S3Fifo): s3_fifo::INFO;
    Sieve(sieve::Sieve): sieve::INFO;
    Lirs(lirs::Lirs): lirs::INFO;
    WTinyLfu(w_tinylfu::WTinyLfu): w_tinylfu::INFO;
    Belady(belady::Belady): belady::INFO;
    Larc(larc::Larc): larc::INFO;
    SRacLike(s_rac_like::SRacLike): s_rac_like::INFO;
    TwoQ(two_q::TwoQ): two_q::INFO;
    Mq(mq::Mq): mq::INFO;
    FastCacheLike(fast_cache_like::FastCacheLike): fast_cache_like::INFO;
    Rpac(Box<rpac::Rpac>): rpac::INFO, rpac::PROTOTYPE_INFO;
    EciCacheLike(Box<eci_cache_like::EciCacheLike>): eci_cache_like::INFO;
    CentaurLike(Box<centaur_like::CentaurLike>): centaur_like::INFO;
    SCaveLike(Box<s_cave_like::SCaveLike>): s_cave_like::INFO;
    VCacheShareLike(Box<vcacheshare_like::VCacheShareLike>): vcacheshare_like::INFO;
    Flashcache(Box<flashcache::Flashcache>): flashcache::INFO;
    OpencasLike(Box<opencas_like::OpencasLike>): opencas_like::INFO;
    L2arcLike(Box<l2arc_like::L2arcLike>): l2arc_like::INFO;
    UcacheLike(Box<ucache_like::UcacheLike>): ucache_like::INFO;
    Tica(Box<tica::Tica>): tica::EF_INFO, tica::WED_INFO, tica::ADAPTIVE_INFO;
    RequestOriented(Box<request_oriented::WriteCache>): request_oriented::INFO;
}

/// The schemes that have a setting of this name.
fn schemes_with(key: &str) -> Vec<&'static str> {
    let has_it = |scheme: &&SchemeInfo| scheme.setting_infos().any(|info| info.key == key);
    SCHEMES.iter().filter(has_it).map(|scheme| scheme.name).collect()
}

/// Every scheme, in the order to show them.
pub fn schemes() -> &'static [SchemeInfo] {
    SCHEMES
}

impl SchemeInfo {
    /// A scheme of one SSD level that has yet to say who it is, with settings that are all meant to be used.
    pub(crate) const PLAIN: SchemeInfo = SchemeInfo {
        name: "",
        about: "",
        source: "",
        levels: &[Level::Ssd],
        tables: &[],
        variants: &[],
        footprint: Footprint::LARGEST,
        least: Quota::new(0, 0),
        adjacency: None,
        timed: None,
        host_interval: |_| None,
        alone: |_| Ok(()),
        origins: |_, _, _| Ok(()),
        disk: |_, _| Ok(()),
        build: |_, _, _| panic!("a scheme says how it is built"),
        build_with_future: None,
    };

    /// The scheme of this name.
    pub fn find(name: &str) -> Result<&'static SchemeInfo, SettingError> {
        SCHEMES.iter().find(|info| info.name == name).ok_or_else(|| SettingError::UnknownScheme {
            name: name.to_owned(),
            nearest: nearest_name(name, SCHEMES.iter().map(|info| info.name)),
        })
    }

    /// Its settings at their defaults.
    pub fn settings(&self) -> Settings {
        Settings::new(self.name, self.tables).found_in(schemes_with)
    }

    /// Whether it decides by what comes next: only recorded streams can run it, by [`build_with_future`].
    pub fn needs_future(&self) -> bool {
        self.build_with_future.is_some()
    }

    /// What can be set.
    pub fn setting_infos(&self) -> impl Iterator<Item = &'static SettingInfo> + use<> {
        self.tables.iter().flat_map(|table| table.iter())
    }

    /// Whether it can hold to a budget of writes to the SSD.
    pub fn holds_to_budgets(&self) -> bool {
        self.setting_infos().any(|info| matches!(info.kind, SettingKind::Budget { .. }))
    }

    /// Whether a setting exists only to reproduce other readings of the scheme's source.
    pub fn is_variant(&self, key: &str) -> bool {
        self.variants.contains(&key)
    }
}

/// Builds one VM's cache. `physical` is what the host has, `quota` the VM's first share of it.
///
/// # Panics
/// When the scheme needs the future. Whoever cannot know it asks [`SchemeInfo::check_without_future`] before.
pub fn build(settings: &Settings, physical: Quota, quota: Quota) -> AnyScheme {
    let info = SchemeInfo::find(settings.scheme()).expect("settings come from a registered scheme");
    if let Err(error) = info.check_without_future() {
        panic!("{error}");
    }
    (info.build)(settings, physical, quota)
}

/// [`build`] for a stream whose future is known; schemes that do not need it are not told.
pub fn build_with_future(settings: &Settings, physical: Quota, quota: Quota, future: &NextUses) -> AnyScheme {
    let info = SchemeInfo::find(settings.scheme()).expect("settings come from a registered scheme");
    match info.build_with_future {
        Some(build) => build(settings, physical, quota, future),
        None => (info.build)(settings, physical, quota),
    }
}

dispatch_scheme!(AnyScheme, each);
