//! Comparisons against single replays.

use lode_hardware::Host;
use lode_plan::{CompareOptions, CompareProgress, ComparedSchemes, LevelBytes, compare};
use lode_policy::{Quota, SchemeInfo};
use lode_replay::{Options, replay};
use lode_types::{BlockSize, Direction};
use std::sync::Mutex;

use crate::common::{BLOCK_BYTES, Request, merge};

/// Memory for replays, but not for the traces.
const TRACES_DO_NOT_FIT: u64 = 1 << 20;

fn requests() -> Vec<Request> {
    let op = |at: usize| if at.is_multiple_of(3) { Direction::Write } else { Direction::Read };
    (0..30_000)
        .map(|at| Request { vm: at % 2, op: op(at), block: (at * at % 211) as u64, blocks: 1 })
        .collect()
}

fn options(threads: usize, memory_bytes: u64) -> CompareOptions {
    let settings = |name: &str| SchemeInfo::find(name).expect("a scheme").settings();
    let sizes = [(8, 16), (32, 64)].map(|(dram, ssd)| LevelBytes {
        dram_bytes: dram * BLOCK_BYTES,
        ssd_bytes: ssd * BLOCK_BYTES,
        ..LevelBytes::default()
    });
    CompareOptions {
        schemes: ComparedSchemes::new(
            ["etica", "lru"].map(|name| (name.to_owned(), settings(name))).to_vec(),
        ),
        sizes: sizes.to_vec(),
        planned: None,
        block_size: BlockSize::KIB_4,
        host: Host::find("default").expect("a host"),
        threads,
        memory_bytes,
    }
}

#[test]
fn every_cell_is_the_replay_of_its_scheme_and_size() {
    let requests = requests();
    for (threads, memory_bytes) in [(1, 1 << 30), (3, 1 << 30), (3, TRACES_DO_NOT_FIT)] {
        let options = options(threads, memory_bytes);
        let last = Mutex::new(None);
        let cells = compare(&|| Ok(merge(&requests)), &options, &|progress| {
            *last.lock().expect("no panic") = Some(progress);
        })
        .expect("a comparison");
        assert_eq!(cells.len(), 4);
        for cell in &cells {
            let physical = Quota::new(
                (cell.levels.dram_bytes / BLOCK_BYTES) as u32,
                (cell.levels.ssd_bytes / BLOCK_BYTES) as u32,
            );
            let alone = Options {
                settings: options.schemes.as_slice()[cell.scheme].1.clone(),
                physical,
                block_size: BlockSize::KIB_4,
                host: Host::find("default").expect("a host"),
                shares: None,
                daily_ssd_bytes: None,
            };
            let report = replay(merge(&requests), &alone, Some(2), &mut |_, _| {}).expect("a report");
            assert_eq!(cell.report.total, report.total);
        }
        assert_eq!(cells[3].levels.dram_bytes, 0, "a scheme without that level");
        let in_memory = memory_bytes > TRACES_DO_NOT_FIT;
        let of_requests = if in_memory { 4 * requests.len() as u64 } else { 0 };
        let done = CompareProgress::Replaying { requests: 4 * requests.len() as u64, of_requests, cells: 4 };
        assert_eq!(*last.lock().expect("no panic"), Some(done));
    }
}

#[test]
fn what_cannot_be_compared_is_refused_before_the_traces_are_read() {
    let unread = || -> Result<lode_trace::Merge, lode_trace::TraceError> { panic!("read") };
    let mut nothing = options(1, 1 << 20);
    nothing.sizes.clear();
    assert!(compare(&unread, &nothing, &|_| {}).is_err());
    let mut useless = options(1, 1 << 20);
    useless.sizes[0].ssd_bytes = 0;
    let refused = compare(&unread, &useless, &|_| {}).expect_err("lru has no level");
    assert!(refused.to_string().contains("--ssd"), "{refused}");
}
