//! Fuzzes the NBD client's side of the transmission.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    lode_fuzz::nbd_client::check_replies(data);
});
