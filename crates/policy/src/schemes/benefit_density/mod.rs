//! DRAM and SSD by what they save: each block is worth the disk time that it is expected to save for each access that it
//! stays, learned from how soon blocks like it came again and how long their runs were. The least worth leaves, and a block
//! is written to the SSD when what it saves there exceeds a price.
//!
//! Our own. It takes from LHD (Beckmann, Chen, Cidon, NSDI 2018) the ranking by hit density, with classes, ages and sampled
//! victims; from GreedyDual-Size (Cao and Irani, USITS 1997) that costs differ; from Baleen (Wong et al., FAST 2024) that disk
//! time is what is saved, and by episodes, not blocks; from CacheSack (Yang et al., ATC 2022) that a write to flash is bought
//! with it.

mod ages;
mod allowance;
mod blocks;
mod company;
mod draws;
mod frames;
mod leaving;
mod order;
mod price;
mod runs;
mod samples;
mod worth;

use lode_types::{Access, BlockNo, Direction, Level, Rng};

use crate::effect::{Effect, Sink, Slot};
use crate::needs::Adjacency;
use crate::parts::ssd_level::Id;
use crate::prefetch::{Lookahead, Prefetch, PrefetchHint};
use crate::quota::Quota;
use crate::registry::{AnyScheme, SchemeInfo};
use crate::scheme::{Budgeting, Scheme};
use crate::settings::{OFF, ON, SettingInfo, Settings, WriteBudget};
use crate::tracked::{Footprint, percent_of};
use ages::{Ages, Kind};
use blocks::{Blocks, Record};
use company::Turns;
use draws::Draws;
use frames::{FORMS, Frame, by_form};
use leaving::{COMPANY, Leaving};
pub(crate) use order::Order;
use price::Price;
use runs::Runs;
use samples::Samples;

pub(crate) static SETTINGS: &[SettingInfo] = &[
    SettingInfo::number("write_price_us", "10", 0.0, 1e6)
        .about("what a block must save on the SSD to be written there, in microseconds that guests do not wait for the disk")
        .source("ours: a small price, that keeps out what hardly saves anything"),
    SettingInfo::budget("write_budget", "0", 1000.0)
        .about("most that is written to the SSD, at a price that follows: blocks for each hundred block accesses, or a size for each day; 0: any number")
        .source("ours"),
    SettingInfo::number("write_back_weight", "0.1", 0.0, 1.0)
        .about("what a write-back that a later write makes needless saves, as a part of what a read saves")
        .source("ours: nobody waits for it, but the disk works"),
    SettingInfo::integer("ghost_percent", "100", 0, 1000)
        .about("blocks that are remembered for each hundred of both levels")
        .source("ours"),
    SettingInfo::integer("samples", "32", 1, 1024)
        .about("blocks of a level among which the one that leaves is chosen")
        .source("ours; LHD: 64"),
    SettingInfo::choice("runs", ON, &[ON, OFF])
        .about("on: the disk seeks once for neighbouring blocks that come one after the other, and these leave together; off: once for each block")
        .source("ours"),
    SettingInfo::number("disk_random_us", "8000", 1.0, 1e9)
        .about("time of a disk read that seeks")
        .source("the default devices"),
    SettingInfo::number("disk_write_us", "16000", 1.0, 1e9)
        .about("time of a disk write that seeks")
        .source("the default devices as a RAID-5; with a single disk it does no harm"),
    SettingInfo::number("disk_sequential_us", "100", 0.0, 1e9)
        .about("time of a disk command that goes on where the last one ended")
        .source("the default devices"),
    SettingInfo::number("ssd_read_us", "120", 0.0, 1e9).about("time of an SSD read").source("the default devices"),
    SettingInfo::number("ssd_write_us", "60", 0.0, 1e9)
        .about("time of an SSD write")
        .source("the default devices"),
    SettingInfo::number("dram_us", "2", 0.0, 1e9).about("time of a DRAM read").source("the default devices"),
];

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo {
    name: "benefit-density",
    about: "DRAM and SSD by the disk time that blocks are expected to save; a block is written to the SSD when that \
            exceeds a price, which can follow a budget",
    source: "ours, after LHD (Beckmann et al., NSDI 2018)",
    tables: &[SETTINGS, order::SETTING],
    build: |settings, _, quota| {
        let order = Order::new(settings);
        AnyScheme::BenefitDensity(Box::new(BenefitDensity::new(settings, quota, order)))
    },
    footprint: Footprint::new(128 << 10, 96)
        .remembering(|settings, share_blocks, _| percent_of(share_blocks, settings, "ghost_percent")),
    levels: &[Level::Dram, Level::Ssd],
    adjacency: Some(Adjacency { key: "runs", off: OFF, what: "runs of neighbouring blocks" }),
    ..SchemeInfo::PLAIN
};

