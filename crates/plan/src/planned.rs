//! The shares of a plan, read back from the JSON that `lode size` writes: what schemes are compared with for the plan's money.
//! It must not know how a plan comes about.

use lode_hardware::Host;
use lode_policy::{Quota, SchemeInfo};
use lode_replay::MAX_LEVEL_BLOCKS;
use lode_types::Level;
use serde::Deserialize;

use crate::error::PlanError;
use crate::front::Prices;
use crate::levels::{LevelBlockCounts, LevelBytes, title};
use crate::one_level::OneLevel;

/// Most bytes of a plan that are read: thousands of VMs with their curves.
pub const MAX_PLAN_BYTES: u64 = 64 << 20;

/// Levels, and what each VM has of them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PlannedShares {
    block_bytes: u64,
    /// Bytes that its shares are multiples of; older plans do not tell.
    #[serde(default)]
    granule_bytes: u64,
    levels: LevelBytes,
    vms: Vec<PlannedVm>,
    /// What one SSD level was for the plan's money, where that was replayed.
    #[serde(default)]
    one_level: Option<PlannedLevel>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct PlannedLevel {
    levels: LevelBytes,
    /// Older plans do not tell.
    #[serde(default)]
    shares_blocks: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct PlannedVm {
    name: String,
    share: LevelBlockCounts,
}

impl PlannedLevel {
    /// It, and what each of so many VMs has of it, where it tells.
    fn quotas(&self, block_bytes: u64, vms: usize) -> Option<(LevelBytes, Vec<Quota>)> {
        let given: u128 = self.shares_blocks.iter().map(|&blocks| u128::from(blocks)).sum();
        let fits = given * u128::from(block_bytes) <= u128::from(self.levels.ssd_bytes);
        let quotas = self.shares_blocks.iter().map(|&blocks| quota([0, blocks]).ok());
        let quotas = quotas.collect::<Option<Vec<_>>>()?;
        let level = LevelBytes { ssd_bytes: self.levels.ssd_bytes, ..LevelBytes::default() };
        (fits && quotas.len() == vms).then_some((level, quotas))
    }
}

impl PlannedShares {
    /// The shares in a report of `lode size --json`.
    ///
    /// # Errors
    /// [`PlanError::Request`] where it is none, or of other blocks than `block_bytes`.
    pub fn parse(text: &str, block_bytes: u64) -> Result<PlannedShares, PlanError> {
        let plan: PlannedShares = serde_json::from_str(text).map_err(|error| {
            PlanError::Request(format!("This is not a plan: {error}; give it what `lode size --json` wrote"))
        })?;
        for level in Level::SIZED {
            let shares: u128 = plan.vms.iter().map(|vm| u128::from(vm.share.of(level))).sum();
            let bytes = shares * u128::from(plan.block_bytes);
            if bytes > u128::from(plan.levels.of(level)) {
                let name = level.name();
                return Err(PlanError::Request(format!(
                    "The plan's {name} level has {} bytes, and the shares of it come to {bytes}; give it what `lode size --json` wrote",
                    plan.levels.of(level)
                )));
            }
        }
        if plan.block_bytes != block_bytes {
            let theirs = plan.block_bytes;
            return Err(PlanError::Request(format!(
                "The plan counts blocks of {theirs} bytes, and this comparison of {block_bytes}; give both the same --block"
            )));
        }
        Ok(plan)
    }

    /// The levels.
    pub fn levels(&self) -> LevelBytes {
        self.levels
    }

    /// The levels that a scheme has for the plan's money, and what each VM has of them: the plan's own shares of both levels; of
    /// one SSD level, what the plan says of one of the same size but for rounding, else what the shares cost.
    pub(crate) fn of_scheme(
        &self,
        info: &SchemeInfo,
        host: &Host,
    ) -> Result<(LevelBytes, Vec<Quota>), PlanError> {
        self.check_needs(info)?;
        let shares: Vec<[u64; 2]> =
            self.vms.iter().map(|vm| Level::SIZED.map(|level| vm.share.of(level))).collect();
        if info.levels.contains(&Level::Dram) {
            let quotas = shares.iter().map(|&share| quota(share)).collect::<Result<_, _>>()?;
            return Ok((self.levels, quotas));
        }
        let granule_blocks = (self.granule_bytes / self.block_bytes.max(1)).max(1);
        let blocks = (self.block_bytes, granule_blocks);
        let level = OneLevel::for_money_of(self.levels, &shares, &Prices::of(host), blocks);
        // One level was bought for the same money, but the shares by which that was rounded may have been others.
        let rounding_bytes =
            (shares.len() as u64).saturating_add(granule_blocks).saturating_mul(self.block_bytes);
        let is_for_as_much = |planned: &&PlannedLevel, level: &OneLevel| {
            planned.levels.ssd_bytes.abs_diff(level.levels.ssd_bytes) <= rounding_bytes
        };
        let as_planned = |level: OneLevel| {
            let planned = self.one_level.as_ref().filter(|planned| is_for_as_much(planned, &level));
            let planned = planned.and_then(|planned| planned.quotas(self.block_bytes, shares.len()));
            planned.unwrap_or((level.levels, level.shares))
        };
        level.map(as_planned).ok_or_else(|| {
            let message =
                "The plan's money does not buy a block of SSD; compare with a larger plan".to_owned();
            PlanError::Request(message)
        })
    }

    /// That the plan has the levels without which a scheme cannot work: only its own are to be had for its money.
    fn check_needs(&self, info: &SchemeInfo) -> Result<(), PlanError> {
        let lacks = |level: &Level| {
            self.levels.of(*level) / self.block_bytes.max(1) < u64::from(info.least_blocks(*level))
        };
        let Some(level) = Level::ALL.into_iter().find(lacks) else { return Ok(()) };
        let has = match level {
            Level::ReadSsd => "a plan has none",
            _ if self.levels.of(level) == 0 => "this plan has none",
            _ => "this plan has too little of it",
        };
        Err(PlanError::Request(format!(
            "{} needs {}, and {has}; leave the scheme out, or give sizes of the levels in place of --plan",
            info.name,
            title(level)
        )))
    }

    /// That the plan is of these VMs.
    ///
    /// # Errors
    /// [`PlanError::Request`] where it is of others, or in another order.
    pub(crate) fn check_vms(&self, names: &[String]) -> Result<(), PlanError> {
        let differ =
            |(vm, name): (&PlannedVm, &String)| (vm.name != *name).then(|| (vm.name.clone(), name.clone()));
        let message = match self.vms.iter().zip(names).find_map(differ) {
            Some((planned, found)) => format!("The plan has {planned} where these traces have {found}"),
            None if self.vms.len() == names.len() => return Ok(()),
            None => format!("The plan is of {} VMs, and these traces have {}", self.vms.len(), names.len()),
        };
        Err(PlanError::Request(format!(
            "{message}; compare the traces that were planned for, in their order and with the same --vm-by"
        )))
    }
}

/// A share as a replay takes it.
pub(crate) fn quota(blocks: [u64; 2]) -> Result<Quota, PlanError> {
    let [dram, ssd] = blocks;
    match (u32::try_from(dram), u32::try_from(ssd)) {
        (Ok(dram), Ok(ssd)) if u64::from(dram.max(ssd)) <= MAX_LEVEL_BLOCKS => Ok(Quota::new(dram, ssd)),
        _ => Err(PlanError::Request(format!(
            "A share of more than {} blocks cannot be replayed; make blocks larger",
            MAX_LEVEL_BLOCKS
        ))),
    }
}
