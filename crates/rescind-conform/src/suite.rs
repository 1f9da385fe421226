//! Runs checks on a server, each on a fresh one, and says what held.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use protocol_core::Dialect;

use crate::check::{Check, Need, Rule, Step};
use crate::checks::CHECKS;
use crate::facts::Facts;
use crate::family::{Opening, Request};
use crate::judge::{is_excused_by_control, judge};
use crate::known::Known;
use crate::once::{Once, Told};
use crate::play::Play;
use crate::report::{Outcome, Report, Transcript, Verdict};
use crate::stop::Fault;
use crate::stop::{Stop, TOO_LATE};
use crate::target::Target;

/// The options of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The protocol that the server is asked to speak.
    pub dialect: Dialect,
    /// A request that takes its time; discovered if there is none, where that is possible.
    pub slow: Option<Request>,
    /// A request that makes the server ask something of us.
    pub reverse: Option<Request>,
    /// The messages that open a session, instead of the dialect's own.
    pub open: Option<Vec<Opening>>,
    /// The language of the document that a language server works on: `cpp`, `python`, `typescript`, `go` or
    /// `plaintext`; by the server's name if there is none.
    pub language: Option<String>,
    /// Whether tools that are not declared read-only may be called.
    pub allow_tools: bool,
    /// Chooses ids, and which requests are cancelled where any will do.
    pub seed: u64,
    /// The time that is waited for what has to come.
    pub patience: Duration,
    /// The time that slow requests are asked to take, in milliseconds.
    pub slow_ms: u64,
    /// The number of checks that run at the same time.
    pub jobs: usize,
    /// The checks to run, by their ids or the parts before the slash; all if there are none.
    pub only: Vec<String>,
    /// The checks that are known to fail.
    pub known: Known,
}

impl Options {
    /// The defaults for a dialect.
    #[must_use]
    pub fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            slow: None,
            reverse: None,
            open: None,
            language: None,
            allow_tools: false,
            seed: 1,
            patience: PATIENCE,
            slow_ms: 1000,
            jobs: JOBS,
            only: Vec::new(),
            known: Known::default(),
        }
    }
}

/// The reason why nothing could be tested.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Unreached {
    /// The server could not be started.
    Start(String),
    /// It did not open a session.
    Opening {
        /// The description of what went wrong.
        why: String,
        /// The last of its standard error.
        stderr: String,
    },
}

impl std::fmt::Display for Unreached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Start(why) => write!(f, "the server can't be started: {why}"),
            Self::Opening { why, stderr } => {
                write!(f, "no session could be opened: {why}")?;
                match stderr.lines().last() {
                    Some(last) => write!(f, "; it wrote: {last}"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for Unreached {}

/// The time to wait for a message, unless options say otherwise. A target that is still at work gets more.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The number of checks that run at the same time, unless options say otherwise.
pub(crate) const JOBS: usize = 4;

/// A check that failed or was missed runs again with slow requests that last this many times as long. No cancel
/// then races with the end of its request.
pub(crate) const AGAIN: u8 = 3;

/// News of a run.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// Something that many checks need is not known; it comes first.
    Lacks(&'a str),
    /// A check has its outcome. They come in the order of the table.
    Checked(&'a Outcome),
}

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
    let lacks = facts.lacks();
    if let Some(why) = &lacks {
        seen(Progress::Lacks(why));
    }
    let checks: Vec<&Check> = CHECKS.iter().filter(|check| runs(&options.only, check.id)).collect();
    let stops = |check: &&Check| check.needs.contains(&Need::Turn);
    if checks.iter().filter(|check| check.clause(facts.family()).is_some()).any(stops) {
        facts.find_turn(target, options)?;
    }
    let outcomes = in_order(
        &checks,
        options.jobs,
        |check| Case { target, options, facts: &facts, check }.run(),
        |outcome| seen(Progress::Checked(outcome)),
    );
    let stale = options.known.stale(&outcomes);
    Ok(Report {
        facts: facts.describe(),
        lacks,
        seed: options.seed,
        took: begun.elapsed(),
        outcomes,
        stale,
    })
}

/// Whether a check is run of which only some are, by their ids or the parts before the slash; all if there are none.
pub(crate) fn runs(only: &[String], id: &str) -> bool {
    let group = id.split('/').next().unwrap_or_default();
    only.is_empty() || only.iter().any(|only| only == id || only == group)
}

/// Makes so many checks at the same time, and tells what came of them in the order that they have.
pub(crate) fn in_order<C: Sync>(
    checks: &[C],
    jobs: usize,
    make: impl Fn(&C) -> Outcome + Sync,
    mut seen: impl FnMut(&Outcome),
) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let (done, all_done) = mpsc::channel();
    let mut outcomes = Vec::new();
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, checks.len().max(1)) {
            let (done, next, make) = (done.clone(), &next, &make);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(check) = checks.get(number) else { return };
                    // The receiver lives as long as this scope.
                    let _ = done.send((number, make(check)));
                }
            });
        }
        drop(done);
        // Told in the order of the table, whatever is done first.
        let mut waiting = BTreeMap::new();
        for (number, outcome) in all_done {
            waiting.insert(number, outcome);
            while let Some(outcome) = waiting.remove(&outcomes.len()) {
                seen(&outcome);
                outcomes.push(outcome);
            }
        }
    });
    outcomes
}

