//! A read that DRAM holds is answered without an allocation and without a copy: the frame itself is handed out.

use lode_allocations::{CountingAllocator, allocations};
use lode_engine::command::{Command, CommandKind, Completion};
use lode_engine::{Answer, Engine, EngineConfig, GuestOp, GuestRequest};
use lode_policy::{Quota, SchemeInfo};
use lode_types::{BlockSize, Bufs};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 512;

/// Carries out commands of a disk that reads as whatever was in the buffers.
fn read(engine: &mut Engine, offset_bytes: u64, length_bytes: u64) -> Answer {
    let op = GuestOp::Read { offset_bytes, length_bytes };
    engine.submit(GuestRequest { token: 1, op, now_ns: 0 });
    while let Some(Command { id, kind, .. }) = engine.next_command() {
        let bufs = if let CommandKind::Read { bufs, .. } = kind { bufs } else { Bufs::new() };
        engine.complete(Completion { id, result: Ok(()), bufs });
    }
    engine.next_answer().expect("everything it waited for has happened")
}

#[test]
fn a_dram_hit_allocates_and_copies_nothing() {
    let mut settings = SchemeInfo::find("etica").unwrap().settings();
    settings.set_pair("sizing=off").unwrap();
    let quota = Quota::new(BLOCKS as u32, 0);
    let config = EngineConfig::new(BlockSize::KIB_4, BLOCKS * BLOCK, quota);
    let mut engine = Engine::new(config, &settings, None);
    let lengths = [BLOCK, 16 * BLOCK, 256 * BLOCK, 300];
    let reads = |engine: &mut Engine| {
        let mut first_bytes = Vec::with_capacity(lengths.len());
        let before = allocations();
        for length in lengths {
            let mut answer = read(engine, 7 * BLOCK, length);
            assert_eq!(answer.result, Ok(()));
            first_bytes.push(answer.data[0].as_ptr());
            answer.data.clear();
            engine.take_back(answer.data);
        }
        (allocations() - before, first_bytes)
    };
    // The first time blocks come in; the second time lists grow to what they need.
    let (cold, _) = reads(&mut engine);
    assert!(cold > 0, "the count counts");
    reads(&mut engine);
    let hits_before = engine.counters().read_hits[0];
    let (allocations, first_bytes) = reads(&mut engine);
    assert_eq!(engine.counters().read_hits[0] - hits_before, 1 + 16 + 256 + 1);
    assert_eq!(allocations, 0);
    // The same bytes in the same place, whoever asks.
    assert!(first_bytes.iter().all(|first| *first == first_bytes[0]));
}
