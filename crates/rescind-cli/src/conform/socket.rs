//! Servers and clients at the other end of a WebSocket: each case has a connection of its own.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;

use futures_util::{SinkExt, StreamExt, future};
use rescind_conform::{Link, Target};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tungstenite::Message;
use tungstenite::protocol::WebSocketConfig;

use crate::address::Address;
use crate::call::handshake;
use crate::tls::Trust;
use crate::token;

/// A server that runs already: where it is, and how it is reached.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) address: Address,
    pub(super) token_file: Option<PathBuf>,
    pub(super) ca: Option<PathBuf>,
}

impl Target for Socket {
    fn start(&self) -> io::Result<Link> {
        let secret = token::read(self.token_file.as_deref()).map_err(io::Error::other)?;
        let trust = self.ca.clone().map_or(Trust::System, Trust::Only);
        let (near, link) = Link::pair()?;
        near.set_nonblocking(true)?;
        let address = self.address.clone();
        let (tell, told) = mpsc::channel();
        thread::spawn(move || -> io::Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let opened = handshake(&address, &trust, secret, WebSocketConfig::default()).await;
                let near = TcpStream::from_std(near)?;
                match opened {
                    Ok(socket) => {
                        // Whoever started this is waiting for it.
                        let _ = tell.send(Ok(()));
                        carry(socket, near).await;
                    }
                    Err(error) => drop(tell.send(Err(error))),
                }
                Ok(())
            })
        });
        let opened = told.recv().map_err(|_| io::Error::other("there is no runtime"))?;
        opened.map_err(|error| io::Error::other(format!("{}: {error}", self.address)))?;
        Ok(link)
    }
}

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
            // What is written at once leaves at once.
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
            // Between the members of JSON a line break is a space.
            let one_line = |byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte };
            let mut line: Vec<u8> = message.into_data().iter().copied().map(one_line).collect();
            line.push(b'\n');
            if is_data && write.write_all(&line).await.is_err() {
                return;
            }
        }
    };
    future::join(there, here).await;
}
