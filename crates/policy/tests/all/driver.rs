//! Drives a scheme step by step and keeps book of what its effects say, slot by slot. Whatever breaks
//! the meaning of an effect (a slot taken twice, a hit on a slot that holds another block, an eviction of
//! what is not there) panics here, in every test that uses it.

use std::collections::BTreeMap;

use lode_policy::{
    AnyScheme, CopyReason, CopySource, Counters, Effect, Lookahead, NextUses, NextUsesBuilder, Prefetch,
    PrefetchHint, Quota, Scheme, SchemeInfo, SettingKind, Settings, Slot, all_schemes, build_with_future,
};
use lode_types::{Access, BlockNo, Direction, Level, Origin};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::ledger::{Ending, Leaving, Ledger};

/// One call to a scheme.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Read(BlockNo),
    Write(BlockNo, bool),
    EndRequest,
    Discard(BlockNo),
    Forget(Level, BlockNo),
    Cleaned(BlockNo),
    Restore(BlockNo, bool),
    Resize(Quota),
}

/// An effect without its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed {
    ReadLevel(Level),
    ReadBacking,
    Fill(Level),
    /// To the SSD.
    WriteLevel {
        hit: bool,
        dirty: bool,
    },
    WriteDram {
        hit: bool,
    },
    WriteBacking,
    MergeLevel(Level),
    MergeBacking,
    Invalidate(Level),
    Evict {
        level: Level,
        block: BlockNo,
        dirty: bool,
    },
    Clean(BlockNo),
    /// A copy of a popular block into the SSD.
    Promote {
        block: BlockNo,
        from_dram: bool,
    },
    /// A copy into the SSD of what DRAM gives up.
    Move(BlockNo),
    /// A copy into the read SSD.
    Mirror {
        block: BlockNo,
        from: Level,
    },
    Restored(bool),
}

/// Blocks of a level with their dirtiness.
pub type Residents = BTreeMap<BlockNo, bool>;

#[derive(Debug, Default)]
struct Book {
    slots: BTreeMap<Slot, (BlockNo, bool)>,
    largest_quota: u32,
}

impl Book {
    fn holds(&self, slot: Slot, block: BlockNo) -> bool {
        self.slots.get(&slot).is_some_and(|entry| entry.0 == block)
    }

    fn take(&mut self, slot: Slot, block: BlockNo, dirty: bool) {
        assert!(slot < self.largest_quota, "slot {slot} of {} ever", self.largest_quota);
        assert!(self.slots.values().all(|entry| entry.0 != block), "block {block} is resident already");
        let before = self.slots.insert(slot, (block, dirty));
        assert_eq!(before, None, "slot {slot} is taken");
    }

    fn free(&mut self, slot: Slot, block: BlockNo) -> bool {
        let (held, dirty) = self.slots.remove(&slot).expect("only an occupied slot is freed");
        assert_eq!(held, block);
        dirty
    }
}

/// A scheme with the book of its effects.
#[derive(Debug)]
pub struct Driver {
    pub scheme: AnyScheme,
    pub counters: Counters,
    pub now_ns: u64,
    /// Who asks for what the next steps access.
    pub origin: Origin,
    /// What every other step led to, and the rest.
    halves: [Counters; 2],
    steps: usize,
    /// Where blocks came from and went.
    pub ledger: Ledger,
    /// How the last step ended, if it was a write.
    pub ending: Option<Ending>,
    books: [Book; Level::COUNT],
    /// What prefetching found out before each block's last access, which has changed since.
    old_hints: BTreeMap<BlockNo, PrefetchHint>,
}

fn observed_of_copy(block: BlockNo, to: Level, from: Option<Level>, reason: CopyReason) -> Observed {
    match (to, from, reason) {
        (Level::Ssd, from, CopyReason::Promotion) => {
            Observed::Promote { block, from_dram: from == Some(Level::Dram) }
        }
        (Level::Ssd, Some(Level::Dram), CopyReason::Move) => Observed::Move(block),
        (Level::ReadSsd, Some(from), CopyReason::Move) => Observed::Mirror { block, from },
        copy => panic!("no scheme makes {copy:?}"),
    }
}

/// All steps of prefetching for one block.
pub fn prefetch(scheme: &AnyScheme, block: BlockNo) -> PrefetchHint {
    let mut hint = PrefetchHint::new(block);
    scheme.prefetch_index(std::iter::once((block, hint)));
    scheme.prefetch_entries(std::iter::once((block, &mut hint)));
    scheme.prefetch_neighbours(std::iter::once((block, hint)));
    hint
}

