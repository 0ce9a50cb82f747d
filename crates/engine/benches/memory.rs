//! Bytes of memory for each cached block, table by table, of engines with full levels: what tables say, and what the allocator
//! counted. Frames are left out. `cargo bench -p lode-engine --bench memory -- 4000000` fills an SSD level of so many blocks.

#[path = "../tests/filled/mod.rs"]
mod filled;

use filled::{Filled, SCHEMES};

/// Blocks of the SSD level unless an argument says otherwise.
const SSD_BLOCKS: u32 = 200_000;

fn main() {
    let ssd_blocks = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(SSD_BLOCKS);
    println!("bytes of tables for each block of all levels, SSD level of {ssd_blocks} blocks");
    for (scheme, pairs, _) in SCHEMES {
        let filled = Filled::new(scheme, pairs, ssd_blocks);
        let blocks = filled.cached_blocks() as f64;
        let memory = filled.engine.memory();
        let bound = filled.config.most_memory(&filled.settings, filled.extent_places);
        println!(
            "{scheme} {pairs:?}: {:.1} counted, {:.1} said, at most {:.1}; {blocks} blocks, {} on the SSD",
            filled.allocated_bytes as f64 / blocks,
            memory.tables_bytes() as f64 / blocks,
            bound.tables_bytes() as f64 / blocks,
            filled.ssd_blocks(),
        );
        for ((table, bytes), (_, most)) in memory.tables().into_iter().zip(bound.tables()) {
            if most > 0 {
                println!("    {table}: {:.2}, at most {:.2}", bytes as f64 / blocks, most as f64 / blocks);
            }
        }
    }
}
