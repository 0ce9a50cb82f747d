//! What traces touch, of which sizes of levels may be parts.

use std::path::PathBuf;

use lode_trace::{InfoCollector, ReadOptions, open_trace};

use crate::error::CliError;
use crate::progress::Bar;

/// Bytes of the different 4 KiB blocks that traces read or write, each volume's by themselves.
///
/// # Errors
/// Those of reading a trace, and of a footprint that is too large to be counted.
pub fn footprint_bytes(files: &[PathBuf], options: &ReadOptions) -> Result<u64, CliError> {
    let mut footprint_bytes = 0_u64;
    for file in files {
        let mut reader = open_trace(file, options)?;
        let mut collector = InfoCollector::default();
        let mut batch = Vec::new();
        let mut bar = Bar::new("Counting blocks");
        while reader.next_batch(&mut batch)? > 0 {
            collector.add(&reader, &batch)?;
            bar.update(std::iter::once(reader.progress()));
        }
        footprint_bytes = footprint_bytes.saturating_add(collector.finish(&reader).total.footprint_bytes());
    }
    Ok(footprint_bytes)
}
