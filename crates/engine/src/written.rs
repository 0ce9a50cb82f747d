//! Where guests have written: what the backing disk says of these regions may be out of date, because their newest bytes are
//! still on the SSD. Of all others the disk knows what is allocated. It must not know what was written, or where it is.

use std::ops::Range;

use hashbrown::HashMap;

/// What is remembered or forgotten at once: as much as the largest block, so that none is in two of them.
const REGION_BYTES: u64 = 64 << 10;
const REGIONS_PER_WORD: u64 = 64;

/// Regions that were written since they were last trimmed or zeroed as a whole.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Bits of neighbouring regions; a word without any is not kept.
    words: HashMap<u64, u64>,
}

impl Written {
    /// Most memory that a volume of so many bytes needs.
    pub(crate) fn most_memory_bytes(volume_bytes: u64) -> u64 {
        // A table that has just grown is filled by less than a half.
        const BYTES_PER_WORD: u64 = 40;
        volume_bytes.div_ceil(REGION_BYTES * REGIONS_PER_WORD) * BYTES_PER_WORD
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.words.capacity() * size_of::<(u64, u64)>()
    }

    /// These bytes are written.
    pub(crate) fn set(&mut self, bytes: &Range<u64>) {
        let regions = bytes.start / REGION_BYTES..bytes.end.div_ceil(REGION_BYTES);
        for (word, bits) in words_of(&regions) {
            *self.words.entry(word).or_default() |= bits;
        }
    }

    /// These bytes are trimmed or zeroed, and the backing disk will know it. A region of which they are a part stays.
    pub(crate) fn clear(&mut self, bytes: &Range<u64>) {
        let regions = bytes.start.div_ceil(REGION_BYTES)..bytes.end / REGION_BYTES;
        for (word, bits) in words_of(&regions) {
            if let Some(found) = self.words.get_mut(&word) {
                *found &= !bits;
                if *found == 0 {
                    self.words.remove(&word);
                }
            }
        }
    }

    /// The written stretches among these bytes, in ascending order and apart from each other.
    pub(crate) fn within(&self, bytes: &Range<u64>) -> Vec<Range<u64>> {
        let regions = bytes.start / REGION_BYTES..bytes.end.div_ceil(REGION_BYTES);
        let mut found: Vec<Range<u64>> = Vec::new();
        for (word, mask) in words_of(&regions) {
            let mut bits = self.words.get(&word).map_or(0, |bits| bits & mask);
            while bits != 0 {
                let start = (word * REGIONS_PER_WORD + u64::from(bits.trailing_zeros())) * REGION_BYTES;
                bits &= bits - 1;
                let stretch = start.max(bytes.start)..(start + REGION_BYTES).min(bytes.end);
                match found.last_mut().filter(|last| last.end == stretch.start) {
                    Some(last) => last.end = stretch.end,
                    None => found.push(stretch),
                }
            }
        }
        found
    }
}

/// Words and the bits of them that stand for these regions.
fn words_of(regions: &Range<u64>) -> impl Iterator<Item = (u64, u64)> {
    let (start, end) = (regions.start, regions.end);
    let words = if start < end { start / REGIONS_PER_WORD..end.div_ceil(REGIONS_PER_WORD) } else { 0..0 };
    words.map(move |word| {
        let first = word * REGIONS_PER_WORD;
        let (from, to) = (start.max(first) - first, end.min(first + REGIONS_PER_WORD) - first);
        let count = to - from;
        let bits = if count == REGIONS_PER_WORD { u64::MAX } else { ((1 << count) - 1) << from };
        (word, bits)
    })
}

#[cfg(test)]
mod tests {
    use lode_types::Rng;

    use super::*;

    #[test]
    fn stretches_are_those_of_a_plain_list_of_regions() {
        const REGIONS: u64 = 200;
        let mut rng = Rng::new(1);
        let (mut written, mut plain) = (Written::default(), vec![false; REGIONS as usize]);
        for step in 0..3000 {
            let (a, b) = (rng.below(REGIONS * REGION_BYTES), rng.below(REGIONS * REGION_BYTES));
            let bytes = a.min(b)..a.max(b);
            // Often between regions.
            let bytes = if rng.chance(30) {
                bytes.start / REGION_BYTES * REGION_BYTES..bytes.end / REGION_BYTES * REGION_BYTES
            } else {
                bytes.start..bytes.end.min(bytes.start + rng.below(1 << 20))
            };
            if bytes.is_empty() {
                continue;
            }
            let overlaps = |region: u64| {
                let start = region * REGION_BYTES;
                start < bytes.end && bytes.start < start + REGION_BYTES
            };
            let is_inside = |region: u64| {
                let start = region * REGION_BYTES;
                bytes.start <= start && start + REGION_BYTES <= bytes.end
            };
            match step % 3 {
                0 => {
                    written.set(&bytes);
                    (0..REGIONS).filter(|&at| overlaps(at)).for_each(|at| plain[at as usize] = true);
                }
                1 => {
                    written.clear(&bytes);
                    (0..REGIONS).filter(|&at| is_inside(at)).for_each(|at| plain[at as usize] = false);
                }
                _ => {
                    let found = written.within(&bytes);
                    assert!(found.windows(2).all(|two| two[0].end < two[1].start), "{found:?}");
                    for region in (0..REGIONS).filter(|&at| overlaps(at)) {
                        let at = (region * REGION_BYTES).max(bytes.start);
                        let is_found = found.iter().any(|stretch| stretch.contains(&at));
                        assert_eq!(is_found, plain[region as usize], "region {region} of {bytes:?}");
                    }
                    assert!(found.iter().all(|one| bytes.start <= one.start && one.end <= bytes.end));
                }
            }
        }
        written.clear(&(0..REGIONS * REGION_BYTES));
        assert!(written.words.is_empty());
    }
}
