//! A profile's requests, one after the other. It must not know where they go.

use lode_trace::SYNTHETIC_PREFIX;
use lode_types::{Origin, RequestOp, Rng, TraceRequest};

use crate::alias::Alias;
use crate::area::Area;
use crate::arrival::Clock;
use crate::check::refused;
use crate::error::SynthError;
use crate::plain::PlainStream;
use crate::profile::{Pattern, Phase, Profile, Sizes, Stream};
use crate::quota::Quota;
use crate::reuse::ReuseStream;

/// Parts of a seed: one for each thing that chance decides, and streams from the last on.
const ARRIVALS: u64 = 0;
const PHASES: u64 = 1;
const STREAMS: u64 = 2;

/// Makes the requests of a profile, without end: after the profile's number of requests its phases begin again, with
/// the blocks known. The same profile and seed give the same requests on every machine.
///
/// Memory is what the streams with the reuse pattern need, about 30 bytes a block of their range, and some tables.
#[derive(Clone, Debug)]
pub struct Generator {
    name: String,
    requests: u64,
    phases: Vec<PhaseState>,
    /// The phase that is on, and how many of its requests are to come.
    now: usize,
    left: u64,
    clock: Clock,
    arrivals: Rng,
    choices: Rng,
    time_ns: u64,
    /// The part of a nanosecond that is not in `time_ns` yet.
    rest_ns: f64,
}

#[derive(Clone, Debug)]
struct PhaseState {
    requests: u64,
    streams: Quota,
    states: Vec<StreamState>,
}

#[derive(Clone, Debug)]
struct StreamState {
    rng: Rng,
    ops: Quota,
    lengths: [Option<Lengths>; 2],
    sequential_share: f64,
    after_write_share: f64,
    repeat_share: f64,
    last_op: Option<RequestOp>,
    /// What the last request in each place did.
    last_ops: Vec<Option<RequestOp>>,
    target: Target,
}

#[derive(Clone, Debug)]
enum Target {
    Plain(PlainStream),
    Reuse(Box<ReuseStream>),
}

/// Draws lengths of one operation.
#[derive(Clone, Debug)]
struct Lengths {
    alias: Alias,
    bytes: Vec<u32>,
}

impl Lengths {
    fn new(list: &[(u32, f64)]) -> Option<Lengths> {
        let weights: Vec<_> = list.iter().map(|&(_, weight)| weight).collect();
        let bytes = list.iter().map(|&(bytes, _)| bytes).collect();
        (!list.is_empty()).then(|| Lengths { alias: Alias::new(&weights), bytes })
    }

    #[inline]
    fn draw(&self, rng: &mut Rng) -> u32 {
        if let [only] = self.bytes[..] { only } else { self.bytes[self.alias.draw(rng)] }
    }
}

impl Generator {
    /// Starts the profile with its own seed.
    ///
    /// # Errors
    /// [`SynthErrorKind::Profile`](crate::SynthErrorKind::Profile) when the profile [does not check](Profile::check), or its requests are too few to
    /// touch its footprint.
    pub fn new(profile: &Profile) -> Result<Generator, SynthError> {
        profile.check()?;
        let shares: Vec<_> = profile.phase.iter().map(|phase| phase.share).collect();
        let requests = Quota::of(profile.requests, &shares);
        let mut phases = Vec::new();
        let mut part = STREAMS;
        for (at, phase) in profile.phase.iter().enumerate() {
            let state = phase_state(profile, phase, requests.whole(at), part).map_err(|fault| {
                refused(&profile.name, format!("Profile {:?}: phase {}, {fault}", profile.name, at + 1))
            })?;
            part += phase.stream.len() as u64;
            phases.push(state);
        }
        let left = phases.first().map_or(0, |phase| phase.requests);
        Ok(Generator {
            name: format!("{SYNTHETIC_PREFIX}{}", profile.name),
            requests: profile.requests,
            phases,
            now: 0,
            left,
            clock: Clock::new(&profile.arrival),
            arrivals: Rng::part(profile.seed, ARRIVALS),
            choices: Rng::part(profile.seed, PHASES),
            time_ns: 0,
            rest_ns: 0.0,
        })
    }

    /// The only volume's name, which says that the trace is synthetic.
    pub fn volume(&self) -> &str {
        &self.name
    }

    /// The profile's number of requests.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Replaces `out` by the next `count` requests.
    pub fn next_batch(&mut self, out: &mut Vec<TraceRequest>, count: usize) {
        out.clear();
        out.extend((0..count).map(|_| self.make()));
    }

    #[inline]
    fn make(&mut self) -> TraceRequest {
        while self.left == 0 {
            self.now = (self.now + 1) % self.phases.len();
            self.left = self.phases[self.now].requests;
        }
        self.left -= 1;
        let phase = &mut self.phases[self.now];
        let stream = phase.streams.draw(&mut self.choices);
        let (op, offset_bytes, length_bytes) = phase.states[stream].make();
        let time_ns = self.time_ns;
        self.rest_ns += self.clock.gap_ns(&mut self.arrivals);
        // Gaps are finite and not negative; a time beyond 2^64 ns stays there.
        let whole_ns = self.rest_ns as u64;
        self.rest_ns -= whole_ns as f64;
        self.time_ns = self.time_ns.saturating_add(whole_ns);
        TraceRequest { time_ns, offset_bytes, length_bytes, volume: 0, op, origin: Origin::UNKNOWN }
    }
}

