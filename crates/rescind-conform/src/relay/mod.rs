//! Tests of relays: we are the client and the server at once, with the relay under test in between.
//!
//! Each check ([`RELAY_CHECKS`]) is a conversation with a relay of its own, once with the client as the caller and
//! once with the server, where servers may cancel. What both sides sent and saw is one log, on which the rules are
//! checked: those of the check, and those without which nothing is a relay.

mod bench;
mod checks;
mod clauses;
mod message;
mod play;
mod progress;
mod rules;
mod scenarios;
mod target;
mod work;

use std::time::{Duration, Instant};

use protocol_core::{Cancellers, Dialect};
use serde_json::{Value, json};

use crate::check::Clause;
use crate::family::{Family, Opening};
use crate::once::Once;
use crate::options::Suite;
use crate::report::{Outcome, Report, Verdict};
use crate::stop::{Fault, Stop, TOO_LATE};
use crate::suite::Subject;
use crate::target::Unreached;
use crate::wire::Wire;

pub use checks::{RELAY_CHECKS, RelayCheck};
pub use rules::Rule as RelayRule;
pub use target::{Ends, InProcessRelay, Relay, RelayProgram};

use bench::Bench;
use checks::{Conversation, Fits};
use play::Play;
use rules::{Checks, Rule};
use target::Side;
use work::Work;

/// A relay that goes on after both sides have hung up is left alone once it has sent nothing for this time, or has talked
/// for six times as long.
const QUIET: Duration = Duration::from_millis(500);

/// The options of a run on a relay.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RelayOptions {
    /// The dialect that the relay speaks with its client.
    pub near: Dialect,
    /// The dialect that it speaks with its server.
    pub far: Dialect,
    /// The messages that open a session, instead of the near dialect's own.
    pub open: Option<Vec<Opening>>,
    /// The options that all runs share.
    pub suite: Suite,
}

/// The number of checks that run at the same time, unless options say otherwise: most of their time they wait.
const JOBS: usize = 8;

impl RelayOptions {
    /// Returns the defaults for a relay between these.
    #[must_use]
    pub fn new(near: Dialect, far: Dialect) -> Self {
        Self { near, far, open: None, suite: Suite { jobs: JOBS, ..Suite::default() } }
    }
}

/// Runs the checks on a relay, and hands each outcome to `seen` in the order of the table.
///
/// # Errors
///
/// There is no relay to test.
pub fn run_relay(
    relay: &dyn Relay,
    options: &RelayOptions,
    seen: impl FnMut(&Outcome),
) -> Result<Report, Unreached> {
    let begun = Instant::now();
    let family = Family::of(&options.near);
    let mut runner = Runner {
        relay,
        options,
        protocols: [wire(&options.near)?, wire(&options.far)?],
        opening: options.open.clone().unwrap_or_else(|| family.opening(&options.near)),
        reaches: [None; 2],
        was_late: false,
    };
    // A relay that can't be opened once is not tried for every check.
    runner.probe()?;
    Ok(options.suite.run(&runner, RELAY_CHECKS, begun, seen))
}

/// Returns what is said in a dialect, if there are rules for what its cancels name.
fn wire(dialect: &Dialect) -> Result<Wire, Unreached> {
    let wire = Wire::new(dialect.clone());
    let why = || format!("there are no checks for a relay that speaks {}", dialect.name);
    match clauses::ALL.contains(&wire.family) {
        true => Ok(wire),
        false => Err(unreached(why(), String::new())),
    }
}

fn unreached(why: String, stderr: String) -> Unreached {
    Unreached::Opening { why, stderr }
}

struct Runner<'a> {
    relay: &'a dyn Relay,
    options: &'a RelayOptions,
    protocols: [Wire; 2],
    opening: Vec<Opening>,
    /// By the caller's side, which of its requests arrive on the other.
    reaches: [Option<Work>; 2],
    /// Whether the machine was too late to see that.
    was_late: bool,
}

impl Subject<Fits, Conversation, Rule> for Runner<'_> {
    fn facts(&self) -> Value {
        let [near, far] = [&self.options.near, &self.options.far].map(|dialect| &*dialect.name);
        let dialect = if near == far { near.to_owned() } else { format!("{near} to {far}") };
        json!({ "dialect": dialect, "near": near, "far": far })
    }

    fn clause(&self, check: &RelayCheck) -> Option<&'static Clause> {
        self.callers(check).next()?;
        self.protocols.iter().find_map(|protocol| check.clause(protocol.family))
    }

    /// Plays a check with each side as the caller, until it fails.
    fn once(&self, check: &RelayCheck, _: usize) -> Once {
        of_callers(self.callers(check).map(|caller| match self.reaches[caller as usize] {
            Some(_) => self.play(check, caller),
            None if self.was_late => Once::missed(TOO_LATE),
            None => Once::not_exercised("the relay passes no request of the server on"),
        }))
    }
}

