//! What happens on one side, and what it means for the other.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use protocol_core::{
    CallId, CancelOutcome, Cause, CloseReason, Envelope, ErrorObject, Outcome, Refusal,
    RequestHandle, Response, Shutdown, code,
};
use serde_json::value::{RawValue, to_raw_value};

use super::owe::{HOP_GONE, MALFORMED, NOT_A_METHOD, too_slow};
use super::{Relay, RelayEvent, Side};

/// The members of an object, each as its owner wrote it.
type Members<'m> = BTreeMap<String, &'m RawValue>;

impl Relay {
    // Requests and notifications

    /// A request becomes a call on the other side.
    pub(super) fn pass_request(
        &mut self,
        side: Side,
        request: RequestHandle,
        method: &str,
        params: Option<&RawValue>,
    ) {
        let progress = self.progress_in(method, params);
        if self.looks_like_a_cancel(method) && progress.is_none() {
            self.report(side, RelayEvent::CancelDropped { method: method.into() });
            return self.owe(side, request, NOT_A_METHOD);
        }
        let params = progress.as_deref().or(params);
        let (options, now) = (self.guards[side as usize].options(method), self.now);
        let far = self.connection_mut(side.other());
        match far.call(method, params, request, options, now) {
            Ok(call) => {
                let data = self.connection_mut(side).request_data_mut(request);
                *data.expect("nobody but us answers requests") = Some(call);
            }
            Err(refused) => {
                let (id, reason) = (self.id_of(side, request), refused.reason);
                self.report(side, RelayEvent::RequestRefused { id, reason });
                let reply =
                    self.overload(side, "The request was refused: the next hop takes no more");
                self.owe(side, request, reply);
            }
        }
    }

    /// A notification is passed on as it is, unless it is a cancel.
    pub(super) fn pass_notification(
        &mut self,
        side: Side,
        method: &str,
        params: Option<&RawValue>,
    ) {
        if self.dialect(side).cancel.has_method(method) {
            return self.check_obeyed(side, params);
        }
        if self.looks_like_a_cancel(method) && !self.tells_of_cancels(side, method) {
            let method = method.into();
            return self.report(side, RelayEvent::CancelDropped { method });
        }
        let translated = self.translated(side, method, params);
        let far = self.connection_mut(side.other());
        if let Err(reason) = far.notify(method, translated.as_deref().or(params)) {
            let method = String::from(method);
            self.report(side, RelayEvent::NotificationDropped { method, reason });
        }
    }

    /// DAP's one event that names a request, with the id that the request has on the other side.
    fn translated(
        &mut self,
        side: Side,
        method: &str,
        params: Option<&RawValue>,
    ) -> Option<Box<RawValue>> {
        let params = params.filter(|_| method == "progressStart" && self.speaks_dap())?;
        let mut members: Members<'_> = serde_json::from_str(params.get()).ok()?;
        let number = members.remove("requestId")?.get().parse().ok();
        let call = number.and_then(|number| self.connection(side).machine().call_numbered(number));
        let call = call.map(|(call, _)| call);
        let request = call.and_then(|call| self.connection_mut(side).call_data_mut(call).copied());
        let id = request.map(|request| self.id_of(side.other(), request));
        // What is over has no name there any more.
        let id = id.and_then(|id| RawValue::from_string(id.token().into()).ok());
        members.extend(id.as_deref().map(|id| ("requestId".into(), id)));
        to_raw_value(&members).ok()
    }

    // Cancels

    /// What passes as it is of a cancel in DAP: the progress that it names, which is called the same
    /// everywhere. The request that it may name too is cancelled where it came from.
    fn progress_in(&self, method: &str, params: Option<&RawValue>) -> Option<Box<RawValue>> {
        let is_cancel = self.speaks_dap() && self.dialect(Side::Up).cancel.has_method(method);
        let params = params.filter(|_| is_cancel)?;
        let mut members: Members<'_> = serde_json::from_str(params.get()).ok()?;
        members.retain(|member, value| member == "progressId" && value.get() != "null");
        if members.is_empty() { None } else { to_raw_value(&members).ok() }
    }

    fn speaks_dap(&self) -> bool {
        Side::BOTH.into_iter().all(|side| self.dialect(side).envelope == Envelope::Dap)
    }

    /// A request was cancelled, and so is the call that was made for it.
    pub(super) fn pass_cancel(&mut self, side: Side, request: RequestHandle, reason: Option<&str>) {
        let now = self.now;
        let data = self.connection_mut(side).request_data_mut(request);
        let Some(call) = data.and_then(|call| *call) else { return };
        let far = self.connection_mut(side.other());
        let cancelled = far.cancel_because(call, Cause::Parent, reason, now);
        if let CancelOutcome::Refused(reason) = cancelled {
            let id = self.id_of(side, request);
            self.report(side, RelayEvent::CancelRefused { id, reason });
        }
    }

