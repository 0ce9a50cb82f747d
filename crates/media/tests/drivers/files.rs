//! Files, devices and memory through both drivers.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use crate::both;
use crate::common::{self, gather, open};
use lode_media::{
    AnyDriver, Direct, Driver, DriverChoice, FileId, HddModel, Lock, MediaFile, Op, OpenOptions, Payload,
};
use lode_types::Buf;
use lode_types::{CommandKind, MediaError};
use proptest::prelude::*;

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 64;

fn create(folder: &tempfile::TempDir, direct: Direct, size_bytes: u64) -> MediaFile {
    let options = OpenOptions { write: true, direct, create_size: Some(size_bytes), lock: Lock::Exclusive };
    MediaFile::open(&folder.path().join("file"), &options).unwrap()
}

#[derive(Clone, Copy, Debug)]
enum What {
    Read,
    Write(u8),
    Trim,
    WriteZeroes,
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
        1 => Just(What::WriteZeroes),
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
            driver.submit(
                token as u64,
                match step.what {
                    What::Read => Op::Read { file, offset_bytes, buf: Buf::zeroed(length) },
                    What::Write(seed) => {
                        Op::Write { file, offset_bytes, buf: Buf::copy_of(&pattern(seed, length)) }
                    }
                    What::Trim => Op::Trim { file, offset_bytes, length_bytes },
                    What::WriteZeroes => Op::WriteZeroes { file, offset_bytes, length_bytes },
                },
            );
        }
        for (step, done) in batch.iter().zip(gather(driver, batch.len())) {
            check_step(oracle, step, done);
        }
    }
}

fn check_step(oracle: &mut Oracle, step: &Step, done: lode_media::Done) {
    let range = (step.first * BLOCK) as usize..((step.first + step.count) * BLOCK) as usize;
    let blocks = step.first as usize..(step.first + step.count) as usize;
    match step.what {
        What::Read => {
            assert_eq!(done.result, Ok(range.len()));
            let Payload::Buf(buf) = done.payload else { panic!("no buffer") };
            for (index, block) in blocks.enumerate() {
                let at = index * BLOCK as usize;
                let (got, start) = (&buf.as_slice()[at..at + BLOCK as usize], range.start + at);
                let wanted = &oracle.bytes[start..start + BLOCK as usize];
                assert!(!oracle.known[block] || got == wanted, "block {block} differs");
            }
        }
        What::Write(seed) => {
            assert_eq!(done.result, Ok(range.len()));
            assert!(matches!(done.payload, Payload::Buf(_)));
            oracle.bytes[range.clone()].copy_from_slice(&pattern(seed, range.len()));
            oracle.known[blocks].fill(true);
        }
        What::Trim => {
            assert_eq!(done.result, Ok(0));
            oracle.known[blocks].fill(false);
        }
        What::WriteZeroes => {
            assert_eq!(done.result, Ok(0));
            oracle.bytes[range].fill(0);
            oracle.known[blocks].fill(true);
        }
    }
}

/// Random steps against a vector, on one file of each kind. Ends with everything read back.
fn against_the_oracle(
    choice: DriverChoice,
    make: impl Fn() -> Option<(Option<tempfile::TempDir>, MediaFile)>,
) {
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
        driver.submit(0, Op::Flush { file: id });
        prop_assert_eq!(gather(&mut driver, 1)[0].result, Ok(0));
        driver.remove_file(id);
    });
}

