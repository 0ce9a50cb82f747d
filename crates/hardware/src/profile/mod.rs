//! Device profiles: from TOML to checked devices and hosts. It must not know files; a profile is a text.
//!
//! A profile has sections `[dram.NAME]`, `[ssd.NAME]`, `[fixed_disk.NAME]`, `[hdd.NAME]`, `[network.NAME]`,
//! `[backing.NAME]`,
//! `[drive.NAME]` and `[host.NAME]`; a backing names disks and network, a host names its devices. `docs/hardware.md`
//! lists the keys.

pub(crate) mod figure;
mod text;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

pub use self::figure::Figure;
use self::figure::Figures;
use crate::{Backing, DiskKind, Dram, Drive, HardwareError, Host, Network, Raid, Ssd};

/// Most bytes of a profile.
pub const MAX_PROFILE_BYTES: usize = 1 << 20;

/// SSDs that can hold copies of each other.
const MAX_SSD_COPIES: u32 = 16;

/// The profiles that come with the program.
const BUILT_IN: [&str; 5] = [
    include_str!("../../profiles/dram.toml"),
    include_str!("../../profiles/ssd.toml"),
    include_str!("../../profiles/backing.toml"),
    include_str!("../../profiles/drive.toml"),
    include_str!("../../profiles/host.toml"),
];

/// Devices and hosts by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalogue {
    dram: BTreeMap<String, Dram>,
    ssd: BTreeMap<String, Ssd>,
    disk: BTreeMap<String, DiskKind>,
    network: BTreeMap<String, Network>,
    backing: BTreeMap<String, RawBacking>,
    drive: BTreeMap<String, Drive>,
    host: BTreeMap<String, RawHost>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBacking {
    about: String,
    source: String,
    #[serde(default)]
    raid: Raid,
    #[serde(default = "one")]
    disks: u32,
    span_gb: Option<f64>,
    disk: String,
    network: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHost {
    about: String,
    source: String,
    dram: String,
    ssd: String,
    #[serde(default = "one")]
    ssd_copies: u32,
    read_ssd: Option<String>,
    drive: Option<String>,
    backing: String,
}

fn one() -> u32 {
    1
}

impl Catalogue {
    /// What comes with the program.
    ///
    /// # Errors
    /// None, unless the program was built with a damaged profile; a test reads them all.
    pub fn built_in() -> Result<Catalogue, HardwareError> {
        let mut catalogue = Catalogue::default();
        BUILT_IN.iter().try_for_each(|text| catalogue.add(text).map(|_| ()))?;
        Ok(catalogue)
    }

    /// Adds a profile's devices and hosts; says which hosts it has. Names must be new.
    ///
    /// # Errors
    /// Whatever is wrong with the text: [`HardwareError`] but [`HardwareError::Hosts`]. Names that stand for nothing
    /// are found by [`Catalogue::host`].
    pub fn add(&mut self, text: &str) -> Result<Vec<String>, HardwareError> {
        if text.len() > MAX_PROFILE_BYTES {
            return Err(HardwareError::TooLarge { bytes: text.len() });
        }
        let table: Table = toml::from_str(text).map_err(|error: toml::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            HardwareError::Syntax {
                line: before.matches('\n').count() + 1,
                message: error.message().to_owned(),
            }
        })?;
        let mut hosts = Vec::new();
        for (section, value) in table {
            let entries = entries(&section, value)?;
            match section.as_str() {
                "dram" => insert(&mut self.dram, entries, &section, check_figures)?,
                "ssd" => insert(&mut self.ssd, entries, &section, |path, ssd: &Ssd| {
                    check_figures(path, ssd)?;
                    ssd.check(path)
                })?,
                "fixed_disk" | "hdd" => self.add_disks(entries, &section)?,
                "network" => insert(&mut self.network, entries, &section, check_figures)?,
                "backing" => insert(&mut self.backing, entries, &section, |_, _| Ok(()))?,
                "drive" => insert(&mut self.drive, entries, &section, |path, drive: &Drive| {
                    check_figures(path, drive)?;
                    drive.check(path)
                })?,
                "host" => {
                    hosts.extend(entries.iter().map(|(name, _)| name.clone()));
                    insert(&mut self.host, entries, &section, check_host)?;
                }
                _ => {
                    let message =
                        "there are dram, ssd, fixed_disk, hdd, network, backing, drive and host".to_owned();
                    return Err(HardwareError::Key { path: section, message });
                }
            }
        }
        Ok(hosts)
    }

    fn add_disks(&mut self, entries: Vec<(String, Value)>, section: &str) -> Result<(), HardwareError> {
        if section == "hdd" {
            let mut hdds = BTreeMap::new();
            insert(&mut hdds, entries, section, |path, hdd: &crate::Hdd| {
                check_figures(path, hdd)?;
                hdd.check(path)
            })?;
            return self.merge_disks(hdds, section, DiskKind::Hdd);
        }
        let mut fixed = BTreeMap::new();
        insert(&mut fixed, entries, section, check_figures)?;
        self.merge_disks(fixed, section, DiskKind::FixedDisk)
    }

    fn merge_disks<T>(
        &mut self,
        disks: BTreeMap<String, T>,
        section: &str,
        kind: fn(T) -> DiskKind,
    ) -> Result<(), HardwareError> {
        for (name, disk) in disks {
            let path = format!("{section}.{name}");
            put(&mut self.disk, name, path, kind(disk))?;
        }
        Ok(())
    }

    /// The hosts' names, in order.
    pub fn host_names(&self) -> impl Iterator<Item = &str> {
        self.host.keys().map(String::as_str)
    }

    /// The drives' names, in order.
    pub fn drive_names(&self) -> impl Iterator<Item = &str> {
        self.drive.keys().map(String::as_str)
    }

    /// A drive that one can buy.
    ///
    /// # Errors
    /// [`HardwareError::Unknown`] with the names that there are.
    pub fn drive(&self, name: &str) -> Result<Drive, HardwareError> {
        let drive = find(&self.drive, "drive", name)?.clone();
        Ok(Drive { name: name.to_owned(), ..drive })
    }

    /// A host with its devices.
    ///
    /// # Errors
    /// [`HardwareError::Unknown`] when it, or a device that it names, does not exist; [`HardwareError::Key`] and
    /// [`HardwareError::Range`] for an array that cannot be.
    pub fn host(&self, name: &str) -> Result<Host, HardwareError> {
        let raw = find(&self.host, "host", name)?;
        let read_ssd = raw.read_ssd.as_ref().map(|ssd| find(&self.ssd, "ssd", ssd)).transpose()?;
        let drive = raw.drive.as_ref().map(|drive| self.drive(drive)).transpose()?;
        let host = Host {
            name: name.to_owned(),
            about: raw.about.clone(),
            source: raw.source.clone(),
            dram: find(&self.dram, "dram", &raw.dram)?.clone(),
            ssd: find(&self.ssd, "ssd", &raw.ssd)?.clone(),
            ssd_copies: raw.ssd_copies,
            read_ssd: read_ssd.cloned(),
            drive: None,
            backing: self.backing(&raw.backing)?,
        };
        Ok(match drive {
            Some(drive) => host.with_drive(drive),
            None => host,
        })
    }

    fn backing(&self, name: &str) -> Result<Backing, HardwareError> {
        let raw = find(&self.backing, "backing", name)?;
        let network =
            raw.network.as_ref().map(|network| find(&self.network, "network", network)).transpose()?;
        let backing = Backing {
            name: name.to_owned(),
            about: raw.about.clone(),
            source: raw.source.clone(),
            raid: raw.raid,
            disks: raw.disks,
            span_gb: raw.span_gb,
            disk: find(&self.disk, "fixed_disk or hdd", &raw.disk)?.clone(),
            network: network.cloned(),
        };
        backing.check(&format!("backing.{name}"))?;
        Ok(backing)
    }
}

