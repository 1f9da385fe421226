//! [`protocol_core`] for any executor: no runtime is named here.
//!
//! # The parts
//!
//! - [`connect`] makes a connection out of any byte streams: a [`Peer`] to send, an [`Incoming`]
//!   stream to receive, and a [`Driver`] future for the executor to run. The driver reads and marks
//!   cancels while handlers run, while the outbox is full and while the peer isn't reading (G3).
//! - [`connect_messages`] does the same over a transport that keeps messages apart by itself, such
//!   as a WebSocket.
//! - [`SentRequest`] is a call in flight: a future of its outcome. It can be cancelled, detached,
//!   forwarded; dropping it cancels the call.
//! - [`Responder`] owes a request its one answer, and pays even when it is dropped.
//! - [`Cancellation`] is the marker that tells a handler to stop.
//! - [`Router`] serves by method on top of [`Incoming`].
//! - [`SharedOperations`] knows the operations of a dialect whose requests are answered with a token.
//! - [`relay()`] joins a client and a server whose messages only pass through.
//! - [`Timer`] is all that a runtime has to bring besides byte streams.
//!
//! Handles are `Send` and work on any thread, inside a runtime or outside: each operation only
//! takes a short lock and enqueues. Nothing asks for `Send` from handlers: those of a [`Router`] are
//! `Send`, those of a [`LocalRouter`] need not be.
//!
//! ```
//! use protocol_async::Router;
//!
//! // Serves `add`; on any executor.
//! let router = Router::new().request("add", async |(a, b): (i64, i64), _cx| Ok(a + b));
//! ```
#![forbid(unsafe_code)]

mod afterwards;
mod answer;
mod at_work;
mod budget;
mod cancellation;
mod cancelled;
mod closed;
mod contain;
mod driver;
mod failure;
mod handle;
#[doc(hidden)]
pub mod hub;
mod in_flight;
mod inbox;
mod incoming;
mod json;
mod keep_alive;
mod lease;
mod mcp;
mod memory;
mod message;
mod messages;
mod method;
mod names;
mod noise;
pub mod operations;
mod options;
mod outcome;
mod outgoing;
pub mod outside;
mod peer;
mod pipe;
mod prepared;
mod proxy;
pub mod relay;
mod responder;
pub mod router;
mod sent;
mod shared;
mod spanned;
#[cfg_attr(not(feature = "tracing"), path = "spans_off.rs")]
mod spans;
mod state;
mod sync;
mod timer;
mod turn;
mod verdict;
mod wait;
mod waiters;

pub use answer::{CallError, RpcError};
pub use budget::{Bucket, Budget, Budgets, Cheap, OverBudget};
pub use cancellation::{Cancellation, Canceller, Following, WeakCanceller};
pub use cancelled::Cancelled;
pub use closed::Closed;
pub use driver::{Driver, connect};
pub use failure::{Answer, Failure, Internal, InvalidParams, Panicked};
pub use handle::CancellationHandle;
pub use in_flight::{Direction, InFlight, Phase};
pub use incoming::{Arrival, Incoming};
pub use keep_alive::{KeepAlive, NoKeepAlive, Unanswered};
pub use memory::Memory;
pub use message::{Notification, Request};
pub use messages::{MessageDriver, connect_messages};
pub use method::{Method, MethodName};
pub use noise::Noise;
pub use operations::SharedOperations;
pub use options::{Options, Trace, Way};
pub use peer::{Cork, Peer};
pub use prepared::PreparedRequest;
pub use relay::{RelayDriver, relay};
pub use responder::Responder;
pub use router::{Claim, Context, LocalContext, LocalRouter, Router};
pub use sent::SentRequest;
pub use timer::Timer;
pub use verdict::{Observer, Verdict};
