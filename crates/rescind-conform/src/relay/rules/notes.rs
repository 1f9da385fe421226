//! The fate of notifications that are about a request of the other side.

use std::collections::BTreeMap;

use protocol_core::{Envelope, ResponseRule};
use serde_json::Value;

use crate::relay::bench::{Entry, What};
use crate::relay::message::{Message, Request};
use crate::relay::target::Side;
use crate::wire::Wire;

/// Those of the server's that the client is not to read as they were sent.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// The progress that the server gave after the client's cancel had reached it, where no response is to come. The request
    /// that it names is not active any more.
    withheld: Vec<Value>,
    /// Whether the client may hear of that all the same.
    pub(super) may_pass: bool,
    /// Those that name a request by its id, and how the client is to read them.
    translated: Vec<(Value, Value)>,
}

impl Notes {
    pub(super) fn of(log: &[Entry], protocols: &[Wire; 2]) -> Self {
        let response = protocols[0].dialect.response;
        let is_silent = response != ResponseRule::Required;
        let is_dap = protocols.iter().all(|protocol| protocol.dialect.envelope == Envelope::Dap);
        let mut notes = Self { may_pass: response == ResponseRule::Silent, ..Self::default() };
        // By tag, the id that the client has given; by the id on the server's side, the tag.
        let (mut near, mut far) = (BTreeMap::new(), BTreeMap::new());
        let mut silenced = Vec::new();
        for entry in log {
            match (&entry.what, entry.side) {
                (What::Sent(Message::Request(Request { id, tag, .. }), _), Side::Near) => {
                    near.insert(*tag, id);
                }
                (What::Arrived(Message::Request(Request { id, tag, .. }), _), Side::Far) => {
                    far.insert(id.to_string(), *tag);
                }
                (What::Arrived(Message::Cancel { target: Ok(id), .. }, _), Side::Far) => {
                    silenced.extend(far.get(&id.to_string()).copied().flatten());
                }
                (What::Sent(Message::Notification(note), _), Side::Far) => {
                    let token = note["params"]["progressToken"].as_u64();
                    if is_silent && token.is_some_and(|token| silenced.contains(&token)) {
                        notes.withheld.push(note.clone());
                    }
                    let named = far.get(&note["body"]["requestId"].to_string());
                    let named = named.and_then(|tag| near.get(tag)).filter(|_| is_dap);
                    if let Some(&id) = named.filter(|_| note["event"] == "progressStart") {
                        let mut read = note.clone();
                        read["body"]["requestId"] = id.clone();
                        notes.translated.push((note.clone(), read));
                    }
                }
                _ => {}
            }
        }
        notes
    }

    pub(super) fn are_withheld(&self, note: &Value) -> bool {
        self.withheld.contains(note)
    }

    /// A notification as whoever it is for is to read it.
    pub(super) fn as_read<'a>(&'a self, note: &'a Value) -> &'a Value {
        let translated = self.translated.iter().find(|(sent, _)| sent == note);
        translated.map_or(note, |(_, read)| read)
    }
}
