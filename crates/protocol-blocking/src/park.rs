//! Waiting for futures without an executor: the thread sleeps until it is woken.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking::Parker;

/// Waits for a future on this thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    wait(pin!(future), None).expect("there is no time at which the wait ends")
}

/// Waits for a future on this thread, at most that long. It returns `None` if the future is not ready by
/// then, and may be waited for again.
pub fn block_on_for<F: Future + Unpin>(future: &mut F, timeout: Duration) -> Option<F::Output> {
    wait(Pin::new(future), Instant::now().checked_add(timeout))
}

fn wait<F: Future>(mut future: Pin<&mut F>, deadline: Option<Instant>) -> Option<F::Output> {
    let parker = Parker::new();
    let waker = Waker::from(parker.unparker());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        match deadline {
            Some(deadline) if Instant::now() >= deadline => return None,
            Some(deadline) => drop(parker.park_deadline(deadline)),
            None => parker.park(),
        }
    }
}
