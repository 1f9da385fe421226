//! Spans of the calls and requests of a connection. Nothing here does anything unless somebody listens,
//! and listeners run without the lock: see `spans.rs`.

use protocol_core::{CallId, CallOptions, Cause, RequestHandle};
use protocol_endpoint::Request;

use crate::cancellation::Cancellation;
use crate::shared::Shared;
use crate::spans::{self, CallSpan, Protocol, RequestSpan};

/// Calls `work` if somebody listens. It is kept out of line, because mostly nobody does.
#[inline]
fn if_watched<T: Default>(work: impl FnOnce() -> T) -> T {
    #[cold]
    fn cold<T>(work: impl FnOnce() -> T) -> T {
        work()
    }
    if spans::is_watched() { cold(work) } else { T::default() }
}

/// Begins the span of a call that is about to be made.
#[inline]
pub(crate) fn call(shared: &Shared, method: &str, options: &CallOptions) -> CallSpan {
    if_watched(|| {
        let inner = shared.lock();
        let parent = options.parent.map_or_else(RequestSpan::default, |of| inner.spans.request(of));
        let protocol = Protocol::of(inner.endpoint.dialect());
        drop(inner);
        CallSpan::begin(method, protocol, &parent)
    })
}

/// Reports that a call in flight is about to be cancelled, if it can be and was not before.
#[inline]
pub(crate) fn cancelling(shared: &Shared, call: CallId, cause: Cause) {
    if_watched(|| {
        let inner = shared.lock();
        let machine = inner.endpoint.core().machine();
        if machine.call_cause(call).is_some() || machine.call_refusal(call).is_some() {
            return;
        }
        let span = inner.spans.call(call);
        drop(inner);
        span.cancelled(cause);
    });
}

/// Begins the span of a request that is taken.
#[inline]
pub(crate) fn request_begins(
    shared: &Shared,
    request: &Request,
    handle: RequestHandle,
    marker: impl FnOnce() -> Cancellation,
) {
    if_watched(|| {
        let mut inner = shared.lock();
        // None of a request that goes on as an operation: its token is a secret.
        let id = inner.endpoint.core().machine().request_id(handle);
        let id = id.map(|id| id.as_json().to_owned());
        let since = inner.endpoint.since(handle).unwrap_or_default();
        let protocol = Protocol::of(inner.endpoint.dialect());
        drop(inner);
        let (id, marker) = (id.as_deref(), marker());
        let span = RequestSpan::begin(&request.method, protocol, id, since, Some(&marker));
        shared.lock().spans.request_begins(handle, span);
    });
}

/// Returns the span of a request at work.
#[inline]
pub(crate) fn of_request(shared: &Shared, handle: RequestHandle) -> RequestSpan {
    if_watched(|| shared.lock().spans.request(handle))
}

/// Begins the span of a notification that is about to be handled.
#[inline]
pub(crate) fn notification(shared: &Shared, method: &str) -> RequestSpan {
    if_watched(|| {
        let inner = shared.lock();
        let (protocol, now) = (Protocol::of(inner.endpoint.dialect()), inner.endpoint.now());
        drop(inner);
        RequestSpan::begin(method, protocol, None, now, None)
    })
}
