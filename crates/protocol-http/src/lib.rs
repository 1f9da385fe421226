//! MCP and ACP over HTTP, whose lost streams are not misread.
//!
//! With the crate `rescind` this is `rescind::http`.
//!
//! # The parts
//!
//! - [`Session`] is the table of the exchanges of one session. It has no I/O and no clock. Heads, bodies, lost streams,
//!   times and messages of the endpoint go in, and [`Action`]s come out.
//! - [`Gate`] judges the head of a request, and [`Posted`] reads its body. A [`Refusal`] has its status.
//! - [`Rules`] are one revision of Streamable HTTP, of MCP or ACP, as data.
//! - [`ClientSession`] has the headers of what a client posts, and [`ResponseStream`] says what becomes of a call.
//! - [`Decoder`] reads server-sent events, at any split of the bytes.
//!
//! A host brings the sockets, HTTP itself and one endpoint a session. With the feature `server`, the module `server` does.
//! With the feature `client`, the module `connect` does.
//!
//! # A lost stream
//!
//! A stream that closes is the cancel of its request in MCP 2026-07-28, and nothing of the kind before that or in ACP. [`OnLoss`]
//! is the choice of the host: it cancels now, cancels after a while, or goes on. Proxies may hide that a client has gone
//! until bytes flow. So a session sends heads at once and a comment each second, as far as the client accepts events.
#![cfg_attr(not(any(feature = "client", feature = "server")), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod client;
#[cfg(feature = "client")]
pub mod connect;
#[cfg(any(feature = "client", feature = "server"))]
mod endpoint;
mod gate;
mod post;
mod refusal;
mod rules;
#[cfg(feature = "server")]
pub mod server;
mod session;
mod sse;
mod store;
mod table;

pub use client::{ClientSession, Lane, Outgoing, ResponseStream, StreamLimits, StreamStep};
#[cfg(any(feature = "client", feature = "server"))]
pub use endpoint::set_tcp_options;
pub use gate::{Gate, RequestHead};
pub use post::{Message, Posted};
pub use refusal::Refusal;
pub use rules::{OnLoss, Rules};
pub use session::{Action, Session, SessionOptions, StreamId};
pub use sse::{Decoder, SseEvent, TooLong, comment, event};
