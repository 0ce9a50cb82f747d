//! Fuzzes the daemon's configuration.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    lode_fuzz::config::check(data);
});
