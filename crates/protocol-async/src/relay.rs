//! One hop of a chain on byte streams: [`Relay`] with a future that moves its bytes.
//!
//! A proxy that looks into what passes is made of two [`connect`](crate::connect)s and
//! [`Peer::send_proxied`](crate::Peer::send_proxied) instead.

mod half_close;
mod pace;
mod till;

use std::fmt;
use std::future::Future;
use std::io;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_io::{AsyncRead, AsyncWrite};
use protocol_core::{Config, Received, Timestamp, Violation};
use protocol_relay::{Guard, Relay, RelayEvent, Side};

use self::half_close::HalfClose;
use self::pace::{Pace, SLOW_AT};
use self::till::{Till, Trail};
use crate::budget::Budgets;
use crate::noise::Noise;
pub use crate::noise::is_noise;
use crate::options::{PATIENCE, PIPE_BYTES, Way};
use crate::pipe::{Read, Reader, TURNS, Writer, is_hang_up};
use crate::timer::{Alarm, Timer};

/// What a relay is made from.
#[non_exhaustive]
pub struct Options {
    /// The connection towards the client.
    pub up: Config,
    /// The connection towards the server.
    pub down: Config,
    /// How long the client's requests may take; for ever.
    pub guard: Guard,
    /// How long a side that does not read is waited for once nothing else is left to be done for it; 5 s.
    pub patience: Duration,
    /// How often each peer may do what costs it next to nothing and is not passed on, so that nobody behind the
    /// relay counts it: break a rule, or cancel what is not in flight. Over it the peer is taken for gone, and the
    /// driver's error is an [`OverBudget`](crate::OverBudget). A cancel that is passed on is its server's to count.
    pub budgets: Budgets,
    /// Sees every message.
    pub trace: Option<Trace>,
    /// Sees what the core is given, with its time.
    pub inputs: Option<Inputs>,
    /// Sees what did not simply pass.
    pub observer: Option<Observer>,
    /// Sees what the server says that is no message. Without it the observer is told.
    pub noise: Option<Noise>,
    /// How long the requests of a client whose input has ended may still be answered before they are
    /// cancelled; not at all. The end of input does not say whether the client is gone or has only said
    /// all that it has to say: when a write fails, it is gone.
    pub answer_after_end: Duration,
    /// Sees what is waited for once the client's input has ended.
    pub waits: Option<Waits>,
}

/// What a relay waits for once the client's input has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// So many requests may so long still be answered.
    Answers {
        /// How many there are.
        requests: usize,
        /// The time they have, which is [`Options::answer_after_end`].
        within: Duration,
    },
    /// The client is taken for gone. So many requests were cancelled, and the server may so long still
    /// say how they ended.
    Cancelled {
        /// How many there are.
        requests: usize,
        /// The time the server has, which is [`Config::abandoned_grace`].
        within: Duration,
    },
}

/// Sees what a relay waits for once the client's input has ended. It should be quick.
pub type Waits = Box<dyn FnMut(Wait) + Send>;

/// What the core of a relay is given. Together with when its messages were taken to be written, which the
/// [`Trace`] shows, that is all there is to it: a [`Relay`] that is given the same does the same, byte for
/// byte (G10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Input<'b> {
    /// A message from this side's peer, without framing.
    Message(Side, &'b [u8]),
    /// A message over [`Limits::message_bytes`](protocol_core::Limits) from there, which is skipped.
    TooLarge(Side),
    /// These bytes from there, in which no message can be found any more.
    Broken(Side, &'b [u8]),
    /// The end of this side's input.
    End {
        /// The side whose input has ended.
        side: Side,
        /// What was unread then.
        unread: &'b [u8],
        /// The last message, if those bytes are one.
        message: Option<&'b [u8]>,
    },
    /// Nothing but the time.
    Time,
}

/// Sees what the core of a relay is given, before what it made happen is told. It should be quick.
pub type Inputs = Box<dyn FnMut(Input<'_>, Timestamp) + Send>;

/// Sees every message, without framing, with the side whose peer it was sent to or received from.
/// It should be quick.
pub type Trace = Box<dyn FnMut(Side, Way, &[u8]) + Send>;

/// Sees what did not simply pass, for logs, with the side whose peer sent what it is about. It should be
/// quick.
pub type Observer = Box<dyn FnMut(Side, RelayEvent) + Send>;

/// What the error of a [`RelayDriver`] holds, of the kind [`TimedOut`](io::ErrorKind::TimedOut), if a
/// peer did not read for [`Options::patience`]: what was left to say to it is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotRead {
    /// The side whose peer it was.
    pub side: Side,
}

impl fmt::Display for NotRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peer = match self.side {
            Side::Up => "client",
            Side::Down => "server",
        };
        write!(f, "the {peer} does not read, and what was left to say to it is lost")
    }
}

