//! A flag that one task sets and another waits for, over anybody's mutex.

/// Defines `Flag` and `wait` over the `Mutex` that is in scope where this stands.
macro_rules! flag {
    ($mutex:ty) => {
        use std::future::poll_fn;
        use std::task::{Poll, Waker};

        #[derive(Default)]
        struct State {
            is_set: bool,
            waiter: Option<Waker>,
        }

        pub(crate) struct Flag {
            state: $mutex,
            is_wrong: bool,
        }

        impl Flag {
            /// The wrong one is lost if it is set before anybody waits.
            pub(crate) fn new(is_wrong: bool) -> Self {
                Self { state: <$mutex>::new(State::default()), is_wrong }
            }

            pub(crate) fn set(&self) {
                let mut state = self.state.lock().expect("nobody panics");
                let waiter = state.waiter.take();
                state.is_set = waiter.is_some() || !self.is_wrong;
                drop(state);
                if let Some(waiter) = waiter {
                    waiter.wake();
                }
            }

            pub(crate) async fn wait(&self) {
                poll_fn(|context| {
                    let mut state = self.state.lock().expect("nobody panics");
                    if state.is_set {
                        return Poll::Ready(());
                    }
                    state.waiter = Some(context.waker().clone());
                    Poll::Pending
                })
                .await;
            }
        }
    };
}
pub(crate) use flag;
