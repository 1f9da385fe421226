//! A registry of operations that outlive the JSON-RPC request that started them.
//!
//! In some protocols, erlmcp for one, a request is answered at once with an [`OperationToken`]. The
//! work goes on, and whoever shows the token may cancel it. [`Operations`] knows every operation
//! that is under way: how it was cancelled and why, how long it has run, what it has made so far.
//!
//! The registry is pure. It has no clock, no randomness and no threads: time and entropy are
//! inputs, and what the host is to do is what its methods return. It does not speak on a wire
//! either; `protocol_core::Connection` does, and `protocol_async::SharedOperations` joins the two.
//!
//! # The life of an operation
//!
//! | status | cancelled gracefully | cancelled now | grace is over | finished | worker gone |
//! |---|---|---|---|---|---|
//! | active | stopping: tell | cancelled: tell and stop | - | gone: complete | gone: lose |
//! | stopping | - | cancelled: stop | cancelled: stop | gone: clean up | gone: clean up |
//! | cancelled | - | - | - | gone: clean up | gone: clean up |
//!
//! Before the colon stands the [`Status`] afterwards, behind it the [`Step`] that is the host's to
//! take. [`Status::on`] looks it up. A dash is nothing.
//!
//! - **tell** the client that the operation is cancelled, and why.
//! - **stop** the worker; then call [`finish`](Operations::finish), or
//!   [`worker_gone`](Operations::worker_gone) if it died of that.
//! - **clean up** after a cancelled operation, if its kind wants that. Its worker no longer runs
//!   then, so nothing that it uses is taken away under it.
//!
//! # Example
//!
//! ```
//! use protocol_core::Timestamp;
//! use protocol_operations::{CancelReason, Cleanup, Operations, Step, Urgency};
//!
//! let now = Timestamp::ZERO; // from the host's clock
//! let entropy = [0x5a; 16]; // from the operating system
//! let mut operations: Operations<&str, u32> = Operations::default();
//! operations.declare("tool/call", Cleanup::Wanted)?;
//!
//! // A request came. Its worker begins, and the client is given the token.
//! let operation = operations.register("tool/call", entropy, "worker 7", now)?;
//! let token = operations.token(operation).expect("it was just registered");
//!
//! // The worker does its first ten steps, and asks whether to go on.
//! operations.keep_partial(operation, 10)?;
//! operations.check(operation)?;
//!
//! // The client shows the token.
//! let found = operations.find(token).expect("it is at work");
//! let step = operations.cancel(found, CancelReason::ClientRequested, Urgency::Forced, now)?;
//! assert_eq!(step, Step::TellAndStop);
//! assert!(operations.is_cancelled(operation));
//!
//! // The worker has stopped.
//! let ended = operations.finish(operation)?;
//! assert_eq!((ended.data, ended.partial), ("worker 7", Some(10)));
//! assert_eq!((ended.reason, ended.cleanup), (Some(CancelReason::ClientRequested), Cleanup::Wanted));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod error;
mod metrics;
mod reason;
mod registry;
mod table;
mod token;

pub use error::{CheckError, NotFound, RegisterError, RegisterProblem, TooManyKinds};
pub use metrics::{Cleanup, DURATION_BUCKETS_MS, Kind, Metrics};
pub use reason::CancelReason;
pub use registry::{Ended, Limits, OperationId, OperationInfo, Operations, Urgency};
pub use table::{Input, Status, Step, Transition};
pub use token::OperationToken;
