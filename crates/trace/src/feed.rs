//! What a format's decoder works with: the input window, the volume table and the treatment of faults.
//! It must not know formats.

use std::io;
use std::path::PathBuf;

use lode_types::{Origin, RequestOp, TraceRequest};
use memchr::memchr;

use crate::error::{ErrorKind, Fault, Position, TraceError};
use crate::input::Input;
use crate::limits::{BATCH_REQUESTS, MAX_LINE_BYTES};
use crate::reader::OnError;
use crate::skips::Skips;
use crate::volumes::VolumeTable;

const CUT_STREAM: Fault = Fault::new(ErrorKind::Truncated, "a compressed stream up to its end");
const DAMAGED_STREAM: Fault = Fault::new(ErrorKind::Compression, "an undamaged compressed stream");
const LINE_TOO_LONG: Fault = Fault::new(ErrorKind::LineTooLong, "lines of at most 64 KiB");

/// What some programs write before text in UTF-8. It is no part of the first line.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Whether a decoder can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum More {
    Yes,
    No,
}

/// What one line of text turned out to be.
pub(crate) enum Parsed {
    Request(TraceRequest),
    /// A header, a blank line, another event of a request that is counted elsewhere.
    Nothing,
    /// A well-formed command that is no request.
    OtherCommand,
}

impl Parsed {
    /// A request on `bytes` (the first one, and how many) of which nothing is known of who asks.
    #[inline]
    pub(crate) fn request(time_ns: u64, op: RequestOp, bytes: (u64, u32), volume: u32) -> Parsed {
        let (offset_bytes, length_bytes) = bytes;
        let origin = Origin::UNKNOWN;
        Parsed::Request(TraceRequest { time_ns, offset_bytes, length_bytes, volume, op, origin })
    }
}

/// Everything around the bytes of one trace.
pub(crate) struct Feed {
    pub(crate) input: Input,
    pub(crate) volumes: VolumeTable,
    pub(crate) skips: Skips,
    pub(crate) path: PathBuf,
    /// The only volume's name in formats that have no volume names.
    pub(crate) stem: String,
    pub(crate) compressed: bool,
    pub(crate) on_error: OnError,
    /// Bytes that a block number counts, in formats that do not say.
    pub(crate) unit_bytes: u64,
    /// The file that the trace is, if it is one and not compressed.
    #[cfg(feature = "parquet")]
    pub(crate) whole: Option<crate::whole::WholeFile>,
    lines: u64,
    cut: bool,
}

impl Feed {
    pub(crate) fn new(
        input: Input,
        path: PathBuf,
        stem: String,
        compressed: bool,
        on_error: OnError,
    ) -> Feed {
        Feed {
            input,
            volumes: VolumeTable::default(),
            skips: Skips::default(),
            path,
            stem,
            compressed,
            on_error,
            unit_bytes: 1,
            #[cfg(feature = "parquet")]
            whole: None,
            lines: 0,
            cut: false,
        }
    }

    /// The only volume of a format without volume names.
    pub(crate) fn only_volume(&mut self) -> Result<u32, TraceError> {
        let Feed { volumes, stem, .. } = self;
        let found = volumes.lookup(stem.as_bytes(), <[u8]>::to_vec);
        found.map_err(|fault| TraceError::new(fault.kind, &self.path, fault.message(false)))
    }

    /// Counts the fault when faults are skipped, else makes it the error.
    #[cold]
    pub(crate) fn fault(&mut self, fault: Fault, position: Position) -> Result<(), TraceError> {
        match self.on_error {
            OnError::Stop => Err(TraceError::new(fault.kind, &self.path, fault.message(true)).at(position)),
            OnError::Skip => {
                self.skips.record(fault, position);
                Ok(())
            }
        }
    }

    /// A fault that nothing can be read beyond, as an error whatever the option says.
    pub(crate) fn fatal(&self, fault: Fault, position: Position) -> TraceError {
        TraceError::new(fault.kind, &self.path, fault.message(false)).at(position)
    }

    /// Reads more of the input; false at its end.
    pub(crate) fn more(&mut self) -> Result<bool, TraceError> {
        self.input.more().or_else(|error| self.broken_off(error))
    }

    /// Reads until `count` bytes are available; false when the input ends before that.
    pub(crate) fn need(&mut self, count: usize) -> Result<bool, TraceError> {
        self.input.need(count).or_else(|error| self.broken_off(error))
    }

    /// Whether a compressed stream broke off and counts as ended there.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }

