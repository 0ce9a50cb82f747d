//! Two caches that serve one disk in turn, and a model of what a guest may read: killed between any two durable steps, with writes
//! that pass both caches, and operators who do what a refusal tells them. What is tested is the code that the daemon runs; only
//! the files are not.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use lode_format::CacheId;
use lode_types::Rng;

use super::claims::{Begin, End, Keeper, begin, end};
use super::decide::{DiskFacts, Seen, Verdict, claimed, decide};
use super::{CacheOwner, DiskState, Sidecar};
use crate::error::{ServerError, ServerErrorKind};

const BLOCKS: u64 = 6;
const UUIDS: [&str; 2] = ["00112233-4455-4677-8899-aabbccddee00", "00112233-4455-4677-8899-aabbccddee01"];

/// What outlives everybody: the sidecar, and what each host remembers.
#[derive(Default)]
struct Durable {
    sidecar: Option<Sidecar>,
    seen: [Option<Seen>; 2],
}

/// A host's way to it, which ends with the host before a step.
struct Host<'d> {
    durable: &'d RefCell<Durable>,
    number: usize,
    steps_left: Cell<u32>,
}

impl Host<'_> {
    fn step(&self) -> Result<(), ServerError> {
        match self.steps_left.get() {
            0 => Err(ServerError::new(ServerErrorKind::Thread, "killed")),
            left => {
                self.steps_left.set(left - 1);
                Ok(())
            }
        }
    }
}

impl Keeper for Host<'_> {
    fn note(&self, seen: &[(String, Option<Seen>)]) -> Result<(), ServerError> {
        for (_, seen) in seen {
            self.step()?;
            self.durable.borrow_mut().seen[self.number] = seen.clone();
        }
        Ok(())
    }

    fn write(&self, sidecars: &[(std::path::PathBuf, Sidecar)]) -> Result<(), ServerError> {
        for (_, sidecar) in sidecars {
            self.step()?;
            self.durable.borrow_mut().sidecar = Some(sidecar.clone());
        }
        Ok(())
    }
}

#[derive(Default)]
struct Cache {
    /// Block, version, and whether the disk lacks it.
    held: BTreeMap<u64, (u64, bool)>,
    has_volume: bool,
    says: Option<Option<Sidecar>>,
    /// Nobody else has had the disk since it was served here, and nobody wrote past the caches.
    is_alone: bool,
    /// Its newer blocks were given up by an operator.
    lost: bool,
}

impl Cache {
    fn is_up(&self) -> bool {
        self.says.is_some()
    }

    fn dirty(&self) -> usize {
        self.held.values().filter(|(_, dirty)| *dirty).count()
    }
}

#[derive(Default)]
struct Counts {
    warm: u32,
    dropped: u32,
    held_elsewhere: u32,
    two_versions: u32,
    killed_between: u32,
    unseen: u32,
}

struct Model {
    durable: RefCell<Durable>,
    caches: [Cache; 2],
    disk: [u64; BLOCKS as usize],
    /// Changes with every write to the image.
    changed: u64,
    newest: [u64; BLOCKS as usize],
    version: u64,
    lost_caches: Vec<CacheId>,
    counts: Counts,
}

impl Model {
    fn new() -> Model {
        Model {
            durable: RefCell::default(),
            caches: Default::default(),
            disk: [0; BLOCKS as usize],
            changed: 0,
            newest: [0; BLOCKS as usize],
            version: 0,
            lost_caches: Vec::new(),
            counts: Counts::default(),
        }
    }

    fn owner(at: usize) -> CacheOwner {
        CacheOwner {
            cache: Some(UUIDS[at].to_owned()),
            name: format!("cache{at}"),
            host: format!("host{at}"),
        }
    }

    fn verdict(&self, at: usize) -> Verdict {
        let durable = self.durable.borrow();
        decide(&DiskFacts {
            owner: &Model::owner(at),
            volume: self.caches[at].has_volume.then_some("volume"),
            sidecar: durable.sidecar.as_ref(),
            seen: durable.seen[at].as_ref(),
            image: Some(&self.changed.to_string()),
            lost_caches: &self.lost_caches,
        })
    }

