//! The bytes of a client, before they are messages.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use futures_io::{AsyncRead, AsyncWrite};

use crate::eviction::Eviction;
use crate::frames::Frames;
use crate::settings::TURN_BYTES;
use crate::work::Work;

/// Bytes of each unfinished message that are not charged: nearly all messages are no longer.
const FREE: usize = 64 << 10;

/// The part of all unfinished bytes that one address may have: one of this many.
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

/// The charge for one connection's unfinished message: among all, among those of its address, and in its account.
pub(crate) struct Charge {
    all: Arc<Unfinished>,
    address: Arc<AtomicUsize>,
    work: Work,
    /// The bytes that it is charged among all.
    charged: usize,
    /// The most that one message may have.
    most: usize,
}

impl Charge {
    pub(crate) fn new(
        all: &Arc<Unfinished>,
        address: &Arc<AtomicUsize>,
        work: Work,
        most: usize,
    ) -> Self {
        Self { all: all.clone(), address: address.clone(), work, charged: 0, most }
    }

    /// Charges an unfinished message of so many bytes in place of the one before.
    ///
    /// # Errors
    ///
    /// They are more than a message can be and what is free; or too many, with those of all others.
    fn set(&mut self, unfinished: usize) -> Result<(), Eviction> {
        let charge = unfinished.saturating_sub(FREE);
        if charge > self.most {
            return Err(Eviction::MessageTooLong);
        }
        let charged = std::mem::replace(&mut self.charged, charge);
        if charge <= charged {
            self.address.fetch_sub(charged - charge, Relaxed);
            self.all.bytes.fetch_sub(charged - charge, Relaxed);
        } else {
            let more = charge - charged;
            let all = self.all.bytes.fetch_add(more, Relaxed) + more;
            let address = self.address.fetch_add(more, Relaxed) + more;
            // One message of the longest always fits its share.
            if all > self.all.most || address > self.most.max(self.all.most / SHARES) {
                return Err(Eviction::UnfinishedBytes);
            }
        }
        // Only a message that fits is for the account, which may ask others to make room for it.
        self.work.note_unfinished(unfinished);
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        // No message always fits.
        let _ = self.set(0);
    }
}

/// A stream whose input is charged, and which lets others have their turn.
pub(crate) struct Metered<S> {
    stream: S,
    /// The bytes that were read of it before.
    tail: VecDeque<u8>,
    charge: Charge,
    frames: Frames,
    has_heard: bool,
    /// The bytes that were read since others had their turn.
    turn: usize,
}

impl<S> Metered<S> {
    /// Creates a stream that begins with these bytes, which were read of it already.
    pub(crate) fn new(stream: S, tail: Vec<u8>, charge: Charge) -> Self {
        let (tail, frames) = (tail.into(), Frames::default());
        Self { stream, tail, charge, frames, has_heard: false, turn: 0 }
    }

    pub(crate) fn into_inner(self) -> S {
        self.stream
    }

    /// Returns whether bytes came since this was asked last.
    pub(crate) const fn take_heard(&mut self) -> bool {
        std::mem::replace(&mut self.has_heard, false)
    }

    /// Returns whether a message has begun to come that is not whole.
    pub(crate) fn has_unfinished(&self) -> bool {
        self.frames.unfinished() > 0
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if self.turn >= TURN_BYTES {
            self.turn = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        // The client's time runs on meanwhile, because only its bytes are not read.
        ready!(self.charge.work.poll_may_read(cx));
        let read = if self.tail.is_empty() {
            Pin::new(&mut self.stream).poll_read(cx, room)
        } else {
            Poll::Ready(self.tail.read(room))
        };
        match &read {
            Poll::Ready(Ok(bytes)) => {
                self.turn += bytes;
                self.has_heard |= *bytes > 0;
                self.frames.follow(&room[..*bytes]);
                let unfinished = self.frames.unfinished();
                self.charge.set(unfinished)?;
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
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charge(all: &Arc<Unfinished>, address: &Arc<AtomicUsize>) -> Charge {
        Charge::new(all, address, Work::default(), FREE)
    }

    #[test]
    fn f47_unfinished_bytes_are_counted_together_and_given_back() {
        let all = Unfinished::new(FREE);
        let [mut one, mut other] =
            [(); 2].map(|()| Charge::new(&all, &Arc::default(), Work::default(), 2 * FREE));
        assert_eq!(one.set(FREE), Ok(()), "free");
        assert_eq!(one.set(2 * FREE), Ok(()));
        assert_eq!(other.set(FREE), Ok(()), "free for each");
        assert_eq!(other.set(FREE + 1), Err(Eviction::UnfinishedBytes));
        drop(other);
        assert_eq!(one.set(2 * FREE + 1), Err(Eviction::UnfinishedBytes));
        assert_eq!((one.set(10), all.bytes.load(Relaxed)), (Ok(()), 0));
        assert_eq!((one.set(2 * FREE), all.bytes.load(Relaxed)), (Ok(()), FREE));
        drop(one);
        assert_eq!(all.bytes.load(Relaxed), 0);
    }

    #[test]
    fn f47_who_sends_more_than_a_message_can_be_is_charged_a_message_and_no_more() {
        let all = Unfinished::new(10 * FREE);
        let [mut greedy, mut honest] = [(); 2].map(|()| charge(&all, &Arc::default()));
        assert_eq!(greedy.set(2 * FREE), Ok(()));
        assert_eq!(greedy.set(20 * FREE), Err(Eviction::MessageTooLong));
        assert_eq!(all.bytes.load(Relaxed), FREE);
        assert_eq!(honest.set(2 * FREE), Ok(()));
    }

    #[test]
    fn f47_connections_of_one_address_have_a_quarter_of_the_unfinished_bytes() {
        let all = Unfinished::new(8 * FREE);
        let (here, there) = (Arc::default(), Arc::default());
        let [mut one, mut two, mut three] = [(); 3].map(|()| charge(&all, &here));
        let mut other = charge(&all, &there);
        let add = |charge: &mut Charge| charge.set(2 * FREE);
        assert_eq!((add(&mut one), add(&mut two)), (Ok(()), Ok(())));
        assert_eq!(add(&mut three), Err(Eviction::UnfinishedBytes));
        assert_eq!(add(&mut other), Ok(()));
        drop([one, three]);
        assert_eq!(here.load(Relaxed), FREE);
        assert_eq!((two.set(0), here.load(Relaxed)), (Ok(()), 0));
        assert_eq!(add(&mut charge(&all, &here)), Ok(()));
    }
}