impl Iterator for Generator {
    type Item = TraceRequest;

    #[inline]
    fn next(&mut self) -> Option<TraceRequest> {
        Some(self.make())
    }
}

fn phase_state(profile: &Profile, phase: &Phase, requests: u64, part: u64) -> Result<PhaseState, String> {
    let weights: Vec<_> = phase.stream.iter().map(|stream| stream.weight).collect();
    let streams = Quota::of(requests, &weights);
    let mut states = Vec::new();
    for (at, stream) in phase.stream.iter().enumerate() {
        let rng = Rng::part(profile.seed, part + at as u64);
        let state = stream_state(profile, stream, streams.whole(at), rng);
        states.push(state.map_err(|fault| format!("stream {}: {fault}", at + 1))?);
    }
    Ok(PhaseState { requests, streams, states })
}

fn stream_state(profile: &Profile, stream: &Stream, requests: u64, rng: Rng) -> Result<StreamState, String> {
    let read_share = stream.read_share.unwrap_or(profile.read_share);
    let ops = Quota::of(requests, &[read_share, 1.0 - read_share]);
    let (first, blocks) = profile.blocks_of(stream);
    let area = Area::new(first * profile.block_bytes, profile.block_bytes, &profile.sizes);
    let target = match &stream.pattern {
        Pattern::Reuse(reuse) => {
            let requests = [ops.whole(0), ops.whole(1)];
            for (at, share) in
                [reuse.new_by_reads_share, 1.0 - reuse.new_by_reads_share].into_iter().enumerate()
            {
                let most = most_blocks(&profile.sizes, at, profile.block_bytes) * requests[at] as f64;
                let wanted = blocks as f64 * share;
                // A range holds the longest request and a block, even if there is only a short one.
                let least = (profile.longest_bytes() / profile.block_bytes + 2) as f64;
                if wanted > most + least {
                    return Err(format!(
                        "{} are too few to touch {wanted:.0} new blocks; make footprint_bytes smaller, or requests or \
                         sizes larger",
                        ["reads", "writes"][at]
                    ));
                }
            }
            Target::Reuse(Box::new(ReuseStream::new(reuse, area, blocks, requests, stream.places)))
        }
        pattern => match PlainStream::new(pattern, area, blocks, stream.places) {
            Some(plain) => Target::Plain(plain),
            None => return Err("pattern is none of those without a memory; please report this".to_owned()),
        },
    };
    Ok(StreamState {
        rng,
        ops,
        lengths: [Lengths::new(&profile.sizes.read), Lengths::new(&profile.sizes.write)],
        sequential_share: stream.sequential_share,
        after_write_share: stream.read_after_write_share,
        repeat_share: stream.repeat_share,
        last_op: None,
        last_ops: vec![None; stream.places as usize],
        target,
    })
}

/// Blocks that a request of the operation (0 read, 1 write) touches, at most in the mean.
fn most_blocks(sizes: &Sizes, op: usize, block_bytes: u64) -> f64 {
    let list = if op == 0 { &sizes.read } else { &sizes.write };
    let sum: f64 = list.iter().map(|&(_, weight)| weight).sum();
    let blocks = |bytes: u32| 1.0 + f64::from(bytes) / block_bytes as f64;
    if sum > 0.0 { list.iter().map(|&(bytes, weight)| weight / sum * blocks(bytes)).sum() } else { 0.0 }
}

impl StreamState {
    /// Operation, offset and length of the next request.
    #[inline]
    fn make(&mut self) -> (RequestOp, u64, u32) {
        let places = self.last_ops.len() as u64;
        let at = if places == 1 { 0 } else { self.rng.below(places) as usize };
        let goes_on = self.sequential_share > 0.0 && self.rng.unit() < self.sequential_share;
        // What goes on where a request ended does the same.
        let same = if goes_on {
            self.last_ops[at]
        } else if self.repeat_share > 0.0 && self.rng.unit() < self.repeat_share {
            self.last_op
        } else {
            None
        };
        let same = same.filter(|&op| self.ops.take(op as usize));
        let drawn = || if self.ops.draw(&mut self.rng) == 0 { RequestOp::Read } else { RequestOp::Write };
        let op = same.unwrap_or_else(drawn);
        (self.last_op, self.last_ops[at]) = (Some(op), Some(op));
        // A checked profile has lengths for every operation that there is.
        let bytes = self.lengths[op as usize].as_ref().map_or(1, |lengths| lengths.draw(&mut self.rng));
        let writes = op == RequestOp::Write;
        let follows = same.filter(|_| goes_on).and_then(|_| match &mut self.target {
            Target::Plain(plain) => plain.follow(at, writes, bytes),
            Target::Reuse(reuse) => reuse.follow(at, writes, bytes),
        });
        let offset_bytes = follows.unwrap_or_else(|| match &mut self.target {
            Target::Plain(plain) => plain.choose(at, writes, bytes, self.after_write_share, &mut self.rng),
            Target::Reuse(reuse) => reuse.choose(at, writes, bytes, &mut self.rng),
        });
        (op, offset_bytes, bytes)
    }
}
