//! The address of a server, the options of its client, and the streams that the host opens.

use std::io;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use http::uri::Authority;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::client::StreamLimits;
use crate::endpoint::debug;
use crate::rules::Rules;

/// A callback that opens a stream to the server.
pub type Open =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = io::Result<ServerStream>> + Send>> + Send + Sync>;

/// A callback that sees a message that the server did not take, and the reason in words. Without a message, it is the reason
/// why a stream of the session is not read any more.
pub type Trouble = Arc<dyn Fn(Option<&[u8]>, &str) + Send + Sync>;

/// The options of a client.
#[derive(Clone)]
#[non_exhaustive]
pub struct ClientOptions {
    /// The rules that the session begins with; those of MCP 2026-07-28. `initialize` settles another revision of MCP.
    pub rules: &'static Rules,
    /// The secret that the client shows as a bearer token; none.
    pub token: Option<String>,
    /// The bounds of each response.
    pub stream: StreamLimits,
    /// The response streams at the same time; 256. The call of one more settles as lost at once. In ACP these are the
    /// streams of sessions. For one more, the oldest that no call waits for is closed.
    pub streams: usize,
    /// The streams among them that the server leaves open behind the response; 16. With one more, the oldest is closed.
    pub settled_streams: usize,
    /// The messages that wait for the server to take the one before; 64. Above them, nothing more leaves. They have no
    /// response. In ACP, calls are among them, and so are messages that are on their way beside the first.
    pub waiting: usize,
    /// The bytes of those messages; 4 MiB. At them, nothing more leaves.
    pub waiting_bytes: usize,
    /// The callback that opens each connection, such as one of TLS; plain TCP. It calls [`set_tcp_options`](crate::set_tcp_options), as plain
    /// TCP does. Without that HTTP/1.1 would never notice that the peer is gone.
    pub open: Option<Open>,
    /// The exchanges that share a connection of HTTP/2; 64, or fewer if the server says so. One more opens another.
    pub streams_per_connection: usize,
    /// The time between two pings on a connection of HTTP/2 with open streams; 10 s. The server has the same time to
    /// respond to one, or the connection ends.
    pub ping_interval: Duration,
    /// The time in which a connection has to open; 10 s.
    pub connect_time: Duration,
    /// The time in which the server has to take a message without a response; 30 s. In that time the message is posted
    /// again when a busy server names a time for it (status 503 with `Retry-After`). In ACP, calls have the same time, and
    /// so has the first head of a stream. They are not posted again, and hold up their session alone.
    /// The 50 ms for which a cancel waits behind its request are a part of that time.
    pub post_time: Duration,
    /// The callback that sees each notification, cancel and response of ours that the server did not take; none.
    /// It should be quick. A call that was posted needs none, since it settles as lost.
    ///
    /// It also sees why the stream of the session itself is not read any more. The server may offer none, or it could not be
    /// opened again. The session goes on.
    pub trouble: Option<Trouble>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            rules: &Rules::MCP_2026_07_28,
            token: None,
            stream: StreamLimits::DEFAULT,
            streams: 256,
            settled_streams: 16,
            waiting: 64,
            waiting_bytes: 4 << 20,
            open: None,
            streams_per_connection: 64,
            ping_interval: Duration::from_secs(10),
            connect_time: Duration::from_secs(10),
            post_time: Duration::from_secs(30),
            trouble: None,
        }
    }
}

debug!(ClientOptions, stream, streams);

/// A stream of bytes, such as one of TCP or TLS.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A stream to the server that the host has opened.
pub struct ServerStream {
    /// The stream itself, with TLS or without.
    pub stream: Box<dyn Stream>,
    /// Whether HTTP/2 is spoken on it, and not HTTP/1.1. Then peers of TLS have agreed on `h2`.
    ///
    /// Many exchanges share a connection of HTTP/2. One that is closed is reset, and the connection goes on.
    pub is_http2: bool,
}

debug!(ServerStream, is_http2);

/// The address of a server: `http://HOST[:PORT]/PATH`, or `https://` for the same over TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target(Uri);

impl Target {
    /// Returns the address. It has no port if that is the usual one: 80, or 443 over TLS. An IPv6 host is in brackets.
    pub const fn uri(&self) -> &Uri {
        &self.0
    }
}

impl FromStr for Target {
    type Err = io::Error;

    fn from_str(text: &str) -> io::Result<Self> {
        if !text.contains("://") {
            return Err(invalid("it has no scheme: write http://HOST:PORT/PATH"));
        }
        let uri: Uri = text.parse().map_err(|_| invalid("it is no address"))?;
        let usual = match uri.scheme_str() {
            Some("http") => ":80",
            Some("https") => ":443",
            _ => return Err(invalid("an address begins with http:// or https://")),
        };
        let mut parts = uri.into_parts();
        // An address with a query and without a path has the path `/`, which is only in its text.
        parts.path_and_query = parts.path_and_query.and_then(|it| it.to_string().parse().ok());
        let authority = parts.authority.as_ref().map_or("", Authority::as_str);
        // Some servers know themselves by their name alone.
        let authority = authority.strip_suffix(usual).unwrap_or(authority);
        let is_valid = |it: &Authority| {
            let is_host = !it.host().is_empty() && !it.as_str().contains('@');
            is_host && (it.host() == it.as_str() || it.port_u16().is_some())
        };
        let authority = authority.parse().ok().filter(is_valid);
        parts.authority = Some(authority.ok_or_else(|| invalid("it is no HOST:PORT"))?);
        Uri::from_parts(parts).map(Self).map_err(|_| invalid("it is no address"))
    }
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
