//! Schemes that follow each other at any time, held against a book of what their effects say: nothing is lost but by an eviction,
//! and every slot holds what is believed of it.

use std::collections::{BTreeMap, BTreeSet};

use lode_types::{Access, BlockNo, Direction, Level, Origin, Rng};

use super::super::candidates::Candidate;
use super::*;
use crate::registry::SchemeInfo;
use crate::settings::Settings;

const QUOTA: Quota = Quota::new(20, 40);
const BENEFIT: Candidate = Candidate::Benefit { price_us: 1.0 };
const RECENCY: Candidate = Candidate::Ucache { worth_hits: 0 };

fn settings() -> Settings {
    SchemeInfo::find("auto").unwrap().settings()
}

/// By slot, which block is there, and whether it is newer than the disk.
#[derive(Default)]
struct Book([BTreeMap<Slot, (BlockNo, bool)>; 2]);

impl Book {
    fn put(&mut self, level: Level, slot: Slot, block: BlockNo, dirty: bool) {
        let before = self.0[level.index()].insert(slot, (block, dirty));
        assert_eq!(before, None, "slot {slot} of {} was in use", level.name());
    }

    fn take(&mut self, level: Level, slot: Slot, block: BlockNo) -> bool {
        let (held, dirty) = self.0[level.index()].remove(&slot).expect("a slot in use");
        assert_eq!(held, block, "slot {slot} of {}", level.name());
        dirty
    }

    fn is_at(&self, level: Level, slot: Slot, block: BlockNo) {
        assert_eq!(self.0[level.index()].get(&slot).map(|entry| entry.0), Some(block), "{}", level.name());
    }

    /// Takes effects; `accessed` is the block of the access or discard under way. How often it was read and written.
    fn note(&mut self, effects: &[Effect], accessed: BlockNo) -> (u32, u32) {
        let (mut reads, mut writes) = (0, 0);
        for effect in effects {
            match *effect {
                Effect::ReadLevel { level, slot } => {
                    self.is_at(level, slot, accessed);
                    reads += 1;
                }
                Effect::ReadBacking => reads += 1,
                Effect::Fill { level, slot } => self.put(level, slot, accessed, false),
                Effect::WriteLevel { level, slot, hit, dirty } => {
                    if hit {
                        self.take(level, slot, accessed);
                    }
                    self.put(level, slot, accessed, dirty);
                    writes += 1;
                }
                Effect::WriteBacking => writes += 1,
                Effect::MergeLevel { level, slot } => self.is_at(level, slot, accessed),
                Effect::MergeBacking => {}
                Effect::Invalidate { level, slot } => _ = self.take(level, slot, accessed),
                Effect::Evict { level, slot, block, dirty } => {
                    assert_eq!(self.take(level, slot, block), dirty, "block {block}");
                }
                Effect::Clean { .. } => panic!("no candidate cleans"),
                Effect::Copy { to, slot, block, from, .. } => {
                    if let CopySource::Level { level, slot } = from {
                        self.is_at(level, slot, block);
                    }
                    self.put(to, slot, block, false);
                }
            }
        }
        (reads, writes)
    }

    fn check(&self, live: &Live, quota: Quota) {
        for level in Level::SIZED {
            let held = &self.0[level.index()];
            let blocks: BTreeSet<BlockNo> = held.values().map(|entry| entry.0).collect();
            assert_eq!(blocks.len(), held.len(), "{}", level.name());
            assert_eq!(live.resident_blocks(level) as usize, held.len(), "{}", level.name());
            assert!(held.len() <= quota.of(level) as usize, "{}", level.name());
            assert!(held.keys().all(|&slot| slot < QUOTA.of(level)), "{}: {held:?}", level.name());
        }
        assert!(self.0[0].values().all(|entry| !entry.1));
    }
}

fn any_access(rng: &mut Rng) -> Access {
    // Small numbers come oftener.
    let block = rng.below(120) * rng.below(120) / 120;
    let op = if rng.chance(50) { Direction::Read } else { Direction::Write };
    Access { block, op, partial: rng.chance(30), origin: Origin::UNKNOWN }
}