/// One check on one server.
struct Case<'a> {
    target: &'a dyn Target,
    options: &'a Options,
    facts: &'a Facts,
    check: &'a Check,
}

impl Case<'_> {
    fn run(&self) -> Outcome {
        let Check { id, title, .. } = *self.check;
        let clause = self.check.clause(self.facts.family());
        let slow_ms = self.options.slow_ms;
        Told { id, title, clause }.outcome(&self.options.known, |number| match self.lacks() {
            _ if clause.is_none() => Once::without(Verdict::NotApplicable),
            _ if self.check.needs.contains(&Need::Process) && !self.facts.is_process => {
                Once::without(Verdict::NotApplicable)
            }
            Some(TOO_LATE) => Once::of(Some(Stop::Missed(TOO_LATE.into())), None),
            Some(why) => Once::without(Verdict::NotExercised { why: why.to_owned() }),
            None if number == 0 => self.once(self.facts, slow_ms),
            // A document grows once: what takes as long as it takes gets too long for a server.
            None => {
                self.once(&self.facts.longer(AGAIN), slow_ms * u64::from(AGAIN).pow(times(number)))
            }
        })
    }

    /// Returns a thing that the check needs and this server does not have.
    fn lacks(&self) -> Option<&str> {
        let slow = self.facts.slow.as_ref();
        self.check.needs.iter().find_map(|need| match need {
            Need::Slow if slow.is_none() => Some(self.facts.no_slow.as_str()),
            Need::Progress if !slow.is_some_and(|slow| slow.has_progress) => {
                Some("the request that takes its time reports no progress")
            }
            Need::ReadsOn if !slow.is_some_and(|slow| slow.reads_on) => {
                Some("the server answers nothing else while it is at work")
            }
            Need::Turn if self.facts.turn.is_none() => Some(&self.facts.no_turn),
            Need::Reverse if self.facts.reverse.is_none() => {
                Some("no request is known that makes the server ask something (--reverse)")
            }
            _ => None,
        })
    }

    /// Plays the check once with a fresh server, and once more without its cancels if something may be their fault.
    fn once(&self, facts: &Facts, slow_ms: u64) -> Once {
        let mut play = match self.start(facts, slow_ms) {
            Ok(play) => play,
            // It has opened others: nothing is seen of what the check is about.
            Err(unreached) => return Once::of(Some(Stop::Missed(unreached.to_string())), None),
        };
        let mut seen = self.play(&mut play);
        if let Some(same) = self.control(&play, &seen, facts, slow_ms) {
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
    fn start<'f>(&self, facts: &'f Facts, slow_ms: u64) -> Result<Play<'f>, Unreached> {
        let patience = self.options.patience;
        let opens = matches!(
            self.check.steps.first(),
            Some(Step::OneRead([crate::check::Item::Opening(_), ..]))
        );
        let open = || match opens {
            true => facts.unopened(self.target, patience),
            false => facts.open(self.target, patience),
        };
        let session = open().or_else(|_| open())?;
        let seed = case_seed(self.options.seed, self.check.id);
        Ok(Play::new(session, facts, seed, slow_ms, patience))
    }

    /// Does the steps, and judges what came of them.
    fn play(&self, play: &mut Play<'_>) -> Seen {
        let mut stopped = play.perform(self.check.steps).err();
        if stopped.is_none() && judge(play, self.check.rules).is_some() {
            stopped = play.wait_for_late_answers().err();
        }
        Seen { stopped, broken: judge(play, self.check.rules) }
    }

    /// Does the same without the cancels, where something is wrong that they may be to blame for. Returns the reason why
    /// nothing can be said, if the server does the same without them or can't be asked.
    fn control(&self, play: &Play<'_>, seen: &Seen, facts: &Facts, slow_ms: u64) -> Option<Stop> {
        if play.cancels == 0 || !seen.may_be_excused(play) {
            return None;
        }
        let mut control = match self.start(facts, slow_ms) {
            Ok(control) => control,
            Err(unreached) => return Some(Stop::Missed(unreached.to_string())),
        };
        control.is_control = true;
        let without = self.play(&mut control);
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

fn times(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Returns the seed for the choices of one check. It is the same on every machine, and differs between checks.
pub(crate) fn case_seed(seed: u64, id: &str) -> u64 {
    seed ^ hash(id)
}

/// Returns the FNV-1a hash of a text.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests;
