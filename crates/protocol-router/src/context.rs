//! The context of a handler, which is everything that it has beside its params.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{self, Poll};

use futures_util::task::AtomicWaker;
use protocol_async::hooks::{RequestSpan, UndoStack, catch_panic, run_handler};
use protocol_async::{
    Cancellation, Canceller, Failure, Method, MethodName, Peer, Request, Responder, SentRequest,
    UndoLimits,
};
use protocol_core::{CallOptions, ProgressRule, Refusal, RequestHandle};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::form::{Form, Local, Threads};
use crate::trouble::{OnTrouble, Trouble};

/// Everything that a handler has beside its params. Clones share it.
pub struct Context<S = (), F: Form = Threads> {
    pub(crate) asked: Arc<Asked<S, F>>,
}

/// The context of a handler of a [`LocalRouter`](crate::LocalRouter).
pub type LocalContext<S = ()> = Context<S, Local>;

/// One request or notification, as its handlers see it.
pub(crate) struct Asked<S, F: Form> {
    pub(crate) shared: Arc<Shared<S, F>>,
    pub(crate) request: Request,
    handle: Option<RequestHandle>,
    marker: Cancellation,
    /// The marker in its place, once work beside the handler was spawned. It is also set at the end of the
    /// connection, because the request may be answered before that work is done.
    beside: OnceLock<Cancellation>,
    pub(crate) span: RequestSpan,
    /// The steps that undo the work of this context.
    pub(crate) undo: Mutex<UndoStack<F::Work<Done>>>,
}

/// The connection that handlers share.
pub(crate) struct Shared<S, F: Form> {
    pub(crate) peer: Peer,
    pub(crate) state: Arc<S>,
    pub(crate) on_trouble: Arc<OnTrouble>,
    pub(crate) undo_limits: UndoLimits,
    /// The marker of notifications, and of work beside the handlers. It is set when the connection ends.
    pub(crate) end: Cancellation,
    /// The task that serves. It is woken for each [`spawn`](Self::spawn).
    pub(crate) server: AtomicWaker,
    /// Takes work beside the handlers.
    pub(crate) spawned: Sender<(Kind, Contained<S, F, Done>)>,
}

/// The kind of some work.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Request,
    /// A notification, or any other arrival without a response.
    Notification,
    /// Work beside the handlers, in the context of one. Its end is not that of its context, so no steps undo it.
    Beside,
    /// Work beside the handlers, in a context of its own.
    Apart,
}

/// The end of work that has no response.
pub(crate) type Done = Result<(), Failure>;

impl<S, F: Form> Context<S, F> {
    pub(crate) fn new(
        shared: &Arc<Shared<S, F>>,
        request: Request,
        responder: Option<&Responder>,
        span: RequestSpan,
    ) -> Self {
        let handle = responder.map(Responder::handle);
        let marker = responder.map_or_else(|| shared.end.clone(), Responder::cancellation);
        let (shared, beside, undo) = (shared.clone(), OnceLock::new(), Mutex::default());
        Self { asked: Arc::new(Asked { shared, request, handle, marker, beside, span, undo }) }
    }

    /// Returns a context of the same request, for work apart from its handler.
    pub(crate) fn apart(&self) -> Self {
        let Asked { shared, request, handle, marker, span, .. } = &*self.asked;
        let (shared, request, beside) = (shared.clone(), request.clone(), OnceLock::new());
        let (handle, marker, span, undo) =
            (*handle, marker.clone(), span.clone(), Mutex::default());
        Self { asked: Arc::new(Asked { shared, request, handle, marker, beside, span, undo }) }
    }

    /// Returns the state that all handlers share: [`RouterOf::with_state`](crate::RouterOf::with_state).
    #[must_use]
    pub fn state(&self) -> &S {
        &self.asked.shared.state
    }

