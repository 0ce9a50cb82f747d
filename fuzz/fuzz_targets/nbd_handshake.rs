//! Fuzzes the NBD server's side of the handshake.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    lode_fuzz::nbd::check_handshake(data);
});
