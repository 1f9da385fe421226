//! Plays the steps of a check with one client, and keeps what the rules are judged by.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::check::{ClientItem, ClientStep, Reply};
use super::facts::ClientFacts;
use super::reply::{self, Asked};
use super::suite::ClientOptions;
use crate::check::{Id, Name};
use crate::family::Family;
use crate::malformed;
use crate::play::{Made, Next};
use crate::session::{Session, Waited, What};
use crate::stop::{Stop, TOO_LATE};
use crate::target::in_brackets;
use crate::wire::{Heard, dap};

/// The client's request that is left unanswered.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Held {
    pub(super) asked: Asked,
    /// Its place in the record.
    pub(super) at: usize,
    /// The place of its response, once there is one.
    pub(super) answered_at: Option<usize>,
}

/// The response that ended the held request, as far as we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Result,
    Error,
    Cancelled,
}

/// A check as it is played.
#[derive(Debug)]
pub(super) struct Play<'a> {
    pub(super) session: Session,
    pub(super) facts: &'a ClientFacts,
    options: &'a ClientOptions,
    pub(super) held: Option<Held>,
    /// The client's requests, with their places in the record.
    pub(super) asked: Vec<(usize, Asked)>,
    pub(super) named: BTreeMap<Name, Made>,
    pub(super) nexts: Vec<Next>,
    /// Requests without a name.
    pub(super) crowd: Vec<Made>,
    /// After the end of the input: whether the process ended, and left nothing.
    pub(super) ended: Option<bool>,
    /// Every id that was used, or taken for use.
    pub(super) ids: HashSet<String>,
    /// The part of the record in which we sent only malformed cancels, and quick requests beside them.
    pub(super) silent: Range<usize>,
    /// The kind of response that the held request got.
    end: Option<End>,
    holds_opening: bool,
    declares: bool,
    /// The part of the record that was looked at for requests.
    looked: usize,
    next_id: u64,
    ask_ms: u64,
}

/// Requests that [`ClientStep::OutputFull`] makes: their answers fill any pipe.
const FILLING: usize = 5000;
/// A client that talks without end is not waited for any longer than so many times the patience.
const LONGEST: u32 = 6;

impl<'a> Play<'a> {
    pub(super) fn new(
        session: Session,
        facts: &'a ClientFacts,
        options: &'a ClientOptions,
        seed: u64,
        ask_ms: u64,
    ) -> Self {
        let next_id = Rng::with_seed(seed).u64(1000..100_000);
        Self {
            session,
            facts,
            options,
            held: None,
            asked: Vec::new(),
            named: BTreeMap::new(),
            nexts: Vec::new(),
            crowd: Vec::new(),
            ended: None,
            ids: HashSet::new(),
            silent: 0..0,
            end: None,
            holds_opening: false,
            declares: true,
            looked: 0,
            next_id,
            ask_ms,
        }
    }

    /// Does all steps, up to one that can't be done.
    pub(super) fn perform(&mut self, steps: &[ClientStep]) -> Result<(), Stop> {
        steps.iter().try_for_each(|step| self.step(*step))
    }

    fn step(&mut self, step: ClientStep) -> Result<(), Stop> {
        match step {
            ClientStep::HoldOpening => self.holds_opening = true,
            ClientStep::DeclareNothing => self.declares = false,
            ClientStep::Held => return self.hold(),
            ClientStep::Cancelled => return self.wait_for_cancel(),
            ClientStep::MayCancel => self.let_it_cancel(),
            ClientStep::NotYetCancelled if self.is_cancelled() => {
                let why = "the client cancelled its request before it had read what was sent";
                return Err(Stop::Missed(why.into()));
            }
            ClientStep::NotYetCancelled => {}
            ClientStep::Send(items) => return self.send(items, false),
            ClientStep::OneRead(items) => return self.send(items, true),
            ClientStep::Next => return self.next(),
            ClientStep::NextOrEnd => return self.next_or_end(),
            ClientStep::Answered(name) => return self.wait_for_answer(name),
            ClientStep::Settled(name) => return self.settle(name),
            ClientStep::MalformedCancels(name) => return self.malformed_cancels(name),
            ClientStep::Burst(count) => return self.burst(count),
            ClientStep::OutputFull => return self.output_full(),
            ClientStep::End => return self.close(),
        }
        Ok(())
    }

