//! The daemon's end of the control socket: lines of JSON in, lines of JSON out, as `docs/control.md` describes them. It must not
//! know what commands do.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::strict_json::Strict;

/// Version of what is said over the control socket: one more with every change that an older program would misunderstand.
pub const PROTOCOL: u32 = 1;
/// Longest line that a client may send: the names of all VMs that there may be.
pub(crate) const MAX_REQUEST_BYTES: usize = 128 << 10;
/// Most events in one answer.
pub const MAX_EVENTS: usize = 1000;
/// Bytes read at once.
const READ_BYTES: usize = 4096;
/// How long a client of the control socket may take for a request or for taking an answer.
pub(crate) const COMMAND_LIMIT: Duration = Duration::from_secs(10);

/// What may be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cmd", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum ControlRequest {
    /// Who answers, and in which version of the protocol.
    Version {},
    /// How everything is.
    Status {},
    /// Write dirty blocks back while guests go on.
    Drain {
        /// The VMs; without a list all of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vms: Option<Vec<String>>,
        /// Stop draining instead.
        #[serde(default)]
        cancel: bool,
        /// From now on writes go around the SSD, so that nothing becomes dirty any more.
        #[serde(default)]
        for_migration: bool,
    },
    /// Read the configuration again, and take over what can change while VMs are served.
    Reload {},
    /// Change keys of a VM while it is served.
    VmSet {
        vm: String,
        /// By key, as in the configuration; an empty value stands for the usual one.
        set: BTreeMap<String, String>,
        /// Write them to the configuration file as well.
        #[serde(default)]
        save: bool,
    },
    /// Serve a VM more.
    VmAdd {
        /// Its keys, as in the configuration.
        vm: serde_json::Map<String, Value>,
        /// Write it to the configuration file as well.
        #[serde(default)]
        save: bool,
    },
    /// Serve a VM no more, and give its space back. It has no dirty blocks.
    VmRemove {
        vm: String,
        /// Cut its clients off.
        #[serde(default)]
        disconnect: bool,
        /// Take it out of the configuration file as well.
        #[serde(default)]
        save: bool,
    },
    /// Give a VM another name, in the configuration file as well.
    VmRename { vm: String, to: String },
    /// Take nothing more of a VM, and let its disk be opened elsewhere.
    VmRelease {
        vm: String,
        /// Although clients are connected.
        #[serde(default)]
        refuse_clients: bool,
    },
    /// Serve a VM as ever after that, or instead.
    VmResume { vm: String },
    /// The cache SSDs, and how they stand.
    DeviceList {},
    /// Take an SSD out of the pair.
    DeviceRemove { path: PathBuf },
    /// Resilver an SSD as the one that the pair lacks.
    DeviceAdd {
        path: PathBuf,
        /// Whatever it holds.
        #[serde(default)]
        force: bool,
        /// Which pair, from 1, where several lack one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pair: Option<usize>,
    },
    /// Take an SSD out of the pair, and resilver another one in its place.
    DeviceReplace {
        path: PathBuf,
        by: PathBuf,
        /// Whatever that one holds.
        #[serde(default)]
        force: bool,
    },
    /// Divide the host's levels between VMs now, and not at the end of the interval.
    Divide {},
    /// What happened lately.
    Events {
        /// Only those with a larger number, the first ones of them; without, the latest.
        #[serde(default)]
        after: Option<u64>,
        /// Only those of this VM.
        #[serde(default)]
        vm: Option<String>,
        /// No more than so many.
        #[serde(default)]
        most: Option<usize>,
    },
    /// End the service cleanly.
    Stop {
        /// Write all dirty blocks back before.
        #[serde(default)]
        drain: bool,
    },
}

impl ControlRequest {
    /// Whether it waits for changes that were asked for before.
    pub(crate) fn changes(&self) -> bool {
        matches!(
            self,
            ControlRequest::Reload {}
                | ControlRequest::VmSet { .. }
                | ControlRequest::VmAdd { .. }
                | ControlRequest::VmRemove { .. }
                | ControlRequest::VmRename { .. }
                | ControlRequest::VmRelease { .. }
                | ControlRequest::VmResume { .. }
                | ControlRequest::DeviceRemove { .. }
                | ControlRequest::DeviceAdd { .. }
                | ControlRequest::DeviceReplace { .. }
        )
    }
}

/// Why a request is not answered as it was meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RefusalKind {
    /// It is no request.
    Malformed,
    /// It has more than [`MAX_REQUEST_BYTES`].
    TooLong,
    /// It is in another version of the protocol.
    Protocol,
    /// It was understood, and is not done.
    Refused,
}

/// An answer that says no.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Refusal {
    pub error: String,
    pub kind: RefusalKind,
}

impl Refusal {
    pub(crate) fn new(error: impl ToString) -> Refusal {
        Refusal { error: error.to_string(), kind: RefusalKind::Refused }
    }
}

/// What a line asks for.
fn understand(line: &[u8]) -> Result<ControlRequest, Refusal> {
    let malformed = |error: serde_json::Error| Refusal {
        error: format!("The request is not understood ({error}); try {{\"cmd\":\"status\"}}"),
        kind: RefusalKind::Malformed,
    };
    let Strict(mut value) = serde_json::from_slice(line).map_err(malformed)?;
    let Some(fields) = value.as_object_mut() else {
        let error = "A request is an object; try {\"cmd\":\"status\"}".to_owned();
        return Err(Refusal { error, kind: RefusalKind::Malformed });
    };
    let protocol = fields.remove("protocol");
    if let Some(asked) = protocol.filter(|asked| asked.as_u64() != Some(PROTOCOL.into())) {
        let error = format!(
            "The daemon speaks version {PROTOCOL} of the protocol, and not {asked}; use its own `lode`"
        );
        return Err(Refusal { error, kind: RefusalKind::Protocol });
    }
    serde_json::from_value(value).map_err(malformed)
}

