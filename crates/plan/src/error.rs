//! The crate's one error type. It must not know how errors are shown.

use lode_draw::DrawError;
use lode_replay::ReplayError;
use lode_reuse::ReuseError;
use lode_trace::TraceError;
use lode_types::show_size;

/// A question could not be answered.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A trace could not be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A curve or a division could not be computed.
    #[error(transparent)]
    Reuse(#[from] ReuseError),
    /// One VM's curve could not be computed.
    #[error("{vm}: {source}")]
    Vm {
        /// The VM's name.
        vm: String,
        /// Why.
        source: ReuseError,
    },
    /// A replay could not be run.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A page or picture could not be drawn.
    #[error(transparent)]
    Draw(#[from] DrawError),
    /// A VM with more volumes than its block numbers can tell apart.
    #[error("Volume {volume} of {vm} is beyond what one VM can tell apart; make each volume a VM")]
    TooManyVolumes {
        /// The VM's name.
        vm: String,
        /// Index of the volume in it.
        volume: u32,
    },
    /// Exact tables, or those of the smallest samples, exceed the memory.
    #[error(
        "The tables of {vms} VM{} need {} of memory, and {} are allowed",
        if *vms == 1 { "" } else { "s" },
        show_size(*used_bytes),
        show_size(*limit_bytes)
    )]
    Memory {
        /// VMs so far.
        vms: usize,
        /// Memory in use.
        used_bytes: u64,
        /// Memory allowed.
        limit_bytes: u64,
    },
    /// The tables of one replay exceed the memory.
    #[error(
        "Replaying {scheme} with {levels} may take {} of memory for the blocks that it keeps track of, and {} are allowed",
        show_size(*needed_bytes),
        show_size(*limit_bytes)
    )]
    ReplayMemory {
        /// The scheme, as it was called.
        scheme: String,
        /// Its levels, in words.
        levels: String,
        /// Memory that it may take, with what has to be kept beside it.
        needed_bytes: u64,
        /// Memory allowed.
        limit_bytes: u64,
    },
    /// What was asked for does not fit the traces or itself.
    #[error("{0}")]
    Request(String),
}
