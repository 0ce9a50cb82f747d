//! Drives that one can buy: what whole ones cost, how long they last, and profiles that are edited and given back.

use lode_hardware::{Catalogue, Drive, Host};

const DRIVE: &str = "[drive.mine]\nabout = 'a'\nsource = 'offer 7'\nprice_date = '2026-11-24'\nusd = 100.0\n\
    capacity_gb = 960.0\ndwpd = 1.0\nwarranty_years = 5.0\n";
const GB: u64 = 1_000_000_000;
const DAY_S: f64 = 86_400.0;

fn close(found: Option<f64>, expected: f64) {
    let found = found.expect("a number");
    assert!((found - expected).abs() < 1e-9 * expected, "{found} instead of {expected}");
}

fn count(host: &Host, ssd_bytes: u64) -> Option<u64> {
    host.ssd_drives(ssd_bytes).map(|drives| drives.count)
}

#[test]
fn cost_and_life_are_of_whole_drives() {
    let drive = Drive::parse(DRIVE).expect("a drive");
    let host = Host::find("default").expect("a host").with_drive(drive.clone());
    // 1,000 GB take two drives of 960 GB: 1,920 GB, and so much may be written each day for five years.
    assert_eq!((count(&host, 1000 * GB), host.bought_ssd_bytes(1000 * GB)), (Some(2), 1920 * GB));
    assert_eq!(host.cost_usd(0, 1000 * GB, 0).ssd, 200.0);
    close(host.ssd_life_years(1000 * GB, 1920.0 * GB as f64 / DAY_S), 5.0);
    // What is not used of a drive spares the rest.
    close(host.ssd_life_years(GB, 480.0 * GB as f64 / DAY_S), 10.0);
    assert_eq!((count(&host, 0), host.cost_usd(0, 0, 0).ssd), (None, 0.0));
    assert_eq!(host.cost_usd(0, 1, 0).ssd, 100.0);
    // Each copy is on drives of its own.
    let mirrored = Host::find("sata-raid5").expect("a host").with_drive(drive.clone());
    assert_eq!((count(&mirrored, GB), mirrored.cost_usd(0, GB, 0).ssd), (Some(2), 200.0));
    close(mirrored.ssd_life_years(GB, 960.0 * GB as f64 / DAY_S), 5.0);
    // A read SSD of a kind of its own is not bought as such drives; another one like the SSD is.
    let tica = Host::find("tica").expect("a host");
    let own = tica.clone().with_drive(drive.clone());
    assert_eq!(own.cost_usd(0, 0, GB).read_ssd, tica.cost_usd(0, 0, GB).read_ssd);
    assert_eq!(host.cost_usd(0, 0, GB).read_ssd, 100.0);
    // As fast as it was.
    assert_eq!(host.ssd.read_us, Host::find("default").expect("a host").ssd.read_us);
    assert_eq!(
        (&drive.in_words(2)[..], &drive.in_words(1)[..], &drive.in_words(12)[..]),
        ("two 960 GB drives at 1 DWPD", "one 960 GB drive at 1 DWPD", "12 960 GB drives at 1 DWPD")
    );
}

#[test]
fn bytes_written_in_all_are_a_rating_too() {
    // 1,752 TB over five years are 0.96 TB a day.
    let drive = Drive::parse(&DRIVE.replace("dwpd = 1.0", "written_tb = 1752.0")).expect("a drive");
    close(Some(drive.drive_writes_per_day()), 1.0);
    assert_eq!(drive.in_words(3), "three 960 GB drives for 1752 TB written");
    let host = Host::find("default").expect("a host").with_drive(drive);
    close(host.ssd_life_years(GB, 1752e12 / (365.0 * DAY_S)), 1.0);
}

#[test]
fn a_profile_can_be_edited_and_given_back() {
    let known = Catalogue::built_in().expect("the built-in profiles");
    for name in known.host_names() {
        let host = known.host(name).expect("a host");
        let text = host.profile(&known);
        let again = Host::parse(&text).unwrap_or_else(|error| panic!("{name}: {error} in {text}"));
        assert_eq!(again.name, format!("my-{name}"));
        let mut same = Host { name: host.name.clone(), ..again.clone() };
        same.backing.name = host.backing.name.clone();
        let drives = same.drive.iter_mut().zip(&host.drive);
        drives.for_each(|(same, drive)| same.name = drive.name.clone());
        assert_eq!(same, host);
        // What was given back has names of its own already.
        assert_eq!(again.profile(&known), text);
    }
    for name in known.drive_names() {
        let drive = known.drive(name).expect("a drive");
        let again = Drive::parse(&drive.profile(&known)).expect("a profile");
        assert_eq!(
            (&again.name, Drive { name: name.to_owned(), ..again.clone() }),
            (&format!("my-{name}"), drive)
        );
    }
    let own = Host { drive: None, ..known.host("tica").expect("a host") }
        .with_drive(known.drive("nvme-800-3dwpd").expect("a drive"));
    let mut again = Host::parse(&own.profile(&known)).expect("a profile");
    assert_eq!(again.ssd, own.ssd);
    let drive = again.drive.take().expect("a drive");
    assert_eq!((&drive.name[..], drive.usd), ("my-tica", 260.0));
    // Names and texts that TOML has to quote.
    let odd = Host { name: "a \"b\".c".to_owned(), about: "it's \\ \"so\"\n".to_owned(), ..own };
    let again = Host::parse(&odd.profile(&known)).expect("a profile");
    assert_eq!((&again.name, &again.about), (&odd.name, &odd.about));
}

#[test]
fn what_is_wrong_with_a_drive_is_said_with_its_place() {
    for (from, to, expected) in [
        ("dwpd = 1.0\n", "", &["drive.mine", "either dwpd or written_tb"][..]),
        ("dwpd = 1.0", "dwpd = 1.0\nwritten_tb = 5.0", &["drive.mine", "either"]),
        ("'2026-11-24'", "'last week'", &["drive.mine", "price_date", "2025-06"]),
        ("price_date = '2026-11-24'\n", "", &["drive.mine", "price_date"]),
        ("usd = 100.0", "usd = 0.0", &["drive.mine.usd", "0.01 to"]),
        ("capacity_gb = 960.0", "capacity_gb = -1.0", &["drive.mine.capacity_gb"]),
        ("warranty_years", "waranty_years", &["drive.mine", "waranty_years"]),
        ("[drive.mine]", "[ssd.mine]", &["ssd.mine"]),
        ("source = 'offer 7'", "source = 'offer 7'\nname = 'x'", &["drive.mine", "name"]),
    ] {
        let text = DRIVE.replacen(from, to, 1);
        assert_ne!(text, DRIVE, "{from}");
        let message = Drive::parse(&text).expect_err(to).to_string();
        for part in expected {
            assert!(message.contains(part), "{part:?} in {message:?} for {to:?}");
        }
    }
    let two = format!("{DRIVE}{}", DRIVE.replace("mine", "yours"));
    assert!(Drive::parse(&two).expect_err("two").to_string().contains("2 drives"));
    assert!(Drive::parse("").expect_err("none").to_string().contains("[drive.NAME]"));
    assert!(Drive::find("none").expect_err("no such drive").to_string().contains("nvme-960-1dwpd"));
}
