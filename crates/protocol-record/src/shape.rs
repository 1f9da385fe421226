//! The content of a message, without its payload: the form of it that may be kept.

use std::borrow::Cow;

use protocol_core::{CancelRule, Dialect, Envelope, code};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::line::{ID_BYTES, Id, Kind, Part};

mod work;

use work::Works;

/// The part of a dialect that it takes to tell the kind of a message.
#[derive(Clone, Debug)]
pub struct Shape {
    envelope: Envelope,
    /// The methods of cancels, each with the member that holds the id; of every revision.
    cancels: Vec<Cancel>,
    /// Quoted words found in messages that hold an operation's token. They are the member for the token
    /// and the method that tells of a cancelled operation.
    tokens: Vec<String>,
    works: Works,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Cancel {
    method: String,
    /// `None`: it names an operation by its token, which is never kept.
    member: Option<String>,
}

impl Shape {
    /// That of this dialect, in any of its revisions.
    #[must_use]
    pub fn of(dialect: &Dialect) -> Self {
        let mut shape = Self {
            envelope: dialect.envelope,
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
        let (method, member) = match &dialect.cancel {
            CancelRule::Notification { method, id, .. }
            | CancelRule::Request { method, id, .. } => (method, Some(id.to_string())),
            CancelRule::Operation { method, token, notification: told, .. } => {
                self.tokens.extend([token, told].map(|word| format!("\"{word}\"")));
                (method, None)
            }
            _ => return,
        };
        let cancel = Cancel { method: method.to_string(), member };
        if !self.cancels.contains(&cancel) {
            self.cancels.push(cancel);
        }
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

    /// Returns the content of a message: one part, or one for each member of a batch.
    #[must_use]
    pub fn parts<'m>(&self, text: &'m str) -> Vec<Part<'m>> {
        if text.trim_start().starts_with('[') {
            let members: Option<Vec<&RawValue>> = serde_json::from_str(text).ok();
            let members = members.filter(|members| !members.is_empty());
            return members.map_or_else(
                || vec![UNREADABLE],
                |members| members.into_iter().map(|member| self.part(member.get())).collect(),
            );
        }
        vec![self.part(text)]
    }

    fn part<'m>(&self, text: &'m str) -> Part<'m> {
        match self.envelope {
            Envelope::JsonRpc => serde_json::from_str(text).ok().and_then(|it| self.json_rpc(it)),
            Envelope::Abp => serde_json::from_str(text).ok().and_then(|it| self.abp(it)),
            Envelope::Dap => serde_json::from_str(text).ok().and_then(|it| self.dap(it)),
        }
        .unwrap_or(UNREADABLE)
    }

    fn json_rpc<'m>(&self, message: JsonRpc<'m>) -> Option<Part<'m>> {
        let JsonRpc { id, method, params, result, error } = message;
        if let Some(method) = method {
            return Some(self.asked(id, method, params));
        }
        let part = Part { id: id.and_then(|id| self.id(id)), ..UNREADABLE };
        if let Some(error) = error {
            let Code { code } = serde_json::from_str(error.get()).ok()?;
            return Some(Part { kind: Kind::Error, code: Some(code), payload: len(error), ..part });
        }
        let work = self.works.in_result(result?);
        Some(Part { kind: Kind::Result, payload: len(result?), work, ..part })
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
        let Some(cancel) = self.cancels.iter().find(|cancel| cancel.method == method) else {
            return Part { kind, method: Some(method), ..part };
        };
        let member = cancel.member.as_deref();
        let cancels = member.and_then(|name| member_of(params?, name)).and_then(|id| self.id(id));
        Part { kind: Kind::Cancel, method: Some(method), cancels, ..part }
    }

    /// The App-Browser Protocol: docs/dialects.md, "The envelope".
    fn abp<'m>(&self, message: Abp<'m>) -> Option<Part<'m>> {
        let Abp { kind, id, payload } = message;
        let inside: Payload<'m> =
            payload.and_then(|it| serde_json::from_str(it.get()).ok()).unwrap_or_default();
        let chosen = inside.options.and_then(|options| member_of(options, "callId"));
        // An acknowledgement names the call, and is none of its answers.
        let is_call = kind.starts_with(CAPABILITY);
        if kind.ends_with("-result") {
            let is = |member: Option<&RawValue>, word| member.is_some_and(|it| it.get() == word);
            let part = Part {
                id: inside.call_id.filter(|_| is_call).or(id).and_then(|id| self.id(id)),
                payload: payload.and_then(len),
                ..UNREADABLE
            };
            let is_failed = is(inside.success, "false");
            let is_cancelled = (is_failed || is_call) && is(inside.cancelled, "true");
            let is_error = is_failed || is_cancelled || (is_call && inside.error.is_some());
            return match is(inside.success, "true") {
                false if is_error => {
                    let code = is_cancelled.then_some(code::REQUEST_CANCELLED);
                    Some(Part { kind: Kind::Error, code, ..part })
                }
                // The result of a call says that it is one.
                false if is_call => None,
                _ => Some(Part { kind: Kind::Result, ..part }),
            };
        }
        let id = id.filter(|_| kind != "capabilities/progress");
        Some(match inside.capability {
            Some(capability) if kind == CAPABILITY => {
                let chosen = chosen.filter(|id| id.get() != "null");
                self.asked(chosen.or(inside.call_id).or(id), capability, inside.params)
            }
            _ => self.asked(id, kind, payload),
        })
    }

    /// The Debug Adapter Protocol. What an error says beside its words has a code only by chance.
    fn dap<'m>(&self, message: Dap<'m>) -> Option<Part<'m>> {
        let Dap { kind, seq, command, arguments, body, request_seq, success, message } = message;
        match &*kind {
            "request" => Some(self.asked(seq, command?, arguments)),
            "event" => Some(self.asked(None, command?, body)),
            "response" => {
                let part = Part {
                    id: request_seq.and_then(|id| self.id(id)),
                    payload: body.and_then(len),
                    ..UNREADABLE
                };
                let is_cancelled = message.as_deref() == Some("cancelled");
                let code = is_cancelled.then_some(code::REQUEST_CANCELLED);
                Some(match success? {
                    true => Part { kind: Kind::Result, ..part },
                    false => Part { kind: Kind::Error, code, ..part },
                })
            }
            _ => None,
        }
    }
}