    /// A start, killed after so many durable steps.
    fn start(&mut self, at: usize, steps: u32) {
        if self.caches[at].is_up() {
            return;
        }
        let verdict = self.verdict(at);
        let dirty = self.caches[at].dirty();
        let was_alone = self.caches[at].is_alone && self.caches[at].has_volume;
        let changed = match verdict {
            Verdict::AsLeft => false,
            Verdict::HeldElsewhere(sidecar) => {
                assert!(!was_alone, "{sidecar:?}");
                self.counts.held_elsewhere += 1;
                return;
            }
            Verdict::Touched(why) => unreachable!("images have one time here: {why}"),
            Verdict::Changed(why) => {
                assert!(!was_alone, "{why}");
                if dirty > 0 {
                    self.counts.two_versions += 1;
                    return;
                }
                true
            }
        };
        assert!(!self.caches[1 - at].is_up(), "two caches serve one disk");
        // Durably, before anything else.
        if changed {
            self.counts.dropped += 1;
            self.caches[at].held.clear();
        } else {
            self.counts.warm += u32::from(!self.caches[at].held.is_empty());
        }
        self.caches[at].has_volume = true;
        let (found, seen) = {
            let durable = self.durable.borrow();
            (durable.sidecar.clone(), durable.seen[at].clone())
        };
        let owner = Model::owner(at);
        let facts = DiskFacts {
            owner: &owner,
            volume: Some("volume"),
            sidecar: found.as_ref(),
            seen: seen.as_ref(),
            image: None,
            lost_caches: &[],
        };
        let is_others = found.as_ref().is_some_and(|found| !owner.wrote(found));
        let next = Some(claimed(&facts, "vm", changed || is_others));
        let (vm, path) = ("vm".to_owned(), Some("sidecar".into()));
        let disk = Begin { vm, path, found, seen, changed, next };
        let host = Host { durable: &self.durable, number: at, steps_left: Cell::new(steps) };
        match begin(&host, &[disk]) {
            Ok(mut says) => {
                self.caches[at].says = Some(says.pop().flatten());
                self.caches[at].is_alone = true;
                self.caches[at].lost = false;
                self.caches[1 - at].is_alone = false;
            }
            Err(_) => {
                self.counts.killed_between += 1;
                self.caches[1 - at].is_alone = false;
            }
        }
    }

    fn write(&mut self, at: usize, block: u64, is_back: bool) {
        self.version += 1;
        self.newest[block as usize] = self.version;
        if is_back {
            self.caches[at].held.insert(block, (self.version, true));
        } else {
            self.caches[at].held.remove(&block);
            self.put_on_disk(block, self.version);
        }
    }

    fn put_on_disk(&mut self, block: u64, version: u64) {
        self.disk[block as usize] = version;
        self.changed += 1;
    }

    fn read(&mut self, at: usize, block: u64) {
        let on_disk = self.disk[block as usize];
        let (version, _) = *self.caches[at].held.entry(block).or_insert((on_disk, false));
        assert_eq!(version, self.newest[block as usize], "cache {at} gives old bytes of block {block}");
    }

    fn destage(&mut self, at: usize) {
        let dirty: Vec<_> = self.caches[at]
            .held
            .iter()
            .filter(|(_, (_, dirty))| *dirty)
            .map(|(b, (v, _))| (*b, *v))
            .collect();
        for (block, version) in dirty {
            self.put_on_disk(block, version);
            self.caches[at].held.insert(block, (version, false));
        }
    }

    fn stop(&mut self, at: usize, steps: u32) {
        let Some(says) = self.caches[at].says.take() else { return };
        let disk = End {
            vm: "vm".to_owned(),
            path: Some("sidecar".into()),
            says,
            is_clean: self.caches[at].dirty() == 0,
            image: Some(self.changed.to_string()),
        };
        let host = Host { durable: &self.durable, number: at, steps_left: Cell::new(steps) };
        if end(&host, &[disk]).is_err() {
            self.counts.killed_between += 1;
        }
    }

