//! The trace formats: one file each behind [`Decoder`], and the table that lists them.
//!
//! A new format is a file here and a line in [`FORMATS`]. Detection asks every format about the content. One that
//! alone claims it has it. The file name's ending decides when none does, or among several that do; without a telling
//! ending the one whose requests are plausible has it, see [`plausible`], and the others are remembered. Where several are,
//! nothing is guessed.

mod alibaba;
mod blkparse;
mod blktrace;
mod columns;
mod fields;
mod fiu;
mod iolog;
mod lines;
mod lis;
mod lode;
mod msr;
mod oracle_general;
mod oracle_general_csv;
#[cfg(feature = "parquet")]
mod parquet;
mod plausible;
mod requests_csv;
mod spc;
mod srt;
mod systor;
mod tencent;
mod u32le;
mod vscsi;
mod vscsi_csv;

use std::ffi::OsStr;
use std::path::Path;

use lode_types::TraceRequest;

use crate::compact::Recorded;
use crate::error::TraceError;
use crate::feed::{BYTE_ORDER_MARK, Feed, More};
use crate::limits::HEAD_BYTES;

pub(crate) use plausible::usual_size_if_large;

/// Every format there is.
static FORMATS: &[&Format] = &[
    &lode::FORMAT,
    &msr::FORMAT,
    &columns::MSR_CUT,
    &columns::HEIMDALL,
    &vscsi::FORMAT,
    &vscsi_csv::FORMAT,
    &blkparse::FORMAT,
    &blktrace::FORMAT,
    &iolog::FORMAT,
    &spc::FORMAT,
    &fiu::FORMAT,
    &columns::DISKSIM,
    &columns::SSDSIM,
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
    /// Whether a trace shows that its sizes are in this format's units. If not, one of the same shape may count
    /// differently, and what comes out is looked at, see [`plausible`].
    pub units_told: bool,
    /// What a trace that starts with these bytes records beside what and where.
    pub recorded: fn(&[u8]) -> Recorded,
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

/// A format that was found out.
pub(crate) struct DetectedFormat {
    pub format: &'static Format,
    /// Names of the formats that the content fits as well, but for requests that are not plausible.
    pub also_fits: Vec<&'static str>,
}

impl DetectedFormat {
    pub(crate) fn sure(format: &'static Format) -> DetectedFormat {
        DetectedFormat { format, also_fits: Vec::new() }
    }
}

/// The format of a trace that starts with `head`, if one is known.
///
/// # Errors
/// The candidates, when there are several, the name's ending is none of theirs, and not one alone is plausible.
pub(crate) fn detect(head: &[u8], path: &Path) -> Result<Option<DetectedFormat>, Vec<&'static Format>> {
    let claimed: Vec<_> = FORMATS.iter().copied().filter(|format| (format.detect)(head)).collect();
    match claimed[..] {
        [] => Ok(by_ending(path, FORMATS).map(DetectedFormat::sure)),
        [format] => Ok(Some(DetectedFormat::sure(format))),
        _ => match by_ending(path, &claimed) {
            Some(format) => Ok(Some(DetectedFormat::sure(format))),
            None => plausible::only_one(&claimed, head).map(Some).ok_or(claimed),
        },
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

/// The whole lines of `head`, without the mark that text may begin with. The last line counts only when the trace is so
/// short that it ends in it.
fn head_lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let end = if head.len() < HEAD_BYTES { head.len() } else { memchr::memrchr(b'\n', head).unwrap_or(0) };
    let text = head[..end].strip_prefix(BYTE_ORDER_MARK).unwrap_or(&head[..end]);
    text.split(|&b| b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line))
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
            assert_eq!(detect(b"", Path::new(name)).ok().flatten().map(|f| f.format.name), format, "{name}");
        }
        assert!(formats().all(|format| by_name(format.name).is_some()));
        assert!(by_name("nothing").is_none());
    }

    /// The format and those that fit as well, or the candidates.
    fn names(head: &str, name: &str) -> Result<Vec<&'static str>, Vec<&'static str>> {
        match detect(head.as_bytes(), Path::new(name)) {
            Ok(found) => {
                Ok(found.into_iter().flat_map(|f| [vec![f.format.name], f.also_fits].concat()).collect())
            }
            Err(several) => Err(several.iter().map(|format| format.name).collect()),
        }
    }

    #[test]
    fn among_several_claims_the_ending_decides_then_what_is_plausible() {
        // Milliseconds and bytes; nanoseconds or milliseconds and sectors would be requests of 2 MiB.
        let head = "0 0 4096 4096 1\n1 0 8192 4096 0\n";
        assert_eq!(names(head, "a.trace"), Ok(vec!["msr-cut", "disksim", "ssdsim"]));
        assert_eq!(names(head, "a.lis"), Ok(vec!["msr-cut", "disksim", "ssdsim"]));
        assert_eq!(names(head, "a.ssdsim"), Ok(vec!["ssdsim"]));
        assert_eq!(names(head, "a.msr-cut.gz"), Ok(vec!["msr-cut"]));
    }

    #[test]
    fn among_several_that_are_plausible_nothing_is_guessed() {
        // Seven sectors, whatever the clock counts.
        assert_eq!(names("26214 0 303567 7 0\n", "a.trace"), Err(vec!["disksim", "ssdsim"]));
        // Seven sectors a nanosecond apart are one too many: they are milliseconds.
        let lines: String = (0..100).map(|at| format!("{at} 0 {} 7 0\n", 7 * at)).collect();
        assert_eq!(names(&lines, "a.trace"), Ok(vec!["disksim", "ssdsim"]));
    }

    #[test]
    fn more_than_the_first_lines_tell() {
        // Only beyond the first hundred lines are there sizes that no whole sectors are.
        let even: String = (0..100).map(|at| format!("{at}.000 0 0 512 1\n")).collect();
        assert_eq!(names(&even, "a.trace"), Ok(vec!["msr-cut"]));
        assert_eq!(names(&(even + "100.000 0 0 7 1\n"), "a.trace"), Ok(vec!["disksim"]));
        // A bad line among many is for the decoder to name.
        let many: String = (0..100).map(|at| format!("{at}000000 0 8 7 1\n")).collect();
        assert_eq!(names(&(many + "rubbish\n"), "a.trace"), Ok(vec!["ssdsim"]));
        assert_eq!(names("1000000 0 8 7 1\nrubbish\n", "a.trace"), Ok(vec![]));
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
