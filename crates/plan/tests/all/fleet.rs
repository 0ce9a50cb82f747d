//! The page of a fleet: its numbers against their definition, whatever the order of its rows.

use lode_hardware::Host;
use lode_plan::{Fleet, FleetHost, FleetReplay, FleetVolume, Made, Prices, fleet_page};

const MIB: u64 = 1 << 20;

fn volume(name: &str, needed_bytes: u64, hit_ratio: Option<f64>) -> FleetVolume {
    FleetVolume {
        name: name.to_owned(),
        requests: 1000,
        read_bytes: 3 * MIB,
        written_bytes: MIB,
        needed_bytes,
        hit_ratio,
        is_sampled: false,
    }
}

fn host(name: &str, hits: u64, hits_with_gib_more: u64) -> FleetHost {
    FleetHost {
        name: name.to_owned(),
        volumes: 2,
        cache_bytes: MIB,
        accesses: 1000,
        hits,
        hits_with_gib_more,
    }
}

fn replay(name: &str, ssd_life_years: Option<f64>) -> FleetReplay {
    FleetReplay {
        name: name.to_owned(),
        volumes: 2,
        read_hit_ratio: Some(0.5),
        mean_latency_us: Some(4000.0),
        span_s: ssd_life_years.map(|_| 86_400.0),
        ssd_written_bytes: 7 * MIB,
        ssd_life_years,
        cost_usd: 12.5,
    }
}

fn fleet() -> Fleet {
    Fleet {
        title: "Fleet <1>".to_owned(),
        devices: "default".to_owned(),
        prices: Prices::of(&Host::find("default").expect("a host")),
        volumes: (1..=100)
            .map(|at| volume(&format!("t/v{at:03}"), at * MIB, Some(at as f64 / 200.0)))
            .collect(),
        hosts: vec![host("a", 250, 500), host("b", 250, 250)],
        replays: vec![replay("a", Some(6.0)), replay("b", None), replay("c", Some(0.5))],
    }
}

fn page(fleet: &Fleet) -> String {
    let made = Made { date: "2026-01-02".to_owned(), command: "call()".to_owned() };
    fleet_page(fleet, &made).expect("a page")
}

#[test]
fn a_fleet_is_told_in_numbers() {
    let text = page(&fleet());
    for wanted in [
        "Fleet &lt;1&gt;",
        "call()",
        // 1 + 2 + ... + 100 MiB; half of the volumes have 50 MiB at most.
        "4.93 GiB of cache would give 100 volumes every hit there is to have; half of them need 50 MiB or less; \
         2 hosts serve 25 % of all accesses from their caches, and 37.5 % with a GiB more each.",
        "100,000 requests, 300 MiB read, 100 MiB written",
        "Hosts whose SSD lasts least",
        "$37.50",
    ] {
        assert!(text.contains(wanted), "{wanted}");
    }
    let at =
        |name: &str| text.find(&format!("<th scope=\"row\">{name}<")).unwrap_or_else(|| panic!("{name}"));
    // What needs most, and what lasts least, stands first.
    assert!(at("t/v100") < at("t/v099") && at("t/v099") < at("t/v051") && !text.contains("t/v050"));
    let lives = &text[text.find("Hosts whose SSD lasts least").expect("a table")..];
    let place = |name: &str| lives.find(&format!("<th scope=\"row\">{name}<"));
    assert!(place("c") < place("a") && place("a") < place("b"));
}

#[test]
fn the_order_of_rows_does_not_matter() {
    let mut other = fleet();
    other.volumes.reverse();
    other.hosts.reverse();
    other.replays.rotate_left(1);
    assert_eq!(page(&fleet()), page(&other));
}

/// The whole of it would not fit a page: each step is still the part of the volumes that it says.
#[test]
fn many_volumes_have_a_curve_of_few_steps() {
    let mut large = fleet();
    large.volumes = (1..=20_000).map(|at| volume(&format!("t/{at}"), at / 3 * 4096, None)).collect();
    let text = page(&large);
    assert!(text.len() < 400_000, "{}", text.len());
    assert!(text.contains("Volumes that need most: 50 of 20,000"));
}

#[test]
fn a_fleet_of_nothing_has_a_page() {
    let mut empty = fleet();
    (empty.hosts, empty.replays) = (vec![host("a", 0, 0)], vec![replay("a", None)]);
    empty.hosts[0].accesses = 0;
    empty.volumes = vec![volume("t/v", 0, None)];
    assert!(page(&empty).contains("What volumes need"));
    (empty.hosts, empty.replays, empty.volumes) = (Vec::new(), Vec::new(), Vec::new());
    assert!(page(&empty).contains("There are no volumes."));
}
