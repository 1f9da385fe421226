//! The facts about a client that its checks need. Three runs in which nothing is wrong show them.

use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use protocol_core::{Dialect, Envelope, ResponseRule};
use serde_json::{Value, json};

use super::check::{ClientItem, ClientStep, Reply};
use super::play::{End, Play};
use super::suite::ClientOptions;
use crate::family::{Family, NEWEST_MCP, Request};
use crate::session::{Session, Waited};
use crate::stop::Stop;
use crate::suite::Unreached;
use crate::target::Target;
use crate::wire::{Outcome, Wire};

/// The facts about a client.
#[derive(Clone, Debug)]
pub(super) struct ClientFacts {
    pub(super) dialect: Dialect,
    /// Its name and version, as it says.
    name: String,
    /// The method of the request that is held.
    method: String,
    /// Whether it is a process of its own.
    pub(super) is_process: bool,
    /// Whether it answers requests of ours while it waits for an answer.
    pub(super) answers: bool,
    /// Whether it has declared that its own work can be cancelled.
    pub(super) declares: bool,
    /// The time after its request, or after the trigger, at which it cancels; `None` if it does not.
    pub(super) cancels: Option<Duration>,
    /// Whether what we ask takes it time, and it answers others meanwhile.
    pub(super) ask_is_slow: bool,
    /// Whether it ends when its request is not answered for long.
    pub(super) gives_up: bool,
    /// The way it ends by itself after a result, an error and a cancel.
    ends: Vec<(End, Ended)>,
}

/// The way a client ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// With this status, if it is a process.
    Itself(Option<ExitStatus>),
    /// Only when we did.
    WithUs,
}

/// A client ends by itself if it does so within this time after the answer to its request.
const END: Duration = Duration::from_secs(5);

impl ClientFacts {
    /// Finds out what a client does when nothing is wrong.
    pub(super) fn find(target: &dyn Target, options: &ClientOptions) -> Result<Self, Unreached> {
        let mut facts = Self::unknown(options.dialect.clone()).meet(target, options)?;
        let each = [End::Result, End::Error, End::Cancelled];
        let seen: Vec<Seen> = match options.jobs {
            1 => each.iter().map(|end| facts.look(*end, target, options)).collect::<Result<_, _>>(),
            _ => thread::scope(|scope| {
                let facts = &facts;
                let runs = each.map(|end| scope.spawn(move || facts.look(end, target, options)));
                let panicked = |_| Err(Unreached::Start("a run has failed".into()));
                runs.into_iter().map(|run| run.join().unwrap_or_else(panicked)).collect()
            }),
        }?;
        for (end, seen) in each.into_iter().zip(seen) {
            facts.ends.push((end, seen.ended));
            facts.cancels = facts.cancels.or(seen.cancelled);
            facts.gives_up |= seen.gave_up;
        }
        if let Some(ask) = options.ask.as_ref().filter(|_| facts.answers) {
            facts.ask_is_slow = facts.measure(ask, target, options)?;
        }
        Ok(facts)
    }

    /// Of a client that was not met yet.
    pub(super) fn unknown(dialect: Dialect) -> Self {
        Self {
            dialect,
            name: String::new(),
            method: String::new(),
            is_process: false,
            answers: false,
            declares: true,
            cancels: None,
            ask_is_slow: false,
            gives_up: false,
            ends: Vec::new(),
        }
    }

    pub(super) fn family(&self) -> Family {
        Family::of(&self.dialect)
    }

    /// A request that every client answers at once.
    pub(super) fn quick(&self) -> Request {
        match self.family() {
            Family::McpUntil2025 => Request::new("ping", json!({})),
            _ => Request::new("conformance/unknown", json!({})),
        }
    }

    /// Whether an end is one of those that were seen while nothing was wrong. A cancelled request that got
    /// an answer of another kind all the same may end the client as that does.
    pub(super) fn ends_so(
        &self,
        end: End,
        answered: Option<End>,
        is_process: bool,
        status: Option<ExitStatus>,
    ) -> bool {
        let is_same = |kind: End| {
            self.ends.iter().any(|(of, ended)| {
                *of == kind
                    && match ended {
                        Ended::Itself(usual) => !is_process || *usual == status,
                        Ended::WithUs => false,
                    }
            })
        };
        is_same(end) || answered.is_some_and(is_same)
    }

    /// Starts a client.
    pub(super) fn start(
        &self,
        target: &dyn Target,
        options: &ClientOptions,
    ) -> Result<Session, Unreached> {
        let link = target.start().map_err(|error| Unreached::Start(error.to_string()))?;
        let wire = Wire::new(self.dialect.clone());
        Ok(Session::with_client(link, wire, options.patience))
    }