    /// Returns the peer that sent the message.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.asked.shared.peer
    }

    /// Returns the name of the request's method.
    #[must_use]
    pub fn method(&self) -> &MethodName {
        &self.asked.request.method
    }

    /// Returns the params, as the peer wrote them.
    #[must_use]
    pub fn params(&self) -> Option<&RawValue> {
        self.asked.request.params.as_deref()
    }

    /// Returns the options that ABP has beside the params.
    #[must_use]
    pub fn options(&self) -> Option<&RawValue> {
        self.asked.request.options.as_deref()
    }

    /// Returns the handle of the request, which is the [`parent`](CallOptions::parent) of a call by
    /// other means. It is `None` for a notification.
    #[must_use]
    pub fn handle(&self) -> Option<RequestHandle> {
        self.asked.handle
    }

    /// Returns the request's marker. That of a notification is set when the connection ends.
    ///
    /// After [`spawn`](Self::spawn) this is another marker, for the handler too. It is set with the request's,
    /// and when the connection ends. Work beside the handlers asks for it itself.
    #[must_use]
    pub fn cancellation(&self) -> &Cancellation {
        self.asked.beside.get().unwrap_or(&self.asked.marker)
    }

    /// Calls the peer on behalf of this request.
    ///
    /// If the request is cancelled, so is the call (G6).
    pub fn call<T>(&self, method: &str, params: impl Serialize) -> SentRequest<T> {
        self.call_with(method, params, CallOptions::default())
    }

    /// Calls the peer as [`call`](Self::call) does, with timers or a grace. The first of them ends it.
    pub fn call_with<T>(
        &self,
        method: &str,
        params: impl Serialize,
        options: CallOptions,
    ) -> SentRequest<T> {
        self.peer().call_with(method, params, options.parent(self.asked.handle))
    }

    /// Calls the peer with the name and the types of a [`Method`], as [`call`](Self::call) does.
    pub fn call_method<M: Method<Params: Serialize>>(
        &self,
        params: M::Params,
    ) -> SentRequest<M::Result> {
        self.call(M::NAME, params)
    }

    /// Notifies the peer, and waits for room if there is none.
    ///
    /// # Errors
    ///
    /// As [`Peer::notify`].
    pub async fn notify(&self, method: &str, params: impl Serialize) -> Result<(), Refusal> {
        self.peer().notify(method, params).await
    }

    /// Notifies the peer with the name and the params of a [`Method`], as [`notify`](Self::notify) does.
    ///
    /// # Errors
    ///
    /// As [`Peer::notify`].
    pub async fn notify_method<M: Method<Params: Serialize, Result = ()>>(
        &self,
        params: M::Params,
    ) -> Result<(), Refusal> {
        self.peer().notify_method::<M>(params).await
    }

    /// Notifies the peer if there is room. Never blocks.
    ///
    /// # Errors
    ///
    /// As [`Peer::try_notify`].
    pub fn try_notify(&self, method: &str, params: impl Serialize) -> Result<(), Refusal> {
        self.peer().try_notify(method, params)
    }

    /// Reports to the peer how far this request has come, and waits for room.
    ///
    /// The method and the member for the token are the dialect's. The token, which is added to
    /// `progress`, is the one that the peer named in the request. If it named none, or the dialect has
    /// no progress, nothing is sent.
    ///
    /// # Errors
    ///
    /// As [`Peer::notify`]; [`Refusal::InvalidParams`] if `progress` is no JSON object.
    pub async fn progress(&self, progress: impl Serialize) -> Result<(), Refusal> {
        let dialect = self.peer().dialect();
        let Some(rule) = dialect.progress.first() else { return Ok(()) };
        let Some(token) = progress_token(&self.asked.request, rule) else { return Ok(()) };
        let mut params = serde_json::to_value(progress).map_err(|_| Refusal::InvalidParams)?;
        let members = params.as_object_mut().ok_or(Refusal::InvalidParams)?;
        members.insert(rule.token.clone().into_owned(), token);
        self.notify(&rule.method, params).await
    }

    /// Polls some work inside the request's span. Its panic is a failure.
    pub(crate) fn poll_contained<T>(
        &self,
        work: &mut (impl Future<Output = Result<T, Failure>> + Unpin),
        task: &mut task::Context<'_>,
    ) -> Poll<Result<T, Failure>> {
        let poll = || self.asked.span.inside(|| Pin::new(work).poll(task));
        run_handler(self.method(), poll, |failure| Poll::Ready(Err(failure)))
    }

    /// Reports trouble with this request, inside its span.
    pub(crate) fn report(&self, trouble: &Trouble<'_>) {
        self.asked.span.inside(|| self.asked.shared.report(trouble));
    }

    /// Reports what a failure's response does not say, or all of it if there is no response. A failure that
    /// is but the cancellation of its request is no trouble.
    pub(crate) fn report_failure(&self, failure: &Failure, responder: Option<&Responder>) {
        if responder.is_some_and(|responder| responder.is_cancellation(failure)) {
            return;
        }
        let method = self.method();
        self.report(&match failure {
            Failure::InvalidParams(invalid) => Trouble::InvalidParams(invalid),
            Failure::Internal(failure) => Trouble::Failed { method, failure },
            Failure::Error(error) if responder.is_none() => Trouble::Unanswered { method, error },
            _ => return,
        });
    }
}