    /// Takes what comes until something holds, and answers the client's requests meanwhile.
    pub(super) fn wait(&mut self, until: impl FnMut(&Self) -> bool) -> Waited {
        self.wait_with(until, |session, come| session.wait(come))
    }

    /// As [`wait`](Self::wait), no longer than this.
    pub(super) fn wait_for(
        &mut self,
        patience: Duration,
        until: impl FnMut(&Self) -> bool,
    ) -> Waited {
        let deadline = Instant::now() + patience;
        self.wait_with(until, |session, come| {
            let left = deadline.saturating_duration_since(Instant::now());
            session.wait_for(left, &mut |session| come(session))
        })
    }

    fn wait_with(
        &mut self,
        mut until: impl FnMut(&Self) -> bool,
        mut wait: impl FnMut(&mut Session, &dyn Fn(&Session) -> bool) -> Waited,
    ) -> Waited {
        let deadline = Instant::now() + self.options.patience * LONGEST;
        loop {
            self.serve();
            if until(self) {
                return Waited::Done;
            }
            let before = self.session.record.len();
            match wait(&mut self.session, &|session| session.record.len() > before) {
                Waited::Done if Instant::now() > deadline => return Waited::TimedOut,
                Waited::Done => {}
                // What it said last may be what was waited for.
                Waited::Ended if self.session.record.len() > before => {}
                other => return other,
            }
        }
    }

    /// Answers what the client has asked since, and holds what is to be held.
    fn serve(&mut self) {
        let is_asked = |entry: &crate::session::Entry| match &entry.what {
            What::Got { message, heard } if !matches!(heard, Heard::Answer { .. }) => {
                Asked::read(&self.session.wire, message)
            }
            _ => None,
        };
        let new = self.session.record.iter().enumerate().skip(self.looked);
        let new: Vec<_> =
            new.filter_map(|(at, entry)| is_asked(entry).map(|asked| (at, asked))).collect();
        self.looked = self.session.record.len();
        for (at, asked) in new {
            if asked.is_cancel(&self.session.wire) {
                let own = self.own_number();
                let told = reply::acknowledgement(&self.session.wire, &asked, &own);
                self.session.send(&[told], false);
                continue;
            }
            self.asked.push((at, asked.clone()));
            let prompt = match asked.opens() && self.holds_opening {
                true => None,
                false => reply::prompt(self.options, &asked, self.declares),
            };
            match prompt {
                None if self.held.is_none() => {
                    self.held = Some(Held { asked, at, answered_at: None });
                }
                result => {
                    let result = result.unwrap_or_else(|| reply::result(self.options, &asked));
                    let own = self.own_number();
                    let answer = reply::answer(&self.session.wire, &asked, &result, &own);
                    self.session.send(&[answer], false);
                    if asked.opens() && self.facts.family() == Family::Dap {
                        let own = self.own_number();
                        self.session.send(&[dap::event("initialized", &own)], false);
                    }
                }
            }
        }
    }

    /// The number of our next message, where messages have numbers.
    fn own_number(&mut self) -> String {
        self.session.next_number().unwrap_or_default()
    }

    fn hold(&mut self) -> Result<(), Stop> {
        match self.wait(|play| play.held.is_some()) {
            Waited::Done => Ok(()),
            _ if !self.session.has_ended() => {
                Err(Stop::Missed("the client has made no request that could be held".into()))
            }
            _ => Err(Stop::Ended(format!(
                "the client ended before it made its request{}",
                self.session.how_it_ended()
            ))),
        }
    }

    /// The cancels so far, with their places in the record and what they name.
    pub(super) fn cancels(&self) -> impl Iterator<Item = (usize, &str)> {
        self.session.heard().filter_map(|(at, heard)| match heard {
            Heard::Cancel { id } => Some((at, id.as_str())),
            _ => None,
        })
    }

    /// Whether there is a cancel of the held request, or of none that we know.
    pub(super) fn is_cancelled(&self) -> bool {
        let held = self.held.as_ref().map(|held| &held.asked.id);
        let is_other = |id: &str| {
            Some(id) != held.map(String::as_str) && self.asked.iter().any(|(_, it)| it.id == id)
        };
        self.cancels().any(|(_, id)| !is_other(id))
    }

