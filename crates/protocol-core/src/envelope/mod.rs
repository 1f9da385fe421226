//! Envelopes: bytes to [`Message`]s, and [`OutgoingMessage`]s to bytes.
//!
//! Each envelope is a file that reads and writes it. All that differs between them is asked here.

mod abp;
mod dap;
mod jsonrpc;
pub(crate) mod message;
mod outgoing;

use alloc::format;
use alloc::vec::Vec;

use protocol_json::{Member, Value, Writer};
use serde_json::value::RawValue;

use crate::dialect::{CancelRule, Envelope, RequestKind, code, facts::given};
use crate::id::WireId;
use crate::limits::Limits;
use crate::violation::Violation;

pub(crate) use abp::RESULT as ABP_RESULT;
use message::Params;
pub(crate) use message::{Message, Origin, Request, ResponseBody};
pub(crate) use outgoing::{Addressee, Context, OutgoingMessage};

impl Envelope {
    // Reading

    /// Reads a message of the peer's. Returns `None` if it is no JSON.
    #[inline]
    pub(crate) fn read<'m>(self, bytes: &'m [u8], limits: &Limits) -> Option<Message<'m>> {
        let text = core::str::from_utf8(bytes).ok()?;
        match bytes.trim_ascii_start().first() {
            Some(b'{') => self.read_object(text, limits),
            Some(b'[') => {
                // One more than the limit shows that there are too many.
                let most = limits.batch_members.saturating_add(1);
                protocol_json::elements(text, most).map(Message::Batch)
            }
            _ => protocol_json::value(text).map(|_| Message::NO_OBJECT),
        }
    }

    /// Reads an object: a message or a member of a batch. Returns `None` for any other value.
    #[inline]
    pub(crate) fn read_object<'m>(self, text: &'m str, limits: &Limits) -> Option<Message<'m>> {
        match self {
            Self::JsonRpc => jsonrpc::read(text, limits.depth),
            Self::Abp => abp::read(text, limits),
            Self::Dap => dap::read(text, limits),
        }
    }

    // Ids

    /// Returns the depth to which ids may stand. The call id of ABP may be in the options of the payload.
    pub(crate) const fn levels_of_ids(self) -> usize {
        if matches!(self, Self::Abp) { 3 } else { 1 }
    }

    /// Returns the id of the message of ours that has this number.
    pub(crate) fn id_of(self, number: u32) -> Value<'static> {
        let number = number.into();
        if self == Self::Abp { Value::QuotedNumber(number) } else { Value::Number(number) }
    }

    /// Returns the number of the message of ours whose id this token can be: decimal, nothing else (B14).
    #[inline]
    pub(crate) fn number_of(self, id: &str) -> Option<u32> {
        // No JSON begins with a plus, which is all else that `parse` reads.
        if self == Self::Abp { abp::number_of(id) } else { id.parse().ok() }
    }

    /// Returns whether every message takes a number, not just requests. Then messages leave in the order of their
    /// numbers, so no cancel may overtake others.
    pub(crate) const fn numbers_every_message(self) -> bool {
        matches!(self, Self::Dap)
    }

    // Requests

    /// Returns the kind of a call of ours.
    #[inline]
    pub(crate) fn kind_of(self, method: &str) -> RequestKind {
        if self == Self::Abp { abp::kind_of(method) } else { RequestKind::Ordinary }
    }

    /// Checks the params of a notification of ours. Those of a call depend on its
    /// [kind](RequestKind::params).
    ///
    /// # Errors
    ///
    /// [`EnvelopeProblem::Params`](crate::EnvelopeProblem::Params).
    pub(crate) fn notification_params(self, value: Option<&RawValue>) -> Params<'_> {
        message::structured(value, self != Self::Abp)
    }

    /// Returns the token under which progress of a call of ours comes, in an envelope that has one beside the params.
    pub(crate) fn token_of(self, number: u32, chosen: Option<&RawValue>) -> Option<WireId> {
        // It is the id of the call, unless the call is forwarded.
        match chosen {
            _ if self != Self::Abp => None,
            Some(chosen) => WireId::scanned(given(chosen, "progressToken")?.get()),
            None => WireId::scanned(&format!("\"{number}\"")),
        }
    }

    // Responses

    /// Returns whether an array of messages is a batch.
    pub(crate) const fn has_batches(self) -> bool {
        matches!(self, Self::JsonRpc)
    }

    /// Returns whether a message that can't be read is responded to. Only JSON-RPC has a response with id null.
    pub(crate) const fn responds_to_unreadable(self) -> bool {
        matches!(self, Self::JsonRpc)
    }

    // Cancels

    /// Returns whether the ids of cancels that are requests must differ from those of the requests that they can
    /// name (B5). In ABP a cancel has the id of its message, and a request has a call id.
    pub(crate) const fn cancels_share_ids(self) -> bool {
        !matches!(self, Self::Abp)
    }

    /// Returns whether the host responds to a cancel of the peer's that names this request and has these params. In
    /// DAP it may name a progress, or nothing at all.
    pub(crate) fn cancel_is_for_host(
        self,
        request: Option<&RawValue>,
        params: Option<&RawValue>,
    ) -> bool {
        let names_request = || request.is_some_and(|id| id.get() != "null");
        let names_progress = || params.is_some_and(|params| given(params, "progressId").is_some());
        self == Self::Dap && (names_progress() || !names_request())
    }

    /// Returns the response to a cancel that names `target`: the members of its result, or the code and
    /// the message of its error. `refusal` is the reason why nothing was cancelled.
    pub(crate) fn acknowledgement<'a>(
        self,
        rule: &'a CancelRule,
        target: &'a str,
        refusal: Option<&'static str>,
    ) -> Result<[Member<'a>; 3], (i64, &'static str)> {
        let is_operation = matches!(rule, CancelRule::Operation { .. });
        let id = rule.members().map_or("", |(_, id, _)| id);
        match refusal {
            Some(why) if self == Self::Dap => Err((code::REQUEST_FAILED, why)),
            Some(_) if is_operation => Err((code::OPERATION_NOT_FOUND, "Operation not found")),
            None if is_operation => {
                Ok([("status", Some(Value::Text("cancelled"))), ("", None), ("", None)])
            }
            _ => Ok([
                (id, Some(Value::Token(target))),
                ("cancelled", Some(Value::Bool(refusal.is_none()))),
                ("reason", refusal.map(Value::Text)),
            ]),
        }
    }
}

impl OutgoingMessage<'_> {
    /// Returns the bytes of the message.
    pub(crate) fn len(&self, context: &Context<'_>) -> usize {
        self.write(context, 0, &mut Vec::new()).err().unwrap_or(0)
    }

    /// Appends the message, if it is no longer than `most`.
    ///
    /// # Errors
    ///
    /// Its length. Only a part of it was appended then, longer than `most` by the envelope at most.
    #[inline]
    pub(crate) fn write(
        &self,
        context: &Context<'_>,
        most: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), usize> {
        let mut out = Writer::new(out, most);
        match context.config.dialect.envelope {
            Envelope::JsonRpc => jsonrpc::write(self, context, &mut out),
            Envelope::Abp => abp::write(self, context, &mut out),
            Envelope::Dap => dap::write(self, context, &mut out),
        }
        out.finish()
    }
}

/// Returns the violation of a message that can't be read, with the place where it breaks.
pub(crate) fn unreadable(bytes: &[u8]) -> Violation {
    match core::str::from_utf8(bytes) {
        Ok(text) => Violation::Parse { offset: protocol_json::broken_at(text) },
        Err(error) => Violation::InvalidUtf8 { offset: error.valid_up_to() },
    }
}

#[cfg(test)]
mod tests;
