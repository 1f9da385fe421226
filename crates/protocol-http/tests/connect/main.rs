//! The client, with our server, and with servers that are bytes on a socket.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod acp;
mod broken;
mod carry;
mod host;
mod http2;
mod memory;
mod paused;
mod revisions;
