//! What a plan leads to when it is served: replays of it, as many at a time as fit the memory. It must not know how a plan comes
//! about, nor what is made of the reports.

use lode_hardware::Host;
use lode_policy::{Quota, SchemeInfo, Settings};
use lode_replay::{MAX_LEVEL_BLOCKS, Options, ReplayError, Report, most_memory_bytes, replay};
use lode_trace::{Merge, TraceError};
use lode_types::{BlockSize, Level, show_size};

use crate::answer::Answer;
use crate::error::PlanError;
use crate::jobs::in_parallel;
use crate::load::{Load, VmLoad};
use crate::memory::at_once;
use crate::one_level::{self, OneLevel};
use crate::planned::quota;
use crate::two_levels::TwoLevels;

/// With what a plan is replayed.
#[derive(Clone, Copy, Debug)]
pub struct ServeOptions<'a> {
    /// Size of a block.
    pub block_size: BlockSize,
    /// The devices.
    pub host: &'a Host,
    /// Replays at the same time, at least 1.
    pub threads: usize,
    /// Memory that the tables of all replays under way may take. Fewer run at the same time where they do not fit it otherwise.
    pub memory_bytes: u64,
}

/// Replays that were left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Which, and why, as a part of a sentence.
    pub reason: String,
    /// Memory with which they would be run, where that is what they lack.
    pub needed_bytes: Option<u64>,
}

/// One replay.
struct Job {
    what: What,
    options: Options,
    /// Bytes that its tables take at most.
    needed_bytes: u64,
}

enum What {
    /// Of the plan, served so.
    Plan(TwoLevels),
    /// Of one SSD level for its money.
    OneLevel(OneLevel),
    /// Of `auto` on that.
    OneLevelOfAuto,
    /// Of no cache at all, to compare with.
    NoCache,
}

impl Answer {
    /// Replays the plan with the schemes that may serve it, each VM with the share that suits the scheme, and one SSD level for the same
    /// money. `open` gives the same VMs in the same order as `load`; `progress` hears of every batch of requests of every
    /// replay. What may take more memory than there is, even alone, is left out; all is where no replay of the plan is left, or
    /// where a share is larger than a replay can have.
    ///
    /// # Errors
    /// [`PlanError::Replay`].
    pub fn replay(
        &mut self,
        load: &Load,
        open: &(dyn Fn() -> Result<Merge, TraceError> + Sync),
        options: &ServeOptions<'_>,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Option<LeftOut>, PlanError> {
        (self.replayed, self.one_level, self.one_level_of_auto) = (Vec::new(), None, None);
        self.uncached = None;
        let jobs = match self.jobs(load, options) {
            Err(PlanError::Request(why)) => return Ok(Some(LeftOut::of_plan(&why))),
            jobs => jobs?,
        };
        let (mut jobs, too_large): (Vec<Job>, Vec<Job>) =
            jobs.into_iter().partition(|job| job.needed_bytes <= options.memory_bytes);
        let is_of_plan = |job: &Job| matches!(job.what, What::Plan(_));
        let has_plan = jobs.iter().any(is_of_plan);
        let left_out = LeftOut::of(&too_large, has_plan, options.memory_bytes);
        if !has_plan {
            jobs.clear();
        }
        let needs_bytes: Vec<u64> = jobs.iter().map(|job| job.needed_bytes).collect();
        let threads = at_once(&needs_bytes, options.threads, options.memory_bytes);
        let known = Some(load.vms.len());
        let run = |job: &Job| -> Result<Report, PlanError> {
            Ok(replay(open()?, &job.options, known, &mut |_, requests| progress(requests))?)
        };
        let reports = in_parallel(&jobs, threads, run)?;
        for (job, report) in jobs.into_iter().zip(reports) {
            match job.what {
                What::Plan(served) => self.replayed.push((served, report)),
                What::OneLevel(OneLevel { levels, .. }) => self.one_level = Some((levels, report)),
                What::OneLevelOfAuto => self.one_level_of_auto = Some(report),
                What::NoCache => self.uncached = Some(report),
            }
        }
        Ok(left_out)
    }

