//! One end of a connection: everything that a host needs beside the core, without a lock, a clock or a
//! runtime.
//!
//! With the crate `rescind` this is `rescind::endpoint`.
//!
//! [`protocol_core`] decides what a message means. An [`Endpoint`] keeps the state of a host beside it:
//! arrivals, requests at work, waiting responses, outcomes of calls, waiters and the keep-alive. Each has a
//! limit. A host puts the endpoint behind a lock, as `rescind-async` does, or runs it on one thread, as
//! `rescind-blocking` does.
//!
//! # Effects
//!
//! No method wakes, calls or drops a value of the host's. Instead it writes [`Effect`]s into a sink that the
//! host passes in, and the host carries them out once it holds no lock. So a waiter of type `W` or a mark of
//! type `M` may run any code, even code that uses the same endpoint.
//!
//! ```
//! use protocol_core::{Cause, CallOptions, Config, Dialect, Timestamp};
//! use protocol_endpoint::{Effect, Effects, Endpoint, Messages, Options, Output};
//!
//! // This host waits with numbers.
//! let mut endpoint: Endpoint<u32, ()> = Endpoint::new(Options::new(Config::client(Dialect::ACP_V1)));
//! let mut effects = Effects::new();
//!
//! let now = Timestamp::ZERO;
//! let call = endpoint.call("slow", None, CallOptions::default(), now, &mut effects)?;
//! assert!(endpoint.poll_outcome(call, &mut Some(7)).is_none());
//!
//! let mut out = Messages::default();
//! assert_eq!(endpoint.poll_output(&mut out, &mut effects), Output::Write);
//! assert_eq!(out.bytes(), b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"slow\"}\n");
//!
//! endpoint.receive(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":42}\n", now, &mut effects);
//! assert!(matches!(effects.pop(), Some(Effect::Wake(7))));
//! let result = endpoint.poll_outcome(call, &mut None).expect("it has settled");
//! assert_eq!(result.map(|result| result.get().to_owned()).ok().as_deref(), Some("42"));
//! # Ok::<(), protocol_core::Refusal>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(any(test, feature = "std"))]
extern crate std;

mod account;
mod alarms;
mod at_work;
mod budget;
mod calls;
mod effects;
mod endpoint;
mod error;
mod failure;
mod grant;
mod heart;
mod in_flight;
mod inbox;
mod keep_alive;
pub mod mcp;
mod memory;
mod message;
mod method;
mod names;
mod options;
mod outgoing;
mod requests;
mod responses;
mod rows;
mod state;
mod transport;
mod undo;
mod verdict;
mod waiters;

pub use account::{Account, AccountLimits, Grant, Member};
pub use alarms::AlarmId;
pub use budget::{Bucket, Buckets, Budget, Budgets, Cheap, OverBudget, is_counted, is_noise};
pub use effects::{Effect, Effects, OperationEnd, Shown, Way};
pub use error::{CallError, CallOutcome, RpcError};
pub use failure::{Answer, Cancelled, Failure, Internal, InvalidParams, Panicked};
pub use in_flight::{Direction, InFlight, Phase};
pub use inbox::Arrived;
pub use keep_alive::{KeepAlive, NoKeepAlive, Unanswered};
pub use memory::Memory;
pub use message::{Notification, Request};
pub use method::{CLIPPED, MethodName, clip, clip_to};
pub use options::{Options, PATIENCE, PIPE_BYTES, Shows};
pub use outgoing::Messages;
pub use rows::Call;
pub use state::{Core, EndReason, Endpoint};
pub use transport::Output;
pub use undo::{UndoEnd, UndoLimits, UndoRefused, UndoStack, Undone};
pub use verdict::Verdict;
pub use waiters::{Line, Place};
