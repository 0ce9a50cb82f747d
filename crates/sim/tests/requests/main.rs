//! The simulation of requests before a write cache.

mod figure_3;
mod models;
mod power;

use lode_policy::request_oriented::{AdmissionOptions, AdmissionPolicy, Stall};
use lode_sim::requests::{EventInfo, Op, Primitive, Program, Script};

fn options(policy: AdmissionPolicy) -> AdmissionOptions {
    AdmissionOptions { policy, pi_sync_only: false, stall: Stall::Bypass, reissue: policy.reissues() }
}

/// Processes that run these lists, with so many locks, and one event that this process delivers.
fn script(lists: Vec<Vec<Op>>, locks: usize, deliverer: u32) -> Script {
    let programs = lists.into_iter().map(|list| Box::new(list.into_iter()) as Box<dyn Program>).collect();
    Script {
        programs,
        locks: vec![Primitive::Mutex; locks],
        events: vec![EventInfo { primitive: Primitive::Other, deliverers: vec![deliverer] }],
        tags: 4,
        log_first_block: 1000,
        log_blocks: 16,
        separate_log_disk: false,
    }
}
