//! tokio's clock and tasks, in a world.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::time::{Instant, timeout};

use super::clock::Clock;
use super::executor::{Simulation, with};

thread_local! {
    /// The waker of the task that waits until no task of the runtime can go on.
    static RESTING: Cell<Option<Waker>> = const { Cell::new(None) };
}

impl Simulation {
    /// Lets the tasks of this world use tokio: its `sleep`, `timeout` and `interval`, on a paused clock that is
    /// this world's. Its `spawn`, its `spawn_local` and everything that needs no runtime work too.
    ///
    /// The tasks of this world go on in the order that a seed or a search chooses. A task of `tokio::spawn` or
    /// `spawn_local` goes on as soon as it can, in tokio's own order. One that never waits hangs the run.
    /// `select!` takes its branches in an order that tokio draws, unless it is `biased`. The seed draws that
    /// order only if tokio is built with `RUSTFLAGS="--cfg tokio_unstable"`. Sockets, files, and
    /// `spawn_blocking` are of other threads, so their order differs from run to run.
    ///
    /// # Panics
    ///
    /// If this thread is in a runtime already, when the first task goes on.
    pub fn tokio(self) {
        let mut builder = Builder::new_current_thread();
        builder.enable_time().start_paused(true).on_thread_park(|| {
            if let Some(resting) = RESTING.take() {
                resting.wake();
            }
        });
        #[cfg(tokio_unstable)]
        {
            let seed = self.weather(u64::MAX).to_le_bytes();
            builder.rng_seed(tokio::runtime::RngSeed::from_bytes(&seed));
        }
        let runtime = builder.build_local(LocalOptions::default());
        let runtime = runtime.expect("a clock needs nothing of the system");
        with(|world| world.clock = Some(Rc::new(runtime)));
    }
}

impl Clock for LocalRuntime {
    fn run(&self, work: &mut dyn FnMut()) {
        let mut is_done = false;
        self.block_on(poll_fn(|cx| {
            if std::mem::replace(&mut is_done, true) {
                return Poll::Ready(());
            }
            RESTING.set(Some(cx.waker().clone()));
            work();
            Poll::Pending
        }));
    }

    fn pass(&self, most: Duration) -> Duration {
        self.block_on(async {
            let start = Instant::now();
            let woken = poll_fn(|cx| {
                with(|world| {
                    world.passing = Some(cx.waker().clone());
                    if world.is_at_rest() { Poll::Pending } else { Poll::Ready(()) }
                })
            });
            let _ = timeout(most, woken).await;
            start.elapsed()
        })
    }

    fn tasks(&self) -> usize {
        self.metrics().num_alive_tasks()
    }
}