    /// Everything that is worth a replay.
    fn jobs(&self, load: &Load, options: &ServeOptions<'_>) -> Result<Vec<Job>, PlanError> {
        let ServeOptions { block_size, host, .. } = *options;
        let distinct_blocks: Vec<u64> = load.vms.iter().map(VmLoad::most_distinct_blocks).collect();
        let job = |what, settings, physical, shares| {
            let options = Options {
                settings,
                physical,
                block_size,
                host: host.clone(),
                shares: Some(shares),
                daily_ssd_bytes: None,
            };
            let needed_bytes = most_memory_bytes(&options, &distinct_blocks);
            Job { what, options, needed_bytes }
        };
        let mut jobs = Vec::new();
        for served in TwoLevels::wished(&self.wish) {
            let plan = self.plan_for(served);
            let shares = plan.vms.iter().map(|vm| quota(vm.share_blocks)).collect::<Result<Vec<_>, _>>()?;
            let given = |level: Level| plan.of_level[level.index()].given_blocks.min(MAX_LEVEL_BLOCKS);
            let physical = quota(Level::SIZED.map(given))?;
            jobs.push(job(What::Plan(served), served.settings()?, physical, shares));
        }
        let given = |level: &OneLevel| quota([0, level.levels.ssd_bytes / block_size.bytes()]);
        if let Some(instead) = self.money_on_one_level(host) {
            let (given, shares) = (given(&instead)?, instead.shares.clone());
            jobs.push(job(What::OneLevel(instead), self.one_level_settings()?, given, shares));
        }
        if let Some(instead) = self.money_on_one_level_of_auto(host) {
            let given = given(&instead)?;
            jobs.push(job(What::OneLevelOfAuto, TwoLevels::Auto.settings()?, given, instead.shares));
        }
        let set = settings(one_level::SCHEME, one_level::SETTINGS)?;
        let none = vec![Quota::default(); load.vms.len()];
        jobs.push(job(What::NoCache, set, Quota::default(), none));
        Ok(jobs)
    }
}

impl LeftOut {
    /// Why these replays were left out, where others of the plan were not, or were; none where there are none.
    fn of(jobs: &[Job], has_plan: bool, memory_bytes: u64) -> Option<LeftOut> {
        let needed_bytes = jobs.iter().map(|job| job.needed_bytes).max()?;
        let of_plan = |job: &Job| match job.what {
            What::Plan(served) => Some(served.scheme()),
            _ => None,
        };
        let plan = jobs.iter().find_map(of_plan);
        let why = format!(
            "that may take {} of memory for the blocks that are kept track of, and {} are allowed",
            show_size(needed_bytes),
            show_size(memory_bytes)
        );
        if !has_plan {
            return Some(LeftOut { needed_bytes: Some(needed_bytes), ..LeftOut::of_plan(&why) });
        }
        let one_level = jobs.iter().any(|job| matches!(job.what, What::OneLevel(_)));
        let of_auto = jobs.iter().any(|job| matches!(job.what, What::OneLevelOfAuto));
        let left = match (plan, one_level) {
            (Some(scheme), false) => format!("the plan is not replayed with {scheme}"),
            (Some(scheme), true) => {
                format!("neither the plan with {scheme} nor one SSD level for the same money is replayed")
            }
            (None, true) => "one SSD level for the same money is not replayed".to_owned(),
            (None, false) if of_auto => {
                "one SSD level for the same money is not replayed with auto".to_owned()
            }
            (None, false) => "the traces without a cache are not replayed".to_owned(),
        };
        Some(LeftOut { reason: format!("{left}: {why}"), needed_bytes: Some(needed_bytes) })
    }

    fn of_plan(why: &str) -> LeftOut {
        let reason = format!("the plan is not replayed, so that wear is an upper bound: {why}");
        LeftOut { reason, needed_bytes: None }
    }
}

/// A scheme's settings: its defaults, and those that are `set`.
pub(crate) fn settings(
    scheme: &str,
    set: impl IntoIterator<Item = (&'static str, &'static str)>,
) -> Result<Settings, PlanError> {
    let mut settings = SchemeInfo::find(scheme).map_err(ReplayError::from)?.settings();
    for (key, value) in set {
        settings.set(key, value).map_err(ReplayError::from)?;
    }
    Ok(settings)
}
