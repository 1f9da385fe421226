//! A spawned server: it is ours until it is gone, with everything it started.
//!
//! With the crate `rescind` this is `rescind::child`.
//!
//! The crates `rescind-tokio` and `rescind-smol` have a function `child` each, and most programs need no
//! more. This crate is what they share, for any other executor and for plain threads.
//!
//! - [`ChildCommand`] is a command, with the time that its process has to end and the destination of
//!   its standard error.
//! - [`spawn`] returns an [`Owner`] and two pipes. The process is in a group of its own. Dropping the
//!   owner ends that group, on threads of our own. So it works within a runtime, without one, and while
//!   a panic unwinds.
//! - [`connect`] makes a connection of them. The process is waited for beside it. When it dies, every
//!   call settles with its exit status, even if something that it started keeps its output open.
//! - [`Process`] is a handle with its id, its end and the last of its standard error.
//!
//! # How it ends
//!
//! 1. Its standard input is closed, which asks a server to end.
//! 2. If anything of the group is left after the grace, all of it gets `SIGTERM`.
//! 3. If anything is left after another grace, all of it gets `SIGKILL`.
//!
//! Once an [`Output`] or a [`BlockingOutput`] is dropped, a thread reads and drops the rest of the standard
//! output meanwhile. So nothing dies of a broken pipe while it is about to end by itself.
//!
//! The same happens when the process ends by itself and leaves others of its group behind. It also happens
//! when we are killed: a watchdog, which is a small `/bin/sh`, then does these steps. On Windows the group is a
//! job, which ends with us. Step 2 and that thread are missing there.
//!
//! A process that leaves the group, as daemons do with `setsid`, leaves us too. On Linux a
//! [supervisor](ChildCommand::supervisor) holds those: nothing that descends from the process is left. One that has not
//! ended all of it within ten seconds of `SIGKILL` is killed, with all that it has.
#![forbid(unsafe_code)]

mod blocking;
mod command;
mod connection;
mod group;
mod lock;
mod output;
mod pipe;
mod process;
#[cfg(unix)]
mod processes;
mod stderr;
#[cfg(target_os = "linux")]
mod supervise;
#[cfg(unix)]
mod watchdog;

pub use blocking::BlockingOutput;
pub use command::{ChildCommand, Spawned, spawn};
pub use connection::{ChildConnection, connect};
#[cfg(target_os = "linux")]
pub use group::supervised::kill_supervised;
pub use output::Output;
pub use process::{Owner, Process, Pushed};
pub use stderr::{ShowLine, Stderr};
#[cfg(target_os = "linux")]
pub use supervise::{Detached, Ended, Supervision, supervise};
