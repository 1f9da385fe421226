//! The table of the requests that the server works on.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::Sender;
use std::time::Instant;

use super::fault::Fault;

#[derive(Default)]
pub(super) struct Table {
    /// The requests at work. Dropping or using the sender ends the work.
    pub(super) at_work: HashMap<String, Sender<()>>,
    pub(super) early: Vec<String>,
    /// The requests that have reported progress.
    pub(super) progressed: Vec<String>,
    /// Its own requests, by their ids, with what they are made for.
    pub(super) own: HashMap<String, String>,
    pub(super) cancels: usize,
    pub(super) cancelled: usize,
    /// Whether a cancel found nothing, and waits for the next work.
    pub(super) stale: bool,
    /// The number of requests that have come.
    pub(super) requests: usize,
    /// The number of requests that have begun, and can be cancelled from then on.
    pub(super) registered: usize,
    /// The number of requests that had come when each one began.
    pub(super) began: HashMap<String, usize>,
    /// DAP: the commands of the requests.
    pub(super) commands: HashMap<String, String>,
    /// DAP: the requests whose cancels were acknowledged.
    pub(super) acknowledged: HashSet<String>,
    /// Whether work that was cancelled while it ran still holds the line.
    pub(super) is_held: bool,
    /// The number of requests that had come before the last cancel.
    pub(super) before_cancel: Option<usize>,
    /// The end that work would have had which was cancelled last.
    pub(super) over_at: Option<Instant>,
    /// The lines of the document, now and when the last request came.
    pub(super) lines: usize,
    pub(super) lines_before: usize,
    /// Whether the document was closed.
    pub(super) is_closed: bool,
    /// The requests that have a token for their progress.
    pub(super) with_token: Vec<String>,
    /// The parts of cancelled work that the next result has too.
    pub(super) left: usize,
    /// Responses that are kept back.
    pub(super) kept: Vec<String>,
    /// The end of the work, by the tokens of its progress.
    pub(super) outcomes: HashMap<String, &'static str>,
}

impl Table {
    /// Whether no more work is taken.
    pub(super) fn is_full(&self, fault: Fault) -> bool {
        match fault {
            Fault::LosesPlaces => self.cancelled >= 64,
            Fault::HasAQuota => self.requests > 50,
            _ => false,
        }
    }

    /// Whether work has not seen its cancel yet.
    pub(super) const fn is_ending(&self) -> bool {
        self.cancelled > 0 && self.over_at.is_none()
    }

    /// Work is over. Work that was cancelled comes with the end that it would have had.
    pub(super) fn end_work(&mut self, id: &str, over_at: Option<Instant>) {
        self.over_at = over_at.or(self.over_at);
        self.at_work.remove(id);
    }
}
