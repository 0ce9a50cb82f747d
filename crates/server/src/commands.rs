//! The daemon's end of the control socket: one line of JSON in, lines of JSON out. It must not know what commands do.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use serde::{Deserialize, Serialize};

/// Longest line that a client may send: the names of all VMs that there may be.
const MAX_REQUEST_BYTES: usize = 128 << 10;
/// Bytes read at once.
const READ_BYTES: usize = 4096;
/// How long a client of the control socket may take.
pub(crate) const COMMAND_LIMIT: Duration = Duration::from_secs(10);

/// What may be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cmd", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum ControlRequest {
    /// How everything is.
    Status,
    /// Write dirty blocks back while guests go on.
    Drain {
        /// The VMs; all of them when there are none.
        #[serde(default)]
        vms: Vec<String>,
        /// Stop draining instead.
        #[serde(default)]
        cancel: bool,
    },
    /// Read the configuration again, and take over what can change while VMs are served.
    Reload,
    /// End the service cleanly.
    Stop {
        /// Write all dirty blocks back before.
        #[serde(default)]
        drain: bool,
    },
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
    Ask(ControlRequest),
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

    /// Whether the answers so far are sent.
    pub(crate) fn is_sent(&self) -> bool {
        self.sent == self.output.len()
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
        let mut buf = [0; READ_BYTES];
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
