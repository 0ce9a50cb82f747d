//! The crate's one error type. It must not know how errors are shown.

use std::path::PathBuf;

use lode_draw::DrawError;
use lode_hardware::HardwareError;
use lode_policy::SettingError;
use lode_processes::RequestsError;
use lode_replay::ReplayError;
use lode_reuse::ReuseError;
use lode_synth::SynthError;
use lode_trace::TraceError;

/// An experiment could not be run.
#[derive(Debug, thiserror::Error)]
pub enum PapersError {
    /// A profile makes no requests.
    #[error(transparent)]
    Synth(#[from] SynthError),
    /// A trace could not be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A replay could not be run.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// Distances could not be measured.
    #[error(transparent)]
    Reuse(#[from] ReuseError),
    /// A simulation of processes could not be run.
    #[error(transparent)]
    Processes(#[from] RequestsError),
    /// There are no such devices.
    #[error(transparent)]
    Hardware(#[from] HardwareError),
    /// A scheme does not take a setting.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A page could not be drawn.
    #[error(transparent)]
    Draw(#[from] DrawError),
    /// The folder with traces cannot be looked into.
    #[error("Cannot look for traces in {}: {source}; check the folder and its rights", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Requests do not fit the memory.
    #[error(
        "The requests of {workload} do not fit {} of memory; allow more with --memory, or leave --full out",
        lode_types::show_size(*limit_bytes)
    )]
    Memory {
        /// Of which workload.
        workload: &'static str,
        /// Memory allowed.
        limit_bytes: u64,
    },
    /// What was asked for is not there.
    #[error("{0}")]
    Request(String),
}
