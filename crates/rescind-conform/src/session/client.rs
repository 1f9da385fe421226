//! A session with a client, whose server we are.

use protocol_core::Envelope;
use serde_json::json;

use super::Session;
use crate::client::reply;
use crate::client::serve::Held;
use crate::family::Request;
use crate::wire::{Asked, Heard};

impl Session {
    /// Answers a request of the client's at this place of the record, or holds it.
    pub(crate) fn serve(&mut self, asked: Asked, at: usize) {
        if asked.is_cancel(&self.wire) {
            let own = self.own_number();
            let told = reply::acknowledgement(&self.wire, &asked, &own);
            return self.send(&[told], false);
        }
        let Some(serving) = &mut self.serving else { return };
        serving.asked.push((at, asked.clone()));
        let prompt = match asked.opens() && serving.holds_opening {
            true => None,
            false => reply::prompt(&serving.options, &asked, serving.declares),
        };
        if prompt.is_none() && serving.held.is_none() {
            serving.held = Some(Held { asked, answered_at: None });
            return;
        }
        let result = prompt.unwrap_or_else(|| reply::result(&serving.options, &asked));
        let own = self.own_number();
        let answer = reply::answer(&self.wire, &asked, &result, &own);
        self.send(&[answer], false);
        if asked.opens() && self.wire.dialect.envelope == Envelope::Dap {
            self.notify(&Request::new("initialized", json!({})));
        }
    }

    /// Returns the number of our next message, or nothing where messages have none.
    pub(crate) fn own_number(&mut self) -> String {
        self.next_number().unwrap_or_default()
    }

    /// Returns the request that is held, if there is one.
    pub(crate) fn held(&self) -> Option<&Held> {
        self.serving.as_ref()?.held.as_ref()
    }

    /// Returns the client's requests so far, with their places in the record.
    pub(crate) fn asked(&self) -> &[(usize, Asked)] {
        self.serving.as_ref().map_or(&[], |serving| &serving.asked)
    }

    /// Returns the cancels so far, with their places in the record and what they name.
    pub(crate) fn cancels(&self) -> impl Iterator<Item = (usize, &str)> {
        self.heard().filter_map(|(at, heard)| match heard {
            Heard::Cancel { id, .. } => Some((at, id.as_str())),
            _ => None,
        })
    }

    /// Returns whether there is a cancel of the held request, or of none that we know.
    pub(crate) fn is_cancelled(&self) -> bool {
        let held = self.held().map(|held| held.asked.id.as_str());
        let is_other =
            |id: &str| Some(id) != held && self.asked().iter().any(|(_, it)| it.id == id);
        self.cancels().any(|(_, id)| !is_other(id))
    }
}
