//! What is run: VMs by the names of their volumes, and how long a run is. It must not know where requests come from.

use serde::Serialize;

/// How much of every workload is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Length {
    /// For tests: some seconds for everything.
    Tiny,
    /// What is run unless more is asked for: a few minutes for everything.
    Reduced,
    /// All of every workload.
    Full,
}

/// VMs that run together.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Workload {
    /// What it is called.
    pub name: &'static str,
    /// A profile for each VM; where the user has a trace of that volume, the trace stands for it.
    pub vms: &'static [&'static str],
    /// Requests of all VMs together in a reduced run, about.
    reduced_requests: u64,
    /// What is other than in the profiles.
    pub change: Option<Change>,
    /// What the only VM does, where no profile says it.
    pub mix: Option<Mix>,
}

/// What is other than in a profile, to find out what a result hangs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Where blocks are popular by Zipf's law, so many are accessed one after the other from each place on, on average.
    RunBlocks(u32),
    /// The space has so many areas, which take turns: four of five random requests go to one of them, and after some time to the next.
    AreasInTurn(u32),
    /// So many of a hundred requests read.
    ReadPercent(u32),
}

/// One VM that reads and writes a few hot blocks, each as likely as another, and reads cold ones, each as good as once: so that one
/// property can be varied and the others stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mix {
    /// Of ten thousand requests, those that read a cold block.
    pub cold_reads: u32,
    /// Of ten thousand requests, those that write a hot block; what is left reads one.
    pub hot_writes: u32,
    /// Hot blocks.
    pub hot_blocks: u32,
}

impl Mix {
    /// Requests of a VM: so many that its first accesses to hot blocks do not count.
    pub const REQUESTS: u64 = 120_000;
    /// Blocks that it may touch: so many more than cold reads that few are read twice.
    pub const BLOCKS: u32 = 200_000;
}

/// Of a reduced run's requests, the part that tests run.
const TINY_PART: u64 = 10;

