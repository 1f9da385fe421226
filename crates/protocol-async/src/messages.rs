//! The one future that moves whole messages, over a transport that keeps them apart.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use futures_util::Sink;
use protocol_core::{Framing, InputBuffer, Timestamp};

use crate::hub::{Hub, Output};
use crate::incoming::Incoming;
use crate::options::Options;
use crate::peer::Peer;
use crate::pipe::{FirstError, TURNS};
use crate::timer::{Alarm, Timer};
use protocol_endpoint::Messages;

/// The bytes of messages that are read before the writing side, and then other tasks, have their turn
/// (F47). The responses to them leave in one flush.
const TURN_BYTES: usize = 4 << 10;
/// The bytes that a shorter message counts: a turn is 16 of them at most.
const LEAST_BYTES: usize = TURN_BYTES / 16;
/// The time that the peer has to say goodbye once we have.
const FAREWELL: Duration = Duration::from_secs(2);

/// Makes a connection out of a transport that keeps messages apart, such as a WebSocket. Nothing
/// happens until the driver is polled.
///
/// Each item of the stream is one whole message, and so is each that the sink gets. The framing of the
/// dialect is not used, so any dialect goes over any such transport.
///
/// The driver reads whatever the [`Account`](crate::Account) of the connection grants. A transport that is not to be
/// read meanwhile asks [`Peer::poll_may_read`].
///
/// Closing the sink asks the peer to close too. The driver then reads on for at most two seconds, because
/// a connection that is gone would tear up messages that are on their way.
pub fn connect_messages<S, M, T>(
    transport: S,
    timer: T,
    options: impl Into<Options>,
) -> (Peer, Incoming, MessageDriver<S, T>)
where
    S: Stream<Item = io::Result<M>> + Sink<Vec<u8>, Error = io::Error> + Unpin,
    M: AsRef<[u8]>,
    T: Timer,
{
    let mut options = options.into();
    options.config.dialect.framing = Framing::Whole;
    let clock = timer.clone();
    let (hub, peer, incoming) = Hub::new(options, move || clock.now());
    let driver = MessageDriver {
        hub,
        transport,
        sent: |_| 0,
        receiving: Receiving::Open,
        sending: Sending::Open,
        output: Messages::default(),
        left: 0,
        alarm: Alarm::new(timer),
        error: FirstError::default(),
    };
    (peer, incoming.yielding(T::yield_now), driver)
}

/// Moves the messages of one connection: a future for an executor to run.
///
/// It does for messages what [`Driver`](crate::Driver) does for bytes, and keeps the same promises. It
/// reads and marks cancels while handlers run, while the outbox is full and while the peer isn't reading
/// (G3). Messages that wait together leave in one flush.
///
/// Its output is the error that ended reading or writing, if one did. An error that means that the peer
/// went away is none.
#[must_use = "nothing is read or written unless it is polled"]
pub struct MessageDriver<S, T: Timer> {
    hub: Hub,
    transport: S,
    sent: fn(&S) -> u64,
    receiving: Receiving,
    sending: Sending,
    /// The messages that are being sent. Nothing may be added before all of them are.
    output: Messages,
    /// The bytes that may still be read before others have their turn.
    left: usize,
    alarm: Alarm<T>,
    error: FirstError,
}

