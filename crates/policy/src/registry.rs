//! The list of schemes. A scheme that has its line here exists in replay, in simulation and in the daemon.

use lode_types::{Access, BlockNo, Level};

use crate::effect::{Sink, Slot};
use crate::foresight::Foresight;
use crate::quota::Quota;
use crate::scheme::{Arrival, Hint, LevelDemand, Mirrors, Points, Scheme, Watcher};
use crate::schemes::sized::eci_cache::EciCacheLike;
use crate::schemes::tica::choice::Policy;
use crate::schemes::{
    arc, belady, etica, fast_cache, flashcache, l2arc, larc, lirs, mq, opencas, rpac, s3_fifo, sets, sieve,
    sized, tica, two_q, ucache, w_tinylfu, write_cache,
};
use crate::settings::{SettingError, SettingInfo, Settings, nearest_name};

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
    /// It decides by what comes next: only recorded streams can run it, by [`build_foreseeing`].
    pub needs_future: bool,
    tables: &'static [&'static [SettingInfo]],
    /// Keys of settings that exist to reproduce other readings of the source; their defaults are the ones to use.
    variants: &'static [&'static str],
    build: fn(&Settings, Quota, Quota) -> AnyScheme,
}

static SCHEMES: &[SchemeInfo] = &[
    SchemeInfo {
        name: "etica",
        about: "read-only DRAM over a write-buffering SSD, shares by policy-optimised reuse distance, \
                promotion and eviction by popularity",
        source: "ETICA",
        levels: &[Level::Dram, Level::Ssd],
        tables: etica::TABLES,
        variants: &["evict", "popularity", "window"],
        needs_future: false,
        build: |settings, physical, quota| {
            AnyScheme::Etica(Box::new(etica::Etica::new(settings, physical, quota)))
        },
    },
    SchemeInfo {
        name: "lru",
        about: "one SSD level that gives up the least recently used block",
        source: "ETICA section 3; textbook",
        levels: &[Level::Ssd],
        tables: sets::TABLES,
        variants: &[],
        needs_future: false,
        build: |settings, _, quota| AnyScheme::Lru(sets::Lru::new(settings, quota)),
    },
    SchemeInfo {
        name: "fifo",
        about: "one SSD level that gives up the longest resident block",
        source: "textbook",
        levels: &[Level::Ssd],
        tables: sets::TABLES,
        variants: &[],
        needs_future: false,
        build: |settings, _, quota| AnyScheme::Fifo(sets::Fifo::new(settings, quota)),
    },
    SchemeInfo {
        name: "arc",
        about: "one SSD level that divides itself between blocks seen once and blocks seen more often",
        source: "Megiddo and Modha, FAST 2003",
        levels: &[Level::Ssd],
        tables: arc::TABLES,
        variants: &[],
        needs_future: false,
        build: |settings, _, quota| AnyScheme::Arc(arc::Arc::new(settings, quota)),
    },
    SchemeInfo {
        name: "s3-fifo",
        about: "one SSD level of FIFO queues: a small one that newcomers must pass, a main one, and ghosts",
        source: "Yang et al., SOSP 2023",
        levels: &[Level::Ssd],
        tables: s3_fifo::TABLES,
        variants: &["warm_up"],
        needs_future: false,
        build: |settings, _, quota| AnyScheme::S3Fifo(s3_fifo::S3Fifo::new(settings, quota)),
    },
    SchemeInfo {
        name: "sieve",
        about: "one SSD level, one FIFO queue, and a hand that spares what was visited",
        source: "Zhang et al., NSDI 2024",
        levels: &[Level::Ssd],
        tables: sieve::TABLES,
        variants: &[],
        needs_future: false,
        build: |settings, _, quota| AnyScheme::Sieve(sieve::Sieve::new(settings, quota)),
    },
    SchemeInfo {
        name: "lirs",
        about: "one SSD level for the blocks with the shortest time between their last two accesses, and a small queue \
                for all others",
        source: "Jiang and Zhang, SIGMETRICS 2002",
        levels: &[Level::Ssd],
        tables: lirs::TABLES,
        variants: &[],
        needs_future: false,
        build: |settings, _, quota| AnyScheme::Lirs(lirs::Lirs::new(settings, quota)),
    },
    SchemeInfo {
        name: "w-tinylfu",
        about: "one SSD level with a small window for newcomers and a main part that lets in only who was accessed \
                more often than who would leave",
        source: "Einziger, Friedman and Manes, ACM TOS 13(4), 2017",
        levels: &[Level::Ssd],
        tables: w_tinylfu::TABLES,
        variants: &[],
        needs_future: false,
        build: |settings, _, quota| AnyScheme::WTinyLfu(w_tinylfu::WTinyLfu::new(settings, quota)),
    },
    SchemeInfo {
        name: "belady",
        about: "the bound: one SSD level that knows what comes next, and gives up the block whose next use is farthest",
        source: "Belady, IBM Systems Journal 5(2), 1966",
        levels: &[Level::Ssd],
        tables: belady::TABLES,
        variants: &[],
        needs_future: true,
        build: |settings, _, quota| AnyScheme::Belady(belady::Belady::new(settings, quota)),
    },
    SchemeInfo {
        name: "larc",
        about: "one SSD level that a block enters when it is missed again while it is remembered",
        source: "Huang et al., MSST 2013",
        levels: &[Level::Ssd],
        tables: larc::TABLES,
        variants: &[],
        needs_future: false,
        build: |settings, _, quota| AnyScheme::Larc(larc::Larc::new(settings, quota)),
    },
    SchemeInfo {
        name: "s-rac-like",
        about: "LARC, and a second chance for blocks that were hit",
        source: "S-RAC, of which little is known; Huang et al., MSST 2013",
        levels: &[Level::Ssd],
        tables: larc::TABLES,
        variants: &[],
        needs_future: false,
        build: |settings, _, quota| AnyScheme::SRacLike(larc::SRacLike::new(settings, quota)),
    },
    SchemeInfo {
        name: "2q",
        about: "one SSD level of a FIFO queue for newcomers, ghosts, and a recency queue for what came back",
        source: "Johnson and Shasha, VLDB 1994",
        levels: &[Level::Ssd],
        tables: two_q::TABLES,
        variants: &[],
        needs_future: false,
        build: |settings, _, quota| AnyScheme::TwoQ(two_q::TwoQ::new(settings, quota)),
    },
    SchemeInfo {
        name: "mq",
        about: "one SSD level of recency queues by the number of accesses, which blocks climb and descend",
        source: "Zhou et al., USENIX ATC 2001",
        levels: &[Level::Ssd],
        tables: mq::TABLES,
        variants: &[],
        needs_future: false,
        build: |settings, _, quota| AnyScheme::Mq(mq::Mq::new(settings, quota)),
    },
    SchemeInfo {
        name: "fast-cache-like",
        about: "one SSD level that a block enters with its third access",
        source: "EMC FAST Cache, recalled",
        levels: &[Level::Ssd],
        tables: fast_cache::TABLES,
        variants: &[],
        needs_future: false,
        build: |settings, _, quota| AnyScheme::FastCacheLike(fast_cache::FastCacheLike::new(settings, quota)),
    },
    SchemeInfo {
        name: "rpac",
        about: "one SSD level of sets where a newcomer replaces the oldest block of a clearly less popular region, \
                or stays outside",
        source: "RPAC (Ye et al.)",
        levels: &[Level::Ssd],
        tables: rpac::TABLES,
        variants: &[],
        needs_future: false,
        build: |settings, _, quota| AnyScheme::Rpac(rpac::Rpac::new(settings, quota)),
    },
    SchemeInfo {
        name: "eci-cache-like",
        about: "one SSD level whose share follows useful reuse distances, write-back or read-only by how much the VM \
                overwrites",
        source: "ECI-Cache: its abstract and ETICA's text; the rest recalled",
        levels: &[Level::Ssd],
        tables: sized::ECI_CACHE,
        variants: &["window"],
        needs_future: false,
        build: |settings, physical, quota| {
            AnyScheme::EciCacheLike(Box::new(EciCacheLike::new(settings, physical, quota)))
        },
    },
    SchemeInfo {
        name: "centaur-like",
        about: "one SSD level whose share follows reuse distances over all accesses, write-back",
        source: "Centaur: its abstract and ETICA's text; the rest recalled",
        levels: &[Level::Ssd],
        tables: sized::CENTAUR,
        variants: &["window"],
        needs_future: false,
        build: |settings, physical, quota| {
            AnyScheme::CentaurLike(Box::new(sized::CentaurLike::new(settings, physical, quota)))
        },
    },
    SchemeInfo {
        name: "s-cave-like",
        about: "one SSD level that grows by chunks where most of it is in use, and shrinks where least is; write-through",
        source: "S-CAVE: its abstract and ETICA's text; the rest recalled",
        levels: &[Level::Ssd],
        tables: sized::S_CAVE,
        variants: &[],
        needs_future: false,
        build: |settings, physical, quota| {
            AnyScheme::SCaveLike(Box::new(sized::SCaveLike::new(settings, physical, quota)))
        },
    },
    SchemeInfo {
        name: "vcacheshare-like",
        about: "one SSD level whose share follows hit ratio and reuse intensity of the reads; write-around",
        source: "vCacheShare, recalled",
        levels: &[Level::Ssd],
        tables: sized::VCACHESHARE,
        variants: &["window", "intensity"],
        needs_future: false,
        build: |settings, physical, quota| {
            AnyScheme::VCacheShareLike(Box::new(sized::VCacheShareLike::new(settings, physical, quota)))
        },
    },
    SchemeInfo {
        name: "flashcache",
        about: "one SSD level of sets in which only clean blocks give way, and dirty ones are written back when they are many \
                or idle",
        source: "flashcache, its administrator's guide",
        levels: &[Level::Ssd],
        tables: flashcache::TABLES,
        variants: &[],
        needs_future: false,
        build: |settings, _, quota| {
            AnyScheme::Flashcache(Box::new(flashcache::Flashcache::new(settings, quota)))
        },
    },
    SchemeInfo {
        name: "opencas-like",
        about: "one SSD level under LRU that cleans what was not written for long, admits what comes several times, and lets \
                sequential streams pass by",
        source: "Open CAS, its documentation; recalled where that is silent",
        levels: &[Level::Ssd],
        tables: opencas::TABLES,
        variants: &[],
        needs_future: false,
        build: |settings, _, quota| {
            AnyScheme::OpencasLike(Box::new(opencas::OpencasLike::new(settings, quota)))
        },
    },
    SchemeInfo {
        name: "l2arc-like",
        about: "an ARC in DRAM, and an SSD in order of arrival that is fed with what will leave the ARC next; writes go to the \
                disk",
        source: "ZFS's L2ARC, recalled",
        levels: &[Level::Dram, Level::Ssd],
        tables: l2arc::TABLES,
        variants: &[],
        needs_future: false,
        build: |settings, _, quota| AnyScheme::L2arcLike(Box::new(l2arc::L2arcLike::new(settings, quota))),
    },
    SchemeInfo {
        name: "ucache-like",
        about: "DRAM that filters what is worth a place on the SSD; writes go to the SSD",
        source: "uCache: its abstract and TICA's text; the rest recalled",
        levels: &[Level::Dram, Level::Ssd],
        tables: ucache::TABLES,
        variants: &[],
        needs_future: false,
        build: |settings, _, quota| AnyScheme::UcacheLike(Box::new(ucache::UcacheLike::new(settings, quota))),
    },
    SchemeInfo {
        name: "tica-ef",
        about: "DRAM over an SSD for writes and one for reads, every dirty block on two of them; what leaves DRAM is \
                dropped, which spares the SSDs",
        source: "TICA (Salkhordeh et al.)",
        levels: &Level::ALL,
        tables: tica::TABLES,
        variants: &[],
        needs_future: false,
        build: |settings, _, quota| {
            tica_scheme(tica::Tica::fixed(settings, quota, Policy::EnduranceFriendly))
        },
    },
    SchemeInfo {
        name: "tica-wed",
        about: "as tica-ef, but what leaves DRAM is copied to the SSD, which saves reads from the disk",
        source: "TICA (Salkhordeh et al.)",
        levels: &Level::ALL,
        tables: tica::TABLES,
        variants: &[],
        needs_future: false,
        build: |settings, _, quota| {
            tica_scheme(tica::Tica::fixed(settings, quota, Policy::WriteToEnduranceDisk))
        },
    },
    SchemeInfo {
        name: "tica-adaptive",
        about: "tica-ef or tica-wed, by whether DRAM is too small for what is read, or the SSDs hold what nobody uses",
        source: "TICA (Salkhordeh et al.)",
        levels: &Level::ALL,
        tables: tica::ADAPTIVE_TABLES,
        variants: &["identifier", "state_machine"],
        needs_future: false,
        build: |settings, _, quota| tica_scheme(tica::Tica::adaptive(settings, quota)),
    },
    SchemeInfo {
        name: write_cache::NAME,
        about: "one SSD level that takes only writes, and of these all, those that somebody waits for, those of critical \
                processes, or the log",
        source: "Kim et al., USENIX ATC 2015",
        levels: &[Level::Ssd],
        tables: write_cache::TABLES,
        variants: &[],
        needs_future: false,
        build: |settings, _, quota| {
            AnyScheme::RequestOriented(Box::new(write_cache::WriteCache::new(settings, quota)))
        },
    },
];

