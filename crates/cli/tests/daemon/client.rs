//! A blocking NBD client over a unix socket.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use lode_nbd::{Command, CommandError, CommandFlags, Request};
use lode_nbd_client::{ClientEvent, ClientHandshake, ClientProgress, ClientTransmission, RemoteExport};

/// Longer than anything takes that goes well.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Connects, waiting for the daemon to listen.
pub fn connect_socket(path: &Path) -> UnixStream {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match UnixStream::connect(path) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.set_write_timeout(Some(PATIENCE)).unwrap();
                return stream;
            }
            Err(error) => assert!(Instant::now() < deadline, "{}: {error}", path.display()),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn join(mut parts: Vec<(u64, Vec<u8>)>) -> Vec<u8> {
    parts.sort_by_key(|(offset, _)| *offset);
    parts.into_iter().flat_map(|(_, bytes)| bytes).collect()
}

/// A unix or TCP socket: once connected, both are the same.
pub struct Client {
    pub stream: UnixStream,
    pub export: RemoteExport,
    transmission: ClientTransmission,
    input: Vec<u8>,
    /// What the socket is read into; kept, because clearing a new one for each answer took most of a client's time.
    received: Vec<u8>,
    next_cookie: u64,
}

/// What came of a request: the bytes of a read, or why it failed. `None`: the connection ended first.
pub type Answer = Option<Result<Vec<u8>, CommandError>>;

impl Client {
    pub fn connect(path: &Path, export: &str, structured: bool) -> Client {
        Client::start(connect_socket(path), export, structured)
    }

    pub fn connect_tcp(port: u16, export: &str) -> Client {
        let stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // Reading and writing are all that is done with it, which needs no unix socket.
        Client::start(UnixStream::from(OwnedFd::from(stream)), export, true)
    }

    fn start(mut stream: UnixStream, export: &str, structured: bool) -> Client {
        let mut handshake = ClientHandshake::go(export, structured).unwrap();
        let (mut input, mut output) = (Vec::new(), Vec::new());
        loop {
            let mut buf = [0; 4096];
            let length = stream.read(&mut buf).unwrap();
            assert!(length > 0, "the daemon hung up during the handshake");
            input.extend_from_slice(&buf[..length]);
            let (used, progress) = handshake.advance(&input, &mut output).unwrap();
            input.drain(..used);
            stream.write_all(&output).unwrap();
            output.clear();
            if let ClientProgress::Done(export) = progress {
                let transmission = ClientTransmission::new(&export);
                let received = vec![0; 1 << 20];
                return Client { stream, export, transmission, input, received, next_cookie: 1 };
            }
        }
    }

    /// Sends a request without waiting for its answer. Returns its cookie, or `None` when the daemon is gone.
    pub fn send(
        &mut self,
        command: Command,
        offset_bytes: u64,
        length_bytes: u32,
        flags: CommandFlags,
        payload: &[u8],
    ) -> Option<u64> {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        let mut output = Vec::new();
        let request = Request { cookie, offset_bytes, length_bytes, command, flags };
        self.transmission.submit(&request, &mut output).unwrap();
        output.extend_from_slice(payload);
        self.stream.write_all(&output).ok().map(|()| cookie)
    }

    /// Waits for the answer to any request: its cookie, and the bytes of a read. `None`: the daemon is gone.
    pub fn wait(&mut self) -> Option<(u64, Result<Vec<u8>, CommandError>)> {
        let mut parts: HashMap<u64, Vec<(u64, Vec<u8>)>> = HashMap::new();
        loop {
            loop {
                let (used, event) = self.transmission.advance(&self.input).unwrap();
                let ended = match event {
                    None => {
                        self.input.drain(..used);
                        break;
                    }
                    Some(ClientEvent::ReadData { cookie, offset_bytes, bytes }) => {
                        parts.entry(cookie).or_default().push((offset_bytes, bytes.to_vec()));
                        None
                    }
                    Some(ClientEvent::ReadZeroes { cookie, offset_bytes, length_bytes }) => {
                        parts.entry(cookie).or_default().push((offset_bytes, vec![0; length_bytes as usize]));
                        None
                    }
                    Some(ClientEvent::Done { cookie }) => {
                        Some((cookie, Ok(join(parts.remove(&cookie).unwrap_or_default()))))
                    }
                    Some(ClientEvent::Failed { cookie, error, .. }) => Some((cookie, Err(error))),
                };
                self.input.drain(..used);
                if ended.is_some() {
                    return ended;
                }
            }
            match self.stream.read(&mut self.received) {
                Ok(0) => return None,
                Ok(length) => self.input.extend_from_slice(&self.received[..length]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("no answer: {error}"),
            }
        }
    }

    /// Sends one request, with nothing else in flight, and waits for its answer.
    pub fn ask(&mut self, command: Command, offset: u64, length: u32, fua: bool, payload: &[u8]) -> Answer {
        let flags = if fua { CommandFlags::FUA } else { CommandFlags::NONE };
        let cookie = self.send(command, offset, length, flags, payload)?;
        let (answered, result) = self.wait()?;
        assert_eq!(answered, cookie);
        Some(result)
    }

    pub fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        self.ask(Command::Read, offset, length, false, &[]).expect("an answer").expect("bytes")
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.ask(Command::Write, offset, bytes.len() as u32, false, bytes).expect("an answer").unwrap();
    }

    pub fn flush(&mut self) {
        self.ask(Command::Flush, 0, 0, false, &[]).expect("an answer").unwrap();
    }
}
