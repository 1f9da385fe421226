//! The parts that the drivers of clients and servers share: clock, observer and dialect.

use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use protocol_async::hub::Hub;
use protocol_async::{Incoming, Options, Peer, Verdict};
use protocol_core::{Cause, Dialect, Framing, MessageOrder, Timestamp};
use tokio::time::{Instant, Sleep, sleep_until};

/// Implements `Debug` with these fields alone, and so without secrets.
macro_rules! debug {
    ($name:ident $(, $field:ident)*) => {
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut shown = f.debug_struct(stringify!($name));
                shown$(.field(stringify!($field), &self.$field))*.finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use debug;

/// The clock of one endpoint, with the time for which its driver waits.
pub(crate) struct Clock {
    start: Instant,
    sleep: Pin<Box<Sleep>>,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let start = Instant::now();
        Self { start, sleep: Box::pin(sleep_until(start)) }
    }

    #[cfg(feature = "server")]
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.start.elapsed()
    }

    /// Waits for a time, or without one for ever.
    pub(crate) fn poll(&mut self, due: Option<Timestamp>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(due) = due else { return Poll::Pending };
        let due = self.start + due.since(Timestamp::ZERO);
        if self.sleep.deadline() != due {
            self.sleep.as_mut().reset(due);
        }
        self.sleep.as_mut().poll(cx)
    }

    /// Makes an endpoint whose driver sees each verdict before the host does.
    pub(crate) fn endpoint(
        &self,
        mut options: Options,
        tell: impl Fn(&Verdict) + Send + 'static,
    ) -> (Hub, Peer, Incoming) {
        let (start, mut host) = (self.start, options.observer.take());
        options.observer = Some(Box::new(move |verdict| {
            tell(verdict);
            if let Some(host) = &mut host {
                host(verdict);
            }
        }));
        Hub::new(options, move || Timestamp::ZERO + start.elapsed())
    }
}

/// Fits a dialect to a session whose messages come on several connections.
///
/// They may overtake each other. The input ends with the session and not with a stream, so that end cancels what is in
/// flight. The same holds for the revisions that the session may settle.
pub(crate) fn over_streams(dialect: &mut Dialect) {
    dialect.framing = Framing::Whole;
    dialect.order = MessageOrder::MayChange;
    dialect.closed_stream.get_or_insert(Cause::PeerGone);
    dialect.revisions.to_mut().iter_mut().for_each(|(_, revision)| over_streams(revision));
}

/// Bytes that hold something until they are dropped.
pub(crate) struct Held<B, T>(pub(crate) B, pub(crate) T);

impl<B: AsRef<[u8]>, T> AsRef<[u8]> for Held<B, T> {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref()
    }
}

/// Locks what no panic leaves half done.
pub(crate) fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
