//! Runs [`rescind_fuzz::handler`] on the fuzzer's bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rescind_fuzz::handler(data));
