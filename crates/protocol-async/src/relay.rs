//! One hop of a chain on byte streams: [`Relay`] with a future that moves its bytes.
//!
//! A proxy that looks into what passes is made of two [`connect`](crate::connect)s and
//! [`Peer::send_proxied`](crate::Peer::send_proxied) instead.

mod half_close;
mod joint;
mod options;
mod pace;
mod till;

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_io::{AsyncRead, AsyncWrite};
use protocol_core::Timestamp;
use protocol_relay::{Relay, Side};

use self::half_close::HalfClose;
use self::joint::Joint;
pub use self::options::{Input, Inputs, NotRead, Observer, Options, Trace, Wait, Waits};
use self::pace::{Pace, SLOW_AT};
use self::till::Till;
pub use protocol_endpoint::is_noise;
use protocol_endpoint::{OverBudget, PIPE_BYTES};

use crate::pipe::{FirstError, Read, Reader, TURNS, Writer};
use crate::timer::{Alarm, Timer};

/// Joins a client and a server. Nothing happens until the driver is polled.
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
    let mut relay = Relay::new(options.up.clone(), options.down.clone());
    relay.guard(Side::Up, options.guard.clone());
    let answer_after_end = options.answer_after_end;
    RelayDriver {
        joint: Joint { relay, till: Till::new(options.budgets), options },
        up: Stream::new(Side::Up, up_reader, up_writer, answer_after_end),
        down: Stream::new(Side::Down, down_reader, down_writer, Duration::ZERO),
        alarm: Alarm::new(timer),
        error: FirstError::default(),
    }
}

/// Moves the bytes of a [`Relay`]: a future for an executor to run.
///
/// It reads both sides while either isn't reading (G3), and closes each writer when its side is over. It
/// ends when both are. Dropping it drops everything in flight, and neither peer learns of it.
///
/// If a side does not read, the other one is read slowly, so that its peer has to wait. Nothing is lost
/// before [`Limits::unsent_bytes`](protocol_core::Limits), and cancels still pass.
///
/// Its output is the first error that ended reading or writing, if one did. An error that means that a
/// peer went away is none. A peer that does not read is one ([`NotRead`]).
#[must_use = "nothing is read or written unless it is polled"]
pub struct RelayDriver<R, W, S, X, T: Timer> {
    joint: Joint,
    up: Stream<R, W>,
    down: Stream<S, X>,
    alarm: Alarm<T>,
    /// Messages that were read before it still get a response.
    error: FirstError,
}

