//! Runs [`rescind_fuzz::schedule`] on the fuzzer's bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rescind_fuzz::schedule(data));