/// Returns the token under which the peer wants progress of a request. `null` is none.
fn progress_token(request: &Request, rule: &ProgressRule) -> Option<Value> {
    let parse = |json: &RawValue| serde_json::from_str::<Value>(json.get()).ok();
    let params = request.params.as_deref().and_then(parse).unwrap_or_default();
    let member = |value, name: &Cow<'static, str>| Value::get(value, &**name);
    let in_params = rule.tokens_of_call.iter();
    let in_params = in_params.filter_map(|path| path.iter().try_fold(&params, member).cloned());
    let options = request.options.as_deref().and_then(parse);
    let in_options = options.and_then(|options| options.get(&*rule.token).cloned());
    in_params.chain(in_options).find(|token| !token.is_null())
}

impl<S, F: Form> Shared<S, F> {
    pub(crate) fn report(&self, trouble: &Trouble<'_>) {
        catch_panic(|| (self.on_trouble)(trouble));
    }

    pub(crate) fn spawn(&self, kind: Kind, work: Contained<S, F, Done>) {
        let Asked { marker, beside, .. } = &*work.cx.asked;
        beside.get_or_init(|| {
            let either = Canceller::new();
            let follow = |marker: &Cancellation| {
                let either = either.downgrade();
                marker.on_cancel(move |cause| either.cancel(cause))
            };
            either.keep([follow(marker), follow(&self.end)]);
            either.marker()
        });
        // The work is dropped if no task serves any more.
        let _ = self.spawned.send((kind, work));
        self.server.wake();
    }
}

/// Work inside its request's span, whose panic is a failure like others (B33).
pub(crate) struct Contained<S, F: Form, T> {
    pub(crate) work: F::Work<T>,
    pub(crate) cx: Context<S, F>,
}

impl<S, F: Form, T> Future for Contained<S, F, Result<T, Failure>> {
    type Output = Result<T, Failure>;

    fn poll(self: Pin<&mut Self>, task: &mut task::Context<'_>) -> Poll<Self::Output> {
        let Self { work, cx } = self.get_mut();
        cx.poll_contained(work, task)
    }
}

impl<S, F: Form> Clone for Context<S, F> {
    fn clone(&self) -> Self {
        Self { asked: self.asked.clone() }
    }
}

impl<S, F: Form> fmt::Debug for Context<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Asked { request, handle, marker, .. } = &*self.asked;
        f.debug_struct("Context")
            .field("method", &request.method)
            .field("handle", handle)
            .field("cancelled", &marker.cause())
            .finish_non_exhaustive()
    }
}
