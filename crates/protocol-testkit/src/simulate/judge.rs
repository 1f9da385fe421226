//! What must hold of a handler, whatever it does: judged by its messages, and by what is in flight.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use protocol_async::{Direction, Peer, Phase, Way};
use protocol_core::{AnswerRule, Timestamp};

use super::fault::{Fault, Problem};
use super::script::Script;
use crate::watch::Watch;

/// What is in flight on a handler's side: requests and calls by their numbers, and whether each was
/// cancelled.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) requests: BTreeMap<u64, bool>,
    pub(super) calls: BTreeMap<u64, bool>,
}

impl Rows {
    /// What the connection's own tables say.
    pub(super) fn of(peer: &Peer) -> Self {
        let mut rows = Self::default();
        for row in peer.in_flight(usize::MAX) {
            let rows = match row.direction {
                Direction::Call => &mut rows.calls,
                Direction::Request => &mut rows.requests,
            };
            rows.insert(row.number, matches!(row.phase, Phase::Cancelling | Phase::Cancelled));
        }
        rows
    }
}

/// What is in flight by the messages alone: for handlers on a connection that is not ours.
#[derive(Debug, Default)]
pub(super) struct Wire {
    rows: Rows,
    requests: BTreeMap<String, u64>,
    calls: BTreeMap<String, u64>,
}

pub(super) struct Judge {
    watch: Watch,
    /// `None` where the connection has tables that say more.
    wire: Option<Wire>,
    is_silent: bool,
    within: Duration,
    calls_by_itself: bool,
    /// Requests that are to end, and since when.
    ending: BTreeMap<u64, Timestamp>,
    /// Requests that were ever cancelled.
    cancelled: BTreeSet<u64>,
    /// What was in flight the last time.
    last: Rows,
    /// By call, the requests that were in flight when it was made.
    made_for: BTreeMap<u64, BTreeSet<u64>>,
}

impl Judge {
    /// A judge of a handler on a connection of ours, or of whatever else reads and writes.
    pub(super) fn new(script: &Script, is_ours: bool) -> Self {
        let mut dialect = script.config.dialect.clone();
        let is_silent = dialect.answer != AnswerRule::Answered;
        if is_ours {
            // Our connection withholds what is to be withheld, and knows better than its messages
            // whether an answer was given before the cancel was read.
            dialect.answer = AnswerRule::Answered;
        }
        Self {
            watch: Watch::new(&dialect),
            wire: (!is_ours).then(Wire::default),
            is_silent,
            within: script.cancel_within,
            calls_by_itself: script.calls_by_itself,
            ending: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            last: Rows::default(),
            made_for: BTreeMap::new(),
        }
    }

    /// The handler's side read or wrote a message.
    pub(super) fn message(&mut self, way: Way, message: &[u8]) -> Result<(), Problem> {
        if let Some(wire) = &mut self.wire {
            for (asks, cancels, answers) in self.watch.meanings(message) {
                wire.take(way, asks, cancels, answers, self.is_silent);
            }
        }
        match way {
            Way::Received => self.watch.reads(message),
            Way::Sent => self
                .watch
                .writes(message)
                .map_err(|broken| Problem::new(Fault::Wire, broken.to_string()))?,
        }
        Ok(())
    }

    /// What is in flight by the messages, unless the connection says it.
    pub(super) fn take_wire(&mut self) -> Option<Rows> {
        let Wire { rows, .. } = self.wire.as_ref()?;
        Some(Rows { requests: rows.requests.clone(), calls: rows.calls.clone() })
    }

    /// Something happened, and now this is in flight.
    pub(super) fn look(&mut self, rows: Rows, now: Timestamp) {
        self.ending.retain(|number, _| rows.requests.contains_key(number));
        let waits_for_peer = rows.calls.values().any(|&is_cancelled| is_cancelled);
        for (&number, _) in rows.requests.iter().filter(|(_, is_cancelled)| **is_cancelled) {
            self.cancelled.insert(number);
            let since = self.ending.entry(number).or_insert(now);
            if waits_for_peer {
                *since = now;
            }
        }
        for &number in rows.calls.keys().filter(|number| !self.last.calls.contains_key(number)) {
            let requests = rows.requests.keys().chain(self.last.requests.keys());
            self.made_for.insert(number, requests.copied().collect());
        }
        self.made_for.retain(|number, _| rows.calls.contains_key(number));
        self.last = rows;
    }

