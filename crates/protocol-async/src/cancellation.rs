//! Markers: how a handler learns that its work is to stop.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use protocol_core::Cause;
use slab::Slab;

use crate::afterwards::contain;
use crate::sync::{Arc, AtomicU8, Mutex, Ordering, Weak, lock};

/// Says whether, and why, some work was cancelled. Clones are the same marker.
///
/// The marker of a request is set while the peer's cancel is decoded, before any handler sees
/// anything of it (G3).
#[derive(Clone)]
pub struct Cancellation {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    /// 0, or 1 + the index of the cause in [`Cause::ALL`]. Set once.
    cause: AtomicU8,
    waiters: Mutex<Slab<Waiter>>,
    /// What sets the marker from outside.
    source: Mutex<Option<Box<dyn Any + Send>>>,
}

/// Who wants to know.
enum Waiter {
    /// A task that awaits [`Cancellation::cancelled`].
    Task(Waker),
    /// What [`Cancellation::on_cancel`] runs.
    Follower(Box<dyn FnOnce(Cause) + Send>),
}

/// The work was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled {
    /// Why.
    pub cause: Cause,
}

impl Cancellation {
    pub(crate) fn new() -> Self {
        Self { inner: Arc::default() }
    }

    /// Whether it is set. One relaxed load: as cheap as it gets, for the inside of loops.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.inner.cause.load(Ordering::Relaxed) != 0
    }

    /// Why it is set, if it is.
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        let index = self.inner.cause.load(Ordering::Acquire).checked_sub(1)?;
        Cause::ALL.get(usize::from(index)).copied()
    }

    /// `Err` if it is set: for `?` between two steps of some work.
    ///
    /// # Errors
    ///
    /// [`Cancelled`].
    pub fn checkpoint(&self) -> Result<(), Cancelled> {
        self.cause().map_or(Ok(()), |cause| Err(Cancelled { cause }))
    }

    /// Waits until it is set. Any number of tasks may wait.
    pub fn cancelled(&self) -> impl Future<Output = Cause> + Send + Unpin + 'static {
        WaitForCancel { marker: self.clone(), key: None }
    }

    /// Runs some work until it is done or the marker is set.
    ///
    /// If it is set already, the work is never polled; if both happen at once, the work's result
    /// wins. When the marker wins, the work is dropped before this returns.
    ///
    /// # Errors
    ///
    /// [`Cancelled`], if the marker won.
    pub async fn run_until_cancelled<F: Future>(&self, work: F) -> Result<F::Output, Cancelled> {
        self.checkpoint()?;
        let mut work = pin!(work);
        let mut cancelled = pin!(self.cancelled());
        std::future::poll_fn(|cx| {
            if let Poll::Ready(result) = work.as_mut().poll(cx) {
                return Poll::Ready(Ok(result));
            }
            cancelled.as_mut().poll(cx).map(|cause| Err(Cancelled { cause }))
        })
        .await
    }

    /// A canceller of its own whose marker is also set, cause `parent`, when this one is.
    #[must_use]
    pub fn child(&self) -> Canceller {
        let child = Canceller::new();
        let weak = child.downgrade();
        child.keep(self.on_cancel(move |_| weak.cancel(Cause::Parent)));
        child
    }

    /// Runs `follow` once when the marker is set, on whatever thread sets it; at once if it is set
    /// already. It must not block.
    pub fn on_cancel(&self, follow: impl FnOnce(Cause) + Send + 'static) -> Following {
        Following { key: self.follow(Box::new(follow)) }
    }

    /// As [`on_cancel`](Self::on_cancel); the key undoes it.
    pub(crate) fn follow(&self, follow: Box<dyn FnOnce(Cause) + Send>) -> Option<FollowerKey> {
        let mut waiters = lock(&self.inner.waiters);
        match self.cause() {
            None => {
                let key = waiters.insert(Waiter::Follower(follow));
                Some(FollowerKey { marker: Arc::downgrade(&self.inner), key })
            }
            Some(cause) => {
                drop(waiters);
                follow(cause);
                None
            }
        }
    }

    /// Sets the flag, and says whom to tell. The first cause stays.
    ///
    /// Split from telling because the flag is set under the connection's lock, and whoever is told
    /// may take that of another connection.
    pub(crate) fn raise(&self, cause: Cause) -> Told {
        let index = Cause::ALL.iter().position(|&other| other == cause).expect("ALL has all");
        let index = u8::try_from(index + 1).expect("there are few causes");
        let mut waiters = lock(&self.inner.waiters);
        if self.is_cancelled() {
            return Told { cause, waiters: Slab::new() };
        }
        self.inner.cause.store(index, Ordering::Release);
        Told { cause, waiters: mem::take(&mut waiters) }
    }

    pub(crate) fn set(&self, cause: Cause) {
        self.raise(cause).tell();
    }
}

