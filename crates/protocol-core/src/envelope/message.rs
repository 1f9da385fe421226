//! Incoming messages, as every envelope's reader returns them.
//!
//! Untagged, flattened and internally tagged serde types don't work with `RawValue`, and
//! `Option<&RawValue>` loses `"result": null`. So each member is kept as its token.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;

use protocol_json::Members;
use serde_json::value::RawValue;

use crate::dialect::RequestKind;
use crate::event::ErrorObject;
use crate::id::WireId;
use crate::violation::{EnvelopeProblem as Problem, Violation};

/// A message of the peer's, or one member of a batch. Ids are tokens of whatever type.
#[derive(Debug)]
pub(crate) enum Message<'m> {
    /// A request that the envelope has nothing against.
    Request(Request<'m>),
    /// A notification that the envelope has nothing against.
    Notification { method: Cow<'m, str>, params: Option<&'m RawValue> },
    /// A response. The kind of its request is there in an envelope that tells it.
    Response { id: Option<&'m str>, kind: Option<RequestKind>, body: ResponseBody<'m> },
    /// A broken request, or no message at all. The id is there to respond to it (B2).
    Invalid { id: Option<&'m str>, origin: Option<Box<Origin>>, problem: Problem },
    /// Neither method nor result nor error: a broken request, or a broken response to a call.
    Neither { id: Option<&'m str>, problem: Problem },
    /// A notification that can't be served, and must not be responded to.
    InvalidNotification { problem: Problem },
    /// Many messages: at most one more than the limit allows.
    Batch(Vec<&'m RawValue>),
}

/// A request of the peer's.
#[derive(Debug)]
pub(crate) struct Request<'m> {
    /// The id token, of whatever type.
    pub(crate) id: &'m str,
    pub(crate) kind: RequestKind,
    pub(crate) method: Cow<'m, str>,
    pub(crate) params: Option<&'m RawValue>,
    /// The options that stand beside the params in the envelope of ABP.
    pub(crate) options: Option<&'m RawValue>,
    /// The rest of what its response repeats, in an envelope where that is more than the id.
    pub(crate) origin: Option<Box<Origin>>,
}

/// The parts of a request, beside its id, that its response repeats.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// In ABP the type of the response, in DAP the command.
    pub(super) name: Box<str>,
    /// In ABP the id of the request's message, unless it can't be read. A call has a call id beside it.
    pub(super) message_id: Option<WireId>,
}

/// The content of a response.
#[derive(Debug)]
pub(crate) enum ResponseBody<'m> {
    Result(&'m RawValue),
    Error(ErrorObject<'m>),
    Malformed(Problem),
}

impl<'m> ResponseBody<'m> {
    /// Returns an error, if its object could be read.
    pub(super) fn error(object: Option<ErrorObject<'m>>) -> Self {
        object.map_or(Self::Malformed(Problem::Error), Self::Error)
    }

    /// Returns the rule that the response breaks by itself.
    pub(crate) const fn violation(&self) -> Option<Violation> {
        let Self::Malformed(problem) = *self else { return None };
        Some(Violation::MalformedResponse { problem })
    }

    /// Returns the result, if it is one.
    pub(crate) const fn result(&self) -> Option<&'m RawValue> {
        if let Self::Result(result) = self { Some(result) } else { None }
    }
}

/// Params that can be sent, if there are any.
pub(crate) type Params<'m> = Result<Option<&'m RawValue>, Problem>;

impl<'m> Message<'m> {
    /// JSON that is neither an object nor a batch.
    pub(crate) const NO_OBJECT: Self =
        Self::Invalid { id: None, origin: None, problem: Problem::NotAnObject };

    /// Returns the same message as an invalid one.
    pub(crate) fn with_problem(self, problem: Problem) -> Self {
        match self {
            Self::Request(Request { id, origin, .. }) => {
                Self::Invalid { id: Some(id), origin, problem }
            }
            Self::Notification { .. } | Self::InvalidNotification { .. } => {
                Self::InvalidNotification { problem }
            }
            Self::Response { id, kind, .. } => {
                Self::Response { id, kind, body: ResponseBody::Malformed(problem) }
            }
            Self::Invalid { id, origin, .. } => Self::Invalid { id, origin, problem },
            Self::Neither { id, .. } => Self::Neither { id, problem },
            Self::Batch(_) => Self::Invalid { id: None, origin: None, problem },
        }
    }

    /// Returns a request, unless there is a problem with it.
    pub(super) fn request(request: Request<'m>, problem: Option<Problem>) -> Self {
        let Some(problem) = problem else { return Self::Request(request) };
        Self::Invalid { id: Some(request.id), origin: request.origin, problem }
    }

    /// Returns a notification, unless there is a problem with it.
    pub(super) fn notification(
        method: Cow<'m, str>,
        params: Option<&'m RawValue>,
        problem: Option<Problem>,
    ) -> Self {
        let Some(problem) = problem else { return Self::Notification { method, params } };
        Self::InvalidNotification { problem }
    }
}

impl RequestKind {
    /// Checks the params of a request of this kind. Those of a typed message are no array.
    ///
    /// # Errors
    ///
    /// [`EnvelopeProblem::Params`](Problem::Params).
    pub(crate) fn params(self, value: Option<&RawValue>) -> Params<'_> {
        structured(value, self == Self::Ordinary)
    }
}

/// Returns the params that a value is. `null` counts as absent: some peers write all their members, and some
/// refuse `null`.
pub(super) fn structured(value: Option<&RawValue>, allows_array: bool) -> Params<'_> {
    match value.and_then(|value| value.get().as_bytes().first()) {
        None | Some(b'n') => Ok(None),
        Some(b'{') => Ok(value),
        Some(b'[') if allows_array => Ok(value),
        Some(_) => Err(Problem::Params),
    }
}

/// Reports a member that stands twice.
pub(super) fn repeated<const N: usize>(members: &Members<'_, N>) -> Option<Problem> {
    members.has_repeated().then_some(Problem::DuplicateMember)
}
