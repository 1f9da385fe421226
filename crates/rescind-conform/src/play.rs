//! Plays the steps of a check with one server, and keeps what the rules are judged by.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::{Value, json};

use crate::check::{Id, Item, Name, Step};
use crate::facts::Facts;
use crate::malformed;
use crate::session::{Session, Waited};
use crate::wire::Heard;

/// A request that a check has made.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    /// Its id, as the token that was written, and the token of its progress.
    pub(crate) id: String,
    pub(crate) token: String,
    /// Where its cancel stands in the record.
    pub(crate) cancelled_at: Option<usize>,
    /// The id that the cancel has where it is a request.
    pub(crate) cancel_id: String,
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

/// The parts of its time after which [`Step::AnyMoment`] cancels a request, in hundredths.
const MOMENTS: [u32; 5] = [0, 25, 50, 75, 110];
/// Requests for each of them.
const EACH_MOMENT: usize = 4;
/// Requests that [`Step::OutputFull`] makes: their answers fill any pipe.
const FILLING: usize = 5000;
/// How much later than all that was waited for an answer may come.
const LATE: Duration = Duration::from_secs(2);
/// Pairs that [`Step::Compare`] times.
const PAIRS: usize = 5;

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
            Step::Asked => return self.wait_until_asked(),
            Step::CancelTheirId => {
                let cancel =
                    self.session.wire.cancel(self.theirs.as_deref().unwrap_or("0"), "\"c\"");
                self.session.send(&[cancel], false);
            }
            Step::End => return self.end(),
            Step::Compare => return self.compare(),
        }
        Ok(())
    }

    fn made(&self, name: Name) -> Result<&Made, Stop> {
        self.named.get(&name).ok_or_else(|| Stop::Stuck(format!("request {name} was not made")))
    }

    fn fresh(&mut self) -> String {
        self.next_id += 1;
        let id = self.token(&self.next_id.to_string());
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
        let (own, cancel_id) = (self.fresh(), self.fresh());
        let id = match id {
            Id::Fresh => own.clone(),
            Id::Token(token) => self.token(token),
        };
        let token = format!("progress-{}", own.trim_matches('"'));
        self.ids.insert(id.clone());
        Made { id, token, cancelled_at: None, cancel_id }
    }

    /// The messages of a slow request, or of one that is done at once if none is known.
    fn slow(&mut self, made: &Made, ms: u64) -> Vec<String> {
        let facts = self.facts;
        let Some(slow) = &facts.slow else { return vec![self.quick(made)] };
        self.version += 1;
        let change = facts.change(&self.session, self.version);
        let params = slow.request.lasting(ms);
        let request =
            self.session.wire.request(&made.id, &slow.request.method, &params, &made.token);
        change.into_iter().chain([request]).collect()
    }

    fn quick(&self, made: &Made) -> String {
        let quick = &self.facts.quick;
        self.session.wire.request(&made.id, &quick.method, &quick.params, "")
    }

    fn cancel(&self, made: &Made) -> String {
        self.session.wire.cancel(&made.id, &made.cancel_id)
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
                let messages = self.slow(&made, self.slow_ms / 2);
                self.named.insert(name, made);
                messages
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
                self.named.get(&name).map(|made| self.cancel(made)).into_iter().collect()
            }
            Item::CancelWithMore(name) => {
                let cancel = |made: &Made| wire.cancel_with_more(&made.id, &made.cancel_id);
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
            return Err(Stop::NotExercised(
                "the request was done before it could be cancelled".into(),
            ));
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
        self.facts.dialect.answer == protocol_core::AnswerRule::Answered
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

    fn crowd_ids(&self) -> Vec<String> {
        self.crowd.iter().map(|made| made.id.clone()).collect()
    }

    fn burst(&mut self, count: usize) -> Result<(), Stop> {
        let mut messages = Vec::new();
        for _ in 0..count {
            let mut made = self.make(Id::Fresh);
            messages.push(self.quick(&made));
            made.cancelled_at = Some(self.session.record.len() + messages.len());
            messages.push(self.cancel(&made));
            self.crowd.push(made);
        }
        self.session.send(&messages, false);
        self.wait_for_crowd()
    }

    fn half_cancelled(&mut self, count: usize) -> Result<(), Stop> {
        let mut messages = Vec::new();
        for _ in 0..count {
            let made = self.make(Id::Fresh);
            messages.push(self.quick(&made));
            self.crowd.push(made);
        }
        let mut order: Vec<usize> = (0..count).collect();
        self.rng.shuffle(&mut order);
        for &chosen in &order[..count / 2] {
            let cancel = self.cancel(&self.crowd[chosen]);
            self.crowd[chosen].cancelled_at = Some(self.session.record.len() + messages.len());
            messages.push(cancel);
        }
        self.session.send(&messages, true);
        self.wait_for_crowd()
    }

    /// Waits until everything is answered, or, where some need not be, the next request is.
    fn wait_for_crowd(&mut self) -> Result<(), Stop> {
        let wants_all = self.wants_answers();
        let owed: Vec<String> = (self.crowd.iter())
            .filter(|made| wants_all || made.cancelled_at.is_none())
            .map(|made| made.id.clone())
            .collect();
        self.next()?;
        let mut left = owed;
        let mut looked = 0;
        let waited = self.session.wait(|session| {
            for (_, heard) in session.heard().filter(|(at, _)| *at >= looked) {
                if let Heard::Answer { id, .. } = heard {
                    left.retain(|owed| owed != id);
                }
            }
            looked = session.record.len();
            left.is_empty()
        });
        self.waited(waited, "an answer to all of them")?;
        self.next().map(drop)
    }

    fn any_moment(&mut self) -> Result<(), Stop> {
        let ms = self.slow_ms / 2;
        let slow = self.facts.slow.as_ref();
        let natural = slow.map_or(Duration::from_millis(5), |slow| slow.lasts(ms));
        for _ in 0..EACH_MOMENT * MOMENTS.len() {
            let made = self.make(Id::Fresh);
            let messages = self.slow(&made, ms);
            self.session.send(&messages, false);
            self.crowd.push(made);
        }
        let begun = Instant::now();
        let mut order: Vec<usize> = (0..self.crowd.len()).collect();
        self.rng.shuffle(&mut order);
        for (moment, chosen) in MOMENTS.iter().zip(order.chunks(EACH_MOMENT)) {
            let until = (begun + natural * *moment / 100).saturating_duration_since(Instant::now());
            self.session.wait_for(until, &mut |_| false);
            for &chosen in chosen {
                let cancel = self.cancel(&self.crowd[chosen]);
                self.crowd[chosen].cancelled_at = Some(self.session.record.len());
                self.session.send(&[cancel], false);
            }
        }
        if self.facts.slow.as_ref().is_some_and(|slow| !slow.reads_on) {
            // It may do one after the other, and answers the next request when it has done all.
            let each = natural.max(Duration::from_secs(ms.div_ceil(1000)));
            let all = each.saturating_mul(u32::try_from(self.crowd.len()).unwrap_or(u32::MAX));
            let made = self.make(Id::Fresh);
            let message = self.quick(&made);
            self.session.send(&[message], false);
            self.session.wait_for(all, &mut |session| session.is_answered(&made.id));
        }
        let ids = self.crowd_ids();
        if self.wants_answers() {
            let waited = self.session.wait(|session| ids.iter().all(|id| session.is_answered(id)));
            self.waited(waited, "an answer to all of them")?;
        }
        self.settle_all(&ids)
    }

    fn output_full(&mut self, items: &[Item]) -> Result<(), Stop> {
        self.session.hold_output(true);
        for chunk in 0..FILLING / 100 {
            let mut messages = Vec::new();
            for _ in 0..100 {
                let made = self.make(Id::Fresh);
                messages.push(self.quick(&made));
                self.crowd.push(made);
            }
            if chunk + 1 == FILLING / 100 {
                for item in items {
                    let more = self.messages(*item);
                    messages.extend(more);
                }
            }
            self.session.send(&messages, false);
        }
        let at = self.session.record.len();
        self.named.values_mut().for_each(|made| made.cancelled_at = Some(at));
        // Until the server does nothing any more: it waits for whoever reads, or has done all.
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
        if waited == Waited::TimedOut {
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

    fn compare(&mut self) -> Result<(), Stop> {
        if self.facts.slow.as_ref().is_some_and(|slow| slow.reads_on) {
            return Err(Stop::NotExercised(
                "the server works on several requests at the same time".into(),
            ));
        }
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..PAIRS {
            with.push(self.time_until_free(true)?);
            without.push(self.time_until_free(false)?);
        }
        with.sort();
        without.sort();
        let ratio = with[PAIRS / 2].as_secs_f64() / without[PAIRS / 2].as_secs_f64().max(1e-6);
        self.session.note(format!(
            "median {:.1} ms with a cancel, {:.1} ms without: {ratio:.2}",
            with[PAIRS / 2].as_secs_f64() * 1e3,
            without[PAIRS / 2].as_secs_f64() * 1e3,
        ));
        self.ratio = Some(ratio);
        Ok(())
    }

    /// How long until the server has answered a request like one that it was asked before.
    fn time_until_free(&mut self, cancelled: bool) -> Result<Duration, Stop> {
        let (first, second) = (self.make(Id::Fresh), self.make(Id::Fresh));
        let ms = self.slow_ms / 5;
        let mut messages = self.slow(&first, ms);
        if cancelled {
            messages.push(self.cancel(&first));
        }
        messages.extend(self.slow(&second, ms));
        let begun = Instant::now();
        self.session.send(&messages, false);
        let waited = self.session.wait(|session| session.is_answered(&second.id));
        self.waited(waited, &format!("an answer to request {}", second.id))?;
        let took = begun.elapsed();
        self.next()?;
        Ok(took)
    }
}
