//! Reading on after an end that we have said, so that the client gets to read it.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;

use futures_io::AsyncRead;
use futures_util::AsyncReadExt;
use futures_util::future::{Either, select};
use protocol_async::Timer;

use crate::settings::READ_BYTES;

/// The longest time that a stream is read on while its client is not silent.
const LINGER: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_secs(1);
const PLACES: usize = 64;

/// The number of streams of a listener that are read on.
#[derive(Debug, Default)]
pub(crate) struct Lingering(AtomicUsize);

/// A place among those that are read on, until it is dropped.
struct Place<'a>(&'a Lingering);

impl Lingering {
    /// Reads on until the client is silent or its time is over, with 64 clients at most. A connection that is closed
    /// with unread bytes in it may take back what was sent. What is read is discarded.
    pub(crate) async fn linger<S, T>(&self, stream: &mut S, timer: &T) -> io::Result<()>
    where
        S: AsyncRead + Unpin,
        T: Timer,
    {
        let Some(_place) = self.begin() else { return Ok(()) };
        let mut room = vec![0; READ_BYTES];
        let begun = timer.now();
        while timer.now().since(begun) < LINGER {
            let silent = pin!(timer.sleep_until(timer.now() + SILENCE));
            match select(stream.read(&mut room), silent).await {
                Either::Left((Ok(1..), _)) => yield_now::<T>().await,
                Either::Left((Err(error), _)) => return Err(error),
                Either::Left((Ok(0), _)) | Either::Right(_) => break,
            }
        }
        Ok(())
    }

    fn begin(&self) -> Option<Place<'_>> {
        let more = |there| (there < PLACES).then_some(there + 1);
        self.0.fetch_update(Relaxed, Relaxed, more).ok().map(|_| Place(self))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Relaxed);
    }
}

/// Lets other tasks have their turn.
async fn yield_now<T: Timer>() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        T::yield_now(cx);
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f47_who_finds_no_place_among_those_who_are_read_on_holds_nobody_up() {
        let lingering = Lingering::default();
        let mut there: Vec<_> = (0..PLACES).map_while(|_| lingering.begin()).collect();
        assert_eq!(there.len(), PLACES);
        assert!(lingering.begin().is_none());
        there.pop();
        assert!(lingering.begin().is_some(), "a place is free");
    }
}
