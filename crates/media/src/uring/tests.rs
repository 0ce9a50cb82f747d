//! What only shows inside: the number of system calls, and the fallback of set-up flags.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

use lode_types::Buf;

use super::{SETUPS, SUBMIT_ENTRIES, Uring};
use crate::driver::SPIN_LIMIT as SPIN;
use crate::file::MediaFile;
use crate::outbox::Outbox;
use crate::pool::FileJob;
use crate::port::Backend;
use crate::socket::{RecvJob, Socket};
use crate::spin::Spin;
use crate::{Direct, OpenOptions};
use lode_types::CommandKind;

fn open() -> Option<Uring> {
    match Uring::open(Spin::new(SPIN)) {
        Ok((uring, flags)) => {
            println!("flags: {flags}");
            Some(uring)
        }
        Err(fault) => {
            lode_testdata::skip(&fault);
            None
        }
    }
}

fn temporary(direct: Direct) -> (tempfile::TempDir, MediaFile) {
    let dir = tempfile::tempdir().unwrap();
    let options = OpenOptions { direct, create_size: Some(1 << 20), ..OpenOptions::default() };
    let file = MediaFile::open(&dir.path().join("file"), &options).unwrap();
    (dir, file)
}

fn read_job(file: &MediaFile, token: u64) -> FileJob {
    let real = file.real();
    let kind = CommandKind::read(token % 256 * 4096, Buf::for_overwrite(4096));
    FileJob { token, due: None, file: real.clone(), kind }
}

#[test]
fn at_queue_depth_one_a_cycle_costs_one_system_call() {
    let Some(mut uring) = open() else { return };
    for direct in [Direct::Off, Direct::Prefer] {
        let (_dir, file) = temporary(direct);
        let mut outbox = Outbox::default();
        let mut done = Vec::new();
        let before = uring.enters;
        for token in 0..100 {
            uring.start_file(read_job(&file, token));
            uring.turn(Some(Duration::from_secs(10)), &mut outbox).unwrap();
            outbox.hand_out(&mut done);
            assert_eq!(done.len() as u64, token + 1);
        }
        assert_eq!(uring.enters - before, 100);
    }
}

#[test]
fn more_than_the_submission_queue_holds_is_held_back_and_done() {
    let Some(mut uring) = open() else { return };
    let (_dir, file) = temporary(Direct::Off);
    let count = u64::from(SUBMIT_ENTRIES) * 40;
    for token in 0..count {
        uring.start_file(read_job(&file, token));
    }
    assert!(uring.held_back.len() as u64 > count - u64::from(SUBMIT_ENTRIES) - 2);
    let mut outbox = Outbox::default();
    let mut done = Vec::new();
    while (done.len() as u64) < count {
        uring.turn(Some(Duration::from_secs(10)), &mut outbox).unwrap();
        outbox.hand_out(&mut done);
    }
    let mut tokens: Vec<u64> = done.iter().map(|done| done.token).collect();
    tokens.sort_unstable();
    assert!(tokens.into_iter().eq(0..count));
    assert!(done.iter().all(|done| done.result == Ok(4096)));
    assert_eq!(uring.flights.len(), 0);
}

#[test]
fn more_than_the_completion_queue_holds_is_not_lost() {
    if open().is_none() {
        return;
    }
    let (mut uring, _) = Uring::with_entries(8, 16, &SETUPS, Spin::new(SPIN)).unwrap();
    let mut outbox = Outbox::default();
    let mut done = Vec::new();
    let mut peers = Vec::new();
    for token in 0..300 {
        let (near, far) = UnixStream::pair().unwrap();
        let socket = Rc::new(Socket::new(near.into()));
        let buf = Buf::for_overwrite(8);
        let job = RecvJob { token, buf, range: 0..8, all: false, received_bytes: 0 };
        let job = socket.admit_recv(job).unwrap();
        uring.start_recv(socket, job);
        peers.push(far);
    }
    while !uring.held_back.is_empty() {
        uring.turn(Some(Duration::ZERO), &mut outbox).unwrap();
    }
    uring.turn(Some(Duration::from_millis(1)), &mut outbox).unwrap();
    for peer in &mut peers {
        peer.write_all(b"x").unwrap();
    }
    while done.len() < peers.len() {
        uring.turn(Some(Duration::from_secs(10)), &mut outbox).unwrap();
        let before = done.len();
        outbox.hand_out(&mut done);
        assert!(done.len() > before, "only {before} completions came");
    }
    assert!(done.iter().all(|done| done.result == Ok(1)));
}

#[test]
fn every_set_of_flags_works() {
    if open().is_none() {
        return;
    }
    for setup in SETUPS {
        let opened = Uring::with_entries(8, 16, &[setup], Spin::new(SPIN));
        let Ok((mut uring, flags)) = opened else {
            lode_testdata::skip(format_args!("this kernel does not take {}", setup.0));
            assert!(!setup.0.starts_with("no "), "the plainest must be taken where any are");
            continue;
        };
        assert_eq!(flags, setup.0);
        let (_dir, file) = temporary(Direct::Prefer);
        for token in 0..50 {
            uring.start_file(read_job(&file, token));
        }
        let real = file.real();
        let kind = CommandKind::WriteZeroes { offset_bytes: 0, length_bytes: 4096, unmap: false };
        uring.start_file(FileJob { token: 50, due: None, file: real.clone(), kind });
        let (mut outbox, mut done) = (Outbox::default(), Vec::new());
        let mut turns = 0;
        while done.len() < 51 {
            uring.turn(Some(Duration::from_secs(10)), &mut outbox).unwrap();
            outbox.hand_out(&mut done);
            turns += 1;
            assert!(turns < 1000, "{flags}: {} of 51 ended", done.len());
        }
        assert!(done.iter().all(|done| done.result.is_ok()), "{flags}");
        uring.waker().wake();
        assert!(uring.turn(None, &mut outbox).unwrap(), "{flags}");
    }
}
