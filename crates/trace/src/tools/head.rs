//! The first requests of a trace. It must not know formats.

use lode_types::TraceRequest;

use super::naming::Naming;
use crate::error::TraceError;
use crate::reader::Reader;

/// Lets the first requests pass. The volumes of what passes are those that a request names, in order of appearance.
#[derive(Debug)]
pub struct Head {
    left: u64,
    volumes: Naming,
}

impl Head {
    /// For this many requests.
    pub fn new(requests: u64) -> Head {
        Head { left: requests, volumes: Naming::default() }
    }

    /// How many may still pass.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Shortens the next batch of `reader` to what passes, and numbers its volumes anew.
    ///
    /// # Errors
    /// [`crate::ErrorKind::TooManyVolumes`].
    pub fn pass(&mut self, reader: &Reader, batch: &mut Vec<TraceRequest>) -> Result<(), TraceError> {
        batch.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= batch.len() as u64;
        for request in batch {
            let volume = request.volume;
            let name = || reader.volumes()[volume as usize].clone();
            request.volume = self.volumes.number(0, volume, name, reader.path())?;
        }
        Ok(())
    }

    /// Names of the volumes of what passed so far.
    pub fn volumes(&self) -> &[String] {
        self.volumes.names()
    }
}
