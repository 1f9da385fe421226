//! The rules, checked on the log of what both sides sent and saw.

mod notes;

use std::collections::BTreeMap;
use std::mem;

use protocol_core::{Envelope, code};
use serde_json::Value;

use super::bench::{Entry, What};
use super::message::{Message, Request, TOKEN, has_id, tag};
use super::target::Side;
use crate::value::well_formed;
use crate::wire::Wire;
use crate::worded::worded;
use notes::Notes;

worded! {
    /// A duty that a relay has to both sides.
    pub enum Rule {
        /// Each request is forwarded once, unless it was cancelled before it left.
        ForwardedOnce = "each live request is forwarded once",
        /// The method and the params of a request arrive as they were, but for its progress token.
        RequestUnchanged = "its method and params arrive as they were",
        /// No two requests in flight share an id on the other side.
        OwnIds = "requests in flight have ids of their own on the other side",
        /// Each request is answered once, under its own id and with that id's JSON type.
        AnsweredOnce = "each request is answered once, under its id and JSON type",
        /// The answer is that of the other side, if the request was not cancelled.
        AnswerUnchanged = "the answer is the one that was given",
        /// The answer to a cancelled request is that of the other side, too.
        CancelledAnswer = "what the other side answers to a cancelled request is passed on",
        /// Each cancel of a live request arrives once, and names the id that the request has on that side.
        CancelForwarded = "each cancel of a live request arrives once, with the far id",
        /// No cancel hits another request. A cancel of an uncancellable one does not arrive either.
        CancelOfAnother = "no cancel hits a request that was not cancelled",
        /// No cancel arrives of an unknown id, an answered request, or an id of another side or type.
        CancelOfNothing = "no cancel of an unknown or answered target arrives",
        /// Each cancel that is a request is answered under its own id, whatever became of its target.
        Acknowledged = "each cancel that is a request is answered once",
        /// A cancelled request gets no answer if the protocol wants that, and no progress if it wants none.
        Silence = "nothing is said about a cancelled request, where the protocol says so",
        /// No malformed cancel arrives in any form.
        MalformedCancel = "no malformed cancel arrives",
        /// Neither a batch nor its members arrive, if the protocol has no batches.
        Batch = "no batch arrives, nor its members",
        /// Each notification arrives once, in order, and its token is untouched.
        Notifications = "each notification arrives once, in order, as it was",
        /// Each message has a form that every peer can read.
        Form = "what arrives has the form that every peer understands",
        /// If one side is gone, no request of the other waits for it, and no work goes on for it.
        Ends = "the end of one side settles the requests of the other",
    }
}

/// The rules that were checked, and those that did not hold.
#[derive(Debug, Default)]
pub(super) struct Checks {
    made: BTreeMap<Rule, usize>,
    broken: Vec<(Rule, String)>,
}

impl Checks {
    pub(super) fn made(&self, rule: Rule) -> usize {
        self.made.get(&rule).copied().unwrap_or(0)
    }

    /// Returns the first of these rules that is broken, and how.
    pub(super) fn broken(&self, is_judged: impl Fn(Rule) -> bool) -> Option<(Rule, &str)> {
        let found = self.broken.iter().find(|(rule, _)| is_judged(*rule));
        found.map(|(rule, what)| (*rule, what.as_str()))
    }

    pub(super) fn check(&mut self, rule: Rule, holds: bool, what: impl FnOnce() -> String) {
        *self.made.entry(rule).or_default() += 1;
        if !holds {
            self.broken.push((rule, what()));
        }
    }
}

/// Checks a whole log, in both directions.
pub(super) fn check(log: &[Entry], protocols: &[Wire; 2], checks: &mut Checks) {
    let [near, far] = protocols;
    for (caller, protocol, callee) in [(Side::Near, near, far), (Side::Far, far, near)] {
        let mut direction = Direction {
            caller,
            protocol,
            callee,
            notes: Notes::of(log, caller.other(), callee),
            checks,
            asked: Vec::new(),
            cancels: Vec::new(),
            batched: Vec::new(),
            unanswerable: 0,
            notified: Vec::new(),
            notifications: Vec::new(),
            callee_closed: false,
            is_over: false,
        };
        log.iter().for_each(|entry| direction.take(entry));
        direction.settle();
    }
    for entry in log {
        match &entry.what {
            What::Arrived(message, text) => {
                form(&protocols[entry.side as usize], message, text, checks);
            }
            What::Ended(Some(error)) => checks.check(Rule::Form, false, || error.clone()),
            What::Ended(None) | What::Sent(..) | What::Opening(..) | What::Over | What::Closed => {}
        }
    }
}

