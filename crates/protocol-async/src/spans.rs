//! Spans and events for `tracing`, as docs/guide/tracing.md describes them. `spans_off.rs` has the same
//! for builds without the feature.
//!
//! A span or an event runs a subscriber, which is the host's own and may use a handle of the connection,
//! for example to send the peer its log. So none runs while the connection is locked. Until the lock is
//! released, it is kept as [`Seen`]. Spans are behind an [`Arc`], so that they are cloned without a
//! subscriber.
//!
//! Nothing here takes params, results or an error's message.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use protocol_core::{
    CallId, Cause, Dialect, Envelope, Refusal, RequestHandle, Timestamp, Violation, WireId,
};
use protocol_endpoint::{Shown, Verdict, clip, mcp};
use tracing::field::Empty;
use tracing::level_filters::{LevelFilter, STATIC_MAX_LEVEL};
use tracing::{Level, Span};

use crate::cancellation::{Cancellation, Following};

/// Returns whether anybody listens at all, at the cost of one load.
#[inline]
pub(crate) fn is_watched() -> bool {
    STATIC_MAX_LEVEL != LevelFilter::OFF && LevelFilter::current() != LevelFilter::OFF
}

/// An event, in a span or else in the current one.
macro_rules! tell {
    (in $span:expr, $level:ident, $text:literal $(, $($field:tt)*)?) => {
        tracing::event!(
            target: "protocol_async", parent: $span, Level::$level, $($($field)*,)? $text
        )
    };
    ($level:ident, $text:literal $(, $($field:tt)*)?) => {
        tracing::event!(target: "protocol_async", Level::$level, $($($field)*,)? $text)
    };
}

/// A span for a call or a request. Fields that are not known yet are recorded later.
macro_rules! span {
    ($name:literal, $kind:literal, $parent:expr, $method:expr, $id:expr, $protocol:expr) => {{
        let (method, protocol): (&str, Protocol) = (clip($method), $protocol);
        tracing::info_span!(
            target: "protocol_async",
            parent: $parent,
            $name,
            otel.name = method,
            otel.kind = $kind,
            otel.status_code = Empty,
            rpc.system.name = protocol.system,
            rpc.method = method,
            rpc.response.status_code = Empty,
            mcp.method.name = protocol.is_mcp.then_some(method),
            jsonrpc.protocol.version = protocol.version,
            jsonrpc.request.id = $id,
            error.type = Empty,
        )
    }};
}

/// The protocol that is spoken, in the words of OpenTelemetry.
#[derive(Clone, Copy)]
pub(crate) struct Protocol {
    system: &'static str,
    version: Option<&'static str>,
    is_mcp: bool,
}

impl Protocol {
    pub(crate) fn of(dialect: &Dialect) -> Self {
        let (system, version) = match dialect.envelope {
            Envelope::JsonRpc => ("jsonrpc", Some("2.0")),
            Envelope::Abp => ("abp", None),
            Envelope::Dap => ("dap", None),
        };
        Self { system, version, is_mcp: mcp::is_spoken(dialect) }
    }
}

/// The span of one of our calls, if anybody listens. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct CallSpan(Option<Arc<Span>>);

impl CallSpan {
    /// Begins a span in that of the request that the call is made for, else in the current one.
    pub(crate) fn begin(method: &str, protocol: Protocol, parent: &RequestSpan) -> Self {
        let parent = parent.0.as_ref().map_or_else(Span::current, |open| open.span.clone());
        let span = span!("call", "client", parent.id(), method, None::<&str>, protocol);
        Self((!span.is_disabled()).then(|| Arc::new(span)))
    }

    /// Records that the call was accepted, with this number on the wire.
    #[inline]
    pub(crate) fn accepted(&self, number: u32) {
        if let Some(span) = &self.0 {
            span.record("jsonrpc.request.id", tracing::field::display(number));
        }
    }

    /// Records that the call was not accepted.
    pub(crate) fn refused(self, refusal: &Refusal) {
        let Some(span) = &self.0 else { return };
        fail(span, "refused");
        tell!(in &**span, DEBUG, "refused", reason = refusal.as_str());
    }

    /// Records that the call is cancelled, with its outcome still to come.
    pub(crate) fn cancelled(&self, cause: Cause) {
        if let Some(span) = &self.0 {
            tell!(in &**span, DEBUG, "cancelled", cause = cause.as_str());
        }
    }
}

