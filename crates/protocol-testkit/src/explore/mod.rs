//! The ordering search: every state that some order of events leads to, nearest first.
//!
//! The search is breadth first, so that the first failure found has a shortest history. A fingerprint of 64
//! bits tells states apart, without their history. Two of a million states are mistaken for one with a
//! probability of about 1 in 40 million.

mod liveness;
mod orderings;
mod relayed;
mod system;
mod turns;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use protocol_record::chart;

use crate::guarantee::{Broken, Guarantee};
use liveness::FairSteps;

pub use orderings::{Orderings, Scenario};
pub use relayed::{Relayed, RelayedChoice};
pub use system::System;
pub use turns::{TurnChoice, Turns};

/// The outcome of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The number of distinct states.
    pub states: usize,
    /// Choices taken in them.
    pub transitions: usize,
    /// Whether every reachable state was visited. Only then is "no failure" a proof.
    pub exhausted: bool,
    /// The failure with the shortest history, if there is one.
    pub failure: Option<Failure>,
}

/// A guarantee that does not hold, and how to get there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The guarantee that does not hold.
    pub broken: Broken,
    /// The choices that lead there, in words.
    pub history: Vec<String>,
    /// The same as a sequence chart.
    pub chart: String,
}

impl Failure {
    /// The history in one line, for [`replay`].
    #[must_use]
    pub fn line(&self) -> String {
        self.history.join("; ")
    }
}

/// The chart, what does not hold, and the line for [`replay`].
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { broken, chart, .. } = self;
        write!(f, "{chart}{broken}\nagain: {}", self.line())
    }
}

/// The first way in which a state was reached.
struct Step {
    from: u32,
    choice: u16,
}

/// Every how many states determinism is checked: a choice taken twice leads to the same state.
const EVERY: usize = 16;

/// Visits every state that can be reached from `start`, up to `most` states.
///
/// Checks on the way that every choice keeps the guarantees and does the same each time (G10), and that nothing
/// panics (G9). Liveness is found by search as well. It fails at a state that has no fair choice left and
/// something unsettled, and at a circle of fair choices.
pub fn search<S: System>(start: &S, most: usize) -> Report {
    let mut steps = vec![Step { from: 0, choice: 0 }];
    let mut seen = HashMap::from([(start.fingerprint(), 0_u32)]);
    let mut layer = vec![(0_u32, start.clone())];
    let mut fair_steps = FairSteps::default();
    let mut transitions = 0;
    let mut exhausted = true;
    let report = |states, transitions, exhausted, failure| Report {
        states,
        transitions,
        exhausted,
        failure,
    };
    while !layer.is_empty() {
        let mut next_layer = Vec::new();
        for (index, state) in layer {
            let (choices, mut is_at_rest) = (state.choices(), true);
            for (number, choice) in choices.iter().enumerate() {
                transitions += 1;
                let choice_number = u16::try_from(number).expect("few choices");
                let is_fair = state.is_fair(choice);
                is_at_rest &= !is_fair;
                let (next, print) = match take(&state, choice, index as usize % EVERY == 0) {
                    Ok(next) => next,
                    Err(broken) => {
                        let mut path = path(&steps, index);
                        path.push(choice_number);
                        let failure = Some(failure(start, &path, broken));
                        return report(steps.len(), transitions, false, failure);
                    }
                };
                let fresh = u32::try_from(steps.len()).expect("states are counted in 32 bits");
                let target = match seen.entry(print) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(_) if steps.len() >= most => {
                        exhausted = false;
                        continue;
                    }
                    Entry::Vacant(place) => {
                        place.insert(fresh);
                        steps.push(Step { from: index, choice: choice_number });
                        next_layer.push((fresh, next));
                        fresh
                    }
                };
                if is_fair {
                    fair_steps.add(index, target);
                }
            }
            if let Some(broken) = state.unsettled().filter(|_| is_at_rest) {
                let failure = Some(failure(start, &path(&steps, index), broken));
                return report(steps.len(), transitions, false, failure);
            }
        }
        layer = next_layer;
    }
    let failure = if exhausted { circle(start, &steps, fair_steps) } else { None };
    report(steps.len(), transitions, exhausted, failure)
}

/// The way to a circle of fair choices, if there is one.
fn circle<S: System>(start: &S, steps: &[Step], fair_steps: FairSteps) -> Option<Failure> {
    let index = fair_steps.first_before_a_circle(steps.len())?;
    let broken = Broken::new(Guarantee::G1, "fair delivery can go round in circles");
    Some(failure(start, &path(steps, index), broken))
}

/// Takes a choice; a panic is a broken guarantee too.
fn take<S: System>(state: &S, choice: &S::Choice, twice: bool) -> Result<(S, u64), Broken> {
    let attempt = || {
        let mut next = state.clone();
        next.take(choice)?;
        let print = next.fingerprint();
        Ok((next, print))
    };
    let attempt = || {
        catch_unwind(AssertUnwindSafe(attempt))
            .unwrap_or_else(|_| Err(Broken::new(Guarantee::G9, "it panicked")))
    };
    let next = attempt()?;
    if twice {
        let again = attempt()?;
        Broken::unless(again.1 == next.1, Guarantee::G10, || {
            "the same choice led to another state".into()
        })?;
    }
    Ok(next)
}

/// The choices that lead to a state.
fn path(steps: &[Step], to: u32) -> Vec<u16> {
    let mut path = Vec::new();
    let mut at = to;
    while at != 0 {
        let step = &steps[at as usize];
        path.push(step.choice);
        at = step.from;
    }
    path.reverse();
    path
}

fn failure<S: System>(start: &S, path: &[u16], broken: Broken) -> Failure {
    let (mut state, mut history, mut marks) = (start.clone(), Vec::new(), Vec::new());
    state.record();
    for &number in path {
        let choice = &state.choices()[usize::from(number)];
        history.push(choice.to_string());
        // Only the last one can fail; that is the failure.
        let _ = catch_unwind(AssertUnwindSafe(|| state.take(choice)));
        marks.extend(state.take_marks());
    }
    Failure { broken, history, chart: chart(S::LANES, &marks) }
}

/// Does what the line of a failure says, from the same start, and draws it.
///
/// # Errors
///
/// The failure that it runs into; or one whose last choice is none that its state has.
pub fn replay<S: System>(start: &S, line: &str) -> Result<String, Failure> {
    let (mut state, mut history, mut marks) = (start.clone(), Vec::new(), Vec::new());
    state.record();
    for word in line.split(';').map(str::trim).filter(|word| !word.is_empty()) {
        history.push(word.to_owned());
        let found = state.choices().into_iter().find(|choice| choice.to_string() == word);
        let taken = match found {
            Some(choice) => state.take(&choice),
            None => Err(Broken::new(Guarantee::G10, format!("there is no choice \"{word}\""))),
        };
        marks.extend(state.take_marks());
        if let Err(broken) = taken {
            return Err(Failure { broken, history, chart: chart(S::LANES, &marks) });
        }
    }
    let chart = chart(S::LANES, &marks);
    let is_at_rest = !state.choices().iter().any(|choice| state.is_fair(choice));
    match state.unsettled().filter(|_| is_at_rest) {
        Some(broken) => Err(Failure { broken, history, chart }),
        None => Ok(chart),
    }
}
