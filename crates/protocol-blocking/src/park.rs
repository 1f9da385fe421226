//! Waiting for futures without an executor: the thread sleeps until it is woken.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking::Parker;

/// Waits for a future on this thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let parker = Parker::new();
    let waker = Waker::from(parker.unparker());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        parker.park();
    }
}

/// Waits for a future on this thread, at most that long. It returns `None` if the future is not ready by
/// then, and may be waited for again.
pub fn block_on_for<F: Future + Unpin>(future: &mut F, timeout: Duration) -> Option<F::Output> {
    let Some(deadline) = Instant::now().checked_add(timeout) else {
        return Some(block_on(future));
    };
    let parker = Parker::new();
    let waker = Waker::from(parker.unparker());
    loop {
        let polled = Pin::new(&mut *future).poll(&mut Context::from_waker(&waker));
        if let Poll::Ready(output) = polled {
            return Some(output);
        }
        if Instant::now() >= deadline {
            return None;
        }
        parker.park_deadline(deadline);
    }
}
