//! Profiles: the built-in ones, and bad ones from users.

use lode_hardware::{Catalogue, HardwareError, Host, MAX_PROFILE_BYTES, ServiceTimes};
use lode_types::BlockSize;
use proptest::prelude::*;

const HOST: &str = "[host.mine]\nabout = 'a'\nsource = 's'\ndram = 'ddr4'\nssd = 'sata'\nbacking = 'disk'\n";
const SSD: &str = "[ssd.mine]\nabout = 'a'\nsource = 's'\nread_us = 90.0\nwrite_us = 30\nqueue_depth = 32.0\n\
    power_w = { read = 3.0, write = 3.0, idle = 1.0 }\nusd_per_gb = 0.1\nmttf_h = 2e6\ndwpd = 1.0\n\
    warranty_years = 5.0\nwrite_amplification = 1.0\n";
const HDD: &str = "[hdd.mine]\nabout = 'a'\nsource = 's'\nrpm = 7200.0\nseek_track_us = 500.0\n\
    seek_mean_us = 8500.0\nseek_full_us = 16000.0\ntransfer_mb_per_s = 180.0\noverhead_us = 50.0\n\
    capacity_gb = 4000.0\nactive_w = 8.0\nidle_w = 5.0\nusd_per_gb = 0.03\n\
    [backing.mine]\nabout = 'a'\nsource = 's'\ndisk = 'mine'\n";

