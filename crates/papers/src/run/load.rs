//! A workload in memory, and how much shorter than the whole it is. It must not know schemes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use lode_policy::Quota;
use lode_replay::Recording;
use lode_synth::{Generator, Pattern, Phase, Profile, Stream, builtin};
use lode_types::{BlockSize, Level};
use serde::Serialize;

use super::source::{Lane, Together};
use crate::error::PapersError;
use crate::job::{LevelSizes, Size};
use crate::workload::{Change, Length, Mix, Workload};

/// Blocks of all experiments.
pub const BLOCK: BlockSize = BlockSize::KIB_4;

/// How a VM's requests came about.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "from", rename_all = "kebab-case")]
pub enum Source {
    /// Made from a profile: synthetic.
    Profile {
        /// Its name.
        name: &'static str,
    },
    /// Read from the user's copy of the volume's trace: its first requests.
    Trace {
        /// The file.
        path: PathBuf,
    },
}

/// A workload as it was run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadedWorkload {
    /// What it is called.
    pub name: &'static str,
    /// Its VMs.
    pub vms: Vec<LoadedVm>,
    /// The part of the whole workload: of its requests, and so of every number that is given in requests; of profiles also
    /// of the footprint and the distances.
    pub factor: f64,
    /// Different blocks that the VMs touch, all together.
    pub touched_blocks: u64,
}

/// A VM as it was run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadedVm {
    /// Its volume.
    pub name: &'static str,
    /// Where its requests come from.
    pub source: Source,
    /// Its requests.
    pub requests: u64,
    /// Those of the whole volume.
    pub whole_requests: u64,
}

/// A workload in memory.
pub(super) struct Loaded {
    pub facts: LoadedWorkload,
    pub prepared: Prepared,
}

/// Requests in memory, and what the sizes of levels and settings are measured by.
pub(crate) struct Prepared {
    /// The requests.
    pub recording: Recording,
    /// The part of the whole workload.
    pub factor: f64,
    /// Different blocks that the VMs touch, all together.
    pub touched_blocks: u64,
    /// Blocks of the VMs' footprints, touched or not.
    pub footprint_blocks: u64,
}

/// The profile of this name.
pub(crate) fn profile(name: &str) -> Result<Profile, PapersError> {
    builtin(name)?.ok_or_else(|| PapersError::Request(format!("There is no profile '{name}'")))
}

impl Loaded {
    /// Makes and reads the workload's requests. `traces` are the user's, by profile.
    pub(super) fn new(
        workload: &'static Workload,
        length: Length,
        traces: &BTreeMap<&'static str, PathBuf>,
        memory_bytes: u64,
    ) -> Result<Loaded, PapersError> {
        let profile_of = |name: &&'static str| match &workload.mix {
            Some(mix) => mix_profile(name, mix),
            None => profile(name),
        };
        let mut profiles = workload.vms.iter().map(profile_of).collect::<Result<Vec<_>, _>>()?;
        if let Some(Change::RunBlocks(blocks)) = workload.change {
            profiles.iter_mut().for_each(|profile| set_runs(profile, blocks));
        }
        if let Some(Change::ReadPercent(percent)) = workload.change {
            profiles.iter_mut().for_each(|profile| profile.read_share = f64::from(percent) / 100.0);
        }
        let whole: u64 = profiles.iter().map(|profile| profile.requests).sum();
        let wanted = workload.wanted_requests(length).unwrap_or(whole);
        let factor = (wanted as f64 / whole as f64).min(1.0);
        let (mut lanes, mut vms, mut profile_blocks) = (Vec::new(), Vec::new(), Vec::new());
        for (&name, profile) in workload.vms.iter().zip(&profiles) {
            let mut scaled = if factor < 1.0 { profile.scaled(factor) } else { profile.clone() };
            if let Some(Change::AreasInTurn(areas)) = workload.change {
                take_turns(&mut scaled, areas);
            }
            // A change of a profile is no property of the trace.
            let trace = traces.get(name).filter(|_| workload.change.is_none());
            let (lane, source) = match trace {
                Some(path) => (Lane::read(path, scaled.requests)?, Source::Trace { path: path.clone() }),
                None => (Lane::made(Generator::new(&scaled)?, scaled.requests), Source::Profile { name }),
            };
            let is_made = matches!(source, Source::Profile { .. });
            profile_blocks.push(is_made.then_some(scaled.footprint_bytes / BLOCK.bytes()));
            vms.push(LoadedVm { name, source, requests: scaled.requests, whole_requests: profile.requests });
            lanes.push(lane);
        }
        let recording = Recording::of(Together::new(lanes)?, memory_bytes, &mut |_, _| {})?
            .ok_or(PapersError::Memory { workload: workload.name, limit_bytes: memory_bytes })?;
        let touched = recording.touched_blocks(BLOCK);
        // Of a trace nobody knows the blocks that it does not touch.
        let footprint_blocks =
            profile_blocks.iter().zip(&touched).map(|(blocks, touched)| blocks.unwrap_or(*touched)).sum();
        let touched_blocks = touched.iter().sum();
        let facts = LoadedWorkload { name: workload.name, vms, factor, touched_blocks };
        Ok(Loaded { facts, prepared: Prepared { recording, factor, touched_blocks, footprint_blocks } })
    }
}

