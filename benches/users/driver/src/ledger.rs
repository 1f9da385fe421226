//! The account of requests. Each has one response, of the kind that is expected.

use std::collections::HashMap;

use crate::Message;

/// The JSON-RPC code of a cancelled request, in LSP and ACP.
const CANCELLED: i64 = -32800;

/// The requests that have no response yet, each with the response that is expected.
#[derive(Debug, Default)]
pub struct Ledger {
    last: u64,
    open: HashMap<u64, Expected>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Expected {
    Result,
    Cancelled,
    Either,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Settled {
    Result,
    Cancelled,
}

impl Ledger {
    /// Opens a request, and returns its id.
    pub fn open(&mut self) -> u64 {
        self.last += 1;
        self.open.insert(self.last, Expected::Result);
        self.last
    }

    /// Notes that a request is cancelled, and that its response has to say so.
    pub fn cancel(&mut self, id: u64) {
        assert_eq!(self.open.insert(id, Expected::Cancelled), Some(Expected::Result));
    }

    /// Notes that a request is cancelled, which may come too late.
    pub fn try_cancel(&mut self, id: u64) {
        assert_eq!(self.open.insert(id, Expected::Either), Some(Expected::Result));
    }

    /// Notes that a request is cancelled, and that it may have no response at all, as MCP has it.
    pub fn silence(&mut self, id: u64) {
        assert_eq!(self.open.remove(&id), Some(Expected::Result));
    }

    /// Settles the request of a response, and returns its id and its outcome.
    ///
    /// # Panics
    ///
    /// If there is no such request, or if another response is expected.
    pub fn settle(&mut self, message: &Message<'_>) -> (u64, Settled) {
        let id = message.id.unwrap_or_else(|| panic!("no response: {message:?}"));
        let settled = match (&message.result, &message.error) {
            (Some(_), None) => Settled::Result,
            (None, Some(error)) if error.code == CANCELLED => Settled::Cancelled,
            _ => panic!("neither a result nor cancelled: {message:?}"),
        };
        let expected = self.open.remove(&id);
        let fits = match settled {
            Settled::Result => matches!(expected, Some(Expected::Result | Expected::Either)),
            Settled::Cancelled => matches!(expected, Some(Expected::Cancelled | Expected::Either)),
        };
        assert!(fits, "{expected:?} was to come: {message:?}");
        (id, settled)
    }

    /// Returns how many have no response yet, and are to have one.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        self.open.len()
    }
}
