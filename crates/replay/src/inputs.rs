//! What reading a trace passed over, for reports. It must not know caches.

use lode_trace::{ErrorKind, Reader, is_synthetic};
use serde::Serialize;

/// One trace: what it is and everything in it that did not become a request in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InputReport {
    /// The trace, as it was named.
    pub path: String,
    /// Name of its format.
    pub format: &'static str,
    /// Formats that the content fits as well, but for requests that no disk has.
    pub also_fits: Vec<&'static str>,
    /// The size that half of the first requests have at least, where that is implausible and another format, or a unit of
    /// block numbers, could make it smaller.
    pub implausible_bytes: Option<u32>,
    /// Whether the times were recorded. If not, nothing that depends on them is told.
    pub has_times: bool,
    /// Bytes that a block number was taken to count; none in formats that state their units.
    pub unit_bytes: Option<u64>,
    /// Whether that is the format's default, which nobody asked for.
    pub unit_assumed: bool,
    /// Whether a volume was made from a profile, and is no recording.
    pub synthetic: bool,
    /// Requests whose time is before that of the request just before them.
    pub backwards: u64,
    /// Well-formed commands that are neither read, write, trim nor flush.
    pub other_commands: u64,
    /// Bad records that were skipped, by kind.
    pub bad_records: Vec<BadRecords>,
}

/// Skipped records of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BadRecords {
    /// What is wrong with them.
    pub kind: &'static str,
    /// How many there are.
    pub count: u64,
    /// The first of them.
    pub first: Vec<RecordPlace>,
}

/// Where a bad record is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordPlace {
    /// Byte offset, after decompression.
    pub byte: u64,
    /// Line from 1, in text formats.
    pub line: Option<u64>,
    /// What should have been there.
    pub expected: &'static str,
}

impl InputReport {
    /// Whether the times of all `inputs` were recorded: one trace without leaves none for the whole.
    pub fn all_have_times(inputs: &[InputReport]) -> bool {
        inputs.iter().all(|input| input.has_times)
    }

    /// The state of `reader`: complete once the trace has ended.
    pub fn of(reader: &Reader) -> InputReport {
        let skips = reader.skipped();
        let bad_records = skips.faults.iter().map(|fault| BadRecords {
            kind: kind_name(fault.kind),
            count: fault.count,
            first: fault
                .first
                .iter()
                .map(|(position, expected)| RecordPlace {
                    byte: position.byte,
                    line: position.line,
                    expected,
                })
                .collect(),
        });
        InputReport {
            path: reader.path().display().to_string(),
            format: reader.format(),
            also_fits: reader.also_fits().to_vec(),
            implausible_bytes: reader.implausible_bytes(),
            has_times: reader.has_times(),
            unit_bytes: reader.unit().map(|unit| unit.bytes),
            unit_assumed: reader.unit().is_some_and(|unit| unit.assumed),
            synthetic: reader.volumes().iter().any(|volume| is_synthetic(volume)),
            backwards: reader.backwards(),
            other_commands: skips.other_commands,
            bad_records: bad_records.collect(),
        }
    }
}

/// The name that reports use, which stays when the enumeration is changed.
fn kind_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Io => "io",
        ErrorKind::Compression => "compression",
        ErrorKind::UnknownFormat => "unknown_format",
        ErrorKind::Unit => "unit",
        ErrorKind::Malformed => "malformed",
        ErrorKind::OutOfRange => "out_of_range",
        ErrorKind::ZeroLength => "zero_length",
        ErrorKind::NegativeTime => "negative_time",
        ErrorKind::LineTooLong => "line_too_long",
        ErrorKind::VolumeName => "volume_name",
        ErrorKind::TooManyVolumes => "too_many_volumes",
        ErrorKind::Checksum => "checksum",
        ErrorKind::Truncated => "truncated",
        ErrorKind::Version => "version",
        ErrorKind::Limit => "limit",
        ErrorKind::Stopped => "stopped",
    }
}
