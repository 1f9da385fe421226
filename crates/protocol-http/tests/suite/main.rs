//! The pure parts of HTTP: the decoder, every ordering of an exchange, and memory.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod decoder;
mod memory;
mod orderings;
mod orderings_acp;
