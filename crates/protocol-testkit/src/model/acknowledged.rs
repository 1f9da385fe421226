//! Cancels that are requests: the peer's, which are acknowledged, ours, and the operations that they
//! may name.

use protocol_core::{CancelRule, CancelTarget, Cause, Refusal, RequestPhase, Timestamp, code};
use serde_json::Value;

use super::reading::{self, Answered};
use super::seen::{member, token_member};
use super::{Acknowledged, Asked, CallPhase, Id, Life, Model, Origin, Sent, Told};

impl Model {
    // The peer's

    /// A cancel comes. It is answered at once, whatever it meets.
    pub(super) fn receive_cancel_request(
        &mut self,
        (id, origin): (Id, Option<Origin>),
        target: CancelTarget,
        params: &Value,
        now: Timestamp,
    ) {
        let to = (Some(id.clone()), origin.as_ref());
        // Where the id of a message is that of its request, the two answers would look alike (B5).
        if origin.is_none() && self.unanswered_with(&id).is_some() {
            return self.refuse(to, code::INVALID_REQUEST, "duplicate_id", None);
        }
        let named = params.get(member(&target));
        let says = match (target.clone(), named) {
            (CancelTarget::Id { .. }, Some(named)) => {
                reading::readable(named).map(|named| self.cancel_by_id(&named, now))
            }
            (CancelTarget::Operation { .. }, Some(named)) => {
                reading::operation_token(named).map(|token| self.cancel_by_token(&token, now))
            }
            (_, None) => None,
        };
        match says {
            Some(says) => self.queue(Sent::Acknowledgement { id, says }, false),
            None => {
                let is_no_token =
                    named.is_some() && matches!(target, CancelTarget::Operation { .. });
                let code =
                    if is_no_token { code::OPERATION_NOT_FOUND } else { code::INVALID_PARAMS };
                self.refuse(to, code, "malformed_cancel", None);
            }
        }
    }

    fn cancel_by_id(&mut self, id: &Id, now: Timestamp) -> Acknowledged {
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
        let mut requests = self.requests.iter();
        let operation = requests.find(|(_, request)| {
            request.token.as_ref() == Some(token) && request.phase != RequestPhase::Answered
        });
        match operation.map(|(&number, _)| number).filter(|_| self.obeys()) {
            Some(number) => {
                self.mark(number, Cause::Peer, now);
                Acknowledged::Cancelled
            }
            None => Acknowledged::NotFound,
        }
    }

    /// A request was answered, or its operation is over.
    pub(super) fn remember_finished(&mut self, id: Id, was_cancelled: bool) {
        if let CancelRule::Request { target: CancelTarget::Id { .. }, .. } =
            self.config.dialect.cancel
        {
            self.finished.push_back((id, was_cancelled));
            if self.finished.len() > self.config.limits.abandoned_ids {
                self.finished.pop_front();
            }
        }
    }

    // Operations of the peer's requests

    /// Why this request can't go on as an operation with this token, if it can't.
    #[must_use]
    pub fn begin_refusal(&self, request: u64, token: &Id) -> Option<Refusal> {
        let is_token = |other: &super::Request| other.token.as_ref() == Some(token);
        match self.requests.get(&request).filter(|_| self.is_unanswered(request)) {
            None => Some(Refusal::AlreadyAnswered),
            Some(request) if !request.may_begin => Some(Refusal::NoOperation),
            Some(request) if request.token.is_some() => Some(Refusal::AlreadyAnswered),
            Some(_) if self.requests.values().any(is_token) => Some(Refusal::TokenInUse),
            Some(_) => None,
        }
    }

