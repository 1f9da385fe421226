//! The ordering search: every state that some order of events leads to, nearest first.
//!
//! The search is breadth first, so that the first failure found has a shortest history. A fingerprint of 64
//! bits tells states apart, without their history. Two of a million states are mistaken for one with a
//! probability of about 1 in 40 million.

mod liveness;
mod orderings;
mod relayed;
mod system;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use protocol_record::{Mark, chart};

use crate::guarantee::{Broken, Guarantee};
use liveness::FairSteps;

pub use orderings::{Orderings, Scenario};
pub use relayed::{Relayed, RelayedChoice};
pub use system::System;

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
    /// Returns the history in one line, for [`replay`].
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

/// The distance of the states in which each choice is taken twice, and has to lead to the same state (G10).
const EVERY: usize = 16;

/// Visits every state that can be reached from `start`, up to `most` states.
///
/// Checks on the way that every choice keeps the guarantees, and that nothing panics (G9). In every sixteenth state each
/// choice is taken twice, and has to do the same (G10). Liveness is found by search as well. It fails at a state that
/// has no fair choice left and something unsettled, and at a circle of fair choices.
pub fn search<S: System>(start: &S, most: usize) -> Report {
    let mut search = Search {
        start,
        most,
        steps: vec![Step { from: 0, choice: 0 }],
        seen: HashMap::from([(start.fingerprint(), 0)]),
        fair_steps: FairSteps::default(),
        transitions: 0,
        exhausted: true,
    };
    let failure = search.visit_all().err();
    search.exhausted &= failure.is_none();
    let failure = failure.or_else(|| search.circle());
    let Search { steps, transitions, exhausted, .. } = search;
    Report { states: steps.len(), transitions, exhausted, failure }
}

struct Search<'a, S> {
    start: &'a S,
    most: usize,
    /// By the number of a state.
    steps: Vec<Step>,
    /// By fingerprint, the number of a state.
    seen: HashMap<u64, u32>,
    fair_steps: FairSteps,
    transitions: usize,
    exhausted: bool,
}

impl<S: System> Search<'_, S> {
    fn visit_all(&mut self) -> Result<(), Failure> {
        let mut layer = vec![(0, self.start.clone())];
        while !layer.is_empty() {
            let mut next_layer = Vec::new();
            for (index, state) in layer {
                self.visit(index, &state, &mut next_layer)?;
            }
            layer = next_layer;
        }
        Ok(())
    }

    /// Takes each choice of a state.
    fn visit(&mut self, index: u32, state: &S, next: &mut Vec<(u32, S)>) -> Result<(), Failure> {
        let mut is_at_rest = true;
        for (number, choice) in state.choices().iter().enumerate() {
            let number = u16::try_from(number).expect("a state has few choices");
            self.transitions += 1;
            let is_fair = state.is_fair(choice);
            is_at_rest &= !is_fair;
            let taken = take(state, choice, index as usize % EVERY == 0);
            let taken = taken.map_err(|broken| self.failure(index, Some(number), broken))?;
            let fresh = u32::try_from(self.steps.len()).expect("states are counted in 32 bits");
            let target = match self.seen.entry(taken.1) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(_) if self.steps.len() >= self.most => {
                    self.exhausted = false;
                    continue;
                }
                Entry::Vacant(place) => {
                    self.steps.push(Step { from: index, choice: number });
                    next.push((fresh, taken.0));
                    *place.insert(fresh)
                }
            };
            if is_fair {
                self.fair_steps.add(index, target);
            }
        }
        let broken = state.unsettled().filter(|_| is_at_rest);
        broken.map_or(Ok(()), |broken| Err(self.failure(index, None, broken)))
    }

    /// Returns the way to a circle of fair choices, if there is one. Only a search of all states can tell.
    fn circle(&mut self) -> Option<Failure> {
        if !self.exhausted {
            return None;
        }
        let fair_steps = std::mem::take(&mut self.fair_steps);
        let index = fair_steps.first_before_a_circle(self.steps.len())?;
        let broken = Broken::new(Guarantee::G1, "fair delivery can go round in circles");
        Some(self.failure(index, None, broken))
    }

    /// Returns the failure that was met in a state, or when a choice was taken there.
    fn failure(&self, mut at: u32, last: Option<u16>, broken: Broken) -> Failure {
        let mut path: Vec<u16> = last.into_iter().collect();
        while at != 0 {
            let step = &self.steps[at as usize];
            path.push(step.choice);
            at = step.from;
        }
        let mut told = Told::new(self.start);
        for number in path.into_iter().rev() {
            let choice = &told.state.choices()[usize::from(number)];
            // Only the last one can fail; that is the failure.
            let _ = told.take(choice);
        }
        told.failed(broken)
    }
}

/// Takes a choice; a panic is a broken guarantee too.
fn take<S: System>(state: &S, choice: &S::Choice, twice: bool) -> Result<(S, u64), Broken> {
    let attempt = || {
        contain(|| {
            let mut next = state.clone();
            next.take(choice)?;
            let print = next.fingerprint();
            Ok((next, print))
        })
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

fn contain<T>(work: impl FnOnce() -> Result<T, Broken>) -> Result<T, Broken> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("with a value that is no text");
        Err(Broken::new(Guarantee::G9, format!("it panicked: {text}")))
    })
}

/// A history that is replayed for its chart.
struct Told<S> {
    state: S,
    history: Vec<String>,
    marks: Vec<Mark>,
}

impl<S: System> Told<S> {
    fn new(start: &S) -> Self {
        let mut state = start.clone();
        state.record();
        Self { state, history: Vec::new(), marks: Vec::new() }
    }

    fn take(&mut self, choice: &S::Choice) -> Result<(), Broken> {
        self.history.push(choice.to_string());
        let taken = contain(|| self.state.take(choice));
        self.marks.extend(self.state.take_marks());
        taken
    }

    fn chart(&self) -> String {
        chart(S::LANES, &self.marks)
    }

    fn failed(self, broken: Broken) -> Failure {
        Failure { broken, chart: self.chart(), history: self.history }
    }
}

/// Does what the line of a failure says, from the same start, and draws it.
///
/// # Errors
///
/// Returns the failure that the history runs into, or G10 if a word of the line is no choice of its state. The history
/// ends before that word.
pub fn replay<S: System>(start: &S, line: &str) -> Result<String, Failure> {
    let mut told = Told::new(start);
    for word in line.split(';').map(str::trim).filter(|word| !word.is_empty()) {
        let found = told.state.choices().into_iter().find(|choice| choice.to_string() == word);
        let taken = match found {
            Some(choice) => told.take(&choice),
            None => Err(Broken::new(Guarantee::G10, format!("there is no choice \"{word}\""))),
        };
        if let Err(broken) = taken {
            return Err(told.failed(broken));
        }
    }
    let is_at_rest = !told.state.choices().iter().any(|choice| told.state.is_fair(choice));
    match told.state.unsettled().filter(|_| is_at_rest) {
        Some(broken) => Err(told.failed(broken)),
        None => Ok(told.chart()),
    }
}
