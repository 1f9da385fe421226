//! Runs checks on a client, each on a fresh one, and says what held.

use std::time::{Duration, Instant};

use protocol_core::Dialect;
use serde_json::{Value, json};

use super::check::{ClientCheck, ClientNeed};
use super::checks::CLIENT_CHECKS;
use super::facts::ClientFacts;
use super::judge::judge;
use super::play::Play;
use crate::family::Request;
use crate::known::Known;
use crate::once::{Once, Told};
use crate::report::{Outcome, Report, Transcript, Verdict};
use crate::stop::Fault;
use crate::stop::Stop;
use crate::suite::{AGAIN, JOBS, PATIENCE, Unreached, case_seed, in_order, runs};
use crate::target::Target;

/// The options of a run on a client.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientOptions {
    /// The protocol that the client speaks.
    pub dialect: Dialect,
    /// The method of the request that is held; the first that no opening needs, if there is none.
    pub hold: Option<String>,
    /// The results of requests by their methods, where those that are made up don't do.
    pub answers: Vec<(String, Value)>,
    /// A notification of ours that makes the client cancel what is held; by itself, if there is none.
    pub trigger: Option<Request>,
    /// A request of ours that takes the client its time; `sleep`, as `rescind call` knows it, if there is none.
    pub ask: Option<Request>,
    /// Chooses the ids of our requests.
    pub seed: u64,
    /// The time that is waited for what has to come.
    pub patience: Duration,
    /// The time that this request of ours is asked to take, in milliseconds.
    pub ask_ms: u64,
    /// The number of checks that run at the same time.
    pub jobs: usize,
    /// The checks to run, by their ids or the parts before the slash; all if there are none.
    pub only: Vec<String>,
    /// The checks that are known to fail.
    pub known: Known,
}

impl ClientOptions {
    /// The defaults for a dialect.
    #[must_use]
    pub fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            hold: None,
            answers: Vec::new(),
            trigger: None,
            ask: None,
            seed: 1,
            patience: PATIENCE,
            ask_ms: 1000,
            jobs: JOBS,
            only: Vec::new(),
            known: Known::default(),
        }
    }
}

/// Runs the checks on a client, and hands each outcome to `seen` in the order of the table.
///
/// # Errors
///
/// There is no client to test, or it makes no request.
pub fn run_client(
    target: &dyn Target,
    options: &ClientOptions,
    seen: impl FnMut(&Outcome),
) -> Result<Report, Unreached> {
    let begun = Instant::now();
    let sleep = Request::new("sleep", json!({ "ms": "$MS" }));
    let options = &ClientOptions { ask: options.ask.clone().or(Some(sleep)), ..options.clone() };
    let facts = ClientFacts::find(target, options)?;
    let checks: Vec<_> =
        CLIENT_CHECKS.iter().filter(|check| runs(&options.only, check.id)).collect();
    let case = |check: &&'static ClientCheck| Case { target, options, facts: &facts, check }.run();
    let outcomes = in_order(&checks, options.jobs, case, seen);
    let stale = options.known.stale(&outcomes);
    Ok(Report {
        facts: facts.describe(),
        lacks: None,
        seed: options.seed,
        took: begun.elapsed(),
        outcomes,
        stale,
    })
}

/// One check on one client.
struct Case<'a> {
    target: &'a dyn Target,
    options: &'a ClientOptions,
    facts: &'a ClientFacts,
    check: &'a ClientCheck,
}

impl Case<'_> {
    fn run(&self) -> Outcome {
        let ClientCheck { id, title, .. } = *self.check;
        let clause = self.check.clause(self.facts.family());
        let ask_ms = self.options.ask_ms;
        Told { id, title, clause }.outcome(&self.options.known, |number| match self.lacks() {
            _ if clause.is_none() => Once::without(Verdict::NotApplicable),
            Some(why) => Once::without(Verdict::NotExercised { why: why.into() }),
            None => self.once(if number == 0 { ask_ms } else { ask_ms * u64::from(AGAIN) }),
        })
    }

    /// Returns a thing that the check needs and this client does not have.
    fn lacks(&self) -> Option<&'static str> {
        let facts = self.facts;
        let no_ask = "no request of ours is known that takes the client its time (--ask)";
        self.check.needs.iter().find_map(|need| match need {
            ClientNeed::Cancels if facts.cancels.is_none() => {
                Some("the client cancels nothing by itself (--trigger)")
            }
            ClientNeed::Answers if !facts.answers => {
                Some("the client answers no request of ours while it waits")
            }
            ClientNeed::Ask if !facts.ask_is_slow => Some(no_ask),
            ClientNeed::AskIfSilent if !facts.ask_is_slow && facts.is_silent() => Some(no_ask),
            ClientNeed::Declared if !facts.declares => {
                Some("the client does not declare that its work can be cancelled")
            }
            ClientNeed::Process if !facts.is_process => Some("the client is no process of its own"),
            _ => None,
        })
    }

    /// Plays the check once with a fresh client.
    fn once(&self, ask_ms: u64) -> Once {
        let session = match self.facts.start(self.target, self.options) {
            Ok(session) => session,
            // Others have started: nothing is seen of what the check is about.
            Err(unreached) => return Once::of(Some(Stop::Missed(unreached.to_string())), None),
        };
        let seed = case_seed(self.options.seed, self.check.id);
        let mut play = Play::new(session, self.facts, self.options, seed, ask_ms);
        let stopped = play.perform(self.check.steps).err();
        let once = Once::of(stopped, judge(&play, self.check.rules).map(Fault::Broken));
        let session = &play.session;
        once.with(Transcript::of(&session.record), session.stderr())
    }
}

#[cfg(test)]
mod tests;
