//! Fuzzes the reader of the format `parquet`.

#![no_main]

// The reader catches its decoder's panics, which the fuzzer's own panic hook would not let pass.
libfuzzer_sys::fuzz_target!(
    init: {
        std::panic::set_hook(Box::new(|_| {}));
    },
    |data: &[u8]| {
        lode_fuzz::check("parquet", data);
    }
);
