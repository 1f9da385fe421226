//! The lines of a recording: its schema. docs/recording.md describes every member.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// The version of the schema. It grows when a line that is there already changes its meaning; a member
/// or a line that is new does not change it.
pub const VERSION: u32 = 1;

/// One line: an object with one member, whose name says what the line tells of.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Line<'a> {
    /// The first line of every file.
    Recording(#[serde(borrow)] Header<'a>),
    /// A connection was opened after the first line was written.
    Opened(#[serde(borrow)] Hop<'a>),
    /// A message went over a connection.
    Message(#[serde(borrow)] Message<'a>),
    /// The core of a relay was given something else than a message.
    Input(#[serde(borrow)] Input<'a>),
    /// A decision about messages that this side made.
    Verdict(#[serde(borrow)] Verdict<'a>),
    /// A gap: there was no room for what happened here.
    Dropped(Dropped),
    /// The recording ended in good order.
    End(End),
}

/// The first line of a file: the recorded program and the settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Header<'a> {
    /// The version of the schema.
    pub version: u32,
    /// The program that records, and its version.
    #[serde(borrow)]
    pub by: Cow<'a, str>,
    /// The program that is recorded, without its arguments: they may hold secrets.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Cow<'a, str>>,
    /// The wall-clock time at microsecond 0, as RFC 3339 writes it.
    #[serde(borrow)]
    pub start: Cow<'a, str>,
    /// The number of this file within the recording, from 1.
    pub part: u64,
    /// Whether messages are kept whole.
    pub payloads: Payloads,
    /// Settings of the recording program, in its own words, to set the same thing up again.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<&'a RawValue>,
    /// The connections that are open where the file begins.
    #[serde(borrow)]
    pub hops: Vec<Hop<'a>>,
}

/// Whether messages are kept whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Payloads {
    /// Only the length of params, results and errors is kept.
    #[default]
    Redacted,
    /// They are kept, but for messages that may hold the token of an operation.
    Kept,
}

/// A connection that was opened.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hop<'a> {
    /// When it was opened, in microseconds.
    pub t: u64,
    /// Its name in the other lines.
    #[serde(borrow)]
    pub hop: Cow<'a, str>,
    /// The side of the connection that records.
    pub role: Role,
    /// The dialect that it began with.
    #[serde(borrow)]
    pub dialect: Cow<'a, str>,
}

/// The side of a connection that records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The one that opened it.
    Client,
    /// The one that was connected to.
    Server,
}

/// One message, or a batch of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Message<'a> {
    /// When it was taken from the bytes that were read, or put among those to be written, in
    /// microseconds.
    pub t: u64,
    /// Over which connection.
    #[serde(borrow)]
    pub hop: Cow<'a, str>,
    /// The direction in which it passed.
    pub dir: Direction,
    /// When the core of a relay was given it, in nanoseconds of that core's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// Its length without framing.
    pub bytes: u64,
    /// The content: one part, or one for each member of a batch.
    #[serde(borrow)]
    pub parts: Vec<Part<'a>>,
    /// The whole message, if messages are kept and it is UTF-8.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Cow<'a, str>>,
    /// The whole message in base64, if messages are kept and it is not UTF-8.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<Cow<'a, str>>,
    /// The reason that the message is absent, though messages are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<Withheld>,
}

/// The direction of a message, as the side that records sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// To the peer.
    Sent,
    /// From the peer.
    Received,
}

/// The reason that a message is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Withheld {
    /// It may hold the token of an operation: whoever has one can cancel that operation.
    OperationToken,
}

/// The content of one message, without its payload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part<'a> {
    /// The kind of the message.
    pub kind: Kind,
    /// Its id, as its sender wrote it.
    #[serde(borrow, default, deserialize_with = "token", skip_serializing_if = "Option::is_none")]
    pub id: Option<Id<'a>>,
    /// The name of its method, if it has one.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Cow<'a, str>>,
    /// The id of the request that it cancels.
    #[serde(borrow, default, deserialize_with = "token", skip_serializing_if = "Option::is_none")]
    pub cancels: Option<Id<'a>>,
    /// The code of its error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i64>,
    /// The length of its params, result or error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<u64>,
    /// The news of work that it has, if any.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work<'a>>,
}

