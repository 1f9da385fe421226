//! Envelopes, read by hand-written visitors into borrowed parts.
//!
//! Untagged, flattened and internally tagged serde types don't work with `RawValue`, and
//! `Option<&RawValue>` loses `"result": null`; so each member is taken as the token it is.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use memchr::{memchr, memchr2_iter};
use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::abp::{self, Asked, Origin};
use crate::config::Limits;
use crate::dialect::{Envelope, code};
use crate::event::ErrorObject;
use crate::violation::{EnvelopeProblem, Violation};

/// The outermost form of what arrived.
#[derive(Debug)]
pub(crate) enum Incoming<'m> {
    One(Message<'m>),
    /// Holds at most one member more than the limit allows.
    Batch(Vec<&'m RawValue>),
    /// Can't be read at all.
    Unreadable(Violation),
}

/// One message.
#[derive(Debug)]
pub(crate) enum Message<'m> {
    Request {
        /// The id token, of whatever type.
        id: &'m str,
        method: Cow<'m, str>,
        params: Option<&'m RawValue>,
    },
    Notification {
        method: Cow<'m, str>,
        params: Option<&'m RawValue>,
    },
    Response {
        /// The id token, of whatever type.
        id: Option<&'m str>,
        /// What it answers, in an envelope that says so.
        asked: Option<Asked>,
        answer: Result<Response<'m>, EnvelopeProblem>,
    },
    /// No message; the id token is there to answer it with (B2).
    Invalid {
        id: Option<&'m str>,
        problem: EnvelopeProblem,
    },
    /// Neither method nor result nor error: a broken request, or a broken response to a call.
    Neither {
        id: Option<&'m str>,
        problem: EnvelopeProblem,
    },
    /// A notification that can't be served, and must not be answered.
    InvalidNotification {
        problem: EnvelopeProblem,
    },
    /// A request in the envelope of ABP.
    Abp {
        origin: Box<Origin>,
        /// The id token, of whatever type.
        id: &'m str,
        method: Cow<'m, str>,
        params: Option<&'m RawValue>,
        options: Option<&'m RawValue>,
    },
    /// A broken request in the envelope of ABP.
    InvalidAbp {
        origin: Box<Origin>,
        id: Option<&'m str>,
        problem: EnvelopeProblem,
    },
}

/// What a response says.
#[derive(Debug)]
pub(crate) enum Response<'m> {
    Result(&'m RawValue),
    Error(ErrorObject<'m>),
}

/// Reads what arrived.
pub(crate) fn incoming<'m>(bytes: &'m [u8], envelope: Envelope, limits: &Limits) -> Incoming<'m> {
    let text = match core::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            return Incoming::Unreadable(Violation::InvalidUtf8 { offset: error.valid_up_to() });
        }
    };
    let read = match text.trim_ascii_start().as_bytes().first() {
        Some(b'{') if envelope == Envelope::Abp => {
            serde_json::from_str(text).map(|object| Incoming::One(abp::message(object, limits)))
        }
        Some(b'{') => {
            object(text).map(|members| Incoming::One(members.message(text, limits.depth)))
        }
        Some(b'[') => array(text, limits.batch_members).map(Incoming::Batch),
        _ => serde_json::from_str::<IgnoredAny>(text).map(|_| Incoming::One(NO_OBJECT)),
    };
    read.unwrap_or_else(|error| {
        Incoming::Unreadable(Violation::Parse { offset: offset(text, &error) })
    })
}

/// Reads one member of a batch.
pub(crate) fn member(value: &RawValue, depth: usize) -> Message<'_> {
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'{') => object(text).expect("a RawValue is valid JSON").message(text, depth),
        _ => NO_OBJECT,
    }
}

const NO_OBJECT: Message<'_> = Message::Invalid { id: None, problem: EnvelopeProblem::NotAnObject };

/// Reads the member `name` of params that are an object: `None` if they are not, or it is missing.
pub(crate) fn param<'m>(params: Option<&'m RawValue>, name: &str) -> Option<&'m RawValue> {
    struct Pick<'a>(&'a str);

    impl<'m> Visitor<'m> for Pick<'_> {
        type Value = Option<&'m RawValue>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'m>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = None;
            while let Some(key) = map.next_key::<&RawValue>()? {
                if string(key).as_deref() == Some(self.0) {
                    found = Some(map.next_value()?);
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(found)
        }
    }

    let mut json = serde_json::Deserializer::from_str(params?.get());
    json.deserialize_map(Pick(name)).ok()?
}

/// Follows members of nested objects.
pub(crate) fn path<'m>(value: Option<&'m RawValue>, path: &[&str]) -> Option<&'m RawValue> {
    path.iter().try_fold(value?, |value, name| param(Some(value), name))
}

/// The members of an envelope, each as the token it is.
#[derive(Default)]
struct Members<'m> {
    jsonrpc: Option<&'m RawValue>,
    id: Option<&'m RawValue>,
    method: Option<&'m RawValue>,
    params: Option<&'m RawValue>,
    result: Option<&'m RawValue>,
    error: Option<&'m RawValue>,
    repeated: Repeated,
}

/// Which members stand twice.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Repeated {
    #[default]
    Nothing,
    Others,
    /// The id, perhaps with others: nobody can tell which one is meant.
    Id,
}

/// Reads the members of a batch, and of those over `limit` only the first: one tells that they are
/// too many, and a hostile million costs nothing (G8).
fn array(text: &str, limit: usize) -> serde_json::Result<Vec<&RawValue>> {
    struct Batch(usize);

    impl<'m> Visitor<'m> for Batch {
        type Value = Vec<&'m RawValue>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'m>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut members = Vec::new();
            while members.len() <= self.0 {
                match seq.next_element()? {
                    Some(member) => members.push(member),
                    None => return Ok(members),
                }
            }
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok(members)
        }
    }

    let mut json = serde_json::Deserializer::from_str(text);
    let members = json.deserialize_seq(Batch(limit))?;
    json.end()?;
    Ok(members)
}

