//! A profile from a trace: what is counted, and how it is written down. It must not know how requests come of it.
//!
//! The whole trace becomes one stream over one volume, its own volumes side by side.

use hashbrown::HashMap;
use lode_reuse::{Distances, Metric};
use lode_trace::limits::MAX_DISTINCT_SIZES;
use lode_trace::{SYNTHETIC_PREFIX, vm_block};
use lode_types::{BlockSize, Direction, RequestOp, SECTOR_BYTES, TraceRequest, blocks_of};

use crate::check::{MAX_NAME_BYTES, MAX_PLACES, MAX_REQUEST_BYTES, refused};
use crate::error::{SynthError, SynthErrorKind};
use crate::profile::{After, Again, Arrival, Pattern, Phase, Profile, Reuse, Sizes, Stream};

/// Most blocks of 4 KiB in a trace that is fitted, about 70 bytes of memory each.
pub const MAX_FIT_BLOCKS: usize = 1 << 26;
/// Most request lengths that a profile names; the rarer ones are put together.
const MAX_SIZES: usize = 64;
/// Steps to each doubling of a distance; up to this distance each is counted for itself.
const STEPS: u64 = 4;
/// Runs that the footprint is divided into, unless they would be longer than
const RUNS: u64 = 64;
/// this, or shorter than a request.
const MOST_USUAL_RUN_BYTES: u64 = 16 << 20;
const BLOCK: BlockSize = BlockSize::KIB_4;
const NS_PER_US: f64 = 1e3;

/// Counts by distance or by time, in steps that grow with it: mean and number of what is in each.
#[derive(Clone, Debug, Default)]
struct Steps(Vec<(u64, f64)>);

impl Steps {
    fn add(&mut self, number: u64) {
        let step = step_of(number);
        if step >= self.0.len() {
            self.0.resize(step + 1, (0, 0.0));
        }
        let (count, sum) = &mut self.0[step];
        (*count, *sum) = (*count + 1, *sum + number as f64);
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|(count, _)| count).sum()
    }
}

/// Which step a number is in.
fn step_of(number: u64) -> usize {
    if number < STEPS {
        return number as usize;
    }
    let power = number.ilog2();
    let part = number >> (power - STEPS.ilog2()) & (STEPS - 1);
    (STEPS + u64::from(power - STEPS.ilog2()) * STEPS + part) as usize
}

/// The first number after a step.
fn end_of(step: usize) -> u64 {
    let step = step as u64;
    if step < STEPS {
        return step + 1;
    }
    let (power, part) = ((step - STEPS) / STEPS, (step - STEPS) % STEPS);
    (STEPS + part + 1) << power
}

/// What is counted of one operation.
#[derive(Clone, Debug, Default)]
struct OpCounts {
    requests: u64,
    lengths: HashMap<u32, u64>,
    /// Blocks whose first touch it was.
    new: u64,
    /// Distances of touches again, after reads and after writes.
    again: [Steps; 2],
}

/// Gathers a profile batch by batch.
#[derive(Debug)]
pub struct Fitter {
    distances: Distances,
    /// For each block, whether its latest touch wrote it.
    written: HashMap<u64, bool>,
    ops: [OpCounts; 2],
    aligned: u64,
    /// Requests that start where their volume's last one ended, and the requests from that one on.
    sequential: u64,
    sequential_lag: u64,
    /// Where each volume's last request ended, and its number in the trace.
    latest: HashMap<u32, (u64, u64)>,
    /// Requests that do what the last one did.
    repeats: u64,
    last_op: Option<RequestOp>,
    gaps: Steps,
    last_ns: Option<u64>,
    /// Trims and flushes.
    others: u64,
}

impl Default for Fitter {
    fn default() -> Fitter {
        Fitter {
            distances: Distances::new(Metric::Trd),
            written: HashMap::new(),
            ops: Default::default(),
            aligned: 0,
            sequential: 0,
            sequential_lag: 0,
            latest: HashMap::new(),
            repeats: 0,
            last_op: None,
            gaps: Steps::default(),
            last_ns: None,
            others: 0,
        }
    }
}

