//! Fuzzes [`rescind_fuzz::differential`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rescind_fuzz::differential(data));