/// The requests of one side, and their fate on the other.
struct Direction<'a> {
    caller: Side,
    /// The protocol of the caller.
    protocol: &'a Wire,
    /// The protocol of the callee.
    callee: &'a Wire,
    /// The notifications of the caller about requests of the callee.
    notes: Notes,
    checks: &'a mut Checks,
    asked: Vec<Asked>,
    /// The cancels that are requests, by their own ids, and how often each was answered.
    cancels: Vec<(Value, usize)>,
    /// The tags that batches had.
    batched: Vec<u64>,
    /// Messages of the caller that a relay may answer with an error of id null.
    unanswerable: usize,
    notified: Vec<Value>,
    notifications: Vec<Value>,
    callee_closed: bool,
    is_over: bool,
}

/// A request of the caller's.
#[derive(Default)]
struct Asked {
    request: Request,
    /// Another with the same id was in flight.
    is_twin: bool,
    /// The caller cancelled it.
    cancelled: bool,
    /// The cancel crossed its answer.
    answered_before_cancel: bool,
    forwarded: Vec<Value>,
    /// The first answer of the callee.
    given: Option<Value>,
    cancels: usize,
    answers: Vec<Value>,
    /// The caller hung up first, while it was in flight.
    orphaned: bool,
    /// The callee did.
    deserted: bool,
    /// The callee was told that nobody is there any more.
    told: bool,
    /// The conversation was over, and it was not answered.
    left: bool,
}

