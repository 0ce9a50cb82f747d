//! Where requests are: a file, or memory. It must not know what is made of them.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use lode_trace::{
    CompactWriter, OnError, ReadOptions, Reader, TraceError, create_compact_with, open_trace, read_trace,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule};

use crate::capsule::{Incoming, schema_capsule, stream_capsule, table_of};
use crate::columns::Columns;
use crate::error::Failure;
use crate::export::{FromMemory, FromReader, schema_of};
use crate::job::{Control, run};
use crate::requests::{Builder, Requests};

/// Requests of one Arrow batch.
pub const CHUNK_REQUESTS: usize = 1 << 16;

/// One trace.
#[pyclass(frozen, from_py_object, module = "lodestore._lodestore")]
#[derive(Clone)]
pub struct Source {
    at: At,
}

#[derive(Clone)]
enum At {
    File(PathBuf, ReadOptions),
    Memory(Arc<Requests>),
}

fn options(format: Option<String>, unit: Option<u64>, on_error: &str) -> Result<ReadOptions, Failure> {
    let on_error = match on_error {
        "stop" => OnError::Stop,
        "skip" => OnError::Skip,
        other => return Err(Failure::Usage(format!("on_error is '{other}'; it is 'stop' or 'skip'"))),
    };
    Ok(ReadOptions { format, unit_bytes: unit, on_error })
}

impl Source {
    /// Starts to read it.
    ///
    /// # Errors
    /// Those of opening a file.
    pub fn open(&self) -> Result<Reader, TraceError> {
        match &self.at {
            At::File(path, options) => open_trace(path, options),
            At::Memory(requests) => Ok(requests.reader()),
        }
    }

    /// How many VMs come of it, each volume being one; `None` when it cannot be read twice.
    ///
    /// # Errors
    /// Those of reading.
    pub fn count_volumes(&self, control: &Control) -> Result<Option<usize>, Failure> {
        let (path, options) = match &self.at {
            At::Memory(requests) => return Ok(Some(requests.used_volumes())),
            At::File(path, options) => (path, options),
        };
        if !self.can_be_read_again() {
            return Ok(None);
        }
        let (mut reader, mut batch, mut seen) = (open_trace(path, options)?, Vec::new(), Vec::new());
        while reader.next_batch(&mut batch)? > 0 {
            control.check()?;
            control.tell_progress(std::iter::once(reader.progress()));
            seen.resize(reader.volumes().len(), false);
            batch.iter().for_each(|request| seen[request.volume as usize] = true);
        }
        Ok(Some(seen.into_iter().filter(|seen| *seen).count()))
    }

    /// Whether it can be read more than once.
    pub fn can_be_read_again(&self) -> bool {
        match &self.at {
            At::Memory(_) => true,
            At::File(path, _) => path.metadata().is_ok_and(|facts| facts.is_file()),
        }
    }

    fn memory(&self) -> Option<&Arc<Requests>> {
        match &self.at {
            At::Memory(requests) => Some(requests),
            At::File(..) => None,
        }
    }
}

/// Reads all of `reader`.
fn load(mut reader: Reader, control: &Control) -> Result<Source, Failure> {
    let name = reader.path().display().to_string();
    let mut builder = Builder::new(&name, reader.recorded());
    let (mut requests, mut batch) = (Vec::with_capacity(CHUNK_REQUESTS), Vec::new());
    let mut ended = false;
    while !ended {
        ended = reader.next_batch(&mut batch)? == 0;
        requests.append(&mut batch);
        if ended || requests.len() >= CHUNK_REQUESTS {
            builder.push_requests(&requests, reader.volumes());
            requests.clear();
            control.check()?;
            control.tell_progress(std::iter::once(reader.progress()));
        }
    }
    Ok(Source::of(builder.finish()))
}

impl Source {
    /// A trace in memory.
    pub fn of(requests: Requests) -> Source {
        Source { at: At::Memory(Arc::new(requests)) }
    }
}

/// Reads a table.
fn take_in(
    table: Incoming,
    name: &str,
    named: &HashMap<String, String>,
    control: &Control,
) -> Result<Source, Failure> {
    let schema = match &table {
        Incoming::Stream(stream) => arrow_array::RecordBatchReader::schema(stream),
        Incoming::Batch(batch) => batch.schema(),
    };
    let columns = Columns::find(&schema, named).map_err(Failure::Trace)?;
    let mut builder = Builder::new(name, columns.recorded());
    match table {
        Incoming::Batch(batch) => builder.push_batch(&batch, &columns).map_err(Failure::Trace)?,
        Incoming::Stream(stream) => {
            for batch in stream {
                control.check()?;
                let batch =
                    batch.map_err(|error| Failure::Trace(format!("The table cannot be read: {error}")))?;
                builder.push_batch(&batch, &columns).map_err(Failure::Trace)?;
            }
        }
    }
    Ok(Source::of(builder.finish()))
}

/// A Python object that has `read(n)`.
struct PythonFile {
    object: Py<PyAny>,
}

