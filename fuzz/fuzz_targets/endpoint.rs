//! Fuzzes [`rescind_fuzz::endpoint`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rescind_fuzz::endpoint(data));
