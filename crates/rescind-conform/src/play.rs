//! Plays the steps of a check with one server, and keeps what the rules are judged by.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::check::{Id, Item, Name, Step};
use crate::facts::Facts;
use crate::malformed;
use crate::session::{Session, Waited};
use crate::wire::Heard;

mod crowd;
mod rounds;

/// A request that a check has made.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    /// Its id, as the token that was written, and the token of its progress.
    pub(crate) id: String,
    pub(crate) token: String,
    /// Where its cancel stands in the record.
    pub(crate) cancelled_at: Option<usize>,
    /// The id that its first cancel has where that is a request.
    pub(crate) cancel_id: Option<String>,
}

/// A next request, with where it stands in the record.
#[derive(Clone, Debug)]
pub(crate) struct Next {
    pub(crate) id: String,
    pub(crate) sent_at: usize,
}

/// Why the rest of the steps is not done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stop {
    /// The check can't be done with this server.
    NotExercised(String),
    /// It can, and this time nothing was seen: what is looked at was over too soon, or the machine too slow for it.
    Missed(String),
    /// The server did not do for long what it has to.
    Stuck(String),
    /// The server ended, and was not asked to.
    Ended(String),
}

/// A check as it is played.
#[derive(Debug)]
pub(crate) struct Play<'a> {
    pub(crate) session: Session,
    pub(crate) facts: &'a Facts,
    pub(crate) named: BTreeMap<Name, Made>,
    pub(crate) nexts: Vec<Next>,
    /// Requests without a name: cancelled or not.
    pub(crate) crowd: Vec<Made>,
    /// The id of what the server has asked of us.
    pub(crate) theirs: Option<String>,
    /// After the end of the input: whether the process ended, and left nothing.
    pub(crate) ended: Option<bool>,
    /// How long the server was busy with a cancelled request, in parts of how long without the cancel.
    pub(crate) ratio: Option<f64>,
    /// Every id that was used, or taken for use.
    pub(crate) ids: HashSet<String>,
    /// Where in the record there are only notifications that name nothing, requests and their answers.
    pub(crate) silent: Range<usize>,
    rng: Rng,
    next_id: u64,
    version: u64,
    slow_ms: u64,
    patience: Duration,
}

/// How much later than all that was waited for an answer may come.
const LATE: Duration = Duration::from_secs(2);

impl<'a> Play<'a> {
    pub(crate) fn new(
        session: Session,
        facts: &'a Facts,
        seed: u64,
        slow_ms: u64,
        patience: Duration,
    ) -> Self {
        let mut rng = Rng::with_seed(seed);
        let next_id = rng.u64(1000..100_000);
        Self {
            session,
            facts,
            named: BTreeMap::new(),
            nexts: Vec::new(),
            crowd: Vec::new(),
            theirs: None,
            ended: None,
            ratio: None,
            ids: HashSet::new(),
            silent: 0..0,
            rng,
            next_id,
            version: 10,
            slow_ms,
            patience,
        }
    }

    /// Does all steps, up to one that can't be done.
    pub(crate) fn perform(&mut self, steps: &[Step]) -> Result<(), Stop> {
        steps.iter().try_for_each(|step| self.step(*step))
    }

    fn step(&mut self, step: Step) -> Result<(), Stop> {
        match step {
            Step::Send(items) => self.send(items, false),
            Step::OneRead(items) => self.send(items, true),
            Step::Started(name) => return self.wait_until_started(name),
            Step::Answered(name) => return self.wait_for_answer(name),
            Step::Next => return self.next().map(drop),
            Step::Settled(name) => return self.settle(name),
            Step::Natural(name) => {
                self.send(&[Item::Slow(name, Id::Fresh)], false);
                return self.wait_for_answer(name);
            }
            Step::MalformedCancels(name) => return self.malformed_cancels(name),
            Step::Burst(count) => return self.burst(count),
            Step::HalfCancelled(count) => return self.half_cancelled(count),
            Step::AnyMoment => return self.any_moment(),
            Step::OutputFull(items) => return self.output_full(items),
            Step::HoldReverse => self.session.answers = false,
            Step::CancelRead(name) => return self.wait_until_cancel_read(name),
            Step::Asked => return self.wait_until_asked(),
            Step::CancelTheirId => {
                let cancel =
                    self.session.wire.cancel(self.theirs.as_deref().unwrap_or("0"), "\"c\"");
                self.session.send(&[cancel], false);
            }
            Step::End => return self.end(),
            Step::Compare => return self.compare(),
            Step::Rounds { steps, until, in_time } => return self.rounds(steps, until, in_time),
        }
        Ok(())
    }

