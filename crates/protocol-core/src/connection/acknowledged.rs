//! Cancels that are requests of their own: theirs that we acknowledge, and ours that they do.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};

use serde_json::value::RawValue;

use super::batches::BatchKey;
use super::inputs::DUPLICATE_ID;
use super::received::EventQueue;
use super::{Cargo, Connection, Delivery};
use crate::config::Limits;
use crate::dialect::{CancelRule, CancelTarget, code};
use crate::error::Refusal;
use crate::event::{Reply, TransmitKind};
use crate::id::WireId;
use crate::machine::{Answer, CallId, CallPhase, CancelReceipt};
use crate::operations::OperationToken;
use crate::outbox::Ticket;
use crate::time::Timestamp;
use crate::violation::{EnvelopeProblem, Violation};
use crate::wire::abp::{Asked, Origin};
use crate::wire::decode::{self, Response};
use crate::wire::encode::{Acknowledged, Context, Draft, Id, Names, To};

/// A cancel of the peer's that waits for its acknowledgement, which it gets in the same step.
pub(super) struct CancelRequest<'m> {
    id: WireId,
    origin: Option<Box<Origin>>,
    /// The token of what it names, as the peer wrote it.
    target: &'m str,
    batch: Option<BatchKey>,
}

/// Our cancels, where they are requests.
#[derive(Clone, Debug, Default)]
pub(super) struct OurCancels {
    /// By the number of the cancel: those that are not acknowledged yet, and the call that waits
    /// for that, if one does.
    unacknowledged: BTreeMap<u32, Option<CallId>>,
    /// The numbers of the calls, settled ones among them, that were cancelled before their operation
    /// had a token: its cancel follows when that comes. Invariant: a cancelling call that is not here
    /// waits for its acknowledgement.
    tokenless: BTreeSet<u32>,
}

impl OurCancels {
    /// A number names a new call.
    pub(super) fn reissued(&mut self, number: u32) {
        if !self.unacknowledged.is_empty() {
            self.unacknowledged.remove(&number);
        }
        if !self.tokenless.is_empty() {
            self.tokenless.remove(&number);
        }
    }

    /// Whether a call waits for the answer to the cancel with this number.
    pub(super) fn is_awaited(&self, number: u32) -> bool {
        self.unacknowledged.get(&number).is_some_and(Option::is_some)
    }
}

/// What a response turned out to be.
pub(super) enum Routed {
    /// The answer to the call with this number, and what kind of one.
    Answer(Option<u32>, Answer),
    /// An acknowledgement that nobody waits for, or a token that our cancel was waiting for.
    Done,
    /// A second answer to a call that waits for its acknowledgement.
    Again,
}

