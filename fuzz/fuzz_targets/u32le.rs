//! Fuzzes the reader of the format `u32le`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    lode_fuzz::check("u32le", data);
});