fn file_of(direct: Direct) -> Option<(Option<tempfile::TempDir>, MediaFile)> {
    let folder = common::folder();
    let file = create(&folder, direct, BLOCKS * BLOCK);
    if direct == Direct::Prefer && !file.is_direct() {
        println!("skipped: no direct I/O in the target folder");
        return None;
    }
    Some((Some(folder), file))
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
fn uring_memory_equals_a_vector() {
    against_the_oracle(DriverChoice::Uring, || Some((None, MediaFile::memory((BLOCKS * BLOCK) as usize))));
}

#[test]
fn threads_buffered_file_equals_a_vector() {
    against_the_oracle(DriverChoice::Threads, || file_of(Direct::Off));
}

#[test]
fn threads_direct_file_equals_a_vector() {
    against_the_oracle(DriverChoice::Threads, || file_of(Direct::Prefer));
}

#[test]
fn threads_memory_equals_a_vector() {
    against_the_oracle(DriverChoice::Threads, || Some((None, MediaFile::memory((BLOCKS * BLOCK) as usize))));
}

both!(errors_come_back_with_their_buffers, |driver: &mut AnyDriver| {
    let folder = common::folder();
    let path = folder.path().join("file");
    let file = driver.add_file(create(&folder, Direct::Off, 16 * BLOCK));
    let read_only = OpenOptions { write: false, direct: Direct::Off, create_size: None, lock: Lock::None };
    let read_only = driver.add_file(MediaFile::open(&path, &read_only).unwrap());
    let memory = driver.add_file(MediaFile::memory(8192));
    let buf = || Buf::zeroed(8192);
    // Cut short behind the driver's back: the bytes beyond are lost, the rest is not.
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(9 * BLOCK).unwrap();
    driver.submit(0, Op::Read { file, offset_bytes: 8 * BLOCK, buf: buf() });
    driver.submit(1, Op::Read { file, offset_bytes: 7 * BLOCK, buf: buf() });
    driver.submit(2, Op::Read { file, offset_bytes: 15 * BLOCK, buf: buf() });
    driver.submit(3, Op::Write { file, offset_bytes: u64::MAX - 4095, buf: buf() });
    driver.submit(4, Op::Write { file: read_only, offset_bytes: 0, buf: buf() });
    driver.submit(5, Op::Trim { file: memory, offset_bytes: 4096, length_bytes: u64::MAX });
    driver.submit(6, Op::Read { file: memory, offset_bytes: 1, buf: buf() });
    driver.submit(7, Op::Read { file: memory, offset_bytes: 8192, buf: Buf::zeroed(0) });
    let done = gather(driver, 8);
    let io = Err(MediaError::Io);
    let wanted = [io, Ok(8192), io, io, io, io, io, Ok(0)];
    assert_eq!(done.iter().map(|done| done.result).collect::<Vec<_>>(), wanted);
    for done in &done {
        assert_eq!(done.result.is_err(), done.os_error.is_some());
        assert_eq!(
            matches!(&done.payload, Payload::Buf(buf) if buf.len() == 8192),
            !matches!(done.token, 5 | 7)
        );
    }
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 9 * BLOCK, "nothing may grow a file");
});

both!(direct_files_refuse_what_is_not_aligned, |driver: &mut AnyDriver| {
    let folder = common::folder();
    let media = create(&folder, Direct::Prefer, 16 * BLOCK);
    if !media.is_direct() {
        println!("skipped: no direct I/O in the target folder");
        return;
    }
    let block = u64::from(media.logical_block_bytes());
    let file = driver.add_file(media);
    driver.submit(0, Op::Read { file, offset_bytes: block / 2, buf: Buf::zeroed(block as usize) });
    driver.submit(1, Op::Write { file, offset_bytes: 0, buf: Buf::zeroed(block as usize - 1) });
    driver.submit(2, Op::Read { file, offset_bytes: block, buf: Buf::zeroed(block as usize) });
    // A trim is advisory: the whole blocks inside are trimmed.
    driver.submit(3, Op::Trim { file, offset_bytes: 1, length_bytes: 3 * block });
    let results: Vec<_> = gather(driver, 4).iter().map(|done| done.result).collect();
    assert_eq!(results, [Err(MediaError::Io), Err(MediaError::Io), Ok(block as usize), Ok(0)]);
});

