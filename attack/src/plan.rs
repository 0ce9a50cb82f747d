//! What host a run attacks: its devices, VMs, schemes and settings, as its seed has it. It must not know what is done to it.

use std::path::Path;
use std::process::Command;

use lode_types::Rng;
use serde::{Deserialize, Serialize};

const MIB: u64 = 1 << 20;
/// Bytes of an SSD of a pair before the cache begins.
const LABEL_BYTES: u64 = MIB;
/// Which of a seed's numbers say whether the cache is on a pair.
const PAIR_PART: u64 = 1000;
/// Which of a seed's numbers say whose write-back is ordered.
const ORDERED_PART: u64 = 1001;
/// Bytes of a device for a redo log, which takes less.
const REDO_BYTES: u64 = 24 * MIB;
/// Disks that may be behind so far, and the smallest groups that there are, so that many of them end.
const ORDERED: [&str; 3] = [
    "{ ordered = true, group = \"1MiB\" }",
    "{ ordered = true, group = \"1MiB\", max_lag = \"2s\" }",
    "{ ordered = true, group = \"2MiB\", max_lag = \"never\" }",
];

/// What is asked of `lode schemes --json`.
#[derive(Clone, Debug, Deserialize)]
pub struct Scheme {
    /// As the configuration names it.
    pub name: String,
    levels: Vec<String>,
    needs_future: bool,
}

impl Scheme {
    /// Those that a daemon has.
    ///
    /// # Errors
    /// When the program does not say.
    pub fn all(lode: &Path) -> Result<Vec<Scheme>, String> {
        let output = Command::new(lode).args(["schemes", "--json"]).output();
        let output = output.map_err(|error| format!("Cannot run {}: {error}", lode.display()))?;
        let schemes: Vec<Scheme> = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("{} schemes --json says no schemes: {error}", lode.display()))?;
        Ok(schemes.into_iter().filter(|scheme| !scheme.needs_future).collect())
    }

    fn uses(&self, level: &str) -> bool {
        self.levels.iter().any(|one| one == level)
    }
}

/// One VM.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VmPlan {
    /// Its name, and its export's.
    pub name: String,
    /// The size of its disk in bytes.
    pub disk_bytes: u64,
    /// The scheme that decides for it.
    pub scheme: String,
    dram_bytes: u64,
    ssd_bytes: u64,
    read_ssd_bytes: u64,
    writeback: String,
    /// Its disk is written in the order of its flushes, by way of a redo log on a device of its own.
    #[serde(default)]
    pub is_ordered: bool,
}

/// The host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// Of the run.
    pub seed: u64,
    /// The cache SSD's size in bytes.
    pub ssd_bytes: u64,
    /// The read SSD's; 0: there is none.
    pub read_ssd_bytes: u64,
    /// Of a cache block, as `lode format` is told.
    pub block: String,
    /// The VMs.
    pub vms: Vec<VmPlan>,
    shards: u64,
    io: String,
    keeps_records: bool,
    /// The cache is on a pair of SSDs.
    #[serde(default)]
    is_pair: bool,
}

const WRITE_BACK: [&str; 4] = [
    "\"background\"",
    "\"scheme\"",
    "{ dirty = \"10%\", age = \"1s\", idle = \"1s\" }",
    "{ dirty = \"256KiB\", dirty_max = \"50%\", age = \"2s\", idle = \"never\" }",
];