/// The method of an App-Browser Protocol message that calls a capability.
const CAPABILITY: &str = "capabilities/call";

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

fn member_of<'m>(params: &'m RawValue, name: &str) -> Option<&'m RawValue> {
    let members: std::collections::BTreeMap<Cow<'m, str>, &'m RawValue> =
        serde_json::from_str(params.get()).ok()?;
    members.get(name).copied()
}

#[derive(Deserialize)]
struct JsonRpc<'m> {
    #[serde(borrow, default, deserialize_with = "there")]
    id: Option<&'m RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'m, str>>,
    #[serde(borrow, default, deserialize_with = "there")]
    params: Option<&'m RawValue>,
    #[serde(borrow, default, deserialize_with = "there")]
    result: Option<&'m RawValue>,
    #[serde(borrow, default, deserialize_with = "there")]
    error: Option<&'m RawValue>,
}

#[derive(Deserialize)]
struct Abp<'m> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'m, str>,
    #[serde(borrow)]
    id: Option<&'m RawValue>,
    #[serde(borrow)]
    payload: Option<&'m RawValue>,
}

#[derive(Deserialize)]
struct Dap<'m> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'m, str>,
    #[serde(borrow)]
    seq: Option<&'m RawValue>,
    #[serde(borrow, alias = "event")]
    command: Option<Cow<'m, str>>,
    #[serde(borrow)]
    arguments: Option<&'m RawValue>,
    #[serde(borrow)]
    body: Option<&'m RawValue>,
    #[serde(borrow)]
    request_seq: Option<&'m RawValue>,
    success: Option<bool>,
    #[serde(borrow)]
    message: Option<Cow<'m, str>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload<'m> {
    #[serde(borrow)]
    capability: Option<Cow<'m, str>>,
    #[serde(borrow)]
    call_id: Option<&'m RawValue>,
    #[serde(borrow)]
    params: Option<&'m RawValue>,
    #[serde(borrow)]
    options: Option<&'m RawValue>,
    #[serde(borrow)]
    success: Option<&'m RawValue>,
    #[serde(borrow, default, deserialize_with = "there")]
    error: Option<&'m RawValue>,
    #[serde(borrow)]
    cancelled: Option<&'m RawValue>,
}

#[derive(Deserialize)]
struct Code {
    code: i64,
}

/// A member that is there, be it null.
fn there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests;
