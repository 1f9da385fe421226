//! Envelopes, taken apart into borrowed parts; [`scan`] does the reading.
//!
//! Untagged, flattened and internally tagged serde types don't work with `RawValue`, and
//! `Option<&RawValue>` loses `"result": null`; so each member is taken as the token it is.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use memchr::memchr;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::abp::{self, Asked, Origin};
use super::raw;
use super::scan::{self, Json, Name};
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

impl<'m> Response<'m> {
    pub(crate) fn error(self) -> Option<ErrorObject<'m>> {
        match self {
            Self::Error(error) => Some(error),
            Self::Result(_) => None,
        }
    }
}

/// Reads what arrived.
pub(crate) fn incoming<'m>(bytes: &'m [u8], envelope: Envelope, limits: &Limits) -> Incoming<'m> {
    let text = match core::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            return Incoming::Unreadable(Violation::InvalidUtf8 { offset: error.valid_up_to() });
        }
    };
    if envelope == Envelope::JsonRpc {
        if let Some(message) = usual(text, limits.depth) {
            return Incoming::One(message);
        }
    }
    let read = match text.trim_ascii_start().as_bytes().first() {
        Some(b'{') if envelope == Envelope::Abp => abp::message(text, limits).map(Incoming::One),
        Some(b'{') => {
            Members::read(text).map(|members| Incoming::One(members.message(limits.depth)))
        }
        Some(b'[') => array(text, limits.batch_members).map(Incoming::Batch),
        _ => scan::is_value(text).then_some(Incoming::One(NO_OBJECT)),
    };
    read.unwrap_or_else(|| Incoming::Unreadable(Violation::Parse { offset: offset(text) }))
}

/// Reads a message as nearly every peer writes it: these members in this order, with no space around
/// them and no escape in the method. Of any other, good or bad, [`Members`] makes what this would
/// have made of it.
#[inline]
fn usual(text: &str, depth: usize) -> Option<Message<'_>> {
    let json = Json::of(text);
    let (mut id, mut at) = (None, json.literal(br#"{"jsonrpc":"2.0","#, 0)?);
    if let Some(begin) = json.literal(br#""id":"#, at) {
        let end = json.scalar(begin)?;
        id = Some(&text[begin..end]);
        at = json.literal(b",", end)?;
    }
    let mut nesting = 0;
    let message = if let Some(begin) = json.literal(br#""method":"#, at) {
        let (end, is_escaped) = json.string(begin)?;
        if is_escaped {
            return None;
        }
        let method = Cow::Borrowed(&text[begin + 1..end - 1]);
        let mut params = None;
        at = end;
        if let Some(begin) = json.literal(br#","params":"#, at) {
            at = json.nested(begin, &mut nesting).filter(|_| nesting > 0)?;
            params = Some(raw::of(&text[begin..at]));
        }
        match id {
            Some(id) => Message::Request { id, method, params },
            None => Message::Notification { method, params },
        }
    } else {
        id?;
        let answer = if let Some(begin) = json.literal(br#""result":"#, at) {
            at = json.value(begin, &mut nesting)?;
            Response::Result(raw::of(&text[begin..at]))
        } else {
            let begin = json.literal(br#""error":"#, at)?;
            let error;
            (error, at, nesting) = usual_error(text, begin)?;
            Response::Error(error)
        };
        Message::Response { id, asked: None, answer: Ok(answer) }
    };
    let is_whole = json.literal(b"}", at)? == text.len();
    (is_whole && nesting < depth).then_some(message)
}

/// As [`usual`], the error object that begins at `begin`, where it ends, and its nesting.
#[inline]
fn usual_error(text: &str, begin: usize) -> Option<(ErrorObject<'_>, usize, usize)> {
    let json = Json::of(text);
    let (mut nesting, mut data) = (0, None);
    let code = json.literal(br#"{"code":"#, begin)?;
    let code_end = json.scalar(code)?;
    let message = json.literal(br#","message":"#, code_end)?;
    let (mut end, is_escaped) = json.string(message)?;
    if is_escaped {
        return None;
    }
    let message = Cow::Borrowed(&text[message + 1..end - 1]);
    if let Some(begin) = json.literal(br#","data":"#, end) {
        end = json.value(begin, &mut nesting)?;
        data = Some(raw::of(&text[begin..end]));
    }
    end = json.literal(b"}", end)?;
    let (raw, code) = (raw::of(&text[begin..end]), text[code..code_end].parse().ok()?);
    Some((ErrorObject { raw, code, message, data }, end, nesting + 1))
}

/// Reads one member of a batch.
pub(crate) fn member(value: &RawValue, depth: usize) -> Message<'_> {
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'{') => Members::read(text).expect("a RawValue is valid JSON").message(depth),
        _ => NO_OBJECT,
    }
}

const NO_OBJECT: Message<'_> = Message::Invalid { id: None, problem: EnvelopeProblem::NotAnObject };

/// Reads the member `name` of params that are an object: `None` if they are not, or it is missing.
pub(crate) fn param<'m>(params: Option<&'m RawValue>, name: &str) -> Option<&'m RawValue> {
    let mut found = None;
    scan::object(params?.get(), |key, value| {
        if key.is(name) {
            found = Some(value);
        }
    })?;
    found.map(raw::of)
}

