//! Fuzzes [`rescind_fuzz::schedule`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rescind_fuzz::schedule(data));
