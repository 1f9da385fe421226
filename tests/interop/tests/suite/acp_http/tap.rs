//! The connections between a client and a server over HTTP, where a test loses streams.

use std::future::pending;
use std::io;
use std::sync::Arc;

use protocol_http::connect::ServerStream;
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy, duplex, sink, split,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Passes connections on. Each carries one exchange.
#[derive(Clone)]
pub(crate) struct Tap {
    server: String,
    /// Ends the streams. A message that is being posted is not touched.
    lose: Arc<Notify>,
    /// Lets a DELETE pass, which is held back until then.
    pub(crate) release: Arc<Notify>,
    /// Is told of each stream of a session once the head of its response came.
    heard: UnboundedSender<()>,
    /// Is told of each lost stream once the server has ended it too.
    lost: UnboundedSender<()>,
}

/// The news of streams, as they come.
pub(crate) struct Seen {
    pub(crate) heard: UnboundedReceiver<()>,
    pub(crate) lost: UnboundedReceiver<()>,
}

impl Tap {
    pub(crate) fn new(server: String) -> (Self, Seen) {
        let ((heard, hears), (lost, loses)) = (unbounded_channel(), unbounded_channel());
        let tap = Self { server, lose: Arc::default(), release: Arc::default(), heard, lost };
        (tap, Seen { heard: hears, lost: loses })
    }

    pub(crate) async fn open(self) -> io::Result<ServerStream> {
        let (near, far) = duplex(64 << 10);
        tokio::spawn(self.pass(far));
        Ok(ServerStream { stream: Box::new(near), is_http2: false })
    }

    /// Passes on what comes to this address.
    pub(crate) async fn listen(self, listener: TcpListener) -> io::Result<()> {
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(self.clone().pass(stream));
        }
    }

    async fn pass(self, client: impl AsyncRead + AsyncWrite) -> io::Result<()> {
        let (mut from_client, mut to_client) = split(client);
        let mut head = Vec::new();
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            if from_client.read_buf(&mut head).await? == 0 {
                return Ok(());
            }
        }
        let text = String::from_utf8_lossy(&head).to_lowercase();
        let is_stream = text.starts_with("get");
        let is_of_session = is_stream && text.contains("acp-session-id");
        if text.starts_with("delete") {
            self.release.notified().await;
        }
        let (mut from_server, mut to_server) = TcpStream::connect(&self.server).await?.into_split();
        let up = async {
            to_server.write_all(&head).await?;
            copy(&mut from_client, &mut to_server).await
        };
        let down = async {
            let mut first = Vec::new();
            from_server.read_buf(&mut first).await?;
            to_client.write_all(&first).await?;
            if is_of_session && first.starts_with(b"HTTP/1.1 200") {
                let _ = self.heard.send(());
            }
            copy(&mut from_server, &mut to_client).await
        };
        let lost = async {
            match is_stream {
                true => self.lose.notified().await,
                false => pending().await,
            }
        };
        // The end of either is the end of both.
        tokio::select! {
            _ = up => return Ok(()),
            _ = down => return Ok(()),
            () = lost => {}
        }
        to_server.shutdown().await?;
        copy(&mut from_server, &mut sink()).await?;
        let _ = self.lost.send(());
        Ok(())
    }

    /// Breaks every stream, the connection's own too.
    pub(crate) fn lose_all(&self) {
        self.lose.notify_waiters();
    }
}
