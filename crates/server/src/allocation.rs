//! What clients are told of holes: descriptors of a range, and stretches of zeroes in what they read. It must not know where
//! either was found.

use std::ops::Range;

use lode_engine::ByteList;
use lode_media::FileExtent;
use lode_nbd::{Request, StatusDescriptor};
use lode_types::SECTOR_BYTES;

/// Shortest stretch of zeroes in a read that is worth a chunk of its own.
const LEAST_HOLE_BYTES: usize = 4096;

/// What a client is told of the range that it asked for: what was written through the cache is data, of the rest the backing file
/// tells. Ends early where the file's extents do.
pub(crate) fn descriptors(
    request: &Request,
    file: &[FileExtent],
    written: &[Range<u64>],
) -> Vec<StatusDescriptor> {
    let start = request.offset_bytes;
    let end = start + u64::from(request.length_bytes);
    let mut told = Told::default();
    let mut at = start;
    for extent in file {
        let to = at.saturating_add(extent.length_bytes).min(end);
        if extent.is_hole {
            // What a client may not ask for alone is told with its neighbours; only holes lose by it.
            let hole = at.next_multiple_of(SECTOR_BYTES).min(to)..if to == end {
                to
            } else {
                to / SECTOR_BYTES * SECTOR_BYTES
            };
            told.add(hole.start - at, false);
            told.add_hole(hole.start..hole.end.max(hole.start), written);
            told.add(to - hole.end.max(hole.start), false);
        } else {
            told.add(to - at, false);
        }
        at = to;
    }
    if request.flags.req_one() {
        told.0.truncate(1);
    }
    told.0
}

/// Descriptors of which no two neighbours are alike.
#[derive(Default)]
struct Told(Vec<StatusDescriptor>);

impl Told {
    fn add(&mut self, length_bytes: u64, is_hole: bool) {
        // Part of a range whose length has 32 bits.
        let length_bytes = length_bytes as u32;
        match self.0.last_mut().filter(|last| last.is_hole == is_hole) {
            Some(last) => last.length_bytes += length_bytes,
            None if length_bytes > 0 => self.0.push(StatusDescriptor { length_bytes, is_hole }),
            None => {}
        }
    }

    /// A hole of the file, with what was written there and is not in the file yet.
    fn add_hole(&mut self, hole: Range<u64>, written: &[Range<u64>]) {
        let mut at = hole.start;
        for stretch in written.iter().filter(|stretch| stretch.start < hole.end && stretch.end > hole.start) {
            let (from, to) = (stretch.start.max(at), stretch.end.min(hole.end));
            self.add(from - at, true);
            self.add(to - from, false);
            at = to;
        }
        self.add(hole.end - at, true);
    }
}

/// Neighbouring bytes of a read.
pub(crate) struct Stretch {
    pub length_bytes: usize,
    /// They are all zero, and there are no bytes.
    pub is_zero: bool,
    pub bytes: ByteList,
}

/// What was read, cut where long stretches of zeroes begin and end. `None`: there is none.
pub(crate) fn cut_zeroes(data: &ByteList) -> Option<Vec<Stretch>> {
    let is_long_zero = |bytes: &[u8]| bytes.len() >= LEAST_HOLE_BYTES && is_zero(bytes);
    if !data.iter().any(|bytes| is_long_zero(bytes)) {
        return None;
    }
    let mut stretches: Vec<Stretch> = Vec::new();
    for bytes in data {
        let is_zero = is_long_zero(bytes);
        let is_new = stretches.last().is_none_or(|last| last.is_zero != is_zero);
        if is_new {
            stretches.push(Stretch { length_bytes: 0, is_zero, bytes: ByteList::new() });
        }
        if let Some(last) = stretches.last_mut() {
            last.length_bytes += bytes.len();
            if !is_zero {
                last.bytes.push(bytes.clone());
            }
        }
    }
    Some(stretches)
}

fn is_zero(bytes: &[u8]) -> bool {
    static ZEROES: [u8; LEAST_HOLE_BYTES] = [0; LEAST_HOLE_BYTES];
    bytes.chunks(ZEROES.len()).all(|chunk| *chunk == ZEROES[..chunk.len()])
}

#[cfg(test)]
mod tests {
    use lode_engine::Buf;
    use lode_nbd::{Command, CommandFlags, proto};

    use super::*;

    fn told(
        offset_bytes: u64,
        length_bytes: u32,
        flags: u16,
        file: &[(u64, bool)],
        written: &[Range<u64>],
    ) -> Vec<(u32, bool)> {
        let (cookie, command, flags) = (0, Command::BlockStatus, CommandFlags(flags));
        let request = Request { cookie, offset_bytes, length_bytes, command, flags };
        let file: Vec<_> =
            file.iter().map(|&(length_bytes, is_hole)| FileExtent { length_bytes, is_hole }).collect();
        descriptors(&request, &file, written).iter().map(|one| (one.length_bytes, one.is_hole)).collect()
    }

    #[test]
    fn what_was_written_is_data_and_the_rest_what_the_file_says() {
        let file = [(8192, true), (4096, false), (20_480, true)];
        assert_eq!(told(0, 32_768, 0, &file, &[]), [(8192, true), (4096, false), (20_480, true)]);
        let written = [4096..16_384, 28_672..32_768];
        let expected = [(4096, true), (12_288, false), (12_288, true), (4096, false)];
        assert_eq!(told(0, 32_768, 0, &file, &written), expected);
        assert_eq!(told(0, 32_768, proto::CMD_FLAG_REQ_ONE, &file, &written), [(4096, true)]);
        assert_eq!(told(0, 32_768, 0, &[(32_768, true)], &[0..16_384, 16_384..32_768]), [(32_768, false)]);
        // From elsewhere, and told in part.
        assert_eq!(told(65_536, 8192, 0, &[(4096, true)], &[0..65_536, 69_632..73_728]), [(4096, true)]);
        assert_eq!(told(0, u32::MAX, 0, &[(1 << 40, true)], &[]), [(u32::MAX, true)]);
    }

    #[test]
    fn holes_begin_and_end_between_sectors() {
        let file = [(100, false), (1000, true), (3000, false), (996, true)];
        assert_eq!(told(0, 5096, 0, &file, &[]), [(512, false), (512, true), (3584, false), (488, true)]);
        assert_eq!(told(0, 200, 0, &[(100, true), (50, false), (50, true)], &[]), [(200, false)]);
    }

    #[test]
    fn reads_are_cut_at_long_zeroes() {
        let block = |byte| Buf::copy_of(&[byte; 4096]).freeze();
        let data = |blocks: &[u8]| blocks.iter().map(|byte| block(*byte)).collect::<ByteList>();
        let cut = |list: &ByteList| {
            let cut = cut_zeroes(list)?;
            Some(cut.iter().map(|one| (one.length_bytes, one.is_zero, one.bytes.len())).collect::<Vec<_>>())
        };
        assert_eq!(cut(&data(&[1, 2, 3])), None);
        assert_eq!(cut(&data(&[0, 0])), Some(vec![(8192, true, 0)]));
        assert_eq!(
            cut(&data(&[1, 0, 0, 2])),
            Some(vec![(4096, false, 1), (8192, true, 0), (4096, false, 1)])
        );
        // Nothing that is shorter than a chunk's worth.
        let short: ByteList = [block(0).slice(..512), block(1), block(0).slice(..512)].into_iter().collect();
        assert_eq!(cut(&short), None);
        let mut last = vec![0; 65_536];
        last[65_535] = 1;
        assert!(is_zero(&last[..65_535]) && !is_zero(&last));
    }
}
