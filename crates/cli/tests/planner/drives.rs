//! SSDs that are bought as whole drives, and what is said of life by a short trace.

use crate::common::*;

const DRIVE: &str = "[drive.tiny]\nabout = 'a'\nsource = 'no offer'\nprice_date = '2026-11'\nusd = 10.0\n\
    capacity_gb = 0.001\ndwpd = 1.0\nwarranty_years = 5.0\n";

/// Bytes of one.
const DRIVE_BYTES: u64 = 1_000_000;

/// Years by definition, with as many whole drives as the level takes.
fn years(drives: u64, bytes_per_day: f64) -> f64 {
    drives as f64 * DRIVE_BYTES as f64 * 5.0 / bytes_per_day
}

#[test]
fn cost_and_life_are_of_drives() {
    let folder = Folder::new();
    let (trace, drive) = (two_vms(&folder), folder.file("drive.toml", DRIVE));
    let sized = ["size", &trace, "--dram", "256KiB", "--ssd", "2MiB", "--drive", &drive];
    let plan = json(&sized);
    // 2,097,152 bytes on drives of 1,000,000.
    assert_eq!((&plan["drive"]["name"], &plan["wear"]["drives"]["count"]), (&"tiny".into(), &3.into()));
    let dram_usd = real(&json(&["size", &trace, "--dram", "256KiB", "--no-replay"])["cost_usd"]);
    assert!((real(&plan["cost_usd"]) - 30.0 - dram_usd).abs() < 1e-9, "{}", plan["cost_usd"]);
    for replayed in list(&plan["replayed"]) {
        let wear = &replayed["wear"];
        let expected = years(3, real(&wear["bytes_per_day"]));
        assert!((real(&wear["life_years"]) / expected - 1.0).abs() < 1e-9, "{wear}");
    }
    let text = good(&sized);
    for part in [
        "with three 0.001 GB drives at 1 DWPD, 'tiny' at its price of 2026-11",
        "and three 0.001 GB drives at 1 DWPD last ",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    // The money of the plan's DRAM buys no further drive.
    let level = whole(&plan["one_level"]["levels"]["ssd_bytes"]);
    // But for what whole granules lose.
    assert!(level > (2 << 20) - 2 * 65_536 && level <= 2 << 20, "{level}");
    assert_eq!(plan["one_level"]["cost_usd"], 30.0);
    // The command that shows both has the same drives, and a replay counts as the plan does.
    let command = plan["one_level"]["command"].as_str().map(str::to_owned).unwrap_or_default();
    assert!(command.is_empty() || command.contains("--drive"), "{command}");
    let compared = json(&["compare", &trace, "--schemes", "lru", "--ssd", "1MiB,2MiB", "--drive", &drive]);
    let cells = list(&compared["cells"]);
    assert_eq!((&cells[0]["cost_usd"], &cells[1]["cost_usd"]), (&20.0.into(), &30.0.into()));
    let alone = json(&["replay", &trace, "--scheme", "lru", "--ssd", "2MiB", "--drive", &drive]);
    assert_eq!(alone["devices"]["cost_usd"]["ssd"], 30.0);
    assert_eq!(alone["devices"]["drives"], cells[1]["drives"]);
}

#[test]
fn a_budget_buys_whole_drives() {
    let folder = Folder::new();
    let (trace, drive) = (two_vms(&folder), folder.file("drive.toml", DRIVE));
    // By what is written alone one more drive lasts longer, and not only less short.
    let budget = ["size", &trace, "--budget", "45usd", "--no-replay", "--scheme", "etica"];
    let bought = json(&[&budget[..], &["--drive", &drive]].concat());
    let mut counts = Vec::new();
    for point in list(&bought["front"]) {
        let ssd_bytes = whole(&point["levels"]["ssd_bytes"]);
        let count = ssd_bytes.div_ceil(DRIVE_BYTES);
        let drives = &point["wear"]["drives"];
        assert_eq!(drives["count"].as_u64().unwrap_or(0), count);
        assert!(real(&point["cost_usd"]) >= 10.0 * count as f64 && real(&point["cost_usd"]) <= 45.0);
        if let Some(found) = point["wear"]["life_years"].as_f64() {
            assert!((found / years(count, real(&point["wear"]["bytes_per_day"])) - 1.0).abs() < 1e-9);
        }
        counts.push(count);
    }
    counts.sort();
    counts.dedup();
    assert!(counts.len() >= 3 && counts[0] == 0 && *counts.last().expect("one") == 4, "{counts:?}");
    let text = good(&["size", &trace, "--budget", "45usd", "--drive", &drive, "--no-replay"]);
    assert!(text.contains(" drives "), "{text}");
    // Less than a drive buys host memory alone.
    let little = json(&["size", &trace, "--budget", "5usd", "--drive", &drive, "--no-replay"]);
    assert_eq!(little["levels"]["ssd_bytes"], 0);
}

#[test]
fn a_profile_is_edited_and_given_back() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let size = ["size", &trace, "--dram", "256KiB", "--ssd", "2MiB", "--no-replay"];
    let host = folder.file("host.toml", good(&["devices", "nvme-hdd"]));
    let (named, own) = (
        json(&[&size[..], &["--devices", "nvme-hdd"]].concat()),
        json(&[&size[..], &["--devices", &host]].concat()),
    );
    assert_eq!(
        (&named["vms"], &named["cost_usd"], &named["wear"]),
        (&own["vms"], &own["cost_usd"], &own["wear"])
    );
    assert_eq!(own["devices"], "my-nvme-hdd");
    // A price that was edited counts.
    let text = good(&["devices", "sata-480-1dwpd"]);
    let drive = folder.file("drive.toml", text.replace("usd = 110.0", "usd = 77.0"));
    let cost = |drive: &str| {
        real(
            &json(&["compare", &trace, "--schemes", "lru", "--ssd", "1MiB", "--drive", drive])["cells"][0]["cost_usd"],
        )
    };
    assert_eq!((cost("sata-480-1dwpd"), cost(&drive)), (110.0, 77.0));
    // What a file describes is shown as what it is.
    assert!(good(&["devices", &drive]).contains("usd = 77.0"));
    assert_eq!(json(&["devices", &drive])["drives"][0]["usd"], 77.0);
    let message = bad(&[&size[..], &["--drive", "nvme-961"]].concat(), 2);
    assert!(message.contains("nvme-960-1dwpd") && message.contains(".toml"), "{message}");
    assert!(bad(&["devices", "nvme-961"], 2).contains("nvme-960-1dwpd"));
    assert!(bad(&[&size[..], &["--drive", &host]].concat(), 2).contains("[drive.NAME]"));
    // A profile is never written over.
    let over = format!("--json={drive}");
    assert!(bad(&[&size[..], &["--drive", &drive, &over]].concat(), 2).contains("drive.toml"));
}

#[test]
fn a_short_trace_is_not_stretched_to_years_in_silence() {
    let folder = Folder::new();
    let trace = folder.file("hours.csv", msr_csv(&TWO, 300));
    const WARNING: &str = "SSD life takes 5.0 hours of trace";
    for command in [
        &["size", &trace, "--ssd", "2MiB"][..],
        &["compare", &trace, "--schemes", "lru", "--ssd", "2MiB"],
        &["replay", &trace, "--scheme", "lru", "--ssd", "2MiB"],
    ] {
        assert!(both(command).1.contains(WARNING), "{command:?}");
        let report = json(command);
        assert!(
            list(&report["warnings"])
                .iter()
                .any(|text| text.as_str().is_some_and(|text| text.contains(WARNING)))
        );
    }
    // Without an SSD there is no life of it.
    assert!(!both(&["size", &trace, "--dram", "1MiB"]).1.contains("SSD life takes"));
    let days = folder.file("days.csv", msr_csv(&TWO, 3000));
    assert!(!both(&["size", &days, "--ssd", "2MiB"]).1.contains("SSD life takes"));
}
