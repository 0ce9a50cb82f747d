//! Processes above a write cache. It must not know which experiment asks.

use lode_policy::criticality::{AdmissionOptions, AdmissionPolicy};
use lode_processes::{
    CacheKind, MachineSettings, PostgresSettings, RedisSettings, RequestsReport, RunConfig, run_script,
};

use super::load::BLOCK;
use crate::error::PapersError;
use crate::job::{CacheDevice, Model, Processes};
use crate::workload::Length;

const NS_PER_S: u64 = 1_000_000_000;
/// The part of a run that does not count.
const WARM_UP_PART: u64 = 6;

/// Simulated seconds; the paper ran 30 minutes.
pub fn simulated_s(length: Length) -> u64 {
    match length {
        // Long enough for a checkpoint, without which nobody waits for long.
        Length::Tiny => 20,
        Length::Reduced => 40,
        Length::Full => 1800,
    }
}

/// Runs them.
pub(super) fn run_processes(job: &Processes, length: Length) -> Result<RequestsReport, PapersError> {
    let policy = AdmissionPolicy::from_name(job.policy)
        .ok_or_else(|| PapersError::Request(format!("There is no admission policy '{}'", job.policy)))?;
    let wanted_s = match length {
        Length::Tiny => job.seconds.map(|seconds| seconds / 2),
        Length::Reduced | Length::Full => job.seconds,
    };
    let end_ns = wanted_s.unwrap_or(0).max(simulated_s(length)) * NS_PER_S;
    let defaults = MachineSettings::default();
    let machine = MachineSettings {
        dirty_percent: job.dirty_percent.map_or(defaults.dirty_percent, u64::from),
        disk_queue: job.disk_queue.unwrap_or(defaults.disk_queue),
        ..defaults
    };
    let kind = match job.device {
        CacheDevice::Ram => CacheKind::Ram,
        CacheDevice::Ssd => CacheKind::Ssd,
    };
    let config = RunConfig {
        cache_blocks: ((u64::from(job.cache_mib) << 20) / BLOCK.bytes()).max(1) as usize,
        seed: job.seed,
        end_ns,
        warm_up_ns: end_ns / WARM_UP_PART,
        ..RunConfig::new(AdmissionOptions::new(policy, &[])?, machine, kind)
    };
    let script = match job.model {
        Model::Postgres(variation) => {
            let settings = PostgresSettings::default();
            PostgresSettings {
                backends: job.clients.map_or(settings.backends, u64::from),
                transaction_cpu_us: variation.transaction_us.unwrap_or(settings.transaction_cpu_us),
                dirtied_percent: variation.dirtied_percent.unwrap_or(settings.dirtied_percent),
                log_blocks: job.log_blocks.unwrap_or(settings.log_blocks),
                ..settings
            }
            .script(job.seed)
        }
        Model::Redis(updates_percent) => {
            let settings = RedisSettings { updates_percent, ..RedisSettings::default() };
            RedisSettings {
                clients: job.clients.map_or(settings.clients, u64::from),
                log_blocks: job.log_blocks.unwrap_or(settings.log_blocks),
                ..settings
            }
            .script(job.seed)
        }
    };
    Ok(run_script(script?, &config)?)
}
