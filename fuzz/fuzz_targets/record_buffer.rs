//! Fuzzes the record buffer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    lode_fuzz::format::check_record_buffer(data);
});
