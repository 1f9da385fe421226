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
//!    nothing. Serve the events it gives back; all cancels in what was read are marked by then.
//! 2. Serve [`Connection::poll_event`] until it is empty: what commands and timers made happen.
//! 3. Write what [`StreamConnection::poll_transmit`] gives until that is empty.
//! 4. Sleep until there are bytes to read, or [`Connection::poll_timeout`] is due; then call
//!    [`Connection::handle_timeout`].
//! 5. In between, at any time and in any order: [`Connection::call`], [`Connection::cancel`],
//!    [`Connection::respond`], …
//! 6. At the end of input call [`StreamConnection::finish`]; the last event is [`Event::Closed`].
//!
//! # Which layer to use
//!
//! - [`StreamConnection`] for bytes: pipes, sockets.
//! - [`Connection`] for whole messages: WebSocket, postMessage, tests.
//! - [`Relay`] to join two connections: a client in front, a server behind.
//! - [`machine::Machine`] for decisions alone: to search its state space.
//!
//! What a protocol asks for is data, a [`Dialect`]; what a host chooses is a [`Config`]. What the
//! peer does wrong is a [`Violation`], what the host does wrong a [`Refusal`]. The guarantees, named
//! G1 to G12 here and in the tests, are listed in `docs/ARCHITECTURE.md`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod answer;
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
mod outbox;
mod relay;
mod slot;
mod stream;
mod time;
mod token;
mod violation;
mod wire;

pub use answer::{CallError, RpcError};
pub use cause::{Cause, CloseReason};
pub use config::{CallOptions, Config, Limits, OverLimit, RawCancels, Shutdown, UnknownOperations};
pub use connection::Connection;
pub use dialect::{
    AnswerRule, BatchRule, BeforeStart, CancelRule, CancelTarget, Cancellers, CapabilityRule,
    ClosedStream, Dialect, Envelope, Exchange, Grace, List, MessageOrder, PartialResults,
    ProgressRule, Revision, RevisionRule, Role, SessionRule, Text, Uncancellable, code,
};
pub use error::{Refusal, SendError};
pub use event::{ErrorObject, Event, Outcome, Params, Reply, Transmit, TransmitKind};
pub use frame::Framing;
pub use id::{IdRule, WireId};
pub use input::InputBuffer;
pub use machine::{
    CallId, CancelOutcome, CancelRefusal, RequestHandle, RequestPhase, Settlement, TimerReason,
};
pub use relay::{Relay, RelayConnection, RelayEvent, Side};
pub use stream::{StreamConnection, Taken};
pub use time::Timestamp;
pub use token::{InvalidToken, OperationToken};
pub use violation::{EnvelopeProblem, Violation};
pub use wire::raw_value;
#[cfg(feature = "std")]
pub use wire::write_value;
