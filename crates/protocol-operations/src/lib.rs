//! A registry of operations that outlive the JSON-RPC request that started them.
//!
//! With the crate `rescind` this is `rescind::operations`.
//!
//! In some protocols, such as erlmcp, the response to a request comes at once and carries an
//! [`OperationToken`]. The work goes on, and the holder of the token may cancel it. [`Operations`]
//! keeps every live operation: its cancellation and the reason, its age, and its partial result.
//!
//! The registry is pure. It has no clock, no randomness and no threads: time and entropy are
//! inputs, and its methods return what the host has to do. It reads and writes no messages either.
//! `protocol_core::Connection` does, and `protocol_async::SharedOperations` joins the two.
//!
//! # The life of an operation
//!
//! ```text
//!                      active                      stopping          cancelled
//! graceful cancel      stopping: notify            -                 -
//! forced cancel        cancelled: notify and stop  cancelled: stop   -
//! grace expired        impossible                  cancelled: stop   impossible
//! finished             ended: complete             ended: clean up   ended: clean up
//! worker lost          ended: lose                 ended: clean up   ended: clean up
//! ```
//!
//! A column is a [`Status`] and a row is an [`Input`]. A cell names the status afterwards and, after
//! the colon, the [`Step`] that is left to the host. A dash changes nothing. [`Status::on`] returns
//! a cell.
//!
//! - *notify*: the host notifies the client that the operation is cancelled, and why.
//! - *stop*: the host stops the worker. Then it calls [`finish`](Operations::finish), or
//!   [`worker_lost`](Operations::worker_lost) if the worker died of that.
//! - *complete* and *lose*: the registry counts an operation that nobody cancelled.
//! - *clean up*: the host cleans up after a cancelled operation, if its kind wants that. The worker
//!   no longer runs then, so nothing that it uses is taken away from it.
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
//! // A request arrives. Its worker begins, and the response carries the token.
//! let operation = operations.register("tool/call", entropy, "worker 7", now)?;
//! let token = operations.token(operation).expect("the operation is live");
//!
//! // The worker does its first ten steps, and checks whether to go on.
//! operations.keep_partial(operation, 10)?;
//! operations.check(operation)?;
//!
//! // The client cancels by token.
//! let found = operations.find(token).expect("the operation is live");
//! let step = operations.cancel(found, CancelReason::ClientRequested, Urgency::Forced, now)?;
//! assert_eq!(step, Step::NotifyAndStop);
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
mod operation;
mod reason;
mod registry;
mod table;
mod token;

pub use error::{CheckError, NotFound, RegisterError, RegisterProblem, TooManyKinds};
pub use metrics::{Cleanup, DURATION_BUCKETS_MS, Kind, Metrics};
pub use operation::{Ended, OperationId, OperationInfo, Urgency};
pub use reason::CancelReason;
pub use registry::{Limits, Operations};
pub use table::{Input, Status, Step, Transition};
pub use token::OperationToken;
