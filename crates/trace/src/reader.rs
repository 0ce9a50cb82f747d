//! Opening a trace and reading it in batches. It must not know any format's details.

use std::borrow::Cow;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lode_types::TraceRequest;

use crate::compact::Recorded;
use crate::error::{ErrorKind, TraceError};
use crate::feed::{Feed, More, with_short_numbers, without_signs};
use crate::formats::{self, Decoder, DetectedFormat, Format};
use crate::input::Input;
use crate::limits::{BATCH_REQUESTS, HEAD_BYTES, MAX_UNIT_BYTES, MIN_UNIT_BYTES};
use crate::skips::Skips;
use crate::source::{self, InputStream};
use crate::volumes::check_name;

/// What to do with a record that cannot be understood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Make it an error.
    #[default]
    Stop,
    /// Count it, remember where the first ones are ([`Reader::skipped`]), and go on where that is possible.
    /// A compressed stream that is damaged or cut counts as ended there, after its last whole record. A damaged
    /// header of the compact format cannot be passed over and is still an error.
    Skip,
}

/// How to read a trace.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// Name of the format, instead of finding it out; see [`crate::formats`].
    pub format: Option<String>,
    /// What to do with bad records.
    pub on_error: OnError,
    /// Bytes that a block number counts, in formats of bare block numbers, instead of the format's default
    /// ([`crate::FormatInfo::default_unit_bytes`]); [`MIN_UNIT_BYTES`] to [`MAX_UNIT_BYTES`].
    pub unit_bytes: Option<u64>,
}

/// How far a trace has been read, before decompression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadProgress {
    /// Bytes read so far.
    pub read_bytes: u64,
    /// Size of the file; unknown for standard input and pipes.
    pub total_bytes: Option<u64>,
}

/// What a block number was taken to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Bytes.
    pub bytes: u64,
    /// It is the format's default, as [`ReadOptions::unit_bytes`] does not say.
    pub assumed: bool,
}

/// What the first batch of requests is.
#[derive(Clone, Copy)]
struct FirstRequests {
    /// The size that half of them have at least, if that is implausibly large.
    large_bytes: Option<u32>,
}

/// A trace being read.
pub struct Reader {
    feed: Feed,
    decoder: Box<dyn Decoder>,
    format: &'static Format,
    also_fits: Vec<&'static str>,
    /// What its first requests are, once there are some.
    first: Option<FirstRequests>,
    unit: Option<Unit>,
    recorded: Recorded,
    raw_bytes: Arc<AtomicU64>,
    total_bytes: Option<u64>,
    /// An error that waits until the requests before it are delivered.
    pending: Option<TraceError>,
    ended: bool,
    backwards: u64,
    last_ns: u64,
}

