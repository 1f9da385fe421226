//! Executors: one thread each.

use std::future::{Future, poll_fn};
use std::task::Poll;

/// An executor of the calling thread.
pub trait Runtime: 'static {
    /// Runs a future to its end, and meanwhile what was spawned.
    fn block_on<F: Future>(future: F) -> F::Output;

    /// Runs a future beside others, whether or not what this returns is awaited.
    fn spawn<F>(future: F) -> impl Future<Output = F::Output> + Send
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static;
}

thread_local! {
    // Never dropped: it would be so when the thread's other locals are gone.
    static TOKIO: &'static tokio::runtime::Runtime = Box::leak(Box::new(
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime"),
    ));
}

/// tokio's `current_thread` runtime.
pub enum Tokio {}

impl Runtime for Tokio {
    fn block_on<F: Future>(future: F) -> F::Output {
        TOKIO.with(|runtime| *runtime).block_on(future)
    }

    fn spawn<F>(future: F) -> impl Future<Output = F::Output> + Send
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let task = tokio::spawn(future);
        async { task.await.expect("nothing aborts it, and its panic is ours") }
    }
}

/// Lets the other tasks run.
pub async fn yield_now() {
    let mut is_done = false;
    poll_fn(|cx| {
        if is_done {
            return Poll::Ready(());
        }
        is_done = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
