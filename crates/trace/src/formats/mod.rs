//! The trace formats: one file each behind [`Decoder`], and the table that lists them.
//!
//! A new format is a file here and a line in [`FORMATS`]. Detection asks every format about the content. One that
//! alone claims it has it. The file name's ending decides when none does, or among several that do; without a telling
//! ending nothing is guessed.

mod alibaba;
mod blkparse;
mod blktrace;
mod columns;
mod disksim;
mod fields;
mod fiu;
mod iolog;
mod lines;
mod lis;
mod lode;
mod msr;
mod msr_cut;
mod oracle_general;
mod oracle_general_csv;
#[cfg(feature = "parquet")]
mod parquet;
mod requests_csv;
mod spc;
mod srt;
mod ssdsim;
mod systor;
mod tencent;
mod u32le;
mod vscsi;
mod vscsi_csv;

use std::ffi::OsStr;
use std::path::Path;

use lode_types::{OriginFields, TraceRequest};

use crate::error::TraceError;
use crate::feed::{BYTE_ORDER_MARK, Feed, More};
use crate::limits::HEAD_BYTES;

/// Every format there is.
static FORMATS: &[&Format] = &[
    &lode::FORMAT,
    &msr::FORMAT,
    &msr_cut::FORMAT,
    &vscsi::FORMAT,
    &vscsi_csv::FORMAT,
    &blkparse::FORMAT,
    &blktrace::FORMAT,
    &iolog::FORMAT,
    &spc::FORMAT,
    &fiu::FORMAT,
    &disksim::FORMAT,
    &ssdsim::FORMAT,
    &srt::FORMAT,
    &systor::FORMAT,
    &tencent::FORMAT,
    &alibaba::FORMAT,
    &oracle_general::FORMAT,
    &oracle_general_csv::FORMAT,
    &lis::FORMAT,
    &u32le::FORMAT,
    &requests_csv::FORMAT,
    #[cfg(feature = "parquet")]
    &parquet::FORMAT,
];

/// What a Parquet file starts with, known also without the feature that reads it.
pub(crate) const PARQUET_MAGIC: &[u8] = b"PAR1";

/// Turns the bytes of one format into requests.
pub(crate) trait Decoder: Send {
    /// Appends requests to the empty `out`, at most [`crate::limits::BATCH_REQUESTS`]; [`More::No`] when the trace has
    /// ended. Every request has passed [`crate::feed::check_request`].
    fn decode(&mut self, feed: &mut Feed, out: &mut Vec<TraceRequest>) -> Result<More, TraceError>;
}

/// One line of the table.
pub(crate) struct Format {
    pub name: &'static str,
    pub about: &'static str,
    /// File name endings, lower case, that stand for the format when the content does not tell.
    pub endings: &'static [&'static str],
    /// Bytes that a block number counts unless the user says otherwise; `None` in formats that state their units.
    pub default_unit_bytes: Option<u64>,
    /// Whether the times of a trace that starts with these bytes were recorded; else they only keep the order.
    pub has_times: fn(&[u8]) -> bool,
    /// What a trace that starts with these bytes tells of who asks.
    pub origins: fn(&[u8]) -> OriginFields,
    /// Whether a trace that starts with these bytes (up to [`HEAD_BYTES`]) may be in this format. Formats that share a
    /// shape claim only what cannot well be another's, see [`columns`].
    pub detect: fn(&[u8]) -> bool,
    /// A decoder for a trace that starts with these bytes.
    pub decoder: fn(&[u8]) -> Box<dyn Decoder>,
}

/// A format's name and what it is, for help texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatInfo {
    /// The name that [`crate::ReadOptions::format`] takes.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// File name endings, lower case and without the dot, that stand for it when the content does not tell.
    pub endings: &'static [&'static str],
    /// Bytes that its block numbers count by default, in formats that do not say; others take no
    /// [`crate::ReadOptions::unit_bytes`].
    pub default_unit_bytes: Option<u64>,
}

/// Every format that can be read.
pub fn formats() -> impl Iterator<Item = FormatInfo> {
    FORMATS.iter().map(|format| FormatInfo {
        name: format.name,
        about: format.about,
        endings: format.endings,
        default_unit_bytes: format.default_unit_bytes,
    })
}

