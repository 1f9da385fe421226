//! Tests of servers.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::check::{Check, Clause, Item, Need, Rule, Step};
use crate::checks::CHECKS;
use crate::facts::Facts;
use crate::judge::{is_excused_by_control, judge};
use crate::once::Once;
use crate::options::Options;
use crate::play::Play;
use crate::play::work::find_work;
use crate::report::{Report, Transcript, Verdict};
use crate::stop::{Fault, Stop, TOO_LATE};
use crate::suite::{AGAIN, Progress, Subject, case_seed};
use crate::target::{Target, Unreached};

/// Runs the checks on a server, and reports its progress to `seen`.
///
/// # Errors
///
/// There is no server to test.
pub fn run(
    target: &dyn Target,
    options: &Options,
    mut seen: impl FnMut(Progress<'_>),
) -> Result<Report, Unreached> {
    let begun = Instant::now();
    let mut facts = Facts::find(target, options)?;
    if let Some(why) = facts.lacks() {
        seen(Progress::Lacks(&why));
    }
    let is_stop = |check: &Check| check.needs.contains(&Need::Work) && applies(check, &facts);
    if CHECKS.iter().any(|check| options.suite.runs(check.id) && is_stop(check)) {
        find_work(&mut facts, target, options)?;
    }
    let server = Server { target, options, facts };
    let report = |outcome: &_| seen(Progress::Checked(outcome));
    Ok(options.suite.run(&server, &CHECKS, begun, report))
}

/// Returns whether a check is about what this protocol and revision have.
fn applies(check: &Check, facts: &Facts) -> bool {
    let has_work = !facts.dialect.work.is_empty();
    check.clause(facts.family()).is_some() && (has_work || !check.needs.contains(&Need::Work))
}

/// A server that is tested.
pub(crate) struct Server<'a> {
    pub(crate) target: &'a dyn Target,
    pub(crate) options: &'a Options,
    pub(crate) facts: Facts,
}

impl Subject for Server<'_> {
    fn facts(&self) -> Value {
        self.facts.describe()
    }

    fn lacks(&self) -> Option<String> {
        self.facts.lacks()
    }

    fn clause(&self, check: &Check) -> Option<&'static Clause> {
        check.clause(self.facts.family()).filter(|_| applies(check, &self.facts))
    }

    fn once(&self, check: &Check, number: usize) -> Once {
        let slow_ms = self.options.slow_ms;
        match self.misses(check) {
            _ if check.needs.iter().any(|need| !self.facts.applies(*need)) => {
                Once::without(Verdict::NotApplicable)
            }
            Some(TOO_LATE) => Once::missed(TOO_LATE),
            Some(why) => Once::not_exercised(why),
            None if number == 0 => self.play(check, &self.facts, slow_ms),
            // A document grows once: what takes as long as it takes gets too long for a server.
            None => {
                let times = u32::try_from(number).unwrap_or(u32::MAX);
                self.play(check, &self.facts.longer(AGAIN), slow_ms * u64::from(AGAIN).pow(times))
            }
        }
    }
}

