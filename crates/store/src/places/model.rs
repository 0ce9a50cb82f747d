//! Places against a plain list that keeps a version for each, under random operations: what is held, and how what table
//! pages say compares with the exact versions.

use std::collections::{HashMap, VecDeque};

use proptest::prelude::*;

use super::*;

const SLOTS: u32 = 300;
const PAGES: u32 = 2;
const EXTENTS: u32 = 2;
const BLOCKS: u64 = 40;

/// What is done to a block, or to all.
#[derive(Clone, Copy, Debug)]
enum Step {
    Put {
        block: BlockNo,
        dirty: bool,
        volatile: bool,
    },
    GiveUp {
        block: BlockNo,
    },
    Clean {
        block: BlockNo,
    },
    /// The backing disk was flushed.
    MakeKnown,
    /// So much more is durable.
    Durable {
        versions: u64,
    },
    Mark,
    WritePages,
}

fn step() -> impl Strategy<Value = Step> {
    let block = || 0..BLOCKS;
    prop_oneof![
        6 => (block(), any::<bool>(), any::<bool>())
            .prop_map(|(block, dirty, volatile)| Step::Put { block, dirty, volatile }),
        2 => block().prop_map(|block| Step::GiveUp { block }),
        2 => block().prop_map(|block| Step::Clean { block }),
        1 => Just(Step::MakeKnown),
        3 => (1u64..20).prop_map(|versions| Step::Durable { versions }),
        1 => Just(Step::Mark),
        1 => Just(Step::WritePages),
    ]
}

/// A place of the plain list.
#[derive(Clone, Copy, Debug, Default)]
struct Plain {
    entry: TableEntry,
    volatile: bool,
}

/// The plain list, and what belongs to it.
struct Model {
    places: Places,
    plain: Vec<Plain>,
    at: HashMap<BlockNo, Place>,
    /// Places that wait for a version, and whether they are clean or free then.
    pending: VecDeque<(u64, Place, EntryState)>,
    volatile: Vec<(Place, u64)>,
    /// The latest version that was marked.
    marked: u64,
    durable: u64,
    /// What pages said: block, exact version, and the version on the page.
    written: Vec<(BlockNo, u64, u64)>,
    records: Vec<(BlockNo, u64)>,
}

impl Model {
    fn new() -> Model {
        let mut contents = Contents::new(SLOTS, BLOCKS);
        (0..EXTENTS as usize).for_each(|extent| contents.insert_extent(extent));
        let places = SLOTS * EXTENTS;
        let (contents, shape) = ((contents, 0), (SLOTS, PAGES));
        Model {
            places: Places::new(VolumeTag(1), contents, 0, shape, vec![3, 7], places.into()),
            plain: vec![Plain::default(); places as usize],
            at: HashMap::new(),
            pending: VecDeque::new(),
            volatile: Vec::new(),
            marked: 0,
            durable: 0,
            written: Vec::new(),
            records: Vec::new(),
        }
    }

    fn is_pending(&self, place: Place) -> bool {
        self.pending.iter().any(|&(_, pending, _)| pending == place)
    }

    /// The place of a block of which nothing is under way.
    fn settled(&self, block: BlockNo) -> Option<(Place, Plain)> {
        let place = *self.at.get(&block)?;
        (!self.is_pending(place)).then(|| (place, self.plain[place as usize]))
    }

