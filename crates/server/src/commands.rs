//! The control socket: one line of JSON in, one line of JSON out. It must not know what commands do.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use serde::{Deserialize, Serialize};

use crate::error::{ServerError, ServerErrorKind};

/// Longest line that a client may send.
const MAX_REQUEST_BYTES: usize = 4096;
/// Longest answer that is read.
const MAX_ANSWER_BYTES: u64 = 64 << 20;
/// How long a client of the control socket may take.
pub(crate) const COMMAND_LIMIT: Duration = Duration::from_secs(10);
/// How long an answer may take: longer than a stop.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// What may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cmd", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Request {
    /// How everything is.
    Status,
    /// End the service cleanly.
    Stop,
}

/// A client of the control socket.
pub(crate) struct Session {
    stream: UnixStream,
    pub deadline: Instant,
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
}

/// What a session has come to.
pub(crate) enum Step {
    /// It waits for its client.
    Wait,
    /// It asks for this; to be answered with [`Session::answer`].
    Ask(Request),
    /// It is over.
    Over,
}

impl Session {
    pub(crate) fn new(socket: OwnedFd, now: Instant) -> Session {
        let (input, output) = (Vec::new(), Vec::new());
        Session { stream: socket.into(), deadline: now + COMMAND_LIMIT, input, output, sent: 0 }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    pub(crate) fn waits_for(&self) -> PollFlags {
        if self.output.is_empty() { PollFlags::IN } else { PollFlags::OUT }
    }

    /// The answer, as one line. The session ends when it is sent.
    pub(crate) fn answer(&mut self, answer: &impl Serialize) {
        self.output = serde_json::to_vec(answer).unwrap_or_default();
        self.output.push(b'\n');
        self.sent = 0;
    }

    /// Goes on as far as possible without waiting.
    pub(crate) fn advance(&mut self) -> Step {
        if !self.output.is_empty() {
            return self.send();
        }
        let mut buf = [0; MAX_REQUEST_BYTES];
        match self.stream.read(&mut buf) {
            Ok(0) => Step::Over,
            Ok(length) => {
                self.input.extend_from_slice(&buf[..length]);
                self.understand()
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Step::Wait
            }
            Err(_) => Step::Over,
        }
    }

    fn understand(&mut self) -> Step {
        let Some(end) = self.input.iter().position(|byte| *byte == b'\n') else {
            if self.input.len() <= MAX_REQUEST_BYTES {
                return Step::Wait;
            }
            self.refuse("The request is too long");
            return self.send();
        };
        match serde_json::from_slice(&self.input[..end]) {
            Ok(request) => Step::Ask(request),
            Err(error) => {
                self.refuse(&format!("The request is not understood ({error}); try {{\"cmd\":\"status\"}}"));
                self.send()
            }
        }
    }

    fn refuse(&mut self, error: &str) {
        self.answer(&serde_json::json!({ "error": error }));
    }

    pub(crate) fn send(&mut self) -> Step {
        match self.stream.write(&self.output[self.sent..]) {
            Ok(length) => {
                self.sent += length;
                if self.sent == self.output.len() { Step::Over } else { Step::Wait }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Step::Wait
            }
            Err(_) => Step::Over,
        }
    }
}

/// A command sent to a running daemon, whose answers are to be read line by line.
struct Conversation<'c> {
    control: &'c Path,
    answers: std::io::Take<BufReader<UnixStream>>,
}

impl Conversation<'_> {
    fn begin(control: &Path, request: Request) -> Result<Conversation<'_>, ServerError> {
        let failed = |error| no_answer(control, error);
        let mut stream = UnixStream::connect(control).map_err(failed)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT)).map_err(failed)?;
        let mut line = serde_json::to_vec(&request).unwrap_or_default();
        line.push(b'\n');
        stream.write_all(&line).map_err(failed)?;
        Ok(Conversation { control, answers: BufReader::new(stream).take(MAX_ANSWER_BYTES) })
    }

    fn answer(&mut self) -> Result<String, ServerError> {
        let mut answer = String::new();
        self.answers.read_line(&mut answer).map_err(|error| no_answer(self.control, error))?;
        if answer.ends_with('\n') {
            return Ok(answer);
        }
        let text = format!("The daemon at {} ended before it answered; see its log", self.control.display());
        Err(ServerError::new(ServerErrorKind::Socket, text))
    }
}

fn no_answer(control: &Path, error: std::io::Error) -> ServerError {
    let what = format!("Cannot talk to the daemon at {}; is it running?", control.display());
    ServerError::because(ServerErrorKind::Socket, what, error)
}

/// Asks a running daemon for its status, as JSON.
///
/// # Errors
/// [`ServerErrorKind::Socket`] when it is not running or does not answer.
pub fn status(control: &Path) -> Result<String, ServerError> {
    Conversation::begin(control, Request::Status)?.answer()
}

/// Asks a running daemon to stop; returns when it has.
///
/// # Errors
/// As [`status`], and [`ServerErrorKind::Media`] when it stopped without everything saved.
pub fn stop(control: &Path) -> Result<(), ServerError> {
    let mut conversation = Conversation::begin(control, Request::Stop)?;
    conversation.answer()?;
    let outcome: Stopped = serde_json::from_str(&conversation.answer()?).unwrap_or_default();
    if outcome.saved {
        return Ok(());
    }
    let text =
        "The daemon stopped, but not everything could be saved; see its log before it is started again";
    Err(ServerError::new(ServerErrorKind::Media, text))
}

/// The daemon's last answer to a stop.
#[derive(Default, Deserialize)]
struct Stopped {
    saved: bool,
}