impl Fitter {
    /// Adds requests in their order; `name` stands for the trace in messages.
    ///
    /// # Errors
    /// [`SynthErrorKind::Limit`] for more than [`MAX_FIT_BLOCKS`] different blocks or [`MAX_DISTINCT_SIZES`] lengths, more
    /// volumes than [`lode_trace::limits::MAX_VM_VOLUMES`] or blocks beyond [`lode_trace::limits::MAX_VM_BLOCKS`], and
    /// [`SynthErrorKind::OutOfRange`] for a request longer than a profile's may be.
    pub fn add(&mut self, name: &str, requests: &[TraceRequest]) -> Result<(), SynthError> {
        for request in requests {
            match request.op {
                RequestOp::Read | RequestOp::Write => self.add_request(name, request)?,
                RequestOp::Trim | RequestOp::Flush => self.others += 1,
            }
        }
        Ok(())
    }

    fn add_request(&mut self, name: &str, request: &TraceRequest) -> Result<(), SynthError> {
        if request.length_bytes > MAX_REQUEST_BYTES {
            let message = format!(
                "A request has {} bytes, but a profile's may have {MAX_REQUEST_BYTES}; leave it out of the trace",
                request.length_bytes
            );
            return Err(SynthError::new(SynthErrorKind::OutOfRange, name.as_ref(), message));
        }
        if let Some(last_ns) = self.last_ns {
            self.gaps.add(request.time_ns.saturating_sub(last_ns));
        }
        self.last_ns = Some(request.time_ns.max(self.last_ns.unwrap_or(0)));
        let end = request.offset_bytes.saturating_add(request.length_bytes.into());
        let number: u64 = self.ops.iter().map(|counts| counts.requests).sum();
        if let Some((at, before)) = self.latest.insert(request.volume, (end, number))
            && at == request.offset_bytes
        {
            (self.sequential, self.sequential_lag) =
                (self.sequential + 1, self.sequential_lag + number - before);
        }
        self.repeats += u64::from(self.last_op.replace(request.op) == Some(request.op));
        self.aligned += u64::from(request.offset_bytes.is_multiple_of(BLOCK.bytes()));
        let counts = &mut self.ops[request.op as usize];
        counts.requests += 1;
        // A disk's requests are whole sectors, also where a trace counts bytes.
        let length_bytes = request.length_bytes.next_multiple_of(SECTOR_BYTES as u32);
        *counts.lengths.entry(length_bytes).or_default() += 1;
        if counts.lengths.len() > MAX_DISTINCT_SIZES {
            let message =
                format!("More than {MAX_DISTINCT_SIZES} different request lengths; fit a part of the trace");
            return Err(SynthError::new(SynthErrorKind::Limit, name.as_ref(), message));
        }
        for part in blocks_of(BLOCK, request.offset_bytes, request.length_bytes.into()) {
            let limit = |what: &str| {
                let message = format!("{what}; fit one volume or a part of the trace");
                SynthError::new(SynthErrorKind::Limit, name.as_ref(), message)
            };
            let block = vm_block(request.volume, part.block)
                .ok_or_else(|| limit("Too many volumes or too large offsets for one profile"))?;
            self.touch(request.op, block).map_err(|what| limit(&what))?;
        }
        Ok(())
    }

    fn touch(&mut self, op: RequestOp, block: u64) -> Result<(), String> {
        let access = if op == RequestOp::Read { Direction::Read } else { Direction::Write };
        let reuse = self.distances.access(access, block).map_err(|error| error.to_string())?;
        let written = self.written.insert(block, op == RequestOp::Write);
        let counts = &mut self.ops[op as usize];
        match (reuse, written) {
            (Some(reuse), Some(written)) => counts.again[usize::from(written)].add(reuse.distance.into()),
            _ => counts.new += 1,
        }
        let blocks = self.written.len();
        if blocks > MAX_FIT_BLOCKS {
            return Err(format!("More than {MAX_FIT_BLOCKS} different blocks of 4 KiB"));
        }
        Ok(())
    }

