//! Fuzzes the NBD server's side of the transmission.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    lode_fuzz::nbd::check_requests(data);
});
