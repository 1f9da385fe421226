//! Handlers that are not `Send`, on an executor that polls everything again and again.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use protocol_async::{Incoming, Options, Peer, Timer};
use protocol_core::Timestamp;

use crate::pipe::{PipeReader, PipeWriter};

#[path = "suite.rs"]
mod suite;

pub(crate) use protocol_router::LocalRouter as Router;
pub(crate) type Shared<T> = std::rc::Rc<T>;

thread_local! {
    static CLOCK: Clock = Clock::default();
}

/// A clock that is set by hand: the time, and the next time that a sleep waits for.
#[derive(Clone, Default)]
struct Clock(Arc<Mutex<(Timestamp, Option<Timestamp>)>>);

struct Sleep {
    clock: Clock,
    due: Timestamp,
}

impl Timer for Clock {
    type Sleep = Sleep;

    fn now(&self) -> Timestamp {
        self.0.lock().unwrap().0
    }

    fn sleep_until(&self, due: Timestamp) -> Sleep {
        Sleep { clock: self.clone(), due }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let (now, next) = &mut *self.clock.0.lock().unwrap();
        if *now >= self.due {
            return Poll::Ready(());
        }
        *next = Some(next.map_or(self.due, |next| next.min(self.due)));
        Poll::Pending
    }
}

pub(crate) fn open(
    reader: PipeReader,
    writer: PipeWriter,
    options: Options,
) -> (Peer, Incoming, impl Future<Output = std::io::Result<()>>) {
    protocol_async::connect(reader, writer, CLOCK.with(Clock::clone), options)
}

pub(crate) fn run(test: impl Future<Output = ()>) {
    /// So many times nothing is done: then there is nothing to do.
    const IDLE: usize = 50;
    let (mut test, clock) = (pin!(test), CLOCK.with(Clock::clone));
    loop {
        for _ in 0..IDLE {
            if test.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                return;
            }
        }
        let next = clock.0.lock().unwrap().1.take();
        clock.0.lock().unwrap().0 = next.expect("nothing happens");
    }
}