struct Stream<R, W> {
    side: Side,
    reader: Reader<R>,
    writer: Writer<W>,
    /// Whether the writer is closed.
    is_over: bool,
    /// The time until which its peer, which does not read, is waited for, once nothing else is left to be
    /// done.
    until: Option<Timestamp>,
    pace: Pace,
    half: HalfClose,
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
            let (alarm, joint) = (&this.alarm, &mut this.joint);
            // It may be there already that a timer waits for.
            let up = this.up.poll_read(joint, alarm, cx);
            let down = this.down.poll_read(joint, alarm, cx);
            let timers = this.poll_timers(cx);
            let (alarm, joint) = (&this.alarm, &mut this.joint);
            let moved = [
                up,
                down,
                this.up.poll_write(joint, alarm, cx),
                this.down.poll_write(joint, alarm, cx),
            ];
            joint.report(&[]);
            let moved = moved.map(|moved| moved.map(|error| this.error.keep(error)));
            if this.up.is_over && this.down.is_over {
                return Poll::Ready(this.error.take());
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
    /// Is ready when a timer was due.
    fn poll_timers(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let timeout = self.joint.relay.poll_timeout().map(|(due, _)| due);
        let paces = [self.up.pace.due(), self.down.pace.due(), self.up.half.due()];
        let ours = paces.into_iter().chain([self.up.until, self.down.until]);
        let due = ours.chain([timeout]).flatten().min();
        ready!(self.alarm.poll(due, cx));
        let now = self.alarm.now();
        self.joint.handle_timeout(now);
        let joint = &mut self.joint;
        let errors = [self.up.handle_timeout(joint, now), self.down.handle_timeout(joint, now)];
        errors.into_iter().for_each(|error| self.error.keep(error));
        Poll::Ready(())
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Stream<R, W> {
    fn new(side: Side, reader: R, writer: W, answer_after_end: Duration) -> Self {
        let (reader, writer) = (Reader::new(reader, PIPE_BYTES), Writer::new(writer));
        let half = HalfClose::new(answer_after_end);
        let pace = Pace::default();
        Self { side, reader, writer, is_over: false, until: None, pace, half }
    }

    fn poll_read<T: Timer>(
        &mut self,
        joint: &mut Joint,
        alarm: &Alarm<T>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Error>> {
        let read = match self.half.poll(&joint.relay, || alarm.now()) {
            Some(ended) => {
                ready!(ended);
                Read::End(None)
            }
            None => {
                let far = joint.relay.connection(self.side.other());
                let is_slow = far.unsent_bytes() >= far.config().limits.unsent_bytes / SLOW_AT;
                if !self.reader.is_ending() {
                    ready!(self.pace.poll(is_slow, || alarm.now()));
                }
                let read = ready!(self.reader.poll(cx));
                self.pace.read(is_slow, || alarm.now());
                read
            }
        };
        let now = alarm.now();
        let over = self.take_input(joint, now);
        let read = over.map_or(read, |over| Read::End(Some(over.into())));
        let input = &mut self.reader.input;
        let mut error = None;
        if let Read::End(end) = read {
            // No read follows that a pace could be for.
            self.pace = Pace::default();
            if self.half.keeps_back(joint, input, end.is_some(), now) {
                return Poll::Ready(None);
            }
            joint.finish(self.side, input.unread(), now);
            joint.tell_cancelled(self.side);
            error = end;
        }
        if joint.relay.connection(self.side).machine().is_closed() {
            self.reader.close();
        }
        Poll::Ready(error)
    }

    /// Gives the relay all that was read. Returns the budget that the peer has gone over with it.
    fn take_input(&mut self, joint: &mut Joint, now: Timestamp) -> Option<OverBudget> {
        let input = &mut self.reader.input;
        loop {
            let used = joint.take(self.side, input.unread(), now);
            if used == 0 {
                return None;
            }
            input.consume(used);
            if let over @ Some(_) = joint.till.take_over(self.side) {
                // The rest of its input counts as never said.
                input.consume(input.unread().len());
                return over;
            }
        }
    }

    /// Is ready when something was written, or when nothing can be any more. Then this side ends, once
    /// its peer's last words are read (F34).
    fn poll_write<T: Timer>(
        &mut self,
        joint: &mut Joint,
        alarm: &Alarm<T>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Error>> {
        if self.is_over {
            return Poll::Pending;
        }
        let (before, is_idle) = (self.writer.written(), self.writer.output.is_empty());
        let polled = self.writer.poll(cx);
        if self.writer.written() != before || (polled.is_ready() && !is_idle) {
            // The peer reads, however slowly.
            self.until = None;
        }
        let Poll::Ready(written) = polled else {
            return self.wait_for_writer(joint, alarm);
        };
        if let Err(error) = written {
            self.reader.end_soon();
            self.half.give_up();
            return Poll::Ready(Some(error));
        }
        let output = &mut self.writer.output;
        // A message that stays in the outbox can be withdrawn.
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
            if self.writer.poll_close(cx).is_pending() {
                return self.wait_for_writer(joint, alarm);
            }
            self.is_over = true;
            return Poll::Ready(None);
        }
        Poll::Pending
    }

    /// Is ready when there is a new time to wait for. A peer that does not read is given up in time once one side
    /// is closed and no call is in flight. Its side may still be open, for a response of the relay's own without room.
    fn wait_for_writer<T: Timer>(
        &mut self,
        joint: &Joint,
        alarm: &Alarm<T>,
    ) -> Poll<Option<io::Error>> {
        let sides = [Side::Up, Side::Down].map(|side| joint.relay.connection(side).machine());
        let is_ending = sides.iter().any(|side| side.is_closed());
        let is_waited_for = sides.iter().any(|side| side.calls_in_flight() > 0);
        if self.until.is_some() || !is_ending || is_waited_for {
            return Poll::Pending;
        }
        self.until = Some(alarm.now() + joint.options.patience);
        Poll::Ready(None)
    }

    /// Gives its peer up if it was waited for long enough. Returns the error of that, unless the writer had
    /// only to be closed.
    fn handle_timeout(&mut self, joint: &mut Joint, now: Timestamp) -> Option<io::Error> {
        if self.until.is_none_or(|until| until > now) {
            return None;
        }
        self.until = None;
        self.reader.close();
        self.writer.give_up();
        self.is_over = true;
        let machine = joint.relay.connection(self.side).machine();
        if !machine.is_closed() {
            joint.finish(self.side, &[], now);
        }
        let is_lost = !self.writer.output.is_empty();
        is_lost.then(|| io::Error::new(io::ErrorKind::TimedOut, NotRead { side: self.side }))
    }
}

impl<R, W, S, X, T: Timer> fmt::Debug for RelayDriver<R, W, S, X, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayDriver").field("relay", &self.joint.relay).finish_non_exhaustive()
    }
}
