//! TICA's cache write factor as a report has it.

use lode_policy::{CounterReport, Counters, SsdWrites};
use serde_json::Value;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/vectors.json");

#[test]
fn the_cache_write_factor_is_that_of_equation_1() {
    let Ok(text) = std::fs::read_to_string(PATH) else {
        println!("skipped: ../shared is absent");
        return;
    };
    let all: Value = serde_json::from_str(&text).expect("vectors.json is JSON");
    let examples = all["tica_cwf"]["examples"].as_array().expect("examples");
    assert!(!examples.is_empty());
    for example in examples {
        let count = |key: &str| example[key].as_u64().expect("a count");
        // Whatever wrote them.
        let writes = count("writes_ssd");
        let ssd_writes = SsdWrites { write: writes / 2, fill: writes - writes / 2, ..SsdWrites::default() };
        let counters = Counters { ssd_writes, block_writes: count("writes_workload"), ..Counters::default() };
        assert_eq!(CounterReport::from(&counters).cwf, example["expected"].as_f64(), "{example}");
    }
}