    /// The profile, with a name made of `name`, and the seed 0.
    ///
    /// # Errors
    /// [`SynthErrorKind::Profile`] when there were no reads or writes.
    pub fn finish(&self, name: &str) -> Result<Profile, SynthError> {
        let [reads, writes] = &self.ops;
        let requests = reads.requests + writes.requests;
        if requests == 0 {
            return Err(refused(
                name,
                "No reads or writes to fit a profile to; give a trace with some".to_owned(),
            ));
        }
        let share = |part: u64| rounded(part as f64 / requests as f64);
        let sizes = Sizes {
            read: sizes(&reads.lengths),
            write: sizes(&writes.lengths),
            aligned_share: share(self.aligned),
            alignment_bytes: lode_types::SECTOR_BYTES,
        };
        let longest = sizes.read.iter().chain(&sizes.write).map(|&(bytes, _)| u64::from(bytes)).max();
        let least_run_bytes = longest.unwrap_or(0) + BLOCK.bytes();
        let blocks = (reads.new + writes.new).max(least_run_bytes / BLOCK.bytes() + 1);
        let usual_run_bytes = (blocks * BLOCK.bytes() / RUNS).min(MOST_USUAL_RUN_BYTES);
        let again = |counts: &OpCounts| again(counts, blocks);
        let reuse = Reuse {
            run_bytes: least_run_bytes.max(usual_run_bytes).next_power_of_two(),
            new_by_reads_share: rounded(reads.new as f64 / (reads.new + writes.new) as f64),
            read: again(reads),
            write: again(writes),
        };
        let places =
            (self.sequential_lag as f64 / self.sequential.max(1) as f64).clamp(1.0, MAX_PLACES.into());
        let stream = Stream {
            sequential_share: share(self.sequential),
            places: libm::round(places) as u32,
            repeat_share: self.repeat_share(requests),
            ..Stream::new(Pattern::Reuse(reuse))
        };
        let profile = Profile {
            name: profile_name(name),
            about: format!("Fitted to the trace {name:?}"),
            published: Vec::new(),
            assumed: self.assumed(),
            seed: 0,
            requests,
            footprint_bytes: blocks * BLOCK.bytes(),
            block_bytes: BLOCK.bytes(),
            read_share: reads.requests as f64 / requests as f64,
            sizes,
            arrival: Arrival::Gaps { gaps_us: self.gaps_us() },
            phase: vec![Phase { share: 1.0, stream: vec![stream] }],
        };
        profile.check()?;
        Ok(profile)
    }

    /// By how much more than by chance requests do what the last one did.
    fn repeat_share(&self, requests: u64) -> f64 {
        let share = |part: u64| part as f64 / requests as f64;
        let by_chance =
            self.ops.iter().map(|counts| share(counts.requests) * share(counts.requests)).sum::<f64>();
        if by_chance >= 1.0 {
            return 0.0;
        }
        rounded(((share(self.repeats) - by_chance) / (1.0 - by_chance)).clamp(0.0, 1.0))
    }

    /// What the profile does not say of the trace.
    fn assumed(&self) -> Vec<String> {
        let mut assumed = vec![
            "One phase: changes over time are not kept; nor are positions beyond runs of neighbours"
                .to_owned(),
        ];
        if self.latest.len() > 1 {
            assumed.push(format!("{} volumes were fitted as one", self.latest.len()));
        }
        if self.others > 0 {
            assumed.push(format!("{} trims and flushes were left out", self.others));
        }
        assumed
    }

    fn gaps_us(&self) -> Vec<(f64, f64)> {
        let steps = self.gaps.0.iter().filter(|(count, _)| *count > 0);
        let mut gaps: Vec<_> =
            steps.map(|&(count, sum)| (rounded(sum / count as f64 / NS_PER_US), count as f64)).collect();
        if gaps.is_empty() {
            // A trace of one request has no gap.
            gaps.push((0.0, 1.0));
        }
        gaps
    }
}

