//! The endpoint, by guarantee and fault.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod account;
mod f122_found;
mod f85_bombs;
mod g01_orderings;
mod g08_limits;
mod planted_faults;
mod promises;
