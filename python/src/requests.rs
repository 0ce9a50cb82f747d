//! Requests in memory, column by column as Arrow has them: checked once, shared with whoever reads them. It must not know
//! files, nor what is made of requests.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::ScalarBuffer;
use lode_trace::limits::{BATCH_REQUESTS, MAX_VOLUMES};
use lode_trace::{GivenRequests, Reader, Recorded, check_volume_name};
use lode_types::{Origin, OriginFields, RequestOp, TraceRequest};

use crate::columns::{Columns, EXPECTED};
use crate::convert::{Bad, codes, flags, maybe_numbers, numbers, short_numbers};

/// Rows of one table, or of a part of it.
#[derive(Clone)]
pub struct Chunk {
    /// Nanoseconds.
    pub time: ScalarBuffer<u64>,
    /// First byte.
    pub offset: ScalarBuffer<u64>,
    /// Bytes.
    pub length: ScalarBuffer<u32>,
    /// Discriminants of [`RequestOp`].
    pub op: ScalarBuffer<i8>,
    /// Indices of volumes.
    pub volume: ScalarBuffer<i32>,
    /// Codes of [`Origin`]; none where nothing is told.
    pub origin: Option<ScalarBuffer<u32>>,
}

/// A trace in memory.
pub struct Requests {
    /// What stands for it where a file would have a name.
    pub name: String,
    /// Its rows.
    pub chunks: Vec<Chunk>,
    /// Names of volumes, in order of appearance.
    pub volumes: Vec<String>,
    /// What is told beside what and where.
    pub recorded: Recorded,
    /// Rows whose time is before that of the row before.
    pub backwards: u64,
    /// The first of them.
    pub first_backwards: Option<u64>,
}

/// Takes rows in.
pub struct Builder {
    made: Requests,
    numbers: HashMap<String, i32>,
    rows: u64,
    last_ns: u64,
}

impl Builder {
    /// Nothing yet.
    pub fn new(name: &str, recorded: Recorded) -> Builder {
        let made = Requests {
            name: name.to_owned(),
            chunks: Vec::new(),
            volumes: Vec::new(),
            recorded,
            backwards: 0,
            first_backwards: None,
        };
        Builder { made, numbers: HashMap::new(), rows: 0, last_ns: 0 }
    }

    /// The number of a volume.
    ///
    /// # Errors
    /// When there are too many.
    fn volume(&mut self, name: &str) -> Result<i32, String> {
        if let Some(&number) = self.numbers.get(name) {
            return Ok(number);
        }
        if self.made.volumes.len() >= MAX_VOLUMES {
            return Err(format!("volume '{name}' is one more than {MAX_VOLUMES}; take fewer at once"));
        }
        check_volume_name(name)?;
        let number = self.made.volumes.len() as i32;
        self.made.volumes.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        Ok(number)
    }

    /// Adds rows that are checked.
    pub fn push(&mut self, chunk: Chunk) {
        let mut last_ns = self.last_ns;
        for (row, &time_ns) in chunk.time.iter().enumerate() {
            if time_ns < last_ns {
                self.made.backwards += 1;
                self.made.first_backwards.get_or_insert(self.rows + row as u64);
            }
            last_ns = time_ns;
        }
        self.last_ns = last_ns;
        self.rows += chunk.time.len() as u64;
        if !chunk.time.is_empty() {
            self.made.chunks.push(chunk);
        }
    }

    /// Adds a table's rows.
    ///
    /// # Errors
    /// What is wrong with which row, and what is expected.
    pub fn push_batch(&mut self, batch: &RecordBatch, columns: &Columns) -> Result<(), String> {
        let first = self.rows;
        let chunk = self.chunk_of(batch, columns).map_err(|(row, message)| {
            format!("Row {}: {message}. Expected: {EXPECTED}", first + row as u64)
        })?;
        self.push(chunk);
        Ok(())
    }

