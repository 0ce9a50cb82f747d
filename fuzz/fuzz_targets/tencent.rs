//! Fuzzes the reader of the format `tencent`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    lode_fuzz::check("tencent", data);
});