fn tica_scheme(tica: tica::Tica) -> AnyScheme {
    AnyScheme::Tica(Box::new(tica))
}

/// Every scheme, in the order to show them.
pub fn schemes() -> &'static [SchemeInfo] {
    SCHEMES
}

impl SchemeInfo {
    /// The scheme of this name.
    pub fn find(name: &str) -> Result<&'static SchemeInfo, SettingError> {
        SCHEMES.iter().find(|info| info.name == name).ok_or_else(|| SettingError::UnknownScheme {
            name: name.to_owned(),
            nearest: nearest_name(name, SCHEMES.iter().map(|info| info.name)),
        })
    }

    /// Its settings at their defaults.
    pub fn settings(&self) -> Settings {
        Settings::new(self.name, self.tables)
    }

    /// What can be set.
    pub fn setting_infos(&self) -> impl Iterator<Item = &'static SettingInfo> + use<> {
        self.tables.iter().flat_map(|table| table.iter())
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
pub fn build_foreseeing(settings: &Settings, physical: Quota, quota: Quota, future: &Foresight) -> AnyScheme {
    let info = SchemeInfo::find(settings.scheme()).expect("settings come from a registered scheme");
    let mut scheme = (info.build)(settings, physical, quota);
    if let AnyScheme::Belady(belady) = &mut scheme {
        belady.foresee(future.clone());
    }
    scheme
}