/// Whom a raised marker has still to tell.
#[must_use]
pub(crate) struct Told {
    cause: Cause,
    waiters: Slab<Waiter>,
}

impl Told {
    pub(crate) fn tell(self) {
        for (_, waiter) in self.waiters {
            match waiter {
                Waiter::Task(waker) => contain(|| waker.wake()),
                Waiter::Follower(follow) => contain(|| follow(self.cause)),
            }
        }
    }
}

/// What [`Cancellation::on_cancel`] is to run; dropping it undoes that.
#[must_use = "dropping it undoes it"]
pub struct Following {
    key: Option<FollowerKey>,
}

impl Following {
    /// Never undoes it: the marker keeps what it is to run until it is set, or gone.
    pub fn forever(mut self) {
        if let Some(key) = &mut self.key {
            key.key = usize::MAX;
        }
    }
}

impl fmt::Debug for Following {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Following").finish_non_exhaustive()
    }
}

/// Undoes [`Cancellation::follow`] when it is dropped.
pub(crate) struct FollowerKey {
    marker: Weak<Inner>,
    key: usize,
}

impl Drop for FollowerKey {
    fn drop(&mut self) {
        let Some(inner) = Weak::upgrade(&self.marker) else { return };
        let mut waiters = lock(&inner.waiters);
        // Once the marker is set its waiters are gone, and the key names nothing.
        let follower = if inner.cause.load(Ordering::Relaxed) == 0 {
            waiters.try_remove(self.key)
        } else {
            None
        };
        // What it captured is the host's, and may run anything when it is dropped.
        drop(waiters);
        drop(follower);
    }
}

struct WaitForCancel {
    marker: Cancellation,
    key: Option<usize>,
}

impl Future for WaitForCancel {
    type Output = Cause;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Cause> {
        let this = self.get_mut();
        let mut waiters = lock(&this.marker.inner.waiters);
        if let Some(cause) = this.marker.cause() {
            this.key = None;
            return Poll::Ready(cause);
        }
        match this.key.map(|key| &mut waiters[key]) {
            Some(Waiter::Task(waiting)) if waiting.will_wake(cx.waker()) => {}
            Some(waiting) => {
                let replaced = mem::replace(waiting, Waiter::Task(cx.waker().clone()));
                // Dropping another task's waker may drop that task.
                drop(waiters);
                drop(replaced);
            }
            None => this.key = Some(waiters.insert(Waiter::Task(cx.waker().clone()))),
        }
        Poll::Pending
    }
}

impl Drop for WaitForCancel {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let mut waiters = lock(&self.marker.inner.waiters);
        let waiter = if self.marker.is_cancelled() { None } else { waiters.try_remove(key) };
        drop(waiters);
        drop(waiter);
    }
}

impl Default for Cancellation {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancellation").field("cause", &self.cause()).finish_non_exhaustive()
    }
}

/// Sets a marker: for work of the host's own.
#[derive(Clone, Debug, Default)]
pub struct Canceller {
    marker: Cancellation,
}

impl Canceller {
    /// One whose marker is not set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The marker that it sets.
    #[must_use]
    pub fn marker(&self) -> Cancellation {
        self.marker.clone()
    }

    /// Sets the marker; the first cause stays.
    pub fn cancel(&self, cause: Cause) {
        self.marker.set(cause);
    }

    /// One that doesn't keep the marker: for what sets it from outside.
    #[must_use]
    pub fn downgrade(&self) -> WeakCanceller {
        WeakCanceller { inner: Arc::downgrade(&self.marker.inner) }
    }

    /// Drops `source` when nobody has the marker any more: it is what sets it from outside.
    pub fn keep(&self, source: impl Any + Send) {
        let replaced = lock(&self.marker.inner.source).replace(Box::new(source));
        drop(replaced);
    }
}

/// Sets a marker as long as anyone has it.
#[derive(Clone)]
pub struct WeakCanceller {
    inner: Weak<Inner>,
}

impl WeakCanceller {
    /// Sets the marker; the first cause stays.
    pub fn cancel(&self, cause: Cause) {
        if let Some(inner) = Weak::upgrade(&self.inner) {
            Cancellation { inner }.set(cause);
        }
    }
}

impl fmt::Debug for WeakCanceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakCanceller").finish_non_exhaustive()
    }
}

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cancelled ({})", self.cause)
    }
}

impl Error for Cancelled {}