    /// Sends the message that makes the client cancel, if the options have one.
    fn pull_trigger(&mut self) {
        if let Some(trigger) = &self.options.trigger {
            let message = self.session.wire.notification(&trigger.method, &trigger.params);
            self.session.send(&[message], false);
        }
    }

    pub(super) fn wait_for_cancel(&mut self) -> Result<(), Stop> {
        self.pull_trigger();
        let waited = self.wait(Self::is_cancelled);
        self.waited(waited, "a cancel")
    }

    fn let_it_cancel(&mut self) {
        self.pull_trigger();
        if self.options.trigger.is_some() && self.facts.answers {
            // Not judged: before the session is open a client need not answer.
            let id = self.fresh();
            let message = self.quick(&id);
            self.session.send(&[message], false);
            self.wait_for(self.options.patience, |play| play.session.is_answered(&id));
        }
        let took = self.facts.cancels.unwrap_or_default();
        self.wait_for(took * 2 + Duration::from_millis(200), |_| false);
    }

    /// The end of the client while it is waited for something is a failure, if it does not end so by itself.
    fn waited(&mut self, waited: Waited, what: &str) -> Result<(), Stop> {
        match waited {
            Waited::Done => Ok(()),
            Waited::Ended if self.session.has_said_too_much() => {
                Err(Stop::NotExercised("the client said more than is kept".into()))
            }
            Waited::Ended if self.ends_as_usual() => Err(Stop::NotExercised(format!(
                "the client has ended before {what}, as it does when nothing is wrong"
            ))),
            Waited::Ended => Err(Stop::Ended(format!(
                "the client ended before {what}{}",
                self.status().map_or_else(String::new, in_brackets)
            ))),
            Waited::Late => Err(Stop::Missed(format!("{TOO_LATE} before {what}"))),
            Waited::TimedOut | Waited::Talking => Err(Stop::Stuck(format!(
                "{} s passed without {what}",
                self.options.patience.as_secs()
            ))),
        }
    }

    /// Returns the status of the process, if it is one.
    pub(super) fn status(&self) -> Option<ExitStatus> {
        self.session.child()?.status(self.options.patience)
    }

    /// Whether the client, which has ended, ends so when nothing is wrong.
    fn ends_as_usual(&self) -> bool {
        let end = match self.is_cancelled() {
            true => Some(End::Cancelled),
            false => self.end,
        };
        let is_process = self.session.child().is_some();
        let status = self.status();
        match end {
            None => self.facts.gives_up,
            Some(end) => self.facts.ends_so(end, self.end, is_process, status),
        }
    }

    fn fresh(&mut self) -> String {
        self.next_id += 1;
        let id = self.next_id.to_string();
        self.ids.insert(id.clone());
        id
    }

    fn make(&mut self, id: &str) -> Made {
        self.ids.insert(id.into());
        Made { id: id.into(), token: String::new(), cancelled_at: None, cancel_id: None }
    }

    fn quick(&self, id: &str) -> String {
        let quick = self.facts.quick();
        reply::request(id, &quick.method, &quick.params)
    }

    fn slow(&self, id: &str) -> String {
        match &self.options.ask {
            Some(ask) => reply::request(id, &ask.method, &ask.lasting(self.ask_ms)),
            None => self.quick(id),
        }
    }

    pub(super) fn send(&mut self, items: &[ClientItem], in_one_read: bool) -> Result<(), Stop> {
        let mut messages = Vec::new();
        for item in items {
            let at = self.session.record.len() + messages.len();
            messages.extend(self.message(*item, at)?);
        }
        self.session.send(&messages, in_one_read);
        Ok(())
    }

