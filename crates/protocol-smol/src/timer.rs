//! The clock of a connection.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use protocol_async::Timer;
use protocol_core::Timestamp;

/// A [`Timer`] that uses the clock of smol.
#[derive(Clone, Copy, Debug)]
pub struct SmolTimer {
    start: Instant,
}

impl SmolTimer {
    /// A clock that starts now.
    #[must_use]
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }
}

impl Timer for SmolTimer {
    type Sleep = Sleep;

    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.start.elapsed()
    }

    fn sleep_until(&self, due: Timestamp) -> Sleep {
        Sleep(smol::Timer::at(self.start + due.since(Timestamp::ZERO)))
    }
}

/// Ends at a time.
#[derive(Debug)]
pub struct Sleep(smol::Timer);

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(|_| ())
    }
}