impl Plan {
    /// The host of a seed. With `scheme` all VMs are under this one.
    ///
    /// # Errors
    /// When no scheme has that name.
    pub fn new(seed: u64, schemes: &[Scheme], scheme: Option<&str>) -> Result<Plan, String> {
        let mut rng = Rng::part(seed, 1);
        let only: Vec<&Scheme> =
            schemes.iter().filter(|one| scheme.is_none_or(|name| name == one.name)).collect();
        if only.is_empty() {
            return Err(format!("There is no scheme '{}'; lode schemes lists them", scheme.unwrap_or("")));
        }
        let mut vms: Vec<VmPlan> = (0..1 + rng.below(3))
            .map(|number| VmPlan::new(number, only[rng.below(only.len() as u64) as usize], &mut rng))
            .collect();
        // Of a seed all else is as it was before there were ordered write-back and pairs.
        let mut order = Rng::part(seed, ORDERED_PART);
        if order.chance(40) {
            vms.iter_mut().filter(|vm| vm.ssd_bytes > 0).for_each(|vm| vm.order(&mut order));
        }
        let has_read_ssd = vms.iter().any(|vm| vm.read_ssd_bytes > 0);
        // With large blocks a volume's reserve is so large that a small SSD would not do. One that has room to spare lends it to
        // volumes, and then places are hardly ever used again soon.
        let shares_mib: u64 = vms.iter().map(|vm| vm.ssd_bytes / MIB + 4).sum();
        let (block, ssd_mib) = match rng.below(6) {
            0 => ("64KiB", 192),
            1 => ("16KiB", 96),
            2 => ("4KiB", 48),
            _ => ("4KiB", shares_mib + 2),
        };
        Ok(Plan {
            seed,
            ssd_bytes: ssd_mib * MIB,
            read_ssd_bytes: if has_read_ssd { 128 * MIB } else { 0 },
            block: block.to_owned(),
            vms,
            shards: 1 + rng.below(2),
            io: if rng.chance(75) { "auto" } else { "threads" }.to_owned(),
            keeps_records: rng.chance(80),
            is_pair: Rng::part(seed, PAIR_PART).chance(25),
        })
    }

    /// Puts a VM under another scheme that uses the same levels, if there is one.
    pub fn change_a_scheme(&mut self, schemes: &[Scheme], rng: &mut Rng) {
        let vm = rng.below(self.vms.len() as u64) as usize;
        let vm = &mut self.vms[vm];
        let levels = |name: &str| schemes.iter().find(|one| one.name == name).map(|one| &one.levels);
        let others: Vec<&Scheme> = schemes
            .iter()
            .filter(|one| Some(&one.levels) == levels(&vm.scheme) && one.name != vm.scheme)
            .collect();
        if !others.is_empty() {
            vm.scheme.clone_from(&others[rng.below(others.len() as u64) as usize].name);
        }
    }

    /// The same, where all VMs that can have ordered write-back.
    pub fn in_order(mut self) -> Plan {
        let mut order = Rng::part(self.seed, ORDERED_PART);
        self.vms.iter_mut().filter(|vm| vm.ssd_bytes > 0).for_each(|vm| vm.order(&mut order));
        self
    }

    /// Sizes of the devices: the cache SSD, the disks, the read SSD if there is one, the other one of a pair if it is one, the redo
    /// logs.
    pub fn device_bytes(&self) -> Vec<u64> {
        let disks = self.vms.iter().map(|vm| vm.disk_bytes);
        let read_ssd = (self.read_ssd_bytes > 0).then_some(self.read_ssd_bytes);
        let ssd_bytes = if self.is_pair { self.ssd_bytes + LABEL_BYTES } else { self.ssd_bytes };
        let mirror = self.is_pair.then_some(ssd_bytes);
        let logs = self.vms.iter().filter(|vm| vm.is_ordered).map(|_| REDO_BYTES);
        [ssd_bytes].into_iter().chain(disks).chain(read_ssd).chain(mirror).chain(logs).collect()
    }

    /// The number of the device that is a VM's disk.
    pub fn disk_of(&self, vm: usize) -> usize {
        vm + 1
    }

    /// The number of the read SSD.
    pub fn read_ssd(&self) -> Option<usize> {
        (self.read_ssd_bytes > 0).then_some(self.vms.len() + 1)
    }

    /// The number of the other one of a pair of cache SSDs.
    pub fn mirror(&self) -> Option<usize> {
        self.is_pair.then(|| self.vms.len() + 1 + usize::from(self.read_ssd_bytes > 0))
    }

    /// The number of the device with a VM's redo log, if its write-back is ordered.
    pub fn redo_of(&self, vm: usize) -> Option<usize> {
        let before = self.vms[..vm].iter().filter(|vm| vm.is_ordered).count();
        let others = self.vms.len() + 1 + usize::from(self.read_ssd_bytes > 0) + usize::from(self.is_pair);
        self.vms[vm].is_ordered.then_some(others + before)
    }

