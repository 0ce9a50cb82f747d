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
    /// It decides by what comes next: only recorded streams can run it, by [`build_foreseeing`].
    pub needs_future: bool,
    tables: &'static [&'static [SettingInfo]],
    /// Keys of settings that exist to reproduce other readings of the source; their defaults are the ones to use.
    variants: &'static [&'static str],
    /// What its tables take.
    pub(crate) footprint: Footprint,
    build: Build,
}

/// What a few tables take once they hold anything.
const LEAN: u64 = 4 << 10;
/// That of reuse distances, besides.
const MEASURED: u64 = 16 << 10;

/// Builds a scheme from settings, what the host has, and the VM's first share.
type Build = fn(&Settings, Quota, Quota) -> AnyScheme;

static SCHEMES: &[SchemeInfo] = &[
    SchemeInfo::new(
        etica::NAME,
        "read-only DRAM over a write-buffering SSD, shares by policy-optimised reuse distance; in its full \
         modes promotion and eviction by popularity",
        "ETICA",
        etica::TABLES,
        |settings, physical, quota| {
            AnyScheme::Etica(Box::new(etica::Etica::new(settings, physical, quota)))
        },
    )
    .taking(Footprint::new(88 << 10, 96).with_sets(128))
    .on(&[Level::Dram, Level::Ssd])
    .with_variants(&["promotion_clock", "evict", "popularity", "window"]),
    SchemeInfo::new(
        "lru",
        "one SSD level that gives up the least recently used block",
        "ETICA section 3; textbook",
        sets::TABLES,
        |settings, _, quota| AnyScheme::Lru(sets::Lru::new(settings, quota)),
    )
    .taking(Footprint::new(LEAN, 48).with_sets(16)),
    SchemeInfo::new(
        "fifo",
        "one SSD level that gives up the longest resident block",
        "textbook",
        sets::TABLES,
        |settings, _, quota| AnyScheme::Fifo(sets::Fifo::new(settings, quota)),
    )
    .taking(Footprint::new(LEAN, 48).with_sets(16)),
    SchemeInfo::new(
        "arc",
        "one SSD level that divides itself between blocks seen once and blocks seen more often",
        "Megiddo and Modha, FAST 2003",
        arc::TABLES,
        |settings, _, quota| AnyScheme::Arc(arc::Arc::new(settings, quota)),
    )
    .taking(Footprint::new(LEAN, 64).with_ghosts()),
    SchemeInfo::new(
        "s3-fifo",
        "one SSD level of FIFO queues: a small one that newcomers must pass, a main one, and ghosts",
        "Yang et al., SOSP 2023",
        s3_fifo::TABLES,
        |settings, _, quota| AnyScheme::S3Fifo(s3_fifo::S3Fifo::new(settings, quota)),
    )
    .taking(Footprint::new(LEAN, 64))
    .with_variants(&["warm_up"]),
    SchemeInfo::new(
        "sieve",
        "one SSD level, one FIFO queue, and a hand that spares what was visited",
        "Zhang et al., NSDI 2024",
        sieve::TABLES,
        |settings, _, quota| AnyScheme::Sieve(sieve::Sieve::new(settings, quota)),
    )
    .taking(Footprint::new(LEAN, 64)),
    SchemeInfo::new(
        "lirs",
        "one SSD level for the blocks with the shortest time between their last two accesses, and a small queue \
         for all others",
        "Jiang and Zhang, SIGMETRICS 2002",
        lirs::TABLES,
        |settings, _, quota| AnyScheme::Lirs(lirs::Lirs::new(settings, quota)),
    )
    .taking(Footprint::new(LEAN, 64)),
    SchemeInfo::new(
        "w-tinylfu",
        "one SSD level with a small window for newcomers and a main part that lets in only who was accessed \
         more often than who would leave",
        "Einziger, Friedman and Manes, ACM TOS 13(4), 2017",
        w_tinylfu::TABLES,
        |settings, _, quota| AnyScheme::WTinyLfu(w_tinylfu::WTinyLfu::new(settings, quota)),
    )
    .taking(Footprint::new(LEAN, 80)),
    SchemeInfo::new(
        "belady",
        "the bound: one SSD level that knows what comes next, and gives up the block whose next use is farthest",
        "Belady, IBM Systems Journal 5(2), 1966",
        belady::TABLES,
        |settings, _, quota| AnyScheme::Belady(belady::Belady::new(settings, quota)),
    )
    .taking(Footprint::new(LEAN, 80))
    .foreseeing(),
    SchemeInfo::new(
        "larc",
        "one SSD level that a block enters when it is missed again while it is remembered",
        "Huang et al., MSST 2013",
        larc::TABLES,
        |settings, _, quota| AnyScheme::Larc(larc::Larc::new(settings, quota)),
    )
    .taking(Footprint::new(LEAN, 64).with_ghosts()),
    SchemeInfo::new(
        "s-rac-like",
        "LARC, and a second chance for blocks that were hit",
        "S-RAC, of which little is known; Huang et al., MSST 2013",
        larc::TABLES,
        |settings, _, quota| AnyScheme::SRacLike(larc::SRacLike::new(settings, quota)),
    )
    .taking(Footprint::new(LEAN, 64).with_ghosts()),
    SchemeInfo::new(
        "2q",
        "one SSD level of a FIFO queue for newcomers, ghosts, and a recency queue for what came back",
        "Johnson and Shasha, VLDB 1994",
        two_q::TABLES,
        |settings, _, quota| AnyScheme::TwoQ(two_q::TwoQ::new(settings, quota)),
    )
    .taking(Footprint::new(LEAN, 64)),
    SchemeInfo::new(
        "mq",
        "one SSD level of recency queues by the number of accesses, which blocks climb and descend",
        "Zhou et al., USENIX ATC 2001",
        mq::TABLES,
        |settings, _, quota| AnyScheme::Mq(mq::Mq::new(settings, quota)),
    )
    .taking(Footprint::new(LEAN, 80)),
    SchemeInfo::new(
        "fast-cache-like",
        "one SSD level that a block enters with its third access",
        "EMC FAST Cache, recalled",
        fast_cache::TABLES,
        |settings, _, quota| AnyScheme::FastCacheLike(fast_cache::FastCacheLike::new(settings, quota)),
    )
    .taking(Footprint::new(LEAN, 64)),
    SchemeInfo::new(
        "rpac",
        "one SSD level of sets where a newcomer replaces the oldest block of a clearly less popular region, \
         or stays outside",
        "RPAC (Ye et al.)",
        rpac::TABLES,
        |settings, _, quota| AnyScheme::Rpac(Box::new(rpac::Rpac::new(settings, quota))),
    )
    .taking(Footprint::new(13 << 10, 96).with_sets(256).with_ghosts()),
    SchemeInfo::new(
        "rpac-prototype",
        "rpac with the parameters of its paper's prototype: large regions whose popularity is short-lived",
        "RPAC (Ye et al.)",
        rpac::PROTOTYPE_TABLES,
        |settings, _, quota| AnyScheme::Rpac(Box::new(rpac::Rpac::new(settings, quota))),
    )
    .taking(Footprint::new(13 << 10, 96).with_sets(256).with_ghosts()),
    SchemeInfo::new(
        "eci-cache-like",
        "one SSD level whose share follows useful reuse distances, write-back or read-only by how much the VM \
         overwrites",
        "ECI-Cache: its abstract and ETICA's text; the rest recalled",
        sized::ECI_CACHE,
        |settings, physical, quota| {
            AnyScheme::EciCacheLike(Box::new(EciCacheLike::new(settings, physical, quota)))
        },
    )
    .taking(Footprint::new(MEASURED, 96).with_sets(16))
    .with_variants(&["window"]),
    SchemeInfo::new(
        "centaur-like",
        "one SSD level whose share follows reuse distances over all accesses, write-back",
        "Centaur: its abstract and ETICA's text; the rest recalled",
        sized::CENTAUR,
        |settings, physical, quota| {
            AnyScheme::CentaurLike(Box::new(sized::CentaurLike::new(settings, physical, quota)))
        },
    )
    .taking(Footprint::new(MEASURED, 96).with_sets(16))
    .with_variants(&["window"]),
    SchemeInfo::new(
        "s-cave-like",
        "one SSD level that grows by chunks where most of it is in use, and shrinks where least is; write-through",
        "S-CAVE: its abstract and ETICA's text; the rest recalled",
        sized::S_CAVE,
        |settings, physical, quota| {
            AnyScheme::SCaveLike(Box::new(sized::SCaveLike::new(settings, physical, quota)))
        },
    )
    .taking(Footprint::new(LEAN, 64).with_sets(16)),
    SchemeInfo::new(
        "vcacheshare-like",
        "one SSD level whose share follows hit ratio and reuse intensity of the reads; write-around",
        "vCacheShare, recalled",
        sized::VCACHESHARE,
        |settings, physical, quota| {
            AnyScheme::VCacheShareLike(Box::new(sized::VCacheShareLike::new(settings, physical, quota)))
        },
    )
    .taking(Footprint::new(MEASURED, 96).with_sets(16))
    .with_variants(&["window", "intensity"]),
    SchemeInfo::new(
        "flashcache",
        "one SSD level of sets in which only clean blocks give way, and dirty ones are written back when they are many \
         or idle",
        "flashcache, its administrator's guide",
        flashcache::TABLES,
        |settings, _, quota| {
            AnyScheme::Flashcache(Box::new(flashcache::Flashcache::new(settings, quota)))
        },
    )
    .taking(Footprint::new(LEAN, 64).with_sets(256)),
    SchemeInfo::new(
        "opencas-like",
        "one SSD level under LRU that cleans what was not written for long, admits what comes several times, and lets \
         sequential streams pass by",
        "Open CAS, its documentation; recalled where that is silent",
        opencas::TABLES,
        |settings, _, quota| {
            AnyScheme::OpencasLike(Box::new(opencas::OpencasLike::new(settings, quota)))
        },
    )
    .taking(Footprint::new(3 * LEAN, 64).with_ghosts()),
    SchemeInfo::new(
        l2arc::NAME,
        "an ARC in DRAM, and an SSD in order of arrival that is fed with what will leave the ARC next; writes go to the \
         disk",
        "ZFS's L2ARC, recalled",
        l2arc::TABLES,
        |settings, _, quota| AnyScheme::L2arcLike(Box::new(l2arc::L2arcLike::new(settings, quota))),
    )
    .taking(Footprint::new(2 * LEAN, 96).with_ghosts())
    .on(&[Level::Dram, Level::Ssd]),
    SchemeInfo::new(
        "ucache-like",
        "DRAM that filters what is worth a place on the SSD; writes go to the SSD",
        "uCache: its abstract and TICA's text; the rest recalled",
        ucache::TABLES,
        |settings, _, quota| AnyScheme::UcacheLike(Box::new(ucache::UcacheLike::new(settings, quota))),
    )
    .taking(Footprint::new(2 * LEAN, 96).with_ghosts())
    .on(&[Level::Dram, Level::Ssd]),
    SchemeInfo::new(
        "tica-ef",
        "DRAM over an SSD for writes and one for reads, every dirty block on two of them; what leaves DRAM is \
         dropped, which spares the SSDs",
        "TICA (Salkhordeh et al.)",
        tica::TABLES,
        |settings, _, quota| {
            tica_scheme(tica::Tica::fixed(settings, quota, Policy::EnduranceFriendly))
        },
    )
    .taking(Footprint::new(2 * LEAN, 96))
    .on(&Level::ALL),
    SchemeInfo::new(
        "tica-wed",
        "as tica-ef, but what leaves DRAM is copied to the SSD, which saves reads from the disk",
        "TICA (Salkhordeh et al.)",
        tica::TABLES,
        |settings, _, quota| {
            tica_scheme(tica::Tica::fixed(settings, quota, Policy::WriteToEnduranceDisk))
        },
    )
    .taking(Footprint::new(2 * LEAN, 96))
    .on(&Level::ALL),
    SchemeInfo::new(
        "tica-adaptive",
        "tica-ef or tica-wed, by whether DRAM is too small for what is read, or the SSDs hold what nobody uses",
        "TICA (Salkhordeh et al.)",
        tica::ADAPTIVE_TABLES,
        |settings, _, quota| tica_scheme(tica::Tica::adaptive(settings, quota)),
    )
    .taking(Footprint::new(2 * LEAN, 96))
    .on(&Level::ALL)
    .with_variants(&["identifier", "state_machine"]),
    SchemeInfo::new(
        write_cache::NAME,
        "one SSD level that takes only writes, and of these all, those that somebody waits for, those of critical \
         processes, or the log",
        "Kim et al., USENIX ATC 2015",
        write_cache::TABLES,
        |settings, _, quota| {
            AnyScheme::RequestOriented(Box::new(write_cache::WriteCache::new(settings, quota)))
        },
    )
    .taking(Footprint::new(LEAN, 64).with_sets(256)),
];

