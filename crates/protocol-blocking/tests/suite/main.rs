//! The hosts on one thread and on many.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod callbacks;
mod g08_embedded;
mod shared_suite;
mod single;
mod single_limits;
mod single_streams;
mod support;
mod threaded_calls;
mod threaded_requests;
mod threaded_server;
mod trouble;
mod undo;
