//! What a handler has beside its params.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use protocol_core::{CallOptions, ProgressRule, Refusal, RequestHandle};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Done;
use super::form::{Form, Local, Threads};
use super::layers::Contained;
use super::serving::Serving;
use super::trouble::Trouble;
use crate::cancellation::Cancellation;
use crate::failure::InvalidParams;
use crate::message::Request;
use crate::method::MethodName;
use crate::peer::Peer;
use crate::sent::SentRequest;
use crate::spans::RequestSpan;

/// What a handler has beside its params. Clones are the same.
pub struct Context<S: 'static = (), F: Form = Threads> {
    asked: Arc<Asked<S, F>>,
}

/// The context of a handler of a [`LocalRouter`](crate::LocalRouter).
pub type LocalContext<S = ()> = Context<S, Local>;

/// What a handler was asked.
struct Asked<S: 'static, F: Form> {
    serving: Arc<Serving<S, F>>,
    request: Request,
    handle: Option<RequestHandle>,
    marker: Cancellation,
    span: RequestSpan,
}

impl<S: 'static, F: Form> Context<S, F> {
    pub(super) fn new(
        serving: &Arc<Serving<S, F>>,
        request: Request,
        of: Option<(RequestHandle, Cancellation)>,
        span: RequestSpan,
    ) -> Self {
        let (handle, marker) = of.unzip();
        let (serving, marker) = (serving.clone(), marker.unwrap_or_default());
        Self { asked: Arc::new(Asked { serving, request, handle, marker, span }) }
    }

    pub(super) fn span(&self) -> &RequestSpan {
        &self.asked.span
    }

    pub(super) fn serving(&self) -> &Arc<Serving<S, F>> {
        &self.asked.serving
    }

    /// Tells of trouble with this request, inside its span.
    pub(super) fn tell(&self, trouble: &Trouble<'_>) {
        self.span().inside(|| self.serving().tell(trouble));
    }

    pub(super) fn spawn_boxed(&self, work: F::Work<Done>) {
        self.serving().spawn(Contained { work, cx: self.clone() });
    }

    pub(super) fn read<P: DeserializeOwned>(&self) -> Result<P, InvalidParams> {
        self.asked.request.params()
    }

    /// What all handlers have in common: [`RouterOf::with_state`](super::RouterOf::with_state).
    #[must_use]
    pub fn state(&self) -> &S {
        &self.asked.serving.routes.state
    }

    /// The peer that sent it.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.asked.serving.peer
    }

    /// Returns the name of the request's method.
    #[must_use]
    pub fn method(&self) -> &MethodName {
        &self.asked.request.method
    }

    /// The params, as the peer wrote them.
    #[must_use]
    pub fn params(&self) -> Option<&RawValue> {
        self.asked.request.params.as_deref()
    }

    /// What the peer said beside the params: ABP's `options`.
    #[must_use]
    pub fn options(&self) -> Option<&RawValue> {
        self.asked.request.options.as_deref()
    }

    /// Names the request: the [`parent`](CallOptions::parent) of a call by other means. `None` for a
    /// notification.
    #[must_use]
    pub fn handle(&self) -> Option<RequestHandle> {
        self.asked.handle
    }

    /// The request's marker; never set for a notification.
    #[must_use]
    pub fn cancellation(&self) -> &Cancellation {
        &self.asked.marker
    }

    /// Calls the peer on behalf of this request.
    ///
    /// If the request is cancelled, so is the call (G6).
    pub fn call<T>(&self, method: &str, params: impl Serialize) -> SentRequest<T> {
        self.call_with(method, params, CallOptions::default())
    }

    /// As [`call`](Self::call), with timers or a grace: whatever comes first ends the call.
    pub fn call_with<T>(
        &self,
        method: &str,
        params: impl Serialize,
        options: CallOptions,
    ) -> SentRequest<T> {
        self.peer().call_with(method, params, options.parent(self.asked.handle))
    }

    /// Notifies the peer, and waits for room if there is none.
    ///
    /// # Errors
    ///
    /// As [`Peer::notify`].
    pub async fn notify(&self, method: &str, params: impl Serialize) -> Result<(), Refusal> {
        self.peer().notify(method, params).await
    }

    /// Notifies the peer if there is room. Never blocks.
    ///
    /// # Errors
    ///
    /// As [`Peer::try_notify`].
    pub fn try_notify(&self, method: &str, params: impl Serialize) -> Result<(), Refusal> {
        self.peer().try_notify(method, params)
    }

    /// Tells the peer how far this request has come, with the method and the token that it has in
    /// the dialect: the token, which is added to `progress`, is the one that the peer named in the
    /// request. If it named none, or the dialect has no progress, nothing is sent. Waits for room.
    ///
    /// # Errors
    ///
    /// As [`Peer::notify`]; [`Refusal::InvalidParams`] if `progress` is no JSON object.
    pub async fn progress(&self, progress: impl Serialize) -> Result<(), Refusal> {
        let dialect = self.peer().dialect();
        let Some(rule) = dialect.progress.first() else { return Ok(()) };
        let Some(token) = self.asked.request.progress_token(rule) else { return Ok(()) };
        let mut params = serde_json::to_value(progress).map_err(|_| Refusal::InvalidParams)?;
        let members = params.as_object_mut().ok_or(Refusal::InvalidParams)?;
        members.insert(rule.token.clone().into_owned(), token);
        self.notify(&rule.method, params).await
    }
}

impl Request {
    /// The token under which the peer wants progress of it.
    fn progress_token(&self, rule: &ProgressRule) -> Option<Value> {
        let parse = |json: &RawValue| serde_json::from_str::<Value>(json.get()).ok();
        let params = self.params.as_deref().and_then(parse).unwrap_or_default();
        let member = |value, name: &Cow<'static, str>| Value::get(value, &**name);
        let named =
            rule.tokens_of_call.iter().find_map(|path| path.iter().try_fold(&params, member));
        let options = || self.options.as_deref().and_then(parse)?.get(&*rule.token).cloned();
        named.cloned().or_else(options)
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
