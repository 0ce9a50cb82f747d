//! Request-oriented durable write caching: sections 2, 3 and 7, over the model of processes.

mod critical;
mod motivation;
mod postgres;
mod redis;
mod small_redis;

use crate::experiment::Experiment;
use crate::job::{CacheDevice, Job, Model, Processes, Variation};

/// In the order of the paper.
pub static EXPERIMENTS: &[Experiment] = &[
    motivation::FIG_1,
    motivation::FIG_2,
    motivation::TABLE_1,
    motivation::TABLE_2,
    postgres::FIG_4,
    postgres::FIG_5,
    postgres::FIG_6,
    postgres::FIG_7,
    postgres::FIG_8,
    critical::TABLE_3,
    redis::FIG_9,
    redis::TABLE_4,
    small_redis::SMALL,
];

/// The policies in the paper's order (section 7.1).
const POLICIES: [&str; 6] = ["all", "sync", "wal", "cp", "cp-pi", "cp-pi-ioi"];

/// What is said of every experiment with PostgreSQL.
const MODEL: &str = "How many pages a transaction changes was chosen after Table 1, and its processor time, which the paper does not tell, after the gain with \
     room for everything (Fig. 1a, 1.99): so that gain and what is measured against it with little room (Figs. 1a, 2, 4a and 8) follow from that \
     choice in their size; reads never reach the devices, as in the paper. The model \
     is of processors, two disks with a head and a queue, FlashCache's map, two file systems with journals, and the kernel's \
     writer (`lode requests --settings` lists every number with its source); the kernel's queues never refuse a command";

/// A model as it is committed.
const fn plain(model: Model, policy: &'static str, cache_mib: u32, device: CacheDevice) -> Processes {
    Processes {
        model,
        policy,
        cache_mib,
        device,
        clients: None,
        dirty_percent: None,
        disk_queue: None,
        log_blocks: None,
        seconds: None,
        seed: 1,
    }
}

/// PostgreSQL over a ramdisk of this size.
const fn postgres(policy: &'static str, cache_mib: u32) -> Processes {
    plain(Model::Postgres(Variation::NONE), policy, cache_mib, CacheDevice::Ram)
}

/// Seconds of several checkpoints, and of what the kernel writes back once it has been dirty for long: who writes what, and how long
/// the longest waits are, is settled by then. In a run of 40 s next to nothing is that old.
const SETTLED_S: u64 = 300;

/// The same for so long.
const fn settled(job: Processes) -> Processes {
    Processes { seconds: Some(SETTLED_S), ..job }
}

/// The same over an SSD.
fn on_ssd(job: Processes) -> Processes {
    Processes { device: CacheDevice::Ssd, ..job }
}

fn all(jobs: impl IntoIterator<Item = Processes>) -> Vec<Job> {
    jobs.into_iter().map(Job::Processes).collect()
}
