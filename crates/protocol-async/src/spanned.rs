//! Spans of what a connection has in flight. Nothing here does anything unless somebody listens, and nothing
//! is told under the lock: see `spans.rs`.

use protocol_core::{CallId, CallOptions, Cause, RequestHandle};

use crate::cancellation::Cancellation;
use crate::message::Request;
use crate::shared::Shared;
use crate::spans::{self, CallSpan, Protocol, RequestSpan};

/// The span of a call that is about to be made.
#[inline]
pub(crate) fn call(shared: &Shared, method: &str, options: &CallOptions) -> CallSpan {
    if spans::is_watched() { begin_call(shared, method, options) } else { CallSpan::default() }
}

#[cold]
fn begin_call(shared: &Shared, method: &str, options: &CallOptions) -> CallSpan {
    let state = shared.lock();
    let parent = options.parent.map_or_else(RequestSpan::default, |of| state.spans.request(of));
    let protocol = Protocol::of(&state.core().config().dialect);
    drop(state);
    CallSpan::begin(method, protocol, &parent)
}

/// Tells that a call in flight is about to be cancelled, if it can be and was not before.
#[inline]
pub(crate) fn cancelling(shared: &Shared, call: CallId, cause: Cause) {
    if spans::is_watched() {
        tell_cancelling(shared, call, cause);
    }
}

#[cold]
fn tell_cancelling(shared: &Shared, call: CallId, cause: Cause) {
    let state = shared.lock();
    let machine = state.core().machine();
    if machine.call_cause(call).is_some() || machine.call_refusal(call).is_some() {
        return;
    }
    let span = state.spans.call(call);
    drop(state);
    span.cancelled(cause);
}

/// Somebody takes a request: its span begins.
#[inline]
pub(crate) fn request_begins(
    shared: &Shared,
    handle: RequestHandle,
    request: &Request,
    marker: &Cancellation,
) {
    if spans::is_watched() {
        begin_request(shared, handle, request, marker);
    }
}

#[cold]
fn begin_request(shared: &Shared, handle: RequestHandle, request: &Request, marker: &Cancellation) {
    let mut state = shared.lock();
    // None of a request that goes on as an operation: its token is a secret.
    let id = state.core().machine().request_id(handle).map(|id| id.token().to_owned());
    let now = state.now;
    let entry = state.stream.connection_mut().request_data_mut(handle);
    let since = entry.map_or(now, |entry| entry.since);
    let protocol = Protocol::of(&state.core().config().dialect);
    drop(state);
    let span = RequestSpan::begin(&request.method, protocol, id.as_deref(), since, Some(marker));
    shared.lock().spans.request_begins(handle, span);
}

/// The span of a request at work.
#[inline]
pub(crate) fn of_request(shared: &Shared, handle: RequestHandle) -> RequestSpan {
    if spans::is_watched() { shared.lock().spans.request(handle) } else { RequestSpan::default() }
}

/// A request has ended without an answer.
pub(crate) fn request_ends(shared: &Shared, handle: RequestHandle) {
    // It goes once the lock is released.
    let _span = shared.lock().spans.request_ends(handle);
}

/// The span of a notification that is about to be handled.
#[inline]
pub(crate) fn notification(shared: &Shared, method: &str) -> RequestSpan {
    if spans::is_watched() { begin_notification(shared, method) } else { RequestSpan::default() }
}

#[cold]
fn begin_notification(shared: &Shared, method: &str) -> RequestSpan {
    let state = shared.lock();
    let (protocol, now) = (Protocol::of(&state.core().config().dialect), state.now);
    drop(state);
    RequestSpan::begin(method, protocol, None, now, None)
}
