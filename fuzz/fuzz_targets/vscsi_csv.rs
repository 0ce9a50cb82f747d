//! Fuzzes the reader of the format `vscsi-csv`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    lode_fuzz::check("vscsi-csv", data);
});