/// One access, by itself or as a batch of one.
fn access(live: &mut Live, book: &mut Book, access: Access) {
    let mut effects: Vec<Effect> = Vec::new();
    live.access(access, PrefetchHint::new(access.block), &mut effects);
    let expected = if access.op == Direction::Read { (1, 0) } else { (0, 1) };
    assert_eq!(book.note(&effects, access.block), expected, "{access:?}: {effects:?}");
}

fn end_request(live: &mut Live, book: &mut Book) -> Vec<Effect> {
    let mut effects: Vec<Effect> = Vec::new();
    live.end_request(0, &mut effects);
    book.note(&effects, BlockNo::MAX);
    effects
}

fn forget(live: &mut Live, book: &mut Book, level: Level, block: BlockNo) {
    live.forget(level, block);
    if level != Level::ReadSsd {
        book.0[level.index()].retain(|_, entry| entry.0 != block);
    }
}

#[test]
fn schemes_follow_each_other_at_any_time() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let settings = settings();
        let (mut quota, mut book, mut begun) = (QUOTA, Book::default(), 0);
        let mut live = Live::new(BENEFIT.build(&settings, quota));
        for _ in 0..3000 {
            match rng.below(100) {
                0..=1 if !live.is_taking_over() => {
                    begun += 1;
                    let next = if begun % 2 == 1 { RECENCY } else { BENEFIT };
                    live.begin(next.build(&settings, quota));
                }
                // Seldom enough that much is accessed before all is taken over.
                2..=5 => drop(end_request(&mut live, &mut book)),
                6..=8 => {
                    let block = rng.below(120);
                    let mut effects: Vec<Effect> = Vec::new();
                    live.discard(block, &mut effects);
                    assert_eq!(book.note(&effects, block), (0, 0));
                    assert!(!book.0.iter().any(|level| level.values().any(|entry| entry.0 == block)));
                }
                9..=11 => forget(&mut live, &mut book, Level::ALL[rng.below(3) as usize], rng.below(120)),
                12..=14 => {
                    let block = rng.below(120);
                    live.cleaned(block);
                    book.0[1].values_mut().filter(|entry| entry.0 == block).for_each(|entry| entry.1 = false);
                }
                15..=17 => {
                    let (block, dirty) = (rng.below(120), rng.chance(50));
                    if let Some(slot) = live.restore(block, dirty) {
                        book.put(Level::Ssd, slot, block, dirty);
                    }
                }
                18 => {
                    quota = Quota::new(rng.below(21) as u32, rng.below(41) as u32);
                    let mut effects: Vec<Effect> = Vec::new();
                    live.resize(quota, &mut effects);
                    book.note(&effects, BlockNo::MAX);
                }
                _ => access(&mut live, &mut book, any_access(&mut rng)),
            }
            book.check(&live, quota);
        }
        assert!(begun > 10, "{begun}");
    }
}

/// What is cached is so afterwards, dirty or not, and no device has anything to do.
#[test]
fn what_is_cached_stays() {
    for (first, then) in [(BENEFIT, RECENCY), (RECENCY, BENEFIT)] {
        let mut rng = Rng::new(1);
        let mut book = Book::default();
        let mut live = Live::new(first.build(&settings(), QUOTA));
        for _ in 0..2000 {
            access(&mut live, &mut book, any_access(&mut rng));
            end_request(&mut live, &mut book);
        }
        let (dram, ssd) = (book.0[0].clone(), book.0[1].clone());
        assert!(dram.len() > 5 && ssd.len() == 40, "{} {}", dram.len(), ssd.len());
        live.begin(then.build(&settings(), QUOTA));
        // Blocks of DRAM are read from there, and those that are taken over stay.
        let (&slot, &(block, _)) = dram.last_key_value().unwrap();
        let mut effects: Vec<Effect> = Vec::new();
        live.access(Access::read(block), PrefetchHint::new(block), &mut effects);
        let is_on_ssd = ssd.values().any(|entry| entry.0 == block);
        assert!(is_on_ssd || effects == [Effect::ReadLevel { level: Level::Dram, slot }], "{effects:?}");
        book.note(&effects, block);
        assert_eq!(end_request(&mut live, &mut book), []);
        assert_eq!(book.0[1], ssd);
        let mut requests = 0;
        while live.is_taking_over() {
            end_request(&mut live, &mut book);
            requests += 1;
        }
        assert!(requests <= 20, "{requests}");
        assert_eq!(book.0[1], ssd);
    }
}
