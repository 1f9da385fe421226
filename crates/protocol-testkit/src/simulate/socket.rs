//! A transport that keeps messages apart, over the same line: what a WebSocket is to a connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_io::{AsyncRead, AsyncWrite};
use futures_util::{Sink, Stream};
use protocol_async::Way;

use super::network::{Reader, Writer};
use super::watched::watch;

/// Each message is a line. Takes the next one only when the last has left, as the strictest do.
#[derive(Debug)]
pub struct Socket {
    reader: Reader,
    writer: Writer,
    arrived: Vec<u8>,
    unsent: Vec<u8>,
    /// The connection whose messages are watched here.
    watched: Option<usize>,
}

impl Socket {
    /// Returns a transport of whole messages over the two ends of a [line](super::Simulation::line).
    #[must_use]
    pub const fn new(reader: Reader, writer: Writer) -> Self {
        Self { reader, writer, arrived: Vec::new(), unsent: Vec::new(), watched: None }
    }

    /// Shows what is read and written here to the judge of that connection.
    pub(super) fn watched(self, connection: usize) -> Self {
        Self { watched: Some(connection), ..self }
    }
}

impl Stream for Socket {
    type Item = io::Result<Vec<u8>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(end) = this.arrived.iter().position(|&byte| byte == b'\n') {
                let mut message: Vec<u8> = this.arrived.drain(..=end).collect();
                message.pop();
                if let Some(connection) = this.watched {
                    watch(connection, Way::Received, &message);
                }
                return Poll::Ready(Some(Ok(message)));
            }
            let mut room = [0; 1_000];
            match ready!(Pin::new(&mut this.reader).poll_read(cx, &mut room)) {
                Ok(0) => return Poll::Ready(None),
                Ok(read) => this.arrived.extend_from_slice(&room[..read]),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }
}

impl Sink<Vec<u8>> for Socket {
    type Error = io::Error;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }

    fn start_send(self: Pin<&mut Self>, message: Vec<u8>) -> io::Result<()> {
        let Self { unsent, watched, .. } = self.get_mut();
        if let Some(connection) = *watched {
            watch(connection, Way::Sent, &message);
        }
        assert!(unsent.is_empty(), "sent only when there is room");
        unsent.extend_from_slice(&message);
        unsent.push(b'\n');
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while !this.unsent.is_empty() {
            let written = ready!(Pin::new(&mut this.writer).poll_write(cx, &this.unsent))?;
            this.unsent.drain(..written);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_flush(cx))?;
        Pin::new(&mut self.get_mut().writer).poll_close(cx)
    }
}
