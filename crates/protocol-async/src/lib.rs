//! [`protocol_core`] for any executor: no runtime is named here.
//!
//! With the crate `rescind` this is `rescind::executor`.
//!
//! # The parts
//!
//! - [`connect`] makes a connection out of any byte streams. It returns a [`Peer`] to send, an
//!   [`Incoming`] stream to receive, and a [`Driver`] future for the executor to run. The driver reads
//!   and marks cancels while handlers run, while the outbox is full and while the peer isn't reading
//!   (G3).
//! - [`connect_messages`] does the same over a transport that keeps messages apart by itself, such as a
//!   WebSocket.
//! - [`SentRequest`] is a call in flight: a future of its outcome. It can be cancelled, detached or
//!   forwarded. Dropping it cancels the call.
//! - [`Responder`] owes a request its one response, and sends one even when it is dropped.
//! - [`Cancellation`] is the marker that tells a handler to stop.
//! - The crate `rescind-router` serves by method on top of [`Incoming`].
//! - [`SharedOperations`] lists the operations of a dialect whose requests get a token as their response.
//! - [`relay()`] joins a client and a server whose messages only pass through.
//! - [`Timer`] is all that a runtime has to bring besides byte streams.
//!
//! Everything that decides is in [`protocol_endpoint`]: an endpoint stands behind one lock, which is held
//! for one command or one read. Wakers, callbacks and destructors of the host's run after it is released.
//!
//! Handles are `Send` and work on any thread, inside a runtime or outside. Nothing asks for `Send` from
//! the code that serves:
//!
//! ```
//! use protocol_async::{Arrival, Incoming};
//!
//! /// Serves `add`; on any executor.
//! async fn serve(incoming: Incoming) {
//!     while let Ok(arrival) = incoming.receive().await {
//!         let Arrival::Request(request, responder) = arrival else { continue };
//!         match request.method.as_str() {
//!             "add" => responder.cast().respond_with_result(
//!                 request.params().map(|(a, b): (i64, i64)| a + b),
//!             ),
//!             _ => responder.respond_with_failure(request.unknown_method()),
//!         }
//!     }
//! }
//! ```
#![forbid(unsafe_code)]

mod account;
mod cancellation;
mod catch_panic;
mod charge;
mod closed;

mod driver;
mod handle;
#[doc(hidden)]
pub mod hooks;
#[doc(hidden)]
pub mod hub;
mod incoming;
mod json;
mod lease;
mod messages;
mod method;
pub mod operations;
mod options;
pub mod outside;
mod peer;
mod pipe;
mod prepared;
mod proxy;
pub mod relay;
mod responder;
mod sent;
mod shared;
mod sleep;
mod spanned;
#[cfg_attr(not(feature = "tracing"), path = "spans_off.rs")]
mod spans;
mod sync;
mod timer;
mod trouble;
mod wait;
mod waiter;

pub use account::Account;
pub use cancellation::{Cancellation, Canceller, Following, WeakCanceller};
pub use closed::Closed;
pub use driver::{Driver, connect};
pub use handle::CancellationHandle;
pub use incoming::{Arrival, Incoming};
pub use messages::{MessageDriver, connect_messages};
pub use method::Method;
pub use operations::SharedOperations;
pub use options::{Noise, Observer, Options, Trace};
pub use peer::{Cork, Peer};
pub use prepared::PreparedRequest;
pub use protocol_endpoint::{
    AccountLimits, Answer, Bucket, Budget, Budgets, CallError, Cancelled, Cheap, Direction,
    Failure, Grant, InFlight, Internal, InvalidParams, KeepAlive, Memory, MethodName, NoKeepAlive,
    Notification, OverBudget, Panicked, Phase, Request, RpcError, Unanswered, UndoEnd, UndoLimits,
    UndoRefused, Undone, Verdict, Way,
};
pub use relay::{RelayDriver, relay};
pub use responder::Responder;
pub use sent::SentRequest;
pub use timer::Timer;
