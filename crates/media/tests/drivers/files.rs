//! Files and devices through both drivers.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use crate::both;
use crate::common::{self, gather, open};
use lode_media::{
    AnyDriver, Direct, Done, Driver, DriverChoice, FileId, HddModel, Lock, MediaFile, OpenOptions, Payload,
};
use lode_types::{Buf, CommandKind, MediaError};
use proptest::prelude::*;

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 64;
/// Where the bytes of a write are cut: a whole number of sectors, and not of what a device may ask for.
const CUT_BYTES: usize = 1536;

fn create(folder: &tempfile::TempDir, direct: Direct, size_bytes: u64) -> MediaFile {
    let options = OpenOptions { write: true, direct, create_size: Some(size_bytes), lock: Lock::Exclusive };
    MediaFile::open(&folder.path().join("file"), &options).unwrap()
}

/// A file of zeroes without a name.
fn scratch(size_bytes: u64) -> MediaFile {
    create(&common::folder(), Direct::Off, size_bytes)
}

#[derive(Clone, Copy, Debug)]
enum What {
    Read,
    Write(u8),
    Trim,
    WriteZeroes { unmap: bool },
}

#[derive(Clone, Copy, Debug)]
struct Step {
    what: What,
    first: u64,
    count: u64,
}

fn step() -> impl Strategy<Value = Step> {
    let what = prop_oneof![
        4 => Just(What::Read),
        4 => any::<u8>().prop_map(What::Write),
        1 => Just(What::Trim),
        1 => any::<bool>().prop_map(|unmap| What::WriteZeroes { unmap }),
    ];
    (what, 0..BLOCKS, 1u64..12).prop_map(|(what, first, count)| {
        let count = count.min(BLOCKS - first);
        Step { what, first, count }
    })
}

/// What the file must hold; a trimmed block may hold anything until it is written again.
struct Oracle {
    bytes: Vec<u8>,
    known: Vec<bool>,
}

fn pattern(seed: u8, length: usize) -> Vec<u8> {
    (0..length).map(|at| seed.wrapping_add(at as u8).wrapping_add((at / 4096) as u8)).collect()
}

/// A buffer with something in it that must not be taken for what was read.
fn stale(length: usize) -> Buf {
    Buf::copy_of(&vec![0xee; length])
}

fn bytes_of(done: &Done) -> Vec<u8> {
    let Payload::Bufs(bufs) = &done.payload else { panic!("no buffers") };
    bufs.iter().map(Buf::as_slice).collect::<Vec<_>>().concat()
}

/// Submits steps together as long as they do not touch each other, and checks what reads return.
fn run_steps(driver: &mut AnyDriver, file: FileId, oracle: &mut Oracle, steps: &[Step]) {
    let mut rest = steps;
    while !rest.is_empty() {
        let mut touched = vec![false; BLOCKS as usize];
        let apart = rest.iter().take_while(|step| {
            let range = &mut touched[step.first as usize..(step.first + step.count) as usize];
            let free = range.iter().all(|touched| !touched);
            range.fill(true);
            free
        });
        let (batch, after) = rest.split_at(apart.count());
        rest = after;
        for (token, step) in batch.iter().enumerate() {
            let (offset_bytes, length_bytes) = (step.first * BLOCK, step.count * BLOCK);
            let length = length_bytes as usize;
            // Every other read and write is of several parts, which direct I/O may take as they are or not.
            let parts = if token % 2 == 0 { 1 } else { step.count };
            let command = match step.what {
                What::Read => {
                    let bufs = (0..parts).map(|_| stale(length / parts as usize)).collect();
                    CommandKind::Read { offset_bytes, bufs }
                }
                What::Write(seed) => {
                    let bytes = Buf::copy_of(&pattern(seed, length)).freeze();
                    let cuts: Vec<usize> = (0..parts as usize).map(|part| part * CUT_BYTES).collect();
                    let ends = cuts[1..].iter().copied().chain([length]);
                    let data = cuts.iter().zip(ends).map(|(from, to)| bytes.slice(*from..to)).collect();
                    CommandKind::Write { offset_bytes, data }
                }
                What::Trim => CommandKind::Trim { offset_bytes, length_bytes },
                What::WriteZeroes { unmap } => CommandKind::WriteZeroes { offset_bytes, length_bytes, unmap },
            };
            driver.submit(token as u64, file, command);
        }
        for (step, done) in batch.iter().zip(gather(driver, batch.len())) {
            check_step(oracle, step, done);
        }
    }
}

