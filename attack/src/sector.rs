//! Sectors that say what they are: of which VM, which sector of its disk, and which write gave them these bytes. All of a
//! sector's bytes follow from the three, so that bytes of another VM, place or write, and mixtures, are recognised.

use lode_types::mix;
use serde::{Deserialize, Serialize};

/// Bytes of a sector: written whole or not at all.
pub const SECTOR_BYTES: u64 = 512;

const SECTOR: usize = SECTOR_BYTES as usize;
const MAGIC: u64 = 0x6c6f_6465_2061_7474;

/// The number of a write; no two of a VM have the same.
pub type WriteId = u32;

/// What a sector holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Value {
    /// Zeroes.
    Zero,
    /// What this write gave it.
    Of(WriteId),
}

/// The bytes that write `write` gives these sectors of a VM's disk.
pub fn contents(vm: usize, write: WriteId, sectors: std::ops::Range<u64>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(((sectors.end - sectors.start) * SECTOR_BYTES) as usize);
    sectors.for_each(|sector| bytes.extend_from_slice(&content(vm, write, sector)));
    bytes
}

fn content(vm: usize, write: WriteId, sector: u64) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    let head = [MAGIC, vm as u64, u64::from(write), sector];
    let seed = mix(MAGIC ^ mix(sector ^ mix(u64::from(write) ^ mix(vm as u64))));
    for (at, word) in bytes.chunks_exact_mut(8).enumerate() {
        let value = head.get(at).copied().unwrap_or_else(|| mix(seed.wrapping_add(at as u64)));
        word.copy_from_slice(&value.to_le_bytes());
    }
    bytes
}

/// What a sector of a VM's disk holds, or what is wrong with its bytes.
///
/// # Errors
/// Bytes that no write gave to this sector: they are described.
pub fn read_value(vm: usize, sector: u64, bytes: &[u8]) -> Result<Value, String> {
    if bytes == [0; SECTOR] {
        return Ok(Value::Zero);
    }
    let word = |at: usize| u64::from_le_bytes(bytes[at * 8..at * 8 + 8].try_into().expect("eight bytes"));
    let write = word(2) as WriteId;
    if bytes == content(vm, write, sector) {
        return Ok(Value::Of(write));
    }
    if word(0) != MAGIC {
        return Err(format!("bytes that no guest wrote: {:02x?}", &bytes[..32]));
    }
    let (of_vm, of_sector) = (word(1), word(3));
    let whole = bytes == content(of_vm as usize, write, of_sector);
    let how = if whole { "the bytes" } else { "damaged bytes" };
    Err(format!("{how} of VM {of_vm}'s sector {of_sector}, write {write}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_are_recognised_and_nothing_else_is() {
        let bytes = contents(1, 77, 5..7);
        assert_eq!(read_value(1, 5, &bytes[..SECTOR]), Ok(Value::Of(77)));
        assert_eq!(read_value(1, 6, &bytes[SECTOR..]), Ok(Value::Of(77)));
        assert_eq!(read_value(1, 6, &[0; SECTOR]), Ok(Value::Zero));
        let other = read_value(1, 6, &bytes[..SECTOR]).unwrap_err();
        assert!(other.contains("VM 1's sector 5, write 77"), "{other}");
        assert!(read_value(0, 5, &bytes[..SECTOR]).is_err(), "another VM's");
        let mut torn = contents(1, 78, 5..6);
        torn[300..].copy_from_slice(&bytes[300..SECTOR]);
        assert!(read_value(1, 5, &torn).unwrap_err().contains("damaged"));
        assert!(read_value(1, 5, &[9; SECTOR]).is_err());
    }
}
