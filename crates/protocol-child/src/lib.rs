//! A spawned server: it is ours until it is gone, with everything it started.
//!
//! The crates `protocol-tokio` and `protocol-smol` have a function `child` each, which is mostly all
//! that is needed; this is what they share, for any other executor and for plain threads.
//!
//! - [`ChildCommand`] says what is spawned, how long it may take to end, and where its standard
//!   error goes.
//! - [`spawn`] gives an [`Owner`] and two pipes. The process is in a group of its own. Dropping the
//!   owner ends that group, on threads of our own, so it works in every place: within a runtime,
//!   without one, while a panic unwinds.
//! - [`connect`] makes a connection of them. The process is waited for beside it: when it dies, every
//!   call settles with its exit status, even if something that it started keeps its output open.
//! - [`Process`] tells its id, its end and the last of its standard error.
//!
//! # How it ends
//!
//! 1. Its standard input is closed, which is how a server is asked to end.
//! 2. Has anything of the group not ended after the grace, all of it gets `SIGTERM`.
//! 3. Has anything not ended after another grace, all of it gets `SIGKILL`.
//!
//! What it writes to its standard output meanwhile is read and dropped, so that it does not die of a
//! broken pipe while it is about to end by itself.
//!
//! The same happens when the process ends by itself and leaves others of its group behind, and when
//! we are killed, whatever kills us: a watchdog, which is a small `/bin/sh`, then does these steps.
//! On Windows the group is a job, which ends with us; step 2 is missing there.
//!
//! A process that leaves the group, as daemons do with `setsid`, leaves us too.
#![forbid(unsafe_code)]

mod blocking;
mod command;
mod connection;
#[cfg(unix)]
#[path = "group/unix.rs"]
mod group;
#[cfg(windows)]
#[path = "group/windows.rs"]
mod group;
mod output;
mod process;
mod stderr;
#[cfg(unix)]
mod watchdog;

pub use blocking::BlockingOutput;
pub use command::{ChildCommand, Spawned, spawn};
pub use connection::{ChildConnection, connect};
pub use output::Output;
pub use process::{Owner, Process, Pushed};
pub use stderr::{ShowLine, Stderr};