    /// Starts one, and waits for its request.
    fn held<'a>(
        &'a self,
        target: &dyn Target,
        options: &'a ClientOptions,
    ) -> Result<Play<'a>, Unreached> {
        let session = self.start(target, options)?;
        let mut play = Play::new(session, self, options, options.seed, options.ask_ms);
        let refused = |play: &Play<'_>, why: String| Unreached::Opening {
            why,
            stderr: play.session.stderr(),
        };
        match play.perform(&[ClientStep::Held]) {
            Ok(()) => Ok(play),
            Err(
                Stop::NotExercised(why) | Stop::Missed(why) | Stop::Stuck(why) | Stop::Ended(why),
            ) => Err(refused(&play, why)),
        }
    }

    /// Finds out the name that it gives, and whether it answers us.
    fn meet(&self, target: &dyn Target, options: &ClientOptions) -> Result<Self, Unreached> {
        let mut play = self.held(target, options)?;
        let mut facts = self.clone();
        facts.is_process = play.session.child().is_some();
        if let Some((_, first)) = play.asked.first() {
            (facts.name, facts.declares) = first.client();
            // MCP without a date is what the client opens with.
            let version = match first.method.as_str() {
                "initialize" => first.params["protocolVersion"].as_str(),
                _ => Some(NEWEST_MCP),
            };
            let settled = version.and_then(|name| Dialect::named(&format!("mcp-{name}")));
            if let ("mcp", Some(settled)) = (&*options.dialect.name, settled) {
                facts.dialect = settled;
            }
        }
        facts.declares |= facts.family() != Family::AcpDraft;
        facts.method = play.held.as_ref().map(|held| held.asked.method.clone()).unwrap_or_default();
        // In the others a server asks nothing of the kind.
        if !matches!(facts.dialect.envelope, Envelope::Abp | Envelope::Dap) {
            let quick = facts.quick();
            let message = super::reply::request("\"quick\"", &quick.method, &quick.params);
            play.session.send(&[message], false);
            let answered = play.wait(|play| play.session.is_answered("\"quick\""));
            facts.answers = answered == Waited::Done;
        }
        Ok(facts)
    }

    /// Lets its request come to one of the ends that it may have, and sees how the client takes that.
    fn look(
        &self,
        end: End,
        target: &dyn Target,
        options: &ClientOptions,
    ) -> Result<Seen, Unreached> {
        let mut play = self.held(target, options)?;
        let mut seen = Seen { cancelled: None, gave_up: false, ended: Ended::WithUs };
        let begun = Instant::now();
        let reply = match end {
            End::Result => Reply::Result,
            End::Error => Reply::Error(-32603),
            End::Cancelled => {
                let is_cancelled = play.wait_for_cancel().is_ok() || play.is_cancelled();
                seen.cancelled = is_cancelled.then(|| begun.elapsed());
                seen.gave_up = !is_cancelled && play.session.has_ended();
                Reply::Cancelled
            }
        };
        // Nothing stops an answer to a request that is held.
        let _ = play.send(&[ClientItem::Answer(reply)], false);
        if play.wait_for(END.min(options.patience), |_| false) == Waited::Ended {
            seen.ended = Ended::Itself(play.status());
        }
        Ok(seen)
    }

    /// Whether what we ask takes the client its time, and it answers others meanwhile.
    fn measure(
        &self,
        ask: &Request,
        target: &dyn Target,
        options: &ClientOptions,
    ) -> Result<bool, Unreached> {
        let mut play = self.held(target, options)?;
        let slow = super::reply::request("\"slow\"", &ask.method, &ask.lasting(options.ask_ms));
        let begun = Instant::now();
        play.session.send(&[slow], false);
        let reads_on = play.next().is_ok() && !play.session.is_answered("\"slow\"");
        play.wait(|play| play.session.is_answered("\"slow\""));
        let is_done = play
            .session
            .answers_to("\"slow\"")
            .any(|(_, outcome)| matches!(outcome, Outcome::Result(_)));
        let took = begun.elapsed();
        Ok(is_done && reads_on && took >= Duration::from_millis(options.ask_ms) / 2)
    }

    /// In one line, for reports.
    pub(super) fn describe(&self) -> Value {
        json!({
            "client": self.name,
            "dialect": self.dialect.name,
            "held": self.method,
            "answers": self.answers,
            "cancels_after_ms": self.cancels.map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX)),
            "ask_takes_time": self.ask_is_slow,
        })
    }

    /// Whether a cancelled request gets no answer.
    pub(super) fn is_silent(&self) -> bool {
        self.dialect.response != ResponseRule::Required
    }
}

/// The behaviour of a client in one run.
struct Seen {
    cancelled: Option<Duration>,
    gave_up: bool,
    ended: Ended,
}
