//! Damaged traces in every format, plain and compressed: reading never panics and always ends.

use std::io::Read;

use lode_trace::{ErrorKind, OnError, ReadOptions, TraceError, read_trace};
use lode_types::{RequestOp, TraceRequest};
use proptest::prelude::*;

use crate::samples::{FORMATS, Pack, drain, every_format, fault_count, lode, open, requests, with_origins};

const REQUESTS: u64 = 60;

/// Reads damaged bytes under both options and gives the requests and the error of [`OnError::Stop`].
fn survive(bytes: &[u8], format: &str) -> (Vec<TraceRequest>, Option<TraceError>) {
    let mut stopped = None;
    for on_error in [OnError::Stop, OnError::Skip] {
        for format in [None, Some(format.to_owned())] {
            let options = ReadOptions { format, on_error, ..ReadOptions::default() };
            let outcome = match read_trace(std::io::Cursor::new(bytes.to_vec()), "damaged", &options) {
                Ok(mut reader) => {
                    let outcome = drain(&mut reader);
                    for request in &outcome.0 {
                        assert!((request.volume as usize) < reader.volumes().len());
                        assert!(request.end_bytes().is_some());
                        assert!(request.length_bytes > 0 || request.op == RequestOp::Flush);
                    }
                    assert_eq!(reader.next_batch(&mut Vec::new()).ok(), Some(0), "ended for good");
                    outcome
                }
                Err(error) => (Vec::new(), Some(error)),
            };
            if options.format.is_some() && on_error == OnError::Stop {
                stopped = Some(outcome);
            }
        }
    }
    stopped.expect("one of the four ways")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn truncated(cut in 0.0f64..1.0, which in 0..FORMATS) {
        let (format, bytes) = every_format(&requests(REQUESTS)).swap_remove(which);
        for pack in Pack::ALL {
            let packed = pack.pack(&bytes);
            let (_, error) = survive(&packed[..(packed.len() as f64 * cut) as usize], format);
            // The magic bytes gone, the rest may pass for text; the compact format always knows its end.
            if format == "lode" {
                prop_assert!(error.is_some(), "{:?} {}", pack, cut);
            }
        }
    }

    #[test]
    fn bit_flipped(places in proptest::collection::vec((0.0f64..1.0, 0u32..8), 1..4), which in 0..FORMATS) {
        let (format, bytes) = every_format(&requests(REQUESTS)).swap_remove(which);
        for pack in Pack::ALL {
            let mut packed = pack.pack(&bytes);
            for &(place, bit) in &places {
                let place = (packed.len() as f64 * place) as usize;
                packed[place] ^= 1 << bit;
            }
            survive(&packed, format);
        }
    }

    #[test]
    fn garbage(bytes in proptest::collection::vec(any::<u8>(), 0..400), which in 0..FORMATS) {
        let (format, mut sample) = every_format(&requests(3)).swap_remove(which);
        survive(&bytes, format);
        sample.extend_from_slice(&bytes);
        survive(&sample, format);
    }
}

#[test]
fn every_truncation_of_the_compact_format_is_an_error() {
    let all = requests(20);
    let bytes = lode(&["a".to_owned()], &all);
    for len in 0..bytes.len() {
        let (read, error) = survive(&bytes[..len], "lode");
        assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Truncated), "{len}");
        assert_eq!(read, all[..read.len()]);
    }
    assert!(survive(&bytes, "lode").1.is_none());
}

#[test]
fn every_flipped_bit_of_the_compact_format_is_an_error_with_its_place() {
    let all = requests(5);
    let bytes = lode(&["a".to_owned()], &all);
    for place in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1 << bit;
            let (read, error) = survive(&damaged, "lode");
            let error = error.unwrap_or_else(|| panic!("bit {bit} of byte {place} went unnoticed"));
            let position = error.position().expect("a position");
            assert!(position.byte <= place as u64 && place as u64 - position.byte < 32 + 120, "{error}");
            assert_eq!(read, all[..read.len()]);
        }
    }
}

