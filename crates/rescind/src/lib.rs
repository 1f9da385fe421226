//! Request cancellation over JSON-RPC: every call and every request ends exactly once, whatever the peer does.
//!
//! This crate is one name for all parts of rescind. The names that most programs need are here, and each
//! part has a module. Examples of a part name its library: `protocol_async` is [`executor`] here,
//! `protocol_tokio` is [`rescind::tokio`](mod@tokio), and so on.
//!
//! # The smallest agent
//!
//! ```
//! use rescind::{Config, Dialect, Router};
//! use serde_json::{Value, json};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let router = Router::new()
//!     .request("initialize", async |_: Value, _| Ok(json!({ "protocolVersion": 1 })))
//!     .request("session/new", async |_: Value, _| Ok(json!({ "sessionId": "s1" })))
//!     .request("session/prompt", async |prompt: Value, cx| {
//!         let content = json!({ "type": "text", "text": "Let me think." });
//!         let update = json!({ "sessionUpdate": "agent_message_chunk", "content": content });
//!         cx.notify("session/update", json!({ "sessionId": prompt["sessionId"], "update": update })).await?;
//!         // The work of the turn. It is dropped where it stands when the client cancels.
//!         let turn = std::future::pending::<Result<Value, _>>();
//!         cx.cancellation().run_until_cancelled(turn).await
//!     });
//!
//! // `rescind::tokio::stdio(config)` speaks on standard input and output instead.
//! let (client, agent) = tokio::io::duplex(4096);
//! let (reader, writer) = tokio::io::split(agent);
//! let agent = rescind::tokio::spawn(reader, writer, Config::server(Dialect::ACP_V1));
//! tokio::spawn(async move { router.serve(&agent.incoming).await });
//!
//! // A client that stops the turn.
//! let (reader, writer) = tokio::io::split(client);
//! let client = rescind::tokio::spawn(reader, writer, Config::client(Dialect::ACP_V1));
//! client.peer.call::<Value>("initialize", json!({ "protocolVersion": 1 })).await?;
//! let session: Value = client.peer.call("session/new", json!({ "cwd": "/", "mcpServers": [] })).await?;
//! let prompt = json!({ "sessionId": session["sessionId"], "prompt": [] });
//! let turn = client.peer.call::<Value>("session/prompt", prompt);
//! assert!(client.incoming.receive().await.is_ok()); // the update: the turn has begun
//! client.peer.notify("session/cancel", json!({ "sessionId": session["sessionId"] })).await?;
//! assert_eq!(turn.await?["stopReason"], "cancelled");
//! # Ok(())
//! # }
//! ```
//!
//! # Where to go
//!
//! | you have | start at | features |
//! |---|---|---|
//! | tokio | [`rescind::tokio`](mod@tokio) and [`Router`] | the default ones |
//! | smol | [`rescind::smol`](mod@smol) and [`Router`] | `smol`, `router` |
//! | another executor | [`executor`] | `executor`, `router` |
//! | blocking threads | [`blocking::threaded`] | `blocking` |
//! | one synchronous thread | [`blocking::single`] | `blocking` |
//! | a loop of your own | [`rescind::core`](mod@core), or [`endpoint`] with limits and waiters | none |
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `tokio` (default) | [`rescind::tokio`](mod@tokio) |
//! | `router` (default) | [`router`], and [`Router`] and [`Context`] here |
//! | `tracing` (default) | spans and events of calls and requests |
//! | `smol` | [`rescind::smol`](mod@smol) |
//! | `blocking` | [`blocking`] |
//! | `executor` | [`executor`], and its handles here; every other feature but `tracing`, `child` and `record` brings it |
//! | `child` | [`child`], for programs without tokio and smol, which have child processes anyway |
//! | `websocket` | [`websocket`] |
//! | `http` | [`http`] |
//! | `record` | [`record`] |
//! | `acp` | [`acp`], which needs Rust 1.88 |
//! | `lsp` | [`lsp`] |
//! | `tower` | layers of tower around a router on tokio |
//!
//! Without features the crate needs no `std`: it has [`rescind::core`](mod@core), [`endpoint`], [`json`],
//! [`relay`] and [`operations`].
#![no_std]
#![forbid(unsafe_code)]