    fn put(&mut self, block: BlockNo, dirty: bool, volatile: bool) {
        let old = match self.at.get(&block) {
            Some(_) => match self.settled(block) {
                Some(old) => Some(old),
                None => return,
            },
            None => None,
        };
        if self.places.free() == 0
            || old.is_some_and(|(_, old)| old.entry.state == EntryState::Dirty && !dirty)
        {
            return;
        }
        let volatile = volatile && !dirty;
        let place = self.places.take();
        let crc = self.places.version() as u32 * 7 + block as u32;
        self.places.put(place, block, crc, dirty, volatile, old.map(|(place, _)| place));
        let version = self.places.version();
        let state = if dirty { EntryState::Dirty } else { EntryState::Clean };
        assert_eq!(self.plain[place as usize].entry.state, EntryState::Free);
        self.plain[place as usize] = Plain { entry: TableEntry { state, block, version, crc }, volatile };
        self.at.insert(block, place);
        if volatile {
            self.volatile.push((place, version));
        }
        match old {
            Some((old, plain)) if plain.entry.state == EntryState::Dirty => {
                self.pending.push_back((version, old, EntryState::Free));
            }
            Some((old, _)) => self.plain[old as usize] = Plain::default(),
            None => {}
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Put { block, dirty, volatile } => self.put(block, dirty, volatile),
            Step::GiveUp { block } => {
                let Some((place, plain)) = self.settled(block) else { return };
                if plain.entry.state == EntryState::Dirty {
                    let version = self.places.give_up_dirty(place);
                    self.pending.push_back((version, place, EntryState::Free));
                } else {
                    self.places.give_up_clean(place);
                    assert!(plain.volatile || self.places.may_come_back(block));
                    self.plain[place as usize] = Plain::default();
                }
                self.at.remove(&block);
            }
            Step::Clean { block } => {
                if let Some((place, Plain { entry: TableEntry { state: EntryState::Dirty, .. }, .. })) =
                    self.settled(block)
                {
                    let version = self.places.clean(place);
                    self.pending.push_back((version, place, EntryState::Clean));
                }
            }
            Step::MakeKnown => {
                for (place, version) in std::mem::take(&mut self.volatile) {
                    self.places.make_known(place, version);
                    let plain = &mut self.plain[place as usize];
                    if plain.volatile && plain.entry.version == version {
                        plain.entry.version = self.places.version();
                        plain.volatile = false;
                    }
                }
            }
            Step::Durable { versions } => {
                self.durable = (self.durable + versions).min(self.places.version());
                self.places.durable(self.durable);
                while let Some((at, place, state)) =
                    self.pending.pop_front_if(|pending| pending.0 <= self.durable)
                {
                    let plain = &mut self.plain[place as usize];
                    *plain = match state {
                        EntryState::Free => Plain::default(),
                        state => {
                            Plain { entry: TableEntry { state, version: at, ..plain.entry }, volatile: false }
                        }
                    };
                }
            }
            Step::Mark => {
                self.places.mark();
                self.marked = self.places.version();
            }
            Step::WritePages => self.write_pages(),
        }
        self.records.extend(self.places.records.drain(..).map(|record| (record.block, record.version)));
    }

    fn write_pages(&mut self) {
        for page in 0..PAGES * EXTENTS {
            let first = page / PAGES * SLOTS + page % PAGES * 166;
            for (place, written) in (first..).zip(self.places.page_entries(page)) {
                let Plain { entry, volatile } = self.plain[place as usize];
                if volatile || entry.state == EntryState::Free {
                    assert_eq!(written, TableEntry::default());
                    continue;
                }
                assert_eq!(TableEntry { version: entry.version, ..written }, entry);
                if entry.version > self.durable {
                    assert_eq!(written.version, entry.version, "what is checked against its bytes");
                }
                assert!((entry.version..=self.durable.max(entry.version)).contains(&written.version));
                self.written.push((entry.block, entry.version, written.version));
            }
        }
    }

    fn check(&self) {
        let era = self.places.era_of(self.marked);
        for (place, &Plain { entry, volatile }) in (0..).zip(&self.plain) {
            let TableEntry { state, block, version, crc } = entry;
            if state == EntryState::Free {
                assert_eq!(self.places.held(place), HeldBlock::default());
                continue;
            }
            assert_eq!(self.places.held(place), HeldBlock { state, block, crc });
            assert_eq!(self.places.is_volatile(place), volatile);
            let recorded_at = self.places.recorded_at(place);
            assert!(recorded_at == version || (version <= self.durable && recorded_at <= self.durable));
            if state == EntryState::Dirty {
                assert_eq!(self.places.is_up_to(place, era), version <= self.marked, "{place}, {version}");
            }
        }
        let dirty = self.plain.iter().filter(|plain| plain.entry.state == EntryState::Dirty).count();
        assert_eq!(self.places.dirty() as usize, dirty);
        let dirty = (0..).zip(&self.plain).filter(|(_, plain)| plain.entry.state == EntryState::Dirty);
        let oldest = dirty.map(|(place, _)| self.places.era(place)).min();
        let found = self.places.oldest_dirty();
        assert_eq!(found.map(|version| self.places.era_of(version)), oldest);
    }

    /// Versions on pages compare as the exact ones do: with each other's, and with those of records.
    fn check_order(&self) {
        for &(block, exact, on_page) in &self.written {
            for &(other, version) in self.records.iter().filter(|record| record.0 == block) {
                assert_eq!(version <= exact, version <= on_page, "{other}: {version}, {exact}, {on_page}");
            }
            for &(_, other, other_on_page) in self.written.iter().filter(|other| other.0 == block) {
                assert!(
                    other <= exact || other_on_page > on_page,
                    "{exact} {on_page}, {other} {other_on_page}"
                );
            }
        }
    }
}

proptest! {
    #[test]
    fn they_are_a_plain_list_with_versions(steps in proptest::collection::vec(step(), 1..250)) {
        let mut model = Model::new();
        for (number, step) in steps.into_iter().enumerate() {
            model.take(step);
            if number % 4 == 0 {
                model.check();
            }
        }
        model.check();
        model.check_order();
    }
}
