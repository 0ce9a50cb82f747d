//! Fuzzes the pages of a redo log.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    lode_fuzz::format::check_redo_log(data);
});
