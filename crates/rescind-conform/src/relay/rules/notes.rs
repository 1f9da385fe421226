//! The fate of notifications that are about a request of the other side.

use std::collections::BTreeMap;

use protocol_core::ResponseRule;
use serde_json::Value;

use crate::relay::bench::{Entry, What};
use crate::relay::message::{Message, Request};
use crate::relay::target::Side;
use crate::wire::Wire;

/// The notifications about requests of one side.
#[derive(Debug)]
pub(super) struct Notes {
    /// Each as it was sent, as the caller of its request is to read it, and whether it is withheld.
    notes: Vec<(Value, Value, bool)>,
    /// Whether the caller may hear of what is withheld all the same.
    pub(super) may_pass: bool,
}

impl Notes {
    /// Finds the notifications about the requests of a caller, who speaks this.
    pub(super) fn of(log: &[Entry], caller: Side, wire: &Wire) -> Self {
        let response = wire.dialect.response;
        let is_silent = response != ResponseRule::Required;
        let (mut notes, mut asked, mut forwarded) = (Vec::new(), BTreeMap::new(), Vec::new());
        for entry in log {
            match (&entry.what, entry.side == caller) {
                (What::Sent(Message::Request(own), _), true) => {
                    asked.insert(own.tag, own);
                }
                (What::Arrived(Message::Request(far), _), false) => {
                    forwarded.extend(asked.get(&far.tag).map(|own| (far, *own, false)));
                }
                (What::Arrived(Message::Cancel { target: Ok(id), .. }, _), false) => {
                    let named = forwarded.iter_mut().rev().find(|(far, ..)| far.id == *id);
                    named.into_iter().for_each(|(.., is_withheld)| *is_withheld = is_silent);
                }
                (What::Sent(Message::Notification(sent), _), false) => {
                    let about = forwarded.iter().rev().find_map(|(far, own, is_withheld)| {
                        Some((sent.clone(), as_read(sent, far, own)?, *is_withheld))
                    });
                    notes.extend(about);
                }
                _ => {}
            }
        }
        Self { notes, may_pass: response == ResponseRule::Silent }
    }

    /// Returns a notification as it is to be read on the other side, or `None` if it is withheld.
    pub(super) fn as_read<'a>(&'a self, sent: &'a Value) -> Option<&'a Value> {
        match self.notes.iter().find(|(as_sent, ..)| as_sent == sent) {
            Some((_, read, is_withheld)) => Some(read).filter(|_| !is_withheld),
            None => Some(sent),
        }
    }

    /// Returns whether a notification that has arrived was to be withheld.
    pub(super) fn is_withheld(&self, arrived: &Value) -> bool {
        self.notes.iter().any(|(_, read, is_withheld)| *is_withheld && read == arrived)
    }
}

/// Returns a notification with the names that the caller of a request has for it, if it is about that.
fn as_read(sent: &Value, far: &Request, own: &Request) -> Option<Value> {
    let tokens = far.token().zip(own.token());
    let places = [("/params/progressToken", tokens), ("/body/requestId", Some((&far.id, &own.id)))];
    places.into_iter().find_map(|(place, names)| {
        let (mut read, (named, own)) = (sent.clone(), names?);
        read.pointer_mut(place).filter(|name| *name == named)?.clone_from(own);
        Some(read)
    })
}
