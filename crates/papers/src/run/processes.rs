//! Processes above a write cache. It must not know which experiment asks.

use lode_policy::request_oriented::{AdmissionOptions, AdmissionPolicy};
use lode_processes::{DeviceModel, PostgresSettings, RedisSettings, RequestsReport, RunConfig, run_script};

use super::load::BLOCK;
use crate::error::PapersError;
use crate::job::{CacheDevice, Model, Processes, Variation};
use crate::workload::Length;

const NS_PER_S: u64 = 1_000_000_000;
/// The part of a run that does not count.
const WARM_UP_PART: u64 = 6;

/// Simulated seconds; the paper ran 30 minutes.
pub fn simulated_s(length: Length) -> u64 {
    match length {
        Length::Tiny => 6,
        Length::Reduced => 60,
        Length::Full => 1800,
    }
}

/// Runs them.
pub(super) fn run_processes(job: &Processes, length: Length) -> Result<RequestsReport, PapersError> {
    let policy = AdmissionPolicy::from_name(job.policy)
        .ok_or_else(|| PapersError::Request(format!("There is no admission policy '{}'", job.policy)))?;
    let end_ns = simulated_s(length) * NS_PER_S;
    let defaults = RunConfig::new(AdmissionOptions::new(policy, &[])?);
    let config = RunConfig {
        cache_blocks: ((u64::from(job.cache_mib) << 20) / BLOCK.bytes()).max(1) as usize,
        cache: match job.device {
            CacheDevice::Ram => DeviceModel::RAM,
            CacheDevice::Ssd => DeviceModel::SSD,
        },
        disk: disk(job, defaults.disk),
        dirty_percent: job.dirty_percent.unwrap_or(defaults.dirty_percent),
        end_ns,
        warm_up_ns: end_ns / WARM_UP_PART,
        ..defaults
    };
    let script = match job.model {
        Model::Postgres(variation) => {
            let settings = PostgresSettings::default();
            let cpu_us = variation.transaction_ms.map(|ms| 1000 * ms);
            PostgresSettings {
                backends: job.clients.unwrap_or(settings.backends),
                transaction_cpu_us: cpu_us.unwrap_or(settings.transaction_cpu_us),
                checkpoint_run: variation.checkpoint_run.unwrap_or(settings.checkpoint_run),
                ..settings
            }
            .script()
        }
        Model::Redis(updates_percent) => {
            let settings = RedisSettings { updates_percent, ..RedisSettings::default() };
            RedisSettings { clients: job.clients.unwrap_or(settings.clients), ..settings }.script()
        }
    };
    Ok(run_script(script?, &config)?)
}

/// The disks of a run.
fn disk(job: &Processes, usual: DeviceModel) -> DeviceModel {
    match job.model {
        Model::Postgres(Variation { disk_us: Some(us), .. }) => DeviceModel { random_ns: 1000 * us, ..usual },
        _ => usual,
    }
}
