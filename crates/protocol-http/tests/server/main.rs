//! The server, as clients see it that are bytes on a stream.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod acp;
mod client;
mod host;
mod memory;
mod requests;
mod sessions;
mod streams;
mod transports;
