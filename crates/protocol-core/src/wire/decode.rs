//! Takes envelopes apart into borrowed parts; `protocol_json` does the reading.
//!
//! Untagged, flattened and internally tagged serde types don't work with `RawValue`, and
//! `Option<&RawValue>` loses `"result": null`; so each member is taken as the token it is.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;

use protocol_json::{Members, Names};
use serde_json::value::RawValue;

use super::abp::{self, Asked, Origin};
use super::dap;
use crate::config::Limits;
use crate::dialect::{Envelope, ProgressRule, Text};
use crate::event::ErrorObject;
use crate::id::WireId;
use crate::violation::{EnvelopeProblem, Violation};

/// What arrived, or one member of a batch.
#[derive(Debug)]
pub(crate) enum Message<'m> {
    Request(Request<'m>),
    Notification {
        method: Cow<'m, str>,
        params: Option<&'m RawValue>,
    },
    Response {
        /// The id token, of whatever type.
        id: Option<&'m str>,
        /// What it answers, in an envelope that says so.
        asked: Option<Asked>,
        answer: Result<ResponseBody<'m>, EnvelopeProblem>,
    },
    /// No message, or a broken request; the id token is there to answer it with (B2).
    Invalid {
        id: Option<&'m str>,
        origin: Option<Box<Origin>>,
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
    /// Many messages: at most one more than the limit allows.
    Batch(Vec<&'m RawValue>),
}

/// A request as it came in.
#[derive(Debug)]
pub(crate) struct Request<'m> {
    /// The id token, of whatever type.
    pub(crate) id: &'m str,
    pub(crate) method: Cow<'m, str>,
    pub(crate) params: Option<&'m RawValue>,
    /// What stands beside the params in the envelope of ABP.
    pub(crate) options: Option<&'m RawValue>,
    /// Where the answer goes, in an envelope that says more than the id.
    pub(crate) origin: Option<Box<Origin>>,
}

/// What a response says.
#[derive(Debug)]
pub(crate) enum ResponseBody<'m> {
    Result(&'m RawValue),
    Error(ErrorObject<'m>),
}

impl<'m> Message<'m> {
    /// A request, unless something is wrong with it.
    pub(super) fn request(request: Request<'m>, problem: Option<EnvelopeProblem>) -> Self {
        let Some(problem) = problem else { return Self::Request(request) };
        Self::Invalid { id: Some(request.id), origin: request.origin, problem }
    }

    /// A notification, unless something is wrong with it.
    pub(super) fn notification(
        method: Cow<'m, str>,
        params: Option<&'m RawValue>,
        problem: Option<EnvelopeProblem>,
    ) -> Self {
        match problem {
            None => Self::Notification { method, params },
            Some(problem) => Self::InvalidNotification { problem },
        }
    }
}

/// Reads what arrived, if it can be read at all.
#[inline]
pub(crate) fn incoming<'m>(
    bytes: &'m [u8],
    envelope: Envelope,
    limits: &Limits,
) -> Option<Message<'m>> {
    let text = core::str::from_utf8(bytes).ok()?;
    match (bytes.trim_ascii_start().first(), envelope) {
        (Some(b'{'), Envelope::JsonRpc) => message(text, limits.depth),
        (Some(b'{'), Envelope::Abp) => abp::message(text, limits),
        (Some(b'{'), Envelope::Dap) => dap::message(text, limits),
        (Some(b'['), _) => array(text, limits.batch_members).map(Message::Batch),
        _ => protocol_json::value(text).map(|_| NO_OBJECT),
    }
}

/// Where what can't be read breaks.
pub(crate) fn unreadable(bytes: &[u8]) -> Violation {
    match core::str::from_utf8(bytes) {
        Ok(text) => Violation::Parse { offset: protocol_json::broken_at(text) },
        Err(error) => Violation::InvalidUtf8 { offset: error.valid_up_to() },
    }
}

/// Reads one member of a batch.
pub(crate) fn member(value: &RawValue, depth: usize) -> Message<'_> {
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'{') => message(text, depth).expect("a RawValue is valid JSON"),
        _ => NO_OBJECT,
    }
}

const NO_OBJECT: Message<'_> =
    Message::Invalid { id: None, origin: None, problem: EnvelopeProblem::NotAnObject };

/// The params that a value is, if it is some that any envelope has room for. `null` counts as absent: some
/// peers write all that they could say, and some refuse it.
pub(crate) fn structured(
    value: Option<&RawValue>,
    is_array_fine: bool,
) -> Result<Option<&RawValue>, EnvelopeProblem> {
    match value.and_then(|value| value.get().as_bytes().first()) {
        None | Some(b'n') => Ok(None),
        Some(b'{') => Ok(value),
        Some(b'[') if is_array_fine => Ok(value),
        Some(_) => Err(EnvelopeProblem::Params),
    }
}

/// Reads the member `name` of params that are an object: `None` if they are not, or it is missing.
pub(crate) fn param<'m>(params: Option<&'m RawValue>, name: &str) -> Option<&'m RawValue> {
    Members::of(params?.get(), &[name])?.raw(0)
}

/// Follows members of nested objects.
pub(crate) fn path<'m>(value: Option<&'m RawValue>, path: &[Text]) -> Option<&'m RawValue> {
    path.iter().try_fold(value?, |value, name| param(Some(value), name))
}

