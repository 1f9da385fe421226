//! Cancels that are requests: the peer's, which are acknowledged, ours, and the operations that they
//! may name.

use protocol_core::{CancelRule, Cause, Envelope, Refusal, RequestPhase, Timestamp, code};
use serde_json::Value;

use super::message::{self, Answered};
use super::reading;
use super::seen::{member_of_request, token_member};
use super::{Acknowledged, Asked, CallPhase, Fate, Id, Model, Origin, Sent, Told};

impl Model {
    // The peer's

    /// A cancel comes. It is answered at once, whatever it meets.
    pub(super) fn receive_cancel_request(
        &mut self,
        (id, origin): (Id, Option<Origin>),
        params: &Value,
        now: Timestamp,
    ) {
        let to = (Some(id.clone()), origin.as_ref());
        // If the id of a message is that of its request, the two responses would look alike (B5).
        let is_own = self.config.dialect.envelope != Envelope::Abp;
        if is_own && self.unanswered_with(&id).is_some() {
            return self.refuse(to, code::INVALID_REQUEST, "duplicate_id", None);
        }
        let has_operations = token_member(&self.config.dialect).is_some();
        let named = member_of_request(&self.config.dialect.cancel).and_then(|it| params.get(it));
        let says = match (has_operations, named) {
            (false, Some(named)) => reading::request_id(named, self.config.dialect.ids)
                .map(|named| self.cancel_by_id(&named, now)),
            (true, Some(named)) => match reading::operation_token(named) {
                Some(token) => Some(self.cancel_by_token(&token, now)),
                // No operation was ever named so.
                None => {
                    self.tell(Told::Violation { rule: "malformed_cancel", id: Some(id.clone()) });
                    Some(Acknowledged::NotFound)
                }
            },
            (_, None) => None,
        };
        match says {
            Some(says) => self.queue(Sent::Acknowledgement { id, says }),
            None => self.refuse(to, code::INVALID_PARAMS, "malformed_cancel", None),
        }
    }

    pub(super) fn cancel_by_id(&mut self, id: &Id, now: Timestamp) -> Acknowledged {
        if !self.obeys() {
            return Acknowledged::NotAllowed;
        }
        if let Some(number) = self.unanswered_with(id) {
            if !self.requests[&number].is_cancellable {
                return Acknowledged::NotAllowed;
            }
            self.mark(number, Cause::Peer, now);
            return Acknowledged::Cancelled;
        }
        match self.finished.iter().find(|(finished, _)| finished == id) {
            Some((_, true)) => Acknowledged::Cancelled,
            Some((_, false)) => Acknowledged::Completed,
            None => Acknowledged::NotFound,
        }
    }

    fn cancel_by_token(&mut self, token: &Id, now: Timestamp) -> Acknowledged {
        match self.operation(token).filter(|_| self.obeys()) {
            Some(number) => {
                self.mark(number, Cause::Peer, now);
                Acknowledged::Cancelled
            }
            None => Acknowledged::NotFound,
        }
    }

    /// Returns the request that goes on as the operation with this token.
    fn operation(&self, token: &Id) -> Option<u64> {
        let is_it = |request: &super::Request| {
            request.is_operation() && request.token.as_ref() == Some(token)
        };
        self.requests.iter().find(|(_, request)| is_it(request)).map(|(&number, _)| number)
    }

    /// Returns whether a cancel is the host's to answer: that of an operation which is none of this connection's,
    /// or in DAP one that names a progress, or no request.
    pub(super) fn is_for_host(&self, params: &Value) -> bool {
        if self.config.dialect.envelope == Envelope::Dap {
            let names = |member| params.get(member).is_some_and(|it| !it.is_null());
            return !names("requestId") || names("progressId");
        }
        let Some(token) = token_member(&self.config.dialect) else { return false };
        let named = params.get(token);
        let is_known = |named| {
            reading::operation_token(named).is_some_and(|token| self.operation(&token).is_some())
        };
        self.config.deliver_unknown_operations
            && self.obeys()
            && named.is_some_and(|named| !is_known(named))
    }

    /// A request was answered, or its operation is over.
    pub(super) fn remember_finished(&mut self, id: Id, was_cancelled: bool) {
        if let CancelRule::Request { .. } = self.config.dialect.cancel {
            self.finished.push_back((id, was_cancelled));
            if self.finished.len() > self.config.limits.abandoned_ids {
                self.finished.pop_front();
            }
        }
    }

    // Operations of the peer's requests

    /// Returns the reason that this request can't go on as an operation with this token.
    pub(crate) fn begin_refusal(&self, request: u64, token: &Id) -> Option<Refusal> {
        match self.requests.get(&request).filter(|_| self.awaits_response(request)) {
            None => Some(Refusal::AlreadyResponded),
            Some(request) if !request.may_begin => Some(Refusal::NoOperation),
            Some(request) if request.is_operation() => Some(Refusal::AlreadyResponded),
            Some(_) if self.operation(token).is_some() => Some(Refusal::TokenInUse),
            Some(_) => None,
        }
    }

    /// The host answered a request with the token of an operation that goes on.
    pub(crate) fn begin(&mut self, number: u64, token: Id) {
        // Nothing is sent for a request that fell silent.
        if self.requests[&number].phase != RequestPhase::Silenced {
            let id = self.requests[&number].id.clone();
            self.queue(Sent::Token { id, token: token.clone() });
        }
        let request = self.requests.get_mut(&number).expect("it is unanswered");
        request.phase = match request.is_cancelled() {
            true => RequestPhase::OperationCancelled,
            false => RequestPhase::Operation,
        };
        request.token = Some(token);
        if let Some(cause) = request.cause {
            self.tell_client(number, cause);
        }
    }

