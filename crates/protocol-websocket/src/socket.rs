//! A WebSocket as a transport of whole messages.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_channel::oneshot::Sender;
use futures_core::Stream;
use futures_util::Sink;
use protocol_async::hub::Buckets;
use protocol_async::{Budgets, Cancellation, Cheap, OverBudget, Timer};
use tungstenite::error::ProtocolError;
use tungstenite::protocol::CloseFrame;
use tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tungstenite::protocol::frame::{Frame, Utf8Bytes};
use tungstenite::{Bytes, Error, Message};

use crate::eviction::Eviction;
use crate::settings::{FRAME_BYTES, TURN_BYTES};

/// A WebSocket that carries one JSON message in each of its own.
///
/// It releases the WebSocket as soon as nothing can be read any more, because a response would not arrive either. So a
/// handler that goes on keeps no socket of a peer that is gone (F47). A peer that sends more pings and pongs than
/// [`Budgets::control_frames`] is sent away (F45).
pub struct Socket<S, T> {
    /// `None` once it is released.
    inner: Option<S>,
    /// The rest of a message that leaves in several frames.
    rest: Bytes,
    /// The number of frames that have been sent.
    sent: u64,
    /// A long message that came whole. Others have their turn before it is looked at.
    whole: Option<Bytes>,
    /// Whether pongs may be in the write buffer, beside what we have sent.
    owes_pongs: bool,
    has_said_goodbye: bool,
    /// The budget of pings and pongs.
    buckets: Buckets,
    timer: T,
    /// Set when we end because the whole server does.
    going_away: Option<Cancellation>,
    /// It gets the WebSocket when that is released, and whether the peer was sent away.
    released: Option<Sender<(S, bool)>>,
}

impl<S, T> Socket<S, T> {
    pub(crate) fn new(inner: S, timer: T, budgets: Budgets) -> Self {
        Self {
            inner: Some(inner),
            rest: Bytes::new(),
            sent: 0,
            whole: None,
            owes_pongs: false,
            has_said_goodbye: false,
            buckets: Buckets::new(budgets),
            timer,
            going_away: None,
            released: None,
        }
    }

    /// Closes with [`CloseCode::Away`] once this is set.
    pub(crate) fn going_away(self, marker: Cancellation) -> Self {
        Self { going_away: Some(marker), ..self }
    }

    /// Hands the WebSocket over when it is released.
    pub(crate) fn releasing_to(self, released: Sender<(S, bool)>) -> Self {
        Self { released: Some(released), ..self }
    }

    /// Returns the number of frames that have been sent.
    pub(crate) const fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the code of a close without an error.
    fn farewell(&self) -> CloseCode {
        let goes_away = self.going_away.as_ref().is_some_and(Cancellation::is_cancelled);
        if goes_away { CloseCode::Away } else { CloseCode::Normal }
    }
}

impl<S, T> Socket<S, T>
where
    S: Sink<Message, Error = Error> + Unpin,
{
    /// Writes all that was sent.
    fn poll_flush_all(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        ready!(self.poll_rest(cx))?;
        let Some(inner) = &mut self.inner else { return Poll::Ready(Err(Error::AlreadyClosed)) };
        let flushed = ready!(Pin::new(inner).poll_flush(cx));
        self.owes_pongs = false;
        Poll::Ready(flushed)
    }

    /// Sends the rest of a message. Ready when there is room for a frame of another.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        loop {
            ready!(self.poll_room(cx))?;
            if self.rest.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let piece = self.rest.split_to(self.rest.len().min(FRAME_BYTES));
            let is_last = self.rest.is_empty();
            self.send(Message::Frame(Frame::message(
                piece,
                OpCode::Data(Data::Continue),
                is_last,
            )))?;
        }
    }

    /// Ready when one frame fits into the write buffer.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let Some(inner) = &mut self.inner else { return Poll::Ready(Err(Error::AlreadyClosed)) };
        if self.owes_pongs {
            ready!(Pin::new(&mut *inner).poll_flush(cx))?;
            self.owes_pongs = false;
        }
        Pin::new(inner).poll_ready(cx)
    }

    fn send(&mut self, message: Message) -> Result<(), Error> {
        let inner = self.inner.as_mut().ok_or(Error::AlreadyClosed)?;
        self.sent += 1;
        Pin::new(inner).start_send(message)
    }

    /// Releases the WebSocket, with a goodbye if there is one to say and room for it. Its response to a goodbye leaves
    /// now or never.
    fn release(&mut self, goodbye: Option<CloseCode>, cx: &mut Context<'_>) {
        if let Some(code) = goodbye.filter(|_| !self.has_said_goodbye) {
            if self.poll_room(cx).is_ready() {
                let _ = self.send(close(code));
            }
        }
        self.rest = Bytes::new();
        if let Some(mut inner) = self.inner.take() {
            let _ = Pin::new(&mut inner).poll_flush(cx);
            if let Some(released) = self.released.take() {
                let _ = released.send((inner, goodbye.is_some()));
            }
        }
    }
}