/// The span of one of the peer's requests or notifications, if anybody listens. Clones are the same.
#[derive(Clone, Default)]
pub struct RequestSpan(Option<Arc<Open>>);

pub(crate) struct Open {
    span: Span,
    /// The time at which the request arrived.
    since: Timestamp,
    #[allow(dead_code, reason = "it is kept, and dropped")]
    cancels: Option<Following>,
}

impl RequestSpan {
    /// Begins a span in the current one, which records when the request is cancelled.
    pub(crate) fn begin(
        method: &str,
        protocol: Protocol,
        id: Option<&str>,
        since: Timestamp,
        marker: Option<&Cancellation>,
    ) -> Self {
        let id = id.map(|id| clip(id.trim_matches('"')));
        let span = span!("request", "server", Span::current().id(), method, id, protocol);
        if span.is_disabled() {
            return Self::default();
        }
        let inside = span.clone();
        let told =
            move |cause: Cause| tell!(in &inside, DEBUG, "cancelled", cause = cause.as_str());
        let cancels = marker.map(|marker| marker.on_cancel(told));
        Self(Some(Arc::new(Open { span, since, cancels })))
    }

    /// Runs some work for the request inside its span.
    #[inline]
    pub fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.0 {
            Some(open) => open.span.in_scope(work),
            None => work(),
        }
    }

    pub(crate) fn span(&self) -> Span {
        self.0.as_ref().map_or_else(Span::none, |open| open.span.clone())
    }
}

impl fmt::Debug for RequestSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RequestSpan").field(&self.0.as_ref().map(|open| &open.span)).finish()
    }
}

/// The spans of calls and requests in flight. They are in a table of their own, so that rows cost nothing
/// more if nobody listens.
#[derive(Default)]
pub(crate) struct Spans(Option<Box<InFlight>>);

#[derive(Default)]
struct InFlight {
    /// Spans with the times at which they began.
    calls: BTreeMap<CallId, (CallSpan, Timestamp)>,
    requests: BTreeMap<RequestHandle, RequestSpan>,
}

/// A map of three or more has at most so much room for each entry. The leaf of a smaller one is in [`SHARED`](crate::options::SHARED).
const MAP: usize = 4;

impl Spans {
    /// The bytes of the span of a call, beside what the subscriber keeps.
    pub(crate) const CALL: usize =
        MAP * size_of::<(CallId, (CallSpan, Timestamp))>() + size_of::<(Span, [usize; 2])>();
    /// The same for a request.
    pub(crate) const REQUEST: usize =
        MAP * size_of::<(RequestHandle, RequestSpan)>() + size_of::<(Open, Span, [usize; 4])>();

    #[inline]
    pub(crate) fn call_begins(&mut self, call: CallId, span: CallSpan, now: Timestamp) {
        if span.0.is_some() {
            self.0.get_or_insert_default().calls.insert(call, (span, now));
        }
    }

    pub(crate) fn call(&self, call: CallId) -> CallSpan {
        let found = self.0.as_ref().and_then(|spans| spans.calls.get(&call));
        found.map_or_else(CallSpan::default, |(span, _)| span.clone())
    }

    pub(crate) fn request_begins(&mut self, request: RequestHandle, span: RequestSpan) {
        if span.0.is_some() {
            self.0.get_or_insert_default().requests.insert(request, span);
        }
    }

    pub(crate) fn request(&self, request: RequestHandle) -> RequestSpan {
        let found = self.0.as_ref().and_then(|spans| spans.requests.get(&request));
        found.cloned().unwrap_or_default()
    }

    /// Returns whether anybody listens, or did when a span began that has to end.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.0.is_some() || is_watched()
    }

    /// Returns what something that the endpoint shows is to listeners.
    #[cold]
    pub(crate) fn see(&mut self, shown: &Shown) -> Option<Seen> {
        if !self.is_watched() {
            return None;
        }
        match shown {
            Shown::Verdict(Verdict::Settled { call, settlement, cause, code }, now) => {
                let (span, since) = self.0.as_mut()?.calls.remove(call)?;
                let (outcome, took) = (settlement.as_str(), now.since(since));
                Some(Seen::Settled(span, Ended { outcome, code: *code, cause: *cause, took }))
            }
            Shown::Verdict(verdict, _) => Some(Seen::Verdict(verdict.clone())),
            Shown::NoRoom => Some(Seen::NoRoom),
            Shown::Room => Some(Seen::Room),
            Shown::Responded { request, outcome, code, now } => {
                let open = self.0.as_mut()?.requests.remove(request)?.0?;
                let took = now.since(open.since);
                let ended = Ended { outcome, code: *code, cause: None, took };
                Some(Seen::Answered(open, ended))
            }
            _ => None,
        }
    }
}