/// Accesses from one estimate to the next at least, and as many as there are blocks in both levels at most.
const LEAST_ESTIMATE: u64 = 500;
/// Known blocks that an estimate looks at, about.
const LOOKED_AT: usize = 16_384;
/// A block is not expected to stay longer than so many times the blocks of both levels.
const HORIZON: f64 = 2.0;
/// How fast means follow what they are of: the worth of SSD victims, the length of writes.
const WORTH_RATE: f64 = 0.01;
const LENGTH_RATE: f64 = 0.02;
/// The write request that is being decided.
#[derive(Debug)]
struct WriteRequest {
    blocks: u32,
    /// They would enter at the least price.
    is_wanted: bool,
    /// Blocks that requests have, on average.
    mean_blocks: f64,
    /// Whether blocks that the SSD lacks enter it; decided at the first of them.
    enters: Option<bool>,
}

/// One VM's DRAM and SSD.
#[derive(Debug)]
pub struct BenefitDensity {
    blocks: Blocks,
    ages: Ages,
    runs: Runs,
    price: Price,
    order: Order,
    draws: Draws,
    /// `None`: runs are not followed.
    turns: Option<Turns>,
    /// Of blocks that were accessed before, it is not known which are alone.
    all_noted_from: u64,
    /// Accesses so far.
    clock: u64,
    next_estimate: u64,
    /// Of each level.
    leaving: [Option<Leaving>; 2],
    write: WriteRequest,
    /// What the SSD's victims save for each access, on average: what a place there is worth.
    victim_worth: f64,
    /// The address behind the disk's last command.
    disk_next: Option<BlockNo>,
    ghost_percent: u64,
    samples: Samples,
    seek_us: f64,
    disk_write_us: f64,
    sequential_us: f64,
    ssd_write_us: f64,
    /// What a copy in DRAM of what the SSD has saves, as a part of what the copy there does.
    dram_part: f64,
    /// For each level, what copies save there, as a part of what the SSD's copy alone would, by [`Aged::form`](frames::Aged::form).
    parts: [[f64; FORMS]; 2],
}

impl BenefitDensity {
    /// A cache with this share, in this order.
    pub(crate) fn new(settings: &Settings, quota: Quota, order: Order) -> BenefitDensity {
        let seek_us = settings.number("disk_random_us");
        let faster_us = settings.number("ssd_read_us") - settings.number("dram_us");
        let dram_part = faster_us.max(0.0) / seek_us;
        BenefitDensity {
            blocks: Blocks::new(quota),
            ages: Ages::new(),
            runs: Runs::new(settings.is_on("runs"), seek_us, settings.number("write_back_weight")),
            price: Price::new(settings),
            order,
            draws: Draws::new(Rng::new(0)),
            turns: settings.is_on("runs").then(Turns::new),
            all_noted_from: 0,
            clock: 0,
            next_estimate: 0,
            leaving: [None; 2],
            write: WriteRequest { blocks: 0, is_wanted: false, mean_blocks: 1.0, enters: None },
            victim_worth: 0.0,
            disk_next: None,
            ghost_percent: settings.integer("ghost_percent"),
            samples: Samples::new(settings.integer("samples")),
            seek_us,
            disk_write_us: settings.number("disk_write_us"),
            sequential_us: settings.number("disk_sequential_us"),
            ssd_write_us: settings.number("ssd_write_us"),
            dram_part,
            parts: [by_form(|_, is_double| if is_double { dram_part } else { 1.0 }), [1.0; FORMS]],
        }
    }

    /// Sets `write_price_us` anew. What is known of blocks stays.
    pub(crate) fn set_write_price(&mut self, us: f64) {
        self.price.set_least(us);
    }

