//! Fuzzes [`rescind_fuzz::frames`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rescind_fuzz::frames(data));
