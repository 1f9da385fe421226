//! The turns of requests that wait for a limit: first come, first served.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// A number of turns. As many of the first in the line may take one as are free.
pub(crate) struct Turns(Mutex<Line>);

struct Line {
    free: usize,
    /// The place of the next one who comes.
    next: u64,
    waiting: BTreeMap<u64, Waker>,
}

/// A turn, or the place in the line for one. Dropping it lets the next one go.
pub(crate) struct Turn<'t> {
    turns: &'t Turns,
    /// `None` once the turn is taken.
    place: Option<u64>,
}

impl Turns {
    pub(crate) const fn new(free: usize) -> Self {
        Self(Mutex::new(Line { free, next: 0, waiting: BTreeMap::new() }))
    }

    /// Waits for a turn.
    pub(crate) async fn take(&self) -> Turn<'_> {
        let mut turn = Turn { turns: self, place: Some(self.lock().join()) };
        poll_fn(|cx| turn.poll(cx)).await;
        turn
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    const fn join(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl Turn<'_> {
    fn poll(&mut self, cx: &Context<'_>) -> Poll<()> {
        let Some(place) = self.place else { return Poll::Ready(()) };
        let waker = cx.waker().clone();
        // Dropped without the lock, because a waker may own a task, and that another turn.
        let _unused;
        let mut line = self.turns.lock();
        if line.waiting.range(..place).take(line.free).count() == line.free {
            _unused = line.waiting.insert(place, waker);
            return Poll::Pending;
        }
        _unused = line.waiting.remove(&place);
        line.free -= 1;
        self.place = None;
        Poll::Ready(())
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut line = self.turns.lock();
        let own = match self.place {
            Some(place) => line.waiting.remove(&place),
            None => {
                line.free += 1;
                None
            }
        };
        let last_to_go = line.free.checked_sub(1);
        let next = last_to_go.and_then(|last| line.waiting.values().nth(last).cloned());
        drop(line);
        drop(own);
        next.into_iter().for_each(Waker::wake);
    }
}