    fn made(&self, name: Name) -> Result<&Made, Stop> {
        self.named.get(&name).ok_or_else(|| Stop::Stuck(format!("request {name} was not made")))
    }

    fn fresh(&mut self) -> String {
        self.next_id += 1;
        let id = match self.session.next_number() {
            Some(number) => number,
            None => self.token(&self.next_id.to_string()),
        };
        self.ids.insert(id.clone());
        id
    }

    /// An id as this protocol writes it: ABP has no numbers as ids.
    pub(crate) fn token(&self, token: &str) -> String {
        match self.facts.family() {
            crate::Family::Abp if !token.starts_with('"') => format!("\"{token}\""),
            _ => token.to_owned(),
        }
    }

    fn make(&mut self, id: Id) -> Made {
        let own = self.fresh();
        let id = match id {
            Id::Fresh => own.clone(),
            Id::Token(token) => self.token(token),
        };
        let token = format!("progress-{}", own.trim_matches('"'));
        self.ids.insert(id.clone());
        Made { id, token, cancelled_at: None, cancel_id: None }
    }

    /// The messages of a slow request, or of one that is done at once if none is known.
    fn slow(&mut self, made: &Made, ms: u64) -> Vec<String> {
        let facts = self.facts;
        self.version += 1;
        let change = facts.slow.as_ref().and(facts.change(&self.session, self.version));
        change.into_iter().chain([self.slow_unchanged(made, ms)]).collect()
    }

    /// The same about a document that has not changed since: what is known of it already.
    fn slow_unchanged(&self, made: &Made, ms: u64) -> String {
        let Some(slow) = &self.facts.slow else { return self.quick(made) };
        let params = slow.request.lasting(ms);
        self.session.wire.request(&made.id, &slow.request.method, &params, &made.token)
    }

    fn quick(&self, made: &Made) -> String {
        let quick = &self.facts.quick;
        self.session.wire.request(&made.id, &quick.method, &quick.params, "")
    }

    /// The cancel of a request, which it notes as its own if it is the first.
    fn cancel(&mut self, made: &mut Made) -> String {
        let own = self.fresh();
        let message = self.session.wire.cancel(&made.id, &own);
        made.cancel_id.get_or_insert(own);
        message
    }

    /// Writes some messages at once.
    fn send(&mut self, items: &[Item], in_one_read: bool) {
        let (mut messages, mut cancelled) = (Vec::new(), Vec::new());
        for item in items {
            let more = self.messages(*item);
            if let Item::Cancel(name) | Item::CancelWithMore(name) = item {
                cancelled.push((*name, self.session.record.len() + messages.len()));
            }
            messages.extend(more);
        }
        // Where a protocol has no cancel on the wire, there is no message for one.
        messages.retain(|message: &String| !message.is_empty());
        for (name, at) in cancelled {
            if let Some(made) = self.named.get_mut(&name) {
                made.cancelled_at.get_or_insert(at);
            }
        }
        self.session.send(&messages, in_one_read);
    }

