//! Volume names in order of appearance, with fast lookup. It must not know formats.

use std::collections::HashMap;

use crate::error::{ErrorKind, Fault};
use crate::limits::{MAX_VOLUME_NAME_BYTES, MAX_VOLUMES};

/// What the names of volumes start with whose requests were made from a profile, and not recorded.
pub const SYNTHETIC_PREFIX: &str = "synthetic:";

/// Whether a volume's requests were made from a profile, by its name, which every conversion keeps.
pub fn is_synthetic(volume: &str) -> bool {
    volume.starts_with(SYNTHETIC_PREFIX)
}

/// Names by index, and indices by the bytes that denote a volume in the trace.
#[derive(Default)]
pub(crate) struct VolumeTable {
    names: Vec<String>,
    index_of_key: HashMap<Box<[u8]>, u32>,
    last_key: Vec<u8>,
    /// The first bytes of the last key in the low bytes of a word, and the bits that they take there.
    last_word: u64,
    last_mask: u64,
    last_index: u32,
}

impl VolumeTable {
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The volume that `key` denotes; a new one is named by `name_of(key)`.
    #[inline]
    pub(crate) fn lookup(&mut self, key: &[u8], name_of: fn(&[u8]) -> Vec<u8>) -> Result<u32, Fault> {
        if !key.is_empty() && key == self.last_key {
            return Ok(self.last_index);
        }
        self.lookup_slow(key, name_of)
    }

    /// When `rest`, of at least eight bytes, starts with the key of the last lookup and then `end`: that volume, and the
    /// key's length.
    #[inline]
    pub(crate) fn repeats(&self, rest: &[u8], end: u8) -> Option<(u32, usize)> {
        let len = self.last_key.len();
        // Most keys fit a word, which saves the call that comparing slices is.
        let word = u64::from_le_bytes(*rest.first_chunk()?);
        let differs = (word ^ self.last_word) & self.last_mask != 0;
        if differs || len == 0 || rest.get(len) != Some(&end) {
            return None;
        }
        (len <= 8 || rest.starts_with(&self.last_key)).then_some((self.last_index, len))
    }

    /// Adds a volume that must be new, as the compact format does.
    pub(crate) fn add(&mut self, name: &[u8]) -> Result<u32, Fault> {
        if self.index_of_key.contains_key(name) {
            return Err(Fault::new(ErrorKind::VolumeName, "each volume name once"));
        }
        self.lookup_slow(name, <[u8]>::to_vec)
    }

    #[cold]
    fn lookup_slow(&mut self, key: &[u8], name_of: fn(&[u8]) -> Vec<u8>) -> Result<u32, Fault> {
        let index = match self.index_of_key.get(key) {
            Some(&index) => index,
            None => self.insert(key, name_of)?,
        };
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        let (mut word, mut mask) = ([0; 8], [0; 8]);
        for (at, &byte) in key.iter().take(8).enumerate() {
            (word[at], mask[at]) = (byte, 0xff);
        }
        (self.last_word, self.last_mask) = (u64::from_le_bytes(word), u64::from_le_bytes(mask));
        self.last_index = index;
        Ok(index)
    }

    fn insert(&mut self, key: &[u8], name_of: fn(&[u8]) -> Vec<u8>) -> Result<u32, Fault> {
        if self.names.len() >= MAX_VOLUMES {
            return Err(Fault::new(ErrorKind::TooManyVolumes, "at most 65,536 volumes in one trace"));
        }
        let name = check_name(name_of(key))?;
        let index = self.names.len() as u32;
        self.names.push(name);
        self.index_of_key.insert(key.into(), index);
        Ok(index)
    }
}

/// That a name is one that a volume may have.
///
/// # Errors
/// What is expected.
pub fn check_volume_name(name: &str) -> Result<(), String> {
    check_name(name.as_bytes().to_vec()).map(drop).map_err(|fault| fault.message(false))
}

/// The name as text, if it is fit to be one.
pub(crate) fn check_name(name: Vec<u8>) -> Result<String, Fault> {
    const EXPECTED: Fault = Fault::new(
        ErrorKind::VolumeName,
        "a volume name of 1 to 512 bytes of UTF-8 without control characters",
    );
    if name.is_empty() || name.len() > MAX_VOLUME_NAME_BYTES {
        return Err(EXPECTED);
    }
    let name = String::from_utf8(name).map_err(|_| EXPECTED)?;
    if name.chars().any(char::is_control) { Err(EXPECTED) } else { Ok(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_every_length_repeat() {
        let mut table = VolumeTable::default();
        for len in 1..20 {
            let key = b"abcdefghijklmnopqrst"[..len].to_vec();
            let index = table.lookup(&key, <[u8]>::to_vec).expect("few names");
            let text = [&key[..], b",and what follows"].concat();
            assert_eq!(table.repeats(&text, b','), Some((index, len)));
            for at in 0..=len {
                let mut other = text.clone();
                other[at] ^= 1;
                assert_eq!(table.repeats(&other, b','), None, "{len} {at}");
            }
        }
    }

    #[test]
    fn same_key_same_index_and_limits_hold() {
        let mut table = VolumeTable::default();
        assert_eq!(table.repeats(b",,,,,,,,,", b','), None);
        assert_eq!(table.lookup(b"", <[u8]>::to_vec).map_err(|f| f.kind), Err(ErrorKind::VolumeName));
        assert_eq!(table.lookup(b"a", <[u8]>::to_vec), Ok(0));
        assert_eq!(table.lookup(b"b", <[u8]>::to_vec), Ok(1));
        assert_eq!(table.lookup(b"a", <[u8]>::to_vec), Ok(0));
        assert_eq!(table.repeats(b"a,rest so", b','), Some((0, 1)));
        assert_eq!(table.repeats(b"ab,rest so", b','), None);
        assert_eq!(table.repeats(b"a;rest so", b','), None);
        assert_eq!(table.repeats(b"a,", b','), None);
        assert!(table.add(b"b").is_err());
        for i in 2..MAX_VOLUMES {
            assert_eq!(table.add(format!("v{i}").as_bytes()), Ok(i as u32));
        }
        assert_eq!(table.add(b"one more").map_err(|f| f.kind), Err(ErrorKind::TooManyVolumes));
        assert!(check_name(vec![b'x'; MAX_VOLUME_NAME_BYTES]).is_ok());
        assert!(check_name(vec![b'x'; MAX_VOLUME_NAME_BYTES + 1]).is_err());
        assert!(check_name(b"a\x1bb".to_vec()).is_err());
        assert!(check_name(vec![0xff]).is_err());
    }
}
