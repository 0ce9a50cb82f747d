//! Several traces as several VMs, merged by time. It must not know formats.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lode_types::{BlockNo, TraceRequest};

use crate::compact::Recorded;
use crate::error::{ErrorKind, TraceError};
use crate::limits::{BATCH_REQUESTS, MAX_VM_BLOCKS, MAX_VM_VOLUMES, MAX_VMS};
use crate::reader::Reader;

/// How the clocks of the traces are brought together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Align {
    /// Times stay as they are.
    #[default]
    Absolute,
    /// Every trace starts at zero: the time of its first request is taken off.
    Start,
}

/// What becomes a VM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VmBy {
    /// Each volume of each trace.
    #[default]
    Volume,
    /// Each trace, with all its volumes; see [`vm_block`].
    File,
}

/// How to merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeOptions {
    /// How the clocks are brought together.
    pub align: Align,
    /// What becomes a VM.
    pub vm_by: VmBy,
}

/// One VM of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vm {
    /// Unique among the VMs: the volume's name, with the file's stem before it where there are several traces.
    pub name: String,
    /// Which of the merged traces it comes from.
    pub input: usize,
    /// The volume in that trace, under [`VmBy::Volume`].
    pub volume: Option<u32>,
}

/// Something about the merged traces that the user should hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeWarning {
    /// Under [`Align::Absolute`], the time spans of these traces (by index) touch no other trace's span: they
    /// ran one after the other and not together. [`Align::Start`] is probably meant.
    NoOverlap {
        /// Indices of the traces.
        inputs: Vec<usize>,
    },
    /// These of several traces (by index) have no times, so that the order of their requests among those of other
    /// traces is made up.
    NoTimes {
        /// Indices of the traces.
        inputs: Vec<usize>,
    },
    /// Under [`Align::Start`], requests earlier than the first one of their trace were put at time zero.
    BeforeStart {
        /// How many.
        requests: u64,
    },
}

/// The block number of `block` of the `volume_in_vm`-th volume in the address space of a VM with several volumes:
/// the volume stands in the top 12 bits. `None` beyond [`MAX_VM_VOLUMES`] or [`MAX_VM_BLOCKS`].
pub fn vm_block(volume_in_vm: u32, block: BlockNo) -> Option<BlockNo> {
    let fits = volume_in_vm < MAX_VM_VOLUMES && block < MAX_VM_BLOCKS;
    fits.then(|| u64::from(volume_in_vm) << MAX_VM_BLOCKS.trailing_zeros() | block)
}

/// Several traces being read as one, by time. Requests of one trace keep their order, and of equal times the
/// trace that was named first comes first. Where times go backwards, a request comes no later than those after it
/// in its batch, so that one bogus time far ahead does not hold up the rest of its trace.
pub struct Merge {
    lanes: Vec<Lane>,
    /// When each lane's next request is due; the lane number decides between equals.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    options: MergeOptions,
    vms: Vec<Vm>,
    names: HashSet<String>,
    before_start: u64,
    pending: Option<TraceError>,
    stop: Option<Arc<AtomicBool>>,
}

struct Lane {
    reader: Reader,
    batch: Vec<TraceRequest>,
    /// For each request of the batch, the earliest time of it and those after it.
    due_ns: Vec<u64>,
    next: usize,
    origin_ns: Option<u64>,
    /// Earliest and latest time met, as read.
    span_ns: Option<(u64, u64)>,
    /// VM of each volume (one entry under [`VmBy::File`]), once it had a request.
    vm_of: Vec<Option<u32>>,
}

impl Merge {
    /// Starts a merge; reads the first batch of each trace.
    ///
    /// # Errors
    /// Those of [`Reader::next_batch`].
    pub fn new(readers: Vec<Reader>, options: MergeOptions) -> Result<Merge, TraceError> {
        let lanes = readers.into_iter().map(|reader| Lane {
            reader,
            batch: Vec::new(),
            due_ns: Vec::new(),
            next: 0,
            origin_ns: None,
            span_ns: None,
            vm_of: Vec::new(),
        });
        let mut merge = Merge {
            lanes: lanes.collect(),
            heads: BinaryHeap::new(),
            options,
            vms: Vec::new(),
            names: HashSet::new(),
            before_start: 0,
            pending: None,
            stop: None,
        };
        for (index, lane) in merge.lanes.iter_mut().enumerate() {
            if lane.refill()? {
                merge.heads.push(Reverse((lane.head_due_ns(options.align), index)));
            }
        }
        Ok(merge)
    }

    /// The same, and once `stop` is true the next batch is the error [`ErrorKind::Stopped`]: a way for another thread to end
    /// whatever reads it.
    #[must_use]
    pub fn stopped_by(mut self, stop: Arc<AtomicBool>) -> Merge {
        self.stop = Some(stop);
        self
    }

