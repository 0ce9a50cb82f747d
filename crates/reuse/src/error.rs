//! What can go wrong in this crate. It must not know where the numbers came from.

use crate::tracker::MAX_BLOCKS;

/// Why distances or cache sizes could not be computed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReuseError {
    /// The stream has more than [`MAX_BLOCKS`] distinct blocks.
    #[error(
        "The stream touches more than {MAX_BLOCKS} distinct blocks: analyse a sample of its blocks instead"
    )]
    TooManyBlocks,
    /// The way to obtain a curve is not usable.
    #[error("{reason}: choose another method or parameter for the curve")]
    InvalidMethod {
        /// What is wrong.
        reason: &'static str,
    },
    /// One VM's input to the division is not usable.
    #[error("VM number {vm}: {reason}: correct its curve or its limits")]
    InvalidDemand {
        /// Index of the VM in the list of demands.
        vm: usize,
        /// What is wrong.
        reason: &'static str,
    },
    /// A parameter of the objective is not usable.
    #[error("{reason}: correct the objective's parameter")]
    InvalidObjective {
        /// What is wrong.
        reason: &'static str,
    },
    /// The guaranteed sizes together exceed the cache.
    #[error(
        "The guaranteed sizes need {needed_blocks} blocks and the cache has {capacity_blocks}: lower the VMs' \
         minimum sizes, the objective's floor, or the number of VMs"
    )]
    GuaranteesDoNotFit {
        /// Sum of the guarantees.
        needed_blocks: u128,
        /// What there is.
        capacity_blocks: u64,
    },
    /// The exact solver was asked for and the problem is above its limit.
    #[error("The exact solver would need {work} steps and may take {limit}: choose the greedy solver")]
    TooLargeForExact {
        /// Steps that the exact solver would take.
        work: u128,
        /// Steps that it may take.
        limit: u128,
    },
}