/// Any scheme of the registry, for callers that choose at run time.
#[derive(Debug)]
pub enum AnyScheme {
    /// See [`etica::Etica`].
    Etica(Box<etica::Etica>),
    /// See [`sets::Lru`].
    Lru(sets::Lru),
    /// See [`sets::Fifo`].
    Fifo(sets::Fifo),
    /// See [`arc::Arc`].
    Arc(arc::Arc),
    /// See [`s3_fifo::S3Fifo`].
    S3Fifo(s3_fifo::S3Fifo),
    /// See [`sieve::Sieve`].
    Sieve(sieve::Sieve),
    /// See [`belady::Belady`].
    Belady(belady::Belady),
    /// See [`lirs::Lirs`].
    Lirs(lirs::Lirs),
    /// See [`w_tinylfu::WTinyLfu`].
    WTinyLfu(w_tinylfu::WTinyLfu),
    /// See [`larc::Larc`].
    Larc(larc::Larc),
    /// See [`larc::SRacLike`].
    SRacLike(larc::SRacLike),
    /// See [`two_q::TwoQ`].
    TwoQ(two_q::TwoQ),
    /// See [`mq::Mq`].
    Mq(mq::Mq),
    /// See [`fast_cache::FastCacheLike`].
    FastCacheLike(fast_cache::FastCacheLike),
    /// See [`rpac::Rpac`].
    Rpac(rpac::Rpac),
    /// See [`EciCacheLike`].
    EciCacheLike(Box<EciCacheLike>),
    /// See [`sized::CentaurLike`].
    CentaurLike(Box<sized::CentaurLike>),
    /// See [`sized::SCaveLike`].
    SCaveLike(Box<sized::SCaveLike>),
    /// See [`sized::VCacheShareLike`].
    VCacheShareLike(Box<sized::VCacheShareLike>),
    /// See [`flashcache::Flashcache`].
    Flashcache(Box<flashcache::Flashcache>),
    /// See [`opencas::OpencasLike`].
    OpencasLike(Box<opencas::OpencasLike>),
    /// See [`l2arc::L2arcLike`].
    L2arcLike(Box<l2arc::L2arcLike>),
    /// See [`ucache::UcacheLike`].
    UcacheLike(Box<ucache::UcacheLike>),
    /// See [`tica::Tica`].
    Tica(Box<tica::Tica>),
    /// See [`write_cache::WriteCache`].
    RequestOriented(Box<write_cache::WriteCache>),
}

