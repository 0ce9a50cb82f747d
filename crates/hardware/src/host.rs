//! The devices of one host, and what a run costs on them. It must not know what ran.

use lode_types::BlockSize;
use serde::Serialize;

use crate::cost::devices;
use crate::profile::figure::Figures;
use crate::profile::{Catalogue, Figure};
use crate::time::SECOND_NS;
use crate::{
    Backing, DiskKind, Dram, Drive, Drives, Energy, HardwareError, LevelCost, Operations, ServiceTimes, Ssd,
    energy_j, service::ns_of, unreliability, unreliability_hybrid,
};

/// A host: memory and SSDs for the cache levels, and the storage behind them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Host {
    /// Its name in the profile.
    pub name: String,
    /// What it is.
    pub about: String,
    /// Where the choice of devices comes from.
    pub source: String,
    /// Memory.
    pub dram: Dram,
    /// One of the SSDs.
    pub ssd: Ssd,
    /// SSDs on which each cached block is: 2 when they mirror each other.
    pub ssd_copies: u32,
    /// The SSD of the read SSD level, where it is of another kind; see [`Host::read_ssd`].
    pub read_ssd: Option<Ssd>,
    /// The drives that the SSDs are bought as: whole ones, which cost and last. Without it an SSD has any size. See
    /// [`Host::with_drive`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drive: Option<Drive>,
    /// What lies behind the cache.
    pub backing: Backing,
}

/// What a profile says of one device.
#[derive(Clone, Debug, PartialEq)]
pub struct Sheet<'a> {
    /// What the device is to the host: `dram`, `ssd`, `read_ssd`, `drive`, `backing`, `disk`, `network`.
    pub kind: &'static str,
    /// What it is.
    pub about: &'a str,
    /// Where the figures come from.
    pub source: &'a str,
    /// All of them.
    pub figures: Vec<Figure>,
}

/// What a host was asked to do in a span of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostLoad {
    /// Size of a block.
    pub block: BlockSize,
    /// Size of the DRAM level.
    pub dram_bytes: u64,
    /// Size of the SSD level, as the cache sees it: without the copies.
    pub ssd_bytes: u64,
    /// Size of the read SSD level.
    pub read_ssd_bytes: u64,
    /// How long it took.
    pub span_ns: u64,
    /// What was done, in blocks.
    pub operations: Operations,
}

/// Shares of the time that devices needed at least, were they never idle. Above 1 the devices cannot keep up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Utilisation {
    /// Of the SSDs, at full queues.
    pub ssd: f64,
    /// Of the SSDs of the read SSD level.
    pub read_ssd: f64,
    /// Of the backing disks, each with one command at a time.
    pub backing: f64,
}

impl Host {
    /// A host of the built-in catalogue.
    ///
    /// # Errors
    /// [`HardwareError::Unknown`] with the names that there are.
    pub fn find(name: &str) -> Result<Host, HardwareError> {
        Catalogue::built_in()?.host(name)
    }

    /// The one host of a user's profile, which may use devices of the built-in catalogue.
    ///
    /// # Errors
    /// [`HardwareError`]: whatever is wrong with the text.
    pub fn parse(text: &str) -> Result<Host, HardwareError> {
        let mut catalogue = Catalogue::built_in()?;
        match &catalogue.add(text)?[..] {
            [name] => catalogue.host(name),
            names => Err(HardwareError::Hosts { hosts: names.len() }),
        }
    }

    /// The same host with its SSD bought as such drives: their capacity, price and endurance are those of its SSD, which stays
    /// as fast as it is. The read SSD is one of them, too, unless it is of a kind of its own.
    pub fn with_drive(mut self, drive: Drive) -> Host {
        self.ssd = Ssd {
            device_gb: Some(drive.capacity_gb),
            usd_per_gb: drive.usd / drive.capacity_gb,
            writes_per_gb: None,
            dwpd: Some(drive.drive_writes_per_day()),
            warranty_years: Some(drive.warranty_years),
            ..self.ssd
        };
        self.drive = Some(drive);
        self
    }

    /// Whole drives that an SSD level of this size takes, with all copies; none where it takes none or has any size.
    pub fn ssd_drives(&self, ssd_bytes: u64) -> Option<Drives> {
        let drive = self.drive.as_ref().filter(|_| ssd_bytes > 0)?;
        let count = drive.count(ssd_bytes).saturating_mul(self.ssd_copies.into());
        Some(Drives {
            drive: drive.name.clone(),
            count,
            price_date: drive.price_date.clone(),
            words: drive.in_words(count),
        })
    }

