//! Pages of several places, read from both SSDs of a pair and written to both, beside the same one by one.

use lode_format::{TablePage, VolumeTag};
use lode_types::Rng;

use super::*;

const PAGES: u64 = 64;
const PAGE: u64 = PAGE_BYTES as u64;
const BYTES: u64 = PairLabel::DATA_START_BYTES + (PAGES << 14) + (1 << 20);
const CACHE: CacheId = CacheId([3; 16]);

/// An SSD: which pages of the pair it cannot read, whether it answers, takes writes, and how often it was asked for several places at once.
#[derive(Clone)]
struct Ssd {
    bytes: Vec<u8>,
    unreadable: Vec<u64>,
    answers: bool,
    takes_writes: bool,
    asked_at_once: usize,
}

impl SyncDevice for Ssd {
    fn size_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        let range = offset_bytes..offset_bytes + buf.len() as u64;
        match () {
            () if !self.answers => Err(MediaError::Gone),
            () if self.unreadable.iter().any(|at| range.contains(&(PairLabel::DATA_START_BYTES + at))) => {
                Err(MediaError::Io)
            }
            () => {
                buf.copy_from_slice(&self.bytes[range.start as usize..range.end as usize]);
                Ok(())
            }
        }
    }

    fn read_pages_at_once(&mut self, parts: &mut [(u64, &mut [u8])]) -> PagesRead {
        self.asked_at_once += 1;
        parts.iter_mut().try_for_each(|(at, buf)| self.read(*at, buf).map_err(|error| (*at, error)))?;
        Ok(Vec::new())
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        if !self.takes_writes && offset_bytes >= PairLabel::DATA_START_BYTES {
            return Err(MediaError::Io);
        }
        self.bytes[offset_bytes as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn write_at_once(&mut self, parts: &[(u64, &[u8])]) -> Result<(), (u64, MediaError)> {
        self.asked_at_once += 1;
        parts.iter().try_for_each(|(at, bytes)| self.write(*at, bytes).map_err(|error| (*at, error)))
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        Ok(())
    }
}

/// A page that is whole, another one for each number.
fn page(number: u64) -> Box<[u8; PAGE_BYTES]> {
    let (volume, extent, page, sequence, stamp) = (VolumeTag(1), 0, 0, number, 0);
    TablePage { volume, extent, page, sequence, stamp, entries: Vec::new() }.encode(CACHE)
}

fn ssd() -> Ssd {
    let mut bytes = vec![0; BYTES as usize];
    for number in 0..PAGES {
        let at = (PairLabel::DATA_START_BYTES + number * PAGE) as usize;
        bytes[at..at + PAGE_BYTES].copy_from_slice(&page(number)[..]);
    }
    Ssd { bytes, unreadable: Vec::new(), answers: true, takes_writes: true, asked_at_once: 0 }
}

fn pair_of(ssds: [Ssd; MEMBERS]) -> PairDevice<Ssd> {
    let pair = Pair::several(CACHE, &[[BYTES; MEMBERS]]).unwrap()[0];
    let mut device = PairDevice::new(pair, ssds.map(Some));
    device.begin(&[None; MEMBERS], 1).unwrap();
    device
}

/// Pages from and to, of each part.
type Parts = [(u64, u64)];

/// Parts, what each page of them says, and what came of it.
fn read(device: &mut PairDevice<Ssd>, parts: &Parts) -> (Vec<u8>, PagesRead) {
    let mut bufs: Vec<Vec<u8>> =
        parts.iter().map(|(from, to)| vec![0; ((to - from) * PAGE) as usize]).collect();
    let mut places: Vec<(u64, &mut [u8])> =
        parts.iter().zip(&mut bufs).map(|((from, _), buf)| (from * PAGE, &mut buf[..])).collect();
    let read = device.read_pages_at_once(&mut places);
    (bufs.concat(), read)
}

/// Of random pages that are gone, damaged or cannot be read on either SSD: as one by one, and with all that differs told.
#[test]
fn g5_pages_that_are_read_at_once_are_as_those_read_one_by_one() {
    let (mut told, mut fell_back) = (0, 0);
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut ssds = [ssd(), ssd()];
        for ssd in &mut ssds {
            for _ in 0..rng.below(6) {
                let at = rng.below(PAGES) * PAGE;
                let start = (PairLabel::DATA_START_BYTES + at) as usize;
                match rng.below(12) {
                    0 => ssd.unreadable.push(at),
                    1..7 => ssd.bytes[start + 100] ^= 1,
                    _ => ssd.bytes[start..start + PAGE_BYTES].copy_from_slice(&page(1000 + rng.below(3))[..]),
                }
            }
        }
        let (from, to) = (rng.below(30), 40 + rng.below(20));
        let parts = [(from, from + 5), (to, to + 4), (33, 34)];
        let mut one_by_one = pair_of(ssds.clone());
        let mut expected = vec![0; 10 * PAGE_BYTES];
        let mut rest = &mut expected[..];
        let mut expected_result = Ok(());
        for (from, to) in parts {
            let (buf, behind) = rest.split_at_mut(((to - from) * PAGE) as usize);
            rest = behind;
            expected_result = expected_result.and(one_by_one.read_pages(from * PAGE, buf));
        }
        let mut at_once = pair_of(ssds.clone());
        let (found, result) = read(&mut at_once, &parts);
        assert_eq!(result.clone().map(drop).map_err(|(_, error)| error), expected_result, "seed {seed}");
        let Ok(differing) = result else { continue };
        assert!(found == expected, "seed {seed}");
        let [one, other] = ssds.each_ref().map(|ssd| &ssd.bytes[PairLabel::DATA_START_BYTES as usize..]);
        for at in parts.iter().flat_map(|&(from, to)| from..to).map(|number| number * PAGE) {
            let range = at as usize..at as usize + PAGE_BYTES;
            let differs = one[range.clone()] != other[range];
            assert!(differing.contains(&at) || !differs, "seed {seed}, {at}");
            told += u32::from(differs);
        }
        fell_back += u32::from(differing.len() == 10);
    }
    assert!(told > 100 && (5..200).contains(&fell_back), "{told} differed, {fell_back} fell back");
}

