//! The outside view of a connection, without payloads.

use protocol_core::{
    CancelRule, Cause, CloseReason, Dialect, Envelope, Event, Settlement, TransmitKind, code,
};
use serde_json::Value;

use super::message::{Answered, Asked, Id, Message};
use super::reading;

/// An event for a host, without its payload.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Told {
    /// The peer asks. Requests are counted from 1.
    Request {
        /// The number of the request.
        request: u64,
        /// The id that the peer gave it.
        id: Id,
    },
    /// The peer notifies.
    Notification {
        /// The name of its method.
        method: String,
    },
    /// A request is marked cancelled.
    Cancelled {
        /// The number of the request.
        request: u64,
        /// The reason for the cancellation.
        cause: Cause,
    },
    /// A call is over.
    Settled {
        /// Its number on the wire.
        call: u32,
        /// The way in which it ended.
        settlement: Settlement,
        /// The cause, if nobody answered.
        cause: Option<Cause>,
    },
    /// A request and all calls made for it are over.
    TreeSettled {
        /// The number of the request.
        request: u64,
    },
    /// The peer broke a rule.
    Violation {
        /// The rule, as [`Violation::as_str`](protocol_core::Violation::as_str) names it.
        rule: &'static str,
        /// The id of the message.
        id: Option<Id>,
    },
    /// There is room again.
    Ready,
    /// Nothing comes in any more.
    Closed {
        /// The reason why the connection closed.
        reason: CloseReason,
    },
    /// Work began, was stopped or ended, of which the model knows nothing.
    Work,
    /// An event of a kind that the model doesn't know.
    Unknown,
}

/// A message that leaves, without payloads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sent {
    /// The request of the call of that number.
    Request(u32),
    /// A notification of that method.
    Notification(String),
    /// A cancel that names this id.
    Cancel(Id),
    /// A cancel that is a request.
    CancelRequest {
        /// Its own number.
        number: u32,
        /// The id, or the token of the operation, that it names.
        names: Id,
    },
    /// The answer to a cancel that is a request.
    Acknowledgement {
        /// The id of the cancel.
        id: Id,
        /// The outcome of the cancel.
        says: Acknowledged,
    },
    /// The answer to a request that goes on as an operation.
    Token {
        /// The id that it answers.
        id: Id,
        /// The token of the operation.
        token: Id,
    },
    /// The client is told that its operation was cancelled.
    OperationCancelled {
        /// The token of the operation.
        token: Id,
        /// The reason that the client is told.
        reason: String,
    },
    /// A response to one request.
    Answer(Answer),
    /// The answers of a batch.
    Answers(Vec<Answer>),
}

/// The outcome of a cancel, as the answer to it tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Acknowledged {
    /// The target is cancelled, or was before.
    Cancelled,
    /// The target was answered already.
    Completed,
    /// There is no such target.
    NotFound,
    /// The target may not be cancelled, or not by that side.
    NotAllowed,
}

/// An answer, without its payload.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Answer {
    /// The id of the message that it answers.
    pub id: Id,
    /// The call id, in an envelope where that is another.
    pub call: Option<Id>,
    /// The code of an error; `None` for a result.
    pub code: Option<i64>,
}

impl Told {
    /// Returns the model's form of an event.
    pub(crate) fn of<O>(event: &Event<'_, O>) -> Self {
        match event {
            Event::Request { request, id, .. } => {
                Self::Request { request: request.number(), id: spelled(id) }
            }
            Event::Notification { method, .. } => {
                Self::Notification { method: method.clone().into_owned() }
            }
            Event::Cancelled { request, cause, .. } => {
                Self::Cancelled { request: request.number(), cause: *cause }
            }
            Event::Settled { call, outcome, .. } => Self::Settled {
                call: call.number(),
                settlement: outcome.settlement(),
                cause: outcome.cause(),
            },
            Event::TreeSettled { request } => Self::TreeSettled { request: request.number() },
            Event::Violation { violation, id } => Self::Violation {
                rule: violation.as_str(),
                id: id.as_ref().map(|id| spelled(id.as_json())),
            },
            Event::Ready => Self::Ready,
            Event::Closed { reason } => Self::Closed { reason: *reason },
            Event::WorkBegan { .. }
            | Event::WorkStopped { .. }
            | Event::WorkResumed { .. }
            | Event::WorkEnded { .. } => Self::Work,
            _ => Self::Unknown,
        }
    }
}

impl Sent {
    /// Returns whether a request, or a cancel that is one, gets its answer with it.
    pub(crate) const fn is_answer(&self) -> bool {
        matches!(
            self,
            Self::Answer(_) | Self::Answers(_) | Self::Token { .. } | Self::Acknowledgement { .. }
        )
    }

