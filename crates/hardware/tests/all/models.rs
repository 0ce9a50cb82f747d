//! What holds for every host: more costs more, wears more and takes more energy.

use lode_hardware::{Catalogue, Host, HostLoad, Operations};
use lode_types::BlockSize;
use proptest::prelude::*;

const SECOND_NS: u64 = 1_000_000_000;
const GIB: u64 = 1 << 30;
const YEAR_S: f64 = 8760.0 * 3600.0;

fn hosts() -> Vec<Host> {
    let catalogue = Catalogue::built_in().expect("the built-in profiles");
    catalogue.host_names().map(|name| catalogue.host(name).expect("a host")).collect()
}

fn any_host() -> impl Strategy<Value = Host> {
    proptest::sample::select(hosts())
}

fn operations() -> impl Strategy<Value = Operations> {
    let count = || 0u64..1_000_000;
    let busy = proptest::option::of(0u64..u64::MAX / 4);
    let of_read_ssd = (count(), count());
    (count(), count(), count(), count(), of_read_ssd, count(), count(), busy).prop_map(
        |(
            dram_reads,
            dram_writes,
            ssd_reads,
            ssd_writes,
            (read_ssd_reads, read_ssd_writes),
            backing_reads,
            backing_writes,
            backing_work_ns,
        )| {
            Operations {
                dram_reads,
                dram_writes,
                ssd_reads,
                ssd_writes,
                read_ssd_reads,
                read_ssd_writes,
                backing_reads,
                backing_writes,
                backing_work_ns,
            }
        },
    )
}

