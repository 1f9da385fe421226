//! Fuzzes [`rescind_fuzz::relay`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rescind_fuzz::relay(data));
