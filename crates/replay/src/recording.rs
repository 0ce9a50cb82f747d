//! Traces kept in memory, to be replayed many times without reading them again. It must not know schemes.

use std::collections::HashSet;

use lode_trace::{TraceError, vm_block};
use lode_types::{BlockSize, OriginFields, RequestOp, TraceRequest, blocks_of};

use crate::inputs::InputReport;
use crate::run::RequestStream;

/// Requests given at once.
const BATCH: usize = 4096;

/// All requests of a source, and what there is to say of it.
#[derive(Clone, Debug)]
pub struct Recording {
    requests: Vec<(u32, TraceRequest)>,
    vm_names: Vec<String>,
    vm_inputs: Vec<usize>,
    inputs: Vec<InputReport>,
    origins: OriginFields,
    warnings: Vec<String>,
}

impl Recording {
    /// Reads all of `source`; `None` when that would take more than `most_bytes` of memory. `progress` hears of
    /// every batch and its requests.
    ///
    /// # Errors
    /// Those of reading a trace.
    pub fn of<S: RequestStream>(
        mut source: S,
        most_bytes: u64,
        progress: &mut dyn FnMut(&S, usize),
    ) -> Result<Option<Recording>, TraceError> {
        let most_requests = most_bytes / size_of::<(u32, TraceRequest)>() as u64;
        let mut requests = Vec::new();
        let mut batch = Vec::new();
        while source.next_batch(&mut batch)? > 0 {
            let needed = requests.len() + batch.len();
            if needed as u64 > most_requests {
                return Ok(None);
            }
            if needed > requests.capacity() {
                // Doubling, but not beyond what is allowed.
                let wanted = (2 * requests.capacity() as u64).min(most_requests).max(needed as u64);
                requests.reserve_exact(wanted as usize - requests.len());
            }
            progress(&source, batch.len());
            requests.append(&mut batch);
        }
        requests.shrink_to_fit();
        let (vm_names, vm_inputs) = (source.vm_names(), source.vm_inputs());
        let (inputs, warnings) = (source.inputs(), source.warnings());
        let origins = source.origins();
        Ok(Some(Recording { requests, vm_names, vm_inputs, inputs, origins, warnings }))
    }

    /// Requests of all VMs.
    pub fn requests(&self) -> usize {
        self.requests.len()
    }

    /// The requests by time, each with the number of its VM.
    pub fn requests_by_time(&self) -> &[(u32, TraceRequest)] {
        &self.requests
    }

    /// Bytes that the requests take.
    pub fn memory_bytes(&self) -> u64 {
        self.requests.capacity() as u64 * size_of::<(u32, TraceRequest)>() as u64
    }

    /// Names of the VMs, by number.
    pub fn vm_names(&self) -> &[String] {
        &self.vm_names
    }

    /// Different blocks that each VM reads or writes.
    pub fn touched_blocks(&self, block: BlockSize) -> Vec<u64> {
        let mut touched = vec![HashSet::new(); self.vm_names.len()];
        for &(vm, request) in &self.requests {
            if matches!(request.op, RequestOp::Read | RequestOp::Write) {
                let parts = blocks_of(block, request.offset_bytes, request.length_bytes.into());
                touched[vm as usize].extend(parts.filter_map(|part| vm_block(request.volume, part.block)));
            }
        }
        touched.into_iter().map(|blocks| blocks.len() as u64).collect()
    }

    /// Plays it from the start.
    pub fn play(&self) -> Playback<'_> {
        Playback { recording: self, at: 0 }
    }
}

/// A recording being played.
#[derive(Clone, Debug)]
pub struct Playback<'a> {
    recording: &'a Recording,
    at: usize,
}

impl RequestStream for Playback<'_> {
    fn next_batch(&mut self, out: &mut Vec<(u32, TraceRequest)>) -> Result<usize, TraceError> {
        let rest = &self.recording.requests[self.at..];
        let next = &rest[..rest.len().min(BATCH)];
        out.clear();
        out.extend_from_slice(next);
        self.at += next.len();
        Ok(next.len())
    }

    fn vm_names(&self) -> Vec<String> {
        self.recording.vm_names.clone()
    }

    fn vm_inputs(&self) -> Vec<usize> {
        self.recording.vm_inputs.clone()
    }

    fn inputs(&self) -> Vec<InputReport> {
        self.recording.inputs.clone()
    }

    fn origins(&self) -> OriginFields {
        self.recording.origins
    }

    fn warnings(&self) -> Vec<String> {
        self.recording.warnings.clone()
    }
}
