//! Counting what comes, before it is a message.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_io::{AsyncRead, AsyncWrite};
use protocol_async::Canceller;

use crate::eviction::Eviction;

/// Bytes of each unfinished message that are not counted: nearly all messages are no longer.
const FREE: usize = 64 << 10;
/// Bytes that one connection reads before others have their turn.
const TURN: usize = 64 << 10;

/// One address may have so much of what all may: a part of this many.
const SHARES: usize = 4;

/// The unfinished bytes of all connections of a listener.
#[derive(Debug)]
pub(crate) struct Unfinished {
    bytes: AtomicUsize,
    most: usize,
}

impl Unfinished {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { bytes: AtomicUsize::new(0), most })
    }
}

/// What one connection has read, and how much of that is whole messages.
#[derive(Debug)]
pub(crate) struct Meter {
    all: Arc<Unfinished>,
    /// What is counted of its address.
    address: Arc<AtomicUsize>,
    read: AtomicUsize,
    finished: AtomicUsize,
    /// What is counted among all.
    counted: AtomicUsize,
    /// The most that can be of one message.
    most: usize,
    /// Whether reading stopped for the sake of others, and not for want of bytes.
    gave_way: AtomicBool,
}

impl Meter {
    /// A connection whose WebSocket holds so many bytes of a message at most.
    pub(crate) fn new(all: &Arc<Unfinished>, address: &Arc<AtomicUsize>, most: usize) -> Arc<Self> {
        let [read, finished, counted] = [(); 3].map(|()| AtomicUsize::new(0));
        let gave_way = AtomicBool::new(false);
        Arc::new(Self {
            all: all.clone(),
            address: address.clone(),
            read,
            finished,
            counted,
            most,
            gave_way,
        })
    }

    /// Every byte so far. It may wrap around, for it is compared with earlier ones only.
    pub(crate) fn read(&self) -> usize {
        self.read.load(Relaxed)
    }

    /// The bytes that are of no whole message yet.
    pub(crate) fn unfinished(&self) -> usize {
        self.read().wrapping_sub(self.finished.load(Relaxed))
    }

    /// Whether there may be bytes that nobody has looked for yet.
    pub(crate) fn gave_way(&self) -> bool {
        self.gave_way.load(Relaxed)
    }

    /// A message is whole. What was read together with its end counts as part of it.
    pub(crate) fn finish_message(&self) {
        self.finished.store(self.read(), Relaxed);
        let counted = self.counted.swap(0, Relaxed);
        self.address.fetch_sub(counted, Relaxed);
        self.all.bytes.fetch_sub(counted, Relaxed);
    }

    /// A frame was read that is part of no message: a ping, say.
    pub(crate) fn finish_control(&self, bytes: usize) {
        self.finished.fetch_add(bytes.min(self.unfinished()), Relaxed);
    }

    /// More bytes came.
    ///
    /// # Errors
    ///
    /// They are too many, with those of all others; or more than a message and what is free, so that they are
    /// frames with nothing in them, which are no load on others.
    fn add(&self, bytes: usize) -> Result<(), Eviction> {
        self.read.fetch_add(bytes, Relaxed);
        let counts = self.unfinished().saturating_sub(FREE);
        if counts > self.most {
            return Err(Eviction::EmptyFrames);
        }
        let more = counts.saturating_sub(self.counted.fetch_max(counts, Relaxed));
        let all = self.all.bytes.fetch_add(more, Relaxed) + more;
        let address = self.address.fetch_add(more, Relaxed) + more;
        // One message of the longest always fits its share.
        let share = self.most.max(self.all.most / SHARES);
        let is_over = all > self.all.most || address > share;
        if more > 0 && is_over { Err(Eviction::UnfinishedBytes) } else { Ok(()) }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.finish_message();
    }
}

/// Where the stream of a client that was sent away is left, so that it is read on a little (F47): one that is
/// closed with unread bytes in it may take back the goodbye.
pub(crate) struct Aside<S> {
    /// Set before a stream is let go that is to be left here.
    sent_away: Canceller,
    stream: Mutex<Option<S>>,
}

impl<S> Aside<S> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { sent_away: Canceller::new(), stream: Mutex::new(None) })
    }

    pub(crate) const fn sent_away(&self) -> &Canceller {
        &self.sent_away
    }

    pub(crate) fn take(&self) -> Option<S> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A stream whose input is counted, and which lets others have their turn.
