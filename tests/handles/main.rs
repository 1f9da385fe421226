//! The whole handle API, on every kind of runtime: one suite, written once.
//!
//! Each runtime is a module; another one takes one more file. It brings these parts:
//! - `open` makes a connection, and the future that drives it
//! - `DRIVER` says whether that future or threads drive it
//! - `spawn` runs a future beside the test
//! - `run` runs a test to its end
//! - `Shared` is the pointer that its handlers share: an `Rc` where handlers need not be `Send`

#![allow(clippy::duplicate_mod, reason = "the suite is compiled for each runtime")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

/// The part that drives a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Driver {
    /// The future that `open` gives.
    Future,
    /// Threads that run already.
    Threads,
}

mod far;
mod pipe;

// It mostly waits, beside the suite.
mod conform;

mod blocking;
mod hand_made;
#[cfg(unix)]
mod monoio_local;
mod smol_local;
mod smol_threads;
mod threads;
mod tokio_current_thread;
mod tokio_local;
mod tokio_multi_thread;
