//! Choosing requests by time, volume and operation. It must not know formats.

use std::fmt;
use std::str::FromStr;

use lode_types::{RequestOp, TraceRequest};

use super::moment::Moment;
use super::naming::Naming;
use crate::error::TraceError;
use crate::merge::Merge;

/// A volume's name, or a pattern for names: `*` stands for any characters, `?` for one, `[a-f]` for one of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumePattern(glob::Pattern);

impl FromStr for VolumePattern {
    type Err = String;

    fn from_str(text: &str) -> Result<VolumePattern, String> {
        let pattern = glob::Pattern::new(text);
        pattern.map(VolumePattern).map_err(|error| {
            format!(
                "'{text}' is not a pattern: {} at character {}; write [*], [?] or [[] for the character itself",
                error.msg, error.pos
            )
        })
    }
}

impl fmt::Display for VolumePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

/// What passes a filter. Everything does by default.
#[derive(Clone, Debug, Default)]
pub struct FilterOptions {
    /// Requests at this time or later.
    pub from: Option<Moment>,
    /// Requests before this time.
    pub until: Option<Moment>,
    /// Requests to a volume whose name any of these matches; all volumes when there is none.
    pub volumes: Vec<VolumePattern>,
    /// Requests that are one of these; all when there is none.
    pub ops: Vec<RequestOp>,
}

/// What a filter did with the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterFacts {
    /// Passed.
    pub kept: u64,
    /// Left out because of their volume.
    pub other_volumes: u64,
    /// To a volume that passes, and left out because of their operation.
    pub other_ops: u64,
    /// Left out because of their time only.
    pub other_times: u64,
    /// Time of the first request read, from which on times since the start count; `None` before it.
    pub start_ns: Option<u64>,
}

/// A filter at work on merged traces. Volumes of one name in several traces become one volume of the output; its
/// volumes are those that a request names, in order of appearance.
#[derive(Debug)]
pub struct Filter {
    options: FilterOptions,
    /// Allowed times on the clock, from the first (included) to the second (not included).
    range_ns: (u128, u128),
    /// By operation code.
    ops: [bool; 4],
    /// Whether each VM's volume passes, for those met.
    passes: Vec<bool>,
    /// Whether each pattern matched a volume.
    matched: Vec<bool>,
    volumes: Naming,
    facts: FilterFacts,
}

impl Filter {
    /// A filter before its first request.
    pub fn new(options: FilterOptions) -> Filter {
        let ops = [RequestOp::Read, RequestOp::Write, RequestOp::Trim, RequestOp::Flush]
            .map(|op| options.ops.is_empty() || options.ops.contains(&op));
        Filter {
            range_ns: (0, u128::MAX),
            ops,
            passes: Vec::new(),
            matched: vec![false; options.volumes.len()],
            volumes: Naming::default(),
            facts: FilterFacts::default(),
            options,
        }
    }

    /// Replaces `out` by what passes of `batch`, which `merge` gave just now. The merge is one by volume.
    ///
    /// # Errors
    /// [`crate::ErrorKind::TooManyVolumes`].
    pub fn pass(
        &mut self,
        merge: &Merge,
        batch: &[(u32, TraceRequest)],
        out: &mut Vec<TraceRequest>,
    ) -> Result<(), TraceError> {
        out.clear();
        if self.facts.start_ns.is_none()
            && let Some((_, first)) = batch.first()
        {
            self.start(first.time_ns);
        }
        for vm in self.passes.len()..merge.vms().len() {
            let passes = self.matches(&volume_name(merge, vm));
            self.passes.push(passes);
        }
        for &(vm, request) in batch {
            let time_ns = u128::from(request.time_ns);
            if !self.passes[vm as usize] {
                self.facts.other_volumes += 1;
            } else if !self.ops[request.op as usize] {
                self.facts.other_ops += 1;
            } else if time_ns < self.range_ns.0 || time_ns >= self.range_ns.1 {
                self.facts.other_times += 1;
            } else {
                self.facts.kept += 1;
                let volume = self.number(merge, vm)?;
                out.push(TraceRequest { volume, ..request });
            }
        }
        Ok(())
    }

    fn start(&mut self, start_ns: u64) {
        self.facts.start_ns = Some(start_ns);
        let on_clock_ns = |moment: Moment| moment.on_clock_ns(start_ns);
        self.range_ns =
            (self.options.from.map_or(0, on_clock_ns), self.options.until.map_or(u128::MAX, on_clock_ns));
    }

    /// Whether a volume of this name passes. Every pattern is tried, to know which of them never match.
    fn matches(&mut self, name: &str) -> bool {
        let mut any = self.options.volumes.is_empty();
        for (pattern, matched) in self.options.volumes.iter().zip(&mut self.matched) {
            let matches = pattern.0.matches(name);
            (*matched, any) = (*matched | matches, any | matches);
        }
        any
    }

    fn number(&mut self, merge: &Merge, vm: u32) -> Result<u32, TraceError> {
        let input = merge.vms()[vm as usize].input;
        let path = merge.readers().nth(input).map_or(std::path::Path::new(""), |reader| reader.path());
        self.volumes.number(input, vm, || volume_name(merge, vm as usize), path)
    }

    /// Names of the volumes of what passed so far.
    pub fn volumes(&self) -> &[String] {
        self.volumes.names()
    }

    /// Names of the volumes that are one volume of the output and came from several traces.
    pub fn shared_volumes(&self) -> impl Iterator<Item = &str> {
        self.volumes.shared()
    }

    /// The patterns that matched no volume so far.
    pub fn unmatched(&self) -> impl Iterator<Item = &VolumePattern> {
        self.options
            .volumes
            .iter()
            .zip(&self.matched)
            .filter(|(_, matched)| !**matched)
            .map(|(pattern, _)| pattern)
    }

    /// What was done so far.
    pub fn facts(&self) -> FilterFacts {
        self.facts
    }
}

/// The name of a VM's volume in its own trace.
fn volume_name(merge: &Merge, vm: usize) -> String {
    let vm = &merge.vms()[vm];
    let volumes = merge.readers().nth(vm.input).map(|reader| reader.volumes()).unwrap_or_default();
    let name = vm.volume.and_then(|volume| volumes.get(volume as usize));
    name.unwrap_or(&vm.name).clone()
}