    /// Chooses among so many times as many blocks of a large level from now on.
    pub(crate) fn multiply_samples(&mut self, times: u64) {
        self.samples = self.samples.times(times);
    }

    /// Where a block is in a level, and whether the copy is newer than the disk.
    pub(crate) fn copy(&self, level: Level, block: BlockNo) -> Option<(Slot, bool)> {
        let id = self.blocks.find_block(block)?;
        let dirty = level == Level::Ssd && self.blocks.get(id).dirty;
        self.blocks.slot(id, level).map(|slot| (slot, dirty))
    }

    /// Every slot of a level that holds a block, in any order.
    pub(crate) fn each_slot(&self, level: Level, note: &mut dyn FnMut(Slot)) {
        self.blocks.slots(level).for_each(note);
    }

    /// Notes an access to a block before it is decided.
    fn note(&mut self, access: &Access, hint: PrefetchHint) -> Id {
        self.clock += 1;
        self.price.note_access();
        if self.clock >= self.next_estimate {
            self.estimate();
        }
        let before = self.runs.before(access.block).filter(|&(id, block)| self.blocks.is_of(id, block));
        if self.runs.goes_on(access.block) {
            self.runs.go_on(access.block);
        } else {
            self.end_run();
            self.runs.begin(access.block);
        }
        let kind = match (access.op, access.partial) {
            (Direction::Read, _) => Kind::Read,
            (Direction::Write, false) => Kind::Write,
            (Direction::Write, true) => Kind::PartialWrite,
        };
        if kind != Kind::Write {
            let ages = &mut self.ages;
            let is_read = kind == Kind::Read;
            self.runs.note_command(access.block, is_read, |at, saved| ages.note_saved(at, saved));
        }
        let id = match self.blocks.find(hint, access.block) {
            Some(id) => {
                self.note_again(id, kind);
                id
            }
            None => self.blocks.insert(hint.hash, Record::new(access.block, self.clock as u32)),
        };
        let (clock, run) = (self.clock as u32, runs::class_of(self.runs.blocks()));
        let has_company = self.note_company(access.block, before.map(|(id, _)| id));
        self.blocks.update(id, |record| {
            let aged = record.aged();
            let since = clock.wrapping_sub(aged.last);
            record.interval = match record.accesses {
                0 | 1 => since,
                _ => (f64::from(record.interval) * f64::from(since)).sqrt() as u32,
            };
            record.kind = kind;
            record.accesses = record.accesses.saturating_add(1);
            let run = aged.run().max(run);
            let class = ages::class_of(record.accesses, record.interval, kind, run);
            aged.accessed(clock).with_run(run, class).with_company(has_company)
        });
        self.runs.note_record(id);
        id
    }

    /// A known block is accessed: a read, or a write that needs the rest of the block, need not wait for the disk when it is
    /// cached; another write makes an earlier one's write-back needless.
    fn note_again(&mut self, id: Id, kind: Kind) {
        let record = *self.blocks.get(id);
        let aged = record.aged();
        let at = self.ages.note_again(aged.class, self.since(aged));
        let ages = &mut self.ages;
        let count = |at, saved| ages.note_saved(at, saved);
        match (kind, record.kind) {
            (Kind::Write, Kind::Read) => {}
            (Kind::Write, _) => self.runs.note_write_back(at, aged.run(), count),
            _ => self.runs.note_saving(at, aged.run(), count),
        }
        if record.is_ghost() {
            self.blocks.leave_ghosts(id);
        }
    }

    /// The length of the run is known now.
    fn end_run(&mut self) {
        let ages = &mut self.ages;
        self.runs.settle(|at, saved| ages.note_saved(at, saved));
        let run = runs::class_of(self.runs.blocks());
        for (block, id) in self.runs.records() {
            if self.blocks.is_of(id, block) {
                let record = self.blocks.get(id);
                let aged = record.aged();
                // Otherwise the class stays as it is, too.
                if aged.run() != run {
                    let class = ages::class_of(record.accesses, record.interval, record.kind, run);
                    self.blocks.set_aged(id, aged.with_run(run, class));
                }
            }
        }
    }

