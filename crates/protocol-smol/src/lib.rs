//! [`protocol_async`] on smol: byte streams, stdio, sockets, child processes, timers.
//!
//! With the crate `rescind` this is `rescind::smol`.
//!
//! ```
//! use protocol_core::{Config, Dialect};
//! use protocol_router::Router;
//!
//! # smol::block_on(async {
//! let (near, far) = smol::net::unix::UnixStream::pair()?;
//!
//! // A server whose requests take until they are cancelled.
//! let server = protocol_smol::unix(far, Config::server(Dialect::ACP_V1));
//! smol::spawn(async move {
//!     let router = Router::new().request("slow", async |(): (), cx| {
//!         cx.cancellation().unless_cancelled(std::future::pending::<()>()).await?;
//!         Ok(())
//!     });
//!     router.serve(&server.incoming).await
//! })
//! .detach();
//!
//! // A client that cancels.
//! let client = protocol_smol::unix(near, Config::client(Dialect::ACP_V1));
//! let sent = client.peer.call::<()>("slow", ());
//! sent.cancel();
//! assert_eq!(sent.await.unwrap_err().to_string(), "cancelled (caller)");
//! # Ok::<(), std::io::Error>(())
//! # });
//! ```
#![forbid(unsafe_code)]

mod child;
#[cfg_attr(not(unix), path = "stdio_on_threads.rs")]
mod stdio;
mod timer;

use std::io;

use futures_io::{AsyncRead, AsyncWrite};
use protocol_async::{Driver, Incoming, Options, Peer, RelayDriver};
use smol::Task;

pub use child::child;
pub use protocol_child::{ChildCommand, ChildConnection, Process, Pushed, Stderr};
pub use stdio::{Stdin, Stdout, stdin, stdout};
pub use timer::{Sleep, SmolTimer};

/// A connection whose driver is a task of its own on smol's global executor.
///
/// The task ends when every handle is dropped or the peer hangs up, and everything is answered and
/// written. Dropping [`driver`](Self::driver) stops it; `detach` it to let it run.
#[derive(Debug)]
#[non_exhaustive]
pub struct Connection {
    /// The handle that sends calls and notifications.
    pub peer: Peer,
    /// The stream of requests and notifications of the peer.
    pub incoming: Incoming,
    /// The driver's task. Its output is the error that ended reading or writing, if one did. That the peer
    /// went away is none.
    pub driver: Task<io::Result<()>>,
}

/// Makes a connection for a driver that the caller runs: on a
/// [`LocalExecutor`](smol::LocalExecutor), or beside other work.
pub fn connect<R, W>(
    reader: R,
    writer: W,
    options: impl Into<Options>,
) -> (Peer, Incoming, Driver<R, W, SmolTimer>)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    protocol_async::connect(reader, writer, SmolTimer::start(), options)
}

/// Makes a connection and spawns its driver on smol's global executor.
pub fn spawn<R, W>(reader: R, writer: W, options: impl Into<Options>) -> Connection
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (peer, incoming, driver) = connect(reader, writer, options);
    Connection { peer, incoming, driver: smol::spawn(driver) }
}

/// Joins a client in front and a server behind, for a driver that the caller runs; see
/// [`protocol_async::relay()`].
pub fn relay<R, W, S, X>(
    up: (R, W),
    down: (S, X),
    options: protocol_async::relay::Options,
) -> RelayDriver<R, W, S, X, SmolTimer>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
    S: AsyncRead + Unpin,
    X: AsyncWrite + Unpin,
{
    protocol_async::relay(up, down, SmolTimer::start(), options)
}

/// A connection over a TCP stream. Its small messages are not held back, and its driver is
/// [lingering](Driver::lingering).
///
/// # Errors
///
/// Those of [`set_nodelay`](smol::net::TcpStream::set_nodelay).
pub fn tcp(stream: smol::net::TcpStream, options: impl Into<Options>) -> io::Result<Connection> {
    stream.set_nodelay(true)?;
    let (peer, incoming, driver) = connect(stream.clone(), stream, options);
    Ok(Connection { peer, incoming, driver: smol::spawn(driver.lingering()) })
}

/// A connection over a Unix socket.
#[cfg(unix)]
pub fn unix(stream: smol::net::unix::UnixStream, options: impl Into<Options>) -> Connection {
    spawn(stream.clone(), stream, options)
}

/// Makes a connection over this process's standard input and output: [`stdin`] and [`stdout`].
///
/// Most often the process that started this one is the client, and this one the server:
/// [`Config::server`](protocol_core::Config::server).
///
/// A stream that is neither a pipe nor a socket has a thread with a buffer of
/// `Options::pipe_bytes`, beside those that [`Options::memory`] counts. Nothing interrupts that
/// thread: end the process with [`std::process::exit`] while the input is open.
pub fn stdio(options: impl Into<Options>) -> Connection {
    let options = options.into();
    let pipe_bytes = options.pipe_bytes;
    spawn(stdin(pipe_bytes), stdout(pipe_bytes), options)
}
