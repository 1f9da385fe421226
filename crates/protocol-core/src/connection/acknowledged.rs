//! Cancels that are requests of their own: theirs that we acknowledge, and ours that they do.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use serde_json::value::RawValue;

use super::batches::BatchKey;
use super::inputs::DUPLICATE_ID;
use super::received::EventQueue;
use super::{Cargo, Connection, Delivery};
use crate::config::{Limits, UnknownOperations};
use crate::dialect::{CancelRule, CancelTarget, Dialect, Envelope, code};
use crate::error::Refusal;
use crate::event::{Reply, TransmitKind};
use crate::id::WireId;
use crate::machine::{Answer, CallId, CallPhase, CancelReceipt};
use crate::operations::OperationToken;
use crate::outbox::Ticket;
use crate::time::Timestamp;
use crate::violation::{EnvelopeProblem, Violation};
use crate::wire::abp::{self, Asked, Origin};
use crate::wire::decode::{self, Response};
use crate::wire::encode;

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
        (target, reason): (CancelTarget, Option<&'static str>),
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
        let wanted = named.and_then(|named| match target {
            CancelTarget::Id { .. } => self.readable(named.get()),
            CancelTarget::Operation { .. } => token_id(named),
        });
        let (Some(named), Some(wanted)) = (named, wanted) else {
            let error = match (target, named) {
                (CancelTarget::Operation { .. }, Some(_)) => OPERATION_NOT_FOUND,
                _ => (code::INVALID_PARAMS, "Invalid params: the cancel names nothing"),
            };
            let origin = origin.as_deref();
            return self.refuse(Some(id), origin, error, Violation::MalformedCancel, batch, events);
        };
        let reason = reason.and_then(|reason| decode::param(params, reason));
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
        let (limit, stamp) = (self.stage_limit(), self.stamp());
        let config = self.machine.config();
        let id = request.id.token();
        let staged = self.outbox.stage(limit, |out| match (target, &request.origin) {
            (CancelTarget::Id { member }, origin) => {
                let write =
                    |out: &mut Vec<u8>| acknowledgement(out, member, request.target, receipt);
                match origin {
                    Some(origin) => {
                        abp::response_to(out, origin, id, abp::Answer::Payload(&write), stamp);
                    }
                    None => encode::result(out, id, write),
                }
            }
            (CancelTarget::Operation { .. }, _) => match receipt {
                CancelReceipt::Cancelled | CancelReceipt::CancelledBefore => {
                    encode::result(out, id, |out| {
                        out.extend_from_slice(br#"{"status":"cancelled"}"#);
                    });
                }
                _ => {
                    let (code, message) = OPERATION_NOT_FOUND;
                    let reply = Reply::Error { code, message, data: None };
                    encode::response(out, id, reply, &config.dialect);
                }
            },
        });
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
        let CancelRule::Request { target, .. } = self.config().dialect.cancel else { return };
        let number = call.number();
        let waiting = self.machine.call_phase(call).map(|_| call);
        match target {
            CancelTarget::Id { .. } => {
                let envelope = self.config().dialect.envelope;
                let ticket = self.send_cancel_naming(waiting, why, |out| match envelope {
                    Envelope::JsonRpc => encode::decimal(u64::from(number), out),
                    Envelope::Abp => out.extend_from_slice(abp::token(number).token().as_bytes()),
                });
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

    /// Sends a cancel that names what `name` writes, ahead of everything else. Cancels are taken above
    /// the limit, words are not.
    fn send_cancel_naming(
        &mut self,
        call: Option<CallId>,
        why: Option<&str>,
        name: impl Fn(&mut Vec<u8>),
    ) -> Ticket {
        let (number, limit) = (self.machine.next_number(), self.stage_limit());
        let dialect = self.config().dialect;
        let stamp = self.stamp();
        let write = |out: &mut Vec<u8>, why| write_cancel(out, &dialect, number, &name, why, stamp);
        let staged = self.outbox.stage(limit, |out| write(out, why));
        let staged = staged.or_else(|_| self.outbox.stage(usize::MAX, |out| write(out, None)));
        let staged = staged.expect("no limit was given");
        self.commit_cancel(staged, call)
    }

    /// Sends a cancel of the host's own routing, behind all others: its request may still be waiting
    /// (G4).
    pub(super) fn send_cancel_for_host(&mut self, id: &WireId) -> Result<(), Refusal> {
        let number = self.machine.next_number();
        let (dialect, stamp) = (self.config().dialect, self.stamp());
        let name = |out: &mut Vec<u8>| out.extend_from_slice(id.token().as_bytes());
        let staged = self.stage(|out| write_cancel(out, &dialect, number, name, None, stamp))?;
        self.outbox.commit(staged, TransmitKind::Cancel);
        self.await_acknowledgement(None);
        Ok(())
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
        let CancelRule::Request { target, .. } = self.config().dialect.cancel else {
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
                    self.take_token(number, decode::param(Some(*result), token))
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
        self.send_cancel_naming(awaiting, None, |out| {
            out.extend_from_slice(token.token().as_bytes());
        });
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

/// Writes a cancel of ours that is a request.
fn write_cancel(
    out: &mut Vec<u8>,
    dialect: &Dialect,
    number: u32,
    name: impl Fn(&mut Vec<u8>),
    why: Option<&str>,
    stamp: u64,
) {
    let CancelRule::Request { method, target, reason } = dialect.cancel else { return };
    let params =
        |out: &mut Vec<u8>| encode::cancel_params(out, target.member(), name, reason.zip(why));
    match dialect.envelope {
        Envelope::JsonRpc => encode::cancel_request(out, number, method, params),
        Envelope::Abp => abp::cancel(out, number, method, params, stamp),
    }
}

const OPERATION_NOT_FOUND: (i64, &str) = (code::OPERATION_NOT_FOUND, "Operation not found");

/// The id that the machine knows an operation by.
pub(super) fn token_id(token: &RawValue) -> Option<WireId> {
    let token: OperationToken = decode::string(token)?.parse().ok()?;
    Some(token.wire_id())
}

fn acknowledgement(out: &mut Vec<u8>, member: &str, target: &str, receipt: CancelReceipt) {
    let (cancelled, reason) = match receipt {
        CancelReceipt::Cancelled | CancelReceipt::CancelledBefore => (true, None),
        CancelReceipt::Completed => (false, Some("Operation already completed")),
        CancelReceipt::NotFound => (false, Some("Operation not found")),
        CancelReceipt::Ignored => (false, Some("Operation can't be cancelled")),
    };
    out.push(b'{');
    encode::string(member, out);
    out.push(b':');
    out.extend_from_slice(target.as_bytes());
    out.extend_from_slice(if cancelled {
        br#","cancelled":true"#
    } else {
        br#","cancelled":false"#
    });
    if let Some(reason) = reason {
        out.extend_from_slice(br#","reason":"#);
        encode::string(reason, out);
    }
    out.push(b'}');
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
