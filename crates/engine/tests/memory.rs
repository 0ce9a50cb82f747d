//! What tables take, counted at the allocator, with full levels under the schemes that remember most.

mod filled;

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use filled::{Filled, SCHEMES};
use lode_allocations::{held_bytes, most_bytes, restart_most};
use lode_policy::SchemeInfo;
use lode_types::Level;

const SSD_BLOCKS: u32 = 60_000;
/// What there is beside tables that grow with levels: lists of requests, queues, hash tables of what is in flight.
const OTHER_BYTES: u64 = 1 << 19;

/// The tests count what the whole process has.
static ALONE: Mutex<()> = Mutex::new(());

/// The store's tables are at most 10 bytes a place, and the engine's at most 4.5 a slot; and all tables are what they are said
/// to be, and within what is promised before a volume is served.
#[test]
fn tables_take_few_bytes_a_block() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (scheme, pairs, most_a_block) in SCHEMES {
        let filled = Filled::new(scheme, pairs, SSD_BLOCKS);
        let memory = filled.engine.memory();
        let (said, counted) = (memory.tables_bytes(), filled.allocated_bytes as u64);
        let blocks = filled.cached_blocks();
        println!(
            "{scheme} {pairs:?}: {:.1} bytes a block of {blocks}, {memory:?}",
            counted as f64 / blocks as f64
        );
        let is_full = filled.ssd_blocks() >= u64::from(SSD_BLOCKS) * 9 / 10;
        assert!(is_full, "{scheme}: {} blocks", filled.ssd_blocks());
        assert!(counted <= blocks * most_a_block + OTHER_BYTES, "{scheme}: {counted} for {blocks} blocks");
        assert!(counted <= said * 11 / 10 + OTHER_BYTES, "{scheme}: {counted} and not {said}");
        let places = filled.config.ssd_places().next_multiple_of(filled.extent_places.into());
        // What is not durable yet has its version in a table of its own, and that is as large as it ever was.
        assert!(memory.ssd_places_bytes <= places * 10 + (1 << 17), "{scheme}: {memory:?}");
        assert!(memory.read_ssd_places_bytes * 10 <= u64::from(SSD_BLOCKS) * 140, "{scheme}: {memory:?}");
        let slots: u64 = Level::ALL.into_iter().map(|level| filled.config.places(level)).sum();
        assert!(memory.slots_bytes * 10 <= slots * 45, "{scheme}: {memory:?}");
        let bound = filled.config.most_memory(&filled.settings, filled.extent_places);
        for ((table, bytes), (_, most)) in memory.tables().into_iter().zip(bound.tables()) {
            assert!(bytes <= most, "{scheme}, {table}: {bytes} of at most {most} bytes");
        }
    }
}

/// A switch of the scheme takes as much memory while it lasts as is promised before it begins, and leaves as much as the new scheme
/// takes.
#[test]
fn a_switch_takes_what_it_is_said_to_take() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (from, to, pairs) in [
        ("lru", "etica", &["distances=sampled"][..]),
        ("etica", "rpac", &[]),
        ("lru", "lru", &["write_policy=wt"]),
    ] {
        let mut filled = Filled::new(from, &[], SSD_BLOCKS);
        let mut settings = SchemeInfo::find(to).unwrap().settings();
        pairs.iter().for_each(|pair| settings.set_pair(pair).unwrap());
        let (blocks, dirty) = (filled.ssd_blocks(), u64::from(filled.engine.gauges().dirty_blocks));
        let said = filled.config.most_switch_memory_bytes(&settings, dirty);
        let before = held_bytes();
        restart_most();
        let began = Instant::now();
        assert!(filled.engine.switch_scheme(&settings, None));
        let took = began.elapsed();
        assert!(!filled.engine.is_switching());
        let most = (most_bytes() - before) as u64;
        println!(
            "{from} to {to} {pairs:?}: {blocks} blocks, {dirty} dirty: {:.2} us and {:.1} bytes a block, said {:.1}",
            took.as_secs_f64() * 1e6 / blocks as f64,
            most as f64 / blocks as f64,
            said as f64 / blocks as f64,
        );
        assert!(most <= said + OTHER_BYTES, "{from} to {to}: {most} bytes and not {said}");
    }
}
