//! [`protocol_async`] on tokio: byte streams, stdio, sockets, child processes, timers.
//!
//! ```
//! use protocol_core::{Config, Dialect};
//! use protocol_router::Router;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (near, far) = tokio::net::UnixStream::pair()?;
//!
//! // A server whose requests take until they are cancelled.
//! let server = protocol_tokio::unix(far, Config::server(Dialect::ACP_V1));
//! tokio::spawn(async move {
//!     let router = Router::new().request("slow", async |(): (), cx| {
//!         cx.cancellation().unless_cancelled(std::future::pending::<()>()).await?;
//!         Ok(())
//!     });
//!     router.serve(&server.incoming).await
//! });
//!
//! // A client that cancels.
//! let client = protocol_tokio::unix(near, Config::client(Dialect::ACP_V1));
//! let sent = client.peer.call::<()>("slow", ());
//! sent.cancel();
//! assert_eq!(sent.await.unwrap_err().to_string(), "cancelled (caller)");
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod child;
mod stdio;
mod token;
#[cfg(feature = "tower")]
pub mod tower;

use std::future::Future;
use std::io;
use std::pin::pin;
use std::task::Context;

use protocol_async::{Driver, Incoming, Options, Peer, RelayDriver, Timer};
use protocol_core::Timestamp;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep};
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

pub use child::child;
pub use protocol_child::{ChildCommand, ChildConnection, Process, Pushed, Stderr};
pub use stdio::{Stdin, Stdout, stdin, stdout};
pub use token::{marker_of, token_of};

/// tokio's clock; it stands still where tokio's does.
#[derive(Clone, Copy, Debug)]
pub struct TokioTimer {
    start: Instant,
}

impl TokioTimer {
    /// A clock that starts now.
    #[must_use]
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }
}

impl Timer for TokioTimer {
    type Sleep = Sleep;

    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.start.elapsed()
    }

    fn sleep_until(&self, due: Timestamp) -> Sleep {
        tokio::time::sleep_until(self.start + due.since(Timestamp::ZERO))
    }

    /// Has the scheduler look for input first, which it otherwise does after 61 tasks.
    fn yield_now(cx: &mut Context<'_>) {
        // It has called the waker, or arranged for that, when it returns.
        let _ = pin!(tokio::task::yield_now()).poll(cx);
    }
}

/// A connection whose driver is a task of its own.
///
/// The task ends when every handle is dropped or the peer hangs up, and everything is answered and
/// written. Dropping this value does not stop it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Connection {
    /// The handle that sends calls and notifications.
    pub peer: Peer,
    /// The stream of requests and notifications of the peer.
    pub incoming: Incoming,
    /// The driver's task. Its output is the error that ended reading, if one did.
    pub driver: JoinHandle<io::Result<()>>,
}

/// Makes a connection for a driver that the caller runs: on a
/// [`LocalSet`](tokio::task::LocalSet), or beside other work.
pub fn connect<R, W>(
    reader: R,
    writer: W,
    options: impl Into<Options>,
) -> (Peer, Incoming, Driver<Compat<R>, Compat<W>, TokioTimer>)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let (reader, writer) = (reader.compat(), writer.compat_write());
    protocol_async::connect(reader, writer, TokioTimer::start(), options)
}

/// Makes a connection and spawns its driver.
///
/// # Panics
///
/// Outside a tokio runtime.
pub fn spawn<R, W>(reader: R, writer: W, options: impl Into<Options>) -> Connection
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (peer, incoming, driver) = connect(reader, writer, options);
    Connection { peer, incoming, driver: tokio::spawn(driver) }
}

/// Joins a client in front and a server behind, for a driver that the caller runs; see
/// [`protocol_async::relay()`].
pub fn relay<R, W, S, X>(
    (up_reader, up_writer): (R, W),
    (down_reader, down_writer): (S, X),
    options: protocol_async::relay::Options,
) -> RelayDriver<Compat<R>, Compat<W>, Compat<S>, Compat<X>, TokioTimer>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
    S: AsyncRead + Unpin,
    X: AsyncWrite + Unpin,
{
    let up = (up_reader.compat(), up_writer.compat_write());
    let down = (down_reader.compat(), down_writer.compat_write());
    protocol_async::relay(up, down, TokioTimer::start(), options)
}

/// A connection over a TCP stream. Its small messages are not held back.
///
/// # Errors
///
/// Those of [`set_nodelay`](tokio::net::TcpStream::set_nodelay).
pub fn tcp(stream: tokio::net::TcpStream, options: impl Into<Options>) -> io::Result<Connection> {
    stream.set_nodelay(true)?;
    let (reader, writer) = stream.into_split();
    Ok(spawn(reader, writer, options))
}

/// A connection over a Unix socket.
#[cfg(unix)]
pub fn unix(stream: tokio::net::UnixStream, options: impl Into<Options>) -> Connection {
    let (reader, writer) = stream.into_split();
    spawn(reader, writer, options)
}

/// A connection over this process's standard input and output.
///
/// Whoever started this process is mostly the client, and this the server:
/// [`Config::server`](protocol_core::Config::server).
///
/// Where the input is neither a pipe nor a socket, tokio reads it on a thread that nothing can interrupt: end the
/// process with [`std::process::exit`], or drop the runtime with
/// [`shutdown_background`](tokio::runtime::Runtime::shutdown_background), while the input is open.
///
/// # Panics
///
/// Outside a tokio runtime that does I/O.
pub fn stdio(options: impl Into<Options>) -> Connection {
    spawn(stdin(), stdout(), options)
}
