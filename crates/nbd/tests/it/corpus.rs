//! Every file of the corpora of the fuzz targets that play a client or a server.

use lode_testdata::check_corpus;

#[path = "../../../../fuzz/src/nbd_client.rs"]
mod client;
#[path = "../../../../fuzz/src/nbd.rs"]
mod server;

#[test]
fn handshakes() {
    check_corpus("nbd-handshake", server::check_handshake);
}

#[test]
fn requests() {
    check_corpus("nbd-requests", server::check_requests);
}

#[test]
fn client_handshakes() {
    check_corpus("nbd-client-handshake", client::check_handshake);
}

#[test]
fn client_replies() {
    check_corpus("nbd-client-replies", client::check_replies);
}