/// The longest id and name of work that is kept, in bytes: the longest that connections take by default.
pub(crate) const ID_BYTES: usize = 256;

/// The news that a message has of work: of a turn, a task or a progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work<'a> {
    /// The kind of work, as the dialect calls it.
    #[serde(borrow)]
    pub kind: Cow<'a, str>,
    /// A hash of its name, for the name may be a secret. Absent if the message does not name the work.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Cow<'a, str>>,
    /// The step of the work that the message reports.
    pub news: News,
}

/// The news of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum News {
    /// The request is the work: its response ends that.
    Request,
    /// The work began, and goes on until a message says that it ended.
    Began,
    /// The work is to stop.
    Stop,
    /// The request is made as a part of the work.
    Nested,
    /// The work ended.
    Ended,
    /// The work ended because it was stopped.
    Stopped,
    /// The result may speak of work.
    Asked,
}

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// A request that is no cancel.
    Request,
    /// A notification that is no cancel.
    Notification,
    /// A cancel of the connection's dialect, whether that is a notification or a request.
    Cancel,
    /// An answer with a result.
    Result,
    /// An answer with an error.
    Error,
    /// None of these.
    Unreadable,
}

/// An input of a relay's core that is no message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Input<'a> {
    /// When, in microseconds.
    pub t: u64,
    /// When that was by the core's clock, in nanoseconds.
    pub at: u64,
    /// From which connection; nothing but the time comes from none.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub hop: Option<Cow<'a, str>>,
    /// The kind of the input.
    pub input: InputKind,
    /// The number of bytes in which no message was found, or that were kept of one over the limit.
    #[serde(default, skip_serializing_if = "is_none_left")]
    pub bytes: u64,
    /// Those bytes in base64, if messages are kept.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<Cow<'a, str>>,
}

/// The kind of a core's input that is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InputKind {
    /// The time: timers were due.
    Time,
    /// The end of what the peer says.
    End,
    /// A message over the limit, which was skipped; its outline is kept.
    TooLarge,
    /// Bytes in which no message can be found any more.
    Broken,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
const fn is_none_left(bytes: &u64) -> bool {
    *bytes == 0
}

/// A decision about messages.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Verdict<'a> {
    /// When, in microseconds.
    pub t: u64,
    /// On which connection.
    #[serde(borrow)]
    pub hop: Cow<'a, str>,
    /// The name of the decision.
    #[serde(borrow)]
    pub verdict: Cow<'a, str>,
    /// The id of the request that it is about.
    #[serde(borrow, default, deserialize_with = "token", skip_serializing_if = "Option::is_none")]
    pub id: Option<Id<'a>>,
    /// The settlement of a request of ours.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Cow<'a, str>>,
    /// The reason that it was cancelled, timed out or lost.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cow<'a, str>>,
    /// The rule that was broken, or the reason that a message was not passed on or a connection closed.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Cow<'a, str>>,
}

/// A gap in the recording: lines that were not written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// When it began, in microseconds.
    pub t: u64,
    /// When it ended.
    pub until: u64,
    /// The number of missing lines.
    pub lines: u64,
    /// The bytes of their messages.
    pub bytes: u64,
}

/// The end of a recording, which is its last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// When, in microseconds.
    pub t: u64,
    /// The number of messages and verdicts that the recording holds, in all of its files.
    pub lines: u64,
    /// The number of missing ones.
    pub dropped: u64,
}

/// An id of the wire, as the exact JSON that its sender wrote: `1` and `"1"` are two.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Id<'a>(Cow<'a, RawValue>);

impl<'a> Id<'a> {
    /// Returns the id that this JSON is; `None` if it is no JSON.
    #[must_use]
    pub fn from_json(json: String) -> Option<Id<'static>> {
        RawValue::from_string(json).ok().map(|raw| Id(Cow::Owned(raw)))
    }

    pub(crate) const fn of(raw: &'a RawValue) -> Self {
        Self(Cow::Borrowed(raw))
    }

    /// Returns the id as its sender wrote it.
    #[must_use]
    pub fn as_json(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for Id<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_json() == other.as_json()
    }
}

/// A member that is there, be it null.
fn token<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Id<'a>>, D::Error> {
    <&'a RawValue>::deserialize(deserializer).map(|raw| Some(Id::of(raw)))
}