fn check_step(oracle: &mut Oracle, step: &Step, done: Done) {
    let range = (step.first * BLOCK) as usize..((step.first + step.count) * BLOCK) as usize;
    let blocks = step.first as usize..(step.first + step.count) as usize;
    match step.what {
        What::Read => {
            assert_eq!(done.result, Ok(range.len()));
            let bytes = bytes_of(&done);
            for (index, block) in blocks.enumerate() {
                let at = index * BLOCK as usize;
                let (got, start) = (&bytes[at..at + BLOCK as usize], range.start + at);
                let wanted = &oracle.bytes[start..start + BLOCK as usize];
                assert!(!oracle.known[block] || got == wanted, "block {block} differs");
            }
        }
        What::Write(seed) => {
            assert_eq!(done.result, Ok(range.len()));
            oracle.bytes[range.clone()].copy_from_slice(&pattern(seed, range.len()));
            oracle.known[blocks].fill(true);
        }
        What::Trim => {
            assert_eq!(done.result, Ok(0));
            oracle.known[blocks].fill(false);
        }
        What::WriteZeroes { .. } => {
            assert_eq!(done.result, Ok(0));
            oracle.bytes[range].fill(0);
            oracle.known[blocks].fill(true);
        }
    }
}

/// Random steps against a vector, on one file of each kind. Ends with everything read back.
fn against_the_oracle(choice: DriverChoice, make: impl Fn() -> Option<(tempfile::TempDir, MediaFile)>) {
    let Some(driver) = open(choice).map(RefCell::new) else { return };
    let config = ProptestConfig::with_cases(24);
    proptest!(config, |(mut steps in proptest::collection::vec(step(), 1..80))| {
        let Some((_folder, file)) = make() else { return Ok(()) };
        let mut driver = driver.borrow_mut();
        let id = driver.add_file(file);
        let mut oracle = Oracle {
            bytes: vec![0; (BLOCKS * BLOCK) as usize],
            known: vec![true; BLOCKS as usize],
        };
        steps.push(Step { what: What::Read, first: 0, count: BLOCKS });
        run_steps(&mut driver, id, &mut oracle, &steps);
        driver.submit(0, id, CommandKind::Flush);
        prop_assert_eq!(gather(&mut driver, 1)[0].result, Ok(0));
        driver.remove_file(id);
    });
}

fn file_of(direct: Direct) -> Option<(tempfile::TempDir, MediaFile)> {
    let folder = common::folder();
    let file = create(&folder, direct, BLOCKS * BLOCK);
    if direct == Direct::Prefer && !file.is_direct() {
        lode_testdata::skip("no direct I/O in the target folder");
        return None;
    }
    Some((folder, file))
}

#[test]
fn uring_buffered_file_equals_a_vector() {
    against_the_oracle(DriverChoice::Uring, || file_of(Direct::Off));
}

#[test]
fn uring_direct_file_equals_a_vector() {
    against_the_oracle(DriverChoice::Uring, || file_of(Direct::Prefer));
}

#[test]
fn threads_buffered_file_equals_a_vector() {
    against_the_oracle(DriverChoice::Threads, || file_of(Direct::Off));
}

#[test]
fn threads_direct_file_equals_a_vector() {
    against_the_oracle(DriverChoice::Threads, || file_of(Direct::Prefer));
}

both!(zeroes_give_their_space_back_where_they_may, |driver: &mut AnyDriver| {
    use std::os::unix::fs::MetadataExt;
    let folder = common::folder();
    let file = driver.add_file(create(&folder, Direct::Prefer, 256 * BLOCK));
    let allocated = || std::fs::metadata(folder.path().join("file")).unwrap().blocks() * 512;
    driver.submit(0, file, CommandKind::write(0, Buf::copy_of(&pattern(1, 256 * BLOCK as usize))));
    assert_eq!(gather(driver, 1)[0].result, Ok(256 * BLOCK as usize));
    let full = allocated();
    let zero = |unmap| CommandKind::WriteZeroes { offset_bytes: 0, length_bytes: 128 * BLOCK, unmap };
    for (unmap, most) in [(false, full), (true, full - 128 * BLOCK)] {
        driver.submit(0, file, zero(unmap));
        driver.submit(1, file, CommandKind::Flush);
        assert!(gather(driver, 2).iter().all(|done| done.result == Ok(0)));
        driver.submit(0, file, CommandKind::read(0, stale(256 * BLOCK as usize)));
        let bytes = bytes_of(&gather(driver, 1)[0]);
        let (zeroes, rest) = bytes.split_at(128 * BLOCK as usize);
        assert!(zeroes.iter().all(|byte| *byte == 0));
        assert!(*rest == pattern(1, 256 * BLOCK as usize)[128 * BLOCK as usize..]);
        assert_eq!(allocated(), most, "unmap: {unmap}");
    }
});

