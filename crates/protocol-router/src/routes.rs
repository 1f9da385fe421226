//! The routes of a router, and the layers around all requests.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use protocol_async::hooks::clip;
use protocol_async::{Answer, Arrival, Failure, MethodName, RpcError, UndoLimits};
use protocol_core::{Cause, code};

use crate::context::{Contained, Context, Done};
use crate::form::Form;
use crate::trouble::{OnTrouble, Trouble};

/// Everything that a router was built from.
pub(crate) struct Routes<S, F: Form> {
    pub(crate) state: Arc<S>,
    pub(crate) requests: BTreeMap<MethodName, F::Handler<Context<S, F>, Answer>>,
    pub(crate) notifications: BTreeMap<MethodName, F::Handler<Context<S, F>, Done>>,
    /// The outermost first.
    pub(crate) layers: Vec<Layer<S, F>>,
    /// Each sees every arrival before anything else does, the last one first, and may take it.
    pub(crate) gates: Vec<Arc<Gate>>,
    pub(crate) fallback: Option<Fallback<S, F>>,
    pub(crate) on_trouble: Arc<OnTrouble>,
    pub(crate) at_most: usize,
    pub(crate) undo_limits: UndoLimits,
}

type Layer<S, F> = <F as Form>::Handler<(Context<S, F>, Next<S, F>), Answer>;
type Fallback<S, F> = <F as Form>::Handler<(Arrival, Context<S, F>), Done>;
type Gate = dyn Fn(Arrival) -> Option<Arrival> + Send + Sync;

/// The decision of an observer about a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Its handler may have it.
    Pass,
    /// It has been dealt with.
    Claimed,
}

/// The inside of a layer: the next layer, or the handler.
pub struct Next<S, F: Form> {
    /// The index of the next layer.
    index: usize,
    routes: Arc<Routes<S, F>>,
}

impl<S, F: Form> Next<S, F> {
    /// Goes on with the request.
    ///
    /// Dropping the future before it is done drops the handler's work.
    pub fn run(self, cx: Context<S, F>) -> impl Future<Output = Answer> + use<S, F> {
        self.routes.begin(self.index, cx)
    }
}

impl<S, F: Form> fmt::Debug for Next<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("index", &self.index).finish_non_exhaustive()
    }
}

/// A request that was served: see [`RouterOf::after`](crate::RouterOf::after).
///
/// As text it holds nothing of params or results.
#[derive(Debug)]
#[non_exhaustive]
pub struct Served<'a, S, F: Form> {
    /// The context of the request, with its method and params.
    pub cx: &'a Context<S, F>,
    /// The response to the request.
    pub answer: &'a Answer,
    /// The time from the layer's turn to the response.
    pub took: Duration,
}

impl<S, F: Form> Served<'_, S, F> {
    /// Returns the cause of its cancellation, if it was cancelled, whatever the response is.
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
            Err(Failure::Error(error)) => write!(f, "error {}", error.code)?,
            Err(Failure::InvalidParams(invalid)) => invalid.fmt(f)?,
            Err(Failure::Internal(internal)) => internal.fmt(f)?,
            Err(_) => f.write_str("stopped")?,
        }
        self.cause().map_or(Ok(()), |cause| write!(f, " (cancelled: {cause})"))
    }
}

impl<S, F: Form> Routes<S, F> {
    /// Begins the layer with this index, or the handler behind the last one.
    pub(crate) fn begin(
        self: &Arc<Self>,
        index: usize,
        cx: Context<S, F>,
    ) -> Contained<S, F, Answer> {
        if let Some(layer) = self.layers.get(index) {
            let next = Next { index: index + 1, routes: self.clone() };
            return Contained { work: layer((cx.clone(), next)), cx };
        }
        if let Some(handler) = self.requests.get(cx.method().as_str()) {
            return Contained { work: handler(cx.clone()), cx };
        }
        cx.report(&Trouble::UnknownRequest(cx.method()));
        let error = RpcError::new(code::METHOD_NOT_FOUND, "method not found");
        Contained { work: F::done(Err(error.into())), cx }
    }
}

impl<S, F: Form> Clone for Routes<S, F> {
    fn clone(&self) -> Self {
        Self {
            state: self.state.clone(),
            requests: self.requests.clone(),
            notifications: self.notifications.clone(),
            layers: self.layers.clone(),
            gates: self.gates.clone(),
            fallback: self.fallback.clone(),
            on_trouble: self.on_trouble.clone(),
            at_most: self.at_most,
            undo_limits: self.undo_limits,
        }
    }
}
