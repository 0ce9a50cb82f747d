//! Every file of the corpora of the fuzz targets that read configurations and sidecars.

#[path = "../../../fuzz/src/config.rs"]
mod config;
#[path = "../../../fuzz/src/sidecar.rs"]
mod sidecar;

#[test]
fn config_corpus() {
    lode_testdata::check_corpus("config", config::check);
}

#[test]
fn sidecar_corpus() {
    lode_testdata::check_corpus("sidecar", sidecar::check);
}