/// Returns the tokens under which progress of a request with these params is told.
pub(crate) fn progress_tokens(rules: &[ProgressRule], params: Option<&RawValue>) -> Vec<WireId> {
    let paths = rules.iter().flat_map(|rule| rule.tokens_of_call.iter());
    let token = |value: &RawValue| WireId::scanned(value.get());
    paths.filter_map(|path_to| path(params, path_to).and_then(token)).collect()
}

/// Returns the token of a notification, if it is progress.
pub(crate) fn progress_token(
    rules: &[ProgressRule],
    method: &str,
    params: Option<&RawValue>,
) -> Option<WireId> {
    let rule = rules.iter().find(|rule| rule.method == method)?;
    WireId::scanned(param(params, &rule.token)?.get())
}

/// Hands on the text that a token is, or each text of the list that it is.
pub(crate) fn strings<'m>(token: &'m RawValue, mut take: impl FnMut(Cow<'m, str>)) {
    let mut take_text = |token| string(token).into_iter().for_each(&mut take);
    if protocol_json::array(token.get(), &mut take_text).is_none() {
        take_text(token);
    }
}

/// Reads the members of a batch. Only the first member over `limit` is kept: it shows that there are too
/// many, and a hostile million costs no memory (G8).
fn array(text: &str, limit: usize) -> Option<Vec<&RawValue>> {
    let mut members = Vec::new();
    protocol_json::array(text, |member| {
        if members.len() <= limit {
            members.push(member);
        }
    })?;
    Some(members)
}

/// How nearly every peer begins its messages.
const OPENING: &str = r#"{"jsonrpc":"2.0","#;

/// The members of an envelope, in the order in which peers write them; the version is mostly read with
/// the opening.
const NAMES: Names<6> = Names::new(["id", "method", "params", "result", "error", "jsonrpc"]);

const ID: usize = 0;
const METHOD: usize = 1;
const PARAMS: usize = 2;
const RESULT: usize = 3;
const ERROR: usize = 4;
const VERSION: usize = 5;

/// The members of an error object.
const ERROR_NAMES: [&str; 3] = ["code", "message", "data"];

/// Reads a text that is one object.
fn message(text: &str, most: usize) -> Option<Message<'_>> {
    let begun = if text.starts_with(OPENING) { OPENING.len() } else { 0 };
    let (mut members, mut error) = (Members::NONE, None);
    // An error object is read in the same pass.
    members.read(text, begun, &NAMES, ERROR, &mut error, &const { Names::new(ERROR_NAMES) })?;
    let is_opened = begun > 0;
    let problem = if members.has_repeated() || (is_opened && members.token(VERSION).is_some()) {
        Some(EnvelopeProblem::DuplicateMember)
    } else if members.depth > most {
        Some(EnvelopeProblem::TooDeep)
    } else if !is_opened && members.string(VERSION).as_deref() != Some("2.0") {
        Some(EnvelopeProblem::Version)
    } else {
        None
    };
    Some(match members.token(METHOD) {
        Some(_) => asking(&members, problem),
        None => answering(&members, error.as_ref(), problem),
    })
}

/// A message that has a method.
fn asking<'m>(members: &Members<'m, 6>, problem: Option<EnvelopeProblem>) -> Message<'m> {
    let params = structured(members.raw(PARAMS), true);
    let Some(method) = members.string(METHOD) else {
        let problem = problem.unwrap_or(EnvelopeProblem::Method);
        return Message::Invalid { id: members.once(ID), origin: None, problem };
    };
    let (params, problem) = (params.unwrap_or_default(), problem.or(params.err()));
    let Some(id) = members.token(ID) else {
        return Message::notification(method, params, problem);
    };
    match problem {
        None => Message::Request(Request { id, method, params, options: None, origin: None }),
        // The id to answer a bad message with (B2). One that stands twice can't be trusted.
        Some(problem) => Message::Invalid { id: members.once(ID), origin: None, problem },
    }
}

/// A message that has no method.
fn answering<'m>(
    members: &Members<'m, 6>,
    error_members: Option<&Members<'m, 3>>,
    problem: Option<EnvelopeProblem>,
) -> Message<'m> {
    let id = members.once(ID);
    let answer = match (members.raw(RESULT), members.raw(ERROR), problem) {
        (None, None, problem) => {
            let problem = problem.unwrap_or(EnvelopeProblem::Empty);
            // What has params can only be a broken request.
            return match members.token(PARAMS) {
                Some(_) => Message::Invalid { id, origin: None, problem },
                None => Message::Neither { id, problem },
            };
        }
        (_, _, Some(problem)) => Err(problem),
        (Some(_), Some(_), None) => Err(EnvelopeProblem::ResultAndError),
        (Some(result), None, None) => Ok(ResponseBody::Result(result)),
        (None, Some(error), None) => {
            let error = error_members.and_then(|members| error_of(error, members));
            error.map(ResponseBody::Error).ok_or(EnvelopeProblem::Error)
        }
    };
    Message::Response { id, asked: None, answer }
}

/// The error object that a value is, if it is one.
pub(super) fn error_object(value: &RawValue) -> Option<ErrorObject<'_>> {
    error_of(value, &Members::of(value.get(), &ERROR_NAMES)?)
}

fn error_of<'m>(value: &'m RawValue, members: &Members<'m, 3>) -> Option<ErrorObject<'m>> {
    Some(ErrorObject {
        raw: Cow::Borrowed(value),
        code: members.token(0)?.parse().ok()?,
        message: members.string(1)?,
        data: members.raw(2).map(Cow::Borrowed),
    })
}

/// What a value says, if it is a string.
pub(crate) fn string(value: &RawValue) -> Option<Cow<'_, str>> {
    protocol_json::string(value.get())
}