/// What is known of these steps before they are taken.
pub fn future_of(steps: &[Step]) -> NextUses {
    let mut builder = NextUsesBuilder::new();
    for step in steps {
        match *step {
            Step::Read(block) | Step::Write(block, _) => builder.access(block).unwrap(),
            Step::Discard(block) => builder.discard(block),
            _ => {}
        }
    }
    builder.finish()
}

impl Driver {
    /// For schemes that need not be told what comes next.
    pub fn new(settings: &Settings, physical: Quota, quota: Quota) -> Driver {
        Driver::with_future(settings, physical, quota, &[])
    }

    /// For these steps, which a scheme is told of if it needs that.
    pub fn with_future(settings: &Settings, physical: Quota, quota: Quota, steps: &[Step]) -> Driver {
        let mut driver = Driver {
            scheme: build_with_future(settings, physical, quota, &future_of(steps)),
            counters: Counters::default(),
            now_ns: 0,
            origin: Origin::UNKNOWN,
            halves: [Counters::default(); 2],
            steps: 0,
            ledger: Ledger::default(),
            ending: None,
            books: Default::default(),
            old_hints: BTreeMap::new(),
        };
        driver.note_quota();
        driver
    }

    fn note_quota(&mut self) {
        for level in Level::ALL {
            let largest = &mut self.books[level.index()].largest_quota;
            *largest = (*largest).max(self.scheme.quota().of(level));
        }
    }

    /// Takes one step, books its effects and returns them.
    pub fn step(&mut self, step: Step) -> Vec<Observed> {
        let mut effects: Vec<Effect> = Vec::new();
        let mut observed = Vec::new();
        self.steps += 1;
        let block = match step {
            Step::Read(block) | Step::Write(block, _) | Step::Discard(block) => Some(block),
            _ => None,
        };
        match step {
            Step::Read(block) => {
                self.access(Access { origin: self.origin, ..Access::read(block) }, &mut effects);
            }
            Step::Write(block, partial) => {
                self.access(
                    Access { block, op: Direction::Write, partial, origin: self.origin },
                    &mut effects,
                );
            }
            Step::EndRequest => {
                self.now_ns += 1_000_000_000;
                self.counters.requests += 1;
                self.half().requests += 1;
                self.scheme.end_request(self.now_ns, &mut effects);
            }
            Step::Discard(block) => self.scheme.discard(block, &mut effects),
            Step::Forget(level, block) => {
                self.scheme.forget(level, block);
                let slots = &mut self.books[level.index()].slots;
                for (_, entry) in slots.extract_if(.., |_, entry| entry.0 == block) {
                    self.ledger.left(level, Leaving::Lost, entry.1);
                }
            }
            Step::Cleaned(block) => {
                self.scheme.cleaned(block);
                let entries = self.books[Level::Ssd.index()].slots.values_mut();
                let dirty = entries.filter(|entry| **entry == (block, true)).map(|entry| entry.1 = false);
                self.ledger.cleaned_outside(dirty.count());
            }
            Step::Restore(block, dirty) => {
                let slot = self.scheme.restore(block, dirty);
                observed.push(Observed::Restored(slot.is_some()));
                if let Some(slot) = slot {
                    self.books[Level::Ssd.index()].take(slot, block, dirty);
                    self.ledger.restored(dirty);
                }
            }
            Step::Resize(quota) => {
                self.scheme.resize(quota, &mut effects);
                self.note_quota();
            }
        }
        self.book_all(step, block, &effects, observed)
    }

    /// Takes the end of the host's interval.
    pub fn end_host_interval(&mut self) -> Vec<Observed> {
        let mut effects: Vec<Effect> = Vec::new();
        if let Some(timed) = self.scheme.host_timed() {
            timed.end_host_interval(&mut effects);
        }
        self.book_all(Step::EndRequest, None, &effects, Vec::new())
    }

    fn book_all(
        &mut self,
        step: Step,
        accessed: Option<BlockNo>,
        effects: &[Effect],
        mut observed: Vec<Observed>,
    ) -> Vec<Observed> {
        for effect in effects {
            self.counters.effect(effect);
            self.half().effect(effect);
            observed.push(self.book(effect, accessed));
        }
        self.ending = self.ledger.note(step, &observed);
        self.check_levels();
        observed
    }

    fn half(&mut self) -> &mut Counters {
        &mut self.halves[self.steps % 2]
    }

    fn access(&mut self, access: Access, effects: &mut Vec<Effect>) {
        self.counters.access(&access);
        self.half().access(&access);
        let hint = prefetch(&self.scheme, access.block);
        let old_hint = self.old_hints.insert(access.block, hint);
        match self.steps % 3 {
            0 => self.scheme.access(access, effects),
            1 => self.scheme.access_prefetched(access, hint, effects),
            _ => self.scheme.access_prefetched(access, old_hint.unwrap_or(hint), effects),
        }
    }

