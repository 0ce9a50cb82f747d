//! Requests of several VMs by time, from profiles and from traces. It must not know what becomes of them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;

use lode_replay::{InputReport, RequestStream};
use lode_synth::Generator;
use lode_trace::{ReadOptions, Reader, TraceError, open_trace};
use lode_types::TraceRequest;

/// Requests given at once.
const BATCH: usize = 4096;

/// Where one VM's requests come from.
enum Origin {
    Made(Box<Generator>),
    Read(Box<Reader>),
}

/// One VM's requests; times begin at zero.
pub(crate) struct Lane {
    name: String,
    origin: Origin,
    /// Requests that may still come; no limit is the largest number.
    left: u64,
    /// When the VM begins, in nanoseconds.
    start_ns: u64,
    /// The time of the first request, which is taken off.
    first_ns: Option<u64>,
    batch: Vec<TraceRequest>,
    next: usize,
    last_ns: u64,
}

impl Lane {
    /// So many requests of a profile.
    pub(crate) fn made(generator: Generator, requests: u64) -> Lane {
        Lane::new(generator.volume().to_owned(), Origin::Made(Box::new(generator)), requests)
    }

    /// The first requests of a trace.
    ///
    /// # Errors
    /// Those of opening it.
    pub(crate) fn read(path: &Path, requests: u64) -> Result<Lane, TraceError> {
        let reader = open_trace(path, &ReadOptions::default())?;
        Ok(Lane::new(reader.stem().to_owned(), Origin::Read(Box::new(reader)), requests))
    }

    fn new(name: String, origin: Origin, left: u64) -> Lane {
        Lane { name, origin, left, start_ns: 0, first_ns: None, batch: Vec::new(), next: 0, last_ns: 0 }
    }

    /// The same from a time on.
    pub(crate) fn from(self, start_ns: u64) -> Lane {
        Lane { start_ns, ..self }
    }

    /// The next request, at its time on the common clock; none at the end. Of a trace whose times go backwards requests
    /// come as if no time had passed.
    fn request(&mut self) -> Result<Option<TraceRequest>, TraceError> {
        if self.left == 0 || (self.next == self.batch.len() && !self.refill()?) {
            return Ok(None);
        }
        let mut request = self.batch[self.next];
        self.next += 1;
        self.left -= 1;
        let first_ns = *self.first_ns.get_or_insert(request.time_ns);
        self.last_ns = self.last_ns.max(self.start_ns + request.time_ns.saturating_sub(first_ns));
        request.time_ns = self.last_ns;
        request.volume = 0;
        Ok(Some(request))
    }

    fn refill(&mut self) -> Result<bool, TraceError> {
        self.next = 0;
        match &mut self.origin {
            Origin::Made(generator) => generator.next_batch(&mut self.batch, BATCH),
            Origin::Read(reader) => {
                reader.next_batch(&mut self.batch)?;
            }
        }
        Ok(!self.batch.is_empty())
    }

    fn report(&self) -> InputReport {
        match &self.origin {
            Origin::Read(reader) => InputReport::of(reader),
            Origin::Made(_) => InputReport {
                path: self.name.clone(),
                format: "profile",
                also_fits: Vec::new(),
                implausible_bytes: None,
                has_times: true,
                unit_bytes: None,
                unit_assumed: false,
                synthetic: true,
                backwards: 0,
                other_commands: 0,
                bad_records: Vec::new(),
            },
        }
    }
}

/// VMs by time; of equal times the first VM's come first.
pub(crate) struct Together {
    lanes: Vec<Lane>,
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    /// The request at the head of each lane.
    waiting: Vec<Option<TraceRequest>>,
}

impl Together {
    /// These VMs, numbered in their order.
    ///
    /// # Errors
    /// Those of reading a trace.
    pub(crate) fn new(lanes: Vec<Lane>) -> Result<Together, TraceError> {
        let mut together = Together { lanes: Vec::new(), heads: BinaryHeap::new(), waiting: Vec::new() };
        lanes.into_iter().try_for_each(|lane| together.add(lane))?;
        Ok(together)
    }

    /// One more VM.
    ///
    /// # Errors
    /// Those of reading its trace.
    pub(crate) fn add(&mut self, lane: Lane) -> Result<(), TraceError> {
        self.lanes.push(lane);
        self.waiting.push(None);
        self.advance(self.lanes.len() - 1)
    }

