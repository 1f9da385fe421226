//! Fuzzes [`rescind_fuzz::hub`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rescind_fuzz::hub(data));