    #[inline(never)]
    fn estimate(&mut self) {
        let quota = self.blocks.quota();
        let both = u64::from(quota.dram_blocks) + u64::from(quota.ssd_blocks);
        self.next_estimate = self.clock + both.min(self.clock).max(LEAST_ESTIMATE);
        self.runs.estimate();
        let step = self.blocks.records().div_ceil(LOOKED_AT);
        let clock = self.clock as u32;
        let aged = self.blocks.each(step).map(Record::aged);
        let live = aged.map(|aged| (aged.class, clock.wrapping_sub(aged.last)));
        self.ages.estimate(live, step as f32, HORIZON * both as f64);
    }

    fn fill_dram<S: Sink>(&mut self, id: Id, sink: &mut S) {
        let slot = self.blocks.put(id, Level::Dram);
        sink.effect(Effect::Fill { level: Level::Dram, slot });
    }

    fn read<S: Sink>(&mut self, id: Id, sink: &mut S) {
        if let Some(slot) = self.blocks.slot(id, Level::Dram) {
            sink.effect(Effect::ReadLevel { level: Level::Dram, slot });
        } else if let Some(slot) = self.blocks.slot(id, Level::Ssd) {
            sink.effect(Effect::ReadLevel { level: Level::Ssd, slot });
            self.copy_to_dram(id, sink);
        } else {
            self.note_on_disk(self.blocks.get(id).block);
            sink.effect(Effect::ReadBacking);
            if self.blocks.capacity(Level::Dram) == 0 {
                self.fill_ssd(id, sink);
            } else {
                if self.is_dram_full()
                    && let Some((leaves, is_copied)) = self.next_to_leave(Level::Dram, None)
                {
                    self.demote(leaves, is_copied, None, sink);
                }
                self.fill_dram(id, sink);
            }
        }
    }

    fn is_dram_full(&self) -> bool {
        self.blocks.cached(Level::Dram) >= self.blocks.capacity(Level::Dram)
    }

    /// A block that the SSD has comes to DRAM as well if it saves more there than what would leave. By recency it would only take the
    /// place of another one.
    fn copy_to_dram<S: Sink>(&mut self, id: Id, sink: &mut S) {
        if self.blocks.capacity(Level::Dram) == 0 || self.order == Order::Recency {
            return;
        }
        if self.is_dram_full() {
            let below = self.worth(self.blocks.get(id).aged()) * self.dram_part;
            let Some(Frame { id: least, aged, .. }) = self.least_worth(Level::Dram, None, below) else {
                return;
            };
            let is_copied = self.is_worth_a_write(self.surplus_us(aged), 1);
            self.demote(least, is_copied, Some(id), sink);
        }
        self.fill_dram(id, sink);
    }

    /// Without DRAM what was read enters the SSD at once, if it is worth that.
    fn fill_ssd<S: Sink>(&mut self, id: Id, sink: &mut S) {
        let is_worth_it = self.is_worth_a_write(self.surplus_us(self.blocks.get(id).aged()), 1);
        let has_place = self.blocks.capacity(Level::Ssd) > 0;
        if is_worth_it && has_place && self.price.pay() && self.make_room_on_ssd(None, None, sink) {
            let slot = self.blocks.put(id, Level::Ssd);
            sink.effect(Effect::Fill { level: Level::Ssd, slot });
        } else {
            self.settle(id);
        }
    }

    /// The disk serves the accessed block.
    fn note_on_disk(&mut self, block: BlockNo) {
        self.disk_next = block.checked_add(1);
    }

    fn write<S: Sink>(&mut self, id: Id, partial: bool, sink: &mut S) {
        self.write.blocks += 1;
        let in_dram = self.blocks.slot(id, Level::Dram);
        let in_ssd = self.blocks.slot(id, Level::Ssd);
        let enters = in_ssd.is_some() || self.enters(id, partial, in_dram.is_none());
        // A block that is there is not made to leave for itself.
        if enters && self.price.pay() && (in_ssd.is_some() || self.make_room_on_ssd(None, None, sink)) {
            if partial {
                self.merge(id, in_dram, in_ssd, sink);
            }
            self.invalidate(id, Level::Dram, sink);
            let slot = in_ssd.unwrap_or_else(|| self.blocks.put(id, Level::Ssd));
            self.blocks.get_mut(id).dirty = true;
            sink.effect(Effect::WriteLevel { level: Level::Ssd, slot, hit: in_ssd.is_some(), dirty: true });
            return;
        }
        self.invalidate(id, Level::Dram, sink);
        if let Some(slot) = in_ssd {
            // The write may be of a part of the block, and the rest of it be nowhere else.
            let block = self.blocks.get(id).block;
            self.blocks.take(id, Level::Ssd);
            sink.effect(match std::mem::take(&mut self.blocks.get_mut(id).dirty) {
                true => Effect::Evict { level: Level::Ssd, slot, block, dirty: true },
                false => Effect::Invalidate { level: Level::Ssd, slot },
            });
        }
        self.note_on_disk(self.blocks.get(id).block);
        sink.effect(Effect::WriteBacking);
        self.settle(id);
    }