pub(crate) fn by_name(name: &str) -> Option<&'static Format> {
    FORMATS.iter().copied().find(|format| format.name == name)
}

/// The format of a trace that starts with `head`, if one is known.
///
/// # Errors
/// The candidates, when there are several and the name's ending is none of theirs.
pub(crate) fn detect(head: &[u8], path: &Path) -> Result<Option<&'static Format>, Vec<&'static Format>> {
    let claimed: Vec<_> = FORMATS.iter().copied().filter(|format| (format.detect)(head)).collect();
    match claimed[..] {
        [] => Ok(by_ending(path, FORMATS)),
        [format] => Ok(Some(format)),
        _ => by_ending(path, &claimed).map(Some).ok_or(claimed),
    }
}

/// Which of `formats` has the file name's ending, compression aside. An ending may have dots in it.
fn by_ending(path: &Path, formats: &[&'static Format]) -> Option<&'static Format> {
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let mut name = name.as_str();
    while let Some((stem, ending)) = name.rsplit_once('.')
        && is_compression_ending(OsStr::new(ending))
    {
        name = stem;
    }
    let ends = |ending: &str| name.strip_suffix(ending).is_some_and(|stem| stem.ends_with('.'));
    formats.iter().copied().find(|format| format.endings.iter().any(|ending| ends(ending)))
}

/// Whether a file name's last part only says how it is compressed.
pub(crate) fn is_compression_ending(ending: &OsStr) -> bool {
    ["gz", "xz", "zst"].iter().any(|known| ending.eq_ignore_ascii_case(known))
}

/// Lines looked at in detection.
const DETECT_LINES: usize = 64;

/// The first whole lines of `head`, without the mark that text may begin with. The last line counts only when the trace is so short that it ends in it.
fn head_lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let end = if head.len() < HEAD_BYTES { head.len() } else { memchr::memrchr(b'\n', head).unwrap_or(0) };
    let text = head[..end].strip_prefix(BYTE_ORDER_MARK).unwrap_or(&head[..end]);
    text.split(|&b| b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).take(DETECT_LINES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_tell_when_the_content_does_not() {
        for (name, format) in [
            ("a.lode", Some("lode")),
            ("a.LODE.ZST", Some("lode")),
            ("a.blkparse.gz", Some("blkparse")),
            ("a.iolog", Some("iolog")),
            ("a.vscsi", Some("vscsi")),
            ("a.u32le.xz", Some("u32le")),
            ("a.oracleGeneral.zst", Some("oracle-general")),
            ("a.oracleGeneral.bin.zst", Some("oracle-general")),
            ("lode", None),
            ("a.csv", None),
            ("plain", None),
            ("", None),
        ] {
            assert_eq!(detect(b"", Path::new(name)).ok().flatten().map(|f| f.name), format, "{name}");
        }
        assert!(formats().all(|format| by_name(format.name).is_some()));
        assert!(by_name("nothing").is_none());
    }

    #[test]
    fn among_several_claims_the_ending_decides_and_no_ending_is_no_guess() {
        // Nanoseconds and sectors, or milliseconds and bytes.
        let head = b"0 0 4096 4096 1\n1 0 8192 4096 0\n";
        let names = |name: &str| match detect(head, Path::new(name)) {
            Ok(found) => found.map(|format| format.name).into_iter().collect(),
            Err(several) => several.iter().map(|format| format.name).collect::<Vec<_>>(),
        };
        assert_eq!(names("a.trace"), ["msr-cut", "disksim", "ssdsim"]);
        assert_eq!(names("a.lis"), ["msr-cut", "disksim", "ssdsim"]);
        assert_eq!(names("a.ssdsim"), ["ssdsim"]);
        assert_eq!(names("a.msr-cut.gz"), ["msr-cut"]);
    }

    #[test]
    fn every_ending_is_one_formats() {
        let mut endings: Vec<_> = formats().flat_map(|format| format.endings).collect();
        let count = endings.len();
        endings.sort_unstable();
        endings.dedup();
        assert_eq!(endings.len(), count);
    }
}
