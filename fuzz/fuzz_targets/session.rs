//! Fuzzes [`rescind_fuzz::session`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rescind_fuzz::session(data));
