//! Traces as VMs of one host: their requests in turn, as if all had taken the same time. It must not know schemes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use lode_replay::{InputReport, Recording, RequestStream};
use lode_trace::TraceError;
use lode_types::TraceRequest;

/// Requests given at once.
const BATCH: usize = 4096;
/// How long all of them take, in nanoseconds: an hour. Recordings of a second and of a week would follow each other otherwise.
const SPAN_NS: u128 = 3_600_000_000_000;

/// These traces, each a VM by its name; none when they take more than `most_bytes`.
///
/// # Errors
/// None of its own; those of [`Recording::of`].
pub(super) fn mixed(
    recordings: Vec<(String, Recording)>,
    most_bytes: u64,
) -> Result<Option<Recording>, TraceError> {
    let mut stretched = Stretched { heads: BinaryHeap::new(), next: vec![0; recordings.len()], recordings };
    (0..stretched.recordings.len()).for_each(|vm| stretched.wait(vm));
    Recording::of(stretched, most_bytes, &mut |_, _| {})
}

struct Stretched {
    recordings: Vec<(String, Recording)>,
    /// The request of each VM that comes next.
    next: Vec<usize>,
    /// When it comes; of equal times the first VM's comes first.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Stretched {
    /// The next request of a VM waits for its time, if there is one.
    fn wait(&mut self, vm: usize) {
        let (next, all) = (self.next[vm], self.recordings[vm].1.requests());
        if next < all {
            let time_ns = (next as u128 * SPAN_NS / all as u128) as u64;
            self.heads.push(Reverse((time_ns, vm)));
        }
    }
}

impl RequestStream for Stretched {
    fn next_batch(&mut self, out: &mut Vec<(u32, TraceRequest)>) -> Result<usize, TraceError> {
        out.clear();
        while out.len() < BATCH {
            let Some(Reverse((time_ns, vm))) = self.heads.pop() else { break };
            let (_, request) = self.recordings[vm].1.requests_by_time()[self.next[vm]];
            out.push((vm as u32, TraceRequest { time_ns, ..request }));
            self.next[vm] += 1;
            self.wait(vm);
        }
        Ok(out.len())
    }

    fn vm_names(&self) -> Vec<String> {
        self.recordings.iter().map(|(name, _)| name.clone()).collect()
    }

    fn vm_inputs(&self) -> Vec<usize> {
        (0..self.recordings.len()).collect()
    }

    fn inputs(&self) -> Vec<InputReport> {
        // Each is one trace; its times are those of this mix.
        let inputs = self.recordings.iter().flat_map(|(_, recording)| recording.play().inputs());
        inputs.map(|input| InputReport { has_times: true, ..input }).collect()
    }
}

#[cfg(test)]
mod tests {
    use lode_synth::{Generator, builtin};

    use super::*;
    use crate::run::source::{Lane, Together};

    fn recording(name: &str, requests: u64) -> (String, Recording) {
        let profile = builtin(name).expect("a good profile").expect("a profile");
        let lane = Lane::made(Generator::new(&profile.scaled(0.01)).expect("requests"), requests);
        let together = Together::new(vec![lane]).expect("a lane");
        let recording = Recording::of(together, 1 << 30, &mut |_, _| {}).expect("requests");
        (name.to_owned(), recording.expect("room"))
    }

    #[test]
    fn all_begin_and_end_together_and_none_is_lost() {
        let alone = [recording("hm_1", 5000), recording("ts_0", 1000)];
        let together = mixed(alone.to_vec(), 1 << 30).expect("requests").expect("room");
        assert_eq!(together.vm_names(), ["hm_1", "ts_0"]);
        let requests = together.requests_by_time();
        assert!(requests.is_sorted_by_key(|(_, request)| request.time_ns));
        for (vm, (_, own)) in alone.iter().enumerate() {
            let of_vm = requests.iter().filter(|(number, _)| *number == vm as u32);
            let as_recorded =
                own.requests_by_time().iter().map(|(_, request)| (request.offset_bytes, request.op));
            assert!(of_vm.map(|(_, request)| (request.offset_bytes, request.op)).eq(as_recorded));
        }
        // Of any sixth part the smaller one has a sixth.
        let of_second = |part: &[(u32, TraceRequest)]| part.iter().filter(|(vm, _)| *vm == 1).count();
        assert!(requests.chunks(600).all(|part| of_second(part).abs_diff(100) <= 1));
        assert!(mixed(alone.to_vec(), 1000).expect("requests").is_none(), "no room");
    }
}