/// Opens the trace at `path`; `-` is standard input.
///
/// # Errors
/// [`ErrorKind::Io`], [`ErrorKind::Compression`], [`ErrorKind::UnknownFormat`], [`ErrorKind::Unit`].
pub fn open_trace(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Reader, TraceError> {
    let path = path.as_ref();
    start(source::open(path)?, path, options)
}

/// Reads a trace from any byte stream, compressed or not. `name` stands in for the file name in detection
/// and in messages.
///
/// # Errors
/// As [`open_trace`].
pub fn read_trace(
    input: impl Read + Send + 'static,
    name: impl AsRef<Path>,
    options: &ReadOptions,
) -> Result<Reader, TraceError> {
    let name = name.as_ref();
    start(source::from_reader(Box::new(input), None, name)?, name, options)
}

fn start(source: InputStream, path: &Path, options: &ReadOptions) -> Result<Reader, TraceError> {
    #[cfg(feature = "parquet")]
    let whole = source.whole();
    let InputStream { reader, raw_bytes, total_bytes, compressed, .. } = source;
    let mut input = Input::new(reader);
    input.look_ahead(HEAD_BYTES);
    let head = input.available();
    let DetectedFormat { format, also_fits } = match &options.format {
        Some(name) => {
            let named = formats::by_name(name).map(DetectedFormat::sure);
            named.ok_or_else(|| no_format(path, &format!("No format is called {name}")))?
        }
        None => match detect(head, path) {
            Ok(Some(found)) => found,
            Ok(None) if head.is_empty() => {
                // The reason for having nothing may be a read error.
                let mut feed = Feed::new(input, path.to_owned(), stem(path), compressed, options.on_error);
                feed.input.more().map_err(|error| feed.read_failed(error))?;
                return Err(no_format(path, "The trace is empty and its name has no known ending"));
            }
            Ok(None) if head.starts_with(formats::PARQUET_MAGIC) => {
                let message =
                    "This is Parquet, which this program was built without; build it with --features parquet";
                return Err(TraceError::new(ErrorKind::UnknownFormat, path, message));
            }
            Ok(None) => return Err(no_format(path, "The trace is in no known format")),
            Err(candidates) => return Err(ambiguous(path, &candidates)),
        },
    };
    let unit_bytes = unit_of(format, options, path)?;
    let decoder = (format.decoder)(head);
    let recorded = (format.recorded)(head);
    let mut feed = Feed::new(input, path.to_owned(), stem(path), compressed, options.on_error);
    feed.unit_bytes = unit_bytes;
    #[cfg(feature = "parquet")]
    {
        feed.whole = whole;
    }
    let unit =
        format.default_unit_bytes.map(|_| Unit { bytes: unit_bytes, assumed: options.unit_bytes.is_none() });
    Ok(Reader {
        also_fits,
        unit,
        raw_bytes,
        total_bytes,
        ..Reader::of_decoder(feed, decoder, format, recorded)
    })
}

/// The format of a trace that starts with `head`. One that is recognised only without its minus signs, or with shorter
/// numbers, is taken for what it then is, as its decoder says best what is negative or too large, and where.
fn detect(head: &[u8], path: &Path) -> Result<Option<DetectedFormat>, Vec<&'static Format>> {
    let (mut found, mut text) = (formats::detect(head, path), Cow::Borrowed(head));
    for simpler in [without_signs, with_short_numbers] {
        if let (Ok(None), Some(simple)) = (&found, simpler(&text)) {
            found = formats::detect(&simple, path);
            text = Cow::Owned(simple);
        }
    }
    found
}

fn no_format(path: &Path, what: &str) -> TraceError {
    TraceError::new(ErrorKind::UnknownFormat, path, what.to_owned()).lacking_format()
}

fn ambiguous(path: &Path, candidates: &[&Format]) -> TraceError {
    let names: Vec<_> = candidates.iter().map(|format| format.name).collect();
    let message = format!(
        "The content fits the formats {}, which count in different units; say which it is with --format",
        names.join(", ")
    );
    TraceError::new(ErrorKind::UnknownFormat, path, message)
}

/// What a block number counts, in bytes; 1 in formats that state their units.
fn unit_of(format: &Format, options: &ReadOptions, path: &Path) -> Result<u64, TraceError> {
    let bad = |message| Err(TraceError::new(ErrorKind::Unit, path, message));
    match (options.unit_bytes, format.default_unit_bytes) {
        (None, default) => Ok(default.unwrap_or(1)),
        (Some(unit), Some(_)) if (MIN_UNIT_BYTES..=MAX_UNIT_BYTES).contains(&unit) => Ok(unit),
        (Some(unit), Some(_)) => {
            bad(format!("A unit of {unit} bytes; it has to be of {MIN_UNIT_BYTES} to {MAX_UNIT_BYTES} bytes"))
        }
        (Some(_), None) => bad(format!(
            "A unit is given, but the format {} states its units itself; read the trace without --unit",
            format.name
        )),
    }
}

/// The file name without compression and format endings: "hm_0" for "hm_0.csv.gz".
pub(crate) fn stem(path: &Path) -> String {
    if path.as_os_str() == "-" {
        return "stdin".to_owned();
    }
    let mut stem = path.to_owned();
    if stem.extension().is_some_and(formats::is_compression_ending) {
        stem.set_extension("");
    }
    let stem = stem.file_stem().unwrap_or_default().to_string_lossy();
    check_name(stem.into_owned().into_bytes()).unwrap_or_else(|_| "trace".to_owned())
}