    fn messages(&mut self, item: Item) -> Vec<String> {
        let wire = self.session.wire.clone();
        match item {
            Item::Slow(name, id) => {
                let made = self.make(id);
                let messages = self.slow(&made, self.slow_ms);
                self.named.insert(name, made);
                messages
            }
            Item::SlowForHalf(name) => {
                let made = self.make(Id::Fresh);
                let message = self.slow_unchanged(&made, self.slow_ms / 2);
                self.named.insert(name, made);
                vec![message]
            }
            Item::Quick(name, id) => {
                let made = self.make(id);
                let message = self.quick(&made);
                self.named.insert(name, made);
                vec![message]
            }
            Item::Reverse(name) => {
                let request =
                    self.facts.reverse.clone().unwrap_or_else(|| self.facts.quick.clone());
                self.named_request(name, &request.method, &request.lasting(self.slow_ms))
            }
            Item::Opening(name) => {
                match self.facts.opening.first().map(|opening| opening.message.clone()) {
                    Some(message) => self.named_request(name, &message.method, &message.params),
                    None => vec![],
                }
            }
            Item::Request(name, method) => self.named_request(name, method, &json!({})),
            Item::Cancel(name) => {
                let Some(mut made) = self.named.get(&name).cloned() else { return vec![] };
                let message = self.cancel(&mut made);
                self.named.insert(name, made);
                vec![message]
            }
            Item::CancelWithMore(name) => {
                let own = self.fresh();
                let cancel = |made: &Made| wire.cancel_with_more(&made.id, &own);
                self.named.get(&name).map(cancel).into_iter().collect()
            }
            Item::CancelId(token) => {
                let own = self.fresh();
                vec![wire.cancel(&self.token(token), &own)]
            }
            Item::Notification(method) => vec![wire.notification(method, &json!({}))],
        }
    }

    fn named_request(&mut self, name: Name, method: &str, params: &Value) -> Vec<String> {
        let made = self.make(Id::Fresh);
        let message = self.session.wire.request(&made.id, method, params, "");
        self.named.insert(name, made);
        vec![message]
    }

    fn waited(&self, waited: Waited, what: &str) -> Result<(), Stop> {
        match waited {
            Waited::Done => Ok(()),
            Waited::Ended if self.session.has_said_too_much() => {
                Err(Stop::NotExercised("the server said more than is kept".into()))
            }
            Waited::Ended => Err(Stop::Ended(format!("the server ended before {what}"))),
            Waited::TimedOut => {
                Err(Stop::Stuck(format!("{} s passed without {what}", self.patience.as_secs())))
            }
            // It is slow, or the machine is: that is no evidence of anything.
            Waited::Talking => Err(Stop::Missed(format!(
                "the server was still answering what was asked before {what}"
            ))),
        }
    }

    fn wait_for_answer(&mut self, name: Name) -> Result<(), Stop> {
        let id = self.made(name)?.id.clone();
        let waited = self.session.wait(|session| session.is_answered(&id));
        self.waited(waited, &format!("an answer to request {id}"))
    }

    /// Makes a request that is done at once, and waits for its answer.
    fn next(&mut self) -> Result<usize, Stop> {
        let made = self.make(Id::Fresh);
        let message = self.quick(&made);
        self.nexts.push(Next { id: made.id.clone(), sent_at: self.session.record.len() });
        self.session.send(&[message], false);
        let waited = self.session.wait(|session| session.is_answered(&made.id));
        self.waited(waited, &format!("an answer to the next request, {}", made.id))?;
        Ok(self.session.answers_to(&made.id).next().map_or(0, |(at, _)| at))
    }

    fn wait_until_started(&mut self, name: Name) -> Result<(), Stop> {
        let made = self.made(name)?.clone();
        if self.facts.slow.as_ref().is_some_and(|slow| slow.has_progress) {
            let begun = |session: &Session| {
                session.progress_of(&made.token).next().is_some() || session.is_answered(&made.id)
            };
            let waited = self.session.wait(begun);
            self.waited(waited, "progress")?;
        } else {
            self.next()?;
        }
        if self.session.is_answered(&made.id) {
            return Err(Stop::Missed("the request was done before it could be cancelled".into()));
        }
        Ok(())
    }

    /// Waits until a cancelled request is over.
    fn settle(&mut self, name: Name) -> Result<(), Stop> {
        let id = self.made(name)?.id.clone();
        self.settle_all(&[id])
    }