pub use protocol_core::{CallOptions, Cause, Config, Dialect, Framing, Limits, Role, Timestamp};

#[cfg(feature = "executor")]
pub use protocol_async::{
    Arrival, CallError, Cancellation, Cancelled, Canceller, Failure, Incoming, Notification,
    Options, Peer, Request, Responder, RpcError, SentRequest, Timer,
};
#[cfg(feature = "router")]
pub use protocol_router::{Context, LocalContext, LocalRouter, Next, Router, Served, Trouble};

/// The methods of the Agent Client Protocol, with the types of its schema.
#[cfg(feature = "acp")]
pub mod acp {
    pub use rescind_acp::*;
}

/// Connections on threads that block, and a host on one synchronous thread.
#[cfg(feature = "blocking")]
pub mod blocking {
    pub use protocol_blocking::*;
}

/// Child processes that end with all that they start; no runtime is needed.
#[cfg(feature = "child")]
pub mod child {
    pub use protocol_child::*;
}

/// The state machine that decides, for a loop of your own: bytes in, events and bytes out.
pub mod core {
    pub use protocol_core::*;
}

/// One end of a connection with inbox, limits and waiters, for a host of your own.
pub mod endpoint {
    pub use protocol_endpoint::*;
}

/// Handles and a driver for any executor.
#[cfg(feature = "executor")]
pub mod executor {
    pub use protocol_async::*;
}

/// A server and a client of MCP and ACP over HTTP on tokio, and their decisions for one of your own: streams, sessions, resumption.
#[cfg(feature = "http")]
pub mod http {
    pub use protocol_http::*;
}

/// JSON text, of which a few members are wanted and the rest is not parsed.
pub mod json {
    pub use protocol_json::*;
}

/// The methods of the Language Server Protocol, with the types of `lsp-types`.
#[cfg(feature = "lsp")]
pub mod lsp {
    pub use rescind_lsp::*;
}

/// A registry of operations that outlive the request that started them.
pub mod operations {
    pub use protocol_operations::*;
}

/// Recordings of sessions, as JSON Lines.
#[cfg(feature = "record")]
pub mod record {
    pub use protocol_record::*;
}

/// Two connections joined into a hop.
pub mod relay {
    pub use protocol_relay::*;
}

/// Handlers by method, with state, layers and an explicit order.
#[cfg(feature = "router")]
pub mod router {
    pub use protocol_router::*;
}

/// Connections on smol: streams, standard streams, sockets, child processes.
#[cfg(feature = "smol")]
pub mod smol {
    pub use protocol_smol::*;
}

/// Connections on tokio: streams, standard streams, sockets, child processes.
#[cfg(feature = "tokio")]
pub mod tokio {
    pub use protocol_tokio::*;
}

/// Connections over a WebSocket each, and a listener that admits them.
#[cfg(feature = "websocket")]
pub mod websocket {
    pub use protocol_websocket::*;
}

/// Runs the examples of the README, of the guides and of two pages beside them, so that they stay true.
#[cfg(all(doctest, unix))]
mod documented {
    #[doc = include_str!("../../../README.md")]
    pub struct Readme;
    #[doc = include_str!("../../../docs/guide/acp-agent.md")]
    pub struct AcpAgent;
    #[doc = include_str!("../../../docs/guide/async-runtime.md")]
    pub struct AsyncRuntime;
    #[doc = include_str!("../../../docs/guide/gateway.md")]
    pub struct Gateway;
    #[doc = include_str!("../../../docs/guide/language-server.md")]
    pub struct LanguageServer;
    #[doc = include_str!("../../../docs/guide/moving-a-loop.md")]
    pub struct MovingALoop;
    #[doc = include_str!("../../../docs/guide/http.md")]
    pub struct Http;
    #[doc = include_str!("../../../docs/guide/one-thread.md")]
    pub struct OneThread;
    #[doc = include_str!("../../../docs/guide/tracing.md")]
    pub struct Tracing;
    #[doc = include_str!("../../../docs/memory.md")]
    pub struct Memory;
    #[doc = include_str!("../../../docs/testing-your-handlers.md")]
    pub struct TestingYourHandlers;
}