    /// Reports a cancel of the side's own dialect that was not obeyed, though it names a request that
    /// is under way: the dialect does not let that peer cancel it.
    fn check_obeyed(&mut self, side: Side, params: Option<&RawValue>) {
        let Some(id) = self.dialect(side).cancel.id_in(params) else { return };
        let machine = self.connection(side).machine();
        let is_ignored = |request| machine.request_cause(request).is_none();
        if machine.request_named(&id).is_some_and(is_ignored) {
            self.report(side, RelayEvent::CancelIgnored { id });
        }
    }

    /// Whether a message of this method names an id in some dialect, as its cancels do or as those that
    /// tell of a cancelled operation seem to. An id means nothing on another connection (B25).
    fn looks_like_a_cancel(&self, method: &str) -> bool {
        Side::BOTH.into_iter().any(|side| {
            let dialect = self.dialect(side);
            dialect.is_cancel(method) || dialect.tells_of_cancels(method)
        })
    }

    /// Whether a notification tells the client of a cancelled operation. It names a token, which may
    /// pass every hop, unless the client would take the notification for a cancel.
    fn tells_of_cancels(&self, side: Side, method: &str) -> bool {
        side == Side::Down
            && self.dialect(Side::Down).tells_of_cancels(method)
            && !self.dialect(Side::Up).cancel.has_method(method)
    }

    // Answers

    /// Answers a request with how the call that was made for it ended.
    pub(super) fn pass_back(&mut self, side: Side, request: RequestHandle, outcome: &Outcome<'_>) {
        match outcome {
            Outcome::Result(result) => self.pass_answer(side, request, Response::Result(result)),
            Outcome::Error(error) | Outcome::Cancelled { error: Some(error), .. } => {
                self.pass_answer(side, request, self.error(error));
            }
            Outcome::Cancelled { cause: Cause::Peer, error: None } => self.end(side, request),
            Outcome::Cancelled { error: None, .. } => self.owe(side, request, Response::Cancelled),
            Outcome::Malformed => self.owe(side, request, MALFORMED),
            // A peer that hung up is waited for no longer than `pass_end` says.
            Outcome::TimedOut { cause } if !self.connection(side).machine().is_closed() => {
                let (id, cause) = (self.id_of(side, request), *cause);
                self.report(side, RelayEvent::TimedOut { id, cause });
                self.owe(side, request, too_slow(cause));
            }
            _ => self.owe(side, request, HOP_GONE),
        }
    }

    fn pass_answer(&mut self, side: Side, request: RequestHandle, reply: Response<'_>) {
        match self.connection_mut(side).respond(request, reply) {
            Ok(_) | Err(Refusal::AlreadyResponded) => {}
            Err(reason) => {
                let id = self.id_of(side, request);
                self.report(side, RelayEvent::ResponseReplaced { id, reason });
                // To keep the answer until there is room would give our memory to a peer that
                // doesn't read.
                let reply = self.overload(side, "The answer was dropped: too much is unsent");
                self.owe(side, request, reply);
            }
        }
    }

    /// An error as the other side is told it: whole, where both sides write errors in the same way. In
    /// ABP a cancelled call has no error to pass on.
    fn error<'m>(&self, error: &'m ErrorObject<'_>) -> Response<'m> {
        let [up, down] = Side::BOTH.map(|side| self.dialect(side).envelope);
        let is_error = up != Envelope::Abp || error.code != code::REQUEST_CANCELLED;
        if up == down && is_error {
            return Response::ErrorRaw(&error.raw);
        }
        let (message, data) = (&*error.message, error.data.as_deref());
        Response::Error { code: error.code, message, data }
    }

    /// The server ended a call that its dialect lets it end. The request is ended in the same way where
    /// its own dialect allows that, and is answered as cancelled elsewhere.
    fn end(&mut self, side: Side, request: RequestHandle) {
        if self.connection_mut(side).end_request(request, None).is_err() {
            self.owe(side, request, Response::Cancelled);
        }
    }

    // The end

    /// Nothing comes in on this side any more, so nobody waits for the calls that were made for it on
    /// the other side, and no new request is taken there. What that side has under way goes on.
    pub(super) fn pass_end(&mut self, side: Side, reason: CloseReason) {
        let now = self.now;
        let far = self.connection_mut(side.other());
        // Those that the end cancels were cancelled by `pass_cancel`. This bounds how long we wait for
        // a peer that answers neither them nor the others.
        let calls: Vec<CallId> = far.calls().map(|(call, _)| call).collect();
        for call in calls {
            far.detach(call, now);
        }
        far.shutdown(Shutdown::Drain, now);
        self.report(side, RelayEvent::Closed { reason });
    }
}