impl Direction<'_> {
    fn take(&mut self, entry: &Entry) {
        let at_caller = entry.side == self.caller;
        match (&entry.what, at_caller) {
            (What::Sent(message, _), true) => self.caller_sent(message),
            (What::Sent(Message::Response { id, answer }, _), false) => self.given(id, answer),
            (What::Arrived(message, _), false) => self.callee_saw(message),
            (What::Arrived(Message::Response { id, answer }, _), true) => {
                self.answered(id, answer);
            }
            (What::Closed, true) => {
                self.in_flight().for_each(|asked| asked.orphaned = !asked.deserted);
            }
            (What::Closed, false) => {
                self.callee_closed = true;
                self.in_flight().for_each(|asked| asked.deserted = !asked.orphaned);
            }
            (What::Over, _) => {
                self.is_over = true;
                self.in_flight().for_each(|asked| asked.left = !asked.orphaned && !asked.deserted);
            }
            (What::Ended(_), false) if !self.is_over => {
                self.asked.iter_mut().for_each(|asked| asked.told = true);
            }
            _ => {}
        }
    }

    fn in_flight(&mut self) -> impl Iterator<Item = &mut Asked> {
        self.asked.iter_mut().filter(|asked| asked.answers.is_empty())
    }

    fn caller_sent(&mut self, message: &Message) {
        if let Message::Cancel { own: Some(own), .. } = message {
            self.cancels.push((own.clone(), 0));
        }
        match message {
            Message::Request(request) => {
                let is_twin = self.in_flight().any(|asked| asked.request.id == request.id);
                let deserted = self.callee_closed;
                let request = request.clone();
                self.asked.push(Asked { request, is_twin, deserted, ..Asked::default() });
            }
            Message::Cancel { target: Ok(id), .. } => {
                let uncancellable = &self.protocol.dialect.uncancellable.methods;
                let named = self.in_flight().find(|asked| {
                    asked.request.id == *id
                        && !uncancellable.iter().any(|method| *method == asked.request.method)
                });
                if let Some(asked) = named.filter(|asked| !asked.cancelled) {
                    asked.cancelled = true;
                    asked.answered_before_cancel = asked.given.is_some();
                }
            }
            Message::Cancel { target: Err(_), .. } => {
                self.unanswerable += 1;
                self.checks.check(Rule::MalformedCancel, true, String::new);
            }
            Message::Other(_) | Message::Response { .. } => self.unanswerable += 1,
            Message::Batch(batch) => {
                self.unanswerable += 1;
                self.checks.check(Rule::Batch, true, String::new);
                let members = batch.as_array().into_iter().flatten();
                self.batched.extend(members.filter_map(tag));
            }
            Message::Notification(notification) => {
                self.notified.extend(self.notes.as_read(notification).cloned());
            }
        }
    }

    fn given(&mut self, id: &Value, answer: &Value) {
        let forwarded = self.asked.iter_mut().rev().find(|asked| asked.forwarded.contains(id));
        if let Some(asked) = forwarded {
            asked.given.get_or_insert(answer.clone());
        }
    }

    fn callee_saw(&mut self, message: &Message) {
        match message {
            Message::Request(request) if request.is_own() => {}
            Message::Request(request) => self.forwarded(request),
            Message::Cancel { target: Ok(id), .. } => self.cancel_arrived(id),
            Message::Cancel { target: Err(cancel), .. } => {
                self.checks.check(Rule::MalformedCancel, false, || cancel.to_string());
            }
            Message::Batch(batch) => {
                self.checks.check(Rule::Batch, false, || batch.to_string());
            }
            Message::Notification(notification) => {
                if self.notes.is_withheld(notification) {
                    let may_pass = self.notes.may_pass;
                    self.checks.check(Rule::Silence, may_pass, || notification.to_string());
                } else {
                    self.notifications.push(notification.clone());
                }
            }
            // Of the other direction, or judged by its form.
            Message::Response { .. } | Message::Other(_) => {}
        }
    }

    fn forwarded(&mut self, request: &Request) {
        let of_batch = request.tag.is_some_and(|tag| self.batched.contains(&tag));
        let has_it = |asked: &Asked| asked.forwarded.contains(&request.id);
        let shared = self.asked.iter().any(|asked| asked.given.is_none() && has_it(asked));
        let Some(asked) = self.asked.iter_mut().find(|it| it.request.tag == request.tag) else {
            let rule = if of_batch { Rule::Batch } else { Rule::ForwardedOnce };
            let what = || format!("nobody sent {} {}", request.method, request.params);
            self.checks.check(rule, false, what);
            return;
        };
        let mut params = asked.request.params.clone();
        // Two callers may choose the same token: a relay gives tokens of its own.
        if let (Some(own), Some(token)) = (params.pointer_mut(TOKEN), request.token()) {
            own.clone_from(token);
        }
        let same = asked.request.method == request.method && params == request.params;
        let what = || format!("{} {} arrived", request.method, request.params);
        self.checks.check(Rule::RequestUnchanged, same, what);
        self.checks.check(Rule::OwnIds, !shared, || format!("two in flight with {}", request.id));
        asked.forwarded.push(request.id.clone());
    }

    fn cancel_arrived(&mut self, id: &Value) {
        let Some(asked) = self.asked.iter_mut().rev().find(|it| it.forwarded.contains(id)) else {
            let what = || format!("a cancel names {id}, which no request has on that side");
            self.checks.check(Rule::CancelOfNothing, false, what);
            return;
        };
        asked.cancels += 1;
        let wanted = asked.cancelled || asked.orphaned;
        let rule =
            if asked.given.is_none() { Rule::CancelOfAnother } else { Rule::CancelOfNothing };
        let what = || format!("a cancel of the request with {} arrived", asked.request.id);
        self.checks.check(rule, wanted, what);
    }

    fn answered(&mut self, id: &Value, answer: &Value) {
        if let Some((_, answers)) = self.cancels.iter_mut().find(|(own, _)| own == id) {
            *answers += 1;
            return;
        }
        let refused = answer["error"]["code"] == -32600;
        let is_silent = !self.protocol.answers_cancelled();
        let named = self.asked.iter_mut().filter(|asked| asked.request.id == *id);
        // If two have one id, an answer is that of the one for which it was given, and a refusal is the second's.
        let asked = named.min_by_key(|asked| {
            let is_given = asked.given.as_ref() == Some(answer);
            let is_silent = is_silent && asked.cancelled;
            (!asked.answers.is_empty(), is_silent, !is_given, refused && !asked.is_twin)
        });
        if let Some(asked) = asked {
            asked.answers.push(answer.clone());
        } else {
            let to_no_request = id.is_null() && answer["error"].is_object();
            let holds = to_no_request && self.unanswerable > 0;
            self.unanswerable = self.unanswerable.saturating_sub(1);
            self.checks
                .check(Rule::AnsweredOnce, holds, || format!("{id} was not asked: {answer}"));
        }
    }

    fn settle(mut self) {
        for asked in mem::take(&mut self.asked) {
            asked.settle([self.protocol, self.callee], self.checks);
        }
        for (own, answers) in &self.cancels {
            let what = || format!("the cancel with {own} was answered {answers} times");
            self.checks.check(Rule::Acknowledged, *answers == 1, what);
        }
        if !self.notified.is_empty() || !self.notifications.is_empty() {
            let (sent, arrived) = (&self.notified, &self.notifications);
            let what = || format!("{} sent, {} arrived: {arrived:?}", sent.len(), arrived.len());
            self.checks.check(Rule::Notifications, sent == arrived, what);
        }
    }
}

