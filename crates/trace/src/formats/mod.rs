//! The trace formats: one file each behind [`Decoder`], and the table that lists them.
//!
//! A new format is a file here and a line in [`FORMATS`]. Detection looks at the content first, in the
//! table's order, and at the file name's ending only when no format knows the content.

mod blkparse;
mod iolog;
mod lode;
mod msr;
mod vscsi;
mod vscsi_csv;

use std::ffi::OsStr;
use std::path::Path;

use lode_types::TraceRequest;

use crate::error::TraceError;
use crate::feed::{Feed, More};
use crate::limits::HEAD_BYTES;

/// Every format there is.
static FORMATS: [&Format; 6] =
    [&lode::FORMAT, &iolog::FORMAT, &vscsi_csv::FORMAT, &msr::FORMAT, &blkparse::FORMAT, &vscsi::FORMAT];

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
    /// Whether a trace that starts with these bytes (up to [`HEAD_BYTES`]) is in this format.
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
}

/// Every format that can be read.
pub fn formats() -> impl Iterator<Item = FormatInfo> {
    FORMATS.iter().map(|format| FormatInfo { name: format.name, about: format.about })
}

pub(crate) fn by_name(name: &str) -> Option<&'static Format> {
    FORMATS.into_iter().find(|format| format.name == name)
}

pub(crate) fn detect(head: &[u8], path: &Path) -> Option<&'static Format> {
    FORMATS.into_iter().find(|format| (format.detect)(head)).or_else(|| by_ending(path))
}

fn by_ending(path: &Path) -> Option<&'static Format> {
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let mut endings = name.rsplit('.').filter(|ending| !is_compression_ending(OsStr::new(ending)));
    let ending = endings.next()?;
    FORMATS.into_iter().find(|format| format.endings.contains(&ending))
}

/// Whether a file name's last part only says how it is compressed.
pub(crate) fn is_compression_ending(ending: &OsStr) -> bool {
    ["gz", "xz", "zst"].iter().any(|known| ending.eq_ignore_ascii_case(known))
}

/// Lines looked at in detection.
const DETECT_LINES: usize = 64;

/// The first whole lines of `head`. The last line counts only when the trace is so short that it ends in it.
fn head_lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let end = if head.len() < HEAD_BYTES { head.len() } else { memchr::memrchr(b'\n', head).unwrap_or(0) };
    head[..end].split(|&b| b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).take(DETECT_LINES)
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
            ("a.csv", None),
            ("plain", None),
            ("", None),
        ] {
            assert_eq!(detect(b"", Path::new(name)).map(|f| f.name), format, "{name}");
        }
        assert!(formats().all(|format| by_name(format.name).is_some()));
        assert!(by_name("nothing").is_none());
    }
}
