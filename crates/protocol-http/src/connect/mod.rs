//! A client of MCP over HTTP, on tokio with hyper.
//!
//! It speaks HTTP/1.1, in all revisions of Streamable HTTP. The revision is the one that the host's opening agrees on:
//! `initialize` of an earlier one, or none for MCP 2026-07-28. Each exchange has a connection of its own.
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
//! let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28" });
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
//! A stream that ends without the response is resumed where an event had an id and the revision has resumption. Otherwise
//! its call settles as [`ConnectionLost`](protocol_async::CallError::ConnectionLost), and other calls go on. A server that
//! knows the session no longer ends the connection.

mod driver;
mod exchange;

use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use std::io;

use http::Uri;
use protocol_async::{Incoming, Options, Peer};

use self::driver::Driver;
use crate::client::StreamLimits;

/// The options of a client.
#[derive(Clone)]
#[non_exhaustive]
pub struct ClientOptions {
    /// The secret that the client shows as a bearer token; none.
    pub token: Option<String>,
    /// The bounds of each response.
    pub stream: StreamLimits,
    /// The response streams at the same time; 256. The call of one more settles as lost at once.
    pub streams: usize,
    /// The messages without a response that wait for the server to take the one before; 64. Above them, nothing more
    /// leaves.
    pub waiting: usize,
    /// The time in which a connection has to open; 10 s.
    pub connect_time: Duration,
    /// The time in which the server has to take a message without a response; 30 s.
    pub post_time: Duration,
    /// Whether the client asks for the stream of the session itself, where the revision has one; yes.
    pub listens: bool,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            token: None,
            stream: StreamLimits::DEFAULT,
            streams: 256,
            waiting: 64,
            connect_time: Duration::from_secs(10),
            post_time: Duration::from_secs(30),
            listens: true,
        }
    }
}

/// Omits the secret.
impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("stream", &self.stream)
            .field("streams", &self.streams)
            .finish_non_exhaustive()
    }
}

/// The address of a server: `http://HOST[:PORT]/PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) authority: String,
    pub(super) path: String,
}

/// The error of an address that is none, or that this client can't reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidTarget(&'static str);

impl FromStr for Target {
    type Err = InvalidTarget;

    fn from_str(text: &str) -> Result<Self, InvalidTarget> {
        let uri: Uri = text.parse().map_err(|_| InvalidTarget("it is no address"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(InvalidTarget(
                    "there is no TLS here: https needs a proxy that speaks http",
                ));
            }
            _ => return Err(InvalidTarget("an address begins with http://")),
        }
        let authority = uri.authority().ok_or(InvalidTarget("there is no host"))?;
        let host = authority.host().trim_matches(['[', ']']);
        if host.is_empty() || authority.as_str().contains('@') {
            return Err(InvalidTarget("it is no HOST:PORT"));
        }
        Ok(Self {
            host: host.into(),
            port: authority.port_u16().unwrap_or(80),
            authority: authority.to_string(),
            path: uri.path_and_query().map_or_else(|| "/".into(), ToString::to_string),
        })
    }
}

impl fmt::Display for InvalidTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for InvalidTarget {}

/// Makes a connection to a server. Nothing happens until the driver is polled.
///
/// The driver ends when the connection is over, and has told the server so by DELETE. Its output is the error that ended
/// the session, if one did.
///
/// # Panics
///
/// Panics outside of a runtime of tokio.
pub fn connect(
    target: Target,
    endpoint: impl Into<Options>,
    options: ClientOptions,
) -> (Peer, Incoming, impl Future<Output = io::Result<()>> + Send) {
    let (peer, incoming, driver) = Driver::new(target, endpoint.into(), options);
    (peer, incoming, driver.run())
}