    /// Somebody writes to the image, and no cache knows.
    fn write_past_caches(&mut self, block: u64) {
        if self.caches.iter().any(Cache::is_up) {
            return;
        }
        let before = (self.changed, self.disk);
        self.version += 1;
        self.put_on_disk(block, self.version);
        // After a kill nothing tells: that is documented, and operators are told to give the volume up.
        let is_unseen =
            |at: &usize| self.verdict(*at) == Verdict::AsLeft && !self.caches[*at].held.is_empty();
        if (0..2).any(|at| is_unseen(&at)) || self.caches.iter().any(|cache| cache.dirty() > 0) {
            (self.changed, self.disk) = before;
            self.counts.unseen += 1;
            return;
        }
        self.newest = self.disk;
        self.caches.iter_mut().for_each(|cache| cache.is_alone = false);
    }

    /// An operator gives up what a cache holds, which is not served.
    fn give_up(&mut self, at: usize) {
        if self.caches.iter().any(Cache::is_up) {
            return;
        }
        self.caches[at].held.clear();
        self.caches[at].has_volume = false;
        let mut durable = self.durable.borrow_mut();
        durable.seen[at] = None;
        if let Some(sidecar) = durable.sidecar.as_mut().filter(|sidecar| Model::owner(at).wrote(sidecar)) {
            sidecar.state = DiskState::Clean;
        }
        drop(durable);
        self.newest = self.newest_without_choice();
    }

    /// A cache is said to be gone for good; it comes back all the same.
    fn lose(&mut self, at: usize) {
        if self.caches[at].is_up() || self.caches[at].dirty() == 0 {
            return;
        }
        self.lost_caches = vec![UUIDS[at].parse().unwrap()];
        if !self.caches[1 - at].is_up() {
            self.start(1 - at, u32::MAX);
            if self.caches[1 - at].is_up() {
                self.caches[at].lost = true;
                self.newest = self.newest_without_choice();
            }
        }
        self.lost_caches.clear();
    }

    /// What is newest now: on the disk, or in the one cache that holds newer blocks and was not given up.
    fn newest_without_choice(&self) -> [u64; BLOCKS as usize] {
        let mut newest = self.disk;
        for cache in self.caches.iter().filter(|cache| !cache.lost) {
            for (block, (version, dirty)) in &cache.held {
                if *dirty {
                    newest[*block as usize] = *version;
                }
            }
        }
        newest
    }

    fn one_thing(&mut self, rng: &mut Rng) {
        let (at, block) = (rng.below(2) as usize, rng.below(BLOCKS));
        // Most get through; others end before the first, second and so on.
        let steps = if rng.chance(60) { u32::MAX } else { rng.below(4) as u32 };
        match rng.below(100) {
            0..22 => self.start(at, steps),
            22..28 => self.stop(at, steps),
            28..33 => self.caches[at].says = None,
            33..36 => self.write_past_caches(block),
            36..38 => self.give_up(at),
            38..39 => self.lose(at),
            chance if self.caches[at].is_up() => match chance {
                39..44 => self.destage(at),
                44..70 => self.write(at, block, rng.chance(70)),
                _ => self.read(at, block),
            },
            _ => {}
        }
    }
}

#[test]
fn g1_g2_caches_that_take_turns_give_no_old_bytes_wherever_they_are_killed() {
    let mut sum = Counts::default();
    for seed in 0..4000 {
        let (mut rng, mut model) = (Rng::new(seed), Model::new());
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..150 {
                model.one_thing(&mut rng);
            }
        }));
        assert!(outcome.is_ok(), "seed {seed}");
        let Counts { warm, dropped, held_elsewhere, two_versions, killed_between, unseen } = model.counts;
        sum.warm += warm;
        sum.dropped += dropped;
        sum.held_elsewhere += held_elsewhere;
        sum.two_versions += two_versions;
        sum.killed_between += killed_between;
        sum.unseen += unseen;
    }
    let counts =
        [sum.warm, sum.dropped, sum.held_elsewhere, sum.two_versions, sum.killed_between, sum.unseen];
    println!("warm, dropped, held elsewhere, two versions, killed between, unseen: {counts:?}");
    assert!(counts.into_iter().all(|count| count > 200), "{counts:?}");
}
