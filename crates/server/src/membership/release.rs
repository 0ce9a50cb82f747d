//! A VM's disk is to be opened elsewhere, or is served here again: its shard comes to rest with it or goes on, and the sidecar beside
//! the disk says so. It must not know who asks.

use std::sync::mpsc::sync_channel;

use super::parts::Parts;
use super::{Done, Failure};
use crate::messages::ToShard;

/// See the module's documentation.
pub(crate) struct ReleaseVm {
    pub vm: String,
    pub number: usize,
    /// Clients that are connected do not keep it from being released.
    pub refuse_clients: bool,
}

impl ReleaseVm {
    /// When this returns well, the disk may be opened elsewhere, and not before.
    pub(super) fn run(self, parts: &Parts) -> Result<Done, Failure> {
        let ReleaseVm { vm, number, refuse_clients } = self;
        let (answer, answered) = sync_channel(1);
        parts.host.tell(number, |volume| ToShard::Release { volume, refuse_clients, answer });
        answered.recv().map_err(|_| Failure::Unchanged("The service stops".to_owned()))??;
        match parts.claims.release(number) {
            Ok(sidecar) => Ok(Done::Released { vm, sidecar }),
            Err(error) => {
                go_on(parts, number, None)?;
                Err(Failure::Unchanged(format!("{error}. The VM is served on")))
            }
        }
    }
}

/// See the module's documentation.
pub(crate) struct ResumeVm {
    pub vm: String,
    pub number: usize,
}

impl ResumeVm {
    pub(super) fn run(self, parts: &Parts) -> Result<Done, String> {
        let ResumeVm { vm, number } = self;
        parts.claims.resume(number).map_err(|error| error.to_string())?;
        go_on(parts, number, parts.claims.view(number).map(|sidecar| sidecar.generation))?;
        Ok(Done::Resumed { vm })
    }
}

fn go_on(parts: &Parts, number: usize, generation: Option<u64>) -> Result<(), String> {
    let (answer, answered) = sync_channel(1);
    parts.host.tell(number, |volume| ToShard::Resume { volume, generation, answer });
    match answered.recv() {
        Ok(true) => Ok(()),
        _ => Err("Its shard does not serve it: the service stops, or see the log".to_owned()),
    }
}
