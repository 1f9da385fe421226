//! The rules for every handler, judged by its messages and by the requests in flight.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use protocol_async::{Direction, Peer, Phase, Way};
use protocol_core::{
    CancelRule, Cancellers, CapabilityRule, Dialect, ResponseRule, Role, Timestamp,
};

use serde_json::Value;

use super::fault::{Fault, Problem};
use super::script::Script;
use crate::model::reading;
use crate::watch::{Seen, Watch};

/// The requests and the calls in flight on a handler's side, by their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    /// Whether each was cancelled.
    requests: BTreeMap<u64, bool>,
    /// Whether each was cancelled, or can't be: only the peer can end it.
    calls: BTreeMap<u64, bool>,
}

impl Rows {
    /// Reads the connection's own tables.
    pub(super) fn of(peer: &Peer) -> Self {
        let mut rows = Self::default();
        for row in peer.in_flight(usize::MAX) {
            let rows = match row.direction {
                Direction::Call => &mut rows.calls,
                Direction::Request => &mut rows.requests,
            };
            let is_cancelled = matches!(row.phase, Phase::Cancelling | Phase::Cancelled);
            rows.insert(row.number, is_cancelled || row.refusal.is_some());
        }
        rows
    }

    /// Returns whether it is the peer that keeps requests waiting.
    fn wait_for_peer(&self) -> bool {
        self.calls.values().any(|&is_left_to_peer| is_left_to_peer)
    }
}

/// The requests in flight by the messages alone, for handlers on a connection that is not ours.
#[derive(Debug)]
struct Wire {
    rows: Rows,
    /// Whether a cancelled request gets no response.
    is_silent: bool,
    /// Whether the handler's side may cancel its calls, for all that the dialect says beforehand.
    may_cancel: bool,
    requests: BTreeMap<String, u64>,
    calls: BTreeMap<String, u64>,
}

pub(super) struct Judge {
    watch: Watch,
    /// `None` where the connection has tables that say more.
    wire: Option<Wire>,
    within: Duration,
    calls_by_itself: bool,
    is_hostile: bool,
    /// Requests that are to end, and since when.
    ending: BTreeMap<u64, Timestamp>,
    /// Requests that were ever cancelled.
    cancelled: BTreeSet<u64>,
    /// The requests in flight the last time.
    last: Rows,
    /// By call, the requests that were in flight when it was made, and not cancelled.
    made_for: BTreeMap<u64, BTreeSet<u64>>,
}

impl Judge {
    /// Returns a judge of a handler on a connection of ours, or of whatever else reads and writes.
    pub(super) fn new(script: &Script, is_ours: bool) -> Self {
        let mut dialect = script.config.dialect.clone();
        let wire = (!is_ours).then(|| Wire::new(script.config.role, &dialect));
        if is_ours {
            // Our connection withholds what is to be withheld, and knows better than its messages
            // whether an answer was given before the cancel was read.
            dialect.response = ResponseRule::Required;
        }
        Self {
            watch: Watch::new(&dialect),
            wire,
            within: script.cancel_within,
            calls_by_itself: script.calls_by_itself,
            is_hostile: script.hostile > 0,
            ending: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            last: Rows::default(),
            made_for: BTreeMap::new(),
        }
    }

    /// The handler's side read or wrote a message.
    pub(super) fn message(&mut self, way: Way, message: &[u8]) -> Result<(), Problem> {
        if let Some(wire) = &mut self.wire {
            for seen in self.watch.see(message) {
                wire.take(way, seen);
            }
        }
        match way {
            Way::Received => self.watch.reads(message),
            // A hostile peer may send something that is no request. It gets an error all the same, perhaps with
            // the id of one.
            Way::Sent if self.is_hostile && is_error(message) => {}
            Way::Sent => self
                .watch
                .writes(message)
                .map_err(|broken| Problem::new(Fault::Wire, broken.to_string()))?,
        }
        Ok(())
    }

    /// Returns the requests in flight by the messages, unless the connection has tables.
    pub(super) fn wire(&self) -> Option<Rows> {
        Some(self.wire.as_ref()?.rows.clone())
    }

    /// Takes in what is in flight now, after something happened.
    pub(super) fn look(&mut self, rows: Rows, now: Timestamp) {
        self.ending.retain(|number, _| rows.requests.contains_key(number));
        let waits_for_peer = rows.wait_for_peer();
        for (&number, _) in rows.requests.iter().filter(|(_, is_cancelled)| **is_cancelled) {
            self.cancelled.insert(number);
            let since = self.ending.entry(number).or_insert(now);
            if waits_for_peer {
                *since = now;
            }
        }
        for &number in rows.calls.keys().filter(|number| !self.last.calls.contains_key(number)) {
            let requests = rows.requests.iter().chain(&self.last.requests);
            // A call that is made after its request was cancelled is made in spite of that.
            let wanted = requests.filter(|(_, is_cancelled)| !**is_cancelled);
            self.made_for.insert(number, wanted.map(|(&number, _)| number).collect());
        }
        self.made_for.retain(|number, _| rows.calls.contains_key(number));
        self.last = rows;
    }