    /// Replaces `out` by the next requests with the index of their VM in [`Merge::vms`], and says how many;
    /// zero means that every trace has ended. [`TraceRequest::volume`] is the volume's index within its VM:
    /// zero under [`VmBy::Volume`], the trace's own index under [`VmBy::File`].
    ///
    /// # Errors
    /// Those of [`Reader::next_batch`]; [`ErrorKind::Limit`] for too many VMs or volumes in a VM;
    /// [`ErrorKind::Stopped`]. What comes before the error is delivered first, and the merge ends with it.
    pub fn next_batch(&mut self, out: &mut Vec<(u32, TraceRequest)>) -> Result<usize, TraceError> {
        out.clear();
        if self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            self.heads.clear();
            let message = "Stopped before the end, as was asked for; start it again for a result";
            return Err(TraceError::new(ErrorKind::Stopped, self.first_path(), message));
        }
        if let Some(error) = self.pending.take() {
            return Err(error);
        }
        while out.len() < BATCH_REQUESTS {
            match self.next() {
                Ok(Some(item)) => out.push(item),
                Ok(None) => break,
                Err(error) => {
                    self.heads.clear();
                    if out.is_empty() {
                        return Err(error);
                    }
                    self.pending = Some(error);
                    break;
                }
            }
        }
        Ok(out.len())
    }

    fn first_path(&self) -> &Path {
        self.lanes.first().map_or(Path::new("-"), |lane| lane.reader.path())
    }

    fn next(&mut self) -> Result<Option<(u32, TraceRequest)>, TraceError> {
        let Some((index, mut request)) = self.take_head() else {
            return self.pending.take().map_or(Ok(None), Err);
        };
        let vm = self.vm_of(index, request.volume)?;
        if self.options.vm_by == VmBy::Volume {
            request.volume = 0;
        }
        Ok(Some((vm, request)))
    }

    /// The earliest request, on the merge's clock, and its lane. An error in finding the one after it waits.
    fn take_head(&mut self) -> Option<(usize, TraceRequest)> {
        let mut top = self.heads.peek_mut()?;
        let Reverse((_, index)) = *top;
        let lane = &mut self.lanes[index];
        let mut request = lane.batch[lane.next];
        if self.options.align == Align::Start {
            let origin_ns = lane.origin_ns.unwrap_or(0);
            self.before_start += u64::from(request.time_ns < origin_ns);
            request.time_ns = request.time_ns.saturating_sub(origin_ns);
        }
        lane.next += 1;
        match lane.refill() {
            Ok(true) => *top = Reverse((lane.head_due_ns(self.options.align), index)),
            Ok(false) => {
                PeekMut::pop(top);
            }
            Err(error) => {
                PeekMut::pop(top);
                self.heads.clear();
                self.pending = Some(error);
            }
        }
        Some((index, request))
    }

    fn vm_of(&mut self, input: usize, volume: u32) -> Result<u32, TraceError> {
        let by_file = self.options.vm_by == VmBy::File;
        let has_others = self.lanes.len() > 1;
        let lane = &mut self.lanes[input];
        if by_file && volume >= MAX_VM_VOLUMES {
            let message =
                format!("More than {MAX_VM_VOLUMES} volumes in one VM; make each volume a VM instead");
            return Err(TraceError::new(ErrorKind::Limit, lane.reader.path(), message));
        }
        let slot = if by_file { 0 } else { volume as usize };
        match lane.vm_of.get(slot) {
            Some(&Some(vm)) => return Ok(vm),
            Some(None) => {}
            None => lane.vm_of.resize(slot + 1, None),
        }
        if self.vms.len() >= MAX_VMS {
            let message = format!("More than {MAX_VMS} VMs; merge fewer traces");
            return Err(TraceError::new(ErrorKind::Limit, lane.reader.path(), message));
        }
        let vm = self.vms.len() as u32;
        lane.vm_of[slot] = Some(vm);
        let stem = lane.reader.stem();
        let plain = if by_file { stem } else { &lane.reader.volumes()[slot] };
        let plain = match has_others && plain != stem {
            true => format!("{stem}:{plain}"),
            false => plain.to_owned(),
        };
        let name = unique_name(&self.names, &plain);
        self.names.insert(name.clone());
        self.vms.push(Vm { name, input, volume: (!by_file).then_some(volume) });
        Ok(vm)
    }

    /// The VMs that had a request so far, in order of appearance.
    pub fn vms(&self) -> &[Vm] {
        &self.vms
    }

    /// The merged traces, for their progress, volumes and skips.
    pub fn readers(&self) -> impl ExactSizeIterator<Item = &Reader> {
        self.lanes.iter().map(|lane| &lane.reader)
    }

    /// Whether the times of all traces were recorded; with one trace without, times are none for the whole.
    pub fn has_times(&self) -> bool {
        self.lanes.iter().all(|lane| lane.reader.has_times())
    }

    /// What all traces record; with one trace without something, the whole does not record it, although single requests
    /// may tell.
    pub fn recorded(&self) -> Recorded {
        let all = self.lanes.iter().map(|lane| lane.reader.recorded());
        all.reduce(Recorded::and).unwrap_or(Recorded::TIMES)
    }

    /// What the user should hear of; complete once every trace has ended.
    pub fn warnings(&self) -> Vec<MergeWarning> {
        let mut warnings = Vec::new();
        if self.options.align == Align::Absolute && self.heads.is_empty() {
            let span = |lane: &Lane| lane.span_ns.filter(|_| lane.reader.has_times());
            let spans: Vec<_> = self.lanes.iter().map(span).collect();
            let inputs = without_overlap(&spans);
            if !inputs.is_empty() {
                warnings.push(MergeWarning::NoOverlap { inputs });
            }
        }
        let without = |&input: &usize| !self.lanes[input].reader.has_times();
        let inputs: Vec<_> = (0..self.lanes.len()).filter(without).collect();
        if self.lanes.len() > 1 && !inputs.is_empty() {
            warnings.push(MergeWarning::NoTimes { inputs });
        }
        if self.before_start > 0 {
            warnings.push(MergeWarning::BeforeStart { requests: self.before_start });
        }
        warnings
    }
}

