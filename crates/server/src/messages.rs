//! What other threads tell a shard, and what it answers. It must not know how either comes about.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::SyncSender;

use lode_engine::{SpaceAnswer, SsdWriteUse};
use lode_nbd::{ExportInfo, Negotiated};
use lode_policy::{Counters, LevelDemand, Quota, Settings, WriteBudget};
use rustix::fd::OwnedFd;

use crate::config::{Limits, Period, VmConfig, WriteBack};
use crate::connection::Permit;
use crate::fence_file::FenceFile;
use crate::membership::Failure;
use crate::start::Prepared;
use crate::status::VmView;

/// A connection whose handshake is done.
pub(crate) struct NewConnection {
    pub socket: OwnedFd,
    /// Which of the shard's VMs.
    pub volume: usize,
    pub negotiated: Negotiated,
    /// What came in behind the handshake.
    pub early: Vec<u8>,
    pub permit: Permit,
}

/// What other threads tell a shard. Volumes are named by their places in it.
pub(crate) enum ToShard {
    Connect(NewConnection),
    Status(SyncSender<Vec<(usize, VmView)>>),
    /// Begin to write back what is dirty, or stop that; answered with the number of blocks.
    Drain {
        volumes: Vec<usize>,
        cancel: bool,
        answer: SyncSender<u64>,
    },
    /// What may change of volumes while they are served, and has.
    Change(Vec<(usize, LiveKeys)>),
    /// End an interval of the host: what every volume could have used in it.
    Measure(SyncSender<Vec<(usize, Measured)>>),
    /// What every volume wrote to the SSD.
    SsdWrites(SyncSender<Vec<(usize, SsdWriteUse)>>),
    /// What a volume may write to the SSD from now on.
    Budget(usize, WriteBudget),
    /// New shares; answered with what every volume of the shard holds then.
    Shares {
        shares: Vec<(usize, Quota)>,
        answer: SyncSender<Vec<(usize, Quota)>>,
    },
    /// What a volume asked of the host, or the host of it.
    Space {
        volume: usize,
        answer: SpaceAnswer,
    },
    /// A volume that is new is to be served from now on; answered with whether it is.
    Add {
        volume: usize,
        prepared: Box<Prepared>,
        connections: Arc<AtomicU32>,
        answer: SyncSender<bool>,
    },
    /// A volume is to be served no more, once its backing disk has everything durably; with `disconnect` its clients are cut
    /// off. Answered at the end, or with why not: then it is served on.
    Remove {
        volume: usize,
        disconnect: bool,
        answer: SyncSender<Result<(), Failure>>,
    },
    /// Writes go around the SSD while what is dirty is written back; answered with the number of blocks.
    WriteAround {
        volume: usize,
        answer: SyncSender<Result<u64, String>>,
    },
    /// A volume's disk is to be opened elsewhere: nothing more is taken, and it has everything durably. With `refuse_clients` those
    /// that are connected are refused. Answered at the end, or with why not: then it is served on.
    Release {
        volume: usize,
        refuse_clients: bool,
        answer: SyncSender<Result<(), Failure>>,
    },
    /// It is served again, after it was released or was to be; answered with whether it is.
    Resume {
        volume: usize,
        /// Of its sidecar now; none: it is what it was.
        generation: Option<u64>,
        answer: SyncSender<bool>,
    },
    /// A volume has another name; answered with whether it is so. Not while it notes that its SSD failed.
    Rename {
        volume: usize,
        export: ExportInfo,
        fence: FenceFile,
        answer: SyncSender<bool>,
    },
    Stop {
        drain: bool,
    },
}

/// What of a VM's configuration its shard can take over at any time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LiveKeys {
    pub limits: Limits,
    pub write_back: WriteBack,
    pub scrub: Period,
    pub settings: Settings,
    /// Where shares can grow: the largest one under these settings.
    pub largest_share: Option<Quota>,
}

impl LiveKeys {
    pub(crate) fn of(vm: &VmConfig, largest_share: Option<Quota>) -> LiveKeys {
        let settings = vm.settings.clone();
        LiveKeys { limits: vm.limits, write_back: vm.write_back, scrub: vm.scrub, settings, largest_share }
    }
}

/// What a volume did, and could have used in the interval that ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// None where the scheme does not measure it.
    pub demand: Option<[LevelDemand; 2]>,
    pub reads: ReadCounts,
}

/// Blocks that were read since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadCounts {
    pub reads: u64,
    /// Of those, found in DRAM, on the SSD, and on the read SSD.
    pub dram_hits: u64,
    pub ssd_hits: u64,
    pub read_ssd_hits: u64,
}

impl From<&Counters> for ReadCounts {
    fn from(counters: &Counters) -> ReadCounts {
        let [dram_hits, ssd_hits, read_ssd_hits] = counters.read_hits;
        ReadCounts { reads: counters.block_reads, dram_hits, ssd_hits, read_ssd_hits }
    }
}

impl ReadCounts {
    /// What was read after `before`.
    pub(crate) fn since(self, before: ReadCounts) -> ReadCounts {
        ReadCounts {
            reads: self.reads.saturating_sub(before.reads),
            dram_hits: self.dram_hits.saturating_sub(before.dram_hits),
            ssd_hits: self.ssd_hits.saturating_sub(before.ssd_hits),
            read_ssd_hits: self.read_ssd_hits.saturating_sub(before.read_ssd_hits),
        }
    }

    /// The part of the reads that any level served; none without reads.
    pub(crate) fn hit_ratio(self) -> Option<f64> {
        let hits = self.dram_hits + self.ssd_hits + self.read_ssd_hits;
        (self.reads > 0).then(|| hits as f64 / self.reads as f64)
    }
}
