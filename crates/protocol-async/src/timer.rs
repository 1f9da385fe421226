//! The clock of a runtime, and waiting for it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use protocol_core::Timestamp;

/// The clock and the sleep of a runtime, which is all that it has to bring besides byte streams.
pub trait Timer: Clone + Send + Sync + 'static {
    /// A future that ends at a time.
    type Sleep: Future<Output = ()>;

    /// Reads the clock. It must not run backwards.
    fn now(&self) -> Timestamp;

    /// Returns a future that ends at `due`.
    fn sleep_until(&self, due: Timestamp) -> Self::Sleep;

    /// Wakes the task once other tasks have run.
    ///
    /// A runtime that can tell its scheduler to look for input before that does so here. By default
    /// the task is woken at once.
    fn yield_now(cx: &mut Context<'_>) {
        cx.waker().wake_by_ref();
    }
}

/// An alarm that wakes a driver when something is due.
pub struct Alarm<T: Timer> {
    timer: T,
    /// The latest sleep, and the time that it ends at.
    sleep: Option<(Timestamp, Pin<Box<T::Sleep>>)>,
}

impl<T: Timer> Alarm<T> {
    /// Creates an alarm that is not set.
    pub const fn new(timer: T) -> Self {
        Self { timer, sleep: None }
    }

    /// Reads the clock of the timer.
    pub fn now(&self) -> Timestamp {
        self.timer.now()
    }

    /// Is ready at that time, or earlier. A sleep goes on when its time moves to a later one, as it does with every
    /// piece that a slow peer takes.
    pub fn poll(&mut self, due: Option<Timestamp>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(due) = due else {
            self.sleep = None;
            return Poll::Pending;
        };
        if self.sleep.as_ref().is_none_or(|(set, _)| due < *set) {
            self.sleep = Some((due, Box::pin(self.timer.sleep_until(due))));
        }
        let (_, sleep) = self.sleep.as_mut().expect("it is set above");
        ready!(sleep.as_mut().poll(cx));
        self.sleep = None;
        Poll::Ready(())
    }

    /// Is ready at that time, and not earlier.
    pub fn poll_until(&mut self, due: Timestamp, cx: &mut Context<'_>) -> Poll<()> {
        if self.now() >= due {
            return Poll::Ready(());
        }
        if self.poll(Some(due), cx).is_ready() {
            // That was a sleep for an earlier time.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl<T: Timer> fmt::Debug for Alarm<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let due = self.sleep.as_ref().map(|(due, _)| due);
        f.debug_struct("Alarm").field("due", &due).finish_non_exhaustive()
    }
}