    /// The host answered a request with the token of an operation that goes on.
    pub fn begin(&mut self, number: u64, token: Id) {
        // Nothing is sent once the connection is abandoned.
        if self.life != Life::Abandoned {
            let id = self.requests[&number].id.clone();
            self.queue(Sent::Token { id, token: token.clone() }, false);
        }
        let request = self.requests.get_mut(&number).expect("it is unanswered");
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
        };
        self.queue(Sent::OperationCancelled { token, reason }, false);
    }

    // Ours

    /// The cancel of a call, if it can be sent now: not before its operation has a token.
    pub(super) fn cancel_of(&mut self, number: u32) -> Option<Sent> {
        let id = reading::our_id(number, self.config.dialect.envelope);
        match self.config.dialect.cancel {
            CancelRule::Request { target: CancelTarget::Id { .. }, .. } => {
                Some(self.cancel_request_of(id, None))
            }
            CancelRule::Request { target: CancelTarget::Operation { .. }, .. } => {
                self.tokenless.insert(number);
                None
            }
            _ => Some(Sent::Cancel(id)),
        }
    }

    fn cancel_request_of(&mut self, names: Id, waiting: Option<u32>) -> Sent {
        let number = self.issue();
        self.unacknowledged.insert(number, waiting);
        Sent::CancelRequest { number, names }
    }

    /// Why the host may send no cancel of this id, or of this token, if it may not.
    #[must_use]
    pub fn send_cancel_refusal(&self, names: &Value) -> Option<Refusal> {
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
    pub fn send_cancel(&mut self, names: Id) {
        let cancel = match self.config.dialect.cancel {
            CancelRule::Request { .. } => self.cancel_request_of(names, None),
            _ => Sent::Cancel(names),
        };
        self.queue(cancel, false);
        self.forget_cancels();
    }

    /// The cancels that nobody answers are forgotten, the oldest first, but never while a call waits.
    pub(super) fn forget_cancels(&mut self) {
        let limits = self.config.limits;
        let most = limits.calls + limits.abandoned_ids;
        let (calls, has) = (&self.calls, |call: u32| self.calls.contains_key(&call));
        if self.unacknowledged.len() > most {
            let mut cancels = self.unacknowledged.iter();
            let oldest =
                cancels.find(|(_, call)| !call.is_some_and(has)).map(|(&number, _)| number);
            oldest.map(|number| self.unacknowledged.remove(&number));
        }
        if self.tokenless.len() > most {
            let oldest = self.tokenless.iter().find(|call| !calls.contains_key(call)).copied();
            oldest.map(|number| self.tokenless.remove(&number));
        }
    }

    /// What the message of ours with this number asked for, if it waits for an answer.
    pub(super) fn asked_by(&self, number: u32) -> Option<Asked> {
        match self.unacknowledged.contains_key(&number) {
            true => Some(Asked::Other),
            false => self.calls.get(&number).map(|call| call.asked),
        }
    }

    /// A cancel of ours is answered. That settles the call that waits for it, if one does.
    pub(super) fn receive_acknowledgement(
        &mut self,
        id: &Value,
        waiting: Option<u32>,
        answer: Option<Answered<'_>>,
    ) {
        match waiting.filter(|call| self.calls.contains_key(call)) {
            Some(call) => {
                let answer = match answer {
                    Some(Answered::Result(_)) => Some(Answered::Error(code::REQUEST_CANCELLED)),
                    answer => answer,
                };
                self.settle_answered(id, call, answer);
            }
            None if answer.is_none() => {
                let id = reading::readable(id);
                self.tell(Told::Violation { rule: "malformed_response", id });
            }
            None => {}
        }
    }

    /// The answer to a call may be the token that its cancel waits for. Says whether there is nothing
    /// else to do: the call waits for its acknowledgement.
    pub(super) fn receive_token(
        &mut self,
        id: &Value,
        number: u32,
        answer: Option<Answered<'_>>,
    ) -> bool {
        let Some(member) = token_member(&self.config.dialect) else { return false };
        let call = self.calls.get(&number);
        let is_waiting = call.is_some_and(|call| call.phase == CallPhase::Cancelling);
        if !self.tokenless.remove(&number) {
            if is_waiting {
                let id = reading::readable(id);
                self.tell(Told::Violation { rule: "duplicate_response", id });
            }
            return is_waiting;
        }
        let token = match answer {
            Some(Answered::Result(result)) => result.get(member).filter(|token| !token.is_null()),
            _ => None,
        };
        let Some(token) = token.and_then(reading::readable) else { return false };
        let cancel = self.cancel_request_of(token, is_waiting.then_some(number));
        self.cancels.push_back(super::Leaving { message: cancel, call: None, concludes: false });
        self.forget_cancels();
        is_waiting
    }
}
