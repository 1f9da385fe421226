//! Reads messages the slow way.

use std::borrow::Cow;

use protocol_core::{CancelRule, Dialect, Envelope, IdRule, ProgressRule};
use serde_json::Value;

use super::message::{Answered, Id, Message, NOTHING};
use super::{abp, dap};

/// Returns the members of a batch, or the one message.
pub(crate) fn members(message: &[u8]) -> Vec<Value> {
    match serde_json::from_slice(message).unwrap_or_default() {
        Value::Array(members) => members,
        message => vec![message],
    }
}

/// Reads a message in its envelope.
pub(crate) fn message(value: &Value, envelope: Envelope) -> Message<'_> {
    match envelope {
        Envelope::JsonRpc => json_rpc(value),
        Envelope::Abp => abp::message(value),
        Envelope::Dap => dap::message(value),
    }
}

/// JSON-RPC 2.0, sections 4 and 5.
fn json_rpc(value: &Value) -> Message<'_> {
    let Some(members) = value.as_object() else {
        return Message::Invalid { id: NOTHING, origin: None };
    };
    let id = members.get("id");
    let known = id.unwrap_or(NOTHING);
    let is_versioned = members.get("jsonrpc").and_then(Value::as_str) == Some("2.0");
    let params = members.get("params").unwrap_or(NOTHING);
    let (result, error) = (members.get("result"), members.get("error"));
    if let Some(method) = members.get("method") {
        let is_good = is_versioned && (params.is_object() || params.is_array() || params.is_null());
        return match (method.as_str().filter(|_| is_good), id) {
            (Some(method), Some(id)) => Message::Request { id, method, params, origin: None },
            (Some(method), None) => Message::Notification { method, params },
            (None, Some(_)) => Message::Invalid { id: known, origin: None },
            (None, None) => Message::InvalidNotification,
        };
    }
    if result.is_none() && error.is_none() {
        // Only a request has params (F5).
        return match members.contains_key("params") {
            true => Message::Invalid { id: known, origin: None },
            false => Message::Neither { id: known },
        };
    }
    let answer = match (result, error) {
        (Some(result), None) => Some(Answered::Result(result)),
        (None, Some(error)) => {
            let has_message = error.get("message").is_some_and(Value::is_string);
            error.get("code").and_then(Value::as_i64).filter(|_| has_message).map(Answered::Error)
        }
        _ => None,
    };
    Message::Response { id: known, asked: None, answer: answer.filter(|_| is_versioned) }
}

/// Returns the member that holds the id of a request, and the one that holds it in an answer.
pub(super) const fn id_members(envelope: Envelope) -> [&'static str; 2] {
    match envelope {
        Envelope::JsonRpc | Envelope::Abp => ["id", "id"],
        Envelope::Dap => ["seq", "request_seq"],
    }
}

/// Returns an id that a request of this dialect may have.
pub(super) fn request_id(id: &Value, rule: IdRule) -> Option<Id> {
    let integer = id.is_i64() || id.is_u64();
    let allowed = match rule {
        IdRule::NumberOrString => id.is_number() || id.is_string(),
        IdRule::IntegerOrString => integer || id.is_string(),
        IdRule::IntegerStringOrNull => integer || id.is_string() || id.is_null(),
        IdRule::Int32OrString => {
            id.as_i64().is_some_and(|id| i32::try_from(id).is_ok()) || id.is_string()
        }
        other => panic!("the model does not know {other:?}"),
    };
    allowed.then(|| id.to_string())
}

/// Returns the number of the message of ours that an id names: decimal digits, nothing else (B14). In ABP
/// they are a string.
pub(super) fn our_number(id: &Value, envelope: Envelope) -> Option<u32> {
    match envelope {
        Envelope::JsonRpc | Envelope::Dap => {
            id.as_u64().and_then(|number| u32::try_from(number).ok())
        }
        Envelope::Abp => {
            let digits = id.as_str()?;
            let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
            digits.parse().ok().filter(|_| is_number && !digits.starts_with('0'))
        }
    }
}

/// Returns the id of the message of ours with this number.
pub(crate) fn our_id(number: u32, envelope: Envelope) -> Id {
    match envelope {
        Envelope::JsonRpc | Envelope::Dap => number.to_string(),
        Envelope::Abp => format!("\"{number}\""),
    }
}

/// Returns the token of an operation, in its one spelling: 32 hexadecimal digits, read in either case.
pub(super) fn operation_token(token: &Value) -> Option<Id> {
    let digits = token.as_str()?;
    let is_token = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_token.then(|| format!("\"{}\"", digits.to_uppercase()))
}

/// Returns the id that a message of this method names, if it is a cancel of a request and has one.
pub(crate) fn cancelled<'v>(
    dialect: &Dialect,
    method: &str,
    params: &'v Value,
) -> Option<Option<&'v Value>> {
    let named = match &dialect.cancel {
        CancelRule::Notification { method: cancel, id, .. }
        | CancelRule::Request { method: cancel, id, .. }
            if cancel == method =>
        {
            params.get(&**id)
        }
        // A cancel that names an operation is a request like any other.
        _ => return None,
    };
    // In DAP it may be for a progress, and names no request then.
    let is_of_request = dialect.envelope != Envelope::Dap || named.is_some_and(|id| !id.is_null());
    is_of_request.then_some(named)
}

/// Returns the progress tokens in the params of a request.
pub(super) fn tokens(dialect: &Dialect, params: &Value) -> Vec<Id> {
    let paths = dialect.progress.iter().flat_map(|rule| rule.tokens_of_call.iter());
    paths.filter_map(|path| follow(params, path)).filter_map(readable_token).collect()
}

/// Returns the progress tokens of a call of ours: in ABP, its id.
pub(super) fn tokens_of_call(dialect: &Dialect, number: u32, params: &Value) -> Vec<Id> {
    match dialect.envelope {
        Envelope::JsonRpc | Envelope::Dap => tokens(dialect, params),
        Envelope::Abp => vec![our_id(number, dialect.envelope)],
    }
}

/// Returns the progress token that a notification is about.
pub(super) fn token(dialect: &Dialect, method: &str, params: &Value) -> Option<Id> {
    let rule: &ProgressRule = dialect.progress.iter().find(|rule| rule.method == method)?;
    readable_token(params.get(&*rule.token)?)
}

fn readable_token(token: &Value) -> Option<Id> {
    (token.is_string() || token.is_number()).then(|| token.to_string())
}

/// Returns whether the literal `true` stands at the end of that path.
pub(super) fn declared(value: &Value, path: &[Cow<'static, str>]) -> bool {
    follow(value, path) == Some(&Value::Bool(true))
}

fn follow<'v>(value: &'v Value, path: &[Cow<'static, str>]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, name| value.get(&**name))
}