/// Touches again of one operation. One that never touched a block again gets the least likely distance, so that the
/// profile says something should it be made longer.
fn again(counts: &OpCounts, blocks: u64) -> Vec<Again> {
    let whole: u64 = counts.again.iter().map(Steps::count).sum();
    if counts.requests == 0 {
        return Vec::new();
    }
    if whole == 0 {
        return vec![Again { after: None, share: 1.0, distances: vec![(blocks, 1.0)] }];
    }
    let mut list = Vec::new();
    for (steps, after) in counts.again.iter().zip([After::Read, After::Write]) {
        let distances: Vec<_> = with_gaps_closed(steps);
        if !distances.is_empty() {
            let share = steps.count() as f64 / whole as f64;
            list.push(Again { after: Some(after), share, distances });
        }
    }
    list
}

/// Ends and counts of the steps that have any; an empty one stands before a step whose neighbour is empty, so that the
/// step does not stretch over it.
fn with_gaps_closed(steps: &Steps) -> Vec<(u64, f64)> {
    let mut list = Vec::new();
    let mut was_empty = false;
    for (step, &(count, _)) in steps.0.iter().enumerate() {
        if count > 0 {
            if was_empty {
                list.push((end_of(step - 1), 0.0));
            }
            list.push((end_of(step), count as f64));
        }
        was_empty = count == 0;
    }
    list
}

/// Lengths in whole sectors and counts, the rarest put together with those of nearly the same length.
fn sizes(lengths: &HashMap<u32, u64>) -> Vec<(u32, f64)> {
    let mut all: Vec<_> = lengths.iter().map(|(&bytes, &count)| (bytes, count)).collect();
    all.sort_unstable_by_key(|&(bytes, count)| (std::cmp::Reverse(count), bytes));
    let rare = all.split_off(all.len().min(MAX_SIZES));
    let mut steps: Vec<(u64, f64)> = Vec::new();
    for (bytes, count) in rare {
        let step = step_of(bytes.into());
        if step >= steps.len() {
            steps.resize(step + 1, (0, 0.0));
        }
        steps[step] = (steps[step].0 + count, steps[step].1 + f64::from(bytes) * count as f64);
    }
    let steps = steps.into_iter().filter(|(count, _)| *count > 0);
    let mean = |(count, sum): (u64, f64)| {
        let sectors = libm::round(sum / count as f64 / SECTOR_BYTES as f64);
        (sectors as u32 * SECTOR_BYTES as u32, count as f64)
    };
    let mut list: Vec<_> =
        all.into_iter().map(|(bytes, count)| (bytes, count as f64)).chain(steps.map(mean)).collect();
    list.sort_unstable_by_key(|&(bytes, _)| bytes);
    list.dedup_by(|next, kept| {
        let is_same = next.0 == kept.0;
        kept.1 += if is_same { next.1 } else { 0.0 };
        is_same
    });
    list
}

/// Seven digits, which are enough for a share and short enough to read.
fn rounded(number: f64) -> f64 {
    format!("{number:.6e}").parse().unwrap_or(number)
}

/// A profile's name from a trace's.
fn profile_name(name: &str) -> String {
    let name = name.strip_prefix(SYNTHETIC_PREFIX).unwrap_or(name).to_ascii_lowercase();
    let good =
        |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() || "_-.".contains(c) { c } else { '-' };
    let name: String = name.chars().map(good).take(MAX_NAME_BYTES).collect();
    if name.is_empty() { "trace".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_follow_each_other() {
        let mut from = 0;
        for step in 0..200 {
            assert_eq!(step_of(from), step);
            let end = end_of(step);
            assert_eq!(step_of(end - 1), step);
            assert!(end > from);
            from = end;
        }
        assert!(step_of(u64::MAX) < 300);
    }

    #[test]
    fn names_are_made_good() {
        for (name, expected) in
            [("hm_0", "hm_0"), ("synthetic:Web 1", "web-1"), ("", "trace"), ("ä.b", "-.b")]
        {
            assert_eq!(profile_name(name), expected);
        }
    }
}
