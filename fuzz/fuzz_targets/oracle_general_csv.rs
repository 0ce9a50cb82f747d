//! Fuzzes the reader of the format `oracle-general-csv`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    lode_fuzz::check("oracle-general-csv", data);
});
