//! A WebSocket whose peer has limited time.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use async_tungstenite::WebSocketStream;
use futures_core::Stream;
use futures_io::{AsyncRead, AsyncWrite};
use futures_util::Sink;
use protocol_async::Timer;
use protocol_async::hub::Alarm;
use protocol_core::Timestamp;
use tungstenite::{Bytes, Error, Message};

use crate::eviction::Eviction;
use crate::meter::Metered;
use crate::watch::{Due, Watch};
use crate::work::Work;

/// A WebSocket whose bytes are metered.
pub(crate) type MeteredSocket<S> = WebSocketStream<Metered<S>>;

/// A WebSocket whose bytes are looked at before they are messages.
pub(crate) trait Heard {
    /// Returns whether bytes came since this was asked last.
    fn take_heard(&mut self) -> bool;

    /// Returns whether a message has begun to come that is not whole.
    fn has_unfinished(&self) -> bool;
}

impl<S: AsyncRead + AsyncWrite + Unpin> Heard for MeteredSocket<S> {
    fn take_heard(&mut self) -> bool {
        self.get_mut().take_heard()
    }

    fn has_unfinished(&self) -> bool {
        self.get_ref().has_unfinished()
    }
}

/// A WebSocket that pings a silent peer, and ends with an [`Eviction`] when the peer's time is up.
pub(crate) struct Watched<S, T: Timer> {
    inner: S,
    watch: Watch,
    work: Work,
    alarm: Alarm<T>,
    /// Whether there was no room for a frame when that was asked for last.
    is_full: bool,
    /// Whether a ping of ours may not have left.
    owes_ping: bool,
}

impl<S, T: Timer> Watched<S, T> {
    pub(crate) const fn new(inner: S, watch: Watch, work: Work, timer: T) -> Self {
        let alarm = Alarm::new(timer);
        Self { inner, watch, work, alarm, is_full: false, owes_ping: false }
    }
}

impl<S, T: Timer> Watched<MeteredSocket<S>, T> {
    pub(crate) fn into_stream(self) -> S {
        self.inner.into_inner().into_inner()
    }
}

impl<S, T> Watched<S, T>
where
    S: Heard + Sink<Message, Error = Error> + Unpin,
    T: Timer,
{
    /// Takes note of a whole message. A ping or a pong may come in the middle of one.
    fn took(&mut self, message: &Message, now: Timestamp) {
        if !matches!(message, Message::Ping(_) | Message::Pong(_)) {
            self.watch.unfinished(false, now);
            self.watch.message(now);
        }
    }

    /// Waits for the next thing that is due, and does it. Ready when the peer is to be sent away.
    fn poll_watch(&mut self, mut now: Timestamp, cx: &mut Context<'_>) -> Poll<Error> {
        self.watch.unfinished(self.inner.has_unfinished(), now);
        while let Some((at, due)) = self.watch.due() {
            if at > now {
                ready!(self.alarm.poll(Some(at), cx));
                let before = std::mem::replace(&mut now, self.alarm.now());
                if now <= before {
                    // A clock that stands still is looked at again, but not at once.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                continue;
            }
            match due {
                // A peer that works has no less time than an idle one: a person may have to be asked.
                Due::Idle if self.work.is_in_flight() => self.watch.message(now),
                Due::Idle => return Poll::Ready(Error::Io(Eviction::Idle.into())),
                Due::Evict(eviction) => return Poll::Ready(Error::Io(eviction.into())),
                Due::Ping => {
                    self.watch.pinged(now);
                    if let Err(error) = self.ping(cx) {
                        return Poll::Ready(error);
                    }
                }
            }
        }
        let _ = self.alarm.poll(None, cx);
        Poll::Pending
    }

    /// Sends a ping. A peer that reads nothing gets none, and its time runs all the same.
    fn ping(&mut self, cx: &mut Context<'_>) -> Result<(), Error> {
        let mut inner = Pin::new(&mut self.inner);
        if let Poll::Ready(ready) = inner.as_mut().poll_ready(cx) {
            ready?;
            inner.start_send(Message::Ping(Bytes::new()))?;
            self.owes_ping = true;
        }
        Ok(())
    }
}

impl<S, T> Stream for Watched<S, T>
where
    S: Heard + Stream<Item = Result<Message, Error>> + Sink<Message, Error = Error> + Unpin,
    T: Timer + Unpin,
{
    type Item = Result<Message, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.inner).poll_next(cx);
        let now = this.alarm.now();
        if this.inner.take_heard() {
            this.watch.heard(now);
        }
        match polled {
            Poll::Ready(item) => {
                if let Some(Ok(message)) = &item {
                    this.took(message, now);
                }
                Poll::Ready(item)
            }
            Poll::Pending => {
                let ended = this.poll_watch(now, cx);
                if this.owes_ping {
                    // The next read shows an error again.
                    this.owes_ping = Pin::new(&mut this.inner).poll_flush(cx).is_pending();
                }
                ended.map(|error| Some(Err(error)))
            }
        }
    }
}

