//! The events that can happen to two connected hosts, as data.

use std::fmt;
use std::time::Duration;

use protocol_core::{CallOptions, Cause, Dialect, Envelope, Grace, Role, Shutdown};
use protocol_record::Mark;
use serde_json::value::RawValue;

use crate::hostile::Hostile;

/// One thing that happens to two connected hosts. `at` names the host. `call` counts the calls that this host
/// made, from 0, and `request` the requests that reached it. A number that is too large wraps around, and
/// without any call or request the operation does nothing. So every sequence of operations is legal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// The host calls its peer.
    Call {
        /// The host to which it happens.
        at: Role,
        /// The call's options.
        asked: Asked,
    },
    /// The host cancels a call.
    Cancel {
        /// The host to which it happens.
        at: Role,
        /// The call, counted from 0.
        call: u8,
        /// [`Cause::Caller`] or [`Cause::Dropped`].
        cause: Cause,
    },
    /// The host gives up interest in a call.
    Detach {
        /// The host to which it happens.
        at: Role,
        /// The call, counted from 0.
        call: u8,
    },
    /// The host answers a request.
    Respond {
        /// The host to which it happens.
        at: Role,
        /// The request, counted from 0.
        request: u8,
        /// The response that it sends.
        answer: Answering,
    },
    /// The host answers a request with the token of an operation that goes on, where the dialect
    /// knows such.
    Begin {
        /// The host to which it happens.
        at: Role,
        /// The request, counted from 0.
        request: u8,
    },
    /// The host sends a cancel of its own routing, that names the call's id on the wire, or the
    /// token that answered it.
    SendCancel {
        /// The host to which it happens.
        at: Role,
        /// The call, counted from 0.
        call: u8,
    },
    /// The host ends a request without an answer, where the dialect lets it.
    End {
        /// The host to which it happens.
        at: Role,
        /// The request, counted from 0.
        request: u8,
    },
    /// The host cancels a request for a reason of its own.
    GiveUp {
        /// The host to which it happens.
        at: Role,
        /// The request, counted from 0.
        request: u8,
    },
    /// The host sends a notification.
    Notify {
        /// The host to which it happens.
        at: Role,
        /// A long one has 600 bytes, and fills outboxes.
        long: bool,
    },
    /// The host sends progress, as its dialect knows it.
    Progress {
        /// The host to which it happens.
        at: Role,
        /// The progress token.
        token: u8,
    },
    /// Up to so many messages leave the host's outbox, as far as the line has room.
    Drain {
        /// The host to which it happens.
        at: Role,
        /// The most messages that leave.
        messages: u8,
    },
    /// A message, or the end of input, arrives.
    Arrive {
        /// The host that reads it.
        at: Role,
        /// The place of the message among those that may arrive next.
        place: u8,
        /// It is read in pieces of so many bytes; 0 means whole.
        piece: u8,
    },
    /// Somebody on the line writes what no well-behaved peer would.
    Hostile {
        /// The host that will read it.
        to: Role,
        /// The message that it will read.
        message: Hostile,
        /// The place in [`Hostile::IDS`] of the id that it holds.
        id: u8,
    },
    /// Time goes by, and due timers fire.
    Wait {
        /// The time that goes by, in milliseconds.
        millis: u16,
    },
    /// The host closes its writing end; its peer reads that after what is on its way.
    HangUp {
        /// The host to which it happens.
        at: Role,
    },
    /// The line is cut: what is on its way is lost, and both hosts read the end.
    Cut,
    /// The host shuts its connection down.
    Shutdown {
        /// The host to which it happens.
        at: Role,
        /// The way in which it shuts down.
        how: Shutdown,
    },
}

/// The options of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Asked {
    /// Method and params.
    pub method: Method,
    /// Its progress token.
    pub token: u8,
    /// Deadline in milliseconds; 0 for none.
    pub deadline: u8,
    /// Idle timeout in milliseconds; 0 for none.
    pub idle: u8,
    /// Hard cap in milliseconds; 0 for none.
    pub hard_cap: u8,
    /// The grace of the call once it is cancelled, in whole milliseconds; `None` for that of its dialect.
    pub grace: Option<Grace>,
    /// The request that it is made for.
    pub parent: Option<u8>,
}

