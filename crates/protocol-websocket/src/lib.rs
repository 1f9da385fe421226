//! [`protocol_async`] over a WebSocket: that of tokio-tungstenite or of async-tungstenite, on any
//! runtime.
//!
//! With the crate `rescind` this is `rescind::websocket`.
//!
//! Both give a stream and sink of the same [`Message`], which is all that [`connect`] asks for; who
//! opens the socket, and how, is the host's choice. One WebSocket message is one JSON message: text
//! goes out, text or binary comes in. Pings are answered while the driver runs. Any dialect goes
//! over a WebSocket; its framing is not used there.
//!
//! A server that others can reach wants a [`Listener`]: it bounds how many there are and how long they
//! take, and ends in order. [`Origins`] and [`BearerToken`] say who may connect. Who makes the
//! WebSocket in another way should take the [`settings`] that go with its limits.
//!
//! ```
//! use protocol_router::Router;
//! use protocol_core::{Config, Dialect};
//! use protocol_tokio::TokioTimer;
//! use protocol_websocket::{Origins, connect, settings};
//! use tokio::net::{TcpListener, TcpStream};
//! use tokio_tungstenite::{accept_hdr_async_with_config, client_async_with_config};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = Config::server(Dialect::ACP_V1);
//! let settings = Some(settings(&config.limits));
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let address = listener.local_addr()?;
//!
//! // A server whose requests take until they are cancelled.
//! tokio::spawn(async move {
//!     let (stream, _) = listener.accept().await?;
//!     stream.set_nodelay(true)?;
//!     let origins = Origins::local();
//!     let socket = accept_hdr_async_with_config(stream, &origins, settings).await?;
//!     let (_peer, incoming, driver) = connect(socket, TokioTimer::start(), Config::server(Dialect::ACP_V1));
//!     tokio::spawn(driver);
//!     let router = Router::new().request("slow", async |(): (), cx| {
//!         cx.cancellation().unless_cancelled(std::future::pending::<()>()).await?;
//!         Ok(())
//!     });
//!     router.serve(&incoming).await;
//!     Ok::<(), tungstenite::Error>(())
//! });
//!
//! // A client that cancels.
//! let stream = TcpStream::connect(address).await?;
//! let url = format!("ws://{address}");
//! let (socket, _) = client_async_with_config(url, stream, settings).await?;
//! let config = Config::client(Dialect::ACP_V1);
//! let (peer, _incoming, driver) = connect(socket, TokioTimer::start(), config);
//! tokio::spawn(driver);
//! let sent = peer.call::<()>("slow", ());
//! peer.flushed().await;
//! sent.cancel();
//! assert_eq!(sent.await.unwrap_err().to_string(), "cancelled (caller)");
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod eviction;
mod frames;
mod handshake;
mod limits;
mod listener;
mod meter;
mod origins;
mod seat;
mod socket;
mod token;
mod watch;
mod watched;
mod work;

use futures_core::Stream;
use futures_util::Sink;
use protocol_async::{Incoming, MessageDriver, Options, Peer, Timer, connect_messages};
use protocol_core::Limits;
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Error, Message};

pub use eviction::Eviction;
pub use handshake::HandshakeError;
pub use limits::ListenerLimits;
pub use listener::{Listener, Refused};
pub use origins::Origins;
pub use seat::{Seat, ServeError};
use socket::FRAME_BYTES;
pub use socket::Socket;
pub use token::BearerToken;

/// Moves the messages of one connection: a future for an executor to run.
pub type Driver<S, T> = MessageDriver<Socket<S, T>, T>;

