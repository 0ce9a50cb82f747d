//! Opening a byte source: files and standard input, with gzip, xz and zstd removed by their magic bytes.
//! Everything streams; a decompression bomb costs time but never more memory than the named limits. It must
//! not know formats.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{ErrorKind, TraceError};
use crate::limits::{MAX_COMPRESSION_LAYERS, MAX_XZ_MEMORY_BYTES, MAX_ZSTD_WINDOW_LOG};

const READ_BYTES: usize = 64 * 1024;
const MAGIC_BYTES: usize = 6;
const STANDARD_INPUT: &str = "-";

/// A decompressed stream and how far the bytes below it have been read.
pub(crate) struct InputStream {
    pub(crate) reader: Box<dyn BufRead + Send>,
    pub(crate) raw_bytes: Arc<AtomicU64>,
    pub(crate) total_bytes: Option<u64>,
    pub(crate) compressed: bool,
    /// The file below, when it is one.
    #[cfg(feature = "parquet")]
    file: Option<Arc<File>>,
}

#[cfg(feature = "parquet")]
impl InputStream {
    /// The file that the trace is, if it is one and not compressed.
    pub(crate) fn whole(&self) -> Option<crate::whole::WholeFile> {
        let file = Arc::clone(self.file.as_ref().filter(|_| !self.compressed)?);
        let total_bytes = self.total_bytes?;
        Some(crate::whole::WholeFile { file, total_bytes, raw_bytes: Arc::clone(&self.raw_bytes) })
    }
}

/// Opens `path` (`-` is standard input).
pub(crate) fn open(path: &Path) -> Result<InputStream, TraceError> {
    if path.as_os_str() == STANDARD_INPUT {
        return from_reader(Box::new(io::stdin()), None, path);
    }
    let failed = |error: io::Error| {
        // A shell hands on a pattern that matches nothing.
        let is_pattern = path.as_os_str().as_encoded_bytes().iter().any(|byte| b"*?".contains(byte));
        let help = match error.kind() {
            io::ErrorKind::NotFound if is_pattern => "no file matches this pattern",
            _ => "check its path and rights",
        };
        TraceError::new(ErrorKind::Io, path, format!("Cannot open the trace: {error}; {help}"))
            .caused_by(error)
    };
    let file = File::open(path).map_err(failed)?;
    let facts = file.metadata().map_err(failed)?;
    if facts.is_dir() {
        let message = "Cannot read a folder as a trace; name a file in it";
        return Err(TraceError::new(ErrorKind::Io, path, message));
    }
    let total_bytes = facts.is_file().then_some(facts.len());
    #[cfg(feature = "parquet")]
    let again = facts.is_file().then(|| file.try_clone().map_err(failed)).transpose()?;
    let source = from_reader(Box::new(file), total_bytes, path)?;
    #[cfg(feature = "parquet")]
    let source = InputStream { file: again.map(Arc::new), ..source };
    Ok(source)
}

/// Removes the compressions around `raw`.
pub(crate) fn from_reader(
    raw: Box<dyn Read + Send>,
    total_bytes: Option<u64>,
    path: &Path,
) -> Result<InputStream, TraceError> {
    let raw_bytes = Arc::new(AtomicU64::new(0));
    let counted = Counted { raw, bytes: Arc::clone(&raw_bytes) };
    let mut reader: Box<dyn BufRead + Send> = Box::new(BufReader::with_capacity(READ_BYTES, counted));
    let mut layers = 0;
    loop {
        let failed = |error: io::Error| {
            let kind = match error.kind() {
                _ if layers == 0 => ErrorKind::Io,
                io::ErrorKind::UnexpectedEof => ErrorKind::Truncated,
                _ => ErrorKind::Compression,
            };
            let todo = match layers {
                0 => "check the device or network it is on",
                _ => "see whether it can be decompressed, or fetch it again",
            };
            let message = format!("Cannot read the start of the trace: {error}; {todo}");
            TraceError::new(kind, path, message).caused_by(error)
        };
        let magic = peek(&mut reader).map_err(failed)?;
        let compression = Compression::of(&magic);
        reader = Box::new(Cursor::new(magic).chain(reader));
        let Some(compression) = compression else { break };
        if layers == MAX_COMPRESSION_LAYERS {
            let message = format!(
                "Compressed more than {MAX_COMPRESSION_LAYERS} times over; decompress the trace before reading it"
            );
            return Err(TraceError::new(ErrorKind::Compression, path, message));
        }
        reader = compression.remove(reader).map_err(failed)?;
        layers += 1;
    }
    Ok(InputStream {
        reader,
        raw_bytes,
        total_bytes,
        compressed: layers > 0,
        #[cfg(feature = "parquet")]
        file: None,
    })
}

fn peek(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut magic = Vec::with_capacity(MAGIC_BYTES);
    reader.take(MAGIC_BYTES as u64).read_to_end(&mut magic)?;
    Ok(magic)
}

enum Compression {
    Gzip,
    Xz,
    Zstd,
}

impl Compression {
    fn of(magic: &[u8]) -> Option<Compression> {
        match magic {
            [0x1f, 0x8b, 8, ..] => Some(Compression::Gzip),
            [0xfd, b'7', b'z', b'X', b'Z', 0] => Some(Compression::Xz),
            // A frame, or a skippable frame before one, as parallel compressors write.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Compression::Zstd),
            _ => None,
        }
    }

    /// Each decoder goes on with the next member, stream or frame when one ends.
    fn remove(self, reader: Box<dyn BufRead + Send>) -> io::Result<Box<dyn BufRead + Send>> {
        match self {
            Compression::Gzip => Ok(buffered(flate2::bufread::MultiGzDecoder::new(reader))),
            Compression::Xz => {
                let stream = liblzma::stream::Stream::new_stream_decoder(
                    MAX_XZ_MEMORY_BYTES,
                    liblzma::stream::CONCATENATED,
                )?;
                Ok(buffered(liblzma::bufread::XzDecoder::new_stream(reader, stream)))
            }
            Compression::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(reader)?;
                decoder.window_log_max(MAX_ZSTD_WINDOW_LOG)?;
                Ok(buffered(decoder))
            }
        }
    }
}

fn buffered(reader: impl Read + Send + 'static) -> Box<dyn BufRead + Send> {
    Box::new(BufReader::with_capacity(READ_BYTES, reader))
}

/// Counts the bytes that pass.
struct Counted {
    raw: Box<dyn Read + Send>,
    bytes: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.raw.read(into)?;
        self.bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