macro_rules! each {
    ($self:expr, $scheme:ident => $call:expr) => {
        match $self {
            AnyScheme::Etica($scheme) => $call,
            AnyScheme::Lru($scheme) => $call,
            AnyScheme::Fifo($scheme) => $call,
            AnyScheme::Arc($scheme) => $call,
            AnyScheme::S3Fifo($scheme) => $call,
            AnyScheme::Sieve($scheme) => $call,
            AnyScheme::Belady($scheme) => $call,
            AnyScheme::Lirs($scheme) => $call,
            AnyScheme::WTinyLfu($scheme) => $call,
            AnyScheme::Larc($scheme) => $call,
            AnyScheme::SRacLike($scheme) => $call,
            AnyScheme::TwoQ($scheme) => $call,
            AnyScheme::Mq($scheme) => $call,
            AnyScheme::FastCacheLike($scheme) => $call,
            AnyScheme::Rpac($scheme) => $call,
            AnyScheme::EciCacheLike($scheme) => $call,
            AnyScheme::CentaurLike($scheme) => $call,
            AnyScheme::SCaveLike($scheme) => $call,
            AnyScheme::VCacheShareLike($scheme) => $call,
            AnyScheme::Flashcache($scheme) => $call,
            AnyScheme::OpencasLike($scheme) => $call,
            AnyScheme::L2arcLike($scheme) => $call,
            AnyScheme::UcacheLike($scheme) => $call,
            AnyScheme::Tica($scheme) => $call,
            AnyScheme::RequestOriented($scheme) => $call,
        }
    };
}