impl Asked {
    fn settle(&self, [protocol, callee]: [&Wire; 2], checks: &mut Checks) {
        let id = &self.request.id;
        let forwarded = self.forwarded.len();
        // One with an id in flight may be refused, and one that is cancelled before it left is withdrawn.
        let may_stay = self.is_twin || self.cancelled || self.deserted;
        let holds = forwarded == 1 || (forwarded == 0 && may_stay);
        let what = || format!("the request with {id} was forwarded {forwarded} times");
        checks.check(Rule::ForwardedOnce, holds, what);

        let answers = self.answers.len();
        let is_silent = self.cancelled && !protocol.answers_cancelled();
        let (rule, holds) = match self.deserted {
            _ if is_silent && answers > 1 => (Rule::AnsweredOnce, false),
            _ if is_silent => (Rule::Silence, answers <= usize::from(self.answered_before_cancel)),
            _ if self.left => (Rule::AnsweredOnce, false),
            true => (Rule::Ends, answers == 1),
            false => (Rule::AnsweredOnce, answers == 1 || (self.orphaned && answers == 0)),
        };
        checks.check(rule, holds, || match self.left {
            true => format!("the request with {id} was not answered"),
            false => format!("the request with {id} was answered {answers} times"),
        });

        if !self.is_twin {
            self.settle_answer(callee, checks);
        }
        self.settle_cancels(checks);
    }

    fn settle_answer(&self, callee: &Wire, checks: &mut Checks) {
        let Some(answer) = self.answers.first() else { return };
        // If the callee owes no response to a cancelled request, the relay does not wait for one.
        let is_settled_here = self.cancelled && !callee.answers_cancelled();
        let holds = match &self.given {
            _ if is_settled_here && answer["error"]["code"] == code::REQUEST_CANCELLED => true,
            Some(given) if !well_formed(given) => {
                answer["error"].is_object() && well_formed(answer)
            }
            Some(given) if given.get("error").is_some() => {
                let (given, answer) = (&given["error"], &answer["error"]);
                // In JSON-RPC none has a command.
                ["code", "message", "command"].iter().all(|member| given[member] == answer[member])
            }
            Some(given) => given == answer,
            None if self.cancelled => answer["error"]["code"] == code::REQUEST_CANCELLED,
            None => answer["error"].is_object(),
        };
        let what = || {
            let given = self.given.as_ref().map_or_else(|| "nothing".into(), Value::to_string);
            format!("{} is answered {answer}, and was given {given}", self.request.id)
        };
        let rule = if self.cancelled { Rule::CancelledAnswer } else { Rule::AnswerUnchanged };
        checks.check(rule, holds, what);
    }

    fn settle_cancels(&self, checks: &mut Checks) {
        let (id, cancels) = (&self.request.id, self.cancels);
        let what = || format!("the cancel of {id} arrived {cancels} times");
        if self.cancelled {
            let crossed = self.answered_before_cancel || self.deserted;
            // A request that was cancelled before it left is withdrawn.
            let is_withdrawn = self.forwarded.is_empty() || crossed;
            let holds = cancels == usize::from(!is_withdrawn) || (crossed && cancels == 1);
            checks.check(Rule::CancelForwarded, holds, what);
        } else if self.orphaned {
            let is_settled = cancels == 1 || self.told || self.forwarded.is_empty();
            checks.check(Rule::Ends, cancels <= 1 && is_settled, || match is_settled {
                true => what(),
                false => format!("nobody told that the caller of {id} is gone"),
            });
        } else {
            // Each that arrives is judged then.
            checks.check(Rule::CancelOfNothing, true, String::new);
        }
    }
}

/// Checks that every peer can read a message. It has no odd header, but the members of its envelope, its id fits 31 bits
/// or is a plain string, and `params` is not null.
fn form(protocol: &Wire, message: &Message, text: &str, checks: &mut Checks) {
    // Behind an odd header it is null.
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    let what = || format!("{text:.200}");
    let (is_such, params) = match protocol.dialect.envelope {
        Envelope::Dap => (has_id(protocol, &value["seq"]), "arguments"),
        _ => (value["jsonrpc"] == "2.0", "params"),
    };
    checks.check(Rule::Form, value.is_array() || is_such, what);
    checks.check(Rule::Form, value.get(params).is_none_or(|params| !params.is_null()), what);
    if let Message::Request(Request { id, .. }) = message {
        let number = id.as_i64().is_some_and(|id| (1..1 << 31).contains(&id));
        let string = id.as_str().is_some_and(|id| id.is_ascii() && !id.is_empty());
        checks.check(Rule::Form, number || string, what);
    }
}

#[cfg(test)]
mod tests;
