//! The compiled half of the Python package `lodestore`: tables in, reports out, with the answers of the crates below.
//!
//! Everything users see is in the package's Python files; here are types, checks and long work. It must not know how results
//! are shown, nor decide anything that the command line decides otherwise.

mod asked;
mod capsule;
mod columns;
mod convert;
mod divide;
mod error;
mod export;
mod fleet;
mod job;
mod profiler;
mod questions;
mod requests;
mod source;
mod synth;

use pyo3::prelude::*;

/// The module.
#[pymodule]
fn _lodestore(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("TraceError", module.py().get_type::<error::TraceFailure>())?;
    module.add_class::<source::Source>()?;
    module.add_class::<profiler::CurveState>()?;
    module.add_function(wrap_pyfunction!(questions::schemes, module)?)?;
    module.add_function(wrap_pyfunction!(questions::curve, module)?)?;
    module.add_function(wrap_pyfunction!(questions::curve_of_scheme, module)?)?;
    module.add_function(wrap_pyfunction!(questions::replay_traces, module)?)?;
    module.add_function(wrap_pyfunction!(questions::compare_schemes, module)?)?;
    module.add_function(wrap_pyfunction!(questions::size, module)?)?;
    module.add_function(wrap_pyfunction!(divide::divide_curves, module)?)?;
    module.add_function(wrap_pyfunction!(synth::profiles, module)?)?;
    module.add_function(wrap_pyfunction!(synth::synth, module)?)?;
    module.add_function(wrap_pyfunction!(synth::fit, module)?)?;
    module.add_function(wrap_pyfunction!(formats, module)?)?;
    module.add_function(wrap_pyfunction!(fields, module)?)?;
    module.add_function(wrap_pyfunction!(fleet::fleet_page, module)?)?;
    module.add_function(wrap_pyfunction!(size_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(show_size, module)?)?;
    Ok(())
}

/// Names of the trace formats that can be read, and what they are.
#[pyfunction]
fn formats() -> Vec<(&'static str, &'static str)> {
    lode_trace::formats().map(|format| (format.name, format.about)).collect()
}

/// The bytes of a size in words.
#[pyfunction]
fn size_bytes(text: &str) -> PyResult<u64> {
    Ok(asked::size_of("size", text)?)
}

/// A size in words.
#[pyfunction]
fn show_size(bytes: u64) -> String {
    lode_types::show_size(bytes)
}

/// Fields of requests, each with the names that its column may have, and what a number of it counts (0: a timestamp).
#[pyfunction]
fn fields() -> Vec<(&'static str, Vec<(&'static str, u64)>)> {
    columns::fields()
}
