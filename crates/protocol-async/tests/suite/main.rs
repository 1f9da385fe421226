//! Handles, drivers and the hub, without a runtime.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod account;
mod budgets;
mod f77_handles;
mod f85_unlocked;
mod f86_room;
mod f90_followers;
mod f91_slow_readers;
mod g08_account;
mod hub;
mod lock;
mod messages;
mod operations;
mod planted_faults;
mod proxies;
mod relay_budgets;
mod relay_pace;
mod transport_cancels;
