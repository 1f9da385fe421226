//! Servers and clients at the other end of a WebSocket, and servers behind HTTP: each case has a connection of its own.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::thread;

use futures_util::{SinkExt, StreamExt, future};
use protocol_core::{Dialect, WireId};
use protocol_http::connect::{self, Carried, ClientOptions};
use protocol_json::{path, string, value};
use rescind_conform::{LOSS, Link, Target};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tungstenite::Message;
use tungstenite::protocol::WebSocketConfig;

use crate::address::Address;
use crate::connect::{handshake, open};
use crate::credentials::CredentialArgs;
use crate::http_client::{PATIENCE, reach};
use crate::tls::Trust;

/// A server that runs already: where it is, and how it is reached.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) address: Address,
    pub(super) trust: Trust,
    pub(super) credentials: CredentialArgs,
}

impl Target for Socket {
    fn start(&self) -> io::Result<Link> {
        let secret = self.credentials.token().map_err(io::Error::other)?;
        let (near, link) = Link::pair()?;
        near.set_nonblocking(true)?;
        let opened = open(async {
            let near = TcpStream::from_std(near).map_err(|error| error.to_string())?;
            let (address, trust) = (&self.address, &self.trust);
            if address.is_http {
                let reached = reach(address, &Dialect::MCP_HTTP, trust, secret, PATIENCE).await;
                let (target, options) = reached?;
                return Ok::<Carrying, String>(Box::new(move |on| {
                    on.block_on(carry_over_http(target, options, near));
                }));
            }
            let opened = handshake(address, trust, secret, WebSocketConfig::default());
            let opened = timeout(PATIENCE, opened).await;
            let opened = opened.unwrap_or_else(|late| Err(late.into()));
            let socket = opened.map_err(|error| format!("{address}: {error}"))?;
            Ok(Box::new(move |on| on.block_on(carry(socket, near))))
        });
        let (runtime, carrying) = opened.map_err(io::Error::other)?;
        thread::spawn(move || carrying(runtime));
        Ok(link)
    }
}

/// The rest of the life of a connection.
type Carrying = Box<dyn FnOnce(Runtime) + Send>;

/// Carries lines there as messages, and messages here as lines, until each side ends.
pub(super) async fn carry<S: AsyncRead + AsyncWrite + Unpin>(
    socket: WebSocketStream<S>,
    near: TcpStream,
) {
    let (mut to_them, mut from_them) = socket.split();
    let (read, mut write) = near.into_split();
    let there = async move {
        let mut lines = BufReader::new(read).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if to_them.feed(Message::text(line)).await.is_err() {
                return;
            }
            // Lines that came together leave together.
            if lines.get_ref().buffer().is_empty() && to_them.flush().await.is_err() {
                return;
            }
        }
        // Who is gone needs no goodbye.
        let _ = to_them.close().await;
    };
    let here = async move {
        while let Some(Ok(message)) = from_them.next().await {
            let is_data = message.is_text() || message.is_binary();
            if is_data && write.write_all(&line(&message.into_data())).await.is_err() {
                return;
            }
        }
    };
    future::join(there, here).await;
}

/// Returns a message as a line. Between the members of JSON a line break is a space.
fn line(message: &[u8]) -> Vec<u8> {
    let one_line = |byte: &u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte };
    message.iter().map(one_line).chain([b'\n']).collect()
}

/// Carries lines to a server behind HTTP, and its messages here as lines, until either side ends.
async fn carry_over_http(target: connect::Target, options: ClientOptions, near: TcpStream) {
    let (read, mut write) = near.into_split();
    let mut lines = BufReader::new(read).lines();
    let input =
        |line: String| loss(&line).map_or_else(|| Carried::Message(line.into()), Carried::Loss);
    let next = |cx: &mut Context<'_>| {
        let line = ready!(Pin::new(&mut lines).poll_next_line(cx));
        Poll::Ready(line.ok().flatten().map(input))
    };
    // A reader that has gone ends the lines, too.
    let receive = async |message: Vec<u8>| drop(write.write_all(&line(&message)).await);
    connect::carry(target, options, next, receive).await;
}

/// Returns the request whose response stream a line is to close.
fn loss(line: &str) -> Option<WireId> {
    let json = value(line)?;
    let method = string(path(json, &["method"])?.get())?;
    let id = path(json, &["params", "id"]).filter(|_| method == LOSS)?;
    WireId::from_json(id.get())
}