    /// What is bought for an SSD level of this size: the capacity of whole drives, of one copy.
    pub fn bought_ssd_bytes(&self, ssd_bytes: u64) -> u64 {
        let whole = |drive: &Drive| drive.count(ssd_bytes).saturating_mul(drive.capacity_bytes());
        self.drive.as_ref().map_or(ssd_bytes, whole)
    }

    /// The same for a read SSD level.
    fn bought_read_ssd_bytes(&self, read_ssd_bytes: u64) -> u64 {
        if self.read_ssd.is_some() { read_ssd_bytes } else { self.bought_ssd_bytes(read_ssd_bytes) }
    }

    /// What the profile says of each of its devices.
    pub fn sheets(&self) -> Vec<Sheet<'_>> {
        fn sheet<'a>(kind: &'static str, about: &'a str, source: &'a str, device: &dyn Figures) -> Sheet<'a> {
            Sheet { kind, about, source, figures: device.figures() }
        }
        let Host { dram, ssd, read_ssd, drive, backing, .. } = self;
        let mut sheets =
            vec![sheet("dram", &dram.about, &dram.source, dram), sheet("ssd", &ssd.about, &ssd.source, ssd)];
        sheets.extend(read_ssd.as_ref().map(|ssd| sheet("read_ssd", &ssd.about, &ssd.source, ssd)));
        sheets.extend(drive.as_ref().map(|drive| sheet("drive", &drive.about, &drive.source, drive)));
        sheets.push(sheet("backing", &backing.about, &backing.source, backing));
        sheets.push(match &backing.disk {
            DiskKind::FixedDisk(disk) => sheet("disk", &disk.about, &disk.source, disk),
            DiskKind::Hdd(disk) => sheet("disk", &disk.about, &disk.source, disk),
        });
        let way = backing.network.as_ref();
        sheets.extend(way.map(|way| sheet("network", &way.about, &way.source, way)));
        sheets
    }

    /// The SSD of the read SSD level, for schemes that have one: one of its own kind, or where the profile names none,
    /// another one like [`Host::ssd`].
    pub fn read_ssd(&self) -> &Ssd {
        self.read_ssd.as_ref().unwrap_or(&self.ssd)
    }

    /// Times of commands of one block.
    pub fn service_times(&self, block: BlockSize) -> ServiceTimes {
        ServiceTimes {
            dram_ns: ns_of(self.dram.access_us),
            ssd_read_ns: self.ssd.read_ns(block.bytes()),
            ssd_write_ns: self.ssd.write_ns(block.bytes()),
            read_ssd_read_ns: self.read_ssd().read_ns(block.bytes()),
            read_ssd_write_ns: self.read_ssd().write_ns(block.bytes()),
            backing: self.backing.times(block.bytes()),
        }
    }

    /// Price of levels of these sizes, with all copies of the SSD level; of whole drives, where the SSDs are bought as such.
    pub fn cost_usd(&self, dram_bytes: u64, ssd_bytes: u64, read_ssd_bytes: u64) -> LevelCost {
        let dram = self.dram.cost_usd(dram_bytes);
        let of_drives = |bytes: u64| self.drive.as_ref().map(|drive| drive.count(bytes) as f64 * drive.usd);
        let one_copy = of_drives(ssd_bytes).unwrap_or_else(|| self.ssd.cost_usd(ssd_bytes));
        let ssd = one_copy * f64::from(self.ssd_copies);
        let read_ssd = match (&self.read_ssd, of_drives(read_ssd_bytes)) {
            (None, Some(usd)) => usd,
            _ => self.read_ssd().cost_usd(read_ssd_bytes),
        };
        LevelCost { dram, ssd, read_ssd, total: dram + ssd + read_ssd }
    }

    /// Years until new SSDs of a level of this size have taken all writes that they may take, when so many bytes are
    /// written to the level in a second, again and again. Each copy takes every write. Of whole drives all of their capacity counts,
    /// as they wear evenly. `None` when nothing is written.
    pub fn ssd_life_years(&self, ssd_bytes: u64, written_bytes_per_s: f64) -> Option<f64> {
        self.ssd.years_left(self.bought_ssd_bytes(ssd_bytes), 0.0, written_bytes_per_s)
    }

    /// [`Host::ssd_life_years`] of the read SSD level.
    pub fn read_ssd_life_years(&self, read_ssd_bytes: u64, written_bytes_per_s: f64) -> Option<f64> {
        self.read_ssd().years_left(self.bought_read_ssd_bytes(read_ssd_bytes), 0.0, written_bytes_per_s)
    }

    /// Energy of a run, in joules, by TICA's Eq. 2, with backing disks: operations times latency times power, and the
    /// rest of the span times idle power. Devices are whole: a level uses as many as its size needs.
    pub fn energy_j(&self, load: &HostLoad) -> Energy {
        let times = self.service_times(load.block);
        let (span_s, operations) = (seconds(load.span_ns), &load.operations);
        let spent = |count: u64, ns: u64| count as f64 * seconds(ns);
        let device = |power, read_s: f64, write_s: f64, devices: f64| {
            let idle_s = (devices * span_s - read_s - write_s).max(0.0);
            energy_j(power, read_s, write_s, idle_s)
        };
        let copies = f64::from(self.ssd_copies);
        let dram = device(
            &self.dram.power_w,
            spent(operations.dram_reads, times.dram_ns),
            spent(operations.dram_writes, times.dram_ns),
            devices(self.dram.device_gb, load.dram_bytes),
        );
        let ssd = device(
            &self.ssd.power_w,
            spent(operations.ssd_reads, times.ssd_read_ns),
            spent(operations.ssd_writes, times.ssd_write_ns) * copies,
            devices(self.ssd.device_gb, load.ssd_bytes) * copies,
        );
        let read_ssd = device(
            &self.read_ssd().power_w,
            spent(operations.read_ssd_reads, times.read_ssd_read_ns),
            spent(operations.read_ssd_writes, times.read_ssd_write_ns),
            devices(self.read_ssd().device_gb, load.read_ssd_bytes),
        );
        let backing = self.backing.energy_j(self.backing_work_s(operations, &times), span_s);
        Energy::new(dram, ssd, read_ssd, backing)
    }

    /// How busy a run kept the devices; `None` in no time.
    pub fn utilisation(&self, load: &HostLoad) -> Option<Utilisation> {
        (load.span_ns > 0).then_some(())?;
        let times = self.service_times(load.block);
        let (span_s, operations, block) = (seconds(load.span_ns), &load.operations, load.block.bytes());
        // Any copy serves a read, every copy takes a write. More SSDs serve more at once.
        let copies = f64::from(self.ssd_copies);
        let (reads, writes) = (operations.ssd_reads as f64 / copies, operations.ssd_writes as f64);
        let of_read_ssd = (operations.read_ssd_reads as f64, operations.read_ssd_writes as f64);
        let least_s = |ssd: &Ssd, level_bytes: u64, (reads, writes): (f64, f64)| {
            let each = devices(ssd.device_gb, level_bytes).max(1.0);
            ssd.least_s(reads / each, writes / each, block)
        };
        let bytes = operations.backing_reads.saturating_add(operations.backing_writes) as f64 * block as f64;
        let work_s = self.backing_work_s(operations, &times);
        Some(Utilisation {
            ssd: least_s(&self.ssd, load.ssd_bytes, (reads, writes)) / span_s,
            read_ssd: least_s(self.read_ssd(), load.read_ssd_bytes, of_read_ssd) / span_s,
            backing: self.backing.least_s(work_s, bytes) / span_s,
        })
    }

    /// Share of a time, above 0, that the backing disks worked, which worked `work_ns` added up over them.
    pub fn backing_busy(&self, work_ns: u64, span_ns: u64) -> f64 {
        self.backing.least_s(seconds(work_ns), 0.0) / seconds(span_ns)
    }

    /// Chance of losing dirty data, which are on all copies of the SSD, within a mission (TICA, Eq. 5 for two).
    pub fn dirty_loss(&self, mission_h: f64) -> f64 {
        let copies = self.ssd_copies.min(i32::MAX as u32) as i32;
        unreliability(self.ssd.mttf_h, mission_h).powi(copies)
    }

    /// Chance of losing dirty data, which are on the SSD and besides for a share `in_dram` of the time in DRAM, else on
    /// the read SSD, within a mission (TICA, Eq. 4).
    pub fn mirrored_loss(&self, in_dram: f64, mission_h: f64) -> f64 {
        let fails = |mttf_h| unreliability(mttf_h, mission_h);
        let (ssd, read_ssd) = (fails(self.ssd.mttf_h), fails(self.read_ssd().mttf_h));
        unreliability_hybrid(in_dram, ssd, read_ssd, fails(self.dram.mttf_h))
    }

    /// Time that the backing disks work, added up over them.
    fn backing_work_s(&self, operations: &Operations, times: &ServiceTimes) -> f64 {
        let random = || times.backing.random_work_ns(operations.backing_reads, operations.backing_writes);
        seconds(operations.backing_work_ns.unwrap_or_else(random))
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / SECOND_NS
}