    fn chunk_of(&mut self, batch: &RecordBatch, columns: &Columns) -> Result<Chunk, Bad> {
        let named = |index: usize| format!("'{}'", batch.schema_ref().field(index).name());
        let long = |at: crate::columns::Column| numbers(batch.column(at.index), at.unit, &named(at.index));
        let time = long(columns.time)?;
        let offset = long(columns.offset)?;
        let length = short_numbers(
            batch.column(columns.length.index),
            columns.length.unit,
            &named(columns.length.index),
        )?;
        let op = match columns.op {
            Some(at) => codes(batch.column(at.index), &named(at.index), &mut |text| op_of(text))?,
            None => vec![RequestOp::Read as i8; batch.num_rows()],
        };
        let volume = match columns.volume {
            Some(at) => codes(batch.column(at.index), &named(at.index), &mut |text| self.volume(text))?,
            None if batch.num_rows() == 0 => Vec::new(),
            None => {
                let name = self.made.name.clone();
                vec![self.volume(&name).map_err(|message| (0, message))?; batch.num_rows()]
            }
        };
        let origin = origins(batch, columns)?;
        for row in 0..batch.num_rows() {
            if length[row] == 0 && op[row] != RequestOp::Flush as i8 {
                return Err((
                    row,
                    format!(
                        "{} is 0, and only a flush has no bytes; drop such rows",
                        named(columns.length.index)
                    ),
                ));
            }
            if offset[row].checked_add(length[row].into()).is_none() {
                return Err((row, "the request ends beyond 2^64; drop such rows".to_owned()));
            }
        }
        Ok(Chunk { time, offset, length, op: op.into(), volume: volume.into(), origin })
    }

    /// Adds what a reader gives next; `volumes` are its names so far.
    pub fn push_requests(&mut self, requests: &[TraceRequest], volumes: &[String]) {
        for name in &volumes[self.made.volumes.len()..] {
            self.numbers.insert(name.clone(), self.made.volumes.len() as i32);
            self.made.volumes.push(name.clone());
        }
        let tells = self.made.recorded.origins != OriginFields::NONE;
        self.push(Chunk {
            time: requests.iter().map(|request| request.time_ns).collect(),
            offset: requests.iter().map(|request| request.offset_bytes).collect(),
            length: requests.iter().map(|request| request.length_bytes).collect(),
            op: requests.iter().map(|request| request.op as i8).collect(),
            volume: requests.iter().map(|request| request.volume as i32).collect(),
            origin: tells.then(|| requests.iter().map(|request| request.origin.code()).collect()),
        });
    }

    /// All of it.
    pub fn finish(self) -> Requests {
        self.made
    }
}

fn op_of(text: &str) -> Result<i8, String> {
    const WORDS: [(&str, RequestOp); 5] = [
        ("read", RequestOp::Read),
        ("write", RequestOp::Write),
        ("trim", RequestOp::Trim),
        ("discard", RequestOp::Trim),
        ("flush", RequestOp::Flush),
    ];
    let text = text.trim();
    let is = |word: &str| text.eq_ignore_ascii_case(word) || text.eq_ignore_ascii_case(&word[..1]);
    let found = WORDS.iter().find(|(word, _)| is(word)).map(|(_, op)| *op as i8);
    found.ok_or_else(|| {
        format!("op is '{text}', and it has to be read, write, trim, discard or flush, or its first letter")
    })
}

