//! Tests of servers.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::check::{Clause, Level, Need};
use crate::checks::CHECKS;
use crate::facts::{Facts, Ignored};
use crate::heed;
use crate::once::Once;
use crate::options::Options;
use crate::play::Play;
use crate::play::items::Item;
use crate::play::steps::Step;
use crate::play::work::find_work;
use crate::report::{Report, Transcript, Verdict};
use crate::seen::Seen;
use crate::stop::Stop;
use crate::suite::{AGAIN, Progress, Subject, case_seed};
use crate::target::{Target, Unreached};
use crate::words::Check;

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
    let if_heeded = |check: &Check| {
        let clause = check.clause(facts.family()).filter(|_| options.suite.runs(check.id));
        clause.is_some_and(|clause| clause.if_heeded)
    };
    if CHECKS.iter().any(if_heeded) {
        facts.ignores = heed::ignored(&facts, target, options);
    }
    if let Some(why) = facts.lacks() {
        seen(Progress::Lacks(&why));
    }
    let asks_nothing = facts.reverse.is_none() && !facts.dialect.work.is_empty();
    let needs_work = |check: &Check| {
        let may_learn = asks_nothing && check.needs.contains(&Need::Reverse);
        (may_learn || check.needs.contains(&Need::Work)) && applies(check, &facts)
    };
    if CHECKS.iter().any(|check| options.suite.runs(check.id) && needs_work(check)) {
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

    fn level(&self, check: &Check, clause: &Clause) -> Level {
        // Work is under way when others are read, or something is asked for it.
        let at_work = check.needs.iter().any(|need| matches!(need, Need::ReadsOn | Need::Reverse));
        let ignores = self.facts.ignores;
        let is_ignored = ignores == Ignored::All || ignores == Ignored::AtWork && at_work;
        if clause.if_heeded && is_ignored { Level::Information } else { clause.level }
    }

    fn once(&self, check: &Check, number: usize) -> Once {
        let slow_ms = self.options.slow_ms;
        match self.misses(check) {
            _ if check.needs.iter().any(|need| !self.facts.applies(*need)) => {
                Once::without(Verdict::NotApplicable)
            }
            Some(stop) => Once::of(Some(stop), None),
            None if number == 0 => self.play(check, &self.facts, slow_ms),
            // A document grows once: what takes as long as it takes gets too long for a server.
            None => {
                let longer = if number == 1 { AGAIN } else { AGAIN * AGAIN };
                self.play(check, &self.facts.longer(AGAIN), slow_ms * u64::from(longer))
            }
        }
    }
}

impl Server<'_> {
    /// Returns a thing that the check needs and this server does not have.
    fn misses(&self, check: &Check) -> Option<Stop> {
        let slow = self.facts.slow.as_ref();
        let lacks = |why: &str| Some(Stop::NotExercised(why.into()));
        check.needs.iter().find_map(|need| match need {
            Need::Slow => slow.err().cloned(),
            Need::Progress if slow.is_ok_and(|slow| slow.has_progress) => None,
            Need::ReadsOn if slow.is_ok_and(|slow| slow.reads_on) => None,
            Need::Progress | Need::ReadsOn if slow.is_ok_and(|slow| slow.was_late) => {
                Some(Stop::too_late())
            }
            Need::Progress => lacks("the request that takes its time reports no progress"),
            Need::ReadsOn => lacks("the server answers nothing else while it is at work"),
            Need::Witness if self.facts.witness.is_none() => {
                lacks("no request is known that tells how the work of another ended (--witness)")
            }
            Need::Work => self.facts.work.as_ref().err().cloned(),
            Need::Reverse if self.facts.reverse.is_none() => {
                lacks("no request is known that makes the server ask something (--reverse)")
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
        let mut seen = Seen::of(check, &mut play);
        if let Some(same) = self.control(check, &play, &seen, slow_ms) {
            seen = Seen { stopped: Some(same), broken: None };
        }
        let once = seen.once();
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

    /// Does the same without the cancels, where something is wrong that they may be to blame for. Returns the reason why
    /// nothing can be said, if the server does the same without them or can't be asked.
    fn control(&self, check: &Check, play: &Play<'_>, seen: &Seen, slow_ms: u64) -> Option<Stop> {
        if play.cancels.is_empty() || !seen.may_be_excused(play) {
            return None;
        }
        let mut control = match self.start(check, play.facts, slow_ms) {
            Ok(control) => control,
            Err(unreached) => return Some(Stop::Missed(unreached.to_string())),
        };
        control.is_control = true;
        let without = Seen::of(check, &mut control);
        seen.excused_by(&without, control.was_late())
    }
}
