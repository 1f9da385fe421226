//! A WebSocket as a transport of whole messages.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_util::Sink;
use tungstenite::error::ProtocolError;
use tungstenite::{Bytes, Error, Message};

/// A WebSocket that carries one JSON message in each of its own.
pub struct Socket<S> {
    inner: S,
}

impl<S> Socket<S> {
    pub(crate) const fn new(inner: S) -> Self {
        Self { inner }
    }
}

/// Without what it holds: messages on their way hold secrets.
impl<S> fmt::Debug for Socket<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").finish_non_exhaustive()
    }
}

impl<S> Stream for Socket<S>
where
    S: Stream<Item = Result<Message, Error>> + Sink<Message, Error = Error> + Unpin,
{
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match ready!(Pin::new(&mut self.inner).poll_next(cx)) {
                Some(Ok(message @ (Message::Text(_) | Message::Binary(_)))) => {
                    return Poll::Ready(Some(Ok(message.into_data())));
                }
                // To read on is what answers a ping.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(_))) => {
                    // Its answer leaves now, or else when the sink is closed.
                    let _ = Pin::new(&mut self.inner).poll_flush(cx);
                    return Poll::Ready(None);
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(into_io(error)))),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl<S> Sink<Vec<u8>> for Socket<S>
where
    S: Sink<Message, Error = Error> + Unpin,
{
    type Error = io::Error;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_ready(cx).map_err(into_io)
    }

    fn start_send(mut self: Pin<&mut Self>, message: Vec<u8>) -> io::Result<()> {
        let text = String::from_utf8(message)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Pin::new(&mut self.inner).start_send(Message::text(text)).map_err(into_io)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx).map_err(into_io)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_close(cx).map_err(into_io)
    }
}

fn into_io(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        Error::ConnectionClosed
        | Error::AlreadyClosed
        | Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => {
            io::Error::new(io::ErrorKind::ConnectionReset, error)
        }
        _ => io::Error::new(io::ErrorKind::InvalidData, error),
    }
}
