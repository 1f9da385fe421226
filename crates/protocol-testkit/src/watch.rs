//! One end of a line, watched from outside.

use std::collections::{BTreeMap, BTreeSet};

use protocol_core::{AnswerRule, CancelRule, CancelTarget, Dialect, Envelope, MessageOrder, Text};
use serde_json::Value;

use crate::guarantee::{Broken, Guarantee};
use crate::model::reading::{self, Message};
use crate::model::{Asked, Id, Origin};

/// What a message means to whoever only watches. Ids are those of requests; in ABP those of calls are
/// told from all others.
#[derive(Default)]
struct Seen {
    /// A request that wants an answer.
    asks: Option<Id>,
    /// The request that it cancels.
    cancels: Option<Id>,
    /// The request that it answers.
    answers: Option<Id>,
}

/// Judges a peer by its messages alone: any peer, also one that is not ours.
///
/// It answers each request once (G2), and not at all after a cancel where the dialect wants silence;
/// it cancels only what it asked for, once (G4).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Watch {
    /// The peer's dialect by its rules: the method and the member of a cancel that names a request.
    cancel: Option<(Text, Text)>,
    envelope: Envelope,
    is_silent: bool,
    order: MessageOrder,
    /// The cancels that came before their requests.
    early: BTreeSet<Id>,
    /// By id, the requests that it owes answers to.
    owed: BTreeMap<Id, Owed>,
    /// By id, the requests that it ever sent, and whether it cancelled them. Also answered ones: its
    /// cancel may have crossed the answer.
    asked: BTreeMap<Id, bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Owed {
    /// More than one if an id came again while it was in flight.
    answers: u8,
    /// Whether its answer waits to leave: a cancel that comes now is too late.
    is_decided: bool,
    is_cancelled: bool,
}

impl Watch {
    /// Watches a peer that speaks this dialect.
    #[must_use]
    pub fn new(dialect: &Dialect) -> Self {
        let cancel = match dialect.cancel.clone() {
            CancelRule::Notification { method, id: member, .. }
            | CancelRule::Request { method, target: CancelTarget::Id { member }, .. } => {
                Some((method, member))
            }
            // A cancel that names an operation is a request like any other.
            _ => None,
        };
        let is_silent = !matches!(dialect.answer, AnswerRule::Answered);
        Self {
            cancel,
            envelope: dialect.envelope,
            is_silent,
            order: dialect.order,
            early: BTreeSet::new(),
            owed: BTreeMap::new(),
            asked: BTreeMap::new(),
        }
    }

    /// It reads a message.
    pub fn reads(&mut self, message: &[u8]) {
        for Seen { asks, cancels, .. } in self.see(message) {
            if let Some(id) = cancels {
                match self.owed.get_mut(&id) {
                    Some(owed) => owed.is_cancelled |= !owed.is_decided,
                    None if self.order == MessageOrder::MayChange => {
                        self.early.insert(id);
                    }
                    None => {}
                }
            }
            if let Some(id) = asks {
                let is_cancelled = self.early.remove(&id);
                let owed = self.owed.entry(id).or_default();
                owed.answers += 1;
                owed.is_cancelled |= is_cancelled;
            }
        }
    }

    /// It wrote a message, but that has not left yet.
    pub fn decides(&mut self, message: &[u8]) {
        for id in self.see(message).into_iter().filter_map(|seen| seen.answers) {
            if let Some(owed) = self.owed.get_mut(&id) {
                owed.is_decided = true;
            }
        }
    }

    /// It writes a message.
    ///
    /// # Errors
    ///
    /// G2 or G4.
    pub fn writes(&mut self, message: &[u8]) -> Result<(), Broken> {
        self.see(message).into_iter().try_for_each(|Seen { asks, cancels, answers }| {
            if let Some(id) = cancels {
                let what =
                    || format!("the cancel of {id} names no request of its own, or is the second");
                let first = self.asked.get_mut(&id).is_some_and(|is| !std::mem::replace(is, true));
                Broken::unless(first, Guarantee::G4, what)?;
            }
            self.asked.extend(asks.map(|id| (id, false)));
            answers.map_or(Ok(()), |id| self.answers(id))
        })
    }

    fn answers(&mut self, id: Id) -> Result<(), Broken> {
        // The answer to a message whose id can't be read.
        if id == "null" {
            return Ok(());
        }
        let Some(owed) = self.owed.get_mut(&id) else {
            return Err(Broken::new(Guarantee::G2, format!("request {id} is answered again")));
        };
        let is_silenced = owed.is_cancelled && self.is_silent;
        owed.answers -= 1;
        if owed.answers == 0 {
            self.owed.remove(&id);
        }
        Broken::unless(!is_silenced, Guarantee::G2, || {
            format!("request {id} was cancelled, and is answered")
        })
    }

    /// A request that it still has to answer.
    #[must_use]
    pub fn unanswered(&self) -> Option<&Id> {
        let mut owed = self.owed.iter();
        owed.find(|(_, owed)| !(owed.is_cancelled && self.is_silent)).map(|(id, _)| id)
    }

    fn see(&self, message: &[u8]) -> Vec<Seen> {
        members(message).iter().map(|message| self.see_one(message)).collect()
    }

    fn see_one(&self, message: &Value) -> Seen {
        let cancel = |method: &str, params: &Value| {
            let (_, member) = self.cancel.as_ref().filter(|(cancel, _)| cancel == method)?;
            let named = params.get(&**member).map(ToString::to_string).unwrap_or_default();
            Some(match self.envelope {
                Envelope::JsonRpc => named,
                Envelope::Abp => call(&named),
            })
        };
        // A broken request is answered as well, if it can be told from a broken response.
        let is_request = self.envelope == Envelope::Abp || message.get("method").is_some();
        match reading::message(message, self.envelope) {
            Message::Request { id, method, params, origin } => {
                let cancels = cancel(method, params);
                Seen { asks: Some(name(id, origin)), cancels, ..Seen::default() }
            }
            Message::Invalid { id, origin }
                if is_request && (origin.is_some() || message.get("id").is_some()) =>
            {
                Seen { asks: Some(name(id, origin)), ..Seen::default() }
            }
            Message::Notification { method, params } => {
                Seen { cancels: cancel(method, params), ..Seen::default() }
            }
            Message::Response { id, asked, .. } => {
                let id = if asked == Some(Asked::Capability) {
                    call(&id.to_string())
                } else {
                    id.to_string()
                };
                Seen { answers: Some(id), ..Seen::default() }
            }
            _ => Seen::default(),
        }
    }
}

/// What a request is known by.
fn name(id: &Value, origin: Option<Origin>) -> Id {
    match origin {
        None => id.to_string(),
        Some(Origin { asked: Asked::Other, message }) => message,
        Some(Origin { asked: Asked::Capability, .. }) => call(&id.to_string()),
    }
}

fn call(id: &str) -> Id {
    format!("call {id}")
}

fn members(message: &[u8]) -> Vec<Value> {
    match serde_json::from_slice(message) {
        Ok(Value::Array(members)) => members,
        Ok(message) => vec![message],
        Err(_) => Vec::new(),
    }
}
