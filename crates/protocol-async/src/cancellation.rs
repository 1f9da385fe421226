//! Markers: how a handler learns that its work is to stop.

mod listeners;

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use protocol_core::Cause;

use crate::cancelled::Cancelled;
use crate::failure::Failure;
use crate::sync::{Arc, AtomicU8, Mutex, Ordering, Weak, get_mut, lock};
use listeners::{Listener, Listeners};

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
    around: Mutex<Around>,
}

/// What is around a marker.
#[derive(Default)]
struct Around {
    /// Invariant: nobody, once the marker is set.
    listeners: Listeners,
    /// What sets the marker from outside. In a box because it is mostly not there, and every
    /// request has a marker.
    source: Option<Box<Source>>,
}

/// What sets a marker from outside.
struct Source {
    #[allow(dead_code, reason = "it is kept, and dropped")]
    kept: Box<dyn Any + Send>,
    /// The marker itself, once somebody follows it [for ever](Following::forever): else it would go,
    /// and the source with it, before it is set. Whatever sets it breaks the circle.
    marker: Option<Cancellation>,
}

impl Cancellation {
    /// What one holds, beside what listens to it.
    pub(crate) const HEAP: usize = size_of::<Inner>() + size_of::<[usize; 2]>();

    pub(crate) fn new() -> Self {
        Self { inner: Arc::default() }
    }

    /// Whether it is set. One relaxed load: as cheap as it gets, for the inside of loops.
    #[must_use]
    #[inline]
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
        WaitForCancel(Following { marker: self.clone(), key: None })
    }

    /// Runs some work that may fail until it is done or the marker is set, as
    /// [`unless_cancelled`](Self::unless_cancelled) does. Gives what a handler gives:
    /// `responder.respond_with_result(marker.run_until_cancelled(work).await)`.
    ///
    /// # Errors
    ///
    /// [`Failure::Cancelled`], if the marker won; else how the work failed.
    pub async fn run_until_cancelled<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.unless_cancelled(work).await?
    }

    /// Runs any work until it is done or the marker is set.
    ///
    /// If it is set already, the work is never polled; if both happen at once, the work's result
    /// wins. When the marker wins, the work is dropped before this returns.
    ///
    /// # Errors
    ///
    /// [`Cancelled`], if the marker won.
    pub async fn unless_cancelled<F: Future>(&self, work: F) -> Result<F::Output, Cancelled> {
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
        let mut around = lock(&self.inner.around);
        let key = match self.cause() {
            None => Some(around.listeners.insert(Listener::Follower(Box::new(follow)))),
            Some(cause) => {
                drop(around);
                follow(cause);
                None
            }
        };
        Following { marker: self.clone(), key }
    }

    /// Sets the flag, and says whom to tell. The first cause stays.
    ///
    /// Split from telling because the flag is set under the connection's lock, and whoever is told
    /// may take that of another connection.
    pub(crate) fn raise(&self, cause: Cause) -> Told {
        let index = Cause::ALL.iter().position(|&other| other == cause).expect("ALL has all");
        let index = u8::try_from(index + 1).expect("there are few causes");
        let mut around = lock(&self.inner.around);
        if self.is_cancelled() {
            return Told { cause, listeners: Listeners::default(), _own: None };
        }
        self.inner.cause.store(index, Ordering::Release);
        let own = around.source.as_mut().and_then(|source| source.marker.take());
        Told { cause, listeners: mem::take(&mut around.listeners), _own: own }
    }

    /// Whether nobody else has it, and nothing was ever done with it: then it can be another's.
    pub(crate) fn is_unused(&mut self) -> bool {
        let Some(Inner { cause, around }) = Arc::get_mut(&mut self.inner) else { return false };
        let around = get_mut(around);
        *cause.get_mut() == 0 && around.listeners.is_empty() && around.source.is_none()
    }

    pub(crate) fn set(&self, cause: Cause) {
        self.raise(cause).tell();
    }
}

/// Whom a raised marker has still to tell.
#[must_use]
pub(crate) struct Told {
    cause: Cause,
    listeners: Listeners,
    /// May be the last of it, and own what is the host's: dropped outside every lock.
    _own: Option<Cancellation>,
}

impl Told {
    pub(crate) fn tell(self) {
        self.listeners.tell(self.cause);
    }
}

/// What [`Cancellation::on_cancel`] is to run; dropping it undoes that.
///
/// It keeps the marker, and so what sets that: whoever follows a marker that nobody else has is told all
/// the same (F33).
#[must_use = "dropping it undoes it"]
pub struct Following {
    marker: Cancellation,
    /// Among the marker's listeners.
    key: Option<usize>,
}

impl Following {
    /// Never undoes it: the marker keeps what it is to run until it is set, or until nobody is left
    /// who could set it.
    pub fn forever(mut self) {
        self.key = None;
        let mut around = lock(&self.marker.inner.around);
        if self.marker.is_cancelled() {
            return;
        }
        if let Some(source) = &mut around.source {
            source.marker = Some(self.marker.clone());
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let mut around = lock(&self.marker.inner.around);
        let listener = around.listeners.remove(key);
        // What it captured is the host's, and may run anything when it is dropped.
        drop(around);
        drop(listener);
    }
}

impl fmt::Debug for Following {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Following").finish_non_exhaustive()
    }
}

struct WaitForCancel(Following);

impl Future for WaitForCancel {
    type Output = Cause;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Cause> {
        let Following { marker, key } = &mut self.get_mut().0;
        let mut around = lock(&marker.inner.around);
        if let Some(cause) = marker.cause() {
            *key = None;
            return Poll::Ready(cause);
        }
        match key.and_then(|key| around.listeners.get_mut(key)) {
            Some(Listener::Task(waiting)) if waiting.will_wake(cx.waker()) => {}
            Some(waiting) => {
                let replaced = mem::replace(waiting, Listener::Task(cx.waker().clone()));
                // Dropping another task's waker may drop that task.
                drop(around);
                drop(replaced);
            }
            None => *key = Some(around.listeners.insert(Listener::Task(cx.waker().clone()))),
        }
        Poll::Pending
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
        let source = Box::new(Source { kept: Box::new(source), marker: None });
        let replaced = lock(&self.marker.inner.around).source.replace(source);
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