impl<S, T> Socket<S, T>
where
    S: Stream<Item = Result<Message, Error>> + Sink<Message, Error = Error> + Unpin,
{
    /// Reads, which answers pings as far as there is room for pongs.
    fn poll_inner(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Message, Error>>> {
        let Self { inner: Some(inner), owes_pongs, .. } = self else { return Poll::Ready(None) };
        let polled = Pin::new(&mut *inner).poll_next(cx);
        if polled.is_pending() && *owes_pongs {
            // The next read shows an error again.
            *owes_pongs = Pin::new(inner).poll_flush(cx).is_pending();
        }
        polled
    }
}

/// It shows no messages, because they hold secrets.
impl<S, T> fmt::Debug for Socket<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").field("is_open", &self.inner.is_some()).finish_non_exhaustive()
    }
}

impl<S, T> Stream for Socket<S, T>
where
    S: Stream<Item = Result<Message, Error>> + Sink<Message, Error = Error> + Unpin,
    T: Timer + Unpin,
{
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(message) = self.whole.take() {
            return Poll::Ready(Some(Ok(message)));
        }
        loop {
            let error = match ready!(self.poll_inner(cx)) {
                Some(Ok(message @ (Message::Text(_) | Message::Binary(_)))) => {
                    let message = message.into_data();
                    if message.len() <= TURN_BYTES {
                        return Poll::Ready(Some(Ok(message)));
                    }
                    // Unmasking and checking it was one piece of work, and reading it is another (F47).
                    self.whole = Some(message);
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Some(Ok(message @ (Message::Ping(_) | Message::Pong(_)))) => {
                    // Reading on sends the pong.
                    self.owes_pongs |= message.is_ping();
                    let now = self.timer.now();
                    match self.buckets.pay(Cheap::ControlFrame, now) {
                        None => continue,
                        Some(over) => Error::Io(over.into()),
                    }
                }
                Some(Ok(Message::Frame(_))) => continue,
                Some(Ok(Message::Close(_))) | None => {
                    self.release(None, cx);
                    return Poll::Ready(None);
                }
                Some(Err(error)) => error,
            };
            self.release(goodbye(&error), cx);
            return Poll::Ready(Some(Err(into_io(error))));
        }
    }
}

impl<S, T> Sink<Vec<u8>> for Socket<S, T>
where
    S: Sink<Message, Error = Error> + Unpin,
    T: Unpin,
{
    type Error = io::Error;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_rest(cx).map_err(into_io)
    }

    fn start_send(mut self: Pin<&mut Self>, message: Vec<u8>) -> io::Result<()> {
        let text = Utf8Bytes::try_from(message)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let message = if text.len() <= FRAME_BYTES {
            Message::Text(text)
        } else {
            self.rest = text.into();
            let first = self.rest.split_to(FRAME_BYTES);
            Message::Frame(Frame::message(first, OpCode::Data(Data::Text), false))
        };
        self.send(message).map_err(into_io)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush_all(cx).map_err(into_io)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.inner.is_none() {
            return Poll::Ready(Ok(()));
        }
        if !self.has_said_goodbye {
            ready!(self.poll_rest(cx)).map_err(into_io)?;
            self.has_said_goodbye = true;
            let farewell = close(self.farewell());
            self.send(farewell).map_err(into_io)?;
        }
        let Some(inner) = &mut self.inner else { return Poll::Ready(Ok(())) };
        Pin::new(inner).poll_close(cx).map_err(into_io)
    }
}

fn close(code: CloseCode) -> Message {
    Message::Close(Some(CloseFrame { code, reason: Utf8Bytes::default() }))
}

/// Returns whether an error means that the peer is gone.
const fn is_gone(error: &Error) -> bool {
    matches!(
        error,
        Error::ConnectionClosed
            | Error::AlreadyClosed
            | Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)
    )
}

/// Returns the code for a peer that is no longer read. A peer that is gone gets none.
fn goodbye(error: &Error) -> Option<CloseCode> {
    match error {
        Error::Io(error) => match Eviction::of(error) {
            Some(eviction) => eviction.close_code(),
            None => error.get_ref()?.is::<OverBudget>().then_some(CloseCode::Policy),
        },
        error if is_gone(error) => None,
        Error::Capacity(_) => Some(CloseCode::Size),
        Error::Utf8(_) => Some(CloseCode::Invalid),
        Error::Protocol(_) => Some(CloseCode::Protocol),
        _ => Some(CloseCode::Error),
    }
}

