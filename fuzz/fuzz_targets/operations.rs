//! Runs [`rescind_fuzz::operations`] on the fuzzer's bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rescind_fuzz::operations(data));
