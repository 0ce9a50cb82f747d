//! Profiles as texts that can be edited and given back. It must not know files.

use toml::Value;

use super::figure::{Figure, Figures};
use super::{Catalogue, DiskKind};
use crate::{Drive, Host, Raid};

/// What a name gets in front that the catalogue has already.
const OWN: &str = "my-";

impl Host {
    /// A profile of this host with all its devices, which [`Host::parse`] understands: the host has its own name, or one that
    /// begins with `my-` where that is one of `known`; its devices are called as it is.
    pub fn profile(&self, known: &Catalogue) -> String {
        let name = known.own_name(&self.name);
        let name = name.as_str();
        let Host { dram, ssd, ssd_copies, read_ssd, drive, backing, .. } = self;
        let read = format!("{name}-read");
        let mut host = vec![("dram", text(name)), ("ssd", text(name))];
        host.push(("ssd_copies", ssd_copies.to_string()));
        host.extend(read_ssd.as_ref().map(|_| ("read_ssd", text(&read))));
        host.extend(drive.as_ref().map(|_| ("drive", text(name))));
        host.push(("backing", text(name)));
        let mut all = section("host", name, (&self.about, &self.source), &host);
        all += &device("dram", name, (&dram.about, &dram.source), dram);
        all += &device("ssd", name, (&ssd.about, &ssd.source), ssd);
        if let Some(ssd) = read_ssd {
            all += &device("ssd", &read, (&ssd.about, &ssd.source), ssd);
        }
        all += &drive.as_ref().map(|drive| drive_section(drive, name)).unwrap_or_default();
        let mut array = vec![("disk", text(name)), ("raid", text(raid_name(backing.raid)))];
        array.push(("disks", backing.disks.to_string()));
        array.extend(backing.span_gb.map(|gb| ("span_gb", format!("{gb:?}"))));
        array.extend(backing.network.as_ref().map(|_| ("network", text(name))));
        all += &section("backing", name, (&backing.about, &backing.source), &array);
        all += &match &backing.disk {
            DiskKind::FixedDisk(disk) => device("fixed_disk", name, (&disk.about, &disk.source), disk),
            DiskKind::Hdd(disk) => device("hdd", name, (&disk.about, &disk.source), disk),
        };
        let way = backing.network.as_ref();
        all + &way.map(|way| device("network", name, (&way.about, &way.source), way)).unwrap_or_default()
    }
}

impl Drive {
    /// The same of a drive, which [`Drive::parse`] understands.
    pub fn profile(&self, known: &Catalogue) -> String {
        drive_section(self, &known.own_name(&self.name))
    }
}

impl Catalogue {
    /// The name itself, or one that is not taken.
    fn own_name(&self, name: &str) -> String {
        let is_taken = |name: &str| {
            self.dram.contains_key(name)
                || self.ssd.contains_key(name)
                || self.disk.contains_key(name)
                || self.network.contains_key(name)
                || self.backing.contains_key(name)
                || self.drive.contains_key(name)
                || self.host.contains_key(name)
        };
        let mut own = name.to_owned();
        while is_taken(&own) || is_taken(&format!("{own}-read")) {
            own.insert_str(0, OWN);
        }
        own
    }
}

fn raid_name(raid: Raid) -> &'static str {
    match raid {
        Raid::None => "none",
        Raid::Raid5 => "raid5",
        Raid::Raid6 => "raid6",
        Raid::Raid10 => "raid10",
    }
}

fn drive_section(drive: &Drive, name: &str) -> String {
    let mut keys = vec![("price_date", text(&drive.price_date))];
    let figures = drive.figures();
    keys.extend(figures.iter().map(|figure| (figure.key, number(figure))));
    section("drive", name, (&drive.about, &drive.source), &keys)
}

fn device(kind: &str, name: &str, words: (&str, &str), device: &dyn Figures) -> String {
    let figures = device.figures();
    let keys: Vec<_> = figures.iter().map(|figure| (figure.key, number(figure))).collect();
    section(kind, name, words, &keys)
}

fn section(kind: &str, name: &str, (about, source): (&str, &str), keys: &[(&str, String)]) -> String {
    let mut all = format!("[{kind}.{}]\nabout = {}\nsource = {}\n", key(name), text(about), text(source));
    keys.iter().for_each(|(key, value)| all += &format!("{key} = {value}\n"));
    all + "\n"
}

/// A number as TOML reads back exactly.
fn number(figure: &Figure) -> String {
    format!("{:?}", figure.value)
}

fn text(text: &str) -> String {
    Value::from(text).to_string()
}

/// A name as a part of a key.
fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !name.is_empty() && name.chars().all(is_bare) { name.to_owned() } else { text(name) }
}