both!(a_map_tells_holes_from_data, |driver: &mut AnyDriver| {
    const FILE: u64 = 64 * BLOCK + 100;
    let folder = common::folder();
    let path = folder.path().join("file");
    let extents = |done: &Done| match &done.payload {
        Payload::FileExtents(extents) => extents.iter().map(|one| (one.length_bytes, one.is_hole)).collect(),
        _ => Vec::new(),
    };
    std::fs::File::create(&path).unwrap().set_len(FILE).unwrap();
    let file = driver.add_file(MediaFile::open(&path, &OpenOptions::default()).unwrap());
    driver.map(0, file, 0..FILE);
    assert_eq!(extents(&gather(driver, 1)[0]), [(FILE, true)]);
    for block in [2, 3, 60] {
        driver.submit(0, file, CommandKind::write(block * BLOCK, Buf::copy_of(&[7; BLOCK as usize])));
        assert!(gather(driver, 1)[0].result.is_ok());
    }
    driver.map(0, file, 0..FILE);
    driver.map(1, file, BLOCK + 512..3 * BLOCK + 512);
    driver.map(2, file, 0..FILE + 1);
    let done = gather(driver, 3);
    let tail = FILE - 61 * BLOCK;
    assert_eq!(
        extents(&done[0]),
        [(2 * BLOCK, true), (2 * BLOCK, false), (56 * BLOCK, true), (BLOCK, false), (tail, true)]
    );
    assert_eq!(extents(&done[1]), [(BLOCK - 512, true), (BLOCK + 512, false)]);
    assert_eq!((done[2].result, extents(&done[2])), (Err(MediaError::Io), Vec::new()));
});

both!(errors_come_back_with_their_buffers, |driver: &mut AnyDriver| {
    let folder = common::folder();
    let path = folder.path().join("file");
    let file = driver.add_file(create(&folder, Direct::Off, 16 * BLOCK));
    let read_only = OpenOptions { write: false, direct: Direct::Off, create_size: None, lock: Lock::None };
    let read_only = driver.add_file(MediaFile::open(&path, &read_only).unwrap());
    let memory = driver.add_file(scratch(8192));
    let buf = || Buf::zeroed(8192);
    // Cut short behind the driver's back: the bytes beyond are lost, the rest is not.
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(9 * BLOCK).unwrap();
    driver.submit(0, file, CommandKind::read(8 * BLOCK, buf()));
    driver.submit(1, file, CommandKind::read(7 * BLOCK, buf()));
    driver.submit(2, file, CommandKind::read(15 * BLOCK, buf()));
    driver.submit(3, file, CommandKind::write(u64::MAX - 4095, buf()));
    driver.submit(4, read_only, CommandKind::write(0, buf()));
    driver.submit(5, memory, CommandKind::Trim { offset_bytes: 4096, length_bytes: u64::MAX });
    driver.submit(6, memory, CommandKind::read(1, buf()));
    driver.submit(7, memory, CommandKind::read(8192, Buf::zeroed(0)));
    let done = gather(driver, 8);
    let io = Err(MediaError::Io);
    let wanted = [io, Ok(8192), io, io, io, io, io, Ok(0)];
    assert_eq!(done.iter().map(|done| done.result).collect::<Vec<_>>(), wanted);
    for done in &done {
        assert_eq!(done.result.is_err(), done.os_error.is_some());
        assert_eq!(
            matches!(&done.payload, Payload::Bufs(bufs) if bufs[0].len() == 8192),
            matches!(done.token, 0 | 1 | 2 | 6)
        );
    }
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 9 * BLOCK, "nothing may grow a file");
});