fn into_io(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        _ if is_gone(&error) => io::Error::new(io::ErrorKind::ConnectionReset, error),
        _ => io::Error::new(io::ErrorKind::InvalidData, error),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::future::{Ready, ready};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::time::Duration;

    use protocol_async::Options;
    use protocol_core::{Config, Dialect, Shutdown, Timestamp};

    use super::*;

    #[derive(Clone)]
    struct StandingStill;

    impl Timer for StandingStill {
        type Sleep = Ready<()>;

        fn now(&self) -> Timestamp {
            Timestamp::ZERO
        }

        fn sleep_until(&self, _: Timestamp) -> Ready<()> {
            ready(())
        }
    }

    /// A WebSocket that has a ping to read, and room for its pong only when it is flushed for the third time.
    #[derive(Default)]
    struct Full {
        is_read: bool,
        flushes: usize,
    }

    impl Stream for Full {
        type Item = Result<Message, Error>;

        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            let is_read = std::mem::replace(&mut self.is_read, true);
            if is_read { Poll::Pending } else { Poll::Ready(Some(Ok(Message::Ping(Bytes::new())))) }
        }
    }

    impl Sink<Message> for Full {
        type Error = Error;

        fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
            Poll::Ready(Ok(()))
        }

        fn start_send(self: Pin<&mut Self>, _: Message) -> Result<(), Error> {
            Ok(())
        }

        fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
            self.flushes += 1;
            if self.flushes < 3 { Poll::Pending } else { Poll::Ready(Ok(())) }
        }

        fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
            Poll::Ready(Ok(()))
        }
    }

    /// A handler may go on for hours, and nothing can be sent for it.
    #[test]
    fn f131_a_socket_that_is_released_keeps_nothing_of_a_message_on_its_way_out() {
        let mut socket = Socket::new(Full::default(), StandingStill, Budgets::default());
        let mut cx = Context::from_waker(std::task::Waker::noop());
        Pin::new(&mut socket).start_send(vec![b' '; 4 * FRAME_BYTES]).unwrap();
        assert_eq!(socket.rest.len(), 3 * FRAME_BYTES);
        let message = socket.rest.clone();
        socket.release(Some(CloseCode::Policy), &mut cx);
        assert!(message.is_unique());
    }

    /// A clock that the test sets. A sleep is looked at again whenever the driver is.
    #[derive(Clone, Default)]
    struct ByHand(Arc<AtomicU32>);

    struct Until(ByHand, Timestamp);

    impl Timer for ByHand {
        type Sleep = Until;

        fn now(&self) -> Timestamp {
            Timestamp::ZERO + Duration::from_secs(1) * self.0.load(Relaxed)
        }

        fn sleep_until(&self, due: Timestamp) -> Until {
            Until(self.clone(), due)
        }
    }

    impl Future for Until {
        type Output = ();

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            if self.0.now() < self.1 { Poll::Pending } else { Poll::Ready(()) }
        }
    }

    /// A WebSocket with nothing to read, and room for so many frames more.
    struct Narrow(Arc<AtomicU32>);

    impl Stream for Narrow {
        type Item = Result<Message, Error>;

        fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            Poll::Pending
        }
    }

    impl Sink<Message> for Narrow {
        type Error = Error;

        fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
            if self.0.load(Relaxed) == 0 { Poll::Pending } else { Poll::Ready(Ok(())) }
        }

        fn start_send(self: Pin<&mut Self>, _: Message) -> Result<(), Error> {
            self.0.fetch_sub(1, Relaxed);
            Ok(())
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
            Poll::Ready(Ok(()))
        }

        fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
            Poll::Pending
        }
    }

    /// Nothing but the last message keeps the connection, and its patience is five seconds.
    #[test]
    fn a_long_last_message_is_sent_whole_to_a_peer_that_reads_it_steadily() {
        const FRAMES: usize = 20;
        let (clock, room) = (ByHand::default(), Arc::new(AtomicU32::new(0)));
        let mut options = Options::new(Config::server(Dialect::ACP_V1));
        options.config.limits.unsent_bytes = 2 * FRAMES * FRAME_BYTES;
        let (peer, incoming, mut driver) =
            crate::connect(Narrow(room.clone()), clock.clone(), options);
        let text = serde_json::value::to_raw_value(&["x".repeat(FRAMES * FRAME_BYTES)]).unwrap();
        peer.try_notify_raw("n", Some(&text)).unwrap();
        peer.shutdown(Shutdown::Drain);
        drop((peer, incoming));
        let mut cx = Context::from_waker(std::task::Waker::noop());
        for frame in 0..=FRAMES {
            room.store(1, Relaxed);
            let polled = Pin::new(&mut driver).poll(&mut cx);
            assert!(polled.is_pending(), "given up after {frame} frames: {polled:?}");
            assert_eq!(room.load(Relaxed), 0, "frame {frame}");
            clock.0.fetch_add(3, Relaxed);
        }
        // Now it is the goodbye that waits for room.
        assert!(Pin::new(&mut driver).poll(&mut cx).is_pending());
        clock.0.fetch_add(3, Relaxed);
        assert!(matches!(Pin::new(&mut driver).poll(&mut cx), Poll::Ready(Ok(()))));
    }

    /// Once there is room, we are woken and read on.
    #[test]
    fn a_pong_leaves_once_there_is_room_though_nothing_else_is_sent() {
        let mut socket = Socket::new(Full::default(), StandingStill, Budgets::default());
        let mut cx = Context::from_waker(std::task::Waker::noop());
        for flushes in [1, 2, 3, 3, 3] {
            assert!(Pin::new(&mut socket).poll_next(&mut cx).is_pending());
            assert_eq!(socket.inner.as_ref().unwrap().flushes, flushes);
        }
    }
}