    /// No task can go on. Until the next timer, nothing happens unless the peer does it; and the peer
    /// may take any time.
    pub(super) fn rest(&self, now: Timestamp, timer: Option<Timestamp>) -> Result<(), Problem> {
        self.orphan()?;
        if self.last.wait_for_peer() {
            return Ok(());
        }
        for (number, &since) in &self.ending {
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
        Ok(())
    }

    /// When something will be wrong, if nothing happens before: a request that was cancelled and goes on.
    pub(super) fn limit(&self) -> Option<Timestamp> {
        let since = self.ending.values().min().filter(|_| !self.last.wait_for_peer());
        since.map(|&since| since + self.within + Duration::from_millis(1))
    }

    /// Fails if a call is in flight that only cancelled requests wanted.
    fn orphan(&self) -> Result<(), Problem> {
        if self.calls_by_itself || self.last.requests.values().any(|is_cancelled| !is_cancelled) {
            return Ok(());
        }
        let mut calls = self.last.calls.iter().filter(|(_, is_left_to_peer)| !**is_left_to_peer);
        let orphan = calls.find_map(|(number, _)| {
            let requests = &self.made_for[number];
            let is_orphan = !requests.is_empty() && requests.is_subset(&self.cancelled);
            is_orphan.then_some((number, requests))
        });
        let Some((number, requests)) = orphan else { return Ok(()) };
        let requests: Vec<_> = requests.iter().map(u64::to_string).collect();
        let what = format!(
            "call {number} was made while request {} was served, which was cancelled; the call was not",
            requests.join(" and "),
        );
        Err(Problem::new(Fault::OrphanedCall, what))
    }

    fn call_in_flight(&self) -> String {
        let call = self.last.calls.keys().next();
        call.map_or_else(String::new, |call| {
            format!("; call {call}, which nobody cancelled, is in flight")
        })
    }

    /// Nothing happens any more by itself, and the peer has done all it does. Returns whether a request waits
    /// for no call of its own. It may wait for those of others, and goes on then once they are answered.
    pub(super) fn settled(&self) -> Result<bool, Problem> {
        let Rows { requests, calls } = &self.last;
        let mut waiting =
            requests.iter().filter(|(_, is_cancelled)| !**is_cancelled).map(|(number, _)| number);
        if !calls.is_empty() {
            // The peer never answers it, and who waits for that waits rightly.
            let is_of_call = |number| self.made_for.values().any(|it| it.contains(number));
            return Ok(waiting.any(|number| !is_of_call(number)));
        }
        waiting.next().map_or(Ok(false), |number| {
            Err(Problem::new(Fault::Unanswered, format!("request {number} is never answered")))
        })
    }

    /// Fails if something is left once everything is over.
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

/// Whether it holds an answer that is an error, in whichever envelope.
fn is_error(message: &[u8]) -> bool {
    let is_error = |it: &Value| {
        it.get("error").is_some() || it["payload"]["success"] == false || it["success"] == false
    };
    reading::members(message).iter().any(is_error)
}

impl Wire {
    fn new(role: Role, dialect: &Dialect) -> Self {
        let is_canceller = role == Role::Client || dialect.cancellers == Cancellers::Both;
        let has_message = !matches!(dialect.cancel, CancelRule::Local | CancelRule::ClosedStream);
        let needs_consent = dialect.capability != CapabilityRule::NotNeeded;
        Self {
            rows: Rows::default(),
            is_silent: dialect.response != ResponseRule::Required,
            may_cancel: is_canceller && has_message && !needs_consent,
            requests: BTreeMap::new(),
            calls: BTreeMap::new(),
        }
    }

    fn take(&mut self, way: Way, seen: Seen) {
        let Seen { asks, cancels, answers, .. } = seen;
        // Requests come in, and are answered; calls go out.
        let Self { rows: Rows { requests, calls }, requests: asked, calls: called, .. } = self;
        let (new, old, new_names, old_names, is_left_to_peer) = match way {
            Way::Received => (requests, calls, asked, called, false),
            Way::Sent => (calls, requests, called, asked, !self.may_cancel),
        };
        if let Some(id) = asks {
            let number = new_names.values().max().copied().unwrap_or(0) + 1;
            new_names.insert(id, number);
            new.insert(number, is_left_to_peer);
        }
        if let Some(number) = cancels.and_then(|id| new_names.get(&id)) {
            if self.is_silent {
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