    /// The rest of a block that is written in part comes from the fastest copy.
    fn merge<S: Sink>(&mut self, id: Id, in_dram: Option<Slot>, in_ssd: Option<Slot>, sink: &mut S) {
        sink.effect(match (in_dram, in_ssd) {
            (Some(slot), _) => Effect::MergeLevel { level: Level::Dram, slot },
            (None, Some(slot)) => Effect::MergeLevel { level: Level::Ssd, slot },
            (None, None) => {
                self.note_on_disk(self.blocks.get(id).block);
                Effect::MergeBacking
            }
        });
    }

    /// The accessed block's copy in a level is stale, if there is one. The caller settles it.
    fn invalidate<S: Sink>(&mut self, id: Id, level: Level, sink: &mut S) {
        if self.blocks.get(id).is_in(level) {
            let slot = self.blocks.take(id, level);
            sink.effect(Effect::Invalidate { level, slot });
        }
    }

    /// Whether a block that the SSD lacks is written there. The first of a request decides for all of them, because the request is as
    /// slow as its slowest block: what it saves at once counts, and what the block saves later. If it decides for the disk, a block that
    /// is written in part, most often the last one, may still be worth a write by itself: the next request that begins with it would have
    /// to read what the disk's head has just passed. `is_nowhere`: the rest of such a block has to be read from the disk first, so that
    /// only what a write takes longer is saved at once.
    fn enters(&mut self, id: Id, partial: bool, is_nowhere: bool) -> bool {
        if let Some(enters) = self.write.enters {
            let alone_us = if partial && !enters { self.surplus_us(self.blocks.get(id).aged()) } else { 0.0 };
            let enters = enters || alone_us > self.price.us();
            if !enters && (self.write.is_wanted || self.price.is_worth_the_least(alone_us)) {
                self.price.note_wanted(1);
            }
            return enters && self.blocks.capacity(Level::Ssd) > 0;
        }
        let record = self.blocks.get(id);
        let blocks = self.write.mean_blocks;
        let (disk_us, blocks) = if self.disk_next == Some(record.block) {
            (self.sequential_us, blocks)
        } else if partial && is_nowhere {
            (self.disk_write_us - self.seek_us, blocks)
        } else {
            // A run that is long already is expected to go on for as long.
            (self.disk_write_us, blocks.max(self.runs.blocks() as f64))
        };
        let saved_us = (disk_us - self.ssd_write_us) / blocks + self.surplus_us(record.aged());
        let enters = self.is_worth_a_write(saved_us, 1);
        self.write.is_wanted = self.order == Order::Recency || self.price.is_worth_the_least(saved_us);
        self.write.enters = Some(enters);
        enters && self.blocks.capacity(Level::Ssd) > 0
    }
}

impl Prefetch for BenefitDensity {
    #[inline]
    fn prefetch_index(&self, blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {
        blocks.for_each(|(_, hint)| self.blocks.prefetch_index(hint.hash));
    }

    #[inline]
    fn prefetch_entries<'a>(&self, blocks: impl Iterator<Item = (BlockNo, &'a mut PrefetchHint)>) {
        blocks.for_each(|(_, hint)| hint.entry = self.blocks.prefetch_entry(hint.hash));
    }

    #[inline]
    fn prefetch_neighbours(&self, blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {
        if self.blocks.are_places_far() {
            blocks.for_each(|(_, hint)| self.blocks.prefetch_places(hint.entry));
        }
    }
}

