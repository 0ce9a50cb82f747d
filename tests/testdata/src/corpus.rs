//! The corpora of the fuzz targets, which run as ordinary tests too.

use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{env, fs};

use lode_types::Rng;

use crate::repository;

/// Seconds for which files that were changed at random are tried, beside the few of every run.
const SECONDS_VARIABLE: &str = "LODE_FUZZ_SECONDS";
/// Changed files that every run tries for each file.
const USUAL_CHANGES: u64 = 64;
/// Most places of a file that are changed at once.
const MOST_PLACES: u64 = 8;

/// The names of the fuzz targets.
///
/// # Panics
/// When `fuzz/Cargo.toml` cannot be read.
pub fn targets() -> Vec<String> {
    let path = repository().join("fuzz/Cargo.toml");
    let manifest = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (_, targets) = manifest.split_once("[[bin]]").expect("fuzz targets");
    let names = targets.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    names.map(str::to_owned).collect()
}

/// Gives every file of a target's corpus to `accepts`, and compares its answer with what the file's name says: those that
/// begin with `good` are accepted, those with `bad` are refused, what the fuzzer found is named `found-...` and may be either.
/// Then files that were changed at random are given to it, which it may accept or refuse: a few, and where
/// `LODE_FUZZ_SECONDS` is set, others for so long.
///
/// # Panics
/// When an answer is not what the name says, or there is no good or no bad file.
pub fn check_corpus(target: &str, mut accepts: impl FnMut(&[u8]) -> bool) {
    let folder = repository().join("fuzz/corpus").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort_unstable();
    let (mut good, mut bad, mut files) = (0, 0, Vec::new());
    for path in paths {
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        let is_accepted = accepts(&bytes);
        if name.starts_with("good") {
            assert!(is_accepted, "{} is refused", path.display());
            good += 1;
        } else if name.starts_with("bad") {
            assert!(!is_accepted, "{} is accepted", path.display());
            bad += 1;
        } else {
            assert!(name.starts_with("found-"), "{} is neither good nor bad nor found", path.display());
        }
        files.push(bytes);
    }
    assert!(good > 0 && bad > 0, "{target}: {good} good and {bad} bad files");
    try_changed(target, &files, accepts);
}

/// Gives changed files away: always the same ones, or fresh ones for as long as is wished. One that fails is kept.
fn try_changed(target: &str, files: &[Vec<u8>], mut accepts: impl FnMut(&[u8]) -> bool) {
    let seconds = env::var(SECONDS_VARIABLE).ok().and_then(|text| text.parse().ok());
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(0));
    let first_seed = seconds.map_or(1, |_| u64::from(std::process::id())) << 32;
    let usual = USUAL_CHANGES * files.len() as u64;
    let mut tried = 0;
    while tried < usual || Instant::now() < end {
        let input = Tried { target, bytes: changed(files, &mut Rng::new(first_seed + tried)) };
        accepts(&input.bytes);
        tried += 1;
    }
    println!("{target}: {tried} changed files");
}

/// An input that is written to a file if trying it panics, so that it can be added to the corpus.
struct Tried<'a> {
    target: &'a str,
    bytes: Vec<u8>,
}

impl Drop for Tried<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let path = env::temp_dir().join(format!("found-{}-{}", self.target, std::process::id()));
        match fs::write(&path, &self.bytes) {
            Ok(()) => println!("{} fails; move it to fuzz/corpus/{}", path.display(), self.target),
            Err(error) => println!("{}: {error}; the input is {:?}", path.display(), self.bytes),
        }
    }
}

/// One of the files with bytes set, bits flipped, pieces of others put in, repeated or left out.
fn changed(files: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    const EDGES: [u8; 6] = [0, 1, 0x7f, 0x80, 0xfe, 0xff];
    let mut bytes = files[below(rng, files.len())].clone();
    for _ in 0..1 + rng.below(MOST_PLACES) {
        let at = below(rng, bytes.len().max(1)).min(bytes.len());
        let length = below(rng, bytes.len() - at + 1).min(1 << below(rng, 9));
        match below(rng, 6) {
            0 => bytes[at..at + length.min(8)].fill(EDGES[below(rng, EDGES.len())]),
            1 => bytes.truncate(at),
            2 => drop(bytes.drain(at..at + length)),
            3 => bytes.extend_from_within(at..at + length),
            4 => {
                let other = &files[below(rng, files.len())];
                let from = below(rng, other.len().max(1)).min(other.len());
                let piece = other[from..].iter().copied().take(length + 1);
                bytes.splice(at..at + length, piece);
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << below(rng, 8);
                }
            }
        }
    }
    bytes
}

fn below(rng: &mut Rng, end: usize) -> usize {
    rng.below(end as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_a_corpus_and_every_corpus_a_target() {
        let mut targets = targets();
        let entries = fs::read_dir(repository().join("fuzz/corpus")).expect("a folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
        let mut corpora: Vec<String> = names.collect();
        targets.sort_unstable();
        corpora.sort_unstable();
        assert_eq!(targets, corpora);
    }

    #[test]
    #[should_panic(expected = "is accepted")]
    fn a_bad_file_that_is_accepted_fails() {
        check_corpus("superblock", |_| true);
    }

    #[test]
    fn seeds_give_the_same_changes() {
        let files = [vec![7; 100], b"other".to_vec()];
        let tried: Vec<Vec<u8>> = (0..200).map(|seed| changed(&files, &mut Rng::new(seed))).collect();
        assert_eq!(tried[3], changed(&files, &mut Rng::new(3)));
        assert!(tried.iter().any(|bytes| bytes.len() > 100) && tried.iter().any(Vec::is_empty));
    }
}
