//! Requests that a program has from elsewhere than a file, read like a trace. It must not know where they are from.

use std::path::Path;

use lode_types::TraceRequest;

use crate::compact::Recorded;
use crate::error::{ErrorKind, TraceError};
use crate::feed::{Feed, More, check_request};
use crate::formats::{Decoder, Format};
use crate::input::Input;
use crate::limits::BATCH_REQUESTS;
use crate::reader::{OnError, Reader};

/// Where such requests come from.
pub trait GivenRequests: Send {
    /// Appends requests to the empty `out`, at most [`BATCH_REQUESTS`]; none at the end.
    ///
    /// # Errors
    /// What is wrong with the next request, and what to do.
    fn next_batch(&mut self, out: &mut Vec<TraceRequest>) -> Result<(), String>;

    /// Names of the volumes met so far, which [`TraceRequest::volume`] indexes.
    fn volumes(&self) -> &[String];
}

static FORMAT: Format = Format {
    name: "memory",
    about: "requests in memory",
    endings: &[],
    default_unit_bytes: None,
    units_told: true,
    recorded: |_| Recorded::TIMES,
    detect: |_| false,
    decoder: |_| Box::new(Nothing),
};

impl Reader {
    /// Reads requests that are given. `name` stands in for the file name in messages and, without volume names, for the VM.
    pub fn given(requests: Box<dyn GivenRequests>, name: impl AsRef<Path>, recorded: Recorded) -> Reader {
        let path = name.as_ref();
        let input = Input::new(Box::new(std::io::empty()));
        let feed = Feed::new(input, path.to_owned(), crate::reader::stem(path), false, OnError::Stop);
        Reader::of_decoder(feed, Box::new(Given { requests }), &FORMAT, recorded)
    }
}

struct Given {
    requests: Box<dyn GivenRequests>,
}

impl Decoder for Given {
    fn decode(&mut self, feed: &mut Feed, out: &mut Vec<TraceRequest>) -> Result<More, TraceError> {
        // Requests in front of an error are read; of these nobody knows yet whether their volumes have names.
        self.next_batch(feed, out).inspect_err(|_| out.clear())
    }
}

impl Given {
    fn next_batch(&mut self, feed: &mut Feed, out: &mut Vec<TraceRequest>) -> Result<More, TraceError> {
        let failed = |kind, message| TraceError::new(kind, &feed.path, message);
        self.requests.next_batch(out).map_err(|message| failed(ErrorKind::Malformed, message))?;
        if out.len() > BATCH_REQUESTS {
            let message = format!("A batch of {} requests; give {BATCH_REQUESTS} at most", out.len());
            return Err(failed(ErrorKind::Limit, message));
        }
        let names = self.requests.volumes();
        for name in &names[feed.volumes.names().len().min(names.len())..] {
            let added = feed.volumes.add(name.as_bytes());
            added.map_err(|fault| {
                let message = format!("{} ({name:?})", fault.message(false));
                TraceError::new(fault.kind, &feed.path, message)
            })?;
        }
        let volumes = names.len();
        for request in &*out {
            if let Err(fault) = check_request(request) {
                return Err(TraceError::new(fault.kind, &feed.path, fault.message(false)));
            }
            if request.volume as usize >= volumes {
                let message = "A request names a volume that is not in the list; add its name";
                return Err(TraceError::new(ErrorKind::Malformed, &feed.path, message));
            }
        }
        Ok(if out.is_empty() { More::No } else { More::Yes })
    }
}

/// Nothing is ever found to be in this format.
struct Nothing;

impl Decoder for Nothing {
    fn decode(&mut self, _: &mut Feed, _: &mut Vec<TraceRequest>) -> Result<More, TraceError> {
        Ok(More::No)
    }
}
