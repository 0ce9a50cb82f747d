//! Fuzzes the journal page.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    lode_fuzz::format::check_journal(data);
});
