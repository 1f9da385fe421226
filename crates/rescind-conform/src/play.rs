//! Plays the steps of a check with one server or client, and keeps what the rules are judged by.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::mem;
use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::check::{Id, Name, WorkEnd};
use crate::client::facts::Client;
use crate::facts::Facts;
use crate::family::{Family, Request, SESSION, put};
use crate::lateness::Stretch;
use crate::session::{Session, Waited};
use crate::stop::{Stop, TOO_LATE, lacks, missed};
use crate::work_record::Run;

mod capacity;
mod crowd;
pub(crate) mod items;
mod late;
mod malformed;
mod reverse;
mod rounds;
pub(crate) mod steps;
mod witness;
pub(crate) mod work;

/// The most that a wait is longer for work that was asked for before.
const AT_WORK: Duration = Duration::from_secs(300);

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
    /// Its noun in verdicts: requests of ours to a client are told apart from its own.
    pub(crate) noun: &'static str,
    /// Its place in the record, if it takes its time.
    pub(crate) works_from: Option<usize>,
    /// The milliseconds that it was asked to take.
    pub(crate) asked_ms: u64,
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.noun, self.id)
    }
}

/// A next request, with where it stands in the record.
#[derive(Clone, Debug)]
pub(crate) struct Next {
    pub(crate) id: String,
    pub(crate) sent_at: usize,
}

/// The way in which a server took slow requests that were made at once.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Taken {
    /// Their number, without the short one.
    pub(crate) count: usize,
    /// The number of those that were answered before the short one, which came after them.
    pub(crate) before_short: usize,
    /// Whether the short one comes no later than the machine was late.
    pub(crate) was_late: bool,
    /// The first response among them that is no result.
    pub(crate) refusal: Option<String>,
}

/// A check as it is played.
#[derive(Debug)]
pub(crate) struct Play<'a> {
    pub(crate) session: Session,
    pub(crate) facts: &'a Facts,
    /// The client that is tested. `None` if a server is.
    pub(crate) client: Option<Client<'a>>,
    pub(crate) named: BTreeMap<Name, Made>,
    pub(crate) nexts: Vec<Next>,
    /// Other requests that are done at once.
    reads: Vec<Next>,
    /// Requests without a name: cancelled or not.
    pub(crate) crowd: Vec<Made>,
    /// The ids of what it has asked of us for each request.
    pub(crate) theirs_for: BTreeMap<Name, String>,
    /// The place from which on it asks for our requests: what it has asked before is for none of them.
    asks_from: usize,
    /// The slow requests that the server takes at once, before many cancels and after them.
    pub(crate) capacity: Option<(Taken, Taken)>,
    /// After the end of the input: whether the process ended, and left nothing.
    pub(crate) ended: Option<bool>,
    /// Whether cancelled requests were over only with the next message.
    pub(crate) is_prompted: bool,
    /// Every id that was used, or taken for use.
    pub(crate) ids: HashSet<String>,
    /// The part of the record in which we sent only malformed cancels, and quick requests beside them.
    pub(crate) silent: Range<usize>,
    /// Whether slow requests ask for no progress.
    pub(crate) is_plain: bool,
    /// Whether the cancels are left out, to see what the server does without them.
    pub(crate) is_control: bool,
    /// The places in the record of the cancels that were sent.
    pub(crate) cancels: Vec<usize>,
    /// The place of the first of the messages that a check has sent last.
    pub(crate) sent_at: usize,
    /// The time since the session was opened.
    begun: Stretch,
    /// By how much something may have come too late meanwhile, as it was seen last.
    pub(crate) lateness: Duration,
    /// Whether the document was changed in this write: once is enough, and a second change may end what the first began.
    has_edited: bool,
    /// Sessions that were opened and have had no turn yet.
    sessions: Vec<String>,
    /// The ends of the work of requests, as the witness tells, each with whether the work went on when it was first asked.
    pub(crate) witnessed: BTreeMap<Name, (WorkEnd, bool)>,
    /// The work that was begun or stopped.
    pub(crate) runs: BTreeMap<Name, Run>,
    /// The place of our responses to what a turn had to wait for.
    pub(crate) held_until: usize,
    rng: Rng,
    next_id: u64,
    version: u64,
    /// The milliseconds that slow requests are asked to take.
    pub(crate) slow_ms: u64,
}