impl Scheme for AnyScheme {
    #[inline]
    fn access_foreseen<S: Sink>(&mut self, access: Access, hint: Hint, sink: &mut S) {
        each!(self, scheme => scheme.access_foreseen(access, hint, sink))
    }

    #[inline]
    fn end_request<S: Sink>(&mut self, now_ns: u64, sink: &mut S) {
        each!(self, scheme => scheme.end_request(now_ns, sink))
    }

    fn decide_all<'a, W: Watcher>(&mut self, arrivals: impl Iterator<Item = &'a Arrival>, watcher: &mut W) {
        each!(self, scheme => scheme.decide_all(arrivals, watcher))
    }

    fn discard<S: Sink>(&mut self, block: BlockNo, sink: &mut S) {
        each!(self, scheme => scheme.discard(block, sink))
    }

    fn forget(&mut self, level: Level, block: BlockNo) {
        each!(self, scheme => scheme.forget(level, block))
    }

    fn cleaned(&mut self, block: BlockNo) {
        each!(self, scheme => scheme.cleaned(block))
    }

    fn restore(&mut self, block: BlockNo, dirty: bool) -> Option<Slot> {
        each!(self, scheme => scheme.restore(block, dirty))
    }

    fn resize<S: Sink>(&mut self, quota: Quota, sink: &mut S) {
        each!(self, scheme => scheme.resize(quota, sink))
    }

    fn quota(&self) -> Quota {
        each!(self, scheme => scheme.quota())
    }

    fn resident_blocks(&self, level: Level) -> u32 {
        each!(self, scheme => scheme.resident_blocks(level))
    }

    fn demand(&mut self, points: Points) -> Option<[LevelDemand; 2]> {
        each!(self, scheme => scheme.demand(points))
    }

    fn slots(&self, block: BlockNo) -> [Option<Slot>; Level::COUNT] {
        each!(self, scheme => scheme.slots(block))
    }

    fn mirrors(&self) -> Option<Mirrors> {
        each!(self, scheme => scheme.mirrors())
    }

    #[inline]
    fn announce(&self, block: BlockNo) -> Hint {
        each!(self, scheme => scheme.announce(block))
    }

    #[inline]
    fn announce_all<'a>(&self, blocks: impl Iterator<Item = (BlockNo, &'a mut Hint)>) {
        each!(self, scheme => scheme.announce_all(blocks))
    }

    #[inline]
    fn locate<'a>(&self, blocks: impl Iterator<Item = (BlockNo, &'a mut Hint)>) {
        each!(self, scheme => scheme.locate(blocks))
    }

    #[inline]
    fn follow(&self, blocks: impl Iterator<Item = (BlockNo, Hint)>) {
        each!(self, scheme => scheme.follow(blocks))
    }

    fn memory_bytes(&self) -> usize {
        each!(self, scheme => scheme.memory_bytes())
    }
}