#[test]
fn every_built_in_host_is_complete_and_says_its_sources() {
    let catalogue = Catalogue::built_in().expect("the built-in profiles");
    let names: Vec<_> = catalogue.host_names().collect();
    for name in ["default", "default-raid5", "sata-raid5", "nvme-hdd", "nvme-cluster", "tica-wo", "ucache"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    for name in names {
        let host = catalogue.host(name).expect("a complete host");
        let disk_source = match &host.backing.disk {
            lode_hardware::DiskKind::FixedDisk(disk) => &disk.source,
            lode_hardware::DiskKind::Hdd(disk) => &disk.source,
        };
        for source in [&host.source, &host.dram.source, &host.ssd.source, &host.backing.source, disk_source] {
            assert!(!source.is_empty(), "{name}");
        }
        assert!(host.backing.usd_per_data_gb() > 0.0);
    }
}

#[test]
fn the_default_host_is_the_default_model_at_every_block_size() {
    let (host, raid5) =
        (Host::find("default").expect("a host"), Host::find("default-raid5").expect("a host"));
    for bytes in [4096, 65_536] {
        let block = BlockSize::new(bytes).expect("a size");
        assert_eq!(host.service_times(block), ServiceTimes::default());
        let (one, five) = (ServiceTimes::default().backing, raid5.service_times(block).backing);
        assert_eq!(five.random_write.ns, 2 * one.random_write.ns);
        assert_eq!(
            (five.random_read, five.sequential_read, five.sequential_write),
            (one.random_read, one.sequential_read, one.sequential_write)
        );
    }
}

#[test]
fn users_combine_their_devices_with_the_built_in_ones() {
    let host = Host::parse(HOST).expect("a profile");
    assert_eq!((&host.name[..], host.ssd_copies, &host.backing.name[..]), ("mine", 1, "disk"));
    let own = HOST.replace("'sata'", "'mine'").replace("'disk'", "'mine'");
    let host = Host::parse(&format!("{own}ssd_copies = 2\n{SSD}{HDD}")).expect("a profile");
    assert_eq!((host.ssd.read_us, host.ssd.write_us, host.ssd_copies), (90.0, 30.0, 2));
    assert_eq!((host.backing.disks, &host.backing.network), (1, &None));
    // Without one of its own, the read SSD is another one like the SSD.
    assert_eq!(host.read_ssd().read_us, 90.0);
    let two = Host::parse(&format!("{own}read_ssd = 'tica-ro'\n{SSD}{HDD}")).expect("a profile");
    assert_eq!((two.ssd.read_us, two.read_ssd().read_us, two.sheets().len()), (90.0, 120.0, 5));
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let own = HOST.replace("'sata'", "'mine'").replace("'disk'", "'mine'") + SSD + HDD;
    assert!(Host::parse(&own).is_ok());
    for (from, to, expected) in [
        ("queue_depth = 32.0", "queue_depht = 32.0", &["ssd.mine", "queue_depht", "queue_depth"][..]),
        ("read_us = 90.0", "read_us = 'fast'", &["ssd.mine", "read_us", "string"]),
        ("read_us = 90.0", "", &["ssd.mine", "missing", "read_us"]),
        ("read_us = 90.0", "read_us = -1.0", &["ssd.mine.read_us", "-1", "0 to"]),
        ("read_us = 90.0", "read_us = nan", &["ssd.mine.read_us", "NaN"]),
        ("read_us = 90.0", "read_us = inf", &["ssd.mine.read_us", "inf"]),
        ("idle = 1.0", "idle = -1.0", &["ssd.mine.power_w.idle", "-1"]),
        ("idle = 1.0", "idel = 1.0", &["ssd.mine", "idel"]),
        ("dwpd = 1.0", "", &["ssd.mine", "either writes_per_gb, or dwpd and warranty_years"]),
        ("dwpd = 1.0", "dwpd = 1.0\nwrites_per_gb = 5.0", &["ssd.mine", "either"]),
        ("rpm = 7200.0", "rpm = 0.0", &["hdd.mine.rpm", "100 to"]),
        ("seek_mean_us = 8500.0", "seek_mean_us = 15000.0", &["hdd.mine.seek_mean_us", "5666.", "11866."]),
        ("seek_full_us = 16000.0", "seek_full_us = 1.0", &["hdd.mine.seek_full_us", "500"]),
        ("disk = 'mine'", "disk = 'mine'\nraid = 'raid5'", &["backing.mine.disks", "at least 3"]),
        ("disk = 'mine'", "disk = 'mine'\nraid = 'raid7'", &["backing.mine", "raid7", "raid10"]),
        ("disk = 'mine'", "disk = 'mine'\ndisks = -1", &["backing.mine", "-1"]),
        ("disk = 'mine'", "disk = 'mine'\nspan_gb = 0.0", &["backing.mine.span_gb"]),
        ("disk = 'mine'", "disk = 'yours'", &["fixed_disk or hdd", "yours", "disk-7200"]),
        ("dram = 'ddr4'", "dram = 'ddr9'", &["dram", "ddr9", "ddr4"]),
        ("dram = 'ddr4'", "dram = 'ddr4'\nssd_copies = 0", &["host.mine.ssd_copies", "1 to 16"]),
        ("dram = 'ddr4'", "dram = 'ddr4'\nread_ssd = 'fast'", &["ssd", "fast", "tica-ro"]),
        ("[ssd.mine]", "[ssd.sata]", &["ssd.sata", "taken"]),
        ("[ssd.mine]", "[sdd.mine]", &["sdd", "ssd"]),
        ("about = 'a'", "about = a", &["Line 2"]),
        ("[host.mine]", "dram = 3\n[host.mine]", &["dram", "[dram.NAME]"]),
    ] {
        let text = own.replacen(from, to, 1);
        assert_ne!(text, own, "{from}");
        let message = Host::parse(&text).expect_err(to).to_string();
        assert!(message.starts_with(char::is_uppercase) || message.starts_with('\''), "{message}");
        assert!(!message.contains('\n'), "{message}");
        for part in expected {
            assert!(message.contains(part), "{part:?} in {message:?} for {to:?}");
        }
    }
}

/// The page's example is a profile, and its tables have every host and the times that are computed.
#[test]
fn the_page_says_what_the_catalogue_says() {
    let page = include_str!("../../../../docs/hardware.md");
    let example =
        page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let host = Host::parse(example).expect("the example is a profile");
    assert_eq!((host.ssd_copies, host.backing.data_disks()), (2, 8));
    let catalogue = Catalogue::built_in().expect("the built-in profiles");
    for name in catalogue.host_names() {
        let names_it =
            |line: &&str| line.split('|').nth(1).is_some_and(|cell| cell.contains(&format!("`{name}`")));
        let row = page.lines().find(names_it);
        let backing = catalogue.host(name).expect("a host").service_times(BlockSize::KIB_4).backing;
        let times = [backing.random_read, backing.random_write, backing.sequential_read];
        let [read, write, sequential] = times.map(|command| (command.ns + 500) / 1000);
        let end = format!("| {read} | {write} | {sequential} |");
        assert!(row.is_some_and(|row| row.ends_with(&end)), "{name}: {row:?} should end in {end:?}");
    }
}

#[test]
fn a_profile_has_one_host_and_a_limit() {
    assert_eq!(Host::parse(SSD), Err(HardwareError::Hosts { hosts: 0 }));
    let two = format!("{HOST}{}", HOST.replace("mine", "yours"));
    assert_eq!(Host::parse(&two), Err(HardwareError::Hosts { hosts: 2 }));
    let long = "#".repeat(MAX_PROFILE_BYTES + 1);
    assert_eq!(Host::parse(&long), Err(HardwareError::TooLarge { bytes: MAX_PROFILE_BYTES + 1 }));
    let message = Host::find("nowhere").expect_err("no such host").to_string();
    assert!(message.contains("default") && message.contains("nowhere"), "{message}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Bytes of a good profile, changed: an answer of either kind, and numbers that can be computed with.
    #[test]
    fn damaged_profiles_do_no_harm(at in 0usize..1200, new in "[ -~\n]{0,3}") {
        let own = HOST.replace("'sata'", "'mine'").replace("'disk'", "'mine'") + SSD + HDD;
        let mut bytes = own.into_bytes();
        let at = at.min(bytes.len() - 1);
        bytes.splice(at..at + 1, new.bytes());
        let text = String::from_utf8(bytes).expect("ASCII");
        if let Ok(host) = Host::parse(&text) {
            let times = host.service_times(BlockSize::KIB_4);
            prop_assert!(times.backing.random_write.ns >= times.backing.random_read.ns);
        }
    }
}