impl<S, T: Timer> MessageDriver<S, T> {
    /// Makes the driver ask the transport how many pieces of messages it has sent so far.
    ///
    /// A transport that sends a long message in pieces needs this. Without it, the
    /// [patience](protocol_endpoint::Options::patience) with a peer that takes them steadily may end.
    pub fn counting(self, sent: fn(&S) -> u64) -> Self {
        Self { sent, ..self }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receiving {
    Open,
    /// Messages that come are dropped. The transport still handles pings and its like.
    Unwanted,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sending {
    Open,
    /// The peer reads no more. Its last words are still to be read, for a time that the hub keeps (F34).
    Broken,
    /// Nothing is left to be sent, and our end is being closed. The peer's goodbye is waited for until then.
    Closing(Timestamp),
    /// It is closed, and the peer's may still be open, until then.
    Closed(Timestamp),
}

/// The result of one turn.
enum Turn {
    Made,
    Over,
}

impl<S, M, T> Future for MessageDriver<S, T>
where
    S: Stream<Item = io::Result<M>> + Sink<Vec<u8>, Error = io::Error> + Unpin,
    M: AsRef<[u8]>,
    T: Timer + Unpin,
{
    type Output = io::Result<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.left = TURN_BYTES;
        for _ in 0..TURNS {
            let made = match this.sending {
                Sending::Open | Sending::Broken => this.poll_turn(cx),
                Sending::Closing(by) | Sending::Closed(by) => this.poll_farewell(by, cx),
            };
            match made {
                Poll::Ready(Turn::Made) if this.left == 0 => break,
                Poll::Ready(Turn::Made) => {}
                Poll::Ready(Turn::Over) => return Poll::Ready(this.error.take()),
                Poll::Pending => return Poll::Pending,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<S, M, T> MessageDriver<S, T>
where
    S: Stream<Item = io::Result<M>> + Sink<Vec<u8>, Error = io::Error> + Unpin,
    M: AsRef<[u8]>,
    T: Timer + Unpin,
{
    /// Reads, keeps time and writes. It is pending when none of them can go on.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Turn> {
        let read = self.poll_receive(cx);
        let timers = self.alarm.poll(self.hub.poll_timers(cx.waker()), cx);
        match self.poll_write(cx) {
            Poll::Ready(Output::Over) => Poll::Ready(self.leave()),
            Poll::Ready(_) => Poll::Ready(Turn::Made),
            Poll::Pending if read.is_ready() || timers.is_ready() => Poll::Ready(Turn::Made),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Ready when something was read.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut read = Poll::Pending;
        while self.left > 0 && self.receiving != Receiving::Ended {
            let Poll::Ready(item) = Pin::new(&mut self.transport).poll_next(cx) else { break };
            self.receive(item);
            read = Poll::Ready(());
        }
        read
    }

    fn receive(&mut self, item: Option<io::Result<M>>) {
        let is_wanted = self.receiving == Receiving::Open;
        let bytes = item.as_ref().map_or(0, |item| item.as_ref().map_or(0, |m| m.as_ref().len()));
        self.left = self.left.saturating_sub(bytes.max(LEAST_BYTES));
        match item {
            Some(Ok(message)) if is_wanted => {
                self.hub.receive_message(message.as_ref());
                if self.hub.is_closed() {
                    self.receiving = Receiving::Unwanted;
                }
            }
            Some(Ok(_)) => {}
            ended => {
                self.receiving = Receiving::Ended;
                if is_wanted {
                    let error = ended.and_then(Result::err);
                    self.hub.finish(&InputBuffer::new(), error.as_ref());
                    self.error.keep(error);
                }
            }
        }
    }

    /// Sends the output, and returns what the connection wants next, unless that is to wait.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Output> {
        if !self.output.is_empty() {
            let before = (self.output.waiting(), (self.sent)(&self.transport));
            match self.poll_send(cx) {
                // The connection may have been given up while a message is sent.
                Poll::Pending if self.hub.is_over() => return Poll::Ready(Output::Over),
                Poll::Pending => {
                    if (self.output.waiting(), (self.sent)(&self.transport)) != before {
                        self.hub.note_progress();
                    }
                    return Poll::Pending;
                }
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => {
                    self.sending = Sending::Broken;
                    self.output.clear();
                    self.hub.fail(&error);
                    self.error.keep(Some(error));
                    // The messages before that are still to be read.
                    return Poll::Ready(Output::Write);
                }
            }
            self.output.clear();
        }
        match self.hub.poll_output(cx.waker(), &mut self.output) {
            Output::Idle => Poll::Pending,
            output => Poll::Ready(output),
        }
    }

    /// Sends all of the output, and flushes once.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.sending == Sending::Broken {
            return Poll::Ready(Ok(()));
        }
        let mut transport = Pin::new(&mut self.transport);
        while self.output.waiting() > 0 {
            ready!(transport.as_mut().poll_ready(cx))?;
            if let Some(message) = self.output.take_next() {
                transport.as_mut().start_send(message.to_vec())?;
            }
        }
        transport.poll_flush(cx)
    }

    /// Begins to say goodbye, because nothing else is left to do.
    fn leave(&mut self) -> Turn {
        if !self.output.is_empty() || self.sending == Sending::Broken {
            // Closing would wait for the rest of what was given up, and nobody reads a goodbye.
            return Turn::Over;
        }
        self.sending = Sending::Closing(self.alarm.now() + FAREWELL);
        if self.receiving == Receiving::Open {
            self.receiving = Receiving::Unwanted;
        }
        Turn::Made
    }

    fn poll_farewell(&mut self, by: Timestamp, cx: &mut Context<'_>) -> Poll<Turn> {
        if self.alarm.poll_until(by, cx).is_ready() {
            return Poll::Ready(Turn::Over);
        }
        // The peer may have to be read before it can read our goodbye.
        let read = self.poll_receive(cx);
        if self.sending == Sending::Closed(by) {
            let is_over = self.receiving == Receiving::Ended;
            return if is_over { Poll::Ready(Turn::Over) } else { read.map(|()| Turn::Made) };
        }
        match Pin::new(&mut self.transport).poll_close(cx) {
            Poll::Ready(Ok(())) => {
                self.sending = Sending::Closed(by);
                Poll::Ready(Turn::Made)
            }
            Poll::Ready(Err(_)) => Poll::Ready(Turn::Over),
            Poll::Pending => read.map(|()| Turn::Made),
        }
    }
}

impl<S, T: Timer> fmt::Debug for MessageDriver<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageDriver").field("hub", &self.hub).finish_non_exhaustive()
    }
}