impl Reader {
    /// Reads what `decoder` gives.
    pub(crate) fn of_decoder(
        feed: Feed,
        decoder: Box<dyn Decoder>,
        format: &'static Format,
        recorded: Recorded,
    ) -> Reader {
        Reader {
            feed,
            decoder,
            format,
            also_fits: Vec::new(),
            first: None,
            unit: None,
            recorded,
            raw_bytes: Arc::default(),
            total_bytes: None,
            pending: None,
            ended: false,
            backwards: 0,
            last_ns: 0,
        }
    }

    /// Replaces `out` by the next requests, in the trace's order, at most [`BATCH_REQUESTS`] of them, and
    /// says how many; zero means that the trace has ended.
    ///
    /// # Errors
    /// The requests before a bad record are delivered first; the error comes with the call after. After an
    /// error the trace counts as ended.
    pub fn next_batch(&mut self, out: &mut Vec<TraceRequest>) -> Result<usize, TraceError> {
        out.clear();
        while out.is_empty() && !self.ended {
            match self.decoder.decode(&mut self.feed, out) {
                Ok(More::Yes) => {}
                Ok(More::No) => self.ended = true,
                Err(error) => {
                    self.ended = true;
                    self.pending = Some(error);
                }
            }
        }
        if out.is_empty()
            && let Some(error) = self.pending.take()
        {
            return Err(error);
        }
        debug_assert!(out.len() <= BATCH_REQUESTS);
        self.count_backwards(out);
        if self.first.is_none() && !out.is_empty() {
            let is_sure = self.format.units_told || self.unit.is_some_and(|unit| !unit.assumed);
            let large_bytes = formats::usual_size_if_large(out).filter(|_| !is_sure);
            self.first = Some(FirstRequests { large_bytes });
        }
        Ok(out.len())
    }

    fn count_backwards(&mut self, batch: &[TraceRequest]) {
        for request in batch {
            self.backwards += u64::from(request.time_ns < self.last_ns);
            self.last_ns = request.time_ns;
        }
    }

    /// Names of the volumes met so far; [`TraceRequest::volume`] is an index into them. Formats without
    /// volume names have one volume, named after the file.
    pub fn volumes(&self) -> &[String] {
        self.feed.volumes.names()
    }

    /// How far the file has been read.
    pub fn progress(&self) -> ReadProgress {
        ReadProgress { read_bytes: self.raw_bytes.load(Ordering::Relaxed), total_bytes: self.total_bytes }
    }

    /// What was skipped so far.
    pub fn skipped(&self) -> &Skips {
        &self.feed.skips
    }

    /// Requests so far whose time is before that of the request just before them.
    pub fn backwards(&self) -> u64 {
        self.backwards
    }

    /// Name of the format.
    pub fn format(&self) -> &'static str {
        self.format.name
    }

    /// Names of the formats that the content fits as well as [`Reader::format`], but for requests that no disk has.
    pub fn also_fits(&self) -> &[&'static str] {
        &self.also_fits
    }

    /// The size that half of the first batch of requests have at least, where that is implausibly large and another format,
    /// or a unit of block numbers, could make it smaller; `None` before the first batch.
    pub fn implausible_bytes(&self) -> Option<u32> {
        self.first?.large_bytes
    }

    /// What block numbers were taken to count, in formats of bare block numbers.
    pub fn unit(&self) -> Option<Unit> {
        self.unit
    }

    /// Whether times were recorded. If not, they only keep the order of requests: rates, spans and everything else that
    /// depends on times would be made up.
    pub fn has_times(&self) -> bool {
        self.recorded.times
    }

    /// What the trace records of its requests beside what and where.
    pub fn recorded(&self) -> Recorded {
        self.recorded
    }

    /// The trace, as it was named when opened.
    pub fn path(&self) -> &Path {
        &self.feed.path
    }

    /// The file name without endings, as VMs are named after it.
    pub fn stem(&self) -> &str {
        &self.feed.stem
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path: &PathBuf = &self.feed.path;
        f.debug_struct("Reader")
            .field("path", path)
            .field("format", &self.format.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems() {
        for (path, expected) in [
            ("/a/hm_0.csv.gz", "hm_0"),
            ("hm_0.csv", "hm_0"),
            ("x.lode.zst", "x"),
            ("x.gz", "x"),
            ("plain", "plain"),
            ("-", "stdin"),
            ("/", "trace"),
        ] {
            assert_eq!(stem(Path::new(path)), expected, "{path}");
        }
    }
}
