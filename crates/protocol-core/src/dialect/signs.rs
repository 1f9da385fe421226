//! Work as data: what goes on under a name of its own, and the messages that speak of it.

use protocol_json::{Member, Value, may_say, path, text};
use serde_json::value::RawValue;

use super::data::{List, Text};
use crate::id::WireId;

/// The rule of one kind of work: a turn, a task, a progress.
///
/// One side runs the work, and the other side may stop it by its name. Names are compared as JSON values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WorkRule {
    /// The word for this kind of work, such as `turn`.
    pub kind: Text,
    /// The messages that speak of it. The first that fits a message counts.
    ///
    /// Work that a request begins ends with the response, unless another sign reports its end.
    pub signs: List<Sign>,
}

/// A message that speaks of work.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sign {
    /// The kind of message.
    pub carrier: Carrier,
    /// The method of the message, or an empty text for any.
    pub method: Text,
    /// The path of the work's name, in the params or in the result.
    pub name: List<Text>,
    /// The path of a member that has to be there, and the texts that may stand there. No texts allow any value but
    /// `null`.
    pub state: Option<(List<Text>, List<Text>)>,
    /// The news of the message.
    pub news: News,
    /// The mark of a stop.
    ///
    /// A request gets it as its result if its work was stopped and its handler has none. In a result, or in the params
    /// of a message that ends work, it says that the end followed from a stop.
    pub stopped: Option<StopMark>,
}

/// The kind of message that a [`Sign`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// A request, by its params.
    Request,
    /// A notification, by its params.
    Notification,
    /// The result of a request that has a part in the work.
    Result,
}

/// The news of a message that speaks of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum News {
    /// The work has begun. The receiver of such a request runs it, and the sender of such a notification or result.
    Begun,
    /// The receiver is to stop the work.
    Stop,
    /// The sender has ended the work.
    Ended,
    /// The sender makes the request as a part of the work that it runs.
    Nested {
        /// Whether the sender cancels the request when the work is stopped.
        is_cancelled: bool,
    },
    /// The result of the request may speak of work.
    Asked,
}

/// A text at a path of one or two members.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StopMark {
    /// The path, from the outermost member to the innermost.
    pub path: List<Text>,
    /// The text that stands there.
    pub text: Text,
}

/// The part of a request in some work, or the report of another message about it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WorkPart {
    /// The index in [`Dialect::work`](crate::Dialect::work).
    pub rule: u8,
    /// The news of the message.
    pub news: News,
    /// The name of the work; `null` where only the result has it.
    pub name: WireId,
    /// Whether the message has the mark of a stop.
    pub is_stopped: bool,
    /// The index in [`WorkRule::signs`].
    pub(super) sign: u8,
}

impl Sign {
    #[inline]
    pub(super) fn is_of(&self, carrier: Carrier, method: &str) -> bool {
        self.carrier == carrier && (self.method.is_empty() || *self.method == *method)
    }

    /// Returns the token that names the work, if these params or this result have the state.
    pub(super) fn name_in<'v>(&self, value: &'v RawValue) -> Option<&'v str> {
        let has_state = self.state.as_ref().is_none_or(|(names, states)| {
            // Most updates have none of the texts, and are not read again.
            (states.is_empty() || may_say(value, states))
                && path(value, names).is_some_and(|state| match &**states {
                    [] => state.get() != "null",
                    states => text(state).is_some_and(|it| states.contains(&it)),
                })
        });
        match &*self.name {
            _ if !has_state => None,
            [] => Some("null"),
            names => path(value, names).map(RawValue::get),
        }
    }
}

impl StopMark {
    /// Returns whether the mark stands in a value.
    #[must_use]
    pub fn is_in(&self, value: &RawValue) -> bool {
        path(value, &self.path).and_then(text).is_some_and(|text| text == self.text)
    }

    /// Passes on the members of an object that has the mark.
    pub(crate) fn with_members<T>(&self, then: impl FnOnce(&[Member<'_>]) -> T) -> T {
        let text = Some(Value::Text(&self.text));
        match &*self.path {
            [] => then(&[]),
            [member] => then(&[(member, text)]),
            [outer, member, ..] => then(&[(outer, Some(Value::Object(&[(member, text)])))]),
        }
    }
}
