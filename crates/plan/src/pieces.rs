//! One VM's stream on several threads: cut by time into pieces that are scanned at the same time and joined in their
//! order (PARDA; see [`lode_reuse::parallel`]).
//!
//! Work comes in rounds. While threads scan the pieces of one round, one of them joins those of the round before, and the
//! reader cuts the next. Where pieces end does not change what is found. It must not know what curves are for.

use std::sync::{Mutex, PoisonError};

use lode_reuse::parallel::{ChunkScan, join};
use lode_reuse::{CurveKind, ReuseError};
use lode_trace::Merge;
use lode_types::{RequestOp, TraceRequest};

use crate::error::PlanError;
use crate::jobs::{at_once, in_parallel};
use crate::look_ahead::{distinct_blocks, least_bytes};
use crate::pool::BlockAccess;
use crate::streams::{StreamFacts, StreamOptions, access_op, accesses_of};

/// Accesses of a piece: so many that joining its distinct blocks is little beside scanning it.
const PIECE: usize = 1 << 22;

/// Scans all of `merge`, VM by VM. `progress` hears of every batch.
pub(crate) fn scan_pieces(
    merge: &mut Merge,
    options: &StreamOptions,
    kind: CurveKind,
    progress: &mut dyn FnMut(&Merge),
) -> Result<Vec<(StreamFacts, ChunkScan)>, PlanError> {
    scan_in_pieces_of(PIECE, merge, options, kind, progress)
}

fn scan_in_pieces_of(
    piece: usize,
    merge: &mut Merge,
    options: &StreamOptions,
    kind: CurveKind,
    progress: &mut dyn FnMut(&Merge),
) -> Result<Vec<(StreamFacts, ChunkScan)>, PlanError> {
    let mut cutter = Cutter { piece, options: *options, facts: Vec::new(), batch: Vec::new(), cut: 0 };
    let mut joined: Vec<Option<ChunkScan>> = Vec::new();
    let mut scanned: Vec<(usize, ChunkScan)> = Vec::new();
    let mut pieces = cutter.next_round(merge, progress)?;
    while !pieces.is_empty() || !scanned.is_empty() {
        let joining = Mutex::new((std::mem::take(&mut joined), std::mem::take(&mut scanned)));
        let scans = pieces.iter().map(|(vm, accesses)| Job::Scan(*vm, accesses));
        let jobs: Vec<Job<'_>> = std::iter::once(Job::Join(joining)).chain(scans).collect();
        let (done, next) = at_once(
            || in_parallel(&jobs, options.threads, |job| job.run(kind)),
            || cutter.next_round(merge, progress),
        );
        for done in done.map_err(|(vm, source)| PlanError::Vm { vm: merge.vms()[vm].name.clone(), source })? {
            match done {
                Done::Joined(scans) => joined = scans,
                Done::Scanned(vm, scan) => scanned.push((vm, *scan)),
            }
        }
        let next = next?;
        check_memory(&joined, &scanned, &[&pieces, &next], options.memory_bytes)?;
        pieces = next;
    }
    cutter.facts.iter_mut().zip(merge.vms()).for_each(|(facts, vm)| facts.name.clone_from(&vm.name));
    joined.resize_with(cutter.facts.len(), || None);
    let scan = |scan: Option<ChunkScan>| scan.map_or_else(|| ChunkScan::new(kind), Ok);
    let vms = cutter.facts.into_iter().zip(joined);
    vms.map(|(facts, joined)| Ok((facts, scan(joined)?))).collect()
}

fn check_memory(
    joined: &[Option<ChunkScan>],
    scanned: &[(usize, ChunkScan)],
    rounds: &[&Vec<Piece>],
    limit_bytes: u64,
) -> Result<(), PlanError> {
    let scans = joined.iter().flatten().chain(scanned.iter().map(|(_, scan)| scan));
    let scans: u64 = scans.map(|scan| scan.memory_bytes() as u64).sum();
    let pieces = rounds.iter().flat_map(|pieces| pieces.iter());
    let buffers: u64 = pieces.map(|(_, piece)| (piece.capacity() * size_of::<BlockAccess>()) as u64).sum();
    let used_bytes = scans + buffers;
    if used_bytes > limit_bytes {
        return Err(PlanError::Memory { vms: joined.len(), used_bytes, limit_bytes });
    }
    Ok(())
}

