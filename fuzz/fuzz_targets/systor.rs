//! Fuzzes the reader of the format `systor`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    lode_fuzz::check("systor", data);
});
