//! Request cancellation over JSON-RPC, as a pure state machine.
//!
//! With the crate `rescind` this is `rescind::core`.
//!
//! This crate keeps the table of requests in flight that every JSON-RPC peer needs, and cancels them
//! correctly. It has no I/O, clock, randomness, threads or executor. The host passes bytes or messages
//! in, and takes events and outgoing messages out. The same inputs give the same outputs, byte for byte.
//!
//! # The run loop
//!
//! A host is a program that uses this crate. It may run on threads, on an executor, or on one
//! synchronous thread. Its loop has these steps:
//!
//! 1. **Read.** Read bytes from the transport into an [`InputBuffer`].
//! 2. **Receive.** Call [`StreamConnection::receive`] with the unread bytes. It takes one message and
//!    returns at most one [`Event`]. All cancels in the message have taken effect by then. Repeat this
//!    until it uses no more bytes.
//! 3. **Handle events.** After each call of step 2, take events from [`Connection::poll_event`] until
//!    there are none. They come in the order they happened.
//! 4. **Write.** Take messages from [`StreamConnection::poll_transmit`] until there are none, and write
//!    them to the transport. Each message taken makes room, which [`Event::Ready`] may report: do steps 3 and
//!    4 until there is neither an event nor a message.
//! 5. **Wait.** Wait for more bytes, or until the time that [`Connection::poll_timeout`] returns. When
//!    that time comes, call [`Connection::handle_timeout`] and go on with step 3.
//! 6. **Finish.** At the end of input, call [`StreamConnection::handle_eof`] and do step 3 once more. The
//!    last event is [`Event::Closed`].
//!
//! Commands such as [`Connection::call`], [`Connection::cancel`] and [`Connection::respond`] may come at
//! any time, in any order. Steps 3 and 4 follow a command too.
//!
//! `examples/loopback.rs` in the crate shows this in short. `examples/own_loop.rs` of the crate `rescind` is a
//! whole loop that polls a socket.
//!
//! # Layers
//!
//! - [`StreamConnection`] takes bytes, from pipes and sockets.
//! - [`Connection`] takes whole messages, from WebSocket, `postMessage` or tests.
//! - [`machine::Machine`] takes decisions alone, for a search of its state space.
//!
//! The rules of a protocol are data, a [`Dialect`]. The choices of a host are a [`Config`]. A mistake of
//! the peer is a [`Violation`], and a mistake of the host is a [`Refusal`].
//!
//! # Words
//!
//! - A **call** is a request that we sent. A [`CallId`] names it.
//! - A **request** is one that the peer sent. A [`RequestHandle`] names it.
//! - A call **settles** when it gets its one [`Outcome`]; a request settles when it gets its response.
//! - The **cause** of a cancellation is a [`Cause`].
//!
//! # Guarantees
//!
//! The docs and the tests refer to these numbers.
//!
//! - **G1** Every accepted call settles exactly once and returns the host's data, whatever the peer does.
//! - **G2** Every request gets exactly one response, or none where the dialect demands silence. A request
//!   that had its response can't be cancelled.
//! - **G3** When `receive` returns, every request that the message cancels is marked, however busy the
//!   host is.
//! - **G4** A cancelled call that was not sent is withdrawn. One that was sent gets at most one cancel.
//!   A cancel may overtake other output, but never its own request.
//! - **G5** Cancel, drop, deadline, idle timeout, hard cap and a cancelled parent are one transition with
//!   a recorded cause. A timer frees its caller at once and still notifies the peer.
//! - **G6** Cancelling a request cancels the calls that were made for it. A call that can't be cancelled
//!   goes on. [`Event::TreeSettled`] reports that all of them are over.
//! - **G7** The end of input settles every call. After that it cancels every request, unless the dialect
//!   says otherwise. [`Event::Closed`] comes once and last; only a promised [`Event::Ready`] may follow it.
//! - **G8** Memory is bounded by [`Connection::memory`], a sum of rows times [`Limits`]. Everything that
//!   does not fit gets a response, becomes an event or is refused to the host.
//! - **G9** No input panics. A bad message gets a response where that is possible, and is reported as a
//!   [`Violation`]. Only broken framing ends the connection, and too many requests with
//!   [`Config::close_over_limit`].
//! - **G10** The same inputs give the same outputs, byte for byte. Methods may be called in any order.
//!   A method that returns `Err` changed nothing.
//! - **G11** Splitting the bytes differently changes nothing. Draining outputs later changes only which
//!   calls can still be withdrawn, and which messages a cancel overtakes.
//! - **G12** A cancelled call waits for its response, or settles after a [`Grace`]. Late, duplicate and
//!   unknown responses are told apart. Dropped and detached calls are released after a while.
//!
//! # Bugs and faults
//!
//! **B** with a number is a bug that was found in released software of others. The line that names it
//! keeps the bug out of this crate. These are named most often:
//!
//! - **B9** A cancel is lost because it came in the same read as its request.
//! - **B13** A peer's cancel hits our own call with the same id.
//! - **B23** A good result is replaced by a cancel error.
//!
//! **F** with a number is a fault of this project that was mended. Tests are named after it. In the
//! repository, `docs/testing.md` lists all bugs, and `docs/ARCHITECTURE.md` states the guarantees in full.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
// The random programs are shared with an integration test, which names the crate so.
#[cfg(test)]
extern crate self as protocol_core;
#[cfg(test)]
extern crate std;

mod cause;
mod config;
mod connection;
mod dialect;
mod envelope;
mod error;
mod event;
mod frame;
mod handle;
mod id;
mod index;
mod input;
mod limits;
pub mod machine;
mod outbox;
mod slot;
mod stream;
mod text_enum;
mod time;
mod violation;

pub use cause::{Cause, CloseReason, Settlement, WorkOutcome};
pub use config::{CallOptions, Config, Shutdown};
pub use connection::Connection;
pub use dialect::facts::{Facts, Handshake};
pub use dialect::signs::{Carrier, News, Sign, StopMark, WorkPart, WorkRule};
pub use dialect::{
    BeforeStart, CancelRule, Cancellers, CapabilityRule, Dialect, Envelope, Grace, MessageOrder,
    ProgressRule, RequestKind, ResponseRule, Role, Uncancellable, code,
};
pub use error::{CancelRefusal, Refusal, SendError};
pub use event::{ErrorObject, Event, Outcome, Response, Transmit, TransmitKind};
pub use frame::Framing;
pub use handle::{CallId, RequestHandle, WorkId};
pub use id::{IdRule, WireId};
pub use input::InputBuffer;
pub use limits::Limits;
pub use machine::{CancelOutcome, RequestPhase, TimerReason, WorkName};
#[cfg(feature = "std")]
pub use protocol_json::write_value;
pub use stream::{Received, StreamConnection};
pub use time::Timestamp;
pub use violation::{EnvelopeProblem, Violation};
