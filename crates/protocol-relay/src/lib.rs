//! Two JSON-RPC connections joined into a hop: one peer's requests are the other peer's, and so are
//! their cancellations.
//!
//! With the crate `rescind` this is `rescind::relay`.
//!
//! A [`Relay`] stands between a client and a server. It is as pure as the connections that it joins: no
//! I/O, no clock, no threads. The two sides may speak different dialects. Here an ACP client calls an
//! LSP server through it, and its cancellation arrives as the server's own dialect writes it:
//!
//! ```
//! use protocol_core::{Cause, Config, Dialect, Event, Response, StreamConnection, Timestamp};
//! use protocol_relay::{Relay, Side};
//!
//! let now = Timestamp::ZERO;
//! let mut client: StreamConnection<&str> = StreamConnection::new(Config::client(Dialect::ACP_V1));
//! let mut server: StreamConnection<()> = StreamConnection::new(Config::server(Dialect::LSP_3_17));
//! let mut relay = Relay::new(Config::server(Dialect::ACP_V1), Config::client(Dialect::LSP_3_17));
//!
//! // Carries one message through the relay, and empties the buffer that it came in.
//! let mut forward = |from: Side, wire: &mut Vec<u8>| {
//!     let received = relay.receive(from, wire, now);
//!     assert_eq!((received.consumed, received.event), (wire.len(), None));
//!     wire.clear();
//!     let mut forwarded = Vec::new();
//!     relay.poll_transmit(from.other(), &mut forwarded);
//!     forwarded
//! };
//!
//! let mut wire = Vec::new();
//! let call = client.connection_mut().call("slow", None, "my data", Default::default(), now)?;
//! client.poll_transmit(&mut wire);
//! let forwarded = forward(Side::Up, &mut wire);
//! let Some(Event::Request { request, .. }) = server.receive(&forwarded, now).event else {
//!     panic!("it is a request");
//! };
//!
//! client.connection_mut().cancel(call, Cause::Caller, now);
//! client.poll_transmit(&mut wire);
//! let forwarded = forward(Side::Up, &mut wire);
//! assert!(forwarded.ends_with(br#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#));
//! let event = server.receive(&forwarded, now).event;
//! assert!(matches!(event, Some(Event::Cancelled { cause: Cause::Peer, .. })));
//!
//! server.connection_mut().respond(request, Response::Cancelled)?;
//! server.poll_transmit(&mut wire);
//! let forwarded = forward(Side::Down, &mut wire);
//! let Some(Event::Settled { outcome, data, .. }) = client.receive(&forwarded, now).event else {
//!     panic!("it is a response");
//! };
//! assert_eq!((outcome.settlement().as_str(), data), ("cancelled", "my data"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod event;
mod forward;
mod guard;
mod ids;
mod memory;
mod params;
mod relay;
mod responses;

pub use event::{RelayEvent, Side};
pub use guard::Guard;
pub use ids::IdPlace;
pub use relay::Relay;