/// The number of a VM, and some of its accesses.
type Piece = (usize, Vec<BlockAccess>);

/// Cuts streams into pieces.
struct Cutter {
    /// Accesses of a piece.
    piece: usize,
    options: StreamOptions,
    facts: Vec<StreamFacts>,
    /// Requests that were read, and how many of them were cut. A round may end between any two: they may be huge.
    batch: Vec<(u32, TraceRequest)>,
    cut: usize,
}

impl Cutter {
    /// Pieces in the order of time for each VM; none at the end.
    fn next_round(
        &mut self,
        merge: &mut Merge,
        progress: &mut dyn FnMut(&Merge),
    ) -> Result<Vec<Piece>, PlanError> {
        let most = self.piece * self.options.threads.max(1);
        let mut pieces: Vec<Piece> = Vec::new();
        // The piece of each VM that still grows.
        let mut open: Vec<Option<usize>> = Vec::new();
        let mut accesses = 0;
        while accesses < most {
            if self.cut == self.batch.len() {
                self.cut = 0;
                if merge.next_batch(&mut self.batch)? == 0 {
                    break;
                }
                self.check_batch()?;
                progress(merge);
            }
            let (vm, request) = self.batch[self.cut];
            self.cut += 1;
            accesses += self.cut_request(vm as usize, &request, merge, &mut pieces, &mut open)?;
        }
        Ok(pieces)
    }

    /// Refuses at once what could not be followed in the end.
    fn check_batch(&self) -> Result<(), PlanError> {
        let distinct = distinct_blocks(&self.batch, self.options.block_size);
        let used_bytes = distinct.iter().map(|&blocks| least_bytes(blocks, 1.0)).sum();
        let limit_bytes = self.options.memory_bytes;
        if used_bytes > limit_bytes {
            return Err(PlanError::Memory { vms: distinct.len(), used_bytes, limit_bytes });
        }
        Ok(())
    }

    /// Adds the accesses of a request to the piece of its VM that is open; gives how many they are.
    fn cut_request(
        &mut self,
        vm: usize,
        request: &TraceRequest,
        merge: &Merge,
        pieces: &mut Vec<Piece>,
        open: &mut Vec<Option<usize>>,
    ) -> Result<usize, PlanError> {
        if vm >= self.facts.len() {
            self.facts.resize_with(vm + 1, || StreamFacts::new(0));
        }
        let Some(op) = access_op(request.op) else {
            self.facts[vm].trims += u64::from(request.op == RequestOp::Trim);
            return Ok(0);
        };
        self.facts[vm].add(request);
        open.resize(open.len().max(vm + 1), None);
        let name = || merge.vms()[vm].name.clone();
        let mut accesses = 0;
        for access in accesses_of(op, request, self.options.block_size, name)? {
            let at = *open[vm].get_or_insert_with(|| {
                pieces.push((vm, Vec::new()));
                pieces.len() - 1
            });
            let piece = &mut pieces[at].1;
            piece.push(access);
            accesses += 1;
            if piece.len() == self.piece {
                open[vm] = None;
            }
        }
        Ok(accesses)
    }
}

/// The scans of all VMs so far, and pieces to be joined to them in their order.
type Joining = (Vec<Option<ChunkScan>>, Vec<(usize, ChunkScan)>);

/// One thread's work.
enum Job<'a> {
    Join(Mutex<Joining>),
    Scan(usize, &'a [BlockAccess]),
}

/// What became of it.
enum Done {
    Joined(Vec<Option<ChunkScan>>),
    Scanned(usize, Box<ChunkScan>),
}

