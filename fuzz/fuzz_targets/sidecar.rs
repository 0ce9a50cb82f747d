//! Fuzzes the sidecar of a backing disk.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    lode_fuzz::sidecar::check(data);
});
