//! The crate's one error type. It must not know how errors are shown.

use lode_policy::{SettingError, all_schemes};
use lode_trace::TraceError;
use lode_types::Level;

use crate::run::MAX_LEVEL_BLOCKS;

/// A replay could not be started or finished.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A trace could not be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The scheme and what was asked of it do not fit each other.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A level that does not hold one block.
    #[error(
        "The {} level of {bytes} bytes is smaller than one block of {block_bytes} bytes; give at least that, or 0",
        level.name()
    )]
    LevelTooSmall {
        /// Which level.
        level: Level,
        /// The size given.
        bytes: u64,
        /// The size of a block.
        block_bytes: u64,
    },
    /// A level of more than [`MAX_LEVEL_BLOCKS`].
    #[error(
        "The {} level of {bytes} bytes has more than {MAX_LEVEL_BLOCKS} blocks; make it smaller or its blocks larger",
        level.name()
    )]
    LevelTooLarge {
        /// Which level.
        level: Level,
        /// The size given.
        bytes: u64,
    },
    /// What a scheme has to know of the traces beforehand does not fit the memory.
    #[error(
        "Scheme '{scheme}' needs the traces and their future in memory, which takes more than {most_bytes} bytes; allow \
         more with --memory, or filter the traces"
    )]
    FutureTooLarge {
        /// The scheme.
        scheme: String,
        /// Memory that there was.
        most_bytes: u64,
    },
    /// VMs cannot be held to a budget that they have together.
    #[error(
        "Scheme '{scheme}' holds to no budget of SSD writes; use one that does ({}), or no --ssd-writes", holding().join(", ")
    )]
    HoldsToNoBudget {
        /// The scheme.
        scheme: &'static str,
    },
    /// A budget for each day, of traces that do not tell when requests came.
    #[error(
        "--ssd-writes needs to know what is written in a day, and the traces have no times; set write_budget to blocks for \
         each hundred block accesses, such as --set write_budget=10"
    )]
    BudgetNeedsTimes,
    /// A VM with more volumes than its block numbers can tell apart.
    #[error("Volume {volume} of VM {vm} is beyond what one VM can tell apart; make each volume a VM")]
    TooManyVolumes {
        /// Index of the VM.
        vm: u32,
        /// Index of the volume in it.
        volume: u32,
    },
}

/// Names of the schemes that hold to budgets.
fn holding() -> Vec<&'static str> {
    all_schemes().iter().filter(|info| info.holds_to_budgets()).map(|info| info.name).collect()
}