    /// A read failed. When faults are skipped and it is the compressed stream that is cut or damaged, the trace
    /// ends there: with the last whole record, as half of one could be taken for another.
    #[cold]
    fn broken_off(&mut self, error: io::Error) -> Result<bool, TraceError> {
        if !self.is_damage(&error) || self.on_error == OnError::Stop {
            return Err(self.read_failed(error));
        }
        let rest = self.input.available().len();
        self.input.consume(rest);
        self.cut = true;
        let fault = if is_cut_off(&error) { CUT_STREAM } else { DAMAGED_STREAM };
        self.skips.record(fault, Position::at_byte(self.input.offset()));
        Ok(false)
    }

    /// Whether a failed read is the fault of the compressed stream and not of what it is on.
    fn is_damage(&self, error: &io::Error) -> bool {
        self.compressed && error.raw_os_error().is_none()
    }

    /// A failed read, with the place up to which the trace was read.
    pub(crate) fn read_failed(&self, error: io::Error) -> TraceError {
        let (kind, message) = if !self.is_damage(&error) {
            (ErrorKind::Io, format!("Cannot read the trace: {error}; check the device or network it is on"))
        } else {
            let (fault, what) = if is_cut_off(&error) {
                (CUT_STREAM, "ends too early")
            } else {
                (DAMAGED_STREAM, "is damaged")
            };
            let todo = "fetch the trace again, or use what there is before that with --on-error skip";
            (fault.kind, format!("Compressed stream {what} ({error}); {todo}"))
        };
        let byte = self.input.offset() + self.input.available().len() as u64;
        TraceError::new(kind, &self.path, message).at(Position::at_byte(byte)).caused_by(error)
    }

    /// Cuts the input into lines (without their end) and gives each to `parse`, until a batch is full or
    /// the input ends.
    pub(crate) fn lines<P>(&mut self, out: &mut Vec<TraceRequest>, parse: P) -> Result<More, TraceError>
    where
        P: FnMut(&[u8], &mut VolumeTable) -> Result<Parsed, Fault>,
    {
        self.lines_quickly(out, |_, _| None, parse)
    }

    /// Like [`Feed::lines`], but `usual` is tried first on each line. It gets the text from the line's start on,
    /// finds the line's end on its own, and gives the request and the line's length with its end; or `None` for
    /// anything that `parse` had better look at.
    pub(crate) fn lines_quickly<U, P>(
        &mut self,
        out: &mut Vec<TraceRequest>,
        mut usual: U,
        mut parse: P,
    ) -> Result<More, TraceError>
    where
        U: FnMut(&[u8], &VolumeTable) -> Option<(TraceRequest, usize)>,
        P: FnMut(&[u8], &mut VolumeTable) -> Result<Parsed, Fault>,
    {
        if self.input.offset() == 0 && self.input.available().starts_with(BYTE_ORDER_MARK) {
            self.input.consume(BYTE_ORDER_MARK.len());
        }
        let (mut used, mut ended) = (0, false);
        loop {
            used += self.usual_lines(used, out, &mut usual);
            if out.len() >= BATCH_REQUESTS {
                break;
            }
            let window = &self.input.available()[used..];
            let (len, step) = match memchr(b'\n', window) {
                Some(len) => (len, len + 1),
                None if ended && !window.is_empty() => (window.len(), window.len()),
                None => {
                    let too_long = window.len() > MAX_LINE_BYTES;
                    self.input.consume(used);
                    used = 0;
                    if ended {
                        return Ok(More::No);
                    }
                    if too_long {
                        self.skip_long_line()?;
                    } else {
                        ended = !self.more()?;
                    }
                    continue;
                }
            };
            self.one_line(used, len, &mut parse, out)?;
            used += step;
        }
        self.input.consume(used);
        Ok(More::Yes)
    }

    /// The lines at `start` in the window as far as they are usual; gives their length.
    ///
    /// Not inlined: in a function of its own the loop keeps its variables in registers.
    #[inline(never)]
    fn usual_lines<U>(&mut self, start: usize, out: &mut Vec<TraceRequest>, usual: &mut U) -> usize
    where
        U: FnMut(&[u8], &VolumeTable) -> Option<(TraceRequest, usize)>,
    {
        let text = &self.input.available()[start..];
        let mut rest = text;
        out.reserve(BATCH_REQUESTS.saturating_sub(out.len()));
        let before = out.len();
        while out.len() < BATCH_REQUESTS
            && let Some((request, len)) = usual(rest, &self.volumes)
            && len <= MAX_LINE_BYTES
            && check_request(&request).is_ok()
        {
            out.push(request);
            rest = &rest[len..];
        }
        self.lines += (out.len() - before) as u64;
        text.len() - rest.len()
    }

