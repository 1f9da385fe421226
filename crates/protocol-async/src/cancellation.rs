//! Markers, from which a handler learns that its work is to stop.

mod listeners;

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use protocol_core::Cause;

use crate::sync::{Arc, AtomicU8, AtomicU32, Mutex, Ordering, Weak, get_mut, lock};
use listeners::{Listener, Listeners};
use protocol_endpoint::{Cancelled, Failure};

/// A marker that tells whether, and why, some work was cancelled. Clones are the same marker.
///
/// The marker of a request is set when the read that brings the peer's cancel returns, whatever handlers
/// do (G3).
#[derive(Clone)]
pub struct Cancellation {
    inner: Arc<Inner>,
}

struct Inner {
    /// 0, or 1 + the index of the cause in [`Cause::ALL`]. It is set once.
    cause: AtomicU8,
    /// The number of those who can set the marker: its cancellers, strong and weak, and the connection
    /// of its request. 0 is final.
    setters: AtomicU32,
    around: Mutex<Around>,
}

/// The listeners of a marker, and the source that sets it.
#[derive(Default)]
struct Around {
    /// Invariant: empty once the marker is set, or once nobody can set it.
    listeners: Listeners,
    /// The source that sets the marker from outside. It is boxed because it is mostly absent, and every
    /// request has a marker.
    source: Option<Box<Source>>,
}

/// A value that sets a marker from outside, and is kept as long as the marker.
struct Source {
    #[allow(dead_code, reason = "it is kept, and dropped")]
    kept: Box<dyn Any + Send>,
    /// The marker itself, once somebody follows it [for ever](Following::forever). Otherwise it would be
    /// dropped, and the source with it, before it is set. The circle is broken when the marker is set, or
    /// when nobody can set it any more (F90).
    marker: Option<Cancellation>,
}

impl Cancellation {
    /// The bytes of heap of one marker, without its listeners.
    pub(crate) const HEAP: usize = size_of::<Inner>() + size_of::<[usize; 2]>();

    /// Returns a marker that its maker can set.
    pub(crate) fn new() -> Self {
        let (cause, setters) = (AtomicU8::new(0), AtomicU32::new(1));
        Self { inner: Arc::new(Inner { cause, setters, around: Mutex::default() }) }
    }

    /// Returns whether the marker is set. It costs one relaxed load, so it is fit for inner loops.
    #[must_use]
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.inner.cause.load(Ordering::Relaxed) != 0
    }

    /// Returns the cause for which the marker is set, if it is.
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        let index = self.inner.cause.load(Ordering::Acquire).checked_sub(1)?;
        Cause::ALL.get(usize::from(index)).copied()
    }

    /// Returns an error if the marker is set: for `?` between two steps of some work.
    ///
    /// # Errors
    ///
    /// Returns [`Cancelled`] if the marker is set.
    pub fn checkpoint(&self) -> Result<(), Cancelled> {
        self.cause().map_or(Ok(()), |cause| Err(Cancelled { cause }))
    }

    /// Waits until the marker is set. Any number of tasks may wait.
    pub fn cancelled(&self) -> impl Future<Output = Cause> + Send + Unpin + 'static {
        WaitForCancel(Following { marker: self.clone(), key: None })
    }

    /// Runs some work that may fail until it is done or the marker is set, as
    /// [`unless_cancelled`](Self::unless_cancelled) does.
    ///
    /// It returns what a handler returns:
    /// `responder.respond_with_result(marker.run_until_cancelled(work).await)`.
    ///
    /// # Errors
    ///
    /// Returns [`Failure::Cancelled`] if the marker won, and otherwise the failure of the work.
    pub async fn run_until_cancelled<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.unless_cancelled(work).await?
    }

    /// Runs any work until it is done or the marker is set.
    ///
    /// If it is set already, the work is never polled. If both happen at once, the work's result wins, unless the cause is
    /// [`Cause::Stopped`]: a client that stops a turn also settles its questions, and the turn must not go on with these.
    /// When the marker wins, the work is dropped before this returns.
    ///
    /// # Errors
    ///
    /// Returns [`Cancelled`] if the marker won.
    pub async fn unless_cancelled<F: Future>(&self, work: F) -> Result<F::Output, Cancelled> {
        self.checkpoint()?;
        let mut work = pin!(work);
        let mut cancelled = pin!(self.cancelled());
        std::future::poll_fn(|cx| {
            if self.cause() == Some(Cause::Stopped) {
                return Poll::Ready(Err(Cancelled { cause: Cause::Stopped }));
            }
            if let Poll::Ready(result) = work.as_mut().poll(cx) {
                return Poll::Ready(Ok(result));
            }
            cancelled.as_mut().poll(cx).map(|cause| Err(Cancelled { cause }))
        })
        .await
    }

    /// Returns a new canceller. Its marker is also set when this one is, with the cause `parent`, or `stopped` if that
    /// is the cause here.
    #[must_use]
    pub fn child(&self) -> Canceller {
        let child = Canceller::new();
        let weak = child.downgrade();
        child.keep(self.on_cancel(move |cause| {
            weak.cancel(if cause == Cause::Stopped { cause } else { Cause::Parent });
        }));
        child
    }

    /// Runs `follow` once when the marker is set, on the thread that sets it. If the marker is set
    /// already, it runs at once.
    ///
    /// `follow` must not block. It is dropped when nobody is left who could set the marker.
    pub fn on_cancel(&self, follow: impl FnOnce(Cause) + Send + 'static) -> Following {
        let mut around = lock(&self.inner.around);
        let key = match self.cause() {
            None if self.inner.is_over() => {
                drop(around);
                None
            }
            None => Some(around.listeners.insert(Listener::Follower(Box::new(follow)))),
            Some(cause) => {
                drop(around);
                follow(cause);
                None
            }
        };
        Following { marker: self.clone(), key }
    }

    /// Sets the flag, and tells the listeners. The first cause stays.
    ///
    /// A listener may take the lock of any connection, so none may be held.
    pub(crate) fn set(&self, cause: Cause) {
        let index = Cause::ALL.iter().position(|&other| other == cause).expect("ALL has all");
        let index = u8::try_from(index + 1).expect("there are few causes");
        let mut around = lock(&self.inner.around);
        if self.is_cancelled() {
            return;
        }
        self.inner.cause.store(index, Ordering::Release);
        // It may be the last clone and own values of the host's, so it is dropped outside every lock.
        let _own = around.source.as_mut().and_then(|source| source.marker.take());
        let listeners = mem::take(&mut around.listeners);
        drop(around);
        listeners.tell(cause);
    }

    /// Returns whether nobody else has the marker, and nothing was ever done with it. Then it can be used
    /// again.
    pub(crate) fn is_unused(&mut self) -> bool {
        let Some(Inner { cause, around, .. }) = Arc::get_mut(&mut self.inner) else { return false };
        let around = get_mut(around);
        *cause.get_mut() == 0 && around.listeners.is_empty() && around.source.is_none()
    }

    /// Drops the marker of a request that is over, which its connection can't set any more. Its listeners
    /// are dropped too, and may own values of the host's. So no lock may be held.
    pub(crate) fn release(self) {
        self.inner.release();
    }
}

