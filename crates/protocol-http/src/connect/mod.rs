//! A client of MCP or ACP over HTTP, on tokio with hyper.
//!
//! It speaks all revisions of Streamable HTTP. The revision is the one that the host's opening agrees on: `initialize` of
//! an earlier one, or none for MCP 2026-07-28. Over HTTP/1.1, each exchange has a connection of its own.
//!
//! TLS is the host's choice: [`ClientOptions::open`] returns a stream, and says whether HTTP/2 is spoken on it.
//!
//! ```
//! use protocol_core::{Config, Dialect};
//! use protocol_http::connect::{ClientOptions, connect};
//! use serde_json::{Value, json};
//!
//! # async fn example() -> Result<(), Box<dyn core::error::Error>> {
//! let target = "http://127.0.0.1:8080/mcp".parse()?;
//! let config = Config::client(Dialect::MCP_2026_07_28_HTTP);
//! let (peer, _incoming, driver) = connect(target, config, ClientOptions::default());
//! tokio::spawn(driver);
//! let meta = json!({
//!     "io.modelcontextprotocol/protocolVersion": "2026-07-28",
//!     "io.modelcontextprotocol/clientCapabilities": {},
//! });
//! let tool = json!({ "name": "sleep", "arguments": { "ms": 10_000 }, "_meta": meta });
//! let call = peer.call::<Value>("tools/call", tool);
//! peer.flushed().await;
//! // It closes the response stream, which is the cancel in this revision.
//! call.cancel();
//! # Ok(())
//! # }
//! ```
//!
//! # A lost stream
//!
//! In ACP, a lost stream loses the calls whose response was to come on it. One that is resumed loses none, although what
//! the server sent in the gap does not come. A timeout for that is the host's.
//!
//! A stream that ends without the response is resumed where an event had an id and the revision has resumption. Otherwise
//! its call settles as [`ConnectionLost`](protocol_async::CallError::ConnectionLost), and other calls go on. A server that
//! knows the session no longer ends the connection. [`ClientOptions::trouble`] sees a message without a response that the
//! server did not take. It also sees why the stream of the session itself is not read any more.
//!
//! # Memory
//!
//! A message is charged to [`Options::account`](protocol_async::Options::account) until the server takes it: while it waits
//! to be posted, and on its way.

mod carry;
mod driver;
mod exchange;
mod options;
mod wire;

pub use self::carry::{Carried, carry};
pub use self::driver::connect;
pub use self::options::{ClientOptions, Open, ServerStream, Stream, Target, Trouble};