#[test]
fn both_are_asked_for_all_at_once() {
    let mut device = pair_of([ssd(), ssd()]);
    let (found, differing) = read(&mut device, &[(3, 7), (50, 51)]);
    assert_eq!(differing, Ok(Vec::new()));
    let expected: Vec<u8> = [3, 4, 5, 6, 50].iter().flat_map(|&number| *page(number)).collect();
    assert!(found == expected);
    let bytes = [page(70), page(71)];
    device.write_at_once(&[(8 * PAGE, &bytes[0][..]), (2 * PAGE, &bytes[1][..])]).unwrap();
    for ssd in device.devices.iter().flatten() {
        assert_eq!(ssd.asked_at_once, 2);
        for (at, page) in [(8, &bytes[0]), (2, &bytes[1])] {
            assert!(ssd.bytes[(PairLabel::DATA_START_BYTES + at * PAGE) as usize..].starts_with(&page[..]));
        }
    }
}

/// Guarantee 9: of what one SSD alone has nobody knows whether the other one has the same.
#[test]
fn g9_without_the_other_ssd_every_page_is_told() {
    let mut device = PairDevice::new(pair_of([ssd(), ssd()]).pair, [None, Some(ssd())]);
    let (found, differing) = read(&mut device, &[(3, 5)]);
    assert_eq!(differing, Ok(vec![3 * PAGE, 4 * PAGE]));
    assert!(found.starts_with(&page(3)[..]));
}

/// Guarantee 9: one that does not answer is dropped where the other one lacks something, and what it may have is told otherwise.
#[test]
fn g9_of_one_that_does_not_answer_every_page_is_told() {
    let silent = Ssd { answers: false, ..ssd() };
    let mut device = pair_of([ssd(), silent.clone()]);
    assert_eq!(read(&mut device, &[(3, 5)]).1, Ok(vec![3 * PAGE, 4 * PAGE]));
    assert_eq!(device.pair.in_sync, [true, true]);
    // The first page that it alone could have ends the start, and the next one goes on without it.
    device.devices[0].as_mut().unwrap().bytes[(PairLabel::DATA_START_BYTES + 4 * PAGE) as usize + 50] ^= 1;
    assert_eq!(read(&mut device, &[(3, 5)]).1, Err((3 * PAGE, MediaError::Gone)));
    assert_eq!(device.pair.in_sync, [true, false]);
    // Nothing is read any more of what was found on both.
    assert_eq!(read(&mut device, &[(7, 8)]).1, Err((7 * PAGE, MediaError::Gone)));
    // One that is read first and does not answer is dropped as soon as the other one has.
    let mut device = pair_of([silent, ssd()]);
    assert_eq!(read(&mut device, &[(3, 5)]).1, Err((3 * PAGE, MediaError::Gone)));
    assert_eq!(device.pair.in_sync, [false, true]);
}

/// Guarantee 7: a member that does not take what the other one takes is dropped, and whoever wrote begins again.
#[test]
fn g7_one_that_fails_a_write_among_several_is_dropped() {
    for failing in 0..MEMBERS {
        let ssds = [0, 1].map(|member| Ssd { takes_writes: member != failing, ..ssd() });
        let mut device = pair_of(ssds);
        let bytes = page(70);
        let written = device.write_at_once(&[(8 * PAGE, &bytes[..]), (2 * PAGE, &bytes[..])]);
        assert_eq!(written, Err((8 * PAGE, MediaError::Gone)));
        assert_eq!(device.pair.in_sync, [0, 1].map(|member| member != failing));
    }
    let mut device = pair_of([0, 1].map(|_| Ssd { takes_writes: false, ..ssd() }));
    assert_eq!(device.write_at_once(&[(PAGE, &[0; PAGE_BYTES][..])]), Err((PAGE, MediaError::Io)));
    assert_eq!(device.pair.in_sync, [true, true], "nobody has what the other one lacks");
}
