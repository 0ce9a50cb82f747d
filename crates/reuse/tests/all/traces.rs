//! Recorded and synthetic traces as accesses to blocks of 4 KiB.

use lode_testdata::public_traces;
use lode_trace::{ReadOptions, open_trace};
use lode_types::{BlockSize, Direction, RequestOp, blocks_of};
use std::path::Path;

pub type Trace = Vec<(Direction, u64)>;

/// Public traces whose like is not committed, or not in this size: names, files, and the bytes of units that are not stated.
const PUBLIC: [(&str, &str, Option<u64>); 3] = [
    ("arc-oltp", "arc-oltp.lis.zst", Some(4096)),
    ("arc-p6", "arc-p6.lis.zst", None),
    ("cloudphysics-w106", "cloudphysics-w106-lbn.u32le.xz", None),
];

/// Traces with more than 100,000 requests by name: the committed ones, and public ones where they are there.
pub fn large() -> Vec<(&'static str, Trace)> {
    let mut large = Vec::new();
    for name in ["cloudphysics-2h", "arc-p3"] {
        let both = lode_testdata::traces(name);
        large.extend(both.iter().map(|trace| (name, accesses(&trace.path, trace.unit_bytes))));
    }
    if let Some(folder) = public_traces() {
        let public = |(name, file, unit_bytes)| (name, accesses(&folder.join(file), unit_bytes));
        large.extend(PUBLIC.map(public));
    }
    large
}

fn accesses(path: &Path, unit_bytes: Option<u64>) -> Trace {
    let options = ReadOptions { unit_bytes, ..ReadOptions::default() };
    let mut reader = open_trace(path, &options).unwrap_or_else(|error| panic!("{error}"));
    let (mut all, mut batch) = (Trace::new(), Vec::new());
    while reader.next_batch(&mut batch).unwrap_or_else(|error| panic!("{error}")) > 0 {
        for request in &batch {
            let op = if request.op == RequestOp::Write { Direction::Write } else { Direction::Read };
            let parts = blocks_of(BlockSize::KIB_4, request.offset_bytes, request.length_bytes.into());
            all.extend(parts.map(|part| (op, part.block)));
        }
    }
    all
}
