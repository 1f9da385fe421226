//! The clock of a runtime, and waiting for it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use protocol_core::Timestamp;

/// All that a runtime has to bring besides byte streams.
pub trait Timer: Clone + Send + Sync + 'static {
    /// Ends at a time.
    type Sleep: Future<Output = ()>;

    /// Reads the clock. It must not run backwards.
    fn now(&self) -> Timestamp;

    /// Sleeps until then.
    fn sleep_until(&self, due: Timestamp) -> Self::Sleep;
}

/// Wakes a driver when a timer of the core is due.
pub(crate) struct Alarm<T: Timer> {
    timer: T,
    /// What the timer was asked for last.
    sleep: Option<(Timestamp, Pin<Box<T::Sleep>>)>,
}

impl<T: Timer> Alarm<T> {
    pub(crate) const fn new(timer: T) -> Self {
        Self { timer, sleep: None }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.timer.now()
    }

    /// Ready when it is that time.
    pub(crate) fn poll(&mut self, due: Option<Timestamp>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(due) = due else {
            self.sleep = None;
            return Poll::Pending;
        };
        if self.sleep.as_ref().is_none_or(|(set, _)| *set != due) {
            self.sleep = Some((due, Box::pin(self.timer.sleep_until(due))));
        }
        let (_, sleep) = self.sleep.as_mut().expect("it is set above");
        ready!(sleep.as_mut().poll(cx));
        self.sleep = None;
        Poll::Ready(())
    }
}
