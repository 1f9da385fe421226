//! What is around all requests.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task;
use std::task::Poll;
use std::time::Duration;

use protocol_core::{Cause, code};

use super::context::Context;
use super::form::Form;
use super::trouble::Trouble;
use crate::answer::RpcError;
use crate::failure::{Answer, Failure};
use crate::method::clip;

/// What is behind a layer: the next one, or the handler.
pub struct Next<S: 'static, F: Form> {
    /// Of the layers.
    index: usize,
    router: PhantomData<fn(S, F)>,
}

impl<S: 'static, F: Form> Next<S, F> {
    pub(super) const fn outermost() -> Self {
        Self { index: 0, router: PhantomData }
    }

    /// Goes on with the request. Dropping what this gives before it is done drops the handler's work.
    pub fn run(self, cx: Context<S, F>) -> impl Future<Output = Answer> + use<S, F> {
        self.begin(cx)
    }

    pub(super) fn begin(self, cx: Context<S, F>) -> Contained<S, F, Answer> {
        let routes = &cx.serving().routes;
        let work = if let Some(layer) = routes.layers.get(self.index) {
            let next = Self { index: self.index + 1, ..self };
            begin(layer, (cx.clone(), next), &cx)
        } else if let Some(handler) = routes.requests.get(cx.method().as_str()) {
            begin(handler, cx.clone(), &cx)
        } else {
            cx.tell(&Trouble::UnknownRequest(cx.method()));
            let error = RpcError::new(code::METHOD_NOT_FOUND, "method not found");
            F::done(Err(error.into()))
        };
        Contained { work, cx }
    }
}

impl<S, F: Form> fmt::Debug for Next<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("index", &self.index).finish_non_exhaustive()
    }
}

/// Begins some work. What makes its future is the host's own, too: the clone of what a handler
/// captured, and the body of a closure that is not async.
pub(super) fn begin<S: 'static, F: Form, A: 'static, T: Send + 'static>(
    handler: &F::Handler<A, Result<T, Failure>>,
    asked: A,
    cx: &Context<S, F>,
) -> F::Work<Result<T, Failure>> {
    catch_unwind(AssertUnwindSafe(|| cx.span().inside(|| F::call(handler, asked))))
        .unwrap_or_else(|panic| F::done(Err(Failure::panicked(cx.method(), &*panic))))
}

/// Work whose panic is a failure like others (B33): the hook has reported it.
pub(super) struct Contained<S: 'static, F: Form, T: 'static> {
    pub(super) work: F::Work<T>,
    pub(super) cx: Context<S, F>,
}

impl<S, F: Form, T> Future for Contained<S, F, Result<T, Failure>> {
    type Output = Result<T, Failure>;

    fn poll(self: Pin<&mut Self>, task: &mut task::Context<'_>) -> Poll<Self::Output> {
        let Self { work, cx } = self.get_mut();
        catch_unwind(AssertUnwindSafe(|| cx.span().inside(|| Pin::new(work).poll(task))))
            .unwrap_or_else(|panic| Poll::Ready(Err(Failure::panicked(cx.method(), &*panic))))
    }
}

/// A request that was served: see [`RouterOf::after`](super::RouterOf::after). As text it holds nothing
/// of params or results.
#[derive(Debug)]
#[non_exhaustive]
pub struct Served<'a, S: 'static, F: Form> {
    /// What was asked.
    pub cx: &'a Context<S, F>,
    /// What it is answered.
    pub answer: &'a Answer,
    /// How long that took.
    pub took: Duration,
}

impl<S, F: Form> Served<'_, S, F> {
    /// Why it was cancelled, if it was, whatever it is answered.
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        self.cx.cancellation().cause()
    }
}

impl<S, F: Form> fmt::Display for Served<'_, S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} took {:?}: ", clip(self.cx.method()), self.took)?;
        match self.answer {
            Ok(_) => f.write_str("a result")?,
            Err(Failure::Cancelled) => f.write_str("stopped")?,
            Err(Failure::Error(error)) => write!(f, "error {}", error.code)?,
            Err(Failure::InvalidParams(invalid)) => invalid.fmt(f)?,
            Err(Failure::Internal(internal)) => internal.fmt(f)?,
        }
        self.cause().map_or(Ok(()), |cause| write!(f, " (cancelled: {cause})"))
    }
}