/// Bytes that a decompressor gives before it fails or ends.
fn decompressed(packed: &[u8], pack: Pack) -> u64 {
    let mut reader: Box<dyn Read + '_> = match pack {
        Pack::Plain => Box::new(packed),
        Pack::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(packed)),
        Pack::Xz => Box::new(liblzma::bufread::XzDecoder::new(packed)),
        Pack::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(packed).expect("memory")),
    };
    let (mut part, mut total) = ([0; 4096], 0);
    while let Ok(count @ 1..) = reader.read(&mut part) {
        total += count as u64;
    }
    total
}

#[test]
fn of_a_cut_compressed_stream_what_there_is_is_read_and_the_cut_is_reported() {
    let all = requests(20_000);
    for (format, bytes) in every_format(&all) {
        for pack in [Pack::Gzip, Pack::Xz, Pack::Zstd] {
            let packed = pack.pack(&bytes);
            for cut in [packed.len() - 5, packed.len() / 2] {
                let cut = packed[..cut].to_vec();
                let end = decompressed(&cut, pack);
                if end == 0 {
                    let error = open(cut, "cut", OnError::Skip).expect_err("there is nothing");
                    assert_eq!(error.kind(), ErrorKind::Truncated, "{format} {pack:?}");
                    continue;
                }
                let mut reader = open(cut.clone(), "cut", OnError::Skip).expect("a good start");
                assert_eq!(reader.format(), format);
                let (read, error) = drain(&mut reader);
                assert!(error.is_none(), "{format} {pack:?}: {error:?}");
                let faults = &reader.skipped().faults;
                assert_eq!((faults.len(), faults[0].kind), (1, ErrorKind::Truncated), "{format} {pack:?}");
                assert_eq!((faults[0].count, faults[0].first[0].0.byte), (1, end), "{format} {pack:?}");
                // All but the last records, which may be cut in two or lie in one block.
                assert_eq!(read, with_origins(format, &all[..read.len()]));
                let share = end as f64 / bytes.len() as f64 * all.len() as f64;
                assert!(read.len() as f64 > share - 5000.0, "{format} {pack:?}: {}, {end}", read.len());

                let (stopped, error) = drain(&mut open(cut, "cut", OnError::Stop).expect("a good start"));
                let error = error.expect("the cut");
                assert_eq!(error.kind(), ErrorKind::Truncated, "{format} {pack:?}");
                assert_eq!(error.position().map(|position| position.byte), Some(end));
                assert!(error.to_string().contains("--on-error skip"), "{error}");
                assert_eq!(stopped, read);
            }
        }
    }
}

#[test]
fn a_damaged_compressed_stream_is_reported_too() {
    let all = requests(20_000);
    for (format, bytes) in every_format(&all) {
        // Zstandard's checksum is optional, and this one has none.
        for pack in [Pack::Gzip, Pack::Xz] {
            let mut packed = pack.pack(&bytes);
            let middle = packed.len() / 2;
            packed[middle..middle + 64].fill(0xa5);
            let mut reader = match open(packed, "damaged", OnError::Skip) {
                Ok(reader) => reader,
                // Nothing comes out of the first piece of the stream if the damage is in it.
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Compression, "{format} {pack:?}");
                    continue;
                }
            };
            let (_, error) = drain(&mut reader);
            // What the damage makes of a header of the compact format cannot be passed over.
            assert!(error.is_none() || format == "lode", "{format} {pack:?}: {error:?}");
            assert!(error.is_some() || fault_count(reader.skipped()) > 0, "{format} {pack:?}");
        }
    }
}

#[test]
fn a_bomb_is_streamed() {
    let mut bomb = Pack::Zstd.pack(&vec![0; 64 << 20]);
    bomb = Pack::Gzip.pack(&bomb);
    let forced =
        ReadOptions { format: Some("msr".to_owned()), on_error: OnError::Skip, ..ReadOptions::default() };
    let mut reader = read_trace(std::io::Cursor::new(bomb), "bomb", &forced).expect("a start");
    assert!(drain(&mut reader).0.is_empty());
    let fault = &reader.skipped().faults[0];
    assert_eq!((fault.kind, fault.count), (ErrorKind::LineTooLong, 1));
}