    /// The client is told of every cancelled operation, if this is one.
    pub(super) fn tell_client(&mut self, request: u64, cause: Cause) {
        let Some(token) = self.requests[&request].token.clone().filter(|_| !self.is_closed())
        else {
            return;
        };
        let reason = match cause {
            Cause::Peer | Cause::Caller => "client_requested".into(),
            Cause::Deadline | Cause::IdleTimeout | Cause::HardCap => "timeout".into(),
            Cause::Shutdown => "server_shutdown".into(),
            Cause::Dropped | Cause::Parent | Cause::PeerGone | Cause::Internal => {
                format!("error: {}", cause.as_str())
            }
            other => panic!("the model does not know {other:?}"),
        };
        self.queue(Sent::OperationCancelled { token, reason });
    }

    // Ours

    /// The cancel of a call leaves next, where cancels name requests.
    pub(super) fn queue_cancel(&mut self, number: u32) {
        let names = reading::our_id(number, self.config.dialect.envelope);
        let cancel = self.cancel_naming(names, Some(number));
        self.call_mut(number).phase = CallPhase::CancelQueued;
        self.queue_ahead(cancel, Some(number));
    }

    /// The answer to a cancelled call brought the token of its operation, which its cancel names.
    pub(super) fn cancel_operation(&mut self, number: u32, token: Id) {
        let cancel = self.cancel_naming(token, Some(number));
        self.call_mut(number).phase = CallPhase::TokenCancelQueued;
        self.queue_ahead(cancel, Some(number));
    }

    /// Returns a cancel that names this. Its acknowledgement settles `call`, if one is given.
    pub(super) fn cancel_naming(&mut self, names: Id, call: Option<u32>) -> Sent {
        let is_request = member_of_request(&self.config.dialect.cancel).is_some();
        if !is_request {
            return Sent::Cancel(names);
        }
        let number = self.issue();
        match call {
            Some(call) => self.call_mut(call).cancel = Some(number),
            None => self.remember_number(number, Fate::CancelQueued),
        }
        Sent::CancelRequest { number, names }
    }

    /// Returns the reason that the host may send no cancel of this id or this token.
    pub(crate) fn send_cancel_refusal(&self, names: &Value) -> Option<Refusal> {
        let number = reading::our_number(names, self.config.dialect.envelope);
        let call = number.filter(|number| self.calls.contains_key(number));
        let why = call.map_or_else(|| self.refusal(), |call| self.refusal_of(call));
        match why {
            _ if !self.has_cancel() => Some(Refusal::NoCancel),
            Some(why) => Some(Refusal::Uncancellable(why)),
            None if self.is_closed() => Some(Refusal::Closed),
            None => None,
        }
    }

    /// The host sent a cancel of its own routing: behind all that waits, and about no call here.
    pub(crate) fn send_cancel(&mut self, names: Id) {
        let cancel = self.cancel_naming(names, None);
        self.queue(cancel);
    }

    /// Returns the kind of our message with this number, if it waits for an answer.
    pub(super) fn asked_by(&self, number: u32) -> Option<Asked> {
        let is_cancel = self.cancelled_by(number).is_some()
            || matches!(self.fate(number), Some(Fate::CancelQueued | Fate::CancelSent));
        match is_cancel {
            true => Some(Asked::Other),
            false => self.calls.get(&number).map(|call| call.asked),
        }
    }

    /// Returns the call in flight whose cancel has this number, and is not acknowledged.
    pub(super) fn cancelled_by(&self, number: u32) -> Option<u32> {
        let mut calls = self.calls.iter();
        calls.find(|(_, call)| call.cancel == Some(number)).map(|(&call, _)| call)
    }

    /// Returns whether the cancel of this call has left.
    pub(super) fn has_sent_cancel(&self, call: u32) -> bool {
        let phase = self.calls[&call].phase;
        matches!(phase, CallPhase::Cancelling | CallPhase::AwaitingAcknowledgement)
    }

    /// The cancel of a call is answered. That settles the call if its own answer was a token.
    pub(super) fn receive_acknowledgement(
        &mut self,
        id: &Value,
        call: u32,
        answer: Option<Answered<'_>>,
    ) {
        if !self.has_sent_cancel(call) {
            // The peer can't have seen it (F8).
            let id = message::readable(id);
            return self.tell(Told::Violation { rule: "unknown_response", id });
        }
        self.call_mut(call).cancel = None;
        if self.calls[&call].phase == CallPhase::Cancelling {
            return self.report_malformed(id, answer);
        }
        let answer = match answer {
            Some(Answered::Result(_)) => Some(Answered::Error(code::REQUEST_CANCELLED)),
            answer => answer,
        };
        self.settle_answered(id, call, answer);
    }

    /// Returns the token of an operation that an answer brings.
    pub(super) fn token_in(&self, answer: Option<Answered<'_>>) -> Option<Id> {
        let Some(Answered::Result(result)) = answer else { return None };
        let token = result.get(token_member(&self.config.dialect)?)?;
        message::readable(token).filter(|_| !token.is_null())
    }
}