/// The methods that some dialect treats in a way of its own, and one that none does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Ordinary work, which no dialect treats in a way of its own.
    Work,
    /// `initialize`, declaring that we can be asked to cancel.
    Declare,
    /// `initialize`, not declaring it.
    Initialize,
    /// A request that holds a task.
    Task,
    /// `subscriptions/listen`, which a server may end.
    Listen,
    /// `tool/call`, which may go on as an operation.
    Tool,
    /// `server/discover`, whose result may name the revisions that the server speaks.
    Discover,
}

/// The way in which a host answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answering {
    /// With a result, which declares that we can be asked to cancel if it answers `initialize`.
    Result,
    /// With an error.
    Error,
    /// With the dialect's answer of a cancelled request.
    Cancelled,
    /// With a result that names the revision of this place in the dialect's list, where the peers agree
    /// on one.
    Revision(u8),
}

impl Answering {
    /// Returns the text of its result. The result declares that we can be asked to cancel, and may name the
    /// revision to speak.
    pub(crate) fn result(self, dialect: &Dialect) -> String {
        let (Self::Revision(place), revisions @ [_, ..]) = (self, &*dialect.revisions) else {
            let declared = match dialect.envelope {
                Envelope::Dap => r#"{"supportsCancelRequest":true}"#,
                _ => r#"{"agentCapabilities":{"cancellation":{"request":true}}}"#,
            };
            return declared.into();
        };
        // Beyond the last, one that nobody speaks. An older one may stand in a list with others.
        let version =
            |place: usize| revisions.get(place).map_or("1999-12-31", |(version, _)| version);
        let place = usize::from(place) % (revisions.len() + 1);
        let (version, next) = (version(place), version(place + 1));
        format!(r#"{{"protocolVersion":"{version}","supportedVersions":["{next}","{version}"]}}"#)
    }
}

impl Asked {
    /// Returns ordinary work without timers, whose progress token is `token`.
    #[must_use]
    pub const fn work(token: u8) -> Self {
        Self {
            method: Method::Work,
            token,
            deadline: 0,
            idle: 0,
            hard_cap: 0,
            grace: None,
            parent: None,
        }
    }

    /// Returns the options of the call, without its parent.
    #[must_use]
    pub fn options(&self) -> CallOptions {
        CallOptions::default()
            .timeout(timer(self.deadline))
            .idle_timeout(timer(self.idle))
            .hard_cap(timer(self.hard_cap))
            .grace(self.grace)
    }

    /// Returns its params, as JSON.
    #[must_use]
    pub fn params(&self) -> String {
        let token = self.token;
        match self.method {
            Method::Declare => r#"{"clientCapabilities":{"cancellation":{"request":true}}}"#.into(),
            Method::Initialize | Method::Discover => "{}".into(),
            Method::Task => format!(r#"{{"task":{{}},"_meta":{{"progressToken":{token}}}}}"#),
            Method::Work | Method::Listen | Method::Tool => format!(
                r#"{{"sessionId":{token},"workDoneToken":{token},"_meta":{{"progressToken":{token}}}}}"#
            ),
        }
    }
}

fn timer(millis: u8) -> Option<Duration> {
    (millis > 0).then(|| Duration::from_millis(millis.into()))
}

impl Method {
    /// Returns its name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Work => "work",
            Self::Declare | Self::Initialize => "initialize",
            Self::Task => "tools/call",
            Self::Listen => "subscriptions/listen",
            Self::Tool => "tool/call",
            Self::Discover => "server/discover",
        }
    }
}