impl<S, T: Timer> Watched<S, T> {
    /// Takes note of whether sent messages leave.
    fn wrote<R>(&mut self, polled: Poll<R>, cx: &Context<'_>) -> Poll<R> {
        let now = self.alarm.now();
        if self.watch.unread(polled.is_pending(), now) {
            // The reading side waits for all that is due, and has not heard of this.
            cx.waker().wake_by_ref();
        }
        polled
    }
}

impl<S, T> Sink<Message> for Watched<S, T>
where
    S: Sink<Message, Error = Error> + Unpin,
    T: Timer + Unpin,
{
    type Error = Error;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let polled = Pin::new(&mut self.inner).poll_ready(cx);
        let was_full = std::mem::replace(&mut self.is_full, polled.is_pending());
        // Room that was there before says nothing of messages that left.
        if was_full || self.is_full { self.wrote(polled, cx) } else { polled }
    }

    fn start_send(mut self: Pin<&mut Self>, message: Message) -> Result<(), Error> {
        let now = self.alarm.now();
        self.watch.message(now);
        Pin::new(&mut self.inner).start_send(message)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let polled = Pin::new(&mut self.inner).poll_flush(cx);
        self.wrote(polled, cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.inner).poll_close(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Pending, pending};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
    use std::time::Duration;

    use protocol_async::hub::Hub;
    use protocol_core::{Config, Dialect};

    use super::*;
    use crate::limits::ListenerLimits;

    const SECOND: Duration = Duration::from_secs(1);

    /// A clock that stands still, and a peer that says nothing and may not read.
    #[derive(Clone, Default)]
    struct World {
        seconds: Arc<AtomicU32>,
        is_full: Arc<AtomicBool>,
        /// Bytes do not leave, though there is room for more.
        is_stuck: Arc<AtomicBool>,
        /// The number of flushes after which everything had left.
        flushes: Arc<AtomicU32>,
    }

    impl Timer for World {
        type Sleep = Pending<()>;

        fn now(&self) -> Timestamp {
            Timestamp::ZERO + SECOND * self.seconds.load(Relaxed)
        }

        fn sleep_until(&self, _: Timestamp) -> Self::Sleep {
            pending()
        }
    }

    impl Heard for World {
        fn take_heard(&mut self) -> bool {
            false
        }

        fn has_unfinished(&self) -> bool {
            false
        }
    }

    impl Stream for World {
        type Item = Result<Message, Error>;

        fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            Poll::Pending
        }
    }

    impl Sink<Message> for World {
        type Error = Error;

        fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
            if self.is_full.load(Relaxed) { Poll::Pending } else { Poll::Ready(Ok(())) }
        }

        fn start_send(self: Pin<&mut Self>, _: Message) -> Result<(), Error> {
            Ok(())
        }

        fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
            if self.is_stuck.load(Relaxed) {
                return Poll::Pending;
            }
            self.flushes.fetch_add(1, Relaxed);
            self.poll_ready(cx)
        }

        fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
            self.poll_ready(cx)
        }
    }

    fn watched(world: &World, limits: ListenerLimits) -> Watched<World, World> {
        let watch = Watch::new(limits, world.now());
        Watched::new(world.clone(), watch, Work::default(), world.clone())
    }

    /// Returns when and why a peer is sent away that has ten seconds to read. It does this in each of forty
    /// seconds.
    fn sent_away(does: impl Fn(&World, u32)) -> Option<(u32, Eviction)> {
        let world = World::default();
        let limits = ListenerLimits {
            message_time: SECOND * 20,
            write_time: SECOND * 10,
            ping_every: None,
            idle_time: None,
            ..ListenerLimits::DEFAULT
        };
        let mut watched = watched(&world, limits);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        (0..40).find_map(|second| {
            world.seconds.store(second, Relaxed);
            does(&world, second);
            let _ = Pin::new(&mut watched).poll_ready(&mut cx);
            let _ = Pin::new(&mut watched).poll_flush(&mut cx);
            match Pin::new(&mut watched).poll_next(&mut cx) {
                Poll::Ready(Some(Err(Error::Io(error)))) => {
                    Eviction::of(&error).map(|eviction| (second, eviction))
                }
                _ => None,
            }
        })
    }

    #[test]
    fn f45_who_reads_slowly_stays_as_long_as_frames_leave() {
        // One leaves in every ninth second, and after the third none does.
        let reads =
            |world: &World, second| world.is_full.store(second % 9 > 0 || second >= 27, Relaxed);
        let expected = Some((29, Eviction::Unread));
        assert_eq!(sent_away(reads), expected, "ten seconds after the 19th");
    }

    #[test]
    fn f45_room_for_more_is_no_sign_that_anything_leaves() {
        let is_stuck = |world: &World, _| world.is_stuck.store(true, Relaxed);
        assert_eq!(sent_away(is_stuck), Some((10, Eviction::Unread)));
    }

    #[test]
    fn f47_a_client_that_is_told_something_now_and_then_is_not_idle() {
        let world = World::default();
        let idle_time = Some(SECOND * 10);
        let limits = ListenerLimits { ping_every: None, idle_time, ..ListenerLimits::DEFAULT };
        let mut watched = watched(&world, limits);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        for second in 0..40 {
            world.seconds.store(second, Relaxed);
            if second % 9 == 0 {
                Pin::new(&mut watched).start_send(Message::text("{}")).unwrap();
            }
            assert!(Pin::new(&mut watched).poll_next(&mut cx).is_pending());
        }
    }

    #[test]
    fn f47_a_ping_leaves_once_it_can_though_nothing_else_is_sent() {
        let world = World::default();
        let ping_every = Some(SECOND);
        let limits = ListenerLimits { ping_every, ..ListenerLimits::DEFAULT };
        let mut watched = watched(&world, limits);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        for (second, flushes) in [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1)] {
            world.seconds.store(second, Relaxed);
            world.is_stuck.store(second < 3, Relaxed);
            assert!(Pin::new(&mut watched).poll_next(&mut cx).is_pending());
            assert_eq!(world.flushes.load(Relaxed), flushes, "second {second}");
        }
    }

    /// Its idle time is over at once, and begins again as long as it works.
    #[test]
    fn f47_a_client_that_works_is_not_idle_however_short_the_idle_time() {
        let now = || Timestamp::ZERO;
        let (_hub, peer, _incoming) = Hub::new(Config::client(Dialect::ACP_V1), now);
        let _call = peer.call::<()>("work", ());
        let world = World::default();
        let idle_time = Some(Duration::ZERO);
        let limits = ListenerLimits { ping_every: None, idle_time, ..ListenerLimits::DEFAULT };
        let mut watched = watched(&world, limits);
        watched.work.of(&peer);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        for second in 0..10 {
            world.seconds.store(second, Relaxed);
            assert!(Pin::new(&mut watched).poll_next(&mut cx).is_pending());
        }
    }

    #[test]
    fn f47_between_two_messages_a_client_may_be_silent() {
        assert_eq!(sent_away(|_, _| ()), None);
    }
}