    /// No task can go on. Until the next timer, nothing happens unless the peer does it; and the peer
    /// may take any time.
    pub(super) fn rest(&self, now: Timestamp, timer: Option<Timestamp>) -> Result<(), Problem> {
        let waits_for_peer = self.last.calls.values().any(|&is_cancelled| is_cancelled);
        for (number, &since) in self.ending.iter().filter(|_| !waits_for_peer) {
            let due = since + self.within;
            if now > due || timer.is_none_or(|timer| timer > due) {
                let what = format!(
                    "request {number} was cancelled, and is still served {} ms later{}",
                    self.within.as_millis(),
                    self.call_in_flight(),
                );
                return Err(Problem::new(Fault::IgnoredCancel, what));
            }
        }
        if self.calls_by_itself || self.last.requests.values().any(|is_cancelled| !is_cancelled) {
            return Ok(());
        }
        for (number, _) in self.last.calls.iter().filter(|(_, is_cancelled)| !**is_cancelled) {
            let requests = &self.made_for[number];
            if !requests.is_empty() && requests.is_subset(&self.cancelled) {
                let what = format!(
                    "call {number} was made while request {} was served, which was cancelled: the \
                     call was not",
                    requests.iter().map(u64::to_string).collect::<Vec<_>>().join(" and "),
                );
                return Err(Problem::new(Fault::OrphanedCall, what));
            }
        }
        Ok(())
    }

    fn call_in_flight(&self) -> String {
        let call = self.last.calls.keys().next();
        call.map_or_else(String::new, |call| {
            format!("; call {call}, which nobody cancelled, is in flight")
        })
    }

    /// Nothing happens any more by itself, and the peer has done all it does.
    pub(super) fn settled(&self) -> Result<(), Problem> {
        if !self.last.calls.is_empty() {
            // The peer never answers it, and who waits for that waits rightly.
            return Ok(());
        }
        let waiting = self.last.requests.iter().find(|(_, is_cancelled)| !**is_cancelled);
        waiting.map_or(Ok(()), |(number, _)| {
            Err(Problem::new(Fault::Unanswered, format!("request {number} is never answered")))
        })
    }

    /// Everything is over.
    pub(super) fn over(&self) -> Result<(), Problem> {
        let Rows { requests, calls } = &self.last;
        if self.wire.is_some() || requests.is_empty() && calls.is_empty() {
            return Ok(());
        }
        let what = format!(
            "{} requests and {} calls are left in the tables of a connection that is over",
            requests.len(),
            calls.len(),
        );
        Err(Problem::new(Fault::Leak, what))
    }
}

impl Wire {
    fn take(
        &mut self,
        way: Way,
        asks: Option<String>,
        cancels: Option<String>,
        answers: Option<String>,
        is_silent: bool,
    ) {
        // Requests come in, and are answered; calls go out.
        let Self { rows: Rows { requests, calls }, requests: asked, calls: called } = self;
        let (new, old, new_names, old_names) = match way {
            Way::Received => (requests, calls, asked, called),
            Way::Sent => (calls, requests, called, asked),
        };
        if let Some(id) = asks {
            let number = new_names.values().max().copied().unwrap_or(0) + 1;
            new_names.insert(id, number);
            new.insert(number, false);
        }
        if let Some(number) = cancels.and_then(|id| new_names.get(&id)) {
            if is_silent {
                new.remove(number);
            } else if let Some(is_cancelled) = new.get_mut(number) {
                *is_cancelled = true;
            }
        }
        if let Some(number) = answers.and_then(|id| old_names.get(&id)) {
            old.remove(number);
        }
    }
}
