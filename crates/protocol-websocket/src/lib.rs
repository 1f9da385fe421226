//! [`protocol_async`] over a WebSocket: that of tokio-tungstenite or of async-tungstenite, on any
//! runtime.
//!
//! With the crate `rescind` this is `rescind::websocket`.
//!
//! Both are a stream and sink of the same [`Message`], and [`connect`] asks for no more. The host opens the
//! socket as it likes. One WebSocket message is one JSON message: text goes out, text or binary comes in.
//! The driver responds to pings. Any dialect goes over a WebSocket, without its framing.
//!
//! A server that others can reach needs a [`Listener`]. It bounds the number and the time of its clients, and
//! ends in order. [`Origins`] and [`BearerToken`] decide which clients may connect. A host that makes the
//! WebSocket in another way should use the [`settings`] that go with its limits.
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

mod admission;
mod eviction;
mod frames;
mod handshake;
mod limits;
mod lingering;
mod listener;
mod meter;
mod origins;
mod seat;
mod settings;
mod socket;
mod token;
mod watch;
mod watched;
mod work;

use futures_core::Stream;
use futures_util::Sink;
use protocol_async::{Incoming, MessageDriver, Options, Peer, Timer, connect_messages};
use tungstenite::{Error, Message};

pub use admission::Refused;
pub use eviction::Eviction;
pub use handshake::HandshakeError;
pub use limits::ListenerLimits;
pub use listener::Listener;
pub use origins::Origins;
pub use seat::{Seat, ServeError};
pub use settings::{TLS_BYTES, memory, settings};
pub use socket::Socket;
pub use token::BearerToken;

/// A future that moves the messages of one connection, for an executor to run.
pub type Driver<S, T> = MessageDriver<Socket<S, T>, T>;

/// Makes a connection out of a WebSocket whose handshake is done. Nothing happens until the driver
/// is polled.
///
/// The driver responds to pings and to the peer's goodbye, and says goodbye when the connection is over. The peer's
/// goodbye, or a socket that is gone without one, is the end of input (G7). Another error ends reading and is the
/// driver's output. One is the [`OverBudget`](protocol_async::OverBudget) of pings and pongs
/// ([`Budgets::control_frames`](protocol_async::Budgets::control_frames)).
///
/// It goes on reading when the [`Account`](protocol_async::Account) of the connection grants no reading. The connection
/// of a [`Listener`] waits then.
///
/// Empty fragments of a message have no limit here. On an executor of one thread without a budget for each poll, a
/// flood of them holds everything up. A [`Listener`] counts them and takes turns.
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
    let (peer, incoming, driver) = connect_messages(socket, timer, options);
    (peer, incoming, driver.counting(Socket::sent))
}