impl Server<'_> {
    /// Returns a thing that the check needs and this server does not have.
    fn misses(&self, check: &Check) -> Option<&str> {
        let slow = self.facts.slow.as_ref();
        check.needs.iter().find_map(|need| match need {
            Need::Slow => slow.err().map(String::as_str),
            Need::Progress if !slow.is_ok_and(|slow| slow.has_progress) => {
                Some("the request that takes its time reports no progress")
            }
            Need::ReadsOn if !slow.is_ok_and(|slow| slow.reads_on) => {
                Some("the server answers nothing else while it is at work")
            }
            Need::Witness if self.facts.witness.is_none() => {
                Some("no request is known that tells how the work of another ended (--witness)")
            }
            Need::Work => self.facts.work.as_ref().err().map(String::as_str),
            Need::Reverse if self.facts.reverse.is_none() => {
                Some("no request is known that makes the server ask something (--reverse)")
            }
            _ => None,
        })
    }

    /// Plays the check once with a fresh server, and once more without its cancels if something may be their fault.
    fn play(&self, check: &Check, facts: &Facts, slow_ms: u64) -> Once {
        let mut play = match self.start(check, facts, slow_ms) {
            Ok(play) => play,
            // It has opened others: nothing is seen of what the check is about.
            Err(unreached) => return Once::missed(unreached.to_string()),
        };
        let mut seen = Self::perform(check, &mut play);
        if let Some(same) = self.control(check, &play, &seen, slow_ms) {
            seen = Seen { stopped: Some(same), broken: None };
        }
        let once = Once::of(seen.stopped, seen.broken.map(|(_, fault)| fault));
        let Play { mut session, .. } = play;
        if once.fails() {
            // Its last message is evidence too.
            session.wait_for(Duration::from_millis(50), &mut |_| false);
        }
        once.with(Transcript::of(&session.record), session.stderr())
    }

    /// Starts a server for the check.
    fn start<'f>(
        &self,
        check: &Check,
        facts: &'f Facts,
        slow_ms: u64,
    ) -> Result<Play<'f>, Unreached> {
        let patience = self.options.suite.patience;
        let opens = matches!(check.steps.first(), Some(Step::OneRead([Item::Opening(_), ..])));
        let open = || match opens {
            true => facts.unopened(self.target, patience),
            false if check.needs.contains(&Need::Work) => {
                facts.for_work().open(self.target, patience)
            }
            false => facts.open(self.target, patience),
        };
        let session = open().or_else(|_| open())?;
        let seed = case_seed(self.options.suite.seed, check.id);
        Ok(Play::new(session, facts, seed, slow_ms))
    }

    /// Does the steps, and judges what came of them.
    fn perform(check: &Check, play: &mut Play<'_>) -> Seen {
        let mut stopped = play.perform(check.steps).err();
        if stopped.is_none() && judge(play, check.rules).is_some() {
            stopped = play.wait_for_late_answers().err();
        }
        Seen { stopped, broken: judge(play, check.rules) }
    }

    /// Does the same without the cancels, where something is wrong that they may be to blame for. Returns the reason why
    /// nothing can be said, if the server does the same without them or can't be asked.
    fn control(&self, check: &Check, play: &Play<'_>, seen: &Seen, slow_ms: u64) -> Option<Stop> {
        if play.cancels == 0 || !seen.may_be_excused(play) {
            return None;
        }
        let mut control = match self.start(check, play.facts, slow_ms) {
            Ok(control) => control,
            Err(unreached) => return Some(Stop::Missed(unreached.to_string())),
        };
        control.is_control = true;
        let without = Self::perform(check, &mut control);
        match (&without.stopped, &without.broken) {
            (Some(Stop::Missed(why)), _) => {
                Some(Stop::Missed(format!("without the cancel, {why}")))
            }
            _ if seen.is_same_as(&without) => {
                let what = without.what().unwrap_or_default();
                Some(Stop::NotExercised(format!("it is the same without the cancel: {what}")))
            }
            _ => None,
        }
    }
}

/// The outcome of one play of a check.
struct Seen {
    stopped: Option<Stop>,
    broken: Option<(Rule, Fault)>,
}

impl Seen {
    /// Returns whether something is wrong for which the cancels may be to blame.
    fn may_be_excused(&self, play: &Play<'_>) -> bool {
        match (&self.stopped, &self.broken) {
            (Some(Stop::Ended(_)), _) => true,
            (Some(Stop::Missed(_) | Stop::NotExercised(_)), _) => false,
            (_, Some((rule, Fault::Broken(_)))) => is_excused_by_control(play, *rule),
            _ => false,
        }
    }

    /// Returns whether another run went wrong in the same way.
    fn is_same_as(&self, other: &Self) -> bool {
        let broken = |seen: &Self| match &seen.broken {
            Some((rule, Fault::Broken(_))) => Some(*rule),
            _ => None,
        };
        match (&self.stopped, &other.stopped) {
            (Some(Stop::Ended(_)), other) => matches!(other, Some(Stop::Ended(_))),
            _ => broken(self).is_some() && broken(self) == broken(other),
        }
    }

    /// Returns what went wrong.
    fn what(&self) -> Option<&str> {
        match (&self.stopped, &self.broken) {
            (Some(Stop::Ended(why)), _) => Some(why),
            (_, Some((_, Fault::Broken(why) | Fault::Unclear(why)))) => Some(why),
            _ => None,
        }
    }
}