impl Operation {
    /// Returns the end of the line that it happens at, if it happens at one.
    #[must_use]
    pub const fn at(self) -> Option<Role> {
        match self {
            Self::Call { at, .. }
            | Self::Cancel { at, .. }
            | Self::Detach { at, .. }
            | Self::Respond { at, .. }
            | Self::Begin { at, .. }
            | Self::SendCancel { at, .. }
            | Self::End { at, .. }
            | Self::GiveUp { at, .. }
            | Self::Notify { at, .. }
            | Self::Progress { at, .. }
            | Self::Drain { at, .. }
            | Self::Arrive { at, .. }
            | Self::Hostile { to: at, .. }
            | Self::HangUp { at }
            | Self::Shutdown { at, .. } => Some(at),
            Self::Wait { .. } | Self::Cut => None,
        }
    }

    /// Returns its mark in a chart; nothing if the messages show it already.
    pub(crate) fn mark(&self, lane: usize) -> Option<Mark> {
        let text = self.to_string();
        match self {
            Self::Drain { .. } | Self::Arrive { .. } => None,
            Self::Hostile { .. } => Some(Mark::at(lane, text)),
            _ => {
                let (_, what) = text.split_once(' ').unwrap_or(("", &text));
                Some(Mark::at(lane, what.into()))
            }
        }
    }
}

/// Both ends of a line.
pub(crate) const ENDS: [Role; 2] = [Role::Client, Role::Server];

/// Returns the name of an end of the line.
pub(crate) const fn end(role: Role) -> &'static str {
    match role {
        Role::Client => "client",
        Role::Server => "server",
    }
}

/// Returns the call or the request that an operation counts so.
pub(crate) fn pick<T: Copy>(from: &[T], place: u8) -> Option<T> {
    from.get(usize::from(place).checked_rem(from.len())?).copied()
}

pub(crate) fn raw(json: &str) -> &RawValue {
    serde_json::from_str(json).expect("it is written as JSON")
}

/// As one phrase, unlike that of any other operation.
impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at() {
            Some(at) if !matches!(self, Self::Hostile { .. }) => write!(f, "{} ", end(at))?,
            _ => {}
        }
        match *self {
            Self::Call { asked, .. } => write!(f, "call {asked}"),
            Self::Cancel { call, cause, .. } => write!(f, "cancel {call} {cause}"),
            Self::Detach { call, .. } => write!(f, "detach {call}"),
            Self::Respond { request, answer, .. } => write!(f, "respond {request} {answer:?}"),
            Self::Begin { request, .. } => write!(f, "begin {request}"),
            Self::SendCancel { call, .. } => write!(f, "send cancel {call}"),
            Self::End { request, .. } => write!(f, "end {request}"),
            Self::GiveUp { request, .. } => write!(f, "give up {request}"),
            Self::Notify { long: false, .. } => f.write_str("notify"),
            Self::Notify { long: true, .. } => f.write_str("notify at length"),
            Self::Progress { token, .. } => write!(f, "progress {token}"),
            Self::Drain { messages, .. } => write!(f, "drain {messages}"),
            Self::Arrive { place, piece: 0, .. } => write!(f, "read {place}"),
            Self::Arrive { place, piece, .. } => write!(f, "read {place} by {piece}"),
            Self::Hostile { to, message, id } => {
                write!(f, "hostile to {} {message:?} {}", end(to), Hostile::id(id))
            }
            Self::Wait { millis } => write!(f, "wait {millis}"),
            Self::HangUp { .. } => f.write_str("hang up"),
            Self::Cut => f.write_str("cut"),
            Self::Shutdown { how, .. } => write!(f, "shutdown {how:?}"),
        }
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.method, self.token)?;
        let timers = [("deadline", self.deadline), ("idle", self.idle), ("cap", self.hard_cap)];
        for (name, millis) in timers.into_iter().filter(|&(_, millis)| millis > 0) {
            write!(f, " {name} {millis}")?;
        }
        match self.grace {
            None => {}
            Some(Grace::Await) => f.write_str(" await")?,
            Some(Grace::Settle(time)) => write!(f, " grace {}", time.as_millis())?,
        }
        self.parent.map_or(Ok(()), |parent| write!(f, " parent {parent}"))
    }
}