    /// `accessed` is the block of the access or discard under way.
    fn book(&mut self, effect: &Effect, accessed: Option<BlockNo>) -> Observed {
        let this = || accessed.expect("only accesses and discards speak of the accessed block");
        let books = &mut self.books;
        match *effect {
            Effect::ReadLevel { level, slot } => {
                assert!(books[level.index()].holds(slot, this()));
                Observed::ReadLevel(level)
            }
            Effect::ReadBacking => Observed::ReadBacking,
            Effect::Fill { level, slot } => {
                books[level.index()].take(slot, this(), false);
                self.ledger.came(level);
                Observed::Fill(level)
            }
            Effect::WriteLevel { level, slot, hit, dirty } => {
                let book = &mut books[level.index()];
                let was_dirty = hit && book.free(slot, this());
                assert!(dirty || !was_dirty, "a write through must not hide what is dirty");
                book.take(slot, this(), dirty);
                if !hit {
                    self.ledger.came(level);
                }
                if dirty {
                    self.ledger.dirtied(was_dirty);
                }
                match level {
                    Level::Dram => Observed::WriteDram { hit },
                    Level::Ssd => Observed::WriteLevel { hit, dirty },
                    Level::ReadSsd => panic!("the read SSD is never written to by guests"),
                }
            }
            Effect::WriteBacking => Observed::WriteBacking,
            Effect::MergeLevel { level, slot } => {
                assert!(books[level.index()].holds(slot, this()));
                Observed::MergeLevel(level)
            }
            Effect::MergeBacking => Observed::MergeBacking,
            Effect::Invalidate { level, slot } => {
                let dirty = books[level.index()].free(slot, this());
                self.ledger.left(level, Leaving::Invalidated, dirty);
                Observed::Invalidate(level)
            }
            Effect::Evict { level, slot, block, dirty } => {
                assert_eq!(books[level.index()].free(slot, block), dirty);
                self.ledger.left(level, Leaving::Evicted, dirty);
                Observed::Evict { level, block, dirty }
            }
            Effect::Clean { slot, block } => {
                assert!(books[Level::Ssd.index()].free(slot, block), "only what is dirty is cleaned");
                books[Level::Ssd.index()].take(slot, block, false);
                self.ledger.cleaned();
                Observed::Clean(block)
            }
            Effect::Copy { to, slot, block, from, reason } => {
                if let CopySource::Level { level, slot } = from {
                    assert!(books[level.index()].holds(slot, block));
                }
                books[to.index()].take(slot, block, false);
                self.ledger.came(to);
                if from.level().is_none() {
                    self.ledger.copied_from_disk();
                }
                observed_of_copy(block, to, from.level(), reason)
            }
        }
    }

    fn check_levels(&self) {
        for level in Level::ALL {
            let book = &self.books[level.index()];
            assert_eq!(book.slots.len() as u32, self.scheme.resident_blocks(level), "{}", level.name());
            assert!(self.scheme.resident_blocks(level) <= self.scheme.quota().of(level));
        }
        for level in [Level::Dram, Level::ReadSsd] {
            assert!(self.books[level.index()].slots.values().all(|entry| !entry.1), "{}", level.name());
        }
    }

    pub fn residents(&self, level: Level) -> Residents {
        self.books[level.index()].slots.values().copied().collect()
    }

    /// Dirty blocks of the SSD that no other level holds, by the book of effects.
    pub fn dirty_on_one_device(&self) -> usize {
        let mirrors = [Level::Dram, Level::ReadSsd].map(|level| self.residents(level));
        let ssd = self.residents(Level::Ssd);
        let dirty = ssd.iter().filter(|entry| *entry.1);
        dirty.filter(|(block, _)| mirrors.iter().all(|mirror| !mirror.contains_key(block))).count()
    }

    /// What must hold of the counters of every scheme: the sums of docs/reports.md, and those of the ledger.
    pub fn check_counters(&self) {
        let mut sum = self.halves[0];
        sum.add(&self.halves[1]);
        assert_eq!(sum, self.counters);
        self.ledger.check(&self.counters, Level::ALL.map(|level| self.residents(level)));
    }
}

/// A scheme's settings with these values.
pub fn settings(scheme: &str, pairs: &[(&str, &str)]) -> Settings {
    let mut settings = SchemeInfo::find(scheme).unwrap().settings();
    for (key, value) in pairs {
        settings.set(key, value).unwrap();
    }
    settings
}

