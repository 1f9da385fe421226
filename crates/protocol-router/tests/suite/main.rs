//! The router, over a pair of connections.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ends;
mod f41_router;
mod fallback;
mod order;
mod served;
mod state;
mod turns;
mod wire;