impl<'a> Play<'a> {
    pub(crate) fn new(mut session: Session, facts: &'a Facts, seed: u64, slow_ms: u64) -> Self {
        session.patience += facts.slow.as_ref().map_or(Duration::ZERO, |slow| slow.lasts(slow_ms));
        let mut rng = Rng::with_seed(seed);
        let next_id = rng.u64(1000..100_000);
        Self {
            begun: Stretch::of(session.process()),
            lateness: Duration::ZERO,
            session,
            facts,
            client: None,
            named: BTreeMap::new(),
            nexts: Vec::new(),
            reads: Vec::new(),
            crowd: Vec::new(),
            theirs_for: BTreeMap::new(),
            asks_from: 0,
            capacity: None,
            ended: None,
            is_prompted: false,
            ids: HashSet::new(),
            silent: 0..0,
            is_plain: false,
            is_control: false,
            cancels: Vec::new(),
            sent_at: 0,
            has_edited: false,
            sessions: Vec::new(),
            witnessed: BTreeMap::new(),
            runs: BTreeMap::new(),
            held_until: 0,
            rng,
            next_id,
            version: 10,
            slow_ms,
        }
    }

    fn made(&self, name: Name) -> Result<&Made, Stop> {
        self.named.get(&name).ok_or_else(|| Stop::Stuck(format!("request {name} was not made")))
    }

    pub(crate) fn fresh(&mut self) -> String {
        self.next_id += 1;
        let number = self.session.next_number();
        let id = number.unwrap_or_else(|| self.token(&self.next_id.to_string()));
        self.ids.insert(id.clone());
        id
    }

    /// An id as this protocol writes it: ABP has no numbers as ids.
    pub(crate) fn token(&self, token: &str) -> String {
        match self.facts.family() {
            Family::Abp if !token.starts_with('"') => format!("\"{token}\""),
            _ => token.to_owned(),
        }
    }

    pub(crate) fn make(&mut self, id: Id) -> Made {
        let own = self.fresh();
        let id = match id {
            Id::Fresh => own.clone(),
            Id::Token(token) => self.token(token),
        };
        let (token, noun) = match self.client {
            None if self.is_plain => (String::new(), "request"),
            None => (self.progress_token(&own), "request"),
            Some(_) => (String::new(), "our request"),
        };
        self.ids.insert(id.clone());
        let asked_ms = self.slow_ms;
        Made { id, token, cancelled_at: None, cancel_id: None, noun, works_from: None, asked_ms }
    }

    /// The messages of a slow request, or of one that is done at once if none is known.
    fn slow(&mut self, made: &Made) -> Vec<String> {
        let facts = self.facts;
        self.version += 1;
        let change = facts.slow.as_ref().ok().and(facts.change(&self.session, self.version));
        change.into_iter().chain([self.slow_unchanged(made)]).collect()
    }

    /// The same about a document that has not changed since: what is known of it already.
    fn slow_unchanged(&mut self, made: &Made) -> String {
        let Ok(slow) = &self.facts.slow else { return self.quick(made) };
        let params = self.params_of(&slow.request, made.asked_ms);
        self.session.wire.request(&made.id, &slow.request.method, &params, &made.token)
    }

    /// Returns the params of a request that takes so long, in a session of its own if it is in one.
    fn params_of(&mut self, request: &Request, ms: u64) -> Value {
        let params = request.lasting(ms);
        if !request.is_in_session() {
            return params;
        }
        let session = self.sessions.pop().or_else(|| self.session.open_session().ok());
        put(&params, &[(SESSION, json!(session))])
    }