fn object(text: &str) -> serde_json::Result<Members<'_>> {
    struct Envelope;

    impl<'m> Visitor<'m> for Envelope {
        type Value = Members<'m>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'m>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut members = Members::default();
            // As a token: a key that can't be decoded is only one more that nobody reads.
            while let Some(key) = map.next_key::<&RawValue>()? {
                let name = string(key);
                let member = match name.as_deref() {
                    Some("jsonrpc") => &mut members.jsonrpc,
                    Some("id") => &mut members.id,
                    Some("method") => &mut members.method,
                    Some("params") => &mut members.params,
                    Some("result") => &mut members.result,
                    Some("error") => &mut members.error,
                    _ => {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                };
                if member.replace(map.next_value()?).is_some() {
                    let is_id = name.as_deref() == Some("id");
                    let repeated = if is_id { Repeated::Id } else { Repeated::Others };
                    members.repeated = members.repeated.max(repeated);
                }
            }
            Ok(members)
        }
    }

    let mut json = serde_json::Deserializer::from_str(text);
    let members = json.deserialize_map(Envelope)?;
    json.end()?;
    Ok(members)
}

impl<'m> Members<'m> {
    fn message(self, text: &str, depth: usize) -> Message<'m> {
        let too_deep = is_deeper(text.as_bytes(), depth).then_some(EnvelopeProblem::TooDeep);
        // An id that stands twice can't be trusted; any other bad message is answered with it (B2).
        let id = self.id.map(RawValue::get).filter(|_| self.repeated != Repeated::Id);
        let repeated =
            (self.repeated != Repeated::Nothing).then_some(EnvelopeProblem::DuplicateMember);
        let version = (self.jsonrpc.map(RawValue::get) != Some(r#""2.0""#)
            && self.jsonrpc.and_then(string).as_deref() != Some("2.0"))
        .then_some(EnvelopeProblem::Version);
        let problem = repeated.or(too_deep).or(version);

        let Some(method) = self.method else {
            if self.result.is_none() && self.error.is_none() {
                let problem = problem.unwrap_or(EnvelopeProblem::Empty);
                return Message::Neither { id, problem };
            }
            let answer = problem.map_or_else(|| self.response(), Err);
            return Message::Response { id, asked: None, answer };
        };
        let Some(method) = string(method) else {
            let problem = problem.unwrap_or(EnvelopeProblem::Method);
            return Message::Invalid { id, problem };
        };
        let params = self.params.filter(|params| params.get() != "null");
        let bad_params = params
            .is_some_and(|params| !params.get().starts_with(['{', '[']))
            .then_some(EnvelopeProblem::Params);
        match (problem.or(bad_params), self.id) {
            (None, Some(id)) => Message::Request { id: id.get(), method, params },
            (None, None) => Message::Notification { method, params },
            (Some(problem), Some(_)) => Message::Invalid { id, problem },
            (Some(problem), None) => Message::InvalidNotification { problem },
        }
    }

    fn response(&self) -> Result<Response<'m>, EnvelopeProblem> {
        match (self.result, self.error) {
            (Some(result), None) => Ok(Response::Result(result)),
            (None, Some(error)) => {
                error_object(error).map(Response::Error).ok_or(EnvelopeProblem::Error)
            }
            (Some(_), Some(_)) => Err(EnvelopeProblem::ResultAndError),
            (None, None) => Err(EnvelopeProblem::Empty),
        }
    }
}

pub(super) fn error_object(raw: &RawValue) -> Option<ErrorObject<'_>> {
    if !raw.get().starts_with('{') {
        return None;
    }
    let code = param(Some(raw), "code")?.get().parse().ok()?;
    let message = string(param(Some(raw), "message")?)?;
    Some(ErrorObject { raw, code, message, data: param(Some(raw), "data") })
}

/// Whether a response to one of our calls is the peer's word that it was cancelled.
pub(crate) fn confirms_cancel(error: &ErrorObject<'_>) -> bool {
    error.code == code::REQUEST_CANCELLED
}

/// Decodes a token if it is a string, borrowing it where it has no escapes. A string with a lone
/// surrogate can't be decoded.
pub(crate) fn string(token: &RawValue) -> Option<Cow<'_, str>> {
    text(token.get())
}

/// As [`string`].
pub(super) fn text(token: &str) -> Option<Cow<'_, str>> {
    let text = token.strip_prefix('"')?.strip_suffix('"')?;
    match memchr(b'\\', text.as_bytes()) {
        None => Some(Cow::Borrowed(text)),
        Some(_) => serde_json::from_str::<String>(token).ok().map(Cow::Owned),
    }
}

/// Whether valid JSON nests arrays and objects deeper than `limit`.
pub(super) fn is_deeper(json: &[u8], limit: usize) -> bool {
    // No more brackets than levels allowed is the common case, and cheap to see.
    if memchr2_iter(b'{', b'[', json).nth(limit).is_none() {
        return false;
    }
    let (mut depth, mut bytes) = (0_usize, json.iter());
    while let Some(byte) = bytes.next() {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => skip_string(&mut bytes),
            _ => {}
        }
        if depth > limit {
            return true;
        }
    }
    false
}

fn skip_string(bytes: &mut core::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
}

/// The byte that `serde_json`'s line and column mean.
fn offset(text: &str, error: &serde_json::Error) -> usize {
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let before: usize = lines.map(str::len).sum();
    (before + error.column().saturating_sub(1)).min(text.len())
}
