//! One end of a line, watched from outside.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use protocol_core::{Config, Dialect, Envelope, MessageOrder, ResponseRule};
use serde_json::Value;

use crate::guarantee::{Broken, Guarantee};
use crate::model::message::{Answered, Message};
use crate::model::reading;
use crate::model::{Asked, Id, Origin, Rules};

/// The meaning of a message to an observer. Ids are those of requests. In ABP an observer tells those of calls
/// from all others.
#[derive(Default)]
pub(crate) struct Seen {
    /// A request that wants an answer.
    pub(crate) asks: Option<Id>,
    /// The member of its result that names the revision, if it is an exchange that settles that.
    names_revision: Option<Cow<'static, str>>,
    /// The request that it cancels.
    pub(crate) cancels: Option<Id>,
    /// The request that it answers.
    pub(crate) answers: Option<Id>,
    /// With which result, if it is one.
    result: Option<Value>,
}

/// Judges a peer by its messages alone: any peer, also one that is not ours.
///
/// It answers each request once (G2), and not at all after a cancel if the dialect wants silence. It cancels
/// only its own requests, each once (G4).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Watch {
    /// Those of the dialect that is spoken now.
    rules: Rules,
    /// The cancels that came before their requests.
    early: BTreeSet<Id>,
    /// By id, the requests that it owes answers to.
    owed: BTreeMap<Id, Owed>,
    /// By id, the requests that it ever sent, and whether it cancelled them. Also answered ones: its
    /// cancel may have crossed the answer.
    asked: BTreeMap<Id, bool>,
    /// The exchanges that may settle the revision, by whether this side asked and by id, and the member of the
    /// result that names it.
    exchanges: BTreeMap<(bool, Id), Cow<'static, str>>,
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
    pub(crate) fn new(dialect: &Dialect) -> Self {
        Self {
            rules: Rules::new(Config::client(dialect.clone())),
            early: BTreeSet::new(),
            owed: BTreeMap::new(),
            asked: BTreeMap::new(),
            exchanges: BTreeMap::new(),
        }
    }

    fn is_silent(&self) -> bool {
        self.rules.dialect.response != ResponseRule::Required
    }

    /// It reads a message.
    pub(crate) fn reads(&mut self, message: &[u8]) {
        for seen in self.see(message) {
            self.settle_revision(false, &seen);
            let Seen { asks, cancels, .. } = seen;
            if let Some(id) = cancels {
                match self.owed.get_mut(&id) {
                    Some(owed) => owed.is_cancelled |= !owed.is_decided,
                    None if self.rules.dialect.order == MessageOrder::MayChange => {
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
    pub(crate) fn decides(&mut self, message: &[u8]) {
        for seen in self.see(message) {
            self.settle_revision(true, &seen);
            if let Some(owed) = seen.answers.and_then(|id| self.owed.get_mut(&id)) {
                owed.is_decided = true;
            }
        }
    }

    /// It writes a message.
    ///
    /// # Errors
    ///
    /// G2 or G4.
    pub(crate) fn writes(&mut self, message: &[u8]) -> Result<(), Broken> {
        self.see(message).into_iter().try_for_each(|seen| {
            self.settle_revision(true, &seen);
            let Seen { asks, cancels, answers, .. } = seen;
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
        let is_silent = self.is_silent();
        let Some(owed) = self.owed.get_mut(&id) else {
            return Err(Broken::new(Guarantee::G2, format!("request {id} is answered again")));
        };
        let is_silenced = owed.is_cancelled && is_silent;
        owed.answers -= 1;
        if owed.answers == 0 {
            self.owed.remove(&id);
        }
        Broken::unless(!is_silenced, Guarantee::G2, || {
            format!("request {id} was cancelled, and is answered")
        })
    }

    /// Returns a request that it still has to answer.
    pub(crate) fn unanswered(&self) -> Option<&Id> {
        let mut owed = self.owed.iter();
        owed.find(|(_, owed)| !(owed.is_cancelled && self.is_silent())).map(|(id, _)| id)
    }

    /// Notes a message that is, or responds to, an exchange that settles the revision.
    fn settle_revision(&mut self, is_own: bool, seen: &Seen) {
        if let (Some(id), Some(member)) = (&seen.asks, &seen.names_revision) {
            self.exchanges.insert((is_own, id.clone()), member.clone());
        }
        let Some(id) = &seen.answers else { return };
        if let Some(member) = self.exchanges.remove(&(!is_own, id.clone())) {
            if let Some(result) = &seen.result {
                let settled = self.rules.settled_by(&result[&*member]);
                self.rules = settled.unwrap_or_else(|| self.rules.clone());
            }
        }
    }

    /// Returns the meaning of each member of a message.
    pub(crate) fn see(&self, message: &[u8]) -> Vec<Seen> {
        reading::members(message).iter().map(|message| self.see_one(message)).collect()
    }

    fn see_one(&self, message: &Value) -> Seen {
        let envelope = self.rules.dialect.envelope;
        let cancel = |method: &str, params: &Value| {
            let named = reading::cancelled(&self.rules.dialect, method, params)?;
            let named = named.map(ToString::to_string).unwrap_or_default();
            Some(if envelope == Envelope::Abp { call(&named) } else { named })
        };
        // A broken request is answered as well, if it can be told from a broken response.
        let is_request = envelope != Envelope::JsonRpc || message.get("method").is_some();
        match reading::message(message, envelope) {
            Message::Request { id, method, params, origin } => {
                let cancels = cancel(method, params);
                let names_revision = self.rules.names_revision(method);
                Seen { asks: Some(name(id, origin)), names_revision, cancels, ..Seen::default() }
            }
            Message::Invalid { id, origin }
                if is_request && (origin.is_some() || message.get("id").is_some()) =>
            {
                Seen { asks: Some(name(id, origin)), ..Seen::default() }
            }
            Message::Notification { method, params } => {
                Seen { cancels: cancel(method, params), ..Seen::default() }
            }
            Message::Response { id, asked, answer } => {
                let id = if asked == Some(Asked::Capability) {
                    call(&id.to_string())
                } else {
                    id.to_string()
                };
                let result = match answer {
                    Some(Answered::Result(result)) if !self.exchanges.is_empty() => {
                        Some(result.clone())
                    }
                    _ => None,
                };
                Seen { answers: Some(id), result, ..Seen::default() }
            }
            _ => Seen::default(),
        }
    }
}

/// Returns the id by which a request is known.
fn name(id: &Value, origin: Option<Origin>) -> Id {
    match origin {
        None => id.to_string(),
        Some(Origin { asked: Asked::Other | Asked::Command, message }) => message,
        Some(Origin { asked: Asked::Capability, .. }) => call(&id.to_string()),
    }
}

fn call(id: &str) -> Id {
    format!("call {id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g02_a_second_response_and_one_to_a_silenced_request_are_noticed() {
        let request = br#"{"jsonrpc":"2.0","id":1,"method":"work"}"#;
        let response = br#"{"jsonrpc":"2.0","id":1,"result":null}"#;
        let cancel =
            br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        let mut peer = Watch::new(&Dialect::MCP_2025_11_25);
        peer.reads(request);
        assert_eq!(peer.unanswered().map(|id| &**id), Some("1"));
        assert!(peer.writes(response).is_ok());
        assert!(peer.writes(response).is_err(), "the second");
        peer.reads(request);
        peer.reads(cancel);
        assert_eq!(peer.unanswered(), None);
        assert!(peer.writes(response).is_err(), "it was cancelled");
    }

    #[test]
    fn g04_in_dap_a_cancel_of_a_progress_names_no_request() {
        let request = |seq: u32, what: &str| format!(r#"{{"seq":{seq},"type":"request",{what}}}"#);
        let cancel = |seq, names: &str| {
            request(seq, &format!(r#""command":"cancel","arguments":{{{names}}}"#))
        };
        let mut tool = Watch::new(&Dialect::DAP);
        for message in [
            request(1, r#""command":"work""#),
            cancel(2, r#""progressId":"p""#),
            cancel(3, r#""progressId":"p","requestId":null"#),
            cancel(4, r#""requestId":1"#),
        ] {
            assert!(tool.writes(message.as_bytes()).is_ok(), "{message}");
        }
        assert!(tool.writes(cancel(5, r#""requestId":1"#).as_bytes()).is_err(), "the second");
    }
}
