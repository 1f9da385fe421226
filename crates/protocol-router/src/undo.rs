//! Undoing what some work has done: its steps run after the work has failed.

use std::future::Future;
use std::pin::Pin;
use std::sync::{MutexGuard, PoisonError};
use std::task::{self, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use protocol_async::hooks::{Sleep, UndoStack, catch_panic};
use protocol_async::{Answer, Responder, UndoEnd, UndoRefused, Undone};

use crate::context::{Contained, Context, Done, Kind};
use crate::form::{Form, Local, Threads};
use crate::trouble::Trouble;

/// The steps that undo some work which has failed, and the response that waits for them.
pub(crate) struct Undoing<S, F: Form> {
    cx: Context<S, F>,
    /// The steps that have not begun, with the time that each has. The last is the next.
    left: Vec<(F::Work<Done>, Duration)>,
    running: Option<Running<F>>,
    /// The response, until all steps are done or one of them ran out of time.
    response: Option<(Responder, Answer)>,
}

struct Running<F: Form> {
    work: F::Work<Done>,
    number: usize,
    time: Sleep,
}

impl<S, F: Form> Context<S, F> {
    pub(crate) fn lock_undo(&self) -> MutexGuard<'_, UndoStack<F::Work<Done>>> {
        self.asked.undo.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep_undo(&self, time: Option<Duration>, work: F::Work<Done>) -> Result<(), UndoRefused> {
        let limits = self.asked.shared.undo_limits;
        let kept = self.lock_undo().push(work, time, limits);
        // A step that comes back is the host's, and is dropped without the lock.
        kept.map_err(|(refused, _)| refused)
    }

    fn report_undone(&self, undone: &Undone) {
        self.report(&Trouble::Undone { method: self.method(), undone });
    }

    /// Ends the work and drops the steps that would undo it.
    pub(crate) fn keep_work(&self) {
        let mut steps = self.lock_undo().end();
        while let Some(kept) = steps.pop() {
            catch_panic(|| drop(kept));
        }
    }

    /// Drops the steps of work whose server is dropped. They can't run any more.
    pub(crate) fn drop_undo(&self, mut left: Vec<(F::Work<Done>, Duration)>) {
        while let Some((step, _)) = left.pop() {
            catch_panic(|| drop(step));
            self.report_undone(&Undone::new(left.len() + 1, UndoEnd::Dropped));
        }
    }
}

impl<S, F: Form, T> Contained<S, F, T> {
    /// Ends work that has failed. Returns what undoes it; if nothing does, the response is sent.
    ///
    /// The work itself is dropped here, so no step takes anything away from it.
    pub(crate) fn undo(self, response: Option<(Responder, Answer)>) -> Option<Undoing<S, F>> {
        let Self { work, cx } = self;
        let left = cx.lock_undo().end();
        if left.is_empty() {
            // Releases the marker, which is then used again.
            drop((work, cx));
            if let Some((responder, answer)) = response {
                responder.answer(answer);
            }
            return None;
        }
        catch_panic(|| cx.asked.span.inside(|| drop(work)));
        Some(Undoing { cx, left, running: None, response })
    }
}

impl<S, F: Form> Undoing<S, F> {
    fn respond(&mut self) {
        if let Some((responder, answer)) = self.response.take() {
            catch_panic(|| responder.answer(answer));
        }
    }

    fn next(&mut self) -> Option<Running<F>> {
        let (peer, number) = (self.cx.peer(), self.left.len());
        let (work, time) = self.left.pop()?;
        Some(Running { work, number, time: peer.sleep_until(peer.now() + time) })
    }
}

impl<S, F: Form> Future for Undoing<S, F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, task: &mut task::Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        loop {
            if this.running.is_none() {
                this.running = this.next();
            }
            let Some(Running { work, number, time }) = &mut this.running else {
                this.respond();
                return Poll::Ready(());
            };
            let (cx, number) = (&this.cx, *number);
            let undone = match cx.poll_contained(work, task) {
                Poll::Ready(done) => Undone::of(number, done),
                Poll::Pending if time.poll_unpin(task).is_pending() => return Poll::Pending,
                Poll::Pending => Undone::new(number, UndoEnd::OutOfTime),
            };
            // The next alarm is set before this one is cleared and the response leaves, either of which may end the
            // driver, which keeps the time.
            let mut next = this.next();
            if let Some(next) = &mut next {
                let _ = next.time.poll_unpin(task);
            }
            let last = std::mem::replace(&mut this.running, next);
            catch_panic(|| drop(last));
            this.cx.report_undone(&undone);
            if matches!(undone.end, UndoEnd::OutOfTime) {
                // The peer does not wait for steps that hang.
                this.respond();
            }
            catch_panic(|| drop(undone));
        }
    }
}

impl<S, F: Form> Drop for Undoing<S, F> {
    fn drop(&mut self) {
        if let Some(Running { work, number, .. }) = self.running.take() {
            catch_panic(|| drop(work));
            self.cx.report_undone(&Undone::new(number, UndoEnd::Dropped));
        }
        let left = std::mem::take(&mut self.left);
        self.cx.drop_undo(left);
    }
}

macro_rules! undo {
    ($form:ty $(, $send:ident, $sync:ident)?) => {
        impl<S: 'static $(+ $send + $sync)?> Context<S, $form> {
            /// Registers a step that undoes what this work has done or is about to do. Sagas call it a
            /// compensation.
            ///
            /// The steps run if the work fails or panics: the latest first, one after the other, each once. An
            /// `Ok` keeps what was done, though the request was cancelled meanwhile. With layers, the response of
            /// the outermost one decides.
            ///
            /// A step runs after the handler's future is dropped. The cancel that caused it does not reach
            /// it. Use [`peer`](Self::peer) for its calls, because the request may be over. While the connection
            /// is driven, a step has [`UndoLimits::time`](protocol_async::UndoLimits::time), and is then dropped.
            /// Its outcome is reported as [`Trouble::Undone`].
            ///
            /// The response is sent after the last step, or when one runs out of time. So a peer that has
            /// the response may begin the work anew, and waits for no step that hangs.
            ///
            /// # Errors
            ///
            /// Returns [`UndoRefused`] if there are too many steps, or the work is over. The step is dropped,
            /// so register it before what it undoes.
            pub fn undo_with(
                &self,
                step: impl Future<Output = Done> $(+ $send)? + 'static,
            ) -> Result<(), UndoRefused> {
                self.keep_undo(None, Box::pin(step))
            }

            /// Registers a step as [`undo_with`](Self::undo_with) does, with a time of its own.
            ///
            /// # Errors
            ///
            /// As [`undo_with`](Self::undo_with).
            pub fn undo_within(
                &self,
                time: Duration,
                step: impl Future<Output = Done> $(+ $send)? + 'static,
            ) -> Result<(), UndoRefused> {
                self.keep_undo(Some(time), Box::pin(step))
            }

            /// Runs some work beside the handlers as [`spawn`](Self::spawn) does, with a context of its own.
            ///
            /// The steps that are registered with that context undo this work, and not the request.
            pub fn spawn_with<W: Future<Output = Done> $(+ $send)? + 'static>(
                &self,
                work: impl FnOnce(Self) -> W $(+ $send)? + 'static,
            ) {
                let cx = self.apart();
                let own = cx.clone();
                // Nothing is registered before it begins.
                let work = Box::pin(async move { work(own).await });
                self.asked.shared.spawn(Kind::Apart, Contained { work, cx });
            }
        }
    };
}

undo!(Threads, Send, Sync);
undo!(Local);
