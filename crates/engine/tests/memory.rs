//! What tables take, counted at the allocator, with full levels under the schemes that remember most.

mod filled;

use filled::{Filled, SCHEMES};
use lode_types::Level;

const SSD_BLOCKS: u32 = 60_000;
/// What there is beside tables that grow with levels: lists of requests, queues, hash tables of what is in flight.
const OTHER_BYTES: u64 = 1 << 19;

/// The store's tables are at most 10 bytes a place, and the engine's at most 4.5 a slot; and all tables are what they are said
/// to be, and within what is promised before a volume is served.
#[test]
fn tables_take_few_bytes_a_block() {
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
