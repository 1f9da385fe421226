//! Plays the steps of a check with one server, and keeps what the rules are judged by.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::check::{Id, Item, Name, Step};
use crate::facts::Facts;
use crate::family::{SESSION, put};
use crate::malformed;
use crate::session::{Session, Waited};
use crate::stop::{Stop, TOO_LATE};
use crate::wire::Heard;

mod capacity;
mod crowd;
mod rounds;
mod turn;

pub(crate) use capacity::Taken;

/// A request that a check has made.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    /// Its id, as the token that was written, and the token of its progress.
    pub(crate) id: String,
    pub(crate) token: String,
    /// The place of its cancel in the record.
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

/// A check as it is played.
#[derive(Debug)]
pub(crate) struct Play<'a> {
    pub(crate) session: Session,
    pub(crate) facts: &'a Facts,
    pub(crate) named: BTreeMap<Name, Made>,
    pub(crate) nexts: Vec<Next>,
    /// Other requests that are done at once.
    reads: Vec<Next>,
    /// Requests without a name: cancelled or not.
    pub(crate) crowd: Vec<Made>,
    /// The id of what the server has asked of us.
    pub(crate) theirs: Option<String>,
    /// The ids of what it has asked of us for each request.
    pub(crate) theirs_for: BTreeMap<Name, String>,
    /// The slow requests that the server takes at once, before many cancels and after them.
    pub(crate) capacity: Option<(Taken, Taken)>,
    /// After the end of the input: whether the process ended, and left nothing.
    pub(crate) ended: Option<bool>,
    /// The time for which the server was busy with a cancelled request, as a share of the time without the
    /// cancel.
    pub(crate) ratio: Option<f64>,
    /// Every id that was used, or taken for use.
    pub(crate) ids: HashSet<String>,
    /// The part of the record in which we sent only malformed cancels, and quick requests beside them.
    pub(crate) silent: Range<usize>,
    /// Whether the cancels are left out, to see what the server does without them.
    pub(crate) is_control: bool,
    /// The number of cancels that were sent.
    pub(crate) cancels: usize,
    /// Whether the document was changed in this write: once is enough, and a second change may end what the first began.
    has_edited: bool,
    /// Sessions that were opened and have had no turn yet.
    sessions: Vec<String>,
    /// The sessions of turns.
    pub(crate) turns: BTreeMap<Name, String>,
    /// The place of our responses to what a turn had to wait for.
    pub(crate) held_until: usize,
    rng: Rng,
    next_id: u64,
    version: u64,
    slow_ms: u64,
    patience: Duration,
}