    /// The numbers of the devices with redo logs.
    pub fn redo_logs(&self) -> impl Iterator<Item = usize> {
        (0..self.vms.len()).filter_map(|vm| self.redo_of(vm))
    }

    /// The numbers of all SSDs, those of the cache and for reading.
    pub fn ssds(&self) -> impl Iterator<Item = usize> {
        [0].into_iter().chain(self.read_ssd()).chain(self.mirror())
    }

    /// VMs and their schemes, for people.
    pub fn describe(&self) -> String {
        let name = |vm: &VmPlan| vm.scheme.clone() + if vm.is_ordered { " in order" } else { "" };
        let vms: Vec<String> = self.vms.iter().map(name).collect();
        let records = if self.keeps_records { "" } else { ", without records in memory" };
        let (ssd_mib, block) = (self.ssd_bytes / MIB, &self.block);
        let pair = if self.is_pair { "a pair of " } else { "" };
        format!("{} on {pair}{ssd_mib} MiB with blocks of {block}, io {}{records}", vms.join(" + "), self.io)
    }

    /// The configuration of a host whose devices are at these paths and whose other files are in `folder`.
    pub fn configuration(&self, folder: &Path, devices: &[std::path::PathBuf]) -> String {
        let folder = folder.display();
        let shm = if self.keeps_records { format!("{folder}/shm") } else { "none".to_owned() };
        let mut text = format!(
            "name = \"attack\"\nstate_dir = \"{folder}/state\"\nshm_dir = \"{shm}\"\ncontrol = \"{folder}/control.sock\"\n\
             shards = {}\nio = \"{}\"\n\n[ssd]\npath = \"{}\"\n",
            self.shards,
            self.io,
            devices[0].display()
        );
        if let Some(number) = self.mirror() {
            text += &format!("mirror = \"{}\"\n", devices[number].display());
        }
        if let Some(number) = self.read_ssd() {
            text += &format!("\n[read_ssd]\npath = \"{}\"\n", devices[number].display());
        }
        for (number, vm) in self.vms.iter().enumerate() {
            let VmPlan { name, scheme, writeback, .. } = vm;
            let redo = self.redo_of(number).map(|device| devices[device].display());
            let redo = redo.map_or_else(String::new, |path| format!(", redo = \"{path}\""));
            text += &format!(
                "\n[[vm]]\nname = \"{name}\"\n\
                 backing = {{ path = \"{}\", sidecar = \"{folder}/state/{name}.sidecar\"{redo} }}\nscheme = \"{scheme}\"\nwriteback = {writeback}\n\
                 listen = [\"unix:{folder}/{name}.sock\"]\n",
                devices[self.disk_of(number)].display()
            );
            let levels = [("dram", vm.dram_bytes), ("ssd", vm.ssd_bytes), ("read_ssd", vm.read_ssd_bytes)];
            for (level, bytes) in levels.into_iter().filter(|(_, bytes)| *bytes > 0) {
                text += &format!("{level} = {bytes}\n");
            }
        }
        text
    }
}

impl VmPlan {
    fn new(number: u64, scheme: &Scheme, rng: &mut Rng) -> VmPlan {
        let share = |level: &str, mib: u64| if scheme.uses(level) { mib * MIB } else { 0 };
        VmPlan {
            name: format!("vm{number}"),
            disk_bytes: (4 + 2 * rng.below(3)) * MIB,
            scheme: scheme.name.clone(),
            dram_bytes: share("dram", 1 + rng.below(2)),
            ssd_bytes: share("ssd", 2 + rng.below(4)),
            read_ssd_bytes: share("read-ssd", 2 + rng.below(4)),
            writeback: WRITE_BACK[rng.below(4) as usize].to_owned(),
            is_ordered: false,
        }
    }

    fn order(&mut self, rng: &mut Rng) {
        self.is_ordered = true;
        ORDERED[rng.below(3) as usize].clone_into(&mut self.writeback);
    }
}
