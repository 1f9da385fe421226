//! The testkit itself: the faults that it finds, and correct programs that it lets pass.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod environment;
mod f123_truth;
mod found;
mod g11_draining;
mod guarantees;
mod handlers;
mod network;
mod tokio_agent;
mod tokio_handlers;
mod w01_stops_by_seeds;
mod whole;
mod wrong_handler;