impl Workload {
    const fn new(name: &'static str, vms: &'static [&'static str], reduced_requests: u64) -> Workload {
        Workload { name, vms, reduced_requests, change: None, mix: None }
    }

    /// A VM of [`Mix::REQUESTS`] requests.
    pub(crate) const fn mixed(name: &'static str, vms: &'static [&'static str], mix: Mix) -> Workload {
        Workload { mix: Some(mix), ..Workload::new(name, vms, Mix::REQUESTS) }
    }

    /// The requests that a run is to have in all; none for all there are.
    pub fn wanted_requests(&self, length: Length) -> Option<u64> {
        match length {
            Length::Tiny => Some(self.reduced_requests / TINY_PART),
            Length::Reduced => Some(self.reduced_requests),
            Length::Full => None,
        }
    }
}

/// ETICA, section 5.1: 12 volumes of MSR Cambridge, each a VM.
pub static ETICA_MIX: Workload = Workload::new(
    "12 VMs",
    &[
        "hm_1", "mds_0", "mds_1", "src2_0", "src1_2", "stg_1", "ts_0", "wdev_0", "web_3", "rsrch_0", "usr_0",
        "proj_0",
    ],
    600_000,
);

/// The volumes of MSR Cambridge that there are profiles of, but for src1_0, which would be half of all requests.
pub static ECI_MIX: Workload = Workload::new(
    "14 VMs",
    &[
        "hm_1", "mds_0", "mds_1", "src2_0", "src1_2", "stg_1", "ts_0", "wdev_0", "web_3", "rsrch_0", "usr_0",
        "proj_0", "prn_0", "prxy_0",
    ],
    400_000,
);

/// ETICA, table 2: the benchmarks of section 3, in the order of Fig. 3.
pub static BENCHMARKS: [Workload; 4] = [
    Workload::new("FIO-RandRW", &["fio-randrw"], 400_000),
    Workload::new("Web Server", &["filebench-web"], 20_000),
    Workload::new("Video Server", &["filebench-video"], 10_000),
    Workload::new("Varmail", &["filebench-varmail"], 40_000),
];

const TICA_REQUESTS: u64 = 200_000;

/// TICA, table 2, in its order.
pub static TICA: [Workload; 17] = [
    Workload::new("TPCC", &["tpcc"], TICA_REQUESTS),
    Workload::new("Webserver", &["webserver"], TICA_REQUESTS),
    Workload::new("DevToolRel", &["devtoolrel"], TICA_REQUESTS),
    Workload::new("LiveMapsBE", &["livemapsbe"], TICA_REQUESTS),
    Workload::new("MSNFS", &["msnfs"], TICA_REQUESTS),
    Workload::new("Exchange", &["exchange"], TICA_REQUESTS),
    Workload::new("Postmark", &["postmark"], TICA_REQUESTS),
    Workload::new("Stg_1", &["stg_1"], TICA_REQUESTS),
    Workload::new("Rsrch_0", &["rsrch_0"], TICA_REQUESTS),
    Workload::new("Src1_2", &["src1_2-tica"], TICA_REQUESTS),
    Workload::new("Wdev_0", &["wdev_0"], TICA_REQUESTS),
    Workload::new("Ts_0", &["ts_0"], TICA_REQUESTS),
    Workload::new("Usr_0", &["usr_0"], TICA_REQUESTS),
    Workload::new("Hm_1", &["hm_1"], TICA_REQUESTS),
    Workload::new("Mds_0", &["mds_0"], TICA_REQUESTS),
    Workload::new("Prn_0", &["prn_0"], TICA_REQUESTS),
    Workload::new("Prxy_0", &["prxy_0"], TICA_REQUESTS),
];

const fn reads(name: &'static str, vms: &'static [&'static str], percent: u32) -> Workload {
    Workload { change: Some(Change::ReadPercent(percent)), ..Workload::new(name, vms, TICA_REQUESTS) }
}

/// Two workloads of TICA with other shares of reads, which are 70 and 18 % in the originals.
pub static OTHER_READS: [[Workload; 4]; 2] = [
    [
        reads("TPCC, 95 % reads", &["tpcc"], 95),
        reads("TPCC, 70 % reads", &["tpcc"], 70),
        reads("TPCC, 40 % reads", &["tpcc"], 40),
        reads("TPCC, 10 % reads", &["tpcc"], 10),
    ],
    [
        reads("Ts_0, 95 % reads", &["ts_0"], 95),
        reads("Ts_0, 70 % reads", &["ts_0"], 70),
        reads("Ts_0, 40 % reads", &["ts_0"], 40),
        reads("Ts_0, 10 % reads", &["ts_0"], 10),
    ],
];

const RPAC_REQUESTS: u64 = 480_000;

/// RPAC, table II.
pub static MAIL: Workload = Workload::new("Mail", &["fiu-mail"], RPAC_REQUESTS);
/// RPAC, table II.
pub static WEBVM: Workload = Workload::new("Webvm", &["fiu-webvm"], RPAC_REQUESTS);

/// [`MAIL`] whose neighbours are about equally popular: the property that regions live on, of which the profile has little.
pub static MAIL_IN_RUNS: Workload = Workload {
    change: Some(Change::RunBlocks(8)),
    ..Workload::new("Mail in runs of 8", &["fiu-mail"], RPAC_REQUESTS)
};
/// The same of [`WEBVM`].
pub static WEBVM_IN_RUNS: Workload = Workload {
    change: Some(Change::RunBlocks(8)),
    ..Workload::new("Webvm in runs of 8", &["fiu-webvm"], RPAC_REQUESTS)
};

const PROTOTYPE_REQUESTS: u64 = 150_000;

/// RPAC, section V.C.
pub static WEBPROXY: Workload = Workload::new("Webproxy", &["rpac-webproxy"], PROTOTYPE_REQUESTS);
/// RPAC, section V.C.
pub static VARMAIL: Workload = Workload::new("RPAC's Varmail", &["rpac-varmail"], PROTOTYPE_REQUESTS);

/// [`WEBPROXY`] whose work keeps to one area of the space for some time, and goes on to the next.
pub static WEBPROXY_IN_TURNS: Workload = Workload {
    change: Some(Change::AreasInTurn(AREAS)),
    ..Workload::new("Webproxy, areas in turn", &["rpac-webproxy"], PROTOTYPE_REQUESTS)
};
/// The same of [`VARMAIL`].
pub static VARMAIL_IN_TURNS: Workload = Workload {
    change: Some(Change::AreasInTurn(AREAS)),
    ..Workload::new("RPAC's Varmail, areas in turn", &["rpac-varmail"], PROTOTYPE_REQUESTS)
};
/// Two of the prototype's regions of 160 MB each.
const AREAS: u32 = 30;

/// ETICA, section 5.5: what the VMs of Figs. 15 and 16 run.
pub static ARRIVING: [&str; 32] = [
    "hm_1", "proj_0", "stg_1", "usr_0", "ts_0", "wdev_0", "web_3", "usr_0", "mds_0", "usr_0", "ts_0",
    "wdev_0", "ts_0", "hm_1", "src2_0", "ts_0", "ts_0", "wdev_0", "web_3", "usr_0", "mds_0", "usr_0", "ts_0",
    "wdev_0", "ts_0", "hm_1", "src2_0", "ts_0", "ts_0", "wdev_0", "web_3", "usr_0",
];
