//! Three runs in which nothing is wrong show the facts about a client.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use protocol_core::{Dialect, Envelope};

use super::facts::{ClientFacts, End, Ended};
use crate::check::{Item, Reply, Step};
use crate::family::{Family, NEWEST_MCP};
use crate::options::ClientOptions;
use crate::play::Play;
use crate::session::Waited;
use crate::suite::in_order;
use crate::target::{Target, Unreached};

/// A client ends by itself if it does so within this time after the answer to its request.
const END: Duration = Duration::from_secs(5);

impl ClientFacts {
    /// Finds out what a client does when nothing is wrong.
    pub(super) fn find(target: &dyn Target, options: &ClientOptions) -> Result<Self, Unreached> {
        let mut facts = Self::unknown(options).meet(target, options)?;
        let each = [End::Result, End::Error, End::Cancelled];
        // No other client is started once one has failed.
        let has_failed = AtomicBool::new(false);
        let look = |end: &End| {
            let goes_on = !has_failed.load(Ordering::Relaxed);
            let seen = goes_on.then(|| facts.look(*end, target, options))?;
            has_failed.fetch_or(seen.is_err(), Ordering::Relaxed);
            Some((*end, seen))
        };
        let all_seen = in_order(&each, options.suite.jobs, look, |_| {});
        for (end, seen) in all_seen.into_iter().flatten() {
            let seen = seen?;
            facts.ends.push((end, seen.ended));
            facts.cancels = facts.cancels.or(seen.cancelled);
            facts.gives_up |= seen.gave_up;
        }
        if let Some(ask) = options.ask.as_ref().filter(|_| facts.answers) {
            let mut play = facts.held(target, options)?;
            let slow = facts.common.measure_once(&mut play.session, ask, options.ask_ms);
            facts.ask_is_slow = slow.is_ok_and(|slow| slow.reads_on);
        }
        Ok(facts)
    }

    /// Starts one, and waits for its request.
    fn held<'a>(
        &'a self,
        target: &dyn Target,
        options: &ClientOptions,
    ) -> Result<Play<'a>, Unreached> {
        let session = self.start(target, options)?;
        let mut play = Play::with_client(session, self, options.suite.seed, options.ask_ms);
        match play.perform(&[Step::Held]) {
            Ok(()) => Ok(play),
            Err(stop) => Err(Unreached::Opening { why: stop.why(), stderr: play.session.stderr() }),
        }
    }

    /// Finds out the name that it gives, and whether it answers us.
    fn meet(&self, target: &dyn Target, options: &ClientOptions) -> Result<Self, Unreached> {
        let mut play = self.held(target, options)?;
        let mut facts = self.clone();
        facts.common.is_process = play.session.child().is_some();
        if let Some((_, first)) = play.session.asked().first() {
            (facts.common.name, facts.declares) = first.client();
            // MCP without a date is what the client opens with.
            let version = match first.method.as_str() {
                "initialize" => first.params["protocolVersion"].as_str(),
                _ => Some(NEWEST_MCP),
            };
            let settled = version.and_then(|name| Dialect::named(&format!("mcp-{name}")));
            if let ("mcp", Some(settled)) = (&*options.dialect.name, settled) {
                facts.speak(settled);
            }
        }
        facts.declares |= facts.family() != Family::AcpDraft;
        facts.method =
            play.session.held().map(|held| held.asked.method.clone()).unwrap_or_default();
        // In the others a server asks nothing of the kind.
        if !matches!(facts.common.dialect.envelope, Envelope::Abp | Envelope::Dap) {
            facts.answers = play.session.ask("quick", &facts.common.quick).1 == Waited::Done;
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
                let is_cancelled = play.wait_for_cancel().is_ok() || play.session.is_cancelled();
                seen.cancelled = is_cancelled.then(|| begun.elapsed());
                seen.gave_up = !is_cancelled && play.session.has_ended();
                Reply::Cancelled
            }
        };
        // Nothing stops an answer to a request that is held.
        let _ = play.send(&[Item::Answer(reply)], false);
        if play.session.wait_for(END.min(options.suite.patience), &mut |_| false) == Waited::Ended {
            seen.ended = Ended::Itself(play.status());
        }
        Ok(seen)
    }
}

/// The behaviour of a client in one run.
struct Seen {
    cancelled: Option<Duration>,
    gave_up: bool,
    ended: Ended,
}