both!(short_reads_fill_their_buffers_or_fail, |driver: &mut AnyDriver| {
    for direct in [Direct::Off, Direct::Prefer] {
        let folder = common::folder();
        let path = folder.path().join("file");
        let media = create(&folder, direct, 4 * BLOCK);
        let wanted = pattern(1, 3 * BLOCK as usize);
        std::fs::write(&path, &wanted).unwrap();
        let file = driver.add_file(media);
        // The file is shorter now, so that a read of its end moves fewer bytes than there is room for.
        let bufs = |count| (0..count).map(|_| stale(BLOCK as usize)).collect();
        driver.submit(0, file, CommandKind::Read { offset_bytes: 0, bufs: bufs(3) });
        driver.submit(1, file, CommandKind::Read { offset_bytes: BLOCK, bufs: bufs(3) });
        driver.submit(2, file, CommandKind::Read { offset_bytes: 3 * BLOCK, bufs: bufs(1) });
        let done = gather(driver, 3);
        assert_eq!(done[0].result, Ok(wanted.len()));
        assert_eq!(bytes_of(&done[0]), wanted);
        assert_eq!((done[1].result, done[2].result), (Err(MediaError::Io), Err(MediaError::Io)));
    }
});

both!(more_parts_than_the_kernel_takes_at_once, |driver: &mut AnyDriver| {
    let folder = common::folder();
    let file = driver.add_file(create(&folder, Direct::Prefer, 1024 * BLOCK));
    let wanted = pattern(3, 1024 * BLOCK as usize);
    let bytes = Buf::copy_of(&wanted).freeze();
    let data = (0..bytes.len()).step_by(512).map(|at| bytes.slice(at..at + 512)).collect();
    driver.submit(0, file, CommandKind::Write { offset_bytes: 0, data });
    assert_eq!(gather(driver, 1)[0].result, Ok(wanted.len()));
    let bufs = (0..2048).map(|_| stale(2048)).collect();
    driver.submit(0, file, CommandKind::Read { offset_bytes: 0, bufs });
    let done = gather(driver, 1).remove(0);
    assert_eq!(done.result, Ok(wanted.len()));
    assert!(bytes_of(&done) == wanted);
});

both!(direct_files_refuse_what_is_not_aligned, |driver: &mut AnyDriver| {
    let folder = common::folder();
    let media = create(&folder, Direct::Prefer, 16 * BLOCK);
    if !media.is_direct() {
        lode_testdata::skip("no direct I/O in the target folder");
        return;
    }
    let block = u64::from(media.logical_block_bytes());
    let file = driver.add_file(media);
    driver.submit(0, file, CommandKind::read(block / 2, Buf::zeroed(block as usize)));
    driver.submit(1, file, CommandKind::write(0, Buf::zeroed(block as usize - 1)));
    driver.submit(2, file, CommandKind::read(block, Buf::zeroed(block as usize)));
    // A trim is advisory: the whole blocks inside are trimmed.
    driver.submit(3, file, CommandKind::Trim { offset_bytes: 1, length_bytes: 3 * block });
    let results: Vec<_> = gather(driver, 4).iter().map(|done| done.result).collect();
    assert_eq!(results, [Err(MediaError::Io), Err(MediaError::Io), Ok(block as usize), Ok(0)]);
});

both!(a_removed_file_finishes_what_is_in_flight, |driver: &mut AnyDriver| {
    let folder = common::folder();
    let file = driver.add_file(create(&folder, Direct::Prefer, 64 * BLOCK));
    for token in 0..64 {
        let bytes = Buf::copy_of(&[token as u8; 4096]);
        driver.submit(token, file, CommandKind::write(token * BLOCK, bytes));
    }
    driver.remove_file(file);
    driver.submit(64, file, CommandKind::Flush);
    // The slot is used again: the old id must not reach the new file.
    let memory = driver.add_file(scratch(4096));
    driver.submit(65, file, CommandKind::write(0, Buf::copy_of(&[9; 4096])));
    let done = gather(driver, 66);
    assert!(done[..64].iter().all(|done| done.result == Ok(4096)));
    assert_eq!((done[64].result, done[65].result), (Err(MediaError::Gone), Err(MediaError::Gone)));
    driver.submit(0, memory, CommandKind::read(0, Buf::zeroed(4096)));
    assert_eq!(bytes_of(&gather(driver, 1)[0]), [0; 4096]);
    let bytes = std::fs::read(folder.path().join("file")).unwrap();
    assert!(bytes.chunks(4096).enumerate().all(|(at, block)| block.iter().all(|byte| *byte == at as u8)));
    // The lock is gone with the last operation.
    let again = OpenOptions::default();
    assert!(MediaFile::open(&folder.path().join("file"), &again).is_ok());
});

