//! Fuzzes the reader of the format `blkparse`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    lode_fuzz::check("blkparse", data);
});
