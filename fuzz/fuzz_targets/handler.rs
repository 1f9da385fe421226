//! Fuzzes [`rescind_fuzz::handler`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rescind_fuzz::handler(data));
