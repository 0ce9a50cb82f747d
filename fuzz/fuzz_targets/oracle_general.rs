//! Fuzzes the reader of the format `oracle-general`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    lode_fuzz::check("oracle-general", data);
});