/// A client of the control socket. Its requests are answered one after the other, in their order.
pub(crate) struct Session {
    stream: UnixStream,
    pub deadline: Instant,
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    /// It ends with the answer that is on its way.
    is_last: bool,
}

/// What a session has come to.
pub(crate) enum SessionStep {
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
        let deadline = now + COMMAND_LIMIT;
        Session { stream: socket.into(), deadline, input, output, sent: 0, is_last: false }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// What it waits for. With a request that came in with the one before it is at once its turn again, after others.
    pub(crate) fn waits_for(&self) -> PollFlags {
        if self.output.is_empty() && !self.input.contains(&b'\n') { PollFlags::IN } else { PollFlags::OUT }
    }

    /// Its client has its whole time for the answer that comes only now.
    pub(crate) fn begin_again(&mut self, now: Instant) {
        self.deadline = now + COMMAND_LIMIT;
    }

    /// Whether the answers so far are sent.
    pub(crate) fn is_sent(&self) -> bool {
        self.sent == self.output.len()
    }

    /// The answer, as one line.
    pub(crate) fn answer(&mut self, answer: &impl Serialize) {
        self.output = serde_json::to_vec(answer).unwrap_or_default();
        self.output.push(b'\n');
        self.sent = 0;
    }

    /// Goes on as far as possible without waiting.
    pub(crate) fn advance(&mut self, now: Instant) -> SessionStep {
        if !self.output.is_empty() {
            return self.send(now);
        }
        if self.input.contains(&b'\n') {
            return self.next_request(now);
        }
        let mut buf = [0; READ_BYTES];
        match self.stream.read(&mut buf) {
            // Whoever says no more may have said all but the end of the line.
            Ok(0) if !self.input.is_empty() => {
                self.input.push(b'\n');
                self.next_request(now)
            }
            Ok(0) => SessionStep::Over,
            Ok(length) => {
                self.input.extend_from_slice(&buf[..length]);
                self.next_request(now)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                SessionStep::Wait
            }
            Err(_) => SessionStep::Over,
        }
    }

    fn next_request(&mut self, now: Instant) -> SessionStep {
        let end = self.input.iter().position(|byte| *byte == b'\n');
        if end.unwrap_or(self.input.len()) > MAX_REQUEST_BYTES {
            self.answer(&Refusal {
                error: format!("The request is longer than {MAX_REQUEST_BYTES} bytes"),
                kind: RefusalKind::TooLong,
            });
            // Where the next one begins nobody knows.
            self.is_last = true;
            return self.send(now);
        }
        let Some(end) = end else { return SessionStep::Wait };
        let line: Vec<u8> = self.input.drain(..=end).collect();
        match understand(&line[..end]) {
            Ok(request) => SessionStep::Ask(request),
            Err(refusal) => {
                self.answer(&refusal);
                self.send(now)
            }
        }
    }

    /// Sends what is left of the answer. The next request has its time from then on.
    pub(crate) fn send(&mut self, now: Instant) -> SessionStep {
        match self.stream.write(&self.output[self.sent..]) {
            Ok(length) => {
                self.sent += length;
                if self.sent < self.output.len() {
                    return SessionStep::Wait;
                }
                if self.is_last {
                    return SessionStep::Over;
                }
                self.output.clear();
                self.sent = 0;
                self.deadline = now + COMMAND_LIMIT;
                SessionStep::Wait
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                SessionStep::Wait
            }
            Err(_) => SessionStep::Over,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_as_documented() {
        let read = |text: &str| understand(text.as_bytes()).map_err(|refusal| (refusal.kind, refusal.error));
        assert_eq!(read(r#"{"cmd":"status"}"#), Ok(ControlRequest::Status {}));
        assert_eq!(read(r#"{"protocol":1,"cmd":"stop"}"#), Ok(ControlRequest::Stop { drain: false }));
        assert_eq!(
            read(r#"{"cmd":"vm-set","vm":"a","set":{"weight":"2"}}"#),
            Ok(ControlRequest::VmSet {
                vm: "a".to_owned(),
                set: BTreeMap::from([("weight".to_owned(), "2".to_owned())]),
                save: false
            })
        );
        assert_eq!(
            read(r#"{"cmd":"events","after":7}"#),
            Ok(ControlRequest::Events { after: Some(7), vm: None, most: None })
        );
        for (text, kind) in [
            (r#"{"protocol":2,"cmd":"status"}"#, RefusalKind::Protocol),
            (r#"{"protocol":"1","cmd":"status"}"#, RefusalKind::Protocol),
            (r#"{"cmd":"dance"}"#, RefusalKind::Malformed),
            (r#"{"cmd":"stop","drian":true}"#, RefusalKind::Malformed),
            (r#"{"cmd":"vm-set","vm":"a","set":{"weight":2}}"#, RefusalKind::Malformed),
            (r#"{"cmd":"vm-set","vm":"a","set":{"weight":"2","weight":"3"}}"#, RefusalKind::Malformed),
            (r#"{"cmd":"status","cmd":"stop"}"#, RefusalKind::Malformed),
            (r#"["status"]"#, RefusalKind::Malformed),
            (r#"["vm-set",{"vm":"a","set":{}}]"#, RefusalKind::Malformed),
            ("[]", RefusalKind::Malformed),
            ("", RefusalKind::Malformed),
            ("\u{0}", RefusalKind::Malformed),
        ] {
            assert_eq!(read(text).expect_err(text).0, kind, "{text}");
        }
    }
}