impl<O, I: Default> Connection<O, I> {
    /// Takes a cancel that is a request.
    pub(super) fn take_cancel_request<'m>(
        &mut self,
        request: Delivery<'m>,
        (target, reason): (CancelTarget, Option<Text>),
        batch: Option<BatchKey>,
        now: Timestamp,
        events: &mut EventQueue<'m, O>,
    ) {
        let allowed = self.config().dialect.ids;
        let Delivery { id, params, origin, .. } = request;
        let Some(id) = self.readable(id).filter(|id| allowed.allows(id.token())) else {
            let problem = EnvelopeProblem::Id;
            return self.refuse_invalid(Some(id), origin.as_deref(), problem, batch, events);
        };
        // Where the id of a request is that of its message, nobody could tell the answers apart (B5).
        if origin.is_none() && self.machine.owes_answer(&id) {
            let (error, violation) = (DUPLICATE_ID, Violation::DuplicateId);
            return self.refuse(Some(id), None, error, violation, batch, events);
        }
        let named = decode::param(params, target.member());
        let wanted = named.and_then(|named| match &target {
            CancelTarget::Id { .. } => self.readable(named.get()),
            CancelTarget::Operation { .. } => token_id(named),
        });
        let (Some(named), Some(wanted)) = (named, wanted) else {
            let error = match (&target, named) {
                (CancelTarget::Operation { .. }, Some(_)) => OPERATION_NOT_FOUND,
                _ => (code::INVALID_PARAMS, "Invalid params: the cancel names nothing"),
            };
            let origin = origin.as_deref();
            return self.refuse(Some(id), origin, error, Violation::MalformedCancel, batch, events);
        };
        let reason = reason.and_then(|reason| decode::param(params, &reason));
        let reason = reason.and_then(decode::string);
        self.machine.receive_cancel(&wanted, now);
        let request = CancelRequest { id, origin, target: named.get(), batch };
        self.carry_out(Cargo::Cancel { reason, request: Some(request) }, events);
    }

    /// Whether the host answers this cancel: it names an operation that is none of this connection's.
    pub(super) fn is_for_host(&self, request: &Delivery<'_>, target: CancelTarget) -> bool {
        let CancelTarget::Operation { token, .. } = target else { return false };
        if self.config().unknown_operations == UnknownOperations::Refused {
            return false;
        }
        // The token of another server need not look like ours.
        decode::param(request.params, token)
            .is_some_and(|token| self.machine.is_unknown_operation(token_id(token).as_ref()))
    }

    /// Answers a cancel of the peer's.
    pub(super) fn acknowledge<'m>(
        &mut self,
        request: &CancelRequest<'m>,
        receipt: CancelReceipt,
        events: &mut EventQueue<'m, O>,
    ) {
        let CancelRule::Request { target, .. } = self.config().dialect.cancel else { return };
        let (limit, context) =
            (self.stage_limit(), Context { config: self.machine.config(), now: self.now });
        let to = To { id: request.id.token(), origin: request.origin.as_deref() };
        let draft = match (target, receipt) {
            (CancelTarget::Id { member }, _) => {
                let what = Acknowledged::Request { member, target: request.target, receipt };
                Draft::Acknowledgement { to, what }
            }
            (_, CancelReceipt::Cancelled | CancelReceipt::CancelledBefore) => {
                Draft::Acknowledgement { to, what: Acknowledged::Operation }
            }
            _ => {
                let (code, message) = OPERATION_NOT_FOUND;
                Draft::Response { to, reply: Reply::Error { code, message, data: None } }
            }
        };
        let staged = self.outbox.stage_draft(limit, &context, &draft);
        match (staged, request.batch) {
            (Ok(message), None) => {
                self.outbox.commit(message, TransmitKind::Acknowledgement);
            }
            (Ok(message), Some(batch)) => self.keep_back(batch, message),
            (Err(_), _) => {
                self.report(Violation::AnswerDropped, Some(request.id.clone()), events);
            }
        }
    }

    /// Sends the cancel of a call of ours, as a request; or remembers that it is to be sent as soon as
    /// the token of the operation is known.
    pub(super) fn send_cancel_of_call(&mut self, call: CallId, why: Option<&str>) {
        let CancelRule::Request { target, .. } = &self.config().dialect.cancel else { return };
        let number = call.number();
        let waiting = self.machine.call_phase(call).map(|_| call);
        match target {
            CancelTarget::Id { .. } => {
                let ticket = self.send_cancel_naming(waiting, why, Id::Ours(number));
                if let Some(call) = waiting {
                    self.hold_unsent(call, ticket);
                }
                self.await_acknowledgement(None);
            }
            CancelTarget::Operation { .. } => {
                self.our_cancels.tokenless.insert(number);
                self.forget_cancels();
            }
        }
    }

    /// Sends a cancel that names this id, ahead of everything else.
    fn send_cancel_naming(
        &mut self,
        call: Option<CallId>,
        why: Option<&str>,
        id: Id<'_>,
    ) -> Ticket {
        let draft = self.cancel_naming(id, why);
        let staged = self.stage_cancel(draft);
        self.commit_cancel(staged, call)
    }

    /// Sends a cancel of the host's own routing, behind all others: its request may still be waiting
    /// (G4).
    pub(super) fn send_cancel_for_host(&mut self, id: &WireId) -> Result<(), Refusal> {
        let draft = self.cancel_naming(Id::Token(id.token()), None);
        let staged = self.stage(&draft)?;
        self.outbox.commit(staged, TransmitKind::Cancel);
        self.await_acknowledgement(None);
        Ok(())
    }

    /// A cancel that is a request, under the next number.
    fn cancel_naming<'a>(&self, id: Id<'a>, why: Option<&'a str>) -> Draft<'a> {
        let CancelRule::Request { method, target, reason } = self.config().dialect.cancel else {
            unreachable!("cancels are requests here")
        };
        let names = Names { member: target.member(), id, reason: reason.zip(why) };
        Draft::CancelRequest { number: self.machine.next_number(), method, names }
    }

    /// A cancel was queued under the next number, for a call that waits for the acknowledgement, if one
    /// does.
    fn await_acknowledgement(&mut self, awaiting: Option<CallId>) {
        let number = self.machine.take_number();
        self.our_cancels.unacknowledged.insert(number, awaiting);
        self.forget_cancels();
    }

    /// Forgets the oldest cancels that no call waits for, over a limit (G8). As calls are limited
    /// too, there is one.
    fn forget_cancels(&mut self) {
        let Limits { calls, abandoned_ids, .. } = self.config().limits;
        let most = calls.saturating_add(abandoned_ids);
        let (machine, cancels) = (&self.machine, &mut self.our_cancels);
        if cancels.unacknowledged.len() > most {
            let is_waiting = |call: CallId| machine.call_phase(call).is_some();
            let mut numbers = cancels.unacknowledged.iter();
            let oldest = numbers.find(|&(_, &call)| !call.is_some_and(is_waiting));
            if let Some(&number) = oldest.map(|(number, _)| number) {
                cancels.unacknowledged.remove(&number);
            }
        }
        if cancels.tokenless.len() > most {
            let mut numbers = cancels.tokenless.iter();
            let oldest = numbers.find(|&&number| machine.call_numbered(number).is_none());
            if let Some(&number) = oldest {
                cancels.tokenless.remove(&number);
            }
        }
    }

    /// Says what a response is, to the call or the cancel of ours with this number.
    pub(super) fn route(
        &mut self,
        number: Option<u32>,
        asked: Option<Asked>,
        kind: Answer,
        answer: &Result<Response<'_>, EnvelopeProblem>,
    ) -> Routed {
        let Some(number) = number else { return Routed::Answer(None, kind) };
        let is_other =
            |answered| self.asked_by(number).is_some_and(|asked: Asked| answered != asked);
        if asked.is_some_and(is_other) {
            return Routed::Answer(None, kind);
        }
        let CancelRule::Request { target, .. } = self.config().dialect.cancel.clone() else {
            return Routed::Answer(Some(number), kind);
        };
        if let Some(awaiting) = self.our_cancels.unacknowledged.remove(&number) {
            let call = awaiting.filter(|&call| self.machine.call_phase(call).is_some());
            // Only an operation's call waits for this; another's own answer settles it.
            let Some(call) = call else { return Routed::Done };
            let kind = if kind == Answer::Result { Answer::CancelError } else { kind };
            return Routed::Answer(Some(call.number()), kind);
        }
        match target {
            CancelTarget::Id { .. } => Routed::Answer(Some(number), kind),
            CancelTarget::Operation { token, .. } => match answer {
                Ok(Response::Result(result)) => {
                    self.take_token(number, decode::param(Some(*result), &token))
                }
                _ => self.take_token(number, None),
            }
            .unwrap_or(Routed::Answer(Some(number), kind)),
        }
    }

    /// The call with this number is answered, perhaps with the token of its operation: cancels that, if
    /// that is what it was waited for.
    fn take_token(&mut self, number: u32, token: Option<&RawValue>) -> Option<Routed> {
        let call = self.machine.call_numbered(number);
        let is_cancelling =
            |&call: &CallId| self.machine.call_phase(call) == Some(CallPhase::Cancelling);
        let awaiting = call.filter(is_cancelling);
        if !self.our_cancels.tokenless.remove(&number) {
            return awaiting.map(|_| Routed::Again);
        }
        let token = self.readable(token?.get()).filter(|token| token.token() != "null")?;
        self.send_cancel_naming(awaiting, None, Id::Token(token.token()));
        self.await_acknowledgement(awaiting);
        awaiting.map(|_| Routed::Done)
    }

    /// What the message of ours with this number asked for, if it is not answered yet.
    fn asked_by(&self, number: u32) -> Option<Asked> {
        if self.our_cancels.unacknowledged.contains_key(&number) {
            return Some(Asked::Other);
        }
        let call = self.machine.call_numbered(number)?;
        self.outgoing.get(call.slot())?.as_ref().map(|outgoing| outgoing.asked)
    }
}

const OPERATION_NOT_FOUND: (i64, &str) = (code::OPERATION_NOT_FOUND, "Operation not found");

/// The id that the machine knows an operation by.
pub(super) fn token_id(token: &RawValue) -> Option<WireId> {
    let token: OperationToken = decode::string(token)?.parse().ok()?;
    Some(token.wire_id())
}

/// Takes what a cancel said out of the cargo, for whoever is told.
pub(super) fn reason<'m>(cargo: &mut Cargo<'m>) -> Option<Cow<'m, str>> {
    match cargo {
        Cargo::Reason(reason) => reason.take(),
        Cargo::Cancel { reason, .. } => reason.take(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g12_a_number_that_is_issued_anew_is_no_longer_that_of_a_cancel() {
        let mut cancels = OurCancels::default();
        for number in [1, 2] {
            cancels.unacknowledged.insert(number, None);
            cancels.tokenless.insert(number);
        }
        cancels.reissued(1);
        assert_eq!(cancels.unacknowledged, BTreeMap::from([(2, None)]));
        assert_eq!(cancels.tokenless, BTreeSet::from([2]));
    }
}