/// Makes a connection out of a WebSocket whose handshake is done. Nothing happens until the driver
/// is polled.
///
/// The driver answers pings and the peer's goodbye, and says goodbye when the connection is over.
/// The peer's goodbye, or a socket that is gone without one, is the end of input (G7); another
/// error ends reading and is the driver's output, an [`OverBudget`](protocol_async::OverBudget) of its pings and
/// pongs too ([`Budgets::control_frames`](protocol_async::Budgets::control_frames)).
pub fn connect<S, T>(
    socket: S,
    timer: T,
    options: impl Into<Options>,
) -> (Peer, Incoming, Driver<S, T>)
where
    S: Stream<Item = Result<Message, Error>> + Sink<Message, Error = Error> + Unpin,
    T: Timer + Unpin,
{
    let options = options.into();
    let socket = Socket::new(socket, timer.clone(), options.budgets);
    connect_messages(socket, timer, options)
}

/// The settings of a WebSocket that go with these limits.
///
/// A message that is longer than [`Limits::message_bytes`] is refused and the connection lives, as
/// on any other transport, if it is at most twice as long. A still longer one ends the connection,
/// for tungstenite can't skip it. tungstenite's own limits are 64 MiB for a message, but 16 MiB for
/// one frame; browsers send a message in one frame.
///
/// The buffers are bounded too: 16 KiB for reading, and for writing four times
/// [`Limits::unsent_bytes`], at most 256 KiB, whatever the length of a message. A peer that sends pings and reads nothing gets no more pongs once that is full, but for the
/// latest. tungstenite's own settings have no such bound.
#[must_use]
pub fn settings(limits: &Limits) -> WebSocketConfig {
    let frame = limits.unsent_bytes.clamp(SMALLEST_FRAME, FRAME_BYTES);
    let read = Some(limits.message_bytes.saturating_mul(2));
    WebSocketConfig::default()
        .max_message_size(read)
        .max_frame_size(read)
        .read_buffer_size(READ_BYTES)
        .write_buffer_size(frame)
        .max_write_buffer_size(4 * frame)
}

/// The most bytes of heap that a WebSocket with these [`settings`] keeps below the messages of a connection, one that is on
/// its way in included: what [`Memory::over`](protocol_async::Memory::over) asks for. Over
/// TLS there are [`TLS_BYTES`] more.
///
/// ```
/// use protocol_async::Options;
/// use protocol_core::{Config, Dialect};
/// use protocol_websocket::{TLS_BYTES, memory};
///
/// let options = Options::new(Config::server(Dialect::MCP_2025_11_25));
/// let secure = options.memory().over(memory(&options.config.limits) + TLS_BYTES);
/// println!("{secure}");
/// ```
#[must_use]
pub fn memory(limits: &Limits) -> usize {
    let settings = settings(limits);
    // A message of at most twice `message_bytes`, held up to three times while its frames are joined.
    let coming = settings.max_message_size.unwrap_or(usize::MAX).saturating_mul(3);
    let buffers = settings.read_buffer_size + settings.max_write_buffer_size;
    coming.saturating_add(buffers)
}

/// The most bytes of heap that rustls keeps for one connection, if what waits to be sent is bounded by
/// `set_buffer_limit(Some(16 << 10))`: 16 KiB of that as text and 16 KiB encrypted, 64 KiB for a handshake that is not
/// whole, and two records of 16 KiB that are decrypted.
pub const TLS_BYTES: usize = 128 << 10;

/// Bytes of one read, which each connection has room for at all times.
const READ_BYTES: usize = 16 << 10;
/// Room for one frame at least, whatever the limits: what is sent above them is no longer.
const SMALLEST_FRAME: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g08_the_sum_is_that_of_docs_memory_md() {
        let mut limits = Limits::DEFAULT;
        (limits.message_bytes, limits.unsent_bytes) = (4 << 10, 4 << 10);
        assert_eq!(memory(&limits), 6 * (4 << 10) + (16 << 10) + 4 * (4 << 10));
    }

    #[test]
    fn g08_one_frame_may_hold_more_than_a_message_may_so_that_it_can_be_refused() {
        let limits = Limits::DEFAULT;
        let WebSocketConfig { max_frame_size, max_message_size, .. } = settings(&limits);
        assert!(max_frame_size > Some(limits.message_bytes));
        assert_eq!(max_frame_size, max_message_size);
    }
}
