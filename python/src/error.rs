//! Why something was not done, on its way to a Python exception. It must not know what was asked.

use lode_hardware::HardwareError;
use lode_plan::PlanError;
use lode_policy::SettingError;
use lode_replay::ReplayError;
use lode_reuse::ReuseError;
use lode_synth::SynthError;
use lode_trace::{ErrorKind, TraceError};
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::{PyErr, create_exception};

create_exception!(
    lodestore,
    TraceFailure,
    PyValueError,
    "A trace cannot be read or is not what it should be."
);

/// What the command line says of Parquet, and what one does with it in Python.
const NO_PARQUET: &str =
    "This is Parquet, which this program was built without; build it with --features parquet";
const PARQUET_AS_TABLE: &str = "This is Parquet, which is given as a table: polars.read_parquet(path), pyarrow.parquet.read_table(path), \
                                or duckdb.read_parquet(path)";

/// A message whose options of the command line are arguments of a Python function.
fn in_python(message: &str) -> String {
    let words = message.replace("--on-error skip", "on_error='skip'").replace(NO_PARQUET, PARQUET_AS_TABLE);
    let words = words.split(' ').map(|word| {
        let Some(option) = word.strip_prefix("--") else { return word.to_owned() };
        let end = option.find(|char: char| !char.is_ascii_lowercase() && char != '-').unwrap_or(option.len());
        let (name, rest) = option.split_at(end);
        if name.is_empty() { word.to_owned() } else { format!("{}={rest}", name.replace('-', "_")) }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Why.
pub enum Failure {
    /// What was asked for cannot be.
    Usage(String),
    /// A trace, or a table of requests, is not what it should be.
    Trace(String),
    /// The memory that was allowed does not suffice.
    Memory(String),
    /// Python has said why.
    Python(PyErr),
    /// It was asked to stop.
    Stopped,
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        match failure {
            Failure::Usage(message) => PyValueError::new_err(in_python(&message)),
            Failure::Trace(message) => TraceFailure::new_err(in_python(&message)),
            Failure::Memory(message) => PyMemoryError::new_err(in_python(&message)),
            Failure::Python(error) => error,
            Failure::Stopped => {
                PyRuntimeError::new_err("Stopped before the end; start it again for a result")
            }
        }
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure::Usage(message)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Failure {
        Failure::Python(error)
    }
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Failure {
        match error.kind() {
            ErrorKind::Stopped => Failure::Stopped,
            _ => Failure::Trace(error.to_string()),
        }
    }
}

impl From<SettingError> for Failure {
    fn from(error: SettingError) -> Failure {
        Failure::Usage(error.to_string())
    }
}

impl From<HardwareError> for Failure {
    fn from(error: HardwareError) -> Failure {
        Failure::Usage(error.to_string())
    }
}

impl From<ReuseError> for Failure {
    fn from(error: ReuseError) -> Failure {
        Failure::Usage(error.to_string())
    }
}

impl From<SynthError> for Failure {
    fn from(error: SynthError) -> Failure {
        Failure::Usage(error.to_string())
    }
}

impl From<ReplayError> for Failure {
    fn from(error: ReplayError) -> Failure {
        match error {
            ReplayError::Trace(error) => error.into(),
            ReplayError::FutureTooLarge { .. } => Failure::Memory(error.to_string()),
            other => Failure::Usage(other.to_string()),
        }
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Failure {
        match error {
            PlanError::Trace(error) => error.into(),
            PlanError::Replay(error) => error.into(),
            PlanError::Memory { .. } => Failure::Memory(format!(
                "{error}; allow more with memory=, or follow fewer blocks with sample="
            )),
            PlanError::ReplayMemory { .. } => Failure::Memory(format!(
                "{error}; allow more with memory=, or compare smaller levels or larger blocks"
            )),
            other => Failure::Usage(other.to_string()),
        }
    }
}