    /// One message of ours, which will stand there in the record.
    fn message(&mut self, item: ClientItem, at: usize) -> Result<Option<String>, Stop> {
        let wire = self.session.wire.clone();
        let named = |play: &mut Self, name, id: &str| {
            let made = play.make(id);
            play.named.insert(name, made);
        };
        Ok(Some(match item {
            ClientItem::Answer(with) => return self.answer(with, at),
            ClientItem::Quick(name, id) => {
                let id = match id {
                    Id::Fresh => self.fresh(),
                    Id::Token(token) => token.into(),
                };
                named(self, name, &id);
                self.quick(&id)
            }
            ClientItem::Slow(name) => {
                let id = self.fresh();
                named(self, name, &id);
                self.slow(&id)
            }
            ClientItem::UnderTheirId(name) => {
                let id = self.held_id();
                named(self, name, &id);
                self.quick(&id)
            }
            ClientItem::Request(name, method) => {
                let id = self.fresh();
                named(self, name, &id);
                reply::request(&id, method, &serde_json::json!({}))
            }
            ClientItem::Cancel(name) => {
                let own = self.fresh();
                let Some(made) = self.named.get_mut(&name) else { return Ok(None) };
                made.cancelled_at.get_or_insert(at);
                wire.cancel(&made.id, made.cancel_id.get_or_insert(own))
            }
            ClientItem::CancelId(token) => wire.cancel(token, "\"c\""),
            ClientItem::CancelTheirs => wire.cancel(&self.held_id(), "\"c\""),
            ClientItem::Notification(method) => wire.notification(method, &serde_json::json!({})),
        }))
    }

    fn held_id(&self) -> String {
        self.held.as_ref().map_or_else(|| "0".into(), |held| held.asked.id.clone())
    }

    fn answer(&mut self, with: Reply, at: usize) -> Result<Option<String>, Stop> {
        let wire = self.session.wire.clone();
        let own = self.own_number();
        let Some(held) = &mut self.held else { return Ok(None) };
        let id = held.asked.id.clone();
        let (message, end) = match with {
            Reply::Result => {
                let result = reply::result(self.options, &held.asked);
                (Some(reply::answer(&wire, &held.asked, &result, &own)), End::Result)
            }
            Reply::Error(code) => (Some(reply::error(&wire, &held.asked, code, &own)), End::Error),
            Reply::Cancelled => (reply::cancelled(&wire, &held.asked, &own), End::Cancelled),
            Reply::OtherType => {
                let Some(id) = other_type(&id) else {
                    let why = format!("its id {id} looks like none of another type");
                    return Err(Stop::NotExercised(why));
                };
                let other = held.asked.under(&id);
                let result = reply::result(self.options, &other);
                return Ok(Some(reply::answer(&wire, &other, &result, &own)));
            }
            Reply::Unknown(id) => {
                let unknown = held.asked.under(id);
                return Ok(Some(reply::answer(&wire, &unknown, &serde_json::json!({}), &own)));
            }
            Reply::NoId => {
                let nobodys = held.asked.under("null");
                return Ok(Some(reply::error(&wire, &nobodys, -32600, &own)));
            }
        };
        held.answered_at.get_or_insert(at);
        self.end = Some(end);
        Ok(message)
    }

    /// Makes a request that is done at once, and waits for its answer.
    pub(super) fn next(&mut self) -> Result<(), Stop> {
        if !self.facts.answers {
            return Ok(());
        }
        let id = self.fresh();
        let message = self.quick(&id);
        self.nexts.push(Next { id: id.clone(), sent_at: self.session.record.len() });
        self.session.send(&[message], false);
        let waited = self.wait(|play| play.session.is_answered(&id));
        self.waited(waited, &format!("an answer to the next request, {id}"))
    }

    fn next_or_end(&mut self) -> Result<(), Stop> {
        match self.next() {
            // Its answer is owed by nobody any more.
            Err(Stop::NotExercised(_)) if self.session.has_ended() && self.ends_as_usual() => {
                self.nexts.pop();
                Ok(())
            }
            other => other,
        }
    }

    fn wait_for_answer(&mut self, name: Name) -> Result<(), Stop> {
        let Some(id) = self.named.get(&name).map(|made| made.id.clone()) else { return Ok(()) };
        let waited = self.wait(|play| play.session.is_answered(&id));
        self.waited(waited, &format!("an answer to request {id}"))
    }