/// Indices of the spans that touch no other one, if there are at least two spans.
fn without_overlap(spans: &[Option<(u64, u64)>]) -> Vec<usize> {
    let mut known: Vec<_> =
        spans.iter().enumerate().filter_map(|(i, span)| span.map(|(first, last)| (first, last, i))).collect();
    if known.len() < 2 {
        return Vec::new();
    }
    known.sort_unstable();
    let mut alone = vec![true; known.len()];
    let mut latest = 0;
    for now in 1..known.len() {
        // `latest` ends last among the spans before `now`.
        if known[now].0 <= known[latest].1 {
            (alone[now], alone[latest]) = (false, false);
        }
        if known[now].1 >= known[latest].1 {
            latest = now;
        }
    }
    let mut inputs: Vec<_> =
        known.iter().zip(alone).filter(|(_, alone)| *alone).map(|(span, _)| span.2).collect();
    inputs.sort_unstable();
    inputs
}

/// `plain`, or with a number after it: the first that is not taken.
fn unique_name(taken: &HashSet<String>, plain: &str) -> String {
    let numbered = (2_u64..).map(|number| format!("{plain}#{number}"));
    let mut names = std::iter::once(plain.to_owned()).chain(numbered);
    names.find(|name| !taken.contains(name)).unwrap_or_else(|| plain.to_owned())
}

impl Lane {
    /// Makes sure that there is a next request; false when the trace has ended.
    fn refill(&mut self) -> Result<bool, TraceError> {
        if self.next < self.batch.len() {
            return Ok(true);
        }
        self.next = 0;
        let more = self.reader.next_batch(&mut self.batch)? > 0;
        for request in &self.batch {
            let (first, last) = self.span_ns.unwrap_or((request.time_ns, request.time_ns));
            self.span_ns = Some((first.min(request.time_ns), last.max(request.time_ns)));
        }
        if self.origin_ns.is_none() {
            self.origin_ns = self.batch.first().map(|request| request.time_ns);
        }
        self.due_ns.clear();
        self.due_ns.extend(self.batch.iter().map(|request| request.time_ns));
        for index in (1..self.due_ns.len()).rev() {
            self.due_ns[index - 1] = self.due_ns[index - 1].min(self.due_ns[index]);
        }
        Ok(more)
    }

    /// When the next request is due on the merge's clock.
    fn head_due_ns(&self, align: Align) -> u64 {
        let due_ns = self.due_ns[self.next];
        match align {
            Align::Absolute => due_ns,
            Align::Start => due_ns.saturating_sub(self.origin_ns.unwrap_or(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_become_unique() {
        let mut taken = HashSet::new();
        for (plain, expected) in
            [("a:hm_0", "a:hm_0"), ("a:hm_0", "a:hm_0#2"), ("a", "a"), ("a:hm_0", "a:hm_0#3")]
        {
            let name = unique_name(&taken, plain);
            assert_eq!(name, expected);
            taken.insert(name);
        }
    }

    proptest! {
        #[test]
        fn overlap_matches_comparing_all_pairs(
            spans in proptest::collection::vec(proptest::option::of((0u64..30, 0u64..8)), 0..8),
        ) {
            let spans: Vec<_> = spans.into_iter().map(|span| span.map(|(first, len)| (first, first + len))).collect();
            let count = spans.iter().flatten().count();
            let touches = |i: usize, (first, last): (u64, u64)| {
                spans.iter().enumerate().any(|(j, other)| i != j && other.is_some_and(|o| o.0 <= last && first <= o.1))
            };
            let expected: Vec<_> = spans.iter().enumerate()
                .filter_map(|(i, span)| span.filter(|&span| count > 1 && !touches(i, span)).map(|_| i))
                .collect();
            prop_assert_eq!(without_overlap(&spans), expected);
        }
    }
}
