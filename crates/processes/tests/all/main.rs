//! Processes before a write cache: the paper's figure, models of applications, power cuts.

mod figure_3;
mod models;
mod power;
mod settings;
mod text;

use lode_policy::criticality::{AdmissionOptions, AdmissionPolicy, Stall};
use lode_processes::{EventInfo, Primitive, Program, Script, Step};

/// How many seeds a test tries: `LODE_SIM_SEEDS`, or few enough for every day.
fn seeds() -> u64 {
    std::env::var("LODE_SIM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(8)
}

fn options(policy: AdmissionPolicy) -> AdmissionOptions {
    AdmissionOptions { policy, pi_sync_only: false, stall: Stall::Bypass, reissue: policy.reissues() }
}

/// Processes that run these lists, with so many locks, and one event that this process delivers.
fn script(lists: Vec<Vec<Step>>, locks: usize, deliverer: u32) -> Script {
    let programs: Vec<_> =
        lists.into_iter().map(|list| Box::new(list.into_iter()) as Box<dyn Program>).collect();
    Script {
        roles: vec!["process".to_owned(); programs.len()],
        programs,
        locks: vec![Primitive::Mutex; locks],
        events: vec![EventInfo { primitive: Primitive::Other, deliverers: vec![deliverer] }],
        tags: 4,
        log_first_block: 1000,
        log_blocks: 16,
        separate_log_disk: false,
    }
}