/// The end of a call or a request.
#[derive(Clone, Copy)]
pub(crate) struct Ended {
    outcome: &'static str,
    code: Option<i64>,
    cause: Option<Cause>,
    took: Duration,
}

impl Ended {
    /// Records the end in the span, if it is a failure.
    fn record(&self, span: &Span) {
        if let Some(code) = self.code {
            let code = code.to_string();
            span.record("rpc.response.status_code", &*code);
            fail(span, &code);
        } else if !matches!(self.outcome, "result" | "ended") {
            fail(span, self.cause.map_or(self.outcome, Cause::as_str));
        }
    }
}

fn fail(span: &Span, kind: &str) {
    span.record("error.type", kind);
    span.record("otel.status_code", "ERROR");
}

/// An event that was seen under the lock, and is reported after it is released.
pub(crate) enum Seen {
    Settled(CallSpan, Ended),
    Answered(Arc<Open>, Ended),
    Verdict(Verdict),
    NoRoom,
    Room,
}

impl Seen {
    pub(crate) fn tell(self) {
        match self {
            Self::Settled(CallSpan(span), ended) => {
                let Some(span) = span else { return };
                ended.record(&span);
                let Ended { outcome, code, cause, took } = ended;
                let (cause, duration) = (cause.map(Cause::as_str), took.as_secs_f64());
                tell!(in &*span, DEBUG, "settled", outcome, cause, code, duration);
            }
            Self::Verdict(Verdict::Violation { violation, id }) => {
                // A string may be a secret, such as the token of an operation.
                let id = id.as_ref().map(WireId::as_json).filter(|id| !id.starts_with('"'));
                let (id, rule) = (id.map(clip), violation.as_str());
                // A response that was slower than a cancel or a deadline is nobody's fault.
                if violation == Violation::LateResponse {
                    tell!(DEBUG, "violation", violation = rule, jsonrpc.request.id = id);
                } else {
                    tell!(WARN, "violation", violation = rule, jsonrpc.request.id = id);
                }
            }
            Self::Verdict(Verdict::OverBudget { over }) => {
                tell!(WARN, "over budget", what = over.what.as_str());
            }
            Self::Verdict(Verdict::Granted { grant }) => {
                tell!(WARN, "granted", grant = grant.as_str());
            }
            Self::Verdict(Verdict::Closed { reason }) => {
                tell!(DEBUG, "closed", reason = reason.as_str());
            }
            // A cancelled request has an event of its own, in its span.
            Self::Verdict(_) => {}
            Self::NoRoom => tell!(DEBUG, "no room"),
            Self::Room => tell!(DEBUG, "room"),
            Self::Answered(open, ended) => {
                ended.record(&open.span);
                let Ended { outcome, code, took, .. } = ended;
                let duration = took.as_secs_f64();
                tell!(in &open.span, DEBUG, "answered", outcome, code, duration);
            }
        }
    }
}

/// Reports the number of notifications that were not kept.
pub(crate) fn missed(count: usize) {
    tell!(WARN, "missed", count);
}

#[cfg(test)]
mod tests {
    use heap::Heap;
    use protocol_core::{CallOptions, Config, Connection};

    use super::*;

    #[test]
    fn g08_no_span_of_a_call_takes_more_than_its_row() {
        let mut conn: Connection<()> = Connection::new(Config::client(Dialect::ACP_V1));
        let calls: Vec<CallId> = (0..1_000)
            .map(|_| conn.call("m", None, (), CallOptions::default(), Timestamp::ZERO).unwrap())
            .collect();
        let heap = Heap::of_thread();
        let mut spans = Spans::default();
        for &call in &calls {
            spans.call_begins(call, CallSpan(Some(Arc::new(Span::none()))), Timestamp::ZERO);
        }
        let (peak, most) = (heap.peak(), calls.len() * Spans::CALL);
        assert!(peak <= most, "{peak} bytes were held, and {most} counted");
    }
}
