//! Runs checks on a server, each on a fresh one, and says what held.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use protocol_core::Dialect;

use crate::check::{Check, Need, Step};
use crate::checks::CHECKS;
use crate::facts::Facts;
use crate::family::{Opening, Request};
use crate::judge::judge;
use crate::known::Known;
use crate::once::{Once, Told};
use crate::play::{Play, Stop};
use crate::report::{Outcome, Report, Transcript, Verdict};
use crate::target::Target;

/// What a run is told.
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
    /// How long is waited for what has to come.
    pub patience: Duration,
    /// How long slow requests are asked to take, in milliseconds.
    pub slow_ms: u64,
    /// How many checks run at the same time.
    pub jobs: usize,
    /// The checks to run, by their ids or the parts before the slash; all if there are none.
    pub only: Vec<String>,
    /// What is known to fail.
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

/// Why nothing could be tested.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Unreached {
    /// The server could not be started.
    Start(String),
    /// It did not open a session.
    Opening {
        /// What went wrong.
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

/// How long is waited for what has to come, unless options say otherwise. What is still at work is waited for longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// How many checks run at the same time, unless options say otherwise.
pub(crate) const JOBS: usize = 4;

/// What failed or was missed is looked at again with slow requests that take so many times as long: what was a race between
/// a cancel and the end of its request is none then.
pub(crate) const AGAIN: u8 = 3;

/// Runs the checks, and hands each outcome to `seen` in the order of the table.
///
/// # Errors
///
/// There is no server to test.
pub fn run(
    target: &dyn Target,
    options: &Options,
    seen: impl FnMut(&Outcome),
) -> Result<Report, Unreached> {
    let begun = Instant::now();
    let facts = Facts::find(target, options)?;
    let checks: Vec<&Check> = CHECKS.iter().filter(|check| runs(&options.only, check.id)).collect();
    let outcomes = in_order(
        &checks,
        options.jobs,
        |check| Case { target, options, facts: &facts, check }.run(),
        seen,
    );
    let stale = options.known.stale(&outcomes);
    Ok(Report {
        facts: facts.describe(),
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
        Told { id, title, clause }.outcome(&self.options.known, |is_first| match self.lacks() {
            _ if clause.is_none() => Once::without(Verdict::NotApplicable),
            _ if self.check.needs.contains(&Need::Process) && !self.facts.is_process => {
                Once::without(Verdict::NotApplicable)
            }
            Some(why) => Once::without(Verdict::NotExercised { why: why.into() }),
            None if is_first => self.once(self.facts, slow_ms),
            None => self.once(&self.facts.longer(AGAIN), slow_ms * u64::from(AGAIN)),
        })
    }

    /// What the check needs and this server does not have.
    fn lacks(&self) -> Option<&'static str> {
        let slow = self.facts.slow.as_ref();
        let is_silent = self.facts.dialect.response != protocol_core::ResponseRule::Required;
        self.check.needs.iter().find_map(|need| match need {
            Need::Slow if slow.is_none() => {
                Some("no request is known that takes its time (--slow)")
            }
            Need::SlowIfSilent if slow.is_none() && is_silent => {
                Some("no request is known that takes its time (--slow)")
            }
            Need::Progress if !slow.is_some_and(|slow| slow.has_progress) => {
                Some("the request that takes its time reports no progress")
            }
            Need::ReadsOn if !slow.is_some_and(|slow| slow.reads_on) => {
                Some("the server answers nothing else while it is at work")
            }
            Need::Reverse if self.facts.reverse.is_none() => {
                Some("no request is known that makes the server ask something (--reverse)")
            }
            _ => None,
        })
    }

    /// Plays the check once with a fresh server.
    fn once(&self, facts: &Facts, slow_ms: u64) -> Once {
        let patience = self.options.patience;
        let opens = matches!(
            self.check.steps.first(),
            Some(Step::OneRead([crate::check::Item::Opening(_), ..]))
        );
        let open = || match opens {
            true => facts.unopened(self.target, patience),
            false => facts.open(self.target, patience),
        };
        let session = match open().or_else(|_| open()) {
            Ok(session) => session,
            // It has opened others: nothing is seen of what the check is about.
            Err(unreached) => return Once::of(Some(Stop::Missed(unreached.to_string())), None),
        };
        let seed = case_seed(self.options.seed, self.check.id);
        let mut play = Play::new(session, facts, seed, slow_ms, patience);
        let stopped = play.perform(self.check.steps).err();
        if stopped.is_none() && judge(&play, self.check.rules).is_some() {
            play.wait_for_late_answers();
        }
        let once = Once::of(stopped, judge(&play, self.check.rules));
        let Play { mut session, .. } = play;
        if once.fails() {
            // Whatever it said last is evidence too.
            session.wait_for(Duration::from_millis(50), &mut |_| false);
        }
        once.with(Transcript::of(&session.record), session.stderr())
    }
}

/// What a check makes its choices by: the same with the same seed on every machine, and other ones than another check.
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
