//! Fuzzes the reader of the format `msr-cut`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    lode_fuzz::check("msr-cut", data);
});
