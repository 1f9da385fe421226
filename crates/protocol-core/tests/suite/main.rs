//! The connection and its machine, by guarantee, bug, fault and dialect.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod abp;
mod batches;
mod dap;
mod dialects;
mod erlmcp;
mod f01_memory;
mod f79_silence;
mod f80_formula;
mod f80_reading;
mod f84_documented;
mod faults;
mod g01_settle_once;
mod g02_one_answer;
mod g03_marked_at_once;
mod g04_withdrawal;
mod g05_causes;
mod g05_timers;
mod g06_cascade;
mod g07_end_of_input;
mod g08_limits;
mod g09_bad_input;
mod g10_determinism;
mod g10_dialects;
mod g11_splitting;
mod g12_grace;
mod handles;
mod machine;
mod presets;
mod support;
mod w01_work;
