//! Counting what comes, before it is a message.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use futures_io::{AsyncRead, AsyncWrite};
use protocol_async::Canceller;

use crate::READ_BYTES;
use crate::eviction::Eviction;
use crate::frames::Frames;
use crate::work::Work;

/// Bytes of each unfinished message that are not counted: nearly all messages are no longer.
const FREE: usize = 64 << 10;
/// Bytes that one connection reads before others have their turn: those of one read. What a turn costs others beside
/// a flood is what they wait for most of the time.
pub(crate) const TURN: usize = READ_BYTES;

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

/// The count of the bytes that one connection has read, and of those of its unfinished message.
#[derive(Debug)]
pub(crate) struct Meter {
    all: Arc<Unfinished>,
    /// The bytes that its address is charged.
    address: Arc<AtomicUsize>,
    read: AtomicUsize,
    unfinished: AtomicUsize,
    /// The bytes that it is charged among all.
    counted: AtomicUsize,
    /// The most that can be of one message.
    most: usize,
}

impl Meter {
    /// A connection whose WebSocket holds so many bytes of a message at most.
    pub(crate) fn new(all: &Arc<Unfinished>, address: &Arc<AtomicUsize>, most: usize) -> Arc<Self> {
        let [read, unfinished, counted] = [(); 3].map(|()| AtomicUsize::new(0));
        Arc::new(Self {
            all: all.clone(),
            address: address.clone(),
            read,
            unfinished,
            counted,
            most,
        })
    }

    /// Every byte so far. It may wrap around, for it is compared with earlier ones only.
    pub(crate) fn read(&self) -> usize {
        self.read.load(Relaxed)
    }

    /// Whether a message has begun to come that is not whole.
    pub(crate) fn has_unfinished(&self) -> bool {
        self.unfinished.load(Relaxed) > 0
    }

    /// More bytes came, after which the unfinished message takes so many.
    ///
    /// # Errors
    ///
    /// They are more than a message can be and what is free; or too many, with those of all others.
    fn add(&self, bytes: usize, unfinished: usize) -> Result<(), Eviction> {
        self.read.fetch_add(bytes, Relaxed);
        self.unfinished.store(unfinished, Relaxed);
        let counts = unfinished.saturating_sub(FREE);
        if counts > self.most {
            return Err(Eviction::MessageTooLong);
        }
        let counted = self.counted.swap(counts, Relaxed);
        if counts <= counted {
            self.address.fetch_sub(counted - counts, Relaxed);
            self.all.bytes.fetch_sub(counted - counts, Relaxed);
            return Ok(());
        }
        let more = counts - counted;
        let all = self.all.bytes.fetch_add(more, Relaxed) + more;
        let address = self.address.fetch_add(more, Relaxed) + more;
        // One message of the longest always fits its share.
        let share = self.most.max(self.all.most / SHARES);
        let is_over = all > self.all.most || address > share;
        if is_over { Err(Eviction::UnfinishedBytes) } else { Ok(()) }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        let counted = *self.counted.get_mut();
        self.address.fetch_sub(counted, Relaxed);
        self.all.bytes.fetch_sub(counted, Relaxed);
    }
}

/// A place for the stream of a client that was sent away, so that it is read on a little (F47). A stream that is
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
    /// The bytes that were read of it before.
    read: VecDeque<u8>,
    aside: Arc<Aside<S>>,
    meter: Arc<Meter>,
    work: Work,
    frames: Frames,
    /// The bytes that were read since others had their turn.
    turn: usize,
}

impl<S> Metered<S> {
    /// A stream of which these bytes were read already, and which gives them first.
    pub(crate) fn new(
        stream: S,
        read: Vec<u8>,
        aside: Arc<Aside<S>>,
        meter: Arc<Meter>,
        work: Work,
    ) -> Self {
        let (read, frames) = (read.into(), Frames::default());
        Self { stream: Some(stream), read, aside, meter, work, frames, turn: 0 }
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
        if self.turn >= TURN {
            self.turn = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        // Its time runs on meanwhile, for only the bytes are not read.
        ready!(self.work.poll_may_read(cx));
        let read = if self.read.is_empty() {
            self.stream().poll_read(cx, room)
        } else {
            Poll::Ready(self.read.read(room))
        };
        match &read {
            Poll::Ready(Ok(bytes)) => {
                self.turn += bytes;
                self.frames.follow(&room[..*bytes]);
                let unfinished = self.frames.unfinished();
                self.meter.add(*bytes, unfinished)?;
                self.work.note_unfinished(unfinished);
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

    fn meter(all: &Arc<Unfinished>, address: &Arc<AtomicUsize>) -> Arc<Meter> {
        Meter::new(all, address, FREE)
    }

    #[test]
    fn f47_unfinished_bytes_are_counted_together_and_given_back() {
        let all = Unfinished::new(FREE);
        let [one, other] = [(); 2].map(|()| Meter::new(&all, &Arc::default(), 2 * FREE));
        assert_eq!(one.add(FREE, FREE), Ok(()), "free");
        assert_eq!(one.add(FREE, 2 * FREE), Ok(()));
        assert_eq!(other.add(FREE, FREE), Ok(()), "free for each");
        assert_eq!(other.add(1, FREE + 1), Err(Eviction::UnfinishedBytes));
        drop(other);
        assert_eq!(one.add(1, 2 * FREE + 1), Err(Eviction::UnfinishedBytes));
        assert_eq!((one.add(1, 10), all.bytes.load(Relaxed)), (Ok(()), 0));
        assert_eq!((one.add(FREE, 2 * FREE), all.bytes.load(Relaxed)), (Ok(()), FREE));
        drop(one);
        assert_eq!(all.bytes.load(Relaxed), 0);
    }

    #[test]
    fn f47_who_sends_more_than_a_message_can_be_is_charged_a_message_and_no_more() {
        let all = Unfinished::new(10 * FREE);
        let [greedy, honest] = [(); 2].map(|()| meter(&all, &Arc::default()));
        assert_eq!(greedy.add(FREE, 2 * FREE), Ok(()));
        assert_eq!(greedy.add(1, 20 * FREE), Err(Eviction::MessageTooLong));
        assert_eq!(all.bytes.load(Relaxed), FREE);
        assert_eq!(honest.add(2 * FREE, 2 * FREE), Ok(()));
    }

    #[test]
    fn f47_connections_of_one_address_have_a_quarter_of_the_unfinished_bytes() {
        let all = Unfinished::new(8 * FREE);
        let (here, there) = (Arc::default(), Arc::default());
        let [one, two, three] = [(); 3].map(|()| meter(&all, &here));
        let other = meter(&all, &there);
        let add = |meter: &Meter| meter.add(1, 2 * FREE);
        assert_eq!((add(&one), add(&two)), (Ok(()), Ok(())));
        assert_eq!(add(&three), Err(Eviction::UnfinishedBytes));
        assert_eq!(add(&other), Ok(()));
        drop([one, three]);
        assert_eq!(here.load(Relaxed), FREE);
        assert_eq!((two.add(1, 0), here.load(Relaxed)), (Ok(()), 0));
        assert_eq!(add(&meter(&all, &here)), Ok(()));
    }
}
