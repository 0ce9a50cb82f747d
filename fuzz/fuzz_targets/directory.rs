//! Fuzzes the directory of volumes and extents.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    lode_fuzz::format::check_directory(data);
});
