//! The content of a message, without its payload: the form of it that may be kept.

use std::borrow::Cow;

use protocol_core::{CancelRule, Dialect, Envelope, Limits, code};
use protocol_json::{Members, elements, member, text};
use serde_json::value::RawValue;

use crate::line::{ID_BYTES, Id, Kind, Part};

mod work;

use work::Works;

/// The part of a dialect that it takes to tell the kind of a message.
#[derive(Clone, Debug)]
pub struct Shape {
    envelope: Envelope,
    /// Whether an array is a batch, in any revision.
    has_batches: bool,
    /// The cancels of every revision.
    cancels: Vec<Cancel>,
    /// Quoted words found in messages that hold an operation's token. They are the member for the token
    /// and the method that tells of a cancelled operation.
    tokens: Vec<String>,
    works: Works,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Cancel {
    is_request: bool,
    method: String,
    /// The member that holds the id. `None`: it names an operation by its token, which is never kept.
    member: Option<String>,
}

impl Shape {
    /// That of this dialect, in any of its revisions.
    #[must_use]
    pub fn of(dialect: &Dialect) -> Self {
        let mut shape = Self {
            envelope: dialect.envelope,
            has_batches: false,
            cancels: Vec::new(),
            tokens: Vec::new(),
            works: Works::default(),
        };
        shape.learn(dialect);
        dialect.revisions.iter().for_each(|(_, revision)| shape.learn(revision));
        shape
    }

    fn learn(&mut self, dialect: &Dialect) {
        self.works.learn(dialect);
        self.has_batches |= dialect.batches.is_some();
        let (method, member) = match &dialect.cancel {
            CancelRule::Notification { method, id, .. }
            | CancelRule::Request { method, id, .. } => (method, Some(id.to_string())),
            CancelRule::Operation { method, token, notification: told, .. } => {
                self.tokens.extend([token, told].map(|word| format!("\"{word}\"")));
                (method, None)
            }
            _ => return,
        };
        let is_request = !matches!(dialect.cancel, CancelRule::Notification { .. });
        let cancel = Cancel { is_request, method: method.to_string(), member };
        if !self.cancels.contains(&cancel) {
            self.cancels.push(cancel);
        }
    }

    /// Makes both shapes withhold the tokens of either. A relay forwards those as they are.
    pub(crate) fn share_tokens(&mut self, other: &mut Self) {
        self.tokens.append(&mut other.tokens);
        other.tokens.clone_from(&self.tokens);
    }

    /// Returns whether messages may hold tokens of operations, in any revision.
    pub(crate) fn has_tokens(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// Returns an id as it may be kept: what no protocol allows as one may be anything, and so may be a secret.
    fn id<'m>(&self, raw: &'m RawValue) -> Option<Id<'m>> {
        let is_id = raw.get().len() <= ID_BYTES && !raw.get().starts_with(['{', '[', 't', 'f']);
        let is_token = self.has_tokens() && has_digits(raw.get());
        (is_id && !is_token).then(|| Id::of(raw))
    }