fn runs() -> impl Strategy<Value = HostLoad> {
    let bytes = || 0..u64::MAX;
    (bytes(), bytes(), bytes(), bytes(), operations(), 0usize..5).prop_map(
        |(dram_bytes, ssd_bytes, read_ssd_bytes, span_ns, operations, power)| HostLoad {
            block: BlockSize::new(4096 << power).expect("a block size"),
            dram_bytes,
            ssd_bytes,
            read_ssd_bytes,
            span_ns,
            operations,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn everything_is_finite_and_not_below_zero(host in any_host(), run in runs()) {
        let energy = host.energy_j(&run);
        let cost = host.cost_usd(run.dram_bytes, run.ssd_bytes, run.read_ssd_bytes);
        let used = host.utilisation(&run);
        prop_assert_eq!(used.is_some(), run.span_ns > 0);
        let life = host.ssd_life_years(run.ssd_bytes, run.operations.ssd_writes as f64);
        let life_of_second = host.read_ssd_life_years(run.read_ssd_bytes, run.operations.read_ssd_writes as f64);
        let numbers = [
            [energy.dram, energy.ssd, energy.read_ssd, energy.backing, energy.total],
            [cost.dram, cost.ssd, cost.read_ssd, cost.total, host.mirrored_loss(0.5, 8760.0)],
        ]
        .concat();
        let more = used.map(|used| [used.ssd, used.read_ssd, used.backing]).into_iter().flatten();
        let more = more.chain(life).chain(life_of_second);
        for number in numbers.into_iter().chain(more) {
            prop_assert!(number.is_finite() && number >= 0.0, "{}", number);
        }
    }

    #[test]
    fn more_is_never_less(host in any_host(), run in runs(), more in 1u64..1 << 40) {
        let larger = HostLoad {
            dram_bytes: run.dram_bytes.saturating_add(more),
            ssd_bytes: run.ssd_bytes.saturating_add(more),
            read_ssd_bytes: run.read_ssd_bytes.saturating_add(more),
            ..run
        };
        let cost_of = |run: &HostLoad| host.cost_usd(run.dram_bytes, run.ssd_bytes, run.read_ssd_bytes);
        let (cost, larger_cost) = (cost_of(&run), cost_of(&larger));
        prop_assert!(larger_cost.dram >= cost.dram && larger_cost.ssd >= cost.ssd);
        prop_assert!(larger_cost.read_ssd >= cost.read_ssd && larger_cost.total >= cost.total);
        prop_assert!(host.energy_j(&larger).total >= host.energy_j(&run).total);
        let longer = HostLoad { span_ns: run.span_ns.saturating_add(more), ..run };
        prop_assert!(host.energy_j(&longer).total >= host.energy_j(&run).total);
        let written = run.operations.ssd_writes + 1;
        let life = |bytes: u64| host.ssd_life_years(run.ssd_bytes, bytes as f64).unwrap_or(f64::INFINITY);
        prop_assert!(life(written + more) <= life(written));
        let of_size = |bytes: u64| host.ssd_life_years(bytes, written as f64);
        prop_assert!(of_size(larger.ssd_bytes) >= of_size(run.ssd_bytes));
    }

    /// Work instead of waiting takes more energy, for no device of the catalogue works on less power than it waits on.
    #[test]
    fn busier_is_never_cheaper(host in any_host(), run in runs(), more in 1u64..1 << 20) {
        let mut busier = run;
        let counts = &mut busier.operations;
        for count in [
            &mut counts.dram_reads,
            &mut counts.dram_writes,
            &mut counts.ssd_reads,
            &mut counts.ssd_writes,
            &mut counts.read_ssd_reads,
            &mut counts.read_ssd_writes,
            &mut counts.backing_reads,
            &mut counts.backing_writes,
        ] {
            *count += more;
        }
        let (less, more) = (host.energy_j(&run), host.energy_j(&busier));
        prop_assert!(more.total >= less.total * (1.0 - 1e-12), "{:?} {:?}", less, more);
        let (less, more) = (host.utilisation(&run), host.utilisation(&busier));
        prop_assert!(more.map(|used| used.ssd) >= less.map(|used| used.ssd));
        prop_assert!(more.map(|used| used.read_ssd) >= less.map(|used| used.read_ssd));
        prop_assert!(more.map(|used| used.backing) >= less.map(|used| used.backing));
    }
}

#[test]
fn no_device_waits_on_more_power_than_it_works_on() {
    for host in hosts() {
        for power in [host.dram.power_w, host.ssd.power_w, host.read_ssd().power_w] {
            assert!(power.idle <= power.read.min(power.write), "{}", host.name);
        }
    }
}

#[test]
fn life_is_the_rating_over_the_rate() {
    let host = Host::find("tica-wo").expect("a host");
    // 6416 times the capacity, written once a day.
    let day_s = 24.0 * 3600.0;
    let years = host.ssd_life_years(10 * GIB, (10 * GIB) as f64 / day_s).expect("something is written");
    assert!((years - 6416.0 / 365.0).abs() < 1e-9, "{years}");
    assert_eq!(host.ssd_life_years(10 * GIB, 0.0), None);
    assert_eq!(host.ssd_life_years(0, 1.0), Some(0.0));
    // Half of it is used up, or all of it and more.
    let left = |written| host.ssd.years_left(GIB, written, GIB as f64 / YEAR_S);
    assert!((left(3208.0 * GIB as f64).expect("years") - 3208.0).abs() < 1e-6);
    assert_eq!(left(7000.0 * GIB as f64), Some(0.0));
}

#[test]
fn a_rating_by_day_is_the_rating_by_gigabyte() {
    let mut ssd = Host::find("nvme-hdd").expect("a host").ssd;
    assert_eq!(ssd.rated_writes_per_gb(), 3.0 * 365.0 * 5.0);
    let rating = ssd.rating();
    assert!((rating.drive_writes_per_day - 3.0).abs() < 1e-12 && rating.years == 5.0);
    let rated = ssd.endurance_bytes(GIB);
    ssd.write_amplification = 2.5;
    // What is written at the rated pace lasts as long as it is rated for.
    let host = Host { ssd: ssd.clone(), ..Host::find("nvme-hdd").expect("a host") };
    let pace = ssd.rating().drive_writes_per_day * GIB as f64 / (24.0 * 3600.0);
    assert!((host.ssd_life_years(GIB, pace).expect("a life") - 5.0).abs() < 1e-9);
    assert!((ssd.endurance_bytes(GIB) * 2.5 - rated).abs() < 1.0);
}

#[test]
fn queues_bound_small_commands_and_rates_large_ones() {
    let ssd = Host::find("nvme-hdd").expect("a host").ssd;
    let (reads, writes) = ssd.bounds_per_s(4096);
    // 64 at once of 80 us each; writes of 20 us would be 3.2 million, but 3000 MB/s are 732,000.
    assert!((reads - 64.0 / 80e-6).abs() < 1.0, "{reads}");
    assert!((writes - 3e9 / 4096.0).abs() < 1.0, "{writes}");
    let (large_reads, _) = ssd.bounds_per_s(65_536);
    assert!(large_reads <= 6.5e9 / 65_536.0 + 1.0, "{large_reads}");
    assert!(ssd.read_ns(65_536) > ssd.read_ns(4096) && ssd.read_ns(4096) == 80_000);
}

#[test]
fn energy_of_a_run_by_hand() {
    let host = Host::find("default").expect("a host");
    let operations = Operations {
        dram_reads: 1000,
        dram_writes: 500,
        ssd_reads: 200,
        ssd_writes: 100,
        read_ssd_reads: 50,
        read_ssd_writes: 25,
        backing_reads: 10,
        backing_writes: 5,
        backing_work_ns: None,
    };
    let block = BlockSize::KIB_4;
    let run = HostLoad {
        block,
        dram_bytes: GIB,
        ssd_bytes: GIB,
        read_ssd_bytes: GIB,
        span_ns: 10 * SECOND_NS,
        operations,
    };
    let energy = host.energy_j(&run);
    let (ssd_read_s, ssd_write_s, disk_s) = (200.0 * 120e-6, 100.0 * 60e-6, 15.0 * 8e-3);
    let ssd = ssd_read_s * 2.4 + ssd_write_s * 3.1 + (10.0 - ssd_read_s - ssd_write_s) * 1.3;
    let disk = disk_s * 8.0 + (10.0 - disk_s) * 5.0;
    let second_s = [50.0 * 120e-6, 25.0 * 60e-6];
    let second = second_s[0] * 2.4 + second_s[1] * 3.1 + (10.0 - second_s[0] - second_s[1]) * 1.3;
    let found = [energy.dram, energy.ssd, energy.read_ssd, energy.backing];
    for (found, expected) in found.into_iter().zip([40.0, ssd, second, disk]) {
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    }
    assert!((energy.total - 40.0 - ssd - second - disk).abs() < 1e-9);
    let used = host.utilisation(&run).expect("a span");
    assert!((used.backing - disk_s / 10.0).abs() < 1e-12, "{used:?}");
    assert!((used.ssd - (ssd_read_s + ssd_write_s) / 32.0 / 10.0).abs() < 1e-12, "{used:?}");
    assert!((used.read_ssd - (second_s[0] + second_s[1]) / 32.0 / 10.0).abs() < 1e-12, "{used:?}");
    // Levels that are not there take nothing.
    let idle =
        HostLoad { dram_bytes: 0, ssd_bytes: 0, read_ssd_bytes: 0, operations: Operations::default(), ..run };
    let none = host.energy_j(&idle);
    assert_eq!((none.dram, none.ssd, none.read_ssd, none.backing), (0.0, 0.0, 0.0, 50.0));
}

#[test]
fn a_network_costs_time_and_bounds_the_rate() {
    let host = Host::find("nvme-cluster").expect("a host");
    let times = host.service_times(BlockSize::KIB_4).backing;
    let way_us = 100.0 + 4096.0 / 2800.0;
    let ns = |us: f64| (us * 1000.0).round() as u64;
    assert_eq!(times.random_read.ns, ns(400.0 + way_us));
    assert_eq!(times.random_write.ns, ns(400.0 + 2.0 * way_us));
    // The far disks do not work while bytes are on the way.
    assert_eq!(times.random_work_ns(1, 0), 400_000);
    let operations =
        Operations { backing_reads: 1_000_000, backing_work_ns: Some(0), ..Operations::default() };
    let block = BlockSize::KIB_4;
    let run =
        HostLoad { block, dram_bytes: 0, ssd_bytes: 0, read_ssd_bytes: 0, span_ns: SECOND_NS, operations };
    let used = host.utilisation(&run).expect("a span").backing;
    assert!((used - 4096e6 / 2.8e9).abs() < 1e-9, "{used}");
}
