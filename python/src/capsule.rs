//! The Arrow PyCapsule interface: tables from whoever has them, and to whoever wants them, without copies. It must not know
//! what the columns are.

use std::ffi::CStr;
use std::ptr::NonNull;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{RecordBatch, RecordBatchReader, StructArray};
use arrow_schema::Schema;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

/// A table on its way in.
pub enum Incoming {
    /// Batches that come one by one.
    Stream(ArrowArrayStreamReader),
    /// One batch.
    Batch(RecordBatch),
}

/// The table of an object that has `__arrow_c_stream__` or `__arrow_c_array__`; `None` of any other.
///
/// # Errors
/// What the object raises, and when it gives anything else than a table.
pub fn table_of(object: &Bound<'_, PyAny>) -> PyResult<Option<Incoming>> {
    let failed = |error: arrow_schema::ArrowError| PyValueError::new_err(format!("No Arrow table: {error}"));
    if object.hasattr("__arrow_c_stream__")? {
        let capsule = object.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
        let stream = taken::<FFI_ArrowArrayStream>(&capsule, STREAM)?;
        return Ok(Some(Incoming::Stream(ArrowArrayStreamReader::try_new(stream).map_err(failed)?)));
    }
    if object.hasattr("__arrow_c_array__")? {
        let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) =
            object.call_method0("__arrow_c_array__")?.extract()?;
        let schema = taken::<FFI_ArrowSchema>(&schema.cast_into::<PyCapsule>()?, SCHEMA)?;
        let array = taken::<FFI_ArrowArray>(&array.cast_into::<PyCapsule>()?, ARRAY)?;
        // SAFETY: the schema and the array were made for each other, as the interface promises of the two that one call gives.
        let data = unsafe { from_ffi(array, &schema) }.map_err(failed)?;
        if !matches!(data.data_type(), arrow_schema::DataType::Struct(_)) {
            return Err(PyValueError::new_err(
                "No table: an Arrow array of structs is needed, one field a column",
            ));
        }
        if data.null_count() > 0 {
            return Err(PyValueError::new_err("No table: some structs of the array are null; drop them"));
        }
        return Ok(Some(Incoming::Batch(RecordBatch::from(StructArray::from(data)))));
    }
    Ok(None)
}

/// What a capsule of this name holds, which is left without content.
fn taken<T: Emptied>(capsule: &Bound<'_, PyCapsule>, name: &'static CStr) -> PyResult<T> {
    let pointer: NonNull<T> = capsule.pointer_checked(Some(name))?.cast();
    // SAFETY: a capsule of this name points to this structure, says the interface; whoever takes it out leaves a released one.
    Ok(unsafe { T::take(pointer.as_ptr()) })
}

/// Structures of the interface that can be moved out of where they are.
trait Emptied {
    /// Moves it out.
    ///
    /// # Safety
    /// `pointer` points to one.
    unsafe fn take(pointer: *mut Self) -> Self;
}

impl Emptied for FFI_ArrowArrayStream {
    unsafe fn take(pointer: *mut Self) -> Self {
        // SAFETY: as the caller promises.
        unsafe { FFI_ArrowArrayStream::from_raw(pointer) }
    }
}

impl Emptied for FFI_ArrowSchema {
    unsafe fn take(pointer: *mut Self) -> Self {
        // SAFETY: as the caller promises.
        unsafe { FFI_ArrowSchema::from_raw(pointer) }
    }
}

impl Emptied for FFI_ArrowArray {
    unsafe fn take(pointer: *mut Self) -> Self {
        // SAFETY: as the caller promises.
        unsafe { FFI_ArrowArray::from_raw(pointer) }
    }
}

/// A capsule with a stream of batches.
///
/// # Errors
/// When Python has no memory for it.
pub fn stream_capsule<'py>(
    py: Python<'py>,
    batches: impl RecordBatchReader + Send + 'static,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), STREAM)
}

/// A capsule with a schema.
///
/// # Errors
/// When Python has no memory for it, or the schema cannot be told.
pub fn schema_capsule<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema =
        FFI_ArrowSchema::try_from(schema).map_err(|error| PyValueError::new_err(error.to_string()))?;
    PyCapsule::new_with_value(py, schema, SCHEMA)
}