impl Prepared {
    /// Requests of a trace, as long as they are.
    pub(crate) fn of_trace(recording: Recording) -> Prepared {
        let touched_blocks = recording.touched_blocks(BLOCK).iter().sum();
        Prepared { recording, factor: 1.0, touched_blocks, footprint_blocks: touched_blocks }
    }

    /// Blocks of the levels.
    pub(super) fn quota(&self, space: &LevelSizes) -> Quota {
        let part = |ten_thousandths: u32, blocks: u64| {
            let blocks = u128::from(ten_thousandths) * u128::from(blocks) / 10_000;
            u32::try_from(blocks).unwrap_or(u32::MAX).max(1)
        };
        let blocks = |size: Size| match size {
            Size::None => 0,
            Size::OfTouched(part_of) => part(part_of, self.touched_blocks),
            Size::OfFootprint(part_of) => part(part_of, self.footprint_blocks),
            Size::Blocks(blocks) => scaled(u64::from(blocks), self.factor) as u32,
        };
        Quota::default()
            .with(Level::Dram, blocks(space.dram))
            .with(Level::Ssd, blocks(space.ssd))
            .with(Level::ReadSsd, blocks(space.read_ssd))
    }
}

/// A number that shrinks with the workload, at least 1.
pub(super) fn scaled(number: u64, factor: f64) -> u64 {
    ((number as f64 * factor).round() as u64).max(1)
}

/// Requests of a turn, where a profile can have so many phases.
const TURN_REQUESTS: u64 = 1250;
/// Most phases of a profile.
const MOST_TURNS: u64 = 1000;
/// Of the random requests, those that go to the area whose turn it is.
const IN_AREA: f64 = 0.8;

/// Makes what is random keep mostly to one area of the space at a time.
fn take_turns(profile: &mut Profile, areas: u32) {
    let turns = (profile.requests / TURN_REQUESTS).clamp(1, MOST_TURNS) as u32;
    let whole = std::mem::take(&mut profile.phase);
    for turn in 0..turns {
        let [from, to] = [turn % areas, turn % areas + 1].map(|area| f64::from(area) / f64::from(areas));
        for phase in &whole {
            let of = |stream: &Stream| {
                if stream.pattern != Pattern::Random {
                    return vec![stream.clone()];
                }
                let (first, end) = stream.range;
                let range = (first + from * (end - first), first + to * (end - first));
                let there = Stream { weight: stream.weight * IN_AREA, range, ..stream.clone() };
                vec![there, Stream { weight: stream.weight * (1.0 - IN_AREA), ..stream.clone() }]
            };
            let stream = phase.stream.iter().flat_map(of).collect();
            profile.phase.push(Phase { share: phase.share / f64::from(turns), stream });
        }
    }
}

/// What a VM that is made to vary one property does.
fn mix_profile(name: &str, mix: &Mix) -> Result<Profile, PapersError> {
    let share = |part: u32, whole: u32| f64::from(part) / f64::from(whole);
    let (cold, writes) = (share(mix.cold_reads, 10_000), share(mix.hot_writes, 10_000));
    let text = format!(
        "name = {name:?}\nseed = 1\nrequests = {}\nfootprint_bytes = {}\nread_share = {}\n\
         sizes.read = [[4096, 1]]\nsizes.write = [[4096, 1]]\n\
         arrival = {{ kind = \"poisson\", requests_per_s = 100 }}\n\
         [[phase]]\n\
         [[phase.stream]]\nweight = {}\nrange = [0.0, {end}]\nread_share = {}\npattern = \"random\"\n\
         [[phase.stream]]\nweight = {cold}\nrange = [{end}, 1.0]\nread_share = 1.0\npattern = \"random\"\n",
        Mix::REQUESTS,
        u64::from(Mix::BLOCKS) * BLOCK.bytes(),
        1.0 - writes,
        1.0 - cold,
        (1.0 - cold - writes) / (1.0 - cold),
        end = share(mix.hot_blocks, Mix::BLOCKS),
    );
    Ok(Profile::parse(&text, name)?)
}

/// Makes what follows Zipf's law go on for so many blocks from each place.
fn set_runs(profile: &mut Profile, blocks: u32) {
    for stream in profile.phase.iter_mut().flat_map(|phase| &mut phase.stream) {
        if matches!(stream.pattern, Pattern::Zipf { .. }) {
            stream.sequential_share = 1.0 - 1.0 / f64::from(blocks.max(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_take_turns() {
        let mut in_turns = profile("rpac-varmail").unwrap().scaled(0.01);
        take_turns(&mut in_turns, 6);
        assert_eq!((in_turns.requests, in_turns.phase.len()), (24_000, 19));
        let area_bytes = in_turns.footprint_bytes / 6;
        let requests: Vec<_> = Generator::new(&in_turns).unwrap().take(24_000).collect();
        for (turn, requests) in requests.chunks(24_000 / 19).take(18).enumerate() {
            let there =
                requests.iter().filter(|one| one.offset_bytes / area_bytes == turn as u64 % 6).count();
            // Four of five, and a sixth of the rest.
            let share = there as f64 / requests.len() as f64;
            assert!((0.77..0.89).contains(&share), "{share} in turn {turn}");
        }
    }
}