/// One of `blocks` blocks: runs of neighbours in far corners of the address space.
fn any_block(blocks: u64) -> impl Strategy<Value = BlockNo> {
    (0..blocks).prop_map(|block| block + ((block / 16 % 4) << 44))
}

/// Any step on `blocks` blocks, with shares from `quotas`.
pub fn any_step(blocks: u64, quotas: BoxedStrategy<Quota>) -> impl Strategy<Value = Step> {
    let level = prop::sample::select(Level::ALL.to_vec());
    prop_oneof![
        32 => any_block(blocks).prop_map(Step::Read),
        32 => (any_block(blocks), any::<bool>()).prop_map(|(block, partial)| Step::Write(block, partial)),
        16 => Just(Step::EndRequest),
        3 => any_block(blocks).prop_map(Step::Discard),
        3 => (level, any_block(blocks)).prop_map(|(level, block)| Step::Forget(level, block)),
        3 => any_block(blocks).prop_map(Step::Cleaned),
        3 => (any_block(blocks), any::<bool>()).prop_map(|(block, dirty)| Step::Restore(block, dirty)),
        3 => quotas.prop_map(Step::Resize),
    ]
}

/// Steps under which blocks leave the SSD from anywhere, and not only those that a set would give up.
pub fn any_losing_step(blocks: u64) -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..blocks).prop_map(Step::Read),
        8 => (0..blocks).prop_map(|block| Step::Write(block, false)),
        4 => Just(Step::EndRequest),
        3 => (0..blocks).prop_map(|block| Step::Forget(Level::Ssd, block)),
        1 => (0..blocks).prop_map(Step::Discard),
    ]
}

/// Sizes from nothing to a few sets, most of them no multiple of anything.
pub fn any_blocks() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0u32), Just(1), 2u32..8, 8u32..40]
}

/// Any settings of a scheme, most numbers small so that intervals end and limits bite.
pub fn any_settings(info: &'static SchemeInfo) -> impl Strategy<Value = Settings> {
    let picks: Vec<BoxedStrategy<String>> = info.setting_infos().map(|info| any_value(&info.kind)).collect();
    picks.prop_map(move |values| {
        let mut settings = info.settings();
        for (info, value) in info.setting_infos().zip(&values) {
            settings.set(info.key, value).unwrap();
        }
        settings
    })
}

fn any_value(kind: &SettingKind) -> BoxedStrategy<String> {
    match *kind {
        SettingKind::Integer { min, max } | SettingKind::Scaled { min, max } => {
            let small = (min..=max.min(min.saturating_add(7))).prop_map(|n| n.to_string());
            prop_oneof![9 => small, 1 => Just(max.min(1 << 16).to_string())].boxed()
        }
        SettingKind::Number { min, max } => {
            let inner = (min..=max.min(min + 5.0)).prop_map(|n| n.to_string());
            prop_oneof![8 => inner, 1 => Just(min.to_string()), 1 => Just(max.to_string())].boxed()
        }
        SettingKind::Choice(words) => prop::sample::select(words).prop_map(str::to_owned).boxed(),
        SettingKind::Budget { max } => {
            let daily = (1..1u64 << 40).prop_map(|bytes| format!("{bytes}/day"));
            prop_oneof![Just("0".to_owned()), (0.0..=max).prop_map(|n| n.to_string()), daily].boxed()
        }
    }
}

/// Of what there is, the levels that the scheme uses.
pub fn used_levels(info: &SchemeInfo, physical: Quota) -> Quota {
    physical.map(|level, blocks| if info.levels.contains(&level) { blocks } else { 0 })
}

/// A share within `physical` of the levels that the scheme uses.
pub fn any_share(info: &SchemeInfo, physical: Quota) -> BoxedStrategy<Quota> {
    let most = used_levels(info, physical);
    let [dram, ssd, read_ssd] = Level::ALL.map(|level| 0..=most.of(level));
    (dram, ssd, read_ssd)
        .prop_map(|(dram, ssd, read_ssd)| Quota::new(dram, ssd).with(Level::ReadSsd, read_ssd))
        .boxed()
}

/// Any of the registry's schemes.
pub fn any_scheme() -> impl Strategy<Value = &'static SchemeInfo> {
    (0..all_schemes().len()).prop_map(|at| &all_schemes()[at])
}

/// Runs a property as `proptest!` does, for what is generated by a loop.
pub fn for_each_case<S: Strategy>(
    cases: u32,
    strategy: S,
    check: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let config = ProptestConfig { source_file: Some(file!()), ..ProptestConfig::with_cases(cases) };
    TestRunner::new(config).run(&strategy, check).unwrap_or_else(|failure| panic!("{failure}"));
}