impl Inner {
    /// Returns whether nobody can set the marker any more.
    fn is_over(&self) -> bool {
        self.setters.load(Ordering::Acquire) == 0
    }

    fn retain(&self) {
        self.setters.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that one setter is gone. With the last one, all listeners and the source are dropped.
    fn release(&self) {
        if self.setters.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let mut around = lock(&self.around);
        let gone = (mem::take(&mut around.listeners), around.source.take());
        // They are the host's, and may run anything when they are dropped.
        drop(around);
        drop(gone);
    }
}

/// A function that runs when a marker is set ([`Cancellation::on_cancel`]). Dropping this undoes that.
///
/// It keeps the marker, and so the source that sets it. So a function that follows a marker which nobody
/// else has still runs (F33).
#[must_use = "dropping it undoes it"]
pub struct Following {
    marker: Cancellation,
    /// The key of the function among the marker's listeners.
    key: Option<usize>,
}

impl Following {
    /// Keeps the function with the marker until the marker is set, or until nobody is left who could set
    /// it.
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
        // Its captures are the host's, and may run anything when they are dropped.
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
        let listener = || Some(Listener::Task(cx.waker().clone()));
        // Wakers are the executor's, so they are cloned and dropped without the lock. A task that did not
        // wait yet mostly has to.
        let mut spare = if key.is_none() { listener() } else { None };
        loop {
            let mut around = lock(&marker.inner.around);
            if let Some(cause) = marker.cause() {
                *key = None;
                return Poll::Ready(cause);
            }
            match (key.and_then(|key| around.listeners.get_mut(key)), &mut spare) {
                (Some(Listener::Task(waiting)), _) if waiting.will_wake(cx.waker()) => {}
                (Some(waiting), Some(spare)) => mem::swap(waiting, spare),
                // Nobody can set it any more.
                (None, _) if marker.inner.is_over() => {}
                (None, Some(_)) => *key = spare.take().map(|it| around.listeners.insert(it)),
                (_, None) => {
                    drop(around);
                    spare = listener();
                    continue;
                }
            }
            return Poll::Pending;
        }
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

/// A value that sets a marker, for work of the host's own.
///
/// With the last canceller, weak ones included, everything that follows the marker is dropped. Nobody
/// could set the marker any more.
#[derive(Debug, Default)]
pub struct Canceller {
    marker: Cancellation,
}

impl Canceller {
    /// Returns a canceller whose marker is not set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the marker that it sets.
    #[must_use]
    pub fn marker(&self) -> Cancellation {
        self.marker.clone()
    }

    /// Sets the marker; the first cause stays.
    pub fn cancel(&self, cause: Cause) {
        self.marker.set(cause);
    }

    /// Returns a canceller that does not keep the marker, for sources that set it from outside.
    #[must_use]
    pub fn downgrade(&self) -> WeakCanceller {
        self.marker.inner.retain();
        WeakCanceller { inner: Arc::downgrade(&self.marker.inner) }
    }

    /// Keeps `source`, which sets the marker from outside through a [`WeakCanceller`]. It is dropped when
    /// nobody has the marker, or nobody could set it any more.
    pub fn keep(&self, source: impl Any + Send) {
        let source = Box::new(Source { kept: Box::new(source), marker: None });
        let replaced = lock(&self.marker.inner.around).source.replace(source);
        drop(replaced);
    }
}

impl Clone for Canceller {
    fn clone(&self) -> Self {
        self.marker.inner.retain();
        Self { marker: self.marker.clone() }
    }
}

impl Drop for Canceller {
    fn drop(&mut self) {
        self.marker.inner.release();
    }
}

/// A [`Canceller`] that does not keep its marker. It sets the marker as long as anyone has it.
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

impl Clone for WeakCanceller {
    fn clone(&self) -> Self {
        if let Some(inner) = Weak::upgrade(&self.inner) {
            inner.retain();
        }
        Self { inner: self.inner.clone() }
    }
}

impl Drop for WeakCanceller {
    fn drop(&mut self) {
        if let Some(inner) = Weak::upgrade(&self.inner) {
            inner.release();
        }
    }
}

impl fmt::Debug for WeakCanceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakCanceller").finish_non_exhaustive()
    }
}