    /// VMs that were added.
    pub(crate) fn len(&self) -> usize {
        self.lanes.len()
    }

    /// The first so many VMs go on, the others are gone.
    pub(crate) fn keep(&mut self, vms: usize) {
        if vms < self.lanes.len() {
            self.heads.retain(|Reverse((_, lane))| *lane < vms);
        }
    }

    /// When the next request comes; none at the end.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.heads.peek().map(|Reverse((time_ns, _))| *time_ns)
    }

    /// The next request and its VM; none at the end.
    ///
    /// # Errors
    /// Those of reading a trace.
    pub(crate) fn next(&mut self) -> Result<Option<(usize, TraceRequest)>, TraceError> {
        let Some(Reverse((_, lane))) = self.heads.pop() else { return Ok(None) };
        let request = self.waiting[lane].take();
        self.advance(lane)?;
        Ok(request.map(|request| (lane, request)))
    }

    fn advance(&mut self, lane: usize) -> Result<(), TraceError> {
        let request = self.lanes[lane].request()?;
        if let Some(request) = request {
            self.heads.push(Reverse((request.time_ns, lane)));
        }
        self.waiting[lane] = request;
        Ok(())
    }
}

impl RequestStream for Together {
    fn next_batch(&mut self, out: &mut Vec<(u32, TraceRequest)>) -> Result<usize, TraceError> {
        out.clear();
        while out.len() < BATCH {
            let Some((lane, request)) = self.next()? else { break };
            out.push((lane as u32, request));
        }
        Ok(out.len())
    }

    fn vm_names(&self) -> Vec<String> {
        self.lanes.iter().map(|lane| lane.name.clone()).collect()
    }

    fn vm_inputs(&self) -> Vec<usize> {
        (0..self.lanes.len()).collect()
    }

    fn inputs(&self) -> Vec<InputReport> {
        self.lanes.iter().map(Lane::report).collect()
    }
}

#[cfg(test)]
mod tests {
    use lode_synth::builtin;

    use super::*;

    fn lane(name: &str, requests: u64) -> Lane {
        let profile = builtin(name).expect("a good profile").expect("a profile");
        Lane::made(Generator::new(&profile.scaled(0.01)).expect("requests"), requests)
    }

    fn all(lanes: Vec<Lane>) -> Vec<(u32, TraceRequest)> {
        let mut together = Together::new(lanes).expect("requests");
        let (mut batch, mut found) = (Vec::new(), Vec::new());
        while together.next_batch(&mut batch).expect("requests") > 0 {
            found.append(&mut batch);
        }
        found
    }

    #[test]
    fn requests_come_by_time_and_none_is_lost() {
        let found = all(vec![lane("hm_1", 5000), lane("ts_0", 3000)]);
        assert_eq!(found.iter().filter(|one| one.0 == 0).count(), 5000);
        assert_eq!(found.iter().filter(|one| one.0 == 1).count(), 3000);
        assert!(found.is_sorted_by_key(|one| one.1.time_ns));
        assert_eq!(found[0].1.time_ns, 0);
        let alone: Vec<_> = all(vec![lane("ts_0", 3000)]).into_iter().map(|one| one.1).collect();
        let among: Vec<_> = found.into_iter().filter(|one| one.0 == 1).map(|one| one.1).collect();
        assert_eq!(among, alone);
    }

    #[test]
    fn a_vm_comes_and_goes() {
        const S: u64 = 1_000_000_000;
        let mut together = Together::new(vec![lane("hm_1", 5000)]).expect("requests");
        together.add(lane("ts_0", 3000).from(100 * S)).expect("requests");
        let mut first_of_second = None;
        for _ in 0..500 {
            let (vm, request) = together.next().expect("requests").expect("a request");
            if vm == 1 {
                first_of_second.get_or_insert(request.time_ns);
            }
        }
        assert_eq!(first_of_second, Some(100 * S));
        together.keep(1);
        let rest: Vec<_> = std::iter::from_fn(|| together.next().expect("requests")).collect();
        assert!(!rest.is_empty() && rest.iter().all(|(vm, _)| *vm == 0));
    }
}