    fn settle_all(&mut self, ids: &[String]) -> Result<(), Stop> {
        self.next()?;
        // The same work, begun later, is over: so would be what was not cancelled. Twice, for what is begun
        // later may be done sooner.
        for _ in 0..2 {
            if self.wants_answers() && ids.iter().all(|id| self.session.is_answered(id)) {
                break;
            }
            let made = self.make(Id::Fresh);
            let messages = self.slow(&made, self.slow_ms);
            self.session.note("the same work once more, without a cancel");
            self.session.send(&messages, false);
            let waited = self.session.wait(|session| session.is_answered(&made.id));
            self.waited(waited, &format!("an answer to {}, which was not cancelled", made.id))?;
        }
        self.next().map(drop)
    }

    /// Gives a server that answers out of order a moment for what it still owes.
    pub(crate) fn wait_for_late_answers(&mut self) {
        let wants_all = self.wants_answers();
        let owed: Vec<String> = (self.crowd.iter().chain(self.named.values()))
            .filter(|made| wants_all || made.cancelled_at.is_none())
            .map(|made| made.id.clone())
            .collect();
        self.session.wait_for(LATE, &mut |session| owed.iter().all(|id| session.is_answered(id)));
    }

    /// Whether the dialect wants an answer to a cancelled request.
    pub(crate) fn wants_answers(&self) -> bool {
        self.facts.dialect.response == protocol_core::ResponseRule::Required
    }

    fn malformed_cancels(&mut self, name: Name) -> Result<(), Stop> {
        let id = self.made(name)?.id.clone();
        let member = self.session.wire.cancel_member();
        let (forms, more) = (malformed::plain(member, &id), malformed::refusable(member));
        // A cancel that is a request is answered.
        if self.session.wire.cancels_by_notification() {
            self.silent = self.session.record.len()..usize::MAX;
        }
        let plain = forms.len();
        for (number, params) in forms.into_iter().chain(more).enumerate() {
            if number == plain {
                // An answer that is behind has one request more to come.
                self.next()?;
                self.silent.end = self.silent.end.min(self.session.record.len());
            }
            self.session.note(format!("malformed cancel {}", number + 1));
            let own = self.fresh();
            let message = malformed::message(&self.session.wire, params.as_deref(), &own);
            self.session.send(&[message], false);
            let after = format!(
                "after the malformed cancel with params {}",
                params.as_deref().unwrap_or("(none)")
            );
            self.next().map_err(|stop| match stop {
                Stop::Stuck(why) => Stop::Stuck(format!("{after}: {why}")),
                Stop::Ended(why) => Stop::Ended(format!("{after}: {why}")),
                other => other,
            })?;
        }
        Ok(())
    }

    fn wait_until_cancel_read(&mut self, name: Name) -> Result<(), Stop> {
        let id = self.made(name)?.id.clone();
        let waited = self.session.wait(|session| is_cancel_read(session, &id));
        self.waited(waited, &format!("a sign that the cancel of request {id} was read"))
    }

    fn wait_until_asked(&mut self) -> Result<(), Stop> {
        let asked = |session: &Session| {
            session.heard().find_map(|(_, heard)| match heard {
                Heard::Request { id, .. } => Some(id.clone()),
                _ => None,
            })
        };
        let own = self.named.values().next().map(|made| made.id.clone()).unwrap_or_default();
        let waited =
            self.session.wait(|session| asked(session).is_some() || session.is_answered(&own));
        if waited == Waited::Ended {
            self.waited(waited, "it asked something")?;
        }
        self.theirs = asked(&self.session);
        match &self.theirs {
            Some(_) => Ok(()),
            None => Err(Stop::NotExercised("the server asked nothing of us".into())),
        }
    }

    fn end(&mut self) -> Result<(), Stop> {
        self.session.end_input();
        let waited = self.session.wait(|_| false);
        if waited != Waited::Ended {
            return Err(Stop::Stuck(format!(
                "its output has not ended {} s after its input",
                self.patience.as_secs()
            )));
        }
        self.ended = match self.session.child() {
            Some(child) => child.ends(self.patience),
            None => Some(true),
        };
        Ok(())
    }
}

/// Whether the server is seen to have read the cancel of a request.
pub(crate) fn is_cancel_read(session: &Session, id: &str) -> bool {
    session.is_answered(id)
        || session.heard().any(|(_, heard)| matches!(heard, Heard::Cancel { .. }))
}
