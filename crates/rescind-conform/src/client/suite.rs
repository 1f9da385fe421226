//! Runs checks on a client, each on a fresh one, and says what held.

use std::time::Instant;

use serde_json::{Value, json};

use super::checks::CLIENT_CHECKS;
use super::facts::ClientFacts;
use crate::check::{Clause, Need};
use crate::family::Request;
use crate::once::Once;
use crate::options::ClientOptions;
use crate::play::Play;
use crate::report::{Outcome, Report, Transcript};
use crate::seen::Seen;
use crate::stop::Stop;
use crate::suite::{AGAIN, Subject, case_seed};
use crate::target::{Target, Unreached};
use crate::words::Check;

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
    let client = TestedClient::find(target, options)?;
    Ok(options.suite.run(&client, CLIENT_CHECKS, begun, seen))
}

/// A client that is tested.
pub(super) struct TestedClient<'a> {
    pub(super) target: &'a dyn Target,
    pub(super) options: &'a ClientOptions,
    pub(super) facts: ClientFacts,
}

impl Subject for TestedClient<'_> {
    fn facts(&self) -> Value {
        self.facts.describe()
    }

    fn clause(&self, check: &Check) -> Option<&'static Clause> {
        let applies = |need: &Need| *need != Need::Process || self.facts.common.is_process;
        check.clause(self.facts.family()).filter(|_| check.needs.iter().all(applies))
    }

    /// Plays the check once with a fresh client.
    fn once(&self, check: &Check, number: usize) -> Once {
        if let Some(why) = self.misses(check) {
            return Once::of(Some(why), None);
        }
        let session = match self.start() {
            Ok(session) => session,
            // Others have started: nothing is seen of what the check is about.
            Err(unreached) => return Once::missed(unreached.to_string()),
        };
        let seed = case_seed(self.options.suite.seed, check.id);
        let longer = if number == 0 { 1 } else { u64::from(AGAIN) };
        let mut play = Play::with_client(session, &self.facts, seed, self.options.ask_ms * longer);
        let once = Seen::of(check, &mut play).once();
        once.with(Transcript::of(&play.session.record), play.session.stderr())
    }
}

impl TestedClient<'_> {
    /// Returns a thing that the check needs and this client does not have.
    fn misses(&self, check: &Check) -> Option<Stop> {
        let facts = &self.facts;
        let lacks = |why: &str| Some(Stop::NotExercised(why.into()));
        let is_unseen = |why| if facts.was_late { Some(Stop::too_late()) } else { lacks(why) };
        let no_ask = "no request of ours is known that takes the client its time (--ask)";
        check.needs.iter().find_map(|need| match need {
            Need::Cancels if facts.cancels.is_none() => {
                is_unseen("the client cancels nothing, by itself or by --trigger")
            }
            Need::Answers if !facts.answers => {
                is_unseen("the client answers no request of ours while it waits")
            }
            Need::Ask if !facts.ask_is_slow => is_unseen(no_ask),
            Need::AskIfSilent if !facts.ask_is_slow && facts.is_silent() => is_unseen(no_ask),
            Need::Declared if !facts.declares => {
                lacks("the client does not declare that its work can be cancelled")
            }
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests;
