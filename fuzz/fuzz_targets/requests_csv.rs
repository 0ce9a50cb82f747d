//! Fuzzes the reader of the format `requests-csv`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    lode_fuzz::check("requests-csv", data);
});
