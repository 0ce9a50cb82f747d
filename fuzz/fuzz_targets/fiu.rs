//! Fuzzes the reader of the format `fiu`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    lode_fuzz::check("fiu", data);
});
