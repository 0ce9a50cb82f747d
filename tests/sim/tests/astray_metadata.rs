//! A write of pages that describe the cache (journal, tables, directory, superblock, label) that goes to other pages of the SSD and is said to have
//! ended well, at each such write of a run and of the starts before and after it (guarantees 4 and 5 of `docs/design.md`). Where it should have gone the
//! old page stays, as if a flush had lied, and what it goes over is lost: a start may be refused, a block may be lost with an error, or be an older one.
//! It is never anything else. On a pair the other SSD has everything, and nothing of that happens (guarantee 9). A run in which nothing goes elsewhere
//! finds everything.

use lode_engine::GuestError;
use lode_policy::Quota;
use lode_sim::scenario::{BLOCK, flush, machine, pattern, read, write};
use lode_sim::{Machine, Rng, SimDisk, World};
use lode_store::{StoreError, StoreErrorKind, SyncDevice};

const BLOCKS: u64 = 16;
/// How many of the blocks have so many versions at least.
const OF_VERSION: [u64; 3] = [BLOCKS, 10, 5];

const SMALL: Quota = Quota::new(0, 100);
const LARGE: Quota = Quota::new(0, 400);

/// Two volumes on one SSD, or on a pair.
struct Host {
    first: World,
    other: Vec<World>,
    machines: Vec<Machine>,
}

/// What came of all the runs: starts that were refused, and blocks that could not be read or were older.
#[derive(Clone, Debug, Default)]
struct Counts {
    runs: u64,
    refused: u64,
    errors: u64,
    older: u64,
}

impl Counts {
    fn harm(&self) -> u64 {
        self.refused + self.errors + self.older
    }
}

impl Host {
    fn new(is_pair: bool) -> Host {
        let of = |name: &str| {
            let mut machine = machine("lru", &["write_policy=wb"], SMALL);
            (machine.config.largest_share, machine.config.ssd_is_pair) = (Some(LARGE), is_pair);
            Machine { name: name.to_owned(), ssd_bytes: 5 << 20, ..machine }
        };
        let machines = vec![of("vm"), of("other")];
        let mut first = World::new(machines[0].clone(), 1).unwrap();
        first.go_down(true);
        Host { first, other: vec![World::beside(machines[1].clone(), 2, 1)], machines }
    }

    fn ssd(&mut self, member: Option<usize>) -> &mut SimDisk {
        match (member, &mut self.first.pair) {
            (Some(1), Some(pair)) => &mut pair.second,
            _ => &mut self.first.ssd,
        }
    }

    fn start(&mut self) -> Result<(), StoreError> {
        self.first.restart_with(&mut self.other, &self.machines)
    }

    fn on<T>(&mut self, volume: usize, act: impl FnOnce(&mut World) -> T) -> T {
        if volume == 0 { act(&mut self.first) } else { self.first.lend(&mut self.other[0], act) }
    }

    /// Both volumes come to rest, with all that one waits for of the other one.
    fn settle(&mut self) {
        for _ in 0..3 {
            (0..2).for_each(|volume| self.on(volume, World::settle));
        }
    }

    /// Versions of all blocks come one after the other, and one volume comes to have another extent.
    fn live(&mut self) {
        for (version, blocks) in (0..).zip(OF_VERSION) {
            for volume in 0..2 {
                for block in 0..blocks {
                    let name = name_of(volume, version, block);
                    self.on(volume, |world| write(world, block * BLOCK, BLOCK, name)).unwrap();
                }
                self.on(volume, flush).unwrap();
            }
            if version == 1 {
                self.first.resize(LARGE);
            }
            self.settle();
        }
    }

    fn go_down(&mut self, power_cut: bool) {
        (0..2).for_each(|volume| self.on(volume, |world| world.go_down(power_cut)));
    }

    /// A start on a pair at one of whose writes, by this number, the power fails.
    fn start_cut_short(&mut self, number: u64) {
        const MOST_WRITES: u64 = 40;
        let fail_after = |host: &mut Host, after| {
            (0..2).for_each(|member| host.ssd(Some(member)).fail_after = after);
        };
        fail_after(self, Some(number % MOST_WRITES));
        // It may need fewer.
        _ = self.start();
        fail_after(self, None);
        self.go_down(true);
    }

