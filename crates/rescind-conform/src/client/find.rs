//! Three runs in which nothing is wrong show the facts about a client.

use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use protocol_core::{Dialect, Envelope};

use super::facts::{ClientFacts, End};
use super::serve::Serving;
use super::suite::TestedClient;
use crate::check::Reply;
use crate::family::{Family, NEWEST_MCP};
use crate::options::ClientOptions;
use crate::play::Play;
use crate::play::items::Item;
use crate::play::steps::Step;
use crate::session::{Session, Waited};
use crate::stop::Stop;
use crate::suite::in_order;
use crate::target::{Target, Unreached};
use crate::wire::Wire;

/// A client ends by itself if it does so within this time after the answer to its request.
const END: Duration = Duration::from_secs(5);

impl<'a> TestedClient<'a> {
    /// Finds out what a client does when nothing is wrong.
    pub(super) fn find(
        target: &'a dyn Target,
        options: &'a ClientOptions,
    ) -> Result<Self, Unreached> {
        let mut client = Self { target, options, facts: ClientFacts::unknown(options) };
        client.facts = client.meet()?;
        let mut facts = client.facts.clone();
        let each = [End::Result, End::Error, End::Cancelled];
        // No other client is started once one has failed.
        let has_failed = AtomicBool::new(false);
        let look = |end: &End| {
            let goes_on = !has_failed.load(Ordering::Relaxed);
            let seen = goes_on.then(|| client.look(*end))?;
            has_failed.fetch_or(seen.is_err(), Ordering::Relaxed);
            Some((*end, seen))
        };
        let all_seen = in_order(&each, options.suite.jobs, look, |_| {});
        for (end, seen) in all_seen.into_iter().flatten() {
            let seen = seen?;
            facts.ends.extend(seen.ended.map(|status| (end, status)));
            facts.cancels = facts.cancels.or(seen.cancelled);
            facts.gives_up |= seen.gave_up;
            facts.was_late |= seen.was_late;
        }
        if let Some(ask) = options.ask.as_ref().filter(|_| facts.answers) {
            let mut play = client.held()?;
            let slow = facts.common.measure_once(&mut play.session, ask, options.ask_ms);
            facts.ask_is_slow = slow.as_ref().is_ok_and(|slow| slow.reads_on);
            facts.ask_takes_time = slow.is_ok();
            facts.was_late |= match slow {
                Ok(slow) => slow.was_late && !slow.reads_on,
                Err(stop) => matches!(stop, Stop::Missed(_)),
            };
        }
        Ok(Self { facts, ..client })
    }

    /// Starts a client whose server we are.
    pub(super) fn start(&self) -> Result<Session, Unreached> {
        let link = self.target.start().map_err(|error| Unreached::Start(error.to_string()))?;
        let wire = Wire::to_client(self.facts.common.dialect.clone());
        let serving = Some(Serving::new(self.options.clone()));
        Ok(Session::new(link, wire, self.options.suite.patience, serving))
    }

    /// Starts one, and waits for its request.
    fn held(&self) -> Result<Play<'_>, Unreached> {
        let (session, options) = (self.start()?, self.options);
        let mut play = Play::with_client(session, &self.facts, options.suite.seed, options.ask_ms);
        let Err(stop) = play.perform(&[Step::Held]) else { return Ok(play) };
        Err(Unreached::Opening { why: stop.why().into(), stderr: play.session.stderr() })
    }

    /// Finds out the name that it gives, and whether it answers us.
    fn meet(&self) -> Result<ClientFacts, Unreached> {
        let mut play = self.held()?;
        let mut facts = self.facts.clone();
        facts.common.is_process = play.session.child().is_some();
        if let Some((_, first)) = play.session.asked().first() {
            (facts.common.name, facts.declares) = first.client();
            // MCP without a date is what the client opens with.
            let version = match first.method.as_str() {
                "initialize" => first.params["protocolVersion"].as_str(),
                _ => Some(NEWEST_MCP),
            };
            let settled = version.and_then(|name| Dialect::named(&format!("mcp-{name}")));
            if let ("mcp", Some(settled)) = (&*self.options.dialect.name, settled) {
                facts.speak(settled);
            }
        }
        facts.declares |= facts.family() != Family::AcpDraft;
        facts.method =
            play.session.held().map(|held| held.asked.method.clone()).unwrap_or_default();
        // In the others a server asks nothing of the kind.
        if !matches!(facts.common.dialect.envelope, Envelope::Abp | Envelope::Dap) {
            let (_, waited) = play.session.ask("quick", &facts.common.quick);
            facts.answers = waited == Waited::Done;
            facts.was_late |= waited == Waited::Late;
        }
        Ok(facts)
    }

    /// Lets its request come to one of the ends that it may have, and sees how the client takes that.
    fn look(&self, end: End) -> Result<Seen, Unreached> {
        let mut play = self.held()?;
        let mut seen = Seen::default();
        let begun = Instant::now();
        let reply = match end {
            End::Result => Reply::Result,
            End::Error => Reply::Error(-32603),
            End::Cancelled => {
                let waited = play.wait_for_cancel();
                let is_cancelled = waited.is_ok() || play.session.is_cancelled();
                seen.was_late = matches!(waited, Err(Stop::Missed(_)));
                seen.cancelled = is_cancelled.then(|| begun.elapsed());
                seen.gave_up = !is_cancelled && play.session.has_ended();
                Reply::Cancelled
            }
        };
        // Nothing stops an answer to a request that is held.
        let _ = play.send(&[Item::Answer(reply)], false);
        match play.session.listen(END.min(self.options.suite.patience)) {
            Waited::Ended => seen.ended = Some(play.status()),
            waited => seen.was_late |= waited == Waited::Late,
        }
        Ok(seen)
    }
}

/// The behaviour of a client in one run.
#[derive(Default)]
struct Seen {
    cancelled: Option<Duration>,
    gave_up: bool,
    was_late: bool,
    /// Its status, if it is a process, once it has ended by itself.
    ended: Option<Option<ExitStatus>>,
}
