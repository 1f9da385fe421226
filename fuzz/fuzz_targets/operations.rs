//! Fuzzes [`rescind_fuzz::operations`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rescind_fuzz::operations(data));