/// Follows members of nested objects.
pub(crate) fn path<'m>(
    value: Option<&'m RawValue>,
    path: &[impl AsRef<str>],
) -> Option<&'m RawValue> {
    path.iter().try_fold(value?, |value, name| param(Some(value), name.as_ref()))
}

/// The token of the only version there is.
const VERSION: &str = r#""2.0""#;

/// The members of an envelope, each as the token it is.
#[derive(Default)]
struct Members<'m> {
    jsonrpc: Option<&'m str>,
    id: Option<&'m str>,
    method: Option<&'m str>,
    params: Option<&'m str>,
    result: Option<&'m str>,
    error: Option<&'m str>,
    repeated: Repeated,
    /// The nesting of the whole message.
    depth: usize,
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
fn array(text: &str, limit: usize) -> Option<Vec<&RawValue>> {
    let mut members = Vec::new();
    scan::array(text, |member| {
        if members.len() <= limit {
            members.push(raw::of(member));
        }
    })?;
    Some(members)
}

impl<'m> Members<'m> {
    /// Takes a text apart that is one object.
    fn read(text: &'m str) -> Option<Self> {
        let mut members = Self::default();
        members.depth = scan::object(text, |name, value| members.take(name, value))?;
        Some(members)
    }

    #[inline]
    fn take(&mut self, name: Name<'_>, value: &'m str) {
        // A name that can't be decoded is only one more that nobody reads.
        let Some(name) = name.decoded() else { return };
        let (member, repeated) = match name.as_bytes() {
            b"jsonrpc" => (&mut self.jsonrpc, Repeated::Others),
            b"id" => (&mut self.id, Repeated::Id),
            b"method" => (&mut self.method, Repeated::Others),
            b"params" => (&mut self.params, Repeated::Others),
            b"result" => (&mut self.result, Repeated::Others),
            b"error" => (&mut self.error, Repeated::Others),
            _ => return,
        };
        if member.replace(value).is_some() {
            self.repeated = self.repeated.max(repeated);
        }
    }

    fn message(&self, depth: usize) -> Message<'m> {
        let too_deep = (self.depth > depth).then_some(EnvelopeProblem::TooDeep);
        // An id that stands twice can't be trusted; any other bad message is answered with it (B2).
        let id = self.id.filter(|_| self.repeated != Repeated::Id);
        let repeated =
            (self.repeated != Repeated::Nothing).then_some(EnvelopeProblem::DuplicateMember);
        let version = (self.jsonrpc != Some(VERSION)
            && self.jsonrpc.and_then(text).as_deref() != Some("2.0"))
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
        let Some(method) = text(method) else {
            let problem = problem.unwrap_or(EnvelopeProblem::Method);
            return Message::Invalid { id, problem };
        };
        let params = self.params.filter(|&params| params != "null");
        let bad_params = params
            .is_some_and(|params| !params.starts_with(['{', '[']))
            .then_some(EnvelopeProblem::Params);
        let params = params.map(raw::of);
        match (problem.or(bad_params), self.id) {
            (None, Some(id)) => Message::Request { id, method, params },
            (None, None) => Message::Notification { method, params },
            (Some(problem), Some(_)) => Message::Invalid { id, problem },
            (Some(problem), None) => Message::InvalidNotification { problem },
        }
    }

    fn response(&self) -> Result<Response<'m>, EnvelopeProblem> {
        match (self.result, self.error) {
            (Some(result), None) => Ok(Response::Result(raw::of(result))),
            (None, Some(error)) => {
                error_object(error).map(Response::Error).ok_or(EnvelopeProblem::Error)
            }
            (Some(_), Some(_)) => Err(EnvelopeProblem::ResultAndError),
            (None, None) => Err(EnvelopeProblem::Empty),
        }
    }
}