fn origins(batch: &RecordBatch, columns: &Columns) -> Result<Option<ScalarBuffer<u32>>, Bad> {
    let Columns { process, sync, critical, .. } = columns;
    if process.or(*sync).or(*critical).is_none() {
        return Ok(None);
    }
    let nothing = batch.num_rows();
    let flag = |at: &Option<crate::columns::Column>, what| match at {
        Some(at) => flags(batch.column(at.index), what),
        None => Ok(vec![None; nothing]),
    };
    let processes = match process {
        Some(at) => maybe_numbers(batch.column(at.index), "process")?,
        None => vec![None; nothing],
    };
    let (syncs, criticals) = (flag(sync, "sync")?, flag(critical, "critical")?);
    let mut made = Vec::with_capacity(nothing);
    for row in 0..nothing {
        let mut origin = Origin::UNKNOWN;
        if let Some(process) = processes[row] {
            let with = origin.with_process(process);
            origin = with
                .ok_or_else(|| (row, format!("process is {process}, more than {}", Origin::MAX_PROCESS)))?;
        }
        origin = syncs[row].map_or(origin, |sync| origin.with_sync(sync));
        origin = criticals[row].map_or(origin, |critical| origin.with_critical(critical));
        made.push(origin.code());
    }
    Ok(Some(made.into()))
}

impl Columns {
    /// What a table with these columns tells beside what and where.
    pub fn recorded(&self) -> Recorded {
        let (process, sync, critical) =
            (self.process.is_some(), self.sync.is_some(), self.critical.is_some());
        Recorded { times: true, origins: OriginFields { process, sync, critical } }
    }
}

impl Requests {
    /// How many.
    pub fn rows(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.time.len() as u64).sum()
    }

    /// Reads them like a trace.
    pub fn reader(self: &Arc<Requests>) -> Reader {
        let given = Given { requests: Arc::clone(self), chunk: 0, row: 0 };
        Reader::given(Box::new(given), &self.name, self.recorded)
    }

    /// How many volumes have requests.
    pub fn used_volumes(&self) -> usize {
        let mut used = vec![false; self.volumes.len()];
        self.chunks
            .iter()
            .flat_map(|chunk| chunk.volume.iter())
            .for_each(|&volume| used[volume as usize] = true);
        used.into_iter().filter(|used| *used).count()
    }

    /// The same by time; rows of the same time keep their order.
    pub fn sorted(&self) -> Requests {
        let mut all: Vec<(u64, u32, u32)> = Vec::with_capacity(self.rows() as usize);
        for (number, chunk) in self.chunks.iter().enumerate() {
            all.extend(
                chunk.time.iter().enumerate().map(|(row, &time_ns)| (time_ns, number as u32, row as u32)),
            );
        }
        // Stable by what stands in the triple: chunk and row are the order so far.
        all.sort_unstable();
        let mut builder = Builder::new(&self.name, self.recorded);
        builder.made.volumes = self.volumes.clone();
        let requests: Vec<TraceRequest> =
            all.iter().map(|&(_, chunk, row)| self.chunks[chunk as usize].request(row as usize)).collect();
        for part in requests.chunks(crate::source::CHUNK_REQUESTS) {
            builder.push_requests(part, &self.volumes);
        }
        builder.finish()
    }
}

impl Chunk {
    fn request(&self, row: usize) -> TraceRequest {
        let origin = self.origin.as_ref().and_then(|codes| Origin::from_code(codes[row]));
        TraceRequest {
            time_ns: self.time[row],
            offset_bytes: self.offset[row],
            length_bytes: self.length[row],
            volume: self.volume[row] as u32,
            op: RequestOp::from_code(self.op[row] as u8).unwrap_or(RequestOp::Read),
            origin: origin.unwrap_or(Origin::UNKNOWN),
        }
    }
}

/// Gives them batch by batch.
struct Given {
    requests: Arc<Requests>,
    chunk: usize,
    row: usize,
}

impl GivenRequests for Given {
    fn next_batch(&mut self, out: &mut Vec<TraceRequest>) -> Result<(), String> {
        while out.len() < BATCH_REQUESTS
            && let Some(chunk) = self.requests.chunks.get(self.chunk)
        {
            let end = chunk.time.len().min(self.row + BATCH_REQUESTS - out.len());
            out.extend((self.row..end).map(|row| chunk.request(row)));
            self.row = end;
            if end == chunk.time.len() {
                (self.chunk, self.row) = (self.chunk + 1, 0);
            }
        }
        Ok(())
    }

    fn volumes(&self) -> &[String] {
        &self.requests.volumes
    }
}
