//! Fuzzes the reader of the format `alibaba`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    lode_fuzz::check("alibaba", data);
});
