//! How many distinct blocks a batch of requests is bound to touch, known before they are followed one by one: a handful of
//! requests may cover more blocks than any table holds. It must not know what is done about it.

use lode_types::{BlockSize, TraceRequest, blocks_of};

use crate::streams::access_op;

/// Batches of fewer block accesses are not worth a look: their blocks fit into any memory.
const LEAST_ACCESSES: u64 = 1 << 22;

/// Bytes that following one block takes at least.
const LEAST_BYTES_PER_BLOCK: u64 = 16;

/// Distinct blocks of the reads and writes of a batch, by VM; none of a batch of ordinary size.
pub(crate) fn distinct_blocks(batch: &[(u32, TraceRequest)], block_size: BlockSize) -> Vec<u64> {
    let of = |request: &TraceRequest| {
        let blocks = blocks_of(block_size, request.offset_bytes, request.length_bytes.into());
        (block_size.block_of(request.offset_bytes), blocks.len() as u64)
    };
    let requests = || batch.iter().filter(|(_, request)| access_op(request.op).is_some());
    let accesses = requests().fold(0, |sum: u64, (_, request)| sum.saturating_add(of(request).1));
    if accesses < LEAST_ACCESSES {
        return Vec::new();
    }
    let mut runs: Vec<_> = requests().map(|(vm, request)| (*vm, request.volume, of(request))).collect();
    runs.sort_unstable();
    let mut distinct = Vec::new();
    // Up to where the runs so far reach, on the volume that the latest was on.
    let mut reach = (0, 0, 0);
    for (vm, volume, (first, blocks)) in runs {
        if (reach.0, reach.1) != (vm, volume) {
            reach = (vm, volume, 0);
        }
        let end = first + blocks;
        if distinct.len() <= vm as usize {
            distinct.resize(vm as usize + 1, 0);
        }
        distinct[vm as usize] += end.saturating_sub(first.max(reach.2));
        reach.2 = reach.2.max(end);
    }
    distinct
}

/// Bytes of tables that following this share of so many blocks takes at least.
pub(crate) fn least_bytes(blocks: u64, rate: f64) -> u64 {
    (blocks as f64 * rate) as u64 * LEAST_BYTES_PER_BLOCK
}

#[cfg(test)]
mod tests {
    use super::*;
    use lode_types::{Origin, RequestOp};

    #[test]
    fn blocks_count_once_a_volume() {
        let batch: Vec<_> = [
            (0, 0, RequestOp::Read, 0, 1_000_000),
            (0, 0, RequestOp::Write, 500_000, 1_000_000),
            (0, 0, RequestOp::Trim, 7_000_000, 1_000_000),
            (0, 1, RequestOp::Read, 0, 1_000_000),
            (2, 0, RequestOp::Read, 10_000_000, 1_000_000),
            (2, 0, RequestOp::Read, 10_000_000, 1_000_000),
            (2, 0, RequestOp::Read, 10_900_000, 100),
        ]
        .map(|(vm, volume, op, first, blocks)| {
            let (offset_bytes, length_bytes) = (first * 4096, blocks * 4096);
            (vm, TraceRequest { time_ns: 0, offset_bytes, length_bytes, volume, op, origin: Origin::UNKNOWN })
        })
        .into();
        assert_eq!(distinct_blocks(&batch, BlockSize::KIB_4), [2_500_000, 0, 1_000_000]);
        assert_eq!(distinct_blocks(&batch[..3], BlockSize::KIB_4), [] as [u64; 0]);
    }
}
