//! Requests as Arrow batches. Numbers and codes are shared and not copied. It must not know who wants them.

use std::sync::Arc;

use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, PrimitiveArray, RecordBatch, RecordBatchReader, StringArray,
    UInt32Array, UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use lode_trace::{Reader, Recorded};
use lode_types::{Origin, OriginFields};

use crate::requests::{Builder, Chunk, Requests};
use crate::source::CHUNK_REQUESTS;

/// Names of operations, by discriminant.
const OPS: [&str; 4] = ["read", "write", "trim", "flush"];

/// The columns of a trace that tells this.
pub fn schema_of(recorded: Recorded) -> SchemaRef {
    let names = |key| DataType::Dictionary(Box::new(key), Box::new(DataType::Utf8));
    let mut fields = vec![
        Field::new("time_ns", DataType::UInt64, false),
        Field::new("volume", names(DataType::Int32), false),
        Field::new("op", names(DataType::Int8), false),
        Field::new("offset_bytes", DataType::UInt64, false),
        Field::new("length_bytes", DataType::UInt32, false),
    ];
    let OriginFields { process, sync, critical } = recorded.origins;
    let told = [
        (process, Field::new("process", DataType::UInt32, true)),
        (sync, Field::new("sync", DataType::Boolean, true)),
        (critical, Field::new("critical", DataType::Boolean, true)),
    ];
    fields.extend(told.into_iter().filter(|(is_told, _)| *is_told).map(|(_, field)| field));
    Arc::new(Schema::new(fields))
}

/// What does not change from batch to batch.
struct Shape {
    schema: SchemaRef,
    origins: OriginFields,
    ops: ArrayRef,
    volumes: ArrayRef,
}

impl Shape {
    fn new(recorded: Recorded, volumes: &[String]) -> Shape {
        Shape {
            schema: schema_of(recorded),
            origins: recorded.origins,
            ops: Arc::new(StringArray::from_iter_values(OPS)),
            volumes: Arc::new(StringArray::from_iter_values(volumes)),
        }
    }

    fn batch(&self, chunk: &Chunk) -> Result<RecordBatch, ArrowError> {
        let volume = PrimitiveArray::<Int32Type>::new(chunk.volume.clone(), None);
        let op = PrimitiveArray::<Int8Type>::new(chunk.op.clone(), None);
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::new(chunk.time.clone(), None)),
            Arc::new(DictionaryArray::try_new(volume, Arc::clone(&self.volumes))?),
            Arc::new(DictionaryArray::try_new(op, Arc::clone(&self.ops))?),
            Arc::new(UInt64Array::new(chunk.offset.clone(), None)),
            Arc::new(UInt32Array::new(chunk.length.clone(), None)),
        ];
        let origins = || {
            let rows = 0..chunk.time.len();
            rows.map(|row| {
                chunk.origin.as_ref().and_then(|codes| Origin::from_code(codes[row])).unwrap_or_default()
            })
        };
        if self.origins.process {
            columns.push(Arc::new(origins().map(Origin::process).collect::<UInt32Array>()));
        }
        if self.origins.sync {
            columns.push(Arc::new(origins().map(Origin::sync).collect::<BooleanArray>()));
        }
        if self.origins.critical {
            columns.push(Arc::new(origins().map(Origin::critical).collect::<BooleanArray>()));
        }
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
    }
}

/// Batches of a trace in memory.
pub struct FromMemory {
    requests: Arc<Requests>,
    shape: Shape,
    next: usize,
}

impl FromMemory {
    /// From the first one on.
    pub fn new(requests: &Arc<Requests>) -> FromMemory {
        let shape = Shape::new(requests.recorded, &requests.volumes);
        FromMemory { requests: Arc::clone(requests), shape, next: 0 }
    }
}

impl Iterator for FromMemory {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let chunk = self.requests.chunks.get(self.next)?;
        self.next += 1;
        Some(self.shape.batch(chunk))
    }
}

impl RecordBatchReader for FromMemory {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.shape.schema)
    }
}

/// Batches of a trace as it is read. Each has the names of the volumes met so far.
pub struct FromReader {
    reader: Reader,
    schema: SchemaRef,
    ended: bool,
}

impl FromReader {
    /// From where the reader is.
    pub fn new(reader: Reader) -> FromReader {
        let schema = schema_of(reader.recorded());
        FromReader { reader, schema, ended: false }
    }

    fn read(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let (mut requests, mut batch) = (Vec::with_capacity(CHUNK_REQUESTS), Vec::new());
        while requests.len() < CHUNK_REQUESTS {
            let more = self.reader.next_batch(&mut batch);
            if more.map_err(|error| ArrowError::ExternalError(Box::new(error)))? == 0 {
                self.ended = true;
                break;
            }
            requests.append(&mut batch);
        }
        let recorded = self.reader.recorded();
        let mut builder = Builder::new("", recorded);
        builder.push_requests(&requests, self.reader.volumes());
        let made = builder.finish();
        let shape = Shape::new(recorded, &made.volumes);
        made.chunks.first().map(|chunk| shape.batch(chunk)).transpose()
    }
}

impl Iterator for FromReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let read = self.read();
        self.ended |= read.is_err();
        read.transpose()
    }
}

impl RecordBatchReader for FromReader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