impl Read for PythonFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Python::attach(|py| {
            let failed = |error: PyErr| io::Error::other(error.to_string());
            let read = self.object.bind(py).call_method1("read", (into.len(),)).map_err(failed)?;
            let not_bytes = || io::Error::other("its read() gives no bytes; open it in binary mode ('rb')");
            let bytes = read.cast_into::<PyBytes>().map_err(|_| not_bytes())?;
            let bytes = bytes.as_bytes();
            if bytes.len() > into.len() {
                return Err(io::Error::other("its read() gives more bytes than were asked for"));
            }
            into[..bytes.len()].copy_from_slice(bytes);
            Ok(bytes.len())
        })
    }
}

#[pymethods]
impl Source {
    /// A file that is read when it is needed.
    #[staticmethod]
    #[pyo3(signature = (path, format=None, unit=None, on_error="stop"))]
    fn file(path: PathBuf, format: Option<String>, unit: Option<u64>, on_error: &str) -> PyResult<Source> {
        let source = Source { at: At::File(path, options(format, unit, on_error)?) };
        if source.can_be_read_again() {
            source.open().map_err(Failure::from)?;
        }
        Ok(source)
    }

    /// All of the bytes that a Python object gives, in memory.
    #[staticmethod]
    #[pyo3(signature = (object, name, format=None, unit=None, on_error="stop", progress=None))]
    fn python_file(
        py: Python<'_>,
        object: Py<PyAny>,
        name: String,
        format: Option<String>,
        unit: Option<u64>,
        on_error: &str,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Source> {
        let options = options(format, unit, on_error)?;
        run(py, progress, move |control| load(read_trace(PythonFile { object }, name, &options)?, control))
    }

    /// The rows of an object with the Arrow PyCapsule interface; `None` of any other object.
    #[staticmethod]
    #[pyo3(signature = (object, name, columns, progress=None))]
    fn arrow(
        py: Python<'_>,
        object: &Bound<'_, PyAny>,
        name: &str,
        columns: HashMap<String, String>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Option<Source>> {
        let Some(table) = table_of(object)? else { return Ok(None) };
        run(py, progress, |control| take_in(table, name, &columns, control)).map(Some)
    }

    /// The same in memory.
    #[pyo3(signature = (progress=None))]
    fn load(&self, py: Python<'_>, progress: Option<Bound<'_, PyAny>>) -> PyResult<Source> {
        match &self.at {
            At::Memory(_) => Ok(self.clone()),
            At::File(..) => run(py, progress, |control| load(self.open()?, control)),
        }
    }

    /// The same by time, in memory.
    fn sorted(&self, py: Python<'_>) -> PyResult<Source> {
        let loaded = self.load(py, None)?;
        run(py, None, |_| {
            Ok(loaded.memory().map_or(loaded.clone(), |requests| Source::of(requests.sorted())))
        })
    }

    /// What stands for it in reports.
    #[getter]
    fn name(&self) -> String {
        match &self.at {
            At::File(path, _) => path.display().to_string(),
            At::Memory(requests) => requests.name.clone(),
        }
    }

    #[getter]
    fn in_memory(&self) -> bool {
        self.memory().is_some()
    }

    /// Requests, if it is in memory.
    #[getter]
    fn rows(&self) -> Option<u64> {
        self.memory().map(|requests| requests.rows())
    }

    /// Names of volumes, if it is in memory.
    #[getter]
    fn volumes(&self) -> Option<Vec<String>> {
        self.memory().map(|requests| requests.volumes.clone())
    }

    /// How many rows are earlier than the one before, and the first of them, if it is in memory.
    #[getter]
    fn backwards(&self) -> Option<(u64, Option<u64>)> {
        self.memory().map(|requests| (requests.backwards, requests.first_backwards))
    }

    /// Whether times were recorded.
    fn has_times(&self) -> PyResult<bool> {
        Ok(self.open().map_err(Failure::from)?.has_times())
    }

    /// A capsule with the rows.
    fn stream<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        match &self.at {
            At::Memory(requests) => stream_capsule(py, FromMemory::new(requests)),
            At::File(..) => stream_capsule(py, FromReader::new(self.open().map_err(Failure::from)?)),
        }
    }

    /// A capsule with the schema.
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let recorded = match &self.at {
            At::Memory(requests) => requests.recorded,
            At::File(..) => self.open().map_err(Failure::from)?.recorded(),
        };
        schema_capsule(py, &schema_of(recorded))
    }

    /// Writes it in the compact format, and says how many requests.
    #[pyo3(signature = (path, progress=None))]
    fn write(&self, py: Python<'_>, path: PathBuf, progress: Option<Bound<'_, PyAny>>) -> PyResult<u64> {
        run(py, progress, |control| {
            let (mut reader, mut batch, mut rows) = (self.open()?, Vec::new(), 0);
            let mut writer: CompactWriter<_> = create_compact_with(&path, reader.recorded())?;
            while reader.next_batch(&mut batch)? > 0 {
                control.check()?;
                control.tell_progress(std::iter::once(reader.progress()));
                writer.write(reader.volumes(), &batch)?;
                rows += batch.len() as u64;
            }
            writer.close()?;
            Ok(rows)
        })
    }
}