    pub(crate) fn quick(&self, made: &Made) -> String {
        let quick = &self.facts.quick;
        self.session.wire.request(&made.id, &quick.method, &quick.params, "")
    }

    /// The cancel of a request, which it notes as its own if it is the first.
    fn cancel(&mut self, made: &mut Made, at: usize) -> String {
        let own = self.fresh();
        let message = self.session.wire.cancel(&made.id, &own);
        made.cancel_id.get_or_insert(own);
        self.unless_control(message, at)
    }

    /// Returns a cancel, which will stand there in the record, or nothing in the run that goes without.
    fn unless_control(&mut self, cancel: String, at: usize) -> String {
        if self.is_control {
            return String::new();
        }
        self.cancels.push(at);
        cancel
    }

    /// Writes messages at once. Those that are empty are left out: a protocol without a cancel on the wire has none.
    fn write(&mut self, mut messages: Vec<String>, in_one_read: bool) {
        messages.retain(|message| !message.is_empty());
        self.session.send(&messages, in_one_read);
    }

    /// Opens as many sessions as so many slow requests need, so that nothing is between these on the wire.
    fn open_sessions(&mut self, count: usize) -> Result<(), Stop> {
        let slow = self.facts.slow.as_ref().ok().map(|slow| &slow.request);
        let is_needed = slow.into_iter().chain(&self.facts.reverse).any(Request::is_in_session);
        while is_needed && self.sessions.len() < count {
            match self.session.open_session() {
                Ok(session) => self.sessions.push(session),
                Err(stop @ Stop::Missed(_)) => return Err(stop),
                // It is asked without one.
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Returns how the subject is called.
    pub(crate) fn subject(&self) -> &'static str {
        if self.client.is_some() { "the client" } else { "the server" }
    }

    pub(crate) fn waited(&self, waited: Waited, what: &str) -> Result<(), Stop> {
        let subject = self.subject();
        Err(match waited {
            Waited::Done => return Ok(()),
            Waited::Ended if self.session.has_said_too_much() => {
                Stop::NotExercised(format!("{subject} said more than is kept"))
            }
            Waited::Ended if self.ends_as_usual() => Stop::NotExercised(format!(
                "{subject} has ended before {what}, as it does when nothing is wrong"
            )),
            Waited::Ended => {
                let status = self.session.how_it_ended();
                Stop::Ended(format!("{subject} ended before {what}{status}"))
            }
            // It is slow, or the machine is: that is no evidence of anything.
            Waited::Talking if self.client.is_none() => {
                Stop::Missed(format!("{subject} was still writing when the wait for {what} ended"))
            }
            Waited::TimedOut | Waited::Talking => {
                Stop::Stuck(format!("{} passed without {what}", self.session.waited()))
            }
            Waited::Late => Stop::Missed(format!("{TOO_LATE} before {what}")),
        })
    }

    /// Waits until something holds, and returns the reason if it does not.
    pub(crate) fn wait(
        &mut self,
        what: &str,
        until: impl FnMut(&Session) -> bool,
    ) -> Result<(), Stop> {
        let at_work = self.at_work();
        self.session.patience += at_work;
        let waited = self.session.wait(until);
        self.session.patience -= at_work;
        self.waited(waited, what)
    }

    /// Returns how long the work takes that was asked for and has no response yet, if it is done one after the other.
    fn at_work(&self) -> Duration {
        let Ok(slow) = &self.facts.slow else { return Duration::ZERO };
        let answered: HashSet<&str> = self.session.all_answers().map(|(_, id, _)| id).collect();
        let all = self.crowd.iter().chain(self.named.values());
        all.filter(|made| made.works_from.is_some() && !answered.contains(&*made.id))
            .map(|made| slow.lasts(made.asked_ms))
            .sum::<Duration>()
            .min(AT_WORK)
    }

    fn wait_for_response(&mut self, id: &str, what: &str) -> Result<(), Stop> {
        self.wait(what, |session| session.is_answered(id))
    }

    fn wait_for_answer(&mut self, name: Name) -> Result<(), Stop> {
        let made = self.made(name)?.clone();
        self.wait(&format!("an answer to request {}", made.id), |session| {
            session.answers_from(&made.id, made.works_from).next().is_some()
        })
    }

    /// Makes a request that is done at once, and waits for its answer. A client need not answer any.
    pub(crate) fn next(&mut self) -> Result<(), Stop> {
        if self.client.as_ref().is_some_and(|client| !client.facts.answers) {
            return Ok(());
        }
        let sent_at = self.session.record.len();
        let id = self.ask_quick();
        self.nexts.push(Next { id: id.clone(), sent_at });
        self.wait_for_response(&id, &format!("an answer to the next request, {id}"))
    }

    /// Makes a request that is done at once, and returns its id.
    pub(crate) fn ask_quick(&mut self) -> String {
        let made = self.make(Id::Fresh);
        let message = self.quick(&made);
        self.session.send(&[message], false);
        made.id
    }

    fn wait_until_started(&mut self, name: Name) -> Result<(), Stop> {
        let made = self.made(name)?.clone();
        if !self.is_plain && self.facts.slow.as_ref().is_ok_and(|slow| slow.has_progress) {
            let token = json!(made.token);
            let begun = |session: &Session| {
                session.reports_of(&token).next().is_some() || session.is_answered(&made.id)
            };
            self.wait("progress", begun)?;
        } else {
            match self.next() {
                // It takes one request at a time.
                Err(Stop::Stuck(why)) if self.cancels.is_empty() => return lacks(why),
                next => next?,
            }
        }
        if self.session.is_answered(&made.id) {
            return missed("the request was done before it could be cancelled");
        }
        Ok(())
    }

    /// Does something while the server's own requests are answered. Those of a client never are.
    fn answering<T>(&mut self, does: impl FnOnce(&mut Self) -> T) -> T {
        let before = mem::replace(&mut self.session.answers, self.client.is_none());
        let done = does(self);
        self.session.answers = before;
        done
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
            let messages = self.slow(&made);
            self.session.note("the same work once more, without a cancel");
            self.nexts.push(Next { id: made.id.clone(), sent_at: self.session.record.len() });
            self.session.send(&messages, false);
            let what = format!("an answer to {}, which was not cancelled", made.id);
            self.answering(|play| play.wait_for_response(&made.id, &what))?;
        }
        self.next()
    }

    /// Returns where the first response stands to a next request that was sent after this place of the record.
    ///
    /// A server reads in order, so it had read everything before. Where a cancel is left out, the request has its place.
    pub(crate) fn read_at(&self, sent_at: usize) -> Option<usize> {
        let all = self.nexts.iter().chain(&self.reads);
        let later = all.filter(|next| next.sent_at >= sent_at);
        later.filter_map(|next| self.session.answered_at(&next.id)).min()
    }

    /// Returns the place of the beginning of a request or of work.
    fn begun_at(&self, name: Name) -> Result<usize, Stop> {
        let work = self.runs.get(&name).map(|run| run.begun_at);
        Ok(work.or(self.made(name)?.works_from).unwrap_or_default())
    }

    /// Returns the time that a request or work took.
    pub(crate) fn took(&self, name: Name) -> Option<Duration> {
        let made = self.made(name).ok()?;
        let mut answers = self.session.answers_from(&made.id, made.works_from);
        let at = match self.runs.get(&name) {
            Some(run) => run.ended_at(&self.session),
            None => answers.next().map(|(at, _)| at),
        };
        Some(self.session.between(self.begun_at(name).ok()?, at?))
    }

    /// Whether the dialect wants an answer to a cancelled request.
    pub(crate) fn wants_answers(&self) -> bool {
        self.session.wire.answers_cancelled()
    }
}
