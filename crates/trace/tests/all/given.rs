//! Requests that a program gives are read as those of a file, and a reading can be stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lode_trace::{ErrorKind, GivenRequests, Merge, MergeOptions, OnError, Reader, Recorded};
use lode_types::TraceRequest;

use crate::samples::{lode, open, requests};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Requests in batches of a few; the names come with the first of them.
struct Few {
    left: Vec<TraceRequest>,
    names: Vec<String>,
    told: usize,
}

impl Few {
    fn new(all: &[TraceRequest], names: &[&str]) -> Few {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Few { left: all.iter().rev().copied().collect(), names, told: 0 }
    }
}

impl GivenRequests for Few {
    fn next_batch(&mut self, out: &mut Vec<TraceRequest>) -> Result<(), String> {
        for _ in 0..7 {
            out.extend(self.left.pop());
        }
        self.told = self.names.len();
        Ok(())
    }

    fn volumes(&self) -> &[String] {
        &self.names[..self.told]
    }
}

fn all_of(reader: &mut Reader) -> Result<Vec<TraceRequest>, ErrorKind> {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while reader.next_batch(&mut batch).map_err(|error| error.kind())? > 0 {
        all.extend_from_slice(&batch);
    }
    Ok(all)
}

fn given(all: &[TraceRequest], names: &[&str]) -> Reader {
    Reader::given(Box::new(Few::new(all, names)), "frame", Recorded::TIMES)
}

fn three_volumes() -> Vec<TraceRequest> {
    let numbered = requests(100).into_iter().zip(0..);
    numbered.map(|(request, at)| TraceRequest { volume: at % 3, ..request }).collect()
}

#[test]
fn given_requests_are_read_as_those_of_a_file() {
    let all = three_volumes();
    let names: Vec<_> = NAMES.iter().map(|name| (*name).to_owned()).collect();
    let mut file = open(lode(&names, &all), "x.lode", OnError::Stop).expect("the format");
    let mut memory = given(&all, &NAMES);
    assert_eq!(all_of(&mut memory), all_of(&mut file));
    assert_eq!(memory.volumes(), file.volumes());
    assert_eq!(memory.backwards(), file.backwards());
    assert_eq!((memory.stem(), memory.format(), memory.has_times()), ("frame", "memory", true));
    assert_eq!(all_of(&mut given(&[], &[])), Ok(Vec::new()));
}

#[test]
fn what_no_file_may_have_is_refused() {
    let all = three_volumes();
    let empty = TraceRequest { length_bytes: 0, ..all[0] };
    let beyond = TraceRequest { offset_bytes: u64::MAX, ..all[0] };
    for (bad, names, kind) in [
        (empty, &NAMES[..], ErrorKind::ZeroLength),
        (beyond, &NAMES[..], ErrorKind::OutOfRange),
        (TraceRequest { volume: 3, ..all[0] }, &NAMES[..], ErrorKind::Malformed),
        (all[0], &["a", "a", "c"][..], ErrorKind::VolumeName),
        (all[0], &["", "b", "c"][..], ErrorKind::VolumeName),
    ] {
        assert_eq!(all_of(&mut given(&[all[0], bad], names)), Err(kind));
        let mut batch = Vec::new();
        let merged =
            Merge::new(vec![given(&[all[0], bad], names)], MergeOptions::default()).and_then(|mut merge| {
                while merge.next_batch(&mut batch)? > 0 {}
                Ok(())
            });
        assert_eq!(merged.map_err(|error| error.kind()), Err(kind));
    }
}

#[test]
fn a_merge_stops_when_it_is_told_to() {
    let all: Vec<_> = (0..3).flat_map(|_| requests(4096)).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let readers = vec![given(&all, &NAMES)];
    let merge = Merge::new(readers, MergeOptions::default()).expect("good requests");
    let (mut merge, mut batch) = (merge.stopped_by(Arc::clone(&stop)), Vec::new());
    assert!(merge.next_batch(&mut batch).expect("nobody has stopped it") > 0);
    stop.store(true, Ordering::Relaxed);
    assert_eq!(merge.next_batch(&mut batch).map_err(|error| error.kind()), Err(ErrorKind::Stopped));
}
