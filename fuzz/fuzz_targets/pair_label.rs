//! Fuzzes the label of an SSD of a pair.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    lode_fuzz::format::check_pair_label(data);
});
