//! Every file of the corpus of the fuzz target that reads configurations.

#[path = "../../../fuzz/src/config.rs"]
mod invariants;

#[test]
fn config_corpus() {
    lode_testdata::check_corpus("config", invariants::check);
}
