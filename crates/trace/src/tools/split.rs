//! One file for each volume. It must not know formats other than the compact one, which it writes.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::sort::{SortProgress, Sorted};
use crate::compact::{CompactOutput, CompactWriter, create_compact_with};
use crate::error::TraceError;
use crate::limits::MAX_FILE_NAME_BYTES;

/// A file name (without ending) for each volume name: the same where that is safe, with `_` for every character that
/// is no letter, digit, `.`, `-` or `_`, and with a number after it where another volume has the name already, also
/// when only capitals and small letters differ. No name starts with a dot or is empty.
pub fn file_names(volumes: &[String]) -> Vec<String> {
    let mut taken = HashSet::new();
    // The number to try next for each name, so that many equal ones do not cost their square.
    let mut next: HashMap<String, u64> = HashMap::new();
    let mut name_of = |volume: &String| {
        let plain = safe(volume);
        if taken.insert(plain.to_lowercase()) {
            return plain;
        }
        let number = next.entry(plain.to_lowercase()).or_insert(1);
        loop {
            *number += 1;
            let name = format!("{plain}-{number}");
            if taken.insert(name.to_lowercase()) {
                return name;
            }
        }
    };
    volumes.iter().map(&mut name_of).collect()
}

fn safe(volume: &str) -> String {
    let allowed = |char: char| char.is_alphanumeric() || matches!(char, '.' | '-' | '_');
    let name: String = volume.chars().map(|char| if allowed(char) { char } else { '_' }).collect();
    let name = match name.strip_prefix('.') {
        Some(rest) => format!("_{rest}"),
        None if name.is_empty() => "_".to_owned(),
        None => name,
    };
    let ends = name.char_indices().map(|(at, char)| at + char.len_utf8());
    let end = ends.take_while(|&end| end <= MAX_FILE_NAME_BYTES).last().unwrap_or(0);
    name[..end].to_owned()
}

/// Writes each volume of what was sorted by volume to a compact file at `path_of(volume)`, one after the other, so
/// that one file is open at a time. Volumes without requests get no file.
///
/// # Errors
/// Those of [`Sorted::next_batch`] and of writing. What was written so far stays.
pub fn write_each_volume<P: AsRef<Path>>(
    sorted: &mut Sorted,
    path_of: impl Fn(u32) -> P,
    mut progress: impl FnMut(SortProgress),
) -> Result<(), TraceError> {
    let mut open: Option<(u32, CompactWriter<CompactOutput>)> = None;
    let mut batch = Vec::new();
    while sorted.next_batch(&mut batch)? > 0 {
        for part in batch.chunk_by_mut(|a, b| a.volume == b.volume) {
            let volume = part[0].volume;
            let mut writer = match open.take() {
                Some((current, writer)) if current == volume => writer,
                before => {
                    before.map_or(Ok(()), |(_, writer)| writer.close())?;
                    create_compact_with(path_of(volume), sorted.recorded())?
                }
            };
            part.iter_mut().for_each(|request| request.volume = 0);
            writer.write(&sorted.volumes()[volume as usize..=volume as usize], part)?;
            open = Some((volume, writer));
        }
        progress(sorted.progress());
    }
    open.map_or(Ok(()), |(_, writer)| writer.close())
}
