//! The clock of a connection.

use std::future::Future;
use std::pin::pin;
use std::task::Context;

use protocol_async::Timer;
use protocol_core::Timestamp;
use tokio::time::{Instant, Sleep};

/// A [`Timer`] that uses the clock of tokio. It stands still where tokio's does.
#[derive(Clone, Copy, Debug)]
pub struct TokioTimer {
    start: Instant,
}

impl TokioTimer {
    /// A clock that starts now.
    #[must_use]
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }
}

impl Timer for TokioTimer {
    type Sleep = Sleep;

    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.start.elapsed()
    }

    fn sleep_until(&self, due: Timestamp) -> Sleep {
        tokio::time::sleep_until(self.start + due.since(Timestamp::ZERO))
    }

    /// Has the scheduler look for input first, which it otherwise does after 61 tasks.
    fn yield_now(cx: &mut Context<'_>) {
        // It has called the waker, or arranged for that, when it returns.
        let _ = pin!(tokio::task::yield_now()).poll(cx);
    }
}