impl Runner<'_> {
    fn bench(&self) -> Result<Bench, Unreached> {
        let start = |why| unreached(format!("the relay can't be started: {why}"), String::new());
        let ends = self.relay.start().map_err(start)?;
        Bench::open(ends, self.protocols.clone(), &self.opening, self.options.suite.patience)
    }

    /// Finds out which requests are passed on, and whose.
    fn probe(&mut self) -> Result<(), Unreached> {
        let mut bench = self.bench()?;
        let mut play = Play::new(&mut bench, Side::Near, 0);
        let [near, far] = [0, 1].map(|side: usize| self.protocols[side].family);
        for side in [Side::Near, Side::Far] {
            // One protocol may have what the other lacks.
            let works = if near == far { Work::of(near, side) } else { &[Work::Unknown] };
            self.reaches[side as usize] = play.reaches(side, works);
            if self.reaches[Side::Near as usize].is_none() {
                let why = "the relay does not pass a request on".into();
                return Err(unreached(why, bench.stderr()));
            }
        }
        self.was_late = bench.was_late;
        Ok(())
    }

    /// Returns the sides that call in a check.
    fn callers(&self, check: &RelayCheck) -> impl Iterator<Item = Side> {
        [Side::Near, Side::Far].into_iter().filter(move |caller| {
            let dialect = &self.protocols[*caller as usize].dialect;
            let may_cancel = *caller == Side::Near || dialect.cancellers == Cancellers::Both;
            may_cancel && check.needs.iter().all(|fits| fits(dialect))
        })
    }

    fn play(&self, check: &RelayCheck, caller: Side) -> Once {
        let mut bench = match self.bench().or_else(|_| self.bench()) {
            Ok(bench) => bench,
            // Others were opened: nothing is seen of what the check is about.
            Err(why) => return Once::missed(why.to_string()),
        };
        bench.reaches = self.reaches;
        let mut play = Play::new(&mut bench, caller, shift(self.options.suite.seed));
        // If it stopped short, the rules say what was missing.
        let opened = play.barrier_of(Side::Near);
        // The relay has read all of the opening then.
        let played = opened
            .and_then(|()| check.steps.iter().try_for_each(|run| run(&mut play)))
            .and_then(|()| play.barrier());
        play.finish(QUIET.min(self.options.suite.patience));
        let mut checks = Checks::default();
        rules::check(&bench.log, &self.protocols, &mut checks);
        let once = match outcome(check, &checks, played, caller) {
            once if bench.was_late && once.verdict != Verdict::Pass => Once::missed(TOO_LATE),
            once => once,
        };
        once.with(bench.transcript(), bench.stderr())
    }
}

/// Returns the outcome of a check by the outcomes of its callers, up to one that fails. One that shows nothing is no
/// pass.
fn of_callers(played: impl Iterator<Item = Once>) -> Once {
    let mut told = Once::without(Verdict::NotApplicable);
    for once in played {
        if once.fails() || matches!(told.verdict, Verdict::Pass | Verdict::NotApplicable) {
            told = once;
        }
        if told.fails() {
            break;
        }
    }
    told
}

/// Returns the number that is added to the ids. The default seed, 1, adds nothing.
fn shift(seed: u64) -> u64 {
    seed.wrapping_sub(1) % 1_000 * 1_000
}

/// Returns the outcome of a conversation that was played to its end or came to a halt.
fn outcome(check: &RelayCheck, checks: &Checks, played: Option<()>, caller: Side) -> Once {
    let said = |what: &str| format!("called by the {}: {what}", caller.role());
    let is_judged = || check.rules.iter().any(|rule| checks.made(*rule) > 0);
    let broken = checks.broken(|rule| check.judges(rule));
    let broken = broken.map(|(rule, what)| said(&format!("{what} ({rule})")));
    let stopped = match played {
        _ if broken.is_some() => None,
        None => Some(Stop::Stuck(said("the conversation came to a halt"))),
        Some(()) if check.rules.is_empty() || is_judged() => None,
        Some(()) => Some(Stop::NotExercised(said("there was nothing to judge"))),
    };
    Once::of(stopped, broken.map(Fault::Broken))
}

#[cfg(test)]
mod tests;