fn check_figures(path: &str, device: &impl Figures) -> Result<(), HardwareError> {
    device.figures().iter().try_for_each(|figure| figure.check(path))
}

fn check_host(path: &str, host: &RawHost) -> Result<(), HardwareError> {
    if (1..=MAX_SSD_COPIES).contains(&host.ssd_copies) {
        return Ok(());
    }
    Err(HardwareError::Range {
        path: format!("{path}.ssd_copies"),
        value: host.ssd_copies.into(),
        least: 1.0,
        most: MAX_SSD_COPIES.into(),
    })
}

/// The named tables of a section.
fn entries(section: &str, value: Value) -> Result<Vec<(String, Value)>, HardwareError> {
    let Value::Table(table) = value else {
        let message = format!("should be a table; write [{section}.NAME]");
        return Err(HardwareError::Key { path: section.to_owned(), message });
    };
    Ok(table.into_iter().collect())
}

/// Reads, checks and adds the tables of a section.
fn insert<T: DeserializeOwned>(
    devices: &mut BTreeMap<String, T>,
    entries: Vec<(String, Value)>,
    section: &str,
    check: impl Fn(&str, &T) -> Result<(), HardwareError>,
) -> Result<(), HardwareError> {
    for (name, value) in entries {
        let path = format!("{section}.{name}");
        let device = value.try_into::<T>().map_err(|error: toml::de::Error| {
            // The message says which key; its last line, if any, where inside the table.
            let message = error.to_string().trim_end().replace('\n', " ");
            HardwareError::Key { path: path.clone(), message }
        })?;
        check(&path, &device)?;
        put(devices, name, path, device)?;
    }
    Ok(())
}

fn put<T>(
    devices: &mut BTreeMap<String, T>,
    name: String,
    path: String,
    device: T,
) -> Result<(), HardwareError> {
    if devices.contains_key(&name) {
        let message =
            "the name is taken, perhaps by a profile that comes with lode; choose another".to_owned();
        return Err(HardwareError::Key { path, message });
    }
    devices.insert(name, device);
    Ok(())
}

fn find<'a, T>(
    devices: &'a BTreeMap<String, T>,
    kind: &'static str,
    name: &str,
) -> Result<&'a T, HardwareError> {
    devices.get(name).ok_or_else(|| HardwareError::Unknown {
        kind,
        name: name.to_owned(),
        known: devices.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
    })
}
