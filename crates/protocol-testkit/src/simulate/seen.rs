//! Messages of a run as values, and look-ups that have to find something.

use protocol_async::Way;
use protocol_core::{Dialect, Timestamp};
use serde_json::Value;

use super::executor::looked_for;
use super::trace::{Happening, Trace};
use crate::model::message::{self, Answered};
use crate::model::reading;

/// A message that a handler's side read or wrote.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Seen {
    /// Its place among all that happened: what happened later has a greater one.
    pub place: usize,
    /// The virtual time at which it was read or written.
    pub at: Timestamp,
    /// The number of its connection, in the order they were made.
    pub connection: usize,
    /// Whether the handler's side received or sent it.
    pub way: Way,
    /// The message in the terms of its dialect.
    pub message: Message,
}

/// A message in the terms of its dialect, with names and ids as they are on the wire.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Message {
    /// A request that wants a response.
    Request {
        /// The id that its response names.
        id: Value,
        /// The whole name of the method.
        method: String,
        /// The params, or `null`.
        params: Value,
    },
    /// A notification that is no cancel.
    Notification {
        /// The whole name of the method.
        method: String,
        /// The params, or `null`.
        params: Value,
    },
    /// A cancel of a request.
    Cancel {
        /// The id of the request.
        id: Value,
        /// The params, with the id in them.
        params: Value,
    },
    /// A response to a request.
    Response {
        /// The id of the request.
        id: Value,
        /// The result, or the code of the error.
        outcome: Result<Value, i64>,
    },
    /// A message that is none of these.
    Invalid,
}

/// Look-ups by name.
///
/// Each has to find something in some run of a simulation or a search; else that fails with
/// [`Fault::Unmatched`](super::Fault::Unmatched), because a check that matches nothing checks nothing. To
/// check that something never happens, look through [`messages`](Self::messages).
impl Trace {
    /// Returns the requests of a method that the handler's side received or sent.
    #[must_use]
    pub fn requests(&self, way: Way, method: &str) -> Vec<Seen> {
        self.find(
            way,
            &format!("request {method:?}"),
            |message| matches!(message, Message::Request { method: other, .. } if other == method),
        )
    }

    /// Returns the notifications of a method that the handler's side received or sent.
    #[must_use]
    pub fn notifications(&self, way: Way, method: &str) -> Vec<Seen> {
        self.find(way, &format!("notification {method:?}"), |message| {
            matches!(message, Message::Notification { method: other, .. } if other == method)
        })
    }

    /// Returns the cancels that the handler's side received or sent.
    #[must_use]
    pub fn cancels(&self, way: Way) -> Vec<Seen> {
        self.find(way, "cancel", |message| matches!(message, Message::Cancel { .. }))
    }

    /// Returns the responses that the handler's side received or sent.
    #[must_use]
    pub fn responses(&self, way: Way) -> Vec<Seen> {
        self.find(way, "response", |message| matches!(message, Message::Response { .. }))
    }

    /// Returns the places of this [note](super::Simulation::note) among all that happened.
    #[must_use]
    pub fn notes(&self, text: &str) -> Vec<usize> {
        let is_it = |what: &Happening| matches!(what, Happening::Noted(note) if note == text);
        let moments = self.moments().enumerate();
        let found: Vec<_> =
            moments.filter(|(_, (_, what))| is_it(what)).map(|(place, _)| place).collect();
        looked_for(format!("note {text:?}, which a check looks for"), !found.is_empty());
        found
    }

    /// Returns every message, each member of a batch by itself. Finding nothing here is no failure.
    #[must_use]
    pub fn messages(&self) -> Vec<Seen> {
        self.moments()
            .enumerate()
            .flat_map(|(place, (at, what))| self.see(place, at, what))
            .collect()
    }

    fn find(&self, way: Way, what: &str, is_it: impl Fn(&Message) -> bool) -> Vec<Seen> {
        let mut found = self.messages();
        found.retain(|seen| seen.way == way && is_it(&seen.message));
        let verb = match way {
            Way::Received => "received",
            Way::Sent => "sent",
        };
        let what = format!("{what} that the handler's side {verb}, which a check looks for");
        looked_for(what, !found.is_empty());
        found
    }

    fn see(&self, place: usize, at: Timestamp, what: &Happening) -> Vec<Seen> {
        let (way, connection, message) = match what {
            Happening::Read { connection, message } => (Way::Received, *connection, message),
            Happening::Wrote { connection, message } => (Way::Sent, *connection, message),
            Happening::Noted(_) => return Vec::new(),
        };
        let dialect = &self.hops[connection].dialect;
        let members = reading::members(message);
        let messages = members.iter().map(|member| Message::of(member, dialect));
        messages.map(|message| Seen { place, at, connection, way, message }).collect()
    }
}

impl Message {
    fn of(value: &Value, dialect: &Dialect) -> Self {
        let cancel = |method: &str, params: &Value| {
            let id = reading::cancelled(dialect, method, params)??;
            Some(Self::Cancel { id: id.clone(), params: params.clone() })
        };
        match reading::message(value, dialect.envelope) {
            message::Message::Request { id, method, params, .. } => {
                let request = || Self::Request {
                    id: id.clone(),
                    method: method.to_owned(),
                    params: params.clone(),
                };
                cancel(method, params).unwrap_or_else(request)
            }
            message::Message::Notification { method, params } => {
                let notification =
                    || Self::Notification { method: method.to_owned(), params: params.clone() };
                cancel(method, params).unwrap_or_else(notification)
            }
            message::Message::Response { id, answer: Some(answer), .. } => {
                let outcome = match answer {
                    Answered::Result(result) => Ok(result.clone()),
                    Answered::Error(code) => Err(code),
                };
                Self::Response { id: id.clone(), outcome }
            }
            _ => Self::Invalid,
        }
    }
}
