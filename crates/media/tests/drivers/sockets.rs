//! Sockets, waking and waiting through both drivers.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::both;
use crate::common::{self, LONG, gather};
use lode_media::{AnyDriver, Done, Driver, DriverChoice, Message, Payload, SocketId};
use lode_types::Buf;
use lode_types::MediaError;

const CLOSED: Result<usize, MediaError> = Ok(0);
const GONE: Result<usize, MediaError> = Err(MediaError::Gone);

fn pair(driver: &mut AnyDriver) -> (SocketId, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    far.set_read_timeout(Some(LONG)).unwrap();
    far.set_write_timeout(Some(LONG)).unwrap();
    (driver.add_socket(near.into()), far)
}

fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

fn bytes_of(done: Done) -> Vec<u8> {
    let (Ok(count), Payload::Buf(buf)) = (done.result, done.payload) else { panic!("nothing received") };
    buf.as_slice()[..count].to_vec()
}

fn text(bytes: &[u8]) -> Message {
    let mut message = Message::default();
    message.text().extend_from_slice(bytes);
    message
}

fn receive(driver: &mut AnyDriver, token: u64, socket: SocketId, length: usize) {
    driver.receive(token, socket, Buf::for_overwrite(length), 0..length, false);
}

fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    (0..length)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect()
}

both!(receives_what_is_there_and_then_the_end, |driver: &mut AnyDriver| {
    let (socket, mut far) = pair(driver);
    receive(driver, 1, socket, 100);
    let mut done = Vec::new();
    driver.wait(Some(Duration::from_millis(5)), &mut done).unwrap();
    assert!(done.is_empty());
    far.write_all(b"hello").unwrap();
    assert_eq!(bytes_of(gather(driver, 1).remove(0)), b"hello");
    // Two receives on one socket end in their order.
    receive(driver, 2, socket, 3);
    receive(driver, 3, socket, 100);
    far.write_all(b"abcdef").unwrap();
    let mut done = gather(driver, 2);
    assert_eq!((bytes_of(done.remove(0)), bytes_of(done.remove(0))), (b"abc".to_vec(), b"def".to_vec()));
    drop(far);
    receive(driver, 4, socket, 10);
    let done = gather(driver, 1).remove(0);
    assert_eq!(done.result, CLOSED);
    assert!(matches!(done.payload, Payload::Buf(buf) if buf.len() == 10));
    // No room: refused, since its end could not be told from the peer's.
    receive(driver, 5, socket, 0);
    assert_eq!(gather(driver, 1)[0].result, Err(MediaError::Io));
});

both!(receives_a_whole_range_where_it_belongs, |driver: &mut AnyDriver| {
    let (socket, mut far) = pair(driver);
    driver.receive(1, socket, Buf::copy_of(&[9; 8192]), 4000..6000, true);
    driver.receive(2, socket, Buf::copy_of(&[9; 8192]), 10..2010, true);
    let sent = noise(3000, 3);
    let mut done = Vec::new();
    for part in sent.chunks(700) {
        far.write_all(part).unwrap();
        driver.wait(Some(Duration::from_millis(2)), &mut done).unwrap();
    }
    // The second one ends with the peer.
    drop(far);
    while done.len() < 2 {
        driver.wait(Some(LONG), &mut done).unwrap();
    }
    let parts = [(4000..6000, &sent[..2000]), (10..1010, &sent[2000..])];
    for (done, (range, part)) in done.iter().zip(parts) {
        assert_eq!(done.result, Ok(part.len()));
        let Payload::Buf(buf) = &done.payload else { panic!("no buffer") };
        assert!(buf.as_slice()[range.clone()] == *part);
        assert!(buf.as_slice()[..range.start].iter().all(|byte| *byte == 9));
        assert!(buf.as_slice()[range.end..].iter().all(|byte| *byte == 9));
    }
});

