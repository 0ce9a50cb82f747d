//! Every file of the corpora of the fuzz targets that play a client.

use lode_testdata::check_corpus;

#[path = "../../../../fuzz/src/nbd.rs"]
mod invariants;

#[test]
fn handshakes() {
    check_corpus("nbd-handshake", invariants::check_handshake);
}

#[test]
fn requests() {
    check_corpus("nbd-requests", invariants::check_requests);
}
