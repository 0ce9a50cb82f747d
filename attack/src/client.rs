//! One connection to a VM's disk. It must not know what is read or written.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use lode_nbd::{Command, CommandFlags, Request};
use lode_nbd_client::{ClientEvent, ClientHandshake, ClientProgress, ClientTransmission};

/// Longer than anything takes that goes well: what takes longer is reported as hanging.
pub const PATIENCE: Duration = Duration::from_secs(30);
const BUFFER_BYTES: usize = 256 << 10;

/// What came of a request: the bytes of a read, or that it failed.
pub type Outcome = Result<Vec<u8>, String>;

/// Why a connection is of no use any more.
#[derive(Debug)]
pub enum Lost {
    /// The daemon has gone.
    Ended,
    /// The daemon does not answer, or not as it should.
    Wrong(String),
}

/// See the module's documentation.
pub struct Client {
    stream: UnixStream,
    transmission: ClientTransmission,
    input: Vec<u8>,
    received: Vec<u8>,
    parts: HashMap<u64, Vec<(u64, Vec<u8>)>>,
    next_cookie: u64,
}

fn lost(error: io::Error) -> Lost {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            Lost::Wrong(format!("no answer for {} s", PATIENCE.as_secs()))
        }
        _ => Lost::Ended,
    }
}

fn wrong(error: impl std::fmt::Display) -> Lost {
    Lost::Wrong(format!("the server broke the protocol: {error}"))
}

impl Client {
    /// Connects, and waits for the daemon to listen.
    pub fn connect(path: &Path, export: &str) -> Result<Client, Lost> {
        let deadline = Instant::now() + PATIENCE;
        let mut stream = loop {
            match UnixStream::connect(path) {
                Ok(stream) => break stream,
                Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(2)),
                Err(error) => {
                    return Err(Lost::Wrong(format!("cannot connect to {}: {error}", path.display())));
                }
            }
        };
        stream.set_read_timeout(Some(PATIENCE)).map_err(lost)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(lost)?;
        let mut handshake = ClientHandshake::go(export, true).map_err(wrong)?;
        let (mut input, mut output, mut received) = (Vec::new(), Vec::new(), vec![0; BUFFER_BYTES]);
        loop {
            match stream.read(&mut received).map_err(lost)? {
                0 => return Err(Lost::Ended),
                length => input.extend_from_slice(&received[..length]),
            }
            let (used, progress) = handshake.advance(&input, &mut output).map_err(wrong)?;
            input.drain(..used);
            stream.write_all(&output).map_err(lost)?;
            output.clear();
            if let ClientProgress::Done(export) = progress {
                let transmission = ClientTransmission::new(&export);
                let parts = HashMap::new();
                return Ok(Client { stream, transmission, input, received, parts, next_cookie: 1 });
            }
        }
    }

    /// Sends a request and does not wait for its answer. Returns its cookie.
    pub fn send(
        &mut self,
        command: Command,
        offset_bytes: u64,
        length_bytes: u64,
        flags: CommandFlags,
        payload: &[u8],
    ) -> Result<u64, Lost> {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        let mut output = Vec::with_capacity(payload.len() + 32);
        let length_bytes = u32::try_from(length_bytes).map_err(wrong)?;
        let request = Request { cookie, offset_bytes, length_bytes, command, flags };
        self.transmission.submit(&request, &mut output).map_err(wrong)?;
        output.extend_from_slice(payload);
        self.stream.write_all(&output).map_err(lost)?;
        Ok(cookie)
    }

    /// Waits for the answer to any request.
    pub fn wait(&mut self) -> Result<(u64, Outcome), Lost> {
        loop {
            let (used, event) = self.transmission.advance(&self.input).map_err(wrong)?;
            let ended = match event {
                None => {
                    self.input.drain(..used);
                    match self.stream.read(&mut self.received).map_err(lost)? {
                        0 => return Err(Lost::Ended),
                        length => self.input.extend_from_slice(&self.received[..length]),
                    }
                    continue;
                }
                Some(ClientEvent::ReadData { cookie, offset_bytes, bytes }) => {
                    self.parts.entry(cookie).or_default().push((offset_bytes, bytes.to_vec()));
                    None
                }
                Some(ClientEvent::ReadZeroes { cookie, offset_bytes, length_bytes }) => {
                    let zeroes = vec![0; length_bytes as usize];
                    self.parts.entry(cookie).or_default().push((offset_bytes, zeroes));
                    None
                }
                Some(ClientEvent::Done { cookie }) => {
                    let mut parts = self.parts.remove(&cookie).unwrap_or_default();
                    parts.sort_by_key(|(offset, _)| *offset);
                    let parts: Vec<Vec<u8>> = parts.into_iter().map(|(_, bytes)| bytes).collect();
                    Some((cookie, Ok(parts.concat())))
                }
                Some(ClientEvent::Failed { cookie, error, message }) => {
                    self.parts.remove(&cookie);
                    Some((cookie, Err(format!("{error:?} {message}"))))
                }
            };
            self.input.drain(..used);
            if let Some(ended) = ended {
                return Ok(ended);
            }
        }
    }

    /// Sends one request while nothing else is under way, and waits for its answer.
    pub fn ask(&mut self, command: Command, offset: u64, length: u64) -> Result<Outcome, Lost> {
        let cookie = self.send(command, offset, length, CommandFlags::NONE, &[])?;
        let (answered, outcome) = self.wait()?;
        if answered != cookie {
            return Err(Lost::Wrong("an answer to what was not asked".to_owned()));
        }
        Ok(outcome)
    }
}
