//! Waiting for futures without an executor: the thread sleeps until it is woken.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Waits for a future on this thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let parker = Parker::new();
    loop {
        if let Poll::Ready(output) = parker.poll(future.as_mut()) {
            return output;
        }
        parker.park(None);
    }
}

/// Waits for a future on this thread, at most that long; `None` if it is not ready by then, and it
/// may be waited for again.
pub fn block_on_for<F: Future + Unpin>(future: &mut F, timeout: Duration) -> Option<F::Output> {
    let deadline = Instant::now().checked_add(timeout);
    let parker = Parker::new();
    loop {
        if let Poll::Ready(output) = parker.poll(Pin::new(&mut *future)) {
            return Some(output);
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return None;
        }
        parker.park(left);
    }
}

/// A thread that sleeps until its waker is woken.
pub(crate) struct Parker {
    waker: Waker,
    unparker: Arc<Unparker>,
}

struct Unparker {
    thread: Thread,
    /// Set by a wake. `unpark` alone won't do: others on this thread may use up its token.
    woken: AtomicBool,
}

impl Wake for Unparker {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

impl Parker {
    /// For the thread that makes it.
    pub(crate) fn new() -> Self {
        let unparker =
            Arc::new(Unparker { thread: thread::current(), woken: AtomicBool::new(false) });
        Self { waker: unparker.clone().into(), unparker }
    }

    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    fn poll<F: Future>(&self, future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(&self.waker))
    }

    /// Sleeps until the waker was woken since the last time, or the time is over.
    pub(crate) fn park(&self, timeout: Option<Duration>) {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        while !self.unparker.woken.swap(false, Ordering::Acquire) {
            match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => thread::park(),
                Some(Duration::ZERO) => return,
                Some(left) => thread::park_timeout(left),
            }
        }
    }
}