impl std::error::Error for NotRead {}

impl Options {
    /// Returns the options of a relay between these two, with the default of every other field.
    #[must_use]
    pub fn new(up: Config, down: Config) -> Self {
        Self {
            up,
            down,
            guard: Guard::default(),
            patience: PATIENCE,
            budgets: Budgets::default(),
            trace: None,
            inputs: None,
            observer: None,
            noise: None,
            answer_after_end: Duration::ZERO,
            waits: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("up", &self.up)
            .field("down", &self.down)
            .finish_non_exhaustive()
    }
}

/// Joins a client in front and a server behind. Nothing happens until the driver is polled.
pub fn relay<R, W, S, X, T>(
    (up_reader, up_writer): (R, W),
    (down_reader, down_writer): (S, X),
    timer: T,
    options: Options,
) -> RelayDriver<R, W, S, X, T>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
    S: AsyncRead + Unpin,
    X: AsyncWrite + Unpin,
    T: Timer,
{
    let Options { up, down, guard, answer_after_end, budgets, .. } = options;
    let Options { patience, trace, inputs, observer, noise, waits, .. } = options;
    let mut relay = Relay::new(up, down);
    relay.guard(Side::Up, guard);
    RelayDriver {
        joint: Joint {
            relay,
            till: Till::new(budgets),
            patience,
            trace,
            inputs,
            observer,
            noise,
            waits,
        },
        up: Stream::new(Side::Up, up_reader, up_writer, answer_after_end),
        down: Stream::new(Side::Down, down_reader, down_writer, Duration::ZERO),
        alarm: Alarm::new(timer),
        error: None,
    }
}

/// Moves the bytes of a [`Relay`]: a future for an executor to run.
///
/// It reads both sides while either isn't reading (G3), and closes each writer when its side is
/// over. A side whose words pile up because the other does not read them is read slowly, so that its
/// peer has to wait: nothing is lost before [`Limits::unsent_bytes`](protocol_core::Limits), and
/// cancels still pass. It ends when both are. Its output is the first error that ended reading or writing, if one
/// did; what a peer's going away looks like is none, and a peer that does not read is one ([`NotRead`]). Dropping it drops everything in flight without a word to either peer.
#[must_use = "nothing is read or written unless it is polled"]
pub struct RelayDriver<R, W, S, X, T: Timer> {
    joint: Joint,
    up: Stream<R, W>,
    down: Stream<S, X>,
    alarm: Alarm<T>,
    /// What ended reading or writing first. What was read before it is still answered.
    error: Option<io::Error>,
}

/// The relay, and who sees what it does.
struct Joint {
    relay: Relay,
    till: Till,
    patience: Duration,
    trace: Option<Trace>,
    inputs: Option<Inputs>,
    observer: Option<Observer>,
    noise: Option<Noise>,
    waits: Option<Waits>,
}

struct Stream<R, W> {
    side: Side,
    reader: Reader<R>,
    writer: Writer<W>,
    life: Life,
    /// How long its peer, which does not read, is still waited for, once nothing else is left to be done.
    until: Option<Timestamp>,
    pace: Pace,
    half: HalfClose,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Open,
    /// The writer is closed.
    Over,
}

impl<R, W, S, X, T> Future for RelayDriver<R, W, S, X, T>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
    S: AsyncRead + Unpin,
    X: AsyncWrite + Unpin,
    T: Timer + Unpin,
{
    type Output = io::Result<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        for _ in 0..TURNS {
            let timers = this.poll_timers(cx);
            let (alarm, joint) = (&this.alarm, &mut this.joint);
            let moved = [
                this.up.poll_read(joint, alarm, cx),
                this.down.poll_read(joint, alarm, cx),
                this.up.poll_write(joint, alarm, cx),
                this.down.poll_write(joint, alarm, cx),
            ];
            joint.report(&[]);
            let moved = moved.map(|moved| moved.map(|error| this.keep(error)));
            if this.up.life == Life::Over && this.down.life == Life::Over {
                return Poll::Ready(this.error.take().map_or(Ok(()), Err));
            }
            if timers.is_pending() && moved.iter().all(Poll::is_pending) {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<R, W, S, X, T> RelayDriver<R, W, S, X, T>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
    S: AsyncRead + Unpin,
    X: AsyncWrite + Unpin,
    T: Timer + Unpin,
{
    /// Keeps an error for whoever runs the driver. What a peer's going away looks like is none.
    fn keep(&mut self, error: Option<io::Error>) {
        let error = error.filter(|error| !is_hang_up(error));
        self.error = self.error.take().or(error);
    }

    /// Ready when a timer was due.
    fn poll_timers(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let timeout = self.joint.relay.poll_timeout().map(|(due, _)| due);
        let paces = [self.up.pace.due(), self.down.pace.due(), self.up.half.due()];
        let ours = paces.into_iter().chain([self.up.until, self.down.until]);
        let due = ours.chain([timeout]).flatten().min();
        ready!(self.alarm.poll(due, cx));
        let now = self.alarm.now();
        self.joint.handle_timeout(now);
        let errors = [self.up.handle_timeout(now), self.down.handle_timeout(now)];
        errors.into_iter().for_each(|error| self.keep(error));
        Poll::Ready(())
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Stream<R, W> {
    fn new(side: Side, reader: R, writer: W, answer_after_end: Duration) -> Self {
        let (reader, writer) = (Reader::new(reader, PIPE_BYTES), Writer::new(writer));
        let half = HalfClose::new(answer_after_end);
        let (life, pace) = (Life::Open, Pace::default());
        Self { side, reader, writer, life, until: None, pace, half }
    }

    fn poll_read<T: Timer>(
        &mut self,
        joint: &mut Joint,
        alarm: &Alarm<T>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Error>> {
        let read = match self.half.poll(&joint.relay, || alarm.now()) {
            Some(ended) => Read::End(ready!(ended)),
            None => {
                let far = joint.relay.connection(self.side.other());
                let is_slow = far.unsent_bytes() >= far.config().limits.unsent_bytes / SLOW_AT;
                if !self.reader.is_ending() {
                    ready!(self.pace.poll(is_slow, || alarm.now()));
                }
                ready!(self.reader.poll(cx))
            }
        };
        let (input, now) = (&mut self.reader.input, alarm.now());
        let mut over = None;
        while over.is_none() {
            let used = joint.take(self.side, input.unread(), now);
            if used == 0 {
                break;
            }
            input.consume(used);
            over = joint.till.take_over(self.side);
        }
        if over.is_some() {
            // What else it has said is as good as never said.
            input.consume(input.unread().len());
        }
        let read = over.map_or(read, |over| Read::End(Some(over.into())));
        let mut error = None;
        if let Read::End(end) = read {
            // No read follows that a pace could be for.
            self.pace = Pace::default();
            let end = match self.half.begin(joint, input, end, now) {
                ControlFlow::Break(()) => return Poll::Ready(None),
                ControlFlow::Continue(end) => end,
            };
            joint.finish(self.side, input.unread(), now);
            joint.tell_cancelled(self.side);
            error = end;
        }
        if joint.relay.connection(self.side).machine().is_closed() {
            self.reader.close();
        }
        Poll::Ready(error)
    }

    /// Ready when something was written, or can't be any more: then this side ends, once what its peer
    /// has said before is read (F34).
    fn poll_write<T: Timer>(
        &mut self,
        joint: &mut Joint,
        alarm: &Alarm<T>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Error>> {
        if self.life == Life::Over {
            return Poll::Pending;
        }
        let before = self.writer.written();
        let polled = self.writer.poll(cx);
        if self.writer.written() != before {
            // Whoever reads slowly reads.
            self.until = None;
        }
        let Poll::Ready(written) = polled else {
            return self.wait_for_writer(joint, alarm);
        };
        self.until = None;
        if let Err(error) = written {
            self.reader.end_soon();
            self.half.give_up();
            return Poll::Ready(Some(error));
        }
        let output = &mut self.writer.output;
        // What stays in the outbox can be withdrawn.
        while output.len() < PIPE_BYTES {
            let is_taken = output.push(|bytes| joint.take_transmit(self.side, bytes));
            if !is_taken {
                break;
            }
        }
        if !output.is_empty() {
            return Poll::Ready(None);
        }
        if joint.relay.is_over(self.side) {
            self.reader.close();
            ready!(self.writer.poll_close(cx));
            self.life = Life::Over;
            return Poll::Ready(None);
        }
        Poll::Pending
    }

    /// Ready when there is a new time to wait for: nobody waits for ever for a peer that does not read,
    /// once that is all that keeps its side.
    fn wait_for_writer<T: Timer>(
        &mut self,
        joint: &Joint,
        alarm: &Alarm<T>,
    ) -> Poll<Option<io::Error>> {
        let [this, other] =
            [self.side, self.side.other()].map(|side| joint.relay.connection(side).machine());
        if self.until.is_some() || !this.is_closed() || other.calls_in_flight() > 0 {
            return Poll::Pending;
        }
        self.until = Some(alarm.now() + joint.patience);
        Poll::Ready(None)
    }

    /// Gives its peer up if it was waited for long enough, and says that something is lost with it.
    fn handle_timeout(&mut self, now: Timestamp) -> Option<io::Error> {
        if self.until.is_none_or(|until| until > now) {
            return None;
        }
        self.until = None;
        self.reader.close();
        self.writer.give_up();
        self.life = Life::Over;
        Some(io::Error::new(io::ErrorKind::TimedOut, NotRead { side: self.side }))
    }
}

fn is_too_large((_, event): &(Side, RelayEvent)) -> bool {
    matches!(event, RelayEvent::Violation { violation: Violation::MessageTooLarge, .. })
}

impl Joint {
    fn take_transmit(&mut self, side: Side, out: &mut Vec<u8>) -> bool {
        let Some(transmit) = self.relay.poll_transmit(side, out) else { return false };
        self.trace(side, Way::Sent, transmit.message(out));
        true
    }

    /// Takes at most one message, and says how much of the bytes it was.
    fn take(&mut self, side: Side, unread: &[u8], now: Timestamp) -> usize {
        let is_closed = |relay: &Relay| relay.connection(side).machine().is_closed();
        let was_closed = is_closed(&self.relay);
        let before = Trail::of(&self.relay);
        self.till.set(now);
        let Received { consumed, message, event: first, .. } =
            self.relay.receive(side, unread, now);
        match message {
            Some(message) => {
                if first.is_none() {
                    self.till.charge_for_nothing(&self.relay, side, &before);
                }
                self.trace(side, Way::Received, message);
                self.input(Input::Message(side, message), now);
            }
            None if !was_closed && is_closed(&self.relay) => {
                self.input(Input::Broken(side, unread), now);
            }
            // What waits to be told may be of a message that left before.
            None if first.as_ref().is_some_and(is_too_large) => {
                self.input(Input::TooLarge(side), now);
            }
            None => {}
        }
        self.report_from(first, message.unwrap_or(unread));
        consumed
    }

    /// One side's input has ended, with these bytes unread.
    fn finish(&mut self, side: Side, unread: &[u8], now: Timestamp) {
        let message = self.relay.handle_eof(side, unread, now);
        if let Some(message) = message {
            self.trace(side, Way::Received, message);
        }
        self.input(Input::End { side, unread, message }, now);
        self.report(message.unwrap_or_default());
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        self.relay.handle_timeout(now);
        self.input(Input::Time, now);
        self.report(&[]);
    }

    fn input(&mut self, input: Input<'_>, now: Timestamp) {
        if let Some(inputs) = &mut self.inputs {
            inputs(input, now);
        }
    }

    /// Tells how much the server has been asked to cancel because the client is gone.
    fn tell_cancelled(&mut self, side: Side) {
        let server = self.relay.connection(Side::Down);
        let requests = server.machine().calls_in_flight();
        if side == Side::Up && requests > 0 {
            let within = server.config().abandoned_grace;
            self.tell(Wait::Cancelled { requests, within });
        }
    }

    fn tell(&mut self, wait: Wait) {
        if let Some(waits) = &mut self.waits {
            waits(wait);
        }
    }

    fn trace(&mut self, side: Side, way: Way, message: &[u8]) {
        if let Some(trace) = &mut self.trace {
            trace(side, way, message);
        }
    }

    /// Tells what has happened, of which the peer said these bytes.
    fn report(&mut self, bytes: &[u8]) {
        let first = self.relay.poll_event();
        self.report_from(first, bytes);
    }

    /// The same, where the first event is taken already.
    fn report_from(&mut self, first: Option<(Side, RelayEvent)>, bytes: &[u8]) {
        let mut next = first;
        while let Some((side, event)) = next {
            self.till.charge(&self.relay, side, &event);
            let config = self.relay.connection(side).config();
            match (&event, &mut self.noise, &mut self.observer) {
                (RelayEvent::Violation { violation, id }, Some(noise), _)
                    if is_noise(config, *violation, id.as_ref()) =>
                {
                    noise(*violation, bytes);
                }
                (_, _, Some(observer)) => observer(side, event),
                _ => {}
            }
            next = self.relay.poll_event();
        }
    }
}

impl<R, W, S, X, T: Timer> fmt::Debug for RelayDriver<R, W, S, X, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayDriver").field("relay", &self.joint.relay).finish_non_exhaustive()
    }
}