impl Job<'_> {
    /// Does it; the number of the VM comes with an error.
    fn run(&self, kind: CurveKind) -> Result<Done, (usize, ReuseError)> {
        match self {
            Job::Scan(vm, accesses) => {
                let scanned = ChunkScan::new(kind).and_then(|mut scan| {
                    scan.access_all(accesses)?;
                    Ok(scan)
                });
                scanned.map(|scan| Done::Scanned(*vm, Box::new(scan))).map_err(|error| (*vm, error))
            }
            Job::Join(joining) => {
                let (mut joined, scanned) =
                    std::mem::take(&mut *joining.lock().unwrap_or_else(PoisonError::into_inner));
                for (vm, scan) in scanned {
                    joined.resize_with(joined.len().max(vm + 1), || None);
                    joined[vm] = Some(match joined[vm].take() {
                        Some(left) => join(left, scan).map_err(|error| (vm, error))?,
                        None => scan,
                    });
                }
                Ok(Done::Joined(joined))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lode_reuse::{Method, Profiler};
    use lode_trace::{MergeOptions, ReadOptions, read_trace};
    use lode_types::{BlockSize, Direction};
    use std::fmt::Write;
    use std::io::Cursor;

    /// Two VMs, one of them with most requests.
    fn trace() -> (Merge, [Vec<BlockAccess>; 2]) {
        let (mut text, mut streams) = (String::new(), [Vec::new(), Vec::new()]);
        for time in 0..5000_u64 {
            let vm = usize::from(time % 7 == 6);
            let (op, name) =
                if time % 3 == 0 { (Direction::Write, "Write") } else { (Direction::Read, "Read") };
            let block = time * time % 613 % (40 + time / 50);
            writeln!(text, "{time},host,{vm},{name},{},4096,1", block * 4096).expect("memory");
            streams[vm].push((op, block));
        }
        let reader = read_trace(Cursor::new(text.into_bytes()), "small.csv", &ReadOptions::default());
        let merge = Merge::new(vec![reader.expect("a trace")], MergeOptions::default());
        (merge.expect("a merge"), streams)
    }

    #[test]
    fn pieces_of_any_length_give_the_curves_of_the_whole() {
        for (piece, threads) in [(1, 1), (7, 3), (100, 2), (1999, 4), (PIECE, 2)] {
            for kind in [CurveKind::Trd, CurveKind::Urd] {
                let (mut merge, streams) = trace();
                let options = StreamOptions {
                    block_size: BlockSize::KIB_4,
                    threads,
                    memory_bytes: 1 << 30,
                    interval: None,
                    on_sampling: |_| {},
                };
                let scanned =
                    scan_in_pieces_of(piece, &mut merge, &options, kind, &mut |_| {}).expect("scans");
                assert_eq!(scanned.len(), 2);
                for ((facts, scan), stream) in scanned.iter().zip(&streams) {
                    let mut whole = Profiler::new(kind, Method::Exact, 0).expect("in range");
                    whole.access_all(stream).expect("few blocks");
                    assert_eq!(scan.curve(), whole.curve(), "{} in pieces of {piece}", facts.name);
                    assert_eq!(facts.requests, stream.len() as u64);
                }
            }
        }
    }

    #[test]
    fn tables_beyond_the_memory_are_refused() {
        let scan = |piece, memory_bytes| {
            let (block_size, on_sampling) = (BlockSize::KIB_4, (|_| {}) as fn(_));
            let options = StreamOptions { block_size, threads: 2, memory_bytes, interval: None, on_sampling };
            scan_in_pieces_of(piece, &mut trace().0, &options, CurveKind::Trd, &mut |_| {})
        };
        assert!(matches!(scan(1000, 4096), Err(PlanError::Memory { .. })));
        // Small tables and large buffers: 5,000 accesses of 16 bytes.
        let tables: usize =
            scan(PIECE, 1 << 30).expect("scans").iter().map(|(_, scan)| scan.memory_bytes()).sum();
        assert!(tables < 60_000, "{tables}");
        assert!(matches!(scan(PIECE, 80_000), Err(PlanError::Memory { .. })));
        assert!(scan(100, 80_000).is_ok());
    }
}