/// The error object that a token is, if it is one.
pub(super) fn error_object(token: &str) -> Option<ErrorObject<'_>> {
    let (mut code, mut message, mut data) = (None, None, None);
    scan::object(token, |name, value| match name.decoded().as_deref() {
        Some("code") => code = Some(value),
        Some("message") => message = Some(value),
        Some("data") => data = Some(value),
        _ => {}
    })?;
    Some(ErrorObject {
        raw: raw::of(token),
        code: code?.parse().ok()?,
        message: text(message?)?,
        data: data.map(raw::of),
    })
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

/// Hands on the text that a token is, or each text of the list that it is.
pub(crate) fn strings<'m>(token: &'m RawValue, mut take: impl FnMut(Cow<'m, str>)) {
    let mut take_text = |token| text(token).into_iter().for_each(&mut take);
    if scan::array(token.get(), &mut take_text).is_none() {
        take_text(token.get());
    }
}

/// The byte where a text that is no JSON breaks.
fn offset(text: &str) -> usize {
    let Err(error) = serde_json::from_str::<IgnoredAny>(text) else { return text.len() };
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let before: usize = lines.map(str::len).sum();
    (before + error.column().saturating_sub(1)).min(text.len())
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;
    use crate::wire::scan::tests::PIECES;

    const USUAL: [&str; 9] = [
        r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":-7,"method":"bench/echo","params":{"text":"hello","a":[[1],{}]}}"#,
        r#"{"jsonrpc":"2.0","id":"x\u0041","method":"","params":[]}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"long/enough/for/many/bytes","params":[1e3]}"#,
        r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#,
        r#"{"jsonrpc":"2.0","method":"exit"}"#,
        r#"{"jsonrpc":"2.0","id":12,"result":null}"#,
        r#"{"jsonrpc":"2.0","id":12,"result":{"a":[[[0]]]}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"no","data":{"a":[]}}}"#,
    ];

    /// Near to those, and the long way's to judge.
    const UNUSUAL: [&str; 9] = [
        r#"{"jsonrpc":"2.0","id":1,"method":"m","params":null}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"m","params":7}"#,
        r#"{"jsonrpc":"2.0","method":"m","params":"text"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"\u006d"}"#,
        r#"{"jsonrpc":"2.0","id":[1],"method":"m"}"#,
        r#"{"jsonrpc":"2.0","result":null}"#,
        r#"{"jsonrpc":"2.0","error":{"code":1,"message":"no"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"no"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":1,"error":2}"#,
    ];

    #[test]
    fn the_short_way_leaves_the_unusual_alone() {
        for text in UNUSUAL {
            assert!(usual(text, 5).is_none(), "{text}");
        }
    }

    /// What both make of a text, if the short way takes it.
    fn both(text: &str, depth: usize) -> Option<[String; 2]> {
        let short = format!("{:?}", usual(text, depth)?);
        let long = Members::read(text).map(|members| members.message(depth));
        Some([short, format!("{:?}", long.expect("it is JSON"))])
    }

    #[test]
    fn the_short_way_says_what_the_long_way_says() {
        for text in USUAL {
            let [short, long] = both(text, 5).expect("so peers write");
            assert_eq!(short, long, "{text}");
            for at in 0..text.len() {
                for piece in PIECES {
                    for depth in 1..=5 {
                        for end in [at, at + 1] {
                            let changed = format!("{}{piece}{}", &text[..at], &text[end..]);
                            if let Some([short, long]) = both(&changed, depth) {
                                assert_eq!(short, long, "{changed}");
                            }
                        }
                    }
                }
            }
        }
    }
}