    /// Returns the size of its heap data, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let cancel = |cancel: &Cancel| {
            size_of::<Cancel>()
                + cancel.method.len()
                + cancel.member.as_ref().map_or(0, String::len)
        };
        let token = |token: &String| size_of::<String>() + token.len();
        self.cancels.iter().map(cancel).sum::<usize>()
            + self.tokens.iter().map(token).sum::<usize>()
            + self.works.bytes()
    }

    /// Whether a message may hold the token of an operation. A name can be written with escapes, so any
    /// escape of a letter counts; and so does whatever looks like a token of ours, wherever it stands.
    pub(crate) fn may_hold_token(&self, text: &str) -> bool {
        let holds = |word: &String| text.contains(word.as_str());
        !self.tokens.is_empty()
            && (self.tokens.iter().any(holds) || text.contains("\\u") || has_digits(text))
    }

    /// Returns the content of a message: one part, or one for each member of a batch. A longer batch than the core
    /// takes by default is one part.
    #[must_use]
    pub fn parts<'m>(&self, text: &'m str) -> Vec<Part<'m>> {
        let batch =
            elements(text, MEMBERS + 1).filter(|batch| (1..=MEMBERS).contains(&batch.len()));
        match batch.filter(|_| self.has_batches) {
            Some(batch) => batch.into_iter().map(|member| self.part(member.get())).collect(),
            None => vec![self.part(text)],
        }
    }

    fn part<'m>(&self, text: &'m str) -> Part<'m> {
        match self.envelope {
            Envelope::JsonRpc => self.json_rpc(text),
            Envelope::Abp => self.abp(text),
            Envelope::Dap => self.dap(text),
        }
        .unwrap_or(UNREADABLE)
    }

    fn json_rpc<'m>(&self, message: &'m str) -> Option<Part<'m>> {
        let members = once(message, &["id", "method", "params", "result", "error"])?;
        let [id, _, params, result, error] = members.values();
        if members.given(1).is_some() {
            return Some(self.asked(id, members.string(1)?, params));
        }
        let part = Part { id: id.and_then(|id| self.id(id)), ..UNREADABLE };
        match (result, error) {
            (Some(result), _) if members.given(4).is_none() => {
                let work = self.works.in_result(result);
                Some(Part { kind: Kind::Result, payload: len(result), work, ..part })
            }
            (_, Some(error)) if members.given(3).is_none() => {
                let members = Members::of(error.get(), &["code", "message"])?;
                members.string(1)?;
                let code = Some(members.token(0)?.parse().ok()?);
                Some(Part { kind: Kind::Error, code, payload: len(error), ..part })
            }
            _ => None,
        }
    }

    fn asked<'m>(
        &self,
        id: Option<&'m RawValue>,
        method: Cow<'m, str>,
        params: Option<&'m RawValue>,
    ) -> Part<'m> {
        let payload = params.and_then(len);
        let work = self.works.in_params(id.is_some(), &method, params);
        let part = Part { id: id.and_then(|id| self.id(id)), payload, work, ..UNREADABLE };
        let kind = if id.is_some() { Kind::Request } else { Kind::Notification };
        let is_meant = |it: &&Cancel| it.is_request == id.is_some() && it.method == method;
        let Some(cancel) = self.cancels.iter().find(is_meant) else {
            return Part { kind, method: Some(method), ..part };
        };
        let named = cancel.member.as_deref().and_then(|name| member(params?, name));
        let cancels = named.and_then(|id| self.id(id));
        Part { kind: Kind::Cancel, method: Some(method), cancels, ..part }
    }

    /// Reads a message of the App-Browser Protocol: docs/dialects.md, "The envelope".
    fn abp<'m>(&self, message: &'m str) -> Option<Part<'m>> {
        let members = once(message, &["type", "id", "payload"])?;
        let ([_, id, payload], kind) = (members.values(), members.string(0)?);
        if kind.ends_with("-result") {
            return self.abp_result(kind == "capabilities/call-result", id, payload);
        }
        let id = id.filter(|_| kind != "capabilities/progress");
        let call = Members::within(payload, &["capability", "params", "options", "callId"]);
        let [_, params, options, direct] = call.values();
        Some(match call.string(0) {
            Some(capability) if kind == "capabilities/call" => {
                let [chosen] = Members::within(options, &["callId"]).values();
                let chosen = chosen.filter(not_null).or(direct.filter(not_null));
                self.asked(chosen.or(id), capability, params)
            }
            _ => self.asked(id, kind, payload),
        })
    }

    /// Reads a response. An acknowledgement names the call, and is none of its responses.
    fn abp_result<'m>(
        &self,
        is_call: bool,
        id: Option<&'m RawValue>,
        payload: Option<&'m RawValue>,
    ) -> Option<Part<'m>> {
        let members =
            Members::within(payload, &["callId", "success", "data", "error", "cancelled"]);
        let [call_id, success, _, error, cancelled] = members.values();
        let is = |member: Option<&RawValue>, word| member.is_some_and(|it| it.get() == word);
        let is_failed = is(success, "false");
        let is_cancelled = (is_failed || is_call) && is(cancelled, "true");
        let (kind, code) = match is(success, "true") {
            _ if members.has_repeated() => return None,
            true => (Kind::Result, None),
            false if is_cancelled => (Kind::Error, Some(code::REQUEST_CANCELLED)),
            // An error has a code in words. The result of a call says that it is one.
            false if is_failed || is_call => {
                member(error?, "code").and_then(text)?;
                (Kind::Error, None)
            }
            false => (Kind::Result, None),
        };
        let id = call_id.filter(not_null).filter(|_| is_call).or(id).and_then(|id| self.id(id));
        Some(Part { kind, id, code, payload: payload.and_then(len), ..UNREADABLE })
    }

    /// Reads a message of the Debug Adapter Protocol. An error has a code beside its words only by chance.
    fn dap<'m>(&self, message: &'m str) -> Option<Part<'m>> {
        let names = [
            "type",
            "seq",
            "command",
            "arguments",
            "event",
            "body",
            "request_seq",
            "success",
            "message",
        ];
        let members = once(message, &names)?;
        let [_, seq, _, arguments, _, body, request_seq, success, _] = members.values();
        match &*members.string(0)? {
            "request" => Some(self.asked(Some(seq?), members.string(2)?, arguments)),
            "event" => Some(self.asked(None, members.string(4)?, body)),
            "response" => {
                let is_cancelled = members.string(8).as_deref() == Some("cancelled");
                let (kind, code) = match success?.get() {
                    "true" => (Kind::Result, None),
                    "false" => (Kind::Error, is_cancelled.then_some(code::REQUEST_CANCELLED)),
                    _ => return None,
                };
                let id = request_seq.and_then(|id| self.id(id));
                Some(Part { kind, id, code, payload: body.and_then(len), ..UNREADABLE })
            }
            _ => None,
        }
    }
}

/// The most members of a batch that are parts.
const MEMBERS: usize = Limits::DEFAULT.batch_members;

pub(crate) const UNREADABLE: Part<'static> = Part {
    kind: Kind::Unreadable,
    id: None,
    method: None,
    cancels: None,
    code: None,
    payload: None,
    work: None,
};

/// Whether there are 32 hexadecimal digits in a row, as in a token.
pub(crate) fn has_digits(text: &str) -> bool {
    let mut run = 0;
    text.bytes().any(|byte| {
        run = if byte.is_ascii_hexdigit() { run + 1 } else { 0 };
        run == 32
    })
}

fn len(value: &RawValue) -> Option<u64> {
    u64::try_from(value.get().len()).ok()
}

/// Reads members of an object, unless one of them stands twice. The core refuses such a message.
fn once<'m, const N: usize>(text: &'m str, names: &[&str; N]) -> Option<Members<'m, N>> {
    Members::of(text, names).filter(|members| !members.has_repeated())
}

/// Returns whether a member is not null. Some peers write null for members that they do not set.
fn not_null(member: &&RawValue) -> bool {
    member.get() != "null"
}

#[cfg(test)]
mod tests;