    /// Returns the model's form of a message; `None` if no connection may send it.
    pub(crate) fn of(kind: TransmitKind, message: &[u8], dialect: &Dialect) -> Option<Self> {
        let message: Value = serde_json::from_slice(message).ok()?;
        let envelope = dialect.envelope;
        let [asked, answered] = reading::id_members(envelope);
        if kind == TransmitKind::Acknowledgement {
            let id = message.get(answered)?.to_string();
            return Some(Self::Acknowledgement { id, says: Acknowledged::of(&message, envelope)? });
        }
        if let (TransmitKind::Response, Some(all)) = (kind, message.as_array()) {
            let answers = all.iter().map(|answer| Answer::of(answer, envelope));
            return Some(Self::Answers(answers.collect::<Option<_>>()?));
        }
        match (kind, reading::message(&message, envelope)) {
            (TransmitKind::Request, Message::Request { .. }) => {
                Some(Self::Request(reading::our_number(&message[asked], envelope)?))
            }
            (TransmitKind::Notification, Message::Notification { method, params }) => {
                let tells_of_cancels = matches!(
                    &dialect.cancel,
                    CancelRule::Operation { notification, .. } if notification == method
                );
                Some(match tells_of_cancels {
                    true => Self::OperationCancelled {
                        token: params.get("requestId")?.to_string(),
                        reason: params.get("reason")?.as_str()?.into(),
                    },
                    false => Self::Notification(method.into()),
                })
            }
            (TransmitKind::Cancel, Message::Notification { method, params }) => {
                let id = cancel_member(dialect, method)?;
                Some(Self::Cancel(params.get(id)?.to_string()))
            }
            (TransmitKind::Cancel, Message::Request { id, params, .. }) => {
                let member = member_of_request(&dialect.cancel)?;
                let number = reading::our_number(id, envelope)?;
                Some(Self::CancelRequest { number, names: params.get(member)?.to_string() })
            }
            (TransmitKind::Response, Message::Response { id, answer, .. }) => {
                match (token_member(dialect), answer) {
                    (Some(member), Some(Answered::Result(result)))
                        if result[member].is_string() =>
                    {
                        Some(Self::Token { id: id.to_string(), token: result[member].to_string() })
                    }
                    _ => Answer::of(&message, envelope).map(Self::Answer),
                }
            }
            _ => None,
        }
    }
}

/// Returns the member that names a request in a cancel of this method: the dialect's, or that of a revision
/// which was spoken when the message was written.
fn cancel_member<'d>(dialect: &'d Dialect, method: &str) -> Option<&'d str> {
    let revisions = dialect.revisions.iter().map(|(_, revision)| revision);
    let spoken = std::iter::once(dialect).chain(revisions);
    spoken.map(|dialect| &dialect.cancel).find_map(|cancel| match cancel {
        CancelRule::Notification { method: cancel, id, .. } if cancel == method => Some(&**id),
        _ => None,
    })
}

/// Returns the member that names what to cancel in the params of a cancel that is a request.
pub(super) fn member_of_request(cancel: &CancelRule) -> Option<&str> {
    match cancel {
        CancelRule::Request { id: member, .. } | CancelRule::Operation { token: member, .. } => {
            Some(member)
        }
        _ => None,
    }
}

/// Returns the member of an answer that holds the token of an operation, where there are any.
pub(crate) fn token_member(dialect: &Dialect) -> Option<&str> {
    match &dialect.cancel {
        CancelRule::Operation { token, .. } => Some(token),
        _ => None,
    }
}

/// Returns whether a request of this method may go on as an operation.
pub(super) fn starts_operation(dialect: &Dialect, method: &str) -> bool {
    match &dialect.cancel {
        CancelRule::Operation { started_by, .. } => started_by.iter().any(|it| it == method),
        _ => false,
    }
}

impl Acknowledged {
    fn of(message: &Value, envelope: Envelope) -> Option<Self> {
        let Message::Response { answer, .. } = reading::message(message, envelope) else {
            return None;
        };
        if envelope == Envelope::Dap {
            let words = message["message"].as_str();
            return words.map_or(Some(Self::Cancelled), Self::of_words);
        }
        match answer? {
            Answered::Error(code::OPERATION_NOT_FOUND) => Some(Self::NotFound),
            Answered::Error(_) => None,
            Answered::Result(said)
                if said["status"] == "cancelled" || said["cancelled"] == true =>
            {
                Some(Self::Cancelled)
            }
            Answered::Result(said) => Self::of_words(said["reason"].as_str()?),
        }
    }

    fn of_words(words: &str) -> Option<Self> {
        match words {
            "Operation already completed" => Some(Self::Completed),
            "Operation not found" => Some(Self::NotFound),
            "Operation can't be cancelled" => Some(Self::NotAllowed),
            _ => None,
        }
    }
}

impl Answer {
    /// Returns the model's form of a response; `None` if the message is none.
    pub(crate) fn of(message: &Value, envelope: Envelope) -> Option<Self> {
        let Message::Response { id, asked, answer } = reading::message(message, envelope) else {
            return None;
        };
        let code = match answer? {
            Answered::Result(_) => None,
            Answered::Error(code) => Some(code),
        };
        let call = (asked == Some(Asked::Capability)).then(|| id.to_string());
        let [_, answered] = reading::id_members(envelope);
        Some(Self { id: message.get(answered)?.to_string(), call, code })
    }
}

/// Returns the one spelling of an id token.
pub(crate) fn spelled(token: &str) -> Id {
    serde_json::from_str::<Value>(token).map_or_else(|_| token.into(), |id| id.to_string())
}