    /// The line of `len` bytes at `start` in the window.
    fn one_line<P>(
        &mut self,
        start: usize,
        len: usize,
        parse: &mut P,
        out: &mut Vec<TraceRequest>,
    ) -> Result<(), TraceError>
    where
        P: FnMut(&[u8], &mut VolumeTable) -> Result<Parsed, Fault>,
    {
        self.lines += 1;
        let line = &self.input.available()[start..start + len];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let parsed = if len > MAX_LINE_BYTES { Err(LINE_TOO_LONG) } else { parse(line, &mut self.volumes) };
        match parsed {
            Ok(Parsed::Request(request)) => match check_request(&request) {
                Ok(()) => out.push(request),
                Err(fault) => self.line_fault(fault, start)?,
            },
            Ok(Parsed::Nothing) => {}
            Ok(Parsed::OtherCommand) => self.skips.other_commands += 1,
            Err(fault) => self.line_fault(fault, start)?,
        }
        Ok(())
    }

    #[cold]
    fn line_fault(&mut self, fault: Fault, start: usize) -> Result<(), TraceError> {
        let byte = self.input.offset() + start as u64;
        // A time is the only field that has a kind of fault to itself, and no other may be negative before it.
        let column = if fault.kind == ErrorKind::NegativeTime {
            signs(self.input.available().get(start..).unwrap_or_default()).next().map(|at| at as u64 + 1)
        } else {
            None
        };
        self.fault(fault, Position { byte, line: Some(self.lines), column })
    }

    /// Passes over a line that does not fit the limit, if faults are skipped.
    fn skip_long_line(&mut self) -> Result<(), TraceError> {
        self.lines += 1;
        self.line_fault(LINE_TOO_LONG, 0)?;
        loop {
            let window = self.input.available();
            if let Some(len) = memchr(b'\n', window) {
                self.input.consume(len + 1);
                return Ok(());
            }
            let len = window.len();
            self.input.consume(len);
            if !self.more()? {
                return Ok(());
            }
        }
    }
}

/// Where in a text a field begins with a minus sign before a digit, from the front on.
fn signs(text: &[u8]) -> impl Iterator<Item = usize> {
    let begins_field = |at: usize| at == 0 || matches!(text[at - 1], b'\n' | b',' | b' ' | b'\t');
    let before_digit = |at: usize| text.get(at + 1).is_some_and(u8::is_ascii_digit);
    memchr::memchr_iter(b'-', text).filter(move |&at| begins_field(at) && before_digit(at))
}

/// A text with the minus signs taken off its numbers, or `None` if there are none.
pub(crate) fn without_signs(text: &[u8]) -> Option<Vec<u8>> {
    let mut signs = signs(text).peekable();
    signs.peek()?;
    let (mut rest, mut bare) = (0, Vec::with_capacity(text.len()));
    for at in signs {
        bare.extend_from_slice(&text[rest..at]);
        rest = at + 1;
    }
    bare.extend_from_slice(&text[rest..]);
    Some(bare)
}

/// Most digits of a number that fits 64 bits whatever its digits are, and as a time in ticks of 100 ns too, at 17.
const SHORT_DIGITS: usize = 17;

/// A text with its longest numbers cut to [`SHORT_DIGITS`], or `None` if there are none so long.
pub(crate) fn with_short_numbers(text: &[u8]) -> Option<Vec<u8>> {
    let mut run = 0;
    let is_kept = |byte: &u8| {
        run = if byte.is_ascii_digit() { run + 1 } else { 0 };
        run <= SHORT_DIGITS
    };
    let short: Vec<u8> = text.iter().copied().filter(is_kept).collect();
    (short.len() < text.len()).then_some(short)
}

/// Whether a decoder failed because there was nothing more to decode.
fn is_cut_off(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof
}

/// What holds for the requests of every format.
#[inline]
pub(crate) fn check_request(request: &TraceRequest) -> Result<(), Fault> {
    if request.length_bytes == 0 && request.op != RequestOp::Flush {
        return Err(Fault::new(ErrorKind::ZeroLength, "a read, write or trim of at least one byte"));
    }
    if request.end_bytes().is_none() {
        return Err(Fault::new(ErrorKind::OutOfRange, "a request that ends below 2^64"));
    }
    Ok(())
}