impl Lookahead for BenefitDensity {
    #[inline]
    fn access_prefetched<S: Sink>(&mut self, access: Access, hint: PrefetchHint, sink: &mut S) {
        let id = self.note(&access, hint);
        match access.op {
            Direction::Read => self.read(id, sink),
            Direction::Write => self.write(id, access.partial, sink),
        }
    }
}

impl Scheme for BenefitDensity {
    #[inline]
    fn access<S: Sink>(&mut self, access: Access, sink: &mut S) {
        self.access_prefetched(access, PrefetchHint::new(access.block), sink);
    }

    #[inline]
    fn end_request<S: Sink>(&mut self, now_ns: u64, _: &mut S) {
        self.price.end_request(now_ns);
        let ages = &mut self.ages;
        self.runs.end_request(|at, saved| ages.note_saved(at, saved));
        let write = &mut self.write;
        if write.blocks > 0 {
            write.mean_blocks += (f64::from(write.blocks) - write.mean_blocks) * LENGTH_RATE;
        }
        (write.blocks, write.enters) = (0, None);
    }

    fn discard<S: Sink>(&mut self, block: BlockNo, sink: &mut S) {
        let Some(id) = self.blocks.find_block(block) else { return };
        if self.blocks.get(id).is_ghost() {
            self.blocks.leave_ghosts(id);
        }
        Level::SIZED.into_iter().for_each(|level| self.invalidate(id, level, sink));
        self.blocks.forget(id);
    }

    fn forget(&mut self, level: Level, block: BlockNo) {
        if let Some(id) = self.blocks.find_block(block)
            && level != Level::ReadSsd
            && self.blocks.get(id).is_in(level)
        {
            self.blocks.take(id, level);
            if level == Level::Ssd {
                self.blocks.get_mut(id).dirty = false;
            }
            self.settle(id);
        }
    }

    fn cleaned(&mut self, block: BlockNo) {
        if let Some(id) = self.blocks.find_block(block) {
            self.blocks.get_mut(id).dirty = false;
        }
    }

    fn restore(&mut self, block: BlockNo, dirty: bool) -> Option<Slot> {
        let hint = PrefetchHint::new(block);
        let known = self.blocks.find(hint, block);
        let is_in_ssd = known.is_some_and(|id| self.blocks.get(id).is_in(Level::Ssd));
        if is_in_ssd || self.blocks.cached(Level::Ssd) >= self.blocks.capacity(Level::Ssd) {
            return None;
        }
        let id = match known {
            Some(id) => {
                if self.blocks.get(id).is_ghost() {
                    self.blocks.leave_ghosts(id);
                }
                id
            }
            None => self.blocks.insert(hint.hash, Record::new(block, self.clock as u32)),
        };
        self.blocks.get_mut(id).dirty = dirty;
        self.all_noted_from = self.clock + u64::from(COMPANY) + 1;
        Some(self.blocks.put(id, Level::Ssd))
    }

    fn expect(&mut self, blocks: u32) {
        self.blocks.expect(blocks.min(self.blocks.capacity(Level::Ssd)));
    }

    fn resize<S: Sink>(&mut self, quota: Quota, sink: &mut S) {
        self.blocks.set_quota(quota);
        for level in Level::SIZED {
            while self.blocks.cached(level) > quota.of(level) {
                let Some((id, _)) = self.next_to_leave(level, None) else { break };
                self.evict(id, level, sink);
            }
        }
        self.bound_ghosts();
    }

    fn quota(&self) -> Quota {
        self.blocks.quota()
    }

    fn resident_blocks(&self, level: Level) -> u32 {
        if level == Level::ReadSsd { 0 } else { self.blocks.cached(level) }
    }

    fn memory_bytes(&self) -> usize {
        self.blocks.memory_bytes()
            + self.ages.memory_bytes()
            + self.runs.memory_bytes()
            + self.price.memory_bytes()
            + self.turns.as_ref().map_or(0, Turns::memory_bytes)
    }

    fn budgeting(&mut self) -> Option<&mut dyn Budgeting> {
        Some(self)
    }
}

impl Budgeting for BenefitDensity {
    fn set_host_budget(&mut self, budget: WriteBudget) {
        self.price.set_of_host(budget);
    }

    fn wanted_blocks(&mut self) -> u64 {
        self.price.wanted_blocks()
    }
}