both!(a_removed_file_finishes_what_is_in_flight, |driver: &mut AnyDriver| {
    let folder = common::folder();
    let file = driver.add_file(create(&folder, Direct::Prefer, 64 * BLOCK));
    for token in 0..64 {
        driver.submit(
            token,
            Op::Write { file, offset_bytes: token * BLOCK, buf: Buf::copy_of(&[token as u8; 4096]) },
        );
    }
    driver.remove_file(file);
    driver.submit(64, Op::Flush { file });
    // The slot is used again: the old id must not reach the new file.
    let memory = driver.add_file(MediaFile::memory(4096));
    driver.submit(65, Op::Write { file, offset_bytes: 0, buf: Buf::copy_of(&[9; 4096]) });
    let done = gather(driver, 66);
    assert!(done[..64].iter().all(|done| done.result == Ok(4096)));
    assert_eq!((done[64].result, done[65].result), (Err(MediaError::Gone), Err(MediaError::Gone)));
    driver.submit(0, Op::Read { file: memory, offset_bytes: 0, buf: Buf::zeroed(4096) });
    let Payload::Buf(buf) = &gather(driver, 1)[0].payload else { panic!("no buffer") };
    assert!(buf.as_slice().iter().all(|byte| *byte == 0));
    let bytes = std::fs::read(folder.path().join("file")).unwrap();
    assert!(bytes.chunks(4096).enumerate().all(|(at, block)| block.iter().all(|byte| *byte == at as u8)));
    // The lock is gone with the last operation.
    let again = OpenOptions::default();
    assert!(MediaFile::open(&folder.path().join("file"), &again).is_ok());
});

both!(a_modelled_disk_takes_its_time, |driver: &mut AnyDriver| {
    let model = HddModel { random_access_us: 30_000, sequential_access_us: 1_000, ..HddModel::nearline() };
    let file = driver.add_file(MediaFile::memory(1 << 20).with_delay(model));
    let fast = driver.add_file(MediaFile::memory(1 << 20));
    let start = Instant::now();
    let read = |file, offset_bytes| Op::Read { file, offset_bytes, buf: Buf::zeroed(4096) };
    driver.submit(0, read(file, 0));
    driver.submit(1, read(file, 65_536));
    driver.submit(2, read(file, 65_536 + 4096));
    driver.submit(3, read(fast, 0));
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
    driver.submit(0, Op::Write { file, offset_bytes: 0, buf: Buf::zeroed(4096) });
    let mut done = Vec::new();
    driver.wait(None, &mut done).unwrap();
    assert_eq!(done.len(), 1);
    assert!(start.elapsed() >= Duration::from_millis(20));
});

both!(two_drivers_may_share_a_file, |driver: &mut AnyDriver| {
    let media = MediaFile::memory(4096);
    let file = driver.add_file(media.clone());
    driver
        .submit(0, Op::for_file(file, CommandKind::Write { offset_bytes: 0, buf: Buf::copy_of(&[5; 4096]) }));
    assert_eq!(gather(driver, 1)[0].result, Ok(4096));
    let reader = std::thread::spawn(move || {
        let (mut driver, which) =
            lode_media::open_driver(DriverChoice::Auto, lode_media::SPIN_LIMIT).unwrap();
        assert!(!which.to_string().is_empty());
        let file = driver.add_file(media);
        driver.submit(0, Op::Read { file, offset_bytes: 0, buf: Buf::zeroed(4096) });
        let done = gather(&mut driver, 1);
        assert!(matches!(&done[0].payload, Payload::Buf(buf) if buf.as_slice() == [5; 4096]));
    });
    reader.join().unwrap();
});

both!(a_dropped_driver_frees_nothing_in_use, |driver: &mut AnyDriver| {
    let folder = common::folder();
    let media = create(&folder, Direct::Prefer, 1024 * BLOCK);
    let file = driver.add_file(media.clone());
    for token in 0..1024 {
        driver.submit(token, Op::Write { file, offset_bytes: token * BLOCK, buf: Buf::copy_of(&[7; 4096]) });
    }
    driver.wait(None, &mut Vec::new()).unwrap();
    // Replaced by a fresh one: the old one is dropped with most of its operations in flight.
    let (fresh, _) = lode_media::open_driver(DriverChoice::Threads, lode_media::SPIN_LIMIT).unwrap();
    drop(std::mem::replace(driver, fresh));
    // Whatever was written was written whole from buffers that were still there.
    let (result, buf) = media.run_now(CommandKind::Read { offset_bytes: 0, buf: Buf::zeroed(1024 * 4096) });
    assert_eq!(result, Ok(1024 * 4096));
    for block in buf.unwrap().as_slice().chunks(4096) {
        assert!(block.iter().all(|byte| *byte == 7) || block.iter().all(|byte| *byte == 0));
    }
});
