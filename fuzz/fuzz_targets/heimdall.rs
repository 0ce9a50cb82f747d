//! Fuzzes the reader of the format `heimdall`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    lode_fuzz::check("heimdall", data);
});
