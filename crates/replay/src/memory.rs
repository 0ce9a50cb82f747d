//! How much memory a replay may take for the blocks that its schemes keep track of, known before it begins. It must not
//! know how much there is.

use lode_policy::{most_memory_bytes as most_memory_bytes_of_vm, most_memory_bytes_of_all};
use lode_reuse::DistinctBlocks;
use lode_trace::{TraceError, vm_block};
use lode_types::{BlockSize, RequestOp, blocks_of};

use crate::run::{Options, RequestStream};

/// Bytes that the tables of a replay take at most, when its VMs have so many different blocks each, by number; no VM has
/// more than the scheme keeps track of, so that [`u64::MAX`] stands for what is not known. The traces are not in it, nor their future.
pub fn most_memory_bytes(options: &Options, distinct_blocks: &[u64]) -> u64 {
    let Options { settings, physical, .. } = options;
    let Some(shares) = &options.shares else {
        return most_memory_bytes_of_all(settings, *physical, distinct_blocks);
    };
    let of_vm = |(vm, &blocks): (usize, &u64)| {
        let share = shares.get(vm).copied().unwrap_or_default();
        most_memory_bytes_of_vm(settings, *physical, share, blocks)
    };
    distinct_blocks.iter().enumerate().map(of_vm).fold(0, u64::saturating_add)
}

/// About how many different blocks each VM reads and writes, by number; rather more than fewer. It goes through all of
/// `source`; `progress` hears of every batch and how many requests it had. A VM takes 4 KiB of memory for it.
///
/// # Errors
/// Those of reading a trace.
pub fn count_distinct_blocks<S: RequestStream>(
    mut source: S,
    block_size: BlockSize,
    progress: &mut dyn FnMut(&S, usize),
) -> Result<Vec<u64>, TraceError> {
    let (mut vms, mut batch) = (Vec::new(), Vec::new());
    while source.next_batch(&mut batch)? > 0 {
        for (vm, request) in
            batch.iter().filter(|(_, request)| matches!(request.op, RequestOp::Read | RequestOp::Write))
        {
            if *vm as usize >= vms.len() {
                vms.resize_with(*vm as usize + 1, DistinctBlocks::new);
            }
            // A volume beyond what a VM can tell apart is the replay's to refuse.
            let Some(first_block) = vm_block(request.volume, 0) else { continue };
            let parts = blocks_of(block_size, request.offset_bytes, request.length_bytes.into());
            parts.for_each(|part| vms[*vm as usize].add(first_block | part.block));
        }
        progress(&source, batch.len());
    }
    vms.resize_with(source.vm_names().len().max(vms.len()), DistinctBlocks::new);
    Ok(vms.iter().map(DistinctBlocks::at_most).collect())
}
