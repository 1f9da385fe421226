//! Request cancellation over JSON-RPC, as a pure state machine.
//!
//! No I/O, no clock, no randomness, no threads, no executor: bytes or messages go in, and what to
//! send and what happened come out. The same inputs give the same outputs, byte for byte.
//!
//! # The run loop
//!
//! Whatever the host is (threads, an executor, one synchronous thread), it does this:
//!
//! 1. Read bytes into an [`InputBuffer`] and call [`StreamConnection::receive`] until it uses
//!    nothing. Each call takes one message, and gives the oldest event that the host has not been
//!    told; all cancels in that message are marked by then.
//! 2. After each of these calls, and after commands and timers, serve [`Connection::poll_event`]
//!    until it is empty: all other events come from there, in the order they happened.
//! 3. Write what [`StreamConnection::poll_transmit`] gives until that is empty.
//! 4. Sleep until there are bytes to read, or [`Connection::poll_timeout`] is due; then call
//!    [`Connection::handle_timeout`].
//! 5. In between, at any time and in any order: [`Connection::call`], [`Connection::cancel`],
//!    [`Connection::respond`], …
//! 6. At the end of input call [`StreamConnection::finish`], and serve [`Connection::poll_event`]
//!    once more: [`Event::Closed`] is the last thing that happens.
//!
//! # Which layer to use
//!
//! - [`StreamConnection`] for bytes: pipes, sockets.
//! - [`Connection`] for whole messages: WebSocket, postMessage, tests.
//! - [`machine::Machine`] for decisions alone: to search its state space.
//!
//! What a protocol asks for is data, a [`Dialect`]; what a host chooses is a [`Config`]. What the
//! peer does wrong is a [`Violation`], what the host does wrong a [`Refusal`].
//!
//! # Words
//!
//! A **call** is a request that we sent, named by a [`CallId`]. A **request** is one that the peer
//! sent, named by a [`RequestHandle`]. A call **settles** when it gets its one [`Outcome`]. The
//! [`Cause`] says why something was cancelled.
//!
//! # Guarantees
//!
//! The docs and the tests name them by these numbers.
//!
//! - **G1** Every accepted call settles exactly once and gives its data back, whatever the peer does.
//! - **G2** Every request gets exactly one answer, or none where the dialect wants silence, and an
//!   answered request can't be cancelled.
//! - **G3** When `receive` returns, every request that the message cancels is marked, however busy the
//!   host is.
//! - **G4** A call that has not left is withdrawn when it is cancelled; one that has left gets at most
//!   one cancel, which may overtake other output but never its own request.
//! - **G5** Cancel, drop, deadline, idle timeout, hard cap and a cancelled parent are one transition
//!   with a recorded cause; a timer frees its caller at once and still tells the peer.
//! - **G6** Cancelling a request cancels the calls that were made for it, and
//!   [`Event::TreeSettled`] says when all of them are over.
//! - **G7** The end of input settles every call and marks every request, as far as the dialect takes it
//!   for a cancel; [`Event::Closed`] comes once and is the last of what happens, and only an
//!   [`Event::Ready`] that was promised may follow it.
//! - **G8** Memory is bounded by [`Connection::memory`], a sum of rows times [`Limits`]; what does not
//!   fit is an answer or an event.
//! - **G9** No input panics; a bad message is answered where it can be and reported as a
//!   [`Violation`], and only broken framing ends the connection.
//! - **G10** The same inputs give the same outputs, byte for byte; methods may be called in any order,
//!   and one that returns `Err` changed nothing.
//! - **G11** How bytes were split changes nothing; when outputs are drained changes only what can
//!   still be withdrawn, and what a cancel overtakes.
//! - **G12** A cancelled call waits for its answer or settles after a [`Grace`]; late, duplicate and
//!   unknown responses are told apart, and dropped and detached calls are released after a while.
//!
//! # Bugs
//!
//! **B** and a number, such as B13, is a bug that was met in released software of others, and that the
//! line which names it keeps out: B9 is a cancel that is lost because it came in the same read as
//! its request, B13 a peer's cancel that hits our own call of the same id, B23 a good result that is
//! replaced by a cancel error. `docs/testing.md` in the repository lists all 33, and
//! `docs/ARCHITECTURE.md` states the guarantees in full. **F** and a number is a fault of this
//! project itself that was mended; tests are named for it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod cause;
mod config;
mod connection;
mod dialect;
mod error;
mod event;
mod frame;
mod id;
mod index;
mod input;
pub mod machine;
mod named;
mod outbox;
mod slot;
mod stream;
mod time;
mod violation;
mod wire;

pub use cause::{Cause, CloseReason};
pub use config::{CallOptions, Config, Limits, Shutdown};
pub use connection::Connection;
pub use dialect::{
    BeforeStart, CancelRule, Cancellers, CapabilityRule, Dialect, Envelope, Grace, MessageOrder,
    ProgressRule, ResponseRule, Role, Uncancellable, code,
};
pub use error::{Refusal, SendError};
pub use event::{ErrorObject, Event, Outcome, Response, Transmit, TransmitKind};
pub use frame::Framing;
pub use id::{IdRule, WireId};
pub use input::InputBuffer;
pub use machine::{
    CallId, CancelOutcome, CancelRefusal, RequestHandle, RequestPhase, Settlement, TimerReason,
};
#[cfg(feature = "std")]
pub use protocol_json::write_value;
pub use stream::{StreamConnection, Taken};
pub use time::Timestamp;
pub use violation::{EnvelopeProblem, Violation};