fn tica_scheme(tica: tica::Tica) -> AnyScheme {
    AnyScheme::Tica(Box::new(tica))
}

/// Every scheme, in the order to show them.
pub fn schemes() -> &'static [SchemeInfo] {
    SCHEMES
}

impl SchemeInfo {
    /// A scheme of one SSD level, with settings that are all meant to be used.
    const fn new(
        name: &'static str,
        about: &'static str,
        source: &'static str,
        tables: &'static [&'static [SettingInfo]],
        build: Build,
    ) -> SchemeInfo {
        SchemeInfo {
            name,
            about,
            source,
            levels: &[Level::Ssd],
            needs_future: false,
            tables,
            variants: &[],
            footprint: Footprint::LARGEST,
            build,
        }
    }

    const fn on(self, levels: &'static [Level]) -> SchemeInfo {
        SchemeInfo { levels, ..self }
    }

    const fn with_variants(self, variants: &'static [&'static str]) -> SchemeInfo {
        SchemeInfo { variants, ..self }
    }

    const fn taking(self, footprint: Footprint) -> SchemeInfo {
        SchemeInfo { footprint, ..self }
    }

    const fn foreseeing(self) -> SchemeInfo {
        SchemeInfo { needs_future: true, ..self }
    }

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
    Rpac(Box<rpac::Rpac>),
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

/// What is asked seldom is compiled here, once, and not for each sink of each user.
impl AnyScheme {
    fn discard_once(&mut self, block: BlockNo, mut sink: &mut dyn Sink) {
        each!(self, scheme => scheme.discard(block, &mut sink))
    }

    fn resize_once(&mut self, quota: Quota, mut sink: &mut dyn Sink) {
        each!(self, scheme => scheme.resize(quota, &mut sink))
    }
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

    fn end_host_interval<S: Sink>(&mut self, sink: &mut S) {
        each!(self, scheme => scheme.end_host_interval(sink))
    }

    fn decide_all<'a, W: Watcher>(&mut self, arrivals: impl Iterator<Item = &'a Arrival>, watcher: &mut W) {
        each!(self, scheme => scheme.decide_all(arrivals, watcher))
    }

    fn discard<S: Sink>(&mut self, block: BlockNo, sink: &mut S) {
        self.discard_once(block, sink);
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
        self.resize_once(quota, sink);
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