/// The time in which a response comes that is owed when all others are there, on a machine that is not late.
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
            reads: Vec::new(),
            crowd: Vec::new(),
            theirs: None,
            theirs_for: BTreeMap::new(),
            capacity: None,
            ended: None,
            ratio: None,
            ids: HashSet::new(),
            silent: 0..0,
            is_control: false,
            cancels: 0,
            has_edited: false,
            sessions: Vec::new(),
            turns: BTreeMap::new(),
            held_until: 0,
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
            Step::UnreadableCancels => return self.unreadable_cancels(),
            Step::Burst(count) => return self.burst(count),
            Step::HalfCancelled(count) => return self.half_cancelled(count),
            Step::AnyMoment => return self.any_moment(),
            Step::EachCancelled(count) => return self.each_cancelled(count),
            Step::Capacity(cancels) => return self.compare_capacity(cancels),
            Step::AskedFor(name) => return self.wait_until_asked_for(name),
            Step::OutputFull(items) => return self.output_full(items),
            Step::HoldReverse => self.session.answers = false,
            Step::CancelRead(name) => return self.wait_until_cancel_read(name),
            Step::Asked => return self.wait_until_asked(),
            Step::TurnStarted(name) => return self.wait_until_turn_started(name),
            Step::TurnSettled(name) => return self.settle_turn(name),
            Step::AnswerAsCancelled => self.answer_as_cancelled(),
            Step::CancelTheirId => {
                let cancel =
                    self.session.wire.cancel(self.theirs.as_deref().unwrap_or("0"), "\"c\"");
                let cancel = self.unless_control(cancel);
                self.write(vec![cancel], false);
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
    fn slow_unchanged(&mut self, made: &Made, ms: u64) -> String {
        let Some(slow) = &self.facts.slow else { return self.quick(made) };
        let mut params = slow.request.lasting(ms);
        if slow.request.is_in_session() {
            let session = self.sessions.pop().or_else(|| self.session.open_session());
            params = put(&params, &[(SESSION, json!(session))]);
        }
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
        self.unless_control(message)
    }

    /// Returns a cancel, or nothing in the run that goes without.
    fn unless_control(&mut self, cancel: String) -> String {
        if self.is_control {
            return String::new();
        }
        self.cancels += 1;
        cancel
    }

    /// Writes messages at once. Those that are empty are left out: a protocol without a cancel on the wire has none.
    fn write(&mut self, mut messages: Vec<String>, in_one_read: bool) {
        messages.retain(|message| !message.is_empty());
        self.session.send(&messages, in_one_read);
    }

    /// Opens as many sessions as so many slow requests need, so that nothing is between these on the wire.
    fn open_sessions(&mut self, count: usize) {
        let is_needed = self.facts.slow.as_ref().is_some_and(|slow| slow.request.is_in_session());
        while is_needed && self.sessions.len() < count {
            let Some(session) = self.session.open_session() else { return };
            self.sessions.push(session);
        }
    }

    /// Writes some messages at once.
    fn send(&mut self, items: &[Item], in_one_read: bool) {
        let is_slow = |item: &&Item| matches!(item, Item::Slow(..) | Item::SlowFor(..));
        self.open_sessions(items.iter().filter(is_slow).count());
        self.open_for_turns(items);
        self.has_edited = false;
        let (mut messages, mut cancelled) = (Vec::new(), Vec::new());
        for item in items {
            let more = self.messages(*item);
            match *item {
                // A stop may come before its turn.
                Item::Cancel(name) | Item::CancelWithMore(name) | Item::Stop(name)
                    if self.named.contains_key(&name) =>
                {
                    cancelled.push((name, self.session.record.len() + messages.len()));
                }
                _ => {}
            }
            messages.extend(more);
            if let Item::Quick(name, _) = item {
                // A server that has answered it has read what came before it.
                let sent_at = self.session.record.len() + messages.len() - 1;
                let made = self.named.get(name);
                self.reads.extend(made.map(|made| Next { id: made.id.clone(), sent_at }));
            }
        }
        for (name, at) in cancelled {
            if let Some(made) = self.named.get_mut(&name) {
                made.cancelled_at.get_or_insert(at);
            }
        }
        self.write(messages, in_one_read);
    }

    fn messages(&mut self, item: Item) -> Vec<String> {
        let wire = self.session.wire.clone();
        match item {
            Item::Slow(name, id) => {
                let made = self.make(id);
                let messages = match self.has_edited {
                    true => vec![self.slow_unchanged(&made, self.slow_ms)],
                    false => self.slow(&made, self.slow_ms),
                };
                self.has_edited = true;
                self.named.insert(name, made);
                messages
            }
            Item::SlowFor(name, hundredths) => {
                let made = self.make(Id::Fresh);
                let message = self.slow_unchanged(&made, self.slow_ms * hundredths / 100);
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
            Item::Turn(name) => vec![self.turn(name, name)],
            Item::TurnAfter(name, before) => vec![self.turn(name, before)],
            Item::Stop(name) => vec![self.stop(name)],
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
                let cancel = self.named.get(&name).map(cancel).unwrap_or_default();
                vec![self.unless_control(cancel)]
            }
            Item::CancelId(token) => {
                let own = self.fresh();
                let cancel = wire.cancel(&self.token(token), &own);
                vec![self.unless_control(cancel)]
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
            Waited::Late => Err(Stop::Missed(format!("{TOO_LATE} before {what}"))),
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

    /// Waits for the responses that are owed, and reports the wait as missed if the machine was late.
    pub(crate) fn wait_for_late_answers(&mut self) -> Result<(), Stop> {
        let wants_all = self.wants_answers();
        let owed: Vec<String> = (self.crowd.iter().chain(self.named.values()))
            .filter(|made| wants_all || made.cancelled_at.is_none())
            .map(|made| made.id.clone())
            .collect();
        let all_came = |session: &Session| owed.iter().all(|id| session.is_answered(id));
        match self.session.wait_unless_late(LATE, all_came) {
            Waited::Late => Err(Stop::Missed(TOO_LATE.into())),
            _ => Ok(()),
        }
    }

    /// Returns where the first response stands to a next request that was sent after this place of the record.
    ///
    /// A server reads in order, so it had read everything before.
    pub(crate) fn read_at(&self, sent_at: usize) -> Option<usize> {
        let all = self.nexts.iter().chain(&self.reads);
        let later = all.filter(|next| next.sent_at > sent_at);
        let answers = later.filter_map(|next| self.session.answers_to(&next.id).next());
        answers.map(|(at, _)| at).min()
    }

    /// Whether the dialect wants an answer to a cancelled request.
    pub(crate) fn wants_answers(&self) -> bool {
        self.facts.dialect.response == protocol_core::ResponseRule::Required
    }

    fn malformed_cancels(&mut self, name: Name) -> Result<(), Stop> {
        let id = self.made(name)?.id.clone();
        let forms = malformed::plain(self.session.wire.cancel_member(), &id);
        // A cancel that is a request is answered.
        if self.session.wire.cancels_by_notification() {
            self.silent = self.session.record.len()..usize::MAX;
        }
        self.cancel_with_each(forms)?;
        // An answer that is behind has one request more to come.
        self.next().map(drop)
    }

    fn unreadable_cancels(&mut self) -> Result<(), Stop> {
        self.cancel_with_each(malformed::refusable(self.session.wire.cancel_member()))
    }

    fn cancel_with_each(&mut self, forms: Vec<Option<String>>) -> Result<(), Stop> {
        for (number, params) in forms.into_iter().enumerate() {
            self.session.note(format!("malformed cancel {}", number + 1));
            let own = self.fresh();
            let message = malformed::message(&self.session.wire, params.as_deref(), &own);
            let message = self.unless_control(message);
            self.write(vec![message], false);
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
        if self.theirs.is_some() { Ok(()) } else { Err(self.asked_nothing(&waited)) }
    }

    /// A server that is still at work may ask later: that is no evidence that it asks nothing.
    fn asked_nothing(&self, waited: &Waited) -> Stop {
        Stop::NotExercised(match waited {
            Waited::Done | Waited::Ended => "the server asked nothing of us".into(),
            _ => format!("{} s passed without a request of the server", self.patience.as_secs()),
        })
    }

    fn wait_until_asked_for(&mut self, name: Name) -> Result<(), Stop> {
        let known: Vec<String> = self.theirs_for.values().cloned().collect();
        let asked = |session: &Session| {
            session.heard().find_map(|(_, heard)| match heard {
                Heard::Request { id, .. } if !known.contains(id) => Some(id.clone()),
                _ => None,
            })
        };
        let own = self.made(name)?.id.clone();
        let waited =
            self.session.wait(|session| asked(session).is_some() || session.is_answered(&own));
        let theirs = asked(&self.session).ok_or_else(|| self.asked_nothing(&waited))?;
        self.theirs_for.insert(name, theirs);
        Ok(())
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
