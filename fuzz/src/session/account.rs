//! The account of requests: each has one response at most.

use std::collections::BTreeMap;

use protocol_core::WireId;
use serde_json::Value;

use crate::bytes::Bytes;

/// An account of the requests, and of the messages that clients read.
#[derive(Default)]
pub(super) struct Account {
    /// The number of the next request.
    next: usize,
    /// The requests that the endpoint works at.
    in_flight: Vec<WireId>,
    /// By id, how many responses clients may still read.
    owed: BTreeMap<WireId, usize>,
    responses: usize,
}

impl Account {
    /// Writes so many requests, whose ids are new or were used before.
    pub(super) fn requests(&mut self, count: usize, bytes: &mut Bytes<'_>) -> Vec<u8> {
        let requests = (0..count).map(|_| {
            self.next += 1;
            let number = match bytes.byte() {
                number @ ..8 => number.into(),
                _ => self.next,
            };
            let id = bytes.pick(&[format!("{number}"), format!("\"{number}\"")]);
            let method = bytes.pick(&["tools/call", "ping", "initialize"]);
            let token = match bytes.byte() {
                token @ ..192 => usize::from(token % 4),
                _ => self.next,
            };
            let meta = format!(r#"{{"_meta":{{"progressToken":{token}}}}}"#);
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{meta}}}"#)
        });
        let requests: Vec<String> = requests.collect();
        match &requests[..] {
            [one] => one.clone().into_bytes(),
            _ => format!("[{}]", requests.join(",")).into_bytes(),
        }
    }

    /// Takes note of requests that the session took.
    pub(super) fn take(&mut self, ids: Vec<WireId>) {
        for id in ids {
            *self.owed.entry(id.clone()).or_default() += 1;
            self.in_flight.push(id);
        }
    }

    pub(super) fn is_in_flight(&self, id: &WireId) -> bool {
        self.in_flight.contains(id)
    }

    /// Returns a request that is in flight.
    pub(super) fn any(&self, bytes: &mut Bytes<'_>) -> Option<WireId> {
        let at = usize::from(bytes.byte()).checked_rem(self.in_flight.len())?;
        Some(self.in_flight[at].clone())
    }

    /// A request gets no response any more.
    pub(super) fn silence(&mut self, id: &WireId) {
        self.in_flight.retain(|other| other != id);
    }

    /// The endpoint has ended with all of its requests.
    pub(super) fn abandon(&mut self) {
        self.in_flight.clear();
    }

    /// Writes a response of the endpoint, perhaps one that it has sent before.
    pub(super) fn respond(&mut self, bytes: &mut Bytes<'_>) -> Option<String> {
        if bytes.byte() > 200 {
            let again = usize::from(bytes.byte()).checked_rem(self.owed.len())?;
            let (id, _) = self.owed.iter().nth(again)?;
            return Some(response(&id.clone(), 0)).filter(|_| !self.is_in_flight(&id.clone()));
        }
        let id = self.any(bytes)?;
        self.silence(&id);
        Some(response(&id, bytes.byte()))
    }

    /// Writes the response to some request in flight, as long as there is one.
    pub(super) fn next_response(&mut self) -> Option<String> {
        let id = self.in_flight.pop()?;
        Some(response(&id, 0))
    }

    /// Writes a message of the endpoint that is no response.
    pub(super) fn update(&self, bytes: &mut Bytes<'_>) -> String {
        let token = bytes.byte() % 8;
        let text = "u".repeat(bytes.pick(&[1, 100, 2_000]));
        let method = bytes.pick(&["notifications/progress", "notifications/message"]);
        let params = format!(r#"{{"progressToken":{token},"message":"{text}"}}"#);
        format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)
    }

    /// Takes the messages that a client has read.
    pub(super) fn read(&mut self, messages: Vec<String>) {
        for message in messages {
            let Ok(message) = serde_json::from_str::<Value>(&message) else { continue };
            let all = message.as_array().cloned().unwrap_or_else(|| vec![message]);
            for one in all.iter().filter(|one| one["method"].is_null() && !one["id"].is_null()) {
                let id = WireId::from_json(&one["id"].to_string());
                let owed = id.and_then(|id| self.owed.get_mut(&id)).filter(|owed| **owed > 0);
                let owed = owed.unwrap_or_else(|| panic!("G2: {one} is no response that is owed"));
                *owed -= 1;
                self.responses += 1;
            }
        }
    }

    pub(super) const fn responses(&self) -> usize {
        self.responses
    }
}

fn response(id: &WireId, kind: u8) -> String {
    let outcome = match kind % 4 {
        0 | 1 => r#""result":{"protocolVersion":"2025-06-18"}"#,
        2 => r#""error":{"code":-32601,"message":"unknown"}"#,
        _ => r#""result":"two\nlines""#,
    };
    format!(r#"{{"jsonrpc":"2.0","id":{},{outcome}}}"#, id.as_json())
}
