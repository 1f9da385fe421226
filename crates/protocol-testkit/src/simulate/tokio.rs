//! tokio's clock and tasks, in a world.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, timeout};

use super::clock::Clock;
use super::executor::{Simulation, with};

thread_local! {
    /// Whoever waits until no task of the runtime can go on.
    static RESTING: Cell<Option<Waker>> = const { Cell::new(None) };
}

impl Simulation {
    /// Lets the tasks of this world use tokio: its `sleep`, `timeout` and `interval`, on a paused clock
    /// that is this world's; its `spawn`; and everything that needs no runtime.
    ///
    /// The tasks of this world go on in the order that a seed or a search chooses. What `tokio::spawn`
    /// starts goes on as soon as it can, in tokio's own order. `select!` takes its branches in an order
    /// that tokio draws, unless it is `biased`: only where tokio is built with
    /// `RUSTFLAGS="--cfg tokio_unstable"` is that order the seed's. Sockets, files, and `spawn_blocking`
    /// are of other threads, and no order of theirs is the same twice.
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
        let runtime = builder.build().expect("a clock needs nothing of the system");
        with(|world| world.clock = Some(Rc::new(runtime)));
    }
}

impl Clock for Runtime {
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