    /// What came of a start.
    fn look(&mut self, started: Result<(), StoreError>, counts: &mut Counts, case: &str) {
        counts.runs += 1;
        match started {
            Ok(()) => self.check(counts, case),
            Err(error) => {
                let kinds = [StoreErrorKind::Damaged, StoreErrorKind::NotACache];
                assert!(kinds.contains(&error.kind()), "{case}: {error}");
                counts.refused += 1;
            }
        }
    }

    fn check(&mut self, counts: &mut Counts, case: &str) {
        for volume in 0..2 {
            for block in 0..BLOCKS {
                let found = self.on(volume, |world| read(world, block * BLOCK, BLOCK));
                let of = |version| pattern(name_of(volume, version, block), BLOCK as usize);
                let newest =
                    (0..OF_VERSION.len()).rev().find(|&version| block < OF_VERSION[version]).unwrap();
                match found {
                    Ok(bytes) if bytes == of(newest) => {}
                    Ok(bytes) => {
                        let is_older = (0..newest).any(|version| bytes == of(version));
                        let is_unwritten = bytes.iter().all(|&byte| byte == 0);
                        assert!(is_older || is_unwritten, "{case}: block {block} of volume {volume}");
                        counts.older += 1;
                    }
                    Err(error) => {
                        assert_eq!(error, GuestError::Io, "{case}");
                        counts.errors += 1;
                    }
                }
            }
        }
    }
}

fn name_of(volume: usize, version: usize, block: u64) -> u8 {
    (1 + volume * 100 + version * 30) as u8 + block as u8
}

/// Each write of such pages in turn goes elsewhere, with a kill and a power cut after that: on one SSD, or on this member of a pair.
fn run_all(member: Option<usize>) -> Counts {
    const PLACES: u64 = 4;
    let (mut counts, mut after) = (Counts::default(), Counts::default());
    for n in 0.. {
        let mut happened = false;
        for seed in 0..2 * PLACES {
            let case = format!("write {n}, place {}, power cut {}", seed / 2, seed % 2 == 1);
            let mut host = Host::new(member.is_some());
            host.ssd(member).misdirect_nth = Some((n, Rng::new(seed)));
            let mut started = host.start();
            let mut is_before_start = false;
            if started.is_ok() {
                host.live();
                host.go_down(seed % 2 == 1);
                is_before_start = host.ssd(member).misdirect_nth.is_none();
                if member.is_some() {
                    host.start_cut_short(7 * n + 13 * seed);
                }
                started = host.start();
            }
            let harm = counts.harm();
            host.look(started, &mut counts, &case);
            let is_astray = host.ssd(member).misdirect_nth.is_none();
            assert!(is_astray || counts.harm() == harm, "{case}: nothing went elsewhere, and {counts:?}");
            if let Some(member) = member.filter(|_| is_before_start) {
                // What describes the cache is mended by now; blocks of guests that were gone over may not have been read.
                host.go_down(false);
                let other = host.ssd(Some(1 - member));
                *other = SimDisk::new(other.size_bytes());
                let started = host.start();
                host.look(started, &mut after, &format!("{case}, without the other SSD"));
            }
            happened |= is_astray;
        }
        if !happened {
            println!("{n} writes: {counts:?}, without the other SSD {after:?}");
            assert_eq!((after.refused, after.older), (0, 0), "{after:?}");
            assert!(after.runs > 150 || member.is_none(), "{after:?}");
            return counts;
        }
    }
    unreachable!("a run ends");
}

#[test]
fn g4_g5_pages_of_the_cache_that_go_elsewhere_make_no_other_block() {
    let counts = run_all(None);
    assert!(counts.runs > 200 && counts.harm() > 50, "{counts:?}");
}

#[test]
fn g9_on_one_ssd_of_a_pair_they_cost_nothing() {
    for member in 0..2 {
        let counts = run_all(Some(member));
        assert!(counts.runs > 200 && counts.harm() == 0, "{counts:?}");
    }
}
