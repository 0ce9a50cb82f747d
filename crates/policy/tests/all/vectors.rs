//! The papers' worked examples.

use lode_policy::Quota;
use lode_testdata::vector;
use serde_json::Value;

use crate::driver::{Driver, Observed, Step, settings};
use lode_types::Level;

fn steps(vector: &Value) -> Vec<Step> {
    let step = |entry: &Value| {
        let block = entry[1].as_u64().unwrap();
        if entry[0] == "R" { Step::Read(block) } else { Step::Write(block, false) }
    };
    vector["trace"].as_array().unwrap().iter().map(step).collect()
}

fn capacity(vector: &Value, level: &str) -> u32 {
    vector["capacity_blocks"][level].as_u64().unwrap() as u32
}

/// Where each access was served.
fn replay(driver: &mut Driver, steps: &[Step]) -> Vec<&'static str> {
    let mut served = Vec::new();
    for &step in steps {
        let observed = driver.step(step);
        driver.step(Step::EndRequest);
        served.push(match observed {
            said if said.contains(&Observed::ReadLevel(Level::Dram)) => "dram",
            said if said.contains(&Observed::ReadLevel(Level::Ssd)) => "ssd",
            said if said.iter().any(|s| matches!(s, Observed::WriteLevel { dirty: true, .. })) => "ssd",
            _ => "disk",
        });
    }
    served
}

#[test]
fn figure_5_lru() {
    let vector = vector("etica_fig5");
    let expected = &vector["expected"]["one_level_WB_LRU"];
    let settings = settings("lru", &[("write_policy", "wb")]);
    let quota = Quota::new(0, capacity(&vector, "ssd"));
    let mut driver = Driver::new(&settings, quota, quota);
    let hit = |driver: &Driver| driver.counters.read_hits[1] + driver.counters.write_hits_ssd;
    let mut hits = Vec::new();
    for step in steps(&vector) {
        let before = hit(&driver);
        driver.step(step);
        hits.push(Value::from(hit(&driver) > before));
    }
    assert_eq!(Value::from(hits), expected["hit_log"]);
    assert_eq!(driver.counters.ssd_writes.total(), expected["ssd_writes"]);
    assert_eq!(driver.counters.read_hits[1], expected["read_hits"]);
    assert_eq!(driver.counters.cwf(), vector["cwf"]["WB"].as_f64());
    let stated = &vector["stated"];
    assert_eq!(driver.counters.ssd_writes.total(), stated["a_ssd_writes"]);
    assert_eq!(driver.counters.read_hits[1], stated["a_read_hits"]);
}

#[test]
fn figure_5_etica() {
    let vector = vector("etica_fig5");
    for (mode, key) in [
        ("npe", "etica_NPE"),
        ("full-hybrid", "etica_Full_hybrid_no_promotion"),
        ("full-strict", "etica_Full_strict_no_promotion"),
    ] {
        let expected = &vector["expected"][key];
        let never = "1000000000";
        let settings = settings("etica", &[("mode", mode), ("sizing", "off"), ("promotion_interval", never)]);
        let quota = Quota::new(capacity(&vector, "dram"), capacity(&vector, "ssd"));
        let mut driver = Driver::new(&settings, quota, quota);
        let served = replay(&mut driver, &steps(&vector));
        let counters = driver.counters;
        assert_eq!(Value::from(served), expected["served_by"], "{mode}");
        assert_eq!(counters.ssd_writes.total(), expected["ssd_writes"], "{mode}");
        assert_eq!(counters.read_hits[0], expected["dram_read_hits"], "{mode}");
        assert_eq!(counters.read_hits[1], expected["ssd_read_hits"], "{mode}");
        assert_eq!(counters.backing_reads, expected["disk_reads"], "{mode}");
        assert_eq!(counters.backing_writes, expected["disk_writes"], "{mode}");
        if mode == "npe" {
            assert_eq!(counters.cwf(), vector["cwf"]["etica_NPE"].as_f64());
            let (writes, one_level) = (counters.ssd_writes.total(), &vector["stated"]["a_ssd_writes"]);
            assert_eq!(writes, vector["stated"]["b_ssd_writes"]);
            let saved_percent = 100 - 100 * writes / one_level.as_u64().unwrap();
            assert_eq!(saved_percent, vector["stated"]["reduction_pct"]);
        }
    }
}
