//! Fuzzes the NBD client's side of the handshake.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    lode_fuzz::nbd_client::check_handshake(data);
});