/// Sends several MiB to a reader that takes its time, in many pieces, and in order.
fn send_to_a_slow_reader(driver: &mut AnyDriver, near: OwnedFd, mut far: impl Read + Send + 'static) {
    let socket = driver.add_socket(near);
    let parts: Vec<Vec<u8>> = (0..150).map(|index| noise(index * 37 % 9000, index as u64)).collect();
    let big = noise(5 << 20, 99);
    let wanted = [parts.concat(), big.clone(), b"the end".to_vec()].concat();
    let reader = std::thread::spawn(move || {
        let mut got = Vec::new();
        let mut piece = vec![0; 300_000];
        loop {
            match far.read(&mut piece).unwrap() {
                0 => return got,
                count => got.extend_from_slice(&piece[..count]),
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    let mut message = Message::default();
    for (index, part) in parts.iter().enumerate() {
        match index % 3 {
            0 => message.push(Buf::copy_of(part).freeze()),
            _ => message.text().extend_from_slice(part),
        }
    }
    // More slices than the kernel takes at once.
    let big = Buf::copy_of(&big).freeze();
    (0..big.len()).step_by(4096).for_each(|at| message.push(big.slice(at..at + 4096)));
    let total = message.len();
    // A second send waits for the first, whole.
    driver.send(1, socket, message);
    driver.send(2, socket, text(b"the end"));
    driver.send(3, socket, Message::default());
    let done = gather(driver, 3);
    assert_eq!((done[0].result, done[1].result, done[2].result), (Ok(total), Ok(7), Ok(0)));
    assert!(matches!(&done[0].payload, Payload::Message(message) if message.len() == total));
    driver.remove_socket(socket);
    assert!(reader.join().unwrap() == wanted, "the bytes differ");
}

both!(large_sends_over_a_unix_socket, |driver: &mut AnyDriver| {
    let (near, far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    send_to_a_slow_reader(driver, near.into(), far);
});

both!(large_sends_over_tcp, |driver: &mut AnyDriver| {
    let (near, far) = tcp_pair();
    near.set_nonblocking(true).unwrap();
    send_to_a_slow_reader(driver, near.into(), far);
});

both!(echoes_a_large_stream, |driver: &mut AnyDriver| {
    let (socket, far) = pair(driver);
    let sent = noise(4 << 20, 5);
    let mut writer = far.try_clone().unwrap();
    let copy = sent.clone();
    let write = std::thread::spawn(move || {
        writer.write_all(&copy).unwrap();
        writer.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut reader = far;
    let read = std::thread::spawn(move || {
        let mut got = Vec::new();
        reader.read_to_end(&mut got).unwrap();
        got
    });
    receive(driver, 0, socket, 64 << 10);
    let mut open = true;
    let mut echoing = 0;
    while open || echoing > 0 {
        let mut done = Vec::new();
        driver.wait(Some(LONG), &mut done).unwrap();
        assert!(!done.is_empty(), "the echo stands still");
        for done in done {
            match (done.token, done.result) {
                (0, CLOSED) => open = false,
                (0, _) => {
                    driver.send(1, socket, text(&bytes_of(done)));
                    receive(driver, 0, socket, 64 << 10);
                    echoing += 1;
                }
                (_, result) => {
                    result.unwrap();
                    echoing -= 1;
                }
            }
        }
    }
    driver.remove_socket(socket);
    write.join().unwrap();
    assert!(read.join().unwrap() == sent, "the echo differs");
});

both!(many_sockets_at_once, |driver: &mut AnyDriver| {
    const PAIRS: u64 = 100;
    const ROUNDS: u32 = 30;
    // Token: pair * 2 + side. Each side sends back what it receives, plus one.
    let mut sockets = Vec::new();
    for _ in 0..PAIRS {
        let (a, b) = UnixStream::pair().unwrap();
        sockets.push(driver.add_socket(a.into()));
        sockets.push(driver.add_socket(b.into()));
    }
    for (token, socket) in sockets.iter().enumerate() {
        receive(driver, token as u64, *socket, 4);
        if token % 2 == 0 {
            driver.send(u64::MAX, *socket, text(&1u32.to_le_bytes()));
        }
    }
    let mut finished = 0;
    while finished < PAIRS {
        let mut done = Vec::new();
        driver.wait(Some(LONG), &mut done).unwrap();
        assert!(!done.is_empty(), "{finished} of {PAIRS} pairs finished");
        for done in done {
            if done.token == u64::MAX {
                assert_eq!(done.result, Ok(4));
                continue;
            }
            let socket = sockets[done.token as usize];
            let token = done.token;
            let count = u32::from_le_bytes(bytes_of(done).try_into().unwrap());
            if count == ROUNDS {
                finished += 1;
                continue;
            }
            driver.send(u64::MAX, socket, text(&(count + 1).to_le_bytes()));
            receive(driver, token, socket, 4);
        }
    }
});

both!(a_removed_socket_ends_what_is_in_flight, |driver: &mut AnyDriver| {
    for over_tcp in [false, true] {
        let (near, mut far): (OwnedFd, Box<dyn Read>) = if over_tcp {
            let (near, far) = tcp_pair();
            (near.into(), Box::new(far))
        } else {
            let (near, far) = UnixStream::pair().unwrap();
            (near.into(), Box::new(far))
        };
        let socket = driver.add_socket(near);
        receive(driver, 1, socket, 10);
        receive(driver, 2, socket, 10);
        // More than the kernel takes, so that it is under way when the socket goes.
        driver.send(3, socket, text(&vec![1; 64 << 20]));
        driver.send(4, socket, text(&[2; 10]));
        let mut done = Vec::new();
        driver.wait(Some(Duration::from_millis(20)), &mut done).unwrap();
        assert!(done.is_empty());
        driver.remove_socket(socket);
        receive(driver, 5, socket, 10);
        driver.send(6, socket, text(&[3; 10]));
        let done = gather(driver, 6);
        assert!(done.iter().all(|done| done.result == GONE), "{done:?}");
        assert!(done.iter().all(|done| !matches!(done.payload, Payload::None)));
        // The peer sees the end after what the kernel had taken.
        let mut got = Vec::new();
        let _ = far.read_to_end(&mut got);
        assert!(got.len() < 64 << 20 && got.iter().all(|byte| *byte == 1));
    }
});

both!(a_closed_peer_fails_sends_and_those_behind, |driver: &mut AnyDriver| {
    let (socket, far) = pair(driver);
    driver.send(1, socket, text(&vec![1; 32 << 20]));
    driver.send(2, socket, text(&[2; 10]));
    driver.wait(Some(Duration::from_millis(5)), &mut Vec::new()).unwrap();
    drop(far);
    let done = gather(driver, 2);
    assert_eq!((done[0].result, done[1].result), (GONE, GONE));
    driver.send(3, socket, text(&[3; 10]));
    assert_eq!(gather(driver, 1)[0].result, GONE);
});

both!(a_broken_pipe_is_an_error_and_no_signal, |driver: &mut AnyDriver| {
    // The signal would kill the process: `common::open` gave it back its default action.
    let (socket, far) = pair(driver);
    drop(far);
    driver.send(1, socket, text(b"anybody there?"));
    assert_eq!(gather(driver, 1)[0].result, GONE);
});

both!(something_that_is_no_socket_fails, |driver: &mut AnyDriver| {
    let socket = driver.add_socket(std::fs::File::open("/dev/null").unwrap().into());
    receive(driver, 1, socket, 10);
    driver.send(2, socket, text(&[3; 10]));
    assert!(gather(driver, 2).iter().all(|done| done.result == Err(MediaError::Io)));
});

both!(wakes_from_another_thread, |driver: &mut AnyDriver| {
    let waker = driver.waker();
    let mut done = Vec::new();
    for round in 0..50u64 {
        let waker = waker.clone();
        let start = Instant::now();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(round % 3));
            waker.wake();
            waker.wake();
        });
        driver.wait(Some(LONG), &mut done).unwrap();
        assert!(start.elapsed() < LONG / 2, "round {round} was not woken");
        thread.join().unwrap();
        // The second wake-up may have come after the first was seen; take it, so that rounds stay apart.
        driver.wait(Some(Duration::from_millis(1)), &mut done).unwrap();
    }
    assert!(done.is_empty());
});

both!(a_wake_up_before_the_wait_is_not_lost, |driver: &mut AnyDriver| {
    let waker = driver.waker();
    waker.wake();
    let start = Instant::now();
    driver.wait(None, &mut Vec::new()).unwrap();
    // It counts once.
    driver.wait(Some(Duration::from_millis(30)), &mut Vec::new()).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(30));
    let (fresh, _) = lode_media::open_driver(DriverChoice::Threads, lode_media::SPIN_LIMIT).unwrap();
    drop(std::mem::replace(driver, fresh));
    waker.wake();
});

both!(times_out, |driver: &mut AnyDriver| {
    let (socket, _far) = pair(driver);
    receive(driver, 1, socket, 10);
    let mut done = Vec::new();
    for timeout_ms in [0, 1, 25] {
        let start = Instant::now();
        let timeout = Duration::from_millis(timeout_ms);
        driver.wait(Some(timeout), &mut done).unwrap();
        assert!(start.elapsed() >= timeout && start.elapsed() < LONG / 2);
    }
    // A timeout that no clock can hold is none; the wake-up ends it.
    let waker = driver.waker();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(5));
        waker.wake();
    });
    driver.wait(Some(Duration::MAX), &mut done).unwrap();
    thread.join().unwrap();
    assert!(done.is_empty());
});

both!(drops_with_everything_in_flight, |driver: &mut AnyDriver| {
    let mut far_ends = Vec::new();
    for token in 0..300 {
        let (socket, far) = pair(driver);
        receive(driver, token, socket, 4096);
        driver.send(token, socket, text(&[vec![1; 2 << 20], vec![2; 10]].concat()));
        far_ends.push(far);
    }
    driver.wait(Some(Duration::from_millis(50)), &mut Vec::new()).unwrap();
    let start = Instant::now();
    let (fresh, _) = lode_media::open_driver(DriverChoice::Threads, lode_media::SPIN_LIMIT).unwrap();
    drop(std::mem::replace(driver, fresh));
    assert!(start.elapsed() < Duration::from_secs(5), "dropping took {:?}", start.elapsed());
    for mut far in far_ends {
        let mut got = Vec::new();
        let _ = far.read_to_end(&mut got);
        assert!(got.iter().all(|byte| *byte == 1));
    }
});