    /// Waits until a cancelled request is over.
    fn settle(&mut self, name: Name) -> Result<(), Stop> {
        self.next()?;
        let id = self.named.get(&name).map(|made| made.id.clone()).unwrap_or_default();
        // The same work, begun later, is over: so would be what was not cancelled.
        for _ in 0..2 {
            if self.wants_answers() && self.session.is_answered(&id) {
                break;
            }
            let again = self.fresh();
            self.session.note("the same work once more, without a cancel");
            let message = self.slow(&again);
            self.session.send(&[message], false);
            let waited = self.wait(|play| play.session.is_answered(&again));
            self.waited(waited, &format!("an answer to {again}, which was not cancelled"))?;
        }
        self.next()
    }

    /// Whether the dialect wants an answer to a cancelled request.
    pub(super) fn wants_answers(&self) -> bool {
        self.facts.dialect.response == protocol_core::ResponseRule::Required
    }

    fn malformed_cancels(&mut self, name: Name) -> Result<(), Stop> {
        let id = self.named.get(&name).map(|made| made.id.clone()).unwrap_or_default();
        let member = self.session.wire.cancel_member();
        let forms = malformed::plain(member, &id);
        self.silent = self.session.record.len()..usize::MAX;
        for (number, params) in forms.into_iter().enumerate() {
            self.session.note(format!("malformed cancel {}", number + 1));
            let message = malformed::message(&self.session.wire, params.as_deref(), "\"c\"");
            self.session.send(&[message], false);
            self.next()?;
        }
        self.next()
    }

    fn burst(&mut self, count: usize) -> Result<(), Stop> {
        let mut messages = Vec::new();
        for _ in 0..count {
            let id = self.fresh();
            let mut made = self.make(&id);
            messages.push(self.quick(&id));
            let own = self.fresh();
            messages.push(self.session.wire.cancel(&made.id, &own));
            made.cancelled_at = Some(self.session.record.len() + messages.len());
            self.crowd.push(made);
        }
        self.session.send(&messages, true);
        self.wait_for_crowd()
    }

    fn output_full(&mut self) -> Result<(), Stop> {
        self.session.hold_output(true);
        for _ in 0..FILLING / 100 {
            let mut messages = Vec::new();
            for _ in 0..100 {
                let id = self.fresh();
                let made = self.make(&id);
                messages.push(self.quick(&id));
                self.crowd.push(made);
            }
            self.session.send(&messages, false);
        }
        // Until the client does nothing any more: it waits for whoever reads, or has done all.
        for _ in 0..50 {
            let before = self.session.busy();
            self.session.wait_for(Duration::from_millis(200), &mut |_| false);
            if before == self.session.busy() {
                break;
            }
        }
        self.session.hold_output(false);
        self.wait_for_crowd()
    }

    /// Waits until everything is answered, or, where some need not be, the next request is.
    fn wait_for_crowd(&mut self) -> Result<(), Stop> {
        let wants_all = self.wants_answers();
        let owed = self.crowd.iter().filter(|made| wants_all || made.cancelled_at.is_none());
        let mut left: HashSet<String> = owed.map(|made| made.id.clone()).collect();
        let mut looked = 0;
        let waited = self.wait(|play| {
            for entry in &play.session.record[looked..] {
                if let What::Got { heard: Heard::Answer { id, .. }, .. } = &entry.what {
                    left.remove(id);
                }
            }
            looked = play.session.record.len();
            left.is_empty()
        });
        self.waited(waited, "an answer to all of them")?;
        self.next()
    }

    fn close(&mut self) -> Result<(), Stop> {
        self.session.end_input();
        if self.wait(|_| false) == Waited::TimedOut {
            let patience = self.options.patience.as_secs();
            return Err(Stop::Stuck(format!(
                "its output has not ended {patience} s after its input"
            )));
        }
        self.ended = match self.session.child() {
            Some(child) => child.ends(self.options.patience),
            None => Some(true),
        };
        Ok(())
    }
}

/// The id that looks like this one and has the other type; `None` for a text that is no number.
pub(super) fn other_type(id: &str) -> Option<String> {
    match id.strip_prefix('"').and_then(|id| id.strip_suffix('"')) {
        None => Some(format!("\"{id}\"")),
        Some(text) => {
            let is_number = text.parse::<u64>().is_ok_and(|number| number.to_string() == text);
            is_number.then(|| text.to_owned())
        }
    }
}