both!(a_modelled_disk_takes_its_time, |driver: &mut AnyDriver| {
    let model = HddModel { random_access_us: 30_000, sequential_access_us: 1_000, ..HddModel::nearline() };
    let file = driver.add_file(scratch(1 << 20).with_delay(model));
    let fast = driver.add_file(scratch(1 << 20));
    let start = Instant::now();
    let read = |offset_bytes| CommandKind::read(offset_bytes, Buf::zeroed(4096));
    driver.submit(0, file, read(0));
    driver.submit(1, file, read(65_536));
    driver.submit(2, file, read(65_536 + 4096));
    driver.submit(3, fast, read(0));
    let mut done = Vec::new();
    driver.wait(None, &mut done).unwrap();
    assert_eq!(done.iter().map(|done| done.token).collect::<Vec<_>>(), [3]);
    // Too short a wait brings nothing, and takes no longer than it should.
    driver.wait(Some(Duration::from_millis(2)), &mut done).unwrap();
    if start.elapsed() < Duration::from_millis(30) {
        assert_eq!(done.len(), 1);
    }
    let mut ended = Vec::new();
    while ended.len() < 3 {
        done.clear();
        driver.wait(None, &mut done).unwrap();
        ended.extend(done.iter().map(|done| (done.token, start.elapsed())));
    }
    assert_eq!(ended.iter().map(|(token, _)| *token).collect::<Vec<_>>(), [0, 1, 2]);
    let least = [30, 60, 61].map(Duration::from_millis);
    for ((token, elapsed), least) in ended.iter().zip(least) {
        assert!(*elapsed >= least, "{token} ended after {elapsed:?}");
    }
});

both!(a_modelled_disk_delays_a_real_file_too, |driver: &mut AnyDriver| {
    let folder = common::folder();
    let model = HddModel { random_access_us: 20_000, ..HddModel::nearline() };
    let file = driver.add_file(create(&folder, Direct::Off, 16 * BLOCK).with_delay(model));
    let start = Instant::now();
    driver.submit(0, file, CommandKind::write(0, Buf::zeroed(4096)));
    let mut done = Vec::new();
    driver.wait(None, &mut done).unwrap();
    assert_eq!(done.len(), 1);
    assert!(start.elapsed() >= Duration::from_millis(20));
});

both!(two_drivers_may_share_a_file, |driver: &mut AnyDriver| {
    let media = scratch(4096);
    let file = driver.add_file(media.clone());
    driver.submit(0, file, CommandKind::write(0, Buf::copy_of(&[5; 4096])));
    assert_eq!(gather(driver, 1)[0].result, Ok(4096));
    let reader = std::thread::spawn(move || {
        let (mut driver, which) =
            lode_media::open_driver(DriverChoice::Auto, lode_media::SPIN_LIMIT).unwrap();
        assert!(!which.to_string().is_empty());
        let file = driver.add_file(media);
        driver.submit(0, file, CommandKind::read(0, Buf::zeroed(4096)));
        let done = gather(&mut driver, 1);
        assert_eq!(bytes_of(&done[0]), [5; 4096]);
    });
    reader.join().unwrap();
});

both!(a_dropped_driver_frees_nothing_in_use, |driver: &mut AnyDriver| {
    let folder = common::folder();
    let media = create(&folder, Direct::Prefer, 1024 * BLOCK);
    let file = driver.add_file(media.clone());
    for token in 0..1024 {
        driver.submit(token, file, CommandKind::write(token * BLOCK, Buf::copy_of(&[7; 4096])));
    }
    driver.wait(None, &mut Vec::new()).unwrap();
    // Replaced by a fresh one: the old one is dropped with most of its operations in flight.
    let (fresh, _) = lode_media::open_driver(DriverChoice::Threads, lode_media::SPIN_LIMIT).unwrap();
    drop(std::mem::replace(driver, fresh));
    // Whatever was written was written whole from buffers that were still there.
    let bytes = media.read_now(0, 1024 * 4096).unwrap();
    for block in bytes.as_slice().chunks(4096) {
        assert!(block.iter().all(|byte| *byte == 7) || block.iter().all(|byte| *byte == 0));
    }
});
