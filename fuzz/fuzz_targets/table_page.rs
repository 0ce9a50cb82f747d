//! Fuzzes the place table page.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    lode_fuzz::format::check_table(data);
});
