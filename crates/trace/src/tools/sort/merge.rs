//! Sorted runs read as one. It must not know where the runs come from.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use lode_types::TraceRequest;

use super::SortBy;
use super::runs::{RunFile, RunReader, SortedRun};
use crate::error::TraceError;
use crate::limits::BATCH_REQUESTS;

/// Runs being merged. Of equal keys the earlier run comes first.
#[derive(Debug)]
pub(super) struct RunMerge {
    readers: Vec<RunReader>,
    /// Key of the next request of each run that has one; the run's number decides between equals.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    bytes: Vec<u8>,
    by: SortBy,
}

impl RunMerge {
    pub(super) fn new(file: &RunFile, runs: &[SortedRun], by: SortBy) -> Result<RunMerge, TraceError> {
        let readers = runs.iter().map(|&run| RunReader::new(run)).collect();
        let mut merge = RunMerge { readers, heads: BinaryHeap::new(), bytes: Vec::new(), by };
        for (index, reader) in merge.readers.iter_mut().enumerate() {
            if let Some(request) = reader.peek(file, &mut merge.bytes)? {
                merge.heads.push(Reverse((by.key(&request), index)));
            }
        }
        Ok(merge)
    }

    /// Replaces `out` by the next requests; none at the end.
    pub(super) fn next_batch(
        &mut self,
        file: &RunFile,
        out: &mut Vec<TraceRequest>,
    ) -> Result<(), TraceError> {
        out.clear();
        while out.len() < BATCH_REQUESTS
            && let Some(mut head) = self.heads.peek_mut()
        {
            let Reverse((key, index)) = *head;
            let reader = &mut self.readers[index];
            // Requests with the same key follow each other in their run, and no earlier run has any left.
            let next_key = loop {
                let Some(request) = reader.peek(file, &mut self.bytes)? else { break None };
                if self.by.key(&request) != key || out.len() == BATCH_REQUESTS {
                    break Some(self.by.key(&request));
                }
                out.push(request);
                reader.advance();
            };
            match next_key {
                Some(key) => *head = Reverse((key, index)),
                None => {
                    PeekMut::pop(head);
                }
            }
        }
        Ok(())
    }
}