pub(crate) struct Metered<S> {
    /// `None` once it is left aside.
    stream: Option<S>,
    aside: Arc<Aside<S>>,
    meter: Arc<Meter>,
    /// What was read since the last turn of others.
    turn: usize,
}

impl<S> Metered<S> {
    pub(crate) const fn new(stream: S, aside: Arc<Aside<S>>, meter: Arc<Meter>) -> Self {
        Self { stream: Some(stream), aside, meter, turn: 0 }
    }
}

impl<S: Unpin> Metered<S> {
    fn stream(&mut self) -> Pin<&mut S> {
        Pin::new(self.stream.as_mut().expect("it is there until this is dropped"))
    }
}

impl<S> Drop for Metered<S> {
    fn drop(&mut self) {
        if self.aside.sent_away.marker().is_cancelled() {
            *self.aside.stream.lock().unwrap_or_else(PoisonError::into_inner) = self.stream.take();
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let gives_way = self.turn >= TURN;
        self.meter.gave_way.store(gives_way, Relaxed);
        if gives_way {
            self.turn = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let read = self.stream().poll_read(cx, room);
        match &read {
            Poll::Ready(Ok(bytes)) => {
                self.turn += bytes;
                self.meter.add(*bytes)?;
            }
            _ => self.turn = 0,
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_close(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f47_unfinished_bytes_are_counted_together_and_given_back() {
        let all = Unfinished::new(FREE);
        let (one, other) = (
            Meter::new(&all, &Arc::default(), usize::MAX),
            Meter::new(&all, &Arc::default(), usize::MAX),
        );
        assert_eq!(one.add(FREE), Ok(()), "free");
        assert_eq!(one.add(FREE), Ok(()));
        assert_eq!(other.add(FREE), Ok(()), "free for each");
        assert_eq!(other.add(1), Err(Eviction::UnfinishedBytes));
        drop(other);
        assert_eq!(one.add(1), Err(Eviction::UnfinishedBytes));
        one.finish_message();
        assert_eq!((one.add(2 * FREE), all.bytes.load(Relaxed)), (Ok(()), FREE));
        drop(one);
        assert_eq!(all.bytes.load(Relaxed), 0);
    }

    #[test]
    fn f47_who_sends_frames_with_nothing_in_them_is_charged_a_message_and_no_more() {
        let all = Unfinished::new(10 * FREE);
        let (greedy, honest) =
            (Meter::new(&all, &Arc::default(), FREE), Meter::new(&all, &Arc::default(), FREE));
        assert_eq!((greedy.add(FREE), greedy.add(FREE)), (Ok(()), Ok(())));
        assert_eq!(greedy.add(20 * FREE), Err(Eviction::EmptyFrames));
        assert_eq!(all.bytes.load(Relaxed), FREE);
        assert_eq!(honest.add(2 * FREE), Ok(()));
    }

    #[test]
    fn f47_connections_of_one_address_have_a_quarter_of_the_unfinished_bytes() {
        let all = Unfinished::new(8 * FREE);
        let (here, there) = (Arc::default(), Arc::default());
        let [one, two, three] = [(); 3].map(|()| Meter::new(&all, &here, FREE));
        let other = Meter::new(&all, &there, FREE);
        assert_eq!((one.add(2 * FREE), two.add(2 * FREE)), (Ok(()), Ok(())));
        assert_eq!(three.add(2 * FREE), Err(Eviction::UnfinishedBytes));
        assert_eq!(other.add(2 * FREE), Ok(()));
        drop([one, three]);
        assert_eq!((here.load(Relaxed), two.add(0)), (FREE, Ok(())));
        two.finish_message();
        assert_eq!(Meter::new(&all, &here, FREE).add(2 * FREE), Ok(()));
    }

    #[test]
    fn a_ping_within_a_message_finishes_nothing_but_itself() {
        let meter = Meter::new(&Unfinished::new(FREE), &Arc::default(), usize::MAX);
        meter.add(100).unwrap();
        meter.add(10).unwrap();
        meter.finish_control(10);
        assert_eq!(meter.unfinished(), 100);
        meter.finish_control(200);
        assert_eq!(meter.unfinished(), 0);
    }
}
