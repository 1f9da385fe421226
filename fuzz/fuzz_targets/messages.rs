//! Fuzzes [`rescind_fuzz::messages`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rescind_fuzz::messages(data));
